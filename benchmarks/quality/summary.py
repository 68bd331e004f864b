"""Summary of a table of datasets: means, datasets lost, and intervals by resampling datasets.

A set is a mapping with "name", "kind", "n_classes", "in_means" and "scores": for each contender its metrics,
or ``{"refused": reason}``. A contender that does not apply to a set is not in its scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.halves import KINDS
from benchmarks.quality.scores import METRICS

RealScores: TypeAlias = Mapping[str, Any]

DRAWS = 10_000
MARGIN = 0.005  # a set more than this below majority vote in accuracy is lost
MAJORITY = "majority"
PEOPLE = ("crowds", "judges")  # every source may vote for any class, and many vote on each item
DIGITS = 6  # enough to compare, few enough not to differ between machines

GROUPS: dict[str, Callable[[RealScores], bool]] = {
    "all": lambda s: True,  # noqa: ARG005
    "crowds and judges": lambda s: s["kind"] in PEOPLE,
    "all others": lambda s: s["kind"] not in PEOPLE,
    **{kind: (lambda s, kind=kind: s["kind"] == kind) for kind in KINDS},  # type: ignore[misc]
    "two classes": lambda s: s["n_classes"] == 2,
    "many classes": lambda s: s["n_classes"] > 2,
}
COMPARED = ("all", "crowds and judges", "all others")


def summarize(sets: Sequence[RealScores], *, default: str, rivals: Iterable[str]) -> dict[str, Any]:
    """Means by group, sets lost, and differences to majority vote and of the default to its rivals."""
    groups = {name: [s for s in sets if s["in_means"] and keep(s)] for name, keep in GROUPS.items()}
    groups = {name: group for name, group in groups.items() if group}
    contenders = list(dict.fromkeys(name for s in sets for name in s["scores"]))
    rivals = [name for name in rivals if name in contenders]
    return {
        "counts": {name: len(group) for name, group in groups.items()},
        "means": {g: _by_contender(contenders, group, means) for g, group in groups.items()},
        "below": {name: below(groups["all"], name) for name in contenders if name != MAJORITY},
        "ahead_of_majority": {
            g: {
                c: differences(groups[g], c, MAJORITY) for c in contenders if _applies(groups[g], c, MAJORITY)
            }
            for g in COMPARED
            if g in groups
        },
        "default_ahead_of": {
            g: {r: differences(groups[g], default, r) for r in rivals if _applies(groups[g], r, default)}
            for g in COMPARED
            if g in groups
        },
    }


def scores_in(s: RealScores, contender: str) -> Mapping[str, float]:
    """Scores of a contender; a refusal counts as the majority vote, which its user would fall back on."""
    scores: Mapping[str, float] = s["scores"][contender]
    return s["scores"][MAJORITY] if "refused" in scores else scores


def values(sets: Sequence[RealScores], contender: str, metric: str) -> NDArray[np.float64]:
    """One metric of a contender on every set, shape (sets,)."""
    return np.array([scores_in(s, contender)[metric] for s in sets])


def means(sets: Sequence[RealScores], contender: str) -> dict[str, float]:
    """Mean of every metric, each set counting once."""
    return {m: round(float(values(sets, contender, m).mean()), DIGITS) for m in METRICS}


def below(sets: Sequence[RealScores], contender: str) -> dict[str, Any]:
    """Return the datasets that a contender loses to majority vote by more than the margin, worst first."""
    answered = [s for s in sets if contender in s["scores"]]
    gaps = values(answered, contender, "accuracy") - values(answered, MAJORITY, "accuracy")
    order = np.argsort(gaps, kind="stable")
    lost = {answered[i]["name"]: round(float(gaps[i]), DIGITS) for i in order if gaps[i] < -MARGIN}
    return {"of": len(answered), "sets": lost}


def differences(sets: Sequence[RealScores], one: str, other: str) -> dict[str, list[float]]:
    """Mean of ``one`` minus ``other`` with a 95% interval for every metric: [mean, low, high]."""
    return {m: interval(values(sets, one, m) - values(sets, other, m)) for m in METRICS}


def interval(gaps: NDArray[np.float64]) -> list[float]:
    """Mean and 95% bootstrap interval of paired differences, one per dataset, by resampling datasets."""
    rng = np.random.default_rng(0)
    drawn = gaps[rng.integers(0, len(gaps), (DRAWS, len(gaps)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return [round(float(v), DIGITS) for v in (gaps.mean(), low, high)]


def _applies(sets: Sequence[RealScores], *contenders: str) -> bool:
    return all(c in s["scores"] for s in sets for c in contenders) and len(set(contenders)) == len(contenders)


def _by_contender(
    contenders: Iterable[str],
    sets: Sequence[RealScores],
    statistic: Callable[[Sequence[RealScores], str], dict[str, float]],
) -> dict[str, dict[str, float]]:
    """Of contenders that apply to every set: a mean over others would be of other sets."""
    return {c: statistic(sets, c) for c in contenders if _applies(sets, c)}
