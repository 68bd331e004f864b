"""``flyingsquid analyze``, ``rate``, ``suggest`` and ``report``: statistics of votes, sources and labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count, format_value
from flyingsquid.cli.console import Console, balance_facts, describe_comparison, describe_votes
from flyingsquid.cli.options import (
    FILE,
    VOTES,
    check_outputs,
    layout_option,
    method_option,
    model_option,
    read_list,
    reading_options,
)
from flyingsquid.exceptions import OptionError, VoteFileError

if TYPE_CHECKING:
    from flyingsquid.analysis import Suggestions, Table
    from flyingsquid.cli.inputs import LoadedVotes
    from flyingsquid.files import VoteChunk, VoteFile
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
    from flyingsquid.analysis.findings import describe_balance
    from flyingsquid.cli.inputs import panel_of

    with console.show_spinner("analyzing the votes"):
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
    if panel is not None:
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
        "items_analyzed": votes.n_items,
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


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("--gold", metavar="COLUMN|FILE", required=True,
              help="Gold labels of a random sample: a column of VOTES, blank where unknown, or a file with "
                   "item identifiers and labels.")
@click.option("--by", metavar="COLUMN",
              help="A column of VOTES with the group of each item, such as a system.")
@click.option("--compare", type=read_list, metavar="A,B",
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
    from flyingsquid.files.outputs import label_text
    from flyingsquid.files.writing import write_estimates

    columns = {
        id_name: ids,
        _GOLD: [""] * len(ids),
        "predicted": [label_text(each.label) for each in found],
        "probability": [f"{each.probability:.4f}" for each in found],
        "reason": [each.reason for each in found],
    }
    write_estimates(path, columns, format="csv", overwrite=overwrite)


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-o", "--output", type=FILE, required=True, metavar="FILE.html", help="The page to write.")
@model_option
@method_option
@layout_option
@click.option("--gold", metavar="COLUMN|FILE",
              help="Gold labels: a column of VOTES, blank where unknown, or a file with item "
                   "identifiers and labels. Labels are scored by them.")
@click.option("--data", "data_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE",
              help="The items themselves, to be shown: csv, tsv, JSON lines, parquet or arrow with one row "
                   "per item, by identifier or in the same order; or a text file with one line per item.")
@click.option("--features", "features_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE.npy",
              help="Features of the items, one row each: .npy, or .npz with one array or a sparse matrix. "
                   "Labels are based on votes and features.")
@click.option("--title", metavar="TEXT", help="The heading. Default: the name of the file.")
@click.option("--ordered", is_flag=True, help="Items are ordered by time: show how sources change.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@reading_options
def report(votes: str, output: str, **options: Any) -> None:
    """Write an HTML report about votes and labels.

    The report is one file with a summary, the sources, their agreement, the confidence of the labels, and
    items to review. It loads nothing from the network. For more than 1,000,000 items, it shows an evenly
    spaced sample.

    \b
    Examples:
      flyingsquid report votes.csv -o report.html
      flyingsquid report judged.csv -o report.html --gold truth --data texts.csv --force
      flyingsquid report panel.csv -o report.html --layout '{judge}|{order}'
    """
    inputs = [votes, options["with_model"], options["data_path"], options["features_path"]]
    check_outputs(inputs, {"--output": output}, overwrite=options["force"])
    from flyingsquid.cli.inputs import fit_or_explain, load_features, read_inputs

    console = Console(options["quiet"])
    loaded, model = read_inputs(votes, options, console, clips_by="--with-model")
    path = options["features_path"]
    features = None if path is None else load_features(path, loaded.file)
    if model is None:
        model = fit_or_explain(loaded, options, console, features)
    title = options["title"] or f"Votes and labels of {PurePath(loaded.file.path).name}"
    with console.show_spinner("writing the report"):
        part = write_report(loaded, model, output, title=title, data=options["data_path"],
                            ordered=options["ordered"], features=None if model is None else features)
    console.echo(f"{output}: report{part}")
# fmt: on


def write_report(
    votes: LoadedVotes,
    model: Any,
    path: str,
    *,
    title: str,
    data: str | None = None,
    ordered: bool = False,
    features: Any = None,
) -> str:
    """Write the report, and return a description of the sample that it shows; empty for all votes.

    ``data`` is a file of the items, and ``features`` are those of all items.
    """
    from flyingsquid.cli.inputs import clip_length
    from flyingsquid.reports import report as html_report

    if model is not None and not hasattr(model, "explain"):
        raise OptionError(f"A report of a {type(model).__name__} is not supported.")
    length = clip_length(model) or 1
    if length > 1:
        if data is not None:
            raise OptionError("--data is not supported for models of clips.")
        read, gold, part = _sampled_clips(votes, length)
        task, records = length // 2, None
        part, features = f" of row {task + 1} of clips of {length}{part}", None
    else:
        chunk, step = votes.sample()
        read, gold, task = chunk.votes, chunk.gold, None
        records = None if data is None else records_of(chunk, data, votes, step)
        features = None if features is None else features[::step]
        part = "" if step == 1 else f" of a sample of {format_count(read.n_items, 'item')}"
    if gold is not None and not any(label is not None for label in gold.ravel()):
        where = "The file" if votes.file.gold_name is None else f"Column {votes.file.gold_name}"
        raise OptionError(f"{where} of --gold contains no gold labels.", path=votes.file.path)
    html_report(
        read,
        gold,
        model=model,
        data=records,
        path=path,
        title=title,
        task=task,
        ordered=ordered,
        features=features,
    )
    return part


def _sampled_clips(votes: LoadedVotes, length: int) -> tuple[Any, Any, str]:
    """Return clips of votes in memory, their gold labels, and their number if they are a sample."""
    from flyingsquid.cli.inputs import clips

    if votes.loaded is None:
        raise OptionError("Clips need all votes in memory; use a part of the file.", path=votes.file.path)
    read, gold = clips(votes.loaded.votes, length, complete_only=True), votes.loaded.gold
    if gold is not None:
        gold = gold[: read.n_items * length].reshape(-1, length)
    step = -(-read.n_items * length // LIMITS.get().sampled_items)
    if step <= 1:
        return read, gold, ""
    part = slice(None, None, step)
    return read[part], None if gold is None else gold[part], f", {read[part].n_items:,} of them"


def records_of(chunk: VoteChunk, path: str, votes: LoadedVotes, step: int = 1) -> list[Any]:
    """Read the items of a chunk from a file: by identifier if it has them, otherwise in the same order.

    ``step`` is 2 if the chunk contains every second item of the file of votes, and so on.
    """
    from flyingsquid.files.vote_files import read_records

    records, item = read_records(path), votes.file.item_name
    ids = [str(each) for each in chunk.ids]
    if item is not None and records and isinstance(records[0], dict) and item in records[0]:
        found = {str(record.get(item)): record for record in records}
        absent = next((each for each in ids if each not in found), None)
        if absent is not None:
            raise VoteFileError(
                f"No row has {item} {format_value(absent)}, which occurs in {votes.file.path}.", path=path
            )
        return [found[each] for each in ids]
    if len(records) != votes.file.n_items:
        column = f", or a column {format_value(item)}" if item else ""
        raise VoteFileError(
            f"The file must have one row per item, {format_count(votes.file.n_items, 'row')}{column}; it has "
            f"{format_count(len(records), 'row')}.",
            path=path,
        )
    return records[::step]
