"""Closed forms: what three sources determine, and which identical sources are pointed out."""

import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import SourceWarning


def simulate(n, accuracies, rare=0.5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < rare, 1, -1)
    return np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], -y[:, None])


def test_three_sources_are_solved_by_their_agreement_even_if_classes_are_imbalanced():
    """E[λᵢY] = √(E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]); only two sources need the class balance instead."""
    votes = simulate(5_000, [0.9, 0.8, 0.7], rare=0.2)
    model = fs.LabelModel(method="triplet", class_balance=[0.8, 0.2]).fit(fs.Votes.from_signed(votes))
    agreement = votes.T @ votes / len(votes)
    (a, b, c) = agreement[0, 1], agreement[0, 2], agreement[1, 2]
    expected = (1 + np.sqrt([a * b / c, a * c / b, b * c / a])) / 2
    np.testing.assert_allclose(model.accuracies_, expected, atol=1e-9)


@pytest.mark.parametrize("declared", [False, True])
def test_identical_sources_are_pointed_out_unless_declared_dependent(declared):
    votes = simulate(2_000, [0.9, 0.8, 0.7, 0.75, 0.8])
    votes[:, 1] = votes[:, 0]
    graph = fs.DependencyGraph(5, source_edges=[(0, 1) if declared else (2, 3)])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SourceWarning)
        fs.LabelModel(graph, method="triplet").fit(fs.Votes.from_signed(votes))
    assert any("source 0" in str(one.message) for one in caught) is not declared
