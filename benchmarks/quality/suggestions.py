"""Goal: 60 suggested gold labels are as good as 100 random ones; docs/quality/suggestions.md has the result.

Run ``python -m benchmarks.quality.suggestions``; ``--save`` writes the results file and the page. Reads the
directory named by FLYINGSQUID_DATA. The loop of ``fs.suggest_items``: suggest 10 items, label them, fit
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
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import half_parser, save_half
from benchmarks.quality.gold import Pool, load
from benchmarks.quality.halves import DESIGN, FROZEN
from benchmarks.quality.scores import score_known

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "suggestions.md"
NAMES = {"design": "suggestions", "frozen": "suggestions_frozen"}
LABELS, GOAL, DRAWS = 100, 60, 10
# The model is scored after every STEP labels.
STEP = 20
SIZES = tuple(range(STEP, LABELS + 1, STEP))
# How items are chosen, and after how many labels the model is fitted again.
CHOICES = {"random": STEP, "suggested": 10, "suggested, 20 at a time": STEP}
# Items that labels are chosen from; a dataset takes part if it has enough for all labels.
_MOST_ITEMS = 20_000


def divided(pool: Pool) -> Pool:
    """Return items to label, all with gold labels, and other items to score."""
    at = np.random.default_rng(0).permutation(np.flatnonzero(pool.y >= 0))
    half = _MOST_ITEMS if pool.is_split else len(at) // 2
    chosen, scored = np.sort(at[:half]), np.sort(at[half:])
    pool = pool if pool.is_split else replace(pool, scored_votes=pool.votes[scored], scored_y=pool.y[scored])
    return replace(pool, votes=pool.votes[chosen], y=pool.y[chosen], is_split=True)


def curve(pool: Pool, choice: str, seed: int) -> NDArray[np.float64]:
    """Return accuracy, F1 and log loss after every step, shape (steps, 3)."""
    classes = tuple(range(pool.n_classes))
    votes, scored = (fs.Votes.from_classes(each, classes=classes) for each in (pool.votes, pool.scored_votes))
    rng = np.random.default_rng([seed, 7])
    batch, gold, found = CHOICES[choice], np.full(len(pool.y), -1), []
    model = fs.LabelModel().fit(votes)
    for n_labels in range(batch, LABELS + 1, batch):
        if choice == "random":
            at = rng.choice(np.flatnonzero(gold < 0), batch, replace=False)
        else:
            at = fs.suggest_items(model, votes, batch, labeled=gold, random_state=rng).positions
        gold[at] = pool.y[at]
        model = fs.LabelModel().fit(votes, gold=gold)
        if n_labels in SIZES:
            found.append(score_known(model.predict_proba(scored), pool.scored_y)[:3])
    return np.array(found)


def measure(names: Sequence[str], draws: int) -> dict[str, Any]:
    """Return mean scores by dataset, choice and number of labels."""
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        start, pool = time.perf_counter(), divided(load(name))
        if len(pool.y) < LABELS:
            continue
        found[name] = {
            choice: np.mean([curve(pool, choice, seed) for seed in range(draws)], axis=0).round(5).tolist()
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
    return float(SIZES[first - 1] + step * STEP)


HEADER = f"""# Which items to label

Written by `python -m benchmarks.quality.suggestions --save`
([script](../../benchmarks/quality/suggestions.py), [results](../../benchmarks/results/suggestions.json)).

[`fs.suggest_items`](../guides/gold.md) compared with random choice. Unless stated otherwise,
{CHOICES["suggested"]} items at a time are suggested, labeled, and used in the next fit. Labels come from the
train split if it has labels, and the test split is scored; a dataset without splits is divided once, at
random, into items to label and items to score. So no suggested item is ever scored. The strategy was chosen
on the design half ([halves](halves.md)). The goal is that {GOAL} suggested labels reach the mean accuracy of
{LABELS} random ones. Batches of 20 were measured first and missed it; batches of 10 use the same ranking.

"""


def tables(results: Mapping[str, Any], half: str) -> str:
    """Return the tables of one half."""
    datasets = results["scores"]
    means = {c: np.mean([row[c] for row in datasets.values()], axis=0) for c in CHOICES}
    lines = [f"## {half.capitalize()} half: {len(datasets)} datasets, {results['draws']} draws", ""]
    for choice in list(CHOICES)[1:]:
        by_accuracy, by_loss = (
            labels_needed(means[choice][:, j], means["random"][:, j], higher=j < 2) for j in (0, 2)
        )
        is_met = "met" if by_accuracy <= GOAL else "not met"
        lines.append(
            f"- {choice}: {_number(by_accuracy)} labels reach the mean accuracy of {LABELS} random labels, "
            f"and {_number(by_loss)} their mean log loss. The goal is {is_met}."
        )
    lines += ["", f"| | {' | '.join(f'{size} labels' for size in SIZES)} |"]
    lines += ["| --- |" + " ---: |" * len(SIZES)]
    for at, name, digits in ((0, "accuracy", 1), (1, "F1", 1), (2, "log loss", 3)):
        for choice in CHOICES:
            values = means[choice][:, at] * (100 if at < 2 else 1)
            cells = " | ".join(f"{value:.{digits}f}" for value in values)
            lines.append(f"| {name}, {choice} | {cells} |")
    lines += [
        "",
        "Accuracy on each dataset with random and with suggested labels, and the number of suggested labels",
        f"that reach the accuracy of {LABELS} random ones:",
        "",
    ]
    lines += [
        "| dataset | 20 labels | 60 labels | 100 labels | needed |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, row in datasets.items():
        both = {choice: np.array(row[choice])[:, 0] for choice in CHOICES}
        pairs = [f"{100 * both['random'][i]:.1f} / {100 * both['suggested'][i]:.1f}" for i in (0, 2, 4)]
        count = _number(labels_needed(both["suggested"], both["random"]))
        lines.append(f"| {name} | {' | '.join(pairs)} | {count} |")
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
        save_half(NAMES, half, results, PAGE, render)


if __name__ == "__main__":
    main()
