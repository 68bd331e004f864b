"""``flyingsquid report``: a page about votes and the labels they give."""

from __future__ import annotations

from typing import Any

import click

from flyingsquid.cli.console import Voice
from flyingsquid.cli.fitting import METHODS, load_model
from flyingsquid.cli.reading import FILE, VOTES, Reading, open_file, reading_options
from flyingsquid.cli.targets import check_targets


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE.html", help="Where the page goes.")
@click.option("--with-model", type=click.Path(exists=True, dir_okay=False), metavar="FILE.fsq",
              help="A model that was kept. Default: one that is fitted to the votes.")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, metavar="NAME",
              help=f"How sources are judged: {', '.join(METHODS)}.")
@click.option("--gold", metavar="COLUMN", help="Known labels, blank where unknown; they judge the labels.")
@click.option("--data", "data_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="The items themselves, to be shown: csv, tsv, JSON lines, parquet or arrow with one row "
                   "an item, by identifier or in the same order; or a text file with one line an item.")
@click.option("--title", metavar="TEXT", help="The heading. Default: the name of the file.")
@click.option("--ordered", is_flag=True, help="Items are in the order of time: show how sources change.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@reading_options
def report(votes: str, output: str, **options: Any) -> None:
    """Make an HTML page about votes and the labels they give.

    One file that a colleague can open: a summary in words, the sources, who agrees with whom, how sure the
    labels are, and the items that are worth a look. It loads nothing. Of more than 1,000,000 items it shows
    a part, evenly spread.

    \b
    Examples:
      flyingsquid report votes.csv -o report.html
      flyingsquid report judged.csv -o report.html --gold truth --data texts.csv --force
    """
    inputs = tuple(path for path in (options["with_model"], options["data_path"]) if path)
    check_targets(votes, {"--output": output}, force=options["force"], inputs=inputs)
    from flyingsquid.cli.reporting import fit_for_report, reading_of_model, write_report
    from flyingsquid.models.labelling import clip_length

    voice = Voice(options["quiet"])
    model = load_model(options["with_model"]) if options["with_model"] else None
    with voice.waiting(f"reading {votes}"):
        file = open_file(votes, reading_of_model(options, model), gold=options["gold"])
        reading = Reading.of(file, needed_by="a graph of several rows" if clip_length(model) > 1 else "")
    voice.introduce(file)
    if model is None:
        model = fit_for_report(reading, voice, options["method"])
    title = options["title"] or f"Votes and labels of {file.path}"
    with voice.waiting("writing the report"):
        note = write_report(reading, model, output, title=title, data=options["data_path"],
                            ordered=options["ordered"])
    voice.say(f"{output}: the report{note}")
# fmt: on
