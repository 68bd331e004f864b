"""Errors in the paper, shown by enumerating small models: the printed formula fails, the used one holds."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.paper.data import TABLE_1, TABLE_2
from flyingsquid.estimation.triplets import Pairs, all_triplets_mean, all_triplets_median


@pytest.mark.parametrize("p", [0.3, 0.5, 0.8])
def test_the_quadratic_system_of_class_conditional_sources(p):
    """With joint probabilities and weights by the odds; the printed one holds for even classes alone."""
    right = np.array([[0.7, 0.2], [0.6, 0.35]])  # P(vote 1 | Y = 1), P(vote 1 | Y = -1) of two sources
    classes = np.array([p, 1 - p])
    (alpha, beta), q = right[:, 0], right @ classes
    joint = float((right[0] * right[1]) @ classes)
    d, (c_i, c_j) = p / (1 - p), q / (1 - p)
    used = (1 + d) * alpha * beta - c_i * beta - c_j * alpha + c_i * c_j / d
    printed = (1 + d * d) * alpha * beta + c_i * c_j - c_i * d * beta - c_j * d * alpha
    assert used == pytest.approx(joint / p, abs=1e-12)
    assert (printed == pytest.approx(joint / p, abs=1e-12)) == (p == 0.5)
    assert printed != pytest.approx(joint / q[1] / p, abs=1e-3)  # nor with P(vote i | vote j)


def test_the_sign_of_what_abstains_together():
    """P(λⱼY = 1, λᵢ = 0) = (P(λᵢ = 0) + E[λⱼY 1{λᵢ = 0}] - P(both 0)) / 2; a plus is printed."""
    rng = np.random.default_rng(0)
    cells = list(product((-1, 0, 1), (-1, 0, 1), (-1, 1)))
    weight = rng.dirichlet(np.ones(len(cells)))

    def mean(value):
        return sum(w * value(*cell) for w, cell in zip(weight, cells, strict=True))

    truth = mean(lambda i, j, y: i == 0 and j * y == 1)
    first = mean(lambda i, j, y: i == 0) + mean(lambda i, j, y: (i == 0) * j * y)
    both = mean(lambda i, j, y: i == 0 and j == 0)
    assert (first - both) / 2 == pytest.approx(truth, abs=1e-12)
    assert abs((first + both) / 2 - truth) > 0.01


@pytest.mark.parametrize("bias", [0.0, 0.5])
def test_a_triplet_needs_two_sources_on_the_task_unless_tasks_are_unbiased(bias):
    """A chain of three tasks, one source each: separation by the middle truth does not suffice."""
    paths = np.array(list(product((-1, 1), repeat=3)))
    weight = np.exp(bias * paths.sum(axis=1) + 0.8 * (paths[:, 0] + paths[:, 2]) * paths[:, 1])
    weight /= weight.sum()
    a = np.array([0.7, 0.6, 0.5])  # E[λY] of each on its own truth

    def moment(i, j):
        return a[i] * a[j] * float(weight @ (paths[:, i] * paths[:, j]))

    raw = np.sqrt(moment(0, 1) * moment(1, 2) / moment(0, 2))
    truths = weight @ paths

    def covariance(i, j):
        return moment(i, j) - a[i] * a[j] * truths[i] * truths[j]

    centered = np.sqrt(covariance(0, 1) * covariance(1, 2) / covariance(0, 2) / (1 - truths[1] ** 2))
    assert centered == pytest.approx(a[1], abs=1e-12)
    assert (raw == pytest.approx(a[1], abs=1e-12)) == (bias == 0)


def test_with_many_triplets_at_zero_it_is_the_mean_that_survives():
    """Sources that seldom vote together: the median accuracy becomes 0, which the printed sentence denies."""
    rng = np.random.default_rng(0)
    m = 9
    second = np.outer(*[np.full(m, 0.6)] * 2)
    for i, j in zip(*np.triu_indices(m, 1), strict=True):
        if rng.random() < 0.5:
            second[i, j] = second[j, i] = 0.0
    other = ~np.eye(m, dtype=bool)
    pairs = Pairs(second, np.full((m, m), 0.01), other, other & (second != 0))
    assert (all_triplets_median(pairs).values == 0).any()
    assert (all_triplets_mean(pairs).values > 0).all()


def test_an_odd_clique_has_no_accuracy_by_division_where_classes_are_even():
    """E[λᵢλⱼλₖ] = a E[Y] determines nothing at E[Y] = 0; an independent source p does: E[λᵢλⱼλₖλₚ] / aₚ."""
    cells = np.array(list(product((-1, 1), repeat=4)))  # y·λ of three dependent sources, and of p
    weight = np.exp(0.4 * cells[:, 0] * cells[:, 1] * cells[:, 2] + 0.5 * cells[:, :3].sum(axis=1))
    weight *= np.where(cells[:, 3] > 0, 0.8, 0.2)
    weight /= weight.sum()
    product_of_three = cells[:, :3].prod(axis=1)
    accuracy = float(weight @ product_of_three)
    plain = sum(y * float(weight @ product_of_three) / 2 for y in (-1, 1))
    instrument = float(weight @ (product_of_three * cells[:, 3])) / 0.6
    assert plain == 0
    assert instrument == pytest.approx(accuracy, abs=1e-12)


def test_sums_of_the_tables():
    """The gain on tennis in Table 2, and in how many tasks the end model is better in Table 1."""
    supervised, _, ours = TABLE_2["tennis"]
    assert ours - supervised == pytest.approx(41.2)  # 25.2 is printed
    interviews = (91.9, 93.0)
    better = [task.end_model > task.label_model for task in TABLE_1.values()]
    assert sum([*better, interviews[0] > interviews[1]]) == 6  # four is printed
    assert len(better) + 1 == 7
