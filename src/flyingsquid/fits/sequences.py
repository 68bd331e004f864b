"""Diagnostics and summary of sequence models."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid.estimation.task_pairs import SAYS_NOTHING
from flyingsquid.estimation.transition import Transition, persistence_of_errors
from flyingsquid.fits.base import Fit
from flyingsquid.fits.diagnostics import (
    PERSISTENT,
    Diagnostics,
    Verdict,
    accuracy_gain,
    names_in,
    persistent_errors_doubt,
    recommend,
)
from flyingsquid.fits.summary import summarize_sources
from flyingsquid.inference import forward_backward, vote_shares, with_own_evidence
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
_DRAWN_SEQUENCES, _DRAWN_STEPS = 200, 100


@dataclass(frozen=True, slots=True, eq=False)
class SequenceDiagnostics(Diagnostics):
    """What a fit of sequences noticed: of its rows, as :class:`Diagnostics` says, and of their order.

    Attributes
    ----------
    transition : origin of the transition, for messages
    correlation, correlation_error : float
        Of neighboring truths, as the votes say, and its standard error; 0 and infinite where they say
        nothing.
    persistent : sources whose errors persist from row to row, beyond what the truths explain
    temper : float
        What the evidence of other rows is multiplied with; 1 where it counts in full.
    neighbor_share : float
        How far the message of all other rows counts; 0 if every row is labeled by itself.
    """

    transition: str
    correlation: float
    correlation_error: float
    persistent: tuple[str, ...]
    temper: float
    neighbor_share: float


def diagnose_sequences(
    rows: Diagnostics,
    fit: Fit,
    transition: Transition,
    coverage: Array,
    temper: float,
    neighbor_share: float,
) -> SequenceDiagnostics:
    """Add to the diagnostics of rows how they follow each other.

    For closed forms of two classes the recommendation is that of the whole sequences; otherwise that of rows.
    """
    verdict = rows.verdict
    if fit.findings is not None:
        verdict = _recommend(fit, fit.findings.clipped, rows, transition, coverage, temper)
    excess = transition.excess_correlation
    plain = {field.name: getattr(rows, field.name) for field in fields(rows)}
    return SequenceDiagnostics(
        **{**plain, "verdict": verdict},
        transition=_describe(transition, neighbor_share),
        correlation=transition.correlation,
        correlation_error=transition.error,
        persistent=names_in(fit.source_names, excess > PERSISTENT),
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
            "rows are taken to be independent, because there are no neighboring rows in which two different "
            "sources vote"
        )
    size, error = transition.correlation, transition.error
    if np.isnan(error):
        return f"neighboring truths are alike {size:.3f} of the way from chance to always"
    if np.isinf(error):
        return (
            "rows are taken to be independent, because the votes of neighboring rows do not fit the class "
            "balance (pass class_balance= if it is not the one used)"
        )
    if error > SAYS_NOTHING:
        return (
            f"rows are taken to be independent, because the correlation of neighboring truths is left open "
            f"({size:.2g} ± {error:.2g})"
        )
    unclear = "; not distinct from independent rows" if abs(size) < error else ""
    return (
        f"neighboring truths correlate {size:.3f} ± {error:.2g}, by {transition.pairs} ordered pairs of "
        f"different sources{unclear}"
    )


def _recommend(
    fit: Fit,
    clipped: NDArray[np.bool_],
    rows: Diagnostics,
    transition: Transition,
    coverage: Array,
    temper: float,
) -> Verdict:
    """Compare the model with majority vote on sequences drawn from itself."""
    balance = fit.class_balance[0]
    codes, y = _draw(np.asarray(fit.confusion), balance, transition.matrix)
    evidence = fit.evidence(codes)[:, 0]
    lengths = np.full(_DRAWN_SEQUENCES, _DRAWN_STEPS)
    posterior, _ = forward_backward(temper * evidence, lengths, balance, transition.matrix)
    posterior = with_own_evidence(posterior, evidence, temper)
    gain = accuracy_gain(posterior, vote_shares(codes, 2)[:, 0], y)
    doubts = []
    persistence = persistence_of_errors(transition.excess_correlation, coverage)
    if persistence > PERSISTENT:
        doubts.append(persistent_errors_doubt(persistence, "row to row"))
    return recommend(gain, fit.accuracies, coverage, clipped=clipped, test=rows.fit_test, doubts=doubts)


def _draw(tables: Array, balance: Array, transition: Array) -> tuple[NDArray[np.int8], NDArray[np.intp]]:
    """Draw codes of rows of sequences, shape (rows, m), and their classes, shape (rows,)."""
    # A fixed seed: the same fit has the same verdict.
    rng = np.random.default_rng(0)
    paths = np.empty((_DRAWN_SEQUENCES, _DRAWN_STEPS), np.intp)
    paths[:, 0] = rng.random(_DRAWN_SEQUENCES) < balance[1]
    for t in range(1, _DRAWN_STEPS):
        paths[:, t] = rng.random(_DRAWN_SEQUENCES) < transition[paths[:, t - 1], 1]
    y = paths.ravel()
    drawn = rng.random((len(y), len(tables)))
    first, second = tables[:, y, 0].T, tables[:, y, 1].T
    return np.where(drawn < first, 0, np.where(drawn < first + second, 1, -1)).astype(np.int8), y
