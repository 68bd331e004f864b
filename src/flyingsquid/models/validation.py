"""Checks of the arguments of estimators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import Any, TypeVar, cast

from flyingsquid._values import format_list, format_value, is_integer, is_number, is_one_of
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.solvers import Solver, get_solver
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import MOST_CLASSES, Label
from flyingsquid.votes.encode import Convention

# Parameters as other libraries call them.
_OTHER_NAMES = {
    "cardinality": "n_classes",
    "tie_break_policy": "tie_break",
    "L": "votes",
    "L_train": "votes",
    "L_ind": "votes",
    "Y_dev": "gold",
    "X": "features",
    "embeddings": "features",
}
Method = TypeVar("Method", bound=Callable[..., Any])


def hint_arguments(method: Method) -> Method:
    """Raise a TypeError with a hint if a method is called with a keyword argument that it does not have."""
    known = inspect.signature(method).parameters
    suffix = "" if method.__name__ == "__init__" else f".{method.__name__}"

    @wraps(method)
    def checked(self: Any, *args: Any, **kwargs: Any) -> Any:
        for name in kwargs:
            if name not in known:
                kind = type(self)
                hint = _hint(name, list(known), kind.__name__, list(inspect.signature(kind).parameters))
                raise TypeError(f"{kind.__name__}{suffix} has no parameter `{name}`.{hint}")
        return method(self, *args, **kwargs)

    return cast("Method", checked)


def _hint(name: str, known: list[str], kind: str, options: list[str]) -> str:
    meant = _OTHER_NAMES.get(name, name)
    if meant in known:
        return f" Use `{meant}`."
    if meant in options:
        return f" Pass `{meant}` to the constructor, as in {kind}({meant}=...)."
    close = get_close_matches(name, known, n=1)
    return f" Use `{close[0]}`." if close else ""


def check_options(method: Any, graph: Any, temper: Any) -> Solver:
    """Return the solver; raise an error for options that are invalid or cannot be combined."""
    solver = get_solver(method)
    if not (graph is None or is_one_of(graph, ("learn",)) or isinstance(graph, DependencyGraph)):
        raise OptionError(f'`graph` must be a DependencyGraph, "learn" or None; got {format_value(graph)}.')
    solver.check_graph(graph)
    if temper is None:
        return solver
    check_temper(temper)
    if not isinstance(graph, DependencyGraph) or not graph.task_edges:
        raise OptionError("`temper` must be None for a graph without task edges.")
    if isinstance(temper, str) and graph.stacked_shape is None:
        raise OptionError(
            'temper="auto" compares each source with itself on the next task, so every task needs the same '
            "sources in the same order; pass a number."
        )
    return solver


def check_temper(temper: Any) -> None:
    """Raise an error for an exponent that is not None, "auto" or in (0, 1]."""
    if temper is None or is_one_of(temper, ("auto",)):
        return
    if not (is_number(temper) and 0 < temper <= 1):
        raise OptionError(f'`temper` must be None, "auto" or a float in (0, 1]; got {format_value(temper)}.')


def given_graph(graph: Any, caller: str) -> DependencyGraph | None:
    """Return the graph; raise an error for one that is still to be learned."""
    if not isinstance(graph, str):
        return graph
    raise OptionError(
        f'graph="learn" is not supported by {caller}: counts of pairs do not contain the joint votes of '
        "dependent sources. Call graph = fs.learn_structure(moments) first, then fs.LabelModel(graph), and "
        "count with Moments.of(votes, graph)."
    )


def read_classes(classes: Any, n_classes: Any, votes: Any = None) -> tuple[Label, ...] | None:
    """Return the classes that ``classes`` or ``n_classes`` declares; None if the votes are to show them."""
    if classes is None and n_classes is None:
        return None
    if classes is not None and n_classes is not None:
        raise OptionError("`classes` and `n_classes` cannot both be given; pass one of them.")
    if classes is not None:
        declared = Convention.declared(classes).classes
        if declared is None:
            raise OptionError("`classes` must name two or more classes; got none.")
        return declared
    if not is_integer(n_classes) or not 2 <= n_classes <= MOST_CLASSES:
        raise OptionError(
            f"`n_classes` must be an integer from 2 to {MOST_CLASSES:,}; got {format_value(n_classes)}."
        )
    if isinstance(votes, Votes) and votes.n_classes != n_classes:
        raise OptionError(
            f"`n_classes` must be the number of classes of the votes, {votes.n_classes} "
            f"({format_list(votes.classes)}); got {n_classes}. Declare further classes with "
            "Votes.from_classes(..., classes=...)."
        )
    return tuple(range(int(n_classes)))


def read_task(task: Any, n_tasks: int) -> int:
    """Return the number of a task."""
    if task is None and n_tasks == 1:
        return 0
    if task is None or isinstance(task, bool) or not hasattr(task, "__index__"):
        raise OptionError(f"`task` must be an integer from 0 to {n_tasks - 1}; got {format_value(task)}.")
    at = int(task.__index__())
    if not 0 <= at < n_tasks:
        raise OptionError(f"`task` must be an integer from 0 to {n_tasks - 1}; got {format_value(at)}.")
    return at


def require_moments(moments: Any) -> None:
    """Raise an error unless this is Moments with at least one item."""
    if not isinstance(moments, Moments):
        raise OptionError(f"`moments` must be Moments; got {type(moments).__name__}. Pass votes to fit.")
    if not moments.n_items > 0:
        raise NotIdentifiableError("`moments` must have at least one item; got empty counts.")
