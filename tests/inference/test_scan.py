"""Chains of classes: equal to enumeration on short sequences, and to a plain loop on long ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.inference.sequences import Blocks, forward_backward, viterbi


def random_chain(rng: np.random.Generator, k: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.dirichlet(np.full(k, 2.0)), rng.dirichlet(np.full(k, 0.7), size=k) * 0.99 + 0.01 / k


def enumerated(evidence, prior, transition):
    """Posterior, log likelihood, and the largest log joint of one sequence."""
    n, k = evidence.shape
    scores = {}
    for path in itertools.product(range(k), repeat=n):
        score = np.log(prior[path[0]]) + evidence[0, path[0]]
        for t in range(1, n):
            score += np.log(transition[path[t - 1], path[t]]) + evidence[t, path[t]]
        scores[path] = score
    top = max(scores.values())
    total = sum(np.exp(s - top) for s in scores.values())
    posterior = np.zeros((n, k))
    for path, score in scores.items():
        posterior[np.arange(n), list(path)] += np.exp(score - top) / total
    return posterior, top + np.log(total), top


def score_of(path, evidence, prior, transition):
    moves = np.log(transition[path[:-1], path[1:]]).sum()
    return float(np.log(prior[path[0]]) + moves + evidence[np.arange(len(path)), path].sum())


def assert_same_as(oracle, evidence, lengths, prior, transition, block, **tolerance):
    """Compare posteriors, likelihoods and best paths of sequences with those of ``oracle``, one by one."""
    posterior, likelihood = forward_backward(evidence, lengths, prior, transition, longest_block=block)
    path = viterbi(evidence, lengths, prior, transition, longest_block=block)
    start = 0
    for s, n in enumerate(lengths):
        part = slice(start, start + n)
        expected, total, best = oracle(evidence[part], prior, transition)
        np.testing.assert_allclose(posterior[part], expected, atol=1e-12)
        np.testing.assert_allclose(posterior[part].sum(axis=1), 1, atol=1e-14)
        assert likelihood[s] == pytest.approx(total, **tolerance)
        assert score_of(path[part], evidence[part], prior, transition) == pytest.approx(best, **tolerance)
        start += n


def by_loop(evidence, prior, transition):
    """Posterior, log likelihood and best log joint of one sequence, in logarithms, a row at a time."""
    n, k = evidence.shape
    logs = np.log(transition)
    alpha, beta, best = np.empty((n, k)), np.zeros((n, k)), np.empty((n, k))
    alpha[0] = best[0] = np.log(prior) + evidence[0]
    for t in range(1, n):
        alpha[t] = np.logaddexp.reduce(alpha[t - 1][:, None] + logs, axis=0) + evidence[t]
        best[t] = (best[t - 1][:, None] + logs).max(axis=0) + evidence[t]
    for t in range(n - 2, -1, -1):
        beta[t] = np.logaddexp.reduce(logs + evidence[t + 1] + beta[t + 1], axis=1)
    total = np.logaddexp.reduce(alpha[-1])
    return np.exp(alpha + beta - total), total, best[-1].max()


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("block", [1, 2, 3, None])
def test_short_sequences_equal_enumeration(k, block):
    rng = np.random.default_rng(k)
    prior, transition = random_chain(rng, k)
    lengths = np.array([1, 4, 2, 1, 6, 3, 5, 1, 1, 2])
    evidence = rng.normal(0, 2, (lengths.sum(), k))
    assert_same_as(enumerated, evidence, lengths, prior, transition, block, abs=1e-12)


@pytest.mark.parametrize("lengths", [[1000], [1] * 50, [1, 700, 1, 299], [100] * 7, [3, 500, 2, 64, 65, 366]])
@pytest.mark.parametrize("block", [1, 7, 64, None])
def test_long_sequences_equal_a_plain_loop(lengths, block):
    rng = np.random.default_rng(len(lengths))
    prior, transition = random_chain(rng, 2)
    lengths = np.array(lengths)
    evidence = rng.normal(0, 3, (lengths.sum(), 2))
    assert_same_as(by_loop, evidence, lengths, prior, transition, block, rel=1e-12)


@given(st.lists(st.integers(1, 12), min_size=1, max_size=8), st.integers(1, 13), st.integers(0, 2**32 - 1))
def test_blocks_change_nothing(lengths, block, seed):
    rng = np.random.default_rng(seed)
    lengths, (prior, transition) = np.array(lengths), random_chain(rng, 3)
    evidence = rng.normal(0, 5, (lengths.sum(), 3))
    whole = forward_backward(evidence, lengths, prior, transition)
    cut = forward_backward(evidence, lengths, prior, transition, longest_block=block)
    np.testing.assert_allclose(whole[0], cut[0], atol=1e-12)
    np.testing.assert_allclose(whole[1], cut[1], atol=1e-10)
    np.testing.assert_array_equal(
        viterbi(evidence, lengths, prior, transition),
        viterbi(evidence, lengths, prior, transition, longest_block=block),
    )


@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(1, 40))
def test_blocks_hold_every_row_once(lengths, longest):
    blocks = Blocks.of(np.array(lengths), longest)
    rows = np.concatenate([np.arange(a, a + n) for a, n in zip(blocks.starts, blocks.lengths, strict=True)])
    np.testing.assert_array_equal(np.sort(rows), np.arange(sum(lengths)))
    assert blocks.lengths.max() <= longest
    assert (np.diff(blocks.lengths) <= 0).all()
    for step, count, _ in blocks.steps():
        assert count == (blocks.lengths > step).sum()
    joined = [(a, b) for now, after in blocks.joins() for a, b in zip(now, after, strict=True)]
    assert len(joined) == len(blocks.starts) - len(lengths)
    for a, b in joined:
        assert blocks.starts[a] + blocks.lengths[a] == blocks.starts[b]
        assert blocks.lengths[a] == longest


@pytest.mark.parametrize("block", [5, None])
def test_strong_evidence_gives_no_nan_and_keeps_the_small_side(block):
    prior, transition = np.array([0.5, 0.5]), np.array([[0.99, 0.01], [0.01, 0.99]])
    evidence = np.random.default_rng(0).choice([-1000.0, 1000.0], (300, 2))
    posterior, likelihood = forward_backward(
        evidence, np.array([200, 100]), prior, transition, longest_block=block
    )
    assert np.isfinite(posterior).all()
    assert np.isfinite(likelihood).all()
    sure = np.zeros((30, 2))
    sure[:, 1] = 20.0
    small = forward_backward(sure, np.array([30]), prior, transition, longest_block=block)[0][:, 0]
    # By hand, for the middle: both moves cost a factor of 1/99, and the row e^-20.
    assert small[15] == pytest.approx(np.exp(-20) / 99**2, rel=1e-6)


@pytest.mark.parametrize("block", [2, None])
def test_ties_go_to_the_lowest_class(block):
    prior, transition = np.array([0.5, 0.5]), np.array([[0.9, 0.1], [0.1, 0.9]])
    lengths = np.array([7, 1, 4])
    path = viterbi(np.zeros((12, 2)), lengths, prior, transition, longest_block=block)
    np.testing.assert_array_equal(path, 0)
    coins = np.full((2, 2), 0.5)
    path = viterbi(np.zeros((12, 2)), lengths, prior, coins, longest_block=block)
    np.testing.assert_array_equal(path, 0)


@pytest.mark.slow
@pytest.mark.parametrize("block", [3, None])
def test_a_tied_path_is_still_a_best_path(block):
    """Evidence on a grid of halves, and moves that cost integer numbers of them: frequent ties."""
    rng = np.random.default_rng(0)
    transition = np.array([[np.e, 1.0], [1.0, np.e]]) / (1 + np.e)
    prior = np.array([0.5, 0.5])
    for _ in range(50):
        evidence = rng.integers(-2, 3, (12, 2)) / 2
        best = enumerated(evidence, prior, transition)[2]
        path = viterbi(evidence, np.array([12]), prior, transition, longest_block=block)
        assert score_of(path, evidence, prior, transition) == pytest.approx(best, abs=1e-12)


def test_independent_rows_are_a_special_case():
    rng = np.random.default_rng(0)
    prior, evidence = np.array([0.3, 0.7]), rng.normal(0, 2, (500, 2))
    posterior, _ = forward_backward(evidence, np.array([500]), prior, np.tile(prior, (2, 1)), longest_block=9)
    alone = prior * np.exp(evidence)
    np.testing.assert_allclose(posterior, alone / alone.sum(axis=1, keepdims=True), atol=1e-13)


def test_a_million_rows_use_some_thousand_steps():
    blocks = Blocks.of(np.array([1_000_000]))
    assert len(blocks.active) - 1 == 1_000
    assert sum(1 for _ in blocks.joins()) == 999
