"""Project files of the studio: a list of actions, and how many of them are in effect.

The state of a project is the replay of its first ``position`` actions. Undo and redo move the position; a new
action removes the ones that were undone. Files are plain JSON and are replaced atomically, so that a crash
leaves either the file before or after an action.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from flyingsquid._values import format_list, format_value, option_error
from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files.inputs import add_path_to_errors, open_input, read_json
from flyingsquid.files.outputs import open_atomic
from flyingsquid.studio.rules import describe, is_index, read_source

FORMAT, VERSION = "flyingsquid studio project", 1
MOST_CLASSES, MOST_SOURCES, MOST_ACTIONS = 100, 500, 1_000_000


@dataclass(frozen=True)
class SourceEntry:
    """A source of the project: its description and whether it is in use."""

    id: str
    source: dict[str, Any]
    enabled: bool = True


@dataclass(frozen=True)
class ProjectState:
    """State of a project after a number of actions."""

    classes: tuple[str, ...] = ()
    # By identifier, in the order in which they were added.
    sources: dict[str, SourceEntry] = field(default_factory=dict)
    gold: dict[int, int] = field(default_factory=dict)  # class by item
    rejected: frozenset[str] = frozenset()  # suggestions that were rejected
    # Columns chosen by the user; None for the default.
    text: str | None = None
    id: str | None = None
    n_added: int = 0  # number of sources ever added, for unique identifiers

    def apply(self, action: dict[str, Any], n_items: int) -> ProjectState:
        """Return the state after an action.

        Raises
        ------
        OptionError
            If the action is invalid; ``parameter`` is the field at fault.
        """
        kind = action.get("type")
        if not isinstance(kind, str) or kind not in _ACTIONS:
            raise option_error("type", f"one of {format_list(list(_ACTIONS))}", kind)
        return _ACTIONS[kind][0](self, action, n_items)


def _entry(state: ProjectState, action: dict[str, Any]) -> SourceEntry:
    found = state.sources.get(str(action.get("id")))
    if found is None:
        raise option_error("id", "the identifier of a source", action.get("id"))
    return found


def _with(state: ProjectState, entry: SourceEntry) -> ProjectState:
    return replace(state, sources={**state.sources, entry.id: entry})


def _add_source(state: ProjectState, action: dict[str, Any], n_items: int) -> ProjectState:
    if len(state.sources) >= MOST_SOURCES:
        raise OptionError(
            f"A project can have at most {MOST_SOURCES} sources. Remove a source first.", parameter="source"
        )
    source = read_source(action.get("source"), len(state.classes), n_items)
    entry = SourceEntry(f"s{state.n_added + 1}", source)
    return replace(_with(state, entry), n_added=state.n_added + 1)


def _update_source(state: ProjectState, action: dict[str, Any], n_items: int) -> ProjectState:
    entry = _entry(state, action)
    source = read_source(action.get("source"), len(state.classes), n_items)
    return _with(state, replace(entry, source=source))


def _remove_source(state: ProjectState, action: dict[str, Any], _n: int) -> ProjectState:
    entry = _entry(state, action)
    return replace(state, sources={key: each for key, each in state.sources.items() if key != entry.id})


def _set_enabled(state: ProjectState, action: dict[str, Any], _n: int) -> ProjectState:
    enabled = action.get("enabled")
    if not isinstance(enabled, bool):
        raise option_error("enabled", "true or false", enabled)
    return _with(state, replace(_entry(state, action), enabled=enabled))


def _set_gold(state: ProjectState, action: dict[str, Any], n_items: int) -> ProjectState:
    items, label = action.get("items"), action.get("label")
    if not isinstance(items, list) or not all(is_index(item, n_items) for item in items):
        raise option_error("items", f"a list of positions from 0 to {n_items - 1}", items)
    if label is None:
        chosen = set(items)
        return replace(state, gold={item: k for item, k in state.gold.items() if item not in chosen})
    if not is_index(label, len(state.classes)):
        raise option_error("label", "the position of a class, or null", label)
    return replace(state, gold=state.gold | dict.fromkeys(items, label))


def _reject_suggestion(state: ProjectState, action: dict[str, Any], _n: int) -> ProjectState:
    chosen = action.get("id")
    if not isinstance(chosen, str):
        raise option_error("id", "the identifier of a suggestion", chosen)
    return replace(state, rejected=state.rejected | {chosen})


def _set_classes(state: ProjectState, action: dict[str, Any], _n: int) -> ProjectState:
    given = action.get("classes")
    names = [name.strip() for name in given if isinstance(name, str)] if isinstance(given, list) else []
    different = len(set(names) - {""})
    if not isinstance(given, list) or not 2 <= different == len(given) <= MOST_CLASSES:
        raise option_error("classes", f"2 to {MOST_CLASSES} different names", given)
    used = {entry.source["label"] for entry in state.sources.values() if "label" in entry.source}
    used |= set(state.gold.values())
    if used and max(used) >= len(names):
        raise option_error(
            "classes", f"at least {max(used) + 1} names, which rules and gold labels use", names
        )
    return replace(state, classes=tuple(names))


def _set_columns(state: ProjectState, action: dict[str, Any], _n: int) -> ProjectState:
    for name in ("text", "id"):
        if action.get(name) is not None and not isinstance(action[name], str):
            raise option_error(name, "the name of a column", action[name])
    return replace(state, text=action.get("text", state.text), id=action.get("id", state.id))


_ACTIONS: dict[str, tuple[Callable[[ProjectState, dict[str, Any], int], ProjectState], tuple[str, ...]]] = {
    "add_source": (_add_source, ("source",)),
    "update_source": (_update_source, ("id", "source")),
    "remove_source": (_remove_source, ("id",)),
    "set_enabled": (_set_enabled, ("id", "enabled")),
    "set_gold": (_set_gold, ("items", "label")),
    "reject_suggestion": (_reject_suggestion, ("id",)),
    "set_classes": (_set_classes, ("classes",)),
    "set_columns": (_set_columns, ("text", "id")),
}
"""How each action changes the state, and its fields."""


def _require_storable(action: dict[str, Any]) -> None:
    """Require known fields, and values that a project file can hold: no NaN, no half of a surrogate pair."""
    fields = _ACTIONS[action["type"]][1]
    unknown = [name for name in action if name not in ("type", *fields)]
    if unknown:
        raise option_error("type", f"an action with the fields {', '.join(fields)}", unknown[0])
    try:
        json.dumps(action, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:
        raise OptionError("An action must contain valid numbers and strings.", parameter="type") from error


def describe_action(action: dict[str, Any], before: ProjectState) -> str:
    """Return an action as a short sentence in the imperative, for the history."""
    kind = action["type"]
    if kind == "add_source":
        return f"Add {describe(action['source'])}"
    if kind in ("update_source", "remove_source", "set_enabled"):
        verb = {"update_source": "Change", "remove_source": "Remove"}.get(kind)
        verb = verb or ("Enable" if action["enabled"] else "Disable")
        return f"{verb} {describe(before.sources[action['id']].source)}"
    if kind == "set_gold":
        n = len(action["items"])
        items = f"item {action['items'][0]}" if n == 1 else f"{n:,} items"
        if action["label"] is None:
            return f"Clear the gold label of {items}"
        return f"Label {items} as {before.classes[action['label']]}"
    return {
        "reject_suggestion": "Reject a suggestion",
        "set_classes": "Set the classes",
        "set_columns": "Choose columns",
    }[str(kind)]


class Project:
    """History of a studio project, and its file.

    Parameters
    ----------
    n_items : int
        Number of items of the data.
    path : Path, optional
        The project file, which every change replaces. None keeps the project in memory.
    data : str, default=""
        Name of the data file; opening a project with another number of items raises an error.

    Attributes
    ----------
    actions : list of dict
    position, start : int
        Number of actions in effect, and of those at the beginning that cannot be undone.
    state : ProjectState
    """

    def __init__(self, n_items: int, path: Path | None = None, data: str = "") -> None:
        self.n_items, self.path, self.data = n_items, path, data
        self.actions: list[dict[str, Any]] = []
        self.states = [ProjectState()]
        self.position = self.start = 0

    @classmethod
    def open(cls, path: Path, n_items: int, data: str = "") -> Project:
        """Read a project file, or start a project that will be written there."""
        project = cls(n_items, path, data)
        if path.exists():
            source = open_input(path)
            with add_path_to_errors(source.shown):
                project._load(read_json(source))
        return project

    @property
    def path_exists(self) -> bool:
        """True if the project file exists, so that the project is not new."""
        return self.path is not None and self.path.exists()

    def _load(self, content: Any) -> None:
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise VoteFileError("The file is not a project of flyingsquid studio.")
        if content.get("version") != VERSION:
            raise VoteFileError(
                f"The project has version {format_value(content.get('version'))}, but this release reads "
                f"version {VERSION}."
            )
        if content.get("n_items") != self.n_items:
            raise VoteFileError(
                f"The project was created for {format_value(content.get('n_items'))} items, but the data has "
                f"{self.n_items:,}. Choose another file with --project."
            )
        actions, position, start = (content.get(name) for name in ("actions", "position", "start"))
        if not isinstance(actions, list) or len(actions) > MOST_ACTIONS:
            raise VoteFileError(
                f"`actions` in the project file must be a list of <= {MOST_ACTIONS:,} actions."
            )
        if not isinstance(position, int) or not is_index(position, len(actions) + 1):
            raise VoteFileError(f"`position` in the project file must be from 0 to {len(actions)}.")
        if not isinstance(start, int) or not is_index(start, position + 1):
            raise VoteFileError(f"`start` in the project file must be from 0 to {position}.")
        for number, action in enumerate(actions, 1):
            try:
                self._append(action if isinstance(action, dict) else {})
            except OptionError as error:
                raise VoteFileError(f"Action {number}: {error}") from error
        self.position, self.start = position, start

    def _append(self, action: dict[str, Any]) -> None:
        self.states.append(self.states[-1].apply(action, self.n_items))
        self.actions.append(action)

    @property
    def state(self) -> ProjectState:
        """State after the actions in effect."""
        return self.states[self.position]

    def act(self, action: dict[str, Any], *, save: bool = True) -> ProjectState:
        """Apply an action, remove those that were undone, and write the file."""
        self.state.apply(action, self.n_items)  # an invalid action leaves everything unchanged
        _require_storable(action)
        actions, states, position = self.actions, self.states, self.position
        self.actions, self.states = actions[:position], states[: position + 1]
        self._append(action)
        self.position += 1
        try:
            if save:
                self.save()
        except BaseException:
            self.actions, self.states, self.position = actions, states, position
            raise
        return self.state

    def move(self, steps: int) -> ProjectState:
        """Undo (-1) or redo (+1), and write the file."""
        target = self.position + steps
        if not self.start <= target <= len(self.actions):
            word = "undo" if steps < 0 else "redo"
            raise OptionError(f"There is nothing to {word}.", parameter="position")
        before, self.position = self.position, target
        try:
            self.save()
        except BaseException:
            self.position = before
            raise
        return self.state

    def history(self) -> dict[str, Any]:
        """Return the position, the number of actions, and what undo and redo would do."""
        at = self.position
        undo = describe_action(self.actions[at - 1], self.states[at - 1]) if at > self.start else None
        redo = describe_action(self.actions[at], self.states[at]) if at < len(self.actions) else None
        return {"position": at, "count": len(self.actions), "undo": undo, "redo": redo}

    def to_json(self) -> str:
        """Return the content of the project file, with one action per line."""
        head = {
            "format": FORMAT,
            "version": VERSION,
            "data": self.data,
            "n_items": self.n_items,
            "start": self.start,
            "position": self.position,
        }
        lines = [f" {json.dumps(name)}: {json.dumps(value)}," for name, value in head.items()]
        actions = ",\n".join(f"  {json.dumps(action)}" for action in self.actions)
        return "{\n" + "\n".join(lines) + '\n "actions": [\n' + actions + "\n ]\n}\n"

    def save(self) -> None:
        """Replace the project file."""
        if self.path is not None:
            with add_path_to_errors(str(self.path)), open_atomic(Path(os.path.realpath(self.path))) as file:
                file.write(self.to_json().encode())
