"""``flyingsquid inspect`` and ``convert``: what a file contains, and votes in another format or form."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from flyingsquid._values import format_count
from flyingsquid.cli.console import Console, balance_facts, describe_votes
from flyingsquid.cli.options import VOTES, check_outputs, open_file, reading_options
from flyingsquid.exceptions import NotFittedError
from flyingsquid.files import FORMATS, format_of_name, write_votes
from flyingsquid.files.outputs import output_format


# fmt: off
@click.command()
@click.argument("file", type=VOTES)
@click.option("--gold", metavar="COLUMN", help="The column of gold labels.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reading_options
def inspect(file: str, as_json: bool, **options: Any) -> None:
    """Show what a file of votes, a model or counts contains.

    For votes: the format, items, sources, classes, and assumptions. For a model: its class, method, and
    sources with their accuracies; for a model of a stream, or its checkpoint, also the changes of sources.
    For counts: items, sources, classes.

    \b
    Examples:
      flyingsquid inspect votes.csv
      flyingsquid inspect spam.fsq
    """
    console = Console(as_json)
    facts = _inspect_model(file, console) if _is_model(file) else _inspect_votes(file, options, console)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
# fmt: on


def _is_model(path: str) -> bool:
    """Return whether a file contains a model or counts."""
    from flyingsquid.files.state import MAGIC

    if path == "-" or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC or path.lower().endswith(".fsq")


def _inspect_votes(path: str, options: dict[str, Any], console: Console) -> dict[str, Any]:
    with console.show_spinner(f"reading {path}"):
        file = open_file(path, options)
    shown = ", ".join(file.source_names[:20]) + (", ..." if file.n_sources > 20 else "")
    console.echo(f"{file.path}: {file.describe()}")
    console.echo(f"Format: {file.format}")
    identified = "row number" if file.item_name is None else f"column {file.item_name!r}"
    console.echo(f"Items: {file.n_items:,}, identified by {identified}")
    console.echo(f"Sources: {shown}")
    if file.gold_name:
        console.echo(f"Gold labels: column {file.gold_name!r}")
    for note in file.notes:
        console.note(note)
    return {"kind": "votes", **describe_votes(file)}


def _inspect_model(path: str, console: Console) -> dict[str, Any]:
    from flyingsquid.files.state import encode_labels, read_version
    from flyingsquid.models import load

    found: Any = load(path)
    kind = type(found).__name__
    counts = found if not hasattr(found, "summary") else getattr(found, "moments_", None)
    rows = getattr(counts, "rows", counts)
    classes = found.vote_schema_.classes if hasattr(found, "vote_schema_") else getattr(rows, "classes", ())
    names: tuple[str, ...] = tuple(getattr(found, "source_names_", ()) or getattr(rows, "source_names", ()))
    n_items = getattr(rows, "n_items", getattr(found, "n_items_", None))
    items = "" if n_items is None else f", from {format_count(n_items, 'item')}"
    stream: dict[str, Any] = {}
    if hasattr(found, "n_seen_"):  # the window, and the items of the last fit, are parts of the stream
        n_items = found.n_seen_
        items = f", after {format_count(n_items, 'item')} of a stream"
        stream = {"window": found.window_, "status": found.status_}
    shown = "/".join(map(str, classes[:6])) + ("/..." if len(classes) > 6 else "")
    shown = f", classes {shown}" if classes else ""  # a ScoreModel has none
    version = read_version(path)
    # A MultiLabelModel has no sources of its own, only those of each label.
    sources = f", {format_count(len(names), 'source')}" if names else ""
    console.echo(f"{path}: {kind}{items}{sources}{shown}")
    console.echo(f"Written by FlyingSquid {version}")
    if stream:
        console.echo(f"Labels: {stream['status']}")
    facts: dict[str, Any] = {
        "kind": kind,
        "path": path,
        "version": version,
        "sources": list(names),
        "classes": encode_labels(classes),
    }
    if n_items is not None:
        facts["items"] = n_items
    return facts | stream | _inspect_sources(found, console)


def _inspect_sources(found: Any, console: Console) -> dict[str, Any]:
    """Show the estimates of a model, if there are any."""
    if not hasattr(found, "summary"):
        return {}
    try:
        table = found.summary()
    except NotFittedError:  # a stream before its first fit
        return {}
    diagnostics = getattr(found, "diagnostics_", None)
    facts: dict[str, Any] = {"summary": table.to_dict()}
    if diagnostics is not None and hasattr(diagnostics, "method"):
        facts |= {"method": diagnostics.method, "verdict": str(diagnostics.verdict), **balance_facts(found)}
    console.describe_fit(found)
    console.echo()
    console.table(table)
    if hasattr(found, "changes"):
        facts["changes"] = [str(change) for change in found.changes()]
        console.echo()
        for change in facts["changes"] or ["No source has changed."]:
            console.echo(change)
    return facts


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--output-format", type=click.Choice(FORMATS), metavar="NAME",
              help=f"Format of OUTPUT: {', '.join(FORMATS)}. Default: by its name.")
@click.option("--to", "form", type=click.Choice(["wide", "long"]),
              help="One row per item, or one row per vote. Default: as in VOTES.")
@click.option("--gold", metavar="COLUMN", help="Gold labels, which are written to a column of their own.")
@click.option("--escape-formulas", is_flag=True,
              help="In csv, write ' before strings that a spreadsheet would run as formulas.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@reading_options
def convert(votes: str, output: str, **options: Any) -> None:
    """Write a file of votes in another format or form.

    Identifiers, names of sources and classes are kept if the format supports them; npy supports none. OUTPUT
    appears only if everything succeeds; - is standard output.

    \b
    Examples:
      flyingsquid convert votes.csv votes.parquet
      flyingsquid convert crowd.csv matrix.npz --long task,worker,answer --to wide
      flyingsquid convert votes.csv votes-long.csv --to long
      flyingsquid convert votes.csv.gz - --output-format jsonl
    """
    check_outputs([votes], {"OUTPUT": output}, overwrite=options["force"], directories=True)
    if options["output_format"] or not os.path.isdir(output):  # a directory is written as WRENCH
        output_format(output, options["output_format"], FORMATS, parameter="output_format")
    console = Console(options["quiet"], output == "-")
    with console.show_spinner(f"reading {votes}"):
        file = open_file(votes, options)
    console.print_description(file)
    form, target = options["form"], options["output_format"] or format_of_name(output)
    if form is None and target in ("csv", "tsv", "jsonl", "parquet", "arrow"):  # the formats with both forms
        form = file.form
    with console.show_spinner(f"writing {output}"):
        write_votes(output, file, format=options["output_format"], form=form, overwrite=options["force"],
                    escape_formulas=options["escape_formulas"])
    if output != "-":
        console.echo(f"{output}: written")
# fmt: on
