"""Label items in parts, and compare with majority vote on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.comparison import RunningComparison
from flyingsquid.inference import TieBreak, decide, vote_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.patterns import distinct_codes, is_repetitive
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Labeled:
    """Labels of n items.

    Attributes
    ----------
    codes : integer array of shape (n,)
        Positions of the labels among the classes; -1 for no label.
    probabilities : array of shape (n, K)
    n_votes : integer array of shape (n,)
        How many sources vote.
    """

    codes: NDArray[Any]
    probabilities: Array
    n_votes: NDArray[Any]


class Labeler:
    """Label items part by part.

    Parameters
    ----------
    model : fitted label model
        A model with D > 1 tasks of s sources each labels clips of D consecutive rows with s sources; a
        shorter last clip is filled up with rows without votes.
    tie_break, rng : as in ``predict``

    Attributes
    ----------
    comparison : RunningComparison
        Comparison with majority vote on everything labeled so far; ``comparison.result()`` returns it.
    counts : integer array of shape (K + 1,)
        How many items got each label, and at the end how many got none.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> labeler = Labeler(fs.LabelModel().fit(votes))
    >>> labeled = labeler.label(votes[:400])
    >>> labeled.codes.shape, labeled.probabilities.shape
    ((400,), (400, 2))
    >>> _ = labeler.label(votes[400:])
    >>> labeler.comparison.result().n_items
    569
    """

    def __init__(
        self, model: Any, *, tie_break: TieBreak = "first", rng: np.random.Generator | None = None
    ) -> None:
        self._model, self._tie_break, self._rng = model, tie_break, rng
        self.comparison = RunningComparison(len(model.classes_))
        self.counts = np.zeros(len(model.classes_) + 1, np.int64)

    def label(self, votes: Votes, gold: NDArray[Any] | None = None) -> Labeled:
        """Label items; ``gold`` are the codes of their true classes, negative if unknown, shape (n,)."""
        model, length = self._model, clip_length(self._model)
        if length > 1:
            posterior = model.predict_proba(clips(votes, length)).reshape(-1, votes.n_classes)
            return self._labeled(votes, posterior[: votes.n_items], gold)
        read = model.read_votes(votes.with_all_sources(model.vote_schema_.names))
        codes = read.codes
        if is_sequence_model(model) or read.is_sparse or not is_repetitive(codes, read.n_classes):
            return self._labeled(read, np.asarray(model.predict_proba(read)), gold)
        rows, counts, inverse = distinct_codes(codes, read.n_classes)
        distinct = Votes(rows, read.classes, read.names)
        return self._labeled(distinct, np.asarray(model.predict_proba(distinct)), gold, counts, inverse)

    def _labeled(
        self,
        votes: Votes,
        posterior: Array,
        gold: NDArray[Any] | None,
        counts: NDArray[Any] | None = None,
        inverse: NDArray[Any] | None = None,
    ) -> Labeled:
        """Label distinct rows, row i of which occurs ``counts[i]`` times; item j is row ``inverse[j]``."""
        shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
        n_votes = item_votes(votes.codes).cast.astype(np.int32)
        self.comparison.add(posterior, shares, n_votes, times=counts)
        if inverse is not None and (gold is not None or self._tie_break == "random"):
            posterior, shares, n_votes = posterior[inverse], shares[inverse], n_votes[inverse]
            inverse = counts = None
        if gold is not None:
            known = gold >= 0
            self.comparison.add_known(posterior[known], shares[known], gold[known])
        codes = decide(posterior, tuple(range(votes.n_classes)), self._tie_break, self._rng).astype(np.int16)
        weights = None if counts is None else counts.astype(np.float64)
        position = np.where(codes < 0, votes.n_classes, codes)
        self.counts += np.bincount(position, weights, votes.n_classes + 1).astype(np.int64)
        if inverse is None:
            return Labeled(codes, posterior, n_votes)
        return Labeled(codes[inverse], posterior[inverse], n_votes[inverse])


def is_sequence_model(model: Any) -> bool:
    """Return whether a model labels all rows of a file together, as one sequence."""
    return hasattr(model, "transition_")


def clip_length(model: Any) -> int:
    """Return how many consecutive rows a model labels together."""
    tasks = None if model is None else model.vote_schema_.tasks
    return 1 if tasks is None else tasks[0]


def clips(votes: Votes, length: int, *, whole_only: bool = False) -> Votes:
    """Turn votes of s sources on rows into votes of ``length * s`` sources on clips of consecutive rows.

    A shorter last clip is filled up with rows without votes, or left out.

    >>> rows = Votes.from_classes([[0, 1], [1, -1], [1, 1]], names=["a", "b"])
    >>> clips(rows, 2).codes.tolist(), clips(rows, 2).names
    ([[0, 1, 1, -1], [1, 1, -1, -1]], ('a 1/2', 'b 1/2', 'a 2/2', 'b 2/2'))
    """
    codes = np.asarray(votes.to_dense().codes)
    n, s = codes.shape
    if whole_only:
        codes = codes[: n - n % length]
    else:
        codes = np.concatenate([codes, np.full((-n % length, s), -1, codes.dtype)])
    names = [f"{name} {t + 1}/{length}" for t in range(length) for name in votes.source_names]
    return Votes(codes.reshape(-1, length * s), votes.classes, tuple(names))
