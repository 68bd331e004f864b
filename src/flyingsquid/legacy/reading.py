"""Arguments of the 2020 code, checked and put into today's terms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import GraphError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.reading import read_count
from flyingsquid.votes import Votes

Edges: TypeAlias = Sequence[Sequence[int]]
MOST_ENUMERATED = 20
"""Tasks whose 2^v combinations are still listed."""
# Of so many tasks known labels are counted by combination; beyond, by task.
_MOST_COUNTED = 12
# What "cannot happen" means, where a combination was given the probability 0.
_NEXT_TO_NEVER = 1e-6


def read_graph(m: int, v: int, y_edges: Edges, lambda_y_edges: Edges, lambda_edges: Edges) -> DependencyGraph:
    """The graph of m sources on v tasks, for edges as lists of pairs.

    >>> read_graph(4, 2, [(0, 1)], [(0, 0), (1, 0), (2, 1), (3, 1)], [])
    DependencyGraph(4 sources on 2 tasks, 1 task edge)
    """
    m, v = read_count(m, "m"), read_count(v, "v")
    if len(lambda_y_edges) == 0:
        if v > 1:
            raise GraphError(
                f"lambda_y_edges is empty, which puts all sources on task 0, and v={v}; pass [(source, "
                "task), ...], one pair for each source"
            )
        return DependencyGraph(m, task_edges=y_edges, source_edges=lambda_edges)
    task_of: dict[int, int] = {}
    for edge in lambda_y_edges:
        try:
            source, task = edge
        except (TypeError, ValueError) as error:
            raise GraphError(f"lambda_y_edges holds {told(edge)}; each one is (source, task)") from error
        if task_of.setdefault(source, task) != task:
            raise GraphError(
                f"lambda_y_edges puts source {source} on the tasks {task_of[source]} and {task}; a source "
                "votes on one task. Give each task a column of its own"
            )
    missing = sorted(set(range(m)) - set(task_of))
    if missing or len(task_of) != m:
        strange = sorted(set(task_of) - set(range(m)), key=repr)
        what = f"does not say the task of source {missing[0]}" if missing else f"names source {strange[0]}"
        raise GraphError(f"lambda_y_edges {what}; there are {m} sources, counted from 0")
    return DependencyGraph(
        m, v, source_task=[task_of[i] for i in range(m)], task_edges=y_edges, source_edges=lambda_edges
    )


def read_triplets(triplets: Any, m: int) -> list[tuple[Any, ...]] | None:
    """Triplets of positions, from positions or from the names that the 2020 code gave to expectations.

    >>> read_triplets([(0, 1, 2), [(("lambda_3", "Y_0"), ("0",)), ("lambda_4", "Y_0"), "lambda_0"]], 5)
    [(0, 1, 2), (3, 4, 0)]
    """
    if triplets is None:
        return None
    names = {f"lambda_{i}": i for i in range(m)}
    return [tuple(_position(entry, names) for entry in triplet) for triplet in triplets]


def _position(entry: Any, names: dict[str, int]) -> Any:
    if isinstance(entry, (tuple, list)):
        # (('lambda_4', 'Y_0'), ('0',)) where sources may abstain, ('lambda_4', 'Y_0') where they may not.
        conditional = len(entry) == 2 and isinstance(entry[0], (tuple, list))
        product, silent = entry if conditional else (entry, ("0",))
        if len(product) != 2 or tuple(silent) != ("0",):
            raise OptionError(
                f"triplets holds {told(entry)}, a product of sources or an expectation where others are "
                "silent; dependent sources are judged without triplets here. Keep triplets of single sources"
            )
        entry = product[0]
    if isinstance(entry, str) and entry not in names:
        raise OptionError(f"triplets names {told(entry)}; there are lambda_0 to lambda_{len(names) - 1}")
    return names.get(entry, entry) if isinstance(entry, str) else entry


def read_votes(L: Any, graph: DependencyGraph, *, allow_abstentions: bool, what: str) -> Votes:
    """Votes of shape (n, m) in -1/0/+1."""
    votes = Votes.from_signed(L)
    if votes.n_sources != graph.n_sources:
        raise VotesError(f"{what} has {votes.n_sources} columns; one for each of {graph.n_sources} sources")
    if not allow_abstentions and (silent := votes.to_dense().codes < 0).any():
        row, source = np.argwhere(silent)[0].tolist()
        raise VotesError(
            f"{what}[{row}, {source}] is no vote, and allow_abstentions=False; leave allow_abstentions out, "
            "or fill it in"
        )
    return votes


def read_balance(
    class_balance: ArrayLike | None, Y_dev: ArrayLike | None, v: int
) -> NDArray[np.float64] | None:
    """P(Y) as ``LabelModel`` takes it; None where nothing is known.

    Of one task (2,); of several the table of all combinations, or (v, 2) where known labels of many tasks are
    counted task by task.
    """
    if class_balance is not None and Y_dev is not None:
        raise OptionError("class_balance and Y_dev both say how frequent the classes are; pass one of them")
    if Y_dev is not None:
        return _balance_of(Y_dev, v)
    if class_balance is None:
        return None
    if v > MOST_ENUMERATED:
        raise OptionError(
            f"class_balance lists all 2^{v} combinations of {v} tasks; pass Y_dev, or use "
            "flyingsquid.LabelModel, whose class_balance also takes one row a task"
        )
    try:
        table = np.asarray(class_balance, np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"class_balance={told(class_balance)} cannot be read as numbers") from error
    if table.shape != (2**v,):
        raise OptionError(
            f"class_balance has shape {table.shape}; one number for each of 2^{v} combinations is needed, in "
            "the order of enumerate_ys()"
        )
    if v > 1 and (table == 0).any() and table.sum() > 0:
        table = np.maximum(table, _NEXT_TO_NEVER * table.sum())
        table = table / table.sum()
    return table


def _balance_of(Y_dev: ArrayLike, v: int) -> NDArray[np.float64]:
    """Shares of known labels, two items added that are spread evenly so that nothing is impossible."""
    known = np.asarray(Y_dev)
    known = known[:, None] if known.ndim == 1 and v == 1 else known
    if known.ndim != 2 or known.shape[1] != v or not len(known):
        raise OptionError(f"Y_dev has shape {known.shape}; (number of known items, {v}) is needed")
    if not np.isin(known, (-1, 1)).all():
        row, task = np.argwhere(~np.isin(known, (-1, 1)))[0].tolist()
        raise OptionError(f"Y_dev[{row}, {task}] is {told(known[row, task])}; -1 and +1 are the classes")
    codes = (known > 0).astype(np.intp)
    if v > _MOST_COUNTED:
        positive = (codes.sum(axis=0) + 1) / (len(codes) + 2)
        return np.column_stack([1 - positive, positive])
    counts = np.bincount(codes @ (1 << np.arange(v)[::-1]), minlength=2**v)
    return np.asarray((counts + 2 / 2**v) / (len(codes) + 2))
