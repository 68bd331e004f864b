"""ResolveSigns, both ways of the paper's appendix."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimate import triplets
from flyingsquid.estimate.flags import comparable_pairs, flag_sources
from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.estimate.signs import relative_signs, standard_error_of_sum
from flyingsquid.exceptions import NotIdentifiableError, OptionError

MIXED = np.array([0.9, 0.2, 0.8, 0.3, 0.75, 0.7, 0.25, 0.8])


def draw(accuracies, n=4_000, seed=0, **options):
    return fs.datasets.simulate(n, accuracies, rng=np.random.default_rng(seed), **options)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_three_of_eight_sources_below_chance_all_signs_right(p):
    sample = draw(MIXED, coverage=0.7, class_balance=[1 - p, p])
    model = fs.LabelModel(class_balance=[1 - p, p]).fit(sample.votes)
    np.testing.assert_array_equal(model.accuracies_ > 0.5, MIXED > 0.5)
    assert model.score(sample.votes, sample.y) > 0.9


def test_an_anchor_overrides_the_average():
    majority_wrong = 1 - MIXED
    sample = draw(majority_wrong)
    assert fs.LabelModel().fit(sample.votes).score(sample.votes, sample.y) < 0.1
    anchored = fs.LabelModel(signs={1: +1}).fit(sample.votes)
    np.testing.assert_array_equal(anchored.accuracies_ > 0.5, majority_wrong > 0.5)
    assert anchored.score(sample.votes, sample.y) > 0.9
    negative = fs.LabelModel(signs={"source 0": -1}).fit(sample.votes)
    np.testing.assert_allclose(negative.accuracies_, anchored.accuracies_)


def test_balanced_signs_raise_and_an_anchor_settles_them():
    sample = draw([0.8, 0.8, 0.7, 0.2, 0.2, 0.3])
    with pytest.raises(NotIdentifiableError, match=r"signs of 6 sources .*signs=\{'source 0': \+1\}"):
        fs.LabelModel().fit(sample.votes)
    model = fs.LabelModel(signs={0: 1}).fit(sample.votes)
    np.testing.assert_array_equal(model.accuracies_ > 0.5, [True] * 3 + [False] * 3)


def test_anchors_that_contradict_each_other_raise():
    sample = draw([0.8, 0.8, 0.7, 0.7])
    with pytest.raises(NotIdentifiableError, match="contradict each other"):
        fs.LabelModel(signs={0: 1, 1: -1}).fit(sample.votes)


@pytest.mark.parametrize(
    ("signs", "message"),
    [
        ("positive", "pass 'average'"),
        ({}, "pass 'average'"),
        ({0: 2}, "is 2"),
        ({9: 1}, "names source 9; there are 3"),
        ({"nobody": 1}, "names the source 'nobody'"),
        ({0.5: 1}, "by name or by position"),
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
    with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
        model = fs.LabelModel().fit(codes)
    assert (model.accuracies_ > 0.5).all()
    assert model.score(codes, sample.y) > 0.85


def test_groups_that_never_meet_get_their_signs_apart():
    left, right = draw([0.8, 0.7, 0.8, 0.2], seed=1), draw([0.8, 0.3, 0.8, 0.7], seed=2)
    nothing = np.full_like(left.votes.codes, -1)
    votes = np.block([[left.votes.codes, nothing], [nothing, right.votes.codes]])
    model = fs.LabelModel().fit(votes)
    expected = [True, True, True, False, True, False, True, True]
    np.testing.assert_array_equal(model.accuracies_ > 0.5, expected)


def test_one_misleading_link_is_outvoted():
    truth = np.array([1, 1, -1, 1, -1, 1])
    z = 4.0 * np.outer(truth, truth)
    z[0, 1] = z[1, 0] = -9.0  # strongest, and wrong
    np.fill_diagonal(z, 0)
    signs, group = relative_signs(z, z != 0)
    assert abs(signs @ truth) == 6
    assert (group == group[0]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("accuracies", "n"), [([0.7] * 8, 2_000), ([0.75] * 3, 1_500)])
def test_standard_error_of_the_sum_is_calibrated(accuracies, n):
    rng, sums, errors = np.random.default_rng(0), [], []
    for _ in range(200):
        votes = fs.datasets.simulate(n, accuracies, coverage=0.8, rng=rng).votes
        signed = SignedMoments.of(fs.Moments.of(votes))
        pairs = triplets.Pairs.of(signed, comparable_pairs(signed, flag_sources(signed)), 1.0)
        estimate = np.minimum(triplets.all_triplets_mean(pairs).values, signed.coverage)
        sums.append(estimate.sum())
        errors.append(standard_error_of_sum(estimate, signed, pairs))
    assert np.mean(errors) == pytest.approx(np.std(sums), rel=0.2)
