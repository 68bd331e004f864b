"""From tables of text or JSON, a block of rows at a time, to votes in wide or long form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from flyingsquid._values import listed, told
from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.columns import GOLD_NAMES, Roles, Wanted, assign
from flyingsquid.formats.delimited import DelimitedTable
from flyingsquid.formats.jsonlines import OUTER, JsonTable, outer_names
from flyingsquid.formats.spool import Spool
from flyingsquid.formats.triples import Triples

Block = dict[str, Sequence[Any]]
_LOOKS_LIKE_NO_SOURCE = 100


def read_table(
    table: DelimitedTable | JsonTable, wanted: Wanted, duplicates: str
) -> tuple[Roles, Spool | Triples]:
    """Read all of a table once; what is kept is small."""
    roles: Roles | None = None
    votes: Spool | Triples | None = None
    for block in table.row_blocks():
        if roles is None or votes is None:
            roles = _roles(table, block, wanted)
            votes = _empty(table, roles, duplicates)
        if isinstance(votes, Triples):
            _add_long(votes, block, roles)
        else:
            roles = _add_wide(votes, block, roles, wanted, nested=getattr(table, "nested", False))
    if roles is None or votes is None:
        raise VoteFileError("the file holds a header and no rows")
    votes.finish()
    if isinstance(votes, Spool):
        _require_sources(votes, wanted)
    return replace(roles, notes=(*table.notes, *roles.notes)), votes


def _empty(table: DelimitedTable | JsonTable, roles: Roles, duplicates: str) -> Spool | Triples:
    if roles.form == "long":
        return Triples(plain_text=table.plain_text, has_gold=roles.gold is not None, duplicates=duplicates)
    spool = Spool(
        plain_text=table.plain_text, has_ids=roles.item is not None, has_gold=roles.gold is not None
    )
    spool.positional = not table.has_names
    return spool


def _roles(table: DelimitedTable | JsonTable, block: Block, wanted: Wanted) -> Roles:
    if isinstance(table, JsonTable) and table.nested:
        return _nested_roles(block, wanted)
    if not table.has_names and wanted.item is None:
        wanted = replace(wanted, item=False)
    names = table.names if isinstance(table, DelimitedTable) else list(block)
    return assign(names, wanted, list(block.values()))


def _nested_roles(block: Block, wanted: Wanted) -> Roles:
    if wanted.form == "long" or wanted.long is not None:
        raise VoteFileError("votes stand under 'votes', which is the wide form")
    item, golden = outer_names(block)
    if wanted.item is not None:
        item = OUTER + wanted.item if isinstance(wanted.item, str) else None
    gold = None if wanted.gold is None else OUTER + wanted.gold
    for field in (item, gold):
        if field is not None and field not in block:
            raise VoteFileError(f"there is no field {told(field[1:])}; there are {listed(_outer(block))}")
    notes = [
        f"the field {f[1:]!r} looks like known labels and was left out; gold={f[1:]!r} (--gold) uses it"
        for f in golden
        if f not in (gold, item)
    ]
    sources = tuple(n for n in block if not n.startswith(OUTER) and n not in wanted.ignore)
    return Roles("wide", item, wanted.sources or sources, gold=gold, notes=tuple(notes))


def _outer(block: Block) -> list[str]:
    return [name[1:] for name in block if name.startswith(OUTER)]


def _add_long(votes: Triples, block: Block, roles: Roles) -> None:
    columns = [block.get(name) for name in (roles.item, roles.source, roles.label) if name is not None]
    if len(columns) != 3 or None in columns:
        raise VoteFileError("some records have no item, source or label")
    items, sources, labels = (column or () for column in columns)
    votes.add(items, sources, labels, None if roles.gold is None else block.get(roles.gold))


def _add_wide(votes: Spool, block: Block, roles: Roles, wanted: Wanted, *, nested: bool) -> Roles:
    known = set(roles.columns) | set(wanted.ignore)
    new = [name for name in block if name not in known] if wanted.sources is None else []
    golden = frozenset() if nested else GOLD_NAMES  # of nested votes, every name inside is a source
    new = [name for name in new if not name.startswith(OUTER) and name.strip().lower() not in golden]
    if new:
        roles = replace(roles, sources=(*roles.sources, *new))
    votes.names = list(roles.sources)
    n = len(next(iter(block.values())))
    nothing = [None] * n
    ids = None if roles.item is None else block.get(roles.item, nothing)
    if ids is not None:
        _require_ids(ids, votes.n_items)
    gold = None if roles.gold is None else block.get(roles.gold, nothing)
    columns = [block.get(name, nothing) for name in roles.sources]
    if not votes.plain_text:
        _require_one_kind([*columns, gold or ()], [*roles.sources, "known labels"])
    try:
        votes.add(columns, ids, gold)
    except TypeError as error:
        raise VoteFileError(
            f"rows {votes.n_items} to {votes.n_items + n}: a vote is no plain value"
        ) from error
    return roles


def _require_ids(ids: Sequence[Any], before: int) -> None:
    if set(map(type, ids)) <= {str, int} and "" not in ids:
        return
    for row, value in enumerate(ids, before):
        if value is None or value == "" or isinstance(value, (list, dict, float)):
            raise VoteFileError(
                f"row {row} has no item identifier ({told(value)}); item=False (--no-item) goes without"
            )


def _require_one_kind(columns: Sequence[Sequence[Any]], names: Sequence[str]) -> None:
    """True and 1 are the same key to Python, and not the same vote."""
    kinds: dict[type, int] = {}
    for j, column in enumerate(columns):
        for kind in set(map(type, column)):
            kinds.setdefault(kind, j)
    numbers = [kind for kind in (int, float) if kind in kinds]
    if bool in kinds and numbers:
        raise VoteFileError(
            f"votes mix true and false (source {told(names[kinds[bool]])}) with numbers "
            f"(source {told(names[kinds[numbers[0]]])}); use one type"
        )


def _require_sources(votes: Spool, wanted: Wanted) -> None:
    """Refuse a column of free text that nobody asked for as a source."""
    if wanted.sources is not None or len(votes.survey().values) <= _LOOKS_LIKE_NO_SOURCE:
        return
    for name, (distinct, rows) in zip(votes.names, votes.distinct_counts(), strict=True):
        if distinct > _LOOKS_LIKE_NO_SOURCE and distinct > rows / 2:
            raise VoteFileError(
                f"the column {told(name)} has {distinct:,} different values on {rows:,} rows, and is perhaps "
                f"no source; ignore=[{told(name)}] (--ignore) leaves it out, sources= (--sources) picks the "
                "columns of votes"
            )
