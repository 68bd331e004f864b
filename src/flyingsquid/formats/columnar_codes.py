"""Columns of pyarrow to codes, each type in its own way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.coding import Coding
from flyingsquid.formats.matrices import encoded, is_plain
from flyingsquid.formats.streams import need_pyarrow
from flyingsquid.votes.states import ABSTAIN


class ArrowCoder:
    """Codes of arrays as ``coding`` has them; tables for values of one byte are kept."""

    def __init__(self, coding: Coding) -> None:
        self._coding = coding
        self._types = need_pyarrow("columns").types
        self._tables: dict[str, NDArray[Any]] = {}

    def codes(self, array: Any) -> NDArray[Any]:
        """Codes of an array, shape (n,); ``UNKNOWN`` of ``coding.py`` where a value has none."""
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
        # "Nothing" stands last in the table, where -1 leads.
        index = np.asarray(indices.cast("int32").fill_null(-1) if indices.null_count else indices)
        try:
            return np.take(table, index)
        except IndexError as error:
            raise VoteFileError("an entry of a dictionary does not exist; the file is damaged") from error

    def _integers(self, array: Any) -> NDArray[Any]:
        nulls = None
        if array.null_count and array.type.bit_width == 8 and array.buffers()[0] is not None:
            # Straight from memory, because this is most of the time that a large file takes; what stands in
            # the place of a null gets a code too, and loses it.
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
        """Codes of values of one byte; the values themselves, and no copy, where each is its own code."""
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
