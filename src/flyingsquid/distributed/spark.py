"""Spark: dataframes, read by Arrow on the workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from flyingsquid.distributed.chunks import attempt, merge
from flyingsquid.distributed.labels import Labelling, Work
from flyingsquid.exceptions import OptionError

# Spark sends 10,000 rows at a time, and counting has a price that does not depend on the rows.
_ROWS_AT_ONCE = 1 << 17
# Types of columns in Arrow and in Spark.
_KINDS = {
    "float64": ("float64", "DoubleType"),
    "float32": ("float32", "FloatType"),
    "int64": ("int64", "LongType"),
    "boolean": ("bool", "BooleanType"),
    "string": ("string", "StringType"),
}


@dataclass(frozen=True, slots=True)
class SparkParts:
    """A dataframe of Spark."""

    frame: Any
    columns: tuple[Any, ...] | None

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and bring the sum here.

        No accumulators: Spark may run a task twice, and only the result of one run counts.
        """
        shared = self._everywhere(task)

        def results(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa
            from pyspark import TaskContext

            where = f"partition {TaskContext.get().partitionId()}"
            there, total = _opened(shared.value), None
            for first, table in _gathered(batches):
                total = merge(total, attempt(there, table, f"{where}, from its row {first} on"))
            if total is not None:
                yield pa.record_batch({"part": pa.array([pickle.dumps(total)], pa.binary())})

        parts = self._select(columns or ()).mapInArrow(results, "part binary").rdd
        return parts.map(lambda row: pickle.loads(row.part)).treeAggregate(None, merge, merge)

    def label(self, labelling: Labelling) -> Any:
        """A Spark dataframe: the kept columns, then the labels."""
        return self.transform(labelling)

    def transform(self, work: Work) -> Any:
        """A Spark dataframe: the kept columns, then the new ones."""
        from pyspark.sql import types

        shared, kept = self._everywhere(work), list(work.keep)

        def turned(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            there: Work = _opened(shared.value)
            for _, table in _gathered(batches):
                columns = {name: table[name] for name in kept}
                for name, values in there.as_columns(table).items():
                    columns[name] = pa.array(values, _KINDS[there.kinds[name]][0])
                yield from pa.table(columns).to_batches()

        used = self.columns or () if work.columns is None else (*kept, *work.columns)
        new = [types.StructField(n, getattr(types, _KINDS[k][1])()) for n, k in work.kinds.items()]
        schema = types.StructType([*(self.frame.schema[name] for name in kept), *new])
        return self._select(dict.fromkeys(used)).mapInArrow(turned, schema)

    def _select(self, columns: Any) -> Any:
        return self.frame.select([f"`{name.replace('`', '``')}`" for name in columns])

    def _everywhere(self, value: Any) -> Any:
        """A value that goes to every worker once, functions of a script or a notebook with it."""
        from pyspark import cloudpickle

        try:
            return self.frame.sparkSession.sparkContext.broadcast(cloudpickle.dumps(value))
        except Exception as error:
            if type(error).__module__.startswith("pyspark"):
                raise OptionError(
                    "counts are added in a tree of RDDs, which Spark Connect does not have; use a session "
                    "that runs beside the driver"
                ) from error
            raise


def parts_of(data: Any) -> SparkParts:
    """A Spark dataframe as chunks of Arrow."""
    for package in ("pyarrow", "pandas"):  # Spark asks for both
        if find_spec(package) is None:
            raise ImportError(f"votes on Spark need {package}: pip install 'flyingsquid[spark]'")
    if not hasattr(data, "mapInArrow"):
        raise OptionError(
            f"a Spark {type(data).__name__} cannot be read as votes; pass a dataframe, one column a source"
        )
    return SparkParts(data, tuple(data.columns))


@lru_cache(maxsize=8)
def _opened(packed: bytes) -> Any:
    """What was sent to this worker, opened once for all of its tasks."""
    return pickle.loads(packed)


def _gathered(batches: Iterator[Any]) -> Iterator[tuple[int, Any]]:
    """Tables of many rows each, and where they begin in their partition."""
    import pyarrow as pa

    first, held, rows = 0, [], 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield first, pa.Table.from_batches(held)
            first, held, rows = first + rows, [], 0
    if rows:
        yield first, pa.Table.from_batches(held)
