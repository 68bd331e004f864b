"""One page with the main results of all quality benchmarks.

    python -m benchmarks.quality.overview   # reads benchmarks/results, writes docs/quality/index.md

It measures nothing: every number comes from the results files of the other scripts, and every section links
the page that has the details. ``docs/pictures/make_quality.py`` draws its plots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "quality" / "index.md"
# Contenders of the table of real datasets, by their keys in the results.
CONTENDERS = {
    "majority": "majority vote",
    "auto": "**`LabelModel()`**",
    "hyper": "hyper label model",
    "snorkel": "Snorkel",
    "dawid_skene": "Dawid-Skene (crowd-kit)",
    "glad": "GLAD (crowd-kit)",
    "mace": "MACE (crowd-kit)",
}
CURVES = ("fit(gold=)", "stack", "default", "logistic regression")
POINT = 0.005  # a difference of half a point of accuracy


def load(name: str) -> Any:
    """Return recorded results, or None if they have not been measured."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return found.get("results", found)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table; all columns but the first are numbers."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]


def percent(value: float) -> str:
    return f"{100 * value:.1f}"


def of_both_halves(name: str) -> dict[str, Any]:
    """Return the results of the design half and of the frozen half, if recorded."""
    found = {"design half": load(name), "frozen half": load(f"{name}_frozen")}
    return {half: results for half, results in found.items() if results is not None}


# ---------------------------------------------------------------------- sections


def labels_without_gold() -> list[str]:
    lines = [
        "## Labels without gold labels",
        "",
        "Means over real datasets, fitted on the train split and scored on the test split. Datasets lost are",
        "those on which accuracy is more than half a point below majority vote. Details and intervals:",
        "[accuracy on real datasets](default.md).",
        "",
    ]
    for half, found in of_both_halves("default_table").items():
        split = found["split"]
        lines += [f"**{half.capitalize()}, {split['counts']['all']} datasets**", ""]
        rows = []
        for key, name in CONTENDERS.items():
            if key not in split["means"]["all"]:
                continue
            mean, below = split["means"]["all"][key], split["below"].get(key)
            lost = "" if below is None else f"{len(below['sets'])} of {below['of']}"
            rows.append(
                [name, percent(mean["accuracy"]), percent(mean["f1"]), f"{mean['log_loss']:.3f}", lost]
            )
        lines += table(["method", "accuracy, %", "F1, %", "log loss", "datasets lost"], rows)
    lines += [
        "![Accuracy above majority vote on each dataset](../pictures/quality-gains.svg)",
        "",
        "Accuracy above majority vote, in points, on each real dataset. Filled: frozen half.",
        "",
    ]
    return lines


def simulations() -> list[str]:
    found = load("regret")
    if found is None:
        return []
    rows = []
    for group, cases in found["scores"].items():
        ours = np.array([case["default"] for case in cases.values()])
        majority = np.array([case["majority vote"] for case in cases.values()])
        methods = {name for case in cases.values() for name in case} - {"default", "Bayes"}
        best = np.max([[case[name][0] for case in cases.values()] for name in methods], axis=0)
        behind = 100 * (best - ours[:, 0])
        below = np.mean(ours[:, 0] < majority[:, 0] - 2 * POINT)
        rows.append(
            [
                f"{group} ({len(cases)})",
                percent(majority[:, 0].mean()),
                percent(ours[:, 0].mean()),
                f"{behind.mean():.2f}",
                f"{np.quantile(behind, 0.9):.2f}",
                f"{100 * below:.0f}%",
                f"{ours[:, 3].mean():.3f}",
            ]
        )
    return [
        "## Regret of the default",
        "",
        "Regret is how many points of accuracy the default is behind the best method of a fixed list. It is",
        "negative if the default is better than all of them. Details: [regret](regret.md).",
        "",
        *table(
            [
                "votes (cases)",
                "majority vote, %",
                "default, %",
                "mean regret",
                "90th percentile",
                "a point below majority vote",
                "calibration error",
            ],
            rows,
        ),
    ]


def honesty() -> list[str]:
    lines = [
        "## Intervals and verdicts",
        "",
        "Coverage is the share of sources whose accuracy on gold labels lies in its 95% interval. Details:",
        "[intervals and verdicts on real datasets](honesty.md).",
        "",
    ]
    rows, verdicts = [], []
    for half, found in of_both_halves("honesty").items():
        datasets = found["datasets"]
        for kind in dict.fromkeys(one["kind"] for one in datasets.values()):
            of_kind = [one for one in datasets.values() if one["kind"] == kind and one["sources"]]
            sources = sum(one["sources"] for one in of_kind)
            covered = sum(one["covered"] for one in of_kind) / sources
            width = sum(one["width"] * one["sources"] for one in of_kind) / sources
            balance = np.mean([one["calibration_error"] for one in of_kind])
            rows.append([f"{kind}, {half}", str(sources), f"{covered:.0%}", f"{width:.2f}", f"{balance:.3f}"])
        for kind in ("recommended", "no better", "unproven", "no signal", "contradictory"):
            gains = [100 * one["realized"] for one in datasets.values() if one["verdict"] == kind]
            if gains:
                spread = f"{min(gains):+.1f} to {max(gains):+.1f}"
                verdicts.append([f"{kind}, {half}", str(len(gains)), f"{np.mean(gains):+.1f}", spread])
    lines += table(["sources", "number", "coverage", "mean width", "calibration error of labels"], rows)
    lines += ["Measured gain of each verdict, in points of accuracy above majority vote:", ""]
    return lines + table(["verdict", "datasets", "mean gain", "range"], verdicts)


def gold_labels() -> list[str]:
    lines = [
        "## A few gold labels",
        "",
        "Mean accuracy on items whose gold label was not given, by the number of gold labels. Logistic",
        "regression is fitted to the votes, and the stack to the votes and the labels of the default.",
        "Details: [learning curves](gold.md), [which items to label](suggestions.md), [rates](rates.md).",
        "",
    ]
    for half, found in of_both_halves("gold").items():
        rows = []
        for number, datasets in found["scores"].items():
            means = [np.mean([one[name][0] for one in datasets.values()]) for name in CURVES]
            rows.append([f"{number}, {len(datasets)} datasets", *(percent(float(mean)) for mean in means)])
        lines += [f"**{half.capitalize()}**", ""]
        lines += table(["gold labels", *(f"`{name}`" if "(" in name else name for name in CURVES)], rows)
    lines += ["![Learning curves](../pictures/quality-gold.svg)", ""]
    return lines


def features() -> list[str]:
    rows = []
    for half, found in of_both_halves("features").items():
        for number, datasets in found["scores"].items():
            peers = [
                max(value[0] for name, value in one.items() if name.endswith("end model"))
                for one in datasets.values()
            ]
            means = [
                float(np.mean([one[name][0] for one in datasets.values()])) for name in ("votes", "both")
            ]
            gold = "no gold labels" if number == "0" else f"{number} gold labels"
            rows.append(
                [f"{half}, {gold}", str(len(datasets)), *map(percent, means), percent(float(np.mean(peers)))]
            )
    return [
        "## Votes and features",
        "",
        "Mean accuracy of votes alone and of votes with features (both). The peer is an end model on the",
        "same features, trained on majority vote or on Snorkel's labels, whichever is better on a dataset.",
        "Details: [features](features.md).",
        "",
        *table(["", "datasets", "votes, %", "both, %", "peer, %"], rows),
    ]


def judges() -> list[str]:
    found, lines = load("panels"), ["## Panels of judges", ""]
    if found is not None:
        whole = found["llmbar"]["all"]
        plain, ordered, majority = (percent(whole[key]) for key in ("default", "panel", "majority"))
        lines += [
            f"On LLMBar, where judges share a bias, majority vote has an accuracy of {majority}%. The",
            f"default has {plain}% if orders are not declared (verdict: {whole['default_verdict']})",
            f"and {ordered}% if they are (verdict: {whole['panel_verdict']}). Rules were chosen on this",
            "panel. Details:",
            "[panels](panels.md), [scores](scores.md), [asking less](asking.md).",
            "",
        ]
    rows = [
        [f"{name}, {half}", f"{one['calls']:.0%}", percent(one["all asked"]), percent(one["accuracy"])]
        for half, recorded in of_both_halves("asking").items()
        for name, one in recorded.items()
        if "gold" not in name and name != "small"
    ]
    if rows:
        lines += ["Adaptive asking, compared with asking all judges about all items:", ""]
        lines += table(["votes", "share of calls", "all judges, %", "adaptive, %"], rows)
    return lines


def main() -> None:
    sections = (labels_without_gold, simulations, honesty, gold_labels, features, judges)
    lines = [
        "# Quality at a glance",
        "",
        "This page collects the main results of all quality benchmarks. Rules and constants were chosen on",
        "simulations and on the design half of the datasets; the frozen half is only for reporting",
        "([which datasets are in which half](halves.md)). The",
        "[glossary](../concepts/glossary.md#how-results-are-measured) defines the measures. For speed, see",
        "[speed](../benchmarks/speed.md).",
        "",
        "Written by `python -m benchmarks.quality.overview`",
        "([script](../../benchmarks/quality/overview.py)) from the results files of the scripts that the",
        "linked pages name.",
        "",
    ]
    for section in sections:
        lines += section()
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
