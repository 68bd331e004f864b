"""Summary of the sources: votes, overlaps, quality on gold labels and by a model, one row per source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid._values import format_count
from flyingsquid.analysis.items import Tasks, read_votes, require_gold
from flyingsquid.estimation.dependence import MOST_SOURCES, near_copies
from flyingsquid.estimation.shares import NORMAL_95
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
    without_unidentified,
)
from flyingsquid.moments import Moments, VotesByClass
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import join_labels, read_task_gold
from flyingsquid.votes.codes import OneHot
from flyingsquid.votes.tallies import SourceTally, item_votes, votes_on

Array = NDArray[np.float64]
Counts = NDArray[np.int64]
# Diagnostics of the model that the votes, or gold labels, determine better.
_FROM_VOTES, _FROM_GOLD = ("silent", "one_sided"), ("useless", "adversarial")


def summarize(votes: Any, y: Any = None, *, model: Any = None) -> Table:
    """Summarize each source in a table.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class. Shape (n, D)
        for a model of D tasks.
    model : fitted label model, optional
        Model of the same sources. It may have been fitted on other votes.

    Returns
    -------
    Table with one row per source, which prints and has ``to_dict`` and ``to_pandas``. The columns are

    - ``j``, ``name``: position and name of the source;
    - ``polarity``: classes it votes for;
    - ``coverage``: share of items it votes on;
    - ``overlaps``: share of items on which it and at least one other source vote;
    - ``conflicts``: share of items on which at least one of these votes for another class;
    - ``correct``, ``incorrect``, ``precision``, with ``y``: its correct and incorrect votes on items with
      gold labels, and the share of correct ones (Snorkel's "Emp. Acc.");
    - ``accuracy``, ``accuracy_low``, ``accuracy_high``, with a model that estimates accuracies: probability
      that a vote is correct, with its 95% interval;
    - ``votes``, and each of ``refused``, ``unparseable``, ``failed`` and ``not_asked`` that occurs: numbers
      of votes;
    - ``flags``: problems of the source. If gold labels are given, they determine which sources are
      worse than chance.

    For a model of several tasks, overlaps and conflicts are counted within each task.

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
    precision: share of correct votes on 3 items with gold labels
    """
    read, tasks = read_votes(model, votes)
    tally, n = SourceTally.of_votes(read), read.n_items
    overlaps, conflicts = _count_by_task(read, tasks)
    gold, n_gold = _gold_by_task(read, tasks, join_labels(y, votes, read))
    columns: Columns = {
        "j": (list(range(read.n_sources)), ""),
        "name": (list(tally.source_names), ""),
        **rate_columns(tally),
        "overlaps": ((overlaps / n).tolist(), ".1%"),
        "conflicts": ((conflicts / n).tolist(), ".1%"),
    }
    footnotes: tuple[str, ...] = ()
    if gold is not None:
        columns["correct"] = (gold.correct.tolist(), ",")
        columns["incorrect"] = (gold.incorrect.tolist(), ",")
        columns["precision"] = (numbers(gold.precision, np.isfinite(gold.precision)), ".1%")
        items = format_count(n_gold, "item")
        footnotes += (f"precision: share of correct votes on {items} with gold labels",)
    accuracies = getattr(model, "accuracies_", None)
    if accuracies is not None and hasattr(model, "diagnostics_"):
        accuracies = without_unidentified(accuracies, model.diagnostics_, model.source_names_)
    estimated, notes = accuracy_columns(tally, accuracies, getattr(model, "accuracies_interval_", None))
    columns |= estimated | vote_columns(tally)
    flags = _flags(read, tally, model, gold)
    columns["flags"] = (["; ".join(remarks) for remarks in flags], "")
    footnotes += tuple(note.replace("accuracy:", "accuracy, estimated:", 1) for note in notes)
    return table_of(columns, tally, footnotes)


def count_overlaps(votes: Votes) -> tuple[Counts, Counts]:
    """Count overlaps and conflicts of each source, shapes (m,). Time O(nm), memory O(n + m).

    An overlap is an item that the source and at least one other vote on; a conflict is an overlap on which
    not all votes are equal. A source that votes on such an item disagrees with some other source, so one pass
    over the items is enough.

    >>> overlaps, conflicts = count_overlaps(Votes.from_classes([[0, 0, -1], [0, 1, -1], [1, -1, -1]]))
    >>> overlaps.tolist(), conflicts.tolist()
    ([2, 2, 0], [1, 1, 0])
    """
    items = item_votes(votes.codes)
    return votes_on(votes.codes, items.n_votes > 1), votes_on(votes.codes, items.split)


@dataclass(frozen=True, slots=True, eq=False)
class GoldTally:
    """Votes of m sources on items with gold labels.

    Attributes
    ----------
    right : integer array of shape (m, K)
        Correct votes of each source on items of class k.
    cast : integer array of shape (m, K)
        All its votes on items of class k.
    said : integer array of shape (m, K)
        Its votes for class k.
    items : integer array of shape (K,)
        Items of each class.
    """

    right: Counts
    cast: Counts
    said: Counts
    items: Counts

    @classmethod
    def of(cls, votes: Votes, gold: NDArray[Any]) -> GoldTally:
        """Count ``votes`` on the items whose code in ``gold``, shape (n,), is not negative."""
        known = np.flatnonzero(gold >= 0)
        part, truth = votes[known], gold[known].astype(np.intp)
        counts = VotesByClass.of(OneHot.of(part.codes, votes.n_classes), truth, np.ones(len(truth)))
        items = np.bincount(truth, minlength=votes.n_classes)
        parts = (counts.right(), counts.by_class(), counts.by_vote(), items)
        return cls(*(part.astype(np.int64) for part in parts))

    @property
    def correct(self) -> Counts:
        """Number of correct votes, shape (m,)."""
        return np.asarray(self.right.sum(axis=1))

    @property
    def incorrect(self) -> Counts:
        """Number of incorrect votes, shape (m,)."""
        return np.asarray(self.cast.sum(axis=1) - self.correct)

    @property
    def precision(self) -> Array:
        """Share of correct votes, shape (m,); NaN without votes."""
        return _share(self.correct, self.cast.sum(axis=1))

    @property
    def precision_error(self) -> Array:
        """Standard error of ``precision``, shape (m,)."""
        cast = np.maximum(self.cast.sum(axis=1), 1)
        p = (self.correct + 1) / (cast + 2)
        return np.asarray(np.sqrt(p * (1 - p) / cast))

    @property
    def chance(self) -> Array:
        """Accuracy of random votes with the same class frequencies, shape (m,); see ``chance_accuracies``."""
        return chance_accuracies(self.cast, self.said, self.items / max(int(self.items.sum()), 1))

    @property
    def skill_error(self) -> Array:
        """Standard error of ``precision - chance`` for sources of several classes, shape (m,)."""
        # One vote each way, so that two equal votes do not count as certainty.
        p = (self.right + 1) / (self.cast + 2)
        variance = np.where(self.cast > 0, p * (1 - p) / np.maximum(self.cast, 1), 0.0)
        share = self.cast / np.maximum(self.cast.sum(axis=1, keepdims=True), 1)
        seen = np.maximum((self.cast > 0).sum(axis=1), 2)
        # What a correct vote on an item of class k adds to both together; exact for two classes.
        weight = share * (1 - share) * (seen / (seen - 1))[:, None]
        return np.asarray(np.sqrt((weight**2 * variance).sum(axis=1)))

    @property
    def worse_than_chance(self) -> NDArray[np.bool_]:
        """Mask of sources that are significantly less accurate than chance, shape (m,)."""
        several = (self.said > 0).sum(axis=1) > 1
        below = np.nan_to_num(self.precision - self.chance) < -NORMAL_95 * self.skill_error
        cast = self.cast.sum(axis=1)
        high = (self.correct + 1) / (cast + 2) + NORMAL_95 * self.precision_error
        return np.asarray(np.where(several, below, (cast > 1) & (high < np.nan_to_num(self.chance))))


def chance_accuracies(truths: NDArray[Any], said: NDArray[Any], balance: Array) -> Array:
    """Return the accuracy of random votes with the same class frequencies, shape (m,).

    This is the agreement by chance of Cohen's kappa, between a source and the truth: for two classes, a
    source is better than chance if its votes depend on the truth in the right direction. A source that votes
    for one class only has the accuracy of chance on the items it votes on, so it is compared with all items.

    Parameters
    ----------
    truths : array of shape (m, K)
        How many of the items that a source votes on are of each class.
    said : array of shape (m, K)
        Its votes for each class.
    balance : array of shape (K,)
        Share of each class in all items.

    Returns
    -------
    array of shape (m,), NaN for sources without votes

    Examples
    --------
    >>> balance = np.array([0.75, 0.25])
    >>> chance_accuracies(np.array([[60, 40], [8, 2]]), np.array([[50, 50], [10, 0]]), balance)
    array([0.5 , 0.75])
    """
    together = np.asarray(truths.sum(axis=1) * said.sum(axis=1))
    one_sided = (said > 0).sum(axis=1) == 1
    return np.where(one_sided, (said > 0) @ balance, _share((truths * said).sum(axis=1), together))


def _count_by_task(votes: Votes, tasks: Tasks) -> tuple[Counts, Counts]:
    """Return overlaps and conflicts within each task, shapes (m,)."""
    overlaps, conflicts = np.zeros((2, votes.n_sources), np.int64)
    for sources in tasks:
        part = votes if len(tasks) == 1 else votes.of_sources(sources)
        overlaps[list(sources)], conflicts[list(sources)] = count_overlaps(part)
    return overlaps, conflicts


def _gold_by_task(votes: Votes, tasks: Tasks, y: Any) -> tuple[GoldTally | None, int]:
    """Return the votes on items with gold labels of their task, and the number of such items."""
    if y is None:
        return None, 0
    codes = read_task_gold(y, votes.classes, (votes.n_items, len(tasks)), "y")
    require_gold(codes)
    n_gold = int((codes >= 0).any(axis=1).sum())
    if len(tasks) == 1:
        return GoldTally.of(votes, codes[:, 0]), n_gold
    right, cast, said = np.zeros((3, votes.n_sources, votes.n_classes), np.int64)
    items = np.zeros(votes.n_classes, np.int64)
    for sources, truth in zip(tasks, codes.T, strict=True):
        part, at = GoldTally.of(votes.of_sources(sources), truth), list(sources)
        right[at], cast[at], said[at] = part.right, part.cast, part.said
        items += part.items
    return GoldTally(right, cast, said, items), n_gold


def _flags(votes: Votes, tally: SourceTally, model: Any, gold: GoldTally | None) -> Notes:
    notes = notes_of_tally(tally)
    diagnostics = getattr(model, "diagnostics_", None)
    if diagnostics is not None:
        counts = getattr(model.moments_, "rows", model.moments_)
        leave_out = _FROM_VOTES + (_FROM_GOLD if gold is not None else ())
        found = notes_of(diagnostics, counts, leave_out)
        notes = [[*own, *more] for own, more in zip(notes, found, strict=True)]
    elif votes.n_sources <= MOST_SOURCES:
        groups = near_copies(Moments.of(votes))
        _, first, inverse = np.unique(groups, return_index=True, return_inverse=True)
        for j, original in enumerate(first[inverse.ravel()].tolist()):
            if original != j:
                notes[j].append(f"near copy of {tally.source_names[original]}")
    if gold is not None:
        for at in np.flatnonzero(gold.worse_than_chance).tolist():
            notes[at].append("worse than chance on gold labels")
    return notes


def _share(part: NDArray[Any], whole: NDArray[Any]) -> Array:
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
