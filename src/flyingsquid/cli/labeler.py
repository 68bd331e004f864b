"""Label items part by part, and compare the labels with majority vote on the way."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.comparison import RunningComparison
from flyingsquid.inference import vote_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.decisions import TieBreak, decide, is_tied
from flyingsquid.votes.patterns import distinct_codes, is_repetitive
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


class Labeled(NamedTuple):
    """Labels of n items: codes (n,), -1 for no label; probabilities (n, K); numbers of votes (n,)."""

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
        Number of items with each label, and at the end the number of items without a label.
    n_tied : int
        How many items have several most probable classes.

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
        self.n_tied = 0

    def label(self, votes: Votes, gold: NDArray[Any] | None = None, features: Any = None) -> Labeled:
        """Label items.

        Parameters
        ----------
        votes : Votes on n items
        gold : integer array of shape (n,), optional
            Codes of their true classes, negative if unknown.
        features : array or sparse matrix, optional
            Features of the items in the first n rows.
        """
        model, length = self._model, clip_length(self._model)
        if length is not None and length > 1:
            posterior = model.predict_proba(clips(votes, length)).reshape(-1, votes.n_classes)
            return self._labeled(votes, posterior[: votes.n_items], gold)
        read = model.read_votes(votes)
        codes = read.codes
        if features is not None:
            return self._labeled(read, model.predict_proba(read, features=features[: read.n_items]), gold)
        if length is None or read.is_sparse or not is_repetitive(codes, read.n_classes):
            return self._labeled(read, model.predict_proba(read), gold)
        rows, counts, inverse = distinct_codes(codes, read.n_classes)
        distinct = Votes(rows, read.classes, read.names)
        return self._labeled(distinct, model.predict_proba(distinct), gold, counts, inverse)

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
        tied = is_tied(posterior)
        self.n_tied += int(tied.sum() if counts is None else counts[tied].sum())
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


def clip_length(model: Any) -> int | None:
    """Return the number of consecutive rows that a model labels together; None for all rows of a sequence."""
    if hasattr(model, "transition_"):
        return None
    tasks = None if model is None else model.vote_schema_.tasks
    return 1 if tasks is None else tasks[0]


def clips(votes: Votes, length: int, *, complete_only: bool = False) -> Votes:
    """Turn votes of s sources on rows into votes of ``length * s`` sources on clips of consecutive rows.

    A shorter last clip is filled up with rows without votes, or left out.

    >>> rows = Votes.from_classes([[0, 1], [1, -1], [1, 1]], names=["a", "b"])
    >>> clips(rows, 2).codes.tolist(), clips(rows, 2).names
    ([[0, 1, 1, -1], [1, 1, -1, -1]], ('a 1/2', 'b 1/2', 'a 2/2', 'b 2/2'))
    """
    codes = np.asarray(votes.to_dense().codes)
    n, s = codes.shape
    if complete_only:
        codes = codes[: n - n % length]
    else:
        codes = np.concatenate([codes, np.full((-n % length, s), -1, codes.dtype)])
    names = [f"{name} {t + 1}/{length}" for t in range(length) for name in votes.source_names]
    return Votes(codes.reshape(-1, length * s), votes.classes, tuple(names))
