"""Read parquet and arrow files with pyarrow, in record batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import Hint, Note, VoteFileError
from flyingsquid.files.coding import Coding, Survey, read_labels, refuse_unknown
from flyingsquid.files.columns import (
    CHOOSE_SOURCES,
    MOST_VALUES,
    ReadOptions,
    Roles,
    assign_roles,
    choose_split,
    missing_id_error,
    not_votes_error,
    require_distinct,
    require_unique_names,
)
from flyingsquid.files.decoded_size import (
    MOST_BYTES,
    check_batches,
    check_pages,
    require_possible_rows,
    too_large_error,
)
from flyingsquid.files.inputs import (
    HUGGING_FACE,
    add_path_to_errors,
    import_pyarrow,
    open_input,
    parquet_parts,
    read_json,
)
from flyingsquid.files.outputs import META
from flyingsquid.files.tables import LongVotes
from flyingsquid.kernels import n_threads
from flyingsquid.votes.codes import ABSTAIN, Label
from flyingsquid.votes.conventions import format_distinct, is_free_text

_FIRST_ROWS = 1000
_LONGEST_TEXT = 1 << 20
_END = object()
T = TypeVar("T")


def read_columnar(
    path: Path,
    format: str,  # as in open_votes
    options: ReadOptions,
) -> tuple[Roles, ColumnarVotes | LongVotes]:
    """Read a parquet or arrow file, or a directory of such files, in wide or long form."""
    path, notes = _find_split(path, options.part)
    file = Batches(path, format, options.max_decoded_bytes)
    meta = _meta(file.schema)
    if meta.get("form") == "wide" and options.form is None and not options.is_long:
        options = _completed(options, meta, file.names)
    require_unique_names(file.names)
    first = next(file.batches(list(file.names), _FIRST_ROWS, any_length=True), None)
    if first is None or not first.num_rows:
        raise VoteFileError("The file contains no rows.")
    head = [_first_values(first, name) for name in file.names]
    roles = assign_roles(file.names, options, head)
    roles = replace(roles, notes=(*notes, *roles.notes))
    if roles.form == "wide":
        classes = read_labels(meta["classes"]) if "classes" in meta else file.declared_classes(roles.sources)
        return roles, ColumnarVotes(file, roles, classes, picked=options.sources is not None)
    votes = LongVotes(
        plain_text=False,
        has_gold=roles.gold is not None,
        duplicates=options.duplicates,
        panel=tuple(roles.panel),
    )
    for batch in file.batches(list(roles.columns), 1 << 16):
        items, sources, labels = (batch.column(name) for name in (roles.item, roles.source, roles.label))
        gold = None if roles.gold is None else batch.column(roles.gold).to_pylist()
        if roles.panel:
            columns = (batch.column(name).to_pylist() for name in roles.panel.values())
            sources = list(zip(*columns, strict=True))
        votes.add(items, sources, labels, gold)
    votes.finish()
    return roles, votes


class Batches:
    """Record batches of a file, with some of its columns; can be read more than once."""

    def __init__(self, path: Path, format: str, limit: int = MOST_BYTES) -> None:  # as in open_votes
        self._path, self._format, self._limit = path, format, limit
        self._most_rows: int | None = None
        self._pyarrow = import_pyarrow(f"Reading {format}")
        self.metadata: list[Any] = []
        if format == "parquet":
            self._parts = parquet_parts(path) if path.is_dir() else [path]
            for part in self._parts:
                with add_path_to_errors(str(part)):
                    opened = self._parquet(part, ())
                    _require_rows(opened.metadata.num_rows, _rows_of_groups(opened.metadata))
                    require_possible_rows(opened.metadata.num_rows, part.stat().st_size, limit)
                    if check_pages(part, opened.metadata, limit):
                        # Each value may be as long as the longest that fits into a page.
                        self._most_rows = max(1, limit // (4 * _LONGEST_TEXT))
                if not self.metadata:
                    self.schema = opened.schema_arrow
                elif not opened.schema_arrow.equals(self.schema):
                    raise VoteFileError(
                        f"The files of a directory must have the same columns and types; they differ from "
                        f"{self._parts[0].relative_to(path)}.",
                        path=str(part),
                    )
                self.metadata.append(opened.metadata)
            self.n_items = sum(meta.num_rows for meta in self.metadata)
        else:
            self._parts = _arrow_parts(path) if path.is_dir() else [path]
            for part in self._parts:
                with add_path_to_errors(str(part)), self._ipc_source(part) as source:
                    check_batches(self._pyarrow, source, limit)
            batches = self._ipc()
            self.schema = next(batches)
            self.n_items = 0
            size = sum(part.stat().st_size for part in self._parts)
            for batch in batches:
                self.n_items += batch.num_rows
                require_possible_rows(self.n_items, size, limit)
        self.names = list(self.schema.names)
        self._class_names = _class_names_in(self.schema)

    def declared_classes(self, columns: Sequence[str]) -> tuple[Label, ...] | None:
        """Return the classes that all of these columns declare, as Hugging Face's ClassLabel does."""
        declared = {self._class_names.get(name) for name in columns}
        return next(iter(declared)) if len(declared) == 1 else None

    def _parquet(self, part: Path, texts: Sequence[str]) -> Any:
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415  # an extra

        return ParquetFile(part, read_dictionary=list(texts), pre_buffer=False)

    @contextmanager
    def _ipc_source(self, part: Path) -> Iterator[Any]:
        """Open the messages of an arrow file: the file format is a stream between a mark and an index."""
        with self._pyarrow.memory_map(str(part)) as file:
            file.seek(8 if bytes(file.read(6)) == b"ARROW1" else 0)
            yield file

    def _ipc(self) -> Iterator[Any]:
        """Yield the schema, then the batches, validated: offsets of a damaged file may point anywhere."""
        schema: Any = None
        for part in self._parts:
            with add_path_to_errors(str(part)), self._ipc_source(part) as file:
                opened = self._pyarrow.ipc.open_stream(file)
                if schema is None:
                    schema = opened.schema
                    yield schema
                elif not opened.schema.equals(schema):
                    raise VoteFileError("The files of a directory must have the same columns and types.")
                for batch in opened:
                    batch.validate(full=True)
                    yield batch

    def batches(self, columns: Sequence[str], rows: int, *, any_length: bool = False) -> Iterator[Any]:
        """Yield batches of at most ``rows`` rows with these columns; parquet strings as dictionaries.

        Strings that are too long for identifiers and classes raise an error, unless ``any_length``.
        """
        for batch in self._all_batches(columns, min(rows, self._most_rows or rows)):
            if not any_length:
                for name in columns:
                    _require_short(batch.column(name), name, self._limit)
            yield _name_classes(self._pyarrow, batch, self._class_names) if self._class_names else batch

    def _all_batches(self, columns: Sequence[str], rows: int) -> Iterator[Any]:
        if self._format == "parquet":
            types = self._pyarrow.types
            texts = [c for c in columns if types.is_string(self.schema.field(c).type)]
            for part in self._parts:
                with add_path_to_errors(str(part)):
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
                raise VoteFileError(
                    f"The file is damaged: column {format_value(min(absent))} is declared, but missing."
                )
            yield batch
        _require_rows(file.metadata.num_rows, n)


class ColumnarVotes:
    """Votes of a columnar file in wide form."""

    def __init__(
        self, file: Batches, roles: Roles, classes: tuple[Label, ...] | None, *, picked: bool
    ) -> None:
        self._file, self._roles, self._classes, self._picked = file, roles, classes, picked
        self.source_names, self.n_sources = roles.sources, len(roles.sources)
        self.n_items = file.n_items
        self._surveys: dict[bool, Survey] = {}
        if roles.item is not None:
            item = roles.item
            require_distinct(lambda: self._ids(item))

    def _ids(self, name: str) -> Iterator[Any]:
        row = 0
        for batch in self._file.batches([name], 1 << 16):
            ids = batch.column(name)
            if ids.null_count:
                raise missing_id_error(row + int(np.argmax(np.asarray(ids.is_null()))))
            yield _plain_ids(ids)
            row += len(ids)

    # ------------------------------------------------------------------ what occurs

    def survey(self, exact: bool = False) -> Survey:
        """Return the values that occur; for integers, only the extremes unless ``exact``."""
        if exact not in self._surveys:
            columns = [*self.source_names, *([self._roles.gold] if self._roles.gold else [])]
            for name in columns:
                self._require_plain(name)
            types = self._file._pyarrow.types
            named = self._file.declared_classes(columns) is not None
            integers = not named and all(types.is_integer(self._file.schema.field(c).type) for c in columns)
            found = self._extremes(columns) if integers and not exact else None
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
                f"Column {format_value(name)} must contain integers, floats, booleans or strings; its type "
                f"is {kind}.",
                hints=[Hint("ignore", "to leave it out", [name]), CHOOSE_SOURCES],
            )

    def _extremes(self, columns: list[str]) -> list[Any]:
        """Return the smallest and the largest integer, from the statistics of the file if it has them."""
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
                if len(seen[name]) > MOST_VALUES:
                    raise not_votes_error({name: format_distinct(len(seen[name]), self.n_items)})
        for name, values in seen.items():
            many = is_free_text(len(values), self.n_items)
            if many and not self._picked and name != self._roles.gold:
                raise not_votes_error({name: format_distinct(len(values), self.n_items)})
        kinds = {type(v) for values in seen.values() for v in values}
        if bool in kinds and kinds & {int, float}:
            raise VoteFileError("Votes must have one type; got booleans and numbers.")
        every: dict[Any, None] = {}
        for values in seen.values():
            every |= values
        return list(every)

    def find(self, value: Any) -> str | None:
        """Describe the first position of a value among the votes; None if it does not occur."""
        row = 0
        for batch in self._file.batches(self.source_names, 1 << 16):
            for name in self.source_names:
                at = _position(batch.column(name), value)
                if at >= 0:
                    return f"row {row + at}, source {name!r}"
            row += batch.num_rows
        return None

    # ------------------------------------------------------------------ codes

    def chunks(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        """Yield codes (n, m), identifiers and codes of gold labels, at most ``rows`` at a time."""
        return prefetch(self._read(coding, rows))

    def _read(self, coding: Coding, rows: int) -> Iterator[tuple[NDArray[Any], Any, NDArray[Any] | None]]:
        coder = ArrowCoder(coding)
        gold_name, item = self._roles.gold, self._roles.item
        row = 0
        for batch in self._file.batches(self._roles.columns, rows):
            # In Fortran order, because columns are read, and counted, one after the other.
            codes = np.empty((batch.num_rows, len(self.source_names)), coding.dtype, order="F")
            columns = [batch.column(name) for name in self.source_names]
            for j, column in enumerate(columns):
                codes[:, j] = coder.codes(column)
            gold = None
            if gold_name is not None:
                gold = coder.codes(batch.column(gold_name)).astype(coding.dtype)
            refuse_unknown(codes, gold, row, columns, self.source_names)
            yield codes, None if item is None else _plain_ids(batch.column(item)), gold
            row += batch.num_rows


# ---------------------------------------------------------------------- small things


def _rows_of_groups(metadata: Any) -> int:
    return sum(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))


def _require_rows(declared: int, found: int) -> None:
    if declared != found or declared < 0:
        raise VoteFileError(
            f"The file is damaged: it declares {format_count(declared, 'row')} and contains {found:,}."
        )


def _position(column: Any, value: Any) -> int:
    """Return the first position of a value in a column; -1 if it does not occur."""
    if type(value) is int and str(column.type).startswith("int"):
        import pyarrow.compute as pc  # noqa: PLC0415  # an extra

        return int(pc.index(column, value).as_py())
    values = column.to_pylist()
    return values.index(value) if value in values else -1


def _plain_ids(ids: Any) -> Any:
    """Return identifiers that are not encoded as a dictionary."""
    return ids.cast(ids.type.value_type) if hasattr(ids, "dictionary") else ids


def _first_values(batch: Any, name: str) -> list[Any]:
    """Return the values of one column, to distinguish identifiers from votes."""
    kind = str(batch.column(name).type)
    if kind.startswith(("list", "large_list", "struct", "map", "fixed_size_list", "binary", "large_binary")):
        return [None]
    column = batch.column(name)
    longest, _ = _lengths(column)
    # Each value of a dictionary becomes a string of its own.
    return list(column[: max(1, _LONGEST_TEXT // max(1, longest))].to_pylist())


def _lengths(column: Any) -> tuple[int, int]:
    """Return bounds of the bytes of the longest value and of all values; 0 for columns without strings."""
    values = getattr(column, "dictionary", column)
    if str(values.type) not in ("string", "large_string", "string_view") or not len(values):
        return 0, 0
    if values is column and column.nbytes <= _LONGEST_TEXT:
        return column.nbytes, column.nbytes
    import pyarrow.compute as pc  # noqa: PLC0415  # an extra

    lengths = pc.binary_length(values)
    longest = pc.max(lengths).as_py() or 0
    if values is column or longest * len(column) <= _LONGEST_TEXT:
        return longest, longest * len(column)
    return longest, pc.sum(lengths.take(column.indices)).as_py() or 0


def _require_short(column: Any, name: str, limit: int) -> None:
    """Raise an error for strings that are too long for identifiers and classes, before they are copied."""
    longest, total = _lengths(column)
    if longest > _LONGEST_TEXT:
        raise VoteFileError(
            f"Column {format_value(name)} contains a string of {longest:,} bytes; identifiers and classes "
            f"can have at most {_LONGEST_TEXT:,}.",
            hints=[Hint("ignore", "to leave it out", [name])],
        )
    if hasattr(column, "dictionary") and total > limit:
        raise too_large_error(f"The strings of column {format_value(name)} take", total, limit)


def _completed(options: ReadOptions, meta: dict[str, Any], names: list[str]) -> ReadOptions:
    """Complete the options of the user with the metadata that ``write_votes`` stored in the file."""
    item = options.item
    if item is None:
        item = meta.get("item") if meta.get("item") in names else False
    others = (item, meta.get("gold"), options.gold, *options.ignore)
    sources = options.sources
    if sources is None:
        sources = tuple(name for name in names if name not in others)
    return replace(options, form="wide", item=item, sources=sources)


def _meta(schema: Any) -> dict[str, Any]:
    """Return the metadata that ``write_votes`` stored in the file."""
    try:
        found = json.loads((schema.metadata or {}).get(META, b"{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


# ---------------------------------------------------------------------- Hugging Face


def _find_split(path: Path, part: str | None) -> tuple[Path, tuple[Note, ...]]:
    """Return the directory of one split, if ``DatasetDict.save_to_disk`` wrote several."""
    index = path / HUGGING_FACE[1]
    if not path.is_dir() or not index.exists():
        return path, ()
    found = read_json(open_input(index))
    splits = found.get("splits") if isinstance(found, dict) else None
    names = [s for s in splits if isinstance(s, str)] if isinstance(splits, list) else []
    chosen, notes = choose_split([s for s in names if Path(s).name == s and (path / s).is_dir()], part)
    return path / chosen, notes


def _arrow_parts(directory: Path) -> list[Path]:
    """Return the arrow files of a directory, sorted by name."""
    parts = sorted(directory.glob("*.arrow"))
    if not parts:
        raise VoteFileError("The directory contains no arrow files.")
    return parts


def _class_names_in(schema: Any) -> dict[str, tuple[str, ...]]:
    """Return the class names of each column, which Hugging Face datasets store in the schema."""
    try:
        about = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
        features = about["info"]["features"]
        declared = {name: tuple(features[name]["names"]) for name in features if "names" in features[name]}
    except (ValueError, RecursionError, KeyError, TypeError):
        return {}
    return {
        name: names
        for name, names in declared.items()
        if name in schema.names
        and str(schema.field(name).type).startswith("int")
        and len(set(names)) == len(names)
        and all(isinstance(label, str) for label in names)
    }


def _name_classes(pyarrow: Any, batch: Any, class_names: Mapping[str, tuple[str, ...]]) -> Any:
    """Replace class codes in a record batch by class names; -1 is a missing label."""
    for name, classes in class_names.items():
        at = batch.schema.get_field_index(name)
        if at < 0:
            continue
        values = np.asarray(batch.column(at).fill_null(-1))
        if len(values) and not (values.min() >= -1 and values.max() < len(classes)):
            wrong = values.min() if values.min() < -1 else values.max()
            raise VoteFileError(
                f"Column {format_value(name)} must contain codes of its {len(classes)} classes; got {wrong}."
            )
        indices = pyarrow.array(values.astype(np.int32), mask=values < 0)
        batch = batch.set_column(at, name, pyarrow.DictionaryArray.from_arrays(indices, list(classes)))
    return batch


# ---------------------------------------------------------------------- codes


class ArrowCoder:
    """Encode pyarrow arrays; lookup tables for values of one byte are kept."""

    def __init__(self, coding: Coding) -> None:
        self._coding = coding
        self._types = import_pyarrow("Reading columns").types
        self._tables: dict[str, NDArray[Any]] = {}

    def codes(self, array: Any) -> NDArray[Any]:
        """Encode an array of shape (n,); ``coding.UNKNOWN`` for a value without a code."""
        types, kind = self._types, array.type
        if types.is_null(kind):
            return np.full(len(array), ABSTAIN, np.int16)
        if types.is_integer(kind):
            return self._integers(array)
        if types.is_boolean(kind):
            array = array.cast("int8").fill_null(2)
            return np.take(self._coding.table([False, True]), np.asarray(array))
        if types.is_floating(kind):
            return self._floats(array)
        if not types.is_dictionary(kind):
            array = array.dictionary_encode()
        table = self._coding.table(array.dictionary.to_pylist())
        indices = array.indices
        # The code of "no vote" is last in the table, at index -1.
        index = np.asarray(indices.cast("int32").fill_null(-1) if indices.null_count else indices)
        try:
            return np.take(table, index)
        except IndexError as error:
            raise VoteFileError("The file is damaged: an index points outside its dictionary.") from error

    def _integers(self, array: Any) -> NDArray[Any]:
        nulls = None
        if array.null_count and array.type.bit_width == 8 and array.buffers()[0] is not None:
            # Directly from memory, because this dominates the time of a large file. Nulls get a code too,
            # which is replaced below.
            bits, bytes_ = (np.frombuffer(part, np.uint8) for part in array.buffers())
            here = slice(array.offset, array.offset + len(array))
            values = bytes_[here].view(str(array.type))
            valid = np.unpackbits(bits, count=here.stop, bitorder="little")[here]
        else:
            valid = None
            nulls = np.asarray(array.is_null()) if array.null_count else None
            values = np.asarray(array.fill_null(0) if nulls is not None else array)
        if values.dtype.itemsize == 1:
            codes = self._encode_bytes(values)
            if valid is not None:
                # All bits set is -1, "no vote".
                codes = codes | (valid.view(np.int8) - np.int8(1))
        else:
            codes = self._coding.encode(values)
        if nulls is not None:
            codes = np.where(nulls, codes.dtype.type(ABSTAIN), codes)
        return codes

    def _encode_bytes(self, values: NDArray[Any]) -> NDArray[Any]:
        """Encode values of one byte; return the same array if each value is its own code."""
        kind = values.dtype.str
        if kind not in self._tables:
            every = np.arange(256, dtype=np.uint8).view(values.dtype).tolist()
            self._tables[kind] = self._coding.table(every)[:-1]
        table = self._tables[kind]
        if table.dtype == values.dtype and len(values):
            within = np.arange(int(values.min()), int(values.max()) + 1)
            if (table[within] == within).all():
                return values
        return np.take(table, values.view(np.uint8))

    def _floats(self, array: Any) -> NDArray[Any]:
        values = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        missing = np.isnan(values)
        known = np.where(missing, 0.0, values)
        if self._coding.is_plain and (np.abs(known) < 1 << 15).all() and (known == np.rint(known)).all():
            codes = self._coding.encode(known.astype(np.int64))
        else:
            codes = self._coding.encode(values)
        codes[missing] = ABSTAIN
        return codes


def prefetch(parts: Iterator[T]) -> Iterator[T]:
    """Yield the same parts, each prepared on a thread while the previous one is used.

    pyarrow decodes without the interpreter lock, so this uses a second core. With one thread, parts are
    decoded when they are needed.

    >>> list(prefetch(iter("abc")))
    ['a', 'b', 'c']
    """
    if n_threads() == 1:
        yield from parts
        return
    # Leaving the block, at the end or early, waits for the part that is being prepared.
    with ThreadPoolExecutor(1, "flyingsquid-prefetch") as pool:
        upcoming: Future[Any] = pool.submit(next, parts, _END)
        while (part := upcoming.result()) is not _END:
            upcoming = pool.submit(next, parts, _END)
            yield part
