"""Choice of vote patterns to label: the updated covariance, and what the choice prefers."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.analysis import suggestions as selection
from flyingsquid.analysis.suggestions import choose_patterns
from flyingsquid.votes.codes import OneHot


def choose(codes, labels, counts, n, *, n_labeled=None):
    codes, counts = np.asarray(codes), np.asarray(counts)
    labeled = np.zeros(len(codes), np.intp) if n_labeled is None else np.asarray(n_labeled)
    p = np.asarray(labels, float)
    posterior = np.column_stack([1 - p, p])
    return choose_patterns(posterior, OneHot.of(codes, 2), counts.astype(float), labeled, counts - labeled, n)


def test_labels_update_the_covariance_as_a_gaussian_posterior():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6, 3))
    covariance, information = features @ features.T, np.array([0.1, 0.2, 0.25, 0.1, 0.2, 0.05])
    at = np.array([1, 4])
    precision = np.eye(3) + (features[at].T * information[at]) @ features[at]
    selection._observe(covariance, at, information)
    np.testing.assert_allclose(covariance, features @ np.linalg.inv(precision) @ features.T, atol=1e-12)


def test_frequent_votes_come_before_rare_ones():
    codes = [[0, 1, 1], [1, 0, 0]]
    assert choose(codes, [0.55, 0.45], [1, 50], 1).patterns.tolist() == [1]


def test_uncertain_items_come_before_certain_ones():
    """As soon as labels have shown that the model can be trusted where it is certain."""
    codes = [[0, 0, 0], [1, 0, 1]]
    found = choose(codes, [0.05, 0.52], [60, 60], 1, n_labeled=[20, 0])
    assert found.patterns.tolist() == [1]


def test_labels_are_spread_over_patterns():
    codes = [[0, 1, -1, -1], [-1, -1, 0, 1], [-1, 1, 0, -1]]
    found = choose(codes, [0.5, 0.51, 0.5], [40, 40, 40], 6)
    assert np.bincount(found.patterns, minlength=3).min() >= 1
    assert np.bincount(found.patterns).max() <= 3


def test_a_labeled_pattern_is_worth_less():
    codes, labels, counts = [[0, 1, -1, -1], [-1, -1, 0, 1]], [0.5, 0.51], [41, 40]
    assert choose(codes, labels, counts, 1).patterns.tolist() == [0]
    assert choose(codes, labels, counts, 1, n_labeled=[5, 0]).patterns.tolist() == [1]


def test_no_more_items_than_there_are():
    found = choose([[0, 1], [1, 0]], [0.5, 0.6], [2, 1], 10)
    assert sorted(found.patterns.tolist()) == [0, 0, 1]
    assert found.gains.max() == 1


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_any_number_of_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    codes = rng.integers(-1, n_classes, (30, 6))
    posterior = rng.dirichlet(np.ones(n_classes), 30)
    free = np.ones(30, np.intp)
    found = choose_patterns(posterior, OneHot.of(codes, n_classes), np.ones(30), 0 * free, free, 12)
    assert len(set(found.patterns.tolist())) == 12
    assert np.isfinite(found.gains).all()
