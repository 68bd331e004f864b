"""Votes as users pass them: arrays, tables, Votes or chunks that do not fit into memory at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse

from flyingsquid._registry import on_cluster
from flyingsquid._values import can_be_iterated, is_null
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, OptionError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.codes import ABSTAIN, Label, read_names, require_same
from flyingsquid.votes.encode import Convention, undo_text_coercion
from flyingsquid.votes.longform import declared_names
from flyingsquid.votes.votes import Votes


def as_votes(
    data: Any, classes: tuple[Label, ...] | None = None, tasks: tuple[int, int] | None = None
) -> Votes:
    """Votes as they are; a table through ``from_frame``; anything else through ``from_classes``.

    ``classes`` are the ones already known, from an earlier fit: a raw value outside them is
    an error. Votes that were built by name keep their own. ``tasks`` is (D, s) where an array (n, D, s)
    is D tasks with s sources each, which become columns, task by task.
    """
    if isinstance(data, Votes):
        if not data.n_items:
            raise VotesError(f"votes are empty: 0 items x {data.n_sources} sources")
        return data
    if not isinstance(data, np.ndarray) and on_cluster(data):
        raise VotesError(
            f"votes in a {type(data).__module__.partition('.')[0]} {type(data).__name__} stay on their "
            "cluster, and this needs them in memory; fs.Moments.of, fit, predict and predict_proba of "
            "LabelModel and MajorityVote take them there. Bring them here by .compute() in Dask, "
            ".toArrow() in Spark"
        )
    if hasattr(type(data), "__next__") or type(data).__name__ == "VoteChunks":
        raise VotesError(
            "votes in chunks are read by fit, predict and predict_proba of LabelModel and MajorityVote, and "
            "by Moments.of; here votes are needed that fit into memory"
        )
    if classes is not None and ABSTAIN in classes:
        raise VotesError(
            "the model was fitted on signed votes (-1, 0 for no vote, +1), which a plain array "
            "cannot say; pass Votes.from_signed(...)"
        )
    if not isinstance(data, np.ndarray) and frames.is_frame(data):  # asking takes longer than reading a chunk
        return Votes.from_frame(data, classes=classes)
    return Votes.from_classes(_flatten_tasks(data, tasks), classes=classes)


def _flatten_tasks(data: Any, tasks: tuple[int, int] | None) -> Any:
    if getattr(data, "ndim", None) is None and _is_nested(data):
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise VotesError(f"votes are no array of items, tasks and sources: {error}") from error
    if getattr(data, "ndim", 2) != 3:
        return data
    if tasks is None:
        raise VotesError(
            f"votes have shape {data.shape}; one row an item and one column a source, (n, m). Votes on "
            "several tasks, (n, D, s), need a graph that says so, as LabelModel(DependencyGraph.chain(D, s))"
        )
    if data.shape[1:] != tasks:
        raise VotesError(
            f"votes have shape {data.shape}; the graph has {tasks[0]} tasks with {tasks[1]} sources each, so "
            f"(n, {tasks[0]}, {tasks[1]}) or (n, {tasks[0] * tasks[1]})"
        )
    return data.reshape(len(data), tasks[0] * tasks[1])


def _is_nested(data: Any) -> bool:
    """Whether a list holds lists of lists."""
    for _ in range(2):
        if not isinstance(data, (list, tuple)) or not data:
            return False
        data = data[0]
    return isinstance(data, (list, tuple))


def one_row(data: Any, names: tuple[str, ...] | None) -> Any:
    """The votes on one item in a form that :func:`as_votes` takes.

    ``data`` is that already, or flat: a sequence of m votes in the order of the sources, or a mapping
    or pandas row from names to votes, which is put into the order of ``names``.
    """
    if isinstance(data, Votes) or frames.is_frame(data) or issparse(data):
        return data
    by_name = dict(data) if isinstance(data, Mapping) else frames.named_row(data, names)
    if by_name is not None:
        if names is not None:
            require_same("sources", set(by_name), set(names))
        data = [by_name[name] for name in names or by_name]
    elif hasattr(data, "to_pylist"):  # pyarrow; its NumPy conversion loses nulls
        data = data.to_pylist()
    try:
        array = np.asanyarray(data)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"the votes on one item are one flat row: {error}") from error
    if array.ndim not in (1, 2):
        raise VotesError(
            f"the votes on one item are needed, one for each source, not {type(data).__name__} of "
            f"{array.ndim} dimensions"
        )
    return undo_text_coercion(data, array)[None, :] if array.ndim == 1 else data


def labels_in(data: Any) -> set[Any]:
    """The different labels in a matrix or table of raw votes, without what means "no vote", or nothing.

    >>> sorted(labels_in([["cat", None], ["dog", "cat"]]))
    ['cat', 'dog']
    """
    if frames.is_frame(data):
        values = [value for column in frames.columns_of(data) for value in column]
    else:
        try:
            array = undo_text_coercion(data, np.ma.asanyarray(data))
        except Exception:  # no matrix at all, as those who want one will say
            return set()
        values = np.ma.compressed(array.ravel()).tolist()
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values if not is_null(v))
    plain = (v for v in whole if isinstance(v, (str, Real, Decimal)))
    return {value for value in plain if value != ABSTAIN or isinstance(value, bool)}


def refuse_options(**options: Any) -> None:
    """Refuse options that cannot be honoured on a cluster."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(
                f"{name}= belongs to data in memory, and this is on a cluster; leave it out, or bring the "
                "data here by .compute() in Dask, .toArrow() in Spark"
            )


# ---------------------------------------------------------------------- chunks


# Rows of an array are read so many cells at a time.
_CHUNK_CELLS = 1 << 22


class VoteChunks:
    """Votes in chunks of rows, each small enough for memory.

    ``LabelModel.fit``, ``MajorityVote.fit`` and ``Moments.of`` read them once and keep counts, so that memory
    does not grow with the number of items; ``predict_proba`` and ``predict`` answer chunk by chunk.

    Parameters
    ----------
    chunks : iterable, function or array
        A list of chunks, or any object that gives a fresh iterator whenever it is iterated over; a function
        without arguments that makes one; an array of shape (n, m), memory-mapped for one, which is read in
        slices of rows; or an iterator, which can be read once only. A chunk is whatever ``fit`` takes, or an
        object whose attribute ``votes`` is that. Chunks without rows are allowed.
    classes : sequence of K labels, optional
        Default: those of the first chunk. A later vote outside them is an error, never a new class.
    names : sequence of m texts, optional
        Names of the sources. Default: those of the first chunk. Named columns are matched by name.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = np.tile(np.array([[1, 1, 0], [0, 0, 0], [1, -1, 1]], np.int8), (400, 1))
    >>> chunks = fs.VoteChunks([votes[:500], votes[500:]], classes=[0, 1])
    >>> fs.Moments.of(chunks) == fs.Moments.of(votes)
    True
    >>> [part.shape for part in fs.MajorityVote().fit(chunks).predict_proba(chunks)]
    [(500, 2), (700, 2)]
    """

    def __init__(
        self,
        chunks: Iterable[Any] | Callable[[], Iterator[Any]] | Any,
        *,
        classes: Sequence[Label] | None = None,
        names: Iterable[str] | None = None,
    ) -> None:
        if isinstance(chunks, VoteChunks):
            classes = chunks.classes if classes is None else classes
            names = chunks.names if names is None else names
            chunks = chunks._source
        if isinstance(chunks, np.ndarray) and chunks.ndim != 2:
            raise VotesError(f"votes have shape {chunks.shape}; one row an item and one column a source")
        if not callable(chunks) and not hasattr(chunks, "__iter__"):
            raise VotesError(
                f"{type(chunks).__name__} is no source of chunks; pass a list, an array, something that can "
                "be iterated over, or a function that makes an iterator"
            )
        self._source: Any = chunks
        self._is_read = False
        self.classes: tuple[Label, ...] | None = (
            None if classes is None else Convention.declared(classes).classes
        )
        listed = None if names is None else declared_names(names)
        self.names: tuple[str, ...] | None = None if listed is None else read_names(listed, len(listed))

    @property
    def can_be_read_again(self) -> bool:
        """Whether this is more than one iterator, which is used up by reading it."""
        return callable(self._source) or not hasattr(self._source, "__next__")

    def raw(self) -> Iterator[Any]:
        """The chunks as they come; as ``Votes`` where classes or names were declared.

        Raises
        ------
        VotesError
            If they come from an iterator that was read before.
        """
        for number, chunk in enumerate(self._chunks()):
            inside = getattr(chunk, "votes", chunk)
            if (self.classes is None and self.names is None) or is_empty(inside):
                yield inside
            else:
                yield _read(inside, number, self.classes, self.names)

    def __iter__(self) -> Iterator[Votes]:
        """The chunks as ``Votes`` of the same classes and sources; those without rows are left out."""
        classes, names = self.classes, self.names
        width = None if names is None else len(names)
        for number, chunk in enumerate(self._chunks()):
            inside = getattr(chunk, "votes", chunk)
            if is_empty(inside):
                continue
            read = _read(inside, number, classes, names)
            width = width or read.n_sources
            if read.n_sources != width:
                raise IncompatibleError(
                    f"chunk {number}: {read.n_sources} columns, and the chunks before have {width}; the "
                    "sources are the same in all chunks"
                )
            classes, names = read.classes, names or read.names
            yield read

    def _chunks(self) -> Iterator[Any]:
        if isinstance(self._source, np.ndarray):
            return _slices(self._source)
        if not self.can_be_read_again:
            if self._is_read:
                raise VotesError(
                    "these chunks come from an iterator, which can be read only once, and it was. Pass "
                    "something that can be read again: a list, a memory-mapped array, or a function that "
                    "makes an iterator"
                )
            self._is_read = True
        made = self._source() if callable(self._source) else self._source
        if not can_be_iterated(made):
            raise VotesError(
                f"the function that makes the chunks answered {type(made).__name__}, which cannot be "
                "iterated over; let it yield chunks, or return a list of them"
            )
        return iter(made)

    def __repr__(self) -> str:
        once = "" if self.can_be_read_again else ", to be read once"
        return f"VoteChunks({type(self._source).__name__}{once})"


def as_chunks(data: Any, classes: tuple[Label, ...] | None = None) -> VoteChunks | None:
    """What a user passes as votes, if it comes in chunks; otherwise None.

    Chunks are :class:`VoteChunks`, an iterator, or an object that can be iterated over and is no array,
    table, list or tuple. ``classes`` are those of chunks that declare none.
    """
    if isinstance(data, VoteChunks):
        return data if classes is None or data.classes is not None else VoteChunks(data, classes=classes)
    if isinstance(data, (Votes, np.ndarray, list, tuple, str, bytes, memoryview, dict, set)) or issparse(
        data
    ):
        return None
    if not hasattr(data, "__iter__") or hasattr(data, "__array__") or frames.is_frame(data):
        return None
    return VoteChunks(data, classes=classes)


def is_empty(chunk: Any) -> bool:
    """Whether a chunk has no rows."""
    shape = getattr(chunk, "shape", None)
    if isinstance(shape, tuple):
        return bool(shape and shape[0] == 0)  # a number as an array has no length
    return hasattr(chunk, "__len__") and len(chunk) == 0


@contextmanager
def located(where: str) -> Iterator[None]:
    """Say in errors where, in which chunk for one, they happened."""
    try:
        yield
    except FlyingSquidError as error:
        raise type(error)(f"{where}: {error}") from error


def _slices(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    rows = -(-_CHUNK_CELLS // max(1, array.shape[1]))  # rounded up: enough for compiled loops
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def _read(chunk: Any, number: int, classes: tuple[Label, ...] | None, names: tuple[str, ...] | None) -> Votes:
    """One chunk as votes of the given classes and names."""
    with located(f"chunk {number}"):
        votes = as_votes(chunk, classes)
        if names is not None and votes.n_sources != len(names):
            raise VotesError(
                f"{votes.n_sources} columns; the sources are {len(names)}: {', '.join(names[:5])}"
            )
        if names is not None and votes.names is None:
            votes = Votes(votes.codes, votes.classes, names, votes.items)
        return votes.matched_to(votes.classes if classes is None else classes, names)
