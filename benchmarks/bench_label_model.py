"""Claim: a fit costs about one matrix product of the votes, and labeling less than a majority vote.

Baselines, measured in the same run, a round at a time:

- fit: the float32 Gram product of the (n, 2m) one-hot matrix, cast included;
- predict_proba: ``(L == 1).sum(1) > (L == 0).sum(1)``, which gives hard labels only;
- a small fit: scikit-learn's LinearRegression on the same matrix.

Ratios below 1 are faster than the baseline. Run with ``make bench``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.linear_model import LinearRegression

import flyingsquid as fs
from benchmarks.harness import alternate, machine, peak_megabytes, ratio, save, save_parser

SIZES = [(1_000, 10), (100_000, 10), (1_000_000, 10), (1_000_000, 100), (10_000, 1_000)]
GOALS = {(1_000_000, 10): (1.2, 1.0), (1_000_000, 100): (1.2, 1.0)}
SMALL_FIT_GOAL = 5.0
MEMORY_GOAL = 200.0


def votes_of(n: int, m: int) -> NDArray[np.int8]:
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(
        n, rng.uniform(0.6, 0.9, m), coverage=rng.uniform(0.3, 1, m), random_state=rng
    )
    return np.asarray(sample.votes.codes)


def one_hot_gram(votes: NDArray[np.int8]) -> NDArray[np.float32]:
    one_hot = np.concatenate([votes == 0, votes == 1], axis=1).astype(np.float32)
    return one_hot.T @ one_hot


def majority(votes: NDArray[np.int8]) -> NDArray[np.bool_]:
    return (votes == 1).sum(1) > (votes == 0).sum(1)


def fit(votes: NDArray[np.int8]) -> fs.LabelModel:
    return fs.LabelModel(method="triplet").fit(votes)


def measure(n: int, m: int) -> dict[str, Any]:
    votes = votes_of(n, m)
    model = fit(votes)
    repeats = 7 if n * m >= 10**7 else 30
    fits = alternate(
        {"fit": lambda: fit(votes), "gram": lambda: one_hot_gram(votes)},
        repeats=repeats,
    )
    labels = alternate(
        {"predict_proba": lambda: model.predict_proba(votes), "majority": lambda: majority(votes)},
        repeats=repeats,
    )
    result = {
        "n": n,
        "m": m,
        "fit": ratio(fits, "fit", "gram"),
        "predict_proba": ratio(labels, "predict_proba", "majority"),
        "fit_megabytes": peak_megabytes(lambda: fit(votes)),
        "predict_megabytes": peak_megabytes(lambda: model.predict_proba(votes)) - n * 2 * 8 / 1e6,
    }
    if n == 1_000:
        y = np.random.default_rng(0).random(n)
        small = alternate(
            {
                "fit": lambda: fit(votes),
                "linear": lambda: LinearRegression().fit(votes, y),
            },
            repeats=100,
        )
        result["fit_by_linear_regression"] = ratio(small, "fit", "linear")
    return result


def show(results: list[dict[str, Any]], console: Console) -> None:
    table = Table(title="Ratios to the baseline, median (quartiles); below 1 is faster", header_style="bold")
    for name in (
        "n x m",
        "fit / one-hot Gram",
        "goal",
        "predict_proba / majority",
        "goal",
        "fit MB",
        "predict MB",
    ):
        table.add_column(name, justify="right")
    for r in results:
        goals = GOALS.get((r["n"], r["m"]), (None, None))
        cells = [_ratio(r["fit"]), _goal(goals[0]), _ratio(r["predict_proba"]), _goal(goals[1])]
        memory = [f"{r['fit_megabytes']:.0f}", f"{max(r['predict_megabytes'], 0):.0f}"]
        table.add_row(f"{r['n']:,} x {r['m']:,}", *cells, *memory)
    console.print(table)
    small = results[0]["fit_by_linear_regression"]
    console.print(
        f"fit at 1,000 x 10 compared with LinearRegression.fit: {_ratio(small)}, goal at most "
        f"{SMALL_FIT_GOAL:g}; memory goal at 1,000,000 x 100: {MEMORY_GOAL:g} MB. Predict MB is beyond the "
        "answer itself."
    )


def _ratio(r: dict[str, float]) -> str:
    return f"{r['ratio']:.2f} ({r['low']:.2f}-{r['high']:.2f})"


def _goal(goal: float | None) -> str:
    return "" if goal is None else f"<= {goal:g}"


def main() -> None:
    arguments = save_parser(__doc__).parse_args()
    console = Console(width=130)
    console.print(machine())
    results = [measure(n, m) for n, m in SIZES]
    show(results, console)
    if arguments.save:
        console.print(f"saved to {save('label_model', results).name}")


if __name__ == "__main__":
    main()
