"""Reliability of sources: Krippendorff's alpha, Fleiss' kappa and Cohen's kappa, with intervals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from flyingsquid._values import format_count, format_value, is_number, is_one_of
from flyingsquid.analysis.items import read_votes
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label, read_columns
from flyingsquid.votes.tallies import class_counts

Array = NDArray[np.float64]
Level = Literal["nominal", "ordinal", "interval"]
Weights = Literal["linear", "quadratic"]
# Groups of items that are left out in turn; fewer than two have no standard error.
_GROUPS = 100


@dataclass(frozen=True, slots=True)
class Reliability:
    """A coefficient of agreement beyond chance: 1 if all votes agree, 0 if they agree as often as by chance.

    Attributes
    ----------
    name : str
    value : float
        NaN if all votes are for one class.
    interval : tuple of two floats
        95% interval by the jackknife over items.
    n_items : int
        Number of items with at least two votes.
    """

    name: str
    value: float
    interval: tuple[float, float]
    n_items: int

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        items = format_count(self.n_items, "item")
        return f"{self.name} {self.value:.3f} (95% interval {low:.3f} to {high:.3f}, {items})"


def krippendorff_alpha(votes: Any, *, level: Level = "nominal") -> Reliability:
    """Compute Krippendorff's alpha, for any number of sources and missing votes.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    level : {"nominal", "ordinal", "interval"}, default="nominal"
        Distance of two classes: the same for all pairs (nominal), the number of votes between them in the
        order of the classes (ordinal), or the difference of the class labels, which must be numbers
        (interval).

    Returns
    -------
    Reliability

    Examples
    --------
    >>> ratings = [[1, 1, None], [2, 2, 3], [3, 3, 3], [2, 2, 2], [1, 2, 2], [1, 1, 1]]
    >>> print(krippendorff_alpha(ratings, level="interval"))
    Krippendorff's alpha (interval) 0.807 (95% interval 0.300 to 1.000, 6 items)

    References
    ----------
    Hayes, Krippendorff: Answering the Call for a Standard Reliability Measure for Coding Data, 2007.
    """
    if not is_one_of(level, get_args(Level)):
        raise OptionError(f"`level` must be one of {', '.join(get_args(Level))}; got {format_value(level)}.")
    read, counts = _pairable(votes)
    values = _numbers(read.classes) if level == "interval" else np.arange(len(read.classes), dtype=np.float64)

    def alpha(rows: Array) -> float:
        per_class = rows.sum(axis=0)
        distance = _distances(level, values, per_class)
        total = per_class.sum()
        observed = (np.einsum("ic,ck,ik->i", rows, distance, rows) / (rows.sum(axis=1) - 1)).sum()
        expected = per_class @ distance @ per_class
        return float(1 - (total - 1) * observed / expected) if expected > 0 else np.nan

    return _jackknife(f"Krippendorff's alpha ({level})", alpha, counts)


def fleiss_kappa(votes: Any) -> Reliability:
    """Compute Fleiss' kappa.

    Items may have different numbers of votes; each item counts the same. Items with fewer than two votes are
    left out.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)

    Returns
    -------
    Reliability

    Examples
    --------
    >>> print(fleiss_kappa([[0, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]]))
    Fleiss' kappa 0.556 (95% interval -0.224 to 1.000, 6 items)
    """
    _, counts = _pairable(votes)

    def kappa(rows: Array) -> float:
        sizes = rows.sum(axis=1)
        observed = (((rows**2).sum(axis=1) - sizes) / (sizes * (sizes - 1))).mean()
        shares = rows.sum(axis=0) / rows.sum()
        chance = (shares**2).sum()
        return float((observed - chance) / (1 - chance)) if chance < 1 else np.nan

    return _jackknife("Fleiss' kappa", kappa, counts)


def cohen_kappa(
    votes: Any, first: int | str = 0, second: int | str = 1, *, weights: Weights | None = None
) -> Reliability:
    """Compute Cohen's kappa of two sources, on the items that both vote on.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    first, second : int or str, default=0 and 1
        The sources, by position or name.
    weights : {"linear", "quadratic"}, optional
        Weights of disagreements by the distance of the two classes in their order. Default: all
        disagreements have the same weight.

    Returns
    -------
    Reliability

    Examples
    --------
    >>> ratings = [[1, 1], [2, 3], [3, 3], [2, 2], [1, 2], [1, 1]]
    >>> round(cohen_kappa(ratings, weights="quadratic").value, 3)
    0.75
    """
    if weights is not None and not is_one_of(weights, get_args(Weights)):
        raise OptionError(f'`weights` must be "linear", "quadratic" or None; got {format_value(weights)}.')
    read, _ = read_votes(None, votes)
    columns = read_columns([first, second], read.n_sources, read.names)
    pair = np.asarray(read.of_sources(columns).to_dense().codes)
    pair = pair[(pair >= 0).all(axis=1)]
    if not len(pair):
        raise VotesError("The two sources must vote on at least one common item.")
    n_classes = read.n_classes
    distance = np.abs(np.subtract.outer(np.arange(n_classes), np.arange(n_classes))).astype(np.float64)
    power = {None: 0, "linear": 1, "quadratic": 2}[weights]
    distance = np.where(distance > 0, distance**power, 0.0)

    def kappa(rows: NDArray[Any]) -> float:
        table = np.bincount(rows[:, 0] * n_classes + rows[:, 1], minlength=n_classes**2)
        table = table.reshape(n_classes, n_classes).astype(np.float64)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        by_chance = (distance * expected).sum()
        return float(1 - (distance * table).sum() / by_chance) if by_chance > 0 else np.nan

    name = "Cohen's kappa" if weights is None else f"Cohen's kappa ({weights} weights)"
    return _jackknife(name, kappa, pair.astype(np.int64))


# ---------------------------------------------------------------------- parts


def _pairable(votes: Any) -> tuple[Votes, Array]:
    """Return the votes, and the counts of each class on items with at least two votes."""
    read, _ = read_votes(None, votes)
    counts = class_counts(read.codes, read.n_classes)
    counts = counts[counts.sum(axis=1) >= 2]
    if not len(counts):
        raise VotesError("At least one item must have two votes or more.")
    return read, counts


def _numbers(classes: tuple[Label, ...]) -> Array:
    if not all(is_number(label) for label in classes):
        raise OptionError('`level` must be "nominal" or "ordinal" for classes that are not numbers.')
    return np.array(classes, np.float64)


def _distances(level: Level, values: Array, per_class: Array) -> Array:
    """Return squared distances of classes, shape (K, K)."""
    if level == "nominal":
        return 1.0 - np.eye(len(values))
    if level == "ordinal":
        # Votes up to the middle of each class, so that differences count the votes between two classes.
        values = np.cumsum(per_class) - per_class / 2
    return np.subtract.outer(values, values) ** 2


def _jackknife(name: str, statistic: Callable[[NDArray[Any]], float], rows: NDArray[Any]) -> Reliability:
    """Return a statistic of items with its 95% interval, leaving out groups of items in turn."""
    value, n = statistic(rows), len(rows)
    groups = min(n, _GROUPS)
    if groups < 2 or np.isnan(value):
        return Reliability(name, value, (np.nan, np.nan), n)
    group = np.arange(n) % groups
    without = np.array([statistic(rows[group != g]) for g in range(groups)])
    error = float(np.sqrt((groups - 1) * np.var(without)))
    reach = float(stdtrit(groups - 1, 0.975)) * error
    return Reliability(name, value, (max(-1.0, value - reach), min(1.0, value + reach)), n)
