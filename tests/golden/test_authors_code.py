"""Numbers recorded from the authors' 2020 code, where they are right.

They are in the directory named by FLYINGSQUID_GOLDEN. Trusted are runs with a uniform class balance
and nothing degenerate; with any other balance that code lets the prior enter twice, so there only
the accuracies are compared. It averages over every triplet, so screening is off. All runs, through the
interface of that code, are in ``test_legacy_golden.py``.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs

FOLDER = os.environ.get("FLYINGSQUID_GOLDEN")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_GOLDEN is not set")
TRUSTED = ["ind_abst_mean", "ind_abst_median", "ind_noabst_mean", "ind_noabst_mean_disallow"]
ACCURACIES_ONLY = ["ind_cb_given", "ind_cb_given_noflip_noclamp", "ind_Y_dev"]


def load(name: str):
    data = np.load(Path(str(FOLDER)) / f"{name}.npz")
    arguments = json.loads(str(data["args"]))["fit"]
    aggregate = arguments.get("solve_method", "triplet_mean").removeprefix("triplet_")
    return data, fs.Votes.from_signed(data["L"]), fs.solvers.Triplet(aggregate, screen=0)


@pytest.mark.parametrize("name", TRUSTED)
def test_trusted_runs_are_reproduced(name):
    data, votes, method = load(name)
    model = fs.LabelModel(method=method, signs=dict.fromkeys(range(6), 1)).fit(votes)
    expectations = model.coverage_ * (2 * model.accuracies_ - 1)
    np.testing.assert_allclose(expectations, data["expectation_values"], atol=1e-6)
    # That code's probabilities count abstains as not right: P(λ = Y), not P(λ = Y | votes).
    np.testing.assert_allclose(model.coverage_ * model.accuracies_, data["probability_values"], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(votes), data["predict_proba"], atol=1e-6)
    marginal = data["predict_proba_marginalized"].ravel()
    np.testing.assert_allclose(model.predict_proba(votes)[:, 1], marginal, atol=1e-6)
    np.testing.assert_array_equal(model.predict(votes), data["predict"].ravel())


@pytest.mark.parametrize("name", ACCURACIES_ONLY)
def test_accuracies_do_not_depend_on_the_balance(name):
    """Source 5 is where clamps act: its recorded E[λY] of .697 exceeds its vote rate of .685, which
    no source can. Ours stops at the vote rate."""
    data, votes, method = load(name)
    model = fs.LabelModel(method=method, class_balance=[0.8, 0.2], signs=dict.fromkeys(range(6), 1)).fit(
        votes
    )
    ours, theirs = model.coverage_ * (2 * model.accuracies_ - 1), data["expectation_values"]
    np.testing.assert_allclose(ours[:5], theirs[:5], atol=1e-6)
    assert theirs[5] > model.coverage_[5] == pytest.approx(ours[5])


@pytest.mark.parametrize("name", TRUSTED)
def test_no_clamp_acts_on_the_trusted_runs(name):
    """|E[λY]| stays below the vote rate there, so formulas are compared, not clamps."""
    data, _, _ = load(name)
    coverage = (data["L"] != 0).mean(axis=0)
    assert (data["expectation_values"] < coverage - 1e-9).all()


def test_the_prior_enters_once_where_it_entered_twice():
    """With P(Y=1) = .2 the recorded odds are ours times the prior odds (algorithm and bug apart)."""
    data, votes, method = load("ind_cb_given_noflip_noclamp")
    model = fs.LabelModel(method=method, class_balance=[0.8, 0.2], signs=dict.fromkeys(range(6), 1)).fit(
        votes
    )
    ours, theirs = model.predict_proba(votes), data["predict_proba"]
    usable = ((theirs > 1e-6) & (theirs < 1 - 1e-6)).all(axis=1) & _unclipped(model, votes)
    assert usable.sum() > 20
    ratio = (theirs[usable, 1] / theirs[usable, 0]) / (ours[usable, 1] / ours[usable, 0])
    np.testing.assert_allclose(ratio, 0.25, rtol=1e-6)


def _unclipped(model: fs.LabelModel, votes: fs.Votes) -> np.ndarray:
    """Items on which no source votes whose table had a cell below zero, clipped here, kept there."""
    a = model.coverage_ * (2 * model.accuracies_ - 1)
    rates = model.moments_.vote_counts / model.moments_.n_items
    e, c = model.class_balance_[1] - model.class_balance_[0], model.coverage_
    wanted = (
        rates[:, None, :]
        + np.stack([-1, 1])[:, None] * ((e * c)[:, None] + a[:, None] * [-1, 1])[:, None] / 2
    ) / 2
    used = model.confusion_[:, :, :2] * model.class_balance_[:, None]
    clipped = (np.abs(wanted - used) > 1e-12).any(axis=(1, 2))
    return ~((votes.codes >= 0) & clipped).any(axis=1)


def test_the_trusted_run_with_an_edge_is_reproduced_by_the_linear_system():
    """That code estimates the product of the dependent pair by triplets, and so does cliques="linear"."""
    data, votes, _ = load("edge1_disallow_mean")
    graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    method = fs.solvers.Triplet(cliques="linear", screen=0)
    model = fs.LabelModel(graph, method=method, signs=dict.fromkeys(range(6), 1)).fit(votes)
    single = [0, 2, 3, 4, 5, 6]  # entry 1 is the product of the pair with Y
    expectations = model.coverage_ * (2 * model.accuracies_ - 1)
    np.testing.assert_allclose(expectations, data["expectation_values"][single], atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(votes), data["predict_proba"], atol=1e-6)
    np.testing.assert_array_equal(model.predict(votes), data["predict"].ravel())
    # P(λ0, λ1, Y) itself, votes -1 before +1; the states of a unit count with the first source fastest.
    joint = model.fit_.units[0].table.reshape(2, 3, 3)[:, 1:, 1:].transpose(2, 1, 0) / 2
    np.testing.assert_allclose(joint, data["clique_0"], atol=1e-6)
