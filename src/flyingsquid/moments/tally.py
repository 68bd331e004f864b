"""Counts of single sources, which are sufficient for summaries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.tallies import state_counts

_N_REASONS = len(REASONS)


@dataclass(frozen=True, slots=True, eq=False)
class SourceTally:
    """Counts of single sources, without pairs.

    Attributes
    ----------
    n_items : int or float
        Number of items, or the sum of their weights.
    votes : array of shape (m, K)
        Number of votes of each source for each class.
    missing : array of shape (m, 4)
        Votes that were refused, unparseable, failed and not asked for.
    classes : tuple of K labels
    source_names : tuple of m str
    """

    n_items: int | float
    votes: NDArray[Any]
    missing: NDArray[Any]
    classes: tuple[Label, ...]
    source_names: tuple[str, ...]

    @classmethod
    def of_moments(cls, moments: Moments) -> SourceTally:
        """Return the tally of counts of pairs."""
        return cls(
            moments.n_items, moments.vote_counts, moments.missing, moments.classes, moments.source_names
        )

    @classmethod
    def of_votes(cls, votes: Votes, weights: NDArray[Any] | None = None) -> SourceTally:
        """Count votes; ``weights`` of shape (n,) are the weights of the items.

        Time O(nm), memory O(mK): pairs are not counted.
        """
        counts = state_counts(votes.codes, votes.n_classes, weights)
        if weights is None or weights.dtype.kind == "i":
            counts = np.rint(counts).astype(np.int64)
        n_items = votes.n_items if weights is None else weights.sum().item()
        # States count up from the last reason; the one before the classes is a plain abstain.
        missing = counts[:, _N_REASONS - 2 :: -1]
        return cls(n_items, counts[:, _N_REASONS:], missing, votes.classes, votes.source_names)

    def __add__(self, other: SourceTally) -> SourceTally:
        """Add counts of the same sources and classes in the same order."""
        return replace(
            self,
            n_items=self.n_items + other.n_items,
            votes=self.votes + other.votes,
            missing=self.missing + other.missing,
        )

    @property
    def n_votes(self) -> NDArray[Any]:
        """Number of votes of each source, shape (m,)."""
        return np.asarray(self.votes.sum(axis=1))

    @property
    def coverage(self) -> NDArray[np.float64]:
        """P(source votes), shape (m,)."""
        # Float weights may sum to one more rounding error than they were summed to.
        return np.minimum(self.n_votes / self.n_items, 1.0)
