"""Sum-product and max-product on a junction tree of tasks, in log space, all items at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.graph.junction import JunctionTree

Array = NDArray[np.float64]
# Items are taken in parts that keep the tables of all cliques within 16 MB, and those of one in the cache.
_CHUNK_CELLS = 1 << 21
_CHUNK_ITEMS = 1 << 13


def sum_product(evidence: Array, tree: JunctionTree, tables: tuple[Array, ...]) -> tuple[Array, Array]:
    """P(Y_d = k | votes), shape (n, D, K), and log P(votes), shape (n,).

    Parameters
    ----------
    evidence : array of shape (n, D, K)
        log P(votes on task d | Y_d = k), finite. What is added to all classes of one task and item moves
        only log P(votes).
    tree : the junction tree of the D tasks
    tables : tuple of arrays, one a clique, each of shape (K,) * len(clique)
        P(Y_C), every cell above 0. Cliques agree on what they share.

    Notes
    -----
    P(Y) is the product of the clique tables, divided by the table of the separator once for each edge of
    the tree. That is the product over cliques of P(new tasks | separator), and it is read as such. Time
    O(n · sum of K^|C|), linear in D for a chain.

    Examples
    --------
    >>> chain = JunctionTree(cliques=((0, 1), (1, 2)), parents=(-1, 0), separators=((), (1,)))
    >>> alike = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> votes_on_task_0_alone = np.log([[[0.1, 0.9], [1, 1], [1, 1]]])
    >>> posterior, log_likelihood = sum_product(votes_on_task_0_alone, chain, (alike, alike))
    >>> posterior.round(3)
    array([[[0.1  , 0.9  ],
            [0.26 , 0.74 ],
            [0.356, 0.644]]])
    >>> np.exp(log_likelihood).round(3)
    array([0.5])
    """
    steps = plan(tree, tables)
    posterior, log_likelihood = np.empty(evidence.shape), np.empty(len(evidence))
    for part in _parts(len(evidence), steps):
        scaled, log_likelihood[part] = _scaled(evidence[part])
        scores = [_score(step, scaled) for step in steps]
        log_likelihood[part] += _collect(steps, scores)
        posterior[part] = np.moveaxis(_distribute(steps, scores, scaled), -1, 0)
    return posterior, log_likelihood


def max_product(evidence: Array, tree: JunctionTree, tables: tuple[Array, ...]) -> NDArray[np.intp]:
    """The most probable labels of all tasks together, shape (n, D).

    Parameters are those of :func:`sum_product`. Among labels equally probable given those of the
    separator, the first in order is taken, so that what is returned is always one maximiser.

    Examples
    --------
    >>> pair = JunctionTree(cliques=((0, 1),), parents=(-1,), separators=((),))
    >>> table = np.array([[0.05, 0.3], [0.35, 0.3]])
    >>> max_product(np.zeros((1, 2, 2)), pair, (table,))  # though task 1 alone is most often 1
    array([[1, 0]])
    """
    steps = plan(tree, tables)
    labels = np.empty(evidence.shape[:2], np.intp)
    for part in _parts(len(evidence), steps):
        scaled, _ = _scaled(evidence[part])
        scores = [_score(step, scaled) for step in steps]
        labels[part] = _best_labels(steps, scores, scaled).T
    return labels


@dataclass(frozen=True, slots=True)
class Step:
    """A clique and the way to its parent; arrays have one axis for each of its tasks, then the items."""

    parent: int
    log_table: Array  # log P(new tasks | separator), with an axis of length 1 for the items
    new: tuple[int, ...]  # tasks that the parent does not hold; every task is new in exactly one clique
    new_axes: tuple[int, ...]
    shared: tuple[int, ...]
    shared_axes: tuple[int, ...]
    here: tuple[int, ...]  # the shape of a message that broadcasts against this clique
    above: tuple[int, ...]  # the shape of the same message that broadcasts against the parent
    rest_above: tuple[int, ...]  # the axes of the parent that the message has summed out


def plan(tree: JunctionTree, tables: tuple[Array, ...]) -> list[Step]:
    """One step a clique, parents first, for :func:`sum_product` here and in ``flyingsquid.torch``."""
    steps = []
    for clique, parent, shared, table in zip(
        tree.cliques, tree.parents, tree.separators, tables, strict=True
    ):
        new_axes = tuple(axis for axis, task in enumerate(clique) if task not in shared)
        shared_axes = tuple(axis for axis, task in enumerate(clique) if task in shared)
        up = tree.cliques[parent] if parent >= 0 else ()
        k = table.shape[0]
        steps.append(
            Step(
                parent=parent,
                log_table=(np.log(table) - np.log(table.sum(axis=new_axes, keepdims=True)))[..., None],
                new=tuple(clique[axis] for axis in new_axes),
                new_axes=new_axes,
                shared=shared,
                shared_axes=shared_axes,
                here=(*(k if task in shared else 1 for task in clique), -1),
                above=(*(k if task in shared else 1 for task in up), -1),
                rest_above=tuple(axis for axis, task in enumerate(up) if task not in shared),
            )
        )
    return steps


def _parts(n: int, steps: list[Step]) -> Iterator[slice]:
    cells = max(1, sum(step.log_table.size for step in steps))
    rows = max(1, min(_CHUNK_ITEMS, _CHUNK_CELLS // cells))
    return (slice(start, min(n, start + rows)) for start in range(0, n, rows))


def _scaled(evidence: Array) -> tuple[Array, Array]:
    """Evidence as (D, K, items), its largest entry 0 for each task and item, and what was taken off."""
    scaled = np.ascontiguousarray(np.moveaxis(evidence, 0, -1))
    # Sums of what is common to all classes would drown the differences between them.
    top = scaled.max(axis=1, keepdims=True)
    return scaled - top, top.sum(axis=(0, 1))


def _score(step: Step, scaled: Array) -> Array:
    """log P(new tasks, votes on them | separator)."""
    score = step.log_table
    for task, axis in zip(step.new, step.new_axes, strict=True):
        shape = [1] * score.ndim
        shape[axis], shape[-1] = scaled.shape[1:]
        score = score + scaled[task].reshape(shape)
    # A clique within its parent has nothing new, yet may carry messages.
    return score if step.new else np.repeat(score, scaled.shape[-1], axis=-1)


def _collect(steps: list[Step], scores: list[Array]) -> Array:
    """Leaves first: turn scores into P(new tasks | separator, votes below), return log P(votes)."""
    log_likelihood = np.zeros(scores[0].shape[-1] if scores else 0)
    for step, score in zip(reversed(steps), reversed(scores), strict=True):
        top = score.max(axis=step.new_axes, keepdims=True)
        np.subtract(score, top, out=score)
        np.exp(score, out=score)
        mass = score.sum(axis=step.new_axes, keepdims=True)
        np.divide(score, mass, out=score)
        message = np.log(mass)
        message += top
        log_likelihood += _send(step, message, scores)
    return log_likelihood


def _send(step: Step, message: Array, scores: list[Array]) -> Array:
    """Add a message to the parent's scores with its largest entry 0; return what was taken off."""
    top = message.max(axis=tuple(range(message.ndim - 1)))
    if step.parent >= 0:
        message -= top
        scores[step.parent] += message.reshape(step.above)
    return top


def _distribute(steps: list[Step], beliefs: list[Array], scaled: Array) -> Array:
    """Parents first: P(clique | votes) in place of P(new | separator, votes); the tasks' (D, K, items)."""
    posterior = np.empty_like(scaled)
    for step, belief in zip(steps, beliefs, strict=True):
        if step.parent >= 0:
            # Sums and products of probabilities, no differences: the small side of a sure label is exact.
            shared = beliefs[step.parent].sum(axis=step.rest_above).reshape(step.here)
            np.multiply(belief, shared, out=belief)
        for task, axis in zip(step.new, step.new_axes, strict=True):
            others = tuple(other for other in range(belief.ndim - 1) if other != axis)
            posterior[task] = belief.sum(axis=others)
    # Rounding adds up along a chain of hundreds of cliques.
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


def _best_labels(steps: list[Step], scores: list[Array], scaled: Array) -> NDArray[np.intp]:
    """Leaves first: the best new labels for each state of the separator. Then read them off, roots first."""
    tasks, k, items = scaled.shape
    choices: list[NDArray[np.intp]] = []
    for step, score in zip(reversed(steps), reversed(scores), strict=True):
        order = (*step.shared_axes, *step.new_axes, score.ndim - 1)
        flat = score.transpose(order).reshape(k ** len(step.shared), -1, items)
        choices.append(flat.argmax(axis=1))
        _send(step, flat.max(axis=1).reshape(step.here), scores)
    labels = np.empty((tasks, items), np.intp)
    everyone = np.arange(items)
    for step, choice in zip(steps, reversed(choices), strict=True):
        state = np.zeros(items, np.intp)
        for task in step.shared:
            state = state * k + labels[task]
        best = choice[state, everyone]
        for task in reversed(step.new):
            best, labels[task] = np.divmod(best, k)
    return labels
