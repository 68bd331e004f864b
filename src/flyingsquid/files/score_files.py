"""Files of scores: reading tables of scores, and writing tables of estimates."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from flyingsquid._values import format_list, format_value
from flyingsquid.exceptions import VoteFileError
from flyingsquid.files.inputs import StrPath, located, open_input
from flyingsquid.files.outputs import csv_writer, output, output_format, text_file
from flyingsquid.files.vote_files import iterate_records
from flyingsquid.votes.score_tables import Scores, read_score_table

ESTIMATE_FORMATS = ("csv", "tsv", "jsonl")


def read_score_file(
    path: StrPath, *, ignore: Collection[str] = (), fitted: Sequence[str] | None = None
) -> Scores:
    """Read a wide or long table of scores.

    Parameters
    ----------
    path : str or os.PathLike
        A csv, tsv, JSON, parquet or arrow file with named columns; ``-`` is standard input.
    ignore : collection of str
        Columns to leave out.
    fitted : sequence of str, optional
        Names of the sources of an earlier fit; other columns of a wide table are left out.
    """
    source = open_input(path)
    with located(source.shown):
        records = list(iterate_records(source))
        if not records:
            raise VoteFileError("The file must have column names and at least one row.")
        names = list(dict.fromkeys(str(name) for record in records for name in record))
        unknown = [name for name in ignore if name not in names]
        if unknown:
            raise VoteFileError(
                f"`ignore` must contain column names, such as {format_list(names, 5)}; got "
                f"{format_value(unknown[0])}."
            )
        columns = {name: [record.get(name) for record in records] for name in names if name not in ignore}
        return read_score_table(columns, None, fitted)


def write_estimates(
    path: StrPath,
    columns: Mapping[str, Sequence[Any]],
    *,
    format: str | None = None,  # as in write_votes
    overwrite: bool = False,
    escape_formulas: bool = False,
) -> None:
    """Write columns of equal length to a file atomically; ``-`` is standard output."""
    chosen = output_format(path, format, ESTIMATE_FORMATS)
    rows = zip(*columns.values(), strict=True)
    with output(path, overwrite=overwrite) as file:
        if chosen == "jsonl":
            text = text_file(file)
            for row in rows:
                text.write(json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False) + "\n")
        else:
            csv_writer(file, chosen, escape_formulas=escape_formulas)([list(columns), *rows])
