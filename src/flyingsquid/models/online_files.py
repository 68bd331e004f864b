"""Online models as plain states: options, the window to the last row, the last fit, the history.

What is restored goes on as if it had never stopped: nothing is counted, computed or rounded anew on the way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid.exceptions import ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State, decode_labels, encode_labels
from flyingsquid.models import _stream_options, files
from flyingsquid.models._history import Recorder
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.vectors import Layout

KIND = "OnlineLabelModel"
CHECKPOINT = "StreamCheckpoint"
"""A model and how far a stream has come, as the command line writes it."""
# Options that are kept as they are.
_PLAIN = ("refresh", "warm_up", "n_classes", "new_sources", "new_classes")
_OF_ROWS = ("method", "multiclass", "class_balance", "signs", "screen", "temper")


def to_state(model: OnlineLabelModel) -> State:
    """Arrays and JSON that hold everything; those of the window and the last fit carry a prefix."""
    model._require_fitted()
    window, layout = model._window, model._window.layout
    shell = model._label_model(model.class_balance)
    shell._remember(model._classes, model._names, model.source_names_)
    options = files._plain_options(shell)
    window_meta, window_arrays = window.state()
    fit = None if model._model is None else files._label_model_state(model._model)
    meta: dict[str, Any] = {
        "options": {
            **{name: options[name] for name in _OF_ROWS},
            "method": str(model.method),
            **{name: _plain(getattr(model, name)) for name in _PLAIN},
            "window": _plain(model.window),
            "decay": None if model.decay is None else float(model.decay),
            "classes": None if model.classes is None else encode_labels(tuple(model.classes)),
        },
        "graph": None if model.graph is None else model.graph.to_dict(),
        "classes": encode_labels(layout.classes),
        "names": None if layout.names is None else list(layout.names),
        "n_sources": layout.n_sources,
        "n_balance": layout.n_balance,
        "n_seen": window.n_seen,
        "urgent": window.urgent,
        "window": window_meta,
        "fit": None if fit is None else {"kind": fit.kind, "meta": fit.meta},
        "reason": model._reason,
        "marks": [model._due, model._record_due, model._fitted_at],
        "fitted_on": model._fitted_on,
    }
    arrays = {f"window.{name}": array for name, array in window_arrays.items()}
    arrays |= {} if fit is None else {f"fit.{name}": array for name, array in fit.arrays.items()}
    arrays |= model._recorder.state()
    if window.balance_now is not None:
        arrays["balance_now"] = window.balance_now
    return State(KIND, meta, arrays)


def from_state(state: State) -> OnlineLabelModel:
    """A model that goes on where it was saved; refused where its parts do not agree."""
    meta, arrays = state.meta, state.arrays
    graph = None if meta["graph"] is None else DependencyGraph.from_dict(meta["graph"])
    model = OnlineLabelModel(graph=graph, **_read_options(meta["options"]))
    _stream_options.check(model)
    model._label_model(model.class_balance)._check_options()
    names = None if meta["names"] is None else tuple(meta["names"])
    cover = Cover.everything(meta["n_sources"]) if graph is None else Cover.of(graph)
    layout = Layout(cover, decode_labels(meta["classes"]), names, meta["n_balance"])
    _check(meta, layout, names)
    window = _stream_options.new_window(model, layout)
    window.n_seen, window.urgent = meta["n_seen"], meta["urgent"]
    window.restore(meta["window"], _of(arrays, "window."))
    if "balance_now" in arrays:
        window.balance_now = np.ascontiguousarray(arrays["balance_now"])
    model._start(window)
    if meta["fit"] is not None:
        fitted = files.label_model(State(meta["fit"]["kind"], meta["fit"]["meta"], _of(arrays, "fit.")))
        if fitted._classes != layout.classes or fitted._names != layout.names:
            raise ModelFileError("the last fit in the file is of other sources or classes")
        model._model = fitted
    model._reason, model._fitted_on = meta["reason"], meta["fitted_on"]
    model._due, model._record_due, model._fitted_at = meta["marks"]
    model._recorder = Recorder.from_state(arrays, layout.n_sources)
    model._know(layout)  # once more, with the parameters
    return model


def of_checkpoint(state: State) -> OnlineLabelModel | None:
    """The model of a checkpoint of a stream; None before the first votes."""
    if state.meta["model"] is None:
        return None
    return from_state(State(KIND, state.meta["model"], state.arrays))


def from_checkpoint(state: State) -> OnlineLabelModel:
    """The same; refused where there is none yet."""
    model = of_checkpoint(state)
    if model is None:
        raise ModelFileError("the checkpoint was written before the first votes, and holds no model yet")
    return model


def _check(meta: dict[str, Any], layout: Layout, names: tuple[str, ...] | None) -> None:
    fits = (
        type(meta["n_seen"]) is int
        and meta["n_seen"] >= 0
        and type(meta["n_balance"]) is int
        and meta["n_balance"] >= 0
        and type(meta["urgent"]) is bool
        and layout.n_sources == meta["n_sources"]
        and (names is None or len(names) == len(set(names)) == layout.n_sources)
        and all(type(mark) is int for mark in meta["marks"])
        and type(meta["fitted_on"]) is float
        and type(meta["reason"]) is str
        and type(meta["window"]) is dict
    )
    if not fits:
        raise ModelFileError("the stream in the file does not agree with itself")


def _of(arrays: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """An option as JSON has it."""
    return int(value) if isinstance(value, np.integer) else str(value) if isinstance(value, str) else value


def _read_options(options: dict[str, Any]) -> dict[str, Any]:
    signs, classes = options["signs"], options["classes"]
    return {
        **{name: options[name] for name in (*_OF_ROWS, *_PLAIN, "window", "decay")},
        "signs": signs if isinstance(signs, str) else dict(signs),
        "classes": None if classes is None else list(decode_labels(classes)),
    }
