"""Comparison of the numbers that the default shows with gold labels: intervals, class balance, verdict.

    python -m benchmarks.quality.honesty                      # print the tables
    python -m benchmarks.quality.honesty --save               # also write results and docs/quality/honesty.md

A dataset is fitted on all items of all splits, without gold labels; then what the model shows is compared
with the gold labels. Datasets are those of the design half (docs/quality/halves.md), from the directory
FLYINGSQUID_DATA, and `llmbar` from the directory `panels` next to it, if there is one.
Simulations have no unknown dependence, so there the interval has to cover the true accuracy in 95% of cases.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import RESULTS, half_parser, save
from benchmarks.quality.data_directory import data_directory, panel_directory
from benchmarks.quality.halves import DESIGN, FROZEN, RealSet
from benchmarks.quality.pools import read_splits
from benchmarks.quality.regret import (
    Case,
    clean,
    copies,
    difficulty,
    many_classes,
    weak_classifiers,
)
from benchmarks.quality.scores import add_one_shares, score_known
from flyingsquid.estimation.intervals import (
    DEFAULT,
    AccuracyEvidence,
    Widening,
    accuracy_reach,
    intervals_around,
)
from flyingsquid.estimation.mixture import fit_mixture
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.fits.diagnostics import VerdictKind

ROOT = Path(__file__).parents[2]
NAMES = {"design": "honesty", "frozen": "honesty_frozen"}
PAGE = ROOT / "docs" / "quality" / "honesty.md"
Array = NDArray[np.float64]
Codes = NDArray[np.int8]
# Sources count if at least this many of their votes are on items with gold labels.
FEWEST_VOTES = 30
# Coverage and mean width to be reached for each kind of sources.
GOALS = {"rules and detectors": (0.80, 0.50), "judges": (0.80, 0.50), "crowds": (0.92, 0.35)}
KINDS = {"labeling functions": "rules and detectors", "video": "rules and detectors"}
PANEL = RealSet("llmbar", "judges", 2)
SEEDS, CLEAN_SEED, CLEAN_CASES, FEWEST_ITEMS = 200, 20_266, 126, 1_000
VERDICT_SEED, VERDICT_CASES, LARGE_GAIN = 778_002, 420, 0.02
DRAWS, PANEL_SIZE = 200, 6
# Items, sources, classes and coverage of votes that are noise.
NOISE = {
    "8 coins": (2_000, 8, 2, 1.0),
    "20 coins, 30% coverage": (2_000, 20, 2, 0.3),
    "8 four-sided dice": (500, 8, 4, 1.0),
    "8 three-sided dice": (500, 8, 3, 1.0),
}
QUICKSTART: dict[str, Any] = {
    "accuracies": [0.85, 0.75, 0.7, 0.65, 0.6],
    "coverage": [0.7, 0.8, 0.6, 0.9, 0.5],
}
# Constants that are chosen again with each dataset left out.
GRID = tuple(
    Widening(shared=shared, suspect_shared=suspect, least=least)
    for shared, suspect, least in itertools.product((1.3, 1.5, 1.7, 1.9), (0.4, 0.8, 1.2), (0.03, 0.05, 0.07))
)


@dataclass(frozen=True)
class Dataset:
    """Votes (n, m) with gold labels (n,), -1 if unknown."""

    name: str
    kind: str
    n_classes: int
    votes: Codes
    y: NDArray[Any]

    def read(self) -> fs.Votes:
        return fs.Votes.from_classes(self.votes, classes=tuple(range(self.n_classes)))

    def realized(self) -> tuple[Array, Array]:
        """Return the accuracy of each source on gold labels, and the number of its votes there."""
        known = self.y >= 0
        voted = self.votes[known] >= 0
        right = (self.votes[known] == self.y[known][:, None]) & voted
        n = voted.sum(axis=0)
        return right.sum(axis=0) / np.maximum(n, 1), n


def load(real: RealSet) -> Dataset:
    """Read all splits of a dataset."""
    directory = panel_directory() if real == PANEL else data_directory()
    splits = read_splits(directory, real.name).values()
    votes, y = (np.concatenate(parts) for parts in zip(*splits, strict=True))
    return Dataset(real.name, KINDS.get(real.kind, real.kind), real.n_classes, votes, y.astype(int))


# ---------------------------------------------------------------------- real datasets


def covers(interval: Array, values: Array) -> NDArray[np.bool_]:
    return np.asarray((interval[:, 0] - 1e-12 <= values) & (values <= interval[:, 1] + 1e-12))


def measure_dataset(data: Dataset) -> dict[str, Any]:
    """Return what the default shows for a dataset, and what is true."""
    votes = data.read()
    model = fs.LabelModel().fit(votes)
    realized, n = data.realized()
    counted = (n >= FEWEST_VOTES) & np.isfinite(model.accuracies_interval_).all(axis=1)
    interval = model.accuracies_interval_[counted]
    known = data.y >= 0
    labels = np.asarray(model.predict_proba(votes))[known]
    accuracy, _, _, error = score_known(labels, data.y[known])
    plain = score_known(add_one_shares(data.votes[known], data.n_classes), data.y[known])[0]
    truth = np.bincount(data.y[known], minlength=data.n_classes) / known.sum()
    verdict = model.diagnostics_.verdict
    by_counts = fs.LabelModel().fit_moments(fs.Moments.of(votes))
    return {
        "kind": data.kind,
        "sources": int(counted.sum()),
        "not_shown": int(((n >= FEWEST_VOTES) & ~counted).sum()),
        "covered": int(covers(interval, realized[counted]).sum()),
        "width": _mean(np.ptp(interval, axis=1)),
        "bias": _mean(model.accuracies_[counted] - realized[counted]),
        "covered_by_counts": int(covers(by_counts.accuracies_interval_[counted], realized[counted]).sum()),
        "counts_differ": _mean(np.abs(model.accuracies_ - by_counts.accuracies_)[counted]),
        "balance_error": float(np.abs(model.class_balance_ - truth).max()),
        "balance_covered": bool(covers(model.class_balance_interval_, truth).all()),
        "balance_width": float(np.ptp(model.class_balance_interval_, axis=1).max()),
        "calibration_error": error,
        "verdict": verdict.kind,
        "claimed": float(verdict.gain),
        "realized": accuracy - plain,
        "by_grid": _by_grid(votes, realized, counted),
    }


def _mean(values: Array) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _by_grid(votes: fs.Votes, realized: Array, counted: NDArray[np.bool_]) -> list[list[float]]:
    """Return the number of covered sources and the sum of the widths for each candidate of the grid."""
    found = fit_mixture(fs.Moments.of(votes), rows_of(votes, None), None)
    rows = []
    for candidate in GRID:
        reach = accuracy_reach(cast(AccuracyEvidence, found.errors.evidence), candidate)
        interval = intervals_around(found.sources.accuracies, found.errors.accuracies, reach)[counted]
        covered = covers(interval, realized[counted]).sum()
        rows.append([float(covered), float(np.ptp(interval, axis=1).sum())])
    return rows


def leave_one_out(datasets: Mapping[str, Mapping[str, Any]]) -> dict[str, list[float]]:
    """Choose the constants without each dataset, and return coverage and width on it, pooled by kind.

    The choice meets the goals for the mean width, and exceeds the goals for the coverage by most, each goal
    relative to what is left to full coverage.
    """
    sums: dict[str, Array] = {}
    for left, row in datasets.items():
        others = [each for name, each in datasets.items() if name != left and each["sources"]]
        best = max(range(len(GRID)), key=lambda number: _margin(others, number))
        if row["sources"]:
            total = np.array([*row["by_grid"][best], row["sources"]])
            sums[row["kind"]] = sums.get(row["kind"], np.zeros(3)) + total
    return {kind: [float(s[0] / s[2]), float(s[1] / s[2])] for kind, s in sums.items()}


def _margin(datasets: Sequence[Mapping[str, Any]], number: int) -> tuple[bool, float]:
    """Return whether a candidate is narrow enough for every kind, and by how much it exceeds the goals."""
    margins, narrow = [], True
    for kind, (goal, most) in GOALS.items():
        rows = [each for each in datasets if each["kind"] == kind]
        n = sum(each["sources"] for each in rows)
        covered, width = np.sum([each["by_grid"][number] for each in rows], axis=0) / n
        narrow = narrow and bool(width <= most)
        margins.append(float((covered - goal) / (1 - goal)))
    return narrow, min(margins)


# ---------------------------------------------------------------------- simulations


def measure_simulations() -> dict[str, dict[str, float]]:
    """Return coverage of the true accuracies and of the class balance, and widths, for each simulation."""
    found = {
        "quickstart": _summarize(_quickstart()),
        "clean, four sources or more": _summarize(_clean(lambda m: m > 3)),
        "clean, three sources": _summarize(_clean(lambda m: m == 3)),
        "clean, three or five classes": _summarize(_many()),
    }
    return {name: row for name, row in found.items() if row}


def measure_verdicts() -> dict[str, dict[str, int]]:
    """Count verdicts, and those that recommend a loss of more than half a point, for groups of cases."""
    rows = [(len(case.fit), *_verdict_on(case)) for case in clean(VERDICT_SEED, VERDICT_CASES)]
    gains = [row for row in rows if row[2] > LARGE_GAIN]
    groups: dict[str, list[tuple[str, float]]] = {
        f"clean, gain above {100 * LARGE_GAIN:.0f} points, {FEWEST_ITEMS:,} items or more": [
            row[1:] for row in gains if row[0] >= FEWEST_ITEMS
        ],
        "the same, fewer items": [row[1:] for row in gains if row[0] < FEWEST_ITEMS],
        "clean, all": [row[1:] for row in rows],
        "copies": [_verdict_on(case) for case in copies(VERDICT_SEED, DRAWS)],
        "shared difficulty": [_verdict_on(case) for case in difficulty(VERDICT_SEED, DRAWS)],
        "weak classifiers on real features": [
            _verdict_on(case) for case in weak_classifiers(VERDICT_SEED, DRAWS)
        ],
    }
    for name, shape in NOISE.items():
        groups[name] = [_verdict_on(_noise(seed, *shape)) for seed in range(DRAWS)]
    if panel_directory().is_dir():
        groups[f"{PANEL.name}, {PANEL_SIZE} random judges"] = [_verdict_on(case) for case in _panels()]
    return {name: _count_verdicts(found) for name, found in groups.items()}


def _verdict_on(case: Case) -> tuple[str, float]:
    """Return the verdict of the default, and the realized gain over majority vote."""
    votes = fs.Votes.from_classes(case.fit, classes=tuple(range(case.n_classes)))
    model = fs.LabelModel().fit(votes)
    labels, plain = np.asarray(model.predict_proba(votes)), add_one_shares(case.fit, case.n_classes)
    gain = score_known(labels, case.y)[0] - score_known(plain, case.y)[0]
    return model.diagnostics_.verdict.kind, gain


def _count_verdicts(found: Sequence[tuple[str, float]]) -> dict[str, int]:
    counts = {kind: sum(each == kind for each, _ in found) for kind in get_args(VerdictKind)}
    return {**counts, "lost": sum(kind == "recommended" and gain < -0.005 for kind, gain in found)}


def _noise(seed: int, n: int, m: int, n_classes: int, coverage: float) -> Case:
    """Draw votes that are independent of each other and of the classes."""
    rng = np.random.default_rng(seed)
    votes = rng.integers(0, n_classes, (n, m)).astype(np.int8)
    votes[rng.random((n, m)) >= coverage] = -1
    return Case("", n_classes, votes, votes, rng.integers(0, n_classes, n))


def _panels() -> Iterator[Case]:
    """Yield random judges of the panel."""
    whole, rng = load(PANEL), np.random.default_rng(VERDICT_SEED)
    for _ in range(DRAWS):
        votes = whole.votes[:, rng.choice(whole.votes.shape[1], PANEL_SIZE, replace=False)]
        yield Case("", whole.n_classes, votes, votes, whole.y)


def _quickstart() -> Iterator[tuple[Codes, Any, NDArray[Any]]]:
    for seed in range(SEEDS):
        sample = fs.datasets.simulate(2_000, **QUICKSTART, random_state=seed)
        yield np.asarray(sample.votes.codes), np.array(QUICKSTART["accuracies"]), sample.y


def _clean(is_used: Callable[[int], bool]) -> Iterator[tuple[Codes, Any, NDArray[Any]]]:
    """Yield independent sources, if their number is used."""
    for case in clean(CLEAN_SEED, CLEAN_CASES):
        if len(case.fit) >= FEWEST_ITEMS and is_used(case.fit.shape[1]):
            yield case.fit, case.accuracies, case.y


def _many() -> Iterator[tuple[Codes, Any, NDArray[Any]]]:
    """Yield simulations of more classes without copies; what is true are the realized accuracies."""
    for number, case in enumerate(many_classes(CLEAN_SEED, 32)):
        if len(case.fit) >= FEWEST_ITEMS and number % 4 != 3:
            yield case.fit, None, case.y


def _summarize(cases: Iterator[tuple[Codes, Any, NDArray[Any]]]) -> dict[str, float]:
    rows = []
    for codes, accuracies, y in cases:
        n_classes = int(max(codes.max(), y.max())) + 1
        data = Dataset("", "", n_classes, codes, y)
        realized, n = data.realized()
        truth = realized if accuracies is None else accuracies
        model = fs.LabelModel().fit(data.read())
        counted, interval = n >= FEWEST_VOTES, model.accuracies_interval_
        balance = np.bincount(y, minlength=n_classes) / len(y)
        row = {
            "coverage": covers(interval, truth)[counted].mean(),
            "realized": covers(interval, realized)[counted].mean(),
            "width": np.ptp(interval, axis=1)[counted].mean(),
            "balance": covers(model.class_balance_interval_, balance).mean(),
            "ratio": np.nan,
        }
        other = _by_covariance(data)
        if other is not None:
            row["ratio"] = row["width"] / np.nanmean(np.ptp(other, axis=1)[counted])
        rows.append(row)
    if not rows:
        return {}
    means = {key: float(np.nanmean([row[key] for row in rows])) for key in rows[0] if key != "ratio"}
    ratios = [row["ratio"] for row in rows if np.isfinite(row["ratio"])]
    return {**means, "ratio": float(np.mean(ratios)) if ratios else float("nan"), "cases": float(len(rows))}


def _by_covariance(data: Dataset) -> Array | None:
    """Return the intervals of the closed form, if it accepts the votes."""
    try:
        return np.asarray(fs.LabelModel(method="covariance").fit(data.read()).accuracies_interval_)
    except (fs.exceptions.FlyingSquidError, ValueError):
        return None


def few_sources() -> list[list[str]]:
    """Return what is shown for one, two and three sources, one of them a coin."""
    rows = []
    for accuracies in ([0.85], [0.85, 0.75], [0.9, 0.8, 0.5]):
        votes = fs.datasets.simulate(2_000, accuracies, random_state=0).votes
        summary = fs.LabelModel().fit(votes).summary()
        for truth, row in zip(accuracies, summary.rows, strict=True):
            cell = dict(zip(summary.columns, row, strict=True))
            shown: list[Any] = [cell["accuracy"], cell["accuracy_low"], cell["accuracy_high"]]
            text = "not shown" if shown[0] is None else "{:.1%} [{:.1%}, {:.1%}]".format(*shown)
            rows.append([str(len(accuracies)), f"{truth:.0%}", text])
    return rows


# ---------------------------------------------------------------------- page


HEADER = f"""# Intervals and verdicts on real datasets

Written by `python -m benchmarks.quality.honesty --save` ([script](../../benchmarks/quality/honesty.py),
[results](../../benchmarks/results/honesty.json)).

Most users of a label model have no gold labels. This page compares the estimates of `LabelModel()` with gold
labels that were not used in the fit. Every dataset is fitted on all of its items. A source counts if it has
at least {FEWEST_VOTES} votes on items with gold labels. [Which datasets are in which half](halves.md).

- **Coverage**: share of sources whose accuracy on gold labels is in the 95% interval of `summary()`.
- **Width**: mean width of these intervals. Intervals from 0 to 1 would cover every source, but be useless.
- **Bias**: mean of the estimated minus the realized accuracy. Sources share errors, so it is mostly positive.
- **Balance error**: largest error of the estimated class balance; whether its interval contains the truth.
- **Calibration error**: mean difference between the probability of the label and how often it is right.
- **Gain**: accuracy above majority vote in points, as estimated by the verdict and as realized. A tie counts
  as the share of the tied classes that is correct.

How the intervals are made: [the design note](../design/0009-default.md).
"""


FROZEN_NOTE = """\
Measured once after the form and the constants were settled, again for two later defaults, and again when the
verdict was changed. Coverage is above the goals, and for rules and crowds so is the width: most rules here
vote on six or ten classes, and the design half has none of these. Nothing was changed afterwards."""


def render(results: Mapping[str, Any]) -> str:
    """Return the page, the design half and, if it was opened, the frozen half."""
    return "\n".join(
        [HEADER, *(_half_tables(results[half], half) for half in NAMES if half in results)]
        + ([_simulation_tables(results["design"])] if "design" in results else [])
    )


def _half_tables(results: Mapping[str, Any], half: str) -> str:
    datasets = results["datasets"]
    without = results.get("left_out", {})
    lines = [f"## {half.capitalize()} half", ""]
    if half == "frozen":
        lines += [FROZEN_NOTE, ""]
    lines += ["| sources | number | coverage | goal | width | goal | from counts alone | not shown |"]
    lines[-1] += " left out: coverage | left out: width |" if without else ""
    lines += ["| --- |" + " ---: |" * (9 if without else 7)]
    for kind, (goal, most) in GOALS.items():
        rows = [each for each in datasets.values() if each["kind"] == kind]
        n = sum(each["sources"] for each in rows)
        covered, counts = (sum(each[key] for each in rows) / n for key in ("covered", "covered_by_counts"))
        width = sum(each["sources"] * each["width"] for each in rows if each["sources"]) / n
        cells = [kind, str(n), f"{covered:.1%}", f"{goal:.0%}", f"{width:.2f}"]
        cells += [f"{most:.2f}", f"{counts:.1%}", str(sum(each["not_shown"] for each in rows))]
        if without:
            cells += [f"{without[kind][0]:.1%}", f"{without[kind][1]:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    if without:
        lines += [
            "",
            "In the columns *left out*, the constants of the intervals were chosen again without the dataset "
            f"that is scored, from {len(GRID)} candidates. *Not shown*: sources whose accuracy is not "
            "determined.",
        ]
    columns = ["dataset", "sources", "coverage", "width", "bias", "from counts", "balance error"]
    columns += ["in interval", "calibration error", "verdict", "estimated gain", "realized gain"]
    lines += ["", "| " + " | ".join(columns) + " |", "| --- |" + " ---: |" * (len(columns) - 1)]
    lines += ["| " + " | ".join(_cells(name, row)) + " |" for name, row in datasets.items()]
    lines += ["", _verdicts(datasets), ""]
    return "\n".join(lines)


def _cells(name: str, row: Mapping[str, Any]) -> list[str]:
    has_sources = row["sources"] > 0
    return [
        name,
        str(row["sources"]),
        f"{row['covered'] / row['sources']:.0%}" if has_sources else "",
        f"{row['width']:.2f}" if has_sources else "",
        f"{row['bias']:+.2f}" if has_sources else "",
        f"{row['covered_by_counts'] / row['sources']:.0%}" if has_sources else "",
        f"{row['balance_error']:.2f}",
        "yes" if row["balance_covered"] else "no",
        f"{row['calibration_error']:.3f}",
        row["verdict"],
        f"{100 * row['claimed']:+.1f}",
        f"{100 * row['realized']:+.1f}",
    ]


def _verdicts(datasets: Mapping[str, Mapping[str, Any]]) -> str:
    claimed, realized = (np.array([row[key] for row in datasets.values()]) for key in ("claimed", "realized"))
    lost = [
        name for name, row in datasets.items() if row["verdict"] == "recommended" and row["realized"] < -0.005
    ]
    balance = np.mean([row["balance_covered"] for row in datasets.values()])
    return (
        f"Correlation between estimated and realized gain: {np.corrcoef(claimed, realized)[0, 1]:.2f}. "
        'Datasets with the verdict "recommended" that lose more than half a point: '
        f"{', '.join(lost) or 'none'}. "
        f"The interval of the class balance contains the truth on {balance:.0%} of the datasets."
    )


def _simulation_tables(results: Mapping[str, Any]) -> str:
    lines = [
        "## Simulations",
        "",
        f"Independent sources, {FEWEST_ITEMS:,} items or more; the quickstart with {SEEDS} seeds. Coverage",
        "is that of the true accuracies (for more classes, of realized ones). Width is relative to that of",
        '`method="covariance"`, if it accepts the votes.',
        "",
        "| simulation | cases | coverage | of realized accuracies | width | relative width | class balance |",
        "| --- |" + " ---: |" * 6,
    ]
    for name, row in results["simulations"].items():
        ratio = f"{row['ratio']:.2f}" if np.isfinite(row["ratio"]) else ""
        cells = [name, f"{row['cases']:.0f}", f"{row['coverage']:.1%}", f"{row['realized']:.1%}"]
        cells += [f"{row['width']:.3f}", ratio, f"{row['balance']:.1%}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines += [
        "",
        "Verdicts on independent sources (clean), on sources that share errors, on noise, and on judges",
        f"drawn from {PANEL.name}. Without a signal, most of the gain of clean simulations is on items",
        "without votes, which are labeled with the most frequent class. The last column counts",
        "recommendations of a model that is more than half a point below majority vote.",
        "",
        "| votes | cases | " + " | ".join(get_args(VerdictKind)) + " | recommended with a loss |",
        "| --- |" + " ---: |" * (2 + len(get_args(VerdictKind))),
    ]
    for name, counts in results["verdicts"].items():
        kinds = [counts[kind] for kind in get_args(VerdictKind)]
        total = sum(kinds)
        shares = [f"{n / total:.1%}" if total else "" for n in kinds]
        lines.append("| " + " | ".join([name, str(total), *shares, str(counts["lost"])]) + " |")
    lines += [
        "",
        "With three sources, accuracies can be estimated but independence cannot be tested, so intervals",
        "reach down to chance. With one or two sources, accuracies cannot be estimated, and none is shown:",
        "",
        "| sources | true accuracy | shown |",
        "| ---: | ---: | ---: |",
    ]
    lines += ["| " + " | ".join(row) + " |" for row in results["few_sources"]]
    return "\n".join(lines) + "\n"


def saved() -> dict[str, Any]:
    """Return the saved results of each half that has been computed."""
    paths = {half: RESULTS / f"{name}.json" for half, name in NAMES.items()}
    return {
        half: json.loads(path.read_text(encoding="utf-8"))["results"]
        for half, path in paths.items()
        if path.is_file()
    }


def measure(
    sets: Sequence[RealSet], *, frozen: bool, read: Callable[[RealSet], Dataset] = load
) -> dict[str, Any]:
    """Return the results of a half; the design half comes with simulations and the constants left out."""
    datasets = {}
    for real in sets:
        start = time.perf_counter()
        datasets[real.name] = measure_dataset(read(real))
        print(f"{real.name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    if frozen:
        return {"datasets": _without_grid(datasets)}
    left_out = leave_one_out(datasets)
    return {
        "widening": asdict(DEFAULT),
        "left_out": left_out,
        "datasets": _without_grid(datasets),
        "simulations": measure_simulations(),
        "verdicts": measure_verdicts(),
        "few_sources": few_sources(),
    }


def _without_grid(datasets: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: {key: row[key] for key in row if key != "by_grid"} for name, row in datasets.items()}


def main() -> None:
    options = half_parser(__doc__).parse_args()
    warnings.simplefilter("ignore")
    half = "frozen" if options.frozen else "design"
    sets = [each for each in (FROZEN if options.frozen else DESIGN) if each.kind != "sequences"]
    if half == "design" and panel_directory().is_dir():
        sets.append(PANEL)
    results = measure(sets, frozen=options.frozen)
    print(render({half: results}))
    if options.save:
        print(f"saved to {save(NAMES[half], results).name} and {PAGE.name}")
        PAGE.write_text(render(saved()), encoding="utf-8")


if __name__ == "__main__":
    main()
