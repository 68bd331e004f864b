"""Assign roles to the columns of a table: item identifiers, votes, gold labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flyingsquid._values import listed, told
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError

Form = Literal["wide", "long"]

ITEM_NAMES = frozenset({
    "id", "item", "item_id", "itemid", "task", "task_id", "taskid", "index", "example_id", "uid", "row_id",
    "unnamed: 0", "__index_level_0__", "",
})  # fmt: skip
SOURCE_NAMES = frozenset({
    "source", "source_id", "worker", "worker_id", "workerid", "annotator", "annotator_id", "rater", "judge",
    "user", "user_id", "performer", "labeler",
})  # fmt: skip
LABEL_NAMES = frozenset({"label", "vote", "answer", "response", "annotation", "class"})
GOLD_NAMES = frozenset({
    "gold", "gold_label", "label", "y", "truth", "true_label", "ground_truth", "groundtruth", "target",
    "y_true",
})  # fmt: skip

CHOOSE_SOURCES = Hint("sources", "to choose the vote columns")
# A column with more distinct values than this, on most of its rows, is free text rather than votes.
MOST_DISTINCT = 100
# With fewer rows, values that differ from each other and from all votes are no evidence of an identifier.
_MIN_ROWS = 3


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Columns as the user names them; None where the user leaves the choice open.

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
            raise OptionError(f'`form` must be "wide" or "long"; got {told(form)}.', parameter="form")
        if item is True:
            raise OptionError("`item` must be a column name or False; got True.", parameter="item")
        for name, value in (("sources", sources), ("ignore", ignore)):
            if isinstance(value, str):
                raise OptionError(
                    f"`{name}` must be a list of column names; got {told(value)}.", parameter=name
                )
        if long is not None and form == "wide":
            raise OptionError('`long` must be None with form="wide".', parameter="long")
        triple = None if long is None else tuple(long)
        if triple is not None and (isinstance(long, str) or len(triple) != 3 or len(set(triple)) != 3):
            raise OptionError(
                f"`long` must name three different columns: item, source and label; got {told(long)}.",
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
    present = set(names)
    for name in (*(spec.sources or ()), *spec.ignore, *(spec.long or ()), spec.gold, spec.item):
        if isinstance(name, str) and name not in present:
            raise VoteFileError(f"No column is named {told(name)}; the columns are {listed(names)}.")
    long = _long_columns(names, spec)
    if spec.form == "long" and long is None:
        raise VoteFileError(
            f"The item, source and label columns cannot be told from their names: {listed(names)}.",
            hints=[Hint("long", "to name the item, source and label columns")],
        )
    if long is None:
        return _wide_roles(names, spec, first)
    if spec.gold in long:
        raise OptionError(
            f"`gold` must not be the item, source or label column; got {told(spec.gold)}.", parameter="gold"
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
            f"Column names must be unique; {told(repeated[0])} occurs more than once.",
            hints=[Hint("header", "if the first line contains votes", False)],
        )


def free_text_error(name: str, distinct: int, rows: int) -> VoteFileError:
    """Return the error for a column with too many values to be votes."""
    return VoteFileError(
        f"Column {told(name)} has at least {distinct:,} different values on {rows:,} rows and is probably "
        "not a source.",
        hints=[Hint("ignore", "to leave it out", [name]), CHOOSE_SOURCES],
    )


def _long_columns(names: Sequence[str], spec: ColumnSpec) -> tuple[str, ...] | None:
    if spec.long is not None:
        return spec.long
    if spec.form == "wide" or spec.sources is not None:
        return None
    found: list[str] = []
    for known in (ITEM_NAMES - {""}, SOURCE_NAMES, LABEL_NAMES):
        hits = [name for name in names if name.strip().lower() in known and name not in found]
        if not hits:
            return None
        found.append(spec.item if not found and isinstance(spec.item, str) else hits[0])
    return tuple(found)


def _wide_roles(names: Sequence[str], spec: ColumnSpec, first: Sequence[Sequence[Any]] | None) -> Roles:
    taken = {spec.gold, *spec.ignore}
    item = spec.item if isinstance(spec.item, str) else None
    notes: list[Note] = []
    if spec.item is None:
        item, reason = _item_column([n for n in names if n not in taken], names, spec, first)
        if item is not None:
            message = f"Column {told(item)} is read as the item identifier{reason}."
            notes.append(Note(message, (Hint("item", "to choose another column"),)))
    if spec.sources is not None:
        for name in (item, spec.gold):
            if name is not None and name in spec.sources:
                raise OptionError(
                    f"`sources` must not contain the item or gold column; got {told(name)}.",
                    parameter="sources",
                )
        return Roles("wide", item, spec.sources, gold=spec.gold, notes=tuple(notes))
    rest = [name for name in names if name not in taken and name != item]
    golden = [name for name in rest if name.strip().lower() in GOLD_NAMES]
    notes += [
        Note(
            f"Column {told(name)} looks like gold labels and is not read.",
            (Hint("gold", "to use it as gold labels", name), Hint("sources", "to read it as votes")),
        )
        for name in golden
    ]
    sources = tuple(name for name in rest if name not in golden)
    if not sources:
        raise VoteFileError(
            f"No vote columns are left; the columns are {listed(names)}.", hints=[CHOOSE_SOURCES]
        )
    return Roles("wide", item, sources, gold=spec.gold, notes=tuple(notes))


def _item_column(
    candidates: list[str], names: Sequence[str], spec: ColumnSpec, first: Sequence[Sequence[Any]] | None
) -> tuple[str | None, str]:
    """Return the column of identifiers, or None, and the reason unless it is the name."""
    free = [name for name in candidates if name not in (spec.sources or ())]
    for name in free:
        if name.strip().lower() in ITEM_NAMES and (name.strip() or name == names[0]):
            return name, ""
    if not free or free[0] != names[0] or first is None or len(names) < 2 or len(first[0]) < _MIN_ROWS:
        return None, ""
    values = set(first[0])
    others = {
        value
        for name, column in zip(names[1:], first[1:], strict=True)
        if name in candidates
        for value in column
    }
    if len(values) == len(first[0]) and not (others | {None, ""}) & values:
        return names[0], ", because its values differ and none of them is a vote of another column"
    return None, ""
