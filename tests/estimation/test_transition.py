"""Transitions between truths: exact on exact counts, calibrated on drawn ones, always valid."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.binary import Evidence, fit_binary
from flyingsquid.estimation.transition import (
    LaggedMoments,
    effective_row,
    excess_correlations,
    fit_transition,
    joint_table,
    persistence_of_errors,
    share_of_neighbors,
    transition_by_agreement,
)
from flyingsquid.estimation.triplets import Options
from flyingsquid.exceptions import SourceWarning


def fitted(sample: fs.datasets.SequenceSimulation, method: str = "mean"):
    moments = fs.SequenceMoments.of(sample.votes, sample.lengths)
    fit = fit_binary(Evidence(moments.rows), sample.class_balance, Options(method))
    return moments, fit, fit_transition(moments, fit.balance, fit)


def test_lagged_covariances_and_their_noise_equal_a_plain_computation():
    sample = fs.datasets.simulate_sequence(
        300,
        [0.9, 0.7, 0.6],
        coverage=0.7,
        class_balance=[0.3, 0.7],
        lengths=[100, 200],
        random_state=0,
    )
    lagged = LaggedMoments.of(fs.SequenceMoments.of(sample.votes, sample.lengths))
    signed = np.array([-1, 1, 0])[sample.votes.codes].astype(float)
    now, later = (
        np.concatenate([signed[a:b], signed[c:d]]) for a, b, c, d in [(0, 99, 100, 299), (1, 100, 101, 300)]
    )
    now, later = now - now.mean(axis=0), later - later.mean(axis=0)
    covariance = now.T @ later / len(now)
    np.testing.assert_allclose(lagged.covariance, covariance, atol=1e-14)
    np.testing.assert_allclose(lagged.noise, (now**2).T @ later**2 / len(now) - covariance**2, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["mean", "covariance"])
@pytest.mark.parametrize(("persistence", "balance"), [(0.9, [0.5, 0.5]), (0.6, [0.7, 0.3])])
def test_the_standard_error_is_calibrated(method, persistence, balance):
    rng = np.random.default_rng(0)
    off = []
    for _ in range(200):
        sample = fs.datasets.simulate_sequence(
            4_000,
            [0.9, 0.8, 0.75, 0.7],
            coverage=0.8,
            class_balance=balance,
            persistence=persistence,
            random_state=rng,
        )
        transition = fitted(sample, method)[2]
        off.append((transition.correlation - persistence) / transition.error)
    assert np.std(off) == pytest.approx(1, abs=0.2)
    assert abs(np.mean(off)) < 0.35


def test_errors_that_persist_do_not_pass_for_truths():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate_sequence(
        50_000, [0.8, 0.75, 0.7, 0.7], persistence=0.5, error_persistence=0.8, random_state=rng
    )
    transition = fitted(sample)[2]
    assert transition.correlation == pytest.approx(0.5, abs=4 * transition.error)
    # With an even balance the excess is the product of both persistences.
    np.testing.assert_allclose(transition.excess_correlation, 0.4, atol=0.04)


def test_copies_are_no_two_sources():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate_sequence(20_000, [0.8, 0.75, 0.7], error_persistence=0.8, random_state=rng)
    codes = np.asarray(sample.votes.codes)
    twice = fs.Votes(np.column_stack([codes, codes[:, 0]]), (0, 1))
    moments = fs.SequenceMoments.of(twice)
    fit = fit_binary(Evidence(moments.rows), sample.class_balance, Options("mean"))
    assert fit_transition(moments, fit.balance, fit).pairs == 10


def test_rows_without_neighbors_are_independent():
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], class_balance=[0.3, 0.7], random_state=0)
    model = fs.SequenceLabelModel(method="triplet", class_balance=[0.3, 0.7]).fit(sample.votes, [1] * 500)
    np.testing.assert_allclose(model.transition_, [[0.3, 0.7], [0.3, 0.7]])
    assert "independent, because there are no neighboring rows" in model.diagnostics_.transition
    alone = fs.LabelModel(method="triplet", class_balance=[0.3, 0.7]).fit(sample.votes)
    np.testing.assert_allclose(
        model.predict_proba(sample.votes, [1] * 500), alone.predict_proba(sample.votes), atol=1e-12
    )


def test_sources_that_never_vote_next_to_each_other_say_nothing():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(900, [0.9, 0.85, 0.8], random_state=rng)
    codes = np.asarray(sample.votes.codes).copy()
    codes[1::2] = -1
    for method in ("auto", "triplet"):
        model = fs.SequenceLabelModel(method=method).fit(fs.Votes(codes, (0, 1)))
        np.testing.assert_allclose(model.transition_[0], model.transition_[1])
        assert model.diagnostics_.correlation_error == np.inf


@pytest.mark.parametrize("balance", [0.5, 0.2, 0.01])
@pytest.mark.parametrize("covariance", [-2.0, -0.01, 0.0, 0.3, 0.99, 5.0])
@pytest.mark.parametrize("n_pairs", [1.0, 100.0, 1e9])
def test_the_joint_is_always_possible(balance, covariance, n_pairs):
    margin = np.array([1 - balance, balance])
    joint = joint_table(covariance, margin, margin, n_pairs)
    assert (joint > 0).all()
    np.testing.assert_allclose(joint.sum(axis=0), margin, atol=1e-15)
    np.testing.assert_allclose(joint.sum(axis=1), margin, atol=1e-15)


def test_autocorrelated_rows_count_less():
    """The variance of a mean of n rows with autocorrelation r^s is (1 + r)/(1 - r) times 1/n."""
    n, r = 20_000, 0.6
    lags = np.arange(1, n)
    variance = (1 + 2 * np.sum((1 - lags / n) * r**lags)) / n
    assert 1 / (n * variance) == pytest.approx(effective_row(r), rel=1e-3)
    assert persistence_of_errors(np.array([0.4, -0.9]), np.array([1.0, 0.5])) == pytest.approx(0.4 / 1.5)
    assert persistence_of_errors(np.ones(2), np.ones(2)) < 1
    assert persistence_of_errors(np.ones(2), np.zeros(2)) == 0


def test_one_sided_sources_leave_the_answer_to_the_others():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate_sequence(
        30_000, [0.85, 0.8, 0.75, 0.8, 0.8], coverage=0.9, random_state=rng
    )
    codes = np.asarray(sample.votes.codes).copy()
    codes[:, 3:] = np.where(codes[:, 3:] == 1, 1, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        model = fs.SequenceLabelModel().fit(fs.Votes(codes, (0, 1)))
    assert model.diagnostics_.correlation == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize("persistence", [0.9, 0.5, 0.0, -0.2])
def test_agreement_of_different_sources_gives_the_exact_correlation(persistence):
    """On exact counts, whatever the accuracies are taken to be."""
    balance, n = np.array([0.6, 0.4]), 1e9
    right = np.array([0.9, 0.8, 0.7])
    votes = np.stack([np.stack([right, 1 - right], 1), np.stack([1 - right, right], 1)], 1)
    joint = joint_table(4 * persistence * balance.prod(), balance, balance, n)
    lagged = n * np.einsum("kl,ika,jlb->abij", joint, votes, votes)
    cast = n * np.einsum("k,ika->ia", balance, votes)
    patterns = np.array(list(itertools.product((0, 1), repeat=3)), np.int8)
    likely = votes[np.arange(3), :, patterns].prod(axis=1) @ balance
    rows = fs.Moments.of(fs.Votes(patterns, (0, 1)), sample_weight=n * likely)
    moments = fs.SequenceMoments(rows, n, lagged, cast, cast)
    for accuracies in (right, np.array([0.6, 0.9, 0.7])):
        found = transition_by_agreement(moments, balance, accuracies, ~np.eye(3, dtype=bool))
        assert found.correlation == pytest.approx(persistence, abs=1e-9)
        np.testing.assert_allclose(found.joint, joint, atol=1e-6)
        assert found.pairs == 6
    tables = np.concatenate([votes, np.zeros((3, 2, 1))], axis=2)
    np.testing.assert_allclose(excess_correlations(moments, tables, joint), 0, atol=1e-9)


def test_neighbors_count_as_far_as_tables_are_trusted():
    trust = np.linspace(0, 1, 101)
    shares = np.array([share_of_neighbors(each, 0.0, n_sources=4) for each in trust])
    assert (shares[trust <= 0.1] == 0).all()
    assert (shares[trust >= 0.5] == 1).all()
    assert (np.diff(shares) >= 0).all()
    assert np.diff(shares).max() < 0.03


def test_neighbors_of_three_sources_count_as_far_as_errors_do_not_persist():
    persistence = np.linspace(0, 1, 101)
    shares = np.array([share_of_neighbors(0.0, each, n_sources=3) for each in persistence])
    assert shares[0] == 1
    assert (shares[persistence >= 0.3] == 0).all()
    assert (np.diff(shares) <= 0).all()
    assert share_of_neighbors(1.0, 0.9, n_sources=3) == 1  # tested by abstentions, and passed


def test_sources_that_agree_less_than_by_chance_show_no_correlation():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 500)
    moments = fs.SequenceMoments.of(np.column_stack([first, 1 - first]).astype(np.int8))
    balance = np.array([0.5, 0.5])
    found = transition_by_agreement(moments, balance, np.array([0.8, 0.8]), ~np.eye(2, dtype=bool))
    assert (found.correlation, found.error, found.pairs) == (0.0, np.inf, 2)
    np.testing.assert_allclose(found.joint, 0.25)
