"""Tables of votes from accuracies: both observed margins are kept, and the weight of a vote is limited."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.estimation.sources import clip_and_restore, conditional_tables, vote_tables, vote_weights
from tests.oracle.star import Star

A1 = np.array(
    [
        [1, 1, 1, 1, 1, 1],
        [1, 0, 1, 0, 1, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 1],
        [0, 0, 1, 1, 0, 0],
        [0, 0, 1, 0, 0, 0],
    ]
)
"""The paper's equation 2: rows r, columns μ(Y, λ) for λ = 1, 0, -1 and Y = 1, -1 within each."""


def test_tables_solve_the_papers_linear_system():
    star = Star.random(np.random.default_rng(0), 5)
    e, c, a = 2 * star.p - 1, star.coverage, star.a
    rates = np.column_stack([(c - e * a) / 2, (c + e * a) / 2])
    tables, _ = vote_tables(a, rates, np.array(star.balance), 1e12)
    for i in range(5):
        q0 = 1 - c[i]
        r = np.array([1, star.p, rates[i, 1], (1 + a[i] - q0) / 2, q0, q0 * star.p])
        mu = np.linalg.solve(A1, r)
        ours = tables[i] * np.array(star.balance)[:, None]
        expected = np.array([[mu[5], mu[1], mu[3]], [mu[4], mu[0], mu[2]]])
        np.testing.assert_allclose(ours, expected, atol=1e-14)
    right = tables[:, [0, 1], [0, 1]] / c[:, None]
    np.testing.assert_allclose(right, np.column_stack([star.accuracies] * 2), atol=1e-12)


probabilities = st.floats(0.02, 0.98)


@given(st.floats(-1, 1), probabilities, probabilities, probabilities, st.integers(1, 10**6))
def test_margins_are_kept_whatever_the_accuracy(share, votes_for_one, coverage, p, n):
    """Any estimate, however impossible, gives a table of probabilities with both margins."""
    rates = coverage * np.array([[1 - votes_for_one, votes_for_one]])
    balance = np.array([1 - p, p])
    tables, _ = vote_tables(np.array([share * coverage]), rates, balance, n)
    assert (tables >= 0).all()
    np.testing.assert_allclose(tables.sum(axis=2), 1, atol=1e-9)
    observed = np.column_stack([rates, 1 - rates.sum(axis=1)])
    np.testing.assert_allclose(balance @ tables[0], observed[0], atol=1e-12)


def test_restoring_moves_only_cells_with_room():
    latent, bound = np.array([[-0.5, 0.5, 0.0]]), np.array([[0.1, 0.6, 0.3]])
    cells = clip_and_restore(latent, -bound, bound, 0.0)
    np.testing.assert_allclose(cells, [[-0.1, 0.3, -0.2]])
    bound = np.array([[0.0, 1.0, 0.0]])
    stuck = clip_and_restore(latent, -bound, bound, 0.2)
    np.testing.assert_allclose(stuck, [[0.0, 0.2, 0.0]])


def test_a_source_that_always_says_yes_weighs_nothing():
    balance = np.array([0.3, 0.7])
    tables, _ = vote_tables(np.array([0.9]), np.array([[0.0, 1.0]]), balance, 1_000)
    weights = vote_weights(tables, absence_counts=False)
    np.testing.assert_allclose(weights, 0, atol=1e-9)


def test_no_vote_counts_more_than_twice_the_odds_of_its_source():
    """The balance is taken to be even and is not: the rare vote's cell is clipped to almost 0."""
    tables, clipped = vote_tables(np.array([0.8]), np.array([[0.1, 0.9]]), np.array([0.5, 0.5]), 10_000)
    assert clipped.all()
    weights = vote_weights(tables, absence_counts=False)
    assert weights[0, 0] == pytest.approx(-np.log(2 * 9))
    assert 0 < weights[0, 1] < np.log(9)


def test_a_perfect_source_is_as_sure_as_its_votes_are_many():
    rates, balance = np.array([[0.5, 0.5]]), np.array([0.5, 0.5])
    few, many = (
        vote_weights(vote_tables(np.ones(1), rates, balance, n)[0], absence_counts=False)[0, 1]
        for n in (10, 1_000)
    )
    assert few == pytest.approx(np.log(9))  # half a vote in 10 is wrong, of 5 for each class
    assert np.isfinite(many)
    assert many > few


@pytest.mark.parametrize(("beyond", "is_clipped"), [(0.02, False), (0.25, True)])
@pytest.mark.parametrize("coverage", [1.0, 0.1])
def test_clipping_is_reported_relative_to_the_votes_of_a_source(coverage, beyond, is_clipped):
    """A share of .5 for each class; a cell of E[1{vote} Y] cannot exceed the rate of the vote."""
    rates = np.full((1, 2), coverage / 2)
    latent = np.array([[-1.0, 1.0, 0.0]]) * (0.5 + beyond) * coverage
    _, clipped = conditional_tables(latent, rates, np.array([0.5, 0.5]), 1e12)
    assert clipped.tolist() == [is_clipped]
