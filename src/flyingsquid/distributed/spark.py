"""Spark dataframes, read with Arrow on the workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from flyingsquid._values import format_value
from flyingsquid.distributed.distributed_votes import COLUMNS_HINT, Labeling, Transform, attempt, merge
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.reading import add_location_to_errors

# Spark sends batches of 10,000 rows; larger tables spread the fixed cost of counting.
_ROWS_AT_ONCE = 1 << 17
# Types of columns in Arrow and in Spark.
_TYPES = {
    "float64": ("float64", "DoubleType"),
    "float32": ("float32", "FloatType"),
    "int64": ("int64", "LongType"),
    "boolean": ("bool", "BooleanType"),
    "string": ("string", "StringType"),
}
# Spark types of columns of votes.
_VOTE_TYPES = {"byte", "short", "integer", "long", "float", "double", "decimal"}
_VOTE_TYPES |= {"boolean", "string", "char", "varchar", "void"}


@dataclass(frozen=True, slots=True)
class SparkParts:
    """A Spark dataframe."""

    frame: Any
    columns: tuple[Any, ...] | None

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and return the sum.

        Accumulators would be wrong, because Spark may run a task twice.
        """
        self._require_votes(columns or ())
        results = _on_worker("sum_chunks", self._broadcast(task), list(columns or ()))
        parts = self._select(columns or ()).mapInArrow(results, "part binary").rdd
        add = _on_worker("add_parts")
        try:
            return parts.map(_on_worker("unpack_part")).treeAggregate(None, add, add)
        except Exception:
            self._require_library()
            raise

    def label(self, labeling: Labeling) -> Any:
        """Return a Spark dataframe: the kept columns, then the labels."""
        self._require_votes(labeling.columns or ())
        return self.transform(labeling)

    def transform(self, transform: Transform) -> Any:
        """Return a Spark dataframe: the kept columns, then the new ones."""
        from pyspark.sql import types

        kept = list(transform.keep)
        used = self.columns or () if transform.columns is None else (*kept, *transform.columns)
        names = list(dict.fromkeys(used))
        transformed = _on_worker("transform_chunks", self._broadcast(transform), names)
        new = [types.StructField(n, getattr(types, _TYPES[k][1])()) for n, k in transform.types.items()]
        schema = types.StructType([*(self.frame.schema[name] for name in kept), *new])
        return self._select(names).mapInArrow(transformed, schema)

    def _require_library(self) -> None:
        """Raise an error if the Python of the workers cannot import this package."""

        def check(batches: Iterator[Any]) -> Iterator[Any]:  # without names of this module, see _on_worker
            import sys

            import pyarrow

            yield from ()
            try:
                import flyingsquid.distributed  # noqa: F401
            except ImportError:
                for _ in batches:
                    yield pyarrow.record_batch({"python": pyarrow.array([sys.executable or "python"])})

        found = self.frame.sparkSession.range(1).mapInArrow(check, "python string").collect()
        if found:
            raise OptionError(
                f"The Python of the Spark workers, {found[0].python}, cannot import flyingsquid. Install it "
                "there, or set PYSPARK_PYTHON to a Python that has it before the session starts."
            )

    def _select(self, columns: Any) -> Any:
        """Select columns by position: Spark interprets dots in names, and ignores case."""
        present = list(self.columns or ())
        return self.frame.toDF(*map(str, range(len(present)))).select(
            [str(present.index(c)) for c in columns]
        )

    def _require_votes(self, columns: Any) -> None:
        """Raise an error for columns whose type cannot be votes, before anything runs."""
        for name in columns:
            kind = self.frame.schema[name].dataType
            if kind.typeName().split("(")[0] not in _VOTE_TYPES:
                raise VotesError(
                    f"Column {format_value(name)} must be integers, strings or booleans; got "
                    f"{kind.simpleString()}. {COLUMNS_HINT}."
                )

    def _broadcast(self, value: Any) -> Any:
        """Broadcast a value, including functions that are defined in a script or a notebook."""
        from pyspark import cloudpickle

        try:
            return self.frame.sparkSession.sparkContext.broadcast(cloudpickle.dumps(value))
        except Exception as error:
            if type(error).__module__.startswith("pyspark"):
                raise OptionError(
                    "Counting needs RDDs, which Spark Connect does not support. Use a classic Spark session."
                ) from error
            raise


def parts_of(data: Any) -> SparkParts:
    """Return a Spark dataframe as parts."""
    for package in ("pyarrow", "pandas"):  # Spark needs both
        if find_spec(package) is None:
            raise ImportError(f"Votes on Spark need {package}. Run: pip install 'flyingsquid[spark]'")
    if not hasattr(data, "mapInArrow"):
        raise OptionError(
            "Votes on Spark must be a dataframe with one column per source; got a Spark "
            f"{type(data).__name__}."
        )
    columns = tuple(data.columns)
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise VotesError(f"Column names must be unique; got {format_value(twice)} twice.")
    return SparkParts(data, columns)


# ---------------------------------------------------------------------- on the workers


def _on_worker(name: str, *first: Any) -> Callable[..., Any]:
    """Return a function for workers that calls the function ``name`` of this module.

    It refers to no name of this module: workers would have to import the package to unpickle such a function,
    and without the package they fail before they can report what is missing.
    """

    def call(*values: Any) -> Any:
        try:
            from flyingsquid.distributed import spark  # noqa: PLW0406  # on another machine
        except ImportError as error:
            import sys

            raise ImportError(
                f"The Python of the Spark workers, {sys.executable}, cannot import flyingsquid ({error}). "
                "Install it there, or set PYSPARK_PYTHON to a Python that has it."
            ) from error
        return getattr(spark, name)(*first, *values)

    return call


def sum_chunks(shared: Any, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Apply a broadcast task to the chunks of one partition, and yield the sum in a record batch."""
    import pyarrow as pa

    task, total = _unpickle(shared.value), None
    for where, table in _tables(batches, names):
        total = merge(total, attempt(task, table, where))
    if total is not None:
        yield pa.record_batch({"part": pa.array([pickle.dumps(total)], pa.binary())})


def unpack_part(row: Any) -> Any:
    """Return the sum of one partition."""
    return pickle.loads(row.part)


def add_parts(a: Any, b: Any) -> Any:
    """Return the sum of two partitions; None stands for an empty one."""
    return merge(a, b)


def transform_chunks(shared: Any, names: list[str], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the kept and the new columns of one partition."""
    import pyarrow as pa

    local: Transform = _unpickle(shared.value)
    for where, table in _tables(batches, names):
        columns = {name: table[name] for name in local.keep}
        with add_location_to_errors(where):
            new = local.as_columns(table)
        for name, values in new.items():
            columns[name] = pa.array(values, _TYPES[local.types[name]][0])
        yield from pa.table(columns).to_batches()


@lru_cache(maxsize=8)
def _unpickle(packed: bytes) -> Any:
    """Return a broadcast value, unpickled once per worker."""
    return pickle.loads(packed)


def _tables(batches: Iterator[Any], names: list[str]) -> Iterator[tuple[str, Any]]:
    """Yield tables of many rows with these column names, each with its location for messages."""
    import pyarrow as pa
    from pyspark import TaskContext

    partition = f"partition {TaskContext.get().partitionId()}"
    held: list[Any] = []
    first = rows = 0

    def table() -> tuple[str, Any]:
        where = f"{partition}, from row {first}" if first else partition
        return where, pa.Table.from_batches(held).rename_columns(names)

    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield table()
            first, held, rows = first + rows, [], 0
    if rows:
        yield table()
