"""Claim: 95% intervals of estimate_rate hold the true share in at least 93% of samples, and are narrower.

Run ``python -m benchmarks.quality.rates``; ``--save`` writes the results file and the page. Reads the
directory named by FLYINGSQUID_DATA. A cell is a dataset with at least 1,000 gold labels, a number n of gold
labels and a class with at least 10 expected gold labels. Samples of n items are drawn at random, and the
model is fitted once without gold labels. Only the design half is computed; ``--frozen`` computes the other
half instead, once, when there is nothing left to choose (docs/quality/halves.md).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import flyingsquid as fs
from benchmarks.harness import half_parser, save_half
from benchmarks.quality.data_directory import data_directory, find
from benchmarks.quality.halves import DESIGN, FROZEN, RealSet
from benchmarks.quality.pools import SPLITS
from flyingsquid.estimation.shares import NORMAL_95, effective_size, estimate_shares, gold_shares
from flyingsquid.votes.decisions import expected_credit

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "rates.md"
SIZES = (50, 100, 200)
RESAMPLES = 2_000
LEAST_GOLD = 1_000
LEAST_EXPECTED = 10
GOAL = 0.93
NAMES = {"design": "rates", "frozen": "rates_frozen"}
# Samples are computed in blocks, so that memory does not grow with the number of classes.
_BLOCK = 250


def population(folder: Path, real: RealSet) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Return the votes and gold labels of all items of all splits, also those without votes."""
    with np.load(find(folder, real.name)) as data:
        parts = [(data[f"L{s}"], data[f"Y{s}"]) for s in SPLITS if f"L{s}" in data and f"Y{s}" in data]
    votes, y = (np.concatenate(part) for part in zip(*parts, strict=True))
    if real.kind == "sequences":
        votes = np.maximum(votes, 0)  # outside a span these rules vote "no entity"
    return votes, y


def measure(
    real: RealSet,
    votes: NDArray[np.int8],
    y: NDArray[np.int8],
    *,
    sizes: Sequence[int] = SIZES,
    resamples: int = RESAMPLES,
) -> dict[str, Any]:
    """Return the cells of one dataset. The population are the items with gold labels."""
    read = fs.Votes(votes, tuple(range(real.n_classes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        model = fs.LabelModel().fit(read)
    known = y >= 0
    posterior, truth = model.predict_proba(read)[known], y[known]
    return {
        "name": real.name,
        "n_items": len(truth),
        "n_classes": real.n_classes,
        "method": model.method_,
        "accuracy": round(float(expected_credit(posterior, truth).mean()), 4),
        "cells": [cell for n in sizes for cell in measure_size(posterior, truth, n, resamples)],
    }


def measure_size(
    posterior: NDArray[np.float64], y: NDArray[np.int8], n: int, resamples: int
) -> list[dict[str, Any]]:
    """Return coverage and width for samples of n gold labels, one cell per class that is frequent enough."""
    n_items, n_classes = posterior.shape
    onehot = np.eye(n_classes)
    share = np.bincount(y, minlength=n_classes) / n_items
    mean, variance = posterior.mean(axis=0), posterior.var(axis=0)
    rng = np.random.default_rng(n)
    found = []
    for start in range(0, resamples, _BLOCK):
        draws = range(start, min(start + _BLOCK, resamples))
        at = np.stack([rng.choice(n_items, n, replace=False, shuffle=False) for _ in draws])
        gold = onehot[y[at]]
        ours = estimate_shares(gold, posterior[at], mean, variance, n_items, NORMAL_95)
        alone = gold_shares(gold, n_items, NORMAL_95)
        found.append(
            [
                (ours.low <= share) & (share <= ours.high),
                (alone[1] <= share) & (share <= alone[2]),
                ours.high - ours.low,
                alone[2] - alone[1],
                (ours.share - share) ** 2,
                (alone[0] - share) ** 2,
                ours.n_effective,
            ]
        )
    covered, covered_alone, width, width_alone, error, error_alone, worth = (
        np.concatenate(part) for part in zip(*found, strict=True)
    )
    gain = error_alone.mean(axis=0) / np.maximum(error.mean(axis=0), 1e-12)
    return [
        {
            "n": n,
            "class": k,
            "share": round(float(share[k]), 4),
            "coverage": round(float(covered[:, k].mean()), 4),
            "coverage_alone": round(float(covered_alone[:, k].mean()), 4),
            "width": round(float(width[:, k].mean()), 4),
            "width_alone": round(float(width_alone[:, k].mean()), 4),
            "worth_observed": round(float(effective_size(n, n_items, gain[k])), 1),
            "worth_reported": round(float(np.median(worth[:, k])), 1),
        }
        for k in range(n_classes)
        if n * share[k] >= LEAST_EXPECTED
    ]


def run(folder: Path, sets: Sequence[RealSet]) -> dict[str, Any]:
    """Measure all datasets with enough gold labels."""
    measured = []
    with threadpool_limits(1):
        for real in sets:
            votes, y = population(folder, real)
            if np.count_nonzero(y >= 0) >= LEAST_GOLD:
                measured.append(measure(real, votes, y))
    return {"sets": measured, "summary": summarize(measured)}


def summarize(sets: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the shares of cells that meet the goals, and means over cells."""
    cells = [cell for one in sets for cell in one["cells"]]
    coverage, alone = (np.array([cell[key] for cell in cells]) for key in ("coverage", "coverage_alone"))
    width = np.array([cell["width"] / cell["width_alone"] for cell in cells])
    return {
        "cells": len(cells),
        "covered": round(float((coverage >= GOAL).mean()), 4),
        "covered_alone": round(float((alone >= GOAL).mean()), 4),
        "lowest_coverage": float(coverage.min()),
        "mean_coverage": round(float(coverage.mean()), 4),
        "mean_coverage_alone": round(float(alone.mean()), 4),
        "mean_width": round(float(width.mean()), 4),
        "widest": round(float(width.max()), 4),
    }


# ---------------------------------------------------------------------- the page


INTRODUCTION = """\
# Coverage of rate intervals

This page measures the intervals of [`fs.estimate_rate`](../guides/rates.md) on every dataset with at
least 1,000 gold labels. The population is all items with gold labels, so the true shares are known. The
default `LabelModel` is fitted once to all votes, without gold labels. Then 2,000 random samples of n =
50, 100 and 200 items get gold labels. A cell of the tables is one n and one class with at least 10
expected gold labels.

Written by `python -m benchmarks.quality.rates --save` ([script](../../benchmarks/quality/rates.py);
results: [design](../../benchmarks/results/rates.json),
[frozen](../../benchmarks/results/rates_frozen.json)).

There are two goals: 95% intervals contain the true share in at least 93% of the samples, in 95% of the
cells; and their mean width is never more than 5% above that of the gold labels alone (Wilson's interval
for a finite population).

The method was chosen on the [design half](halves.md) of the datasets. The frozen half was measured once,
after that.
"""
COLUMNS = """\
| dataset | n | class | share | coverage | gold alone | width | gold alone | ratio | n_eff |
|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|
"""
NOTES = """\
`coverage` is the share of samples whose interval contains the true share, and `width` the mean width of
the interval in points. `n_eff` is the number of gold labels that would be as precise without a model,
from the mean squared errors of both estimates over all samples; in parentheses, the median of
`n_effective` as reported from one sample.

"""


def render(halves: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page."""
    parts = [INTRODUCTION]
    for half, results in halves.items():
        parts += [f"\n## The {half} half\n\n", _summary(results["summary"]), "\n", NOTES, COLUMNS]
        parts += [_row(one["name"], cell) for one in results["sets"] for cell in one["cells"]]
    return "".join(parts)


def _summary(s: Mapping[str, Any]) -> str:
    return (
        "| | with the model | gold labels alone |\n|---|--:|--:|\n"
        f"| cells with a coverage of at least 93%, of {s['cells']} | {s['covered']:.1%} "
        f"| {s['covered_alone']:.1%} |\n"
        f"| mean coverage | {s['mean_coverage']:.1%} | {s['mean_coverage_alone']:.1%} |\n"
        f"| lowest coverage | {s['lowest_coverage']:.1%} | |\n"
        f"| mean width, relative | {s['mean_width']:.1%} | 100% |\n"
        f"| largest relative width of a cell | {s['widest']:.1%} | 100% |\n"
    )


def _row(name: str, cell: Mapping[str, Any]) -> str:
    width, alone = cell["width"], cell["width_alone"]
    return (
        f"| {name} | {cell['n']} | {cell['class']} | {cell['share']:.1%} | {cell['coverage']:.1%} "
        f"| {cell['coverage_alone']:.1%} | {100 * width:.1f} | {100 * alone:.1f} | {width / alone:.1%} "
        f"| {cell['worth_observed']:.0f} ({cell['worth_reported']:.0f}) |\n"
    )


def main() -> None:
    parser = half_parser(__doc__)
    options = parser.parse_args()
    half = "frozen" if options.frozen else "design"
    results = run(data_directory(), FROZEN if options.frozen else DESIGN)
    print(render({half: results}))
    if options.save:
        save_half(NAMES, half, results, PAGE, render)


if __name__ == "__main__":
    main()
