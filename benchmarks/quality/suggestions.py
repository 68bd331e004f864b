"""Claim: 60 suggested gold labels are worth 100 random ones.

Run ``python -m benchmarks.quality.suggestions``; ``--save`` writes the results file and the page. Reads the
directory named by FLYINGSQUID_DATA. The loop of ``fs.suggest_items``: suggest 20 items, label them, fit
again. Labels come from the train split if it has labels, and the test split is scored; a dataset without
splits is divided once, at random, so that suggested items, which are difficult, are never among the scored
ones. Only the design half is computed; ``--frozen`` computes the other half instead, once, when there is
nothing left to choose (docs/quality/halves.md).
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import half_parser, save, saved_halves
from benchmarks.quality.gold import Pool, load
from benchmarks.quality.halves import DESIGN, FROZEN
from benchmarks.quality.regret import scores

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "suggestions.md"
NAMES = {"design": "suggestions", "frozen": "suggestions_frozen"}
BATCH, LABELS, DRAWS = 20, 100, 10
Codes = NDArray[np.int8]
CHOICES = ("random", "suggested")
SIZES = tuple(range(BATCH, LABELS + 1, BATCH))
# Items that labels are chosen from; a dataset takes part if it has enough for all labels.
_MOST_ITEMS = 20_000


@dataclass(frozen=True)
class Task:
    """Votes to fit, the items among them that may be labeled, and items to score.

    ``y`` are the true classes of the items in ``votes``, ``at`` the positions of those that may be labeled.
    """

    n_classes: int
    votes: Codes
    y: NDArray[Any]
    at: NDArray[np.intp]
    scored_votes: Codes
    scored_y: NDArray[Any]


def divide(pool: Pool) -> Task:
    """Return the items to label and, without a test split, another half of the pool to score."""
    known = np.random.default_rng(0).permutation(np.flatnonzero(pool.y >= 0))
    if pool.is_split:
        at = np.sort(known[:_MOST_ITEMS])
        return Task(pool.n_classes, pool.votes, pool.y, at, pool.scored_votes, pool.scored_y)
    half = len(known) // 2
    at, scored = np.sort(known[:half]), np.sort(known[half:])
    return Task(pool.n_classes, pool.votes, pool.y, at, pool.votes[scored], pool.y[scored])


def curve(task: Task, choice: str, seed: int) -> NDArray[np.float64]:
    """Return accuracy, F1 and log loss after every batch, shape (batches, 3)."""
    classes = tuple(range(task.n_classes))
    votes, scored = (fs.Votes.from_classes(each, classes=classes) for each in (task.votes, task.scored_votes))
    rng = np.random.default_rng([seed, 7])
    gold, found = np.full(len(task.y), -1), []
    model = fs.LabelModel().fit(votes)
    for _ in SIZES:
        labeled = gold[task.at]
        if choice == "suggested":
            new = fs.suggest_items(model, votes[task.at], BATCH, labeled=labeled, random_state=rng).positions
        else:
            new = rng.choice(np.flatnonzero(labeled < 0), BATCH, replace=False)
        gold[task.at[new]] = task.y[task.at[new]]
        model = fs.LabelModel().fit(votes, gold=gold)
        found.append(scores(model.predict_proba(scored), task.scored_y, task.n_classes)[:3])
    return np.array(found)


def measure(names: Sequence[str], draws: int) -> dict[str, Any]:
    """Return mean scores by dataset, choice and number of labels."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        start, task = time.perf_counter(), divide(load(name))
        if len(task.at) < LABELS:
            continue
        found[name] = {
            choice: np.mean([curve(task, choice, seed) for seed in range(draws)], axis=0).round(5).tolist()
            for choice in CHOICES
        }
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return {"draws": draws, "scores": found}


def labels_needed(suggested: Any, random: Any, *, higher: bool = True) -> float:
    """Return how many suggested labels reach the last score of random ones, interpolated; inf if none do.

    >>> labels_needed([0.7, 0.8, 0.9, 0.9, 0.9], [0.6, 0.7, 0.8, 0.85, 0.85])
    50.0
    """
    sign = 1 if higher else -1
    values, goal = sign * np.asarray(suggested), sign * random[-1]
    reached = np.flatnonzero(values >= goal)
    if not len(reached):
        return float("inf")
    first = int(reached[0])
    if first == 0:
        return float(SIZES[0])
    step = (goal - values[first - 1]) / (values[first] - values[first - 1])
    return float(SIZES[first - 1] + step * BATCH)


HEADER = f"""# Which items to label

Written by `python -m benchmarks.quality.suggestions --save`
([script](../../benchmarks/quality/suggestions.py), [results](../../benchmarks/results/suggestions.json)).

[`fs.suggest_items`](../guides/gold.md) compared with random choice: {BATCH} items at a time are suggested,
labeled, and used in the next fit. Labels come from the train split if it has labels, and the test split is
scored; a dataset without splits is divided once, at random, into items to label and items to score, and the
model is fitted to the votes of both. So no suggested item is ever scored. The strategy was chosen on the
design half ([halves](halves.md)); the goal is that 60 suggested labels reach the mean accuracy of {LABELS}
random ones. Small datasets with few different rows of votes, such as breast_cancer, move the mean most.

"""


def tables(results: Mapping[str, Any], half: str) -> str:
    """Return the tables of one half."""
    datasets = results["scores"]
    means = {c: np.mean([row[c] for row in datasets.values()], axis=0) for c in CHOICES}
    needed = [labels_needed(means["suggested"][:, j], means["random"][:, j], higher=j < 2) for j in (0, 2)]
    lines = [f"## {half.capitalize()} half: {len(datasets)} datasets, {results['draws']} draws", ""]
    lines += [
        f"Suggested labels reach the mean accuracy of {LABELS} random labels with {_number(needed[0])} "
        f"labels, and their mean log loss with {_number(needed[1])}.",
        "",
    ]
    lines += [f"| | {' | '.join(f'{size} labels' for size in SIZES)} |", "| --- |" + " ---: |" * len(SIZES)]
    for at, name, digits in ((0, "accuracy", 1), (1, "F1", 1), (2, "log loss", 3)):
        for choice in CHOICES:
            values = means[choice][:, at] * (100 if at < 2 else 1)
            cells = " | ".join(f"{value:.{digits}f}" for value in values)
            lines.append(f"| {name}, {choice} | {cells} |")
    lines += [
        "",
        f"Accuracy by dataset, random and suggested; labels needed for that of {LABELS} random ones.",
        "",
    ]
    lines += [
        "| dataset | 20 labels | 60 labels | 100 labels | needed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, row in datasets.items():
        both = {choice: np.array(row[choice])[:, 0] for choice in CHOICES}
        shown = [f"{100 * both['random'][i]:.1f} / {100 * both['suggested'][i]:.1f}" for i in (0, 2, 4)]
        count = _number(labels_needed(both["suggested"], both["random"]))
        lines.append(f"| {name} | {' | '.join(shown)} | {count} |")
    return "\n".join(lines) + "\n"


def _number(labels: float) -> str:
    return f"{labels:.0f}" if np.isfinite(labels) else f"more than {LABELS}"


def render(results: Mapping[str, Any]) -> str:
    """Return the page: the design half, and the frozen half if it was opened."""
    return HEADER + "\n".join(tables(results[half], half) for half in NAMES if half in results)


def main() -> None:
    parser = half_parser(__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="repetitions of the loop")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    half = "frozen" if options.frozen else "design"
    sets = FROZEN if options.frozen else DESIGN
    results = measure([each.name for each in sets if each.kind != "sequences"], options.draws)
    print(render({half: results}))
    if options.save:
        print(f"saved to {save(NAMES[half], results).name} and {PAGE.name}")
        PAGE.write_text(render(saved_halves(NAMES)), encoding="utf-8")


if __name__ == "__main__":
    main()
