"""Standard errors of closed forms by numerical derivatives, triples by enumeration, votes that are drawn."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from flyingsquid.estimation.balance import BalanceEstimate, _triples, resolve_balance, resolve_task_balance
from flyingsquid.estimation.sources import SignedMoments
from flyingsquid.estimation.standard_errors import group_errors, single_triplet_errors, triplet_mean_errors
from flyingsquid.estimation.triplets import (
    Pairs,
    accuracies_from_balance,
    all_triplets_mean,
    all_triplets_median,
    given_triplets,
    strongest_partners,
    strongest_triplet,
)
from flyingsquid.estimation.units import draw_votes
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import Moments

A = np.array([0.7, 0.5, 0.6, 0.4])  # E[λᵢY]
COVERAGE = np.array([1.0, 0.8, 0.9, 0.7])


def exact_pairs():
    """Pairs of independent sources without any sampling error."""
    comparable = ~np.eye(4, dtype=bool)
    return Pairs(np.outer(A, A), np.full((4, 4), 1e-12), comparable, comparable)


def signed_with(n):
    votes = np.random.default_rng(0).integers(-1, 2, (n, 4))
    return replace(SignedMoments.of(Moments.of(votes)), rates=np.stack([COVERAGE, COVERAGE], axis=1) / 2)


def slopes(estimate):
    """∂aᵢ/∂Mⱼₖ, shape (4, 4, 4), where Mⱼₖ = Mₖⱼ is one number."""
    found = np.zeros((4, 4, 4))
    for j, k in itertools.combinations(range(4), 2):
        step = np.zeros((4, 4))
        step[j, k] = step[k, j] = 1e-6
        up, down = (
            estimate(replace(exact_pairs(), second=exact_pairs().second + sign * step)) for sign in (1, -1)
        )
        found[:, j, k] = found[:, k, j] = (up - down) / 2e-6
    return found


def by_first_order(derivative, n, shared=None):
    """Mⱼₖ varies as aⱼUₖ + aₖUⱼ + UⱼUₖ; the accuracy is (1 + aᵢ/cᵢ)/2, and cᵢ varies, too.

    ``shared`` are the covariances of Uⱼ and Uₖ.
    """
    spread, errors = COVERAGE - A**2, []
    for i in range(4):
        factors = derivative[i] @ A  # of Uⱼ
        linear = sum(factors[j] ** 2 * spread[j] for j in range(4) if j != i)
        if shared is not None:
            linear += sum(
                2 * factors[j] * factors[k] * shared[j, k]
                for j, k in itertools.combinations([x for x in range(4) if x != i], 2)
            )
        products = sum(
            derivative[i, j, k] ** 2 * spread[j] * spread[k] for j, k in itertools.combinations(range(4), 2)
        )
        own, share, c = factors[i], A[i] / COVERAGE[i], COVERAGE[i]
        # Uᵢ and the coverage have the covariance aᵢ(1 - cᵢ).
        both = own**2 * spread[i] + share**2 * c * (1 - c) - 2 * own * share * A[i] * (1 - c)
        errors.append(np.sqrt((linear + products + both) / n) / (2 * c))
    return np.array(errors)


def test_errors_of_the_mean_over_triplets_follow_from_derivatives():
    expected = by_first_order(slopes(lambda pairs: all_triplets_mean(pairs).values), 500)
    found = triplet_mean_errors(signed_with(500), exact_pairs(), np.full(4, 3), A)
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_array_equal(
        np.isnan(triplet_mean_errors(signed_with(500), exact_pairs(), np.array([3, 0, 3, 3]), A)),
        [False, True, False, False],
    )


def test_errors_of_dependent_sources_add_up():
    """Sources 1 and 2 depend on each other, so no triplet has both, but the mean over triplets has."""
    apart = np.ones((4, 4), dtype=bool)
    apart[1, 2] = apart[2, 1] = False
    shared = np.where(apart, 0.0, 0.15)

    def separated(pairs):
        return replace(pairs, comparable=pairs.comparable & apart, denominator=pairs.denominator & apart)

    mean = all_triplets_mean(separated(exact_pairs()))
    expected = by_first_order(slopes(lambda pairs: all_triplets_mean(separated(pairs)).values), 500, shared)
    found = triplet_mean_errors(signed_with(500), separated(exact_pairs()), mean.used, A, shared)
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_errors_of_one_triplet_follow_from_derivatives():
    partners = strongest_partners(exact_pairs())

    def estimate(pairs):
        m = pairs.second
        return np.array([np.sqrt(abs(m[i, j] * m[i, k] / m[j, k])) for i, (j, k) in enumerate(partners)])

    expected = by_first_order(slopes(estimate), 500)
    np.testing.assert_allclose(
        single_triplet_errors(signed_with(500), exact_pairs(), partners, A), expected, rtol=1e-4
    )
    partners[2] = -1
    found = single_triplet_errors(signed_with(500), exact_pairs(), partners, A)
    assert np.isnan(found).tolist() == [False, False, True, False]


# ---------------------------------------------------------------------- triplets by enumeration


def random_pairs(seed, m=6):
    rng = np.random.default_rng(seed)
    second = rng.uniform(-0.5, 0.5, (m, m))
    second, error = (second + second.T) / 2, rng.uniform(0.01, 0.1, (m, m))
    error = (error + error.T) / 2
    comparable = rng.random((m, m)) < 0.85
    comparable = comparable & comparable.T & ~np.eye(m, dtype=bool)
    return Pairs(second, error, comparable, comparable & (np.abs(second) > error))


@pytest.mark.parametrize("seed", range(4))
def test_triplets_are_those_of_a_loop(seed):
    pairs = random_pairs(seed)
    m = len(pairs.second)
    mean, median, best = all_triplets_mean(pairs), all_triplets_median(pairs), strongest_triplet(pairs)
    for i in range(m):
        values, costs, skipped = [], [], 0
        for j, k in itertools.combinations([x for x in range(m) if x != i], 2):
            if not (pairs.comparable[i, j] and pairs.comparable[i, k] and pairs.comparable[j, k]):
                continue
            if not pairs.denominator[j, k]:
                skipped += 1
                continue
            a, b, c = pairs.second[i, j], pairs.second[i, k], pairs.second[j, k]
            values.append(np.sqrt(abs(a * b / c)))
            noise = [pairs.standard_error[x] / pairs.second[x] for x in ((i, j), (i, k), (j, k))]
            costs.append(np.sum(np.square(noise)))
        assert (mean.used[i], mean.skipped[i]) == (len(values), skipped)
        assert (median.used[i], median.skipped[i]) == (len(values), skipped)
        if values:
            assert mean.values[i] == pytest.approx(np.mean(values))
            assert median.values[i] == pytest.approx(np.median(values))
            assert best.values[i] == pytest.approx(values[int(np.argmin(costs))])
            assert (best.used[i], best.skipped[i]) == (1, 0)


@pytest.mark.parametrize("seed", range(4))
def test_given_triplets_are_solved_for_each_of_their_sources(seed):
    pairs = random_pairs(seed)
    triplets = [(0, 1, 2), (3, 1, 0), (4, 5, 2)]
    found = given_triplets(pairs, triplets)
    for i in range(6):
        values, skipped = [], 0
        for triplet in triplets:
            if i in triplet:
                j, k = (x for x in triplet if x != i)
                valid = pairs.comparable[i, j] and pairs.comparable[i, k] and pairs.denominator[j, k]
                if valid:
                    ratio = pairs.second[i, j] * pairs.second[i, k] / pairs.second[j, k]
                    values.append(np.sqrt(abs(ratio)))
                skipped += not valid
        assert (found.used[i], found.skipped[i]) == (len(values), skipped)
        expected = np.mean(values) if values else np.nan
        assert found.values[i] == pytest.approx(expected, nan_ok=True)


# ---------------------------------------------------------------------- draws, groups and triples


def test_votes_are_drawn_by_the_tables_whatever_the_order_of_the_sources():
    tables = np.array([[[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], [[0.5, 0.5, 0.0], [0.2, 0.8, 0.0]]])
    votes, y = draw_votes(tables, np.array([0.3, 0.7]))
    assert np.mean(y) == pytest.approx(0.7, abs=0.02)
    for i, k, v in itertools.product(range(2), range(2), range(3)):
        assert np.mean(votes[y == k, i] == (-1, 1, 0)[v]) == pytest.approx(tables[i, k, v], abs=0.02)
    swapped, _ = draw_votes(tables[::-1], np.array([0.3, 0.7]))
    np.testing.assert_array_equal(swapped[:, ::-1], votes)
    assert abs(np.corrcoef(votes[y == 0].T)[0, 1]) < 0.04


@pytest.mark.parametrize("n", [4, 37])
def test_errors_of_groups_are_those_of_a_jackknife(n):
    values = np.random.default_rng(n).normal(size=n)
    left_out = []

    def refit(rows):
        left_out.append(sorted(set(range(n)) - set(rows.tolist())))
        return values[rows].mean(keepdims=True)

    found = group_errors(refit, n)
    groups = min(10, n)
    assert sorted(itertools.chain(*left_out)) == list(range(n))  # each item is left out once
    means = np.array([np.delete(values, rows).mean() for rows in left_out])
    spread = np.sqrt((groups - 1) / groups * ((means - means.mean()) ** 2).sum())
    factor = stats.t.ppf(0.975, groups - 1) / stats.norm.ppf(0.975)
    assert found[0] == pytest.approx(spread * factor)


def test_triples_are_products_from_three_groups():
    rng = np.random.default_rng(0)
    values, groups = rng.normal(size=(5, 6)), np.array([0, 1, 1, 2, 3, 3])
    expected = [
        sum(
            row[i] * row[j] * row[k]
            for i, j, k in itertools.combinations(range(6), 3)
            if len({groups[i], groups[j], groups[k]}) == 3
        )
        for row in values
    ]
    np.testing.assert_allclose(_triples(values, groups), expected)
    alone = [sum(np.prod(c) for c in itertools.combinations(row, 3)) for row in values]
    np.testing.assert_allclose(_triples(values, np.arange(6)), alone)


@pytest.mark.parametrize(("expected", "error", "is_usable"), [
    (0.2, 0.15, True), (0.2, 0.151, False), (np.nan, 0.1, False), (0.2, np.inf, False),
])  # fmt: skip
def test_a_balance_is_used_if_its_error_is_small(expected, error, is_usable):
    found = BalanceEstimate(expected, error)
    assert found.is_usable == is_usable
    np.testing.assert_allclose(found.balance, [(1 - expected) / 2, (1 + expected) / 2])


# ---------------------------------------------------------------------- balances that users pass


def test_balances_of_one_task():
    classes = ("a", "b", "c")
    assert resolve_balance(None, classes) is None
    assert resolve_balance("estimate", classes) == "estimate"
    np.testing.assert_allclose(resolve_balance("uniform", classes), 1 / 3)
    by_name = {"c": 0.5, "a": 0.2, "b": 0.3}
    np.testing.assert_allclose(resolve_balance(by_name, classes), [0.2, 0.3, 0.5])
    rounded = resolve_balance([0.333, 0.333, 0.333], classes)  # a sum of .999 was rounded
    assert rounded.sum() == pytest.approx(1, abs=1e-15)
    for wrong in ([0.5, 0.5], [0.5, 0.5, 0.0], [0.5, 0.3, 0.3], [0.332] * 3, [np.nan, 0.5, 0.5], "even",
                  {"a": 1.0}, [0.5, 0.5, 1e-13]):  # fmt: skip
        with pytest.raises(OptionError, match="class_balance"):
            resolve_balance(wrong, classes)


def test_balances_of_several_tasks():
    one = resolve_task_balance([0.3, 0.7], (0, 1), 3)
    assert len(one.tasks) == 3
    for task in one.tasks:
        np.testing.assert_allclose(task, [0.3, 0.7])
    each = resolve_task_balance([[0.3, 0.7], [0.6, 0.4]], (0, 1), 2)  # rows sum to 1
    np.testing.assert_allclose(each.tasks, [[0.3, 0.7], [0.6, 0.4]])
    assert each.joint is None
    table = np.array([[0.1, 0.2], [0.3, 0.4]])
    for given in (table, table.ravel()):
        joint = resolve_task_balance(given, (0, 1), 2)
        np.testing.assert_allclose(joint.joint, table)
        np.testing.assert_allclose(joint.tasks, [[0.3, 0.7], [0.4, 0.6]])
    for wrong in (np.full((2, 2), 0.3), [[0.5, 0.5, 0.0], [0, 0, 1]], [[0.5, 0.5], [0.0, 0.0]]):
        with pytest.raises(OptionError, match="class_balance"):
            resolve_task_balance(wrong, (0, 1), 2)


# ---------------------------------------------------------------------- accuracies from a given balance


def signed_votes(n, accuracies, share, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1, -1)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], -y[:, None])
    return SignedMoments.of(Moments.of(np.where(votes > 0, 1, 0)))


def test_accuracies_follow_from_mean_votes_and_from_products_with_the_clearest_source():
    """E[λᵢ] = aᵢE[Y] and E[λᵢλᵣ] = aᵢaᵣ, pooled by their precision; errors of quotients add up."""
    signed = signed_votes(3_000, [0.9, 0.75, 0.6], 0.8)
    found, errors = accuracies_from_balance(signed, np.array([0.2, 0.8]), ("a", "b", "c"))
    mean, n = signed.mean, 3_000
    noise = np.sqrt((1 - mean**2) / n)
    reference = int(np.argmax(mean / noise))
    base, base_error = mean[reference] / 0.6, noise[reference] / 0.6
    assert found[reference] == pytest.approx(base)
    assert errors[reference] == pytest.approx(base_error)
    for i in set(range(3)) - {reference}:
        product = signed.second[reference, i]
        product_error = np.sqrt((1 - product**2) / n)
        by_product = product / base
        error = np.hypot(product_error / base, by_product * base_error / base)
        own = noise[i] / 0.6
        precision = own**-2 + error**-2
        expected = (mean[i] / 0.6 * own**-2 + by_product * error**-2) / precision
        assert (found[i], errors[i]) == pytest.approx((expected, precision**-0.5), rel=1e-3)
    groups = np.full(3, 7)  # dependent sources are not compared
    alone, alone_errors = accuracies_from_balance(signed, np.array([0.2, 0.8]), ("a", "b", "c"), groups)
    np.testing.assert_allclose(alone, mean / 0.6)
    np.testing.assert_allclose(alone_errors, noise / 0.6)


def test_a_balance_near_even_and_mean_votes_near_0_determine_nothing():
    signed = signed_votes(400, [0.9, 0.75], 0.8)
    noise = np.sqrt((1 - signed.mean**2) / 400)
    needed = 3 * noise[int(np.argmax(np.abs(signed.mean) / noise))]  # three standard errors
    for expected, is_refused in ((0.99 * needed, True), (1.01 * needed, False), (0.0, True)):
        balance = np.array([1 - expected, 1 + expected]) / 2
        if is_refused:
            with pytest.raises(NotIdentifiableError, match="E\\[Y\\]"):
                accuracies_from_balance(signed, balance, ("a", "b"))
        else:
            assert np.isfinite(accuracies_from_balance(signed, balance, ("a", "b"))[0]).all()
    even = SignedMoments.of(Moments.of(np.tile([[0, 0], [1, 1], [0, 1], [1, 0]], (100, 1))))
    with pytest.raises(NotIdentifiableError, match="mean vote"):
        accuracies_from_balance(even, np.array([0.2, 0.8]), ("a", "b"))
