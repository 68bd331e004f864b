"""``flyingsquid analyze``: what each source does, and what stands out."""

from __future__ import annotations

import json
from typing import Any

import click

from flyingsquid.cli.console import Voice
from flyingsquid.cli.fitting import METHODS, load_model
from flyingsquid.cli.reading import VOTES, Reading, open_file, reading_options


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("--gold", metavar="COLUMN",
              help="Known labels, blank where unknown; sources are judged by them.")
@click.option("--with-model", type=click.Path(exists=True, dir_okay=False), metavar="FILE.fsq",
              help="A model that was kept. Default: one that is fitted to the votes.")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, metavar="NAME",
              help=f"How sources are judged: {', '.join(METHODS)}.")
@click.option("--pairs", type=click.IntRange(0), default=10, show_default=True,
              help="How many pairs of sources that agree are shown.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON, for programs.")
@reading_options
def analyze(votes: str, as_json: bool, pairs: int, **options: Any) -> None:
    """Say what each source does, who agrees with whom, and what stands out.

    Prints one row a source, the pairs of sources that agree most beyond chance, and what stands out in words,
    beside majority vote. Nothing is written. Of more than 1,000,000 items a part is looked at, evenly spread.

    \b
    Examples:
      flyingsquid analyze votes.csv
      flyingsquid analyze judged.csv --gold truth
      flyingsquid analyze crowd.csv --long task,worker,answer --json
    """
    from flyingsquid.cli.analysing import look_at, show
    from flyingsquid.cli.reporting import fit_for_report, reading_of_model

    voice = Voice(as_json)
    model = load_model(options["with_model"]) if options["with_model"] else None
    with voice.waiting(f"reading {votes}"):
        file = open_file(votes, reading_of_model(options, model), gold=options["gold"])
        reading = Reading.of(file)
    voice.introduce(file)
    if model is None:
        model = fit_for_report(reading, voice, options["method"])
    with voice.waiting("looking at the votes"):
        found = look_at(reading, model, pairs)
    if as_json:
        click.echo(json.dumps(found.plain(), indent=1))
    else:
        show(found, voice)
# fmt: on
