"""Summaries of a fit: tables of sources, sequences, and concerns about sources and the class balance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, as_scalar
from flyingsquid._values import format_count, format_value
from flyingsquid.estimation.intervals import FEWEST_SOURCES
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.estimation.transition import LARGEST_ERROR, Transition
from flyingsquid.fits.base import Fit
from flyingsquid.fits.diagnostics import PERSISTENT, Diagnostics, format_names, names_in, random_accuracies
from flyingsquid.fits.weighted import balanced_accuracies
from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.decisions import best_classes
from flyingsquid.votes.tallies import SourceTally, has_votes

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
    ends = ", with its 95% interval" if np.isfinite(bounds).any() else ""
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
            notes[at[name]].append(f"{_describe_likeness(moments, at[first], at[name])} of {first}")
    return notes


def _describe_likeness(moments: Moments, i: int, j: int) -> str:
    return "copy" if moments.table(i, j).diagonal().any() else "opposite"


def _polarity(tally: SourceTally, i: int) -> str:
    found = [str(as_scalar(tally.classes[k])) for k in np.flatnonzero(tally.votes[i] > 0)]
    rest = len(found) - _MOST_CLASSES
    return ", ".join(found[:_MOST_CLASSES]) + (f" and {rest} more" if rest > 0 else "")


def numbers(values: NDArray[Any], known: NDArray[np.bool_]) -> list[Scalar]:
    """Return values as cells, blank if they are unknown or not finite."""
    return [v if k and np.isfinite(v) else None for v, k in zip(values.tolist(), known, strict=True)]


# ---------------------------------------------------------------------- sequences


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
            "every row is labeled separately, because the votes do not show that sources are independent "
            "within a row"
        )
    described = _describe_chain(transition)
    if neighbor_share in (0, 1):
        return described
    return f"{described}; weight of neighboring rows {neighbor_share:.0%}"


def _describe_chain(transition: Transition) -> str:
    if not transition.pairs:
        return (
            "rows are assumed to be independent, because there are no neighboring rows in which two "
            "different sources vote"
        )
    size, error = transition.correlation, transition.error
    if np.isnan(error):
        return f"agreement of neighboring truths beyond chance: {size:.3f}"
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


# ---------------------------------------------------------------------- concerns


# The most frequent class of the balance and that of the votes differ, each by this much. Clean simulations
# never reach it (tests/fits/test_concerns.py).
_CONTRADICTION = 0.2
# Labels depend on the balance if more than this share of them would be another class.
_DEPENDENT = 0.1
_LEAST_SHARE = 1e-3
# A sample of items is enough to see that: the standard error of a tenth is half a point.
_MOST_ITEMS = 4_000
# With fewer items, as in examples, shares are mostly noise.
_FEW_ITEMS = 20
_ONE_SOURCE = (
    "Only one source votes, so its accuracy cannot be estimated without gold labels; the labels are its "
    "votes."
)
_TWO_SOURCES = (
    "Only two sources vote, so their accuracies cannot be estimated without gold labels: the votes show how "
    "often the sources agree, not which one is right."
)
_BELOW_CHANCE = (
    "Most votes come from sources that are estimated to be worse than chance; check whether classes are "
    "swapped."
)


def concerns_about(fit: Fit, moments: Moments, votes: Votes | None) -> tuple[str, ...]:
    """Return concerns about a fit of one task; ``votes`` are the items that were fitted, if in memory."""
    if fit.class_balance.shape[0] != 1 or moments.n_items < _FEW_ITEMS:
        return ()
    found, balance = [], fit.class_balance[0]
    vote_counts = np.asarray(moments.vote_counts, np.float64)
    shares = vote_counts.sum(axis=0) / max(vote_counts.sum(), 1.0)
    n_voting = int(np.count_nonzero(vote_counts.sum(axis=1)))
    # Closed forms of two classes refuse what they cannot determine.
    if n_voting < FEWEST_SOURCES and not fit.uses_gold and fit.findings is None:
        found.append(_ONE_SOURCE if n_voting == 1 else _TWO_SOURCES)
    voted, likely = int(np.argmax(shares)), int(np.argmax(balance))
    if min(balance[likely] - balance[voted], shares[voted] - shares[likely]) >= _CONTRADICTION:
        names = [format_value(fit.classes[k]) for k in (likely, voted)]
        found.append(
            f"The class balance ({fit.balance_note}) contradicts the votes: {names[0]} has a probability of "
            f"{balance[likely]:.0%}, but {shares[voted]:.0%} of the votes are for {names[1]}. Pass "
            "`class_balance` if it is known."
        )
    # With gold labels the labels are repaired, and the summary names the sources.
    if not fit.uses_gold and _are_most_votes_below_chance(fit, vote_counts, float(moments.n_items)):
        found.append(_BELOW_CHANCE)
    # If the votes are uniform, too, within the sampling error of the items, nothing depends on it.
    error = np.sqrt(balance * (1 - balance) / moments.n_items)
    if votes is not None and np.ptp(balance) == 0 and (np.abs(shares - balance) > NORMAL_95 * error).any():
        changed = _share_that_depends_on_balance(fit, shares, votes)
        if changed >= _DEPENDENT:
            found.append(
                "The labels depend on the class balance, which is assumed to be uniform: with the shares of "
                f"the votes instead, {changed:.0%} of the labels would change. Pass `class_balance` if it is "
                "known."
            )
    return tuple(found)


def silent_sources_concern(moments: Moments) -> tuple[str, ...]:
    """Return a sentence about sources that always abstain, in a tuple; empty if there are none."""
    silent = moments.vote_counts.sum(axis=1) == 0
    if not silent.any():
        return ()
    names = format_names(names_in(moments.source_names, silent))
    return (f"These sources always abstain and are ignored: {names}.",)


def _are_most_votes_below_chance(fit: Fit, vote_counts: Array, n_items: float) -> bool:
    """Return whether most votes, of shape (m, K), are by sources that are worse than chance."""
    several = (vote_counts > 0).sum(axis=1) > 1
    if not several.any():
        return False
    skill, error = balanced_accuracies(fit.confusion, fit.class_balance[0], n_items)
    below = several & (skill < 1 / vote_counts.shape[1] - NORMAL_95 * error)  # False if the error is unknown
    return bool(2 * vote_counts[below].sum() > vote_counts[several].sum())


def _share_that_depends_on_balance(fit: Fit, shares: Array, votes: Votes) -> float:
    """Return the share of labels that would change if the balance were that of the votes, not uniform."""
    codes = votes.codes[:: -(-votes.codes.shape[0] // _MOST_ITEMS)]
    posterior = fit.posterior(codes)[has_votes(codes), 0]
    if not len(posterior):
        return 0.0
    # No class is ruled out because nobody voted for it.
    other = posterior * np.maximum(shares, _LEAST_SHARE) / fit.class_balance[0]
    same = best_classes(posterior) & best_classes(other / other.sum(axis=1, keepdims=True))
    return float(np.mean(~same.any(axis=1)))
