"""Theorem 4: under drift there is a best window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyingsquid.analysis import theory
from flyingsquid.datasets import simulate_drift
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.markdown import number, table
from flyingsquid.reproduce.picture import BLUE, GREY
from flyingsquid.reproduce.rates import rounded, slope, table_error, tables_of

BEFORE = np.array([0.9, 0.85, 0.8, 0.75, 0.7])
AFTER = BEFORE[::-1]
# Items from one end to the other: the shorter, the faster.
STREAMS = (2_000, 8_000, 32_000, 128_000)
SHORTEST = 125
REPEATS = 40


def measure(setting: Setting) -> Outcome:
    """Error at the end of streams by the window that is fitted, for several speeds."""
    streams = STREAMS[:2] if setting.quick else STREAMS
    repeats = 2 if setting.quick else REPEATS
    rows = [_stream(n, repeats) for n in streams]
    drifts = [row["drift"] for row in rows]
    return Outcome(
        {
            "streams": rows,
            "slope_measured": round(slope(drifts, [row["best_window"] for row in rows]), 2),
            "slope_predicted": round(slope(drifts, [row["predicted"] for row in rows]), 2),
            "repeats": repeats,
        }
    )


def _stream(n: int, repeats: int) -> dict[str, Any]:
    windows = [SHORTEST * 2**k for k in range(20) if SHORTEST * 2**k <= n]
    errors = np.empty((repeats, len(windows)))
    for seed in range(repeats):
        stream = simulate_drift(n, BEFORE, AFTER, kind="gradual", random_state=seed)
        now = tables_of(stream.accuracies[-1], 1.0)
        for at, window in enumerate(windows):
            errors[seed, at] = _error(stream.votes[n - window :], now)
    mean = np.nanmean(errors, axis=0)
    a_min = float(np.abs(theory.mean_parameters(BEFORE)).min())
    drift, rarest = theory.drift_of(np.linspace(BEFORE, AFTER, n)[:2]), theory.rarest_event(AFTER)
    return {
        "items": n,
        "drift": float(f"{drift:.4g}"),
        "windows": windows,
        "error": rounded(mean),
        "best_window": windows[int(np.argmin(mean))],
        "predicted": float(f"{theory.optimal_window(len(BEFORE), a_min, drift, rarest):.4g}"),
    }


def _error(votes: Any, truth: Any) -> float:
    try:
        return table_error(votes, truth)
    except NotIdentifiableError:  # a short window may say nothing
        return float("nan")


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """The body of the page."""
    rows = [
        [
            number(row["drift"]),
            f"{row['items']:,}",
            f"{row['best_window']:,}",
            f"{min(row['error']):.4f}",
            f"{row['error'][-1]:.4f}",
            f"{row['predicted']:,.0f}",
        ]
        for row in results["streams"]
    ]
    windows = results["streams"][-1]["windows"]
    errors = [
        [
            number(row["drift"]),
            *(f"{e:.4f}" for e in row["error"]),
            *[""] * (len(windows) - len(row["error"])),
        ]
        for row in results["streams"]
    ]
    heads = ["drift Δ", "stream", "best window", "its error", "error of all items", "W* of the theorem"]
    return f"""\
Five sources whose accuracies go from one end to the other in a straight line; the last W items are fitted
and compared with the tables of the last item, mean of {results["repeats"]} streams. Δ is the total
variation of one step (the paper's proof needs that, not a divergence).

{table(heads, rows)}

A best window exists at every speed, and it is longer the slower the drift. Its exponent in Δ is
{results["slope_measured"]:.2f} as measured (windows double, so this is coarse) and
{results["slope_predicted"]:.2f} by the theorem. The bias of a window is really of the order Δ W, where
the theorem has Δ W^1.5, so that the exponent is nearer to -2/3. W* is an order of magnitude, because two
loose bounds are divided.

## All windows

{table(["drift Δ", *(f"W = {w:,}" for w in windows)], errors)}
"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Error by window, one curve a speed, with the best window and the theorem's."""
    axis = figure.subplots()
    for shade, row in zip(np.linspace(0.35, 1.0, len(results["streams"])), results["streams"], strict=True):
        label = f"Δ = {number(row['drift'])}"
        axis.loglog(row["windows"], row["error"], "o-", color=BLUE, alpha=shade, markersize=3, label=label)
        axis.axvline(row["predicted"], color=GREY, alpha=shade, linewidth=1, linestyle=":")
    axis.set_xlabel("window W (dotted: W* of the theorem)")
    axis.set_ylabel("error of the tables now")
    axis.legend(fontsize=8)


ARTIFACT = Artifact("theorem-4", "Theorem 4: the best window", (), measure, render, draw, (5.5, 3.2))
