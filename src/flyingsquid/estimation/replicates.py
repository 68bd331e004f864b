"""Closed-form estimates from replicates: answers of one judge in different orders, or repeated.

If the two answers of a judge to one item are independent given the item, with the right class having the
probability p, they agree with probability at least p^2 + (1 - p)^2 / (K - 1). The mean over items is at least
that of the mean p, because the expression is convex. So self-agreement c bounds the accuracy a:
K a^2 - 2 a + 1 <= (K - 1) c, and the largest solution is (1 + sqrt((K - 1) (K c - 1))) / K. For two classes
it is (1 + sqrt(2 c - 1)) / 2.

A judge that decides a share d of the items by position alone is right on half of these, and its answers
differ there. On the other items they agree at the rate c / (1 - d), so its accuracy is at most
d / 2 + (1 - d) a(c / (1 - d)).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list
from flyingsquid.estimation.shares import NORMAL_95, wilson
from flyingsquid.votes import Structure, Votes

Array = NDArray[np.float64]
# Self-agreement is shrunk to chance by this many items.
_CHANCE_ITEMS = 4.0
# Range of the signal of the most consistent judge in which consistency weights are phased in: not used below,
# used in full above. Judges below .7 repeat errors as consistently as correct answers: with a lower limit of
# .6, 4% of random panels of LLMBar fall below majority vote by more than a point, with .7 none
# (docs/quality/panels.md; upper limits from .8 to .9 give the same results).
_UNRELIABLE, _RELIABLE = 0.7, 0.9
# Tables in which consistent judges are inaccurate contradict self-agreement: at this negative correlation of
# skill and signal they are not used. A spread of the signal below the second constant is ignored.
_CONTRADICTION, _LEAST_SPREAD = 0.5, 0.05
# Least share of noise in the answers of a judge, so that no weight exceeds ten times that of a judge with
# equal parts of noise and signal (.05 to .1 give the same results).
_LEAST_NOISE = 0.1


@dataclass(frozen=True, slots=True, eq=False)
class SelfAgreement:
    """Agreement of the answers of each of J judges with each other; arrays of shape (J,), NaN if unknown.

    Attributes
    ----------
    judges : tuple of J str
    n_swapped, n_repeated : items with answers in two orders, and items with two answers in one order
    swapped, repeated : share of pairs of answers that agree
    chance : share of pairs that would agree by chance, given the class frequencies of the judge
    swapped_interval, repeated_interval : arrays of shape (J, 2)
        95% intervals.
    position : share of pairs of answers decided by position
        Positive if the class that the first order shows first is preferred there, and the other one in the
        second order. Two classes only.
    position_interval : array of shape (J, 2)
    bound : largest accuracy that self-agreement admits
    bound_interval : array of shape (J, 2)
    """

    judges: tuple[str, ...]
    n_swapped: Array
    n_repeated: Array
    swapped: Array
    chance: Array
    swapped_interval: Array
    repeated: Array
    repeated_interval: Array
    position: Array
    position_interval: Array
    bound: Array
    bound_interval: Array


def name_positions(agreement_high: Any, position_low: Any, position_high: Any) -> NDArray[np.bool_]:
    """Return whether answers of two classes look like names of positions; False for NaN.

    Position decides a share b of the items, and random answers differ on at most half of the others. The
    arguments are ends of the intervals of self-agreement under swaps and of b.
    """
    bias = np.maximum(np.abs(position_low), np.abs(position_high))
    return np.asarray(1 - np.asarray(agreement_high) > (1 + bias) / 2)


def describe_positions(judges: Sequence[str]) -> str:
    """Return a sentence about judges whose answers look like names of positions."""
    return (
        f"Answers in two orders differ more often than by chance: {format_list(judges, 12)}. Check that "
        "votes name the answer and not its position."
    )


def accuracy_bound(agreement: Any, n_classes: int, position: Any = 0.0) -> Array:
    """Return the largest accuracy of a judge whose answers agree with each other at a given rate.

    Parameters
    ----------
    agreement : share of pairs of answers that agree
    n_classes : int
    position : share of pairs that are decided by position, in [-1, 1]

    Examples
    --------
    >>> accuracy_bound([1.0, 0.82, 0.5, 0.3], 2).round(3).tolist()
    [1.0, 0.9, 0.5, 0.5]
    >>> accuracy_bound(0.4, 2, position=0.6).round(3).tolist()  # always itself, or always the first answer
    0.7
    """
    agreement, share = np.asarray(agreement, np.float64), np.abs(np.asarray(position, np.float64))
    rest = np.clip(1 - share, 1e-12, 1.0)
    apart = np.clip(agreement / rest, 0.0, 1.0)  # by chance, answers may agree more often than 1 - d
    root = np.sqrt(np.maximum((n_classes - 1) * (n_classes * apart - 1), 0.0))  # below chance: chance
    return np.asarray(share / n_classes + (1 - share) * (1 + root) / n_classes)


def compare_replicates(votes: Votes, weights: NDArray[Any] | None = None) -> SelfAgreement:
    """Compare the answers of every judge with each other. ``votes`` must have a structure."""
    structure = votes.structure
    if structure is None:
        raise ValueError("votes must have a structure")
    codes = np.asarray(votes.to_dense().codes)
    counts = np.ones(len(codes)) if weights is None else np.asarray(weights, np.float64)
    n_swapped, swapped, lean = _count(codes, structure, counts, swapped=True)
    n_repeated, repeated, _ = _count(codes, structure, counts, swapped=False)
    position = lean if votes.n_classes == 2 else np.full_like(lean, np.nan)
    # Four pairs of which two differ are added to the variance, as by Agresti and Coull: without a difference,
    # the interval would have no width.
    differing, leaning = ((1 - swapped) * n_swapped + 2) / (n_swapped + 4), lean * n_swapped / (n_swapped + 4)
    reach = NORMAL_95 * np.sqrt(np.maximum(differing - leaning**2, 0.0) / np.maximum(n_swapped, 1.0))
    swapped_interval = np.stack(wilson(swapped, n_swapped), axis=1)
    repeated_interval = np.stack(wilson(repeated, n_repeated), axis=1)
    has_swaps = n_swapped > 0
    agreement = np.where(has_swaps, swapped, repeated)
    interval = np.where(has_swaps[:, None], swapped_interval, repeated_interval)
    share = np.where(has_swaps, np.nan_to_num(position), 0.0)
    ends = [accuracy_bound(end, votes.n_classes, share) for end in (agreement, *interval.T)]
    return SelfAgreement(
        judges=structure.judges,
        n_swapped=n_swapped,
        n_repeated=n_repeated,
        swapped=swapped,
        chance=_chance(codes, structure, counts, votes.n_classes),
        swapped_interval=swapped_interval,
        repeated=repeated,
        repeated_interval=repeated_interval,
        position=position,
        position_interval=np.stack([np.maximum(position - reach, -1), np.minimum(position + reach, 1)], 1),
        bound=ends[0],
        bound_interval=np.stack(ends[1:], axis=1),
    )


def _chance(codes: NDArray[Any], structure: Structure, counts: Array, n_classes: int) -> Array:
    """Return the probability that two answers of a judge agree by chance, shape (J,)."""
    of, n_judges = structure.judge_of, len(structure.judges)
    vote_counts = np.stack(
        [np.bincount(of, counts @ (codes == k), n_judges) for k in range(n_classes)], axis=1
    )
    return np.asarray(
        ((vote_counts / np.maximum(vote_counts.sum(axis=1, keepdims=True), 1e-12)) ** 2).sum(axis=1)
    )


def _count(
    codes: NDArray[Any], structure: Structure, counts: Array, *, swapped: bool
) -> tuple[Array, Array, Array]:
    """Return items with a pair of answers, the share of pairs that agree, and how the others lean; (J,)."""
    n_judges, (first, second) = len(structure.judges), structure.pairs(swapped=swapped)
    items, n_pairs, agreed, lean = (np.zeros(n_judges) for _ in range(4))
    of = structure.judge_of[first] if len(first) else np.empty(0, np.intp)
    for judge in np.unique(of):
        at = of == judge
        one, other = codes[:, first[at]], codes[:, second[at]]
        both = (one >= 0) & (other >= 0)
        items[judge] = counts @ both.any(axis=1)
        n_pairs[judge] = counts @ both.sum(axis=1)
        agreed[judge] = counts @ (both & (one == other)).sum(axis=1)
        lean[judge] = counts @ (both * np.sign(other - one)).sum(axis=1)
    with np.errstate(invalid="ignore"):
        return items, agreed / n_pairs, lean / n_pairs


def combine_replicates(votes: Votes) -> Votes:
    """Return one source per judge: the most frequent of its answers, no vote on a tie.

    Examples
    --------
    >>> answers = [[[0, 0], [0, 1]], [[1, 1], [1, -1]]]
    >>> combine_replicates(Votes.from_panel(answers, classes=[0, 1])).codes
    array([[ 0, -1],
           [ 1,  1]], dtype=int8)
    """
    structure = votes.structure
    if structure is None:
        return votes
    codes = np.asarray(votes.to_dense().codes)
    n_judges = len(structure.judges)
    member = (structure.judge_of[:, None] == np.arange(n_judges)).astype(np.float32)
    best, most = np.full((len(codes), n_judges), -1, codes.dtype), np.zeros((len(codes), n_judges))
    for label in range(votes.n_classes):
        n_votes = (codes == label).astype(np.float32) @ member
        best = np.where(n_votes > most, codes.dtype.type(label), np.where(n_votes == most, -1, best))
        most = np.maximum(most, n_votes)
    best[most == 0] = -1
    return Votes(best.astype(codes.dtype), votes.classes, structure.judges, votes.items)


def consistency_weights(found: SelfAgreement, is_corroborated: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return the weight of each judge by its self-agreement under swaps, and the share of such weights.

    The share of signal in the answers of a judge is its agreement beyond chance, rho, so the weight that
    minimizes the noise of a weighted mean is rho / (1 - rho). A judge that was not asked in two orders, or
    that agrees with no other judge, has the mean weight of the others. The other share of the weights
    is equal for all answers, so a judge that was asked in one order only has half of it.

    Parameters
    ----------
    found : SelfAgreement
    is_corroborated : mask of shape (J,)
        Judges that agree with another judge more often than by chance.
    """
    rho, is_asked = _signal(found, found.swapped), found.n_swapped > 0
    equal = np.where(is_asked | (found.n_repeated > 0), 1.0, 0.5)
    is_used = is_asked & is_corroborated
    if not is_used.any():
        return equal, 0.0
    share = float(np.clip((rho[is_used].max() - _UNRELIABLE) / (_RELIABLE - _UNRELIABLE), 0.0, 1.0))
    if share == 0:
        return equal, 0.0
    weights = rho / (1 - rho + _LEAST_NOISE)
    weights = np.where(is_used, weights, weights[is_used].mean())
    return np.asarray((1 - share) * equal + share * weights / weights.mean()), share


def _signal(found: SelfAgreement, agreement: Array) -> Array:
    """Return the share of signal in the answers of each judge by their agreement, shape (J,).

    A judge that always gives the same answer has no signal.
    """
    n = found.n_swapped
    shrunk = (np.nan_to_num(agreement) * n + found.chance * _CHANCE_ITEMS) / (n + _CHANCE_ITEMS)
    return np.maximum((shrunk - found.chance) / np.maximum(1 - found.chance, 1e-12), 0.0)


def support_of_accuracies(found: SelfAgreement, accuracies: Array) -> float:
    """Return the support of estimated accuracies by self-agreement, from 0 to 1.

    If errors are random, a judge of skill s has the signal s^2, so consistent judges are accurate. If they
    are estimated to be inaccurate, the estimates are likely to follow a bias that the other judges share.
    Items that are decided by position are left out, because a judge has no vote if its answers differ.
    """
    is_known = found.n_swapped > 0
    elsewhere = np.clip(1 - np.abs(np.nan_to_num(found.position)), 1e-12, 1.0)
    signal = np.sqrt(_signal(found, np.minimum(found.swapped / elsewhere, 1.0))[is_known])
    if len(signal) < 3 or signal.std() < _LEAST_SPREAD or accuracies[is_known].std() == 0:
        return 1.0
    correlation = float(np.corrcoef(signal, accuracies[is_known])[0, 1])
    return float(np.clip(1 + correlation / _CONTRADICTION, 0.0, 1.0))
