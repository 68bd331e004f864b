"""Concerns about a fit as a whole, one sentence each: what the votes do not determine or contradict.

They apply to every method. Concerns that only one solver can have are part of its fit.
"""

from __future__ import annotations

import numpy as np

from flyingsquid._values import format_value
from flyingsquid.estimation.intervals import FEWEST_SOURCES
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.fits.base import Array, Fit
from flyingsquid.fits.diagnostics import format_names, names_in
from flyingsquid.fits.weighted import balanced_accuracies
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.decisions import best_classes
from flyingsquid.votes.tallies import has_votes

# The most frequent class of the balance and that of the votes differ, each by this much. Clean simulations
# never reach it (tests/fits/test_concerns.py).
_CONTRADICTION = 0.2
# Labels hinge on the balance if more than this share of them would be another class.
_HINGE = 0.1
_LEAST_SHARE = 1e-3
# A sample of items is enough to see that: the standard error of a tenth is half a point.
_MOST_ITEMS = 4_000
# With fewer items, as in examples, shares are mostly noise.
_FEW_ITEMS = 20
_ONE_SOURCE = (
    "Only one source votes, so its accuracy cannot be estimated without gold labels; the labels are its "
    "votes."
)
_TWO_SOURCES = (
    "Only two sources vote, so their accuracies cannot be estimated without gold labels: the votes show how "
    "often the sources agree, not which one is right."
)
_BELOW_CHANCE = (
    "Most votes come from sources that are estimated to be worse than chance; check whether classes are "
    "swapped."
)


def concerns_about(fit: Fit, moments: Moments, votes: Votes | None) -> tuple[str, ...]:
    """Return concerns about a fit of one task; ``votes`` are the items that were fitted, if in memory."""
    if fit.class_balance.shape[0] != 1 or moments.n_items < _FEW_ITEMS:
        return ()
    found, balance = [], fit.class_balance[0]
    cast = np.asarray(moments.vote_counts, np.float64)
    shares = cast.sum(axis=0) / max(cast.sum(), 1.0)
    n_voting = int(np.count_nonzero(cast.sum(axis=1)))
    # Closed forms of two classes refuse what they cannot determine.
    if n_voting < FEWEST_SOURCES and not fit.uses_gold and fit.findings is None:
        found.append(_ONE_SOURCE if n_voting == 1 else _TWO_SOURCES)
    voted, likely = int(np.argmax(shares)), int(np.argmax(balance))
    if min(balance[likely] - balance[voted], shares[voted] - shares[likely]) >= _CONTRADICTION:
        names = [format_value(fit.classes[k]) for k in (likely, voted)]
        found.append(
            f"The class balance ({fit.balance_note}) contradicts the votes: {names[0]} has a probability of "
            f"{balance[likely]:.0%}, but {shares[voted]:.0%} of the votes are for {names[1]}. Pass "
            "`class_balance` if it is known."
        )
    # With gold labels the labels are repaired, and the summary names the sources.
    if not fit.uses_gold and _are_most_votes_below_chance(fit, cast, float(moments.n_items)):
        found.append(_BELOW_CHANCE)
    if votes is not None and np.ptp(balance) == 0:
        changed = _share_that_hinges_on_balance(fit, shares, votes)
        if changed >= _HINGE:
            found.append(
                "The labels hinge on the class balance, which is assumed to be even: with the shares of the "
                f"votes instead, {changed:.0%} of the labels would change. Pass `class_balance` if it is "
                "known."
            )
    return tuple(found)


def silent_sources_concern(moments: Moments) -> tuple[str, ...]:
    """Return a sentence about sources that always abstain, in a tuple; empty if there are none."""
    silent = moments.vote_counts.sum(axis=1) == 0
    if not silent.any():
        return ()
    names = format_names(names_in(moments.source_names, silent))
    return (f"These sources always abstain and are ignored: {names}.",)


def _are_most_votes_below_chance(fit: Fit, cast: Array, n_items: float) -> bool:
    """Return whether most votes, of shape (m, K), are by sources that are worse than chance."""
    several = (cast > 0).sum(axis=1) > 1
    if not several.any():
        return False
    skill, error = balanced_accuracies(fit.confusion, fit.class_balance[0], n_items)
    below = several & (skill < 1 / cast.shape[1] - NORMAL_95 * np.nan_to_num(error, nan=np.inf))
    return bool(2 * cast[below].sum() > cast[several].sum())


def _share_that_hinges_on_balance(fit: Fit, shares: Array, votes: Votes) -> float:
    """Return the share of labels that would change if the balance were that of the votes, not uniform."""
    codes = votes.codes[:: -(-votes.codes.shape[0] // _MOST_ITEMS)]
    posterior = fit.posterior(codes)[has_votes(codes), 0]
    if not len(posterior):
        return 0.0
    # No class is ruled out because nobody voted for it.
    other = posterior * np.maximum(shares, _LEAST_SHARE) / fit.class_balance[0]
    same = best_classes(posterior) & best_classes(other / other.sum(axis=1, keepdims=True))
    return float(np.mean(~same.any(axis=1)))
