"""Claim: learning which sources depend on each other costs at most 20 fits.

100,000 x 100 votes, with ten dependent pairs and with none: seconds of ``learn_structure`` and of
``LabelModel("learn").fit``, compared with ``LabelModel().fit`` on the same votes.

Run with ``python -m benchmarks.bench_structure``; ``--save`` writes the results file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser

ITEMS, SOURCES, PAIRS = 100_000, 100, 10
GOAL = 20.0


def draw(n_pairs: int) -> tuple[fs.Votes, fs.DependencyGraph]:
    rng = np.random.default_rng(0)
    graph = fs.DependencyGraph(SOURCES, source_edges=[(2 * k, 2 * k + 1) for k in range(n_pairs)])
    accuracies, coverage = rng.uniform(0.6, 0.85, SOURCES), rng.uniform(0.4, 1.0, SOURCES)
    sample = fs.datasets.simulate_graph(ITEMS, graph, accuracies, coverage=coverage, random_state=rng)
    return sample.votes, graph


def measure(n_pairs: int, repeats: int) -> dict[str, Any]:
    votes, graph = draw(n_pairs)
    seconds = alternate(
        {
            "learn_structure": lambda: fs.learn_structure(votes),
            "LabelModel('learn')": lambda: fs.LabelModel("learn").fit(votes),
            "LabelModel()": lambda: fs.LabelModel(method="triplet").fit(votes),
        },
        repeats=repeats,
    )
    return {
        "found": len(set(fs.learn_structure(votes).source_edges) & set(graph.source_edges)),
        "false": len(set(fs.learn_structure(votes).source_edges) - set(graph.source_edges)),
        "learn_structure": ratio(seconds, "learn_structure", "LabelModel()"),
        "fit": ratio(seconds, "LabelModel('learn')", "LabelModel()"),
        "goal": GOAL,
    }


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{ITEMS:,} x {SOURCES} votes, compared with LabelModel().fit (at most {GOAL:g})")
    for column in ("dependent pairs", "found", "false", "learn_structure", "LabelModel('learn').fit"):
        table.add_column(column, justify="right")
    for pairs, one in results.items():
        times = (
            f"{one[name]['ratio']}x, {one[name]['seconds']:.2f} s" for name in ("learn_structure", "fit")
        )
        table.add_row(pairs, str(one["found"]), str(one["false"]), *times)
    console.print(table)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="rounds of each contender")
    options = parser.parse_args()
    console = Console()
    console.print(machine())
    results = {str(pairs): measure(pairs, options.repeats) for pairs in (PAIRS, 0)}
    show(results, console)
    if options.save:
        console.print(f"written to {save('structure', results)}")


if __name__ == "__main__":
    main()
