"""Weighted fits: single items, parts of the log odds, diagnostics and rows of sequences, by definition."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.mixture import Gain
from flyingsquid.fits import Assessment
from flyingsquid.fits.weighted import balanced_accuracies
from flyingsquid.inference.weighted import Mixture, TableTerm
from flyingsquid.moments import Moments


def fitted(n_classes=2, accuracies=(0.9, 0.75, 0.7, 0.65), n=600, seed=0, coverage=0.9):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    wrong = (y[:, None] + rng.integers(1, n_classes, (n, len(accuracies)))) % n_classes
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], wrong)
    votes[rng.random(votes.shape) >= coverage] = -1
    model = fs.LabelModel(n_classes=n_classes).fit(votes)
    return model.fit_, Moments.of(votes), votes.astype(np.int8)


def mixture_of(seed, parts, n_classes=2, m=4):
    rng = np.random.default_rng(seed)
    one_sided = np.arange(m) == (1 if "one-sided" in parts else -1)

    def term():
        logs = np.log(rng.dirichlet(np.full(n_classes, 3.0), (m, n_classes)))
        logs[one_sided] = 0
        return TableTerm(logs, rng.uniform(0.3, 2, (m, n_classes)), rng.dirichlet(np.full(n_classes, 3.0)))

    return Mixture(
        weights=rng.uniform(0.3, 2, (m, n_classes)),
        one_sided=one_sided,
        without_votes=rng.dirichlet(np.full(n_classes, 3.0)),
        prior=rng.dirichlet(np.full(n_classes, 3.0)) if "prior" in parts else None,
        tables=term() if "tables" in parts else None,
        trust=0.6 if "tables" in parts else 0.0,
        anchored=term() if "anchored" in parts else None,
        anchored_share=0.4 if "anchored" in parts else 0.0,
        majority=0.3 if "majority" in parts else 0.0,
    )


PARTS = ["", "prior", "tables", "anchored", "majority", "tables anchored one-sided prior majority"]


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("balance", [None, 0.2])
def test_scores_of_single_items_give_the_posterior_of_many(parts, balance):
    fit = replace(fitted()[0], mixture=mixture_of(1, parts))
    given = None if balance is None else np.array([1 - balance, balance])
    scores = fit.item_scores(given)
    for row in itertools.product([-1, 0, 1], repeat=4):
        sums = sum(scores.adds[i, v] for i, v in enumerate(row))  # no vote is last, and adds nothing
        expected = fit.posterior(np.array([row], np.int8))[0, 0]
        if given is not None:
            expected = expected * given / fit.class_balance[0]
        np.testing.assert_allclose(scores.finish(sums), expected / expected.sum(), rtol=1e-9)
    assert replace(fit, classes=(0, 1, 2)).item_scores() is None


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_parts_of_the_log_odds_add_up(parts, n_classes):
    fit = replace(fitted(n_classes)[0], mixture=mixture_of(2, parts, n_classes))
    row = np.array([0, 1, -1, 1], np.int8)
    labels = fit.posterior(row[None])[0, 0]
    best, second = np.argsort(-labels)[:2]
    found = fit.vote_parts(row, np.array([0, 1, 3]), best, second)
    prior = fit.mixture.without_votes
    log_odds = np.log(labels[best] / prior[best]) - np.log(labels[second] / prior[second])
    assert found.sum() == pytest.approx(log_odds)


def test_parts_are_integrals_along_the_growth_of_all_votes():
    """With weights alone, log of (even + t S_best) over (even + t S_second), for t from 0 to 1."""
    mixture = replace(mixture_of(3, ""), without_votes=np.array([0.5, 0.5]))
    fit = replace(fitted()[0], mixture=mixture)
    row = np.array([0, 1, 1, 1], np.int8)
    sums = [sum(mixture.weights[i, v] for i, v in enumerate(row) if v == k) for k in (0, 1)]
    t = (np.arange(20_000) + 0.5) / 20_000
    expected = [
        (mixture.weights[i, v] / (0.5 + t * sums[v])).mean() * (1 if v == 1 else -1)
        for i, v in enumerate(row)
    ]
    np.testing.assert_allclose(fit.vote_parts(row, np.arange(4), 1, 0), expected, atol=5e-3)


@pytest.mark.parametrize("classes", [None, [0, 2]])
def test_balanced_accuracy_is_a_mean_over_classes_with_a_binomial_error(classes):
    rng = np.random.default_rng(0)
    tables, balance, n = rng.dirichlet(np.ones(4), (2, 3)), np.array([0.5, 0.3, 0.2]), 70
    skill, error = balanced_accuracies(tables, balance, n, None if classes is None else np.array(classes))
    used = range(3) if classes is None else classes
    for i in range(2):
        right, variance = [], []
        for k in used:
            voting = tables[i, k, :3].sum()
            cast, share = voting * balance[k] * n, tables[i, k, k] / voting
            smoothed = (share * cast + 1) / (cast + 2)
            right.append(share)
            variance.append(smoothed * (1 - smoothed) / cast)
        assert skill[i] == pytest.approx(np.mean(right))
        assert error[i] == pytest.approx(np.sqrt(np.sum(variance)) / len(right))


# ---------------------------------------------------------------------- verdict


def verdict(gain=0.03, low=0.01, *, is_tested=True, majority=0.0, second_factor=0.0, known=True, trust=0.9):
    fit, moments, _ = fitted(accuracies=(0.95, 0.6, 0.6, 0.6, 0.6))
    assessment = Assessment(gain=Gain(gain, (low, gain + 0.02))) if known else Assessment()
    changed = replace(
        fit,
        mixture=replace(fit.mixture, majority=majority, trust=trust),
        is_tested=is_tested,
        second_factor=second_factor,
        assessment=assessment,
    )
    return changed.own_diagnostics(moments).verdict


def test_a_verdict_is_recommended_if_every_plausible_model_gains():
    assert verdict().kind == "recommended"
    assert verdict(low=0.005).kind == "unproven"
    assert verdict(low=0.005, is_tested=False).kind == "unproven"
    assert verdict(low=0.0051, is_tested=False).kind == "recommended"
    assert verdict(gain=0.001).kind == "no better"
    assert verdict().gain_interval == (0.01, 0.05)


def test_a_second_factor_is_a_doubt_and_a_contradiction_a_verdict():
    assert verdict(second_factor=0.19).kind == "recommended"
    assert verdict(second_factor=0.2).kind == "unproven"
    assert verdict(majority=0.49).kind == "recommended"
    assert verdict(majority=0.5).kind == "contradictory"


def test_without_rows_the_gain_is_that_of_drawn_items_and_trust_makes_it_certain():
    assert verdict(known=False).kind == "recommended"
    assert verdict(known=False).gain_interval is None
    assert verdict(known=False, is_tested=False).kind == "unproven"
    assert verdict(known=False, trust=0.5).kind == "unproven"
    assert verdict(known=False).gain > 0.005


def test_noise_has_no_signal_whatever_the_gain():
    votes = np.random.default_rng(1).integers(0, 2, (400, 5))
    fit, moments = fs.LabelModel().fit(votes).fit_, Moments.of(votes)
    changed = replace(fit, assessment=Assessment(gain=Gain(0.1, (0.05, 0.2))))
    assert changed.own_diagnostics(moments).verdict.kind == "no signal"


def test_random_and_adversarial_sources_are_named():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3_000)
    right = rng.random((3_000, 7)) < [0.9, 0.9, 0.85, 0.85, 0.85, 0.5, 0.3]
    votes = np.where(right, y[:, None], 1 - y[:, None])
    found = fs.LabelModel().fit(votes).diagnostics_
    names = Moments.of(votes).source_names
    assert (found.useless, found.adversarial) == ((names[5],), (names[6],))


# ---------------------------------------------------------------------- sequences


def test_evidence_is_relative_to_an_item_without_votes():
    fit, _, votes = fitted()
    evidence = fit.evidence(votes)[:, 0]
    np.testing.assert_allclose(
        evidence, np.log(fit.posterior(votes)[:, 0]) - np.log(fit.mixture.without_votes), rtol=1e-12
    )
    np.testing.assert_allclose(fit.evidence(np.full((1, 4), -1, np.int8)), 0, atol=1e-12)


def test_rows_without_votes_are_no_evidence_in_a_sequence():
    fit, _, votes = fitted()
    votes[:3] = -1
    labels = fit.posterior(votes)[3:, 0]
    mass = labels[(votes[3:] >= 0).any(axis=1)].sum(axis=0) + 1
    balance = fit.mean_label(votes)
    np.testing.assert_allclose(balance, mass / mass.sum())
    found = fit.row_evidence(votes, balance)
    np.testing.assert_allclose(found.alone, np.log(fit.posterior(votes)[:, 0]))
    assert (
        not found.among_neighbors[:3].any() if hasattr(found, "among_neighbors") else not found[1][:3].any()
    )


def test_neighbors_count_by_the_trust_in_tables_of_sources_of_several_classes(monkeypatch):
    fit, moments, _ = fitted()
    seen = []
    monkeypatch.setattr(
        "flyingsquid.fits.weighted.share_of_neighbors", lambda *arguments: seen.append(arguments) or 0.5
    )
    one_sided = np.array([True, False, False, False])
    mixture = replace(fit.mixture, trust=0.8, majority=0.25, one_sided=one_sided)
    assert replace(fit, mixture=mixture).neighbor_share(moments, 0.7) == 0.5
    cast = moments.vote_counts.sum(axis=1)
    ((trust, persistence, n_sources),) = seen
    assert trust == pytest.approx(0.8 * 0.75 * cast[1:].sum() / cast.sum())
    assert (persistence, n_sources) == (0.7, 3)
