"""Downloads of the studio: rules, labels, the model, the report and the project."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from flyingsquid._values import format_list, option_error
from flyingsquid.exceptions import OptionError
from flyingsquid.files import LabelWriter
from flyingsquid.reports import report
from flyingsquid.studio.browsing import View
from flyingsquid.studio.columns import gold_labels
from flyingsquid.studio.items import as_text
from flyingsquid.studio.rules import write_code
from flyingsquid.studio.workspace import Workspace

_MOST_REPORTED = 100_000


def list_exports(workspace: Workspace) -> list[str]:
    """Return the names that :func:`export` supports now."""
    left_out = set() if workspace.view.fit.model is not None else set(_NEED_A_MODEL)
    if importlib.util.find_spec("pyarrow") is None:
        left_out.add("labels.parquet")
    return [name for name in _EXPORTS if name not in left_out]


def export(workspace: Workspace, name: str) -> tuple[bytes, str]:
    """Return the content of a file and its media type. Labels and the model are those of all items."""
    if name not in list_exports(workspace):
        known = format_list(list_exports(workspace))
        raise option_error("name", f"one of {known}", name)
    make, media_type = _EXPORTS[name]
    return make(workspace, workspace.view), media_type


def _rules(workspace: Workspace, view: View) -> bytes:
    items = workspace.items
    sources = [entry.source for entry in view.entries]
    columns = [source["column"] for source in sources if source["kind"] == "column"]
    code = write_code(
        sources,
        view.classes,
        text=items.text,
        values={column: items.values(column) for column in columns},
        features=workspace.features_name,
    )
    return code.encode()


def _labels(ending: str) -> Callable[[Workspace, View], bytes]:
    def make(workspace: Workspace, view: View) -> bytes:
        fit = view.full_fit()
        items = workspace.items
        n_votes = np.sum([column >= 0 for column in view.columns], axis=0)
        ids = [items.identifier(i) for i in range(len(items))]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / f"labels.{ending}"
            with LabelWriter(path, classes=view.classes, id_name=items.id or "id") as out:
                out.write(ids, fit.labels, np.asarray(fit.proba, np.float64), n_votes)
            return path.read_bytes()

    return make


def _model(_workspace: Workspace, view: View) -> bytes:
    fit = view.full_fit()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.fsq"
        if fit.model is not None:
            fit.model.save(path)
        return path.read_bytes()


def _report(workspace: Workspace, view: View) -> bytes:
    fit = view.full_fit()
    items, text = workspace.items, workspace.items.text
    if fit.votes is None:
        raise OptionError("A report needs sources that vote.")
    step = -(-len(items) // _MOST_REPORTED)
    gold = gold_labels(view.gold, view.classes, view.every_item)
    page = report(
        fit.votes[::step] if step > 1 else fit.votes,
        y=None if gold is None else gold[::step],
        model=fit.model,
        data=None if text is None else [as_text(value) for value in items.columns[text][::step]],
        title=items.name,
    )
    return page.encode()


def _project(workspace: Workspace, _view: View) -> bytes:
    return workspace.project.to_json().encode()


# How each file is made, and its media type.
_EXPORTS: dict[str, tuple[Callable[[Workspace, View], bytes], str]] = {
    "rules.py": (_rules, "text/x-python; charset=utf-8"),
    "labels.csv": (_labels("csv"), "text/csv; charset=utf-8"),
    "labels.parquet": (_labels("parquet"), "application/vnd.apache.parquet"),
    "model.fsq": (_model, "application/octet-stream"),
    "report.html": (_report, "text/html; charset=utf-8"),
    "project.json": (_project, "application/json"),
}
_NEED_A_MODEL = ("labels.csv", "labels.parquet", "model.fsq", "report.html")
