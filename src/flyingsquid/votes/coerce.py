"""Whatever a user passes where votes are expected."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse

from flyingsquid._registry import on_cluster
from flyingsquid._values import is_null
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes import frames
from flyingsquid.votes.encode import undo_text_coercion
from flyingsquid.votes.states import ABSTAIN, Label, require_same
from flyingsquid.votes.votes import Votes


def as_votes(
    data: Any, classes: tuple[Label, ...] | None = None, tasks: tuple[int, int] | None = None
) -> Votes:
    """Votes as they are; a table through ``from_frame``; anything else through ``from_classes``.

    ``classes`` are the ones already known, from an earlier fit: a raw value outside them is
    an error. Votes that were built by name keep their own. ``tasks`` is (D, s) where an array (n, D, s)
    is D tasks with s sources each, which become columns, task by task.
    """
    if isinstance(data, Votes):
        if not data.n_items:
            raise VotesError(f"votes are empty: 0 items x {data.n_sources} sources")
        return data
    if not isinstance(data, np.ndarray) and on_cluster(data):
        raise VotesError(
            f"votes in a {type(data).__module__.partition('.')[0]} {type(data).__name__} stay on their "
            "cluster, and this needs them in memory; fs.Moments.of, fit, predict and predict_proba of "
            "LabelModel and MajorityVote take them there. Bring them here by .compute() in Dask, "
            ".toArrow() in Spark"
        )
    if hasattr(type(data), "__next__") or type(data).__name__ == "VoteChunks":
        raise VotesError(
            "votes in chunks are read by fit, predict and predict_proba of LabelModel and MajorityVote, and "
            "by Moments.of; here votes are needed that fit into memory"
        )
    if classes is not None and ABSTAIN in classes:
        raise VotesError(
            "the model was fitted on signed votes (-1, 0 for no vote, +1), which a plain array "
            "cannot say; pass Votes.from_signed(...)"
        )
    if not isinstance(data, np.ndarray) and frames.is_frame(data):  # asking takes longer than reading a chunk
        return Votes.from_frame(data, classes=classes)
    return Votes.from_classes(_flatten_tasks(data, tasks), classes=classes)


def _flatten_tasks(data: Any, tasks: tuple[int, int] | None) -> Any:
    if getattr(data, "ndim", None) is None and _is_nested(data):
        try:
            data = np.asarray(data)
        except ValueError as error:
            raise VotesError(f"votes are no array of items, tasks and sources: {error}") from error
    if getattr(data, "ndim", 2) != 3:
        return data
    if tasks is None:
        raise VotesError(
            f"votes have shape {data.shape}; one row an item and one column a source, (n, m). Votes on "
            "several tasks, (n, D, s), need a graph that says so, as LabelModel(DependencyGraph.chain(D, s))"
        )
    if data.shape[1:] != tasks:
        raise VotesError(
            f"votes have shape {data.shape}; the graph has {tasks[0]} tasks with {tasks[1]} sources each, so "
            f"(n, {tasks[0]}, {tasks[1]}) or (n, {tasks[0] * tasks[1]})"
        )
    return data.reshape(len(data), tasks[0] * tasks[1])


def _is_nested(data: Any) -> bool:
    """Whether a list holds lists of lists."""
    for _ in range(2):
        if not isinstance(data, (list, tuple)) or not data:
            return False
        data = data[0]
    return isinstance(data, (list, tuple))


def one_row(data: Any, names: tuple[str, ...] | None) -> Any:
    """The votes on one item in a form that :func:`as_votes` takes.

    ``data`` is that already, or flat: a sequence of m votes in the order of the sources, or a mapping
    or pandas row from names to votes, which is put into the order of ``names``.
    """
    if isinstance(data, Votes) or frames.is_frame(data) or issparse(data):
        return data
    by_name = dict(data) if isinstance(data, Mapping) else frames.named_row(data, names)
    if by_name is not None:
        if names is not None:
            require_same("sources", set(by_name), set(names))
        data = [by_name[name] for name in names or by_name]
    elif hasattr(data, "to_pylist"):  # pyarrow; its NumPy conversion loses nulls
        data = data.to_pylist()
    try:
        array = np.asanyarray(data)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"the votes on one item are one flat row: {error}") from error
    if array.ndim not in (1, 2):
        raise VotesError(
            f"the votes on one item are needed, one for each source, not {type(data).__name__} of "
            f"{array.ndim} dimensions"
        )
    return undo_text_coercion(data, array)[None, :] if array.ndim == 1 else data


def labels_in(data: Any) -> set[Any]:
    """The different labels in a matrix or table of raw votes, without what means "no vote", or nothing.

    >>> sorted(labels_in([["cat", None], ["dog", "cat"]]))
    ['cat', 'dog']
    """
    if frames.is_frame(data):
        values = [value for column in frames.columns_of(data) for value in column]
    else:
        try:
            array = undo_text_coercion(data, np.ma.asanyarray(data))
        except Exception:  # no matrix at all, as those who want one will say
            return set()
        values = np.ma.compressed(array.ravel()).tolist()
    whole = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values if not is_null(v))
    plain = (v for v in whole if isinstance(v, (str, Real, Decimal)))
    return {value for value in plain if value != ABSTAIN or isinstance(value, bool)}


def refuse_options(**options: Any) -> None:
    """Refuse options that cannot be honoured on a cluster."""
    for name, value in options.items():
        if value is not None:
            raise OptionError(
                f"{name}= belongs to data in memory, and this is on a cluster; leave it out, or bring the "
                "data here by .compute() in Dask, .toArrow() in Spark"
            )
