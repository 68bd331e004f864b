"""Values that labeling functions may return, one by one or as a column."""

from __future__ import annotations

import enum

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import LabelingError
from flyingsquid.labeling import LabelingFunction


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
    with pytest.raises(LabelingError, match=r"item 2.*'odd' .*type "):
        fs.apply([LabelingFunction(lambda x: value if x == 2 else 1, "odd")], range(5))


def test_a_function_sticks_to_one_kind_of_class():
    answers = [1, True, "spam"]
    with pytest.raises(LabelingError, match=r"item 1.*'f' .*True, and 1"):
        fs.apply([LabelingFunction(answers.__getitem__, "f")], [0, 1])
    with pytest.raises(LabelingError, match=r"item 2.*'f' .*'spam', and 1"):
        fs.apply([LabelingFunction(answers.__getitem__, "f")], [0, 0, 2], chunk=1)


# ---------------------------------------------------------------------- columns of vectorized functions


def objects(*values):
    column = np.empty(len(values), object)
    column[:] = values
    return column


def vectorized(function, name="v"):
    return LabelingFunction(function, name, vectorized=True)


@pytest.mark.parametrize(
    ("column", "classes", "codes"),
    [
        (np.array([1, -1, 0]), (0, 1), [1, -1, 0]),
        (np.array([1, 0, 3], np.uint8), (0, 1, 2, 3), [1, 0, 3]),
        (np.array([1.0, np.nan, 0.0]), (0, 1), [1, -1, 0]),
        (np.array([True, False, True]), (False, True), [1, 0, 1]),
        (np.array(["b", "a", "a"]), ("a", "b"), [1, 0, 0]),
        (["b", None, "a"], ("a", "b"), [1, -1, 0]),
        ([1, float("nan"), None], (0, 1), [1, -1, -1]),
        (np.ma.masked_array([1, 7, 0], [False, True, False]), (0, 1), [1, -1, 0]),
        ((x for x in [0, 1, None]), (0, 1), [0, 1, -1]),
    ],
)
def test_columns_that_a_vectorized_function_may_return(column, classes, codes):
    votes = fs.apply([vectorized(lambda data: column)], [0, 1, 2])
    assert (votes.classes, votes.codes.ravel().tolist()) == (classes, codes)


@pytest.mark.extra
def test_a_series_in_another_order_than_the_table_is_an_error():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"likes": [7, 1, 3]}, index=["x", "y", "z"])
    with pytest.raises(LabelingError, match=r"'v'.*index"):
        fs.apply([vectorized(lambda data: data["likes"].sort_values().gt(2))], table)
    joined = fs.apply([vectorized(lambda data: data["likes"].sort_values().gt(2).reindex(data.index))], table)
    assert joined.codes.ravel().tolist() == [1, 0, 1]
    for column in (pd.Series([1, 0, 1]), pd.Series([1, 0, 1], index=table.index)):
        assert fs.apply([vectorized(lambda data, c=column: c)], table).codes.ravel().tolist() == [1, 0, 1]


def test_far_numbers_are_classes_where_they_are_declared():
    wanted = [10**9, 5, 10**9, -1, 7]
    votes = fs.apply([vectorized(lambda data: np.array(wanted))], range(5), classes=[5, 7, 10**9])
    assert votes.codes.ravel().tolist() == [2, 0, 2, -1, 1]


@pytest.mark.extra
def test_polars_and_pyarrow_columns():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for column in (
        pl.Series(["b", None, "a"]),
        pa.array(["b", None, "a"]),
        pa.chunked_array([["b"], [None, "a"]]),
    ):
        assert fs.apply([vectorized(lambda data, c=column: c)], [0, 1, 2]).codes.ravel().tolist() == [
            1,
            -1,
            0,
        ]
    assert fs.apply([vectorized(lambda data: pl.Series([1, None, 0]))], [0, 1, 2]).codes.ravel().tolist() == [
        1,
        -1,
        0,
    ]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1, 0], "function 'v'.*2 values for 3 items"),
        (1, "function 'v'.*got 1"),
        (None, "function 'v'.*None"),
        ("abc", "function 'v'.*'abc'"),
        (object(), "function 'v'.*column"),
        (np.zeros((3, 1)), "function 'v'.*column"),
        (np.zeros(3, complex), "function 'v'.*complex128"),
        (np.array([0, 0.5, 1]), "item 1, function 'v' returned 0.5"),
        ([0, np.inf, 1], "item 1, function 'v' returned inf"),
        (objects("a", [1], None), "item 1.*'v' .*type list"),
        (objects(True, 3, None), "item 1, function 'v' returned 3, and True"),
    ],
)
def test_columns_that_it_may_not_return(column, message):
    with pytest.raises(LabelingError, match=message):
        fs.apply([vectorized(lambda data: column)], [0, 1, 2])


def test_the_range_of_a_narrow_type_does_not_overflow():
    column = np.array([100, -100, 100], np.int8)
    votes = fs.apply([vectorized(lambda data: column)], range(3), classes=[-100, 100])
    assert votes.codes.ravel().tolist() == [1, 0, 1]
