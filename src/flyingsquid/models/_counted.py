"""What a fit reads: votes in memory, chunks that are counted as they pass, or counts of a cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid.estimation import OPINIONS
from flyingsquid.exceptions import OptionError
from flyingsquid.models import _options
from flyingsquid.models._graphs import stacked_shape
from flyingsquid.models.structure import LearnedGraph, count_for, learned_of
from flyingsquid.moments import Gathered, Moments, gather
from flyingsquid.votes import VoteChunks, Votes, as_chunks, as_votes
from flyingsquid.votes.coerce import refuse_options
from flyingsquid.votes.weights import read_weights

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel

# These read counts alone, so that distinct rows need not be kept beside them.
_BY_PAIRS = ("triplet_mean", "triplet_median", "triplet", "independencies")


class Counted(NamedTuple):
    """Counts, and the votes behind them where these are at hand.

    Attributes
    ----------
    moments : Moments
    votes : Votes, or None; distinct rows of chunks
    weights : array of shape (n,), or None
    learned : LearnedGraph, or None where no graph was to be learned
    note : how the votes were read, in words; empty for votes in memory
    """

    moments: Moments
    votes: Votes | None
    weights: NDArray[Any] | None
    learned: LearnedGraph | None
    note: str = ""


def count_votes(model: LabelModel, votes: Any, gold: Any, sample_weight: ArrayLike | None) -> Counted:
    """Count what a user passed to ``fit``."""
    classes = _options.read_n_classes(model.n_classes, votes)
    on_cluster = distributed_votes(votes)
    if on_cluster is not None:
        refuse_options(gold=gold, sample_weight=sample_weight)
        return _count_parts(model, on_cluster.with_classes(classes))
    chunks = as_chunks(votes, classes)
    if chunks is not None:
        for name, value in (("gold", gold), ("sample_weight", sample_weight)):
            if value is not None:
                raise OptionError(f"{name}= belongs to votes in memory, not to chunks")
        return _count_parts(model, chunks)
    read = as_votes(votes, classes, stacked_shape(model.graph))
    weights = None if sample_weight is None else read_weights(sample_weight, read.n_items)
    moments, learned = count_for(model.graph, read, weights)
    return Counted(moments, read, weights, learned)


def _of_gathered(model: LabelModel, gathered: Gathered) -> Counted:
    """Counts that were gathered elsewhere, for a model whose graph they were counted for."""
    moments, rows = gathered.moments, gathered.rows
    if rows is None:
        return Counted(moments, None, None, None, "from counts")
    if not rows.is_complete:
        note = f"from counts, because there are more than {rows.most:,} distinct rows"
        return Counted(moments, None, None, None, note)
    if moments.n_classes > 2 and isinstance(model.class_balance, str) and model.class_balance == "estimate":
        if model.method in OPINIONS:  # what would be refused in memory too comes first
            _options.check_opinion(model, with_gold=False)
        _options.check_many(model, moments)
        raise OptionError(
            "class_balance='estimate' of more than two classes compares groups of items, and chunks leave "
            "distinct rows only; pass votes in memory, or the balance"
        )
    votes = rows.votes
    return Counted(moments, votes, rows.counts, None, f"from {len(votes):,} distinct rows")


def _count_parts(model: LabelModel, chunks: Any) -> Counted:
    """Count ``VoteChunks``, or the chunks of a cluster where they are."""
    given = None if isinstance(model.graph, str) else model.graph
    balance = isinstance(model.class_balance, str) and model.class_balance == "estimate"
    rows = model.method not in _BY_PAIRS or balance or isinstance(model.graph, str)
    gathered = (
        gather(chunks, given, rows=rows) if isinstance(chunks, VoteChunks) else chunks.gather(given, rows)
    )
    counted = _of_gathered(model, gathered)
    if not isinstance(model.graph, str):
        return counted
    learned = learned_of(counted.moments)
    if learned.is_trivial:
        return counted._replace(learned=learned)
    if counted.votes is None:
        return counted._replace(moments=Moments.of(chunks, learned), learned=learned)
    joint = Moments.of(counted.votes, learned, sample_weight=counted.weights)
    # Distinct rows do not tell the reasons for missing votes apart; the counts of pairs did.
    return counted._replace(moments=replace(joint, missing=counted.moments.missing), learned=learned)
