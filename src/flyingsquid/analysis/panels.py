"""Reports about panels of judges: self-agreement, position bias, redundancy and cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import format_list, format_value
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.agreement import Reliability, krippendorff_alpha
from flyingsquid.analysis.items import read_votes
from flyingsquid.analysis.summarize import GoldTally
from flyingsquid.estimation.replicates import (
    SelfAgreement,
    combine_replicates,
    compare_replicates,
    describe_positions,
    name_positions,
)
from flyingsquid.estimation.shares import wilson
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.models import LabelModel
from flyingsquid.votes import Structure, Votes
from flyingsquid.votes.arguments import join_labels, read_gold
from flyingsquid.votes.codes import ABSTAIN, Label, dense_codes
from flyingsquid.votes.decisions import expected_credit
from flyingsquid.votes.structure import Level

Array = NDArray[np.float64]
# Judges are redundant if dropping all of them changes at most this share of the labels, and if at most the
# second share is plausible given the number of items.
_UNCHANGED, _PLAUSIBLE_CHANGE = 0.01, 0.05
# Maximum number of items on which redundancy is measured.
_MOST_ITEMS = 5_000
_Columns = dict[str, tuple[Sequence[Scalar], str]]
_INTERVALS = ("self_agreement", "position_bias", "retest", "accuracy_at_most")


def _columns_of(found: SelfAgreement) -> _Columns:
    values = (found.swapped, found.position, found.repeated, found.bound)
    intervals = (
        found.swapped_interval,
        found.position_interval,
        found.repeated_interval,
        found.bound_interval,
    )
    columns: _Columns = {}
    for name, value, interval in zip(_INTERVALS, values, intervals, strict=True):
        spec = "+.1%" if name == "position_bias" else ".1%"
        columns[name] = (value.tolist(), spec)
        for end, bound in zip(("low", "high"), interval.T.tolist(), strict=True):
            columns[f"{name}_{end}"] = (bound, spec)
    return columns


def _require_structure(votes: Any) -> Structure:
    if not isinstance(votes, Votes):
        raise VotesError(
            f"`votes` must be Votes with a structure; got {type(votes).__name__}. Use Votes.from_panel, or "
            "Votes.with_structure."
        )
    if votes.structure is None:
        raise VotesError(
            "`votes` must have a structure that declares which sources are answers of one judge. Use "
            "Votes.with_structure, for example votes.with_structure('{judge}|{order}')."
        )
    return votes.structure


# ---------------------------------------------------------------------- report


@dataclass(frozen=True, slots=True, repr=False)
class PanelReport(Tabular):
    """Report about a panel of judges. Printed, it is a table with one row per judge.

    Attributes
    ----------
    judges : Table
    alpha : Reliability or None
        Krippendorff's alpha of the combined answers of the judges; None if no item has two votes.
    redundant : tuple of str
        Judges that can be dropped with almost no change in the labels, given the weights of the model.
    changed : float
        Share of labels that change without the redundant judges.
    cost, saved : float or None
        Cost of all calls, and of those of the redundant judges; None if no costs were given.
    preferred : tuple of pairs (order, class)
        The class that a judge with a positive position bias prefers in each of two orders; empty for other
        panels.
    """

    judges: Table
    alpha: Reliability | None
    redundant: tuple[str, ...]
    changed: float
    cost: float | None
    saved: float | None
    preferred: tuple[tuple[Level, Label], ...] = ()

    def sentences(self) -> tuple[str, ...]:
        """Return sentences about the whole panel."""
        said = []
        if self.preferred:
            prefers = " and ".join(
                f"{format_value(label)} in order {order}" for order, label in self.preferred
            )
            said.append(f"Position bias is positive if a judge prefers {prefers}.")
        if self.alpha is not None and not np.isnan(self.alpha.value):
            said.append(f"{self.alpha}, between the combined answers of the judges.")
        turned = self._turned_judges()
        if turned:
            said.append(describe_positions(turned))
        if self.redundant:
            saves = (
                "" if self.saved is None or not self.cost else f", at {self.saved / self.cost:.0%} less cost"
            )
            said.append(
                f"Drop {format_list(self.redundant, 12)}: {self.changed:.1%} of the labels change{saves}."
            )
        elif all(isinstance(c, float) and c > _UNCHANGED for c in self.judges.to_dict()["changes"]):
            said.append(f"Every judge changes more than {_UNCHANGED:.0%} of the labels.")
        if self.cost is not None:
            said.append(f"All calls cost {self.cost:,.6g}.")
        return tuple(said)

    def _turned_judges(self) -> list[str]:
        """Return judges of two classes whose answers look like names of positions."""
        columns = self.judges.to_dict()
        names = ("judge", "self_agreement_high", "position_bias_low", "position_bias_high")
        rows = zip(*(columns.get(name, []) for name in names), strict=False)
        return [str(judge) for judge, *ends in rows if None not in ends and name_positions(*ends)]

    def table(self) -> Table:
        """Return one row per judge, with intervals in brackets; ``judges`` has all columns as numbers."""
        values, columns = self.judges.to_dict(), _Columns()
        for (name, column), spec in zip(values.items(), self.judges.formats, strict=True):
            if f"{name}_low" in values:
                ends = zip(column, values[f"{name}_low"], values[f"{name}_high"], strict=True)
                columns[name] = ([_with_interval(*each) for each in ends], "")
            elif not name.endswith(("_low", "_high")):
                columns[name] = (column, spec)
        return Table.of_columns(columns, footnotes=self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """Return all values as a dict that can be written as JSON."""
        alpha = None if self.alpha is None else [self.alpha.value, *self.alpha.interval]
        return {
            "judges": self.judges.to_dict(),
            "alpha": alpha,
            "redundant": list(self.redundant),
            "changed": self.changed,
            "cost": self.cost,
            "saved": self.saved,
            "preferred": [list(pair) for pair in self.preferred],
        }


def _with_interval(value: Scalar, low: Scalar, high: Scalar) -> str:
    if not isinstance(value, (int, float)):
        return ""
    value = round(value, 2) + 0.0  # no -0%
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        return f"{value:.0%}"
    return f"{value:.0%} [{100 * low:.0f}, {100 * high:.0f}]"


def panel_report(
    votes: Votes, y: Any = None, *, model: Any = None, costs: Mapping[str, float] | None = None
) -> PanelReport:
    """Report reliability, self-agreement, position bias, refusals, redundancy and cost of every judge.

    Parameters
    ----------
    votes : Votes
        With a structure, see :meth:`flyingsquid.Votes.with_structure`.
    y : array of shape (n,), optional
        Gold labels; None, NaN or -1 if unknown. The table then includes the accuracy on these items.
    model : fitted LabelModel, optional
        By default ``LabelModel()`` is fitted.
    costs : mapping from judges to numbers, optional
        Cost of one call of each judge.

    Returns
    -------
    PanelReport
        One row per judge. ``accuracy`` is estimated by the model; the upper end of its interval is at most
        that of ``accuracy_at_most``. ``refused``: share of calls that were refused, unparseable or failed;
        abstentions and blank cells do not count. ``changes``: share of labels that change without the judge.

        The other columns compare the answers of a judge with each other, each with a 95% interval.
        ``self_agreement``: share of items with the same answer in two orders. ``position_bias``, for two
        classes: share of items decided by position, positive if the judge prefers the first class in the
        order that is declared first, and the second class in the other one. ``retest``: share of repeated
        calls with the same answer. ``accuracy_at_most``: accuracy of a judge with this self-agreement c if
        all of its errors are random, (1 + sqrt(2c - 1)) / 2 for two classes and
        (1 + sqrt((K - 1)(Kc - 1))) / K for K; errors that a judge repeats make it less accurate.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 400)
    >>> right = rng.random((400, 5, 2)) < [[0.97], [0.9], [0.9], [0.9], [0.5]]
    >>> votes = fs.Votes.from_panel(np.where(right, y[:, None, None], 1 - y[:, None, None]))
    >>> report = fs.analysis.panel_report(votes, costs={f"judge {j}": 0.01 for j in range(5)})
    >>> report.redundant, report.cost
    (('judge 1', 'judge 2', 'judge 4'), 40.0)
    """
    structure = _require_structure(votes)
    if model is None:
        with capture_source_warnings():
            model = LabelModel().fit(votes)
    read, tasks = read_votes(model, votes)
    if len(tasks) > 1 or not hasattr(model, "accuracies_") or hasattr(model, "transition_"):
        raise OptionError("`model` must be a label model of single items with one task.", parameter="model")
    price = None
    if costs is not None:
        from flyingsquid.judges.planner import read_costs  # imports asyncio

        price = read_costs(costs, structure.judges, may_be_free=True)
    found, of = compare_replicates(votes), structure.judge_of
    n_calls = np.bincount(of, minlength=len(structure.judges)).astype(np.float64)
    missing = votes.missing_counts()
    refused = sum((missing[reason] for reason in ("refused", "unparseable", "failed")), np.zeros(len(of)))
    accuracies, low, high = np.column_stack([model.accuracies_, model.accuracies_interval_]).T
    # The accuracy of a source that never votes, or that the votes do not determine, is a default.
    unknown = (*model.diagnostics_.silent, *model.diagnostics_.unidentified)
    is_known = ~np.isin(votes.source_names, unknown)
    accuracies, low, high = (np.where(is_known, values, np.nan) for values in (accuracies, low, high))
    changes, redundant, changed = _redundancy(model, read, structure)
    cost = None if price is None else price * n_calls * votes.n_items
    most = found.bound_interval[:, 1]
    columns: _Columns = {
        "judge": (list(structure.judges), ""),
        "sources": (n_calls.astype(int).tolist(), "d"),
        "accuracy": (_at_most(_per_judge(accuracies, of), most).tolist(), ".1%"),
        "accuracy_low": (_per_judge(low, of).tolist(), ".1%"),
        "accuracy_high": (_at_most(_per_judge(high, of), most).tolist(), ".1%"),
        "gold_accuracy": (_gold_accuracy(votes, structure, y), ".1%"),
        **_columns_of(found),
        "refused": ((np.bincount(of, refused, len(n_calls)) / (n_calls * votes.n_items)).tolist(), ".1%"),
        "changes": (changes.tolist(), ".1%"),
        "cost": ([None] * len(n_calls) if cost is None else cost.tolist(), ",.6g"),
    }
    return PanelReport(
        judges=Table.of_columns(columns),
        alpha=_alpha(votes),
        redundant=tuple(structure.judges[j] for j in redundant),
        changed=changed,
        cost=None if cost is None else float(cost.sum()),
        saved=None if cost is None else float(cost[redundant].sum()),
        preferred=_preferred(votes, structure, found),
    )


def _preferred(votes: Votes, structure: Structure, found: SelfAgreement) -> tuple[tuple[Level, Label], ...]:
    """Return the class that a positive position bias prefers in each of two orders."""
    orders = [order for order in structure.orders if order is not None]
    if len(orders) != 2 or np.isnan(found.position).all():
        return ()
    return tuple(zip(orders, votes.classes, strict=True))


def _per_judge(values: Array, of: NDArray[np.intp]) -> Array:
    """Return means over the sources of each judge, without NaN; NaN if there is no other value."""
    is_known = np.isfinite(values)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.bincount(of, np.where(is_known, values, 0.0)) / np.bincount(of, is_known))


def _at_most(values: Array, bound: Array) -> Array:
    """Return the smaller of two numbers; an unknown bound does not count, unknown values stay NaN."""
    return np.where(np.isnan(values), np.nan, np.fmin(values, bound))


def _gold_accuracy(votes: Votes, structure: Structure, y: Any) -> list[Scalar]:
    n_judges, of = len(structure.judges), structure.judge_of
    if y is None:
        return [None] * n_judges
    gold = read_gold(join_labels(y, votes, votes), votes.classes, votes.n_items, "y")
    tally = GoldTally.of(votes, np.asarray(gold))
    right, total = (np.bincount(of, each, n_judges) for each in (tally.correct, tally.cast.sum(axis=1)))
    return [float(r / t) if t else None for r, t in zip(right, total, strict=True)]


def _alpha(votes: Votes) -> Reliability | None:
    try:
        return krippendorff_alpha(combine_replicates(votes))
    except VotesError:  # no item has two votes
        return None


def _redundancy(model: Any, votes: Votes, structure: Structure) -> tuple[Array, list[int], float]:
    """Return the share of labels that change without each judge, the redundant judges, and their share.

    Judges are dropped in the order of their individual effects, each if almost all labels stay the same.
    """
    codes, n_judges = dense_codes(votes[:: -(-votes.n_items // _MOST_ITEMS)].codes), len(structure.judges)
    before = np.asarray(model.predict_proba(_coded(votes, codes)), np.float64)
    best = before.argmax(axis=1)

    def changed(judges: list[int]) -> float:
        kept = np.where(np.isin(structure.judge_of, judges), np.asarray(ABSTAIN, codes.dtype), codes)
        after = np.asarray(model.predict_proba(_coded(votes, kept)), np.float64)
        # A label that becomes a tie counts as half a change.
        return float(
            1 - expected_credit(after, best).mean() / max(expected_credit(before, best).mean(), 1e-12)
        )

    alone = np.array([changed([j]) for j in range(n_judges)])
    chosen: list[int] = []
    # If all labels are the same, no judge matters.
    most = n_judges - 1 if len(np.unique(best)) > 1 else 0
    for judge in np.argsort(alone, kind="stable").tolist():
        share = changed([*chosen, judge]) if len(chosen) < most else 1.0
        if share <= _UNCHANGED and wilson(np.array(share), np.array(len(codes)))[1] <= _PLAUSIBLE_CHANGE:
            chosen.append(judge)
    chosen.sort()
    return np.maximum(alone, 0.0), chosen, max(changed(chosen), 0.0) if chosen else 0.0


def _coded(votes: Votes, codes: NDArray[Any]) -> Votes:
    return Votes(codes, votes.classes, votes.names)
