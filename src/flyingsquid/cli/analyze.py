"""``flyingsquid analyze``: statistics of the sources, and findings about them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flyingsquid.cli.console import Console, balance_facts, describe_comparison, describe_votes
from flyingsquid.cli.options import (
    VOTES,
    layout_option,
    method_option,
    model_option,
    open_file,
    reading_options,
)
from flyingsquid.exceptions import OptionError

if TYPE_CHECKING:
    from flyingsquid.analysis import Comparison, PanelReport, Table
    from flyingsquid.cli.labeling import LoadedVotes
    from flyingsquid.files import VoteFile


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("--gold", metavar="COLUMN",
              help="Gold labels, blank where unknown; sources are scored by them.")
@model_option
@method_option
@layout_option
@click.option("--pairs", type=click.IntRange(0), default=10, show_default=True,
              help="How many pairs of sources that agree are shown.")
@click.option("--json", "as_json", is_flag=True, help="Print everything as JSON.")
@reading_options
def analyze(votes: str, as_json: bool, pairs: int, **options: Any) -> None:
    """Show statistics of the sources, their agreement, and findings about them.

    Prints one row per source, the pairs of sources that agree most beyond chance, findings about the sources,
    and a comparison with majority vote. No file is written. For more than 1,000,000 items, an evenly spaced
    sample is used.

    \b
    Examples:
      flyingsquid analyze votes.csv
      flyingsquid analyze judged.csv --gold truth
      flyingsquid analyze crowd.csv --long task,worker,answer --json
      flyingsquid analyze panel.csv --layout '{judge}|{order}'
    """
    from flyingsquid.cli.labeling import LoadedVotes, fit_or_explain, load_model

    console = Console(as_json)
    model = load_model(options["with_model"])
    with console.waiting(f"reading {votes}"):
        file = open_file(votes, options, model=model)
        loaded = LoadedVotes.load(file, layout=options["layout"])
    console.introduce(file)
    if model is None:
        model = fit_or_explain(loaded, console, options["method"])
    with console.waiting("analyzing the votes"):
        found = _analyze(loaded, model, pairs)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=1))
    else:
        _print(found, console)
# fmt: on


@dataclass(frozen=True, slots=True)
class _Findings:
    """Findings about a file.

    Attributes
    ----------
    sources : Table with one row per source
    pairs : Table of pairs that agree; None for very many sources
    agrees : bool
        Whether one of these agrees more often than by chance.
    findings : list of sentences
    balance : str
        Class balance of the model; empty without one.
    balance_facts : dict
        The same as JSON values.
    comparison : Comparison with majority vote; None without a model
    panel : PanelReport, or None if no layout was declared
    n_sampled : int or None
        Number of items in the sample, if not all items were used.
    """

    file: VoteFile
    sources: Table
    pairs: Table | None
    agrees: bool
    findings: list[str]
    balance: str
    balance_facts: dict[str, Any]
    comparison: Comparison | None
    panel: PanelReport | None
    n_sampled: int | None

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {
            "votes": describe_votes(self.file),
            "looked_at": self.n_sampled or self.file.n_items,
            "sources": self.sources.to_dict(),
            "pairs": None if self.pairs is None else self.pairs.to_dict(),
            "findings": self.findings,
            **self.balance_facts,
            "comparison": None if self.comparison is None else describe_comparison(self.comparison),
            "panel": None if self.panel is None else self.panel.to_dict(),
        }


def _analyze(loaded: LoadedVotes, model: Any, most_pairs: int) -> _Findings:
    from flyingsquid.analysis import agreement, findings, panel_report, summarize
    from flyingsquid.analysis.sentences import describe_balance
    from flyingsquid.cli.labeling import clip_length
    from flyingsquid.estimation.dependence import MOST_SOURCES

    if clip_length(model) != 1:
        raise OptionError("--with-model must be a model of single rows; leave it out to analyze the votes.")
    chunk, step = loaded.sample()
    votes, gold = chunk.votes, chunk.gold
    pairs, agrees = None, False
    if most_pairs and votes.n_sources <= MOST_SOURCES:
        together = agreement(votes, model=model)
        pairs = together.pairs(most_pairs)
        agrees = len(pairs) > 0 and bool((np.triu(np.nan_to_num(together.beyond_chance), 1) > 0).any())
    found = findings(votes, gold, model=model)
    panel = None
    if votes.structure is not None and model is not None:
        panel = panel_report(votes, gold, model=model)
    return _Findings(
        file=loaded.file,
        sources=summarize(votes, gold, model=model),
        pairs=pairs,
        agrees=agrees,
        findings=found.sentences(),
        balance="" if model is None else describe_balance(model),
        balance_facts=balance_facts(model),
        comparison=found.comparison,
        panel=panel,
        n_sampled=None if step == 1 else votes.n_items,
    )


def _print(found: _Findings, console: Console) -> None:
    if found.n_sampled is not None:
        console.note(f"A sample of {found.n_sampled:,} items was analyzed.")
    console.echo()
    console.table(found.sources)
    if found.balance:
        console.echo(f"class balance: {found.balance}")
    if found.panel is not None:
        console.echo("\nJudges:")
        console.table(found.panel.table())
    if found.pairs is not None and found.agrees:
        console.echo("\nPairs that agree most beyond chance:")
        console.table(found.pairs)
    console.echo("\nFindings:")
    for sentence in found.findings:
        console.echo(f"- {sentence}")
    if found.comparison is not None and found.comparison.model is not None:
        console.echo()
        console.table(replace(found.comparison.table(), footnotes=()))  # they are among the sentences above
