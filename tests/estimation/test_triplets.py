"""The triplet method, against numbers worked by hand and a loop over triplets."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation import triplets
from flyingsquid.estimation.sources import SignedMoments, comparable_pairs, flag_sources
from tests.oracle.star import augmented_second_moments
from tests.support.strategies import fittable_votes


def pairs_of(second: np.ndarray, denominator: np.ndarray | None = None) -> triplets.Pairs:
    comparable = ~np.eye(len(second), dtype=bool)
    strong = comparable if denominator is None else denominator
    return triplets.Pairs(second, np.full_like(second, 0.1), comparable, strong)


def test_three_sources_worked_by_hand():
    """a₁² = .48 · .40 / .30 = .64, and likewise .36 and .25."""
    pairs = pairs_of(np.array([[0, 0.48, 0.40], [0.48, 0, 0.30], [0.40, 0.30, 0]]))
    for solve in (triplets.all_triplets_mean, triplets.all_triplets_median, triplets.strongest_triplet):
        np.testing.assert_allclose(solve(pairs).values, [0.8, 0.6, 0.5], rtol=1e-12)


def loop_over_triplets(pairs: triplets.Pairs, i: int) -> tuple[list[float], int]:
    values, skipped = [], 0
    others = [j for j in range(len(pairs.second)) if j != i]
    for j, k in itertools.combinations(others, 2):
        if not (pairs.comparable[i, j] and pairs.comparable[i, k] and pairs.comparable[j, k]):
            continue
        if pairs.denominator[j, k]:
            square = abs(pairs.second[i, j] * pairs.second[i, k] / pairs.second[j, k])
            values.append(float(np.sqrt(square)))
        else:
            skipped += 1
    return values, skipped


@pytest.mark.parametrize("masked", [False, True])
def test_matrix_products_equal_a_loop_over_triplets(masked):
    rng = np.random.default_rng(0)
    second = rng.uniform(-1, 1, (9, 9))
    second = (second + second.T) / 2
    comparable = ~np.eye(9, dtype=bool)
    if masked:
        comparable &= ~((mask := rng.random((9, 9)) < 0.2) | mask.T)
    denominator = comparable & (np.abs(second) > 0.2)
    pairs = triplets.Pairs(second, np.full((9, 9), 0.1), comparable, denominator)
    mean, median = triplets.all_triplets_mean(pairs), triplets.all_triplets_median(pairs)
    for i in range(9):
        values, skipped = loop_over_triplets(pairs, i)
        assert mean.values[i] == pytest.approx(np.mean(values), rel=1e-12)
        assert median.values[i] == pytest.approx(np.median(values), rel=1e-12)
        assert (mean.used[i], mean.skipped[i]) == (len(values), skipped)
        assert (median.used[i], median.skipped[i]) == (len(values), skipped)


def test_a_vanishing_denominator_is_skipped_not_counted_as_zero():
    second = np.outer([0.8, 0.6, 0.5, 0.7], [0.8, 0.6, 0.5, 0.7])
    second[1, 2] = second[2, 1] = 0.0  # noise carried the agreement of 1 and 2 to exactly 0
    np.fill_diagonal(second, 0)
    denominator = ~np.eye(4, dtype=bool) & (second != 0)
    mean = triplets.all_triplets_mean(pairs_of(second, denominator))
    assert mean.values[0] == pytest.approx(0.8)
    assert (mean.used[0], mean.skipped[0]) == (2, 1)


def test_the_strongest_triplet_is_the_one_with_the_least_noise():
    second = np.outer([0.8, 0.6, 0.5, 0.7], [0.8, 0.6, 0.5, 0.7])
    error = np.full((4, 4), 0.01)
    second[0, 2] = second[2, 0] = 0.9  # wrong, and known to be unreliable
    error[0, 2] = error[2, 0] = 10.0
    pairs = triplets.Pairs(second, error, ~np.eye(4, dtype=bool), ~np.eye(4, dtype=bool))
    assert triplets.strongest_triplet(pairs).values[0] == pytest.approx(0.8)
    assert triplets.all_triplets_mean(pairs).values[0] > 0.9


def test_equally_strong_triplets_are_averaged_so_that_order_decides_nothing():
    second = np.outer([0.8, 0.6, 0.6, 0.6], [0.8, 0.6, 0.6, 0.6])
    second[1, 2] = second[2, 1] = 0.3
    error = np.abs(second) / 10
    off_diagonal = ~np.eye(4, dtype=bool)
    pairs = triplets.Pairs(second, error, off_diagonal, off_diagonal)
    expected = np.mean([np.sqrt(0.48**2 / 0.3), 0.8, 0.8])
    assert triplets.strongest_triplet(pairs).values[0] == pytest.approx(expected)


def test_given_triplets_are_solved_for_their_three_sources_and_averaged():
    second = np.outer([0.8, 0.6, 0.5, 0.7], [0.8, 0.6, 0.5, 0.7])
    second[2, 3] = second[3, 2] = 0.2
    solved = triplets.given_triplets(pairs_of(second), [(0, 1, 2), (1, 3, 2)])
    assert solved.values[0] == pytest.approx(0.8)
    by_hand = [np.sqrt(0.48 * 0.30 / 0.40), np.sqrt(0.42 * 0.30 / 0.20)]
    assert solved.values[1] == pytest.approx(np.mean(by_hand))
    assert solved.used.tolist() == [1, 2, 2, 1]


def test_screening_skips_denominators_within_one_standard_error():
    signed = SignedMoments.of(fs.Moments.of(fittable_votes(0, n_items=300)))
    comparable = comparable_pairs(signed, flag_sources(signed))
    everything = triplets.Pairs.of(signed, comparable, 0.0)
    screened = triplets.Pairs.of(signed, comparable, 4.0)
    assert everything.denominator.sum() == comparable.sum()
    expected = comparable & (np.abs(signed.second) >= 4 * signed.standard_error)
    np.testing.assert_array_equal(screened.denominator, expected)
    assert 0 < expected.sum() < comparable.sum()


def test_moments_equal_the_papers_augmentation_averaged_over_its_coins():
    """Never drawing the coins loses nothing: for distinct sources the expectations agree."""
    votes = np.random.default_rng(0).integers(-1, 2, (60, 4))
    signed = np.where(votes == -1, 0, 2 * votes - 1)
    ours = SignedMoments.of(fs.Moments.of(votes)).second
    theirs = augmented_second_moments(signed)
    off_diagonal = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(ours[off_diagonal], theirs[off_diagonal], atol=1e-14)
