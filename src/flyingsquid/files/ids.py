"""Item identifiers: every item has one, and no two are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import Hint, VoteFileError
from flyingsquid.files.inputs import temporary_file

# Hashes that are sorted at a time: 32 MB.
_BUCKET = 1 << 22
_NO_ITEM = Hint("item", "if no column identifies the items", False)


def require_ids(ids: Sequence[Any], first_row: int) -> None:
    """Raise VoteFileError if an item has no identifier."""
    if set(map(type, ids)) <= {str, int} and "" not in ids:
        return
    for row, value in enumerate(ids, first_row):
        if value is None or value == "" or isinstance(value, (list, dict, float)):
            raise missing_id_error(row)


def missing_id_error(row: int) -> VoteFileError:
    """Return the error for a row without an identifier."""
    return VoteFileError(f"Row {row} has no item identifier.", hints=[_NO_ITEM])


class DistinctIds:
    """Collect identifiers, then require that they differ.

    Increasing integers cost nothing. Of others a hash of 8 bytes is kept, in a temporary file if they are
    many; identifiers with equal hashes are compared.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._increasing = True
        self._n = 0
        self._file = temporary_file(self, 1 << 25)

    def add(self, ids: Any) -> None:
        """Add a list, a NumPy array or a pyarrow array."""
        n = len(ids)
        if not n:
            return
        numbers = _as_integers(ids)
        if numbers is None:
            values = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
            numbers = np.fromiter(map(hash, values), np.int64, n)
            self._increasing = False
        elif self._increasing:
            after = self._last is None or int(numbers[0]) > self._last
            self._increasing = after and bool((numbers[1:] > numbers[:-1]).all())
            self._last = int(numbers[-1])
        self._n += n
        self._file.write(numbers.astype(np.int64, copy=False).tobytes())

    def require_distinct(self, again: Callable[[], Iterable[Any]]) -> None:
        """Raise VoteFileError for a repeated identifier; ``again`` yields all of them again, in blocks."""
        if self._increasing or self._n < 2:
            return
        suspects: set[int] = set()
        for bucket in self._buckets():
            bucket.sort()
            suspects.update(bucket[1:][bucket[1:] == bucket[:-1]][:1000].tolist())
        if not suspects:
            return
        seen: set[Any] = set()
        row = 0
        for block in again():
            for value in block.to_pylist() if hasattr(block, "to_pylist") else block:
                plain = value.item() if isinstance(value, np.generic) else value
                if hash(plain) in suspects or plain in suspects:
                    if plain in seen:
                        raise VoteFileError(
                            f"Item identifiers must be unique; {told(plain)} occurs again on row {row}.",
                            hints=[_NO_ITEM],
                        )
                    seen.add(plain)
                row += 1

    def _buckets(self) -> Iterator[NDArray[np.int64]]:
        """Yield the hashes in parts that can be sorted separately."""
        count = np.uint64(-(-self._n // _BUCKET))
        for part in range(int(count)):
            self._file.seek(0)
            found = []
            while data := self._file.read(8 * _BUCKET):
                hashes = np.frombuffer(data, np.int64)
                if count > 1:
                    # Fibonacci hashing, because consecutive integers must be spread as well.
                    mixed = (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
                    hashes = hashes[mixed % count == part]
                found.append(hashes)
            yield np.concatenate(found)


def _as_integers(ids: Any) -> NDArray[Any] | None:
    """Return integer identifiers as an array; None if they are something else."""
    if isinstance(ids, list):
        return None
    if hasattr(ids, "to_pylist"):
        kind = str(ids.type)
        if ids.null_count or not kind.startswith(("int", "uint")) or kind == "uint64":
            return None
        return np.asarray(ids)
    array = np.asarray(ids)
    return array if array.dtype.kind in "iu" and array.dtype != np.uint64 else None
