"""Claim: labels that use neighboring rows cost a few times what labels of single rows cost, linear in T.

The baseline is ``LabelModel``: fit and predict_proba of the same rows, measured in the same run, a round at a
time. Run with ``python -m benchmarks.bench_sequences``; ``--save`` writes the results file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, peak_megabytes, ratio, save, save_parser

ROWS, SOURCES = 1_000_000, 6
# Name, lengths of sequences, goal for fit + predict_proba.
SHAPES = [
    ("10,000 sequences of 100", [100] * 10_000, 5.0),
    ("one sequence", [ROWS], 15.0),
    ("100,000 sequences of 10", [10] * 100_000, None),
    ("10,000 sequences of 1 to 199", None, None),
]
REPEATS = 9


def uneven(n_sequences: int) -> list[int]:
    lengths = np.random.default_rng(0).integers(1, 200, n_sequences)
    lengths[-1] += ROWS - lengths.sum()
    return lengths.tolist() if lengths[-1] > 0 else uneven(n_sequences - 1)


def votes_of() -> fs.Votes:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, SOURCES), rng.uniform(0.3, 1, SOURCES)
    return fs.datasets.simulate_sequence(
        ROWS, accuracies, coverage=coverage, persistence=0.9, random_state=rng
    ).votes


def measure(name: str, lengths: list[int], goal: float | None, votes: fs.Votes) -> dict[str, Any]:
    alone, ours = fs.LabelModel(method="triplet").fit(votes), fs.SequenceLabelModel().fit(votes, lengths)
    both = alternate(
        {
            "rows": lambda: fs.LabelModel(method="triplet").fit(votes).predict_proba(votes),
            "sequences": lambda: fs.SequenceLabelModel().fit(votes, lengths).predict_proba(votes, lengths),
        },
        repeats=REPEATS,
    )
    fits = alternate(
        {
            "rows": lambda: fs.LabelModel(method="triplet").fit(votes),
            "sequences": lambda: fs.SequenceLabelModel().fit(votes, lengths),
        },
        repeats=REPEATS,
    )
    labels = alternate(
        {
            "rows": lambda: alone.predict_proba(votes),
            "sequences": lambda: ours.predict_proba(votes, lengths),
            "paths": lambda: ours.predict(votes, lengths),
        },
        repeats=REPEATS,
    )
    return {
        "shape": name,
        "goal": goal,
        "both": ratio(both, "sequences", "rows"),
        "fit": ratio(fits, "sequences", "rows"),
        "predict_proba": ratio(labels, "sequences", "rows"),
        "predict": ratio(labels, "paths", "rows"),
        "predict_megabytes": peak_megabytes(lambda: ours.predict_proba(votes, lengths)),
    }


def show(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(
        title=f"{ROWS:,} rows x {SOURCES} sources: ratios to LabelModel, median (quartiles)",
        header_style="bold",
    )
    for name in ("shape", "fit + predict_proba", "goal", "seconds", "fit", "predict_proba", "predict", "MB"):
        table.add_column(name, justify="right")
    for r in results:
        goal = "" if r["goal"] is None else f"<= {r['goal']:g}"
        both, *parts = (_ratio(r[k]) for k in ("both", "fit", "predict_proba", "predict"))
        seconds = f"{r['both']['seconds']:.3f}"
        table.add_row(r["shape"], both, goal, seconds, *parts, f"{r['predict_megabytes']:.0f}")
    console.print(table)


def _ratio(r: dict[str, float]) -> str:
    return f"{r['ratio']:.1f} ({r['low']:.1f}-{r['high']:.1f})"


def main() -> None:
    arguments = save_parser(__doc__).parse_args()
    console = Console(width=140)
    console.print(machine())
    votes = votes_of()
    shapes = [(name, lengths or uneven(10_000), goal) for name, lengths, goal in SHAPES]
    results = [measure(*shape, votes) for shape in shapes]
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('sequences', results).name}")


if __name__ == "__main__":
    main()
