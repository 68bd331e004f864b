"""Diagnostics and summary of sequence models."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid.estimation.graph_moments import LARGEST_ERROR
from flyingsquid.estimation.transition import Transition
from flyingsquid.fits.diagnostics import PERSISTENT, Diagnostics, names_in
from flyingsquid.fits.summary import summarize_sources
from flyingsquid.moments import Moments

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SequenceDiagnostics(Diagnostics):
    """Diagnostics of a sequence model: those of its rows, and of their order.

    Attributes
    ----------
    transition : str
        Origin of the transition, for messages.
    correlation, correlation_error : float
        Correlation of neighboring truths, estimated from the votes, and its standard error; 0 and infinite
        without evidence.
    persistent : tuple of str
        Sources whose errors persist from row to row beyond what the truths explain.
    temper : float
        Factor for the evidence of other rows; 1 for the full weight.
    neighbor_share : float
        Weight of the message of all other rows; 0 if every row is labeled separately.
    """

    transition: str
    correlation: float
    correlation_error: float
    persistent: tuple[str, ...]
    temper: float
    neighbor_share: float


def diagnose_sequences(
    rows: Diagnostics,
    source_names: tuple[str, ...],
    transition: Transition,
    temper: float,
    neighbor_share: float,
) -> SequenceDiagnostics:
    """Add the diagnostics of the transition to those of the rows, which include the recommendation."""
    excess = transition.excess_correlation
    return SequenceDiagnostics(
        **{field.name: getattr(rows, field.name) for field in fields(rows)},
        transition=_describe(transition, neighbor_share),
        correlation=transition.correlation,
        correlation_error=transition.error,
        persistent=names_in(source_names, excess > PERSISTENT),
        temper=temper,
        neighbor_share=neighbor_share,
    )


def summarize_sequences(
    moments: Moments,
    accuracies: Array,
    interval: Array,
    diagnostics: SequenceDiagnostics,
    excess: Array,
    transition: Array,
) -> Table:
    """Return one row per source, with its excess correlation, and the transition below."""
    table = summarize_sources(moments, accuracies, interval, diagnostics)
    at = table.columns.index("votes")
    stays = ", ".join(
        f"{100 * transition[k, k]:.1f}% after {label}" for k, label in enumerate(moments.classes)
    )
    return replace(
        table,
        columns=(*table.columns[:at], "excess", *table.columns[at:]),
        rows=tuple(
            (*row[:at], value, *row[at:]) for row, value in zip(table.rows, excess.tolist(), strict=True)
        ),
        formats=(*table.formats[:at], ".2f", *table.formats[at:]),
        footnotes=(
            *table.footnotes,
            "excess: how much more a source agrees with itself in the next row than the truths explain",
            f"the next row has the same class: {stays}",
        ),
    )


def _describe(transition: Transition, neighbor_share: float) -> str:
    if transition.pairs and neighbor_share == 0:
        return (
            "every row is labeled by itself, because the votes do not show that sources are independent "
            "within a row"
        )
    described = _describe_chain(transition)
    return described if neighbor_share in (0, 1) else f"{described}; neighbors count {neighbor_share:.0%}"


def _describe_chain(transition: Transition) -> str:
    if not transition.pairs:
        return (
            "rows are assumed to be independent, because there are no neighboring rows in which two "
            "different sources vote"
        )
    size, error = transition.correlation, transition.error
    if np.isnan(error):
        return f"neighboring truths agree {size:.3f} of the way from chance to always"
    if np.isinf(error):
        return (
            "rows are assumed to be independent, because the votes of neighboring rows contradict the "
            "class balance (pass `class_balance` if another one is known)"
        )
    if error > LARGEST_ERROR:
        return (
            "rows are assumed to be independent, because the votes do not determine the correlation of "
            f"neighboring truths ({size:.2g} ± {error:.2g})"
        )
    unclear = "; not significantly different from independent rows" if abs(size) < error else ""
    return (
        f"correlation of neighboring truths {size:.3f} ± {error:.2g}, from {transition.pairs} ordered "
        f"pairs of different sources{unclear}"
    )
