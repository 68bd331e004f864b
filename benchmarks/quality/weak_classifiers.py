"""Panels of weak classifiers on real features: sources that share errors, because items differ in difficulty.

Each source is a small tree, five nearest neighbors or a logistic regression, trained on a few labels and on a
few random features. It votes on all items, abstains on those it is least sure about, or votes for one class
only. So accuracies, abstentions and dependence come from data, not from a simulated model. No source is
trained on the votes that are scored, except for its few training items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import scale
from sklearn.tree import DecisionTreeClassifier

from benchmarks.quality.regret import Case

_SIZES, _SOURCES = (300, 800, 2_000), (4, 6, 10, 20, 40)
_KINDS, _STYLES = ("tree", "neighbors", "regression"), ("all items", "sure", "one class", "mixed")
Table = tuple[NDArray[np.float64], NDArray[np.intp], int]


def bundled() -> dict[str, Table]:
    """Return features, classes and the number of features of a source, of datasets in scikit-learn."""
    x, y = load_digits(return_X_y=True)
    found = {
        "biopsies": load_breast_cancer(return_X_y=True),
        "wine": load_wine(return_X_y=True),
        "digits": (x, y),
        "odd digits": (x, y % 2),
        "digits below 3": (x, (y < 3).astype(int)),
        "zeros": (x, (y == 0).astype(int)),
        "three digits": (x[y < 3], y[y < 3]),
        "five digits": (x[y < 5], y[y < 5]),
    }
    return {name: (scale(features), classes, 4) for name, (features, classes) in found.items()}


def embedded(names: tuple[str, ...]) -> dict[str, Table]:
    """Return the same for datasets with features, from FLYINGSQUID_DATA."""
    from benchmarks.quality.features import load

    found = {}
    for name in names:
        pool = load(name)
        known = pool.y >= 0
        features = scale(np.nan_to_num(pool.features[known].astype(np.float64)))
        found[name] = (features, pool.y[known].astype(np.intp), 30)
    return found


def draw_panels(tables: dict[str, Table], seed: int, count: int) -> Iterator[Case]:
    """Draw panels of three sources or more, one table after the other."""
    rng, names, drawn = np.random.default_rng(seed), list(tables), 0
    while drawn < count:
        name = names[drawn % len(names)]
        x, y, width = tables[name]
        n = min(len(y), int(rng.choice(_SIZES)))
        at = rng.choice(len(y), n, replace=False)
        classes, truth = np.unique(y[at], return_inverse=True)
        kind, style, m = str(rng.choice(_KINDS)), str(rng.choice(_STYLES)), int(rng.choice(_SOURCES))
        votes = _votes(x[at], truth, kind, style, m, width, rng)
        if len(classes) > 1 and votes.shape[1] > 2:
            drawn += 1
            title = f"{name}, {kind}, {style}, n={n:,} m={votes.shape[1]}"
            yield Case(title, len(classes), votes, votes, truth)


def _votes(
    x: NDArray[np.float64],
    y: NDArray[Any],
    kind: str,
    style: str,
    m: int,
    width: int,
    rng: np.random.Generator,
) -> NDArray[np.int8]:
    """Return votes of sources, without those that never vote; -1 is a missing vote."""
    votes = np.full((len(y), m), -1, np.int8)
    for j in range(m):
        features = rng.choice(x.shape[1], int(rng.integers(1, width)), replace=False)
        n_labels = min(len(y) // 2, int(rng.integers(10, 40)) * int(y.max()))
        items = rng.choice(len(y), n_labels, replace=False)
        if len(np.unique(y[items])) < 2:
            continue
        source = _classifier(kind, rng).fit(x[np.ix_(items, features)], y[items])
        p = source.predict_proba(x[:, features])
        vote = source.classes_[p.argmax(axis=1)]
        how = str(rng.choice(_STYLES[:3])) if style == "mixed" else style
        if how == "sure":
            vote = np.where(p.max(axis=1) >= np.quantile(p.max(axis=1), rng.uniform(0.2, 0.7)), vote, -1)
        elif how == "one class":
            vote = np.where(vote == rng.choice(source.classes_), vote, -1)
        votes[:, j] = vote
    return votes[:, (votes >= 0).any(axis=0)]


def _classifier(kind: str, rng: np.random.Generator) -> Any:
    if kind == "tree":
        return DecisionTreeClassifier(max_depth=int(rng.integers(1, 3)), random_state=0)
    return KNeighborsClassifier(5) if kind == "neighbors" else LogisticRegression(max_iter=200)
