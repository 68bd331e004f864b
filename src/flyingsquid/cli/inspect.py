"""``flyingsquid inspect``: what is in a file."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import click

from flyingsquid.cli.console import Voice
from flyingsquid.cli.reading import VOTES, open_file, reading_options


# fmt: off
@click.command()
@click.argument("file", type=VOTES)
@click.option("--gold", metavar="COLUMN", help="The column of known labels.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON, for programs.")
@reading_options
def inspect(file: str, as_json: bool, **options: Any) -> None:
    """Say what is in a file of votes, a model or counts.

    Of votes: the format, items, sources, classes, and what was assumed. Of a model: what kind it is, its
    method, and its sources with their accuracies; of a model of a stream, or its checkpoint, what has
    changed, too. Of counts: items, sources, classes.

    \b
    Examples:
      flyingsquid inspect votes.csv
      flyingsquid inspect spam.fsq
    """
    voice = Voice(as_json)
    facts = _kept(file, voice) if _is_kept(file) else _votes(file, options, voice)
    if as_json:
        click.echo(json.dumps(facts, indent=1))
# fmt: on


def _is_kept(path: str) -> bool:
    """Whether a file is one of models and counts, which are zip archives with a header of their own."""
    if path == "-" or not zipfile.is_zipfile(path):
        return path.lower().endswith(".fsq")
    try:
        with zipfile.ZipFile(path) as archive:
            return "header.json" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return path.lower().endswith(".fsq")


def _votes(path: str, options: dict[str, Any], voice: Voice) -> dict[str, Any]:
    from flyingsquid.cli.labelling import understood

    with voice.waiting(f"reading {path}"):
        file = open_file(path, options, gold=options["gold"])
    shown = ", ".join(file.source_names[:20]) + (", ..." if file.n_sources > 20 else "")
    voice.say(f"{file.path}: {file.describe()}")
    voice.say(f"Format: {file.format}")
    voice.say(f"Items: {file.n_items:,}, {_identified(file)}")
    voice.say(f"Sources: {shown}")
    if file.gold_name:
        voice.say(f"Known labels: the column {file.gold_name!r}")
    for note in file.notes:
        voice.note(note)
    return {"kind": "votes", **understood(file)}


def _identified(file: Any) -> str:
    return "numbered by row" if file.item_name is None else f"identified by the column {file.item_name!r}"


def _kept(path: str, voice: Voice) -> dict[str, Any]:
    from flyingsquid.io import encode_labels
    from flyingsquid.models import load

    found: Any = load(path)
    kind = type(found).__name__
    counts = found if not hasattr(found, "summary") else getattr(found, "moments_", None)
    rows = getattr(counts, "rows", counts)
    classes: tuple[Any, ...] = tuple(getattr(found, "_classes", ()) or getattr(rows, "classes", ()))
    names: tuple[str, ...] = tuple(getattr(found, "source_names_", ()) or getattr(rows, "source_names", ()))
    n_items = getattr(rows, "n_items", None)
    items = "" if n_items is None else f", from {n_items:,.10g} items"
    shown = "/".join(map(str, classes[:6])) + ("/..." if len(classes) > 6 else "")
    with zipfile.ZipFile(path) as archive:  # it was read and checked above
        version = json.loads(archive.read("header.json"))["flyingsquid_version"]
    voice.say(f"{path}: {kind}{items}, {len(names):,} sources, classes {shown}")
    voice.say(f"Written by FlyingSquid {version}")
    facts = {
        "kind": kind,
        "path": path,
        "version": version,
        "sources": list(names),
        "classes": encode_labels(classes),
    }
    if n_items is not None:
        facts["items"] = n_items
    return facts | _judged(found, voice)


def _judged(found: Any, voice: Voice) -> dict[str, Any]:
    """What a model says of its sources; nothing of counts."""
    if not hasattr(found, "summary"):
        return {}
    table = found.summary()
    diagnostics = getattr(found, "diagnostics_", None)
    facts: dict[str, Any] = {"summary": table.to_dict()}
    if diagnostics is not None and hasattr(diagnostics, "method"):
        facts |= {"method": diagnostics.method, "verdict": str(diagnostics.verdict)}
        voice.say(f"Method: {diagnostics.method}")
        voice.say(f"Verdict: {diagnostics.verdict}")
    voice.say()
    voice.table(table)
    if hasattr(found, "changes"):
        facts["changes"] = [str(change) for change in found.changes()]
        voice.say()
        for change in facts["changes"] or ["No source has changed, as far as can be seen."]:
            voice.say(change)
    return facts
