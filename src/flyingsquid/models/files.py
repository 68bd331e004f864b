"""Fitted models as files: plain states, no pickle."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.analysis import Diagnostics, FitTest, SourceTally, Verdict
from flyingsquid.estimation import GoldCounts
from flyingsquid.exceptions import ModelFileError
from flyingsquid.graph import DependencyGraph
from flyingsquid.io import State, decode_labels, encode_labels, read_state, write_state
from flyingsquid.models import _options, many_files, many_graph_files, opinion_files
from flyingsquid.models._base import VoteReader
from flyingsquid.models._binary import keep_parameters
from flyingsquid.models._graphs import flat_tables, read_task_tables, read_temper, read_units, units_on
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.models.sequence_model import SequenceLabelModel
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.files import cut_tables, to_state
from flyingsquid.moments.lagged import KIND as SEQUENCE_MOMENTS

_NAMES = ("silent", "one_sided", "unidentified", "useless", "adversarial", "clipped")
# Arrays of a label model and their shapes, in sources m; a file in which one differs is refused.
_SHAPES: dict[str, tuple[int | str, ...]] = {
    "class_balance": ("D", 2),
    "accuracies": ("m",),
    "interval": ("m", 2),
    "coverage": ("m",),
    "confusion": ("m", 2, 3),
    "weights": ("m", 3),
    "triplets_used": ("m",),
    "triplets_skipped": ("m",),
    "excess_correlation": ("m",),
}
_MAY_BE_UNKNOWN = ("interval", "excess_correlation")


def save(model: VoteReader, path: str | os.PathLike[str]) -> None:
    """Write a fitted model: whole or not at all."""
    from flyingsquid.models import online_files, sequence_files  # they are built on this module

    if isinstance(model, OnlineLabelModel):
        state = online_files.to_state(model)
    elif isinstance(model, SequenceLabelModel):
        state = sequence_files.to_state(model)
    else:
        state = _label_model_state(model) if isinstance(model, LabelModel) else _majority_state(model)
    write_state(path, state)


Saved: TypeAlias = (
    LabelModel
    | MajorityVote
    | MultiLabelModel
    | OnlineLabelModel
    | SequenceLabelModel
    | Moments
    | SequenceMoments
)


def load(path: str | os.PathLike[str]) -> Saved:
    """Read what ``save`` wrote: a model, or counts. Of a checkpoint of ``flyingsquid stream``, its model.

    Nothing in the file is executed. A file that is damaged, foreign, or from a newer version is
    refused with :class:`~flyingsquid.exceptions.ModelFileError`.

    Examples
    --------
    >>> import tempfile
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> path = os.path.join(tempfile.mkdtemp(), "biopsies.fsq")
    >>> fs.LabelModel().fit(votes).save(path)
    >>> fs.load(path).predict(votes[:3]).tolist()
    ['malignant', 'malignant', 'malignant']
    """
    from flyingsquid.models import multi_label_files, online_files, sequence_files

    readers: dict[str, Callable[[State], Saved]] = {
        "LabelModel": label_model,
        many_files.KIND: label_model,
        many_graph_files.KIND: label_model,
        opinion_files.KIND: label_model,
        "MajorityVote": _majority_vote,
        multi_label_files.KIND: multi_label_files.from_state,
        online_files.KIND: online_files.from_state,
        online_files.CHECKPOINT: online_files.from_checkpoint,
        sequence_files.KIND: sequence_files.from_state,
        MOMENTS: Moments.from_state,
        SEQUENCE_MOMENTS: SequenceMoments.from_state,
    }
    state = read_state(path)
    if state.kind not in readers:
        raise ModelFileError(f"{path}: the file holds a {told(state.kind)}, which this version does not know")
    try:
        return readers[state.kind](state)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path}: the file holds no whole {state.kind}: {error}") from error


# ---------------------------------------------------------------------- LabelModel


def _label_model_state(model: LabelModel) -> State:
    model._require_fitted()
    if model._opinion is not None:
        return opinion_files.to_state(model, _plain_options(model))
    if model._many is not None:
        return many_files.to_state(model, _plain_options(model))
    if model._many_graph is not None:
        return many_graph_files.to_state(model, _plain_options(model))
    counts, found = to_state(model.moments_), model.diagnostics_
    meta = {
        "options": _plain_options(model),
        "counts": counts.meta,
        "fitted_with": dict(model._fitted_with),
        "diagnostics": _diagnostics_meta(found),
        "temper": model.temper_,
    }
    arrays = {
        "class_balance": np.atleast_2d(model.class_balance_),
        "accuracies": model.accuracies_,
        "interval": model.accuracies_interval_,
        "coverage": model.coverage_,
        "confusion": model.confusion_,
        "weights": model._weights,
        "triplets_used": found.triplets_used,
        "triplets_skipped": found.triplets_skipped,
        "excess_correlation": model.excess_correlation_,
        "task_tables": flat_tables(model._clique_tables),
        "unit_tables": flat_tables([unit.table for unit in model._units]),
        **counts.arrays,
    }
    for task, gold in enumerate(model._gold or ()):
        if gold is not None:
            arrays[f"gold_{task}"] = gold.votes
            arrays[f"gold_units_{task}"] = flat_tables(gold.units)
    return State("LabelModel", meta, arrays)


def label_model(state: State) -> LabelModel:
    """A fitted label model, of two classes or of many."""
    for way in (many_files, many_graph_files, opinion_files):
        if state.kind == way.KIND:
            return way.from_state(state, _read_options(state.meta["options"]))
    moments = many_files.counts_in(state)
    graph = moments.graph or DependencyGraph(moments.n_sources)
    sizes = {"m": graph.n_sources, "D": graph.n_tasks}
    arrays = {name: _checked(state.arrays[name], name, sizes) for name in _SHAPES}
    _check_probabilities(arrays)
    model = LabelModel(moments.graph, **_read_options(state.meta["options"]))
    model._remember(moments.classes, moments.names, moments.source_names)
    model.moments_, model.graph_, model._tasks = moments, graph, graph.stacked_shape
    model._many = model._many_graph = model._opinion = model._passes = model._pending = None
    model.accuracies_ = arrays["accuracies"]
    model.coverage_ = arrays["coverage"]
    model._check_options()
    model.excess_correlation_ = arrays["excess_correlation"]
    model.temper_ = read_temper(state.meta["temper"])
    keep_parameters(
        model,
        arrays["class_balance"],
        arrays["confusion"],
        arrays["weights"],
        read_units(state.arrays["unit_tables"], graph, 2),
        read_task_tables(state.arrays["task_tables"], graph, arrays["class_balance"]),
    )
    model._interval = arrays["interval"]
    used = state.meta["fitted_with"]
    model._fitted_with = {name: used[name] for name in ("method", "reason", "screen", "by_hand")}
    model._diagnostics = _read_diagnostics(state.meta["diagnostics"], arrays, moments.source_names)
    model._gold = _read_gold(state, moments)
    return model


def _read_gold(state: State, moments: Moments) -> list[GoldCounts | None] | None:
    cover = moments.cover
    found: list[GoldCounts | None] = []
    for task, block in enumerate(cover.homes):
        gold = state.arrays.get(f"gold_{task}")
        shape = (len(cover.blocks[block]), 2, 3)
        if gold is not None and not (
            gold.shape == shape and (gold >= 0).all() and gold[0].sum() <= moments.n_items * (1 + 1e-9)
        ):
            raise ModelFileError("the counts on known labels do not fit the sources")
        if gold is None:
            found.append(None)
            continue
        shapes: list[tuple[int, ...]] = [(2, 3 ** len(unit)) for unit in units_on(moments, task)]
        units = cut_tables(state.arrays[f"gold_units_{task}"], shapes)
        if any(not (unit >= 0).all() for unit in units):
            raise ModelFileError("the counts on known labels do not fit the sources")
        found.append(GoldCounts(gold.astype(np.float64), tuple(units)))
    return found if any(gold is not None for gold in found) else None


def _check_probabilities(arrays: dict[str, NDArray[Any]]) -> None:
    """Refuse a file whose numbers would give posteriors that are none."""
    balance, tables = arrays["class_balance"], arrays["confusion"]
    interval = arrays["interval"][np.isfinite(arrays["interval"])]
    excess = arrays["excess_correlation"]
    ordered = np.nan_to_num(np.diff(arrays["interval"], axis=1)) >= 0
    if not ordered.all() or not (np.abs(np.nan_to_num(excess)) <= 1).all():
        raise ModelFileError("an interval in the file ends before it begins, or a correlation exceeds 1")
    shares = np.concatenate([arrays["accuracies"], arrays["coverage"], tables.ravel(), interval])
    whole = np.abs(tables.sum(axis=2) - 1).max() < 1e-6 and np.abs(balance.sum(axis=1) - 1).max() < 1e-9
    if not (whole and (balance > 0).all() and (shares >= 0).all() and (shares <= 1 + 1e-9).all()):
        raise ModelFileError("probabilities in the file are outside [0, 1], or do not sum to 1")


def _checked(array: NDArray[Any], name: str, sizes: Mapping[str, int]) -> NDArray[Any]:
    wanted = tuple(sizes[side] if isinstance(side, str) else side for side in _SHAPES[name])
    kind = "int64" if name.startswith("triplets") else "float64"
    if array.shape != wanted or str(array.dtype) != kind or (kind == "int64" and (array < 0).any()):
        raise ModelFileError(
            f"the array {told(name)} has shape {array.shape} and type {array.dtype}; not a model's"
        )
    if name not in _MAY_BE_UNKNOWN and not np.isfinite(array).all():
        raise ModelFileError(f"the array {told(name)} holds values that are not finite")
    return array


def _plain_options(model: LabelModel) -> dict[str, Any]:
    model._check_options()
    _options.read_anchors(model.signs, model.source_names_)
    _options.read_triplets(model.triplets, model.source_names_)
    balance, signs, triplets = model.class_balance, model.signs, model.triplets
    return {
        "method": str(model.method),
        "class_balance": balance
        if balance is None or isinstance(balance, str)
        else np.asarray(balance).tolist(),
        "signs": signs if isinstance(signs, str) else [[_source(s), int(v)] for s, v in signs.items()],
        "screen": float(model.screen),
        "triplets": None if triplets is None else [[_source(s) for s in triplet] for triplet in triplets],
        "multiclass": str(model.multiclass),
        "n_classes": None if model.n_classes is None else int(model.n_classes),
        "cliques": str(model.cliques),
        "temper": model.temper
        if model.temper is None or isinstance(model.temper, str)
        else float(model.temper),
    }


def _source(source: Any) -> str | int:
    return str(source) if isinstance(source, str) else int(source)


def _read_options(options: dict[str, Any]) -> dict[str, Any]:
    signs, triplets = options["signs"], options["triplets"]
    return {
        "method": options["method"],
        "class_balance": options["class_balance"],
        "signs": signs if isinstance(signs, str) else dict(signs),
        "screen": options["screen"],
        "triplets": None if triplets is None else [tuple(triplet) for triplet in triplets],
        "multiclass": options["multiclass"],
        "n_classes": options["n_classes"],
        "cliques": options["cliques"],
        "temper": options["temper"],
    }


def _diagnostics_meta(found: Diagnostics) -> dict[str, Any]:
    test, verdict = found.fit_test, found.verdict
    return {
        "method": found.method,
        "reason": found.reason,
        "class_balance": found.class_balance,
        **{name: list(getattr(found, name)) for name in _NAMES},
        "identical": [list(group) for group in found.identical],
        "fit_test": None
        if test is None
        else [test.statistic, test.degrees, test.p_value, test.effective_sources],
        "verdict": [verdict.words, verdict.gain, verdict.use_model],
    }


def _read_diagnostics(
    meta: dict[str, Any], arrays: dict[str, NDArray[Any]], sources: tuple[str, ...]
) -> Diagnostics:
    named = [name for field in _NAMES for name in meta[field]]
    named += [name for group in meta["identical"] for name in group]
    if not set(named) <= set(sources):
        raise ModelFileError("the diagnostics in the file name sources that it does not have")
    words, gain, use_model = meta["verdict"]
    test = None
    if meta["fit_test"] is not None:
        statistic, degrees, p_value, effective = meta["fit_test"]
        test = FitTest(float(statistic), int(degrees), float(p_value), float(effective))
    return Diagnostics(
        method=str(meta["method"]),
        reason=str(meta["reason"]),
        class_balance=str(meta["class_balance"]),
        **{name: tuple(meta[name]) for name in _NAMES},
        identical=tuple(tuple(group) for group in meta["identical"]),
        triplets_used=arrays["triplets_used"],
        triplets_skipped=arrays["triplets_skipped"],
        fit_test=test,
        verdict=Verdict(str(words), float(gain), bool(use_model)),
    )


# ---------------------------------------------------------------------- MajorityVote


def _majority_state(model: Any) -> State:
    model._require_fitted()
    tally = model._tally
    meta = {
        "classes": encode_labels(tally.classes),
        "names": None if model._names is None else list(model._names),
        "source_names": list(tally.source_names),
        "n_items": tally.n_items,
    }
    return State(
        "MajorityVote", meta, {"votes": np.asarray(tally.votes), "missing": np.asarray(tally.missing)}
    )


def _majority_vote(state: State) -> MajorityVote:
    classes = decode_labels(state.meta["classes"])
    shown, names = tuple(state.meta["source_names"]), state.meta["names"]
    votes, missing = state.arrays["votes"], state.arrays["missing"]
    if votes.shape != (len(shown), len(classes)) or missing.shape != (len(shown), 3):
        raise ModelFileError("the counts in the file do not agree with its sources and classes")
    tally = SourceTally(state.meta["n_items"], votes, missing, classes, shown)
    return MajorityVote()._keep(tally, None if names is None else tuple(names))
