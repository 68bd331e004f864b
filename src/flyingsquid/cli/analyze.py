"""``flyingsquid analyze``: statistics of the sources, and findings about them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flyingsquid._values import format_count
from flyingsquid.cli.console import Console, balance_facts, describe_comparison, describe_votes
from flyingsquid.cli.options import VOTES, layout_option, method_option, model_option, reading_options

if TYPE_CHECKING:
    from flyingsquid.analysis import Table
    from flyingsquid.cli.inputs import LoadedVotes
    from flyingsquid.votes import Votes


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("--gold", metavar="COLUMN|FILE",
              help="Gold labels: a column of VOTES, blank where unknown, or a file with item "
                   "identifiers and labels. Sources are scored by them.")
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
      flyingsquid analyze calls.csv --long pair,rater,verdict --panel order=turn
    """
    from flyingsquid.cli.inputs import fit_or_explain, read_inputs

    console = Console(as_json)
    loaded, model = read_inputs(votes, options, console)
    if model is None:
        model = fit_or_explain(loaded, options, console)
    facts = _analyze(loaded, model, pairs, console)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
# fmt: on


def _analyze(loaded: LoadedVotes, model: Any, most_pairs: int, console: Console) -> dict[str, Any]:
    """Print everything, and return it as JSON values."""
    from flyingsquid.analysis import findings, summarize
    from flyingsquid.analysis.sentences import describe_balance
    from flyingsquid.cli.inputs import panel_of

    with console.waiting("analyzing the votes"):
        chunk, step = loaded.sample()
        votes, gold = chunk.votes, chunk.gold
        sources = summarize(votes, gold, model=model)
        pairs, agree = _most_similar_pairs(votes, model, most_pairs)
        found = findings(votes, gold, model=model)
        sentences, comparison = found.sentences(), found.comparison
        panel = panel_of(loaded, model)
    if step > 1:
        console.note(f"A sample of {format_count(votes.n_items, 'item')} was analyzed.")
    console.echo()
    console.table(sources)
    balance = "" if model is None else describe_balance(model)
    if balance:
        console.echo(f"class balance: {balance}")
    console.describe_panel(panel)
    if pairs is not None and agree:
        console.echo("\nPairs that agree most beyond chance:")
        console.table(pairs)
    console.echo("\nFindings:")
    for sentence in sentences:
        console.echo(f"- {sentence}")
    if comparison is not None and comparison.model is not None:
        console.echo()
        console.table(replace(comparison.table(), footnotes=()))  # they are among the sentences above
    return {
        "votes": describe_votes(loaded.file),
        "looked_at": votes.n_items,
        "sources": sources.to_dict(),
        "pairs": None if pairs is None else pairs.to_dict(),
        "findings": sentences,
        **balance_facts(model),
        "comparison": None if comparison is None else describe_comparison(comparison),
        "panel": None if panel is None else panel.to_dict(),
    }


def _most_similar_pairs(votes: Votes, model: Any, most: int) -> tuple[Table | None, bool]:
    """Return the pairs that agree most beyond chance, and whether any does; None for very many sources."""
    from flyingsquid.analysis import agreement
    from flyingsquid.estimation.dependence import MOST_SOURCES

    if not most or votes.n_sources > MOST_SOURCES:
        return None, False
    together = agreement(votes, model=model)
    pairs = together.pairs(most)
    return pairs, len(pairs) > 0 and bool((np.triu(np.nan_to_num(together.beyond_chance), 1) > 0).any())
