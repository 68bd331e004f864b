"""Claim: on real votes of many classes no native route collapses, and the table says who wins.

Run ``python -m benchmarks.quality.many_classes``; ``--save`` writes the results file and the page. Reads the
folder named by FLYINGSQUID_DATA. Fits see no gold. Only the design half is computed (docs/quality/halves.md).
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import save
from benchmarks.quality.folder import data_folder, find
from benchmarks.quality.halves import DESIGN, RealSet

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "many-classes.md"
CLIP = 1e-4
TIE = 1e-9
METHODS: dict[str, dict[str, Any]] = {
    "auto": {},
    "agreement": {"method": "agreement"},
    "refined": {"method": "refined"},
    "decomposition": {"method": "decomposition"},
    "one versus rest": {"multiclass": "one_vs_rest"},
    "one versus rest, covariance": {"multiclass": "one_vs_rest", "method": "covariance"},
}
# Points of accuracy below majority vote that count as a collapse.
COLLAPSE = 0.05


class Pool(NamedTuple):
    """Votes to fit on, and votes to score with their gold."""

    name: str
    fit: fs.Votes
    score: fs.Votes
    y: NDArray[np.int8]


def load(folder: Path, real: RealSet, *, blanks_vote: bool = False) -> Pool:
    path = find(folder, real.name)
    with np.load(path) as data:
        suffix = "" if "L" in data else "_test"
        fit, score, y = data["L" if not suffix else "L_train"], data[f"L{suffix}"], data[f"Y{suffix}"]
    if blanks_vote:
        fit, score = np.maximum(fit, 0), np.maximum(score, 0)
    classes = tuple(range(real.n_classes))
    name = real.name + (", blanks vote O" if blanks_vote else "")
    return Pool(name, fs.Votes(fit, classes), fs.Votes(score[y >= 0], classes), y[y >= 0])


def scores_of(posterior: NDArray[np.float64], y: NDArray[np.int8]) -> dict[str, float]:
    """Accuracy and macro F1 with ties shared, and log loss."""
    best = posterior >= posterior.max(axis=1, keepdims=True) - TIE
    answer = best / best.sum(axis=1, keepdims=True)
    truth = np.eye(posterior.shape[1])[y]
    both, said, is_so = (answer * truth).sum(axis=0), answer.sum(axis=0), truth.sum(axis=0)
    chance = np.clip(posterior[np.arange(len(y)), y], CLIP, 1)
    return {
        "accuracy": round(float((answer * truth).sum() / len(y)), 6),
        "f1": round(float(np.mean(2 * both / np.maximum(said + is_so, 1))), 6),
        "log_loss": round(float(-np.log(chance).mean()), 6),
    }


def measure(pool: Pool) -> dict[str, dict[str, float] | str]:
    """Scores of every method, or the reason why it refused."""
    codes, n_classes = np.asarray(pool.score.codes), pool.score.n_classes
    counts = np.stack([(codes == k).sum(axis=1) for k in range(n_classes)], axis=1)
    shares = (counts + 1 / n_classes) / (counts.sum(axis=1, keepdims=True) + 1)
    results: dict[str, dict[str, float] | str] = {"majority vote": scores_of(shares, pool.y)}
    for name, options in METHODS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
            try:
                model = fs.LabelModel(**options).fit(pool.fit)
            except fs.exceptions.NotIdentifiableError as error:
                results[name] = str(error)
                continue
        results[name] = scores_of(model.predict_proba(pool.score), pool.y)
    return results


INTRODUCTION = """\
# Many classes: every route beside majority vote, design half

Written by `python -m benchmarks.quality.many_classes --save`
([script](../../benchmarks/quality/many_classes.py), [results](../../benchmarks/results/many_classes.json)).
It shows the design half only; [which sets that is, and why](halves.md). Every method is fitted without labels
on the train split and scored on the test split; where there is one pool, it is both. A cell is

    accuracy in % / macro F1 in % / log loss in nats

Ties get the credit of a coin, items without votes included. Majority vote's log loss is that of vote shares
with one vote spread over the classes; probabilities are clipped below at 0.0001. *auto* is `refined` where an
item has 2.5 votes and a cell of a source's table 30 on average, otherwise `agreement`.
"""


def render(results: dict[str, dict[str, Any]]) -> str:
    """The whole page; every word that depends on a number is made from the numbers."""
    methods = ["majority vote", *METHODS]
    lines = [INTRODUCTION, f"| | {' | '.join(f'`{name}`' for name in results)} |"]
    lines.append(f"|---|{'---|' * len(results)}")
    lines += [f"| {m} | {' | '.join(_cell(r[m]) for r in results.values())} |" for m in methods]
    lines += ["", "## More than 5 points below majority vote", ""]
    found = [f"- {m} on `{name}`: {_below(r, m):.1f} points" for name, r in results.items() for m in METHODS
             if _below(r, m) > 100 * COLLAPSE]  # fmt: skip
    lines += [*(found or ["- none"]), ""]
    return "\n".join(lines)


def _below(methods: dict[str, Any], name: str) -> float:
    result = methods[name]
    return (
        0.0 if isinstance(result, str) else 100 * (methods["majority vote"]["accuracy"] - result["accuracy"])
    )


def _cell(result: dict[str, float] | str) -> str:
    if isinstance(result, str):
        return "refused"
    return f"{100 * result['accuracy']:.1f} / {100 * result['f1']:.1f} / {result['log_loss']:.3f}"


def pools(folder: Path) -> list[Pool]:
    found = []
    for real in DESIGN:
        if real.n_classes > 2:
            found.append(load(folder, real))
            if real.kind == "sequences":
                found.append(load(folder, real, blanks_vote=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Many classes beside majority vote on real votes.")
    parser.add_argument("--save", action="store_true", help="write the results file and the page")
    arguments = parser.parse_args()
    folder = data_folder()
    results = {pool.name: measure(pool) for pool in pools(folder)}
    page = render(results)
    print(page)
    if arguments.save:
        PAGE.write_text(page, encoding="utf-8")
        print(f"saved to {save('many_classes', results).name} and {PAGE.name}")


if __name__ == "__main__":
    main()
