"""The results as two pages and a picture, with numbers from the results file.

``python -m benchmarks.scale.page`` writes them again from benchmarks/results/scale.json.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.harness import RESULTS
from benchmarks.scale.how_far import how_far

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"
Results: TypeAlias = Mapping[str, Any]
AXES = {"n": "items", "m": "sources", "K": "classes", "D": "tasks"}
FILES = ("dataset", "label_file")
STEPS = {"count": "counting", "solve": "the solver", "label": "labels"}

INTRODUCTION = """\
# Speed and growth

This page measures how long fits and labels take, compared with simple NumPy operations and with other
label models, and how the time grows with the size of the votes.

A ratio is the time of FlyingSquid divided by the time of the baseline: the median over rounds, with
quartiles in parentheses. Below 1, FlyingSquid is faster. All methods of a table ran in the same run on
the same votes, in alternating rounds, with {threads} threads. Votes are simulated and stored as C-ordered
int8, unless a dataset is named. `fast` uses the extra `[fast]` (numba), `numpy` does not. `triplet` is
`method="triplet"`, `auto` the default. Machine: {machine}.

Written by `python -m benchmarks.scale --save` ([script](../../benchmarks/scale/__main__.py),
[results](../../benchmarks/results/scale.json)).
"""


def ratio_of(one: Results, *, goal: bool = True) -> str:
    """Format a ratio with its spread, and whether its goal is met."""
    text = f"{one['ratio']:.3g} ({one['low']:.3g} to {one['high']:.3g})"
    if not goal or one.get("goal") is None:
        return text
    met = "met" if one["ratio"] <= one["goal"] else "not met"
    return f"{text}, goal {one['goal']:.3g}: {met}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in (header, ["---"] * len(header), *rows)]
    return "\n".join(lines) + "\n"


def shape(result: Results) -> str:
    return f"{result['n']:,} x {result['m']}"


def one_machine(results: Results) -> str:
    wide, long = results["many_sources"], results["many_items"]
    rows = [
        [which, ratio_of(wide[which]["fit"]), ratio_of(wide[which]["predict_proba"])]
        for which in ("fast", "numpy")
    ]
    text = [
        f"## {shape(wide)}\n",
        "Fit (`triplet`) compared with the float32 Gram product of the one-hot votes, and labels compared "
        "with `L.sum(1)`.\n",
        table(["", "fit / Gram", "predict_proba / sum"], rows),
        f"In seconds, fast: fit {wide['fast']['fit']['seconds']:.3f}, Gram "
        f"{wide['fast']['fit']['baseline_seconds']:.3f}; labels "
        f"{wide['fast']['predict_proba']['seconds']:.3f}, sum "
        f"{wide['fast']['predict_proba']['baseline_seconds']:.3f}.\n",
        f"## {shape(long)}\n",
        "Fit and labels in float32 together, compared with `L.sum(1)`.\n",
        table(
            ["", "ratio", "seconds"],
            [
                [name, ratio_of(long[name]), f"{long[name]['seconds']:.2f}"]
                for name in ("fast", "numpy", "fast, auto")
            ],
        ),
        "Peak memory of a new process, without votes and labels: "
        f"{long['memory']['beyond_mb']:,} MB (goal {long['memory']['goal_mb']:g}).\n",
    ]
    return "\n".join(text)


def files() -> str:
    """Return the section on parquet files and directories, from the results of their own scripts."""
    directory, file = (json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["results"] for name in FILES)
    rows = [
        [what, ratio_of(one), f"{directory['rows'] / one['seconds'] / 1e6:.1f}"]
        for what, one in directory["compared_with_a_scan"].items()
    ]
    commands = [[what, ratio_of(one), f"{one['label_peak_megabytes']:,}"] for what, one in file.items()]
    return "\n".join(
        [
            "## Files\n",
            f"A directory of ten parquet files, {directory['rows']:,} rows of {directory['sources']} "
            "sources, compared with pyarrow's scan of the same files "
            f"({directory['scan_rows_a_second'] / 1e6:.0f} million rows per second). Peak memory was "
            f"{directory['peak_megabytes']:,} MB. Script: "
            "[bench_dataset.py](../../benchmarks/bench_dataset.py).\n",
            table(["", "ratio to the scan", "million rows per second"], rows),
            f"`flyingsquid label` on one parquet file of {file['with identifiers']['rows']:,} rows, from "
            "start to end, compared with pyarrow reading the file and writing it again. Script: "
            "[bench_label_file.py](../../benchmarks/bench_label_file.py).\n",
            table(["", "ratio", "peak, MB"], commands),
        ]
    )


def compare_models(results: Results) -> str:
    text = ["## Compared with other label models\n"]
    names = {"snorkel": "Snorkel's LabelModel at its defaults", "reference": "the authors' 2020 code"}
    for key, other in names.items():
        found = results.get(key)
        if not found:
            text.append(f"Compared with {other}: not measured in this run.\n")
            continue
        rows = [
            [shape(one), *(ratio_of(one[name]) for name in ("numpy", "fast", "auto")), _accuracies(one)]
            for one in found
        ]
        header = ["votes", "NumPy", "fast", "`auto`, fast", "accuracy: triplet, auto, other"]
        text += [
            f"Fit and labels compared with {other}; the first two columns are `triplet`.\n",
            table(header, rows),
        ]
    crowds = results.get("crowds")
    if crowds:
        rows = [
            [name, setting, ratio_of(one)]
            for name, settings in crowds.items()
            for setting, one in settings.items()
        ]
        text += [
            "Fit and labels of `auto` compared with crowd-kit's Dawid-Skene on real crowds.\n",
            table(["dataset", "crowd-kit", "ratio"], rows),
        ]
    else:
        text.append("Compared with crowd-kit's Dawid-Skene: not measured in this run.\n")
    return "\n".join(text)


def _accuracies(one: Results) -> str:
    return ", ".join(
        f"{value:.4f}" for value in (one["fast"]["accuracy"], one["auto"]["accuracy"], one["other_accuracy"])
    )


def growth(results: Results) -> str:
    text = [
        "## Growth\n",
        "Time grows as size to the power of the exponent, which is fitted to the upper half of the points. "
        "The defaults are 100,000 items of 10 binary sources; chains have 10,000 items and 3 sources per "
        "task. Every point is measured in a separate process.\n",
        "![Time against size](growth.svg)\n",
    ]
    header = [
        "size",
        *(f"{shown}: exponent" for shown in STEPS.values()),
        "largest",
        "seconds at the largest",
        "peak memory, MB",
    ]
    rows = []
    for axis, curve in results["growth"].items():
        last, exponents = curve["points"][-1], curve["exponents"]
        goal = "" if curve.get("goal") is None else f" (goal {curve['goal']:g})"
        powers = [f"{exponents[step]:.2f}{goal if step == 'count' else ''}" for step in STEPS]
        seconds = ", ".join(f"{last[step]:.3g}" for step in STEPS)
        rows.append([AXES[axis], *powers, f"{last['at']:,}", seconds, f"{last['peak_mb']:,}"])
    return "\n".join([*text, table(header, rows)])


def draw(results: Results, path: Path) -> None:
    """Draw time against size, with one panel per axis."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"svg.hashsalt": "flyingsquid", "svg.fonttype": "none"}):
        figure = Figure(figsize=(9, 2.6), layout="constrained")
        panels = figure.subplots(1, len(results["growth"]), sharey=True)
        for axes, (axis, curve) in zip(panels, results["growth"].items(), strict=True):
            at = [point["at"] for point in curve["points"]]
            for (step, shown), marker in zip(STEPS.items(), "os^", strict=True):
                axes.loglog(at, [point[step] for point in curve["points"]], marker=marker, ms=4, label=shown)
            axes.set_xlabel(AXES[axis])
        panels[0].set_ylabel("seconds")
        panels[0].legend(fontsize=7)
        figure.savefig(path, metadata={"Date": None})


def write(whole: Results, directory: Path = FOLDER) -> None:
    """Both pages and the picture."""
    results, on = whole["results"], whole["machine"]
    machine = f"{on['processor']}, {on['cores']} cores, {on['memory_gb']} GB, Python {on['python']}"
    directory.mkdir(parents=True, exist_ok=True)
    quick = "\n**Small sizes, to see that it runs: these numbers mean nothing.**\n" if whole["quick"] else ""
    page = "\n".join(
        [
            INTRODUCTION.format(threads=whole["threads"], machine=machine) + quick,
            one_machine(results),
            files(),
            compare_models(results),
            growth(results),
        ]
    )
    (directory / "scale.md").write_text(page.rstrip() + "\n", encoding="utf-8")
    (directory / "how-far.md").write_text(how_far(whole), encoding="utf-8")
    draw(results, directory / "growth.svg")


if __name__ == "__main__":
    write(json.loads((RESULTS / "scale.json").read_text("utf-8")))
