"""Read npy and npz: matrices of class numbers with -1 for no vote, and sparse matrices of scipy."""

from __future__ import annotations

import contextlib
import json
import lzma
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from scipy.sparse import load_npz

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid.exceptions import Hint, OptionError, VoteFileError, VotesError
from flyingsquid.files.coding import UNKNOWN, Coding, Survey, first_unknown, read_labels, unknown_vote_error
from flyingsquid.files.columns import MOST_VALUES, ColumnSpec, DistinctIds, Roles
from flyingsquid.files.inputs import one_line
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, Label, sparse_codes

MARK = "flyingsquid"
"""An array of this name marks files of ``write_votes``: codes may be reasons, and classes have labels."""
Rows: TypeAlias = Callable[[int], Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]]
"""Given how many rows to read at a time: votes (n, m), and n identifiers and n gold labels or None."""
_HELPERS = {MARK, "names", "classes", "ids", "format", "shape", "data", "indices", "indptr"}
_WHOLE = 1 << 26
_BLOCK = 1 << 28
_RATIO = 100
_DAMAGE = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, lzma.LZMAError, ValueError, OverflowError,
    struct.error, KeyError, TypeError, SyntaxError,
)  # fmt: skip
_NO_MATRIX = "The features must be one array of numbers in .npy, or one array or sparse matrix in .npz."


class MatrixVotes:
    """Votes of a file that contains a matrix.

    Parameters
    ----------
    rows : callable
        Reads the file from the start, some rows at a time.
    shape : (n, m)
    names : sequence of m str
        Empty if sources have only positions.
    labels : tuple of labels, optional
        The class of each code, if the matrix contains codes.
    keeps_reasons : bool
        Whether -2, -3 and -4 are reasons for missing votes.
    """

    def __init__(
        self, rows: Rows, shape: tuple[int, int], names: Sequence[str] = (), *, has_ids: bool = False,
        labels: tuple[Label, ...] | None = None, keeps_reasons: bool = False,
    ) -> None:  # fmt: skip
        self._rows, self._labels, self._keeps_reasons = rows, labels, keeps_reasons
        self.source_names = tuple(names) or None
        self.n_items, self.n_sources = shape
        if has_ids:
            distinct = DistinctIds()
            for _, ids, _ in rows(1 << 16):
                distinct.add(ids)
            distinct.require_distinct(lambda: (ids for _, ids, _ in rows(1 << 16)))

    def survey(self, exact: bool = False) -> Survey:
        """Return the values that occur; for integers, only the extremes unless ``exact``."""
        if self._labels is not None:
            return Survey(self._labels, classes=self._labels)
        found: dict[Any, None] = {}
        extremes = False
        for votes, _, gold in self._rows(1 << 16):
            for array in (votes, gold):
                if array is None or not array.size:
                    continue
                if array.dtype.kind in "iu" and not exact:
                    extremes = True
                    found |= dict.fromkeys([int(array.min()), int(array.max())])
                else:
                    found |= dict.fromkeys(np.unique(array).tolist())
                if len(found) > MOST_VALUES:
                    raise VoteFileError(
                        f"The matrix contains more than {MOST_VALUES:,} different values, too many for votes."
                    )
        values = list(found)
        return Survey([min(values), max(values)] if extremes and values else values, extremes_only=extremes)

    def find(self, value: Any) -> str | None:
        """Describe the first position of a value among the votes; None if it does not occur."""
        row = 0
        for votes, _, _ in self._rows(1 << 16):
            hits = np.argwhere(votes == value)
            if len(hits):
                return f"row {row + int(hits[0][0])}, {self._name(int(hits[0][1]))}"
            row += len(votes)
        return None

    def _name(self, j: int) -> str:
        return f"source {self.source_names[j]!r}" if self.source_names else f"source {j}"

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Yield codes (n, m), identifiers and codes of gold labels, ``rows`` at a time."""
        row = 0
        for votes, ids, gold in self._rows(rows):
            codes = self._coded(votes, coding)
            known = None if gold is None else self._coded(gold[:, None], coding)[:, 0]
            if at := first_unknown(codes, known, row):
                raise unknown_vote_error(votes[at].item(), f"row {row + at[0]}, {self._name(at[1])}")
            yield codes.astype(coding.dtype, copy=False), ids, known
            row += len(votes)

    def _coded(self, votes: NDArray[Any], coding: Coding) -> NDArray[Any]:
        if self._labels is not None:
            return self._recoded(votes, self._labels, coding)
        return coding.encode(votes)

    def _recoded(self, votes: NDArray[Any], labels: tuple[Label, ...], coding: Coding) -> NDArray[Any]:
        lowest = -len(REASONS) if self._keeps_reasons else ABSTAIN
        if votes.dtype.kind not in "iu":
            raise VoteFileError(f"Codes must be integers; their type is {votes.dtype}.")
        outside = (votes < lowest) | (votes >= len(labels))
        missing = list(range(lowest, 0))
        table = np.array([coding.code_of(label) for label in labels] + missing, np.int16)
        return np.where(outside, UNKNOWN, table[np.where(outside, 0, votes).astype(np.intp)])


# ---------------------------------------------------------------------- npy and npz


@contextlib.contextmanager
def _raise_damaged() -> Iterator[None]:
    try:
        yield
    except (VoteFileError, VotesError):
        raise
    except _DAMAGE as error:
        raise VoteFileError(
            f"The file is damaged, truncated, or has no plain arrays: {one_line(error)}."
        ) from error


def read_matrix(path: str) -> Any:
    """Return the numbers in a file: .npy as a memory map, or the only array or sparse matrix in .npz."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if "indptr" in loaded:
                return load_npz(path).tocsr()
            if len(loaded.files) == 1:
                return loaded[loaded.files[0]]
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise OptionError(_NO_MATRIX, parameter="features", path=path) from error
    raise OptionError(_NO_MATRIX, parameter="features", path=path)


def read_npy(path: Path, spec: ColumnSpec) -> tuple[Roles, MatrixVotes]:
    """Open one matrix (n, m), mapped into memory."""
    _require_unnamed(spec)
    with _raise_damaged(), open(path, "rb") as file:
        head = _read_head(file)
        start, size = file.tell(), file.seek(0, 2)
    head.require_matrix("The array")
    if size - start != head.nbytes:
        what = "truncated" if size - start < head.nbytes else "damaged"
        raise VoteFileError(
            f"The file is {what}: the array declares {head.nbytes:,} bytes and has {size - start:,}."
        )
    with _raise_damaged():
        matrix = np.memmap(path, head.dtype, "r", start, head.shape, "F" if head.fortran else "C")

    def rows(size: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        for at in range(0, len(matrix), size):
            yield np.ascontiguousarray(matrix[at : at + size]), None, None

    return Roles("wide", None), MatrixVotes(rows, head.shape2)


def read_npz(path: Path, spec: ColumnSpec, part: str | None) -> tuple[Roles, MatrixVotes | SparseVotes]:
    """Open a matrix among named arrays: ``L`` with -1 for no vote, or the arrays of a sparse matrix."""
    _require_wide(spec, "npz")
    with _raise_damaged(), zipfile.ZipFile(path) as archive:
        heads = {}
        for info in archive.infolist()[:1000]:
            if info.filename.endswith(".npy"):
                with archive.open(info) as file:
                    heads[info.filename[:-4]] = _read_head(file, info)
        if not heads:
            raise VoteFileError("The file contains no arrays.")
        small = {key: _load(archive, heads[key], key) for key in ("names", "classes", MARK) if key in heads}
    with _raise_damaged():
        names = _texts(small["names"]) if "names" in small else []
        labels = _labels(small["classes"]) if MARK in small and "classes" in small else None
    has_ids = spec.item is not False and "ids" in heads
    roles = Roles("wide", "ids" if has_ids else None, gold=spec.gold)
    if {"indptr", "indices", "data", "shape"} <= heads.keys():
        return roles, SparseVotes(path, heads, names, labels, spec)
    key = _matrix_key(heads, part)
    n, _ = heads[key].shape2
    for other in ("ids" if has_ids else None, spec.gold):
        if other is not None and (other not in heads or heads[other].shape != (n,)):
            raise VoteFileError(
                f"The file must contain an array {format_value(other)} of "
                f"{format_count(n, 'entry', 'entries')}; it contains {format_list([*heads])}."
            )
    if names and len(names) != heads[key].shape2[1]:
        raise VoteFileError(
            f"The file has {format_count(len(names), 'name')} for "
            f"{format_count(heads[key].shape2[1], 'source')}."
        )
    keep = _picked(names, spec)

    def rows(size: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        with _raise_damaged(), zipfile.ZipFile(path) as archive:
            streams = [_blocks(archive, heads[key], key, size)]
            streams += [_blocks(archive, heads[k], k, size) for k in ("ids",) if has_ids]
            streams += [_blocks(archive, heads[k], k, size) for k in (spec.gold,) if k is not None]
            for votes, *more in zip(*streams, strict=True):
                ids = more.pop(0) if has_ids else None
                yield votes if keep is None else votes[:, keep], ids, more[0] if more else None

    chosen = names if keep is None else [names[j] for j in keep]
    shape = (n, len(chosen) or heads[key].shape2[1])
    return roles, MatrixVotes(
        rows, shape, chosen, has_ids=has_ids, labels=labels, keeps_reasons=MARK in small
    )


class SparseVotes:
    """Votes of a sparse matrix of scipy, in memory: an entry is class + 1, no entry is no vote."""

    def __init__(
        self,
        path: Path,
        heads: dict[str, _Head],
        names: list[str],
        labels: tuple[Label, ...] | None,
        spec: ColumnSpec,
    ) -> None:
        if spec.gold is not None or spec.sources is not None:
            raise VoteFileError("`gold` and `sources` are not supported for sparse npz files.")
        with _raise_damaged(), zipfile.ZipFile(path) as archive:
            keys = ("data", "indices", "indptr", "shape", "format", "ids")
            parts = {key: _load(archive, heads[key], key) for key in keys if key in heads}
            shape = tuple(int(x) for x in parts["shape"])
            kind = str(parts["format"].item()) if "format" in parts else "csr"
            kind = kind.removeprefix("b'").removesuffix("'")
            if kind != "csr" or parts["data"].dtype.kind not in "iu" or len(shape) != 2:
                raise VoteFileError(
                    f"Sparse matrices must be csr with integers; got {kind} with {parts['data'].dtype}."
                )
            matrix = sparse_codes(parts["data"], parts["indices"], parts["indptr"], shape)
        entries = matrix.data
        lowest, most = (0, MOST_CLASSES) if labels is None else (-len(REASONS), len(labels))
        if entries.size and not lowest <= int(entries.min()) <= int(entries.max()) <= most:
            raise VoteFileError("Entries of sparse matrices must be class + 1: 1, 2, ...")
        if not matrix.has_canonical_format:
            raise VoteFileError(
                "A source must vote at most once per item; the sparse matrix has repeated entries."
            )
        self.source_names = tuple(names) or None
        self.n_items, self.n_sources = shape
        self._ids = parts.get("ids") if spec.item is not False else None
        if self._ids is not None and self._ids.shape != (self.n_items,):
            raise VoteFileError(
                f"The file has {format_count(self._ids.size, 'identifier')} for "
                f"{format_count(self.n_items, 'item')}."
            )
        self._matrix = matrix
        self._labels = labels or tuple(range(max(2, int(entries.max(initial=0)))))

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """Return the classes: those that the file declares, or 0 to the largest."""
        return Survey(self._labels, classes=self._labels)

    def find(self, value: Any) -> str | None:  # noqa: ARG002  # entries are no labels
        """Return None: positions of entries are not searched."""
        return None

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Any, Any, NDArray[Any] | None]]:
        """Yield sparse codes (n, m) and identifiers, ``rows`` at a time."""
        table = np.array([coding.code_of(label) + 1 for label in self._labels], np.int16)
        codes = self._matrix.copy()
        voted = codes.data > 0
        codes.data = np.where(voted, table[np.where(voted, codes.data, 1) - 1], codes.data).astype(
            np.int16 if len(coding.classes) > 126 else np.int8
        )
        codes.eliminate_zeros()
        for at in range(0, self.n_items, rows):
            ids = None if self._ids is None else self._ids[at : at + rows]
            yield codes[at : at + rows], ids, None


# ---------------------------------------------------------------------- arrays in files


@dataclass(frozen=True, slots=True)
class _Head:
    """Header of an array, and the size of its entry in a zip archive, unpacked and packed."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    size: int | None
    packed: int

    @property
    def nbytes(self) -> int:
        count = 1
        for length in self.shape:
            count *= length
        return count * self.dtype.itemsize

    @property
    def shape2(self) -> tuple[int, int]:
        return self.shape[0], self.shape[1]

    def require_matrix(self, what: str) -> None:
        """Raise VoteFileError unless this is a matrix of plain values."""
        if self.dtype.hasobject:
            raise _pickle_error(what)
        if len(self.shape) != 2:
            raise VoteFileError(
                f"{what} must have one row per item and one column per source; its shape is {self.shape}."
            )
        if 0 in self.shape:
            raise VoteFileError(f"{what} must not be empty; its shape is {self.shape}.")
        if self.dtype.kind not in "iufbU":
            raise VoteFileError(
                f"{what} must contain integers, floats, booleans or strings; its type is {self.dtype}."
            )


def _read_head(file: Any, info: zipfile.ZipInfo | None = None) -> _Head:
    version = npy_format.read_magic(file)
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise VoteFileError(f"Unknown npy version: {version}.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about headers that Python 2 wrote
            shape, fortran, dtype = read(file)
    except Exception as error:  # NumPy passes the header to Python's tokenizer, which fails in many ways
        raise VoteFileError(f"The header of an array is damaged: {one_line(error)}.") from error
    if not all(isinstance(x, int) and x >= 0 for x in shape) or not dtype.itemsize:
        raise VoteFileError(f"The header of an array is damaged: shape {shape}, type {dtype}.")
    head = _Head(
        shape, fortran, dtype, None if info is None else info.file_size, info.compress_size if info else 0
    )
    if info is not None and not dtype.hasobject and info.file_size - file.tell() != head.nbytes:
        raise VoteFileError(
            f"The file is truncated or damaged: {info.filename} does not have {head.nbytes:,} bytes."
        )
    return head


def _load(archive: zipfile.ZipFile, head: _Head, key: str) -> NDArray[Any]:
    """Read a whole array, unless it grows out of proportion when unpacked."""
    if head.dtype.hasobject:
        raise _pickle_error(key)
    if head.nbytes > max(_WHOLE, _RATIO * head.packed):
        raise _suspicious(head, key)
    with archive.open(f"{key}.npy") as file:
        return np.asarray(npy_format.read_array(file, allow_pickle=False))


def _suspicious(head: _Head, key: str) -> VoteFileError:
    return VoteFileError(
        f"Array {format_value(key)} must not unpack to more than {_RATIO} times its size; it unpacks from "
        f"{head.packed:,} to {head.nbytes:,} bytes."
    )


def _blocks(archive: zipfile.ZipFile, head: _Head, key: str, rows: int) -> Iterator[NDArray[Any]]:
    """Yield some rows of an array at a time."""
    if head.dtype.hasobject:
        raise _pickle_error(key)
    if head.fortran and len(head.shape) > 1:
        array = _load(archive, head, key)
        for at in range(0, len(array), rows):
            yield np.ascontiguousarray(array[at : at + rows])
        return
    rest = head.shape[1:]
    width = head.nbytes // max(1, head.shape[0])
    if width * min(rows, head.shape[0]) > max(_BLOCK, _RATIO * head.packed):
        raise _suspicious(head, key)
    with archive.open(f"{key}.npy") as file:
        _read_head(file)
        for at in range(0, head.shape[0], rows):
            count = min(rows, head.shape[0] - at)
            data = _read_exactly(file, count * width)
            yield np.frombuffer(data, head.dtype).reshape(count, *rest)


def _read_exactly(file: BinaryIO | Any, size: int) -> bytes:
    data = bytes(file.read(size))
    if len(data) != size:
        raise VoteFileError("The file is truncated within an array.")
    return data


def _matrix_key(heads: dict[str, _Head], part: str | None) -> str:
    if part is not None:
        key = next((k for k in (part, f"L_{part}") if k in heads), None)
        if key is None:
            raise VoteFileError(
                f"No array is named {format_value(part)} or 'L_{part}'; the arrays are "
                f"{format_list([*heads])}."
            )
    elif "L" in heads:
        key = "L"
    else:
        matrices = [k for k, head in heads.items() if len(head.shape) == 2 and k not in _HELPERS]
        if len(matrices) != 1:
            raise VoteFileError(
                f"No array is named 'L', and {len(matrices)} arrays are matrices; the arrays are "
                f"{format_list([*heads])}.",
                hints=[Hint("part", "to choose one")],
            )
        key = matrices[0]
    heads[key].require_matrix(f"Array {key!r}")
    return key


def _texts(array: NDArray[Any]) -> list[str]:
    if array.ndim != 1 or array.dtype.kind != "U":
        raise VoteFileError("Array 'names' must be a list of strings.")
    return [str(name) for name in array.tolist()]


def _labels(array: NDArray[Any]) -> tuple[Label, ...]:
    try:
        values = json.loads(str(array.item()))
    except (ValueError, TypeError, RecursionError) as error:
        raise VoteFileError(f"Array 'classes' must be a list of labels: {one_line(error)}.") from error
    return read_labels(values)


def _picked(names: list[str], spec: ColumnSpec) -> list[int] | None:
    """Return the positions of the chosen sources; None for all."""
    if spec.sources is None and not spec.ignore:
        return None
    unknown = [name for name in (*(spec.sources or ()), *spec.ignore) if name not in names]
    if unknown:
        raise VoteFileError(
            f"No source is named {format_value(unknown[0])}; the sources are "
            f"{format_list(names) or 'unnamed'}."
        )
    chosen = spec.sources if spec.sources is not None else [n for n in names if n not in spec.ignore]
    return [names.index(name) for name in chosen]


def _require_wide(spec: ColumnSpec, format: str) -> None:  # as in open_votes
    if spec.form == "long" or spec.long is not None:
        raise VoteFileError(f"The long form is not supported for {format} files.")


def _require_unnamed(spec: ColumnSpec) -> None:
    _require_wide(spec, "npy")
    for name in (spec.item or None, spec.sources, spec.gold, spec.ignore or None):
        if name is not None:
            raise VoteFileError(f"npy files have no column names; got {format_value(name)}.")


def _pickle_error(what: str) -> VoteFileError:
    return VoteFileError(f"{what} contains Python objects (a pickle), which are never read from files.")
