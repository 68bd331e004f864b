"""Tables of two tasks, pairs of votes, and pairs that structure learning frees, by their definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flyingsquid.estimation.conditional import _indicator_pairs
from flyingsquid.estimation.structure import _strongest, select_edges
from flyingsquid.estimation.transition import _variance_of_product, joint_table, pair_of_tasks
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

A, B = np.array([0.3, 0.7]), np.array([0.6, 0.4])


def covariance_of(table):
    y = np.array([-1.0, 1.0])
    return float(np.sum(table * np.outer(y, y)) - (table.sum(axis=1) @ y) * (table.sum(axis=0) @ y))


@pytest.mark.parametrize("covariance", [-0.3, 0.0, 0.2])
def test_a_joint_table_has_its_margins_and_covariance(covariance):
    table = joint_table(covariance, A, B, 1e6)
    np.testing.assert_allclose(table.sum(axis=1), A)
    np.testing.assert_allclose(table.sum(axis=0), B)
    assert covariance_of(table) == pytest.approx(covariance)


@pytest.mark.parametrize("covariance", [-9.0, 9.0])
def test_an_impossible_covariance_is_reduced_until_the_rarest_cell_is_half_an_item(covariance):
    table = joint_table(covariance, A, B, 100)
    assert table.min() == pytest.approx(0.005)
    np.testing.assert_allclose(table.sum(axis=1), A)
    assert np.sign(covariance_of(table)) == np.sign(covariance)
    # With few items, half of the rarest cell of independent tasks is the limit.
    assert joint_table(covariance, A, B, 2).min() == pytest.approx(0.12 / 2)


@pytest.mark.parametrize("covariance", [-0.3, 0.0, 0.2])
def test_the_variance_of_a_product_of_centered_truths(covariance):
    table = joint_table(covariance, A, B, 1e9)
    y = np.array([-1.0, 1.0])
    product = np.outer(y - y @ A, y - y @ B)
    expected = np.sum(table * product**2) - np.sum(table * product) ** 2
    assert _variance_of_product(covariance, (A, B)) == pytest.approx(expected, abs=1e-6)


def population(table, right_a, right_b):
    """Rows of votes on two tasks, and how often each occurs."""
    m = len(right_a) + len(right_b)
    rows = np.array(list(itertools.product([0, 1], repeat=m)), np.int8)
    often = np.zeros(len(rows))
    for a, b in itertools.product([0, 1], repeat=2):
        p = np.full(len(rows), table[a, b])
        for i, q in enumerate([*right_a, *right_b]):
            y = a if i < len(right_a) else b
            p *= np.where(rows[:, i] == y, q, 1 - q)
        often += p
    return Votes.from_classes(rows, classes=[0, 1]), often


@pytest.mark.parametrize("covariance", [-0.3, 0.0, 0.2])
def test_two_tasks_are_as_dependent_as_their_votes_show(covariance):
    table = joint_table(covariance, A, B, 1e9)
    right = [0.9, 0.8], [0.7, 0.85, 0.6]
    votes, often = population(table, *right)
    moments = Moments.of(votes, sample_weight=1e9 * often)
    accuracies = tuple(2 * np.array(each) - 1 for each in right)
    found = pair_of_tasks(moments, accuracies, (A, B), same_detectors=False)
    assert found.covariance == pytest.approx(covariance, abs=1e-6)
    np.testing.assert_allclose(found.table, table, atol=1e-6)
    assert not len(found.excess)


def test_detectors_whose_errors_persist_have_an_excess_and_are_not_used_for_the_truths():
    table = joint_table(0.2, A, B, 1e9)
    right = [0.9, 0.8], [0.85, 0.8]
    votes, _ = population(table, *right)
    codes = np.asarray(votes.codes)
    # Half of the time, the second detector repeats its error: on both tasks it is right, or wrong.
    weights = np.zeros(len(codes))
    for a, b in itertools.product([0, 1], repeat=2):
        p = np.full(len(codes), table[a, b])
        p *= np.where(codes[:, 0] == a, 0.9, 0.1) * np.where(codes[:, 2] == b, 0.85, 0.15)
        first, second = codes[:, 1] == a, codes[:, 3] == b
        apart = np.where(first, 0.8, 0.2) * np.where(second, 0.8, 0.2)
        together = np.where(first, 0.8, 0.2) * (first == second)
        weights += p * (0.5 * apart + 0.5 * together)
    moments = Moments.of(votes, sample_weight=1e9 * weights)
    accuracies = tuple(2 * np.array(each) - 1 for each in right)
    found = pair_of_tasks(moments, accuracies, (A, B), same_detectors=True)
    assert found.covariance == pytest.approx(0.2, abs=1e-3)
    assert found.excess[0] == pytest.approx(0, abs=1e-3)
    # Being right has the correlation .5, so votes have that times E[Y_a Y_b].
    together = table[0, 0] + table[1, 1] - table[0, 1] - table[1, 0]
    assert found.excess[1] == pytest.approx(0.5 * together, abs=1e-3)


def test_pairs_without_covariance_are_no_denominators_even_without_a_screen():
    q = np.array([0.5, 0.5, 0.4])
    both = np.outer(q, q)
    both[0, 2] = both[2, 0] = 0.3
    comparable = ~np.eye(3, dtype=bool)
    pairs = _indicator_pairs(q, both, comparable, 100, screen=0.0)
    assert pairs.denominator.tolist() == [[False, False, True], [False, False, False], [True, False, False]]


# ---------------------------------------------------------------------- edges


def test_pairs_are_freed_strongest_first_while_sources_keep_partners():
    scores = np.zeros((6, 6))
    for (i, j), score in {(0, 1): 10.0, (0, 2): 9.0, (2, 3): 8.0, (4, 5): 4.9, (1, 2): 6.0}.items():
        scores[i, j] = scores[j, i] = score
    used = ~np.eye(6, dtype=bool)
    # One pair per source, none below half of the strongest.
    one = _strongest(scores, 3.0, used)
    assert np.argwhere(np.triu(one)).tolist() == [[0, 1], [2, 3]]
    every = _strongest(scores, 3.0, used, one_each=False)
    assert np.argwhere(np.triu(every)).tolist() == [[0, 1], [0, 2], [2, 3], [4, 5]]  # 2 keeps three partners
    assert (every == every.T).all()
    assert not _strongest(scores, 11.0, used).any()


def test_edges_that_a_graph_cannot_have_are_dropped():
    """Three groups must remain besides that of a source."""
    scores = {(0, 1): 5.0, (2, 3): -7.0, (4, 5): 1.0, (1, 2): 3.0, (6, 7): 0.5}
    kept, dropped = select_edges(scores, np.ones(8, bool))
    assert kept == ((2, 3), (0, 1), (1, 2), (4, 5))
    assert dropped == ((6, 7),)
    assert select_edges(scores, np.arange(8) < 7)[1] == ((4, 5),)
