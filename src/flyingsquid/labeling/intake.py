"""What a user passes as data, in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np

from flyingsquid._values import can_be_iterated, is_whole, told
from flyingsquid.exceptions import LabelingError, OptionError, VotesError
from flyingsquid.labeling.chunks import sliced
from flyingsquid.labeling.rows import open_table
from flyingsquid.votes.frames import is_frame, is_lazy

DEFAULT_CHUNK = 10_000


def is_sized(data: Any) -> bool:
    """Whether data can be sliced, and so be looked at twice; of anything else the items pass by once.

    Only kinds whose slices are known to hold items: a slice of another container may be a dict of columns.
    """
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    known = isinstance(data, (list, tuple, range))
    return known or is_frame(data) or bool(nw.dependencies.is_into_series(data))


def read_data(data: Any) -> Any:
    """The data, checked: what has no items, or holds them in a way that would be misread, is refused."""
    if is_frame(data) or is_lazy(data):
        open_table(data)
    elif isinstance(data, (str, bytes)):
        raise LabelingError("data is one text; pass a list of texts, or a table")
    elif isinstance(data, Mapping):
        raise LabelingError("data is a dict; pass a list of dicts, one an item, or a table")
    elif nw.dependencies.is_dask_dataframe(data) or type(data).__module__.startswith("pyspark."):
        raise LabelingError(
            f"data is a {type(data).__name__} on a cluster; fs.apply labels dataframes of Dask and Spark "
            "where they are, or collect it first"
        )
    elif hasattr(data, "to_pylist"):  # a column of pyarrow, whose own items are not Python's
        return data.to_pylist()
    elif not _has_items(data):
        raise LabelingError(
            f"data of type {type(data).__name__} has no items; pass a table or a list of items"
        )
    return data


def _has_items(data: Any) -> bool:
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    return isinstance(data, Iterable) or hasattr(data, "__getitem__")


def read_chunk(chunk: int | None, n_items: int | None, n_jobs: int, progress: bool) -> int:
    """How many items are labelled at a time."""
    if chunk is not None:
        if not is_whole(chunk) or chunk < 1:
            raise OptionError(f"chunk={told(chunk)} is no number of items; pass an integer of at least 1")
        return int(chunk)
    if n_items is None:
        return 1_000 if n_jobs > 1 or progress else DEFAULT_CHUNK
    # A bar moves, and an interrupt is seen, between chunks; workers end at about the same time.
    parts = max(100 if progress else 1, 8 * n_jobs if n_jobs > 1 else 1)
    return max(1, min(DEFAULT_CHUNK, -(-n_items // parts)))


def chunks_of(data: Any, chunk: int) -> Iterator[tuple[int, Any]]:
    """Consecutive parts of the data, each with the row that it begins at."""
    if is_sized(data):
        for start in range(0, len(data), chunk):
            yield start, sliced(data, start, start + chunk)
        return
    if not can_be_iterated(data):
        raise VotesError(
            f"data of type {type(data).__name__} has no items to label; pass a table, an array or a list"
        )
    remaining, start = iter(data), 0
    while part := list(islice(remaining, chunk)):
        yield start, part
        start += len(part)
