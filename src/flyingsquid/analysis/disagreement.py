"""Items on which the sources disagree: how many there are, and which to look at first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from flyingsquid._table import Scalar, Table, Tabular, as_scalar
from flyingsquid._values import format_count, is_null, read_integer
from flyingsquid.analysis.comparison import differs_from
from flyingsquid.analysis.items import Items, read_items
from flyingsquid.exceptions import IncompatibleError, OptionError
from flyingsquid.inference import vote_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import join_labels
from flyingsquid.votes.codes import Label
from flyingsquid.votes.decisions import expected_credit, winners
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
_BUCKETS = (
    "no vote",
    "a single vote",
    "unanimous",
    "nearly unanimous: up to 20% against",
    "split: 20% to 40% against",
    "contested: more than 40% against",
)
# Largest share of votes against the majority in the fourth and fifth bucket.
_NEARLY_UNANIMOUS, _SPLIT = 0.2, 0.4
# Rows of larger sparse votes are not compared with each other.
_MOST_CELLS = 1 << 26


@dataclass(frozen=True, slots=True)
class ContestedItem:
    """An item to review.

    Attributes
    ----------
    item : int
        Position of the first item with these votes.
    count : int
        Number of items with the same votes.
    votes : tuple of K int
        Votes for each class.
    probabilities : tuple of K floats
        P(Y = k | votes).
    label : class label of the model
    majority : class label by majority vote, or None on a tie
    gold : gold label of this item, or None if unknown
    score : float
        Entropy of the probabilities as a share of the largest possible one, times the number of opposed
        votes: twice the votes that are not for the most frequent class, at most all votes.
    """

    item: int
    count: int
    votes: tuple[int, ...]
    probabilities: tuple[float, ...]
    label: Label
    majority: Label | None
    gold: Label | None
    score: float


@dataclass(frozen=True, slots=True, repr=False)
class ContestedItems(Tabular):
    """Items worth looking at.

    Attributes
    ----------
    uncertain : tuple of ContestedItem, highest score first
        Items with many opposed votes and an uncertain label. Each has the attributes ``item`` (position),
        ``count`` (items with the same votes), ``votes`` and ``probabilities`` (by class), ``label``,
        ``majority``, ``gold`` and ``score``.
    overruled : tuple of ContestedItem, most overruled votes first
        Items whose label differs from the class with the most votes.
    n_overruled : int
        Number of items that the model labels against the majority.
    classes : tuple of K class labels
    """

    uncertain: tuple[ContestedItem, ...]
    overruled: tuple[ContestedItem, ...]
    n_overruled: int
    classes: tuple[Label, ...]

    def table(self) -> Table:
        """Return both lists as one table."""
        kinds = (("uncertain", self.uncertain), ("overruled", self.overruled))
        rows = tuple(self._cells(kind, found) for kind, items in kinds for found in items)
        columns = ("why", "item", "count", "votes", "label", "probability", "majority", "gold", "score")
        notes = (f"votes: for {', '.join(str(as_scalar(c)) for c in self.classes)}",) if rows else ()
        return Table(columns, rows, footnotes=notes, formats=("", "d", ",", "", "", ".2f", "", "", ".2f"))

    def _cells(self, kind: str, found: ContestedItem) -> tuple[Scalar, ...]:
        return (
            kind,
            found.item,
            found.count,
            " : ".join(map(str, found.votes)),
            as_scalar(found.label),
            found.probabilities[self.classes.index(found.label)],
            None if found.majority is None else as_scalar(found.majority),
            None if found.gold is None else as_scalar(found.gold),
            found.score,
        )


def contested_items(
    model: Any,
    votes: Any,
    y: Any = None,
    *,
    n: int = 20,
    task: int | None = None,
    features: Any = None,
) -> ContestedItems:
    """Find the items to review first.

    Two lists of at most ``n`` items: those with an uncertain label although many sources vote, and those
    whose label differs from the majority. Without features, items with the same votes are listed once.

    Parameters
    ----------
    model : fitted label model
    votes : as for ``model.predict_proba``
    y : array of shape (n,), optional
        Gold labels to show; they do not affect the result.
    n : int, default=20
        Length of each list.
    task, features : optional
        As in :func:`~flyingsquid.analysis.compare_with_majority`.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> found = contested_items(fs.LabelModel().fit(sample.votes), sample.votes, n=2)
    >>> [(item.count, item.votes, item.label) for item in found.uncertain]
    [(68, (2, 2), 0), (63, (2, 2), 1)]
    """
    n = read_integer("n", n, 0)
    items = read_items(model, votes, y, task=task, features=features)
    first, counts = _distinct_items(items.votes)
    if features is not None:
        first, counts = np.arange(items.votes.n_items), np.ones(items.votes.n_items, np.int64)
    posterior = items.posterior[first]
    cast = _votes_by_class(items.votes[first])
    labels, majority = winners(posterior), winners(items.shares[first])
    uncertain = _entropy(posterior) * _count_opposing_votes(cast)
    at = np.arange(len(first))
    # Votes for the majority in excess of those for the label, weighted by how certain the label is.
    margin = cast[at, majority] - cast[at, labels]
    overruled = differs_from(posterior, items.shares[first])
    against = np.where(overruled, margin, 0.0) * posterior[at, labels]

    def describe(score: Array) -> tuple[ContestedItem, ...]:
        return tuple(
            _describe(items, int(first[u]), int(counts[u]), cast[u], float(uncertain[u]))
            for u in _largest(score, n)
        )

    n_overruled = int(counts[overruled].sum())
    return ContestedItems(describe(uncertain), describe(against), n_overruled, items.votes.classes)


def disagreement_buckets(
    votes: Any, y: Any = None, *, model: Any = None, task: int | None = None, features: Any = None
) -> Table:
    """Count unanimous, split and contested items, and compare how well each kind is labeled.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class.
    model : fitted label model, optional
    task, features : optional
        As in :func:`~flyingsquid.analysis.compare_with_majority`.

    Returns
    -------
    Table with the columns ``bucket``, ``items`` and ``share``; with a model ``confidence`` (mean probability
    of its label) and ``differs`` (number of its labels that differ from majority vote; ties are not counted);
    with ``y`` ``gold`` (number of gold labels), ``majority_accuracy`` (a tie counts as the share of the tied
    classes that is correct) and, with a model, ``accuracy``. Buckets without items are left out.

    Examples
    --------
    >>> disagreement_buckets([[0, 0, 0], [0, 1, -1], [-1, 1, -1], [0, 0, 1]], y=[0, 1, 1, 1])
    bucket                            items  share  gold  majority_accuracy
    a single vote                         1  25.0%     1             100.0%
    unanimous                             1  25.0%     1             100.0%
    split: 20% to 40% against             1  25.0%     1               0.0%
    contested: more than 40% against      1  25.0%     1              50.0%
    """
    items = read_items(model, votes, y, task=task, features=features)
    bucket = _buckets(items.votes)
    present = np.unique(bucket)
    parts = [bucket == b for b in present]
    columns: dict[str, tuple[list[Scalar], str]] = {
        "bucket": ([_BUCKETS[b] for b in present], ""),
        "items": ([int(part.sum()) for part in parts], ","),
        "share": ([float(part.mean()) for part in parts], ".1%"),
    }
    if model is not None:
        top, differs = items.posterior.max(axis=1), differs_from(items.posterior, items.shares)
        columns["confidence"] = ([float(top[part].mean()) for part in parts], ".2f")
        columns["differs"] = ([int(differs[part].sum()) for part in parts], ",")
    if items.gold is not None:
        known = [part & (items.gold >= 0) for part in parts]
        columns["gold"] = ([int(part.sum()) for part in known], ",")
        credit = expected_credit(items.shares, items.gold)
        columns["majority_accuracy"] = ([_mean(credit[part]) for part in known], ".1%")
        if model is not None:
            right = expected_credit(items.posterior, items.gold)
            columns["accuracy"] = ([_mean(right[part]) for part in known], ".1%")
    return Table.of_columns(columns)


def label_buckets(*labels: Any) -> dict[tuple[Label | None, ...], NDArray[np.intp]]:
    """Group items by their combination of labels, such as gold label and vote of one source.

    Parameters
    ----------
    *labels : arrays of shape (n,), Series, lists, or Votes of one source
        Gold labels, predictions or votes, in the order of the items. A Series is joined by item identifier if
        the votes have some. None, NaN and masked mean no label. Other values stay as they are, also -1.

    Returns
    -------
    dict from tuples with one label per argument, None for no label, to integer arrays
        Positions of the items, ascending.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.Votes.from_classes([[1, 0], [1, -1], [0, 0]], names=["links", "short"])
    >>> buckets = label_buckets([1, 0, 0], votes[:, ["links"]])
    >>> buckets[0, 1]  # gold label 0, vote 1: the errors of this source to look at
    array([1])
    >>> sorted(buckets)
    [(0, 0), (0, 1), (1, 1)]
    """
    if not labels:
        raise OptionError("`labels` must contain at least one array; got none.")
    votes = next((each for each in labels if isinstance(each, Votes)), None)
    columns = []
    for at, values in enumerate(labels):
        if votes is not None and not isinstance(values, Votes):
            values = join_labels(values, votes, votes, f"labels[{at}]")  # noqa: PLW2901
        columns.append(_plain_labels(values, at))
    lengths = {len(column) for column in columns}
    if len(lengths) > 1:
        raise IncompatibleError(
            f"`labels` must have the same length; got {', '.join(map(str, sorted(lengths)))}."
        )
    found: dict[tuple[Label | None, ...], list[int]] = {}
    for row, key in enumerate(zip(*columns, strict=True)):
        found.setdefault(key, []).append(row)
    return {key: np.array(rows, np.intp) for key, rows in found.items()}


def _plain_labels(values: Any, at: int) -> list[Any]:
    """Return labels as Python values, None for no label."""
    if isinstance(values, Votes):
        if values.n_sources != 1:
            raise OptionError(
                f"`labels[{at}]` must be the votes of one source, as votes[:, [name]]; got "
                f"{format_count(values.n_sources, 'source')}."
            )
        dense = np.asarray(values.to_dense().codes)[:, 0]
        names = np.empty(values.n_classes + 1, object)
        names[:-1] = values.classes
        return list(names[np.maximum(dense, -1)])
    array = values if isinstance(values, np.ma.MaskedArray) else np.asarray(values)
    if array.ndim != 1:
        raise OptionError(f"`labels[{at}]` must be one-dimensional; got shape {array.shape}.")
    return [None if is_null(label) else label for label in array.tolist()]


def _distinct_items(votes: Votes) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Return the first item with each combination of votes, and how many items have it."""
    if votes.is_sparse and votes.n_items * votes.n_sources > _MOST_CELLS:
        return np.arange(votes.n_items), np.ones(votes.n_items, np.int64)
    distinct = votes.distinct()
    first = np.empty(len(distinct.counts), np.intp)
    first[distinct.inverse[::-1]] = np.arange(votes.n_items)[::-1]
    return first, distinct.counts


def _votes_by_class(votes: Votes) -> NDArray[np.int64]:
    """Return votes for each class, shape (n, K)."""
    cast = item_votes(votes.codes).n_votes
    shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
    return np.rint(shares * cast[:, None]).astype(np.int64)


def _count_opposing_votes(cast: NDArray[np.int64]) -> Array:
    """Return the number of opposing votes, shape (n,): 4 for 3 against 2, 0 for 5 against 0."""
    total = cast.sum(axis=1)
    return np.minimum(2.0 * (total - cast.max(axis=1)), total)


def _entropy(posterior: Array) -> Array:
    """Return the entropy, between 0 for certain and 1 for uniform, shape (n,)."""
    return np.asarray(entr(posterior).sum(axis=1) / np.log(max(2, posterior.shape[1])))


def _largest(score: Array, n: int) -> list[int]:
    """Return the positions of the n largest positive scores, largest first; the first among equals."""
    return [int(u) for u in np.argsort(-score, kind="stable")[:n] if score[u] > 0]


def _describe(items: Items, item: int, count: int, cast: NDArray[np.int64], score: float) -> ContestedItem:
    classes, gold = items.votes.classes, items.gold
    posterior = items.posterior[item]
    return ContestedItem(
        item=item,
        count=count,
        votes=tuple(cast.tolist()),
        probabilities=tuple(posterior.tolist()),
        label=classes[int(winners(posterior[None])[0])],
        majority=None if (cast == cast.max()).sum() > 1 else classes[int(np.argmax(cast))],
        gold=None if gold is None or gold[item] < 0 else classes[int(gold[item])],
        score=score,
    )


def _buckets(votes: Votes) -> NDArray[np.intp]:
    """Return the position of each item's kind in ``_BUCKETS``, shape (n,)."""
    cast = item_votes(votes.codes).n_votes
    against = 1 - vote_shares(votes.codes, votes.n_classes)[:, 0].max(axis=1) - 1e-9
    bucket = 2 + np.searchsorted([0.0, _NEARLY_UNANIMOUS, _SPLIT], against)
    return np.asarray(np.where(cast < 2, cast, bucket), np.intp)


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None
