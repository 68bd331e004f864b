"""Both variants of ResolveSigns in the paper's appendix."""

from __future__ import annotations

import contextlib
import itertools
import warnings

import numpy as np
import pytest
from scipy import optimize

import flyingsquid as fs
from flyingsquid.estimation import triplets
from flyingsquid.estimation.signs import (
    SignKnowledge,
    _flip_outvoted,
    orient,
    relative_signs,
    standard_error_of_sum,
)
from flyingsquid.estimation.sources import SignedMoments, comparable_pairs, flag_sources
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from tests.support.errors import mentions
from tests.support.strategies import draw

MIXED = np.array([0.9, 0.2, 0.8, 0.3, 0.75, 0.7, 0.25, 0.8])


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_three_of_eight_sources_below_chance_all_signs_right(p):
    sample = draw(MIXED, coverage=0.7, class_balance=[1 - p, p])
    model = fs.LabelModel(method="triplet", class_balance=[1 - p, p]).fit(sample.votes)
    np.testing.assert_array_equal(model.accuracies_ > 0.5, MIXED > 0.5)
    assert model.score(sample.votes, sample.y) > 0.9


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_an_anchor_overrides_the_average():
    majority_wrong = 1 - MIXED
    sample = draw(majority_wrong)
    assert fs.LabelModel(method="triplet").fit(sample.votes).score(sample.votes, sample.y) < 0.1
    anchored = fs.LabelModel(signs={1: +1}).fit(sample.votes)
    np.testing.assert_array_equal(anchored.accuracies_ > 0.5, majority_wrong > 0.5)
    assert anchored.score(sample.votes, sample.y) > 0.9
    negative = fs.LabelModel(signs={"source 0": -1}).fit(sample.votes)
    np.testing.assert_allclose(negative.accuracies_, anchored.accuracies_)


def test_balanced_signs_raise_and_an_anchor_settles_them():
    sample = draw([0.8, 0.8, 0.7, 0.2, 0.2, 0.3])
    with pytest.raises(NotIdentifiableError, match=mentions("6 sources", "signs={'source 0': +1}")):
        fs.LabelModel(method="triplet").fit(sample.votes)
    model = fs.LabelModel(signs={0: 1}).fit(sample.votes)
    np.testing.assert_array_equal(model.accuracies_ > 0.5, [True] * 3 + [False] * 3)


def test_anchors_that_contradict_each_other_raise():
    sample = draw([0.8, 0.8, 0.7, 0.7])
    with pytest.raises(NotIdentifiableError, match="`signs` must be consistent"):
        fs.LabelModel(signs={0: 1, 1: -1}).fit(sample.votes)


@pytest.mark.parametrize(
    ("signs", "message"),
    [
        ("positive", "`signs`.*got 'positive'"),
        ({}, "`signs`.*got {}"),
        ({0: 2}, r"`signs\[0\]`.*got 2"),
        ({9: 1}, "`signs`.*from 0 to 2; got 9"),
        ({"nobody": 1}, "`signs`.*got 'nobody'"),
        ({0.5: 1}, "`signs`.*got 0.5"),
        ({0: 1, "source 0": 1}, "twice"),
    ],
)
def test_bad_signs_are_refused(signs, message):
    with pytest.raises(OptionError, match=message):
        fs.LabelModel(signs=signs).fit(draw([0.8, 0.8, 0.7]).votes)


def test_sources_that_only_ever_disagree_are_not_taken_for_adversaries():
    """A rule that only says yes and one that only says no never agree, and both may be good."""
    sample = draw([0.85] * 8, coverage=0.5)
    codes = sample.votes.codes.copy()
    codes[:, :4][codes[:, :4] == 0] = -1
    codes[:, 4:][codes[:, 4:] == 1] = -1
    for votes in (codes, np.column_stack([codes, sample.votes.codes[:, ::-1]])):
        with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
            model = fs.LabelModel(method="triplet").fit(votes)
        assert (model.confusion_[:4, 1, 1] > model.confusion_[:4, 0, 1]).all()
        assert (model.confusion_[4:8, 0, 0] > model.confusion_[4:8, 1, 0]).all()
        assert model.score(votes, sample.y) > 0.85


def test_groups_that_never_meet_get_their_signs_apart():
    left, right = draw([0.8, 0.7, 0.8, 0.2], seed=1), draw([0.8, 0.3, 0.8, 0.7], seed=2)
    nothing = np.full_like(left.votes.codes, -1)
    votes = np.block([[left.votes.codes, nothing], [nothing, right.votes.codes]])
    model = fs.LabelModel(method="triplet").fit(votes)
    expected = [True, True, True, False, True, False, True, True]
    np.testing.assert_array_equal(model.accuracies_ > 0.5, expected)


def test_one_misleading_link_is_outvoted():
    truth = np.array([1, 1, -1, 1, -1, 1])
    agreement = 0.1 * np.outer(truth, truth)
    agreement[0, 1] = agreement[1, 0] = -0.3  # strongest, and wrong
    off_diagonal = ~np.eye(6, dtype=bool)
    signs, group = relative_signs(agreement, np.ones((6, 6)), 1_000, off_diagonal)
    assert abs(signs @ truth) == 6
    assert (group == 0).all()


@pytest.mark.parametrize("shared", [1, 3, 10])
def test_noise_does_not_tie_groups_together(shared):
    """Too few shared items to compare two groups: the sign of each is decided separately."""
    for seed in range(30):
        votes = draw([0.75] * 8, n=4_000, seed=seed).votes.codes.copy()
        votes[2_000 + shared :, :5], votes[:2_000, 5:] = -1, -1
        # A refusal is an answer, "could not be judged" is one too; a wrong sign is not.
        with contextlib.suppress(NotIdentifiableError), warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
            assert (fs.LabelModel(method="triplet").fit(votes).accuracies_ > 0.5).all()


def test_groups_are_joined_by_evidence_pooled_over_their_pairs():
    truth = np.array([1, 1, 1, -1, -1, -1])
    agreement = 0.5 * np.outer(truth, truth)
    agreement[:3, 3:] = agreement[3:, :3] = -0.09
    overlap = np.ones((6, 6))
    off_diagonal = ~np.eye(6, dtype=bool)
    for n, n_groups in ((300, 2), (600, 1)):
        signs, group = relative_signs(agreement, overlap, n, off_diagonal)
        assert len(set(group)) == n_groups
        if n_groups == 1:
            assert abs(signs @ truth) == 6


@pytest.mark.parametrize("p", [0.7, 0.9])
def test_batches_that_share_few_items_keep_their_signs(p):
    """Abstaining depends on the batch, so covariances between batches are negative; agreement is not."""
    sample = draw([0.8] * 8, n=6_000, class_balance=[1 - p, p])
    votes = sample.votes.codes.copy()
    votes[4_000:, :5], votes[:3_900, 5:] = -1, -1
    model = fs.LabelModel(method="triplet", class_balance=[1 - p, p]).fit(votes)
    assert (model.accuracies_ > 0.6).all()


@pytest.mark.parametrize(("n", "p"), [(100_000, 0.001), (2_000, 0.05)])
def test_imbalanced_classes_keep_their_signs(n, p):
    for seed in range(10):
        sample = draw([0.9, 0.85, 0.8, 0.75, 0.7, 0.65], n=n, seed=seed, class_balance=[1 - p, p])
        model = fs.LabelModel(method="triplet", class_balance=[1 - p, p]).fit(sample.votes)
        assert (model.accuracies_ > 0.5).all()


def test_a_one_sided_source_may_be_right_less_than_half_of_the_time():
    """It fires on 30% of the positives and 5% of the negatives, which are nine times as many."""
    rng, n = np.random.default_rng(0), 200_000
    y = rng.random(n) < 0.1
    right = rng.random((n, 4)) < 0.8
    votes = np.where(right, y[:, None], ~y[:, None]).astype(np.int8)
    rule = np.where(rng.random(n) < np.where(y, 0.3, 0.05), 1, -1)
    with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
        model = fs.LabelModel(method="triplet", class_balance=[0.9, 0.1]).fit(np.column_stack([votes, rule]))
    assert model.accuracies_[4] < 0.5  # 0.4 in truth
    np.testing.assert_allclose(model.accuracies_[:4], 0.8, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("accuracies", "n"), [([0.7] * 8, 2_000), ([0.75] * 3, 1_500)])
def test_standard_error_of_the_sum_is_calibrated(accuracies, n):
    rng, sums, errors = np.random.default_rng(0), [], []
    for _ in range(200):
        votes = fs.datasets.simulate(n, accuracies, coverage=0.8, random_state=rng).votes
        signed = SignedMoments.of(fs.Moments.of(votes))
        pairs = triplets.Pairs.of(signed, comparable_pairs(signed, flag_sources(signed)), 1.0)
        estimate = np.minimum(triplets.all_triplets_mean(pairs).values, signed.coverage)
        sums.append(estimate.sum())
        weights = pairs.comparable / np.maximum(n * pairs.standard_error**2, 0.01)
        errors.append(standard_error_of_sum(estimate, weights, signed.coverage, n))
    assert np.mean(errors) == pytest.approx(np.std(sums), rel=0.2)


# ---------------------------------------------------------------------- definitions


def best_sum(moments, weights, start):
    """Σ aᵢ of the weighted least-squares fit of Mᵢⱼ = aᵢaⱼ, by Newton's method on its gradient."""

    def gradient(a):
        return (weights * (np.outer(a, a) - moments)) @ a

    found = optimize.root(gradient, start, tol=1e-13)
    return found.x.sum()


def test_standard_error_of_the_sum_follows_from_perturbations_of_the_pairs():
    """Scores aᵢ + Uᵢ with independent U: the first-order change of the sum, and the squares of products."""
    rng = np.random.default_rng(0)
    a = np.array([0.7, -0.5, 0.6, 0.4, 0.3])
    weights = rng.uniform(0.5, 2, (5, 5))
    weights = (weights + weights.T) * (1 - np.eye(5))
    variance = a**2 + rng.uniform(0.2, 0.6, 5)
    spread, n = variance - a**2, 400
    change = np.zeros((5, 5))
    for i in range(5):
        for j in range(i + 1, 5):
            step = np.zeros((5, 5))
            step[i, j] = step[j, i] = 1e-5
            up, down = (best_sum(np.outer(a, a) + sign * step, weights, a) for sign in (1, -1))
            change[i, j] = change[j, i] = (up - down) / 2e-5
    linear = sum(spread[i] * (change[i] @ a) ** 2 for i in range(5))
    products = sum(change[i, j] ** 2 * spread[i] * spread[j] for i in range(5) for j in range(i + 1, 5))
    found = standard_error_of_sum(a, weights, variance, n)
    assert found == pytest.approx(np.sqrt((linear + products) / n), rel=1e-4)
    # Sources without accuracy have no part.
    padded = standard_error_of_sum(
        np.append(a, 0.0), np.pad(weights, (0, 1), constant_values=1.0), np.append(variance, 1.0), n
    )
    assert padded == pytest.approx(found)


@pytest.mark.parametrize("seed", range(5))
def test_relative_signs_are_the_most_supported_ones(seed):
    """Among all signs of six sources, by enumeration, if every pair is significant."""
    rng = np.random.default_rng(seed)
    truth = rng.choice([-1, 1], 6)
    agreement = np.outer(truth, truth) * rng.uniform(0.2, 0.5, (6, 6))
    i, j = rng.choice(6, 2, replace=False)
    agreement[i, j] *= -1  # one link contradicts the others
    agreement = np.triu(agreement, 1) + np.triu(agreement, 1).T
    signs, group = relative_signs(agreement, np.ones((6, 6)), 400, ~np.eye(6, dtype=bool))
    every = np.array(list(itertools.product([-1, 1], repeat=6)))
    best = max(s @ agreement @ s for s in every)
    assert signs @ agreement @ signs == pytest.approx(best)
    assert not group.any()


def test_pairs_that_cannot_be_compared_are_no_evidence():
    agreement = np.full((4, 4), 0.5)
    agreement[0, 1] = agreement[1, 0] = -0.9
    comparable = ~np.eye(4, dtype=bool)
    comparable[0, 1] = comparable[1, 0] = False
    signs, group = relative_signs(agreement, np.ones((4, 4)), 400, comparable)
    assert abs(signs.sum()) == 4
    comparable[:2, 2:] = comparable[2:, :2] = False
    _, group = relative_signs(agreement, np.ones((4, 4)), 400, comparable)
    assert len(set(group.tolist())) == 3


def orient_all(magnitudes, *, anchors=None, preference=None, own=None, **changed):
    m = len(magnitudes)
    own = np.ones(m, bool) if own is None else own
    known = SignKnowledge(tuple("abcdefgh"[:m]), own, anchors or {}, preference)
    options = {
        "signs": np.ones(m), "group": np.zeros(m, int), "identified": np.ones(m, bool),
        "standard_error": lambda _: 0.1,
    } | changed  # fmt: skip
    return orient(magnitudes=np.asarray(magnitudes), known=known, **options)


def test_a_group_is_better_than_random_on_average():
    signs = np.array([1.0, -1, -1, -1])
    assert orient_all([0.5, 0.3, 0.3, 0.3], signs=signs).tolist() == [-1, 1, 1, 1]
    assert orient_all([0.5, 0.1, 0.1, 0.1], signs=signs, standard_error=lambda _: 0.05).tolist() == [
        1,
        -1,
        -1,
        -1,
    ]
    with pytest.raises(NotIdentifiableError):  # .2 is within two standard errors of 0
        orient_all([0.5, 0.1, 0.1, 0.1], signs=signs, standard_error=lambda _: 0.11)
    # A group with at most a tenth of all accuracy may stay undetermined.
    group = np.array([0, 0, 0, 0, 1, 1, 1])
    small = {"signs": np.array([1.0] * 5 + [-1, 1]), "group": group}
    assert orient_all([0.5] * 4 + [0.05, 0.1, 0.05], **small).tolist() == [1, 1, 1, 1, 0, 0, 0]
    with pytest.raises(NotIdentifiableError):
        orient_all([0.5] * 4 + [0.1, 0.1, 0.1], **small)


def test_a_pair_of_sources_is_better_than_random_unless_gold_labels_say_so_clearly():
    signs, pair = np.array([1.0, -1]), {"identified": np.zeros(2, bool)}
    assert orient_all([0.5, 0.3], signs=signs, **pair).tolist() == [1, 1]
    for wish, expected in ((7.9, [1, 1]), (8.0, [1, -1]), (-8.0, [-1, 1])):
        found = orient_all([0.5, 0.3], signs=signs, preference=lambda _, w=wish: w, **pair)
        assert found.tolist() == expected


@pytest.mark.parametrize(
    ("wish", "magnitude", "expected"),
    [(-1.9, 0.5, 1), (-7.9, 0.5, 1), (-8.0, 0.5, -1), (-2.0, 0.05, -1), (2.0, 0.05, 1)],
)
def test_gold_labels_decide_an_unclear_average_easily_and_a_clear_one_only_if_overwhelming(
    wish, magnitude, expected
):
    found = orient_all([magnitude] * 3, preference=lambda _: wish)
    assert found.tolist() == [expected] * 3


def test_anchors_are_weighted_by_the_strength_of_their_source():
    assert orient_all([0.5, 0.4, 0.3], anchors={0: -1}).tolist() == [-1, -1, -1]
    assert orient_all([0.5, 0.1, 0.3], anchors={0: -1, 1: 1}).tolist() == [-1, 1, -1]
    assert orient_all([0.1, 0.5, 0.3], anchors={0: -1, 1: 1}).tolist() == [-1, 1, 1]
    with pytest.raises(NotIdentifiableError):
        orient_all([0.5, 0.4, 0.3], anchors={0: -1, 1: 1})
    assert orient_all([0.0, 0.4, 0.3], anchors={0: -1}).tolist() == [-1, -1, -1]


def test_sources_of_other_tasks_do_not_count_in_the_average():
    signs = np.array([1.0, 1, 1, -1, -1])
    own = np.array([True, True, True, False, False])
    found = orient_all([0.3, 0.3, 0.3, 0.9, 0.9], signs=signs, own=own)
    assert found.tolist() == [1, 1, 1, -1, -1]


def test_items_of_pairs_that_cannot_be_compared_do_not_join_groups():
    """Two groups share one comparable pair on few items; other pairs of theirs would add items, not votes."""
    agreement, overlap = np.zeros((4, 4)), np.zeros((4, 4))
    for i, j in ((0, 1), (2, 3)):
        agreement[i, j] = agreement[j, i] = overlap[i, j] = overlap[j, i] = 0.5
    agreement[1, 2] = agreement[2, 1] = overlap[1, 2] = overlap[2, 1] = 0.01
    comparable = overlap > 0
    _, joined = relative_signs(agreement, overlap, 500, comparable)
    assert len(set(joined.tolist())) == 1  # five items, all in agreement: 2.2 standard errors
    _, apart = relative_signs(agreement, overlap, 300, comparable)
    assert len(set(apart.tolist())) == 2


@pytest.mark.parametrize("seed", range(20))
def test_no_source_is_outvoted_by_its_links(seed):
    rng = np.random.default_rng(seed)
    links = rng.standard_normal((12, 12))
    links = links + links.T
    np.fill_diagonal(links, 0)
    signs = _flip_outvoted(rng.choice([-1.0, 1.0], 12), links)
    assert (signs * (links @ signs) >= 0).all()
