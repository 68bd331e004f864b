"""Votes and features together: ``fit(votes, features=X)`` on real votes with embeddings or table features.

    python -m benchmarks.quality.features                      # print the tables
    python -m benchmarks.quality.features --draws 1            # faster
    python -m benchmarks.quality.features --save               # also write docs/quality/features.md

All items with features are one pool. It is fitted and scored without gold labels, and with 100 gold labels
that are drawn at random, in which case the other items are scored. End models are cross-fitted: each item is
predicted by a model that was trained on other items. Snorkel runs in the environment of ``make peers``.
Datasets are those of the design half with features (docs/quality/halves.md), from FLYINGSQUID_DATA.
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

from benchmarks.harness import half_parser, save_half
from benchmarks.quality import peers
from benchmarks.quality.data_directory import data_directory
from benchmarks.quality.halves import DESIGN, FROZEN
from benchmarks.quality.regret import read_parts
from benchmarks.quality.scores import add_one_shares, score_known

ROOT = Path(__file__).parents[2]
NAMES = {"design": "features", "frozen": "features_frozen"}
PAGE = ROOT / "docs" / "quality" / "features.md"
DRAWS, N_GOLD, _FOLDS = 3, 100, 5
METHODS = ("votes", "features", "both", "majority vote + end model", "Snorkel + end model")
OURS = METHODS[:3]
Array = NDArray[np.float64]
Codes = NDArray[np.int8]


@dataclass(frozen=True)
class Pool:
    """Votes, true classes (-1 if unknown) and features of the same items."""

    name: str
    n_classes: int
    votes: Codes
    y: NDArray[Any]
    features: NDArray[np.float32]


def has_features(name: str) -> bool:
    """Return whether a dataset has features."""
    return _feature_file(name) is not None


def _feature_file(name: str) -> Path | None:
    paths = [data_directory() / name / f"{kind}.npz" for kind in ("embeddings", "features")]
    return next((path for path in paths if path.is_file()), None)


def load(name: str) -> Pool:
    """Read all items of a dataset that have features."""
    parts, n_classes = read_parts(name)
    path = _feature_file(name)
    if path is None:
        raise SystemExit(f"The dataset {name} has no features.")
    with np.load(path, allow_pickle=False) as data:
        splits = [(key[1:], data[key].astype(np.float32)) for key in data.files]
    votes, y = (np.concatenate([parts[f"{kind}{split}"] for split, _ in splits]) for kind in "LY")
    return Pool(name, n_classes, votes, y, np.concatenate([rows for _, rows in splits]))


# ---------------------------------------------------------------------- methods


def label(pool: Pool, gold: NDArray[Any] | None = None) -> dict[str, Array]:
    """Return posteriors of all items by every method; ``gold`` holds codes of gold labels, -1 if unknown."""
    import flyingsquid as fs

    votes = fs.Votes.from_classes(pool.votes, classes=tuple(range(pool.n_classes)))
    model = fs.LabelModel().fit(votes, gold=gold, features=pool.features)
    by_votes = model.predict_proba(votes)
    covered = np.asarray((pool.votes >= 0).any(axis=1))
    found = {
        "votes": by_votes,
        "features": end_model(pool, by_votes, covered, gold),
        "both": model.predict_proba(votes, features=pool.features),
    }
    shares = add_one_shares(pool.votes, pool.n_classes)
    found["majority vote + end model"] = end_model(pool, shares, covered, gold)
    snorkel = _snorkel(pool)
    if snorkel is not None:
        found["Snorkel + end model"] = end_model(pool, snorkel, covered, gold)
    return found


def end_model(pool: Pool, labels: Array, covered: NDArray[np.bool_], gold: NDArray[Any] | None) -> Array:
    """Return posteriors of a logistic regression on features, trained on the labels of items with votes.

    Labels are the most probable classes; tied ones are left out, and gold labels replace them.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    top = np.sort(labels, axis=1)
    target, usable = labels.argmax(axis=1), covered & (top[:, -1] - top[:, -2] > 1e-9)
    if gold is not None:
        target, usable = np.where(gold >= 0, gold, target), usable | (gold >= 0)
    X = StandardScaler().fit_transform(pool.features)
    fold = np.random.default_rng(0).permutation(len(X)) % _FOLDS
    found = np.full((len(X), pool.n_classes), 1e-4)
    for number in range(_FOLDS):
        train, test = usable & (fold != number), fold == number
        if len(np.unique(target[train])) < 2:
            found[test] += np.bincount(target[train], minlength=pool.n_classes) > 0
            continue
        # Strong enough for 384 columns; the same for all methods.
        fitted = LogisticRegression(C=0.01, max_iter=200).fit(X[train], target[train])
        found[np.ix_(test, fitted.classes_)] += fitted.predict_proba(X[test])
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _snorkel(pool: Pool) -> Array | None:
    question = peers.Question(
        pool.name, pool.votes, np.empty((0, pool.votes.shape[1]), np.int8), pool.n_classes
    )
    python = peers.interpreter()
    found = peers.answer("snorkel", [question], ask=python is not None, python=python)[question.key]
    return found.posterior


# ---------------------------------------------------------------------- tables


def measure(names: Sequence[str], draws: int) -> dict[str, Any]:
    """Return mean scores (accuracy, F1, log loss) by number of gold labels, dataset and method."""
    found: dict[str, dict[str, dict[str, Any]]] = {"0": {}, str(N_GOLD): {}}
    for name in names:
        start, pool = time.perf_counter(), load(name)
        found["0"][name] = {method: list(score_known(p, pool.y)[:3]) for method, p in label(pool).items()}
        rows: dict[str, list[tuple[float, ...]]] = {}
        known = np.flatnonzero(pool.y >= 0)
        for seed in range(draws):
            at = np.random.default_rng([seed, N_GOLD]).choice(known, N_GOLD, replace=False)
            gold, y = np.full(len(pool.y), -1), pool.y.copy()
            gold[at], y[at] = pool.y[at], -1
            for method, p in label(pool, gold).items():
                rows.setdefault(method, []).append(score_known(p, y)[:3])
        found[str(N_GOLD)][name] = {method: np.mean(each, axis=0).tolist() for method, each in rows.items()}
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return {"draws": draws, "scores": found}


HEADER = f"""# Votes and features together

This page measures `LabelModel().fit(votes, features=X)` ([guide](../guides/features.md),
[design](../design/0017-features.md)). Items are those with features: MiniLM embeddings of the text, or
the table features of `census`. They are fitted and scored as one pool, without gold labels and with
{N_GOLD} random gold labels (the others are scored). Ties share the credit, so an item without votes counts
1/K for votes only. F1 is that of the second class, or the mean over the classes if there are more than
two.

Written by `python -m benchmarks.quality.features --save` ([script](../../benchmarks/quality/features.py),
[results](../../benchmarks/results/features.json)).

- votes: `predict_proba(votes)`;
- features: an end model, logistic regression on features, trained on the labels of "votes" and cross-fitted;
- both: `predict_proba(votes, features=X)`;
- peer: the better of majority vote and Snorkel on each dataset, with the same end model. Gold labels
  replace the labels of their items in the training of end models.

"""


def peer(row: Mapping[str, Sequence[float]]) -> Sequence[float]:
    """Return the scores of the peer pipeline with the higher accuracy."""
    return max((row[method] for method in METHODS[3:] if method in row), key=lambda each: each[0])


def table(datasets: Mapping[str, Mapping[str, Sequence[float]]]) -> list[str]:
    """Return a table with one row per dataset, then sentences about the gains."""
    lines = ["| dataset | " + " | ".join((*OURS, "peer")) + " |", "| --- |" + " ---: |" * 4]
    for name, row in datasets.items():
        cells = [
            f"{100 * each[0]:.1f} / {100 * each[1]:.1f} / {each[2]:.3f}"
            for each in (*(row[method] for method in OURS), peer(row))
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    over_votes = {name: 100 * (row["both"][0] - row["votes"][0]) for name, row in datasets.items()}
    over_peer = {name: 100 * (row["both"][0] - peer(row)[0]) for name, row in datasets.items()}
    gains, above = list(over_votes.values()), list(over_peer.values())
    lost = [f"{name} ({-gain:.1f})" for name, gain in over_votes.items() if gain < -0.5]
    return [
        *lines,
        "",
        f"Gain of both over votes: mean {np.mean(gains):+.1f}, median {np.median(gains):+.1f}, smallest "
        f"{min(gains):+.1f} points of accuracy. Over the peer: mean {np.mean(above):+.1f}, median "
        f"{np.median(above):+.1f} points.",
        f"Datasets more than half a point below votes: {', '.join(lost) or 'none'}.",
        "",
    ]


def render(results: Mapping[str, Any]) -> str:
    """Return the tables: the design half, and the frozen half if it was opened."""
    lines = []
    for half, measured in results.items():
        for size, datasets in measured["scores"].items():
            what = "no gold labels" if size == "0" else f"{size} gold labels"
            draws = "" if size == "0" else f" Means of {measured['draws']} draws."
            lines += [f"## {half.capitalize()} half, {what}", "", f"Accuracy, F1 and log loss.{draws}", ""]
            lines += table(datasets)
    return "\n".join(lines)


def main() -> None:
    parser = half_parser(__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="draws of gold labels")
    options = parser.parse_args()
    if options.save:
        peers.needed_interpreter()  # the peer on the page is the better of two
    warnings.simplefilter("ignore")
    half = "frozen" if options.frozen else "design"
    names = [each.name for each in (FROZEN if options.frozen else DESIGN) if has_features(each.name)]
    results = measure(names, options.draws)
    print(render({half: results}))
    if options.save:
        save_half(NAMES, half, results, PAGE, lambda halves: HEADER + render(halves))


if __name__ == "__main__":
    main()
