"""Suspicious sources: silent, one-sided, copies of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from flyingsquid.estimation.signed import SignedMoments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class SourceFindings:
    """What a closed form for two classes found out about its sources, besides their tables.

    Attributes
    ----------
    silent, one_sided, unidentified, clipped : masks of shape (m,)
        Sources that always abstain, that vote for one class only, that could not be estimated and got the
        average accuracy, and whose vote rates do not fit the class balance.
    copies : integer array of shape (m,)
        Sources with equal numbers vote alike, or opposite, on every item.
    slopes : array of shape (m,)
        βᵢ of E[λᵢ | Y] = αᵢ + βᵢY.
    is_symmetric : bool
        Whether errors were assumed to be equally frequent on both classes.
    """

    silent: NDArray[np.bool_]
    one_sided: NDArray[np.bool_]
    unidentified: NDArray[np.bool_]
    clipped: NDArray[np.bool_]
    copies: NDArray[np.intp]
    slopes: Array
    is_symmetric: bool


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """What the counts alone say about sources.

    Attributes
    ----------
    silent : mask of shape (m,)
        Never votes.
    one_sided : mask of shape (m,)
        Votes, but for one class only.
    copies : integer array of shape (m,)
        Sources with equal numbers vote alike on every item, or opposite on every item; silent
        sources stand alone.
    """

    silent: Mask
    one_sided: Mask
    copies: NDArray[np.intp]

    @property
    def identical(self) -> tuple[tuple[int, ...], ...]:
        """Groups of two or more sources whose columns are identical, or each other's negation."""
        sizes = np.bincount(self.copies)
        members = [np.flatnonzero(self.copies == g) for g in np.flatnonzero(sizes > 1)]
        return tuple(tuple(int(i) for i in group) for group in members)


def flag_sources(signed: SignedMoments) -> SourceFlags:
    """Find silent, one-sided and identical sources."""
    coverage = signed.coverage
    silent = coverage == 0
    one_sided = (signed.rates == 0).any(axis=1) & ~silent
    # Identical: they vote on the same items, and agree on each, or on none. The tolerance is for
    # float counts; it is far below one vote for any integer count.
    least = coverage[:, None] * (1 - 1e-12)
    always = (signed.agreement >= least) | (signed.overlap - signed.agreement >= least)
    same = always & always.T & ~silent[:, None]
    if same.any():
        _, copies = connected_components(same, directed=False)
    else:
        copies = np.arange(len(coverage))
    return SourceFlags(silent, one_sided, np.asarray(copies, np.intp))


def comparable_pairs(signed: SignedMoments, flags: SourceFlags) -> Mask:
    """Pairs of sources whose agreement says something about their accuracies, shape (m, m).

    Left out: a source with itself; pairs that never vote together; identical columns, which agree
    always, whatever they are worth; pairs of one-sided sources, as long as three two-sided ones
    remain. The last rule holds because E[λᵢλⱼ] = aᵢaⱼ needs one side with symmetric errors.
    """
    comparable: Mask = (signed.overlap > 0) & (flags.copies[:, None] != flags.copies[None, :])
    if flags.one_sided.any() and (~flags.silent & ~flags.one_sided).sum() >= 3:
        comparable &= ~np.outer(flags.one_sided, flags.one_sided)
    return comparable
