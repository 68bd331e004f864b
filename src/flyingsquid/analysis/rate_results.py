"""Shares of classes with confidence intervals, as :func:`flyingsquid.estimate_rate` returns them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from flyingsquid._table import Scalar, Table, Tabular, as_scalar
from flyingsquid._values import format_list, format_value
from flyingsquid.estimation.shares import difference_interval
from flyingsquid.exceptions import OptionError

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
            raise OptionError(
                f"`group` must be one of {format_list(self.groups)}; got {format_value(group)}."
            )
        labels = tuple(dict.fromkeys(each.label for each in self.rates))
        raise OptionError(f"`label` must be one of {format_list(labels)}; got {format_value(label)}.")

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
