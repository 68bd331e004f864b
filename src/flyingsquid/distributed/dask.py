"""Dask: arrays, dataframes and delayed chunks. All of them are lists of chunks to be computed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from flyingsquid.distributed.chunks import attempt, merge
from flyingsquid.distributed.labels import Labelling, Work
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.reading import located

# So many results are added by one task: the sum of 10,000 chunks is four tasks away from each of them.
_FAN_IN = 10


@dataclass(frozen=True, slots=True)
class DaskParts:
    """A collection of Dask. ``kind`` is ``"array"``, ``"frame"`` or ``"chunks"``."""

    data: Any
    kind: str
    columns: tuple[Any, ...] | None

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and bring the sum here."""
        from dask import delayed

        if self.kind == "chunks":
            pieces = list(self.data)
        else:
            data = self.data if self.kind == "array" else self.data[list(columns or ())]
            pieces = list(data.to_delayed().ravel()) if self.kind == "array" else data.to_delayed()
        shared = delayed(task, traverse=False)  # one node of the graph, and once to every worker
        run = delayed(attempt)
        results = [run(shared, piece, f"partition {number}") for number, piece in enumerate(pieces)]
        while len(results) > 1:
            groups = (results[at : at + _FAN_IN] for at in range(0, len(results), _FAN_IN))
            results = [delayed(_total)(group) for group in groups]
        return results[0].compute()

    def label(self, labelling: Labelling) -> Any:
        """A Dask array, a Dask dataframe, or a list of delayed arrays, as the votes are."""
        from dask import delayed

        if self.kind == "frame":
            return self.transform(labelling)
        shared = delayed(labelling, traverse=False)
        if self.kind == "chunks":
            return [delayed(_call)(piece, shared, (number,)) for number, piece in enumerate(self.data)]
        tail = labelling.example.shape[1:]
        return self.data.map_blocks(
            _call,
            labelling=shared,
            dtype=labelling.example.dtype,
            meta=labelling.example,
            chunks=(self.data.chunks[0], *((size,) for size in tail)),
            drop_axis=list(range(1, self.data.ndim)),
            new_axis=list(range(1, 1 + len(tail))),
        )

    def transform(self, work: Work) -> Any:
        """A Dask dataframe with the index of this one: the kept columns, then the new ones."""
        from dask import delayed

        used = self.columns or () if work.columns is None else (*work.keep, *work.columns)
        frame = self.data[list(dict.fromkeys(used))]
        nothing = _frame_of(frame._meta, work)
        return frame.map_partitions(_frame_of, delayed(work, traverse=False), meta=nothing)


def parts_of(data: Any) -> DaskParts:
    """A Dask array, dataframe or list of delayed chunks as chunks to be computed."""
    from dask.delayed import Delayed

    if isinstance(data, Delayed):  # it would say of any attribute that it has it
        data = [data]
    if isinstance(data, (list, tuple)):
        odd = next((at for at, piece in enumerate(data) if not isinstance(piece, Delayed)), None)
        if odd is not None:
            raise VotesError(f"chunk {odd} is a {type(data[odd]).__name__}; wrap every chunk in dask.delayed")
        return DaskParts(data, "chunks", None)
    n_axes = getattr(data, "ndim", None)
    if n_axes == 2 and hasattr(data, "map_partitions"):
        return DaskParts(data, "frame", tuple(data.columns))
    if n_axes in (2, 3) and hasattr(data, "map_blocks"):
        return DaskParts(data.rechunk(dict.fromkeys(range(1, n_axes), -1)), "array", None)
    raise OptionError(
        f"a Dask {type(data).__name__} cannot be read as votes; pass an array (n, m), a dataframe with one "
        "column a source, or a list of dask.delayed chunks"
    )


def _total(results: list[Any]) -> Any:
    return reduce(merge, results)


def _call(chunk: Any, labelling: Labelling, block_id: tuple[int, ...] | None = None) -> Any:
    with located(f"partition {(block_id or (0,))[0]}"):
        return labelling(chunk)


def _frame_of(chunk: Any, work: Work, partition_info: dict[str, Any] | None = None) -> Any:
    """The kept columns and the new ones, a pandas table with the index of the chunk."""
    import pandas as pd

    with located(f"partition {(partition_info or {}).get('number', 0)}"):
        columns = work.as_columns(chunk)
    # Types are said, because a chunk without rows would not show them.
    new = pd.DataFrame(columns, index=chunk.index).astype(work.kinds)
    return pd.concat([chunk[list(work.keep)], new], axis=1)
