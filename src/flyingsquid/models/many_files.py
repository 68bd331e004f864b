"""Fitted models of many classes as plain states."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid._values import told
from flyingsquid.estimation import ManyFit, ManyGold, SparseTables
from flyingsquid.exceptions import ModelFileError
from flyingsquid.io import State
from flyingsquid.models._many import keep_many
from flyingsquid.models.label_model import LabelModel
from flyingsquid.moments import Moments
from flyingsquid.moments.files import KIND as MOMENTS
from flyingsquid.moments.files import to_state as counts_to_state

KIND = "LabelModel.many"
Arrays = dict[str, NDArray[Any]]


def to_state(model: LabelModel, options: dict[str, Any]) -> State:
    """Arrays and JSON that hold everything."""
    fit, counts = model._many, counts_to_state(model.moments_)
    if fit is None:  # the caller knows; the type does not
        raise ModelFileError("the model has two classes")
    meta = {
        "options": options,
        "counts": counts.meta,
        "method": fit.method,
        "reason": fit.reason,
        "balance_note": fit.balance_note,
        "silence_counts": bool(fit.silence_counts),
    }
    arrays: Arrays = {
        **counts.arrays,
        "class_balance": fit.balance,
        "interval": np.array(model.accuracies_interval_),
    }
    arrays |= table_arrays(fit.tables)
    if fit.gold is not None:
        arrays |= {"gold_classes": fit.gold.classes, "gold_said": fit.gold.said}
        arrays |= sparse_parts(fit.gold.votes, "gold_votes")
    return State(KIND, meta, arrays)


def from_state(state: State, options: dict[str, Any]) -> LabelModel:
    """A fitted model; refused where its parts do not agree."""
    moments = counts_in(state)
    balance, interval = state.arrays["class_balance"], state.arrays["interval"]
    m, k = moments.n_sources, moments.n_classes
    tables = read_tables(state.arrays, moments)
    known = interval[np.isfinite(interval).all(axis=1)] if interval.shape == (m, 2) else interval
    fits = (
        balance.shape == (k,)
        and interval.shape == (m, 2)
        and {str(balance.dtype), str(interval.dtype)} == {"float64"}
        and bool((balance > 0).all() and abs(balance.sum() - 1) < 1e-9)
        and bool((known >= 0).all() and (known <= 1).all() and (np.diff(known, axis=1) >= 0).all())
        and type(state.meta["silence_counts"]) is bool
    )
    if not fits:
        raise ModelFileError("the numbers in the file are no probabilities, or do not fit its counts")
    model = LabelModel(**options)
    model._check_options()
    fit = ManyFit(
        balance,
        str(state.meta["balance_note"]),
        tables,
        state.meta["silence_counts"],
        str(state.meta["method"]),
        str(state.meta["reason"]),
        *silent_and_one_sided(moments),
        _read_gold(state.arrays, moments),
    )
    keep_many(model, moments, fit)
    model._interval = interval
    return model


def counts_in(state: State) -> Moments:
    """The counts in the file of a model."""
    return Moments.from_state(State(MOMENTS, state.meta["counts"], state.arrays))


def silent_and_one_sided(moments: Moments) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Sources that never vote, and sources that vote for one class only, by their counts; shapes (m,)."""
    used = (np.asarray(moments.vote_counts) > 0).sum(axis=1)
    return used == 0, used == 1


def table_arrays(tables: NDArray[np.float64] | SparseTables) -> Arrays:
    """Tables as plain arrays, whole or sparse; :func:`read_tables` reads them."""
    if isinstance(tables, SparseTables):
        return {"shared": tables.shared, **sparse_parts(tables.beyond, "beyond")}
    return {"confusion": tables}


def read_tables(arrays: Arrays, moments: Moments) -> NDArray[np.float64] | SparseTables:
    """The tables in a file, whole or sparse; refused where they do not fit the counts."""
    m, k = moments.n_sources, moments.n_classes
    if "shared" in arrays:
        shared, beyond = arrays["shared"], _read_sparse(arrays, "beyond", (k * m, k))
        if shared.shape == (m, k) and shared.dtype == np.float64 and bool((shared > 0).all()):
            return SparseTables.of(shared, beyond, np.minimum(moments.coverage, 1.0))
        raise ModelFileError("the tables in the file do not fit its counts")
    tables = arrays["confusion"]
    fits = tables.shape == (m, k, k + 1) and str(tables.dtype) == "float64"
    if not (fits and (tables >= 0).all() and np.abs(tables.sum(axis=2) - 1).max() < 1e-6):
        raise ModelFileError("the tables in the file are no probabilities, or do not fit its counts")
    return tables


def _read_gold(arrays: Arrays, moments: Moments) -> ManyGold | None:
    if "gold_classes" not in arrays:
        return None
    m, k = moments.n_sources, moments.n_classes
    classes, said = arrays["gold_classes"], arrays["gold_said"]
    votes = _read_sparse(arrays, "gold_votes", (k * m, k))
    fits = classes.shape == (k,) and said.shape == (k, k) and {classes.dtype.kind, said.dtype.kind} == {"f"}
    if not (fits and (classes >= 0).all() and (said >= 0).all() and np.isfinite(classes.sum() + said.sum())):
        raise ModelFileError("the counts on known labels do not fit the sources")
    if not (votes.sum(axis=1) <= moments.vote_counts.T.ravel() * (1 + 1e-9)).all():
        raise ModelFileError("the counts on known labels exceed the votes")
    return ManyGold(votes, classes, said)


def sparse_parts(matrix: csr_array, name: str) -> Arrays:
    """A sparse matrix as plain arrays."""
    return {
        f"{name}_data": matrix.data.astype(np.float64),
        f"{name}_indices": matrix.indices.astype(np.int64),
        f"{name}_indptr": matrix.indptr.astype(np.int64),
    }


def _read_sparse(arrays: Arrays, name: str, shape: tuple[int, int]) -> csr_array:
    """A matrix of numbers that are not below 0, whose places exist."""
    data, indices, starts = (arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    fits = (
        data.ndim == indices.ndim == starts.ndim == 1
        and (data.dtype.kind, indices.dtype.kind, starts.dtype.kind) == ("f", "i", "i")
        and len(starts) == shape[0] + 1
        and len(data) == len(indices) == starts[-1]
        and starts[0] == 0
        and bool((np.diff(starts) >= 0).all())
        and bool(((indices >= 0) & (indices < shape[1])).all())
        and bool(np.isfinite(data).all() and (data >= 0).all())
    )
    if not fits:
        raise ModelFileError(
            f"the sparse matrix {told(name)} in the file is none, or does not fit its counts"
        )
    return csr_array((data, indices, starts), shape=shape)
