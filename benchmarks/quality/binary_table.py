"""Claim: on real binary votes every method answers or says why not, and the table says who wins.

Run ``python -m benchmarks.quality.binary_table``; ``--save`` writes the results file and the page. Reads the
folder named by FLYINGSQUID_DATA. Fits see no gold. Only the design half is computed; ``--frozen`` computes
the other half instead, once, when there is nothing left to choose (docs/quality/halves.md).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import save
from benchmarks.quality.binary_page import render, write
from benchmarks.quality.folder import data_folder, find
from benchmarks.quality.halves import DESIGN, FROZEN, KINDS, RealSet
from benchmarks.quality.scores import add_one_shares, credit, f1, log_loss

# "independencies" is left out: it needs a class balance, and nothing here is given one.
METHODS = ("triplet_mean", "triplet_median", "triplet", "covariance", "quadratic")
CIRCULAR = ("weather",)  # its gold is made of these votes
METRICS = ("accuracy", "f1", "log_loss")
DIGITS = 6  # enough to compare, few enough not to differ between machines


class Pool(NamedTuple):
    """Votes to fit on, and votes to score with their gold. Both may be the same."""

    fit: NDArray[np.int8]
    score: NDArray[np.int8]
    y: NDArray[np.int8]
    is_one: bool


def load(folder: Path, real: RealSet) -> Pool:
    """The train split and the test split, or the one pool twice; items without gold are not scored."""
    path = find(folder, real.name)
    with np.load(path) as data:
        splits = {s: data[f"L{s}"] for s in ("_train", "", "_test") if f"L{s}" in data}
        scored = "_test" if "_test" in splits else ""
        fit, score, y = next(iter(splits.values())), splits[scored], data[f"Y{scored}"]
    if real.kind == "sequences":
        # Outside a span these rules say "no entity", which the data set leaves blank.
        fit, score = np.maximum(fit, 0), np.maximum(score, 0)
    return Pool(fit, score[y >= 0], y[y >= 0], is_one=len(splits) == 1)


def label(method: str, pool: Pool) -> tuple[NDArray[np.float64], float]:
    """P(class 1) of the scored items and the class balance behind it, P(class 1)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        model = fs.LabelModel(method=method).fit(fs.Votes.from_classes(pool.fit, classes=[0, 1]))  # type: ignore[arg-type]
    posterior = model.predict_proba(fs.Votes.from_classes(pool.score, classes=[0, 1]))[:, 1]
    if not np.isfinite(posterior).all():
        raise FloatingPointError(f"{method} gave a posterior that is not a number")
    return posterior, float(model.class_balance_[1])


def scores_of(p: NDArray[np.float64], y: NDArray[np.int8]) -> dict[str, float]:
    values = {"accuracy": credit(p, y).mean(), "f1": f1(p, y), "log_loss": log_loss(p, y)}
    return {name: round(float(value), DIGITS) for name, value in values.items()}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, round(time.perf_counter() - start, 4)


def measure_method(method: str, pool: Pool, majority: NDArray[np.float64]) -> dict[str, Any]:
    """Scores of one method, or the reason why it refused."""
    try:
        (p, balance), seconds = timed(lambda: label(method, pool))
    except fs.exceptions.NotIdentifiableError as error:
        return {"refused": str(error)}
    # Both answer the same items, so the spread is of the difference and not of two scores.
    ahead = credit(p, pool.y) - credit(majority, pool.y)
    return {
        **scores_of(p, pool.y),
        "ahead": round(float(ahead.mean()), DIGITS),
        "ahead_error": round(float(ahead.std() / np.sqrt(len(ahead))), DIGITS),
        "class_balance": round(balance, DIGITS),
        "seconds": seconds,
    }


def measure(real: RealSet, pool: Pool) -> dict[str, Any]:
    """Majority vote and every method on one set."""
    majority, seconds = timed(lambda: add_one_shares(pool.score))
    methods = {method: measure_method(method, pool, majority) for method in METHODS}
    return {
        "name": real.name,
        "kind": real.kind,
        "items_fitted": len(pool.fit),
        "items_scored": len(pool.y),
        "one_pool": pool.is_one,
        "sources": pool.fit.shape[1],
        "class_1": round(float((pool.y == 1).mean()), DIGITS),
        "in_means": real.name not in CIRCULAR,
        "methods": {"majority": {**scores_of(majority, pool.y), "seconds": seconds}, **methods},
    }


def means_of(sets: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Mean of every metric over sets, each counting once; a refusal counts as the majority vote."""
    result = {}
    for method in ("majority", *METHODS):
        cells = [s["methods"]["majority" if "refused" in s["methods"][method] else method] for s in sets]
        result[method] = {m: round(float(np.mean([c[m] for c in cells])), DIGITS) for m in METRICS}
    return result


def summarise(half: str, sets: list[dict[str, Any]]) -> dict[str, Any]:
    """The sets with their means by kind and over all."""
    counted = [s for s in sets if s["in_means"]]
    by_kind = {kind: [s for s in counted if s["kind"] == kind] for kind in KINDS}
    means = {kind: means_of(group) for kind, group in by_kind.items() if group}
    return {"half": half, "sets": sets, "means": {**means, "all": means_of(counted)}}


def run(folder: Path, *, frozen: bool = False) -> dict[str, Any]:
    """The table of one half."""
    label("covariance", _warm_up())
    half = [real for real in (FROZEN if frozen else DESIGN) if real.n_classes == 2]
    sets = [measure(real, load(folder, real)) for real in half]
    return summarise("frozen" if frozen else "design", sets)


def _warm_up() -> Pool:
    """Votes for a first fit, so that no set pays for imports."""
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7, 0.7], rng=np.random.default_rng(0))
    votes = np.asarray(sample.votes.codes)
    return Pool(votes, votes, np.asarray(sample.y, np.int8), is_one=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Majority vote and every method on the real binary sets.")
    parser.add_argument("--save", action="store_true", help="write the results file and the page")
    parser.add_argument(
        "--frozen",
        action="store_true",
        help="the frozen half instead; only when nothing is left to choose, see docs/quality/halves.md",
    )
    arguments = parser.parse_args()
    folder = data_folder()
    results = run(folder, frozen=arguments.frozen)
    print(render(results))
    if arguments.save:
        name = "binary_table_frozen" if arguments.frozen else "binary_table"
        print(f"saved to {save(name, results).name} and {write(results).name}")


if __name__ == "__main__":
    main()
