"""What each source does, beside the others, beside known labels and by a model: one row a source."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid.analysis.overlaps import GoldTally, SourceOverlaps, count_overlaps
from flyingsquid.analysis.reading import read_votes
from flyingsquid.estimation.sources import MOST_SOURCES, near_copies
from flyingsquid.exceptions import VotesError
from flyingsquid.fits.summary import (
    Columns,
    Notes,
    accuracy_columns,
    notes_of,
    notes_of_tally,
    numbers,
    rate_columns,
    table_of,
    vote_columns,
)
from flyingsquid.moments import Moments
from flyingsquid.moments.tally import SourceTally
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import read_task_gold

Tasks = tuple[tuple[int, ...], ...]
# What the votes, or known labels, say better than the model does.
_OF_VOTES, _OF_GOLD = ("silent", "one_sided"), ("useless", "adversarial")


def summarize(votes: Any, y: Any = None, *, model: Any = None) -> Table:
    """What each source does, one row a source. Prints; ``.to_dict()``, ``.to_pandas()``.

    Parameters
    ----------
    votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
    y : array of shape (n,), optional
        True classes; None, NaN and masked are unknown, and -1 unless it is a class. (n, D) for a model of D
        tasks.
    model : a fitted label model, optional
        Of the same sources. It may have been fitted on other votes.

    Returns
    -------
    Table with the columns

    - ``j``, ``name``: position and name of the source;
    - ``polarity``: the classes it votes for;
    - ``coverage``: share of the items it votes on;
    - ``overlaps``: share of the items on which it and at least one other vote;
    - ``conflicts``: share of the items on which at least one other votes for another class;
    - ``correct``, ``incorrect``, ``precision``, with ``y``: its right and wrong votes on items of known
      class, and the share of right ones among them (Snorkel's "Emp. Acc.");
    - ``accuracy``, ``accuracy_low``, ``accuracy_high``, with a model that judges sources: how often a vote is
      right by its estimate, with the ends of the 95% interval;
    - ``votes``, and each of ``refused``, ``unparseable`` and ``failed`` that occurred: how many;
    - ``flags``: what deserves a look. Known labels decide who is worse than chance where there are any.

    Sources of a model of several tasks overlap with others of their own task only.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.Votes.from_classes(
    ...     [[1, 1, -1], [0, 1, -1], [0, 0, -1], [1, -1, 1]], names=["links", "short", "caps"])
    >>> print(fs.summarize(votes, y=[1, 0, 0, None]))
    3 sources, 4 items
    j  name   polarity  coverage  overlaps  conflicts  correct  incorrect  precision  votes  flags
    0  links  0, 1        100.0%    100.0%      25.0%        3          0     100.0%      4
    1  short  0, 1         75.0%     75.0%      25.0%        2          1      66.7%      3
    2  caps   1            25.0%     25.0%       0.0%        0          0                 1  one-sided
    precision: right votes among its votes on 3 items of known class
    """
    read, tasks = read_votes(model, votes)
    tally, n = SourceTally.of_votes(read), read.n_items
    beside = _overlaps(read, tasks)
    gold, n_known = _gold(read, tasks, y)
    columns: Columns = {
        "j": (list(range(read.n_sources)), ""),
        "name": (list(tally.source_names), ""),
        **rate_columns(tally),
        "overlaps": ((beside.overlaps / n).tolist(), ".1%"),
        "conflicts": ((beside.conflicts / n).tolist(), ".1%"),
    }
    footnotes: tuple[str, ...] = ()
    if gold is not None:
        columns["correct"] = (gold.correct.tolist(), ",")
        columns["incorrect"] = (gold.incorrect.tolist(), ",")
        columns["precision"] = (numbers(gold.precision, np.isfinite(gold.precision)), ".1%")
        footnotes += (f"precision: right votes among its votes on {n_known:,} items of known class",)
    judged, said = accuracy_columns(
        tally, getattr(model, "accuracies_", None), getattr(model, "accuracies_interval_", None)
    )
    columns |= judged | vote_columns(tally)
    notes = _flags(read, tally, model, gold)
    columns["flags"] = (["; ".join(remarks) for remarks in notes], "")
    estimated = tuple(note.replace("accuracy:", "accuracy, estimated:", 1) for note in said)
    return table_of(columns, tally, footnotes + estimated)


def _overlaps(votes: Votes, tasks: Tasks) -> SourceOverlaps:
    if len(tasks) == 1:
        return count_overlaps(votes)
    found = SourceOverlaps(np.zeros(votes.n_sources, np.int64), np.zeros(votes.n_sources, np.int64))
    for sources in tasks:
        part = count_overlaps(votes.of_sources(sources))
        found.overlaps[list(sources)], found.conflicts[list(sources)] = part.overlaps, part.conflicts
    return found


def _gold(votes: Votes, tasks: Tasks, y: Any) -> tuple[GoldTally | None, int]:
    """What the sources said on known items of their task, and how many of these there are."""
    if y is None:
        return None, 0
    codes = read_task_gold(y, votes.classes, (votes.n_items, len(tasks)), "y")
    if not (codes >= 0).any():
        raise VotesError("y holds no known class; leave it out where nothing is known")
    n_known = int((codes >= 0).any(axis=1).sum())
    if len(tasks) == 1:
        return GoldTally.of(votes, codes[:, 0]), n_known
    shape = (votes.n_sources, votes.n_classes)
    right, cast, said = (np.zeros(shape, np.int64) for _ in range(3))
    items = np.zeros(votes.n_classes, np.int64)
    for sources, truth in zip(tasks, codes.T, strict=True):
        part, at = GoldTally.of(votes.of_sources(sources), truth), list(sources)
        right[at], cast[at], said[at] = part.right, part.cast, part.said
        items += part.items
    return GoldTally(right, cast, said, items), n_known


def _flags(votes: Votes, tally: SourceTally, model: Any, gold: GoldTally | None) -> Notes:
    notes = notes_of_tally(tally)
    diagnostics = getattr(model, "diagnostics_", None)
    if diagnostics is not None:
        counts = getattr(model.moments_, "rows", model.moments_)
        leave_out = _OF_VOTES + (_OF_GOLD if gold is not None else ())
        noticed = notes_of(diagnostics, counts, leave_out)
        notes = [[*own, *found] for own, found in zip(notes, noticed, strict=True)]
    elif votes.n_sources <= MOST_SOURCES:
        for j, first in _copies(votes):
            notes[j].append(f"near copy of {tally.source_names[first]}")
    if gold is not None:
        for at in np.flatnonzero(gold.worse_than_chance).tolist():
            notes[at].append("worse than chance on known items")
    return notes


def _copies(votes: Votes) -> list[tuple[int, int]]:
    """Sources that are near-copies of an earlier one, with that one."""
    groups: NDArray[np.intp] = near_copies(Moments.of(votes))
    _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
    return [(j, int(first[g])) for j, g in enumerate(inverse.ravel()) if first[g] != j]
