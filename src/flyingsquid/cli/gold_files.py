"""Gold labels and other values by item, read from files for the commands that take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value, is_null
from flyingsquid.exceptions import Hint, VoteFileError

if TYPE_CHECKING:
    from flyingsquid.files import VoteChunk, VoteFile

# Items without identifiers are numbered from 0 in files that commands write, in a column of this name.
ID_NAME = "id"


def gold_of_file(path: str, chunk: VoteChunk, file: VoteFile) -> NDArray[np.int64]:
    """Return the codes of gold labels in a file with identifiers and labels, shape (n,); -1 if unknown."""
    from flyingsquid.files.vote_files import read_records

    records = read_records(path)
    if not records or not isinstance(records[0], dict):
        raise VoteFileError("The file must have rows with a column of gold labels.", path=path)
    label = _label_column(list(records[0]), file.item_name or ID_NAME, path)
    codes = {str(each): code for code, each in enumerate(file.classes)}
    gold = np.full(len(chunk.ids), -1, np.int64)
    for at, cell in enumerate(cells_by_item(records, label, chunk, file, path, complete=False)):
        text = "" if is_null(cell) else str(cell).strip()
        if text and text not in codes:
            raise VoteFileError(
                f"Column {format_value(label)} must contain the classes {format_list(file.classes)}; got "
                f"{format_value(cell)}.",
                path=path,
                hints=[Hint("classes", "to declare a class without votes")],
            )
        gold[at] = codes.get(text, -1)
    return gold


def _label_column(names: list[str], item: str | None, path: str) -> str:
    """Return the column of gold labels: the only one besides the item column, or one with a usual name."""
    from flyingsquid.votes.conventions import GOLD_NAMES, LABEL_NAMES

    others = [name for name in names if name != item]
    usual = [name for name in others if name.lower() in GOLD_NAMES | LABEL_NAMES]
    found = others if len(others) == 1 else usual
    if len(found) != 1:
        raise VoteFileError(
            f"The file must have one column of gold labels, named 'gold' or 'label'; its columns are "
            f"{format_list(names)}.",
            path=path,
        )
    return found[0]


def cells_by_item(
    records: list[Any], column: str, chunk: VoteChunk, file: VoteFile, path: str, *, complete: bool
) -> list[Any]:
    """Return the cells of a column in the order of the items: by identifier, or by row if there is none.

    Raises
    ------
    VoteFileError
        If an identifier is unknown or has two different values, or, if ``complete``, an item has no value.
    """
    item = file.item_name
    if item is None and ID_NAME in records[0] and not complete:
        item = ID_NAME
    if item is None or item not in records[0]:
        if item is not None:
            raise VoteFileError(
                f"The file must have a column {format_value(item)}; its columns are "
                f"{format_list(list(records[0]))}.",
                path=path,
            )
        if len(records) != file.n_items:
            raise VoteFileError(
                f"The file must have {format_count(file.n_items, 'row')}; it has "
                f"{format_count(len(records), 'row')}.",
                path=path,
            )
        return [record.get(column) for record in records]
    ids = [str(each) for each in chunk.ids]
    known, cells = set(ids), dict[str, Any]()
    for record in records:
        key, cell = str(record.get(item)), record.get(column)
        if key not in known:
            raise VoteFileError(f"Item {format_value(key)} does not occur in {file.path}.", path=path)
        if key in cells and (file.form == "wide" or not complete or cells[key] != cell):
            raise VoteFileError(f"Item {format_value(key)} must occur only once; it is repeated.", path=path)
        cells[key] = cell
    absent = next((each for each in ids if is_null(cells.get(each)) or cells[each] == ""), None)
    if complete and absent is not None:
        raise VoteFileError(
            f"Item {format_value(absent)} must have a value in column {column}; it is blank.", path=path
        )
    return [cells.get(each) for each in ids]
