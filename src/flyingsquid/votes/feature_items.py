"""Items with features: the votes and features that a fit of chunks or of several calls keeps.

Features are learned from the labels of the fit, so votes and features are needed after the last chunk. A
sample of the items is kept. It is chosen by a hash of the features, so it does not depend on the chunks or on
the order of the items, and samples can be added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from flyingsquid._values import format_count
from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.votes.features import Features
from flyingsquid.votes.frames import is_frame
from flyingsquid.votes.reading import VoteChunks, is_empty
from flyingsquid.votes.votes import Votes

MOST_FEATURE_ITEMS = 20_000
"""Maximum size of a sample of items with features."""
# With very many columns fewer items are kept, so that dense features take a quarter of a gigabyte.
_MOST_CELLS = 1 << 25


@dataclass(frozen=True, slots=True, eq=False)
class FeatureItems:
    """Votes on g items and their features.

    Attributes
    ----------
    votes : Votes
    features : Features
    weights : array of shape (g,) or None
        How often each item counts.
    gold : integer array of shape (g,) or None
        Codes of gold labels, negative if unknown.
    n_seen : int
        Number of items that these were chosen from.

    Examples
    --------
    >>> votes = Votes.from_classes([[0, 1], [1, 1], [0, 0]])
    >>> X = np.array([[0.5], [np.nan], [0.3]])
    >>> parts = [FeatureItems(votes[at], Features(X[at]), n_seen=len(X[at])).sample() for at in ([0], [1, 2])]
    >>> total = parts[0] + parts[1]
    >>> total.votes.n_items, total.n_seen
    (2, 3)
    """

    votes: Votes
    features: Features
    weights: NDArray[np.float64] | None = None
    gold: NDArray[np.intp] | None = None
    n_seen: int = 0

    def __add__(self, later: FeatureItems) -> FeatureItems:
        """Return the items of both."""
        first: Any = self.features.values
        second: Any = later.features.values
        if first.shape[1] != second.shape[1]:
            raise IncompatibleError(
                f"`features` must have {format_count(first.shape[1], 'column')}, as in earlier calls; got "
                f"{second.shape[1]:,}."
            )
        if issparse(first) != issparse(second):
            first, second = (each.toarray() if issparse(each) else each for each in (first, second))
        stacked = vstack([first, second]).tocsr() if issparse(first) else np.concatenate([first, second])
        return FeatureItems(
            self.votes.followed_by(later.votes),
            Features(stacked),
            _joined(self, later, "weights", 1.0),
            _joined(self, later, "gold", -1),
            self.n_seen + later.n_seen,
        )

    def sample(self) -> FeatureItems:
        """Return at most 20,000 items with features, those with gold labels first."""
        order, is_present = self.features.priorities()
        known = np.zeros(len(order), bool) if self.gold is None else self.gold >= 0
        ranked = np.lexsort((order, ~known, ~is_present))[: np.count_nonzero(is_present)]
        is_dense = not issparse(self.features.values)
        most = max(1, _MOST_CELLS // self.features.n_columns) if is_dense else MOST_FEATURE_ITEMS
        at = np.sort(ranked[: min(MOST_FEATURE_ITEMS, most)])
        return replace(
            self,
            votes=self.votes[at].to_dense(),
            features=self.features.take(at),
            weights=None if self.weights is None else self.weights[at],
            gold=None if self.gold is None else self.gold[at],
        )


def _joined(first: FeatureItems, second: FeatureItems, name: str, default: float) -> Any:
    arrays = [getattr(first, name), getattr(second, name)]
    if arrays[0] is None and arrays[1] is None:
        return None
    sizes = (first.votes.n_items, second.votes.n_items)
    kind = np.float64 if name == "weights" else np.intp
    filled = [np.full(n, default, kind) if a is None else a for a, n in zip(arrays, sizes, strict=True)]
    return np.concatenate(filled)


class FeatureParts:
    """Features of chunks of items, in order.

    Parameters
    ----------
    features : array, sparse matrix or table with the rows of all chunks; or an iterable with one per chunk
        Features without rows are skipped, as chunks without rows are.

    Examples
    --------
    >>> parts = FeatureParts(np.arange(6).reshape(3, 2))
    >>> parts.next(2).tolist(), parts.next(1).tolist()
    ([[0, 1], [2, 3]], [[4, 5]])
    >>> parts.finish()
    """

    def __init__(self, features: Any) -> None:
        is_matrix = is_frame(features) or len(getattr(features, "shape", ())) == 2
        if not is_matrix and not isinstance(features, Iterable):
            raise VotesError(
                "`features` of VoteChunks must be a matrix with the rows of all chunks, or an iterable with "
                f"one matrix per chunk; got {type(features).__name__}.",
                parameter="features",
            )
        self._matrix = features if is_matrix else None
        self._parts: Iterator[Any] = iter(()) if is_matrix else iter(features)
        self._start = 0

    def next(self, n_items: int) -> Any:
        """Return the features of the next chunk, which has ``n_items`` items."""
        if self._matrix is None:
            found = next((part for part in self._parts if not is_empty(part)), None)
        else:
            at = slice(self._start, self._start + n_items)
            found = self._matrix.iloc[at] if hasattr(self._matrix, "iloc") else self._matrix[at]
            self._start += n_items
        if found is None or is_empty(found):
            raise VotesError("`features` must have a row for each item of all chunks.", parameter="features")
        return found

    def finish(self) -> None:
        """Raise VotesError if there are features after the last chunk."""
        left = any(not is_empty(part) for part in self._parts)
        if left or (self._matrix is not None and self._start < self._matrix.shape[0]):
            raise VotesError(
                "`features` must not have more rows than all chunks together.", parameter="features"
            )


class FeatureCollector:
    """Collect a sample of items with features while chunks of votes are read.

    Parameters
    ----------
    features : as for FeatureParts

    Examples
    --------
    >>> chunks = VoteChunks([[[0, 1], [1, 1]], [[0, 0]]], classes=[0, 1])
    >>> collector = FeatureCollector(np.array([[0.5], [0.1], [0.3]]))
    >>> len(list(collector.watch(chunks))), collector.items().votes.n_items
    (2, 3)
    """

    def __init__(self, features: Any) -> None:
        self._parts = FeatureParts(features)
        self._found: FeatureItems | None = None

    def watch(self, chunks: VoteChunks) -> Iterator[Votes]:
        """Yield the chunks, and keep a sample of their items."""
        for votes in chunks:
            n = votes.n_items
            read = Features.read(self._parts.next(n), n)
            own = FeatureItems(votes, read, n_seen=n).sample()
            self._found = own if self._found is None else (self._found + own).sample()
            yield votes
        self._parts.finish()

    def items(self) -> FeatureItems:
        """Return the sample."""
        if self._found is None:
            raise VotesError("`votes` must have at least one item; got chunks without items.")
        return self._found
