"""Sizes from which counts and tables are stored sparsely, and sizes that are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from numpy.typing import NDArray

from flyingsquid.exceptions import GraphError, VotesError
from flyingsquid.moments.plan import CountPlan


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes of counts and tables.

    Attributes
    ----------
    dense_pair_bytes : int
        Counts of pairs of more than two classes that would take more bytes than this are stored sparsely.
    pair_bytes : int
        Dense counts of pairs that would take more bytes than this are refused.
    unit_bytes, all_units_bytes : int
        Counts of the joint votes of one group of dependent sources, and of all such groups together, that
        would take more bytes than this are refused.
    dense_table_cells : int
        Confusion tables with more cells than this are stored sparsely if the method allows it.
    table_cells : int
        Confusion tables with more cells than this are never converted to one array.
    """

    dense_pair_bytes: int = 1 << 28
    pair_bytes: int = 1 << 33
    unit_bytes: int = 1 << 30
    all_units_bytes: int = 1 << 31
    dense_table_cells: int = 1 << 24
    table_cells: int = 1 << 28


_current: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039  # immutable


def current_limits() -> Limits:
    """Return the limits that apply now."""
    return _current.get()


@contextmanager
def use_limits(**changes: int) -> Iterator[Limits]:
    """Change some limits inside a ``with`` block, for the current thread.

    Results do not depend on how counts and tables are stored, so this is for tests and for measurements.

    >>> from flyingsquid.moments import Moments
    >>> with use_limits(dense_pair_bytes=0):
    ...     sparse = Moments.of([[0, 2], [1, 1]])
    >>> sparse == Moments.of([[0, 2], [1, 1]])
    True
    """
    token = _current.set(replace(_current.get(), **changes))
    try:
        yield _current.get()
    finally:
        _current.reset(token)


def are_pairs_sparse(n_sources: int, n_classes: int) -> bool:
    """Whether counts of pairs are stored sparsely; by shape alone, so that parts that are merged agree."""
    return n_classes > 2 and (n_sources * n_classes) ** 2 * 8 > current_limits().dense_pair_bytes


def check_plan_size(plan: CountPlan, n_classes: int) -> None:
    """Refuse counts that would not fit into memory."""
    limits, together = current_limits(), 0
    for unit, number in zip(plan.units, plan.unit_sets, strict=True):
        states = (n_classes + 1) ** len(unit)
        size = states * (1 + n_classes * len(plan.pair_sets[number])) * 8
        if size > limits.unit_bytes:
            raise GraphError(
                f"Sources {', '.join(map(str, unit))} depend on each other, and their joint votes on "
                f"{n_classes:,} classes have {states:,} states; counting them would need {size / 1e9:,.0f} "
                "GB. Remove edges between them, or declare fewer classes."
            )
        together += size
    if together > limits.all_units_bytes:
        raise GraphError(
            f"{len(plan.units):,} groups of sources depend on each other; counting the joint votes of all of "
            f"them on {n_classes:,} classes would need {together / 1e9:,.0f} GB. Declare fewer edges, or "
            "fewer classes."
        )
    if are_pairs_sparse(plan.largest_set, n_classes):
        return
    size = (plan.largest_set * n_classes) ** 2 * 8
    if size > limits.pair_bytes:
        raise VotesError(
            f"Counts of all pairs of {plan.largest_set:,} sources and {n_classes:,} classes would need "
            f"{size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use "
            "MajorityVote."
        )


def check_sequence_size(n_sources: int, n_classes: int) -> None:
    """Refuse counts of neighboring items that would not fit into memory."""
    size = (n_sources * n_classes) ** 2 * 8
    if size > current_limits().pair_bytes:
        raise VotesError(
            f"Counts of neighboring items for {n_sources:,} sources and {n_classes:,} classes would need "
            f"{size / 1e9:,.0f} GB. Declare fewer classes, drop sources that rarely vote, or use LabelModel."
        )


def check_frequencies(weights: NDArray[Any]) -> None:
    """Refuse weights that are probabilities instead of numbers of items."""
    total = float(weights.sum())
    if weights.dtype.kind == "f" and len(weights) > 1 and total < 1 + 1e-6:
        raise VotesError(
            f"`sample_weight` must sum to the number of items; got a sum of {total:g} for {len(weights)} "
            "items. Multiply probabilities by the number of items."
        )
