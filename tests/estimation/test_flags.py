"""Unusual sources, and the pairs that may be compared."""

from __future__ import annotations

import numpy as np

import flyingsquid as fs
from flyingsquid.estimation.sources import SignedMoments, comparable_pairs, flag_sources
from tests.support.strategies import fittable_votes


def signed_of(votes: np.ndarray) -> SignedMoments:
    return SignedMoments.of(fs.Moments.of(votes))


def test_silent_one_sided_and_identical_sources_are_found():
    votes = fittable_votes(0)
    silent, yes = np.full(400, -1), np.ones(400)
    flags = flag_sources(signed_of(np.column_stack([votes, silent, yes, votes[:, 1], votes[:, 1]])))
    assert flags.silent.tolist() == [False] * 5 + [True] + [False] * 3
    assert flags.one_sided.tolist() == [False] * 6 + [True, False, False]
    assert flags.identical == ((1, 7, 8),)


def test_copies_and_mirrors_are_not_evidence_for_each_other():
    votes = fittable_votes(0)
    mirror = np.where(votes[:, 1] >= 0, 1 - votes[:, 1], -1)
    signed = signed_of(np.column_stack([votes, votes[:, 0], mirror]))
    allowed = comparable_pairs(signed, flag_sources(signed))
    assert not allowed[0, 5]
    assert not allowed[1, 6]
    assert allowed[0, 1]


def test_one_sided_sources_are_not_compared_while_three_two_sided_remain():
    votes = fittable_votes(0)
    yes = np.where(votes[:, 0] == 1, 1, -1)
    no = np.where(votes[:, 1] == 0, 0, -1)
    signed = signed_of(np.column_stack([votes, yes, no, np.ones(400)]))
    allowed = comparable_pairs(signed, flag_sources(signed))
    assert not allowed[5, 7]
    assert allowed[0, 5]
    few = signed_of(np.column_stack([votes[:, :2], yes, np.ones(400)]))
    assert comparable_pairs(few, flag_sources(few))[2, 3]


def test_pairs_that_never_meet_are_not_compared():
    votes = fittable_votes(0)
    votes[:200, 0], votes[200:, 1] = -1, -1
    signed = signed_of(votes)
    assert not comparable_pairs(signed, flag_sources(signed))[0, 1]
