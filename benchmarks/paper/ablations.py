"""Claim (the paper's): random votes in place of abstains cost much, and so may a single random triplet.

The two ablations of the paper's appendix. First, every missing vote is replaced by a fair coin, before
counting and before labelling. Second, each source is judged by one triplet drawn at random, many times
over, beside the mean and the median over all triplets. Label models only, scored in F1 of class 1.

Run ``python -m benchmarks.paper.ablations``; ``--save`` writes the results file and the page. Reads the
folder named by FLYINGSQUID_DATA; the sets are those of the paper's table, all of the design half
(docs/quality/halves.md).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

import flyingsquid as fs
from benchmarks.harness import save
from benchmarks.quality.folder import data_folder, find
from benchmarks.quality.scores import f1

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "paper-ablations.md"
SETS = ("spouse", "youtube", "weather")
DRAWS = 100
CLASSES = (0, 1)
Votes = NDArray[np.int8]
# Spouse, spam and weather, as the paper prints them.
PAPER = {
    "random votes, end model": (20.9, 64.1, 69.1),
    "all triplets, end model": (49.6, 92.3, 88.9),
    "one triplet, worst": (4.5, 67.0, 0.0),
    "one triplet, average": (37.9, 73.4, 31.0),
    "one triplet, best": (51.2, 83.6, 77.6),
    "all triplets": (47.0, 89.1, 77.6),
}


def load(folder: Path, name: str) -> tuple[Votes, Votes, NDArray[np.int8]]:
    """Votes to fit on, votes to score, and their gold."""
    with np.load(find(folder, name)) as data:
        if "L" in data:
            return data["L"], data["L"], data["Y"]
        fit = data["L_train"] if "L_train" in data else data["L_test"]
        return fit, data["L_test"], data["Y_test"]


def without_abstains(votes: Votes, rng: np.random.Generator) -> Votes:
    """A fair coin wherever a source says nothing."""
    return np.where(votes < 0, rng.integers(0, 2, votes.shape), votes).astype(np.int8)


def one_triplet_a_source(fit: Votes, votes: Votes, rng: np.random.Generator) -> NDArray[np.float64]:
    """P(class 1) of ``votes`` when each source is judged by one random triplet, shape (n,).

    The bare formula, |E[λᵢY]| = √|E[λᵢλⱼ] E[λᵢλₖ] / E[λⱼλₖ]|, and 0 where it divides by 0. All signs are
    taken to be positive. ``LabelModel`` would refuse most such draws.
    """
    signed = np.where(fit < 0, 0, 2 * fit.astype(np.float64) - 1)
    second, m = signed.T @ signed / len(fit), fit.shape[1]
    accuracies = np.zeros(m)
    for i in range(m):
        j, k = rng.choice(np.delete(np.arange(m), i), 2, replace=False)
        if second[j, k] != 0:
            accuracies[i] = np.sqrt(abs(second[i, j] * second[i, k] / second[j, k]))
    coverage = np.maximum((fit >= 0).mean(axis=0), 1 / len(fit))
    right = np.clip((1 + accuracies / coverage) / 2, 0.5, 0.99)  # a drawn triplet may say more than 1
    log_odds = np.where(votes < 0, 0, 2 * votes.astype(np.float64) - 1) @ np.log(right / (1 - right))
    return np.asarray((1 + np.tanh(log_odds / 2)) / 2)


def score(fit: Votes, votes: Votes, y: NDArray[np.int8], **options: Any) -> float | None:
    """F1 of a label model; None where it refuses."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        try:
            model = fs.LabelModel(**options).fit(fs.Votes.from_classes(fit, classes=CLASSES))
        except fs.exceptions.NotIdentifiableError:
            return None
    proba = model.predict_proba(fs.Votes.from_classes(votes, classes=CLASSES))
    return f1(proba[y >= 0, 1], y[y >= 0])


def over_draws(draw: Callable[[np.random.Generator], float | None]) -> dict[str, Any]:
    """Worst, average and best of many draws; refused ones count as 0, as a label model that says nothing."""
    found = [draw(np.random.default_rng(seed)) for seed in range(DRAWS)]
    values = np.array([0.0 if one is None else one for one in found])
    return {
        "worst": round(float(values.min()), 4),
        "average": round(float(values.mean()), 4),
        "best": round(float(values.max()), 4),
        "refused": sum(one is None for one in found),
    }


def measure(folder: Path, name: str) -> dict[str, Any]:
    fit, votes, y = load(folder, name)

    def random_votes(rng: np.random.Generator) -> float | None:
        return score(without_abstains(fit, rng), without_abstains(votes, rng), y, method="triplet_mean")

    def one_triplet(rng: np.random.Generator) -> float | None:
        proba = one_triplet_a_source(fit, votes, rng)
        return f1(proba[y >= 0], y[y >= 0])

    return {
        "items": len(fit),
        "sources": fit.shape[1],
        "mean": score(fit, votes, y, method="triplet_mean"),
        "median": score(fit, votes, y, method="triplet_median"),
        "random votes": over_draws(random_votes),
        "one triplet": over_draws(one_triplet),
    }


INTRODUCTION = f"""\
# The paper's ablations

Written by `python -m benchmarks.paper.ablations --save` ([script](../../benchmarks/paper/ablations.py),
[results](../../benchmarks/results/ablations.json)). F1 of class 1 in %, by label models alone; ties get the
credit of a coin. Random rows are over {DRAWS} draws; where the label model refuses random votes, that
counts as 0.
"""
NOTES = """
What differs from the paper: the splits and rules of WRENCH on `youtube`; `spouse` is its test split, fitted
and scored without labels; the gold of `weather` is an aggregate of these very votes, so that majority vote
is near 100 and little is left to lose. The paper's first ablation scores end models, this page label
models. Single triplets go through the bare formula, as in the paper; `LabelModel` itself refuses triplets
that determine nothing.
"""


def render(results: dict[str, Any]) -> str:
    lines = [INTRODUCTION, "| | " + " | ".join(f"`{name}`" for name in results) + " |"]
    lines.append("|---" * (len(results) + 1) + "|")

    def add(title: str, values: list[float | None]) -> None:
        shown = ("refused" if value is None else f"{100 * value:.1f}" for value in values)
        lines.append(f"| {title} | " + " | ".join(shown) + " |")

    sets = list(results.values())
    add("mean over all triplets", [one["mean"] for one in sets])
    add("median over all triplets", [one["median"] for one in sets])
    for row in ("one triplet", "random votes"):
        name = "one random triplet a source" if row == "one triplet" else "random votes for abstains"
        for which in ("worst", "average", "best"):
            add(f"{name}, {which}", [one[row][which] for one in sets])
    lines.append("\nThe paper, on its own splits (spouse, spam, weather):\n")
    lines.append("| | spouse | spam | weather |\n|---|---|---|---|")
    lines += [
        f"| {name} | " + " | ".join(f"{value:.1f}" for value in row) + " |" for name, row in PAPER.items()
    ]
    return "\n".join([*lines, NOTES])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--save", action="store_true", help="write the results file and the page")
    options = parser.parse_args()
    folder, console = data_folder(), Console(width=160)
    results = {name: measure(folder, name) for name in SETS}
    console.print(render(results), markup=False)
    if options.save:
        console.print(f"written to {save('ablations', results)} and {PAGE}")
        PAGE.write_text(render(results), encoding="utf-8")


if __name__ == "__main__":
    main()
