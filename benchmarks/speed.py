"""Times that users wait for: ratios to a named baseline, measured in the same run, with peak memory.

    python -m benchmarks.speed                     # all rows; about 20 minutes
    python -m benchmarks.speed --only small crowd  # rows whose names contain one of these words
    python -m benchmarks.speed --quick             # small sizes, to see that it runs
    python -m benchmarks.speed --save              # write the results file and docs/benchmarks/speed.md

Contenders alternate, so that a busy moment slows all of them down. Every row runs in its own process, whose
peak memory is reported. Rows with other label models need ``make peers``, those with real crowds
``FLYINGSQUID_DATA``; they are skipped otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import flyingsquid as fs
from benchmarks.harness import (
    RESULTS,
    alternate,
    in_a_fresh_process,
    machine,
    peak_resident_megabytes,
    ratio,
    rest,
    save,
    save_parser,
)

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks" / "speed.md"
Votes = NDArray[np.int8]
Measured = dict[str, float]


@dataclass(frozen=True)
class Row:
    """One comparison; ``goal`` is the largest ratio that meets it, if there is a goal."""

    name: str
    work: str
    baseline: str
    goal: float | None
    measure: Callable[[bool], Measured | None]


# ---------------------------------------------------------------------- votes


def simulate(n: int, m: int = 10, *, dependent: bool = False) -> Votes:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, m), rng.uniform(0.3, 1, m)
    votes = np.array(fs.datasets.simulate(n, accuracies, coverage=coverage, random_state=rng).votes.codes)
    if dependent:
        copied = rng.random(n) < 0.5
        votes[copied, 1] = votes[copied, 0]
    return votes


def fit(votes: Any, method: Literal["auto", "triplet"] = "auto") -> fs.LabelModel:
    return fs.LabelModel(method=method).fit(votes)


# ---------------------------------------------------------------------- start-up: CPU time of fresh processes


def start_up(quick: bool, *, command: str) -> Measured:
    rounds = 2 if quick else 15
    with tempfile.TemporaryDirectory(prefix="flyingsquid-bench-") as directory:
        votes, labels = Path(directory, "votes.csv"), Path(directory, "labels.csv")
        _write_csv(votes)
        contenders = {
            "baseline": [sys.executable, "-c", "import numpy, scipy.sparse, scipy.special"],
            "import": [sys.executable, "-c", "import flyingsquid as fs; fs.LabelModel"],
            "label": [*_flyingsquid("label"), str(votes), "-o", str(labels), "--force"],
        }
        chosen = {name: contenders[name] for name in ("baseline", command)}
        seconds: dict[str, list[float]] = {name: [] for name in chosen}
        for number in range(rounds + 1):  # the first round writes bytecode
            for name, arguments in chosen.items():
                took = _cpu_seconds(arguments)
                if number:
                    seconds[name].append(took)
    return ratio(seconds, command, "baseline")


def _flyingsquid(command: str) -> list[str]:
    return [sys.executable, "-m", "flyingsquid", command]


def _cpu_seconds(command: list[str]) -> float:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _write_csv(path: Path) -> None:
    sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.7, 0.6, 0.75, 0.65], coverage=0.7, random_state=0)
    header = ",".join(f"source_{j}" for j in range(sample.votes.n_sources))
    votes = np.asarray(sample.votes).tolist()
    lines = [",".join("" if vote < 0 else str(vote) for vote in row) for row in votes]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")


# ---------------------------------------------------------------------- fits in memory


def small_fit(quick: bool, *, method: Literal["auto", "triplet"]) -> Measured:
    from sklearn.linear_model import LinearRegression

    votes, y = simulate(1_000), np.random.default_rng(0).random(1_000)
    contenders = {"ours": lambda: fit(votes, method), "linear": lambda: LinearRegression().fit(votes, y)}
    return ratio(alternate(contenders, repeats=5 if quick else 100), "ours", "linear")


def default_fit(quick: bool, *, n: int, dependent: bool = False) -> Measured:
    votes = simulate(n // 10 if quick else n, dependent=dependent)
    contenders = {"auto": lambda: fit(votes), "triplet": lambda: fit(votes, "triplet")}
    return ratio(alternate(contenders, repeats=3 if quick else 15), "auto", "triplet")


def snorkel(quick: bool) -> Measured | None:
    from benchmarks.scale.comparison import compare_with_snorkel

    found = compare_with_snorkel(os.cpu_count() or 1, [(5_000 if quick else 100_000, 10)], 1 if quick else 7)
    return None if found is None else dict(found[0]["auto"])


def crowd(quick: bool, *, name: str) -> Measured | None:
    from benchmarks.bench_many import compare_with_crowdkit
    from benchmarks.quality.peers import interpreter

    if interpreter() is None or not os.environ.get("FLYINGSQUID_DATA"):
        return None
    return dict(compare_with_crowdkit(name, 1 if quick else 7)["default settings"])


def structure(quick: bool) -> Measured:
    n, m = (5_000, 80) if quick else (20_000, 800)
    rng = np.random.default_rng(0)
    graph = fs.DependencyGraph(m, source_edges=[(2 * k, 2 * k + 1) for k in range(m // 20)])
    accuracies, coverage = rng.uniform(0.6, 0.85, m), rng.uniform(0.2, 0.6, m)
    votes = fs.datasets.simulate_graph(n, graph, accuracies, coverage=coverage, random_state=rng).votes
    contenders = {"learn": lambda: fs.learn_structure(votes), "count": lambda: fs.Moments.of(votes)}
    return ratio(alternate(contenders, repeats=2), "learn", "count")


# ---------------------------------------------------------------------- sequences


def sequences(quick: bool) -> Measured | None:
    from benchmarks.quality.peers import interpreter
    from benchmarks.scale.rounds import OtherProcess

    python = interpreter()
    if python is None:
        return None
    n = 20_000 if quick else 1_000_000
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, 6), rng.uniform(0.3, 1, 6)
    sample = fs.datasets.simulate_sequence(
        n, accuracies, coverage=coverage, persistence=0.9, random_state=rng
    )
    votes, lengths = sample.votes, [100] * (n // 100)

    def ours() -> None:
        fs.SequenceLabelModel().fit(votes, lengths=lengths).predict_proba(votes, lengths=lengths)

    seconds: dict[str, list[float]] = {"ours": [], "hmm": []}
    script = Path(__file__).parent / "scale" / "hmm_rounds.py"
    with tempfile.TemporaryDirectory() as folder, OtherProcess([str(python), str(script)], 1) as other:
        source, target = Path(folder) / "votes.npy", Path(folder) / "labels.npy"
        np.save(source, np.asarray(votes.codes))
        for _ in range(2 if quick else 3):
            rest()
            seconds["ours"] += alternate({"ours": ours}, repeats=1)["ours"]
            seconds["hmm"].append(sum(other.seconds(source, target)))
    return ratio(seconds, "ours", "hmm")


# ---------------------------------------------------------------------- streams


def stream(quick: bool, *, chunk: int) -> Measured:
    votes = simulate(10_000 if quick else 50_000)
    if chunk == 1:
        votes = votes[:5_000]
    parts = list(votes) if chunk == 1 else np.split(votes, len(votes) // chunk)

    def online() -> None:
        model = fs.OnlineLabelModel()
        for part in parts:
            if chunk == 1:
                model.learn_one(part)
                model.predict_proba_one(part)
            else:
                model.update(part)

    contenders = {"online": online, "batch": lambda: fit(votes).predict_proba(votes)}
    return ratio(alternate(contenders, repeats=2 if quick else 7), "online", "batch")


# ---------------------------------------------------------------------- files


def parquet(quick: bool, *, task: str) -> Measured:
    from benchmarks.bench_dataset import measure

    found = measure(2_000_000 if quick else 100_000_000, [task])
    return dict(found["compared_with_a_scan"][task])


# ---------------------------------------------------------------------- the table

LINEAR, TRIPLET, IMPORT = (
    "scikit-learn's `LinearRegression.fit`",
    '`method="triplet"`',
    "importing NumPy and SciPy",
)
SCAN, DAWID_SKENE = "scanning the files with pyarrow", "crowd-kit's Dawid-Skene"
BATCH = "`LabelModel` fit and labels of the same items"
ROWS = (
    Row("import", "`import flyingsquid as fs; fs.LabelModel` in a new process, CPU", IMPORT, 2.0,
        partial(start_up, command="import")),
    Row("label", "`flyingsquid label` on a csv of 2,000 rows in a new process, CPU", IMPORT, 2.5,
        partial(start_up, command="label")),
    Row("small, triplet", 'fit 1,000 x 10, `method="triplet"`', LINEAR, 0.8,
        partial(small_fit, method="triplet")),
    Row("small, default", "fit 1,000 x 10", LINEAR, 2.0, partial(small_fit, method="auto")),
    Row("medium", "fit 10,000 x 10", TRIPLET, 5.0, partial(default_fit, n=10_000)),
    Row("large, independent", "fit 1,000,000 x 10", TRIPLET, 3.0, partial(default_fit, n=1_000_000)),
    Row("large, dependent", "fit 1,000,000 x 10, one source copies another", TRIPLET, 3.0,
        partial(default_fit, n=1_000_000, dependent=True)),
    Row("snorkel", "fit and labels of 100,000 x 10", "Snorkel's LabelModel", 1 / 30, snorkel),
    Row("crowd_adult", "fit and labels of crowd_adult (11,040 x 825, four classes)", DAWID_SKENE, 1 / 3,
        partial(crowd, name="crowd_adult")),
    Row("crowd_trec", "fit and labels of crowd_trec (19,033 x 762)", DAWID_SKENE, 1 / 5,
        partial(crowd, name="crowd_trec")),
    Row("parquet, fit", "fit 100,000,000 x 10 in parquet files", SCAN, 2.0,
        partial(parquet, task="fit, auto")),
    Row("parquet, labels", "fit and write labels of the same files", SCAN, 4.0,
        partial(parquet, task="fit and labels, auto")),
    Row("structure", "`learn_structure` of 800 sources", "counting their pairs of votes", 20.0, structure),
    Row("sequences", "`SequenceLabelModel` on 1,000,000 frames x 6", "hmmlearn's EM", 0.1, sequences),
    Row("online, chunks", "`OnlineLabelModel.update` of 50,000 x 10, 1,000 at a time", BATCH, None,
        partial(stream, chunk=1_000)),
    Row("online, one item", "`learn_one` and `predict_proba_one`, 5,000 x 10", BATCH, None,
        partial(stream, chunk=1)),
)  # fmt: skip


def measure_row(name: str, quick: bool) -> dict[str, Any]:
    """Measure one row in this process."""
    row = next(row for row in ROWS if row.name == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        found = row.measure(quick)
    return {"measured": found, "peak_megabytes": peak_resident_megabytes()}


def as_factor(value: float) -> str:
    """Format a ratio of times as a factor.

    >>> as_factor(2.0), as_factor(0.1)
    ('2.0x the time', '10x faster')
    """
    if value >= 0.5:
        return f"{value:.1f}x the time"
    return f"{1 / value:.1f}x faster" if value > 0.1 else f"{1 / value:.0f}x faster"


def page(results: dict[str, Any]) -> str:
    """Return the page with the table of all measured rows."""
    about = results["machine"]
    lines = [
        "# What you wait for",
        "",
        "Every row compares FlyingSquid with a baseline in the same run, in alternating rounds and in a new",
        "process. The method is the default unless stated, with the extra `[fast]`. Times are medians, with",
        "the quartiles of the ratio in parentheses. Start-up is CPU time. Peak memory is that of the whole",
        "process, including Python, the votes and, in some rows, the baseline. Machine:",
        f"{about['processor']}, {about['cores']} cores, {about['memory_gb']} GB, Python {about['python']}.",
        "",
        "Written by `python -m benchmarks.speed --save` ([script](../../benchmarks/speed.py),",
        "[results](../../benchmarks/results/speed.json)). How time grows with size: [scale](scale.md).",
        "",
        "| work | baseline | result | ratio | goal | time | peak memory |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in ROWS:
        found = results["results"].get(row.name)
        if found is None or found["measured"] is None:
            continue
        one = found["measured"]
        lines.append(
            f"| {row.work} | {row.baseline} | {as_factor(one['ratio'])} | "
            f"{one['ratio']:.3g} ({one['low']:.3g} to {one['high']:.3g}) | {_compared(row, one)} | "
            f"{format_seconds(one['seconds'])} | {found['peak_megabytes']:,.0f} MB |"
        )
    return "\n".join(lines) + "\n"


def _compared(row: Row, measured: Measured) -> str:
    """Return the goal of a row and whether it is met, for the page."""
    if row.goal is None:
        return ""
    return f"{row.goal:.3g}: {'met' if measured['ratio'] <= row.goal else 'not met'}"


def format_seconds(value: float) -> str:
    """Format seconds with three digits and a suitable unit.

    >>> format_seconds(0.00123), format_seconds(1.5)
    ('1.23 ms', '1.5 s')
    """
    return f"{value * 1e3:.3g} ms" if value < 1 else f"{value:.3g} s"


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="words in the names of the rows to measure")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.row:
        print(json.dumps(measure_row(given.row, given.quick)))
        return
    path = RESULTS / "speed.json"
    results = json.loads(path.read_text("utf-8"))["results"] if given.only and path.is_file() else {}
    for row in ROWS:
        if given.only and not any(word in row.name for word in given.only):
            continue
        options = ["--quick"] if given.quick else []
        results[row.name] = found = in_a_fresh_process("benchmarks.speed", "--row", row.name, *options)
        if found["measured"] is None:
            print(f"{row.name:20} skipped: other label models or data are not available")
            continue
        one, peak = found["measured"], f"{found['peak_megabytes']:,.0f} MB"
        goal = "" if row.goal is None else f"{row.goal:.3g}"
        print(
            f"{row.name:20} {one['ratio']:8.3f}  goal {goal:<8}"
            f"{format_seconds(one['seconds']):>10} {peak:>10}  {row.baseline}"
        )
    if given.save:
        save("speed", results)
        PAGE.write_text(page({"machine": machine(), "results": results}), encoding="utf-8")


if __name__ == "__main__":
    main()
