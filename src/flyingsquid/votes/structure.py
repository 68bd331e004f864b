"""Structure of sources: columns that are answers of one judge, in different orders or repeated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from string import Formatter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import (
    can_be_iterated,
    format_count,
    format_list,
    format_value,
    is_integer,
    is_null,
    plain_value,
)
from flyingsquid.exceptions import VotesError

Level: TypeAlias = str | int | None
# Fields that distinguish answers of one judge; at the end of a pattern, they are optional.
_REPLICATES = ("order", "repeat")


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Description of one source: its judge, and how the judge was asked.

    Sources with the same ``judge`` are answers of one judge, not independent votes.

    Attributes
    ----------
    judge : str
        Name of the judge. If omitted, it is composed of ``model`` and ``prompt``.
    order : str, int or None
        Order of presentation, such as "as given" and "swapped".
    repeat : str, int or None
        Number of the call, if the same question was asked several times.
    prompt : str or None
    model : str or None
        The underlying model. Judges with the same model form a family.

    Examples
    --------
    >>> SourceInfo("gpt-4", order="swapped")
    SourceInfo(judge='gpt-4', order='swapped', repeat=None, prompt=None, model=None)
    >>> SourceInfo(model="gpt-4", prompt="terse").judge
    'gpt-4/terse'
    """

    judge: str = ""
    order: Level = None
    repeat: Level = None
    prompt: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        for name in ("judge", "prompt", "model"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (value is None and name != "judge")):
                raise VotesError(f"`{name}` must be a str; got {format_value(value)}.")
        for name in _REPLICATES:
            object.__setattr__(self, name, _read_level(name, getattr(self, name)))
        if not self.judge:
            parts = [part for part in (self.model, self.prompt) if part]
            if not parts:
                raise VotesError("At least one of `judge`, `model` and `prompt` must be given.")
            object.__setattr__(self, "judge", "/".join(parts))

    @property
    def name(self) -> str:
        """Name of the source: the judge, followed by the order and the repeat if given."""
        order = "" if self.order is None else f"|{self.order}"
        return self.judge + order + ("" if self.repeat is None else f"@{self.repeat}")


SOURCE_FIELDS = tuple(field.name for field in fields(SourceInfo))
JUDGE_FIELDS = ("judge", "model", "prompt")
"""Fields that name the judge; one of them is enough."""


def _read_level(name: str, value: Any) -> Level:
    """Return a plain string or integer; False and True become 0 and 1."""
    if is_null(value):
        return None
    plain = plain_value(value)
    if isinstance(plain, (bool, int)) or (isinstance(plain, float) and plain.is_integer()):
        return int(plain)  # pandas stores integers next to missing values as floats
    if isinstance(plain, str):
        return plain
    raise VotesError(f"`{name}` must be a str, an integer or None; got {format_value(value)}.")


def read_calls(names: Sequence[str], calls: Sequence[tuple[Any, ...]]) -> tuple[SourceInfo, ...]:
    """Return the sources of distinct calls, cells of a table for the fields ``names``; blank cells are None.

    If a judge has several models, the model is a part of its name.

    >>> for source in read_calls(["judge", "model", "order"], [("terse", "a", 0), ("terse", "b", "")]):
    ...     print(source.name)
    a/terse|0
    b/terse
    """
    given = [
        {name: value for name, value in zip(names, call, strict=True) if not is_null(value) and value != ""}
        for call in calls
    ]
    models: dict[str, set[str]] = {}
    for call in given:
        call.update({name: str(plain_value(call[name])) for name in JUDGE_FIELDS if name in call})
        models.setdefault(call.get("judge", ""), set()).add(call.get("model", ""))
    for call in given:
        if "judge" in call and len(models[call["judge"]]) > 1:
            call["judge"] = "/".join(part for part in (call.get("model"), call["judge"]) if part)
    return tuple(SourceInfo(**call) for call in given)


# ---------------------------------------------------------------------- groups of sources


@dataclass(frozen=True)
class Structure:
    """Structure of all sources of a vote matrix. Immutable, compared by value.

    Attributes
    ----------
    sources : tuple of m SourceInfo
    """

    sources: tuple[SourceInfo, ...]

    def __len__(self) -> int:
        return len(self.sources)

    def __iter__(self) -> Iterator[SourceInfo]:
        return iter(self.sources)

    def __getitem__(self, source: int) -> SourceInfo:
        return self.sources[source]

    @cached_property
    def judges(self) -> tuple[str, ...]:
        """The J judges, in the order in which they first occur."""
        return tuple(dict.fromkeys(source.judge for source in self.sources))

    @cached_property
    def judge_of(self) -> NDArray[np.intp]:
        """Position of the judge of each source, shape (m,)."""
        at = {judge: number for number, judge in enumerate(self.judges)}
        return np.array([at[source.judge] for source in self.sources], np.intp)

    @cached_property
    def orders(self) -> tuple[Level, ...]:
        """Distinct orders of presentation, by first occurrence; None for sources without one."""
        return tuple(dict.fromkeys(source.order for source in self.sources))

    @property
    def has_replicates(self) -> bool:
        """True if a judge has several sources."""
        return len(self.judges) < len(self.sources)

    def pairs(self, *, swapped: bool) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return pairs of sources of the same judge: in different orders, or repeats in one order.

        Within a pair, the source whose order occurs first in the structure comes first. Sources of different
        orders are paired only if their repeats are equal.
        """
        rank = {order: number for number, order in enumerate(self.orders)}
        members: dict[str, list[int]] = {}
        for at, source in enumerate(self.sources):
            members.setdefault(source.judge, []).append(at)
        found = []
        for columns in members.values():
            for a, b in ((a, b) for i, a in enumerate(columns) for b in columns[i + 1 :]):
                one, other = self.sources[a], self.sources[b]
                if (one.order != other.order) != swapped or (swapped and one.repeat != other.repeat):
                    continue
                found.append((a, b) if rank[one.order] <= rank[other.order] else (b, a))
        both = np.array(found, np.intp).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def families(self) -> NDArray[np.intp]:
        """Return the family of each judge, shape (J,); a judge without a model forms its own family."""
        model: dict[str, str] = {}
        for source in self.sources:
            if source.model is not None:
                model.setdefault(source.judge, source.model)
        # Tuples, because a judge without a model may be named like the model of another one.
        keys = [("model", model[judge]) if judge in model else ("judge", judge) for judge in self.judges]
        at = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        return np.array([at[key] for key in keys], np.intp)

    def of_sources(self, columns: Sequence[int]) -> Structure:
        """Return the structure of some sources."""
        return Structure(tuple(self.sources[j] for j in columns))

    def with_sources(self, own: Sequence[str], names: Sequence[str]) -> Structure:
        """Return the structure with the sources ``names``; those not in ``own`` are separate judges."""
        known = dict(zip(own, self.sources, strict=True))
        return Structure(tuple(known.get(name) or SourceInfo(name) for name in names))


# ---------------------------------------------------------------------- reading


def read_structure(layout: Any, names: tuple[str, ...] | None, n_sources: int) -> Structure | None:
    """Read a pattern of names, or a sequence with one SourceInfo, or name of a judge, per source.

    See ``Votes.with_structure``.
    """
    if layout is None:
        return None
    if isinstance(layout, Structure):
        found = layout.sources
    elif isinstance(layout, str):
        if names is None:
            raise VotesError(
                "`layout` must be a sequence with one entry per source, because the sources have no names; "
                f"got {format_value(layout)}."
            )
        match = _compile(layout)
        found = tuple(_match(match, name, layout) for name in names)
        fields = [field for field in _REPLICATES if field in match.groupindex]
        if len(found) > 1 and fields and all(getattr(s, field) is None for s in found for field in fields):
            raise VotesError(
                f"`layout` must match the names of the sources, {format_list(names, 3)}; none of them has a "
                f"part {{{fields[0]}}}. Got {format_value(layout)}."
            )
    elif can_be_iterated(layout) and not isinstance(layout, Mapping):
        found = tuple(SourceInfo(each) if isinstance(each, str) else each for each in layout)
        odd = next((each for each in found if not isinstance(each, SourceInfo)), None)
        if odd is not None:
            raise VotesError(f"`layout` must have a SourceInfo per source; got {format_value(odd)}.")
    else:
        raise VotesError(
            "`layout` must be a pattern such as '{judge}|{order}', or a sequence of SourceInfo; got "
            f"{format_value(layout)}."
        )
    if len(found) != n_sources:
        raise VotesError(
            f"`layout` must have one entry per source ({n_sources}); got "
            f"{format_count(len(found), 'entry', 'entries')}."
        )
    return Structure(found)


def _compile(layout: str) -> re.Pattern[str]:
    """Return a regular expression for a pattern such as ``{judge}|{order}``."""
    try:
        parts = [(text, field) for text, field, spec, kind in Formatter().parse(layout) if not (spec or kind)]
    except ValueError as error:
        raise VotesError(f"`layout` must be a pattern such as '{{judge}}|{{order}}'; {error}.") from error
    names = [field for _, field in parts if field is not None]
    allowed = names and set(names) <= set(SOURCE_FIELDS) and len(set(names)) == len(names)
    if not allowed or not set(names) & set(JUDGE_FIELDS):
        raise VotesError(
            "`layout` must contain {judge} or {model}, and may contain each of {order}, {repeat} and "
            f"{{prompt}} once; got {format_value(layout)}."
        )
    if any(not text for text, field in parts[1:] if field is not None):
        raise VotesError(f"`layout` must have a separator between its fields; got {format_value(layout)}.")
    # Values of replicate fields do not contain their separators, so a name is split at the last ones.
    separators = "|".join(re.escape(text) for text, field in parts if field in _REPLICATES and text)
    expression, closing = "", ""
    for number, (text, field) in enumerate(parts):
        if field is None:
            expression += re.escape(text)
            continue
        value = f"(?:(?!{separators}).)+" if field in _REPLICATES and separators else ".+?"
        part = f"{re.escape(text)}(?P<{field}>{value})"
        # If a literal follows the last field, the field is required.
        is_tail = number > 0 and parts[-1][1] is not None
        is_tail &= all(later in _REPLICATES for _, later in parts[number:])
        expression += f"(?:{part}" if is_tail else part
        closing += ")?" if is_tail else ""
    return re.compile(expression + closing)


def _match(match: re.Pattern[str], name: str, layout: str) -> SourceInfo:
    found = match.fullmatch(name)
    if found is None:
        raise VotesError(
            f"The name of every source must match `layout`, {format_value(layout)}; got {format_value(name)}."
        )
    values: dict[str, Any] = {key: value for key, value in found.groupdict().items() if value is not None}
    if "repeat" in values and values["repeat"].isascii() and values["repeat"].isdigit():
        values["repeat"] = int(values["repeat"])
    return SourceInfo(**values)


# ---------------------------------------------------------------------- arrays of answers


def panel_sources(shape: tuple[int, ...], judges: Any, orders: Any) -> tuple[SourceInfo, ...]:
    """Return the sources of an array of shape (n, judges, orders[, repeats]), the last axis fastest."""
    if len(shape) not in (2, 3, 4):
        raise VotesError(
            "`answers` must have the shape (n, judges), (n, judges, orders) or (n, judges, orders, "
            f"repeats); got {shape}."
        )
    sizes = (*shape[1:], 1, 1)[:3]
    axes = [
        _axis_names(name, given, size, used=len(shape) > at)
        for at, (name, given, size) in enumerate(
            zip(("judges", "orders", "repeats"), (judges, orders, None), sizes, strict=True), start=1
        )
    ]
    return tuple(SourceInfo(str(j), o, r) for j in axes[0] for o in axes[1] for r in axes[2])


def _axis_names(name: str, given: Any, size: int, *, used: bool) -> list[Any]:
    if given is None:
        if name == "judges":
            return [f"judge {j}" for j in range(size)]
        return list(range(size)) if used else [None]
    if not used or isinstance(given, str) or not can_be_iterated(given):
        raise VotesError(
            f"`{name}` must name the entries of an axis of `answers`; got {format_value(given)}."
        )
    names = list(given)
    if len(names) != size or len(set(map(str, names))) < size:
        raise VotesError(f"`{name}` must contain {size} distinct names; got {format_value(names)}.")
    if not all(isinstance(each, str) or is_integer(each) for each in names):
        raise VotesError(f"`{name}` must be strings or integers; got {format_value(names)}.")
    return names
