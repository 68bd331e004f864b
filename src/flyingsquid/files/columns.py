"""Assign roles to the columns of a table (item identifiers, votes, gold labels), and check identifiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, option_error, read_integer
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError
from flyingsquid.files.decoded_size import MOST_BYTES
from flyingsquid.votes.conventions import (
    find_item_column,
    find_long_columns,
    find_other_columns,
    format_distinct,
    is_free_text,
    is_gold_name,
    is_item_name,
    is_row_number,
)
from flyingsquid.votes.longform import DUPLICATES
from flyingsquid.votes.structure import JUDGE_FIELDS, SOURCE_FIELDS

Form = Literal["wide", "long"]

CHOOSE_SOURCES = Hint("sources", "to choose the vote columns")
# More distinct values than this cannot be classes; their numbers fit into 16 bits.
MOST_VALUES = (1 << 16) - 2
_NO_ITEM = Hint("item", "if no column identifies the items", False)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options of :func:`~flyingsquid.files.open_votes` that describe where the votes of a file are.

    Columns that are None are inferred.
    """

    form: Form | None = None
    item: str | bool | None = None
    sources: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    gold: str | None = None
    long: tuple[str, ...] | None = None
    header: bool | None = None
    part: str | None = None
    duplicates: str = "error"
    max_decoded_bytes: int = MOST_BYTES
    panel: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.form not in (None, "wide", "long"):
            raise option_error("form", '"wide" or "long"', self.form)
        if self.item is True:
            raise option_error("item", "a column name or False", self.item)
        for name in ("sources", "ignore"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise option_error(name, "a list of column names", value)
            object.__setattr__(self, name, None if value is None else tuple(value))
        if self.duplicates not in DUPLICATES:
            raise option_error("duplicates", f"one of {', '.join(DUPLICATES)}", self.duplicates)
        read_integer("max_decoded_bytes", self.max_decoded_bytes, 1)
        self._check_panel()
        if self.long is None:
            return
        if self.form == "wide":
            raise OptionError('`long` must be None with form="wide".', parameter="long")
        triple = tuple(self.long)
        if isinstance(self.long, str) or len(triple) != 3 or len(set(triple)) != 3:
            raise option_error("long", "three different columns: item, source and label", self.long)
        object.__setattr__(self, "long", triple)

    def _check_panel(self) -> None:
        if self.panel is None:
            return
        if self.form == "wide" or self.sources is not None:
            raise OptionError("`panel` applies only to files with one row per vote.", parameter="panel")
        fields = set(self.panel) if isinstance(self.panel, Mapping) else {self.panel}
        columns = set(self.panel.values()) if isinstance(self.panel, Mapping) else set()
        if not fields <= set(SOURCE_FIELDS) or len(columns) < len(fields):
            raise option_error(
                "panel", f"different columns for fields among {', '.join(SOURCE_FIELDS)}", self.panel
            )
        if not fields & set(JUDGE_FIELDS) and self.long is None:
            raise option_error("panel", "a mapping with a column for judge, model or prompt", self.panel)

    @property
    def is_long(self) -> bool:
        """True if the user declares one row per vote."""
        return self.form == "long" or self.long is not None or self.panel is not None

    def pick(self, names: Sequence[str]) -> list[str]:
        """Return the chosen ones among the names of all sources."""
        unknown = [name for name in (*(self.sources or ()), *self.ignore) if name not in names]
        if unknown:
            raise VoteFileError(
                f"No source is named {format_value(unknown[0])}; the sources are "
                f"{format_list(names) or 'unnamed'}."
            )
        return [n for n in (names if self.sources is None else self.sources) if n not in self.ignore]


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of columns by role, and notes on what was assumed.

    Attributes
    ----------
    sources : tuple of str
        The vote columns (wide form).
    source, label : str or None
        The columns of source names and of votes (long form).
    panel : mapping of field to column
        The columns that describe the calls of a panel of judges (long form); empty if there are none.
    """

    form: Form
    item: str | None
    sources: tuple[str, ...] = ()
    source: str | None = None
    label: str | None = None
    gold: str | None = None
    notes: tuple[Note, ...] = ()
    panel: Mapping[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        extra = [c for c in (self.item, self.source, self.label, self.gold) if c is not None]
        return (*dict.fromkeys([*extra, *self.sources, *self.panel.values()]),)


def assign_roles(names: Sequence[str], options: ReadOptions, first: Sequence[Sequence[Any]]) -> Roles:
    """Assign roles to columns; ``first`` are the first values of each, to detect identifiers."""
    require_unique_names(names)
    if not names:
        raise VoteFileError("The file contains no columns: its first rows are empty.")
    present = set(names)
    listed = (
        *(options.sources or ()), *options.ignore, *(options.long or ()), *(options.panel or {}).values()
    )  # fmt: skip
    for name in (*listed, options.gold, options.item):
        if isinstance(name, str) and name not in present:
            raise VoteFileError(
                f"No column is named {format_value(name)}; the columns are {format_list(names)}."
            )
    long, panel = options.long, dict[str, str]()
    if options.form != "wide" and options.sources is None:
        long, panel = _long_columns(names, options, dict(zip(names, first, strict=True)))
    if options.is_long and long is None:
        raise VoteFileError(
            f"The item, source and label columns cannot be inferred from their names: {format_list(names)}.",
            hints=[Hint("long", "to name the item, source and label columns")],
        )
    if long is None:
        return _wide_roles(names, options, first)
    if options.gold in long:
        raise OptionError(
            f"`gold` must not be the item, source or label column; got {format_value(options.gold)}.",
            parameter="gold",
        )
    notes: tuple[Note, ...] = ()
    if options.long is None and options.form is None and not panel:
        message = f"Columns {', '.join(long)} are read as item, source and label, one row per vote."
        hints = (Hint("form", "if each row is an item", "wide"), Hint("long", "to name other columns"))
        notes = (Note(message, hints),)
    if panel and options.panel is None:
        message = (
            f"Columns {', '.join(panel.values())} are read as those of a panel of judges, one row per "
            f"answer, with the item in column {long[0]} and the answer in column {long[2]}."
        )
        notes = (Note(message, (Hint("ignore", "to leave columns out"), Hint("panel", "to name others"))),)
    return Roles("long", long[0], (), long[1], long[2], options.gold, notes, panel)


def _long_columns(
    names: Sequence[str], options: ReadOptions, first: Mapping[str, Sequence[Any]]
) -> tuple[tuple[str, ...] | None, dict[str, str]]:
    """Return the columns of items, sources and labels, and those of a panel by field.

    A panel has a column for the judge (or its model or prompt), and at least one other column that describes
    the call. A column whose values occur with one item each, such as the prompt that is judged, describes
    items.
    """
    item, long = options.item if isinstance(options.item, str) else None, options.long
    taken = {item, options.gold, *options.ignore, *(() if long is None else (long[0], long[2]))}
    free = {name.strip().lower(): name for name in reversed(names) if name not in taken}
    panel = {key: free[key] for key in SOURCE_FIELDS if key in free}
    if options.panel is not None:
        panel = {key: options.panel[key] for key in SOURCE_FIELDS if key in options.panel}
        if long is not None and not set(panel) & set(JUDGE_FIELDS):
            panel = {"judge": long[1], **panel}
    judge = next((panel[key] for key in JUDGE_FIELDS if key in panel), None)
    found = long or find_long_columns(names, item, judge) or find_long_columns(names, item)
    if options.panel is not None or found is None or judge is None:
        return found, panel if found is not None else {}
    if long is not None and long[1] not in panel.values():
        return found, {}
    items, kept = first[found[0]], dict[str, str]()
    for key, column in panel.items():
        met = set(zip(map(str, items), map(str, first[column]), strict=True))
        if column == found[1] or len(met) > len({value for _, value in met}) or len(set(items)) == 1:
            kept[key] = column
    if "judge" in kept:
        kept.pop("prompt", None)
    if len(kept) < 2:
        return long or find_long_columns(names, item), {}
    return found, kept


def require_unique_names(names: Sequence[str]) -> None:
    """Raise VoteFileError if two columns have the same name."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise VoteFileError(
            f"Column names must be unique; {format_value(repeated[0])} occurs more than once.",
            hints=[Hint("header", "if the first line contains votes", False)],
        )


def not_votes_error(reasons: Mapping[str, str]) -> VoteFileError:
    """Return the error for columns that do not hold votes, with the reason for each."""
    found = " ".join(
        f"Column {format_value(name)} {reason} and is probably not a source."
        for name, reason in reasons.items()
    )
    what = "to leave it out" if len(reasons) == 1 else "to leave them out"
    return VoteFileError(
        found,
        hints=[
            Hint("ignore", what, list(reasons)),
            CHOOSE_SOURCES,
            Hint("long", "if each row is one vote, to name the item, source and label columns"),
        ],
    )


def _wide_roles(names: Sequence[str], options: ReadOptions, first: Sequence[Sequence[Any]]) -> Roles:
    taken = {options.gold, *options.ignore}
    item = options.item if isinstance(options.item, str) else None
    notes: list[Note] = []
    if options.item is None:
        candidates = [name for name in names if name not in taken]
        item, recognized_by = find_item_column(names, candidates, first, options.sources or ())
        if item is not None:
            values = "because its values differ and none of them is a vote of another column"
            reason = "" if recognized_by == "name" else f", {values}"
            message = f"Column {format_value(item)} is read as the item identifier{reason}."
            notes.append(Note(message, (Hint("item", "to choose another column"),)))
    by_name = dict(zip(names, first, strict=True))
    # Not without a gold column: pandas writes its index as a column without a name.
    gold = () if options.gold is None else by_name.get(options.gold, ())
    labels, rows = set(gold) - {None, ""}, len(first[0])
    if is_free_text(len(labels), rows):
        raise VoteFileError(
            f"Column {format_value(options.gold)} {format_distinct(len(labels), rows)} and is probably not "
            "the gold labels.",
            hints=[Hint("gold", "to name their column")],
        )
    if options.sources is not None:
        for name in (item, options.gold):
            if name is not None and name in options.sources:
                raise OptionError(
                    f"`sources` must not contain the item or gold column; got {format_value(name)}.",
                    parameter="sources",
                )
        return Roles("wide", item, options.sources, gold=options.gold, notes=tuple(notes))
    rest = [name for name in names if name not in taken and name != item]
    for name in [name for name in rest if is_row_number(name, names, options.item if item is None else item)]:
        rest.remove(name)
        notes.append(
            Note(f"Column {format_value(name)} numbers the rows and is not read.", (CHOOSE_SOURCES,))
        )
    golden = [name for name in rest if is_gold_name(name)]
    notes += [_gold_note("Column", name, Hint("sources", "to read it as votes")) for name in golden]
    sources = tuple(name for name in rest if name not in golden)
    if not sources:
        raise VoteFileError(
            f"No vote columns are left; the columns are {format_list(names)}.", hints=[CHOOSE_SOURCES]
        )
    distinct = [set(by_name[name]) for name in sources]
    other = find_other_columns(distinct, len(first[0]))
    if other:
        raise not_votes_error({sources[j]: reason for j, reason in other.items()})
    return Roles("wide", item, sources, gold=options.gold, notes=tuple(notes))


def nested_roles(columns: Sequence[str], fields: Sequence[str], options: ReadOptions) -> Roles:
    """Assign roles to records whose votes are ``columns`` of one field; items and gold labels are others."""
    if options.is_long:
        raise VoteFileError("The long form is not supported for records with a field 'votes'.")
    item = options.item
    if item is None:
        item = next((name for name in fields if is_item_name(name)), None)
    item = item if isinstance(item, str) else None
    for name in (item, options.gold):
        if name is not None and name not in fields:
            raise VoteFileError(
                f"No field is named {format_value(name)}; the fields are {format_list(fields)}."
            )
    golden = [name for name in fields if is_gold_name(name) and name not in (options.gold, item)]
    sources = options.sources or tuple(name for name in columns if name not in options.ignore)
    if not sources:
        raise VoteFileError("The field 'votes' contains no votes.")
    notes = tuple(_gold_note("Field", name) for name in golden)
    return Roles("wide", item, sources, gold=options.gold, notes=notes)


def _gold_note(what: str, name: str, *hints: Hint) -> Note:
    return Note(
        f"{what} {format_value(name)} looks like gold labels and is not read.",
        (Hint("gold", "to use it as gold labels", name), *hints),
    )


def choose_split(splits: Sequence[str], part: str | None) -> tuple[str, tuple[Note, ...]]:
    """Return the split ``part``, by default "train" or the only one, and a note if there are others."""
    chosen = part or ("train" if "train" in splits else splits[0] if len(splits) == 1 else None)
    if chosen is None or chosen not in splits:
        raise VoteFileError(
            f"The splits are {', '.join(splits)}.", hints=[Hint("part", "to choose one of them")]
        )
    others = [split for split in splits if split != chosen]
    if part is not None or not others:
        return chosen, ()
    hint = Hint("part", f"to read {' or '.join(others)} instead")
    return chosen, (Note(f"The split {format_value(chosen)} was read.", (hint,)),)


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
    return VoteFileError(
        f"Row {row} has no item identifier. If all of it is blank, remove it.", hints=[_NO_ITEM]
    )


def require_distinct(read: Callable[[], Iterable[Any]]) -> None:
    """Raise VoteFileError for a repeated identifier.

    ``read`` returns all identifiers in blocks: lists, NumPy arrays or pyarrow arrays. Unless they are
    increasing integers, it is called again, and 16 bytes per identifier are needed.
    """
    if _are_increasing(read()):
        return
    hashes = np.concatenate([_hashes(block) for block in read()])
    hashes.sort()
    suspects = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
    if not suspects:
        return
    seen: set[Any] = set()
    values = (value for block in read() for value in list_of_values(block))
    for row, value in enumerate(values):
        if hash(value) in suspects or value in suspects:
            if value in seen:
                raise VoteFileError(
                    f"Item identifiers must be unique; {format_value(value)} occurs again in row "
                    f"{row + 1:,} of the items.",
                    hints=[_NO_ITEM],
                )
            seen.add(value)


def list_of_values(values: Any) -> list[Any]:
    """Return a column of any type as a list of Python values."""
    if isinstance(values, list):
        return values
    if hasattr(values, "to_pylist"):
        return list(values.to_pylist())
    return list(np.asarray(values, None if isinstance(values, np.ndarray) else object).tolist())


def _are_increasing(blocks: Iterable[Any]) -> bool:
    last: int | None = None
    for block in blocks:
        numbers = _as_integers(block)
        if numbers is None or (numbers[1:] <= numbers[:-1]).any():
            return False
        if len(numbers):
            if last is not None and int(numbers[0]) <= last:
                return False
            last = int(numbers[-1])
    return True


def _hashes(ids: Any) -> NDArray[np.int64]:
    numbers = _as_integers(ids)
    if numbers is None:
        return np.fromiter(map(hash, list_of_values(ids)), np.int64, len(ids))
    return numbers.astype(np.int64, copy=False)


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
