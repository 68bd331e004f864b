"""Items of the studio: the columns of a table, with the kind of each column."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, is_null, option_error
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files.inputs import detect_format, located, open_input
from flyingsquid.files.tables import DelimitedTable
from flyingsquid.files.vote_files import iterate_records, read_records
from flyingsquid.votes.conventions import MISSING_TEXTS, is_item_name

Kind = Literal["text", "number", "vote"]
# A column of votes has few distinct values, which are short and repeat.
_MOST_CLASSES, _LONGEST_CLASS, _LEAST_REPEATS = 50, 40, 3
# Rows that decide the kind of a column; numbers are checked on all rows when they are read.
_SEEN = 20_000


@dataclass(frozen=True, eq=False)
class Items:
    """Table of items, stored by column."""

    name: str  # name of the file
    columns: dict[str, list[Any]]  # values of each column; strings for csv files
    kinds: dict[str, Kind]  # of each column
    # The column that is shown and searched, and the column of identifiers.
    text: str | None
    id: str | None
    # Embeddings of the items, with rows of length 1; shape (n, d).
    features: NDArray[np.float32] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str | None) -> list[Any]:
        """Return the values of a column; None is the text column."""
        chosen = self.text if name is None else name
        if chosen is None or chosen not in self.columns:
            present = format_list(list(self.columns))
            raise option_error("column", f"one of {present}", chosen)
        return self.columns[chosen]

    def identifier(self, item: int) -> str:
        """Return the identifier of an item: the value of its column, or its position."""
        return str(item) if self.id is None else as_text(self.columns[self.id][item])

    @cached_property
    def _lowercase(self) -> dict[str, list[str]]:
        return {}

    def search(self, text: str) -> NDArray[np.intp]:
        """Return the positions of items whose text contains ``text``, ignoring case."""
        if self.text is None:
            return np.arange(0)
        if self.text not in self._lowercase:
            self._lowercase[self.text] = [as_text(value).lower() for value in self.columns[self.text]]
        wanted = text.lower()
        found = (i for i, value in enumerate(self._lowercase[self.text]) if wanted in value)
        return np.fromiter(found, np.intp)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers; NaN for blank values and for those that are not numbers."""
        if name not in self._numbers:
            self._numbers[name] = np.array([parse_number(value) for value in self.column(name)], np.float64)
        return self._numbers[name]

    @cached_property
    def _numbers(self) -> dict[str, NDArray[np.float64]]:
        return {}

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a vote column, sorted, without blank ones."""
        distinct = {as_text(value) for value in self.column(name)}
        return sorted(value for value in distinct if not is_blank(value))


def as_text(value: Any) -> str:
    """Return a cell as a string; the empty string for a missing one."""
    if isinstance(value, str):
        return value
    return "" if is_null(value) else str(value)


def is_blank(value: str) -> bool:
    """Return whether a cell stands for a missing value."""
    return value.strip().lower() in MISSING_TEXTS


def parse_number(value: Any) -> float:
    """Return a cell as a number; NaN if it is blank or not a number.

    >>> parse_number(" 3.5"), parse_number(2), parse_number("")
    (3.5, 2.0, nan)
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def read_items(
    path: str | os.PathLike[str],
    *,
    text: str | None = None,
    id: str | None = None,
    features: Any = None,
) -> Items:
    """Read items from csv, tsv, JSON, parquet, arrow or a text file with one item per line.

    Parameters
    ----------
    path : str or path
    text, id : str, optional
        The text column and the column of identifiers. Default: guessed from names and values.
    features : array of shape (n, d), optional
        Embeddings of the items, for rules by similarity.
    """
    source = open_input(path)
    with located(source.shown):
        columns = _read_columns(source)
        if not columns or not len(next(iter(columns.values()))):
            raise VoteFileError("The file contains no items.")
    for option, name in (("text", text), ("id", id)):
        if name is not None and name not in columns:
            raise option_error(option, f"one of {format_list(list(columns))}", name)
    if id is None:
        id = next((name for name in columns if is_item_name(name)), None)
    kinds = {name: _kind_of(values) for name, values in columns.items()}
    if id is not None:
        kinds[id] = "text"
    if text is None:
        text = _find_text(columns, kinds, id)
    return Items(os.path.basename(source.shown), columns, kinds, text, id, _unit_rows(features, columns))


def _read_columns(source: Any) -> dict[str, list[Any]]:
    if source.shown.lower().endswith(".txt"):
        return {"text": read_records(source.path)}
    found = detect_format(source)
    if found in ("csv", "tsv"):
        columns: dict[str, list[Any]] = {}
        for block in DelimitedTable(source, found, header=True).row_blocks():
            for name, values in block.columns.items():
                columns.setdefault(name, []).extend(values)
        return columns
    records = list(iterate_records(source))
    names: dict[str, None] = {}
    for record in records:
        names |= dict.fromkeys(record)
    return {str(name): [record.get(name) for record in records] for name in names}


def _kind_of(values: list[Any]) -> Kind:
    step = max(1, len(values) // _SEEN)
    seen = [as_text(value) for value in values[::step]]
    present = [value for value in seen if not is_blank(value)]
    distinct = set(present)
    few = 0 < len(distinct) <= min(_MOST_CLASSES, len(present) // _LEAST_REPEATS)
    short = all(len(value) <= _LONGEST_CLASS and "\n" not in value for value in distinct)
    numeric = bool(present) and not np.isnan([parse_number(value) for value in present]).any()
    # Small integers may be classes; other numbers are measurements.
    if (
        few
        and short
        and (not numeric or (len(distinct) <= 10 and all(v.strip().isdigit() for v in distinct)))
    ):
        return "vote"
    return "number" if numeric else "text"


def _find_text(columns: dict[str, list[Any]], kinds: dict[str, Kind], id: str | None) -> str | None:
    """Return the column named "text", or the one with the longest values."""
    texts = [name for name, kind in kinds.items() if kind == "text" and name != id]
    if not texts:
        return None
    for name in texts:
        if name.strip().lower() == "text":
            return name
    return max(texts, key=lambda name: sum(len(as_text(value)) for value in columns[name][:1_000]))


def _unit_rows(features: Any, columns: dict[str, list[Any]]) -> NDArray[np.float32] | None:
    if features is None:
        return None
    array = np.asarray(features, np.float32)
    n = len(next(iter(columns.values())))
    if array.ndim != 2 or len(array) != n:
        raise OptionError(
            f"`features` must have the shape ({n}, d); got {array.shape}.", parameter="features"
        )
    lengths = np.sqrt((array**2).sum(axis=1, keepdims=True))
    return np.asarray(array / np.where(lengths > 0, lengths, 1))
