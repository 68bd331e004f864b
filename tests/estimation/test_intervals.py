"""95% intervals of accuracies hold the truth in about 95 of 100 fits."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import NotFittedError, SourceWarning
from tests.oracle.star import AnyStar, Star
from tests.support.strategies import fittable_votes

ACCURACIES = np.array([0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.8, 0.7])
COVERAGE = np.array([1.0, 0.8, 0.9, 0.7, 1.0, 0.9, 0.6, 0.8])


def covers(model: fs.LabelModel, truth: np.ndarray) -> np.ndarray:
    low, high = model.accuracies_interval_.T
    return np.asarray((low <= truth) & (truth <= high))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "p"),
    [("triplet", 0.5), ("triplet", 0.3), (fs.solvers.Triplet("best"), 0.3), ("marginal", 0.2)],
)
def test_intervals_of_symmetric_methods_cover_the_truth(method, p):
    rng, inside = np.random.default_rng(0), []
    for _ in range(500):
        votes = fs.datasets.simulate(
            2_000, ACCURACIES, coverage=COVERAGE, class_balance=[1 - p, p], random_state=rng
        ).votes
        inside.append(covers(fs.LabelModel(method=method, class_balance=[1 - p, p]).fit(votes), ACCURACIES))
    assert 0.92 <= np.mean(inside) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("balance", ["given", "estimated"])
def test_intervals_of_covariance_cover_the_truth(balance):
    rng, inside = np.random.default_rng(0), []
    stars = [AnyStar.random(np.random.default_rng(seed), 8) for seed in (3, 5)]
    for star in stars:
        given = star.balance if balance == "given" else None
        for _ in range(120):
            votes = fs.Votes(star.sample(2_000, rng)[0], (0, 1))
            model = fs.LabelModel(method="covariance", class_balance=given).fit(votes)
            inside.append(covers(model, star.accuracies()))
    assert 0.92 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize("method", ["triplet", fs.solvers.Triplet("best"), "covariance", "marginal"])
def test_four_times_the_items_halve_the_interval(method):
    star = Star(np.array([0.9, 0.8, 0.7, 0.75]), np.array([1.0, 0.8, 0.7, 0.9]), 0.2)
    weights = star.joint().sum(axis=1)

    def width(n: float) -> np.ndarray:
        model = fs.LabelModel(method=method, class_balance=star.balance)
        model.fit(star.patterns(), sample_weight=weights * n)
        return np.diff(model.accuracies_interval_, axis=1).ravel()

    np.testing.assert_allclose(width(1e6) / width(4e6), 2, rtol=1e-3)


def test_methods_and_sources_without_a_formula_have_no_interval():
    votes = fittable_votes(0)
    for options in ({"method": fs.solvers.Triplet("median")}, {"method": "quadratic"}):
        assert np.isnan(
            fs.LabelModel(**{"method": "triplet", **options}).fit(votes).accuracies_interval_
        ).all()
    with pytest.warns(SourceWarning):
        model = fs.LabelModel(method="triplet").fit(np.column_stack([votes, np.full(400, -1)]))
    assert np.isnan(model.accuracies_interval_[5]).all()
    assert np.isfinite(model.accuracies_interval_[:5]).all()


def test_intervals_belong_to_the_fit_and_need_one():
    with pytest.raises(NotFittedError):
        fs.LabelModel(method="triplet").accuracies_interval_  # noqa: B018
    model = fs.LabelModel(method="covariance").fit(fittable_votes(0))
    first = model.accuracies_interval_
    model.set_params(method=fs.solvers.Triplet(screen=3.0))
    np.testing.assert_array_equal(model.accuracies_interval_, first)
    assert (first[:, 0] <= model.accuracies_).all()
    assert (model.accuracies_ <= first[:, 1]).all()
