"""Labels of items that come in parts, and on the way the comparison with majority vote."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.comparison import Comparison, RunningComparison
from flyingsquid.infer import TieBreak, decide, vote_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.distinct import distinct_codes, is_repetitive
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Labels of n items.

    Attributes
    ----------
    codes : integer array of shape (n,)
        Positions of the labels among the classes; -1 for no label.
    probabilities : array of shape (n, K)
    cast : integer array of shape (n,)
        How many sources vote.
    """

    codes: NDArray[Any]
    probabilities: Array
    cast: NDArray[Any]


class Labeller:
    """Label items part by part.

    Parameters
    ----------
    model : a fitted label model
        One of D > 1 tasks with s sources each labels clips of D rows that follow each other, of s sources; a
        last clip that is shorter is filled up with rows that nobody votes on.
    tie_break, rng : as in ``predict``

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> labeller = Labeller(fs.LabelModel().fit(votes))
    >>> labelled = labeller.label(votes[:400])
    >>> labelled.codes.shape, labelled.probabilities.shape
    ((400,), (400, 2))
    >>> _ = labeller.label(votes[400:])
    >>> labeller.comparison().n_items
    569
    """

    def __init__(
        self, model: Any, *, tie_break: TieBreak = "first", rng: np.random.Generator | None = None
    ) -> None:
        self._model, self._tie_break, self._rng = model, tie_break, rng
        self._running = RunningComparison(len(model.classes_))
        self.counts = np.zeros(len(model.classes_) + 1, np.int64)
        """How many items got each label, and at the end how many got none."""

    def label(self, votes: Votes, gold: NDArray[Any] | None = None) -> Labelled:
        """Label items; ``gold`` are codes of their true classes, negative where unknown, shape (n,)."""
        clip = clip_length(self._model)
        if clip > 1:
            posterior = self._model.predict_proba(clips(votes, clip)).reshape(-1, votes.n_classes)
            return self._labelled(votes, posterior[: votes.n_items], gold)
        whole = votes.with_all_sources(self._model.vote_schema_.names)
        whole = whole.matched_to(tuple(self._model.vote_schema_.classes), self._model.vote_schema_.names)
        codes, by_path = whole.codes, not hasattr(self._model, "transition_")
        if not by_path or not is_repetitive(codes, whole.n_classes):
            return self._labelled(whole, np.asarray(self._model.predict_proba(whole)), gold)
        rows, counts, inverse = distinct_codes(codes, whole.n_classes)
        distinct = Votes(rows, whole.classes, whole.names)
        posterior = np.asarray(self._model.predict_proba(distinct))
        return self._labelled(distinct, posterior, gold, counts, inverse)

    def comparison(self) -> Comparison:
        """The model beside majority vote on everything labelled so far."""
        return self._running.result()

    def _labelled(
        self,
        votes: Votes,
        posterior: Array,
        gold: NDArray[Any] | None,
        times: NDArray[Any] | None = None,
        inverse: NDArray[Any] | None = None,
    ) -> Labelled:
        """Labels of rows that occur ``times`` often, put at the places ``inverse``."""
        shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
        cast = item_votes(votes.codes).cast.astype(np.int32)
        self._running.add(posterior, shares, cast, times=times)
        random = self._tie_break == "random" and inverse is not None
        if inverse is not None and (gold is not None or random):
            posterior, shares, cast = posterior[inverse], shares[inverse], cast[inverse]
            inverse = None
            times = None
        if gold is not None:
            known = gold >= 0
            self._running.add_known(posterior[known], shares[known], gold[known])
        codes = decide(posterior, tuple(range(votes.n_classes)), self._tie_break, self._rng)
        codes = codes.astype(np.int16)
        weights = None if times is None else times.astype(np.float64)
        self.counts += np.bincount(
            np.where(codes < 0, votes.n_classes, codes), weights, votes.n_classes + 1
        ).astype(np.int64)
        if inverse is None:
            return Labelled(codes, posterior, cast)
        return Labelled(codes[inverse], posterior[inverse], cast[inverse])


def clip_length(model: Any) -> int:
    """How many rows that follow each other a model labels together."""
    graph = getattr(model, "graph_", None)
    return 1 if graph is None else int(graph.n_tasks)


def clips(votes: Votes, length: int, *, whole_only: bool = False) -> Votes:
    """Votes of s sources on rows as votes of ``length * s`` sources on clips of so many rows.

    A last clip that is shorter is filled up with rows that nobody votes on, or left out.

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
