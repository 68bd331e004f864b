"""Are all identifiers different? By hashes, so that many millions take little memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.streams import temporary

_BUCKET = 1 << 22
"""Hashes that are sorted at a time: 32 MB."""


class DistinctIds:
    """Collect identifiers, then require that they differ.

    Integers that increase cost nothing. Otherwise a hash of 8 bytes an identifier is kept, in a temporary
    file where they are many; equal hashes are looked at once more.
    """

    def __init__(self) -> None:
        self._last: int | None = None
        self._increasing = True
        self._n = 0
        self._held = temporary(1 << 25)
        self._file = self._held.file

    def add(self, ids: Any) -> None:
        """Take in a list, an array, or an array of pyarrow."""
        n = len(ids)
        if not n:
            return
        numbers = _as_numbers(ids)
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
        """Refuse identifiers that occur twice; ``again`` gives them all once more, in blocks."""
        if self._increasing or self._n < 2:
            return
        doubtful: set[int] = set()
        for bucket in self._buckets():
            bucket.sort()
            doubtful.update(bucket[1:][bucket[1:] == bucket[:-1]][:1000].tolist())
        if not doubtful:
            return
        seen: set[Any] = set()
        row = 0
        for block in again():
            for value in block.to_pylist() if hasattr(block, "to_pylist") else block:
                plain = value.item() if isinstance(value, np.generic) else value
                if hash(plain) in doubtful or plain in doubtful:
                    if plain in seen:
                        raise VoteFileError(
                            f"row {row}: the item {told(plain)} occurs a second time; identifiers must "
                            "differ (item=False, --no-item, if they are none)"
                        )
                    seen.add(plain)
                row += 1

    def _buckets(self) -> Iterator[NDArray[np.int64]]:
        """The hashes in parts that can be sorted alone."""
        count = np.uint64(-(-self._n // _BUCKET))
        for part in range(int(count)):
            self._file.seek(0)
            found = []
            while data := self._file.read(8 * _BUCKET):
                hashes = np.frombuffer(data, np.int64)
                if count > 1:
                    # Fibonacci hashing spreads numbers that count up as well.
                    mixed = (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
                    hashes = hashes[mixed % count == part]
                found.append(hashes)
            yield np.concatenate(found)


def _as_numbers(ids: Any) -> NDArray[Any] | None:
    """Integer identifiers as an array; None if they are something else."""
    if isinstance(ids, list):
        return None
    if hasattr(ids, "to_pylist"):
        kind = str(ids.type)
        if ids.null_count or not kind.startswith(("int", "uint")) or kind == "uint64":
            return None
        return np.asarray(ids)
    array = np.asarray(ids)
    return array if array.dtype.kind in "iu" and array.dtype != np.uint64 else None
