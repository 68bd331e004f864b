"""Closed forms: fits of three sources, and reports of identical sources."""

import warnings

import numpy as np
import pytest
from scipy import stats

import flyingsquid as fs
from flyingsquid.estimation.independence import FitTest
from flyingsquid.exceptions import OptionError, SourceWarning
from flyingsquid.solvers.closed_form import _combine


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


# ---------------------------------------------------------------------- doubts and concerns


@pytest.mark.parametrize(("rare", "is_doubted"), [(0.5, False), (0.42, False), (0.25, True)])
def test_votes_that_lean_to_one_class_put_the_balance_in_doubt(rare, is_doubted):
    """Sources of accuracy a lean by (2a - 1)(P(Y) - 1/2) if both classes are assumed to be as frequent."""
    votes = simulate(6_000, [0.9, 0.75, 0.7, 0.65, 0.6], rare=rare)
    model = fs.LabelModel(method="triplet", class_balance=[0.5, 0.5]).fit(fs.Votes.from_signed(votes))
    lean = 0.0
    for column, accuracy in zip(votes.T, model.accuracies_, strict=True):
        lean += (column == 1).mean() - 0.5 * accuracy - 0.5 * (1 - accuracy)
    assert (abs(lean) / 5 > 0.05) == is_doubted
    assert ("class balance does not fit" in model.diagnostics_.verdict.text) == is_doubted


def test_tests_of_several_tasks_add_up():
    tests = [FitTest(3.0, 2, 0.2), None, FitTest(9.0, 4, 0.06)]
    found = _combine(tests)
    assert (found.statistic, found.degrees) == (12.0, 6)
    assert found.p_value == pytest.approx(stats.chi2.sf(12.0, 6))
    assert _combine(tests[:2]) is tests[0]
    assert _combine([None]) is None


@pytest.mark.parametrize("method", ["triplet", "covariance"])
def test_each_kind_of_suspicious_source_is_named_once(method):
    votes = simulate(4_000, [0.9, 0.85, 0.8, 0.8, 0.75, 0.7, 0.2, 0.5])
    votes[:, 4] = 0  # always abstains
    votes[votes[:, 5] < 0, 5] = 0  # for one class only
    names = tuple("abcdefgh")
    with pytest.warns(SourceWarning, match="abstain") as caught:
        model = fs.LabelModel(method=method).fit(fs.Votes.from_signed(votes, names=names))
    found = model.diagnostics_
    assert (found.silent, found.one_sided) == (("e",), ("f",))
    assert (found.useless, found.adversarial) == (("h",), ("g",))
    said = " ".join(str(one.message) for one in caught)
    assert "ignored: e." in said
    assert "one class only: f." in said
    assert np.isnan(model.accuracies_interval_[4]).all()


def test_intervals_of_an_estimated_balance_are_two_errors_wide_and_those_of_a_given_one_unknown():
    votes = fs.Votes.from_signed(simulate(8_000, [0.9, 0.85, 0.8, 0.8], rare=0.3))
    model = fs.LabelModel(method="covariance", class_balance="estimate").fit(votes)
    low, high = model.class_balance_interval_[1]
    assert low < 0.3 < high
    assert (low + high) / 2 == pytest.approx(model.class_balance_[1])
    wide = fs.LabelModel(method="covariance", class_balance="estimate").fit(
        fs.Votes.from_signed(simulate(2_000, [0.9, 0.85, 0.8, 0.8], rare=0.3))
    )
    assert np.ptp(wide.class_balance_interval_[1]) == pytest.approx(2 * (high - low), rel=0.3)
    given = fs.LabelModel(method="covariance", class_balance=[0.7, 0.3]).fit(votes)
    assert np.isnan(given.class_balance_interval_).all()


@pytest.mark.parametrize("accuracies", [(0.9, 0.7), (0.8,)])
def test_an_imbalanced_balance_takes_the_place_of_a_third_source(accuracies):
    """E[λᵢ] = aᵢ E[Y]."""
    votes = simulate(5_000, accuracies, rare=0.8)
    model = fs.LabelModel(method="triplet", class_balance=[0.2, 0.8]).fit(fs.Votes.from_signed(votes))
    np.testing.assert_allclose(model.accuracies_, accuracies, atol=0.02)
    if len(accuracies) == 1:
        np.testing.assert_allclose(2 * model.accuracies_ - 1, votes.mean(axis=0) / 0.6, atol=1e-9)


@pytest.mark.parametrize("screen", [-0.1, np.nan, "1", None])
def test_screens_that_are_refused(screen):
    for solver in (fs.solvers.Triplet, fs.solvers.Quadratic):
        with pytest.raises(OptionError, match="screen"):
            solver(screen=screen)
        assert solver(screen=0).screen == 0


@pytest.mark.parametrize("triplets", [5, [], [(0, 1)], ["abc"], iter([(0, 1, 2)])])
def test_triplets_that_are_refused(triplets):
    with pytest.raises(OptionError, match="triplets"):
        fs.solvers.Triplet(triplets=triplets)
