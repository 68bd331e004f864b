"""``flyingsquid label`` and ``score``: a file of votes or scores in, a file of labels or estimates out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value
from flyingsquid.cli.console import (
    Console,
    balance_facts,
    describe_comparison,
    describe_features,
    describe_votes,
)
from flyingsquid.cli.options import (
    FILE,
    VOTES,
    check_outputs,
    clip_length_of,
    layout_option,
    method_option,
    model_option,
    read_balance,
    read_graph,
    read_list,
    reading_options,
)
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files import LABEL_FORMATS, LabelWriter, VoteFile
from flyingsquid.files.outputs import output_format
from flyingsquid.files.vote_files import read_score_file
from flyingsquid.files.writing import ESTIMATE_FORMATS, write_estimates
from flyingsquid.votes import Votes
from flyingsquid.votes.decisions import TieBreak, decide, is_tied
from flyingsquid.votes.patterns import distinct_codes, is_repetitive
from flyingsquid.votes.tallies import count_votes_per_item

if TYPE_CHECKING:
    from flyingsquid.analysis import Comparison, PanelReport
    from flyingsquid.cli.inputs import LoadedVotes
    from flyingsquid.fits.diagnostics import Verdict


_TIE_BREAKS = {
    "first": "The first of the classes is chosen; use --tie-break to change that",
    "abstain": "They get no label",
    "random": "One of the classes is chosen at random",
}


# fmt: off
@click.command()
@click.argument("votes", type=VOTES)
@click.option("-o", "--output", type=click.Path(dir_okay=False, allow_dash=True), required=True,
              metavar="LABELS", help="File of labels to write; - is standard output.")
@click.option("--output-format", type=click.Choice(LABEL_FORMATS), metavar="NAME",
              help=f"Format of LABELS: {', '.join(LABEL_FORMATS)}. Default: by its name.")
@click.option("--report", "report_path", type=FILE, metavar="FILE.html", help="Also write an HTML report.")
@click.option("--model", "model_path", type=FILE, metavar="FILE.fsq", help="Also save the fitted model.")
@model_option
@method_option
@layout_option
@click.option("--graph", type=read_graph, metavar="FILE.json|learn|chain:D",
              help="Dependencies: a file of DependencyGraph.to_json, 'learn' to find dependent sources, or "
                   "clips of D consecutive rows.")
@click.option("--class-balance", type=read_balance, metavar="P,Q,...|estimate|uniform",
              help="Probabilities of the classes, as 0.7,0.3 or ham=0.7,spam=0.3.")
@click.option("--gold", metavar="COLUMN|FILE",
              help="Gold labels: a column of VOTES, blank where unknown, or a file with item "
                   "identifiers and labels. The labels are compared with them.")
@click.option("--learn-from-gold", is_flag=True, help="Use the gold labels in the fit, too.")
@click.option("--features", "features_path", type=click.Path(exists=True, dir_okay=False), metavar="FILE.npy",
              help="Features such as embeddings, one row per item in the order of VOTES; .npy, or .npz with "
                   "one array or a sparse matrix. Labels are based on votes and features.")
@click.option("--tie-break", type=click.Choice(list(_TIE_BREAKS)), default="first",
              show_default=True, help="The label if classes are equally probable.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For --tie-break random.")
@click.option("--escape-formulas", is_flag=True,
              help="In csv, write ' before strings that a spreadsheet would run as formulas.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@reading_options
def label(votes: str, output: str, **options: Any) -> None:
    """Turn a file of votes into a file of labels.

    VOTES has one row per item and one column per source, or one row per vote (--long). It is csv, tsv, JSON
    lines, npy, npz, parquet, arrow or a WRENCH directory, compressed with gzip or zstd or not; - is standard
    input. LABELS contains the identifier of each item, its label, the probability of each class, the number
    of votes, and whether classes are tied. It appears only if everything succeeds. The command prints a
    description of the file, the sources, and a comparison with majority vote.

    Files that do not fit into memory are read in chunks. With --graph chain:D every D consecutive rows are
    one clip, and every row gets its own label; a shorter clip at the end is labeled, but not used in the fit.

    \b
    Examples:
      flyingsquid label votes.csv -o labels.csv
      flyingsquid label votes.csv -o labels.csv --report report.html --model spam.fsq
      flyingsquid label more.csv -o more-labels.csv --with-model spam.fsq
      flyingsquid label crowd.csv -o labels.jsonl --long task,worker,answer
      flyingsquid label judged.csv -o labels.csv --gold truth
      flyingsquid label panel.csv -o labels.csv --layout '{judge}|{order}'
      flyingsquid label calls.csv -o labels.csv --long pair,rater,verdict --panel order=turn
      flyingsquid label signed.npy -o labels.parquet --signed
      flyingsquid label frames.csv -o labels.csv --graph chain:6
      flyingsquid label votes.csv -o labels.csv --features embeddings.npy
      flyingsquid label votes.csv -o - --quiet | head -3
    """
    _check_options(output, options)
    outputs = {"--output": output, "--report": options["report_path"], "--model": options["model_path"]}
    inputs = [votes, options["with_model"], options["features_path"]]
    check_outputs(inputs, outputs, overwrite=options["force"])
    output_format(output, options["output_format"], LABEL_FORMATS, parameter="output_format")
    from flyingsquid.analysis.findings import verdict_on
    from flyingsquid.cli.inputs import fit_model, load_features, panel_of, read_inputs

    console = Console(options["quiet"] or options["as_json"], output == "-")
    in_memory = "--graph" if clip_length_of(options["graph"]) > 1 else ""
    in_memory = "--learn-from-gold" if options["learn_from_gold"] else in_memory
    loaded, model = read_inputs(votes, options, console, needed_by=in_memory, clips_by="--with-model")
    file, path = loaded.file, options["features_path"]
    features = None if path is None else load_features(path, file)
    warned: tuple[str, ...] = ()
    if model is None:
        gold = loaded.loaded.gold if options["learn_from_gold"] and loaded.loaded is not None else None
        model, warned = fit_model(loaded, options, console, gold=gold, features=features)
        if options["model_path"]:
            model.save(options["model_path"])
    labeler = _write_labels(loaded, model, output, options, console, features)
    comparison = labeler.comparison.result()
    verdict = verdict_on(model, comparison)
    panel = panel_of(loaded, model)
    _print_model(console, model, verdict, panel, options)
    _print_labels(console, labeler, model, comparison, output, options)
    if options["report_path"]:
        from flyingsquid.cli.analysis import write_report

        with console.show_spinner("writing the report"):
            title = f"Labels of {PurePath(file.path).name}"
            part = write_report(loaded, model, options["report_path"], title=title, features=features)
        console.echo(f"{options['report_path']}: report{part}")
    if options["as_json"]:
        result = _result(file, model, labeler, comparison, verdict, output, options)
        judges = None if panel is None else panel.to_dict()
        click.echo(json.dumps(result | {"panel": judges, "warnings": list(warned)}, indent=1))
# fmt: on


def _check_options(output: str, options: dict[str, Any]) -> None:
    """Raise UsageError for options that contradict each other."""
    if options["as_json"] and output == "-":
        raise click.UsageError("--json and -o - both use standard output; write the labels to a file.")
    if options["learn_from_gold"] and not options["gold"]:
        raise click.UsageError("--learn-from-gold requires --gold.")
    if not options["with_model"]:
        return
    source = click.get_current_context().get_parameter_source
    for name in ("method", "graph", "class_balance", "learn_from_gold"):
        if source(name) == click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"--{name.replace('_', '-')} cannot be used with --with-model, which does not fit a model."
            )
    if options["model_path"]:
        raise click.UsageError("--model and --with-model cannot be used together.")


class Labeled(NamedTuple):
    """Labels of n items: codes (n,), -1 for no label; probabilities (n, K); numbers of votes (n,)."""

    codes: NDArray[Any]
    probabilities: NDArray[np.float64]
    n_votes: NDArray[Any]


class Labeler:
    """Label items part by part.

    Parameters
    ----------
    model : fitted label model
        A model with D > 1 tasks of s sources each labels clips of D consecutive rows with s sources; a
        shorter last clip is filled up with rows without votes.
    tie_break, rng : as in ``predict``

    Attributes
    ----------
    comparison : RunningComparison
        Comparison with majority vote on everything labeled so far; ``comparison.result()`` returns it.
    counts : integer array of shape (K + 1,)
        Number of items with each label, and at the end the number of items without a label.
    n_tied : int
        How many items have several most probable classes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> labeler = Labeler(fs.LabelModel().fit(votes))
    >>> labeled = labeler.label(votes[:400])
    >>> labeled.codes.shape, labeled.probabilities.shape
    ((400,), (400, 2))
    >>> _ = labeler.label(votes[400:])
    >>> labeler.comparison.result().n_items
    569
    """

    def __init__(
        self, model: Any, *, tie_break: TieBreak = "first", rng: np.random.Generator | None = None
    ) -> None:
        from flyingsquid.analysis.comparison import RunningComparison

        self._model, self._tie_break, self._rng = model, tie_break, rng
        self.comparison = RunningComparison(tuple(model.classes_.tolist()))
        self.counts = np.zeros(len(model.classes_) + 1, np.int64)
        self.n_tied = 0

    def label(self, votes: Votes, gold: NDArray[Any] | None = None, features: Any = None) -> Labeled:
        """Label n items; ``gold`` are codes, negative if unknown, and ``features`` has at least n rows."""
        from flyingsquid.cli.inputs import clip_length, clips

        model, length = self._model, clip_length(self._model)
        if length is not None and length > 1:
            posterior = model.predict_proba(clips(votes, length)).reshape(-1, votes.n_classes)
            return self._labeled(votes, posterior[: votes.n_items], gold)
        read = model.read_votes(votes)
        codes = read.codes
        if features is not None:
            return self._labeled(read, model.predict_proba(read, features=features[: read.n_items]), gold)
        if length is None or read.is_sparse or not is_repetitive(codes, read.n_classes):
            return self._labeled(read, model.predict_proba(read), gold)
        rows, counts, inverse = distinct_codes(codes, read.n_classes)
        distinct = Votes(rows, read.classes, read.names)
        return self._labeled(distinct, model.predict_proba(distinct), gold, counts, inverse)

    def _labeled(
        self,
        votes: Votes,
        posterior: NDArray[np.float64],
        gold: NDArray[Any] | None,
        counts: NDArray[Any] | None = None,
        inverse: NDArray[Any] | None = None,
    ) -> Labeled:
        """Label distinct rows, row i of which occurs ``counts[i]`` times; item j is row ``inverse[j]``."""
        from flyingsquid.inference import vote_shares

        shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
        n_votes = count_votes_per_item(votes.codes).astype(np.int32)
        self.comparison.add(posterior, shares, n_votes, times=counts)
        tied = is_tied(posterior)
        self.n_tied += int(tied.sum() if counts is None else counts[tied].sum())
        if inverse is not None and (gold is not None or self._tie_break == "random"):
            posterior, shares, n_votes = posterior[inverse], shares[inverse], n_votes[inverse]
            inverse = counts = None
        if gold is not None:
            known = gold >= 0
            self.comparison.add_known(posterior[known], shares[known], gold[known])
        codes = decide(posterior, tuple(range(votes.n_classes)), self._tie_break, self._rng).astype(np.int16)
        weights = None if counts is None else counts.astype(np.float64)
        position = np.where(codes < 0, votes.n_classes, codes)
        self.counts += np.bincount(position, weights, votes.n_classes + 1).astype(np.int64)
        if inverse is None:
            return Labeled(codes, posterior, n_votes)
        return Labeled(codes[inverse], posterior[inverse], n_votes[inverse])


def _no_gold_error(column: str | None, gold: str, path: str) -> OptionError:
    """Return the error for a column, or a file, without gold labels."""
    if column is None:
        return OptionError("The file contains no gold labels; fill in its column of gold labels.", path=gold)
    return OptionError(f"Column {column} contains no gold labels.", path=path)


def _write_labels(
    votes: LoadedVotes,
    model: Any,
    output: str,
    options: dict[str, Any],
    console: Console,
    features: Any = None,
) -> Labeler:
    from flyingsquid.cli.inputs import clip_length

    file, classes = votes.file, model.vote_schema_.classes
    gold = None if votes.loaded is None else votes.loaded.gold_codes
    if gold is not None and not (gold >= 0).any():
        raise _no_gold_error(file.gold_name, options["gold"], file.path)
    rng = np.random.default_rng(options["seed"]) if options["tie_break"] == "random" else None
    labeler = Labeler(model, tie_break=options["tie_break"], rng=rng)
    taken = {"label", "n_votes", "tied", *(f"p_{label}" for label in classes)}
    writer = LabelWriter(
        output,
        classes=classes,
        format=options["output_format"],
        overwrite=options["force"],
        escape_formulas=options["escape_formulas"],
        id_name="id" if file.item_name is None or file.item_name in taken else file.item_name,
    )
    chunks = votes.chunks(multiple=clip_length(model) or file.n_items)
    with writer as out:
        for chunk in console.progress(chunks, "labeling", file.n_items, lambda part: part.votes.n_items):
            found = labeler.label(chunk.votes, chunk.gold_codes, features)
            features = None if features is None else features[chunk.votes.n_items :]
            out.write(chunk.ids, found.codes, found.probabilities, found.n_votes)
    return labeler


def _print_model(
    console: Console, model: Any, verdict: Verdict | None, panel: PanelReport | None, options: dict[str, Any]
) -> None:
    console.echo()
    if options["with_model"]:
        console.echo(f"Model {options['with_model']}:")
    console.table(model.summary())
    if panel is not None:
        console.describe_panel(panel)
    console.echo()
    console.describe_fit(model, verdict)


def _note_classes_without_votes(console: Console, model: Any, options: dict[str, Any]) -> None:
    """Print classes without votes, which may be typing errors in a column of gold labels."""
    if options["with_model"] or options["classes"]:
        return
    counts = np.asarray(model.moments_.vote_counts).sum(axis=0)
    added = [label for label, count in zip(model.vote_schema_.classes, counts, strict=True) if not count]
    if added:
        console.note(f"No source votes for {format_list(added, 5)}. Check the spelling of the gold labels.")


def _print_labels(
    console: Console,
    labeler: Labeler,
    model: Any,
    comparison: Comparison,
    output: str,
    options: dict[str, Any],
) -> None:
    from flyingsquid.cli.inputs import clip_length

    if comparison.model is not None:
        console.table(replace(comparison.table(), footnotes=(comparison.sentence(),)))  # the verdict is above
        if options["learn_from_gold"]:
            console.note("The fit used these gold labels, so the scores are too optimistic.")
        _note_classes_without_votes(console, model, options)
    else:
        console.echo(comparison.sentence())
        if options["gold"]:
            console.note(f"Column {options['gold']} contains no gold labels.")
    console.echo()
    without = comparison.n_items - comparison.n_covered
    if without:
        if options["features_path"] and model.diagnostics_.features.is_used:
            labels = "Labels are based on features alone"
        elif clip_length(model) != 1:
            labels = "Labels are based on the rows around them"
        else:
            labels = "All have the same probabilities"
        console.note(f"Items without votes (n_votes is 0): {without:,}. {labels}.")
    if labeler.n_tied:
        tied = _TIE_BREAKS[options["tie_break"]]
        console.note(f"Tied labels (tied is true): {labeler.n_tied:,}. {tied}.")
    names = [*(" ".join(str(label).split()) for label in model.vote_schema_.classes), "no label"]
    counts = [f"{name}: {n:,}" for name, n in zip(names, labeler.counts.tolist(), strict=True) if n]
    if len(counts) > 9:
        counts = [*counts[:8], f"{len(counts) - 8} more classes"]
    target = "standard output" if output == "-" else output
    total = format_count(int(labeler.counts.sum()), "label")
    console.echo(f"{target}: {total} ({', '.join(counts)})")
    if options["model_path"]:
        console.echo(f"{options['model_path']}: model; use it with --with-model {options['model_path']}")


def _result(
    file: VoteFile,
    model: Any,
    labeler: Labeler,
    comparison: Comparison,
    verdict: Verdict | None,
    output: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    """Return a summary of the run as JSON values."""
    diagnostics = getattr(model, "diagnostics_", None)
    counts = labeler.counts.tolist()
    return {
        "votes": describe_votes(file),
        "labels": {
            "path": output,
            "items": sum(counts),
            "counts": dict(zip(map(str, model.vote_schema_.classes), counts, strict=False)),
            "without_label": counts[-1],
            "tied": labeler.n_tied,
        },
        "report": options["report_path"],
        "model": options["model_path"] or options["with_model"],
        "method": getattr(diagnostics, "method", None),
        "reason": getattr(diagnostics, "reason", None),
        "verdict": None if verdict is None else str(verdict),
        "verdict_kind": getattr(verdict, "kind", None),
        "use_model": getattr(verdict, "use_model", None),
        **balance_facts(model),
        "sources": model.summary().to_dict(),
        "comparison": describe_comparison(comparison),
        "learned_from_gold": options["learn_from_gold"],
        "features": describe_features(model),
    }


def _read_levels(value: str) -> list[float]:
    """Parse numbers separated by commas; integers stay integers."""
    try:
        numbers = [float(name) for name in read_list(value)]
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
@click.option("--levels", type=_read_levels, metavar="1,2,...",
              help="Grades of an ordinal scale; also write the most probable grade of each item.")
@click.option("--confidence", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.95,
              show_default=True, help="Confidence level of the intervals of items.")
@click.option("--ignore", type=read_list, metavar="A,B,...", help="Columns to leave out.")
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
    output_format(output, options["output_format"], ESTIMATE_FORMATS, parameter="output_format")
    from flyingsquid._warnings import capture_source_warnings
    from flyingsquid.models import ScoreModel, load

    console = Console(options["quiet"] or options["as_json"], output == "-")
    model: Any = None
    if options["with_model"]:
        model = load(options["with_model"])
        if not isinstance(model, ScoreModel):
            raise ModelFileError(f"The file must contain a ScoreModel; it contains a {type(model).__name__}.",
                                 path=options["with_model"])
    with console.show_spinner(f"reading {scores}"):
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
