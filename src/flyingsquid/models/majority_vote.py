"""Majority vote: the baseline for every label model."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid._table import Table
from flyingsquid.exceptions import ModelFileError, OptionError, VotesError
from flyingsquid.files.state import (
    LABELS,
    TEXT,
    State,
    check_fields,
    decode_labels,
    encode_labels,
    finite,
    list_of,
    optional,
)
from flyingsquid.files.vote_files import read_path
from flyingsquid.fits.explanation import VoteCount, count_item
from flyingsquid.fits.summary import summarize_tally
from flyingsquid.inference import vote_shares
from flyingsquid.models._base import DOUBLE, BatchEstimator, VoteSchema, refuse_features
from flyingsquid.models.validation import require_moments
from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS, VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.arguments import join_weights
from flyingsquid.votes.reading import refuse_options
from flyingsquid.votes.tallies import SourceTally

_FIELDS = {
    "n_items": finite(0),
    "classes": LABELS,
    "source_names": list_of(TEXT),
    "names": optional(list_of(TEXT)),
}


class MajorityVote(BatchEstimator):
    """Majority vote, for any number of classes: every source has the same weight.

    ``predict_proba`` returns the share of each class in the votes on an item; it is uniform for items without
    votes. Fitting only records the classes, the sources and their counts.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m str

    Examples
    --------
    >>> votes = [[1, 1, 0], [0, -1, 0], [-1, -1, -1]]
    >>> MajorityVote().fit(votes).predict_proba(votes).round(2)
    array([[0.33, 0.67],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    _counted: tuple[VoteSchema, SourceTally]

    def fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Record classes, sources and their counts.

        ``votes`` may be ``VoteChunks``. ``y`` is ignored; ``sample_weight`` only affects the counts in
        :meth:`summary`.
        """
        votes = read_path(votes)
        on_cluster = distributed_votes(votes)
        if on_cluster is not None:
            refuse_options(sample_weight=sample_weight)
            return self.fit_moments(on_cluster.moments())
        chunks = as_chunks(votes)
        if chunks is not None:
            return self._fit_chunks(chunks, sample_weight)
        read = as_votes(votes)
        return self._keep(SourceTally.of_votes(read, join_weights(sample_weight, votes, read)), read.names)

    def _fit_chunks(self, chunks: VoteChunks, sample_weight: ArrayLike | None) -> Self:
        if sample_weight is not None:
            raise OptionError("`sample_weight` is not supported with VoteChunks; pass the votes as an array.")
        total: SourceTally | None = None
        names: tuple[str, ...] | None = None
        for part in chunks:
            counts = SourceTally.of_votes(part)
            total, names = counts if total is None else total + counts, part.names
        if total is None:
            raise VotesError("`votes` must have at least one item; all chunks are empty.")
        return self._keep(total, names)

    def fit_moments(self, moments: Moments) -> Self:
        """Record the classes, the sources and their counts from counts of pairs."""
        require_moments(moments)
        return self._keep(moments.source_tally(), moments.names)

    def partial_fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Count further votes of the same classes and sources."""
        with self._lock:
            if not hasattr(self, "_counted"):
                return self.fit(votes, sample_weight=sample_weight)
            schema, tally = self._counted
            read = self.read_votes(votes)
            more = SourceTally.of_votes(read, join_weights(sample_weight, votes, read))
            self._counted = schema, tally + more
        return self

    def explain(self, votes_row: Any) -> VoteCount:
        """Return the votes on one item; ``votes_row`` as in ``LabelModel.explain``.

        >>> MajorityVote().fit([["a", "b", "a"]]).explain(["b", "b", "a"])
        source    vote  adds
        source 0  b     0.33
        source 1  b     0.33
        source 2  a     0.33
        b with probability 0.67: 2 of 3 votes
        """
        model = self._snapshot()
        return count_item(model._read_row(votes_row), model.vote_schema_.classes, model.source_names_)

    def summary(self) -> Table:
        """Return one row per source with its polarity and coverage, but without accuracies.

        >>> MajorityVote().fit([[1, 1, 0], [0, -1, 0]]).summary()
        3 sources, 2 items
        source    polarity  coverage  votes  note
        source 0  0, 1        100.0%      2
        source 1  1            50.0%      1  one-sided
        source 2  0           100.0%      2  one-sided
        """
        return summarize_tally(self.tally_)

    @property
    def _fitted(self) -> tuple[VoteSchema, SourceTally]:
        if not hasattr(self, "_counted"):
            raise self._not_fitted()
        return self._counted

    @property
    def vote_schema_(self) -> VoteSchema:
        return self._fitted[0]

    @property
    def tally_(self) -> SourceTally:
        """Number of votes of each source for each class."""
        return self._fitted[1]

    def _to_state(self) -> State:
        schema, tally = self._fitted
        meta = {
            "classes": encode_labels(tally.classes),
            "names": None if schema.names is None else list(schema.names),
            "source_names": list(tally.source_names),
            "n_items": tally.n_items,
        }
        arrays = {"votes": np.asarray(tally.votes), "missing": np.asarray(tally.missing)}
        return State(type(self).__name__, meta, arrays)

    @classmethod
    def _from_state(cls, state: State) -> Self:
        check_fields(state.meta, _FIELDS)
        classes = decode_labels(state.meta["classes"])
        shown, names = tuple(state.meta["source_names"]), state.meta["names"]
        m, k = len(shown), len(classes)
        votes, missing = state.arrays["votes"], state.arrays["missing"]
        fits = votes.shape == (m, k) and missing.shape == (m, len(REASONS) - 1) and m > 0 and k > 1
        plain = all(
            str(each.dtype) in ("int64", "float64") and (each >= 0).all() and np.isfinite(each).all()
            for each in (votes, missing)
        )
        named = names is None or len(names) == len(set(names)) == m
        if not (fits and plain and named):
            raise ModelFileError("The counts in the file do not match its sources and classes.")
        tally = SourceTally(state.meta["n_items"], votes, missing, classes, shown)
        return cls()._keep(tally, None if names is None else tuple(names))

    def _keep(self, tally: SourceTally, names: tuple[str, ...] | None) -> Self:
        with self._lock:
            self._counted = VoteSchema(tally.classes, names, tally.source_names), tally
        return self

    def _label(
        self, votes: Any, features: Any = None, dtype: np.dtype[Any] = DOUBLE
    ) -> tuple[Votes, NDArray[Any]]:
        refuse_features(features, self)
        read = self.vote_schema_.read(votes)
        return read, vote_shares(read.codes, read.n_classes)
