"""parquet and arrow, with pyarrow: record batches to codes at the speed of memory."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError, VoteFileError
from flyingsquid.formats.coding import UNKNOWN, Coding, Survey
from flyingsquid.formats.columnar_codes import ArrowCoder
from flyingsquid.formats.columns import Roles, Wanted, assign, require_different
from flyingsquid.formats.recognise import parquet_parts
from flyingsquid.formats.side_by_side import ahead
from flyingsquid.formats.streams import located, need_pyarrow, one_line
from flyingsquid.formats.triples import Triples
from flyingsquid.formats.unique import DistinctIds
from flyingsquid.io import decode_labels
from flyingsquid.votes.states import Label

META = b"flyingsquid"
_FIRST_ROWS = 1000
_MOST_VALUES = 1 << 16
_LOOKS_LIKE_NO_SOURCE = 100


def read_columnar(
    path: Path,
    format: str,
    wanted: Wanted,
    duplicates: str,  # as in open_votes
) -> tuple[Roles, ColumnarVotes | Triples]:
    """A file of parquet or arrow, or a folder of parquet files, in wide or long form."""
    file = _Batches(path, format)
    meta = _meta(file.schema)
    if meta.get("form") == "wide" and wanted.form is None and wanted.long is None:
        wanted = _noted(meta, wanted, file.names)
    require_different(file.names)
    first = next(file.batches(list(file.names), _FIRST_ROWS), None)
    if first is None or not first.num_rows:
        raise VoteFileError("the file holds no rows")
    head = [_first_values(first, name) for name in file.names]
    roles = assign(file.names, wanted, head)
    if roles.form == "wide":
        return roles, ColumnarVotes(file, roles, _classes(meta), picked=wanted.sources is not None)
    votes = Triples(plain_text=False, has_gold=roles.gold is not None, duplicates=duplicates)
    for batch in file.batches(list(roles.columns), 1 << 16):
        columns = [batch.column(name) for name in (roles.item, roles.source, roles.label)]
        votes.add(
            columns[0],
            columns[1],
            columns[2],
            None if roles.gold is None else batch.column(roles.gold).to_pylist(),
        )
    votes.finish()
    return roles, votes


class _Batches:
    """Record batches of a file, some columns of it, as often as asked."""

    def __init__(self, path: Path, format: str) -> None:  # as in open_votes
        self._path, self._format = path, format
        self._pyarrow = need_pyarrow(format)
        self.metadata: list[Any] = []
        if format == "parquet":
            self._parts = parquet_parts(path) if path.is_dir() else [path]
            for part in self._parts:
                with self._named(part):
                    opened = self._parquet(part, ())
                    _require_rows(opened.metadata.num_rows, _rows_of_groups(opened.metadata))
                if not self.metadata:
                    self.schema = opened.schema_arrow
                elif not opened.schema_arrow.equals(self.schema):
                    raise VoteFileError(
                        f"{part.relative_to(path)} has other columns, or columns of other types, than "
                        f"{self._parts[0].relative_to(path)}; the files of a folder must be alike"
                    )
                self.metadata.append(opened.metadata)
            self.n_items = sum(meta.num_rows for meta in self.metadata)
        else:
            batches = self._ipc()
            self.schema = next(batches)
            self.n_items = sum(batch.num_rows for batch in batches)
        self.names = list(self.schema.names)

    def _parquet(self, part: Path, texts: Sequence[str]) -> Any:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # an extra

        return ParquetFile(part, read_dictionary=list(texts), pre_buffer=False)

    def _named(self, part: Path) -> contextlib.AbstractContextManager[None]:
        """Errors about one file of a folder say which."""
        return contextlib.nullcontext() if part == self._path else located(str(part.relative_to(self._path)))

    def _ipc(self) -> Iterator[Any]:
        """The schema, then the batches, each checked: offsets of a damaged file lead anywhere."""
        pyarrow = self._pyarrow
        with pyarrow.memory_map(str(self._path)) as file:
            if bytes(file.read(6)) == b"ARROW1":
                opened = pyarrow.ipc.open_file(file)
                yield opened.schema
                batches = (opened.get_batch(i) for i in range(opened.num_record_batches))
            else:
                file.seek(0)
                opened = pyarrow.ipc.open_stream(file)
                yield opened.schema
                batches = iter(opened)
            for batch in batches:
                batch.validate(full=True)
                yield batch

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        """Batches of at most ``rows`` rows, with these columns, texts as dictionaries where that is cheap."""
        if self._format == "parquet":
            types = self._pyarrow.types
            texts = [c for c in columns if types.is_string(self.schema.field(c).type)]
            for part in self._parts:
                with self._named(part):
                    yield from self._batches_of(part, columns, texts, rows)
            return
        batches = self._ipc()
        next(batches)
        for batch in batches:
            for at in range(0, batch.num_rows, rows):
                yield batch.slice(at, rows).select(list(columns))

    def _batches_of(
        self, part: Path, columns: Sequence[str], texts: Sequence[str], rows: int
    ) -> Iterator[Any]:
        # Batches do not span row groups, so chunks of small row groups are smaller.
        file, n = self._parquet(part, texts), 0
        for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
            n += batch.num_rows
            absent = set(columns) - set(batch.schema.names)
            if absent:
                raise VoteFileError(f"the column {told(min(absent))} is declared and not there; damaged")
            yield batch
        _require_rows(file.metadata.num_rows, n)


class ColumnarVotes:
    """Votes of a columnar file in wide form."""

    def __init__(
        self, file: _Batches, roles: Roles, classes: tuple[Label, ...] | None, *, picked: bool
    ) -> None:
        self._file, self._roles, self._classes, self._picked = file, roles, classes, picked
        self.names = list(roles.sources)
        self.n_items = file.n_items
        self.has_ids, self.has_gold = roles.item is not None, roles.gold is not None
        self._surveys: dict[bool, Survey] = {}
        if roles.item is not None:
            self._require_ids(roles.item)

    def _require_ids(self, name: str) -> None:
        distinct = DistinctIds()
        row = 0
        for batch in self._file.batches([name], 1 << 16):
            ids = batch.column(name)
            if ids.null_count:
                at = row + int(np.argmax(np.asarray(ids.is_null())))
                raise VoteFileError(f"row {at} has no item identifier; item=False (--no-item) goes without")
            distinct.add(_plain_ids(ids))
            row += len(ids)
        distinct.require_distinct(lambda: (b.column(name) for b in self._file.batches([name], 1 << 16)))

    # ------------------------------------------------------------------ what occurs

    def survey(self, exact: bool = False) -> Survey:
        """The values that occur; of integers the smallest and the largest, unless ``exact``."""
        if exact not in self._surveys:
            columns = [*self.names, *([self._roles.gold] if self._roles.gold else [])]
            for name in columns:
                self._require_plain(name)
            types = self._file._pyarrow.types
            whole = all(types.is_integer(self._file.schema.field(c).type) for c in columns)
            found = self._extremes(columns) if whole and not exact else None
            if found is None:
                self._surveys[exact] = Survey(self._distinct(columns), classes=self._classes)
            else:
                self._surveys[exact] = Survey(found, extremes_only=True, classes=self._classes)
        return self._surveys[exact]

    def _require_plain(self, name: str) -> None:
        types, kind = self._file._pyarrow.types, self._file.schema.field(name).type
        kind = kind.value_type if types.is_dictionary(kind) else kind
        plain = (types.is_integer, types.is_floating, types.is_boolean, types.is_null)
        if not any(test(kind) for test in plain) and str(kind) not in (
            "string",
            "large_string",
            "string_view",
        ):
            raise VoteFileError(
                f"the column {told(name)} has the type {kind}, which votes do not have; "
                f"ignore=[{told(name)}] (--ignore) leaves it out, sources= (--sources) picks the columns of "
                "votes"
            )

    def _extremes(self, columns: list[str]) -> list[Any]:
        """The smallest and the largest integer, from the statistics of the file if it has them."""
        found = self._statistics(columns)
        if found is None:
            import pyarrow.compute as pc  # noqa: PLC0415  # an extra

            found = []
            for batch in self._file.batches(columns, 1 << 16):
                for name in columns:
                    ends = pc.min_max(batch.column(name)).as_py()
                    found += [ends["min"], ends["max"]] + ([None] if batch.column(name).null_count else [])
        numbers = [v for v in found if v is not None]
        ends = [min(numbers), max(numbers)] if numbers else []
        return [*ends, *([None] if len(numbers) < len(found) else [])]

    def _statistics(self, columns: list[str]) -> list[Any] | None:
        groups = [meta.row_group(g) for meta in self._file.metadata for g in range(meta.num_row_groups)]
        if not groups:
            return None
        at = {groups[0].column(j).path_in_schema: j for j in range(groups[0].num_columns)}
        found: list[Any] = []
        for group in groups:
            for name in columns:
                known = group.column(at[name]).statistics if name in at else None
                if known is None or not known.has_min_max or not known.has_null_count:
                    return None
                found += [known.min, known.max] + ([None] if known.null_count else [])
        return found

    def _distinct(self, columns: list[str]) -> list[Any]:
        import pyarrow.compute as pc  # noqa: PLC0415  # an extra

        seen: dict[str, dict[Any, None]] = {name: {} for name in columns}
        for batch in self._file.batches(columns, 1 << 16):
            for name in columns:
                seen[name] |= dict.fromkeys(pc.unique(batch.column(name)).to_pylist())
                if len(seen[name]) > _MOST_VALUES:
                    self._refuse_column(name, len(seen[name]))
        for name, values in seen.items():
            many = len(values) > _LOOKS_LIKE_NO_SOURCE and len(values) > self.n_items / 2
            if many and not self._picked and name != self._roles.gold:
                self._refuse_column(name, len(values))
        kinds = {type(v) for values in seen.values() for v in values}
        if bool in kinds and kinds & {int, float}:
            raise VoteFileError("votes mix true and false with numbers; use one type")
        every: dict[Any, None] = {}
        for values in seen.values():
            every |= values
        return list(every)

    def _refuse_column(self, name: str, distinct: int) -> None:
        raise VoteFileError(
            f"the column {told(name)} has {distinct:,} or more different values on {self.n_items:,} rows, "
            f"and is perhaps no source; ignore=[{told(name)}] (--ignore) leaves it out, sources= (--sources) "
            "picks the columns of votes"
        )

    def find(self, value: Any) -> str | None:
        """The first place of a value among the votes, in words; None if it does not occur."""
        row = 0
        for batch in self._file.batches(self.names, 1 << 16):
            for name in self.names:
                at = _position(batch.column(name), value)
                if at >= 0:
                    return f"row {row + at}, source {name!r}"
            row += batch.num_rows
        return None

    # ------------------------------------------------------------------ codes

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Codes (n, m), identifiers and codes of known labels, at most ``rows`` at a time."""
        return ahead(self._read(coding, rows))

    def _read(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        coder = ArrowCoder(coding)
        gold_name, item = self._roles.gold, self._roles.item
        row = 0
        for batch in self._file.batches(self._roles.columns, rows):
            # Column by column, as they come and as they are counted.
            codes = np.empty((batch.num_rows, len(self.names)), coding.dtype, order="F")
            for j, name in enumerate(self.names):
                codes[:, j] = coder.codes(batch.column(name))
            gold = None
            if gold_name is not None:
                gold = coder.codes(batch.column(gold_name)).astype(coding.dtype)
            if codes.size and codes.min() == UNKNOWN:
                i, j = (int(x) for x in np.argwhere(codes == UNKNOWN)[0])
                bad = batch.column(self.names[j])[i].as_py()
                raise VoteFileError(
                    f"row {row + i}, source {told(self.names[j])}: the vote {told(bad)} has no meaning"
                )
            if gold is not None and gold.size and gold.min() == UNKNOWN:
                raise VoteFileError(f"a known label after row {row} is none of the classes")
            yield codes, None if item is None else _plain_ids(batch.column(item)), gold
            row += batch.num_rows


# ---------------------------------------------------------------------- small things


def _rows_of_groups(metadata: Any) -> int:
    return sum(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))


def _require_rows(said: int, found: int) -> None:
    if said != found or said < 0:
        raise VoteFileError(f"the file says that it has {said:,} rows, and holds {found:,}; it is damaged")


def _position(column: Any, value: Any) -> int:
    """Where a value stands first in a column; -1 if it does not."""
    if type(value) is int and str(column.type).startswith("int"):
        import pyarrow.compute as pc  # noqa: PLC0415  # an extra

        return int(pc.index(column, value).as_py())
    values = column.to_pylist()
    return values.index(value) if value in values else -1


def _plain_ids(ids: Any) -> Any:
    """Identifiers without a dictionary around them."""
    return ids.cast(ids.type.value_type) if hasattr(ids, "dictionary") else ids


def _first_values(batch: Any, name: str) -> list[Any]:
    """Values of one column by which identifiers are told from votes."""
    kind = str(batch.column(name).type)
    if kind.startswith(("list", "large_list", "struct", "map", "fixed_size_list", "binary", "large_binary")):
        return [None]
    return list(batch.column(name).to_pylist())


def _noted(meta: dict[str, Any], wanted: Wanted, names: list[str]) -> Wanted:
    """What the user wants, and for the rest what the file says of itself."""
    item = wanted.item
    if item is None:
        item = meta.get("item") if meta.get("item") in names else False
    others = (item, meta.get("gold"), wanted.gold, *wanted.ignore)
    sources = wanted.sources
    if sources is None:
        sources = tuple(name for name in names if name not in others)
    return Wanted("wide", item, sources, wanted.ignore, wanted.gold)


def _meta(schema: Any) -> dict[str, Any]:
    """What was noted here when the file was written."""
    try:
        found = json.loads((schema.metadata or {}).get(META, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _classes(meta: dict[str, Any]) -> tuple[Label, ...] | None:
    if "classes" not in meta:
        return None
    try:
        labels = tuple(decode_labels(meta["classes"]))
    except ModelFileError as error:
        raise VoteFileError(f"the classes noted in the file cannot be read: {one_line(error)}") from error
    if len(set(labels)) < max(2, len(labels)):
        raise VoteFileError("the file notes fewer than two different classes")
    return labels
