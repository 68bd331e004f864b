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
from flyingsquid._values import can_be_iterated, format_count, format_value, is_null
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, OptionError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.codes import ABSTAIN, Label, read_array, read_names, require_same
from flyingsquid.votes.encode import Convention
from flyingsquid.votes.longform import declared_names
from flyingsquid.votes.votes import Votes

# For callers without options for reading votes.
_ADVICE = "Pass Votes.from_classes(...) to declare classes, or values that mean no vote"
_TABLE_ADVICE = "Pass Votes.from_frame(...) to declare classes, or values that mean no vote"


def as_votes(
    data: Any,
    classes: tuple[Label, ...] | None = None,
    tasks: tuple[int, int] | None = None,
    *,
    names: tuple[str, ...] | None = None,
    check: bool = True,
) -> Votes:
    """Return Votes unchanged, tables read by ``from_frame``, and other data read by ``from_classes``.

    Parameters
    ----------
    classes : tuple of K labels, optional
        Classes of an earlier fit: other values raise an error. Votes keep their own classes.
    tasks : tuple of two ints, optional
        (D, s), if an array of shape (n, D, s) means D tasks with s sources each, which become columns task by
        task.
    names : tuple of str, optional
        Sources of an earlier fit. A table may have other columns, too, if these do not look like votes.
    check : bool
        Whether to warn if the votes favor another convention.
    """
    if isinstance(data, Votes):
        if not data.codes.shape[0]:
            raise VotesError(
                "`votes` must have at least one item; got 0 items x "
                f"{format_count(data.n_sources, 'source')}."
            )
        return data
    if type(data) is np.ndarray and data.ndim == 2 and data.dtype.kind == "i":
        votes = Votes._from_codes(data, classes)
        if votes is not None:
            if check:
                votes._warn_if_misread()
            return votes
    if classes is not None and ABSTAIN in classes:
        raise VotesError(
            "`votes` must be Votes.from_signed(...), because the model was fitted on signed votes (-1, +1, "
            "and 0 for no vote)."
        )
    if not isinstance(data, np.ndarray):
        _refuse_other_types(data)
        if frames.is_table(data):
            columns = frames.columns_among(data, names)
            convention = Convention.declared(classes, advice=_TABLE_ADVICE)
            return Votes._from_table(data, columns, None, convention, check=check)
    convention = Convention(classes=classes, advice=_ADVICE)
    return Votes._from_matrix(_flatten_tasks(data, tasks), convention, check=check)


def _refuse_other_types(data: Any) -> None:
    """Raise an error for votes that are not in memory, or neither a matrix nor a table."""
    if on_cluster(data):
        raise VotesError(
            f"`votes` must be in memory; got a {type(data).__module__.partition('.')[0]} "
            f"{type(data).__name__}. Load them with .compute() in Dask or .toArrow() in Spark. Moments.of "
            "and fit, predict and predict_proba of LabelModel and MajorityVote also work on the cluster."
        )
    if hasattr(type(data), "__next__") or isinstance(data, VoteChunks):
        raise VotesError(
            "`votes` must be in memory; got chunks. Moments.of and fit, predict and predict_proba of "
            "LabelModel and MajorityVote support VoteChunks."
        )
    if issparse(data):
        raise VotesError("`votes` must not be sparse; use Votes.from_sparse.")
    if isinstance(data, Mapping) or frames.is_lazy(data):
        fix = "pandas.DataFrame(votes)" if isinstance(data, Mapping) else "votes.collect()"
        if frames.is_dataset(data):  # a DatasetDict, which maps splits to datasets
            fix = f"one of its splits, such as votes[{format_value(next(iter(data), 'train'))}]"
        raise VotesError(f"`votes` must be a matrix or a table; got {type(data).__name__}. Pass {fix}.")


def _flatten_tasks(data: Any, tasks: tuple[int, int] | None) -> Any:
    if getattr(data, "ndim", None) is None and _is_nested(data):
        data = read_array(data, "votes", "a rectangular array")
    if getattr(data, "ndim", 2) != 3:
        return data
    if tasks is None:
        raise VotesError(
            f"`votes` must have one row per item and one column per source, (n, m); got shape {data.shape}. "
            "Votes on several tasks, (n, D, s), need a graph, as in LabelModel(DependencyGraph.chain(D, s))."
        )
    if data.shape[1:] != tasks:
        raise VotesError(
            f"`votes` must have the shape (n, {tasks[0]}, {tasks[1]}) or (n, {tasks[0] * tasks[1]}) for a "
            f"graph with {format_count(tasks[0], 'task')} and {format_count(tasks[1], 'source')} each; got "
            f"{data.shape}."
        )
    return data.reshape(len(data), tasks[0] * tasks[1])


def _is_nested(data: Any) -> bool:
    """Return whether a list holds lists of lists."""
    for _ in range(2):
        if not isinstance(data, (list, tuple)) or not data:
            return False
        data = data[0]
    return isinstance(data, (list, tuple))


def one_row(data: Any, names: tuple[str, ...] | None) -> Any:
    """Return the votes on one item in a form that :func:`as_votes` supports.

    ``data`` may also be flat: a sequence of m votes in the order of the sources, or a mapping or pandas row
    from names to votes, which is put into the order of ``names``.
    """
    if isinstance(data, Votes) or frames.is_table(data) or issparse(data):
        return data
    by_name = dict(data) if isinstance(data, Mapping) else frames.named_row(data, names)
    if by_name is not None:
        if names is not None:
            require_same("sources", set(by_name), set(names))
        data = [by_name[name] for name in names or by_name]
    elif hasattr(data, "to_pylist"):  # pyarrow, whose NumPy conversion loses nulls
        data = data.to_pylist()
    array = read_array(data, "votes", "a sequence, one vote per source")
    if array.ndim not in (1, 2):
        raise VotesError(
            "The votes on one item must be one-dimensional, with one vote per source; got "
            f"{format_value(data) if array.ndim == 0 else f'shape {array.shape}'}."
        )
    return array[None, :] if array.ndim == 1 else data


def labels_in(data: Any) -> set[Any]:
    """Return the distinct labels in a matrix or table of raw votes; empty if it cannot be read.

    >>> sorted(labels_in([["cat", None], ["dog", "cat"]]))
    ['cat', 'dog']
    """
    if frames.is_table(data):
        values = [value for column in frames.columns_of(data) for value in column]
    else:
        try:
            array = read_array(data, "votes", "a rectangular array")
        except VotesError:  # not a matrix, which is refused when it is read
            return set()
        values = np.ma.compressed(array.ravel()).tolist()
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values if not is_null(v))
    plain = (v for v in whole if isinstance(v, (str, Real, Decimal)))
    return {value for value in plain if value != ABSTAIN or isinstance(value, bool)}


def refuse_options(**options: Any) -> None:
    """Raise an error for options that are not supported on a cluster."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(
                f"`{name}` is not supported for data on a cluster; leave it out, or load the data with "
                ".compute() in Dask or .toArrow() in Spark."
            )


# ---------------------------------------------------------------------- chunks


# Number of cells of an array that are read at a time.
_CHUNK_CELLS = 1 << 22


class VoteChunks:
    """Votes in chunks of rows, each small enough for memory.

    ``LabelModel.fit``, ``MajorityVote.fit`` and ``Moments.of`` read them once and keep counts, so that memory
    does not grow with the number of items. ``predict_proba`` and ``predict`` return one result per chunk.

    Parameters
    ----------
    chunks : iterable, function or array
        A list of chunks, or any object that returns a new iterator whenever it is iterated over; a function
        without arguments that returns an iterator; an array of shape (n, m), for example memory-mapped, which
        is read in slices of rows; or an iterator, which can be read only once. A chunk is anything that
        ``fit`` supports, or an object with such an attribute ``votes``. Chunks without rows are allowed.
    classes : sequence of K labels, optional
        Default: those of the first chunk. A later vote outside them is an error, never a new class.
    names : sequence of m str, optional
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
            raise VotesError(
                f"`chunks` must have one row per item and one column per source; got shape {chunks.shape}."
            )
        if not callable(chunks) and not hasattr(chunks, "__iter__"):
            raise VotesError(
                "`chunks` must be a list, an array, an iterable, or a function that returns an iterator; got "
                f"{type(chunks).__name__}."
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
        """True if the chunks can be read more than once; an iterator cannot."""
        return callable(self._source) or not hasattr(self._source, "__next__")

    def raw(self) -> Iterator[Any]:
        """Yield the chunks unchanged, or as ``Votes`` if classes or names were declared.

        Raises
        ------
        VotesError
            If they come from an iterator that has been read.
        """
        for number, chunk in enumerate(self._chunks()):
            inside = getattr(chunk, "votes", chunk)
            if (self.classes is None and self.names is None) or is_empty(inside):
                yield inside
            else:
                yield _read(inside, number, self.classes, self.names)

    def __iter__(self) -> Iterator[Votes]:
        """Yield the chunks as ``Votes`` of the same classes and sources; skip those without rows."""
        return (votes for _, votes in self._pairs())

    def _pairs(self) -> Iterator[tuple[Any, Votes]]:
        """Yield the chunks as they were passed, each with its ``Votes``."""
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
                    f"chunk {number}: all chunks must have the same sources; got "
                    f"{format_count(read.n_sources, 'column')} after {width}."
                )
            classes, names = read.classes, names or read.names
            yield inside, read

    def _chunks(self) -> Iterator[Any]:
        if isinstance(self._source, np.ndarray):
            return _slices(self._source)
        if not self.can_be_read_again:
            if self._is_read:
                raise VotesError(
                    "The chunks come from an iterator that has been read. Pass an object that can be read "
                    "again: a list, a memory-mapped array, or a function that returns an iterator."
                )
            self._is_read = True
        made = self._source() if callable(self._source) else self._source
        if not can_be_iterated(made):
            raise VotesError(
                f"The function `chunks` must return an iterable of chunks; got {type(made).__name__}."
            )
        return iter(made)

    def __repr__(self) -> str:
        once = "" if self.can_be_read_again else ", to be read once"
        return f"VoteChunks({type(self._source).__name__}{once})"


def as_chunks(data: Any, classes: tuple[Label, ...] | None = None) -> VoteChunks | None:
    """Return votes as VoteChunks if they are in chunks; otherwise None.

    Chunks are :class:`VoteChunks`, an iterator, or an iterable other than an array, table, list or tuple.
    ``classes`` applies to chunks that do not declare their classes.
    """
    if isinstance(data, VoteChunks):
        return data if classes is None or data.classes is not None else VoteChunks(data, classes=classes)
    if isinstance(data, (Votes, np.ndarray, list, tuple, str, bytes, memoryview, dict, set)) or issparse(
        data
    ):
        return None
    if not hasattr(data, "__iter__") or hasattr(data, "__array__") or frames.is_table(data):
        return None
    return VoteChunks(data, classes=classes)


def is_empty(chunk: Any) -> bool:
    """Return whether a chunk has no rows."""
    shape = getattr(chunk, "shape", None)
    if isinstance(shape, tuple):
        return bool(shape and shape[0] == 0)  # a zero-dimensional array has no length
    return hasattr(chunk, "__len__") and len(chunk) == 0


@contextmanager
def add_location_to_errors(where: str) -> Iterator[None]:
    """Add a location, such as a chunk, to errors."""
    try:
        yield
    except FlyingSquidError as error:
        raise type(error)(f"{where}: {error}") from error


def _slices(array: np.ndarray[Any, Any]) -> Iterator[np.ndarray[Any, Any]]:
    rows = -(-_CHUNK_CELLS // max(1, array.shape[1]))  # rounded up, so that compiled loops are used
    for start in range(0, len(array), rows):
        yield array[start : start + rows]


def _read(chunk: Any, number: int, classes: tuple[Label, ...] | None, names: tuple[str, ...] | None) -> Votes:
    """Return one chunk as votes of the given classes and names."""
    with add_location_to_errors(f"chunk {number}"):
        votes = as_votes(chunk, classes, check=number == 0)
        if names is not None and votes.n_sources != len(names):
            raise VotesError(
                f"the number of columns must be {len(names)}, one per source ({', '.join(names[:5])}); got "
                f"{votes.n_sources}."
            )
        if names is not None and votes.names is None:
            votes = Votes(votes.codes, votes.classes, names, votes.items)
        return votes.matched_to(votes.classes if classes is None else classes, names)
