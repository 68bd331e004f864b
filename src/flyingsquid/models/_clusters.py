"""Votes on a cluster: what a fit asks of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from flyingsquid.estimate.symmetric import SYMMETRIC
from flyingsquid.models import _options
from flyingsquid.models.structure import LearnedGraph, count_for
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

if TYPE_CHECKING:
    from flyingsquid.models.label_model import LabelModel


def count_on_cluster(
    model: LabelModel, votes: Any
) -> tuple[Moments, LearnedGraph | None, Votes | None, NDArray[Any] | None]:
    """Counts, the graph where it was to be learned, and the different rows of votes with their counts.

    One round of map and reduce finds the classes where they are not known, one counts, and one brings the
    rows. With these every pass of a method over the votes is one over the rows, here. They are None where the
    method reads counts alone, or where the rows are too many: then the fit is that of ``fit_moments``.
    """
    votes = votes.with_classes(_options.read_n_classes(model.n_classes, None))
    moments, learned = count_for(model.graph, votes, None)
    rows = None if _reads_counts_alone(model, moments) else votes.patterns(moments)
    return moments, learned, *(rows or (None, None))


def _reads_counts_alone(model: LabelModel, moments: Moments) -> bool:
    """Whether the votes themselves would change nothing."""
    by_pairs = model.method in SYMMETRIC and moments.graph is None and moments.n_classes == 2
    return by_pairs and not (isinstance(model.class_balance, str) and model.class_balance == "estimate")
