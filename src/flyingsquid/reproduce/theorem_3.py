"""Theorem 3: end models on weak labels improve at the rate of those on gold, unless the model is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from flyingsquid.models import LabelModel
from flyingsquid.reproduce.artifact import Artifact, Outcome, Setting
from flyingsquid.reproduce.markdown import number, table
from flyingsquid.reproduce.picture import BLACK, BLUE, GREY, RED
from flyingsquid.reproduce.rates import (
    end_model,
    gaussian_excess,
    labels_by_triplets,
    on_labels,
    rounded,
    slope,
)
from flyingsquid.votes import Votes

Array = NDArray[np.float64]
ACCURACIES = np.array([0.8, 0.78, 0.75, 0.72, 0.7])
MEAN = np.array([1.0, 0.0, 0.0, 0.0, 0.0])
ALL_ITEMS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
# Of sources that are better on one class: mean accuracy, and half the gap between the classes.
MIDDLE = np.full(5, 0.72)
ASYMMETRIES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
LARGE = 16_000
REPEATS = 40


def measure(setting: Setting) -> Outcome:
    """Excess error rates by n, and by how wrong the label model is."""
    repeats = 2 if setting.quick else REPEATS
    all_items = ALL_ITEMS[:3] if setting.quick else ALL_ITEMS
    weak, gold = np.array([_excess_of(n, repeats) for n in all_items]).T
    large = 1_000 if setting.quick else LARGE
    wrong = [_misspecified(each, large, max(2, repeats // 4)) for each in ASYMMETRIES]
    return Outcome(
        {
            "best_error": round(float(ndtr(-np.linalg.norm(MEAN))), 4),
            "items": list(all_items),
            "weak": rounded(weak),
            "gold": rounded(gold),
            "slope_weak": round(slope(all_items, weak), 2),
            "slope_gold": round(slope(all_items, gold), 2),
            "large": large,
            "misspecified": wrong,
            "repeats": repeats,
        }
    )


def draw_items(n: int, right: Array, rng: np.random.Generator) -> tuple[Array, NDArray[np.int8], Votes]:
    """Features (n, 5), classes (n,) and votes; ``right`` (2, m) is P(vote is right | class)."""
    y = rng.integers(0, 2, n).astype(np.int8)
    X = rng.normal(size=(n, len(MEAN))) + (2 * y[:, None] - 1) * MEAN
    is_right = rng.random((n, right.shape[1])) < right[y]
    votes = np.where(is_right, y[:, None], 1 - y[:, None]).astype(np.int8)
    return X, y, Votes.from_classes(votes, classes=(0, 1))


def _excess_of(n: int, repeats: int) -> tuple[float, float]:
    """Mean excess error rate by weak labels and by gold."""
    found = []
    for seed in range(repeats):
        X, y, votes = draw_items(n, np.stack([ACCURACIES, ACCURACIES]), np.random.default_rng(seed))
        models = on_labels(X, labels_by_triplets(votes)), end_model().fit(X, y)
        found.append([gaussian_excess(model, MEAN) for model in models])
    weak, gold = np.mean(found, axis=0)
    return float(weak), float(gold)


def divergence(right: Array, method: Any) -> float:
    """KL(P(Y | votes) ‖ label model) in nats, for unlimited votes: all rows are listed with their weights."""
    rows = np.array(list(product((0, 1), repeat=right.shape[1])), np.int8)
    # P(votes, Y), shape (2^m, 2)
    joint = np.stack([np.where(rows == k, right[k], 1 - right[k]).prod(axis=1) / 2 for k in (0, 1)], axis=1)
    votes = Votes.from_classes(rows, classes=(0, 1))
    model = LabelModel(method=method, class_balance="uniform")
    answers = model.fit(votes, sample_weight=1e7 * joint.sum(axis=1)).predict_proba(votes)
    truth = joint / joint.sum(axis=1, keepdims=True)
    return max(0.0, float((joint * np.log(truth / answers)).sum()))


def _misspecified(asymmetry: float, n: int, repeats: int) -> dict[str, float]:
    """Excess of a symmetric and of a class-conditional model of sources that are better on class 1."""
    right = np.stack([MIDDLE - asymmetry, MIDDLE + asymmetry])
    methods = ("triplet", "covariance")
    found = []
    for seed in range(repeats):
        X, _, votes = draw_items(n, right, np.random.default_rng(seed))
        models = [on_labels(X, labels_by_triplets(votes, method)) for method in methods]
        found.append([gaussian_excess(model, MEAN) for model in models])
    symmetric, conditional = rounded(np.mean(found, axis=0))
    kl = divergence(right, "triplet")
    return {
        "asymmetry": asymmetry,
        "divergence": float(f"{kl:.4g}") if kl > 1e-9 else 0.0,
        "symmetric": symmetric,
        "conditional": conditional,
    }


def render(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """The body of the page."""
    by_items = [
        [f"{n:,}", f"{100 * weak:.3f}", f"{100 * gold:.3f}", f"{weak / gold:.1f}"]
        for n, weak, gold in zip(results["items"], results["weak"], results["gold"], strict=True)
    ]
    wrong = [
        [
            f"{2 * row['asymmetry']:.1f}",
            number(row["divergence"]),
            number(100 * 2 * (2 * row["divergence"]) ** 0.5),
            f"{100 * row['symmetric']:.3f}",
            f"{100 * row['conditional']:.3f}",
        ]
        for row in results["misspecified"]
    ]
    heads = ["gap", "KL, nats", "KL term", "excess, symmetric model", "excess, class-conditional model"]
    return f"""\
Two classes, equally frequent, Gaussian in five features; five sources, right on 70% to 80% of items, that
see none of the features; a logistic regression. Its error rate is computed, not sampled; the best
possible is {100 * results["best_error"]:.1f}%. *Excess* is what lies above that, in points, mean of
{results["repeats"]} draws.

## Weak labels beside gold

| | exponent of n |
|---|---:|
| weak labels | {results["slope_weak"]:.2f} |
| gold | {results["slope_gold"]:.2f} |

{table(["n", "excess, weak labels", "excess, gold", "ratio"], by_items)}

Weak labels cost a constant factor and not the rate, which is what the theorem is about. The rate itself
is faster than its 1/√n: near the best classifier the error rate is flat, so an error of 1/√n in the
weights costs 1/n.

## A label model that is wrong

Sources are right on 72% of items, and better on class 1 than on class 0 by the gap; the label model takes
them to be symmetric (`triplet`), or not (`covariance`), both told the balance. *KL* is the
divergence of its labels from the true ones with unlimited votes, *KL term* the theorem's 2 √(2 KL), in
points. {results["large"]:,} items.

{table(heads, wrong)}

A gap of 0 shows what sampling alone costs. The symmetric model loses more where its KL is larger, far less
than the theorem's term allows; the class-conditional model loses nothing. KL does not simply grow with the
gap: tables keep the observed vote rates, and these bound how far a wrong accuracy can carry.
"""


def draw(figure: Any, results: Mapping[str, Any]) -> None:
    """Excess by items, and by the gap."""
    left, right = figure.subplots(1, 2)
    items = np.array(results["items"], float)
    left.loglog(items, results["weak"], "o-", color=BLUE, markersize=3, label="weak labels")
    left.loglog(items, results["gold"], "o-", color=BLACK, markersize=3, label="gold")
    left.loglog(items, results["weak"][0] * items[0] / items, "--", color=GREY, label="exponent -1")
    left.set_xlabel("items n")
    left.set_ylabel("excess error rate")
    left.legend(fontsize=8)
    rows = sorted(results["misspecified"], key=lambda row: row["divergence"])
    for key, colour in (("symmetric", RED), ("conditional", BLUE)):
        values = [100 * row[key] for row in rows]
        right.plot([row["divergence"] for row in rows], values, "o-", color=colour, label=key)
    right.set_xlabel("KL of the symmetric model, nats")
    right.set_ylabel("excess, points")
    right.legend(fontsize=8)


ARTIFACT = Artifact("theorem-3", "Theorem 3: what end models lose", (), measure, render, draw)
