"""The items themselves, from a file: texts or records beside the votes on them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flyingsquid.exceptions import VoteFileError
from flyingsquid.formats.delimited import DelimitedTable
from flyingsquid.formats.jsonlines import JsonTable, read_json
from flyingsquid.formats.opening import StrPath
from flyingsquid.formats.recognise import format_of
from flyingsquid.formats.streams import Input, located, need_pyarrow, open_input, text_blocks

_TEXT_ENDINGS = (".txt", ".txt.gz", ".txt.zst")


def read_records(path: StrPath) -> list[Any]:
    """Items in a file: mappings, one a row; or texts, one a line, of a file called ``.txt``.

    csv, tsv, JSON lines, a JSON list, parquet or arrow.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "texts.csv"
    >>> _ = path.write_text("id,text\\n7,Buy now\\n")
    >>> read_records(path)
    [{'id': '7', 'text': 'Buy now'}]
    """
    given = open_input(path)
    with located(given.shown):
        if given.shown.lower().endswith(_TEXT_ENDINGS):
            return [line for text in text_blocks(given) for line in text.splitlines()]
        return list(_records(given))


def _records(given: Input) -> Iterator[dict[str, Any]]:
    found = format_of(given)
    if found in ("parquet", "arrow"):
        yield from _table(given, found).to_pylist()
        return
    if found in ("csv", "tsv"):
        table: Any = DelimitedTable(given, found, header=True)
        for block in table.row_blocks():
            names = list(block)
            yield from (dict(zip(names, row, strict=True)) for row in zip(*block.values(), strict=True))
        return
    if found not in ("json", "jsonl"):
        raise VoteFileError(f"items are not read from {found}; csv, tsv, jsonl, parquet, arrow or txt")
    records = read_json(given) if found == "json" else None
    if found == "json" and not isinstance(records, list):
        raise VoteFileError("a list of records is needed, one an item")
    for number, record in JsonTable(records, given).objects():
        if not isinstance(record, dict):
            place = "line" if found == "jsonl" else "record"
            raise VoteFileError(f"{place} {number} is no object with names")
        yield record


def _table(given: Input, found: str) -> Any:
    pyarrow = need_pyarrow(found)
    if found == "parquet":
        from pyarrow.parquet import read_table  # noqa: PLC0415  # an extra

        return read_table(given.path)
    with pyarrow.memory_map(str(given.path)) as file:
        if bytes(file.read(6)) == b"ARROW1":
            return pyarrow.ipc.open_file(file).read_all()
        file.seek(0)
        return pyarrow.ipc.open_stream(file).read_all()
