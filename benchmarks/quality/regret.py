"""Regret of the default: how far it is behind the best method of a fixed list, on simulated and real votes.

    python -m benchmarks.quality.regret                      # print the tables
    python -m benchmarks.quality.regret --save               # also write results and docs/quality/regret.md
    python -m benchmarks.quality.regret --record-baseline 7b99f81

The fixed list was recorded once, at the commit before the default became a mixture: majority vote, the former
default, its two weighted methods, two closed forms, and a closed form on a learned graph.
``--record-baseline`` computes it again in a worktree of that commit. Simulations need NumPy only, so both
versions see the same votes. Real datasets are those of the design half (docs/quality/halves.md), from the
directory FLYINGSQUID_DATA.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"
BASELINE, RESULT = RESULTS / "regret_baseline.json", RESULTS / "regret.json"
PAGE = ROOT / "docs" / "quality" / "regret.md"
Array = NDArray[np.float64]
Codes = NDArray[np.int8]
BEFORE = {  # methods as the recorded commit names them
    "former default": {"method": "auto"},
    "consensus": {"method": "consensus"},
    "anchored": {"method": "anchored"},
    "covariance": {"method": "covariance"},
    "triplet_mean": {"method": "triplet_mean"},
    "learned graph": {"method": "covariance", "graph": "learn"},
}
# For more sources a graph is not learned, because it takes minutes.
_MOST_LEARNED = 60
_DESIGN = (
    "breast_cancer", "census", "imdb", "spouse", "youtube", "crowd_adult", "crowd_cf", "crowd_labelme",
    "crowd_rte", "crowd_trec", "weather", "llm_civilcomments", "prompted_youtube", "basketball", "tennis",
)  # fmt: skip
_WITH_FEATURES = ("census", "imdb", "llm_civilcomments", "spouse", "weather", "youtube")


@dataclass(frozen=True)
class Case:
    """Votes to fit, votes to label, and their true classes, -1 if unknown.

    ``bayes`` holds the posteriors of the true model and ``accuracies`` those of its sources, if they are
    known.
    """

    name: str
    n_classes: int
    fit: Codes
    votes: Codes
    y: NDArray[Any]
    bayes: Array | None = None
    accuracies: Array | None = None


# ---------------------------------------------------------------------- simulations


def _draw(n: int, rare: float, right: Array, coverage: Array, rng: np.random.Generator) -> Case:
    """Draw independent binary votes; ``right`` and ``coverage`` have shape (m, 2), one column per class."""
    y = (rng.random(n) < rare).astype(int)
    shape = (n, len(right))
    votes = np.where(rng.random(shape) < right[:, y].T, y[:, None], 1 - y[:, None])
    votes[rng.random(shape) >= coverage[:, y].T] = -1
    silent = np.diff(np.log1p(-np.minimum(coverage, 1 - 1e-12)), axis=1)[:, 0]
    odds = np.log(rare / (1 - rare)) + (votes < 0) @ silent
    odds += (votes == 1) @ (np.log(right[:, 1] * coverage[:, 1]) - np.log((1 - right[:, 0]) * coverage[:, 0]))
    odds += (votes == 0) @ (np.log((1 - right[:, 1]) * coverage[:, 1]) - np.log(right[:, 0] * coverage[:, 0]))
    p = 1 / (1 + np.exp(-odds))
    codes = votes.astype(np.int8)
    voting = coverage * [1 - rare, rare]
    accuracies = (voting * right).sum(axis=1) / voting.sum(axis=1)
    return Case("", 2, codes, codes, y, np.stack([1 - p, p], axis=1), accuracies)


def clean(seed: int, count: int) -> Iterator[Case]:
    """Independent sources; in half of the configurations abstention depends on the class."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n = (200, 500, 1_000, 3_000, 10_000, 30_000, 100_000)[number % 7]
        rare, m = float(rng.choice([0.1, 0.2, 0.3, 0.5])), int(rng.choice([3, 4, 6, 10, 20, 50]))
        m = min(m, 20) if n == 100_000 else m
        skill = rng.uniform(0.55, 0.95, m) if rng.random() < 0.8 else np.full(m, rng.uniform(0.6, 0.85))
        right = np.stack([skill, skill], axis=1)
        if rng.random() < 0.4:
            right = np.clip(right + rng.uniform(-0.15, 0.15, (m, 2)), 0.4, 0.97)
        level = float(rng.choice([1.0, 0.7, 0.3, 0.1, 0.05, 0.0]))
        covered = np.full(m, level) if level else rng.uniform(0.05, 1, m)
        coverage = np.stack([covered, covered], axis=1)
        if number % 2:
            coverage = np.clip(coverage * rng.uniform(0.6, 1.4, (m, 2)), 0.02, 1)
        case = _draw(n, rare, right, coverage, rng)
        yield _named(case, f"n={n:,} m={m} P(Y=1)={rare} coverage={level or 'mixed'}")


def copies(seed: int, count: int) -> Iterator[Case]:
    """Groups of sources that repeat each other's votes or abstentions."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, honest = int(rng.choice([1_000, 3_000, 10_000])), int(rng.integers(5, 11))
        sizes = [int(rng.integers(2, 6))] + ([int(rng.integers(2, 4))] if rng.random() < 0.3 else [])
        m = sum(sizes) + honest
        coverage, rate = float(rng.choice([1.0, 0.7, 0.4])), float(rng.uniform(0.3, 0.9))
        skill = rng.uniform(0.6, 0.85, m)
        y = (rng.random(n) < rng.choice([0.5, 0.3])).astype(int)
        votes = np.where(rng.random((n, m)) < skill, y[:, None], 1 - y[:, None])
        votes[rng.random((n, m)) >= coverage] = -1
        start = 0
        for size in sizes:
            for j in range(start + 1, start + size):
                copied = rng.random(n) < rate
                votes[copied, j] = votes[copied, rng.integers(start, j, n)[copied]]
            start += size
        codes = votes.astype(np.int8)
        name = f"n={n:,} groups={sizes} of {m}, rate {rate:.2f}, coverage={coverage}"
        yield Case(name, 2, codes, codes, y)


def difficulty(seed: int, count: int) -> Iterator[Case]:
    """Hard items on which all sources err more often; on some of them most are wrong."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        n, m = (300, 1_000, 3_000, 10_000)[number % 4], int(rng.choice([5, 8, 15, 25]))
        y = (rng.random(n) < rng.choice([0.5, 0.3, 0.15])).astype(int)
        skill, is_hard = rng.uniform(0.65, 0.9, m), rng.random((n, 1)) < 0.3
        p = np.where(is_hard, 0.5 + (skill - 0.5) * 0.1, skill)
        p = np.where(is_hard & (rng.random((n, 1)) < 0.3), 0.25, p)
        votes = np.where(rng.random((n, m)) < p, y[:, None], 1 - y[:, None])
        votes[rng.random((n, m)) >= rng.choice([1.0, 0.6])] = -1
        yield Case(f"n={n:,} m={m}", 2, votes.astype(np.int8), votes.astype(np.int8), y)


def many_classes(seed: int, count: int) -> Iterator[Case]:
    """Three or five classes with confusions of each source; a quarter with partial copies."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        k, n = (3, 5)[number % 2], (300, 1_000, 3_000, 10_000)[number % 4]
        m, coverage = int(rng.choice([4, 8, 15, 30])), float(rng.choice([1.0, 0.6, 0.3]))
        y = rng.choice(k, n, p=rng.dirichlet(np.full(k, rng.choice([2.0, 20.0]))))
        right = np.clip(rng.uniform(0.4, 0.9, (m, 1)) + rng.uniform(-0.1, 0.1, (m, k)), 0.2, 0.95)
        wrong = rng.dirichlet(np.full(k, 3.0), (m, k)) * (1 - np.eye(k))
        tables = wrong / wrong.sum(axis=2, keepdims=True) * (1 - right)[:, :, None]
        tables += right[:, :, None] * np.eye(k)
        votes = (rng.random((n, m, 1)) > tables.cumsum(axis=2)[:, y].transpose(1, 0, 2)).sum(axis=2)
        votes = votes.clip(0, k - 1)
        votes[rng.random((n, m)) >= coverage] = -1
        if number % 4 == 3:
            for j in (1, 2):
                copied = rng.random(n) < 0.7
                votes[copied, j] = votes[copied, 0]
        codes = votes.astype(np.int8)
        yield Case(f"K={k} n={n:,} m={m} coverage={coverage}", k, codes, codes, y)


# ---------------------------------------------------------------------- real datasets


def read_parts(name: str) -> tuple[dict[str, NDArray[Any]], int]:
    """Return votes L and gold labels Y of every split of a dataset, and its number of classes."""
    directory = Path(os.environ["FLYINGSQUID_DATA"]) / name
    with np.load(directory / f"{name}.npz", allow_pickle=False) as data:
        parts = {key: data[key] for key in data.files if key.startswith(("L", "Y"))}
    return parts, int(json.loads((directory / "meta.json").read_text("utf-8"))["K"])


def _load(name: str) -> Case:
    parts, n_classes = read_parts(name)
    if "L" in parts:
        return Case(name, n_classes, parts["L"], parts["L"], parts["Y"])
    scored = "_test" if "L_test" in parts else "_valid"
    votes = parts[f"L{scored}"]
    return Case(name, n_classes, parts.get("L_train", votes), votes, parts[f"Y{scored}"])


def real(_seed: int, _count: int) -> Iterator[Case]:
    """Yield the design half: fitted on train, scored on test."""
    for name in _DESIGN:
        yield _load(name)


def derived(seed: int, _count: int) -> Iterator[Case]:
    """Yield the design half cut to few items, few sources, or another class balance."""
    rng = np.random.default_rng(seed)
    for name in _DESIGN:
        whole = _load(name)
        votes, y = whole.votes[whole.y >= 0], whole.y[whole.y >= 0]
        for n in (150, 500, 2_000):
            if len(y) > n:
                at = rng.choice(len(y), n, replace=False)
                yield _cut(f"{name}, {n:,} items", whole, votes[at], y[at])
        share = (votes >= 0).mean(axis=0)
        for m in (4, 6):
            if votes.shape[1] > m:
                size, p = min(m, int((share > 0).sum())), share / share.sum()
                columns = np.sort(rng.choice(len(share), size, replace=False, p=p))
                at = np.flatnonzero((votes[:, columns] >= 0).any(axis=1))
                if len(at) >= 50:
                    yield _cut(f"{name}, {m} sources", whole, votes[at][:, columns], y[at])
        if whole.n_classes == 2 and len(y) > 400:
            for rare in (0.1, 0.9):
                ones, zeros = np.flatnonzero(y == 1), np.flatnonzero(y == 0)
                most = min(len(ones) / rare, len(zeros) / (1 - rare))
                at = np.concatenate(
                    [
                        rng.choice(ones, int(most * rare), False),
                        rng.choice(zeros, int(most * (1 - rare)), False),
                    ]
                )
                if len(at) >= 100:
                    yield _cut(f"{name}, P(Y=1)={rare}", whole, votes[at], y[at])


def _cut(name: str, whole: Case, votes: Codes, y: NDArray[Any]) -> Case:
    return Case(name, whole.n_classes, votes, votes, y)


def weak_classifiers(seed: int, count: int) -> Iterator[Case]:
    """Draw panels of weak classifiers on features of scikit-learn's datasets and of the design half."""
    from benchmarks.quality import weak_classifiers as weak

    tables = weak.bundled()
    if "FLYINGSQUID_DATA" in os.environ:
        tables |= weak.embedded(_WITH_FEATURES)
    yield from weak.draw_panels(tables, seed, count)


def _named(case: Case, name: str) -> Case:
    return replace(case, name=name)


# Seeds are not those that the estimator was studied with.
GROUPS: dict[str, tuple[Callable[[int, int], Iterator[Case]], int, int]] = {
    "clean": (clean, 20_261, 84),
    "copies": (copies, 20_262, 60),
    "shared difficulty": (difficulty, 20_263, 24),
    "more than two classes": (many_classes, 20_264, 32),
    "real datasets": (real, 0, 0),
    "derived from real datasets": (derived, 20_265, 0),
    "weak classifiers on real features": (weak_classifiers, 20_266, 140),
}


# ---------------------------------------------------------------------- scores


def label(case: Case, options: Mapping[str, Any]) -> Array | None:
    """Return posteriors by a LabelModel of whichever version is imported; None if it refuses."""
    import flyingsquid as fs

    if options.get("graph") and case.fit.shape[1] > _MOST_LEARNED:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = fs.LabelModel(n_classes=case.n_classes, **options)
            model = model.fit(fs.Votes.from_classes(case.fit, classes=tuple(range(case.n_classes))))
            p = model.predict_proba(fs.Votes.from_classes(case.votes, classes=tuple(range(case.n_classes))))
        except (fs.exceptions.FlyingSquidError, ValueError):
            return None
    return np.asarray(p).reshape(len(case.votes), case.n_classes)


def cases() -> Iterator[tuple[str, str, Case]]:
    """Yield group, name and votes of every case; without FLYINGSQUID_DATA, simulations only."""
    for group, (make, seed, count) in GROUPS.items():
        if make in (real, derived, weak_classifiers) and "FLYINGSQUID_DATA" not in os.environ:
            continue
        for number, case in enumerate(make(seed, count)):
            yield group, f"{number}: {case.name}", case
        print(f"{group}: {number + 1} cases", file=sys.stderr, flush=True)


def measure(
    methods: Mapping[str, Mapping[str, Any]],
    labeler: Callable[[Case, Mapping[str, Any]], Array | None] = label,
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return scores by group, case and method."""
    # Imported here, because the process that runs the recorded commit has another version of the package.
    from benchmarks.quality.scores import add_one_shares, least_calibration_error, score_known

    found: dict[str, dict[str, dict[str, Any]]] = {}
    for group, name, case in cases():
        majority = add_one_shares(case.votes, case.n_classes)
        labels = {"majority vote": majority}
        for method, options in methods.items():
            p = labeler(case, options)
            labels[method] = majority if p is None else p
        if case.bayes is not None:
            labels["Bayes"] = case.bayes
        known = case.y >= 0
        found.setdefault(group, {})[name] = {
            method: [
                round(score, 6) for score in (*score_known(p, case.y), least_calibration_error(p[known]))
            ]
            for method, p in labels.items()
        }
    return found


def record_baseline(commit: str) -> None:
    """Label with the fixed list in a worktree of ``commit``, and score these labels here."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory) / "base"
        subprocess.run(["git", "worktree", "add", "--detach", "-q", str(base), commit], cwd=ROOT, check=True)
        try:
            env = {**os.environ, "PYTHONPATH": f"{base / 'src'}{os.pathsep}{ROOT}"}
            script = [sys.executable, str(Path(__file__)), "--label-baseline"]
            with subprocess.Popen(script, env=env, stdout=subprocess.PIPE) as child:
                found = measure(BEFORE, partial(_read_labels, child.stdout))
            if child.returncode:
                raise subprocess.CalledProcessError(child.returncode, script)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(base)], cwd=ROOT, check=True)
    BASELINE.write_text(json.dumps({"commit": commit, "scores": found}, indent=0) + "\n", "utf-8")


def _write_labels() -> None:
    """Write the labels of the fixed list to standard output as floats, NaN if a method refuses."""
    for _, _, case in cases():
        for options in BEFORE.values():
            p = label(case, options)
            p = np.full((len(case.votes), case.n_classes), np.nan) if p is None else p.astype(np.float64)
            sys.stdout.buffer.write(p.tobytes())


def _read_labels(stream: Any, case: Case, _options: Mapping[str, Any]) -> Array | None:
    p = np.frombuffer(stream.read(8 * len(case.votes) * case.n_classes)).reshape(-1, case.n_classes)
    return None if np.isnan(p).all() else p


# ---------------------------------------------------------------------- tables


def summarize(group: Mapping[str, Mapping[str, Any]], names: list[str]) -> list[list[str]]:
    """Return one row per method: accuracy, log loss, and regret against the best of the fixed list."""
    rows = []
    listed = ["majority vote", *BEFORE]
    accuracy = {name: np.array([case[name][0] for case in group.values()]) for name in {*names, *listed}}
    loss = {name: np.array([case[name][2] for case in group.values()]) for name in {*names, *listed}}
    best = np.max([accuracy[name] for name in listed], axis=0)
    least = np.min([loss[name] for name in listed], axis=0)
    for name in names:
        behind, more = 100 * (best - accuracy[name]), loss[name] - least
        below = np.mean(accuracy[name] < accuracy["majority vote"] - 0.01)
        f1 = np.mean([case[name][1] for case in group.values()])
        error = np.mean([case[name][3] for case in group.values()])
        rows.append(
            [
                name, f"{100 * accuracy[name].mean():.1f}", f"{100 * f1:.1f}", f"{loss[name].mean():.3f}",
                f"{behind.mean():.2f}", f"{np.quantile(behind, 0.9):.2f}", f"{behind.max():.2f}",
                f"{more.mean():.3f}", f"{np.quantile(more, 0.9):.3f}", f"{100 * below:.0f}%", f"{error:.3f}",
            ]
        )  # fmt: skip
    return rows


HEADER = (
    "method", "accuracy", "F1", "log loss", "regret", "90th percentile", "maximum", "regret, nats",
    "90th percentile", "1 point below majority vote", "calibration error",
)  # fmt: skip


DESCRIPTIONS = {
    "clean": "simulated independent sources; in half of the cases they abstain more often on one class",
    "copies": "simulated sources; groups of them repeat each other's votes or abstentions",
    "shared difficulty": "simulated sources that all err more often on the same hard items",
    "more than two classes": "simulated sources, three or five classes; a quarter with partial copies",
    "real datasets": "the design half, fitted on the train split and scored on the test split",
    "derived from real datasets": "the design half cut to few items, few sources or another class balance",
    "weak classifiers on real features": "small classifiers, trained on 10 to 40 labels and few features",
}


def page(found: Mapping[str, Mapping[str, Mapping[str, Any]]], commit: str) -> str:
    lines = [
        "# Regret of the default on simulated and real votes",
        "",
        "Nobody knows beforehand which method is best for their votes. Regret measures the price of always",
        "using the default: the difference between a method and the best method of a fixed list on the same",
        "votes, in points of accuracy and in nats of log loss. If it is negative, the method is better than",
        f"all of them. The list was recorded at commit {commit}: majority vote, {', '.join(BEFORE)}.",
        "Their names are those of that commit: `consensus` is now called `weighted`, `triplet_mean` is",
        "`triplet`, and `anchored` is part of the default. A method that raises an error counts as majority",
        "vote. Ties and items without votes get the expected score of a random choice. Real datasets are",
        "those of the [design half](halves.md). No method uses gold labels.",
        "",
        "Written by `python -m benchmarks.quality.regret --save` "
        "([script](../../benchmarks/quality/regret.py), [results](../../benchmarks/results/regret.json)).",
        "",
        "| votes | description |",
        "| --- | --- |",
        *(f"| {group} | {description} |" for group, description in DESCRIPTIONS.items()),
        "",
        "n is the number of items, m that of sources, K that of classes. *Bayes* labels with the true",
        "parameters of the simulation. The calibration error compares the probability of a label with how",
        "often it is correct, in 15 bins. On few items it is above 0 even if all probabilities are correct:",
        "the *least* error is what the probabilities of the default would then have on average, and the",
        "error of *Bayes* is only of this kind.",
        "",
    ]
    for group, cases in found.items():
        names = ["default", "majority vote", *BEFORE]
        names += ["Bayes"] if all("Bayes" in case for case in cases.values()) else []
        lines += [f"## {group.capitalize()}: {len(cases)} cases", "", "| " + " | ".join(HEADER) + " |"]
        lines += ["| --- |" + " ---: |" * (len(HEADER) - 1)]
        lines += ["| " + " | ".join(row) + " |" for row in summarize(cases, names)]
        behind = sorted(
            (case["majority vote"][0] - case["default"][0], name) for name, case in cases.items()
        )[::-1]
        worst = [f"{name.partition(': ')[2]} ({100 * gap:.1f})" for gap, name in behind[:5] if gap > 0.005]
        lines += ["", "Largest losses to majority vote, in points: " + (", ".join(worst) or "none") + "."]
        least = np.mean([case["default"][4] for case in cases.values()])
        lines += [f"Least calibration error of the default: {least:.3f}.", ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the regret of the default.")
    parser.add_argument("--save", action="store_true", help="write the results and the page")
    parser.add_argument("--record-baseline", metavar="COMMIT", help="measure the fixed list at a commit")
    parser.add_argument("--label-baseline", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.label_baseline:
        _write_labels()
        return
    if options.record_baseline:
        record_baseline(options.record_baseline)
        return
    recorded = json.loads(BASELINE.read_text("utf-8"))
    found = measure({"default": {}})
    for group, cases in found.items():
        for name, row in cases.items():
            row.update({k: v for k, v in recorded["scores"][group][name].items() if k not in row})
    text = page(found, recorded["commit"])
    print(text)
    if options.save:
        from benchmarks.harness import machine

        RESULT.write_text(json.dumps({"machine": machine(), "scores": found}, indent=0) + "\n", "utf-8")
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
