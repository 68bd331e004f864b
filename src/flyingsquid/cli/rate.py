"""``flyingsquid rate``: shares of classes with confidence intervals, from few gold labels."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from flyingsquid._values import format_value
from flyingsquid.cli.console import Console, describe_votes
from flyingsquid.cli.options import VOTES, method_option, model_option, read_list, reading_options
from flyingsquid.exceptions import OptionError

if TYPE_CHECKING:
    from flyingsquid.files import VoteChunk, VoteFile


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("--gold", metavar="COLUMN|FILE", required=True,
              help="Gold labels of a random sample: a column of VOTES, blank where unknown, or a file with "
                   "item identifiers and labels.")
@click.option("--by", metavar="COLUMN",
              help="A column of VOTES with the group of each item, such as a system.")
@click.option("--compare", callback=read_list, metavar="A,B",
              help="Two groups whose difference is shown. Default: both, if there are two.")
@click.option("--confidence", type=click.FloatRange(0.5, 1, max_open=True), default=0.95, show_default=True,
              help="Confidence level of the intervals.")
@model_option
@method_option
@click.option("--cross-fit", type=click.IntRange(0), metavar="N",
              help="For a saved model that was fitted with gold labels: fit it again N times, without the "
                   "labels it is compared with; 0 if it was fitted with labels of other items.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reading_options
def rate(votes: str, as_json: bool, **options: Any) -> None:
    """Estimate the share of each class with a confidence interval, from few gold labels.

    The gold labels must be a random sample of the items. The intervals are valid for any model, and narrower
    the more accurate the model is. With --by, shares are estimated for each group, and two groups are
    compared. The model is fitted without the gold labels.

    \b
    Examples:
      flyingsquid rate judged.csv --gold truth
      flyingsquid rate systems.csv --gold gold.csv --by system
      flyingsquid rate systems.csv --gold gold.csv --by system --compare new,old --json
    """
    from flyingsquid.analysis import estimate_rate
    from flyingsquid.cli.inputs import fit_model, read_inputs

    if options["by"] is None and options["compare"]:
        raise click.UsageError("--compare needs --by.")
    if options["compare"] and len(options["compare"]) != 2:
        raise click.UsageError(f"--compare must name two groups; got {len(options['compare'])}.")
    console = Console(as_json)
    ignored = [*(options["ignore"] or ()), *([options["by"]] if options["by"] else [])]
    loaded, model = read_inputs(votes, options | {"ignore": ignored}, console, needed_by="flyingsquid rate")
    file = loaded.file
    chunk = loaded.loaded or file.read()
    groups = None if options["by"] is None else _groups_of(votes, options["by"], chunk, file)
    if model is None:
        model, _ = fit_model(loaded, options, console)
    found = estimate_rate(
        model,
        chunk.votes,
        chunk.gold,
        by=groups,
        confidence=options["confidence"],
        cross_fit=options["cross_fit"],
    )
    compared = found.difference(*options["compare"]) if options["compare"] else found.differences
    if as_json:
        values = found.to_dict() | {"differences": [each.to_dict() for each in compared]}
        click.echo(json.dumps({"votes": describe_votes(file), **values}, indent=1))
        return
    console.echo()
    console.table(found.table())
    if compared != found.differences:  # the table ends with those
        for difference in compared:
            console.echo(difference.sentence())
# fmt: on


def _groups_of(path: str, by: str, chunk: VoteChunk, file: VoteFile) -> list[Any]:
    """Return the group of each item, a column of the file of votes."""
    from flyingsquid.cli.inputs import cells_by_item
    from flyingsquid.files.vote_files import read_records

    if path == "-":
        raise OptionError("--by needs a file that can be read twice; got standard input.")
    records = read_records(path)
    if not records or not isinstance(records[0], dict) or by not in records[0]:
        raise OptionError(f"The file has no column {format_value(by)}.", path=path, parameter="by")
    return [str(cell) for cell in cells_by_item(records, by, chunk, file, path, complete=True)]
