"""Options and votes of a stream: matching to known sources and classes, and labels before a fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_integer, is_null, is_one_of
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import GraphError, IncompatibleError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import smoothed_shares
from flyingsquid.models._base import VoteSchema
from flyingsquid.models.validation import given_graph
from flyingsquid.moments.adaptive import DyadicCounts
from flyingsquid.moments.window_layout import Layout
from flyingsquid.moments.windows import DecayedCounts, RollingCounts, Window
from flyingsquid.solvers import Solver
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, Label, require_same, smallest_dtype
from flyingsquid.votes.reading import labels_in, one_row

Array = NDArray[np.float64]
# Items between two comparisons with the last fit if neither ``refresh`` nor a fixed window is given.
_REFRESH = 500
_ADD = 'Pass new_{0}="add" to OnlineLabelModel to add new {0}.'


# ---------------------------------------------------------------------- options


def check_stream_options(model: Any, solver: Solver) -> None:
    """Raise an error for options of an online model that are invalid or that a stream does not support."""
    window, decay = model.window, model.decay
    is_auto = is_one_of(window, ("auto",))
    if not is_auto and not (is_integer(window) and window >= 1):
        raise OptionError(f'`window` must be an integer >= 1 or "auto"; got {format_value(window)}.')
    if decay is not None and not (isinstance(decay, (float, np.floating)) and 0 < decay < 1):
        raise OptionError(
            f"`decay` must be a float in (0, 1), such as 0.999, or None; got {format_value(decay)}."
        )
    if decay is not None and is_auto:
        raise OptionError('`decay` and window="auto" cannot be combined; choose one.')
    if model.refresh is not None and not (is_integer(model.refresh) and model.refresh >= 1):
        raise OptionError(f"`refresh` must be an integer >= 1 or None; got {format_value(model.refresh)}.")
    if not is_integer(model.warm_up) or model.warm_up < 0:
        raise OptionError(f"`warm_up` must be an integer >= 0; got {format_value(model.warm_up)}.")
    for name in ("new_sources", "new_classes"):
        if not is_one_of(getattr(model, name), ("error", "add")):
            raise OptionError(f'`{name}` must be "error" or "add"; got {format_value(getattr(model, name))}.')
    given_graph(model.graph, "a stream")
    if is_one_of(model.class_balance, ("estimate",)):
        raise OptionError(
            'class_balance="estimate" needs triples of votes, which a window does not count; pass the '
            "class balance here or with the votes."
        )
    if solver.requires.rows == "required":
        raise OptionError(
            f'method="{solver.name}" needs all items in memory and cannot run on a stream; use method="auto".'
        )


def check_widening(
    graph: DependencyGraph | None, before: Layout, classes: tuple[Label, ...], n_sources: int
) -> None:
    """Raise an error for new sources and classes on a graph."""
    if graph is None or (classes == before.classes and n_sources == before.n_sources):
        return
    what = "source" if n_sources != before.n_sources else "class"
    raise GraphError(
        f"The graph has {format_count(before.n_sources, 'source')} and two classes; a new {what} cannot be "
        "added to it."
    )


def new_window(model: Any, layout: Layout) -> Window:
    """Return an empty window for ``window`` or ``decay``."""
    if model.decay is not None:
        return DecayedCounts(layout, float(model.decay))
    if isinstance(model.window, str):
        return DyadicCounts(layout)
    return RollingCounts(layout, int(model.window))


def items_between_fits(model: Any) -> int:
    """Return ``refresh``, or its default."""
    if model.refresh is not None:
        return int(model.refresh)
    if model.decay is not None or isinstance(model.window, str):
        return _REFRESH
    return max(1, int(model.window) // 8)


# ---------------------------------------------------------------------- reading


def first_votes(data: Any, classes: tuple[Label, ...] | None, graph: DependencyGraph | None) -> Votes:
    """Return the first votes of a stream, dense."""
    votes = as_votes(data, classes, None if graph is None else graph.stacked_shape)
    if graph is not None and graph.n_sources != votes.n_sources:
        raise GraphError(
            f"`votes` must have one column per source of the graph, in the same order ({graph.n_sources}); "
            f"got {votes.n_sources}."
        )
    if classes is not None:
        votes = votes.matched_to(classes, None)
    return votes.to_dense()


def further_votes(data: Any, schema: VoteSchema, *, add_classes: bool) -> Votes:
    """Return further votes of a stream, dense, with new classes if these may be added.

    The convention was checked on the first votes: a test of every chunk would find something by chance.
    """
    classes, tasks = schema.classes, schema.tasks
    if isinstance(data, Votes) or not add_classes:
        votes = as_votes(data, classes, tasks, check=False)
        if votes.names is not None and votes.names != schema.names:
            votes = votes.with_all_sources(schema.names)
        return votes.to_dense()
    try:
        return as_votes(data, classes, tasks, check=False)
    except VotesError:
        new = _new_classes(labels_in(data), classes)
        if not new:
            raise
        return as_votes(data, (*classes, *new), tasks, check=False)


def classes_and_names(
    schema: VoteSchema, votes: Votes, *, add_classes: bool, add_sources: bool
) -> tuple[tuple[Label, ...], tuple[str, ...] | None]:
    """Return the classes and names of the stream, each followed by those that the votes add."""
    classes, names, n_sources = schema.classes, schema.names, len(schema.source_names)
    if votes.classes != classes:
        if not add_classes:
            require_same("classes", set(votes.classes) | set(classes), set(classes), _ADD.format("classes"))
        classes = (*classes, *(label for label in votes.classes if label not in classes))
    if names is None or votes.names is None:
        if votes.n_sources != n_sources:
            hint = " new_sources='add' needs sources with names." if add_sources else ""
            raise IncompatibleError(
                f"`votes` must have the {format_count(n_sources, 'source')} of the stream; got "
                f"{votes.n_sources}.{hint}"
            )
    elif not add_sources:
        require_same("sources", set(votes.names), set(names), _ADD.format("sources"))
    else:
        known = set(names)
        names = (*names, *(name for name in votes.names if name not in known))
    return classes, names


def matched_codes(votes: Votes, schema: VoteSchema) -> NDArray[Any]:
    """Return codes of shape (n, m) in the order of the stream; missing sources abstain."""
    classes, names = schema.classes, schema.names
    codes: Any = votes.codes
    if votes.classes != classes:
        to = np.array([classes.index(label) for label in votes.classes], smallest_dtype(len(classes)))
        codes = np.where(codes >= 0, to[np.maximum(codes, 0)], codes)
    if names is None or votes.names is None or votes.names == names:
        return np.asarray(codes)
    full = np.full((len(codes), len(names)), ABSTAIN, smallest_dtype(len(classes)))
    position = {name: at for at, name in enumerate(names)}
    full[:, [position[name] for name in votes.names]] = codes
    return full


def read_row(
    row: Any,
    names: tuple[str, ...] | None,
    classes: tuple[Label, ...] | None,
    tasks: tuple[int, int] | None,
    *,
    add_classes: bool,
) -> Any:
    """Return the votes on one item as a matrix of one row, and those of a mapping as Votes with its names."""
    if not isinstance(row, Mapping):
        if tasks is not None and tasks[0] > 1 and getattr(row, "shape", None) == tasks:
            return row.reshape(1, -1)
        return one_row(row, names)
    if not row:
        raise VotesError(
            "The votes on one item must name at least one source; got an empty mapping. Use None to abstain."
        )
    if classes is not None and add_classes:
        classes = (*classes, *_new_classes({vote for vote in row.values() if not is_null(vote)}, classes))
    array = np.empty((1, len(row)), object)
    array[0] = list(row.values())
    own = tuple(str(name) for name in row)
    if classes is not None and ABSTAIN in classes:
        return Votes.from_classes(array, abstain=None, classes=classes, names=own)
    return Votes.from_classes(array, classes=classes, names=own)


def _new_classes(labels: set[Any], classes: tuple[Label, ...]) -> tuple[Label, ...]:
    """Return labels that are not classes yet, in an order that does not depend on their positions."""
    found = {label for label in labels if label not in classes and label != ABSTAIN}
    plain = classes == tuple(range(len(classes)))
    if plain and found and all(is_integer(v) and v >= 0 for v in found):
        largest = int(max(found))
        if largest >= MOST_CLASSES:
            raise VotesError(
                f"Votes must be for at most {MOST_CLASSES:,} classes, counted from 0; got "
                f"{format_value(largest, 30)}. Pass `classes` if these are labels."
            )
        return tuple(range(len(classes), largest + 1))
    return tuple(sorted(found, key=lambda label: (type(label).__name__, label)))


# ---------------------------------------------------------------------- labels


def shares_before_a_fit(codes: Any, graph: DependencyGraph | None, priors: list[Array]) -> Array:
    """Return vote shares smoothed by P(Y = k) of each task, shape (n, D, K)."""
    if graph is None or graph.n_tasks == 1:
        return smoothed_shares(codes, priors[0])
    parts = [
        smoothed_shares(codes[:, list(graph.sources_of(task))], prior) for task, prior in enumerate(priors)
    ]
    return np.concatenate(parts, axis=1)


def priors_of_tasks(
    class_balance: Any, balance_now: Array | None, classes: tuple[Label, ...], n_tasks: int
) -> list[Array]:
    """Return P(Y = k) of each task: passed with the votes, given as an option, or uniform."""
    n_classes = len(classes)
    if balance_now is not None:
        return list(balance_now.reshape(-1, n_classes))
    given = resolve_task_balance(class_balance, classes, n_tasks).tasks
    return [each if isinstance(each, np.ndarray) else np.full(n_classes, 1 / n_classes) for each in given]
