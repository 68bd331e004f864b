"""``flyingsquid report``: an HTML page about votes and labels."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click

from flyingsquid._values import format_count, format_value
from flyingsquid.cli.console import Console
from flyingsquid.cli.options import (
    FILE,
    VOTES,
    check_outputs,
    layout_option,
    method_option,
    model_option,
    reading_options,
)
from flyingsquid.exceptions import OptionError, VoteFileError

if TYPE_CHECKING:
    from flyingsquid.cli.inputs import LoadedVotes
    from flyingsquid.files import VoteChunk


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE.html", help="The page to write.")
@model_option
@method_option
@layout_option
@click.option("--gold", metavar="COLUMN|FILE",
              help="Gold labels: a column of VOTES, blank where unknown, or a file with item "
                   "identifiers and labels. Labels are scored by them.")
@click.option("--data", "data_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="The items themselves, to be shown: csv, tsv, JSON lines, parquet or arrow with one row "
                   "per item, by identifier or in the same order; or a text file with one line per item.")
@click.option("--features", "features_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE.npy",
              help="Features of the items, one row each: .npy, or .npz with one array or a sparse matrix. "
                   "Labels are based on votes and features.")
@click.option("--title", metavar="TEXT", help="The heading. Default: the name of the file.")
@click.option("--ordered", is_flag=True, help="Items are ordered by time: show how sources change.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@reading_options
def report(votes: str, output: str, **options: Any) -> None:
    """Write an HTML report about votes and labels.

    The report is one file with a summary, the sources, their agreement, the confidence of the labels, and
    items to review. It loads nothing from the network. For more than 1,000,000 items, it shows an evenly
    spaced sample.

    \b
    Examples:
      flyingsquid report votes.csv -o report.html
      flyingsquid report judged.csv -o report.html --gold truth --data texts.csv --force
      flyingsquid report panel.csv -o report.html --layout '{judge}|{order}'
    """
    inputs = [votes, options["with_model"], options["data_path"], options["features_path"]]
    check_outputs(inputs, {"--output": output}, overwrite=options["force"])
    from flyingsquid.cli.inputs import fit_or_explain, load_features, read_inputs

    console = Console(options["quiet"])
    loaded, model = read_inputs(votes, options, console, clips_by="--with-model")
    path = options["features_path"]
    features = None if path is None else load_features(path, loaded.file)
    if model is None:
        model = fit_or_explain(loaded, options, console, features)
    title = options["title"] or f"Votes and labels of {PurePath(loaded.file.path).name}"
    with console.waiting("writing the report"):
        part = write_report(loaded, model, output, title=title, data=options["data_path"],
                            ordered=options["ordered"], features=None if model is None else features)
    console.echo(f"{output}: report{part}")
# fmt: on


def write_report(
    votes: LoadedVotes,
    model: Any,
    path: str,
    *,
    title: str,
    data: str | None = None,
    ordered: bool = False,
    features: Any = None,
) -> str:
    """Write the report, and return a description of the sample that it shows; empty for all votes.

    ``data`` is a file of the items, and ``features`` are those of all items.
    """
    from flyingsquid.cli.inputs import clip_length
    from flyingsquid.reports import report as html_report

    if model is not None and not hasattr(model, "explain"):
        raise OptionError(f"A report of a {type(model).__name__} is not supported.")
    length = clip_length(model) or 1
    if length > 1:
        if data is not None:
            raise OptionError("--data is not supported for models of clips.")
        read, gold, part = _sampled_clips(votes, length)
        task, records = length // 2, None
        part, features = f" of row {task + 1} of clips of {length}{part}", None
    else:
        chunk, step = votes.sample()
        read, gold, task = chunk.votes, chunk.gold, None
        records = None if data is None else records_of(chunk, data, votes, step)
        features = None if features is None else features[::step]
        part = "" if step == 1 else f" of a sample of {format_count(read.n_items, 'item')}"
    if gold is not None and not any(label is not None for label in gold.ravel()):
        where = "The file" if votes.file.gold_name is None else f"Column {votes.file.gold_name}"
        raise OptionError(f"{where} of --gold contains no gold labels.", path=votes.file.path)
    html_report(
        read,
        gold,
        model=model,
        data=records,
        path=path,
        title=title,
        task=task,
        ordered=ordered,
        features=features,
    )
    return part


def _sampled_clips(votes: LoadedVotes, length: int) -> tuple[Any, Any, str]:
    """Return clips of votes in memory, their gold labels, and their number if they are a sample."""
    from flyingsquid.cli.inputs import clips

    if votes.loaded is None:
        raise OptionError("Clips need all votes in memory; use a part of the file.", path=votes.file.path)
    read, gold = clips(votes.loaded.votes, length, complete_only=True), votes.loaded.gold
    if gold is not None:
        gold = gold[: read.n_items * length].reshape(-1, length)
    step = -(-read.n_items * length // votes.limits.sampled_items)
    if step <= 1:
        return read, gold, ""
    part = slice(None, None, step)
    return read[part], None if gold is None else gold[part], f", {read[part].n_items:,} of them"


def records_of(chunk: VoteChunk, path: str, votes: LoadedVotes, step: int = 1) -> list[Any]:
    """Read the items of a chunk from a file: by identifier if it has them, otherwise in the same order.

    ``step`` is 2 if the chunk contains every second item of the file of votes, and so on.
    """
    from flyingsquid.files.vote_files import read_records

    records, item = read_records(path), votes.file.item_name
    ids = [str(each) for each in chunk.ids]
    if item is not None and records and isinstance(records[0], dict) and item in records[0]:
        found = {str(record.get(item)): record for record in records}
        absent = next((each for each in ids if each not in found), None)
        if absent is not None:
            raise VoteFileError(
                f"No row has {item} {format_value(absent)}, which occurs in {votes.file.path}.", path=path
            )
        return [found[each] for each in ids]
    if len(records) != votes.file.n_items:
        column = f", or a column {format_value(item)}" if item else ""
        raise VoteFileError(
            f"The file must have one row per item, {format_count(votes.file.n_items, 'row')}{column}; it has "
            f"{format_count(len(records), 'row')}.",
            path=path,
        )
    return records[::step]
