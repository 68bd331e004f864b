"""Summaries of sources, one row per source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, as_scalar
from flyingsquid._values import format_count
from flyingsquid.fits.diagnostics import Diagnostics
from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS
from flyingsquid.votes.tallies import SourceTally

Array = NDArray[np.float64]
Notes = list[list[str]]
# Values of a column by its name, and how its numbers are printed.
Columns = dict[str, tuple[list[Scalar], str]]

# A field of Diagnostics that names sources, and the words for one of them.
_NOTES = (
    ("silent", "silent"),
    ("one_sided", "one-sided"),
    ("unidentified", "accuracy not identified"),
    ("useless", "not different from chance"),
    ("adversarial", "worse than chance"),
    ("clipped", "vote rates do not fit the class balance"),
)
_MOST_CLASSES = 6


def summarize_sources(
    moments: Moments,
    accuracies: Array,
    interval: Array | None,
    diagnostics: Diagnostics,
    balance: Array | None = None,
    balance_interval: Array | None = None,
) -> Table:
    """Return one row per source: its polarity, coverage and accuracy.

    Parameters
    ----------
    moments : Moments
    accuracies : array of shape (m,)
        P(vote is right | source votes).
    interval : array of shape (m, 2), or None
        95% intervals of the accuracies; NaN if there is none.
    diagnostics : Diagnostics of the same fit
    balance, balance_interval : arrays of shape (K,) and (K, 2), optional
        The class balance and its 95% intervals, for a note below the table.

    Returns
    -------
    Table with the columns ``source``, ``polarity`` (the classes it votes for), ``coverage`` (share of
    items it votes on), ``accuracy``, ``accuracy_low``, ``accuracy_high``, ``votes``, each of
    ``refused``, ``unparseable``, ``failed`` and ``not_asked`` that occurred, and ``note``. A source that
    never votes, or whose accuracy the votes do not determine, has no accuracy.

    Notes
    -----
    Snorkel's Overlaps and Conflicts, the share of items on which a source votes together with any
    other, are not included, because counts of pairs do not determine them for more than two sources.
    """
    tally = moments.source_tally()
    shown = without_unidentified(accuracies, diagnostics, moments.source_names)
    notes = notes_of(diagnostics, moments)
    if balance is not None:
        by_chance = random_accuracies(tally.votes, balance)
        words = dict(_NOTES)["useless"]  # with many items of one class, random votes are often correct
        notes = [
            [f"{note} ({share:.0%})" if note == words else note for note in own]
            for own, share in zip(notes, by_chance, strict=True)
        ]
    table = source_table(tally, notes, shown, interval)
    footnotes = table.footnotes
    if not np.isfinite(shown[tally.n_votes > 0]).any():
        footnotes = ("accuracy: not identified by the votes of fewer than three sources",)
    if balance is not None:
        shares = format_balance(moments.classes, balance, balance_interval)
        footnotes += (f"class balance, {diagnostics.class_balance}: {shares}",)
    if diagnostics.gold is not None:
        footnotes += (diagnostics.gold.sentence(),)
    if diagnostics.features is not None:
        footnotes += (diagnostics.features.sentence(),)
    return replace(table, footnotes=footnotes)


def random_accuracies(votes: NDArray[Any], balance: Array) -> Array:
    """Return the accuracy of random votes with the class frequencies of each source, shape (m,).

    ``votes`` of shape (m, K) are counts; NaN for sources without votes.

    >>> random_accuracies(np.array([[9, 1], [5, 5], [0, 0]]), np.array([0.8, 0.2])).round(2)
    array([0.74, 0.5 ,  nan])
    """
    total = votes.sum(axis=1)
    return np.divide(votes @ balance, total, out=np.full(len(votes), np.nan), where=total > 0)


def without_unidentified(accuracies: Array, diagnostics: Diagnostics, names: Sequence[str]) -> Array:
    """Return the accuracies (m,), NaN for sources whose accuracy the votes do not determine."""
    return np.where(np.isin(names, diagnostics.unidentified), np.nan, accuracies)


def format_balance(classes: Sequence[Any], balance: Array, interval: Array | None) -> str:
    """Return the class balance with its intervals, if known; for many classes, only the most frequent ones.

    >>> format_balance(("ham", "spam"), np.array([0.6, 0.4]), np.array([[0.5, 0.7], [0.3, 0.5]]))
    'ham 60.0% [50.0%, 70.0%], spam 40.0% [30.0%, 50.0%]'
    """
    order = np.sort(np.argsort(-balance, kind="stable")[:_MOST_CLASSES])
    parts = []
    for k in order:
        low, high = (np.nan, np.nan) if interval is None else interval[k]
        ends = f" [{low:.1%}, {high:.1%}]" if np.isfinite(low) else ""
        parts.append(f"{as_scalar(classes[k])} {balance[k]:.1%}{ends}")
    rest = len(balance) - len(order)
    more = f" and {rest} more" if rest else ""
    return f"{', '.join(parts)}{more}"


def summarize_tally(tally: SourceTally) -> Table:
    """Return one row per source without accuracies, from counts of single sources."""
    return source_table(tally, notes_of_tally(tally))


def notes_of_tally(tally: SourceTally) -> Notes:
    """Return sources that never vote, and sources that vote for one class only."""
    seen = (tally.votes > 0).sum(axis=1)
    return [["silent"] if s == 0 else ["one-sided"] if s == 1 else [] for s in seen.tolist()]


def source_table(
    tally: SourceTally, notes: Notes, accuracies: Array | None = None, interval: Array | None = None
) -> Table:
    """Put the columns together; ``notes`` holds the remarks on each of m sources."""
    accuracy, footnotes = accuracy_columns(tally, accuracies, interval)
    columns: Columns = {
        "source": (list(tally.source_names), ""),
        **rate_columns(tally),
        **accuracy,
        **vote_columns(tally),
        "note": (["; ".join(remarks) for remarks in notes], ""),
    }
    return table_of(columns, tally, footnotes)


def rate_columns(tally: SourceTally) -> Columns:
    """Return the columns ``polarity`` and ``coverage``."""
    polarity: list[Scalar] = [_polarity(tally, i) for i in range(len(tally.source_names))]
    return {"polarity": (polarity, ""), "coverage": (tally.coverage.tolist(), ".1%")}


def accuracy_columns(
    tally: SourceTally, accuracies: Array | None, interval: Array | None
) -> tuple[Columns, tuple[str, ...]]:
    """Return the column ``accuracy`` with its interval, if known, and footnotes."""
    if accuracies is None:
        return {}, ()
    voted = tally.n_votes > 0
    bounds = np.full((len(voted), 2), np.nan) if interval is None else interval
    ends = "" if interval is None else ", with its 95% interval"
    columns: Columns = {
        "accuracy": (numbers(accuracies, voted), ".1%"),
        "accuracy_low": (numbers(bounds[:, 0], voted), ".1%"),
        "accuracy_high": (numbers(bounds[:, 1], voted), ".1%"),
    }
    return columns, (f"accuracy: share of correct votes{ends}",)


def vote_columns(tally: SourceTally) -> Columns:
    """Return the column ``votes``, and one for each reason for missing votes that occurs."""
    columns: Columns = {"votes": (tally.n_votes.tolist(), ",.10g")}
    for reason, counts in zip(REASONS[1:], tally.missing.T, strict=True):
        if counts.any():
            columns[reason] = (counts.tolist(), ",.10g")
    return columns


def table_of(columns: Columns, tally: SourceTally, footnotes: tuple[str, ...]) -> Table:
    """Return the columns as a table of sources."""
    title = f"{format_count(len(tally.source_names), 'source')}, {format_count(tally.n_items, 'item')}"
    return Table.of_columns(columns, title, footnotes)


def notes_of(diagnostics: Diagnostics, moments: Moments, leave_out: Sequence[str] = ()) -> Notes:
    """Return the remarks of ``_NOTES`` that apply to each of m sources, without some fields."""
    names = moments.source_names
    at = {name: i for i, name in enumerate(names)}
    notes: Notes = [[] for _ in names]
    for field, words in _NOTES:
        for name in () if field in leave_out else getattr(diagnostics, field):
            notes[at[name]].append(words)
    for first, *others in diagnostics.identical:
        # The first of a group stays unmarked, so that dropping the marked ones keeps one.
        for name in others:
            notes[at[name]].append(f"{_likeness(moments, at[first], at[name])} of {first}")
    return notes


def _likeness(moments: Moments, i: int, j: int) -> str:
    return "copy" if moments.table(i, j).diagonal().any() else "opposite"


def _polarity(tally: SourceTally, i: int) -> str:
    found = [str(as_scalar(tally.classes[k])) for k in np.flatnonzero(tally.votes[i] > 0)]
    rest = len(found) - _MOST_CLASSES
    return ", ".join(found[:_MOST_CLASSES]) + (f" and {rest} more" if rest > 0 else "")


def numbers(values: NDArray[Any], known: NDArray[np.bool_]) -> list[Scalar]:
    """Return values as cells, blank if they are unknown or not finite."""
    return [v if k and np.isfinite(v) else None for v, k in zip(values.tolist(), known, strict=True)]
