"""Spark: dataframes, read by Arrow on the workers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from flyingsquid._values import told
from flyingsquid.distributed.chunks import PICK, attempt, merge
from flyingsquid.distributed.labels import Labelling, Work
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.reading import located

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
# Types of columns of votes, as Spark calls them.
_VOTE_TYPES = {"byte", "short", "integer", "long", "float", "double", "decimal"}
_VOTE_TYPES |= {"boolean", "string", "char", "varchar", "void"}


@dataclass(frozen=True, slots=True)
class SparkParts:
    """A dataframe of Spark."""

    frame: Any
    columns: tuple[Any, ...] | None

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and bring the sum here.

        No accumulators: Spark may run a task twice, and only the result of one run counts.
        """
        self._require_votes(columns or ())
        shared, names = self._everywhere(task), list(columns or ())

        def results(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            there, total = _opened(shared.value), None
            for where, table in _gathered(batches, names):
                total = merge(total, attempt(there, table, where))
            if total is not None:
                yield pa.record_batch({"part": pa.array([pickle.dumps(total)], pa.binary())})

        parts = self._select(columns or ()).mapInArrow(results, "part binary").rdd
        return parts.map(lambda row: pickle.loads(row.part)).treeAggregate(None, merge, merge)

    def label(self, labelling: Labelling) -> Any:
        """A Spark dataframe: the kept columns, then the labels."""
        self._require_votes(labelling.columns or ())
        return self.transform(labelling)

    def transform(self, work: Work) -> Any:
        """A Spark dataframe: the kept columns, then the new ones."""
        from pyspark.sql import types

        shared, kept = self._everywhere(work), list(work.keep)
        used = self.columns or () if work.columns is None else (*kept, *work.columns)
        names = list(dict.fromkeys(used))

        def turned(batches: Iterator[Any]) -> Iterator[Any]:
            import pyarrow as pa

            there: Work = _opened(shared.value)
            for where, table in _gathered(batches, names):
                columns = {name: table[name] for name in kept}
                with located(where):
                    new = there.as_columns(table)
                for name, values in new.items():
                    columns[name] = pa.array(values, _KINDS[there.kinds[name]][0])
                yield from pa.table(columns).to_batches()

        new = [types.StructField(n, getattr(types, _KINDS[k][1])()) for n, k in work.kinds.items()]
        schema = types.StructType([*(self.frame.schema[name] for name in kept), *new])
        return self._select(names).mapInArrow(turned, schema)

    def _select(self, columns: Any) -> Any:
        """Some columns, called by their positions: Spark reads dots in names, and mixes up A and a."""
        present = list(self.columns or ())
        return self.frame.toDF(*map(str, range(len(present)))).select(
            [str(present.index(c)) for c in columns]
        )

    def _require_votes(self, columns: Any) -> None:
        """Refuse columns by their types, before anything runs."""
        for name in columns:
            kind = self.frame.schema[name].dataType
            if kind.typeName().split("(")[0] not in _VOTE_TYPES:
                raise VotesError(
                    f"column {told(name)} has the type {kind.simpleString()}; votes are whole numbers, texts "
                    f"or booleans. {PICK}"
                )

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
    columns = tuple(data.columns)
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise VotesError(f"two columns are called {told(twice)}; rename one of them")
    return SparkParts(data, columns)


@lru_cache(maxsize=8)
def _opened(packed: bytes) -> Any:
    """What was sent to this worker, opened once for all of its tasks."""
    return pickle.loads(packed)


def _gathered(batches: Iterator[Any], names: list[str]) -> Iterator[tuple[str, Any]]:
    """Tables of many rows each with these names, and where they stand, in words."""
    import pyarrow as pa
    from pyspark import TaskContext

    partition = f"partition {TaskContext.get().partitionId()}"
    held: list[Any] = []
    first = rows = 0

    def gathered() -> tuple[str, Any]:
        where = f"{partition}, from its row {first} on" if first else partition
        return where, pa.Table.from_batches(held).rename_columns(names)

    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield gathered()
            first, held, rows = first + rows, [], 0
    if rows:
        yield gathered()
