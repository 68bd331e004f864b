"""Encode, decode and write arrays of pyarrow; read ahead and write behind on a thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files.coding import Coding
from flyingsquid.files.inputs import need_pyarrow
from flyingsquid.files.matrices import encoded, is_plain
from flyingsquid.files.outputs import arrow_sink
from flyingsquid.kernels import n_threads
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import ABSTAIN, Label

META = b"flyingsquid"
"""The key of our metadata in the schema of a columnar file."""
T = TypeVar("T")
_END = object()


class ArrowCoder:
    """Encode pyarrow arrays; lookup tables for values of one byte are kept."""

    def __init__(self, coding: Coding) -> None:
        self._coding = coding
        self._types = need_pyarrow("Reading columns").types
        self._tables: dict[str, NDArray[Any]] = {}

    def codes(self, array: Any) -> NDArray[Any]:
        """Encode an array of shape (n,); ``coding.UNKNOWN`` where a value has no code."""
        types, kind = self._types, array.type
        if types.is_null(kind):
            return np.full(len(array), ABSTAIN, np.int16)
        if types.is_integer(kind):
            return self._integers(array)
        if types.is_boolean(kind):
            array = array.cast("int8").fill_null(2)
            return np.take(self._coding.table([False, True]), np.asarray(array))
        if types.is_floating(kind):
            return self._floats(array)
        if not types.is_dictionary(kind):
            array = array.dictionary_encode()
        table = self._coding.table(array.dictionary.to_pylist()).astype(self._coding.dtype)
        indices = array.indices
        # The code of "nothing" is last in the table, at index -1.
        index = np.asarray(indices.cast("int32").fill_null(-1) if indices.null_count else indices)
        try:
            return np.take(table, index)
        except IndexError as error:
            raise VoteFileError("The file is damaged: an index points outside its dictionary.") from error

    def _integers(self, array: Any) -> NDArray[Any]:
        nulls = None
        if array.null_count and array.type.bit_width == 8 and array.buffers()[0] is not None:
            # Directly from memory, because this dominates the time of a large file. Nulls get a code too,
            # which is replaced below.
            bits, bytes_ = (np.frombuffer(part, np.uint8) for part in array.buffers())
            here = slice(array.offset, array.offset + len(array))
            values = bytes_[here].view(str(array.type))
            valid = np.unpackbits(bits, count=here.stop, bitorder="little")[here]
        else:
            valid = None
            nulls = np.asarray(array.is_null()) if array.null_count else None
            values = np.asarray(array.fill_null(0) if nulls is not None else array)
        if values.dtype.itemsize == 1:
            codes = self._octets(values)
            if valid is not None:
                # All bits set is -1, "no vote".
                codes = codes | (valid.view(np.int8) - np.int8(1))
        else:
            codes = encoded(values, self._coding)
        if nulls is not None:
            codes = np.where(nulls, codes.dtype.type(ABSTAIN), codes)
        return codes

    def _octets(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode values of one byte; return the same array if each value is its own code."""
        kind = values.dtype.str
        if kind not in self._tables:
            every = np.arange(256, dtype=np.uint8).view(values.dtype).tolist()
            self._tables[kind] = self._coding.table(every)[:-1].astype(self._coding.dtype)
        table = self._tables[kind]
        if table.dtype == values.dtype and len(values):
            within = np.arange(int(values.min()), int(values.max()) + 1)
            if (table[within] == within).all():
                return values
        return np.take(table, values.view(np.uint8))

    def _floats(self, array: Any) -> NDArray[Any]:
        values = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        missing = np.isnan(values)
        known = np.where(missing, 0.0, values)
        if is_plain(self._coding) and (np.abs(known) < 1 << 15).all() and (known == np.rint(known)).all():
            codes = encoded(known.astype(np.int64), self._coding)
        else:
            codes = encoded(values, self._coding)
        codes[missing] = ABSTAIN
        return codes


class LabelColumns:
    """Decode codes to columns of labels: integers and booleans as they are, strings as dictionaries."""

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self._pyarrow = need_pyarrow("Writing columns")
        self._classes = classes
        self._texts = all(isinstance(label, str) for label in classes)
        if self._texts:
            reasons = [f"!{reason}" for reason in REASONS[1:]]
            self._dictionary = self._pyarrow.array([*classes, *reasons], "string")
        else:
            whole = all(type(label) is int for label in classes)
            table = np.array(classes)
            self._table = table.astype(np.min_scalar_type(-int(np.abs(table).max()) - 1)) if whole else table
            self._are_codes = whole and np.array_equal(table, np.arange(len(table)))

    def column(self, codes: NDArray[Any]) -> Any:
        """Return a column of labels, null where there is none."""
        if not self._texts:
            missing = codes < 0
            known = np.maximum(codes, 0)
            labels = known.astype(self._table.dtype) if self._are_codes else np.take(self._table, known)
            return self._pyarrow.array(labels, mask=missing if missing.any() else None)
        k = len(self._classes)
        small = np.int8 if k < 120 else np.int16
        # Reasons follow the classes in the dictionary: -2 at K, -3 at K + 1, ...
        index = np.where(codes < -1, k - 2 - codes.astype(np.int64), codes).astype(small)
        indices = self._pyarrow.array(index, mask=codes == -1)
        return self._pyarrow.DictionaryArray.from_arrays(indices, self._dictionary)


def id_column(ids: Any) -> Any:
    """Return identifiers as a column."""
    pyarrow = need_pyarrow("Writing columns")
    if isinstance(ids, pyarrow.Array):
        return ids
    values = list(ids) if not isinstance(ids, np.ndarray) else ids
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        values = values.tolist()
    return pyarrow.array(values)


class ColumnarFile:
    """Write tables of one schema to a file, each as a row group or record batch."""

    def __init__(self, file: BinaryIO, format: str, schema: Any, **options: Any) -> None:
        self._pyarrow = need_pyarrow(f"Writing {format}")
        self._sink = arrow_sink(file)
        if format == "parquet":
            from pyarrow.parquet import ParquetWriter  # noqa: PLC0415  # an extra

            self._writer = ParquetWriter(self._sink, schema, **options)
        else:
            self._writer = self._pyarrow.ipc.new_file(self._sink, schema)
        self.schema = schema

    def write(self, columns: list[Any]) -> None:
        """Append rows."""
        batch = self._pyarrow.RecordBatch.from_arrays(columns, schema=self.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        """Write the end of the file."""
        self._writer.close()


# ---------------------------------------------------------------------- threads


def ahead(parts: Iterator[T]) -> Iterator[T]:
    """Yield the same parts, each prepared on a thread while the previous one is used.

    pyarrow decodes without the interpreter lock, so this gains a core. With one thread, everything happens in
    turn.

    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    if n_threads() == 1:
        yield from parts
        return
    # Leaving the block, at the end or early, waits for the part that is being prepared.
    with ThreadPoolExecutor(1, "flyingsquid-ahead") as pool:
        upcoming: Future[Any] = pool.submit(next, parts, _END)
        while (part := upcoming.result()) is not _END:
            upcoming = pool.submit(next, parts, _END)
            yield part


class Behind:
    """Run calls in order on a thread, at most one of them waiting.

    An error of a call is raised by the next call, or by :meth:`finish`.

    >>> written = []
    >>> behind = Behind()
    >>> for part in "abc":
    ...     behind.call(written.append, part)
    >>> behind.finish()
    >>> written
    ['a', 'b', 'c']
    """

    def __init__(self) -> None:
        self._pool = None if n_threads() == 1 else ThreadPoolExecutor(1, "flyingsquid-behind")
        self._last: Future[Any] | None = None

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Call a function when the previous call has ended; its arguments must not change until then."""
        if self._pool is None:
            function(*arguments)
            return
        self._wait()
        self._last = self._pool.submit(function, *arguments)

    def finish(self) -> None:
        """Wait for the last call, and raise its error."""
        try:
            self._wait()
        finally:
            self.drop()

    def drop(self) -> None:
        """Wait for the last call, and ignore its error."""
        if self._pool is not None:
            self._pool.shutdown()

    def _wait(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.result()
