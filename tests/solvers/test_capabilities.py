"""What each solver supports, as a list: a capability must not be lost or added by accident."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.replicates import compare_replicates
from flyingsquid.solvers import get_solver, solver_names

EVERY = {"graph", "gold", "signs", "estimated_balance", "confusion"}
# Classes, whether the votes themselves are used besides their counts, and what else is supported.
CAPABILITIES = {
    "auto": ("any", "optional", EVERY),
    "triplet": ("binary", "unused", EVERY),
    "covariance": ("binary", "optional", EVERY),
    "quadratic": ("binary", "optional", EVERY),
    "marginal": ("binary", "unused", EVERY - {"signs"}),
    "agreement": ("any", "optional", EVERY - {"signs", "graph"}),
    "em": ("any", "required", EVERY - {"signs"}),
    "decomposition": ("any", "required", EVERY - {"signs"}),
    "one_vs_rest": ("any", "unused", {"confusion"}),
    "weighted": ("any", "optional", set()),
    "panel": ("any", "required", {"gold"}),
}


@pytest.mark.parametrize("name", [name for name in solver_names() if name in CAPABILITIES])
def test_solvers_support_what_is_listed(name):
    requires = get_solver(name).requires
    found = {each for each in EVERY if getattr(requires, each)}
    assert (requires.classes, requires.rows, found) == CAPABILITIES[name]


def test_every_solver_of_the_package_is_listed():
    assert set(CAPABILITIES) <= set(solver_names())


# ---------------------------------------------------------------------- the choice of "auto"


def many_classes(n, m, coverage, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    votes = np.where(rng.random((n, m)) < 0.8, y[:, None], rng.integers(0, n_classes, (n, m)))
    return np.where(rng.random((n, m)) < coverage, votes, -1)


@pytest.mark.parametrize(
    ("n", "m", "coverage", "method"),
    [
        (400, 6, 0.6, "em"),  # 3.6 votes per item, 40 per cell of six
        (400, 6, 0.3, "agreement"),  # 1.8 votes per item
        (200, 6, 0.6, "agreement"),  # 20 votes per cell
    ],
)
def test_tables_of_many_classes_use_passes_if_there_are_enough_votes(n, m, coverage, method):
    votes = many_classes(n, m, coverage)
    model = fs.LabelModel(class_balance="estimate").fit(votes)
    assert model.method_ == method


def test_the_typical_source_decides_whether_there_are_enough_votes_per_cell():
    votes = many_classes(400, 6, 0.9)
    few = votes.copy()
    few[100:, :2] = -1  # two of six sources vote rarely
    assert fs.LabelModel(class_balance="estimate").fit(few).method_ == "em"
    few[100:, :4] = -1  # four of six do, and items still have 2.7 votes on average
    assert fs.LabelModel(class_balance="estimate").fit(few).method_ == "agreement"


# ---------------------------------------------------------------------- panels


def panel(accuracies, n=500, seed=0, calls=2, same=0.5):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    right = rng.random((n, len(accuracies), calls)) < np.array(accuracies)[:, None]
    right = np.where(rng.random(right.shape) < same, right[:, :, :1], right)
    return fs.Votes.from_panel(np.where(right, y[:, None, None], 1 - y[:, None, None]), classes=(0, 1))


def test_answers_of_a_judge_share_its_weight():
    votes = panel([0.9, 0.8, 0.75, 0.7], calls=3)
    fit = fs.LabelModel(method="panel").fit(votes).fit_
    weights = fit.mixture.weights
    for judge in range(4):
        own = weights[votes.structure.judge_of == judge]
        assert np.ptp(own) == pytest.approx(0, abs=1e-12)
    agreement = compare_replicates(votes)
    consistency = [weights[votes.structure.judge_of == judge].sum() for judge in range(4)]
    assert np.argsort(consistency).tolist() == np.argsort(agreement.swapped).tolist()


@pytest.mark.parametrize("share_families", [False, True])
def test_judges_of_one_model_share_a_weight_on_request(share_families):
    votes = panel([0.85] * 4, calls=1)
    structure = [f"{model}/{number}" for number, model in enumerate(["a", "a", "b", "c"])]
    votes = fs.Votes.from_classes(np.asarray(votes.codes), names=structure, classes=(0, 1)).with_structure(
        "{model}/{judge}"
    )
    solver = fs.solvers.Panel(share_families=share_families)
    plain = fs.LabelModel(method=fs.solvers.Panel()).fit(votes).fit_.mixture.weights
    found = fs.LabelModel(method=solver).fit(votes).fit_.mixture.weights
    factors = np.array([0.5, 0.5, 1, 1]) if share_families else np.ones(4)
    np.testing.assert_allclose(found, plain * factors[:, None])


def test_answers_of_one_judge_are_one_source_in_intervals():
    """Two judges do not determine accuracies, however often they were asked."""
    two = fs.LabelModel(method="panel").fit(panel([0.9, 0.8], calls=3))
    assert np.isnan(two.accuracies_interval_).all()
    four = fs.LabelModel(method="panel").fit(panel([0.9, 0.8, 0.8, 0.7], calls=2))
    assert np.isfinite(four.accuracies_interval_).all()
