"""What is computed from counts that are kept sparse is what is computed from whole ones."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis.agreement import agreement, dependence_given_truth
from flyingsquid.estimation.agreement import agreement_tables, sparse_agreement_tables
from flyingsquid.estimation.confusion import with_coverage
from flyingsquid.estimation.independence import agreement_misfit
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.weighted import balanced_accuracies
from flyingsquid.moments import Moments
from flyingsquid.moments.limits import use_limits
from flyingsquid.moments.pairs import SparsePairs


@pytest.fixture
def codes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 500)
    right = rng.random((500, 6)) < [0.9, 0.8, 0.7, 0.7, 0.6, 0.8]
    votes = np.where(right, y[:, None], rng.integers(0, 4, (500, 6)))
    return np.where(rng.random(votes.shape) < 0.8, votes, -1)


@pytest.fixture
def both_counts(codes):
    whole = Moments.of(codes)
    with use_limits(dense_pair_bytes=0):
        sparse = Moments.of(codes)
    assert isinstance(sparse._pairs[0], SparsePairs)
    assert not isinstance(whole._pairs[0], SparsePairs)
    return whole, sparse


def test_agreement_of_pairs(both_counts):
    whole, sparse = (agreement(counts) for counts in both_counts)
    for name in ("overlaps", "share", "beyond_chance"):
        np.testing.assert_allclose(getattr(sparse, name), getattr(whole, name), rtol=1e-12)


def test_dependence_given_the_truth(codes):
    truth = np.random.default_rng(1).integers(0, 4, len(codes))
    whole = dependence_given_truth(codes, truth)
    with use_limits(dense_pair_bytes=0):
        np.testing.assert_allclose(dependence_given_truth(codes, truth), whole, rtol=1e-9)


def test_balanced_accuracies_of_sparse_tables(both_counts):
    whole, sparse = both_counts
    balance = np.array([0.4, 0.3, 0.2, 0.1])
    tables = with_coverage(agreement_tables(whole), whole)
    ours = balanced_accuracies(sparse_agreement_tables(sparse), balance, 500.0)
    theirs = balanced_accuracies(tables, balance, 500.0)
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)


def test_independence_is_not_judged_where_nothing_can_be_said(both_counts):
    whole, sparse = both_counts
    tables, balance = agreement_tables(whole), np.full(4, 0.25)
    assert np.isfinite(agreement_misfit(whole, tables, balance))
    assert agreement_misfit(sparse, tables, balance) == agreement_misfit(whole, tables, balance)
    few = Moments.of(
        np.random.default_rng(2).integers(0, 4, (49, 6))
    )  # a pair shares 49 items, 50 are needed
    assert agreement_misfit(few, tables, balance) == np.inf


def test_tasks_of_many_classes():
    graph = fs.DependencyGraph.chain(2, 4)
    sample = fs.datasets.simulate_graph(
        800, graph, 0.8, coverage=0.9, n_classes=3, correlation=0.6, random_state=3
    )
    whole = fs.LabelModel(graph).fit(sample.votes)
    with use_limits(dense_pair_bytes=0):
        sparse = fs.LabelModel(graph).fit(sample.votes)
    assert isinstance(sparse.moments_._pairs[0], SparsePairs)
    np.testing.assert_allclose(sparse.task_tables_, whole.task_tables_, atol=1e-9)
    np.testing.assert_allclose(
        sparse.predict_proba(sample.votes), whole.predict_proba(sample.votes), atol=1e-9
    )


def test_one_class_against_the_rest_names_the_class_that_fails(codes):
    with pytest.raises(NotIdentifiableError, match=r"multiclass='one_vs_rest', class 0: .*only 2 different"):
        fs.LabelModel(method="triplet", multiclass="one_vs_rest").fit(codes[:, :2])
