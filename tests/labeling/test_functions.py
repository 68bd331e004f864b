"""The decorator, labeling functions as objects, and the items that they receive."""

from __future__ import annotations

import collections
import copy
import pickle
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling.functions import Record, list_items

decorate: Any = fs.labeling_function  # called with invalid arguments below
apply: Any = fs.apply


@fs.labeling_function
def bare(x):
    """Says one."""
    return 1


@fs.labeling_function("named", {"word": "spam"})
def with_resources(x, word):
    return word in x


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
    with pytest.raises(AttributeError, match="`name`"):
        bare.name = "other"
    with pytest.raises(TypeError):
        with_resources.resources["word"] = "ham"


def test_a_function_of_a_module_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(bare)) is bare
    assert copy.deepcopy(bare) is bare


def test_a_rule_is_pickled_by_value():
    made = fs.labeling.keywords("spam", 1)
    again = pickle.loads(pickle.dumps(made))
    assert again.name == made.name
    assert again("some spam") == 1


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: decorate(3), "name"),
        (lambda: fs.labeling_function(name="")(len), "name"),
        (lambda: decorate(resources=[1])(len), "resources"),
        (lambda: decorate(resources={1: 2})(len), "resources"),
        (lambda: decorate()(3), "function"),
        (lambda: apply(bare, ["x"]), "lfs"),
        (lambda: apply("bare", ["x"]), "lfs"),
        (lambda: apply([], ["x"]), "lfs"),
        (lambda: apply([bare, 3], ["x"]), r"lfs\[1\]"),
        (lambda: apply([bare, bare], ["x"]), "lfs"),
    ],
)
def test_invalid_labeling_functions_are_refused(call, parameter):
    with pytest.raises(OptionError, match=f"`{parameter}` must"):
        call()


# ---------------------------------------------------------------------- preprocessors

calls: list[str] = []


def lower(x):
    calls.append(x.text)
    x.text = x.text.lower()
    return x


def count(x):
    return {**x, "n": len(x.text.split())}


@fs.labeling_function(pre=lower)
def links(x):
    return 1 if "http" in x.text else None


@fs.labeling_function(pre=[lower, count])
def short(x):
    return 0 if x.n < 3 and x.text.islower() else None


DATA = [{"text": "HTTP://A b c"}, {"text": "Great song"}]


@pytest.mark.parametrize("data", [DATA, "frame"])
def test_a_preprocessor_is_called_once_per_item(data):
    """Although two functions share it; the items themselves stay as they are."""
    data = pytest.importorskip("pandas").DataFrame(DATA) if data == "frame" else data
    calls.clear()
    votes = apply([links, short], data)
    assert votes.codes.tolist() == [[1, -1], [-1, 0]]
    assert calls == ["HTTP://A b c", "Great song"]
    assert list(data["text"] if hasattr(data, "columns") else [x["text"] for x in data]) == calls


def test_preprocessors_run_when_a_function_is_called_directly():
    assert links({"text": "HTTP"}) == 1
    assert short({"text": "a B"}) == 0
    assert pickle.loads(pickle.dumps(fs.labeling.LabelingFunction(len, "n", pre=[str]))).pre == (str,)
    assert fs.labeling.LabelingFunction(len, "n", pre=[str])(1234) == 4
    with pytest.raises(AttributeError, match="pre"):
        links.pre = ()


def test_a_preprocessor_that_fails_fails_every_function_that_needs_it():
    def broken(x):
        if x == "b":
            raise KeyError("nothing")
        return x

    needs = fs.labeling_function(name="needs", pre=broken)(lambda x: 1)
    other = fs.labeling_function(name="other")(lambda x: 0)
    with pytest.raises(fs.exceptions.LabelingError, match=r"item 1, function 'needs'.*nothing"):
        apply([needs, other], ["a", "b"])
    with pytest.warns(fs.exceptions.SourceWarning, match="needs"):
        votes, log = apply([needs, other], ["a", "b"], on_error="abstain", return_log=True)
    assert votes.codes.tolist() == [[1, 0], [-4, 0]]
    assert log.failures["needs"].count == 1
    forgot = fs.labeling_function(name="forgot", pre=lambda x: None)(lambda x: 1)
    with pytest.raises(fs.exceptions.LabelingError, match="must return the item"):
        apply([forgot], ["a"])


@pytest.mark.parametrize("pre", [5, "lower", [lower, 3], None])
def test_preprocessors_must_be_functions(pre):
    with pytest.raises(OptionError, match="`pre`"):
        decorate(pre=pre)
    with pytest.raises(OptionError, match="`pre`"):
        fs.labeling.LabelingFunction(len, vectorized=True, pre=lower)


def test_a_changed_preprocessor_invalidates_the_cache(tmp_path):
    def make(word):
        return fs.labeling_function(name="f", pre=lambda x: x + word)(lambda x: len(x) % 2)

    first, log = apply([make("a")], ["x", "yy"], cache=tmp_path, return_log=True)
    again, cached = apply([make("a")], ["x", "yy"], cache=tmp_path, return_log=True)
    changed, new = apply([make("bb")], ["x", "yy"], cache=tmp_path, return_log=True)
    assert (log.cached, cached.cached, new.cached) == ((), ("f",), ())
    assert first.codes.tolist() == again.codes.tolist() == [[0], [1]]
    assert changed.codes.tolist() == [[1], [0]]


@pytest.mark.slow
def test_preprocessors_run_in_other_processes():
    n_digits = fs.labeling.LabelingFunction(len, "n_digits", pre=[str])
    assert apply([n_digits], [1234, 5], n_jobs=2).to_numpy().tolist() == [[4], [1]]


def test_a_record_has_attributes_and_items():
    x = list_items([{"text": "a", "get": 3, "_id": 7}])[0]
    assert (x.text, x["text"], x["get"], x._id) == ("a", "a", 3, 7)
    assert (x.get("text"), x.get("absent"), x.get("absent", 0)) == ("a", None, 0)
    assert "text" in x
    assert "absent" not in x
    assert (list(x), len(x), dict(x)) == (["text", "get", "_id"], 3, {"text": "a", "get": 3, "_id": 7})
    assert x == {"text": "a", "get": 3, "_id": 7}
    assert repr(Record({"a": 1})) == "Row(a=1)"


def test_a_row_cannot_be_written_to():
    x = list_items([{"text": "a"}])[0]
    with pytest.raises(AttributeError):
        x.text = "b"
    with pytest.raises(TypeError):
        x["text"] = "b"


def test_a_row_says_which_columns_there_are():
    x = list_items([{"text": "a", "id": 1}])[0]
    with pytest.raises(AttributeError, match="no column 'txt'; the row has text, id"):
        _ = x.txt
    assert not hasattr(x, "__array__")


def test_a_row_can_be_copied_and_pickled():
    x = list_items([{"text": "a"}])[0]
    assert copy.copy(x) == pickle.loads(pickle.dumps(x)) == copy.deepcopy(x) == x


def test_items_that_are_no_mappings_stay_what_they_are():
    items = ["text", 3, np.zeros(2), object()]
    assert all(a is b for a, b in zip(list_items(items), items, strict=True))


def test_reading_a_row_does_not_change_a_defaultdict():
    data = collections.defaultdict(list, text="a")
    x = Record(data)
    assert (x.text, hasattr(x, "title"), "title" in x) == ("a", False, False)
    assert list(data) == ["text"]
