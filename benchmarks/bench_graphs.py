"""Claim: labeling a chain of tasks is linear in its length, and dependent sources cost less than a fit.

- chains of D tasks with 6 sources each, 1,000 items: seconds of fit and predict_proba, and the exponent of D
  by least squares in logs, over the D from which on the fixed cost of a call no longer counts;
- 100,000 x 9 votes with 3 source edges: fit, compared with the fit without edges.

Run with ``python -m benchmarks.bench_graphs``; ``--save`` writes the results file.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser

TASKS = (3, 6, 14, 50, 500)
SOURCES, SEQUENCES = 6, 1_000
EXPONENT_GOAL, EDGES_GOAL = 1.15, 2.0
EDGES = [(0, 1), (2, 3), (4, 5)]


def chain_votes(n_tasks: int) -> NDArray[np.int8]:
    sample = fs.datasets.simulate_sequence(
        SEQUENCES * n_tasks,
        [0.7, 0.75, 0.8, 0.65, 0.85, 0.7],
        coverage=0.8,
        persistence=0.8,
        lengths=[n_tasks] * SEQUENCES,
        random_state=0,
    )
    return np.asarray(sample.votes.codes).reshape(SEQUENCES, n_tasks, SOURCES)


def measure_chains() -> dict[str, Any]:
    calls = {}
    for n_tasks in TASKS:
        votes, graph = chain_votes(n_tasks), fs.DependencyGraph.chain(n_tasks, SOURCES)
        calls[str(n_tasks)] = lambda v=votes, g=graph: fs.LabelModel(g).fit(v).predict_proba(v)
    seconds = {name: float(np.median(times)) for name, times in alternate(calls, repeats=5).items()}
    logs = np.log([[n_tasks, seconds[str(n_tasks)]] for n_tasks in TASKS])
    return {
        "seconds": seconds,
        "exponent": round(float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0]), 3),
        "exponent_of_the_longest_two": round(
            float(np.diff(logs[-2:], axis=0)[0] @ [0, 1] / np.diff(logs[-2:, 0])[0]), 3
        ),
        "goal": EXPONENT_GOAL,
    }


def measure_edges() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    votes = fs.datasets.simulate(100_000, rng.uniform(0.6, 0.9, 9), coverage=0.8, random_state=rng).votes
    graph = fs.DependencyGraph(9, source_edges=EDGES)
    fits = alternate(
        {
            "edges": lambda: fs.LabelModel(graph).fit(votes),
            "none": lambda: fs.LabelModel(method="triplet").fit(votes),
        },
        repeats=40,
    )
    labels = fs.LabelModel(graph).fit(votes), fs.LabelModel(method="triplet").fit(votes)
    predictions = alternate(
        {"edges": lambda: labels[0].predict_proba(votes), "none": lambda: labels[1].predict_proba(votes)},
        repeats=40,
    )
    return {
        "fit": ratio(fits, "edges", "none"),
        "predict_proba": ratio(predictions, "edges", "none"),
        "goal": EDGES_GOAL,
    }


def show(results: dict[str, Any], console: Console) -> None:
    chains, edges = results["chains"], results["edges"]
    table = Table(title=f"Chains, {SOURCES} sources a task, {SEQUENCES:,} items: fit + predict_proba")
    for name in ("tasks", "seconds", "ms a task"):
        table.add_column(name, justify="right")
    for n_tasks, seconds in chains["seconds"].items():
        table.add_row(n_tasks, f"{seconds:.3f}", f"{1e3 * seconds / int(n_tasks):.2f}")
    console.print(table)
    console.print(
        f"exponent of D: {chains['exponent']} over all, {chains['exponent_of_the_longest_two']} over the "
        f"longest two; goal at most {chains['goal']}"
    )
    for name in ("fit", "predict_proba"):
        r = edges[name]
        console.print(
            f"100,000 x 9 with 3 source edges, {name}: {r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f}) "
            "times that without edges" + (f"; goal at most {edges['goal']}" if name == "fit" else "")
        )


def main() -> None:
    arguments = save_parser(__doc__).parse_args()
    console = Console(width=130)
    console.print(machine())
    results = {"chains": measure_chains(), "edges": measure_edges()}
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('graphs', results).name}")


if __name__ == "__main__":
    main()
