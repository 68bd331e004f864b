"""The decorator, rows as functions see them, and what functions may return."""

from __future__ import annotations

import copy
import enum
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import LabelingError, OptionError, VotesError
from flyingsquid.labeling import ChunkLabels, LabelingFunction, label_chunk
from flyingsquid.labeling.rows import Record, rows_of

decorate: Any = fs.labeling_function  # called wrongly below, and on purpose
apply: Any = fs.apply


@fs.labeling_function
def bare(x):
    """Says one."""
    return 1


@fs.labeling_function("named", {"word": "spam"})
def with_resources(x, word):
    return word in x


def constant(value, name="f"):
    return LabelingFunction(lambda x: value, name)


# ---------------------------------------------------------------------- the decorator


def test_a_decorated_function_keeps_its_name_docstring_and_resources():
    assert (bare.name, bare.__doc__, bare("x")) == ("bare", "Says one.", 1)
    assert fs.labeling_function(lambda x: x.text)({"text": "a"}) == "a"
    assert with_resources.name == "named"
    assert dict(with_resources.resources) == {"word": "spam"}
    assert with_resources("no spam") is True
    assert repr(with_resources) == "LabelingFunction('named', resources word)"


@pytest.mark.parametrize("decorate", [fs.labeling_function, fs.labeling_function()])
def test_parentheses_are_optional(decorate):
    assert decorate(len).name == "len"


def test_a_labeling_function_cannot_change():
    with pytest.raises(AttributeError, match="cannot change"):
        bare.name = "other"
    with pytest.raises(TypeError):
        with_resources.resources["word"] = "ham"


def test_a_function_of_a_module_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(bare)) is bare
    assert copy.deepcopy(bare) is bare


def test_a_maker_is_pickled_by_value():
    made = fs.labeling.keywords("spam", 1)
    again = pickle.loads(pickle.dumps(made))
    assert again.name == made.name
    assert again("some spam") == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: decorate(3), "name=3 is no name"),
        (lambda: fs.labeling_function(name="")(len), "is no name"),
        (lambda: decorate(resources=[1])(len), "is no mapping"),
        (lambda: decorate(resources={1: 2})(len), "named by texts"),
        (lambda: decorate()(3), "cannot be called"),
        (lambda: apply(bare, ["x"]), "in brackets"),
        (lambda: apply("bare", ["x"]), "no list of labeling functions"),
        (lambda: apply([], ["x"]), "no labeling functions"),
        (lambda: apply([bare, 3], ["x"]), "labeling function 1 is 3"),
        (lambda: apply([bare, bare], ["x"]), "two labeling functions are called 'bare'"),
    ],
)
def test_what_is_no_labeling_function_is_refused(call, message):
    with pytest.raises(OptionError, match=message):
        call()


# ---------------------------------------------------------------------- rows


def test_a_record_has_attributes_and_items():
    x = rows_of([{"text": "a", "get": 3, "_id": 7}])[0]
    assert (x.text, x["text"], x["get"], x._id) == ("a", "a", 3, 7)
    assert (x.get("text"), x.get("absent"), x.get("absent", 0)) == ("a", None, 0)
    assert "text" in x
    assert "absent" not in x
    assert (list(x), len(x), dict(x)) == (["text", "get", "_id"], 3, {"text": "a", "get": 3, "_id": 7})
    assert x == {"text": "a", "get": 3, "_id": 7}
    assert repr(Record({"a": 1})) == "Row(a=1)"


def test_a_row_cannot_be_written_to():
    x = rows_of([{"text": "a"}])[0]
    with pytest.raises(AttributeError):
        x.text = "b"
    with pytest.raises(TypeError):
        x["text"] = "b"


def test_a_row_says_which_columns_there_are():
    x = rows_of([{"text": "a", "id": 1}])[0]
    with pytest.raises(AttributeError, match="no column 'txt'; the row has text, id"):
        _ = x.txt
    assert not hasattr(x, "__array__")


def test_a_row_can_be_copied_and_pickled():
    x = rows_of([{"text": "a"}])[0]
    assert copy.copy(x) == pickle.loads(pickle.dumps(x)) == copy.deepcopy(x) == x


def test_items_that_are_no_mappings_stay_what_they_are():
    items = ["text", 3, np.zeros(2), object()]
    assert all(a is b for a, b in zip(rows_of(items), items, strict=True))


# ---------------------------------------------------------------------- what may be returned


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 1


class Word(str, enum.Enum):  # noqa: UP042  # what people wrote before StrEnum
    HAM = "ham"
    SPAM = "spam"


@pytest.mark.parametrize(
    ("returned", "classes", "codes"),
    [
        ([0, 2, -1, None], (0, 1, 2), [0, 2, -1, -1]),
        ([np.int64(1), np.int8(0), np.int16(-1), 1], (0, 1), [1, 0, -1, 1]),
        ([True, False, None, np.True_], (False, True), [1, 0, -1, 1]),
        ([True, False, fs.ABSTAIN, None], (False, True), [1, 0, -1, -1]),
        (["spam", "ham", None, np.str_("ham")], ("ham", "spam"), [1, 0, -1, 0]),
        (["spam", "ham", fs.ABSTAIN, "spam"], ("ham", "spam"), [1, 0, -1, 1]),
        ([Side.RIGHT, Side.LEFT, None, 1], (0, 1), [1, 0, -1, 1]),
        ([Word.SPAM, Word.HAM, None, "ham"], ("ham", "spam"), [1, 0, -1, 0]),
        ([None, None, None, None], (0, 1), [-1, -1, -1, -1]),
    ],
)
def test_classes_are_integers_texts_or_booleans(returned, classes, codes):
    votes = fs.apply([LabelingFunction(returned.__getitem__, "f")], [0, 1, 2, 3])
    assert votes.classes == classes
    assert [type(c) for c in votes.classes] == [type(c) for c in classes]
    assert votes.codes.ravel().tolist() == codes


@pytest.mark.parametrize(
    "value", [0.7, 1.0, float("nan"), [1], (0,), {"a": 1}, b"spam", np.float32(1), object()]
)
def test_anything_else_names_the_function_and_the_row(value):
    with pytest.raises(LabelingError, match=r"row 2, function 'odd' returned .* of type "):
        fs.apply([LabelingFunction(lambda x: value if x == 2 else 1, "odd")], range(5))


def test_a_function_sticks_to_one_kind_of_class():
    answers = [1, True, "spam"]
    with pytest.raises(LabelingError, match="row 1, function 'f' returned True, and 1 on an earlier row"):
        fs.apply([LabelingFunction(answers.__getitem__, "f")], [0, 1])
    with pytest.raises(LabelingError, match="row 2, function 'f' returned 'spam', and 1 on an earlier row"):
        fs.apply([LabelingFunction(answers.__getitem__, "f")], [0, 0, 2], chunk=1)


def test_functions_that_name_classes_differently_are_named():
    with pytest.raises(LabelingError, match="int by a, c; str by b") as caught:
        fs.apply([constant(1, "a"), constant("spam", "b"), constant(0, "c")], ["x"])
    assert "one kind" in str(caught.value)


@given(
    st.lists(st.lists(st.sampled_from([-1, 0, 1, 2, None]), min_size=3, max_size=3), min_size=1, max_size=30)
)
def test_codes_and_classes_are_those_of_from_classes(rows):
    functions = [LabelingFunction(lambda x, j=j: x[j], f"f{j}") for j in range(3)]
    votes = fs.apply(functions, rows, chunk=7)
    expected = fs.Votes.from_classes(np.array(rows, object), names=["f0", "f1", "f2"])
    assert (votes.classes, votes.names) == (expected.classes, expected.names)
    np.testing.assert_array_equal(votes.codes, expected.codes)
    assert votes.codes.dtype == expected.codes.dtype


def test_declared_classes_are_kept_in_their_order_and_others_refused():
    functions = [constant("b", "f"), constant("a", "g")]
    votes = fs.apply(functions, ["x"], classes=["b", "c", "a"])
    assert (votes.classes, votes.codes.tolist()) == (("b", "c", "a"), [[0, 2]])
    with pytest.raises(VotesError, match="row 0, function 'f': the vote 'b' is outside the classes"):
        fs.apply(functions, ["x"], classes=["a", "c"])
    with pytest.raises(VotesError, match="row 3, function 'f': the vote -2 is outside"):
        fs.apply([LabelingFunction(lambda x: -2 if x == 3 else 0, "f")], range(5))
    with pytest.raises(OptionError, match=r"which is fs\.ABSTAIN"):
        fs.apply([constant(1)], ["x"], classes=[-1, 1])


def test_one_text_alone_asks_for_the_classes():
    with pytest.raises(VotesError, match="only one label occurs"):
        fs.apply([constant("spam")], ["x"])
    with pytest.raises(LabelingError, match="row 0, function 'f' returned '', which looks like no vote"):
        fs.apply([constant("")], ["x"])


# ---------------------------------------------------------------------- chunks


@given(st.lists(st.sampled_from(["a", "b", None, "boom"]), max_size=12), st.integers(0, 12))
def test_chunks_add_up_to_the_whole(answers, cut):
    def say(x):
        return x if x != "boom" else 1 / 0

    lf = LabelingFunction(say)
    cut = min(cut, len(answers))
    parts = [
        label_chunk([lf], answers[:cut], on_error="abstain"),
        label_chunk([lf], answers[cut:], first_row=cut, on_error="abstain"),
    ]
    merged = ChunkLabels.merge(pickle.loads(pickle.dumps(parts)))
    whole = label_chunk([lf], answers, on_error="abstain")
    assert merged.to_votes(["a", "b"]).codes.tolist() == whole.to_votes(["a", "b"]).codes.tolist()
    assert merged.log() == whole.log()


def test_nothing_to_put_together_is_said():
    with pytest.raises(LabelingError, match="no chunk was labelled"):
        ChunkLabels.merge([])
