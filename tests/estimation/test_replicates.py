"""Self-agreement of judges: bounds, counts by hand, intervals and weights."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.replicates import (
    accuracy_bound,
    combine_replicates,
    compare_replicates,
    consistency_weights,
    support_of_accuracies,
)


@pytest.mark.parametrize("n_classes", [2, 3, 10])
def test_the_bound_is_the_accuracy_if_all_errors_are_random_and_uniform(n_classes):
    accuracy = np.linspace(1 / n_classes, 1, 20)
    agreement = accuracy**2 + (1 - accuracy) ** 2 / (n_classes - 1)
    np.testing.assert_allclose(accuracy_bound(agreement, n_classes), accuracy, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_no_judge_with_independent_answers_exceeds_the_bound(n_classes):
    """Whatever the probabilities of the answers to each item are."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        p = rng.dirichlet(np.full(n_classes, rng.uniform(0.05, 2)), size=30)
        agreement, accuracy = float((p**2).sum(axis=1).mean()), float(p[:, 0].mean())
        assert accuracy <= accuracy_bound(agreement, n_classes) + 1e-12


@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_the_bound_allows_for_items_decided_by_position(share):
    accuracy = 0.85  # of the other items
    agreement = (1 - share) * (accuracy**2 + (1 - accuracy) ** 2)
    expected = share / 2 + (1 - share) * accuracy
    for position in (share, -share):
        assert accuracy_bound(agreement, 2, position) == pytest.approx(expected, abs=1e-8)


def test_three_judges_counted_by_hand():
    answers = np.array(
        # steady, first position, repeats differ
        [
            [[0, 0], [0, 1], [1, 0]],
            [[1, 1], [0, 1], [0, 0]],
            [[0, 0], [0, 0], [1, 1]],
            [[1, -1], [0, 1], [1, 1]],
        ]
    )
    votes = fs.Votes.from_panel(answers, judges=["steady", "first", "other"], classes=[0, 1])
    found = compare_replicates(votes)
    assert found.n_swapped.tolist() == [3, 4, 4]
    np.testing.assert_allclose(found.swapped, [1, 0.25, 0.75])
    np.testing.assert_allclose(found.position, [0, 0.75, -0.25])
    assert np.isnan(found.repeated).all()
    assert (found.swapped_interval[:, 0] <= found.swapped).all()
    assert (found.bound <= 1).all()
    weighted = compare_replicates(votes, np.array([1, 0, 2, 1]))
    np.testing.assert_allclose(weighted.swapped, [1, 0.5, 0.75])


def test_repeats_give_the_bound_if_there_are_no_orders():
    answers = np.array([[0, 0], [1, 1], [1, 0], [1, 1]])
    votes = fs.Votes.from_classes(answers, names=["a@0", "a@1"], classes=[0, 1]).with_structure(
        "{judge}@{repeat}"
    )
    found = compare_replicates(votes)
    assert found.repeated.tolist() == [0.75]
    assert np.isnan(found.swapped).all()
    assert found.bound[0] == pytest.approx((1 + np.sqrt(0.5)) / 2)


def test_answers_are_combined_by_their_majority():
    answers = np.array([[[0, 0, 1]], [[2, 1, 2]], [[0, 1, 2]], [[-1, 1, -1]], [[-1, -1, -1]], [[1, 0, -1]]])
    votes = fs.Votes.from_panel(answers[:, :, None, :], classes=[0, 1, 2])
    assert combine_replicates(votes).codes[:, 0].tolist() == [0, 2, -1, 1, -1, -1]


def test_intervals_hold_the_self_agreement():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(200):
        first = rng.integers(0, 2, (150, 1, 1))
        second = np.where(rng.random((150, 1, 1)) < 0.8, first, 1 - first)
        found = compare_replicates(
            fs.Votes.from_panel(np.concatenate([first, second], axis=2), classes=[0, 1])
        )
        low, high = found.swapped_interval[0]
        held.append(low <= 0.8 <= high and found.bound_interval[0, 0] <= accuracy_bound(0.8, 2))
    assert np.mean(held) > 0.91


def test_errors_of_self_agreement_fall_with_the_root_of_the_number_of_items():
    rng = np.random.default_rng(1)

    def error(n):
        found = []
        for _ in range(200):
            right = rng.random((n, 1, 2)) < 0.85
            found.append(compare_replicates(fs.Votes.from_panel(right.astype(int), classes=[0, 1])).bound[0])
        return np.sqrt(np.mean((np.array(found) - 0.85) ** 2))

    assert error(100) / error(1600) == pytest.approx(4, rel=0.3)


def panel(agreement):
    """Return votes of judges with given self-agreements on 1,000 items."""
    first = np.random.default_rng(0).integers(0, 2, (1000, len(agreement)))
    flips = np.arange(1000)[:, None] / 1000 >= np.array(agreement)
    return fs.Votes.from_panel(np.stack([first, np.where(flips, 1 - first, first)], axis=2), classes=[0, 1])


def test_consistent_judges_count_more_only_if_one_is_reliable():
    weights, share = consistency_weights(compare_replicates(panel([0.97, 0.8, 0.6])), np.ones(3, bool))
    assert share == pytest.approx(1.0)
    assert weights[0] > 2 * weights[1] > 2 * weights[2]
    weights, share = consistency_weights(compare_replicates(panel([0.84, 0.7, 0.6])), np.ones(3, bool))
    assert share == 0
    assert weights.tolist() == [1, 1, 1]


def test_a_judge_without_swaps_has_the_mean_weight():
    votes = panel([0.97, 0.8, 0.6, 0.9])
    votes = votes[:, [0, 1, 2, 3, 4, 5, 6]]  # the last judge was asked in one order
    weights, _ = consistency_weights(compare_replicates(votes), np.ones(4, bool))
    assert weights[3] == pytest.approx(weights[:3].mean())


def test_a_judge_that_no_other_confirms_has_the_mean_weight():
    found = compare_replicates(panel([0.97, 0.93, 0.6]))
    weights, share = consistency_weights(found, np.array([False, True, True]))
    assert 0 < share < 1
    assert weights[1] > weights[0] > weights[2]
    assert consistency_weights(found, np.zeros(3, bool))[1] == 0


def test_a_judge_that_always_gives_the_same_answer_has_no_signal():
    answers = np.asarray(panel([0.97, 0.9, 0.6]).codes).reshape(1000, 3, 2).copy()
    answers[:, 0] = 1
    found = compare_replicates(fs.Votes.from_panel(answers, classes=[0, 1]))
    weights, _ = consistency_weights(found, np.ones(3, bool))
    assert found.swapped[0] == 1
    assert weights[0] < weights[1]


def test_accuracies_that_contradict_self_agreement_are_not_supported():
    found = compare_replicates(panel([0.97, 0.9, 0.7, 0.6]))
    assert support_of_accuracies(found, np.array([0.9, 0.85, 0.7, 0.6])) == 1
    assert support_of_accuracies(found, np.array([0.6, 0.65, 0.8, 0.9])) == 0
    even = compare_replicates(panel([0.9, 0.9, 0.91, 0.9]))
    assert support_of_accuracies(even, np.array([0.6, 0.65, 0.5, 0.9])) == 1


def signal(agreement, chance, n):
    """Agreement beyond chance, shrunk to chance by four items."""
    return max((n * agreement + 4 * chance) / (n + 4) - chance, 0) / (1 - chance)


@pytest.mark.parametrize("first", [0.88, 0.93, 0.97])
def test_weights_are_phased_in_by_the_signal_of_the_most_consistent_judge(first):
    found = compare_replicates(panel([first, 0.8, 0.6]))
    rho = np.array([signal(a, c, 1000) for a, c in zip(found.swapped, found.chance, strict=True)])
    share = min(max((rho[0] - 0.7) / 0.2, 0), 1)
    by_noise = rho / (1 - rho + 0.1)
    weights, found_share = consistency_weights(found, np.ones(3, bool))
    assert found_share == pytest.approx(share)
    np.testing.assert_allclose(weights, 1 - share + share * by_noise / by_noise.mean())


def test_a_judge_asked_once_has_half_of_the_equal_weight():
    votes = panel([0.84, 0.7, 0.6])[:, [0, 1, 2, 3, 4]]  # the last judge was asked in one order
    weights, share = consistency_weights(compare_replicates(votes), np.ones(3, bool))
    assert share == 0
    assert weights.tolist() == [1, 1, 0.5]
    votes = panel([0.92, 0.7, 0.6])[:, [0, 1, 2, 3, 4]]
    found = compare_replicates(votes)
    weights, share = consistency_weights(found, np.ones(3, bool))
    rho = np.array([signal(a, c, 1000) for a, c in zip(found.swapped[:2], found.chance[:2], strict=True)])
    by_noise = rho / (1.1 - rho)
    mean = by_noise.mean()  # the third one has the mean of the others
    expected = (1 - share) * np.array([1, 1, 0.5]) + share * np.append(by_noise, mean) / mean
    np.testing.assert_allclose(weights, expected)


def test_chance_and_intervals_of_position():
    answers = np.array([[[0, 1]], [[0, 1]], [[1, 1]], [[0, 0]], [[1, 0]]])
    found = compare_replicates(fs.Votes.from_panel(answers, classes=[0, 1]))
    assert found.chance[0] == pytest.approx(0.5**2 + 0.5**2)
    assert found.swapped[0] == pytest.approx(2 / 5)
    assert found.position[0] == pytest.approx(1 / 5)  # two for the first position, one for the second
    reach = 1.959963984540054 * np.sqrt((5 / 9 - (1 / 9) ** 2) / 5)  # four pairs are added to the variance
    np.testing.assert_allclose(found.position_interval[0], [1 / 5 - reach, 1 / 5 + reach])
    three = compare_replicates(fs.Votes.from_panel(answers, classes=[0, 1, 2]))
    assert np.isnan(three.position).all()
    assert three.bound[0] == pytest.approx(float(accuracy_bound(2 / 5, 3)))


def test_support_falls_with_a_negative_correlation_of_skill_and_signal():
    found = compare_replicates(panel([0.97, 0.9, 0.7, 0.6]))
    skill = np.sqrt(
        [
            signal(a, c, 1000)
            for a, c in zip(found.swapped / (1 - abs(found.position)), found.chance, strict=True)
        ]
    )
    accuracies = np.array([0.8, 0.6, 0.7, 0.8])
    correlation = np.corrcoef(skill, accuracies)[0, 1]
    assert -0.5 < correlation < 0
    assert support_of_accuracies(found, accuracies) == pytest.approx(1 + correlation / 0.5)
    assert support_of_accuracies(found, np.full(4, 0.7)) == 1
    two = compare_replicates(panel([0.97, 0.6]))
    assert support_of_accuracies(two, np.array([0.6, 0.9])) == 1
