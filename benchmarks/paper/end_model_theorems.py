"""Theorems 3 and 5: end models on weak labels, with a wrong label model, and under drift.

Two equally frequent classes are Gaussian in five features, N(±MEAN, I). Five sources vote independently of
the features. The end model is a logistic regression, whose error rate is computed and not sampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from benchmarks.paper.artifact import BLACK, BLUE, GRAY, RED, Artifact, Outcome, Setting, number, table
from benchmarks.paper.data import Array, Codes
from benchmarks.paper.label_model_theorems import rounded, slope
from flyingsquid import theory
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.models import LabelModel
from flyingsquid.models.end_model import to_training_set
from flyingsquid.votes import Votes

ACCURACIES = np.array([0.8, 0.78, 0.75, 0.72, 0.7])
MEAN = np.array([1.0, 0.0, 0.0, 0.0, 0.0])


def gaussian_excess(model: Any, mean: Array = MEAN) -> float:
    """Return the error rate of a linear classifier above the best one, for classes N(±mean, I): exact."""
    weights, offset = model.coef_[0], float(model.intercept_[0])
    length, reach = np.linalg.norm(weights), float(weights @ mean)
    error = (ndtr(-(reach + offset) / length) + ndtr(-(reach - offset) / length)) / 2
    return float(error - ndtr(-np.linalg.norm(mean)))


def draw_items(right: Array, means: Array, rng: np.random.Generator) -> tuple[Array, Codes, Votes]:
    """Draw features (n, p), classes (n,) and votes.

    ``right`` (2, m) is P(vote is right | class); ``means`` (n, p) are the means of class 1.
    """
    n: int = len(means)
    y = rng.integers(0, 2, n).astype(np.int8)
    X = rng.normal(size=means.shape) + (2 * y[:, None] - 1) * means
    is_right = rng.random((n, right.shape[1])) < right[y]
    votes = np.where(is_right, y[:, None], 1 - y[:, None]).astype(np.int8)
    return X, y, Votes.from_classes(votes, classes=(0, 1))


def excess_by_gold(X: Array, y: Codes) -> float:
    """Return the excess error rate of an end model that is trained on gold labels."""
    return gaussian_excess(_end_model().fit(X, y))


def excess_by_votes(X: Array, votes: Votes, method: Any = "triplet") -> float:
    """Return the excess error rate of an end model that is trained on the labels of a label model."""
    try:
        model = LabelModel(method=method, class_balance="uniform").fit(votes)
        proba = model.predict_proba(votes)
    except NotIdentifiableError:  # too few votes
        proba = np.full((votes.n_items, 2), 0.5)
    rows, y, weight = to_training_set(X, proba, drop_uncovered=False).expanded()
    return gaussian_excess(_end_model().fit(rows, y, sample_weight=weight))


def _end_model() -> LogisticRegression:
    return LogisticRegression(C=1e4, max_iter=1_000)  # hardly penalized


# ---------------------------------------------------------------------- Theorem 3

ALL_ITEMS = (250, 500, 1_000, 2_000, 4_000, 8_000, 16_000)
# Sources that are better on one class: mean accuracy, and half the gap between the classes.
MIDDLE = np.full(5, 0.72)
ASYMMETRIES = (0.0, 0.05, 0.1, 0.15, 0.2, 0.25)
LARGE = 16_000
REPEATS_3 = 40


def measure_3(setting: Setting) -> Outcome:
    """Measure excess error rates by the number of items, and by how wrong the label model is."""
    repeats = 2 if setting.quick else REPEATS_3
    all_items = ALL_ITEMS[:3] if setting.quick else ALL_ITEMS
    weak, gold = np.array([_weak_and_gold(n, repeats) for n in all_items]).T
    large = 1_000 if setting.quick else LARGE
    wrong = [_misspecified(asymmetry, large, max(2, repeats // 4)) for asymmetry in ASYMMETRIES]
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


def _weak_and_gold(n: int, repeats: int) -> Array:
    """Return the mean excess error rate with weak labels and with gold labels."""
    right, means, found = np.stack([ACCURACIES, ACCURACIES]), np.tile(MEAN, (n, 1)), []
    for seed in range(repeats):
        X, y, votes = draw_items(right, means, np.random.default_rng(seed))
        found.append([excess_by_votes(X, votes), excess_by_gold(X, y)])
    return np.asarray(np.mean(found, axis=0))


def _misspecified(asymmetry: float, n: int, repeats: int) -> dict[str, float]:
    """Return the excess of a symmetric and a class-conditional model for sources better on class 1."""
    right, means, found = np.stack([MIDDLE - asymmetry, MIDDLE + asymmetry]), np.tile(MEAN, (n, 1)), []
    for seed in range(repeats):
        X, _, votes = draw_items(right, means, np.random.default_rng(seed))
        found.append([excess_by_votes(X, votes, method) for method in ("triplet", "covariance")])
    symmetric, conditional = rounded(np.mean(found, axis=0))
    kl = divergence(right, "triplet")
    return {
        "asymmetry": asymmetry,
        "divergence": float(f"{kl:.4g}") if kl > 1e-9 else 0.0,
        "symmetric": symmetric,
        "conditional": conditional,
    }


def divergence(right: Array, method: Any) -> float:
    """Return KL(P(Y | votes) ‖ label model) in nats for unlimited votes, from all rows and their weights."""
    rows = np.array(list(product((0, 1), repeat=right.shape[1])), np.int8)
    # P(votes, Y), shape (2^m, 2)
    joint = np.stack([np.where(rows == k, right[k], 1 - right[k]).prod(axis=1) / 2 for k in (0, 1)], axis=1)
    votes = Votes.from_classes(rows, classes=(0, 1))
    model = LabelModel(method=method, class_balance="uniform")
    proba = model.fit(votes, sample_weight=1e7 * joint.sum(axis=1)).predict_proba(votes)
    truth = joint / joint.sum(axis=1, keepdims=True)
    return max(0.0, float((joint * np.log(truth / proba)).sum()))


def render_3(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
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
There are two equally frequent classes with Gaussian distributions in five features, and five sources that are
correct on 70% to 80% of the items and vote independently of the features. The end model is a logistic
regression. Its error rate is computed, not sampled; the lowest possible one is
{100 * results["best_error"]:.1f}%. *Excess* is the difference from the lowest, in points, averaged over
{results["repeats"]} draws.

## Weak labels compared with gold labels

| | exponent of n |
|---|---:|
| weak labels | {results["slope_weak"]:.2f} |
| gold | {results["slope_gold"]:.2f} |

{table(["n", "excess, weak labels", "excess, gold", "ratio"], by_items)}

Weak labels cost a constant factor and do not change the rate, as the theorem states. The rate itself is
faster than the theorem's 1/√n: near the best classifier the error rate is flat, so an error of 1/√n in the
weights costs 1/n.

## A wrong label model

Sources are right on 72% of items, and better on class 1 than on class 0 by the gap. The label model assumes
symmetric sources (`triplet`) or class-conditional ones (`covariance`); both are given the class balance.
*KL* is the divergence of its labels from the true posterior with unlimited votes, *KL term* the theorem's
2 √(2 KL), in points. {results["large"]:,} items.

{table(heads, wrong)}

A gap of 0 shows the cost of sampling alone. The symmetric model loses more when its KL is larger, far less
than the theorem's term allows; the class-conditional model loses nothing. KL does not simply grow with the
gap: the tables keep the observed vote rates, which bound the effect of a wrong accuracy.
"""


def draw_3(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw the excess by items, and by the divergence."""
    left, right = figure.subplots(1, 2)
    items = np.array(results["items"], float)
    left.loglog(items, results["weak"], "o-", color=BLUE, markersize=3, label="weak labels")
    left.loglog(items, results["gold"], "o-", color=BLACK, markersize=3, label="gold")
    left.loglog(items, results["weak"][0] * items[0] / items, "--", color=GRAY, label="exponent -1")
    left.set_xlabel("items n")
    left.set_ylabel("excess error rate")
    left.legend(fontsize=8)
    rows = sorted(results["misspecified"], key=lambda row: row["divergence"])
    for key, color in (("symmetric", RED), ("conditional", BLUE)):
        values = [100 * row[key] for row in rows]
        right.plot([row["divergence"] for row in rows], values, "o-", color=color, label=key)
    right.set_xlabel("KL of the symmetric model, nats")
    right.set_ylabel("excess, points")
    right.legend(fontsize=8)


THEOREM_3 = Artifact("theorem-3", "Theorem 3: excess error of end models", (), measure_3, render_3, draw_3)

# ---------------------------------------------------------------------- Theorem 5

# Radians by which the classes turn from one item to the next.
SPEEDS = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)
SIZES = (64, 128, 256, 512, 1_024, 2_048, 4_096, 8_192)
REPEATS_5 = 30


def measure_5(setting: Setting) -> Outcome:
    """Measure the excess error rate on the next item by the number of latest items, for several speeds."""
    repeats, sizes, speeds = (2, SIZES[:3], SPEEDS[:2]) if setting.quick else (REPEATS_5, SIZES, SPEEDS)
    rows = [_speed(speed, sizes, repeats) for speed in speeds]
    drifts = [row["drift"] for row in rows]
    return Outcome(
        {
            "sizes": list(sizes),
            "speeds": rows,
            "slope_weak": round(slope(drifts, [min(row["weak"]) for row in rows]), 2),
            "slope_gold": round(slope(drifts, [min(row["gold"]) for row in rows]), 2),
            "tolerated": float(f"{theory.tolerated_drift(0.5, 0.0, len(MEAN) + 1):.2g}"),
            "repeats": repeats,
        }
    )


def _speed(speed: float, sizes: tuple[int, ...], repeats: int) -> dict[str, Any]:
    angle = -speed * np.arange(1, max(sizes) + 1)  # the latest item first
    means = np.zeros((max(sizes), len(MEAN)))
    means[:, 0], means[:, 1] = np.cos(angle), np.sin(angle)
    found = np.empty((repeats, len(sizes), 2))
    for seed in range(repeats):
        X, y, votes = draw_items(np.stack([ACCURACIES, ACCURACIES]), means, np.random.default_rng(seed))
        for at, size in enumerate(sizes):
            found[seed, at] = excess_by_votes(X[:size], votes[:size]), excess_by_gold(X[:size], y[:size])
    weak, gold = found.mean(axis=0).T
    # Total variation of two Gaussians whose means are this far apart.
    drift = 2 * ndtr(np.linalg.norm(MEAN) * speed / 2) - 1
    return {"speed": speed, "drift": float(f"{drift:.4g}"), "weak": rounded(weak), "gold": rounded(gold)}


def render_5(results: Mapping[str, Any], timings: Mapping[str, Any]) -> str:  # noqa: ARG001
    """Return the body of the page."""
    sizes, rows = results["sizes"], []
    for row in results["speeds"]:
        best = {labels: int(np.argmin(row[labels])) for labels in ("weak", "gold")}
        rows.append(
            [number(row["drift"])]
            + [f"{sizes[at]:,}" for at in best.values()]
            + [f"{100 * row[labels][at]:.3f}" for labels, at in best.items()]
            + [f"{100 * row['weak'][-1]:.3f}"]
        )
    heads = ["drift Δ", "best s, weak", "best s, gold", "excess, weak", "excess, gold"]
    return f"""\
The means of the two classes (see [Theorem 3](theorem-3.md)) rotate in a plane by a fixed angle per item. An
end model is trained on the last s items and predicts the next one. Its labels come from a label model that is
fitted to the votes on the same s items, or are gold labels. *Excess* is its error rate minus the lowest
possible one, in points, averaged over {results["repeats"]} streams, for the best s from {sizes[0]} to
{sizes[-1]:,}.

{table([*heads, f"excess, weak, s = {sizes[-1]:,}"], rows)}

| | exponent of Δ |
|---|---:|
| weak labels | {results["slope_weak"]:.2f} |
| gold | {results["slope_gold"]:.2f} |
| theorem | 0.33 |

With weak labels, end models follow the drift at nearly the same rate as with gold labels. The theorem
guarantees an excess ε for drifts up to a constant times ε³, an exponent of 1/3; here the excess falls faster,
about as Δ to the 2/3. The theorem's constant is small: even an excess of 50 points is guaranteed only up to
Δ = {number(results["tolerated"])}, far slower than any drift above.
"""


def draw_5(figure: Any, results: Mapping[str, Any]) -> None:
    """Draw the best excess by drift on logarithmic axes."""
    axis = figure.subplots()
    drifts = np.array([row["drift"] for row in results["speeds"]])
    for labels, color, name in (("weak", BLUE, "weak labels"), ("gold", BLACK, "gold")):
        best = [min(row[labels]) for row in results["speeds"]]
        axis.loglog(drifts, best, "o-", color=color, markersize=3, label=name)
    start = min(results["speeds"][0]["weak"])
    axis.loglog(drifts, start * (drifts / drifts[0]) ** (1 / 3), "--", color=GRAY, label="exponent 1/3")
    axis.set_xlabel("drift Δ")
    axis.set_ylabel("excess error rate at the best s")
    axis.legend(fontsize=8)


THEOREM_5 = Artifact("theorem-5", "Theorem 5: tracking drift", (), measure_5, render_5, draw_5, (5.5, 3.2))
