"""Theorems 1, 2 and 4: the error of estimated tables by items and sources, and by window under drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.paper.artifact import BLUE, GRAY, RED, Artifact, Outcome, Setting, number, table
from benchmarks.paper.data import Array
from flyingsquid import theory
from flyingsquid.datasets import simulate, simulate_drift
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.models import LabelModel
from flyingsquid.votes import Votes

ACCURACIES = (0.9, 0.85, 0.8, 0.75, 0.7)
COVERAGE = 0.8


def tables_of(accuracies: ArrayLike, coverage: float) -> Array:
    """Return μ, P(vote, Y) of symmetric sources for two equally frequent classes, shape (m, 2, 3).

    The last column is P(no vote, Y).
    """
    right = coverage * np.asarray(accuracies, np.float64)
    wrong, missing = coverage - right, np.full(right.shape, 1 - coverage)
    rows = [[right, wrong, missing], [wrong, right, missing]]
    return np.asarray(np.moveaxis(np.array(rows), 2, 0) / 2)


def table_error(votes: Votes, truth: Array) -> float:
    """Return ‖μ̂ - μ‖₂ of the mean over all triplets."""
    model = LabelModel(method="triplet", class_balance="uniform").fit(votes)
    return float(np.linalg.norm(model.confusion_ / 2 - truth))


def mean_error(n_items: int, n_sources: int, repeats: int, coverage: float = COVERAGE) -> float:
    """Return the mean of ‖μ̂ - μ‖₂ over draws of ``n_items`` items."""
    accuracies = np.resize(ACCURACIES, n_sources)
    truth = tables_of(accuracies, coverage)
    draws = (simulate(n_items, accuracies, coverage=coverage, random_state=seed) for seed in range(repeats))
    return float(np.mean([table_error(draw.votes, truth) for draw in draws]))


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Estimate the exponent b of y = a xᵇ by least squares of logarithms.

    >>> round(slope([1, 10, 100], [3, 30, 300]), 6)
    1.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def rounded(values: Sequence[float]) -> list[float]:
    """Round to four significant digits, so that files do not change with the last bits of a library."""
    return [float(f"{value:.4g}") for value in values]


# ---------------------------------------------------------------------- Theorem 1

SOURCES, ITEMS = 10, 5_000
ALL_ITEMS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000)
ALL_SOURCES = (5, 10, 20, 40, 80)
REPEATS = 30


def measure_1(setting: Setting) -> Outcome:
    """Measure mean errors over repeated draws: 1/√n in items, √m in independent sources."""
    repeats = 3 if setting.quick else REPEATS
    all_items = ALL_ITEMS[:3] if setting.quick else ALL_ITEMS
    all_sources = ALL_SOURCES[:3] if setting.quick else ALL_SOURCES
    by_items = [mean_error(n, SOURCES, repeats) for n in all_items]
    by_sources = [mean_error(ITEMS, m, repeats) for m in all_sources]
    a_min = float(theory.mean_parameters(min(ACCURACIES), COVERAGE))
    return Outcome(
        {
            "items": list(all_items),
            "error_by_items": rounded(by_items),
            "bound_by_items": rounded([theory.sampling_error_bound(n, SOURCES, a_min) for n in all_items]),
            "slope_in_items": round(slope(all_items, by_items), 2),
            "sources": list(all_sources),
            "error_by_sources": rounded(by_sources),
            "bound_by_sources": rounded([theory.sampling_error_bound(ITEMS, m, a_min) for m in all_sources]),
            "slope_in_sources": round(slope(all_sources, by_sources), 2),
            "repeats": repeats,
        }
    )


def render_1(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""

    def rows(by: str) -> list[list[str]]:
        columns = (results[by], results[f"error_by_{by}"], results[f"bound_by_{by}"])
        return [
            [f"{size:,}", f"{error:.4f}", number(bound)] for size, error, bound in zip(*columns, strict=True)
        ]

    return f"""\
The sources are independent, abstain on 20% of the items and have accuracies from 0.7 to 0.9. The class
balance is given and uniform. The error is ‖μ̂ - μ‖₂ of the tables P(vote, Y) of all sources, estimated by the
mean over all triplets, and averaged over {results["repeats"]} draws. *Bound* is that of the theorem, with the
constants that its proof supports; it gives the order of magnitude at best.

| | measured | theorem |
|---|---:|---:|
| exponent of n | {results["slope_in_items"]:.2f} | -0.50 |
| exponent of m | {results["slope_in_sources"]:.2f} | 0.50 |

## {SOURCES} sources

{table(["n", "error", "bound"], rows("items"))}

## {ITEMS:,} items

{table(["m", "error", "bound"], rows("sources"))}

The exponent of m is below one half because more sources also improve each estimate: every source has more
triplets. The theorem's second term, for pairs of dependent sources, is not measured here.
"""


def draw_1(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw both errors on logarithmic axes, with lines of the theorem's exponents."""
    left, right = figure.subplots(1, 2)
    for axis, x, y, exponent, name in (
        (left, results["items"], results["error_by_items"], -0.5, "items n"),
        (right, results["sources"], results["error_by_sources"], 0.5, "sources m"),
    ):
        at = np.array(x, float)
        axis.loglog(at, y, "o-", color=BLUE, markersize=3, label="measured")
        line = y[0] * (at / at[0]) ** exponent
        axis.loglog(at, line, "--", color=GRAY, label=f"exponent {exponent:+.1f}")
        axis.set_xlabel(name)
        axis.set_xticks([], minor=True)
        axis.legend(fontsize=8)
    right.set_xticks(results["sources"], [str(m) for m in results["sources"]])
    left.set_ylabel("error of the tables")


THEOREM_1 = Artifact("theorem-1", "Theorem 1: sampling error", (), measure_1, render_1, draw_1)

# ---------------------------------------------------------------------- Theorem 2

ITEMS_2 = (500, 2_000, 8_000, 32_000)
SOURCES_2 = (5, 10, 20)


def measure_2(setting: Setting) -> Outcome:
    """Measure errors and the lower bound c √(m/n); no source abstains, as the theorem requires."""
    repeats, all_items = (3, ITEMS_2[:2]) if setting.quick else (REPEATS, ITEMS_2)
    floor = theory.covariance_floor(theory.mean_parameters(ACCURACIES))
    rows = []
    for m in SOURCES_2:
        errors = [mean_error(n, m, repeats, coverage=1.0) for n in all_items]
        bounds = [theory.lower_bound(n, m, floor) for n in all_items]
        rows.append({"sources": m, "error": rounded(errors), "bound": rounded(bounds)})
    return Outcome({"items": list(all_items), "rows": rows, "repeats": repeats})


def render_2(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
    pairs = [list(zip(row["error"], row["bound"], strict=True)) for row in results["rows"]]
    rows = [
        [str(row["sources"]), *(f"{error:.4f} / {bound:.4f}" for error, bound in pairs_of_row)]
        for row, pairs_of_row in zip(results["rows"], pairs, strict=True)
    ]
    ratios = [error / bound for pairs_of_row in pairs for error, bound in pairs_of_row]
    return f"""\
The sources are independent, never abstain and have accuracies from 0.7 to 0.9. Each cell has the mean error
‖μ̂ - μ‖₂ of {results["repeats"]} draws, and the theorem's lower bound e_min/8 · √(m/n) with e_min of these
sources.

{table(["m", *(f"n = {n:,}" for n in results["items"])], rows)}

The error is {min(ratios):.0f} to {max(ratios):.0f} times the bound for all sizes: both have the same rate up
to a constant, as the theorem states. The bound is for the worst model of a family, and the error for this
model.
"""


def draw_2(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw errors and bounds on logarithmic axes."""
    axis, items = figure.subplots(), results["items"]
    for shade, row in zip(np.linspace(0.4, 1.0, len(results["rows"])), results["rows"], strict=True):
        label, style = f"m = {row['sources']}", {"color": BLUE, "alpha": shade, "markersize": 3}
        axis.loglog(items, row["error"], "o-", **style, label=f"error, {label}")
        axis.loglog(items, row["bound"], "--", color=RED, alpha=shade, label=f"bound, {label}")
    axis.set_xlabel("items n")
    axis.set_ylabel("error of the tables")
    axis.legend(fontsize=7, ncols=2)
    axis.grid(color=GRAY, alpha=0.2)


THEOREM_2 = Artifact("theorem-2", "Theorem 2: the lower bound", (), measure_2, render_2, draw_2, (5.5, 3.2))

# ---------------------------------------------------------------------- Theorem 4

BEFORE = np.array(ACCURACIES)
AFTER = BEFORE[::-1]
# Items of a stream from BEFORE to AFTER: the fewer, the faster the drift.
STREAMS = (2_000, 8_000, 32_000, 128_000)
SHORTEST = 125
STREAM_REPEATS = 40


def measure_4(setting: Setting) -> Outcome:
    """Measure the error at the end of streams by the fitted window, for several speeds of drift."""
    streams = STREAMS[:2] if setting.quick else STREAMS
    repeats = 2 if setting.quick else STREAM_REPEATS
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
        truth = tables_of(stream.accuracies[-1], 1.0)
        for at, window in enumerate(windows):
            try:
                errors[seed, at] = table_error(stream.votes[n - window :], truth)
            except NotIdentifiableError:  # a short window may not determine the accuracies
                errors[seed, at] = np.nan
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


def render_4(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
    streams = results["streams"]
    rows = [
        [
            number(row["drift"]),
            f"{row['items']:,}",
            f"{row['best_window']:,}",
            f"{min(row['error']):.4f}",
            f"{row['error'][-1]:.4f}",
            f"{row['predicted']:,.0f}",
        ]
        for row in streams
    ]
    windows = streams[-1]["windows"]
    errors = []
    for row in streams:
        cells = [f"{error:.4f}" for error in row["error"]]
        errors.append([number(row["drift"]), *cells, *[""] * (len(windows) - len(cells))])
    heads = ["drift Δ", "stream", "best window", "its error", "error with all items", "W* of the theorem"]
    return f"""\
The accuracies of five sources change linearly over the stream. A model is fitted to the last W items and
compared with the true tables of the last item; errors are averaged over {results["repeats"]} streams. Δ is
the total variation of one step (the paper's proof needs the total variation, not a divergence).

{table(heads, rows)}

There is a best window at every speed, and it is longer for slower drift. Its exponent in Δ is
{results["slope_measured"]:.2f} as measured (windows double, so this is coarse) and
{results["slope_predicted"]:.2f} in the theorem. The bias of a window is of the order Δ W, while the theorem
has Δ W^1.5; this puts the exponent nearer to -2/3. W* is an order of magnitude, because it is the ratio of
two loose bounds.

## All windows

{table(["drift Δ", *(f"W = {w:,}" for w in windows)], errors)}
"""


def draw_4(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw the error by window, with one curve per speed and the theorem's window."""
    axis = figure.subplots()
    for shade, row in zip(np.linspace(0.35, 1.0, len(results["streams"])), results["streams"], strict=True):
        label = f"Δ = {number(row['drift'])}"
        axis.loglog(row["windows"], row["error"], "o-", color=BLUE, alpha=shade, markersize=3, label=label)
        axis.axvline(row["predicted"], color=GRAY, alpha=shade, linewidth=1, linestyle=":")
    axis.set_xlabel("window W (dotted: W* of the theorem)")
    axis.set_ylabel("error of the tables now")
    axis.legend(fontsize=8)


THEOREM_4 = Artifact("theorem-4", "Theorem 4: the best window", (), measure_4, render_4, draw_4, (5.5, 3.2))
