"""Evidence and posteriors of dependent tasks: sum-product and max-product on a junction tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.graph.junction import JunctionTree
from flyingsquid.votes.codes import Codes, dense_chunks
from flyingsquid.votes.patterns import by_pattern, packed_chunks

Array = NDArray[np.float64]
_EVIDENCE_CELLS = 1 << 20


@dataclass(frozen=True, slots=True)
class Emissions:
    """log P(votes | truth) of D tasks.

    Attributes
    ----------
    tasks : tuple of D tuples of int
        The sources on each task.
    log_tables : array of shape (m, K, K + 1)
        log P(vote | Y = k) of each source, no vote last; 0 for sources inside a unit.
    units : tuple of (sources, array of shape (K, (K + 1)^s))
        log P(joint votes | votes of earlier units, Y = k), states in the order of ``all_patterns(s, K)``.
    """

    tasks: tuple[tuple[int, ...], ...]
    log_tables: Array
    units: tuple[tuple[tuple[int, ...], Array], ...] = ()

    def evidence(self, codes: Codes) -> Array:
        """Return log P(votes on task d | Y_d = k), shape (n, D, K)."""
        n, m = codes.shape
        n_classes = self.log_tables.shape[1]
        result = np.empty((n, len(self.tasks), n_classes))
        owner = {source: task for task, sources in enumerate(self.tasks) for source in sources}
        units: list[list[tuple[tuple[int, ...], Array]]] = [[] for _ in self.tasks]
        for sources, table in self.units:
            at = self.tasks[owner[sources[0]]]
            units[owner[sources[0]]].append((tuple(at.index(i) for i in sources), table))
        for rows, chunk in dense_chunks(codes, _EVIDENCE_CELLS):
            for task, sources in enumerate(self.tasks):
                columns = chunk if len(sources) == m else chunk[:, list(sources)]
                log_tables = self.log_tables[list(sources)]
                result[rows, task] = by_pattern(
                    columns, partial(_directly, log_tables=log_tables, units=units[task]), n_classes
                )
        return result


def with_own_evidence(posterior: Array, evidence: Array, temper: float) -> Array:
    """Return posteriors in which only the evidence of other tasks is tempered.

    Parameters
    ----------
    posterior : array of shape (..., K)
        P(Y = k | votes) with the exponent ``temper`` for all evidence.
    evidence : array of shape (..., K)
        log P(votes on the task itself | Y = k), not tempered.

    Examples
    --------
    >>> even, own = np.array([[0.5, 0.5]]), np.log([[0.2, 0.8]])
    >>> with_own_evidence(even, own, 0.0)  # other tasks do not count: only the own evidence is left
    array([[0.2, 0.8]])
    """
    if temper == 1:
        return posterior
    own = evidence - evidence.max(axis=-1, keepdims=True)
    full = posterior * np.exp((1 - temper) * own)
    total = full.sum(axis=-1, keepdims=True)
    # If both sides are certain of opposite classes up to rounding, the own votes decide.
    return np.asarray(np.where(total > 0, full / np.where(total > 0, total, 1), own == 0))


def _directly(codes: NDArray[Any], log_tables: Array, units: list[tuple[tuple[int, ...], Array]]) -> Array:
    """Return log P(votes | Y = k) for the sources of one task, shape (n, K)."""
    n, m = codes.shape
    n_classes, silent = log_tables.shape[1], log_tables[:, :, -1]
    result = np.tile(silent.sum(axis=0), (n, 1))
    rows = max(1, _EVIDENCE_CELLS // m)
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        part = result[start : start + rows]
        for vote in range(n_classes):
            part += (chunk == vote).astype(np.float64) @ (log_tables[:, :, vote] - silent)
        for at, table in units:
            for inside, numbers in packed_chunks(chunk[:, list(at)], n_classes):
                part[inside] += table.T[numbers]
    return result


# ---------------------------------------------------------------------- messages on a junction tree


# Items are processed in parts that keep the tables of all cliques within 16 MB, and those of one in cache.
_CHUNK_CELLS = 1 << 21
_CHUNK_ITEMS = 1 << 13


def sum_product(evidence: Array, tree: JunctionTree, tables: tuple[Array, ...]) -> tuple[Array, Array]:
    """Return P(Y_d = k | votes), shape (n, D, K), and log P(votes), shape (n,).

    Parameters
    ----------
    evidence : array of shape (n, D, K)
        log P(votes on task d | Y_d = k), finite. A constant added to all classes of one task and item changes
        only log P(votes).
    tree : the junction tree of the D tasks
    tables : tuple of arrays, one per clique, each of shape (K,) * len(clique)
        P(Y_C), every cell above 0. Cliques agree on the tasks that they share.

    Notes
    -----
    P(Y) is the product of the clique tables, divided by the table of the separator once for each edge of
    the tree. This is the product over cliques of P(new tasks | separator). Time
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
    """Return the most probable labels of all tasks together, shape (n, D).

    Parameters are those of :func:`sum_product`. Among labels equally probable given those of the
    separator, the first one is taken, so that the result is always one maximizer.

    Examples
    --------
    >>> pair = JunctionTree(cliques=((0, 1),), parents=(-1,), separators=((),))
    >>> table = np.array([[0.05, 0.3], [0.35, 0.3]])
    >>> max_product(np.zeros((1, 2, 2)), pair, (table,))  # although task 1 alone is most often 1
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
    """A clique and its parent; arrays have one axis for each task of the clique, then the items."""

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
    """Return one step per clique, parents first, for :func:`sum_product` and ``flyingsquid.torch``."""
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
    """Return evidence as (D, K, items) with maximum 0 for each task and item, and what was subtracted."""
    scaled = np.ascontiguousarray(np.moveaxis(evidence, 0, -1))
    # Without this, large common terms would round away the differences between classes.
    top = scaled.max(axis=1, keepdims=True)
    return scaled - top, top.sum(axis=(0, 1))


def _score(step: Step, scaled: Array) -> Array:
    """Return log P(new tasks, votes on them | separator)."""
    score = step.log_table
    for task, axis in zip(step.new, step.new_axes, strict=True):
        shape = [1] * score.ndim
        shape[axis], shape[-1] = scaled.shape[1:]
        score = score + scaled[task].reshape(shape)
    # A clique inside its parent has no new tasks, but may carry messages.
    return score if step.new else np.repeat(score, scaled.shape[-1], axis=-1)


def _collect(steps: list[Step], scores: list[Array]) -> Array:
    """Turn scores into P(new tasks | separator, votes below), leaves first; return log P(votes)."""
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
    """Add a message with a maximum of 0 to the parent's scores; return what was subtracted."""
    top = message.max(axis=tuple(range(message.ndim - 1)))
    if step.parent >= 0:
        message -= top
        scores[step.parent] += message.reshape(step.above)
    return top


def _distribute(steps: list[Step], beliefs: list[Array], scaled: Array) -> Array:
    """Turn P(new | separator, votes) into P(clique | votes), parents first; return P(task | votes)."""
    posterior = np.empty_like(scaled)
    for step, belief in zip(steps, beliefs, strict=True):
        if step.parent >= 0:
            # Sums and products of probabilities, no differences: small probabilities keep their digits.
            shared = beliefs[step.parent].sum(axis=step.rest_above).reshape(step.here)
            np.multiply(belief, shared, out=belief)
        for task, axis in zip(step.new, step.new_axes, strict=True):
            others = tuple(other for other in range(belief.ndim - 1) if other != axis)
            posterior[task] = belief.sum(axis=others)
    # Rounding adds up along a chain of hundreds of cliques.
    posterior /= posterior.sum(axis=1, keepdims=True)
    return posterior


def _best_labels(steps: list[Step], scores: list[Array], scaled: Array) -> NDArray[np.intp]:
    """Find the best new labels for each state of the separator, leaves first; return them, roots first."""
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
