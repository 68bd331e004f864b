"""The report of a file, for the commands that write one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyingsquid._values import told
from flyingsquid.cli.console import Voice
from flyingsquid.cli.fitting import fit_model
from flyingsquid.cli.reading import Reading
from flyingsquid.exceptions import NotIdentifiableError, OptionError, VoteFileError

if TYPE_CHECKING:
    from flyingsquid.formats import VoteChunk

# Beyond so many items, what needs all of them at once looks at a part, evenly spread.
MOST_ITEMS = 1_000_000


def write_report(
    reading: Reading, model: Any, path: str, *, title: str, data: str | None = None, ordered: bool = False
) -> str:
    """Write the report; what is to be said about it, or nothing. ``data`` is a file of the items."""
    from flyingsquid.models.labelling import clip_length
    from flyingsquid.reports import report

    length = clip_length(model)
    if length > 1:
        if data is not None:
            raise OptionError("--data shows items, and this model is about clips of several; leave it out")
        votes, gold, note = _clips(reading, length)
        task, records = length // 2, None
        note = f", on row {task + 1} of clips of {length}{note}"
    else:
        chunk, step = reading.spread(MOST_ITEMS)
        votes, gold, task = chunk.votes, chunk.gold, None
        records = None if data is None else records_of(chunk, data, reading, step)
        note = "" if step == 1 else f", on {votes.n_items:,} items evenly spread over the file"
    if gold is not None and not any(label is not None for label in gold.ravel()):
        raise OptionError(f"{reading.file.path}: --gold {reading.file.gold_name}: no label is known")
    report(votes, gold, model=model, data=records, path=path, title=title, task=task, ordered=ordered)
    return note


def _clips(reading: Reading, length: int) -> tuple[Any, Any, str]:
    """Clips of votes in memory, their known labels, and whether these are a part of them."""
    from flyingsquid.models.labelling import clips

    if reading.whole is None:
        raise OptionError(f"{reading.file.path}: clips of several rows are looked at in memory; take a part")
    votes, gold = clips(reading.whole.votes, length, whole_only=True), reading.whole.gold
    if gold is not None:
        gold = gold[: votes.n_items * length].reshape(-1, length)
    step = -(-votes.n_items * length // MOST_ITEMS)
    if step <= 1:
        return votes, gold, ""
    part = slice(None, None, step)
    return votes[part], None if gold is None else gold[part], f", {votes[part].n_items:,} of them"


def fit_for_report(reading: Reading, voice: Voice, method: str) -> Any:
    """A fitted model; or None where the votes do not determine one, so that the report says why."""
    try:
        fitted = fit_model(
            reading, voice, method=method, graph=None, class_balance=None, learn_from_gold=False
        )
    except NotIdentifiableError as error:
        if method != "auto":
            raise
        voice.note(f"no model was fitted: {error}")
        return None
    for warning in fitted.notes:
        voice.note(warning)
    return fitted.model


def records_of(chunk: VoteChunk, path: str, reading: Reading, step: int = 1) -> list[Any]:
    """The items of a chunk, from a file: by identifier where that has one, otherwise in the same order.

    ``step`` is 2 for every second item, and so on.
    """
    from flyingsquid.formats.records import read_records

    records, item = read_records(path), reading.file.item_name
    ids = [str(each) for each in chunk.ids]
    if item is not None and records and isinstance(records[0], dict) and item in records[0]:
        found = {str(record.get(item)): record for record in records}
        absent = next((each for each in ids if each not in found), None)
        if absent is not None:
            raise VoteFileError(f"{path}: no row has {item} {told(absent)}, which is in {reading.file.path}")
        return [found[each] for each in ids]
    if len(records) != reading.file.n_items:
        raise VoteFileError(
            f"{path}: {len(records):,} rows for {reading.file.n_items:,} items; one an item is needed"
            + (f", or a column {told(item)}" if item else "")
        )
    return records[::step]


def reading_of_model(options: dict[str, Any], model: Any) -> dict[str, Any]:
    """The options of reading, with what a model that was kept knows of the classes."""
    if model is None or options["classes"] is not None:
        return options
    classes = tuple(model.vote_schema_.classes)
    if classes == (-1, 1):
        return options | {"signed": True}
    return options | {"classes": list(classes)}
