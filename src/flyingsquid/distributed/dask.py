"""Dask arrays, dataframes and lists of delayed chunks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from flyingsquid.distributed.distributed_votes import Labeling, Transform, attempt, merge
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.reading import add_location_to_errors

# Results added by one task: the sum of 10,000 chunks takes a tree of four levels.
_FAN_IN = 10


@dataclass(frozen=True, slots=True)
class DaskParts:
    """A Dask collection. ``kind`` is "array", "frame" or "chunks"."""

    data: Any
    kind: str
    columns: tuple[Any, ...] | None

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and return the sum."""
        from dask import delayed

        if self.kind == "chunks":
            pieces = list(self.data)
        else:
            data = self.data if self.kind == "array" else self.data[list(columns or ())]
            pieces = list(data.to_delayed().ravel()) if self.kind == "array" else data.to_delayed()
        shared = delayed(task, traverse=False)  # one node of the graph, sent once to every worker
        run = delayed(attempt)
        results = [run(shared, piece, f"partition {number}") for number, piece in enumerate(pieces)]
        while len(results) > 1:
            groups = (results[at : at + _FAN_IN] for at in range(0, len(results), _FAN_IN))
            results = [delayed(_total)(group) for group in groups]
        return results[0].compute()

    def label(self, labeling: Labeling) -> Any:
        """Return labels as a Dask array, a Dask dataframe or a list of delayed arrays, like the votes."""
        from dask import delayed

        if self.kind == "frame":
            return self.transform(labeling)
        shared = delayed(labeling, traverse=False)
        if self.kind == "chunks":
            return [delayed(_call)(piece, shared, (number,)) for number, piece in enumerate(self.data)]
        tail = labeling.example.shape[1:]
        return self.data.map_blocks(
            _call,
            labeling=shared,
            dtype=labeling.example.dtype,
            meta=labeling.example,
            chunks=(self.data.chunks[0], *((size,) for size in tail)),
            drop_axis=list(range(1, self.data.ndim)),
            new_axis=list(range(1, 1 + len(tail))),
        )

    def transform(self, transform: Transform) -> Any:
        """Return a Dask dataframe with the same index: the kept columns, then the new ones."""
        from dask import delayed

        used = self.columns or () if transform.columns is None else (*transform.keep, *transform.columns)
        frame = self.data[list(dict.fromkeys(used))]
        empty = _frame_of(frame._meta, transform)
        return frame.map_partitions(_frame_of, delayed(transform, traverse=False), meta=empty)


def parts_of(data: Any) -> DaskParts:
    """Return a Dask array, dataframe or list of delayed chunks as parts."""
    from dask.delayed import Delayed

    if isinstance(data, Delayed):  # it has every attribute
        data = [data]
    if isinstance(data, (list, tuple)):
        odd = next((at for at, piece in enumerate(data) if not isinstance(piece, Delayed)), None)
        if odd is not None:
            raise VotesError(
                f"Every chunk must be dask.delayed; got {type(data[odd]).__name__} for chunk {odd}."
            )
        return DaskParts(data, "chunks", None)
    n_axes = getattr(data, "ndim", None)
    if n_axes == 2 and hasattr(data, "map_partitions"):
        return DaskParts(data, "frame", tuple(data.columns))
    if n_axes in (2, 3) and hasattr(data, "map_blocks"):
        return DaskParts(data.rechunk(dict.fromkeys(range(1, n_axes), -1)), "array", None)
    raise OptionError(
        "Votes on Dask must be an array of shape (n, m), a dataframe with one column per source, or a list "
        f"of dask.delayed chunks; got a Dask {type(data).__name__}."
    )


def _total(results: list[Any]) -> Any:
    return reduce(merge, results)


def _call(chunk: Any, labeling: Labeling, block_id: tuple[int, ...] | None = None) -> Any:
    with add_location_to_errors(f"partition {(block_id or (0,))[0]}"):
        return labeling(chunk)


def _frame_of(chunk: Any, transform: Transform, partition_info: dict[str, Any] | None = None) -> Any:
    """Return the kept columns and the new ones as a pandas table with the index of the chunk."""
    import pandas as pd

    with add_location_to_errors(f"partition {(partition_info or {}).get('number', 0)}"):
        columns = transform.as_columns(chunk)
    # An empty chunk needs explicit types.
    new = pd.DataFrame(columns, index=chunk.index).astype(transform.types)
    return pd.concat([chunk[list(transform.keep)], new], axis=1)
