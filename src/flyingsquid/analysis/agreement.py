"""Agreement of sources: of pairs, beyond chance, given the true class, and reliability of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from flyingsquid._table import Table
from flyingsquid._values import format_count, is_number, is_one_of, option_error
from flyingsquid.analysis.items import read_votes, require_gold
from flyingsquid.estimation.dependence import MOST_SOURCES, near_copies
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.fits.diagnostics import names_in_groups
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import in_item_order, join_labels, read_task_gold
from flyingsquid.votes.codes import Label, read_columns
from flyingsquid.votes.tallies import class_counts

Array = NDArray[np.float64]
# Items with a smaller weight in a class are left out; a smaller variance counts as none.
_LEAST_WEIGHT, _NO_SPREAD = 1e-4, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Agreement of each pair of m sources.

    Attributes
    ----------
    source_names : tuple of m str
    overlaps : array of shape (m, m)
        Items that both vote on; on the diagonal, items that the source votes on.
    share : array of shape (m, m)
        Share of equal votes on these; NaN for pairs without common items.
    beyond_chance : array of shape (m, m)
        Cohen's kappa: 1 if votes are always equal, 0 if as often as by chance, negative if less often. NaN
        for pairs without common items, or if all votes are equal.
    duplicates : tuple of tuples of str
        Groups of near-copies: sources that agree much more than all others.
    """

    source_names: tuple[str, ...]
    overlaps: Array
    share: Array
    beyond_chance: Array
    duplicates: tuple[tuple[str, ...], ...]

    def _repr_html_(self) -> str:
        return replace(self.pairs(), title="Pairs that agree most beyond chance")._repr_html_()

    def pairs(self, most: int = 10, *, least_overlap: int = 30) -> Table:
        """Return a table of the pairs that agree most beyond chance on enough common items."""
        first, second = np.triu_indices(len(self.source_names), 1)
        kappa, met = self.beyond_chance[first, second], self.overlaps[first, second]
        known = np.flatnonzero(np.isfinite(kappa) & (met >= least_overlap))
        kept = known[np.argsort(-kappa[known], kind="stable")][:most]
        rows = tuple(
            (
                self.source_names[first[at]],
                self.source_names[second[at]],
                int(met[at]),
                float(self.share[first[at], second[at]]),
                float(kappa[at]),
            )
            for at in kept
        )
        columns = ("source", "other", "overlaps", "share", "beyond_chance")
        return Table(columns, rows, formats=("", "", ",", ".1%", ".2f"))


def agreement(votes: Any, *, model: Any = None) -> Agreement:
    """Compute the agreement of all pairs of sources. Memory O(m²).

    Parameters
    ----------
    votes : Votes, Moments, array-like or dataframe of shape (n, m)
        At most 2,000 sources; select some with ``votes.of_sources``.
    model : fitted label model, optional
        Model that defines the classes and sources of the votes.

    Examples
    --------
    >>> found = agreement([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, -1]])
    >>> found.share.round(2)
    array([[1.  , 0.75, 0.67],
           [0.75, 1.  , 0.67],
           [0.67, 0.67, 1.  ]])
    >>> found.beyond_chance.round(2)
    array([[1. , 0.5, 0.4],
           [0.5, 1. , 0.4],
           [0.4, 0.4, 1. ]])
    """
    moments = votes if isinstance(votes, Moments) else Moments.of(_check_size(read_votes(model, votes)[0]))
    if not moments.has_all_pairs:
        raise OptionError(
            "`votes` must be counts of all pairs; got counts for a graph of several tasks. Pass the votes."
        )
    overlap, alike, by_chance = _compared(moments)
    names = moments.source_names
    copies = names_in_groups(names, near_copies(moments))
    share = np.divide(alike, overlap, out=np.full_like(overlap, np.nan), where=overlap > 0)
    defined = (1 - by_chance > 1e-12) & (overlap > 0)
    kappa = np.divide(share - by_chance, 1 - by_chance, out=np.full_like(overlap, np.nan), where=defined)
    return Agreement(names, overlap, share, kappa, copies)


def dependence_given_truth(
    votes: Any, y: Any = None, *, posterior: ArrayLike | None = None, model: Any = None
) -> Array:
    """Compute the correlation of the votes of each pair of sources given the true class.

    On the items that both vote on, the covariances of "votes for class v" are summed over v within each true
    class; for two classes this is the correlation of the votes within the classes. It is 0 for sources that
    err independently, and NaN for pairs without common items or without variation. A source that votes for
    one class only does not vary on the items it votes on; for its pairs all items are used, and abstaining
    counts as another vote.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
        At most 2,000 sources.
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class.
    posterior : array of shape (n, K), optional
        P(Y = k | votes), to use instead of ``y``: each item counts for every class with its probability. An
        overconfident model hides some of the dependence, because its errors are taken for the truth.
    model : fitted label model, optional
        Model that defines the classes and sources of the votes.

    Returns
    -------
    array of shape (m, m)

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 1], [1, 1, 0]]
    >>> dependence_given_truth(votes, [0, 0, 0, 1, 1, 1])[0].round(2)
    array([ 1. ,  1. , -0.5])
    """
    if (y is None) == (posterior is None):
        raise OptionError("Exactly one of `y` and `posterior` must be given.")
    read = _check_size(read_votes(model, votes)[0])
    if posterior is None:
        y = join_labels(y, votes, read)
        gold = read_task_gold(y, read.classes, (read.n_items, 1), "y")[:, 0]
        require_gold(gold)
        # Only classes that occur: there may be thousands of others.
        by_class = ((gold == k).astype(np.float64) for k in np.unique(gold[gold >= 0]))
    else:
        shares = np.asarray(in_item_order(posterior, votes, read, "posterior"), np.float64)
        if shares.shape != (read.n_items, read.n_classes):
            raise OptionError(
                f"`posterior` must have shape ({read.n_items}, {read.n_classes}); got {shares.shape}."
            )
        by_class = (weight for weight in shares.T)
    m = read.n_sources
    met, apart, total = np.zeros((3, m, m)), np.zeros((3, m, m)), np.zeros((m, read.n_classes))
    for weight in by_class:
        items = np.flatnonzero(weight > _LEAST_WEIGHT)
        if weight[items].sum() > 1.01:  # fewer than two items do not determine a correlation
            moments = Moments.of(read[items], sample_weight=weight[items])
            met, apart, total = (
                met + _among_shared(moments),
                apart + _among_all(moments),
                total + _count_votes(moments),
            )
    one_sided = (total > 0).sum(axis=1) < 2
    return np.where(one_sided[:, None] | one_sided, _correlation(apart), _correlation(met))


def effective_sources(correlations: Array, overlaps: Array | None = None) -> float:
    """Return the effective number of independent sources, m² / Σ Rᵢⱼ², between 1 and m.

    ``correlations``, shape (m, m), are given the truth; unknown and negative ones count as 0, and so do those
    within two standard errors of 0 if ``overlaps``, the numbers of common items, are given.

    >>> effective_sources(np.eye(4)), effective_sources(np.ones((4, 4)))
    (4.0, 1.0)
    """
    shared = np.maximum(np.nan_to_num(correlations), 0.0)
    if overlaps is not None:
        shared = np.where(shared > 2 / np.sqrt(np.maximum(overlaps, 1.0)), shared, 0.0)
    np.fill_diagonal(shared, 1.0)
    return float(len(shared) ** 2 / np.sum(shared**2))


def _check_size(votes: Votes) -> Votes:
    if votes.n_sources > MOST_SOURCES:
        raise OptionError(
            f"`votes` must have at most {MOST_SOURCES:,} sources to compare all pairs; got "
            f"{votes.n_sources:,}. Select some with votes.of_sources."
        )
    return votes


def _correlation(parts: Array) -> Array:
    """Divide covariances by the root of both variances, shape (m, m); NaN if a source does not vary."""
    covariance, first, second = parts
    scale = np.sqrt(np.maximum(first * second, 0.0))
    return np.divide(covariance, scale, out=np.full_like(covariance, np.nan), where=scale > _NO_SPREAD)


def _among_shared(moments: Moments) -> Array:
    """Return covariances and both variances on common items, summed over votes, shape (3, m, m)."""
    overlap, alike, by_chance = _compared(moments)
    # Σᵥ Var(1{i votes v}) among the items that j votes on too is 1 - Σᵥ P(v)².
    spread = overlap - np.divide(_squares(moments), overlap, out=np.zeros_like(overlap), where=overlap > 0)
    return np.stack([np.where(overlap > 0, alike - by_chance * overlap, 0.0), spread, spread.T])


def _among_all(moments: Moments) -> Array:
    """Return the same statistics on all items, with abstaining as an additional vote."""
    overlap, alike, _ = _compared(moments)
    cast, n = _count_votes(moments), float(moments.n_items)
    voted = cast.sum(axis=1)
    covariance = alike + overlap - (cast @ cast.T + np.outer(voted, voted)) / n
    spread = 2 * voted - ((cast**2).sum(axis=1) + voted**2) / n
    return np.stack([covariance, *np.broadcast_arrays(spread[:, None], spread)])


def _compared(moments: Moments) -> tuple[Array, Array, Array]:
    """Return shared items, equal votes, and the share of equal votes by chance, shape (m, m) each."""
    pairs, cast = moments.compare_pairs(), _count_votes(moments)
    share = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1e-300)
    by_chance = np.diag((share**2).sum(axis=1))
    by_chance[pairs.first, pairs.second] = by_chance[pairs.second, pairs.first] = pairs.chance
    return moments.overlap().astype(np.float64), moments.agreement().astype(np.float64), by_chance


def _count_votes(moments: Moments) -> Array:
    return np.asarray(moments.vote_counts, np.float64)


def _squares(moments: Moments) -> Array:
    """Return Σᵥ (items that both vote on and i votes v)², shape (m, m)."""
    m = moments.n_sources
    squares = (np.asarray(moments.by_own_vote(k), np.float64) ** 2 for k in range(moments.n_classes))
    return sum(squares, start=np.zeros((m, m)))


# ---------------------------------------------------------------------- reliability


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

    __repr__ = __str__


def krippendorff_alpha(votes: Any, *, level: Level = "nominal") -> Reliability:
    """Compute Krippendorff's alpha, for any number of sources and missing votes.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    level : {"nominal", "ordinal", "interval"}, default="nominal"
        Distance of two classes: the same for all pairs (nominal), the number of votes between them in the
        order of the classes (ordinal), or the difference of the class labels, which must be numbers
        (interval).

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
        raise option_error("level", f"one of {', '.join(get_args(Level))}", level)
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

    Examples
    --------
    >>> ratings = [[1, 1], [2, 3], [3, 3], [2, 2], [1, 2], [1, 1]]
    >>> round(cohen_kappa(ratings, weights="quadratic").value, 3)
    0.75
    """
    if weights is not None and not is_one_of(weights, get_args(Weights)):
        raise option_error("weights", '"linear", "quadratic" or None', weights)
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
