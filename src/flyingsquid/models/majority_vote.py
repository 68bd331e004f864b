"""The baseline that every label model is measured against."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid.analysis import SourceTally, Table, VoteCount, count_item, summarize_tally
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.infer import vote_shares
from flyingsquid.models._base import DOUBLE, BatchEstimator
from flyingsquid.models._options import require_moments
from flyingsquid.models._whole import draft_of, keep
from flyingsquid.moments import Moments
from flyingsquid.votes import VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.coerce import refuse_options
from flyingsquid.votes.weights import read_weights


class MajorityVote(BatchEstimator):
    """One source, one vote. Any number of classes.

    ``predict_proba`` gives each class's share of the votes, uniform where nobody votes.
    Fitting only notes the classes and the sources, and how often each one votes for what.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m texts

    Examples
    --------
    >>> votes = [[1, 1, 0], [0, -1, 0], [-1, -1, -1]]
    >>> MajorityVote().fit(votes).predict_proba(votes).round(2)
    array([[0.33, 0.67],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    _tally: SourceTally

    def fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Note classes, sources and their counts.

        ``votes`` may be ``VoteChunks``. ``y`` is accepted and changes nothing; ``sample_weight`` changes the
        counts in :meth:`summary` only.
        """
        on_cluster = distributed_votes(votes)
        if on_cluster is not None:
            refuse_options(sample_weight=sample_weight)
            return self.fit_moments(on_cluster.moments())
        chunks = as_chunks(votes)
        if chunks is not None:
            return self._fit_chunks(chunks, sample_weight)
        read = as_votes(votes)
        return self._keep(_count(read, sample_weight), read.names)

    def _fit_chunks(self, chunks: VoteChunks, sample_weight: ArrayLike | None) -> Self:
        if sample_weight is not None:
            raise OptionError("sample_weight= belongs to votes in memory, not to chunks")
        total: SourceTally | None = None
        names: tuple[str, ...] | None = None
        for part in chunks:
            counts = _count(part, None)
            total, names = counts if total is None else total + counts, part.names
        if total is None:
            raise VotesError("there are no votes in any chunk; at least one item is needed")
        return self._keep(total, names)

    def fit_moments(self, moments: Moments) -> Self:
        """Note the classes, sources and counts of counts of pairs."""
        require_moments(moments)
        return self._keep(SourceTally.of_moments(moments), moments.names)

    def partial_fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Check that further votes are of the same classes and sources, and count them too."""
        if not hasattr(self, "_classes"):
            return self.fit(votes, sample_weight=sample_weight)
        self._tally = self._tally + _count(self._read(votes), sample_weight)
        return self

    def explain(self, votes_row: Any) -> VoteCount:
        """Who voted for what on one item; ``votes_row`` as in ``LabelModel.explain``.

        >>> MajorityVote().fit([["a", "b", "a"]]).explain(["b", "b", "a"])
        source    vote  adds
        source 0  b     0.33
        source 1  b     0.33
        source 2  a     0.33
        b with probability 0.67: 2 of 3 votes
        """
        return count_item(self._read_row(votes_row), self._classes, self.source_names_)

    def summary(self) -> Table:
        """One row a source: what it votes for, and how often. A majority vote judges nobody's accuracy.

        >>> MajorityVote().fit([[1, 1, 0], [0, -1, 0]]).summary()
        3 sources, 2 items
        source    polarity  coverage  votes  note
        source 0  0, 1        100.0%      2
        source 1  1            50.0%      1  one-sided
        source 2  0           100.0%      2  one-sided
        """
        self._require_fitted()
        return summarize_tally(self._tally)

    def _keep(self, tally: SourceTally, names: tuple[str, ...] | None) -> Self:
        draft = draft_of(self)
        draft._remember(tally.classes, names, tally.source_names)
        draft._tally = tally
        keep(self, draft)
        return self

    def _posterior(self, votes: Votes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        return vote_shares(votes.codes, votes.n_classes)


def _count(votes: Votes, sample_weight: ArrayLike | None) -> SourceTally:
    weights = None if sample_weight is None else read_weights(sample_weight, votes.n_items)
    return SourceTally.of_votes(votes, weights)
