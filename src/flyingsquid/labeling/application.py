"""Application of labeling functions to data: ``fs.apply`` and ``apply_chunks``."""

from __future__ import annotations

import importlib
import io
import multiprocessing
import os
import pickle
import signal
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

from flyingsquid._registry import cluster_of
from flyingsquid._table import progress_bar
from flyingsquid._values import format_value, is_integer, option_error
from flyingsquid.exceptions import LabelingError
from flyingsquid.labeling.cache import open_cache
from flyingsquid.labeling.chunks import (
    ApplyLog,
    ChunkLabels,
    OnError,
    check_on_error,
    label_chunk,
    read_classes,
    warn_about_failures,
)
from flyingsquid.labeling.columns import Column
from flyingsquid.labeling.functions import (
    LabelingFunction,
    check_data,
    is_importable,
    is_sliceable,
    iter_chunks,
    read_functions,
)
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.frames import index_identifiers
from flyingsquid.votes.reading import refuse_options

_MAX_PROCESSES = 4_096
_DEFAULT_CHUNK = 10_000


@overload
def apply(
    lfs: Iterable[Any],
    data: Any,
    *,
    progress: bool = ...,
    n_jobs: int = ...,
    on_error: OnError = ...,
    classes: Sequence[Label] | None = ...,
    chunk: int | None = ...,
    cache: str | os.PathLike[str] | None = ...,
    return_log: Literal[False] = ...,
) -> Votes: ...


@overload
def apply(
    lfs: Iterable[Any],
    data: Any,
    *,
    progress: bool = ...,
    n_jobs: int = ...,
    on_error: OnError = ...,
    classes: Sequence[Label] | None = ...,
    chunk: int | None = ...,
    cache: str | os.PathLike[str] | None = ...,
    return_log: Literal[True],
) -> tuple[Votes, ApplyLog]: ...


def apply(
    lfs: Iterable[Any],
    data: Any,
    *,
    progress: bool = False,
    n_jobs: int = 1,
    on_error: OnError = "raise",
    classes: Sequence[Label] | None = None,
    chunk: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    return_log: bool = False,
) -> Votes | tuple[Votes, ApplyLog]:
    """Apply every labeling function to every item.

    Parameters
    ----------
    lfs : list of m labeling functions
        Plain functions are supported too. Their names become the names of the sources and must be unique.
    data : pandas, polars or pyarrow table, list, or any iterable of n items
        Functions receive a row of a table, or a dict, as a :class:`~flyingsquid.labeling.Row` with
        ``x.text`` and ``x["text"]``, and other items (objects, strings, arrays) unchanged. A vectorized
        function receives the whole table, or list, in one call. For a Dask or Spark dataframe, returns a
        dataframe of votes; see :func:`flyingsquid.distributed.apply`. The index of a pandas table identifies
        the items.
    progress : bool, default=False
        Whether to show a progress bar on standard error.
    n_jobs : int, default=1
        Number of processes; -1 for one per processor. Each receives functions and resources once. Vectorized
        functions run in the calling process. If it is not 1, a script needs ``if __name__ == "__main__":``.
    on_error : {"raise", "abstain"}, default="raise"
        What happens if a function raises or returns an invalid vote. ``"raise"``: an error that names the
        function and the item. ``"abstain"``: the vote is missing with the reason ``failed``, and one warning
        reports how many.
    classes : sequence of K labels, optional
        Default: 0..max for integers (at least 0 and 1), False and True for booleans, the sorted labels for
        strings. All functions must then return classes of one type.
    chunk : int, optional
        Number of items to process at a time. Each function processes a chunk before the next one does.
    cache : str or path, optional
        Directory that stores the votes of each function. They are reused as long as the code of the
        function, its resources and the data stay the same. Changes of installed packages, files and services
        are not detected.
    return_log : bool, default=False
        Whether to return ``(votes, log)``; see :class:`~flyingsquid.labeling.ApplyLog`.

    Returns
    -------
    Votes or (Votes, ApplyLog)

    Examples
    --------
    >>> import flyingsquid as fs
    >>> @fs.labeling_function
    ... def links(x):
    ...     return "spam" if "http" in x.text else fs.ABSTAIN
    >>> @fs.labeling_function(name="short")
    ... def few_words(x):
    ...     return "ham" if len(x.text.split()) < 4 else None
    >>> data = [{"text": "win http://a.example"}, {"text": "great song"}, {"text": "what a great old song"}]
    >>> votes = fs.apply([links, few_words], data)
    >>> votes
    Votes(3 items x 2 sources, classes 'ham', 'spam', 50% voted, dense int8)
    >>> votes.codes.tolist()
    [[1, 0], [-1, 0], [-1, -1]]
    """
    cluster = cluster_of(data)
    if cluster is not None:
        refuse_options(
            chunk=chunk,
            cache=cache,
            progress=progress or None,
            n_jobs=None if n_jobs == 1 else n_jobs,
            return_log=return_log or None,
        )
        return cluster.apply(lfs, data, classes=classes, on_error=on_error)
    functions = read_functions(lfs)
    classes = read_classes(classes)
    data = check_data(data)
    if not is_sliceable(data) and any(function.vectorized for function in functions):
        data = list(data)
    n_items = len(data) if is_sliceable(data) else None
    n_jobs = _read_n_jobs(n_jobs)
    options = _Options(n_jobs, _read_chunk(chunk, n_items, n_jobs, progress), on_error, classes)
    votes_cache = open_cache(cache, functions, data)
    cached = votes_cache.read()
    rest = [function for function in functions if function.name not in cached]
    with progress_bar(f"{len(rest)} labeling functions", n_items, enabled=progress and bool(rest)) as advance:
        new = _label_data(rest, data, options, advance)
    columns = {**cached, **new}
    labels = ChunkLabels({function.name: columns[function.name] for function in functions})
    if not labels.n_items:
        raise LabelingError("`data` must contain at least one item; got none.")
    votes = replace(labels.to_votes(classes), items=index_identifiers(data))
    log = ApplyLog(labels.n_items, labels.failures, tuple(cached), votes_cache.write(new))
    warn_about_failures(log.failures, stacklevel=2)
    return (votes, log) if return_log else votes


def apply_chunks(
    lfs: Iterable[Any],
    data: Any,
    *,
    chunk: int = 1_000,
    n_jobs: int = 1,
    on_error: OnError = "raise",
    classes: Sequence[Label] | None = None,
) -> Iterator[Votes]:
    """Apply labeling functions to a stream, one chunk of items at a time.

    Parameters
    ----------
    lfs : list of m labeling functions
    data : any iterable of items, or a table
        It may be infinite. A vectorized function receives one chunk at a time.
    chunk : int, default=1_000
        Number of items per chunk.
    n_jobs : int, default=1
    on_error : {"raise", "abstain"}, default="raise"
        With ``"abstain"``, a warning reports the first chunk on which a function fails.
    classes : sequence of K labels, optional
        Default: the classes of the first chunk. A later vote that is not one of them is an error, so declare
        the classes of a stream.

    Yields
    ------
    Votes

    Examples
    --------
    >>> from itertools import count
    >>> def even(x):
    ...     return x % 2
    >>> stream = apply_chunks([even], count(), chunk=3)
    >>> next(stream).codes.ravel().tolist(), next(stream).codes.ravel().tolist()
    ([0, 1, 0], [1, 0, 1])
    """
    functions = read_functions(lfs)
    classes = read_classes(classes)
    options = _Options(_read_n_jobs(n_jobs), _read_chunk(chunk, None, 1, False), on_error, classes)
    return _apply_chunks(functions, check_data(data), options)


# ---------------------------------------------------------------------- chunks


@dataclass(frozen=True, slots=True)
class _Options:
    """Options that apply to every chunk."""

    n_jobs: int
    chunk: int
    on_error: OnError
    classes: Sequence[Label] | None

    def __post_init__(self) -> None:
        check_on_error(self.on_error)


def _apply_chunks(functions: Sequence[LabelingFunction], data: Any, options: _Options) -> Iterator[Votes]:
    classes = options.classes
    warned: set[str] = set()
    for labels in _label_chunks(functions, data, options):
        votes = labels.to_votes(classes)
        classes = votes.classes
        failures = {name: failure for name, failure in labels.failures.items() if name not in warned}
        warned |= set(failures)
        warn_about_failures(failures, stacklevel=2)
        yield votes


def _label_chunks(
    functions: Sequence[LabelingFunction], data: Any, options: _Options
) -> Iterator[ChunkLabels]:
    chunks = iter_chunks(data, options.chunk)
    if options.n_jobs > 1:
        yield from _label_in_processes(functions, chunks, options)
        return
    for first_item, items in chunks:
        yield label_chunk(functions, items, first_item=first_item, on_error=options.on_error)


def _label_data(
    functions: Sequence[LabelingFunction], data: Any, options: _Options, advance: Any
) -> dict[str, Column]:
    """Return the columns of all functions; vectorized ones get all data at once."""
    vectorized = [function for function in functions if function.vectorized]
    by_item = [function for function in functions if not function.vectorized]
    columns = dict(label_chunk(vectorized, data, on_error=options.on_error).columns) if vectorized else {}
    if not by_item:
        advance(len(data) if vectorized else 0)
        return columns
    parts = []
    for labels in _label_chunks(by_item, data, options):
        if options.classes is not None:
            labels.infer_classes(
                options.classes
            )  # raises an error about a vote now, not after the last chunk
        parts.append(labels)
        advance(labels.n_items)
    return {**columns, **ChunkLabels.merge(parts or [label_chunk(by_item, [])]).columns}


def _read_chunk(chunk: int | None, n_items: int | None, n_jobs: int, progress: bool) -> int:
    if chunk is not None:
        if not is_integer(chunk) or chunk < 1:
            raise option_error("chunk", "an integer >= 1", chunk)
        return min(int(chunk), sys.maxsize)  # the most that itertools supports
    if n_items is None:
        return 1_000 if n_jobs > 1 or progress else _DEFAULT_CHUNK
    # The progress bar advances between chunks. Several chunks per process make all of them end together.
    parts = max(100 if progress else 1, 8 * n_jobs if n_jobs > 1 else 1)
    return max(1, min(_DEFAULT_CHUNK, -(-n_items // parts)))


def _read_n_jobs(n_jobs: int) -> int:
    if not is_integer(n_jobs) or (n_jobs != -1 and not 1 <= n_jobs <= _MAX_PROCESSES):
        raise option_error("n_jobs", f"an integer from 1 to {_MAX_PROCESSES:,}, or -1", n_jobs)
    return (os.cpu_count() or 1) if n_jobs == -1 else int(n_jobs)


# ---------------------------------------------------------------------- processes

# The functions of a worker process, which it keeps between chunks.
_worker_functions: tuple[LabelingFunction, ...] = ()


def _label_in_processes(
    functions: Sequence[LabelingFunction], chunks: Iterable[tuple[int, Any]], options: _Options
) -> Iterator[ChunkLabels]:
    """Label chunks in several processes, and yield the results in the order of the chunks.

    At most two chunks per process are in progress, so an infinite iterable is not read ahead.
    """
    # Not "fork": polars and BLAS have threads, and a forked copy of a process with threads may hang.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(
        options.n_jobs, context, initializer=_start_worker, initargs=(_pickle(functions),)
    )
    pending: deque[Future[ChunkLabels]] = deque()
    try:
        for first_item, items in chunks:
            pending.append(pool.submit(_label_in_worker, items, first_item, options.on_error))
            if len(pending) >= 2 * options.n_jobs:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise LabelingError(
            "a worker process ended unexpectedly. It may have run out of memory, or could not start: with "
            "n_jobs > 1 a script needs `if __name__ == '__main__':` around its main part, and functions "
            "must be importable from a file."
        ) from error
    except BaseException:
        # After an error or an interrupt the running chunks, which may take long, are not needed.
        for process in list((getattr(pool, "_processes", None) or {}).values()):
            process.terminate()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _start_worker(payload: bytes) -> None:
    # Ctrl-C reaches all processes of the group; the parent process terminates the workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _worker_functions  # noqa: PLW0603
    _worker_functions = pickle.loads(payload)


def _label_in_worker(items: Any, first_item: int, on_error: OnError) -> ChunkLabels:
    return label_chunk(_worker_functions, items, first_item=first_item, on_error=on_error)


class _Pickler(pickle.Pickler):
    """Pickle functions of a script by name, because worker processes import the script."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, LabelingFunction) and value.__module__ == "__main__":
            file = getattr(sys.modules["__main__"], "__file__", None)
            if file is not None and Path(file).is_file() and is_importable(value):
                return str(value.__qualname__)
        return NotImplemented


def _pickle(functions: Sequence[LabelingFunction]) -> bytes:
    """Return the functions as bytes for worker processes on this machine."""
    try:
        return _dump(tuple(functions))
    except Exception as error:
        try:
            return bytes(importlib.import_module("cloudpickle").dumps(tuple(functions)))
        except Exception:
            name = next((f.name for f in functions if not _can_dump(f)), functions[0].name)
            raise LabelingError(
                f"function {format_value(name)} cannot be sent to another process: {error}. Define it in a "
                "module that can be imported, install cloudpickle, or pass n_jobs=1."
            ) from error


def _dump(value: Any) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


def _can_dump(function: LabelingFunction) -> bool:
    try:
        return bool(_dump(function))
    except Exception:
        return False
