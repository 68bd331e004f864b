"""Items that judges are asked about, and the fingerprints by which kept answers are found again."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any
from uuid import UUID

import narwhals.stable.v1 as nw
import numpy as np

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes import frames


def read_items(items: Any) -> list[Any]:
    """The items as a list; the rows of a pandas, polars or pyarrow table as dicts.

    >>> read_items(item for item in ("a", "b"))
    ['a', 'b']
    """
    if frames.is_lazy(items):
        raise VotesError("items are a lazy table; collect it first")
    if frames.is_frame(items):
        return list(nw.from_native(items, eager_only=True).iter_rows(named=True))
    if isinstance(items, (str, bytes, Mapping)) or not isinstance(items, Iterable):
        raise VotesError(f"items={told(items)} are no items; pass a list with one entry an item, or a table")
    found = list(items)
    if not found:
        raise VotesError("there are no items to judge")
    return found


def read_ids(ids: Any, n_items: int) -> list[str | int] | None:
    """Identifiers as a user gives them: one an item, a text or a whole number, each once."""
    if ids is None:
        return None
    found = [i.item() if isinstance(i, np.generic) else i for i in ids]
    if len(found) != n_items:
        raise VotesError(f"{len(found)} ids for {n_items} items")
    wrong = next((at for at, i in enumerate(found) if type(i) not in (str, int)), None)
    if wrong is not None:
        raise VotesError(f"item {wrong}: the id {told(found[wrong])} is no text and no whole number")
    twice = next((i for i, count in Counter(found).items() if count > 1), None)
    if twice is not None:
        raise VotesError(f"the id {told(twice)} stands for more than one item; ids must differ")
    return found


def fingerprints(
    items: list[Any], ids: list[str | int] | None, fingerprint: Callable[[Any], Any] | None
) -> list[str]:
    """One text an item, which changes with its id and its content. Equal items without ids are numbered.

    So neither the order of the items nor new ones among them cost a kept answer.

    >>> a, b, c = fingerprints(["x", "y", "x"], None, None)
    >>> [b, a, c] == fingerprints(["y", "x", "x"], None, None), a == c
    (True, False)
    """
    seen: Counter[str] = Counter()
    keys = []
    for at, item in enumerate(items):
        content = canonical(item if fingerprint is None else fingerprint(item), f"item {at}")
        identity: Any = seen[content] if ids is None else [ids[at]]
        seen[content] += 1
        keys.append(digest(json.dumps([identity, content])))
    return keys


def digest(text: str) -> str:
    """A short name of a text; 128 bits, so that two texts never share one."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def canonical(value: Any, where: str) -> str:
    """A value as one text: equal values give equal texts, whatever the order of keys.

    >>> canonical({"b": 1, "a": (1.5, None)}, "item 0")
    '{"a": [1.5, null], "b": 1}'
    """

    def other(part: Any) -> Any:
        if isinstance(part, np.generic):
            return part.item()
        if isinstance(part, np.ndarray):
            return ["array", str(part.dtype), list(part.shape), digest(repr(part.tolist()))]
        if isinstance(part, (bytes, bytearray)):
            return ["bytes", hashlib.sha256(part).hexdigest()]
        if isinstance(part, (date, time, timedelta, Decimal, UUID, PurePath)):
            return [type(part).__name__, str(part)]
        if isinstance(part, (set, frozenset)):
            return ["set", *sorted(canonical(p, where) for p in part)]
        if is_dataclass(part) and not isinstance(part, type):
            return [type(part).__name__, asdict(part)]
        raise OptionError(
            f"{where} holds a {type(part).__name__}, whose content cannot be told. Pass fingerprint=, a "
            "callable that gives a text for an item, or items made of texts, numbers, lists and dicts"
        )

    try:
        return json.dumps(value, sort_keys=True, default=other)
    except (TypeError, RecursionError) as error:
        raise OptionError(f"{where} has no fingerprint: {error}. Pass fingerprint=") from error
