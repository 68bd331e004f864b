"""Theorem 2: no method does better than a constant times √(m/n)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyingsquid.analysis import theory
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.markdown import table
from flyingsquid.reproduce.picture import BLUE, GREY, RED
from flyingsquid.reproduce.rates import rounded
from flyingsquid.reproduce.theorem_1 import ACCURACIES, mean_error

ALL_ITEMS = (500, 2_000, 8_000, 32_000)
ALL_SOURCES = (5, 10, 20)
REPEATS = 30


def measure(setting: Setting) -> Outcome:
    """Errors beside the bound; no source abstains, as the theorem has it."""
    repeats, all_items = (3, ALL_ITEMS[:2]) if setting.quick else (REPEATS, ALL_ITEMS)
    floor = theory.covariance_floor(theory.mean_parameters(ACCURACIES))
    rows = []
    for m in ALL_SOURCES:
        errors = [mean_error(n, m, repeats, coverage=1.0) for n in all_items]
        bounds = [theory.lower_bound(n, m, floor) for n in all_items]
        rows.append({"sources": m, "error": rounded(errors), "bound": rounded(bounds)})
    return Outcome({"items": list(all_items), "rows": rows, "repeats": repeats})


def _ratios(results: Mapping[str, Any]) -> list[float]:
    return [e / b for row in results["rows"] for e, b in zip(row["error"], row["bound"], strict=True)]


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """The body of the page."""
    rows = [
        [
            str(row["sources"]),
            *(f"{e:.4f} / {b:.4f}" for e, b in zip(row["error"], row["bound"], strict=True)),
        ]
        for row in results["rows"]
    ]
    low, high = min(_ratios(results)), max(_ratios(results))
    return f"""\
Independent sources that never abstain, accuracies from 0.7 to 0.9. A cell is the mean error ‖μ̂ - μ‖₂ of
{results["repeats"]} draws, and the theorem's lower bound e_min/8 · √(m/n) with e_min of these sources.

{table(["m", *(f"n = {n:,}" for n in results["items"])], rows)}

The error is {low:.0f} to {high:.0f} times the bound over all sizes: both fall and rise alike, up to a
constant, which is what the theorem claims. The bound is about the worst model of a family, the error
about this one.
"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Errors and bounds on logarithmic axes."""
    axis = figure.subplots()
    for shade, row in zip(np.linspace(0.4, 1.0, len(results["rows"])), results["rows"], strict=True):
        label = f"m = {row['sources']}"
        axis.loglog(
            results["items"],
            row["error"],
            "o-",
            color=BLUE,
            alpha=shade,
            markersize=3,
            label=f"error, {label}",
        )
        axis.loglog(results["items"], row["bound"], "--", color=RED, alpha=shade, label=f"bound, {label}")
    axis.set_xlabel("items n")
    axis.set_ylabel("error of the tables")
    axis.legend(fontsize=7, ncols=2)
    axis.grid(color=GREY, alpha=0.2)


ARTIFACT = Artifact("theorem-2", "Theorem 2: the lower bound", (), measure, render, draw, (5.5, 3.2))
