"""Multinomial regression: both covariances agree, the evidence is an integral, and leave-one-out is right."""

import numpy as np
import pytest
from scipy.optimize import minimize

from flyingsquid.estimation import multinomial
from flyingsquid.estimation.multinomial import (
    _ByCoefficient,
    _ByItem,
    fit_multinomial,
    least_operations,
    log_loss,
)


def drawn(g: int, n_classes: int, r: int, seed: int = 0):
    """Return an offset, shared features, own features, labels and weights of g items."""
    rng = np.random.default_rng(seed)
    shared = 0.7 * rng.normal(size=(g, n_classes, 2))
    return (
        rng.normal(size=(g, n_classes)),
        shared,
        0.8 * rng.normal(size=(g, r)),
        rng.integers(0, n_classes, g),
        rng.uniform(0.5, 2.0, g),
    )


def logits(problem, found):
    offset, shared, own, _, _ = problem
    return offset + shared @ found.shared + own @ found.own


def in_space(monkeypatch, space, problem):
    """Fit with this covariance, whichever takes less work."""
    costs = (0.0, 1.0) if space is _ByCoefficient else (1.0, 0.0)
    monkeypatch.setattr(multinomial, "_operations", lambda *_: costs)
    return fit_multinomial(*problem)


@pytest.mark.parametrize("space", [_ByCoefficient, _ByItem])
@pytest.mark.parametrize(("n_classes", "r"), [(2, 3), (4, 2), (3, 0)])
def test_coefficients_minimize_the_penalized_loss(monkeypatch, space, n_classes, r):
    offset, shared, own, labels, share = problem = drawn(25, n_classes, r)
    found = in_space(monkeypatch, space, problem)

    def value(at):
        a, b = at[:2], at[2:].reshape(r, n_classes)
        return share @ log_loss(offset + shared @ a + own @ b, labels) + at @ at / 2

    expected = minimize(value, np.zeros(2 + r * n_classes), tol=1e-10).x
    np.testing.assert_allclose(found.shared, expected[:2], atol=1e-4)
    np.testing.assert_allclose(found.own, expected[2:].reshape(r, n_classes), atol=1e-4)


@pytest.mark.parametrize(("n_classes", "r"), [(2, 5), (2, 40), (3, 4), (5, 30), (4, 1)])
def test_both_spaces_give_the_same_result(monkeypatch, n_classes, r):
    problem = drawn(20, n_classes, r)
    one, other = (in_space(monkeypatch, space, problem) for space in (_ByCoefficient, _ByItem))
    np.testing.assert_allclose(one.shared, other.shared, atol=1e-6)
    np.testing.assert_allclose(one.own, other.own, atol=1e-6)
    np.testing.assert_allclose(
        log_loss(one.left_out(), problem[3]), log_loss(other.left_out(), problem[3]), atol=1e-6
    )
    assert one.evidence == pytest.approx(other.evidence, abs=1e-6)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_features_that_follow_from_others_are_supported(monkeypatch, n_classes):
    """The votes of a source that never abstains sum to 1, and the numbers of votes are sums of votes."""
    offset, shared, own, labels, share = drawn(20, n_classes, 4)
    repeated = np.concatenate([own, own.sum(axis=1, keepdims=True), own[:, :1], np.zeros((20, 1))], axis=1)
    problem = (offset, shared, repeated, labels, share)
    one, other = (in_space(monkeypatch, space, problem) for space in (_ByCoefficient, _ByItem))
    assert one.evidence == pytest.approx(other.evidence, abs=1e-6)
    np.testing.assert_allclose(
        log_loss(one.left_out(), labels), log_loss(other.left_out(), labels), atol=1e-6
    )


@pytest.mark.parametrize("space", [_ByCoefficient, _ByItem])
@pytest.mark.parametrize(("n_classes", "r"), [(2, 4), (3, 5), (4, 30)])
def test_approximate_leave_one_out_is_close_to_exact(monkeypatch, space, n_classes, r):
    problem = drawn(40, n_classes, r)
    labels = problem[3]
    found = in_space(monkeypatch, space, problem)
    exact = []
    for i in range(40):
        kept = np.arange(40) != i
        without = in_space(monkeypatch, space, tuple(each[kept] for each in problem))
        exact.append(logits(problem, without)[i])
    loss, expected = (log_loss(np.array(z), labels).mean() for z in (found.left_out(), exact))
    assert loss == pytest.approx(expected, rel=0.05)
    assert loss > log_loss(logits(problem, found), labels).mean()


@pytest.mark.parametrize("space", [_ByCoefficient, _ByItem])
def test_evidence_is_the_probability_of_the_labels_under_the_prior(monkeypatch, space):
    """One intercept for each of two classes: the integral over their difference, by quadrature."""
    y = np.array([0, 1, 1, 1, 0, 1, 1, 0, 1, 1])
    own = np.full((10, 1), 0.7 / np.sqrt(2))  # the difference has a prior deviation of 0.7
    problem = (np.zeros((10, 2)), np.zeros((10, 2, 1)), own, y, np.ones(10))
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p = 1 / (1 + np.exp(-0.7 * nodes))
    exact = np.log(weights @ (p ** y.sum() * (1 - p) ** (10 - y.sum())) / np.sqrt(2 * np.pi))
    assert in_space(monkeypatch, space, problem).evidence == pytest.approx(exact, abs=0.02)


@pytest.mark.parametrize("space", [_ByCoefficient, _ByItem])
def test_a_weight_of_two_is_an_item_twice(monkeypatch, space):
    problem = (*drawn(40, 3, 4)[:4], np.where(np.arange(40) < 10, 2.0, 1.0))
    weighted = in_space(monkeypatch, space, problem)
    twice = np.r_[np.arange(40), np.arange(10)]
    repeated = in_space(monkeypatch, space, (*(each[twice] for each in problem[:4]), np.ones(50)))
    np.testing.assert_allclose(weighted.own, repeated.own, atol=1e-6)
    assert weighted.evidence == pytest.approx(repeated.evidence)


@pytest.mark.parametrize("space", [_ByCoefficient, _ByItem])
def test_an_item_of_weight_zero_is_ignored(monkeypatch, space):
    problem = (*drawn(30, 3, 4)[:4], np.where(np.arange(30) < 5, 0.0, 1.0))
    found = in_space(monkeypatch, space, problem)
    expected = in_space(monkeypatch, space, tuple(each[5:] for each in problem))
    np.testing.assert_allclose(found.own, expected.own, atol=1e-6)
    np.testing.assert_allclose(found.left_out()[:5], logits(problem, expected)[:5], atol=1e-5)
    assert found.evidence == pytest.approx(expected.evidence, abs=1e-5)


def test_the_space_with_less_work_is_used():
    """Work does not grow with the number of features once there are many of them."""
    assert least_operations(100, 5, 10**6) == least_operations(100, 5, 10**7)
    assert least_operations(10**5, 2, 10) < 10**5 * 2 * 12**2
