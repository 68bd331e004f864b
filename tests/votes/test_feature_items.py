"""Samples of items with features: the same for every order and division of the items."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from flyingsquid.votes import Votes
from flyingsquid.votes import features as features_module
from flyingsquid.votes.features import FeatureItems, Features


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
