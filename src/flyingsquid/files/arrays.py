"""Read matrices of class numbers with -1 for no vote: npy, npz, sparse matrices of scipy, and WRENCH.

A file of WRENCH is ``{"id": {"label": 1, "weak_labels": [1, -1], "data": {...}}}``.
"""

from __future__ import annotations

import contextlib
import json
import math
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from scipy.sparse import load_npz

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError, VotesError
from flyingsquid.files.coding import UNKNOWN, Coding, Survey, read_labels, refuse_unknown
from flyingsquid.files.columns import MOST_VALUES, ReadOptions, Roles, choose_split, require_distinct
from flyingsquid.files.inputs import add_path_to_errors, one_line, open_input, read_json
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, Label, smallest_dtype, sparse_codes
from flyingsquid.votes.encode import in_column

MARK = "flyingsquid"
"""An array of this name marks files of ``write_votes``: codes may be reasons, and classes have labels."""
_HELPERS = {MARK, "names", "classes", "ids", "format", "shape", "data", "indices", "indptr"}
_RATIO = 100
_LONGEST_HEAD = 1 << 16
_NO_MATRIX = "The features must be one array of numbers in .npy, or one array or sparse matrix in .npz."


class MatrixVotes:
    """Votes of a file that contains a matrix.

    Parameters
    ----------
    matrix : array of shape (n, m)
        In memory, or mapped into memory.
    names : sequence of m str
        Empty if sources have only positions.
    ids, gold : sequence of n identifiers or gold labels, optional
    labels : tuple of labels, optional
        The class of each code, if the matrix contains codes.
    keeps_reasons : bool
        Whether -2, -3 and -4 are reasons for missing votes.
    """

    def __init__(
        self,
        matrix: NDArray[Any],
        names: Sequence[str] = (),
        *,
        ids: Any = None,
        gold: NDArray[Any] | None = None,
        labels: tuple[Label, ...] | None = None,
        keeps_reasons: bool = False,
    ) -> None:
        self._matrix, self._ids, self._gold = matrix, ids, gold
        self._labels, self._keeps_reasons = labels, keeps_reasons
        self.source_names = tuple(names) or None
        self.n_items, self.n_sources = matrix.shape

    def _rows(self, size: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Yield votes (r, m), and r identifiers and gold labels or None, ``size`` rows at a time."""
        for at in range(0, self.n_items, size):
            some = slice(at, at + size)
            ids, gold = (None if part is None else part[some] for part in (self._ids, self._gold))
            yield np.ascontiguousarray(self._matrix[some]), ids, gold

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
                return in_column(self.source_names)(row + int(hits[0][0]), int(hits[0][1]))
            row += len(votes)
        return None

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Yield codes (n, m), identifiers and codes of gold labels, ``rows`` at a time."""
        row = 0
        for votes, ids, gold in self._rows(rows):
            codes = self._coded(votes, coding)
            known = None if gold is None else self._coded(gold[:, None], coding)[:, 0]
            refuse_unknown(codes, known, row, votes.T, self.source_names)
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
    except (VoteFileError, VotesError, OSError, MemoryError):
        raise
    except Exception as error:  # NumPy and zipfile fail in many ways
        raise VoteFileError(
            f"The file is damaged, truncated, or contains a pickle: {one_line(error)}."
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


def read_npy(path: Path, options: ReadOptions) -> tuple[Roles, MatrixVotes]:
    """Open one matrix (n, m), mapped into memory."""
    _require_wide(options, "npy")
    for name in (options.item or None, options.sources, options.gold, options.ignore or None):
        if name is not None:
            raise VoteFileError(f"npy files have no column names; got {format_value(name)}.")
    with _raise_damaged():
        matrix = np.load(path, mmap_mode="r", allow_pickle=False)
    _require_matrix(matrix.shape, matrix.dtype, "The array")
    declared, size = matrix.offset + matrix.nbytes, path.stat().st_size
    if size != declared:
        raise VoteFileError(f"The file is damaged: the array declares {declared:,} bytes and has {size:,}.")
    return Roles("wide", None), MatrixVotes(matrix)


def read_npz(path: Path, options: ReadOptions) -> tuple[Roles, MatrixVotes | SparseVotes]:
    """Read a matrix among named arrays: ``L`` with -1 for no vote, or the arrays of a sparse matrix."""
    _require_wide(options, "npz")
    with _raise_damaged(), zipfile.ZipFile(path) as archive:
        arrays = _Arrays(archive, options.max_decoded_bytes)
        if not arrays.heads:
            raise VoteFileError("The file contains no arrays.")
        is_ours = MARK in arrays.heads
        names = _texts(arrays.load("names")) if "names" in arrays.heads else []
        labels = _labels(arrays.load("classes")) if is_ours and "classes" in arrays.heads else None
        ids = arrays.load("ids") if options.item is not False and "ids" in arrays.heads else None
        roles = Roles("wide", None if ids is None else "ids", gold=options.gold)
        if {"indptr", "indices", "data", "shape"} <= arrays.heads.keys():
            if options.gold is not None or options.sources is not None:
                raise VoteFileError("`gold` and `sources` are not supported for sparse npz files.")
            return roles, SparseVotes(arrays, names, labels, ids)
        matrix = arrays.load(arrays.matrix_key(options.part))
        gold = arrays.load(options.gold) if options.gold in arrays.heads else None
    n, m = matrix.shape
    for key, array in (("ids" if ids is not None else None, ids), (options.gold, gold)):
        if key is not None and (array is None or array.shape != (n,)):
            raise VoteFileError(
                f"The file must contain an array {format_value(key)} of "
                f"{format_count(n, 'entry', 'entries')}; it contains {format_list([*arrays.heads])}."
            )
    if names and len(names) != m:
        raise VoteFileError(
            f"The file has {format_count(len(names), 'name')} for {format_count(m, 'source')}."
        )
    if ids is not None:
        require_distinct(lambda: [ids])
    if options.sources is not None or options.ignore:
        picked = options.pick(names)
        matrix, names = matrix[:, [names.index(name) for name in picked]], picked
    return roles, MatrixVotes(matrix, names, ids=ids, gold=gold, labels=labels, keeps_reasons=is_ours)


class SparseVotes:
    """Votes of a sparse matrix of scipy, in memory: an entry is class + 1, no entry is no vote."""

    def __init__(
        self, arrays: _Arrays, names: list[str], labels: tuple[Label, ...] | None, ids: NDArray[Any] | None
    ) -> None:
        keys = ("data", "indices", "indptr", "shape", "format")
        parts = {key: arrays.load(key) for key in keys if key in arrays.heads}
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
        matrix.data = matrix.data.astype(np.int16)
        classes = labels or tuple(range(max(2, int(entries.max(initial=0)))))
        self._votes = Votes(matrix, classes, tuple(names) or None, ids)
        self.source_names, (self.n_items, self.n_sources) = self._votes.names, self._votes.shape

    def survey(self, exact: bool = False) -> Survey:  # noqa: ARG002  # always exact
        """Return the classes: those that the file declares, or 0 to the largest."""
        return Survey(self._votes.classes, classes=self._votes.classes)

    def find(self, value: Any) -> str | None:  # noqa: ARG002  # entries are no labels
        """Return None: positions of entries are not searched."""
        return None

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[Any, Any, NDArray[Any] | None]]:
        """Yield sparse codes (n, m) and identifiers, ``rows`` at a time."""
        table = np.array([0, *(coding.code_of(label) + 1 for label in self._votes.classes)], np.int16)
        for at in range(0, self.n_items, rows):
            part = self._votes[at : at + rows]
            codes: Any = part.codes
            codes.data = np.where(codes.data > 0, table[np.maximum(codes.data, 0)], codes.data)
            codes.data = codes.data.astype(smallest_dtype(len(coding.classes) + 1))
            codes.eliminate_zeros()
            yield codes, part.items, None


# ---------------------------------------------------------------------- arrays in files


class _Arrays:
    """Arrays of a zip archive, whose headers are read first.

    Attributes
    ----------
    heads : dict from str to (shape, dtype, ZipInfo)
        At most 1,000 arrays.
    """

    def __init__(self, archive: zipfile.ZipFile, limit: int) -> None:
        self._archive, self._limit = archive, limit
        self.heads: dict[str, tuple[tuple[int, ...], np.dtype[Any], zipfile.ZipInfo]] = {}
        for info in archive.infolist()[:1000]:
            if info.filename.endswith(".npy"):
                with archive.open(info) as file, warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # about headers that Python 2 wrote
                    is_first = npy_format.read_magic(file) == (1, 0)
                    read = npy_format.read_array_header_1_0 if is_first else npy_format.read_array_header_2_0
                    shape, _, dtype = read(file)
                self.heads[info.filename[:-4]] = shape, dtype, info

    def load(self, key: str) -> NDArray[Any]:
        """Read an array, unless it grows out of proportion when it is unpacked."""
        shape, dtype, info = self.heads[key]
        if dtype.hasobject:
            raise _pickle_error(key)
        n_bytes = math.prod(shape) * dtype.itemsize
        if not n_bytes <= info.file_size < n_bytes + _LONGEST_HEAD:
            raise VoteFileError(
                f"The file is truncated or damaged: {info.filename} does not have {n_bytes:,} bytes."
            )
        if n_bytes > max(self._limit, _RATIO * info.compress_size):
            raise VoteFileError(
                f"Array {format_value(key)} must not unpack to more than {_RATIO} times its size; it unpacks "
                f"from {info.compress_size:,} to {n_bytes:,} bytes.",
                hints=[Hint("max_decoded_bytes", "to raise the limit if you trust the file")],
            )
        with self._archive.open(info) as file:
            return np.asarray(npy_format.read_array(file, allow_pickle=False))

    def matrix_key(self, part: str | None) -> str:
        """Return the name of the matrix of votes."""
        if part is not None:
            key = next((k for k in (part, f"L_{part}") if k in self.heads), None)
            if key is None:
                raise VoteFileError(
                    f"No array is named {format_value(part)} or 'L_{part}'; the arrays are "
                    f"{format_list([*self.heads])}."
                )
        elif "L" in self.heads:
            key = "L"
        else:
            matrices = [k for k, head in self.heads.items() if len(head[0]) == 2 and k not in _HELPERS]
            if len(matrices) != 1:
                raise VoteFileError(
                    f"No array is named 'L', and {len(matrices)} arrays are matrices; the arrays are "
                    f"{format_list([*self.heads])}.",
                    hints=[Hint("part", "to choose one")],
                )
            key = matrices[0]
        _require_matrix(*self.heads[key][:2], f"Array {key!r}")
        return key


def _require_matrix(shape: tuple[int, ...], dtype: np.dtype[Any], what: str) -> None:
    """Raise VoteFileError unless this is a matrix of plain values."""
    if dtype.hasobject:
        raise _pickle_error(what)
    if len(shape) != 2:
        raise VoteFileError(
            f"{what} must have one row per item and one column per source; its shape is {shape}."
        )
    if 0 in shape:
        raise VoteFileError(f"{what} must not be empty; its shape is {shape}.")
    if dtype.kind not in "iufbU":
        raise VoteFileError(
            f"{what} must contain integers, floats, booleans or strings; its type is {dtype}."
        )


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


def _require_wide(options: ReadOptions, format: str) -> None:  # as in open_votes
    if options.is_long:
        raise VoteFileError(f"The long form is not supported for {format} files.")


def _pickle_error(what: str) -> VoteFileError:
    return VoteFileError(f"{what} contains Python objects (a pickle), which are never read from files.")


# ---------------------------------------------------------------------- WRENCH

WEAK, GOLD = "weak_labels", "label"
_UNKNOWN = -1


@dataclass(frozen=True, slots=True, eq=False)
class WrenchItems:
    """The items of one file.

    Attributes
    ----------
    ids : tuple of n str
    weak_labels : integer array of shape (n, m)
        Classes from 0 on, -1 for no vote.
    labels : integer array of shape (n,)
        True classes, -1 if unknown.
    data : tuple of n dicts
        The items themselves, as in the file: ``{"text": ...}`` or ``{"feature": [...]}``.
    """

    ids: tuple[str, ...]
    weak_labels: NDArray[np.int16]
    labels: NDArray[np.int16]
    data: tuple[dict[str, Any], ...]


def read_items(path: Path) -> WrenchItems:
    """Read the items of a file such as ``train.json``."""
    with add_path_to_errors(str(path)):
        return items_of(read_json(open_input(path)))


def read_class_names(path: Path) -> tuple[str, ...]:
    """Read the names of the classes 0, 1, ... from ``label.json``: ``{"0": "ham", "1": "spam"}``."""
    with add_path_to_errors(str(path)):
        document = read_json(open_input(path))
        try:
            names = {int(number): str(name) for number, name in document.items()}
        except (ValueError, AttributeError):
            names = {}
        unique = len(set(names.values())) == len(names)
        if len(names) < 2 or sorted(names) != list(range(len(names))) or not unique:
            raise VoteFileError(
                'The file must give the classes 0, 1, ... different names, as in {"0": "ham", "1": "spam"}.'
            )
        return tuple(names[k] for k in range(len(names)))


def items_of(document: Any) -> WrenchItems:
    """Read the items of a JSON document.

    >>> items_of({"a": {"label": 1, "weak_labels": [1, -1]}}).weak_labels
    array([[ 1, -1]], dtype=int16)
    """
    if not isinstance(document, dict) or not document:
        raise VoteFileError('The file must be an object of items, as in {"0": {"weak_labels": [1, -1]}}.')
    rows: list[list[int]] = []
    labels: list[int] = []
    data: list[dict[str, Any]] = []
    for key, entry in document.items():
        votes = entry.get(WEAK) if isinstance(entry, dict) else None
        if not isinstance(votes, list) or not votes:
            raise VoteFileError(f"Item {format_value(key)} has no list {format_value(WEAK)}.")
        if rows and len(votes) != len(rows[0]):
            raise VoteFileError(
                f"Item {format_value(key)} has {len(votes)} weak labels, but earlier items have "
                f"{len(rows[0])}."
            )
        for source, vote in enumerate(votes):
            _require_class(vote, f"item {format_value(key)}, source {source}")
        label = entry.get(GOLD)
        label = _UNKNOWN if label is None else label
        _require_class(label, f"item {format_value(key)}, {GOLD!r}")
        rows.append(votes)
        labels.append(label)
        content = entry.get("data", {})
        data.append(content if isinstance(content, dict) else {"data": content})
    return WrenchItems(tuple(document), np.array(rows, np.int16), np.array(labels, np.int16), tuple(data))


def _require_class(value: Any, where: str) -> None:
    if isinstance(value, list):
        raise VoteFileError(
            f"Lists of labels are not supported ({where}). For sequences of tokens, pass the votes with one "
            "row per token to SequenceLabelModel."
        )
    if type(value) is not int or not _UNKNOWN <= value < MOST_CLASSES:
        raise VoteFileError(
            f"Labels must be integers >= 0, or -1 for no vote; got {format_value(value)} ({where})."
        )


def is_wrench(document: Any) -> bool:
    """Return whether a JSON document has this format."""
    if not isinstance(document, dict) or not document:
        return False
    first = next(iter(document.values()))
    return isinstance(first, dict) and WEAK in first


def read_directory(directory: Path, options: ReadOptions) -> tuple[Roles, MatrixVotes]:
    """Read one split of a directory, with the names of classes from ``label.json``."""
    splits = [p.stem for p in sorted(directory.glob("*.json")) if p.stem not in ("label", "meta")]
    if not splits:
        raise VoteFileError(
            "The directory contains no parquet files and no train.json, valid.json or test.json."
        )
    chosen, notes = choose_split(splits, options.part)
    names = directory / "label.json"
    classes = read_class_names(names) if names.exists() else None
    path = directory / f"{chosen}.json"
    with add_path_to_errors(str(path)):
        roles, votes = read_wrench(read_json(open_input(path)), options, classes)
    return replace(roles, notes=(*roles.notes, *notes)), votes


def read_wrench(
    document: Any, options: ReadOptions, classes: tuple[Label, ...] | None = None
) -> tuple[Roles, MatrixVotes]:
    """Read all items of a document; ``classes`` are the names of 0, 1, ..."""
    if options.is_long or options.sources is not None or options.ignore:
        raise VoteFileError("WRENCH files have no source names and no long form.")
    if options.gold not in (None, GOLD):
        raise VoteFileError(
            f"WRENCH files have no field {format_value(options.gold)}.",
            hints=[Hint("gold", "to use the gold labels", GOLD)],
        )
    items = items_of(document)
    gold = items.labels if options.gold else None
    ids = None if options.item is False else list(items.ids)

    notes: tuple[Note, ...] = ()
    if not options.gold and any(GOLD in entry for entry in document.values()):
        notes = (Note("Gold labels are not read.", (Hint("gold", "to use them", GOLD),)),)
    # Identifiers need no check: keys of one object are unique.
    roles = Roles("wide", None if ids is None else "id", gold=options.gold, notes=notes)
    return roles, MatrixVotes(items.weak_labels, ids=ids, gold=gold, labels=classes)
