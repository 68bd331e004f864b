"""Assign roles to the columns of a table (item identifiers, votes, gold labels), and check identifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError
from flyingsquid.files.inputs import temporary_file
from flyingsquid.votes.conventions import (
    find_item_column,
    find_long_columns,
    find_other_columns,
    is_gold_name,
)

Form = Literal["wide", "long"]

CHOOSE_SOURCES = Hint("sources", "to choose the vote columns")
# More distinct values than this cannot be classes; their numbers fit into 16 bits.
MOST_VALUES = (1 << 16) - 2
_NO_ITEM = Hint("item", "if no column identifies the items", False)


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Columns that the user names; None for those to infer.

    Attributes
    ----------
    form : "wide" (one row per item), "long" (one row per vote) or None
    item : str, False or None
        The column of item identifiers; False if there is none.
    sources : tuple of str, or None
        The vote columns.
    ignore : tuple of str
        Columns to leave out.
    gold : str or None
        The column of gold labels.
    long : tuple of three str, or None
        The columns of items, sources and labels in long form.
    """

    form: Form | None = None
    item: str | bool | None = None
    sources: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    gold: str | None = None
    long: tuple[str, ...] | None = None

    @classmethod
    def read(
        cls,
        *,
        form: Form | None,
        item: str | bool | None,
        sources: Iterable[str] | None,
        ignore: Iterable[str],
        gold: str | None,
        long: Iterable[str] | None,
    ) -> ColumnSpec:
        """Check the options of :func:`~flyingsquid.files.open_votes`."""
        if form not in (None, "wide", "long"):
            raise OptionError(f'`form` must be "wide" or "long"; got {format_value(form)}.', parameter="form")
        if item is True:
            raise OptionError("`item` must be a column name or False; got True.", parameter="item")
        for name, value in (("sources", sources), ("ignore", ignore)):
            if isinstance(value, str):
                raise OptionError(
                    f"`{name}` must be a list of column names; got {format_value(value)}.", parameter=name
                )
        if long is not None and form == "wide":
            raise OptionError('`long` must be None with form="wide".', parameter="long")
        triple = None if long is None else tuple(long)
        if triple is not None and (isinstance(long, str) or len(triple) != 3 or len(set(triple)) != 3):
            raise OptionError(
                "`long` must name three different columns: item, source and label; got "
                f"{format_value(long)}.",
                parameter="long",
            )
        return cls(form, item, None if sources is None else tuple(sources), tuple(ignore), gold, triple)


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of columns by role, and notes on what was assumed.

    Attributes
    ----------
    sources : tuple of str
        The vote columns (wide form).
    source, label : str or None
        The columns of source names and of votes (long form).
    """

    form: Form
    item: str | None
    sources: tuple[str, ...] = ()
    source: str | None = None
    label: str | None = None
    gold: str | None = None
    notes: tuple[Note, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        extra = [c for c in (self.item, self.source, self.label, self.gold) if c is not None]
        return (*dict.fromkeys([*extra, *self.sources]),)


def assign_roles(names: Sequence[str], spec: ColumnSpec, first: Sequence[Sequence[Any]] | None) -> Roles:
    """Assign roles to columns; ``first`` are the first values of each, to detect identifiers."""
    require_unique_names(names)
    if not names:
        raise VoteFileError("The file contains no columns: its first rows are empty.")
    present = set(names)
    for name in (*(spec.sources or ()), *spec.ignore, *(spec.long or ()), spec.gold, spec.item):
        if isinstance(name, str) and name not in present:
            raise VoteFileError(
                f"No column is named {format_value(name)}; the columns are {format_list(names)}."
            )
    long = _long_columns(names, spec)
    if spec.form == "long" and long is None:
        raise VoteFileError(
            f"The item, source and label columns cannot be inferred from their names: {format_list(names)}.",
            hints=[Hint("long", "to name the item, source and label columns")],
        )
    if long is None:
        return _wide_roles(names, spec, first)
    if spec.gold in long:
        raise OptionError(
            f"`gold` must not be the item, source or label column; got {format_value(spec.gold)}.",
            parameter="gold",
        )
    notes: tuple[Note, ...] = ()
    if spec.long is None and spec.form is None:
        message = f"Columns {', '.join(long)} are read as item, source and label, one row per vote."
        hints = (Hint("form", "if each row is an item", "wide"), Hint("long", "to name other columns"))
        notes = (Note(message, hints),)
    return Roles("long", long[0], (), long[1], long[2], spec.gold, notes)


def require_unique_names(names: Sequence[str]) -> None:
    """Raise VoteFileError if two columns have the same name."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise VoteFileError(
            f"Column names must be unique; {format_value(repeated[0])} occurs more than once.",
            hints=[Hint("header", "if the first line contains votes", False)],
        )


def free_text_error(name: str, distinct: int, rows: int) -> VoteFileError:
    """Return the error for a column with too many values to be votes."""
    return VoteFileError(
        f"Column {format_value(name)} has at least {distinct:,} different values on {rows:,} rows and is "
        "probably not a source.",
        hints=[Hint("ignore", "to leave it out", [name]), CHOOSE_SOURCES],
    )


def _long_columns(names: Sequence[str], spec: ColumnSpec) -> tuple[str, ...] | None:
    if spec.long is not None:
        return spec.long
    if spec.form == "wide" or spec.sources is not None:
        return None
    return find_long_columns(names, spec.item if isinstance(spec.item, str) else None)


def _wide_roles(names: Sequence[str], spec: ColumnSpec, first: Sequence[Sequence[Any]] | None) -> Roles:
    taken = {spec.gold, *spec.ignore}
    item = spec.item if isinstance(spec.item, str) else None
    notes: list[Note] = []
    if spec.item is None:
        candidates = [name for name in names if name not in taken]
        item, recognized_by = find_item_column(names, candidates, first, spec.sources or ())
        if item is not None:
            values = "because its values differ and none of them is a vote of another column"
            reason = "" if recognized_by == "name" else f", {values}"
            message = f"Column {format_value(item)} is read as the item identifier{reason}."
            notes.append(Note(message, (Hint("item", "to choose another column"),)))
    if spec.sources is not None:
        for name in (item, spec.gold):
            if name is not None and name in spec.sources:
                raise OptionError(
                    f"`sources` must not contain the item or gold column; got {format_value(name)}.",
                    parameter="sources",
                )
        return Roles("wide", item, spec.sources, gold=spec.gold, notes=tuple(notes))
    rest = [name for name in names if name not in taken and name != item]
    golden = [name for name in rest if is_gold_name(name)]
    notes += [
        Note(
            f"Column {format_value(name)} looks like gold labels and is not read.",
            (Hint("gold", "to use it as gold labels", name), Hint("sources", "to read it as votes")),
        )
        for name in golden
    ]
    sources = tuple(name for name in rest if name not in golden)
    _require_votes(sources, names, first)
    if not sources:
        raise VoteFileError(
            f"No vote columns are left; the columns are {format_list(names)}.", hints=[CHOOSE_SOURCES]
        )
    return Roles("wide", item, sources, gold=spec.gold, notes=tuple(notes))


def _require_votes(
    sources: Sequence[str], names: Sequence[str], first: Sequence[Sequence[Any]] | None
) -> None:
    """Raise VoteFileError if the first values of a column cannot be votes."""
    if first is None:
        return
    rows, chosen = len(first[0]), set(sources)
    by_name = zip(names, first, strict=True)
    values = [set(column) - {None, ""} for name, column in by_name if name in chosen]
    for j in find_other_columns(values, rows):
        raise free_text_error(sources[j], len(values[j]), rows)


# ---------------------------------------------------------------------- identifiers


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
    """Collector of identifiers that requires them to be unique.

    Increasing integers take no memory. For others a hash of 8 bytes is kept, in a temporary file if they are
    many; identifiers with equal hashes are compared.

    Parameters
    ----------
    bucket : int
        How many hashes are sorted at a time; the default takes 32 MB.
    """

    def __init__(self, bucket: int = 1 << 22) -> None:
        self._bucket = bucket
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
                            f"Item identifiers must be unique; {format_value(plain)} occurs again in "
                            f"row {row + 1:,} of the items.",
                            hints=[_NO_ITEM],
                        )
                    seen.add(plain)
                row += 1

    def _buckets(self) -> Iterator[NDArray[np.int64]]:
        """Yield the hashes in parts that can be sorted separately."""
        count = np.uint64(-(-self._n // self._bucket))
        for part in range(int(count)):
            self._file.seek(0)
            found = []
            while data := self._file.read(8 * self._bucket):
                hashes = np.frombuffer(data, np.int64)
                if count > 1:
                    # Fibonacci hashing, because consecutive integers must be spread as well.
                    mixed = (hashes.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32)
                    hashes = hashes[mixed % count == part]
                found.append(hashes)
            yield np.concatenate(found)


def require_distinct(ids: Any) -> None:
    """Raise VoteFileError for a repeated identifier in memory."""
    distinct = DistinctIds()
    distinct.add(ids)
    distinct.require_distinct(lambda: [ids])


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
