"""Estimate rates such as a pass rate or a prevalence from few gold labels and a model's probabilities."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from flyingsquid._table import Scalar, Table, Tabular, as_scalar
from flyingsquid._values import (
    format_count,
    format_list,
    format_value,
    is_integer,
    is_null,
    is_number,
    option_error,
)
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.items import Items, read_items, read_votes
from flyingsquid.estimation.shares import difference_interval, estimate_shares, gold_shares, looks_random
from flyingsquid.exceptions import Hint, OptionError, VotesError
from flyingsquid.votes.arguments import item_ids, join_by_item
from flyingsquid.votes.encode import as_column

Array = NDArray[np.float64]
# With fewer gold labels an interval covers most of the range from 0 to 1, and its coverage is not tested.
MIN_GOLD = 5


@dataclass(frozen=True, slots=True)
class Rate:
    """Share of one class among the items of a group.

    Attributes
    ----------
    group : label or None
        None if items are not grouped.
    label : class label
    n_items, n_gold : int
        Number of items and of gold labels.
    share : float or None
        Estimated share of the class; None if the group has fewer than five gold labels.
    low, high : float or None
        Ends of the confidence interval.
    n_effective : float or None
        Number of gold labels that would be as precise without a model: for many items, ``n_gold`` times the
        variance without the model, divided by the variance with it.
    gold_share, gold_low, gold_high : float or None
        Share among the gold labels, and its interval without a model (Wilson).
    """

    group: Any
    label: Any
    n_items: int
    n_gold: int
    share: float | None = None
    low: float | None = None
    high: float | None = None
    n_effective: float | None = None
    gold_share: float | None = None
    gold_low: float | None = None
    gold_high: float | None = None


@dataclass(frozen=True, slots=True)
class RateDifference:
    """Share of a class in one group minus its share in another.

    Attributes
    ----------
    label : class label
    first, second : names of the groups
    difference : float
        Share in ``first`` minus share in ``second``.
    low, high : float
        Ends of the confidence interval. If it does not contain 0, the groups differ.
    """

    label: Any
    first: Any
    second: Any
    difference: float
    low: float
    high: float

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return {key: as_scalar(value) for key, value in asdict(self).items()}

    def sentence(self) -> str:
        """Return the difference as a sentence."""
        return (
            f"{self.label}: {self.first} minus {self.second} is {100 * self.difference:+.1f} points "
            f"(interval {100 * self.low:+.1f} to {100 * self.high:+.1f})."
        )


@dataclass(frozen=True, slots=True, repr=False)
class Rates(Tabular):
    """Shares of classes with confidence intervals. Prints as a table.

    Attributes
    ----------
    rates : tuple of Rate
        One per group and class, groups in order.
    confidence : float
        Confidence level of the intervals.
    concerns : tuple of str
        Reasons to doubt the intervals, such as a sample that does not look random.
    """

    rates: tuple[Rate, ...]
    confidence: float
    concerns: tuple[str, ...] = ()

    @property
    def groups(self) -> tuple[Any, ...]:
        """The groups in order; one None if items are not grouped."""
        return tuple(dict.fromkeys(rate.group for rate in self.rates))

    def rate(self, label: Any, group: Any = None) -> Rate:
        """Return the rate of one class in one group.

        Parameters
        ----------
        label : class label
        group : name of a group, optional
            Needed if items are grouped.
        """
        for each in self.rates:
            if each.label == label and each.group == group:
                return each
        if group not in self.groups:
            raise option_error("group", f"one of {format_list(self.groups)}", group)
        labels = tuple(dict.fromkeys(each.label for each in self.rates))
        raise option_error("label", f"one of {format_list(labels)}", label)

    def difference(self, first: Any, second: Any) -> tuple[RateDifference, ...]:
        """Return the difference of each share between two groups, with intervals for independent groups.

        Parameters
        ----------
        first, second : names of groups
            Differences are shares in ``first`` minus shares in ``second``.
        """
        found = []
        for label in dict.fromkeys(each.label for each in self.rates):
            ends = []
            for group in (first, second):
                rate = self.rate(label, group)
                if rate.share is None or rate.low is None or rate.high is None:
                    raise OptionError(
                        f"The group {format_value(group)} must have at least {MIN_GOLD} gold labels for a "
                        f"difference; it has {rate.n_gold}."
                    )
                ends.append((rate.share, rate.low, rate.high))
            found.append(RateDifference(label, first, second, *difference_interval(*ends)))
        return tuple(found)

    @property
    def differences(self) -> tuple[RateDifference, ...]:
        """The differences between two groups with enough gold labels; empty for more or fewer groups."""
        is_complete = all(rate.share is not None for rate in self.rates)
        return self.difference(*self.groups) if len(self.groups) == 2 and is_complete else ()

    def table(self) -> Table:
        """Return the rates as a table, with the differences and concerns as footnotes."""
        rows: list[tuple[Scalar, ...]] = []
        for r in self.rates:
            names = (as_scalar(r.group), as_scalar(r.label))
            rows.append((*names, r.share, r.low, r.high, r.n_gold, r.n_effective, r.n_items))
        columns = ("group", "class", "share", "low", "high", "gold", "n_eff", "items")
        formats = ("", "", ".1%", ".1%", ".1%", ",d", ",.0f", ",d")
        return Table(columns, tuple(rows), footnotes=self._footnotes(), formats=formats)

    def _footnotes(self) -> tuple[str, ...]:
        notes = [
            f"low, high: {100 * self.confidence:.4g}% confidence interval. n_eff: number of gold labels that "
            "would be as precise without a model."
        ]
        shown = self.differences[-1:] if len(self.differences) == 2 else self.differences
        notes += [difference.sentence() for difference in shown]
        return (*notes, *self.concerns)

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return {
            "confidence": self.confidence,
            "rates": [{k: as_scalar(value) for k, value in asdict(rate).items()} for rate in self.rates],
            "differences": [difference.to_dict() for difference in self.differences],
            "concerns": list(self.concerns),
        }


def estimate_rate(
    model: Any,
    votes: Any,
    gold: Any,
    *,
    by: Any = None,
    confidence: float = 0.95,
    cross_fit: int | None = None,
    task: int | None = None,
) -> Rates:
    """Estimate the share of each class with a confidence interval, from few gold labels and a model.

    The gold labels must be a random sample of the items, or of the items of each group. The estimate is
    unbiased and the interval is valid for any model. The more accurate the probabilities of the model are,
    the narrower the interval is.

    Parameters
    ----------
    model : fitted label model
        Fitted without the labels in ``gold``; see ``cross_fit``.
    votes : as for ``model.predict_proba``
        Votes on all items whose shares are estimated.
    gold : sequence of n labels, or mapping or pandas Series by item identifier
        Gold labels of at least five items; None, NaN and masked values are unknown, and so is -1 unless it is
        a class. Items are identified by the index of a pandas table of votes, or by ``Votes.items``.
    by : sequence of n group names, or mapping or pandas Series by item identifier, optional
        The group of each item, such as the system that produced it. Shares are estimated for each group.
    confidence : float, default=0.95
        Confidence level of the intervals, between 0.5 and 1.
    cross_fit : int, optional
        For a model that was fitted with gold labels, which fits these labels better than others and would
        make the intervals too narrow. A number k >= 2 fits copies of the model again, each without one of k
        parts of ``gold``, which the copy is then compared with; copies receive no other gold labels. 0 uses
        the model as it is, which is valid if its gold labels are of other items. By default, such a model
        raises an error.
    task : int, optional
        Task to estimate, for a model of several tasks.

    Returns
    -------
    Rates
        One :class:`Rate` per group and class, printed as a table. ``difference(a, b)`` compares two groups,
        and ``to_dict()`` returns values for JSON.

    Raises
    ------
    VotesError
        If fewer than five gold labels are known, or labels or groups cannot be joined with the votes.
    OptionError
        If an option is invalid, or the model was fitted with gold labels and ``cross_fit`` is None.

    Notes
    -----
    The intervals are about the shares among the given items, so they shrink to a point when all items have
    gold labels. For shares in a larger population from which few items were drawn, they are slightly too
    narrow if a large part of the items has gold labels. The formulas are in
    :func:`flyingsquid.estimation.shares.estimate_shares`.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     10_000, [0.9, 0.85, 0.8, 0.75], class_balance=[0.7, 0.3], random_state=0)
    >>> gold = np.full(10_000, -1)
    >>> chosen = np.random.default_rng(0).choice(10_000, 100, replace=False)
    >>> gold[chosen] = sample.y[chosen]
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> fs.estimate_rate(model, sample.votes, gold)
    class  share    low   high  gold  n_eff   items
        0  73.4%  69.7%  76.9%   100    567  10,000
        1  26.6%  23.1%  30.3%   100    567  10,000
    low, high: 95% confidence interval. n_eff: number of gold labels that would be as precise without a model.
    """
    if not is_number(confidence) or not 0.5 <= confidence < 1:
        raise option_error("confidence", "a number from 0.5 to below 1", confidence)
    z = float(ndtri((1 + confidence) / 2))
    if model is None:
        raise OptionError("`model` must be a fitted label model; got None.", parameter="model")
    read, tasks = read_votes(model, votes)
    if cross_fit and len(tasks) > 1:
        raise OptionError(
            "`cross_fit` must be None or 0 for a model of several tasks.", parameter="cross_fit"
        )
    gold = join_by_item(gold, item_ids(votes, read, gold), read.n_items, "gold")
    items = read_items(model, read, gold, task=task, name="gold")
    truth = items.gold
    if truth is None:
        raise OptionError("`gold` must be gold labels; got None.", parameter="gold")
    if np.count_nonzero(truth >= 0) < MIN_GOLD:
        raise VotesError(
            f"`gold` must have at least {MIN_GOLD} gold labels; got {np.count_nonzero(truth >= 0)}.",
            parameter="gold",
        )
    groups = _read_groups(by, item_ids(votes, read, by), read.n_items)
    posteriors, part = _predict(model, items, truth, cross_fit)
    rates: list[Rate] = []
    for group, members in groups:
        rates += _group_rates(group, members, truth, posteriors, part, items.votes.classes, z)
    if all(rate.share is None for rate in rates):
        raise VotesError(
            f"`gold` must have at least {MIN_GOLD} gold labels in one of the groups of `by`; got at most "
            f"{max(rate.n_gold for rate in rates)}.",
            parameter="gold",
        )
    return Rates(tuple(rates), float(confidence), _concerns(groups, rates, truth, posteriors))


# ---------------------------------------------------------------------- reading


def _read_groups(by: Any, ids: list[Any] | None, n_items: int) -> list[tuple[Any, NDArray[np.intp]]]:
    """Return the groups in order, each with the positions of its items; one group None without ``by``."""
    if by is None:
        return [(None, np.arange(n_items))]
    if isinstance(by, str):
        raise option_error("by", "a sequence with the group of each item", by)
    names = as_column(join_by_item(by, ids, n_items, "by"), "by").tolist()
    if len(names) != n_items:
        raise VotesError(
            f"`by` must have one group for each of {format_count(n_items, 'item')}; got {len(names)}.",
            parameter="by",
        )
    members: dict[Any, list[int]] = {}
    for at, name in enumerate(names):
        if is_null(name):
            raise VotesError(
                f"`by` must have a group for every item; got {format_value(name)} at position {at}.",
                parameter="by",
            )
        try:
            members.setdefault(name, []).append(at)
        except TypeError:
            raise VotesError(
                f"`by` must be names of groups; got {format_value(name)} at position {at}.", parameter="by"
            ) from None
    try:
        order = sorted(members)
    except TypeError:  # names of several types
        order = sorted(members, key=str)
    return [(name, np.array(members[name], np.intp)) for name in order]


# ---------------------------------------------------------------------- probabilities


def _predict(
    model: Any, items: Items, truth: NDArray[Any], cross_fit: int | None
) -> tuple[Array, NDArray[np.intp]]:
    """Return the probabilities of models that were fitted without the gold labels they are compared with.

    Returns
    -------
    posteriors : array of shape (F, n, K)
        By the model, or by F copies fitted without parts of the gold labels.
    part : integer array of shape (n,)
        For each item with a gold label the copy that was fitted without it.
    """
    n_gold = getattr(model, "n_gold_", None)
    valid = cross_fit is None or (is_integer(cross_fit) and cross_fit >= 0 and cross_fit != 1)
    if not valid or (cross_fit and n_gold is None):
        supported = "an integer >= 2, 0 or None" if not valid else f"None or 0 for {type(model).__name__}"
        raise option_error("cross_fit", f"{supported}", cross_fit)
    if not cross_fit:
        if n_gold and cross_fit is None:
            raise OptionError(
                "`model` must not have been fitted with the labels in `gold`, because intervals would be too "
                f"narrow; it was fitted with {n_gold:,} gold labels.",
                hints=[
                    Hint("cross_fit", "to fit it again without the labels it is compared with", 5),
                    Hint("cross_fit", "if it was fitted with gold labels of other items", 0),
                ],
            )
        return items.posterior[None], np.zeros(len(truth), np.intp)
    from sklearn.base import clone

    known = np.flatnonzero(truth >= 0)
    parts = min(int(cross_fit), len(known))
    # Every k-th label, so that labels in the order of their classes are spread over the parts.
    part = np.zeros(len(truth), np.intp)
    part[known] = np.arange(len(known)) % parts
    votes = items.votes
    labels = np.array([*votes.classes, None], object)
    posteriors = []
    for at in range(parts):
        kept = np.where(part == at, -1, truth)
        with capture_source_warnings():
            copy = clone(model).fit(votes, gold=labels[kept])
        posteriors.append(np.asarray(copy.predict_proba(votes), np.float64))
    return np.stack(posteriors), part


# ---------------------------------------------------------------------- estimates


def _group_rates(
    group: Any,
    members: NDArray[np.intp],
    truth: NDArray[Any],
    posteriors: Array,
    part: NDArray[np.intp],
    classes: tuple[Any, ...],
    z: float,
) -> list[Rate]:
    labeled = members[truth[members] >= 0]
    n_items, n_gold = len(members), len(labeled)
    if n_gold < MIN_GOLD:
        return [Rate(group, label, n_items, n_gold) for label in classes]
    gold = np.eye(len(classes))[truth[labeled]]
    # Models are weighted by the gold labels they are compared with, so that the mean over the labeled items
    # estimates the mean over all of them.
    weights = np.bincount(part[labeled], minlength=len(posteriors)) / n_gold
    chosen = posteriors[:, members]
    mean, variance = weights @ chosen.mean(axis=1), weights @ chosen.var(axis=1)
    found = estimate_shares(gold, posteriors[part[labeled], labeled], mean, variance, n_items, z)
    columns = (found.share, found.low, found.high, found.n_effective, *gold_shares(gold, n_items, z))
    return [
        Rate(group, label, n_items, n_gold, *values)
        for label, values in zip(classes, np.stack(columns, axis=1).tolist(), strict=True)
    ]


def _concerns(
    groups: list[tuple[Any, NDArray[np.intp]]], rates: list[Rate], truth: NDArray[Any], posteriors: Array
) -> tuple[str, ...]:
    """Return sentences about groups without enough gold labels, and about samples that do not look random."""
    found = []
    few = tuple(dict.fromkeys(rate.group for rate in rates if rate.share is None))
    if few:
        found.append(f"Groups with fewer than {MIN_GOLD} gold labels have no estimate: {format_list(few)}.")
    # The copies of a model differ too little to matter here.
    posterior = posteriors.mean(axis=0)
    values = np.column_stack([posterior, posterior.max(axis=1)])
    biased = []
    for group, members in groups:
        whole, sample = values[members], values[members[truth[members] >= 0]]
        if len(sample) >= MIN_GOLD and not looks_random(
            sample, whole.mean(axis=0), whole.var(axis=0), len(whole)
        ):
            biased.append(group)
    if biased:
        where = "" if biased == [None] else f" of {format_list(biased)}"
        found.append(
            f"The gold labels{where} do not look like a random sample: probabilities of these items differ "
            "from those of the others more than chance explains. Shares and intervals are wrong unless the "
            "items were chosen at random."
        )
    return tuple(found)
