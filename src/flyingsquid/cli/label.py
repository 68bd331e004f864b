"""``flyingsquid label``: a file of votes in, a file of labels out."""

from __future__ import annotations

from typing import Any

import click

from flyingsquid.cli.fitting import METHODS, read_balance, read_graph
from flyingsquid.cli.reading import FILE, VOTES, reading_options
from flyingsquid.cli.targets import check_targets

WRITABLE = ("csv", "tsv", "jsonl", "npz", "parquet", "arrow")


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), required=True,
              metavar="LABELS", help="Where labels go; - is standard output.")
@click.option("--output-format", type=click.Choice(WRITABLE), metavar="NAME",
              help=f"Format of LABELS: {', '.join(WRITABLE)}. Default: by its name.")
@click.option("--report", "report_path", type=FILE, metavar="FILE.html", help="Also write an HTML report.")
@click.option("--model", "model_path", type=FILE, metavar="FILE.fsq", help="Also keep the fitted model.")
@click.option("--with-model", type=click.Path(exists=True, dir_okay=False), metavar="FILE.fsq",
              help="Label by a model that was kept, without a fit.")
@click.option("--method", type=click.Choice(METHODS), default="auto", show_default=True, metavar="NAME",
              help=f"How sources are judged: {', '.join(METHODS)}.")
@click.option("--graph", callback=read_graph, metavar="FILE.json|learn|chain:D",
              help="What depends on what: a file of DependencyGraph.to_json, 'learn' to find dependent "
                   "sources, or clips of D rows that follow each other.")
@click.option("--class-balance", callback=read_balance, metavar="P,Q,...|estimate|uniform",
              help="Probabilities of the classes, as 0.7,0.3 or ham=0.7,spam=0.3.")
@click.option("--gold", metavar="COLUMN",
              help="Known labels, blank where unknown; labels are compared with them.")
@click.option("--learn-from-gold", is_flag=True, help="Known labels also take part in the fit.")
@click.option("--tie-break", type=click.Choice(["first", "abstain", "random"]), default="first",
              show_default=True, help="The label where classes are equally probable.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For --tie-break random.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@click.option("--quiet", is_flag=True, help="Say nothing but errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, for programs.")
@reading_options
def label(votes: str, output: str, **options: Any) -> None:
    """Turn a file of votes into a file of labels.

    VOTES has one row an item and one column a source, or one row a vote (--long), as csv, tsv, JSON lines,
    npy, npz, parquet, arrow or a WRENCH folder, packed by gzip or zstd or not; - is standard input. LABELS
    gets the identifier of each item, its label, the probability of each class, and how many sources voted.
    It appears whole or not at all. What was understood is printed, and so are the sources and how the labels
    compare with majority vote.

    Files that do not fit into memory are read in chunks. With --graph chain:D every D rows that follow each
    other are one clip, and every row gets its own label; a shorter clip at the end is labelled, but takes
    no part in the fit.

    \b
    Examples:
      flyingsquid label votes.csv -o labels.csv
      flyingsquid label votes.csv -o labels.csv --report report.html --model spam.fsq
      flyingsquid label more.csv -o more-labels.csv --with-model spam.fsq
      flyingsquid label crowd.csv -o labels.jsonl --long task,worker,answer
      flyingsquid label judged.csv -o labels.csv --gold truth
      flyingsquid label signed.npy -o labels.parquet --signed
      flyingsquid label frames.csv -o labels.csv --graph chain:6
      flyingsquid label votes.csv -o - --quiet | head -3
    """
    _check(output, options)
    targets = {"--output": output, "--report": options["report_path"], "--model": options["model_path"]}
    inputs = (options["with_model"],) if options["with_model"] else ()
    check_targets(votes, targets, force=options["force"], inputs=inputs)
    from flyingsquid.cli.labelling import run

    run(votes, output, options)
# fmt: on


def _check(output: str, options: dict[str, Any]) -> None:
    """Refuse options that contradict each other."""
    if options["as_json"] and output == "-":
        raise click.UsageError("--json and labels both go to standard output; write the labels to a file.")
    if options["learn_from_gold"] and not options["gold"]:
        raise click.UsageError("--learn-from-gold needs --gold, the column of known labels.")
    if not options["with_model"]:
        return
    source = click.get_current_context().get_parameter_source
    for name in ("method", "graph", "class_balance", "learn_from_gold"):
        if source(name) == click.core.ParameterSource.COMMANDLINE:
            shown = name.replace("_", "-")
            raise click.UsageError(f"--{shown} belongs to a fit, and --with-model goes without one.")
    if options["model_path"]:
        raise click.UsageError("--model keeps a fitted model, and --with-model has one already.")
