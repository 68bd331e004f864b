"""Features of items: every type is read alike, and folds and samples follow from the numbers alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import VotesError
from flyingsquid.votes import Votes
from flyingsquid.votes import features as features_module
from flyingsquid.votes.arguments import in_item_order
from flyingsquid.votes.features import MOST_COLUMNS, N_FOLDS, FeatureItems, Features

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


def in_order(table, ids):
    votes = fs.Votes.from_frame(pd.DataFrame({"a": [0] * len(ids)}, index=ids), classes=[0, 1])
    return in_item_order(table, votes, votes, "features")


def test_a_pandas_table_is_joined_by_item_identifier(numbers):
    frame = pd.DataFrame(numbers[:3], index=["c", "a", "b"])
    rows, _ = read_all(Features.read(in_order(frame, ["a", "b", "c"]), 3))
    np.testing.assert_array_equal(rows, numbers[[1, 2, 0]])
    by_position, _ = read_all(Features.read(in_order(frame.reset_index(drop=True), ["a", "b", "c"]), 3))
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
        Features.read(in_order(bad, ["a", "b", "c", "d"]), 4)
    assert raised.value.parameter == "features"


@pytest.fixture
def items(monkeypatch):
    """300 items, of which a sample keeps 50."""
    monkeypatch.setattr(features_module, "MOST_FEATURE_ITEMS", 50)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(300, 4))
    values[::10] = np.nan
    votes = Votes.from_classes(rng.integers(-1, 2, (300, 3)), classes=(0, 1))
    return votes, values


def sample(votes, values, at, **options):
    chosen = {name: array[at] for name, array in options.items()}
    return FeatureItems(votes[at], Features(values[at]), n_seen=len(at), **chosen).sample()


def rows(items):
    values = items.features.values
    values = values.toarray() if hasattr(values, "toarray") else values
    return sorted(map(tuple, np.column_stack([values, items.votes.codes]).tolist()))


def test_samples_do_not_depend_on_order_or_division(items):
    votes, values = items
    whole = sample(votes, values, np.arange(300))
    assert whole.votes.n_items == 50
    shuffled = np.random.default_rng(1).permutation(300)
    parts = [sample(votes, values, at) for at in np.array_split(shuffled, 7)]
    total = parts[0]
    for part in parts[1:]:
        total = (total + part).sample()
    assert rows(total) == rows(whole)
    assert total.n_seen == 300


def test_a_sample_is_random_and_spread_over_folds(items, monkeypatch):
    votes, values = items
    monkeypatch.setattr(features_module, "MOST_FEATURE_ITEMS", 150)
    ((_, kept, folds),) = sample(votes, values, np.arange(300)).features.chunks()
    assert not np.isnan(kept).any()
    assert np.bincount(folds, minlength=5).min() > 10
    assert abs(kept[:, 0].mean()) < 0.3


def test_items_with_gold_labels_come_first(items):
    votes, values = items
    gold = np.full(300, -1)
    gold[[1, 2, 3, 10]] = 1  # item 10 has no features
    kept = sample(votes, values, np.arange(300), gold=gold)
    assert np.count_nonzero(kept.gold == 1) == 3
    rest = sample(votes, values, np.arange(100, 200))
    assert np.count_nonzero((kept + rest).gold == 1) == 3


def test_sparse_and_dense_features_add_up(items):
    votes, values = items
    dense = sample(votes, values, np.arange(1, 9))
    sparse = FeatureItems(votes[11:19], Features(csr_array(values[11:19])), n_seen=8)
    both = (dense + sparse).features.values
    np.testing.assert_array_equal(both[8:], values[11:19])
    twice = (sparse + sparse).features.values
    np.testing.assert_array_equal(twice.toarray()[8:], values[11:19])


def test_many_columns_leave_fewer_items(items, monkeypatch):
    votes, values = items
    monkeypatch.setattr(features_module, "_MOST_CELLS", 40)
    assert sample(votes, values, np.arange(300)).votes.n_items == 10


def test_a_numbered_table_is_joined_if_the_identifiers_are_its_numbers():
    table = pd.DataFrame({"x": [0.0, 1.0, 2.0, 3.0]})
    for ids in ([2, 0, 3, 1], [3, 1]):
        assert in_order(table, ids)["x"].tolist() == ids
    # Other identifiers and repeated ones are matched by position.
    for ids in (["a", "b", "c", "d"], [10, 11, 12, 13], [0, 0, 1, 1]):
        assert in_order(table, ids)["x"].tolist() == [0, 1, 2, 3]


def test_a_shuffled_table_next_to_votes_without_identifiers_is_an_error():
    codes = fs.datasets.simulate(40, [0.9, 0.8, 0.7], random_state=0).votes.codes
    numbered = pd.DataFrame(codes, columns=["a", "b", "c"])
    votes, table = fs.Votes.from_frame(numbered), pd.DataFrame({"x": np.arange(40.0)})
    for call in (
        lambda votes, table: fs.LabelModel().fit(votes, features=table),
        lambda votes, table: fs.report(votes, data=table),
    ):
        call(votes, table)
        call(votes[10:], table[10:])  # a part has the index of all items
        call(numbered, table[::-1])  # joined
        with pytest.raises(VotesError, match="index"):
            call(votes, table[::-1])
