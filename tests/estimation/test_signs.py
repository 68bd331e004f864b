"""ResolveSigns, both ways of the paper's appendix."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation import triplets
from flyingsquid.estimation.signs import relative_signs, standard_error_of_sum
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
    """Too few shared items to say how two groups relate: each is decided on its own."""
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
