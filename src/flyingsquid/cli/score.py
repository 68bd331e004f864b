"""``flyingsquid score``: true scores of items, estimated from a file of scores."""

from __future__ import annotations

import json
from typing import Any

import click

from flyingsquid._values import format_count, format_value
from flyingsquid.cli.console import Console
from flyingsquid.cli.options import FILE, VOTES, check_output_format, check_outputs, read_list
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.vote_files import read_score_file
from flyingsquid.files.writing import ESTIMATE_FORMATS, write_estimates


def _read_levels(ctx: click.Context, param: click.Parameter, value: str | None) -> list[float] | None:
    """Parse numbers separated by commas; integers stay integers."""
    names = read_list(ctx, param, value)
    if names is None:
        return None
    try:
        numbers = [float(name) for name in names]
    except ValueError as error:
        raise click.BadParameter(f"levels must be numbers; got {format_value(value)}.") from error
    whole = all(number.is_integer() and abs(number) < 2**53 for number in numbers)
    return [int(number) for number in numbers] if whole else numbers


# fmt: off
@click.command()
@click.argument("scores", type=VOTES)
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), required=True,
              metavar="ESTIMATES", help="File to write; - is standard output.")
@click.option("--output-format", type=click.Choice(ESTIMATE_FORMATS), metavar="NAME",
              help=f"Format of ESTIMATES: {', '.join(ESTIMATE_FORMATS)}. Default: by its name.")
@click.option("--levels", callback=_read_levels, metavar="1,2,...",
              help="Grades of an ordinal scale; also write the most probable grade of each item.")
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, help="Confidence level of the intervals of items.")
@click.option("--ignore", callback=read_list, metavar="A,B,...", help="Columns to leave out.")
@click.option("--model", "model_path", type=FILE, metavar="FILE.fsq", help="Also save the fitted model.")
@click.option("--with-model", type=FILE, metavar="FILE.fsq",
              help="Use a saved ScoreModel instead of fitting one.")
@click.option("--escape-formulas", is_flag=True,
              help="In csv, write ' before strings that a spreadsheet would run as formulas.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the sources as JSON.")
def score(scores: str, output: str, **options: Any) -> None:
    """Combine scores of judges into one score per item, with an interval.

    SCORES has one row per item and one column per judge, and possibly a column of identifiers such as id. Or
    it has one row per score, with columns such as item, judge, score and repeat. It is csv, tsv, JSON lines,
    parquet or arrow; - is standard input. ESTIMATES contains the identifier of each item, its score, and the
    ends of its interval. The command prints reliability, bias, scale and noise of every judge.

    \b
    Examples:
      flyingsquid score scores.csv -o estimates.csv
      flyingsquid score stars.csv -o estimates.csv --levels 1,2,3,4,5 --ignore text
      flyingsquid score scores.csv -o estimates.jsonl --model judges.fsq
      flyingsquid score scores.csv -o - --with-model judges.fsq --quiet | head -3
    """
    if options["with_model"] and options["model_path"]:
        raise click.UsageError("--model and --with-model cannot be used together.")
    if output == "-" and options["as_json"]:
        raise click.UsageError("--json and --output - both use standard output.")
    outputs = {"--output": output, "--model": options["model_path"]}
    check_outputs([scores, options["with_model"]], outputs, overwrite=options["force"])
    check_output_format(output, options["output_format"], ESTIMATE_FORMATS)
    from flyingsquid._warnings import capture_source_warnings
    from flyingsquid.models import ScoreModel, load

    console = Console(options["quiet"] or options["as_json"], output == "-")
    model: Any = None
    if options["with_model"]:
        model = load(options["with_model"])
        if not isinstance(model, ScoreModel):
            raise ModelFileError(f"The file must contain a ScoreModel; it contains a {type(model).__name__}.",
                                 path=options["with_model"])
    with console.waiting(f"reading {scores}"):
        read = read_score_file(scores, ignore=options["ignore"] or (),
                               fitted=None if model is None else model.source_names_)
    console.echo(f"{scores}: {format_count(len(read.values), 'item')}, "
                 f"{format_count(read.values.shape[1], 'source')}")
    warned: list[str] = []
    if model is None:
        with capture_source_warnings() as warned:
            model = ScoreModel().fit(read)
    for warning in warned:
        console.note(warning)
    low, high = model.predict_interval(read, confidence=options["confidence"]).T.tolist()
    ids = range(len(read.values)) if read.items is None else read.items.tolist()
    columns: dict[str, Any] = {read.item_name or "id": ids, "score": model.predict(read).tolist(),
                               "low": low, "high": high}
    if options["levels"] is not None:
        columns["level"] = model.predict_class(read, options["levels"]).tolist()
    if options["model_path"]:
        model.save(options["model_path"])
    write_estimates(output, columns, format=options["output_format"], overwrite=options["force"],
                    escape_formulas=options["escape_formulas"])
    if options["as_json"]:
        facts = {"items": len(read.values), "sources": model.summary().to_dict(), "warnings": warned,
                 "output": output}
        click.echo(json.dumps(facts, indent=1))
        return
    console.echo()
    console.table(model.summary())
    if output != "-":
        console.echo(f"{output}: {format_count(len(read.values), 'item')}")
# fmt: on
