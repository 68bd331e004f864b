"""``flyingsquid suggest``: items to label by hand next."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from flyingsquid._values import format_count
from flyingsquid.cli.console import Console, describe_votes
from flyingsquid.cli.options import VOTES, check_outputs, method_option, model_option, reading_options

if TYPE_CHECKING:
    from flyingsquid.analysis import Suggestions

_GOLD = "gold"


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-n", "--number", type=click.IntRange(1), default=20, show_default=True,
              help="How many items to suggest.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True),
              help="A csv with the suggested items and an empty column for gold labels.")
@click.option("--gold", metavar="COLUMN|FILE",
              help="Gold labels so far: a column of VOTES, blank where unknown, or a file with item "
                   "identifiers and labels. The fit uses them, and these items are not suggested again.")
@model_option
@method_option
@click.option("--seed", type=click.IntRange(0), help="Seed of random choices. Default: different every time.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reading_options
def suggest(votes: str, as_json: bool, **options: Any) -> None:
    """Suggest which items to label by hand next, to improve the labels of all items.

    Items are suggested if the model is uncertain, if plausible models disagree, and if many items have
    similar votes. Fill the column `gold` of the output, and pass it with --gold to suggest again. Suggested
    items are not a random sample, which flyingsquid rate needs.

    \b
    Examples:
      flyingsquid suggest votes.csv -n 50 -o to_label.csv
      flyingsquid suggest votes.csv -n 50 --gold gold.csv -o to_label.csv
      flyingsquid suggest judged.csv --gold truth --json
    """
    from flyingsquid._table import as_scalar
    from flyingsquid.analysis import suggest_items
    from flyingsquid.cli.inputs import ID_NAME, fit_model, read_inputs

    output = options["output"]
    check_outputs([votes], {"--output": output}, overwrite=options["force"])
    console = Console(as_json, output == "-")
    loaded, model = read_inputs(votes, options, console, needed_by="flyingsquid suggest")
    file = loaded.file
    chunk = loaded.loaded or file.read()
    gold = chunk.gold
    if model is None:
        model, _ = fit_model(loaded, options, console, gold=gold)
    found = suggest_items(model, chunk.votes, options["number"], labeled=gold, random_state=options["seed"])
    ids = [as_scalar(chunk.ids[each.item]) for each in found]
    if file.item_name is not None:
        named = (replace(each, id=name) for each, name in zip(found, ids, strict=True))
        found = replace(found, suggestions=tuple(named))
    if output is not None:
        _write(output, file.item_name or ID_NAME, ids, found, overwrite=options["force"])
    if as_json:
        values = found.to_dict()
        for each, name in zip(values["suggestions"], ids, strict=True):
            each["id"] = name
        click.echo(json.dumps({"votes": describe_votes(file), "output": output, **values}, indent=1))
        return
    console.echo()
    console.table(found.table())
    if output is not None and output != "-":
        console.echo(f"{output}: {format_count(len(found), 'item')} to label; fill in the column {_GOLD}")
# fmt: on


def _write(path: str, id_name: str, ids: list[Any], found: Suggestions, *, overwrite: bool) -> None:
    """Write the suggested items with an empty column for gold labels."""
    from flyingsquid.files.table_writers import label_text
    from flyingsquid.files.writing import write_estimates

    columns = {
        id_name: ids,
        _GOLD: [""] * len(ids),
        "predicted": [label_text(each.label) for each in found],
        "probability": [f"{each.probability:.4f}" for each in found],
        "reason": [each.reason for each in found],
    }
    write_estimates(path, columns, format="csv", overwrite=overwrite)
