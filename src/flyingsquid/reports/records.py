"""The items themselves, as far as a page shows them: a few rows of any kind of table or list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flyingsquid._values import told
from flyingsquid.exceptions import VotesError
from flyingsquid.reports.escape import name, safe
from flyingsquid.votes import Votes
from flyingsquid.votes.frames import rows_of

_MOST_FIELDS = 20
_LONGEST_TEXT = 2_000
_GIST = 140


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Items that can be looked up by position."""

    data: Any

    @classmethod
    def of(cls, data: Any, votes: Votes) -> Records:
        """Check that there is one record an item; or look them up by the identifiers of the items."""
        n_items = votes.n_items
        if isinstance(data, Mapping) and votes.items is not None:
            absent = next((key for key in votes.items.tolist() if key not in data), None)
            if absent is not None:
                raise VotesError(f"data has no entry for item {told(absent)}")
            return cls([data[key] for key in votes.items.tolist()])
        if isinstance(data, (str, bytes, Mapping)) or not _has_length(data):
            raise VotesError(
                f"data= is a table or a list with one entry an item, not {type(data).__name__}; an iterator "
                "is read by list(...)"
            )
        if len(data) != n_items:
            raise VotesError(
                f"data has {len(data):,} rows and the votes {n_items:,}; one row an item is needed"
            )
        return cls(data)

    def pick(self, positions: Sequence[int]) -> list[Any]:
        """The records at some positions: texts, mappings, or anything else."""
        found = rows_of(self.data, positions)
        return [self.data[int(i)] for i in positions] if found is None else found


def _has_length(data: Any) -> bool:
    try:
        len(data)
    except TypeError:  # also of an array without dimensions, which has the method
        return False
    return True


def gist(record: Any) -> str:
    """The beginning of a record on one line, as HTML."""
    if isinstance(record, Mapping):
        texts = [value for value in record.values() if isinstance(value, str)]
        record = max(texts, key=len) if texts else ", ".join(f"{k}: {v}" for k, v in list(record.items())[:4])
    text = record if isinstance(record, str) else str(record)
    return name(text[:_GIST] + ("…" if len(text) > _GIST else ""), _GIST + 8)


def whole(record: Any) -> str:
    """A record as HTML: a text as a quotation, a mapping as a list of its fields; long texts cut."""
    if not isinstance(record, Mapping):
        return f"<blockquote><bdi>{safe(record, _LONGEST_TEXT)}</bdi></blockquote>"
    fields = list(record.items())
    rows = "".join(
        f"<dt>{name(key)}</dt><dd><bdi>{safe(value, _LONGEST_TEXT)}</bdi></dd>"
        for key, value in fields[:_MOST_FIELDS]
    )
    rest = len(fields) - _MOST_FIELDS
    more = f'<p class="note">and {rest:,} more fields</p>' if rest > 0 else ""
    return f"<dl>{rows}</dl>{more}"
