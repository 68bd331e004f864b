"""Capabilities of the solvers, as a list: one must not be lost or added by accident."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import get_args

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.replicates import compare_replicates
from flyingsquid.inference.weighted import Mixture, TableTerm, mixture_posterior
from flyingsquid.models.label_model import Method
from flyingsquid.solvers import get_solver, solver_names
from flyingsquid.solvers.panel import _by_source, _with_weights

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


@pytest.mark.parametrize("name", CAPABILITIES)
def test_solvers_support_what_is_listed(name):
    requires = get_solver(name).requires
    found = {each for each in EVERY if getattr(requires, each)}
    assert (requires.classes, requires.rows, found) == CAPABILITIES[name]


def test_every_solver_of_the_package_is_listed_where_users_look():
    """Type checkers use the names in ``Method``, and users the table of LabelModel."""
    named = {name for name in solver_names() if type(get_solver(name)).__module__.startswith("flyingsquid.")}
    typed = {name for part in get_args(Method) for name in get_args(part)}
    rows = re.split(r"={9,}\n", fs.LabelModel.__doc__ or "")[2]  # below the second ruler
    table = set(re.findall(r"^ *``(\w+)``", rows, re.MULTILINE))
    for listed, where in (
        (set(CAPABILITIES), "CAPABILITIES in this file"),
        (typed, "`Method` in models/label_model.py"),
        (table, "the table of `method` in the docstring of LabelModel"),
    ):
        assert listed == named, f"add to or remove from {where}: {sorted(listed ^ named)}"


# ---------------------------------------------------------------------- the choice of "auto"


def many_classes(n, m, coverage, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    votes = np.where(rng.random((n, m)) < 0.8, y[:, None], rng.integers(0, n_classes, (n, m)))
    return np.where(rng.random((n, m)) < coverage, votes, -1)


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


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_judge_that_repeats_its_answer_counts_as_one_answer(one_sided):
    """A mixture over sources labels replicates as the mixture over judges labels single answers."""
    rng = np.random.default_rng(0)
    mask = np.array([one_sided, False, False])

    def term():
        logs = np.log(rng.dirichlet([2, 2], (3, 2)))
        logs[mask] = 0
        return TableTerm(logs, rng.uniform(0.5, 2, (3, 2)), np.array([0.4, 0.6]))

    mixture = Mixture(
        weights=rng.uniform(0.5, 2, (3, 2)),
        one_sided=mask,
        without_votes=np.array([0.5, 0.5]),
        tables=term(),
        trust=0.7,
        anchored=term(),
        anchored_share=1e-9,  # its pseudo-vote is relative to the number of answers
    )
    rows = np.array(list(itertools.product([-1, 0, 1], repeat=3)), np.int8)
    answers = fs.Votes.from_panel(np.repeat(rows[:, :, None], 2, axis=2), classes=(0, 1))
    by_source = _by_source(mixture, answers.structure, share_families=False)
    found = mixture_posterior(np.asarray(answers.codes), by_source)
    np.testing.assert_allclose(found, mixture_posterior(rows, mixture), rtol=1e-6)
    of = answers.structure.judge_of
    for name in ("tables", "anchored"):
        judge, source = getattr(mixture, name), getattr(by_source, name)
        np.testing.assert_allclose(source.logs, judge.logs[of] / 2)
        np.testing.assert_allclose(source.weights, judge.weights[of] / 2)


def test_trust_below_the_prior_is_no_evidence_for_tables_of_a_panel():
    base = Mixture(
        weights=np.ones((3, 2)), one_sided=np.zeros(3, bool), without_votes=np.full(2, 0.5), majority=0.2
    )
    weights = np.array([2.0, 1.0, 0.5])
    for trust, expected in ((0.2, 0.0), (0.3, 0.0), (0.65, 0.5), (1.0, 1.0)):
        found = _with_weights(replace(base, trust=trust), weights, support=0.9)
        assert found.trust == pytest.approx(expected * 0.8 * 0.9)
        np.testing.assert_allclose(found.weights, np.repeat(weights[:, None], 2, axis=1))
        assert (found.majority, found.anchored, found.anchored_share) == (0, None, 0)
