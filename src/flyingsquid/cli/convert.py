"""``flyingsquid convert``: votes from one format or form to another."""

from __future__ import annotations

import os
from typing import Any

import click

from flyingsquid.cli.console import Console
from flyingsquid.cli.options import VOTES, check_output_format, check_outputs, open_file, reading_options
from flyingsquid.files import FORMATS, format_of_name, write_votes


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
        check_output_format(output, options["output_format"], FORMATS)
    console = Console(options["quiet"], output == "-")
    with console.waiting(f"reading {votes}"):
        file = open_file(votes, options)
    console.introduce(file)
    form, target = options["form"], options["output_format"] or format_of_name(output)
    if form is None and target in ("csv", "tsv", "jsonl", "parquet", "arrow"):  # the formats with both forms
        form = file.form
    with console.waiting(f"writing {output}"):
        write_votes(output, file, format=options["output_format"], form=form, overwrite=options["force"],
                    escape_formulas=options["escape_formulas"])
    if output != "-":
        console.echo(f"{output}: written")
# fmt: on
