"""Diagnostics of a fit: suspicious sources, a test of independence, and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import facts_table
from flyingsquid._values import format_count
from flyingsquid.estimation.features import FeatureEffect
from flyingsquid.estimation.gold_regression import GoldEffect
from flyingsquid.estimation.independence import CLEARLY_DEPENDENT, FitTest
from flyingsquid.estimation.intervals import FEWEST_SOURCES
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import (
    TEXT,
    check_fields,
    finite,
    integer,
    list_of,
    one_of,
    optional,
    sequence_of,
)
from flyingsquid.votes.decisions import expected_credit

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

LEAST_GAIN = 0.005
"""Below this gain the two are equally good for any practical purpose."""
# Differences that are shown as 0.0 points.
_EQUAL = 0.0005
# Wording of "no better": the range of accuracies that counts as equal, and votes per item that count as few.
_SIMILAR_RANGE, _FEW_VOTES = 0.08, 1.5
# No real dataset has shown a gain this large.
_IMPLAUSIBLE_GAIN = 0.3
UNTESTED = "there are too few votes to test whether the sources are independent"
_IMPLAUSIBLE_GAIN_DOUBT = "such a gain is more often a sign that good and bad sources are confused"
PERSISTENT = 0.1
"""Errors with a smaller excess correlation than this hardly change a label."""
_MOST_NAMED = 5
_SOURCE_FIELDS = ("silent", "one_sided", "unidentified", "useless", "adversarial", "clipped")


VerdictKind = Literal["recommended", "no better", "unproven", "no signal", "contradictory"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Recommendation for or against the model.

    Attributes
    ----------
    kind : {"recommended", "no better", "unproven", "no signal", "contradictory"}
        "recommended": every plausible model estimates a gain of at least half a point. "no better":
        majority vote is as good. "unproven": a gain is estimated, but rests on an assumption that could
        not be tested or did not hold. "no signal": chance could explain how often the sources agree.
        "contradictory": two groups of sources disagree, and the votes do not show which is right.
    text : str
    gain : float
        Estimated accuracy of the model minus that of majority vote, which depends on the assumptions of the
        model.
    gain_interval : pair of floats or None
        95% interval of the gain; None if the method has none.
    """

    kind: VerdictKind
    text: str
    gain: float
    gain_interval: tuple[float, float] | None = None

    @property
    def use_model(self) -> bool:
        """True if the model is recommended."""
        return self.kind == "recommended"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def to_meta(self) -> list[Any]:
        """Return JSON values."""
        interval = None if self.gain_interval is None else list(self.gain_interval)
        return [self.kind, self.text, self.gain, interval]

    @classmethod
    def from_meta(cls, meta: Any) -> Verdict:
        """Build from the result of :meth:`to_meta`."""
        check_fields({"verdict": meta}, {"verdict": VERDICT})
        kind, text, gain, interval = meta
        ends = None if interval is None else (float(interval[0]), float(interval[1]))
        return cls(kind, text, float(gain), ends)


VERDICT = sequence_of(
    one_of(*get_args(VerdictKind)), TEXT, finite(), optional(sequence_of(finite(), finite()))
)
"""The field of a verdict in a file."""
_FIELDS = {
    **dict.fromkeys(("method", "reason", "class_balance"), TEXT),
    **dict.fromkeys(_SOURCE_FIELDS, list_of(TEXT)),
    "identical": list_of(list_of(TEXT, least=2)),
    "fit_test": optional(sequence_of(finite(), integer(), finite(0, 1))),
    "verdict": VERDICT,
}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Diagnostics:
    """Diagnostics of a fit. Sources are given by name.

    Attributes
    ----------
    method : str
        The method that was used.
    reason : str
        Reason for the choice of ``method="auto"``; otherwise empty.
    class_balance : str
        Origin of the class balance.
    silent : tuple of str
        Sources that always abstain; they are ignored.
    one_sided : tuple of str
        Sources that vote for one class only.
    identical : tuple of tuples of str
        Groups of sources that vote alike, or opposite, on every item.
    unidentified : tuple of str
        Sources whose accuracy the votes do not determine: all of them if there are one or two, and those that
        no triplet could estimate, which got the average accuracy.
    useless : tuple of str
        Sources that are not distinguishable from random votes.
    adversarial : tuple of str
        Sources that are worse than random votes.
    clipped : tuple of str
        Sources whose vote rates do not fit the class balance and their accuracy.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
        Number of triplets that were used to estimate each source, and of those left out because of a weak
        denominator.
    fit_test : FitTest or None
        Test of whether the sources err independently given the truth; None if there are too few sources.
    verdict : Verdict
        Recommendation for or against the model.
    gold : GoldEffect or None
        Effect of gold labels, for ``method="auto"``: cross-validated accuracy and log loss with and
        without them, each with a 95% interval, and whether they were enough. None without gold labels.
    features : FeatureEffect or None
        What features contributed: their weight next to votes, and how well votes, features and both predict
        held-out votes. None without features.
    """

    method: str
    reason: str
    class_balance: str
    silent: tuple[str, ...] = ()
    one_sided: tuple[str, ...] = ()
    identical: tuple[tuple[str, ...], ...] = ()
    unidentified: tuple[str, ...] = ()
    useless: tuple[str, ...] = ()
    adversarial: tuple[str, ...] = ()
    clipped: tuple[str, ...] = ()
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]
    fit_test: FitTest | None = None
    verdict: Verdict
    gold: GoldEffect | None = None
    features: FeatureEffect | None = None

    def _facts(self) -> dict[str, str]:
        """Return the facts to report, in order; blank if there are none."""
        test = self.fit_test
        return {
            "method": self.method,
            "reason": self.reason,
            "class balance": self.class_balance,
            **{name.replace("_", " "): ", ".join(getattr(self, name)) for name in _SOURCE_FIELDS},
            "identical": "; ".join(" = ".join(group) for group in self.identical),
            "test of independence": "" if test is None else f"p = {test.p_value:.2g}",
        }

    def __str__(self) -> str:
        lines = [f"{name}: {value}" for name, value in self._facts().items() if value]
        return "\n".join([*lines, f"verdict: {self.verdict}"])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        table = facts_table("Diagnostics", self._facts())
        return replace(table, footnotes=(str(self.verdict),))._repr_html_()

    def to_meta(self) -> dict[str, Any]:
        """Return everything but the two arrays and the effects of gold labels and features as JSON values."""
        test = self.fit_test
        return {
            "method": self.method,
            "reason": self.reason,
            "class_balance": self.class_balance,
            **{name: list(getattr(self, name)) for name in _SOURCE_FIELDS},
            "identical": [list(group) for group in self.identical],
            "fit_test": None if test is None else [test.statistic, test.degrees, test.p_value],
            "verdict": self.verdict.to_meta(),
        }

    @classmethod
    def from_meta(
        cls,
        meta: dict[str, Any],
        triplets_used: NDArray[np.int64],
        triplets_skipped: NDArray[np.int64],
        source_names: tuple[str, ...],
    ) -> Diagnostics:
        """Build from the result of :meth:`to_meta`; raise ModelFileError for unknown sources."""
        check_fields(meta, _FIELDS, "diagnostics.")
        mentioned = [name for field in _SOURCE_FIELDS for name in meta[field]]
        mentioned += [name for group in meta["identical"] for name in group]
        if not set(mentioned) <= set(source_names):
            raise ModelFileError("The diagnostics in the file must name sources of the model.")
        test = None
        if meta["fit_test"] is not None:
            statistic, degrees, p_value = meta["fit_test"]
            test = FitTest(float(statistic), int(degrees), float(p_value))
        named: dict[str, Any] = {name: tuple(meta[name]) for name in _SOURCE_FIELDS}
        return cls(
            method=meta["method"],
            reason=meta["reason"],
            class_balance=meta["class_balance"],
            **named,
            identical=tuple(tuple(group) for group in meta["identical"]),
            triplets_used=triplets_used,
            triplets_skipped=triplets_skipped,
            fit_test=test,
            verdict=Verdict.from_meta(meta["verdict"]),
        )


def names_in(names: Sequence[str], mask: Mask) -> tuple[str, ...]:
    """Return the names of the sources in a mask."""
    return tuple(names[int(i)] for i in np.flatnonzero(mask))


def names_in_groups(names: Sequence[str], groups: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
    """Return the names in each group of two or more sources; ``groups`` numbers the group of each source."""
    return tuple(names_in(names, groups == g) for g in np.flatnonzero(np.bincount(groups) > 1))


def format_names(names: Sequence[str]) -> str:
    """Join names for a message, with the rest of a long list left out."""
    shown = ", ".join(names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


# ---------------------------------------------------------------------- recommendation


def recommend(
    gain: float,
    accuracies: Array,
    coverage: Array,
    doubts: Sequence[str] = (),
    interval: tuple[float, float] | None = None,
) -> Verdict:
    """Recommend the model or majority vote, given the estimated gain.

    Parameters
    ----------
    gain : float
    accuracies, coverage : arrays of shape (m,)
        Accuracies that the votes do not determine are NaN.
    doubts : sequence of str
        Reasons to distrust the estimate.
    interval : pair of floats, optional
        95% interval of the gain.
    """
    if gain < LEAST_GAIN:
        reason = _reason(accuracies, coverage)
        return Verdict("no better", f"No better than majority vote, because {reason}.", gain, interval)
    claim = f"estimated accuracy is {100 * gain:.1f} points above majority vote"
    if interval is not None:
        claim += f" (95% interval {100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})"
    found = [*doubts, *([_IMPLAUSIBLE_GAIN_DOUBT] if gain > _IMPLAUSIBLE_GAIN else [])]
    if not found:
        return Verdict("recommended", f"Recommended: {claim}.", gain, interval)
    text = f"Unproven: {claim}, but {' and '.join(found)}. Compare with some gold labels before use."
    return Verdict("unproven", text, gain, interval)


def recommend_by_gold(gain: float, interval: tuple[float, float], n_gold: int) -> Verdict:
    """Recommend the model or majority vote by their accuracies on the same gold labels.

    Parameters
    ----------
    gain : float
        Accuracy of the model minus that of majority vote.
    interval : pair of floats
        95% interval of the gain.
    n_gold : int

    Examples
    --------
    >>> print(recommend_by_gold(0.032, (0.016, 0.048), 800))
    Recommended: on 800 gold labels, accuracy is 3.2 points above majority vote (95% interval +1.6 to +4.8).
    """
    low, high = interval
    above = f"{100 * abs(gain):.1f} points {'below' if gain < 0 else 'above'} majority vote"
    if abs(gain) < _EQUAL:
        above = "that of majority vote"
    found = (
        f"on {format_count(n_gold, 'gold label')}, accuracy is {above} (95% interval {100 * low:+.1f} to "
        f"{100 * high:+.1f})"
    )
    if low > 0 and gain >= LEAST_GAIN:
        return Verdict("recommended", f"Recommended: {found}.", gain, interval)
    if high < LEAST_GAIN:
        return Verdict("no better", f"No better than majority vote: {found}.", gain, interval)
    more = "More gold labels are needed to tell which is more accurate."
    return Verdict("unproven", f"Unproven: {found}. {more}", gain, interval)


def persistence_doubts(excesses: Sequence[Array]) -> list[str]:
    """Return a doubt if errors persist from task to task, given their excess correlations; else nothing."""
    excess = np.concatenate([np.zeros(0), *excesses])
    persistence = float(np.mean(np.clip(np.nan_to_num(excess), 0, 1))) if len(excess) else 0.0
    if persistence <= PERSISTENT:
        return []
    return [
        f"errors persist from task to task (excess correlation {persistence:.2f} on average), so "
        "probabilities are too extreme unless `temper` is below 1"
    ]


def accuracy_gain(posterior: Array, shares: Array, y: NDArray[Any]) -> float:
    """Return the accuracy of posteriors minus that of vote shares, both of shape (..., K)."""
    return float(np.mean(expected_credit(posterior, y)) - np.mean(expected_credit(shares, y)))


def _reason(accuracies: Array, coverage: Array) -> str:
    voting = accuracies[coverage > 0]
    if len(voting) < FEWEST_SOURCES:
        few = "one source" if len(voting) == 1 else "two sources"
        return f"the votes of {few} do not determine accuracies"
    if np.isnan(voting).all():
        return "the votes do not determine accuracies"
    if coverage.sum() < _FEW_VOTES:
        return f"an item has {coverage.sum():.1f} votes on average, so weights of sources rarely matter"
    low, high = np.nanmin(voting), np.nanmax(voting)
    if high - low < _SIMILAR_RANGE:
        return f"the sources are about equally good ({low:.0%} to {high:.0%})"
    return "the weights of the sources rarely change which class wins"


def dependence_doubts(test: FitTest | None) -> list[str]:
    """Return a doubt if the sources are clearly dependent, or could not be tested; otherwise nothing."""
    if test is None:
        return [UNTESTED]
    if test.p_value >= CLEARLY_DEPENDENT:
        return []
    p = f"p = {test.p_value:.1g}" if test.p_value > 0 else "p < 1e-300"
    return [f"the sources are not independent given the truth ({p})"]


def random_accuracies(votes: NDArray[Any], balance: Array) -> Array:
    """Return the accuracy of random votes with the class frequencies of each source, shape (m,).

    ``votes`` of shape (m, K) are counts; NaN for sources without votes.

    >>> random_accuracies(np.array([[9, 1], [5, 5], [0, 0]]), np.array([0.8, 0.2])).round(2)
    array([0.74, 0.5 ,  nan])
    """
    total = votes.sum(axis=1)
    return np.divide(votes @ balance, total, out=np.full(len(votes), np.nan), where=total > 0)
