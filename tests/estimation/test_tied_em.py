"""Confusion tables by EM: shrinkage, passes and their fixed points."""

import numpy as np
import pytest

from flyingsquid.estimation.tied_em import PairEM, RowEM, rows_of, tied_tables
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes


def shrunk(expected, row_votes):
    """The definition of tied tables, one source, one row and one vote at a time."""
    m, n_classes, _ = expected.shape
    hits = [sum(expected[i, k, k] for k in range(n_classes)) for i in range(m)]
    cast = [expected[i].sum() for i in range(m)]
    average = (sum(hits) + 40 * 0.7) / (sum(cast) + 40)
    tables = np.zeros_like(expected)
    for i in range(m):
        own = min(max((hits[i] + 40 * average) / (cast[i] + 40), 0.05), 0.98)
        for k in range(n_classes):
            for v in range(n_classes):
                pseudo = own if v == k else (1 - own) / (n_classes - 1)
                tables[i, k, v] = (expected[i, k, v] + row_votes * pseudo) / (
                    expected[i, k].sum() + row_votes
                )
    return tables


@pytest.mark.parametrize("n_classes", [2, 4])
def test_tables_are_shrunk_toward_the_accuracy_of_their_source(n_classes):
    expected = np.random.default_rng(0).gamma(1.0, 40.0, (3, n_classes, n_classes))
    expected[2] = 0  # a source without votes is average
    tables = tied_tables(expected, 100.0)
    np.testing.assert_allclose(tables, shrunk(expected, 100.0), rtol=1e-12)
    np.testing.assert_allclose(tables.sum(axis=2), 1)


def simulate(n, accuracies, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])
    return votes.astype(np.int8), y


def test_tables_of_many_items_converge_to_the_share_of_votes_in_each_class():
    votes, y = simulate(50_000, [0.9, 0.75, 0.6, 0.7])
    moments = Moments.of(votes)
    em = RowEM(rows_of(Votes.from_classes(votes, classes=[0, 1]), None), vote_weights(moments, None), None)
    tables = em.start()
    for _ in range(200):
        tables = em.passes()(tables)
    observed = np.array([[(votes[y == k] == v).mean(axis=0) for v in range(2)] for k in range(2)])
    np.testing.assert_allclose(tables.tables, observed.transpose(2, 0, 1), atol=0.02)
    np.testing.assert_allclose(tables.balance, [0.5, 0.5], atol=0.02)


@pytest.mark.parametrize("one_sided", [False, True])
def test_two_classes_take_the_same_pass_as_many(one_sided):
    """Two classes have a fast path."""
    votes, _ = simulate(600, [0.9, 0.75, 0.6, 0.7])
    if one_sided:
        votes[votes[:, 3] == 0, 3] = -1
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    assert weights.one_sided.any() == one_sided
    em = RowEM(rows_of(Votes.from_classes(votes, classes=[0, 1]), None), weights, None)
    now = em.start()
    labels = em.posterior(now)
    expected = em._count(labels)
    np.testing.assert_allclose(em._expect(now.term(weights)).votes, expected.votes, rtol=1e-9)
    np.testing.assert_allclose(em._expect(now.term(weights)).items, expected.items, rtol=1e-9)
    np.testing.assert_allclose(em._expect(now.term(weights)).voted, expected.voted, rtol=1e-9)


def test_pairs_start_without_one_sided_sources():
    """The class balance of the start is that of the votes of sources of several classes."""
    votes, _ = simulate(900, [0.9, 0.8, 0.8, 0.8])
    votes[votes[:, 3] == 0, 3] = -1
    votes[:600, :3] = 0  # most votes of the others are for the first class
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    em = PairEM(moments, weights, np.zeros((4, 4)), None)
    assert weights.one_sided.tolist() == [False, False, False, True]
    assert em.start().balance[0] > 0.6
