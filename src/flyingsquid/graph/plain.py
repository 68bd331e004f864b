"""Graphs as plain data: what a description must hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flyingsquid._values import format_value
from flyingsquid.exceptions import GraphError

FORMAT = 1
FIELDS = ("n_sources", "n_tasks", "source_task", "task_edges", "source_edges")


def checked_fields(data: Any) -> dict[str, Any]:
    """The fields of a described graph; what they hold is left to the graph to check."""
    if not isinstance(data, Mapping):
        raise GraphError(f"a dependency graph is described by a dict, not by {type(data).__name__}")
    known = {"format", *FIELDS}
    for what, keys in (("lacks", known - set(data)), ("has unknown", set(data) - known)):
        if keys:
            raise GraphError(
                f"the description of a dependency graph {what} {', '.join(sorted(map(repr, keys)))}; it "
                f"holds format, {', '.join(FIELDS)}"
            )
    if type(data["format"]) is not int or data["format"] != FORMAT:
        raise GraphError(
            f"dependency graphs of format {format_value(data['format'])} cannot be read, only those of "
            f"format {FORMAT}; a newer version of flyingsquid may have written this one"
        )
    for name in FIELDS[2:]:
        if not isinstance(data[name], (list, tuple)):
            raise GraphError(f"{name} of a described graph is a list, not {format_value(data[name])}")
    return {name: data[name] for name in FIELDS}
