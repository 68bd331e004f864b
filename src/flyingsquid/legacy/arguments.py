"""Arguments of the 2020 code: checks, and translation to arguments of ``flyingsquid.LabelModel``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import format_count, format_value, is_one_of, option_error
from flyingsquid.exceptions import GraphError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.reading import read_count
from flyingsquid.solvers import Marginal, Triplet
from flyingsquid.votes import Votes

Edges: TypeAlias = Sequence[Sequence[int]]
SolveMethod: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
SignRecovery: TypeAlias = Literal["all_positive", "fully_independent"]
MAX_ENUMERATED_TASKS = 20
"""Largest number of tasks whose 2^v combinations are enumerated."""
# Up to this many tasks gold labels are counted by combination, and by task for more.
_MAX_COUNTED_TASKS = 12
# Replaces a probability of 0, for which there is no log probability.
_SMALLEST_SHARE = 1e-6
_AGGREGATES: dict[str, Literal["mean", "median", "best"]] = {
    "triplet_mean": "mean",
    "triplet_median": "median",
    "triplet": "best",
}


def read_graph(m: int, v: int, y_edges: Edges, lambda_y_edges: Edges, lambda_edges: Edges) -> DependencyGraph:
    """Return the graph of m sources on v tasks.

    >>> read_graph(4, 2, [(0, 1)], [(0, 0), (1, 0), (2, 1), (3, 1)], [])
    DependencyGraph(4 sources on 2 tasks, 1 task edge)
    """
    m, v = read_count(m, "m"), read_count(v, "v")
    if len(lambda_y_edges) == 0:
        if v > 1:
            raise GraphError(
                f"`lambda_y_edges` must have one (source, task) pair per source if v > 1; got none for v={v}."
            )
        return DependencyGraph(m, task_edges=y_edges, source_edges=lambda_edges)
    task_of: dict[int, int] = {}
    for edge in lambda_y_edges:
        try:
            source, task = edge
        except (TypeError, ValueError) as error:
            raise GraphError(
                f"`lambda_y_edges` must contain (source, task) pairs; got {format_value(edge)}."
            ) from error
        if task_of.setdefault(source, task) != task:
            raise GraphError(
                f"`lambda_y_edges` must assign one task per source; got {task_of[source]} and {task} for "
                f"source {source}. Use one column of votes per task."
            )
    missing = sorted(set(range(m)) - set(task_of))
    if missing or len(task_of) != m:
        unknown = sorted(set(task_of) - set(range(m)), key=repr)
        got = f"no task for source {missing[0]}" if missing else f"source {format_value(unknown[0])}"
        raise GraphError(f"`lambda_y_edges` must assign a task to each of sources 0 to {m - 1}; got {got}.")
    return DependencyGraph(
        m, v, source_task=[task_of[i] for i in range(m)], task_edges=y_edges, source_edges=lambda_edges
    )


def read_triplets(triplets: Any, m: int) -> list[tuple[Any, ...]] | None:
    """Return triplets of positions, from positions or from the names of expectations in the 2020 code.

    >>> read_triplets([(0, 1, 2), [(("lambda_3", "Y_0"), ("0",)), ("lambda_4", "Y_0"), "lambda_0"]], 5)
    [(0, 1, 2), (3, 4, 0)]
    """
    if triplets is None:
        return None
    names = {f"lambda_{i}": i for i in range(m)}
    return [tuple(_position(entry, names) for entry in triplet) for triplet in triplets]


def _position(entry: Any, names: dict[str, int]) -> Any:
    if isinstance(entry, (tuple, list)):
        # (('lambda_4', 'Y_0'), ('0',)) if sources may abstain, ('lambda_4', 'Y_0') otherwise.
        conditional = len(entry) == 2 and isinstance(entry[0], (tuple, list))
        product, condition = entry if conditional else (entry, ("0",))
        if len(product) != 2 or tuple(condition) != ("0",):
            raise OptionError(
                f"`triplets` must contain single sources; got {format_value(entry)}. Dependent sources are "
                "estimated without triplets.",
                parameter="triplets",
            )
        entry = product[0]
    if isinstance(entry, str) and entry not in names:
        raise OptionError(
            f"`triplets` must contain lambda_0 to lambda_{len(names) - 1}; got {format_value(entry)}.",
            parameter="triplets",
        )
    return names.get(entry, entry) if isinstance(entry, str) else entry


def read_votes(L: Any, graph: DependencyGraph, *, allow_abstentions: bool, what: str) -> Votes:
    """Read votes of shape (n, m) in -1, 0 and +1; ``what`` is the name of the parameter."""
    votes = Votes.from_signed(L)
    if votes.n_sources != graph.n_sources:
        raise VotesError(
            f"`{what}` must have {format_count(graph.n_sources, 'column')}, one per source; got "
            f"{votes.n_sources}."
        )
    if not allow_abstentions and (missing := votes.to_dense().codes < 0).any():
        row, source = np.argwhere(missing)[0].tolist()
        raise VotesError(
            f"`{what}` must not contain abstentions with allow_abstentions=False; got 0 in row {row}, source "
            f"{source}."
        )
    return votes


def read_balance(
    class_balance: ArrayLike | None, Y_dev: ArrayLike | None, v: int
) -> NDArray[np.float64] | None:
    """Return P(Y) in the form of ``LabelModel``; None if neither argument is given.

    The shape is (2,) for one task. For several tasks it is the table of all combinations, or (v, 2) if gold
    labels of many tasks are counted by task.
    """
    if class_balance is not None and Y_dev is not None:
        raise OptionError("Pass either `class_balance` or `Y_dev`, not both.")
    if Y_dev is not None:
        return _balance_of(Y_dev, v)
    if class_balance is None:
        return None
    if v > MAX_ENUMERATED_TASKS:
        raise OptionError(
            f"`class_balance` needs all 2^{v} combinations; at most {MAX_ENUMERATED_TASKS} tasks are "
            "supported. Pass `Y_dev`, or use flyingsquid.LabelModel, which accepts one balance per task.",
            parameter="class_balance",
        )
    try:
        table = np.asarray(class_balance, np.float64)
    except (TypeError, ValueError) as error:
        raise option_error("class_balance", "an array of numbers", class_balance) from error
    if table.shape != (2**v,):
        raise OptionError(
            f"`class_balance` must have one number per combination, 2^{v}, in the order of enumerate_ys(); "
            f"got the shape {table.shape}.",
            parameter="class_balance",
        )
    if v > 1 and (table == 0).any() and table.sum() > 0:
        table = np.maximum(table, _SMALLEST_SHARE * table.sum())
        table = table / table.sum()
    return table


def _balance_of(Y_dev: ArrayLike, v: int) -> NDArray[np.float64]:
    """Return shares of gold labels, with two uniform items added so that no share is 0."""
    gold = np.asarray(Y_dev)
    gold = gold[:, None] if gold.ndim == 1 and v == 1 else gold
    if gold.ndim != 2 or gold.shape[1] != v or not len(gold):
        raise OptionError(f"`Y_dev` must have the shape (items, {v}); got {gold.shape}.", parameter="Y_dev")
    if not np.isin(gold, (-1, 1)).all():
        row, task = np.argwhere(~np.isin(gold, (-1, 1)))[0].tolist()
        raise OptionError(
            f"`Y_dev` must be -1 or +1; got {format_value(gold[row, task])} in row {row}, task {task}.",
            parameter="Y_dev",
        )
    codes = (gold > 0).astype(np.intp)
    if v > _MAX_COUNTED_TASKS:
        positive = (codes.sum(axis=0) + 1) / (len(codes) + 2)
        return np.column_stack([1 - positive, positive])
    counts = np.bincount(codes @ (1 << np.arange(v)[::-1]), minlength=2**v)
    return np.asarray((counts + 2 / 2**v) / (len(codes) + 2))


# ---------------------------------------------------------------------- options


def options_for(
    graph: DependencyGraph,
    solve_method: SolveMethod,
    sign_recovery: SignRecovery,
    triplets: Sequence[tuple[Any, ...]] | None,
) -> dict[str, Any]:
    """Return the options of ``flyingsquid.LabelModel`` except for the class balance.

    >>> options_for(DependencyGraph(3), "triplet_median", "fully_independent", None)["method"]
    Triplet(aggregate='median', triplets=None, screen=0.0, cliques='instrument')
    """
    for name, value, allowed in (
        ("solve_method", solve_method, get_args(SolveMethod)),
        ("sign_recovery", sign_recovery, get_args(SignRecovery)),
    ):
        if not is_one_of(value, allowed):
            raise option_error(name, f"one of {', '.join(allowed)}", value)
    if triplets is not None and solve_method in ("triplet_median", "independencies"):
        raise OptionError(
            f"`triplets` is not supported by solve_method={format_value(solve_method)}; use 'triplet_mean' "
            "for their mean.",
            parameter="triplets",
        )
    if triplets is not None:
        solve_method = "triplet"  # the mean for a source in several triplets
    # The paper's linear system; for three sources it divides by E[Y], which is 0 for a uniform balance.
    largest = max((len(clique) for unit in graph._units for clique in unit.cliques), default=0)
    cliques: Literal["instrument", "linear"] = "linear" if largest == 2 else "instrument"
    options: dict[str, Any] = {"graph": None if graph.is_trivial else graph}
    if solve_method == "independencies":  # estimates have signs and need no triplets
        return {**options, "method": Marginal(cliques)}
    # The 2020 code averages over all triplets without screening.
    options["method"] = Triplet(_AGGREGATES[solve_method], triplets, 0.0, cliques)
    if sign_recovery == "all_positive":
        options["signs"] = dict.fromkeys(range(graph.n_sources), 1)
    return options
