"""Items on which the sources disagree: how many, how well they are labelled, and which to look at first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, as_scalar
from flyingsquid._values import is_whole, told
from flyingsquid.analysis.reading import Items, read_items, tie_credit, winners
from flyingsquid.exceptions import OptionError
from flyingsquid.inference import vote_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
# Upper ends of the minority's share of the votes, and what such items are called.
_SPLITS = ((0.2, "nearly unanimous: up to 20% against"), (0.4, "split: 20% to 40% against"))
_EVEN = "contested: more than 40% against"


@dataclass(frozen=True, slots=True)
class ContestedRow:
    """An item worth looking at.

    Attributes
    ----------
    row : int
        The first item with these votes; ``votes.items[row]`` is its identifier where there is one.
    items : int
        How many items have the same votes.
    votes : tuple of K
        Votes for each class.
    probabilities : tuple of K, P(Y = k | votes)
    label : the model's label
    majority : the label by majority vote, or None on a tie
    gold : the true class of this item, or None where it is unknown
    score : float
        Entropy of the probabilities, in shares of the largest one, times the number of votes that stand
        against each other: twice the votes that are not for the most voted class, or all of them if that is
        less.
    """

    row: int
    items: int
    votes: tuple[int, ...]
    probabilities: tuple[float, ...]
    label: Label
    majority: Label | None
    gold: Label | None
    score: float

    @property
    def differs(self) -> bool:
        """Whether the model and a majority of the votes disagree."""
        return self.majority is not None and self.majority != self.label


@dataclass(frozen=True, slots=True)
class ContestedRows:
    """The items that matter most to look at.

    Attributes
    ----------
    unsure : tuple of ContestedRow, highest score first
        Many votes on both sides, and a model that cannot decide.
    overruled : tuple of ContestedRow, most overruled votes first
        The model's label is not the one most sources vote for; the larger the margin of the votes and the
        surer the model, the earlier.
    n_overruled : int
        How many items the model labels against the majority, in all.
    classes : tuple of K labels
    """

    unsure: tuple[ContestedRow, ...]
    overruled: tuple[ContestedRow, ...]
    n_overruled: int
    classes: tuple[Label, ...]

    def table(self) -> Table:
        """Both lists under each other."""
        kinds = (("unsure", self.unsure), ("overruled", self.overruled))
        rows = tuple(self._cells(kind, found) for kind, rows in kinds for found in rows)
        columns = ("why", "row", "items", "votes", "label", "probability", "majority", "gold", "score")
        notes = (f"votes: for {', '.join(str(as_scalar(c)) for c in self.classes)}",) if rows else ()
        return Table(columns, rows, footnotes=notes, formats=("", "d", ",", "", "", ".2f", "", "", ".2f"))

    def _cells(self, kind: str, found: ContestedRow) -> tuple[Scalar, ...]:
        return (
            kind,
            found.row,
            found.items,
            " : ".join(map(str, found.votes)),
            as_scalar(found.label),
            found.probabilities[self.classes.index(found.label)],
            None if found.majority is None else as_scalar(found.majority),
            None if found.gold is None else as_scalar(found.gold),
            found.score,
        )

    def to_dict(self) -> dict[str, list[Scalar]]:
        """The table by column, fit for JSON."""
        return self.table().to_dict()

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``."""
        return self.table().to_pandas()

    def __str__(self) -> str:
        return str(self.table())


def contested_rows(
    model: Any, votes: Any, y: Any = None, *, n: int = 20, task: int | None = None
) -> ContestedRows:
    """The items that matter most to look at: where evidence stands against evidence.

    Items with the same votes are one row. Two lists of at most ``n`` rows each: where the model is least
    sure though many votes stand against each other (``ContestedRow.score``), and where it overrules the
    majority.

    Parameters
    ----------
    model : a fitted label model
    votes : as ``model.predict_proba`` takes them
    y : array of shape (n,), optional
        Gold labels, which are shown next to the others and change nothing.
    n : int, default=20
        Length of each list.
    task : int, optional
        Task to look at, for a model of several tasks.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> found = contested_rows(fs.LabelModel().fit(sample.votes), sample.votes, n=2)
    >>> [(row.items, row.votes, row.label) for row in found.unsure]
    [(68, (2, 2), 0), (63, (2, 2), 1)]
    """
    if not is_whole(n) or n < 0:
        raise OptionError(f"n={told(n)} is no number of rows")
    items = read_items(model, votes, y, task=task)
    first, counts = _patterns(items.votes)
    posterior = items.posterior[first]
    cast = _votes_by_class(items.votes[first])
    labels, majority, tied = winners(posterior), winners(items.shares[first]), _is_tie(cast)
    unsure = _entropy(posterior) * _opposed(cast)
    at = np.arange(len(first))
    # Votes that were overruled, net of those on the model's side, by how sure the model is.
    margin = cast[at, majority] - cast[at, labels]
    against = np.where(tied, 0.0, margin) * posterior[at, labels]
    tops = (_top(unsure, n), _top(against, n))
    lists = [
        tuple(
            _described(items, int(first[u]), int(counts[u]), cast[u], int(labels[u]), float(unsure[u]))
            for u in top
        )
        for top in tops
    ]
    n_overruled = int(counts[against > 0].sum())
    return ContestedRows(lists[0], lists[1], n_overruled, items.votes.classes)


def disagreement_buckets(votes: Any, y: Any = None, *, model: Any = None, task: int | None = None) -> Table:
    """Count the items that are unanimous, split and contested, and compare how well each kind is labeled.

    Parameters
    ----------
    votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked are unknown, and -1 unless it is a class.
    model : fitted label model, optional
    task : int, optional
        Task to look at, for a model of several tasks.

    Returns
    -------
    Table with the columns ``bucket``, ``items``, ``share``; with a model ``confidence`` (mean probability of
    its label) and ``differs`` (share of its labels that are not the majority's); with ``y`` ``known``,
    ``majority_accuracy`` (a tie counts as the share it would win by chance) and, with a model, ``accuracy``.
    Buckets without items are left out.

    Examples
    --------
    >>> disagreement_buckets([[0, 0, 0], [0, 1, -1], [-1, 1, -1], [0, 0, 1]], y=[0, 1, 1, 1])
    bucket                            items  share  known  majority_accuracy
    a single vote                         1  25.0%      1             100.0%
    unanimous                             1  25.0%      1             100.0%
    split: 20% to 40% against             1  25.0%      1               0.0%
    contested: more than 40% against      1  25.0%      1              50.0%
    """
    items = read_items(model, votes, y, task=task)
    names, of = _buckets(items.votes)
    n = items.votes.n_items
    columns: dict[str, tuple[list[Scalar], str]] = {}
    present = [b for b in range(len(names)) if (of == b).any()]
    parts = [of == b for b in present]
    columns["bucket"] = ([names[b] for b in present], "")
    columns["items"] = ([int(part.sum()) for part in parts], ",")
    columns["share"] = ([float(part.sum() / n) for part in parts], ".1%")
    if model is not None:
        top, differs = items.posterior.max(axis=1), items.labels != items.majority
        columns["confidence"] = ([float(top[part].mean()) for part in parts], ".2f")
        columns["differs"] = ([float(differs[part].mean()) for part in parts], ".1%")
    if items.gold is not None:
        known = [part & (items.gold >= 0) for part in parts]
        columns["known"] = ([int(part.sum()) for part in known], ",")
        credit = tie_credit(items.shares, items.gold)
        columns["majority_accuracy"] = ([_mean(credit[part]) for part in known], ".1%")
        if model is not None:
            right = (items.labels == items.gold).astype(np.float64)
            columns["accuracy"] = ([_mean(right[part]) for part in known], ".1%")
    rows = tuple(zip(*(values for values, _ in columns.values()), strict=True))
    return Table(tuple(columns), rows, formats=tuple(spec for _, spec in columns.values()))


def _patterns(votes: Votes) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """The first item of each different row of votes, and how many items have that row."""
    if votes.is_sparse and votes.n_items * votes.n_sources > 1 << 26:
        return np.arange(votes.n_items), np.ones(votes.n_items, np.int64)  # too large to compare rows
    distinct = votes.distinct()
    first = np.empty(len(distinct.counts), np.intp)
    first[distinct.inverse[::-1]] = np.arange(votes.n_items)[::-1]
    return first, distinct.counts


def _votes_by_class(votes: Votes) -> NDArray[np.int64]:
    """Votes for each class, shape (n, K)."""
    cast = item_votes(votes.codes).cast
    shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
    return np.rint(shares * cast[:, None]).astype(np.int64)


def _opposed(cast: NDArray[np.int64]) -> Array:
    """Votes that stand against each other, shape (n,): 3 against 2 is 4, 5 against 0 is 0."""
    total = cast.sum(axis=1)
    return np.minimum(2.0 * (total - cast.max(axis=1)), total)


def _entropy(posterior: Array) -> Array:
    """Between 0 for certain and 1 for even, shape (n,)."""
    logs = np.log(posterior, out=np.zeros_like(posterior), where=posterior > 0)
    return np.asarray(-(posterior * logs).sum(axis=1) / np.log(max(2, posterior.shape[1])))


def _is_tie(cast: NDArray[np.int64]) -> NDArray[np.bool_]:
    return np.asarray((cast == cast.max(axis=1, keepdims=True)).sum(axis=1) > 1)


def _top(score: Array, n: int) -> list[int]:
    """The n largest positive scores, largest first; among equals the first."""
    if n == 0:
        return []
    few = np.argpartition(-score, min(n, len(score)) - 1)[:n] if len(score) > n else np.arange(len(score))
    if len(score) > n:  # those that equal the last one, too, so that the first of them is taken
        few = np.flatnonzero(score >= score[few].min())
    order = few[np.lexsort((few, -score[few]))][:n]
    return [int(u) for u in order if score[u] > 0]


def _described(
    items: Items, row: int, count: int, cast: NDArray[np.int64], label: int, score: float
) -> ContestedRow:
    classes, gold = items.votes.classes, items.gold
    posterior = items.posterior[row]
    return ContestedRow(
        row,
        count,
        tuple(cast.tolist()),
        tuple(posterior.tolist()),
        classes[label],
        None if (cast == cast.max()).sum() > 1 else classes[int(np.argmax(cast))],
        None if gold is None or gold[row] < 0 else classes[int(gold[row])],
        score,
    )


def _buckets(votes: Votes) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Names of the kinds of items, and the kind of each, shape (n,)."""
    names = ("no vote", "a single vote", "unanimous", *(name for _, name in _SPLITS), _EVEN)
    cast = item_votes(votes.codes).cast
    against = 1 - vote_shares(votes.codes, votes.n_classes)[:, 0].max(axis=1)
    of = np.full(votes.n_items, len(names) - 1, np.intp)
    for b in range(len(_SPLITS) - 1, -1, -1):
        of[against <= _SPLITS[b][0] + 1e-9] = 3 + b
    of[against <= 1e-9] = 2
    of[cast == 1] = 1
    of[cast == 0] = 0
    return names, of


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
