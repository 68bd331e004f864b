"""Evidence of other tasks with an exponent."""

from __future__ import annotations

import numpy as np

from flyingsquid.inference.junction_tree import with_own_evidence


def test_only_the_evidence_of_other_tasks_is_tempered():
    rng = np.random.default_rng(0)
    own, others = np.log(rng.dirichlet(np.ones(3), (2, 5)))
    tempered = np.exp(0.4 * (own + others))
    found = with_own_evidence(tempered / tempered.sum(axis=1, keepdims=True), own, 0.4)
    expected = np.exp(own + 0.4 * others)
    np.testing.assert_allclose(found, expected / expected.sum(axis=1, keepdims=True))
    np.testing.assert_array_equal(with_own_evidence(tempered, own, 1.0), tempered)


def test_own_votes_decide_if_both_sides_are_certain_of_opposite_classes():
    found = with_own_evidence(np.array([[1.0, 0.0]]), np.array([[-1e6, -7.0]]), 0.5)
    np.testing.assert_array_equal(found, [[0.0, 1.0]])
