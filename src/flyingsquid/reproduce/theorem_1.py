"""Theorem 1: the sampling error falls as 1/√n and, for independent sources, grows as √m."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyingsquid.analysis import theory
from flyingsquid.datasets import simulate
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.markdown import number, table
from flyingsquid.reproduce.picture import BLUE, GREY
from flyingsquid.reproduce.rates import rounded, slope, table_error, tables_of

ACCURACIES = (0.9, 0.85, 0.8, 0.75, 0.7)
COVERAGE = 0.8
SOURCES, ITEMS = 10, 5_000
ALL_ITEMS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
ALL_SOURCES = (5, 10, 20, 40, 80)
REPEATS = 30


def measure(setting: Setting) -> Outcome:
    """Mean errors over repeated draws."""
    repeats = 3 if setting.quick else REPEATS
    all_items = ALL_ITEMS[:3] if setting.quick else ALL_ITEMS
    all_sources = ALL_SOURCES[:3] if setting.quick else ALL_SOURCES
    by_items = [mean_error(n, SOURCES, repeats) for n in all_items]
    by_sources = [mean_error(ITEMS, m, repeats) for m in all_sources]
    a_min = float(theory.mean_parameters(min(ACCURACIES), COVERAGE))

    def bound(n: int, m: int) -> float:
        return theory.sampling_error_bound(n, m, a_min)

    return Outcome(
        {
            "items": list(all_items),
            "error_by_items": rounded(by_items),
            "bound_by_items": rounded([bound(n, SOURCES) for n in all_items]),
            "slope_in_items": round(slope(all_items, by_items), 2),
            "sources": list(all_sources),
            "error_by_sources": rounded(by_sources),
            "bound_by_sources": rounded([bound(ITEMS, m) for m in all_sources]),
            "slope_in_sources": round(slope(all_sources, by_sources), 2),
            "repeats": repeats,
        }
    )


def mean_error(n_items: int, n_sources: int, repeats: int, coverage: float = COVERAGE) -> float:
    """Mean of ‖μ̂ - μ‖₂ over draws of ``n_items`` items."""
    accuracies = np.resize(ACCURACIES, n_sources)
    truth = tables_of(accuracies, coverage)
    draws = (simulate(n_items, accuracies, coverage=coverage, random_state=seed) for seed in range(repeats))
    return float(np.mean([table_error(draw.votes, truth) for draw in draws]))


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """The body of the page."""
    by_items = zip(results["items"], results["error_by_items"], results["bound_by_items"], strict=True)
    by_sources = zip(
        results["sources"], results["error_by_sources"], results["bound_by_sources"], strict=True
    )
    return f"""\
Independent sources that abstain on 20% of items, accuracies from 0.7 to 0.9, told an even balance. The
error is ‖μ̂ - μ‖₂ of the tables P(vote, Y) of all sources by the mean over all triplets, mean of
{results["repeats"]} draws. *Bound* is the theorem's, with the constants that its proof supports; it is an
order of magnitude at best.

| | measured | theorem |
|---|---:|---:|
| exponent of n | {results["slope_in_items"]:.2f} | -0.50 |
| exponent of m | {results["slope_in_sources"]:.2f} | 0.50 |

## {SOURCES} sources

{table(["n", "error", "bound"], [[f"{n:,}", f"{e:.4f}", number(b)] for n, e, b in by_items])}

## {ITEMS:,} items

{table(["m", "error", "bound"], [[f"{m:,}", f"{e:.4f}", number(b)] for m, e, b in by_sources])}

The exponent of m is below one half where more sources also sharpen each estimate: every source has more
triplets. The theorem's second term, for pairs of dependent sources, is not measured here.
"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Both errors on logarithmic axes, with lines of the theorem's exponents."""
    left, right = figure.subplots(1, 2)
    for axis, x, y, exponent, name in (
        (left, results["items"], results["error_by_items"], -0.5, "items n"),
        (right, results["sources"], results["error_by_sources"], 0.5, "sources m"),
    ):
        at = np.array(x, float)
        axis.loglog(at, y, "o-", color=BLUE, markersize=3, label="measured")
        line = y[0] * (at / at[0]) ** exponent
        axis.loglog(at, line, "--", color=GREY, label=f"exponent {exponent:+.1f}")
        axis.set_xlabel(name)
        axis.set_xticks([], minor=True)
        axis.legend(fontsize=8)
    right.set_xticks(results["sources"], [str(m) for m in results["sources"]])
    left.set_ylabel("error of the tables")


ARTIFACT = Artifact("theorem-1", "Theorem 1: sampling error", (), measure, render, draw)
