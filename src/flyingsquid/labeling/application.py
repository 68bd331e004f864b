"""``fs.apply``: labeling functions over data, to votes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, overload

from flyingsquid._registry import cluster_of
from flyingsquid._values import is_whole, told
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.labeling.cache import Cache, open_cache
from flyingsquid.labeling.chunks import ChunkLabels, OnError, label_chunk, read_classes, read_on_error
from flyingsquid.labeling.failures import ApplyLog, warn_of_failures
from flyingsquid.labeling.functions import LabelingFunction, read_functions
from flyingsquid.labeling.intake import chunks_of, is_sized, read_chunk, read_data
from flyingsquid.labeling.progress import progress_bar
from flyingsquid.labeling.workers import label_in_processes
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.reading import refuse_options

StrPath = str | os.PathLike[str]
_MOST_PROCESSES = 4_096


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
    cache: StrPath | None = ...,
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
    cache: StrPath | None = ...,
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
    cache: StrPath | None = None,
    return_log: bool = False,
) -> Votes | tuple[Votes, ApplyLog]:
    """Ask every labeling function about every item.

    Parameters
    ----------
    lfs : list of m labeling functions
        Plain functions will do; their names become the names of the sources, and must differ.
    data : pandas, polars or pyarrow table, list, or any iterable of n items
        A row of a table and a dict are seen as a :class:`~flyingsquid.labeling.Row`, with ``x.text`` and
        ``x["text"]``. Other items are passed as they are: objects, texts, arrays. A vectorised function gets
        the whole table, or list, in one call. Of a Dask or Spark dataframe the answer is one too, of votes:
        see :func:`flyingsquid.distributed.apply`.
    progress : bool
        Show a bar on standard error.
    n_jobs : int
        Processes that share the work; -1 for one a processor. They get functions and resources once each.
        Vectorised functions stay in this process. A script needs ``if __name__ == "__main__":`` then.
    on_error : "raise" or "abstain"
        What to do when a function raises or returns what is no vote. ``"raise"``: an error that names
        function and row. ``"abstain"``: the vote is missing with the reason ``failed``, and one warning tells
        how many.
    classes : sequence of K labels, optional
        Default: 0..max for integers (at least 0 and 1), False and True for booleans, the sorted labels for
        texts. All functions must then name classes in the same way.
    chunk : int, optional
        How many items are looked at together. Each function goes through a chunk before the next one does.
    cache : path of a folder, optional
        Keeps the votes of each function, and reads them again while its code, its resources and the data stay
        the same. What it cannot see: installed packages, modules used by name, files, services.
    return_log : bool
        Return ``(votes, log)``; see :class:`~flyingsquid.labeling.ApplyLog`.

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
        refuse_options(chunk=chunk, cache=cache)
        if progress or n_jobs != 1 or return_log:
            raise OptionError(
                "progress=, n_jobs= and return_log= are for data in memory; a cluster has its own ways"
            )
        return cluster.apply(lfs, data, classes=classes, on_error=on_error)
    functions = read_functions(lfs)
    read_on_error(on_error)
    classes = read_classes(classes)
    n_jobs = _read_jobs(n_jobs)
    data = read_data(data)
    if not is_sized(data) and any(function.vectorized for function in functions):
        data = list(data)
    n_items = len(data) if is_sized(data) else None
    size = read_chunk(chunk, n_items, n_jobs, progress)
    store = open_cache(cache, functions, data)
    found = store.read()
    rest = [function for function in functions if function.name not in found]
    made = _label_all(rest, data, size, n_jobs, on_error, classes, progress) if rest else None
    labels = _in_order(functions, found, made)
    if not labels.n_items:
        raise LabelingError("the data holds no items, so there is nothing to vote on")
    votes = labels.to_votes(classes)
    log = _log(labels, found, store, made)
    warn_of_failures(log, stacklevel=2)
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
    """Votes on a stream, a chunk at a time; the data may be unbounded.

    Classes are those of the first chunk unless they are declared: a later vote outside them is an error, so
    pass ``classes=`` where it matters. A vectorised function gets one chunk at a time. A function that fails
    is warned about when it first does.

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
    read_on_error(on_error)
    classes = read_classes(classes)
    data = read_data(data)
    size, jobs = read_chunk(chunk, None, 1, False), _read_jobs(n_jobs)
    return _stream(functions, data, size, jobs, on_error, classes)


def _stream(
    functions: Sequence[LabelingFunction],
    data: Any,
    size: int,
    n_jobs: int,
    on_error: OnError,
    classes: Sequence[Label] | None,
) -> Iterator[Votes]:
    told: set[str] = set()
    for labels in _label_chunks(functions, data, size, n_jobs, on_error):
        votes = labels.to_votes(classes)
        classes = votes.classes
        log = labels.log()
        fresh = {name: failure for name, failure in log.failures.items() if name not in told}
        told |= set(fresh)
        warn_of_failures(replace(log, failures=fresh), stacklevel=2)
        yield votes


def _label_chunks(
    functions: Sequence[LabelingFunction], data: Any, size: int, n_jobs: int, on_error: OnError
) -> Iterator[ChunkLabels]:
    chunks = chunks_of(data, size)
    if n_jobs > 1:
        yield from label_in_processes(functions, chunks, n_jobs=n_jobs, on_error=on_error)
        return
    for first_row, part in chunks:
        yield label_chunk(functions, part, first_row=first_row, on_error=on_error)


def _label_all(
    functions: Sequence[LabelingFunction],
    data: Any,
    size: int,
    n_jobs: int,
    on_error: OnError,
    classes: Sequence[Label] | None,
    progress: bool,
) -> ChunkLabels:
    """Row by row in chunks; vectorised functions on everything at once, so that chunks change no vote."""
    by_row = [function for function in functions if not function.vectorized]
    at_once = [function for function in functions if function.vectorized]
    total = len(data) if is_sized(data) else None
    made: dict[str, ChunkLabels] = {}
    with progress_bar(progress, total, f"{len(functions)} labeling functions") as advance:
        for function in at_once:
            made[function.name] = label_chunk([function], data, on_error=on_error)
        parts = []
        for labels in _label_chunks(by_row, data, size, n_jobs, on_error) if by_row else ():
            if classes is not None:
                labels.classes(classes)  # a vote outside the classes stops here, not after the last chunk
            parts.append(labels)
            advance(labels.n_items)
        if not by_row:
            advance(total or 0)
    if parts:
        made |= _by_name(ChunkLabels.merge(parts))
    elif by_row:
        made |= _by_name(label_chunk(by_row, []))
    return _in_order(functions, made, None)


def _by_name(labels: ChunkLabels) -> dict[str, ChunkLabels]:
    """The labels of each function alone."""
    return {
        name: ChunkLabels((name,), (column,), (failure,))
        for name, column, failure in zip(labels.names, labels.columns, labels.failures, strict=True)
    }


def _in_order(
    functions: Sequence[LabelingFunction], found: dict[str, ChunkLabels], made: ChunkLabels | None
) -> ChunkLabels:
    """The labels of all functions, in the order of the functions."""
    single = found if made is None else {**found, **_by_name(made)}
    ordered = [single[function.name] for function in functions]
    return ChunkLabels(
        tuple(labels.names[0] for labels in ordered),
        tuple(labels.columns[0] for labels in ordered),
        tuple(labels.failures[0] for labels in ordered),
    )


def _log(
    labels: ChunkLabels, found: dict[str, ChunkLabels], store: Cache, made: ChunkLabels | None
) -> ApplyLog:
    fresh = {} if made is None else _by_name(made)
    return replace(labels.log(), cached=tuple(found), not_cached=store.write(fresh))


def _read_jobs(n_jobs: int) -> int:
    if not is_whole(n_jobs) or (n_jobs != -1 and not 1 <= n_jobs <= _MOST_PROCESSES):
        raise OptionError(
            f"n_jobs={told(n_jobs)} is no number of processes; pass 1 to {_MOST_PROCESSES:,}, or -1 for all"
        )
    return (os.cpu_count() or 1) if n_jobs == -1 else int(n_jobs)
