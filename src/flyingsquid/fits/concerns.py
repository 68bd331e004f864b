"""Concerns about a fit as a whole, one sentence each: what the votes do not determine or contradict.

They apply to every method. Concerns that only one solver can have are part of its fit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_value
from flyingsquid.estimation.intervals import FEWEST_SOURCES
from flyingsquid.estimation.normal import NORMAL_95
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
# Fewer items, as in examples, say nothing about shares.
_FEW_ITEMS = 20


def concerns_about(fit: Fit, moments: Moments, votes: Votes | None) -> tuple[str, ...]:
    """Return concerns about a fit of one task; ``votes`` are the items that were fitted, if in memory."""
    if fit.class_balance.shape[0] != 1 or moments.n_items < _FEW_ITEMS:
        return ()
    return (
        *_few_sources(fit, moments),
        *_contradicting_balance(fit, moments),
        *_most_votes_below_chance(fit, moments),
        *_hinge_on_balance(fit, moments, votes),
    )


def silent_sources_concern(moments: Moments) -> tuple[str, ...]:
    """Return a sentence about sources that always abstain, in a tuple; empty if there are none."""
    silent = moments.vote_counts.sum(axis=1) == 0
    if not silent.any():
        return ()
    names = format_names(names_in(moments.source_names, silent))
    return (f"These sources always abstain and are ignored: {names}.",)


def _few_sources(fit: Fit, moments: Moments) -> tuple[str, ...]:
    # Closed forms of two classes refuse what they cannot determine.
    if fit.gold is not None or fit.findings is not None:
        return ()
    voting = int(np.count_nonzero(np.asarray(moments.vote_counts).sum(axis=1)))
    if voting == 1:
        return (
            "Only one source votes, so its accuracy cannot be estimated without gold labels; the labels are "
            "its votes.",
        )
    if voting < FEWEST_SOURCES:
        return (
            "Only two sources vote, so their accuracies cannot be estimated without gold labels: the votes "
            "show how often the sources agree, not which one is right.",
        )
    return ()


def _contradicting_balance(fit: Fit, moments: Moments) -> tuple[str, ...]:
    shares, balance = _vote_shares(moments), fit.class_balance[0]
    voted, likely = int(np.argmax(shares)), int(np.argmax(balance))
    gaps = (balance[likely] - balance[voted], shares[voted] - shares[likely])
    if min(gaps) < _CONTRADICTION:
        return ()
    names = [format_value(fit.classes[k]) for k in (likely, voted)]
    return (
        f"The class balance ({fit.balance_note}) contradicts the votes: {names[0]} has a probability of "
        f"{balance[likely]:.0%}, but {shares[voted]:.0%} of the votes are for {names[1]}. Pass "
        "`class_balance` if it is known.",
    )


def _most_votes_below_chance(fit: Fit, moments: Moments) -> tuple[str, ...]:
    cast = np.asarray(moments.vote_counts, np.float64)
    several = (cast > 0).sum(axis=1) > 1
    # With gold labels the labels are repaired, and the summary names the sources.
    if fit.gold is not None or not several.any():
        return ()
    skill, error = balanced_accuracies(fit.confusion, fit.class_balance[0], float(moments.n_items))
    below = several & (skill < 1 / moments.n_classes - NORMAL_95 * np.nan_to_num(error, nan=np.inf))
    if 2 * cast[below].sum() <= cast[several].sum():
        return ()
    return (
        "Most votes come from sources that are estimated to be worse than chance; check whether classes are "
        "swapped.",
    )


def _hinge_on_balance(fit: Fit, moments: Moments, votes: Votes | None) -> tuple[str, ...]:
    """Return a sentence if many labels depend on the class balance being exactly uniform."""
    balance = fit.class_balance[0]
    if votes is None or np.ptp(balance) > 0:
        return ()
    codes = votes.codes[:: -(-votes.codes.shape[0] // _MOST_ITEMS)]
    posterior = fit.posterior(codes)[has_votes(codes), 0]
    if not len(posterior):
        return ()
    # No class is ruled out because nobody voted for it.
    other = posterior * np.maximum(_vote_shares(moments), _LEAST_SHARE) / balance
    same = best_classes(posterior) & best_classes(other / other.sum(axis=1, keepdims=True))
    changed = float(np.mean(~same.any(axis=1)))
    if changed < _HINGE:
        return ()
    return (
        f"The labels hinge on the class balance, which is assumed to be even: with the shares of the votes "
        f"instead, {changed:.0%} of the labels would change. Pass `class_balance` if it is known.",
    )


def _vote_shares(moments: Moments) -> Array:
    """Return the share of each class in all votes, shape (K,)."""
    counts: NDArray[Any] = np.asarray(moments.vote_counts, np.float64).sum(axis=0)
    return np.asarray(counts / max(counts.sum(), 1.0))
