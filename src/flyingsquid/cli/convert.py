"""``flyingsquid convert``: votes from one format or form to another."""

from __future__ import annotations

from typing import Any

import click

from flyingsquid.cli.console import Voice
from flyingsquid.cli.reading import FORMATS, VOTES, open_file, reading_options
from flyingsquid.cli.targets import check_targets


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.argument("output", type=click.Path(allow_dash=True))
@click.option("--output-format", type=click.Choice(FORMATS), metavar="NAME",
              help=f"Format of OUTPUT: {', '.join(FORMATS)}. Default: by its name.")
@click.option("--to", "form", type=click.Choice(["wide", "long"]),
              help="One row an item, or one row a vote. Default: as in VOTES.")
@click.option("--gold", metavar="COLUMN", help="Known labels, which are kept in a column of their own.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@reading_options
def convert(votes: str, output: str, **options: Any) -> None:
    """Write a file of votes in another format or form.

    Identifiers, names of sources and classes are kept, as far as the format has room for them; npy has none.
    OUTPUT appears whole or not at all; - is standard output.

    \b
    Examples:
      flyingsquid convert votes.csv votes.parquet
      flyingsquid convert crowd.csv matrix.npz --long task,worker,answer --to wide
      flyingsquid convert votes.csv votes-long.csv --to long
      flyingsquid convert votes.csv.gz - --output-format jsonl
    """
    from flyingsquid.formats import write_votes

    check_targets(votes, {"OUTPUT": output}, force=options["force"], folders=True)
    voice = Voice(options["quiet"], output == "-")
    with voice.waiting(f"reading {votes}"):
        file = open_file(votes, options, gold=options["gold"])
    voice.introduce(file)
    with voice.waiting(f"writing {output}"):
        write_votes(output, file, format=options["output_format"], form=_form(options, file),
                    force=options["force"])
    if output != "-":
        voice.say(f"{output}: written")
# fmt: on


def _form(options: dict[str, Any], file: Any) -> Any:
    """The form to write; that of the file, where both formats have it."""
    from flyingsquid.formats import format_of_name

    if options["form"]:
        return options["form"]
    target = options["output_format"] or format_of_name(click.get_current_context().params["output"])
    return file.form if target in ("csv", "tsv", "jsonl", "parquet", "arrow") else None
