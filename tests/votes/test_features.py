"""Features of items: every type is read alike, and the fold of an item follows from its numbers."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from flyingsquid.exceptions import VotesError
from flyingsquid.votes.features import MOST_COLUMNS, N_FOLDS, Features

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def numbers():
    return np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)


def read_all(features):
    parts = list(features.chunks())
    return np.concatenate([rows for _, rows, _ in parts]), np.concatenate([folds for _, _, folds in parts])


def test_every_type_gives_the_same_rows_and_folds(numbers):
    rows, folds = read_all(Features.read(numbers, 200))
    np.testing.assert_array_equal(rows, numbers.astype(np.float64))
    same = [
        numbers.astype(np.float64),
        numbers.tolist(),
        csr_array(numbers),
        pd.DataFrame(numbers),
        pl.DataFrame(numbers.astype(np.float64)),
    ]
    for other in same:
        other_rows, other_folds = read_all(Features.read(other, 200))
        np.testing.assert_array_equal(other_rows, rows)
        np.testing.assert_array_equal(other_folds, folds)


def test_folds_are_even_and_do_not_depend_on_the_other_items(numbers):
    many = np.random.default_rng(1).normal(size=(5_000, 3))
    _, folds = read_all(Features.read(many, 5_000))
    assert (np.abs(np.bincount(folds, minlength=N_FOLDS) - 1_000) < 150).all()
    _, alone = read_all(Features.read(many[[17, 4_000]], 2))
    assert alone.tolist() == folds[[17, 4_000]].tolist()


def test_copies_of_an_item_are_in_one_fold(numbers):
    _, folds = read_all(Features.read(np.concatenate([numbers, numbers]), 400))
    np.testing.assert_array_equal(folds[:200], folds[200:])


def test_many_columns_are_added_up_with_signs():
    wide = np.random.default_rng(0).normal(size=(50, 3 * MOST_COLUMNS))
    rows, _ = read_all(Features.read(wide, 50))
    assert rows.shape == (50, MOST_COLUMNS)
    sparse_rows, _ = read_all(Features.read(csr_array(wide), 50))
    np.testing.assert_allclose(rows, sparse_rows)
    # Products of rows, all that a ridge regression sees, are kept on average.
    np.testing.assert_allclose(np.mean((rows**2).sum(axis=1)), np.mean((wide**2).sum(axis=1)), rtol=0.1)


def test_an_item_without_features_keeps_none_after_adding_up():
    wide = np.zeros((2, MOST_COLUMNS + 1))
    wide[0] = np.nan
    rows, _ = read_all(Features.read(wide, 2))
    assert np.isnan(rows[0]).all()
    assert not rows[1].any()


def test_a_pandas_table_is_joined_by_item_identifier(numbers):
    frame = pd.DataFrame(numbers[:3], index=["c", "a", "b"])
    rows, _ = read_all(Features.read(frame, 3, ["a", "b", "c"]))
    np.testing.assert_array_equal(rows, numbers[[1, 2, 0]])
    by_position, _ = read_all(Features.read(frame.reset_index(drop=True), 3, ["a", "b", "c"]))
    np.testing.assert_array_equal(by_position, numbers[:3])


@pytest.mark.parametrize(
    "bad",
    [
        np.zeros((3, 2)),
        np.zeros(4),
        np.zeros((4, 0)),
        np.array([["a"], ["b"], ["c"], ["d"]]),
        [["1", None], ["x", 2], [3, 4], [5, 6]],
        np.array([[1.0], [np.inf], [0.0], [0.0]]),
        pd.DataFrame({"text": list("abcd")}),
        pd.DataFrame(np.zeros((4, 1)), index=list("wxyz")),
        pl.LazyFrame({"a": [1, 2, 3, 4]}),
        np.zeros((4, 2), complex),
    ],
)
def test_other_values_are_refused(bad):
    with pytest.raises(VotesError) as raised:
        Features.read(bad, 4, ["a", "b", "c", "d"])
    assert raised.value.parameter == "features"
