"""Exports of other tools as votes: Label Studio, Argilla and inspect_ai.

Each export is a JSON document. Annotators, models and scorers are the sources, and ``part`` chooses the
question that they answer.
"""

from __future__ import annotations

import json
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from flyingsquid._values import format_list, format_value, is_integer, is_null
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError
from flyingsquid.files.columns import ReadOptions, Roles, list_of_values
from flyingsquid.files.decoded_size import MOST_BYTES, too_large_error
from flyingsquid.files.state import encode_labels
from flyingsquid.files.tables import LongVotes
from flyingsquid.votes.codes import marked_cells
from flyingsquid.votes.decisions import winners
from flyingsquid.votes.frames import rows_of

if TYPE_CHECKING:
    from flyingsquid.files.vote_files import VoteChunk

TOOLS = ("label_studio", "argilla", "inspect")
"""Formats of other tools."""
OURS = "flyingsquid"
"""Source under which labels are written. Not read as votes, so that no model is fitted to its own labels."""
_SHOWN = {"label_studio": "Label Studio", "argilla": "Argilla", "inspect": "inspect_ai"}
# Argilla identifies annotators by UUIDs. A fixed namespace gives the same source the same UUID in every file.
_NAMESPACE = uuid.UUID("5d0c4a3e-63a5-5f6e-9d53-3f3ad2c0a1b7")
# Logs of inspect_ai must have a date; the library does not read the clock.
_NO_DATE = "1970-01-01T00:00:00+00:00"


@dataclass(slots=True)
class _Item:
    """An item of an export: its answers as (question, source, value), and values that may be gold labels."""

    id: Any
    answers: list[tuple[str, str, Any]] = field(default_factory=list)
    gold: dict[str, Any] = field(default_factory=dict)
    true_answers: dict[str, Any] = field(default_factory=dict)


class _Several:
    """Marker for an answer with several choices, which cannot be one vote."""


_SEVERAL = _Several()


def tool_of(document: Any) -> str | None:
    """Return the tool that a JSON document comes from; None if it is not one of :data:`TOOLS`.

    >>> tool_of([{"id": 1, "data": {"text": "a"}, "annotations": []}])
    'label_studio'
    """
    if isinstance(document, dict):
        return "inspect" if isinstance(document.get("eval"), dict) and "version" in document else None
    first = document[0] if isinstance(document, list) and document else None
    if not isinstance(first, dict):
        return None
    if isinstance(first.get("data"), dict) and ("annotations" in first or "predictions" in first):
        return "label_studio"
    if isinstance(first.get("fields"), dict) and ("responses" in first or "suggestions" in first):
        return "argilla"
    return None


def read_export(document: Any, tool: str, options: ReadOptions) -> tuple[Roles, LongVotes]:
    """Read the answers to one question as votes, one row per answer.

    Parameters
    ----------
    document : parsed JSON
    tool : str
        One of :data:`TOOLS`.
    options : ReadOptions
        ``sources`` and ``ignore`` select sources by name, ``gold`` names the gold labels, and ``part`` names
        the question, by default the only one.
    """
    if tool_of(document) != tool:
        raise VoteFileError(
            f"The file is not an export of {_SHOWN[tool]}.", hints=[Hint("format", "to declare its format")]
        )
    if options.form == "wide" or options.long is not None or isinstance(options.item, str):
        raise VoteFileError(
            f"Exports of {_SHOWN[tool]} have no columns; leave out `form`, `item` and `long`."
        )
    items = _with_ids(list(_READERS[tool](document)), use_ids=options.item is not False)
    notes = []
    if options.sources is None and any(source == OURS for item in items for _, source, _ in item.answers):
        notes.append(
            Note(f"Labels of {OURS} are not read as votes.", (Hint("sources", "to name the sources"),))
        )
    question = _question(items, options.part, tool)
    names = list(dict.fromkeys(s for item in items for q, s, _ in item.answers if q == question))
    kept = [name for name in options.pick(names) if name != OURS or options.sources is not None]
    if not kept:
        raise VoteFileError("The file contains no votes: every source is left out.")
    gold = None if options.gold is None else _gold_of(items, question, options.gold)
    if options.gold is None and any(item.true_answers for item in items):
        notes.append(Note("Gold labels are not read.", (Hint("gold", "to use them", "ground_truth"),)))
    votes = LongVotes(plain_text=False, has_gold=gold is not None, duplicates=options.duplicates)
    rows = [
        (at, item.id, source, _one_label(value, item.id, source))
        for at, item in enumerate(items)
        # An item without votes has one row in which a source abstains, so that it is not lost.
        for source, value in _votes_on(item, question, kept) or [(kept[0], None)]
    ]
    at, ids, sources, labels = zip(*rows, strict=True)
    votes.add(ids, sources, labels, None if gold is None else [gold[i] for i in at])
    votes.finish()
    return Roles("long", "id", source="source", label="label", gold=options.gold, notes=tuple(notes)), votes


def _votes_on(item: _Item, question: str, sources: Sequence[str]) -> list[tuple[str, Any]]:
    return [(s, value) for q, s, value in item.answers if q == question and s in sources]


def _one_label(value: Any, item: Any, source: str) -> Any:
    """Return a vote as a plain value; several choices, and objects, are not votes."""
    where = f"item {format_value(item)}, source {format_value(source)}"
    if value is _SEVERAL:
        raise VoteFileError(f"A vote must be one class; got several choices ({where}).")
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, (str, int, float, bool, type(None))):
        raise VoteFileError(
            f"A vote must be a string, a number or a boolean; got {format_value(value)} ({where})."
        )
    return value


def _with_ids(items: list[_Item], *, use_ids: bool) -> list[_Item]:
    """Number the items if some have no identifier, and check that identifiers are unique."""
    if not items:
        raise VoteFileError("The file contains no items.")
    if not use_ids or any(is_null(item.id) for item in items):
        for at, item in enumerate(items):
            item.id = at
    seen: set[Any] = set()
    for item in items:
        if not isinstance(item.id, (str, int)) or isinstance(item.id, bool):
            raise VoteFileError(f"Identifiers must be strings or integers; got {format_value(item.id)}.")
        if item.id in seen:
            raise VoteFileError(f"Identifiers must be unique; got {format_value(item.id)} twice.")
        seen.add(item.id)
    return items


def _question(items: list[_Item], part: str | None, tool: str) -> str:
    found = list(dict.fromkeys(q for item in items for q, _, _ in item.answers))
    if not found:
        raise VoteFileError("The file contains no votes: no choices, ratings, numbers or scores.")
    if part is None and len(found) == 1:
        return found[0]
    if part not in found:
        what = "scores" if tool == "inspect" else "questions"
        raise VoteFileError(
            f"The {what} are {format_list(found)}.", hints=[Hint("part", "to choose one of them", found[0])]
        )
    return part


def _gold_of(items: list[_Item], question: str, name: str) -> list[Any]:
    """Return the gold labels: annotations that are marked as ground truth, or a field of the items."""
    found = [
        item.true_answers.get(question) if name == "ground_truth" else item.gold.get(name) for item in items
    ]
    if all(is_null(value) for value in found):
        fields = list(dict.fromkeys(key for item in items for key in item.gold))
        raise VoteFileError(
            f"No item has gold labels named {format_value(name)}; the fields are {format_list(fields)}."
        )
    return [_one_label(value, item.id, name) for item, value in zip(items, found, strict=True)]


# ---------------------------------------------------------------------- readers


def _objects(value: Any, what: str, at: int) -> list[dict[str, Any]]:
    """Return a list of JSON objects, or raise an error about entry ``at`` of the document."""
    value = [] if value is None else value
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise VoteFileError(f"Entry {at}: {format_value(what)} must be a list of objects.")
    return value


def _object(value: Any, what: str, at: int) -> dict[str, Any]:
    value = {} if value is None else value
    if not isinstance(value, dict):
        raise VoteFileError(f"Entry {at}: {format_value(what)} must be an object.")
    return value


def _label_studio_items(document: list[Any]) -> Iterator[_Item]:
    """Read tasks; annotators and the versions of models are the sources."""
    for at, task in enumerate(_objects(document, "tasks", 0)):
        item = _Item(task.get("id"), gold=_object(task.get("data"), "data", at))
        for annotation in _objects(task.get("annotations"), "annotations", at):
            if annotation.get("was_cancelled") is True:  # skipped by the annotator
                continue
            answers = _label_studio_answers(annotation, at)
            if annotation.get("ground_truth") is True:
                item.true_answers |= dict(answers)
            else:
                source = _annotator(annotation.get("completed_by"))
                item.answers += [(question, source, value) for question, value in answers]
        for prediction in _objects(task.get("predictions"), "predictions", at):
            source = str(prediction.get("model_version") or "prediction")
            item.answers += [(q, source, value) for q, value in _label_studio_answers(prediction, at)]
        yield item


def _label_studio_answers(annotation: dict[str, Any], at: int) -> list[tuple[str, Any]]:
    """Return the answers of one annotation by question, except for regions and free text."""
    found = []
    for result in _objects(annotation.get("result"), "result", at):
        kind, value = result.get("type"), _object(result.get("value"), "value", at)
        if kind == "choices":
            chosen = value.get("choices")
            chosen = chosen if isinstance(chosen, list) else [chosen]
            answer = chosen[0] if len(chosen) == 1 else _SEVERAL if chosen else None
        elif kind in ("rating", "number", "pairwise"):
            answer = value.get("selected" if kind == "pairwise" else str(kind))
        else:
            continue
        found.append((str(result.get("from_name")), answer))
    return found


def _annotator(completed_by: Any) -> str:
    if isinstance(completed_by, dict):
        completed_by = next(
            (completed_by[k] for k in ("email", "username", "id") if completed_by.get(k)), None
        )
    return "annotator" if completed_by is None else str(completed_by)


def _argilla_items(document: list[Any]) -> Iterator[_Item]:
    """Read records; users and the agents of suggestions are the sources."""
    names: dict[str, str] = {}
    for at, record in enumerate(_objects(document, "records", 0)):
        # write_votes stores the names of sources by the UUIDs that Argilla requires.
        names |= {str(k): str(v) for k, v in _object(record.get("sources"), "sources", at).items()}
        fields = _object(record.get("fields"), "fields", at)
        item = _Item(record.get("id"), gold=fields | _object(record.get("metadata"), "metadata", at))
        for question, responses in _object(record.get("responses"), "responses", at).items():
            for response in _objects(responses, "responses", at):
                if response.get("status") not in ("discarded", "draft"):
                    user = str(response.get("user_id"))
                    item.answers.append(
                        (question, names.get(user, user), _argilla_value(response.get("value")))
                    )
        for question, given in _object(record.get("suggestions"), "suggestions", at).items():
            suggestion = _object(given, "suggestions", at)
            agent = str(suggestion.get("agent") or "suggestion")
            item.answers.append((question, agent, _argilla_value(suggestion.get("value"))))
        yield item


def _argilla_value(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return value[0] if len(value) == 1 else _SEVERAL if value else None


def _inspect_items(document: dict[str, Any]) -> Iterator[_Item]:
    """Read samples; scorers are the sources. Several epochs of a sample are several items."""
    samples = _objects(document.get("samples"), "samples", 0)
    repeated = any(sample.get("epoch") not in (None, 1) for sample in samples)
    for at, sample in enumerate(samples):
        name = sample.get("id")
        target = _argilla_value(sample.get("target"))
        gold = {"target": target, **_object(sample.get("metadata"), "metadata", at)}
        item = _Item(f"{name} epoch {sample.get('epoch')}" if repeated else name, gold=gold)
        for scorer, score in _object(sample.get("scores"), "scores", at).items():
            value = _object(score, "scores", at).get("value")
            parts = value.items() if isinstance(value, dict) else [("score", value)]
            item.answers += [(str(question), scorer, _argilla_value(answer)) for question, answer in parts]
        yield item


_READERS: dict[str, Callable[[Any], Iterable[_Item]]] = {
    "label_studio": _label_studio_items, "argilla": _argilla_items, "inspect": _inspect_items,
}  # fmt: skip


def read_eval(path: Path, limit: int = MOST_BYTES) -> dict[str, Any]:
    """Read an ``.eval`` log, an archive written by inspect_ai, as a JSON document."""
    try:
        from inspect_ai.log import read_eval_log  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise VoteFileError(
            "Reading .eval logs requires inspect_ai: pip install 'flyingsquid[inspect]'. Alternatively, "
            "convert them to JSON with `inspect log convert`."
        ) from error
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
    except zipfile.BadZipFile as error:
        raise VoteFileError("The file is damaged: it is not an archive.") from error
    if size > limit:
        raise too_large_error("The log takes", size, limit)
    try:
        log = read_eval_log(str(path))
    except Exception as error:  # inspect_ai may raise any exception for a damaged archive
        raise VoteFileError(f"The log cannot be read: {' '.join(str(error).split())[:300]}.") from error
    samples = [sample.model_dump(mode="json", include={"id", "epoch", "target", "metadata", "scores"})
               for sample in log.samples or ()]  # fmt: skip
    return {"version": log.version, "eval": {}, "samples": samples}


# ---------------------------------------------------------------------- writers


@dataclass(frozen=True, slots=True)
class _Written:
    """One item to write: its fields, votes by source, gold label, and label with its probability."""

    id: Any
    data: dict[str, Any]
    votes: list[tuple[str, Any]]
    gold: Any
    label: Any
    probability: float | None


def export_text(
    tool: str, chunk: VoteChunk, data: Any, probabilities: ArrayLike | None, part: str | None
) -> str:
    """Return votes as the JSON document of a tool."""
    votes, gold, n = chunk.votes, chunk.gold_codes, chunk.votes.n_items
    classes = [*encode_labels(votes.classes), None]
    labels, top = [None] * n, [None] * n
    if probabilities is not None:
        shares = np.asarray(probabilities, np.float64)
        if shares.shape != (n, votes.n_classes):
            raise OptionError(
                f"`probabilities` must have the shape ({n}, {votes.n_classes}); got {shares.shape}.",
                parameter="probabilities",
            )
        best = winners(shares)
        labels, top = [classes[k] for k in best], shares[np.arange(n), best].tolist()
    names = votes.source_names
    cast: list[list[tuple[str, Any]]] = [[] for _ in range(n)]
    for i, j, code in zip(*(column.tolist() for column in marked_cells(votes.codes)), strict=True):
        if code >= 0:
            cast[i].append((names[j], classes[code]))
    ids = range(n) if chunk.ids is None else list_of_values(chunk.ids)
    known = [None] * n if gold is None else [classes[max(-1, int(code))] for code in gold]
    items = list(map(_Written, ids, _fields(data, n), cast, known, labels, top))
    document = _WRITERS[tool](items, part or "label")
    return json.dumps(document, indent=1, default=_plain, ensure_ascii=False) + "\n"


def _fields(data: Any, n: int) -> list[dict[str, Any]]:
    """Return the fields of n items: rows of a table, mappings, or strings."""
    if data is None:
        return [{} for _ in range(n)]
    rows = rows_of(data, range(n)) if len(data) == n else None
    rows = list(data) if rows is None else rows
    if len(rows) != n:
        raise OptionError(f"`data` must have one entry per item ({n}); got {len(rows)}.", parameter="data")
    return [dict(row) if isinstance(row, Mapping) else {"text": row} for row in rows]


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar, a date or another value for JSON."""
    return value.item() if isinstance(value, np.generic) else str(value)


def _label_studio_document(items: list[_Written], question: str) -> list[Any]:
    """Return tasks in which every source is the version of a model."""

    def prediction(source: str, label: Any, to_name: str) -> dict[str, Any]:
        number = is_integer(label) and not isinstance(label, bool)
        choice = str(label).lower() if isinstance(label, bool) else str(label)
        value = {"number": label} if number else {"choices": [choice]}
        result = {
            "from_name": question,
            "to_name": to_name,
            "type": "number" if number else "choices",
            "value": value,
        }
        return {"model_version": source, "result": [result]}

    tasks = []
    for item in items:
        data = item.data or {"id": item.id}
        name = next(iter(data))
        predictions = [prediction(source, label, name) for source, label in item.votes]
        if item.label is not None:
            predictions.append(prediction(OURS, item.label, name) | {"score": item.probability})
        gold = {} if item.gold is None else {"gold": item.gold}
        tasks.append({"id": item.id, "data": data | gold, "predictions": predictions})
    return tasks


def _argilla_document(items: list[_Written], question: str) -> list[Any]:
    """Return records in which every source is a user."""
    users = {source: _user(source) for item in items for source, _ in item.votes}
    named = {user: name for name, user in users.items() if user != name}
    records: list[Any] = []
    for item in items:
        suggestion = {"value": item.label, "score": item.probability, "agent": OURS}
        responses = [{"value": label, "user_id": users[source]} for source, label in item.votes]
        records.append({
            "id": str(item.id),
            "fields": item.data or {"id": str(item.id)},
            "metadata": {} if item.gold is None else {"gold": item.gold},
            "suggestions": {} if item.label is None else {question: suggestion},
            "responses": {question: responses} if responses else {},
            "vectors": {},
            "status": "pending",
            "_server_id": None,
            "sources": named if not records else {},
        })  # fmt: skip
    return records


def _user(name: str) -> str:
    try:
        return str(uuid.UUID(name))
    except ValueError:
        return str(uuid.uuid5(_NAMESPACE, name))


def _inspect_document(items: list[_Written], question: str) -> dict[str, Any]:
    """Return a log in which every source is a scorer."""
    samples = []
    for item in items:
        scores: dict[str, Any] = {source: {"value": label} for source, label in item.votes}
        if item.label is not None:
            scores[OURS] = {"value": item.label, "metadata": {"probability": item.probability}}
        text = next(
            (item.data[k] for k in ("input", "text", "prompt") if isinstance(item.data.get(k), str)), ""
        )
        samples.append({
            "id": item.id, "epoch": 1, "input": text, "target": "" if item.gold is None else str(item.gold),
            "metadata": item.data, "scores": scores,
        })  # fmt: skip
    ids = [item.id for item in items]
    about = {
        "created": _NO_DATE, "task": question, "model": "none/none", "config": {},
        "dataset": {"name": question, "samples": len(ids), "sample_ids": ids},
    }  # fmt: skip
    return {"version": 2, "status": "success", "eval": about, "samples": samples}


_WRITERS: dict[str, Callable[[list[_Written], str], Any]] = {
    "label_studio": _label_studio_document, "argilla": _argilla_document, "inspect": _inspect_document,
}  # fmt: skip
