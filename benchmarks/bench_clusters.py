"""Claim: an engine has a fixed cost per round, and its counts are those of NumPy.

Counting and labeling the same votes in one process with NumPy, on a Dask cluster of two processes and on
Spark with two threads, all on this machine and with the votes already in the memory of the engine. Ratios are
to NumPy; on one machine an engine can only lose, and what it loses is the price of a round. Ten sources.
Run with ``python -m benchmarks.bench_clusters``; ``--save`` writes the results file, ``--quick`` makes it a
smoke test.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser
from flyingsquid import distributed

SOURCES, PARTS = 10, 8
NAMES = [f"source_{j}" for j in range(SOURCES)]
Stages = dict[str, Callable[[], Any]]


def codes_of(n: int) -> NDArray[Any]:
    rng = np.random.default_rng(0)
    accuracies, coverage = rng.uniform(0.6, 0.9, SOURCES), rng.uniform(0.5, 1, SOURCES)
    return fs.datasets.simulate(n, accuracies, coverage=coverage, random_state=rng).votes.codes


@contextmanager
def on_numpy(codes: NDArray[Any], model: fs.LabelModel) -> Iterator[Stages]:
    yield {"count": lambda: fs.Moments.of(codes), "label": lambda: model.predict_proba(codes).sum()}


@contextmanager
def on_dask(codes: NDArray[Any], model: fs.LabelModel) -> Iterator[Stages]:
    import dask.array as da
    from distributed import Client, LocalCluster

    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster, Client(cluster):
        array = da.from_array(codes, chunks=(-(-len(codes) // PARTS), SOURCES)).persist()
        votes = distributed.votes(array, classes=(0, 1))
        yield {
            "count": lambda: fs.Moments.of(votes),
            "label": lambda: model.predict_proba(votes).sum().compute(),
        }


@contextmanager
def on_spark(codes: NDArray[Any], model: fs.LabelModel) -> Iterator[Stages]:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    options = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "4g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
    }
    spark = SparkSession.builder.master("local[2]").config(map=options).getOrCreate()
    table = pa.table({name: codes[:, j] for j, name in enumerate(NAMES)})
    frame = spark.createDataFrame(table).repartition(PARTS).cache()
    frame.count()
    votes = distributed.votes(frame, classes=(0, 1))
    yield {
        "count": lambda: fs.Moments.of(votes),
        "label": lambda: model.predict_proba(votes).selectExpr("sum(p_0 + p_1)").collect(),
    }
    spark.stop()


ENGINES = {"numpy": on_numpy, "dask": on_dask, "spark": on_spark}


def measure(n: int, repeats: int) -> list[dict[str, Any]]:
    codes = codes_of(n)
    model = fs.LabelModel(method="triplet").fit(codes)
    with ExitStack() as stack:
        engines = {name: stack.enter_context(make(codes, model)) for name, make in ENGINES.items()}
        rows = []
        for stage in ("count", "label"):
            seconds = alternate({name: engine[stage] for name, engine in engines.items()}, repeats=repeats)
            rows += [
                {"n": n, "stage": stage, "engine": name, **ratio(seconds, name, "numpy")}
                for name in engines
                if name != "numpy"
            ]
        expected = fs.Moments.of(codes)
        for name in ("dask", "spark"):
            counted = engines[name]["count"]()
            if not np.array_equal(counted.pair_counts, expected.pair_counts):
                raise SystemExit(f"{name} counted other integers than NumPy")
    return rows


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    # Spark 4 warns for every function over Arrow that it was not tested with pandas 3.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    sizes, repeats = ([20_000], 1) if arguments.quick else ([10_000, 1_000_000, 4_000_000], 5)
    rows = [row for n in sizes for row in measure(n, repeats)]
    table = Table("items", "stage", "engine", "seconds", "NumPy", "ratio", "quartiles")
    for row in rows:
        table.add_row(
            f"{row['n']:,}", row["stage"], row["engine"], f"{row['seconds']:.3f}",
            f"{row['baseline_seconds']:.4f}", f"{row['ratio']:.1f}", f"{row['low']:.1f} to {row['high']:.1f}",
        )  # fmt: skip
    Console().print(table)
    Console().print(f"{machine()['cores']} cores; the integers of both engines are those of NumPy")
    if arguments.save:
        save("clusters", rows)


if __name__ == "__main__":
    main()
