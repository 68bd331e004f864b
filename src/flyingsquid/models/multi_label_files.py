"""Fitted models of many labels as plain states: the state of each label's model, one after the other."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sklearn.base import clone

from flyingsquid._values import told
from flyingsquid.exceptions import ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State, decode_labels, encode_labels, write_state
from flyingsquid.models import files, many_files, opinion_files
from flyingsquid.models._many_labels import NO_YES, read_labels
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.votes.states import Label

KIND = "MultiLabelModel"


def save(model: MultiLabelModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: whole or not at all."""
    write_state(path, to_state(model))


def to_state(model: MultiLabelModel) -> State:
    """Arrays and JSON that hold everything; the arrays of label c are ``label_c.<name>``."""
    model._require_fitted()
    states = [_model_state(model.models_[label], label) for label in model.labels_]
    declared = read_labels(model.labels)
    meta = {
        "labels": encode_labels(model.labels_),
        "models": [{"kind": state.kind, "meta": state.meta} for state in states],
        "failures": [[model.labels_.index(label), words] for label, words in model.failures_.items()],
        "options": {
            "labels": None if declared is None else encode_labels(declared),
            "on_failure": str(model.on_failure),
            "label_model": _templates(model),
        },
    }
    arrays = {
        f"label_{c}.{name}": array for c, state in enumerate(states) for name, array in state.arrays.items()
    }
    return State(KIND, meta, arrays)


def from_state(state: State) -> MultiLabelModel:
    """A fitted model; refused where its parts do not agree."""
    labels, options = decode_labels(state.meta["labels"]), state.meta["options"]
    declared = options["labels"]
    model = MultiLabelModel(
        _read_templates(options["label_model"], labels),
        labels=None if declared is None else list(decode_labels(declared)),
        on_failure=options["on_failure"],
    )
    parts: list[dict[str, Any]] = [{} for _ in labels]
    for name, array in state.arrays.items():
        prefix, _, rest = name.partition(".")
        parts[int(prefix.removeprefix("label_"))][rest] = array
    models: dict[Label, Any] = {
        label: _model(State(part["kind"], part["meta"], arrays))
        for label, part, arrays in zip(labels, state.meta["models"], parts, strict=True)
    }
    failures: dict[Label, str] = {labels[at]: str(words) for at, words in state.meta["failures"]}
    fits = (
        len(models) == len(labels) > 0
        and all(fitted._classes == NO_YES for fitted in models.values())
        and all(type(models[label]) is MajorityVote for label in failures)
        and model.on_failure in ("raise", "majority")
    )
    if not fits:
        raise ModelFileError("the models in the file do not fit its labels")
    model._keep(models, failures)
    return model


def _model_state(model: Any, label: Any) -> State:
    if type(model) is LabelModel:
        return files._label_model_state(model)
    if type(model) is MajorityVote:
        return files._majority_state(model)
    raise _unknown(model, f"the model of label {told(label)}")


def _model(state: State) -> LabelModel | MajorityVote:
    if state.kind in ("LabelModel", many_files.KIND, opinion_files.KIND):
        return files.label_model(state)
    if state.kind == "MajorityVote":
        return files._majority_vote(state)
    raise ModelFileError(f"a label has a {told(state.kind)}, which this version does not know")


def _templates(model: MultiLabelModel) -> dict[str, Any] | list[Any] | None:
    """What ``label_model`` was: one estimator, or a list in the order of labels."""
    given = model.label_model
    if isinstance(given, Mapping):
        return [_template(given[label], model.models_[label]) for label in model.labels_]
    return _template(given, model.models_[model.labels_[0]])


def _template(given: Any, fitted: Any) -> dict[str, Any] | None:
    if given is None:
        return None
    if type(given) is MajorityVote:
        return {"kind": "MajorityVote"}
    if type(given) is not LabelModel:
        raise _unknown(given, "label_model")
    shell = clone(given)
    shell._remember(fitted._classes, fitted._names, fitted.source_names_)  # options may name sources
    graph = given.graph.to_dict() if isinstance(given.graph, DependencyGraph) else given.graph
    return {"kind": "LabelModel", "options": files._plain_options(shell), "graph": graph}


def _read_templates(meta: Any, labels: tuple[Any, ...]) -> Any:
    if isinstance(meta, list):
        return {label: _read_template(each) for label, each in zip(labels, meta, strict=True)}
    return _read_template(meta)


def _read_template(meta: dict[str, Any] | None) -> LabelModel | MajorityVote | None:
    if meta is None:
        return None
    if meta["kind"] == "MajorityVote":
        return MajorityVote()
    graph = meta["graph"]  # None, "learn", or a graph
    if isinstance(graph, dict):
        graph = DependencyGraph.from_dict(graph)
    return LabelModel(graph, **files._read_options(meta["options"]))


def _unknown(model: Any, what: str) -> ModelFileError:
    return ModelFileError(
        f"{what} is a {type(model).__name__}; a file of many labels keeps LabelModel and MajorityVote"
    )
