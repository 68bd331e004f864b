"""The work of ``flyingsquid label``: read, fit, write, say."""

from __future__ import annotations

import json
from typing import Any

import click
import numpy as np

from flyingsquid.analysis import Comparison
from flyingsquid.cli.console import Voice
from flyingsquid.cli.fitting import Fitted, fit_model, load_model, needs_clips
from flyingsquid.cli.reading import Reading, open_file
from flyingsquid.cli.reporting import reading_of_model, write_report
from flyingsquid.exceptions import OptionError
from flyingsquid.formats import LabelWriter, VoteFile
from flyingsquid.formats.labels import WRITABLE
from flyingsquid.formats.output import output_format
from flyingsquid.formats.streams import need_pyarrow
from flyingsquid.io import encode_labels
from flyingsquid.models.labelling import Labeller, clip_length


def run(votes: str, output: str, options: dict[str, Any]) -> None:
    """Label a file; every option was checked by itself."""
    voice = Voice(options["quiet"] or options["as_json"], output == "-")
    if output_format(output, options["output_format"], WRITABLE, "csv") in ("parquet", "arrow"):
        need_pyarrow(f"{output} is of a format that")
    model = load_model(options["with_model"]) if options["with_model"] else None
    if options["report_path"] and model is not None and not hasattr(model, "explain"):
        raise OptionError(f"--report is not made of a {type(model).__name__}; leave it out")
    with voice.waiting(f"reading {votes}"):
        file = open_file(votes, reading_of_model(options, model), gold=options["gold"])
        reading = Reading.of(file, needed_by=_needs_memory(options, model))
    voice.introduce(file)
    _check_gold(reading)
    fitted = Fitted(model)
    if model is None:
        fitted = fit_model(
            reading,
            voice,
            method=options["method"],
            graph=options["graph"],
            class_balance=options["class_balance"],
            learn_from_gold=options["learn_from_gold"],
        )
        if options["model_path"]:
            fitted.model.save(options["model_path"])
    labeller = _write_labels(reading, fitted.model, output, options, voice)
    comparison = labeller.comparison()
    _say(voice, fitted, labeller, comparison, output, options)
    if options["report_path"]:
        with voice.waiting("writing the report"):
            note = write_report(reading, fitted.model, options["report_path"], title=f"Labels of {file.path}")
        voice.say(f"{options['report_path']}: the report{note}")
    if options["as_json"]:
        result = _result(file, fitted, labeller, comparison, output, options)
        click.echo(json.dumps(result, indent=1))


def _needs_memory(options: dict[str, Any], model: Any) -> str:
    """The option that needs all votes at once, if there is one."""
    if options["learn_from_gold"]:
        return "--learn-from-gold"
    if needs_clips(options["graph"]) or clip_length(model) > 1 or hasattr(model, "transition_"):
        return "a graph of several rows"
    return ""


def _check_gold(reading: Reading) -> None:
    gold = None if reading.whole is None else reading.whole.gold_codes
    if gold is not None and not (gold >= 0).any():
        raise OptionError(f"{reading.file.path}: --gold {reading.file.gold_name}: no label is known")


def _write_labels(
    reading: Reading, model: Any, output: str, options: dict[str, Any], voice: Voice
) -> Labeller:
    file = reading.file
    rng = np.random.default_rng(options["seed"]) if options["tie_break"] == "random" else None
    labeller = Labeller(model, tie_break=options["tie_break"], rng=rng)
    in_one = hasattr(model, "transition_")
    parts = reading.chunks(multiple=reading.file.n_items if in_one else clip_length(model))
    writer = LabelWriter(
        output,
        classes=tuple(model.vote_schema_.classes),
        format=options["output_format"],
        force=options["force"],
        id_name=_id_name(file),
    )
    with writer as out:
        for chunk in voice.progress(parts, "labelling", file.n_items, lambda part: part.votes.n_items):
            found = labeller.label(chunk.votes, chunk.gold_codes)
            out.write(chunk.ids, found.codes, found.probabilities, found.cast)
    return labeller


def _id_name(file: VoteFile) -> str:
    """What identifiers are called in the file of votes, unless another column of labels has that name."""
    taken = {"label", "n_votes", *(f"p_{label}" for label in file.classes)}
    return file.item_name if file.item_name and file.item_name not in taken else "id"


def _say(
    voice: Voice,
    fitted: Fitted,
    labeller: Labeller,
    comparison: Comparison,
    output: str,
    options: dict[str, Any],
) -> None:
    model = fitted.model
    for warning in fitted.notes:
        voice.note(warning)
    voice.say()
    if options["with_model"]:
        voice.say(f"The model of {options['with_model']}:")
    voice.table(model.summary())
    voice.say()
    diagnostics = getattr(model, "diagnostics_", None)
    if diagnostics is not None:
        reason = getattr(diagnostics, "reason", "")
        voice.say(f"Method: {diagnostics.method}" + (f" ({reason})" if reason else ""))
        voice.say(f"Verdict: {diagnostics.verdict}")
    if comparison.model is not None:
        voice.table(comparison.table())
        if options["learn_from_gold"]:
            voice.note("the model learned from these known labels, so its scores flatter it")
    else:
        voice.say(comparison.sentence())
        if options["gold"]:
            voice.note(f"no label is known in the column {options['gold']}")
    voice.say()
    lonely = comparison.n_items - comparison.n_covered
    if lonely:
        what = "1 item has" if lonely == 1 else f"{lonely:,} items have"
        voice.note(f"{what} no vote at all, and a label by the class balance alone; n_votes is 0 there")
    voice.say(f"{'standard output' if output == '-' else output}: {_counted(model, labeller)}")
    if options["model_path"]:
        voice.say(
            f"{options['model_path']}: the model; --with-model {options['model_path']} labels more by it"
        )


def _counted(model: Any, labeller: Labeller) -> str:
    shown = [
        f"{label}: {count:,}"
        for label, count in zip(
            [*model.vote_schema_.classes, "without a label"], labeller.counts.tolist(), strict=True
        )
        if count
    ]
    rest = len(shown) - 8
    shown = [*shown[:8], f"{rest} more classes"] if rest > 1 else shown
    return f"{int(labeller.counts.sum()):,} labels ({', '.join(shown)})"


def _result(
    file: VoteFile,
    fitted: Fitted,
    labeller: Labeller,
    comparison: Comparison,
    output: str,
    options: dict[str, Any],
) -> dict[str, Any]:
    """What was done, as plain data."""
    model, diagnostics = fitted.model, getattr(fitted.model, "diagnostics_", None)
    verdict = getattr(diagnostics, "verdict", None)
    return {
        "votes": understood(file),
        "labels": {
            "path": output,
            "items": int(labeller.counts.sum()),
            "counts": dict(zip(map(str, model.vote_schema_.classes), labeller.counts.tolist(), strict=False)),
            "without_label": int(labeller.counts[-1]),
        },
        "report": options["report_path"],
        "model": options["model_path"] or options["with_model"],
        "method": getattr(diagnostics, "method", None),
        "reason": getattr(diagnostics, "reason", None),
        "verdict": None if verdict is None else str(verdict),
        "use_model": getattr(verdict, "use_model", None),
        "class_balance": np.asarray(getattr(model, "class_balance_", [])).tolist() or None,
        "sources": model.summary().to_dict(),
        "comparison": compared(comparison),
        "learned_from_gold": options["learn_from_gold"],
        "warnings": list(fitted.notes),
    }


def understood(file: VoteFile) -> dict[str, Any]:
    """What was understood of a file, as plain data."""
    return {
        "path": file.path,
        "format": file.format,
        "form": file.form,
        "items": file.n_items,
        "sources": list(file.source_names),
        "classes": encode_labels(file.classes),
        "item": file.item_name,
        "gold": file.gold_name,
        "description": file.describe(),
        "notes": list(file.notes),
    }


def compared(comparison: Comparison) -> dict[str, Any]:
    """A comparison as plain data."""
    plain = {
        name: getattr(comparison, name)
        for name in ("n_items", "coverage", "ties", "differ", "n_known", "gain", "gain_interval")
    }
    for side in ("model", "majority"):
        scores = getattr(comparison, side)
        plain[side] = scores and {name: getattr(scores, name) for name in ("accuracy", "f1", "log_loss")}
    return plain | {"sentence": comparison.sentence()}
