"""Which column holds what: item identifiers, votes, known labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from flyingsquid._values import listed, told
from flyingsquid.exceptions import OptionError, VoteFileError

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

_FEWEST_IDS = 3
"""Two different values that no other column has are no sign of an identifier yet."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the user says about columns; None where nothing is said.

    Attributes
    ----------
    item : the column of identifiers, False for none
    """

    form: Form | None = None
    item: str | bool | None = None
    sources: tuple[str, ...] | None = None
    ignore: tuple[str, ...] = ()
    gold: str | None = None
    long: tuple[str, str, str] | None = None

    def __post_init__(self) -> None:
        if self.form not in (None, "wide", "long"):
            raise OptionError(f"form={told(self.form)} is unknown; 'wide' or 'long'")
        if self.form == "wide" and self.long is not None:
            raise OptionError("long= names the columns of the long form, and form='wide' asks for the other")
        if self.item is True:
            raise OptionError("item=True; name the column, or pass False for none")
        if self.long is not None and len(set(self.long)) != 3:
            raise OptionError(f"long={told(self.long)}; three columns are needed: item, source, label")


@dataclass(frozen=True, slots=True)
class Roles:
    """Names of columns by what they hold, and notes on what was assumed.

    Attributes
    ----------
    sources : the vote columns (wide form)
    source, label : the columns of sources and of votes (long form)
    """

    form: Form
    item: str | None
    sources: tuple[str, ...] = ()
    source: str | None = None
    label: str | None = None
    gold: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read."""
        extra = [c for c in (self.item, self.source, self.label, self.gold) if c is not None]
        return (*dict.fromkeys([*extra, *self.sources]),)


def assign(names: Sequence[str], wanted: Wanted, first: Sequence[Sequence[Any]] | None) -> Roles:
    """Roles of the columns ``names``; ``first`` are the first values of each, to find identifiers by."""
    require_different(names)
    present = set(names)
    for name in (*(wanted.sources or ()), *wanted.ignore, *(wanted.long or ()), wanted.gold, wanted.item):
        if isinstance(name, str) and name not in present:
            raise VoteFileError(f"there is no column {told(name)}; the columns are {listed(names)}")
    long = _long_columns(names, wanted)
    if wanted.form == "long" and long is None:
        raise VoteFileError(
            f"the columns {listed(names)} do not say which are item, source and label; "
            "pass long=(item, source, label) (--long item,source,label)"
        )
    if long is not None:
        return _long_roles(long, wanted)
    return _wide_roles(names, wanted, first)


def require_different(names: Sequence[str]) -> None:
    """Refuse two columns of one name."""
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise VoteFileError(
            f"two columns are called {told(twice[0])}; column names must differ "
            "(header=False, --no-header, if the first line holds votes)"
        )


def _long_columns(names: Sequence[str], wanted: Wanted) -> tuple[str, str, str] | None:
    if wanted.long is not None:
        return wanted.long
    if wanted.form == "wide" or wanted.sources is not None:
        return None
    found = []
    for known in (ITEM_NAMES - {""}, SOURCE_NAMES, LABEL_NAMES):
        hits = [name for name in names if name.strip().lower() in known and name not in found]
        if not hits:
            return None
        found.append(wanted.item if known == ITEM_NAMES - {""} and isinstance(wanted.item, str) else hits[0])
    return (found[0], found[1], found[2])


def _long_roles(long: tuple[str, str, str], wanted: Wanted) -> Roles:
    notes = []
    if wanted.long is None and wanted.form is None:
        notes.append(
            f"the columns {', '.join(long)} were taken as item, source and label of the long form; "
            "form='wide' (--wide) or long= (--long) says otherwise"
        )
    if wanted.gold in long:
        raise OptionError(f"gold={told(wanted.gold)} is also a column of long={','.join(long)}")
    return Roles("long", long[0], (), long[1], long[2], wanted.gold, tuple(notes))


def _wide_roles(names: Sequence[str], wanted: Wanted, first: Sequence[Sequence[Any]] | None) -> Roles:
    notes: list[str] = []
    taken = {wanted.gold, *wanted.ignore}
    item = wanted.item if isinstance(wanted.item, str) else None
    if wanted.item is None:
        item = _item_column([n for n in names if n not in taken], names, wanted, first, notes)
    if wanted.sources is not None:
        sources = wanted.sources
        for name in (item, wanted.gold):
            if name is not None and name in sources:
                raise OptionError(f"the column {told(name)} cannot be a source and something else too")
        return Roles("wide", item, sources, gold=wanted.gold, notes=tuple(notes))
    rest = [name for name in names if name not in taken and name != item]
    golden = [name for name in rest if name.strip().lower() in GOLD_NAMES]
    notes += [
        f"the column {name!r} looks like known labels and was left out; gold={name!r} (--gold {name}) "
        "uses it, sources= (--sources) takes it as votes"
        for name in golden
    ]
    sources = tuple(name for name in rest if name not in golden)
    if not sources:
        raise VoteFileError(f"no column is left for votes; the columns are {listed(names)}")
    return Roles("wide", item, sources, gold=wanted.gold, notes=tuple(notes))


def _item_column(
    candidates: list[str],
    names: Sequence[str],
    wanted: Wanted,
    first: Sequence[Sequence[Any]] | None,
    notes: list[str],
) -> str | None:
    free = [name for name in candidates if name not in (wanted.sources or ())]
    for name in free:
        if name.strip().lower() in ITEM_NAMES and (name.strip() or name == names[0]):
            notes.append(
                f"the column {name!r} was taken as the item identifier; item= (--item) says otherwise"
            )
            return name
    if not free or free[0] != names[0] or first is None or len(names) < 2 or len(first[0]) < _FEWEST_IDS:
        return None
    values = list(first[0])
    others = {
        value
        for name, column in zip(names[1:], first[1:], strict=True)
        if name in candidates
        for value in column
    }
    if len(set(values)) == len(values) and not others & set(values) and not {None, ""} & set(values):
        notes.append(
            f"the first column, {names[0]!r}, was taken as the item identifier, because its values differ "
            "and none is a vote of another column; item= (--item) says otherwise"
        )
        return names[0]
    return None
