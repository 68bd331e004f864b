"""Posteriors and the most probable path of a chain of classes, for sequences of any length, in O(T).

A scan over T rows in Python costs T steps. Sequences are therefore cut into blocks of about √T rows that
advance together: √T steps of √T rows each, and the blocks of one sequence are joined by a second, short scan.
Three passes: (i) the transfer matrix of each block, K x K, only if sequences were cut; (ii) messages at the
borders of blocks; (iii) messages inside blocks. Messages are arrays of shape (K, blocks), normalized in every
step. Only positive numbers are multiplied and added, so small probabilities keep their digits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.weighted import to_probabilities

Array = NDArray[np.float64]
Index = NDArray[np.intp]
# Sequences up to this length are not cut: a step costs little more for a few rows than for one.
_UNCUT = 64


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of rows, longest first, so that the blocks which reach a step are a prefix.

    Attributes
    ----------
    starts, lengths : integer arrays of shape (blocks,)
        First row and number of rows of each block.
    sequence : integer array of shape (blocks,)
        The sequence of each block.
    active : integer array of shape (longest + 1,)
        How many blocks have a row at each step; 0 at the end.
    chains : integer array of shape (rounds, sequences), or None if no sequence was cut
        ``chains[r, s]`` is the position of the r-th block of a sequence, sequences with most blocks first.
    joined : integer array of shape (rounds + 1,)
        How many sequences have an r-th block; 0 at the end.
    """

    starts: Index
    lengths: Index
    sequence: Index
    active: Index
    chains: Index | None
    joined: Index

    @classmethod
    def of(cls, lengths: Index, longest: int | None = None) -> Blocks:
        """Cut sequences of the given lengths into blocks of at most ``longest`` rows, default about √T."""
        if longest is None:
            longest = max(_UNCUT, int(np.ceil(np.sqrt(lengths.sum()))))
        each = -(-lengths // longest)
        sequence = np.repeat(np.arange(len(lengths)), each)
        number = np.arange(len(sequence)) - np.repeat(np.cumsum(each) - each, each)
        first_row = np.cumsum(lengths) - lengths
        starts = first_row[sequence] + number * longest
        sizes = np.minimum(longest, first_row[sequence] + lengths[sequence] - starts)
        order = np.argsort(-sizes, kind="stable")
        chains, joined = None, np.array([len(lengths), 0])
        if each.max() > 1:
            chains, joined = _chains(order, sequence, number, each)
        active = len(sizes) - np.cumsum(np.bincount(sizes, minlength=sizes.max() + 1))
        active = np.concatenate([[len(sizes)], active[1:]])
        return cls(starts[order], sizes[order], sequence[order], active, chains, joined)

    def steps(self) -> Iterator[tuple[int, int, slice]]:
        """Yield for each step its number, how many blocks take part, and where their rows are stored.

        Rows are stored step by step, so that every step reads and writes contiguous memory.
        """
        at = 0
        for step, count in enumerate(self.active[:-1].tolist()):
            yield step, count, slice(at, at + count)
            at += count

    def joins(self) -> Iterator[tuple[Index, Index]]:
        """Yield positions of blocks and of the blocks that follow them, from the start of sequences on."""
        if self.chains is None:
            return
        for r, count in enumerate(self.joined[1:-1].tolist()):
            yield self.chains[r, :count], self.chains[r + 1, :count]


def _chains(order: Index, sequence: Index, number: Index, each: Index) -> tuple[Index, Index]:
    position = np.empty(len(order), np.intp)
    position[order] = np.arange(len(order))
    rank = np.empty(len(each), np.intp)
    rank[np.argsort(-each, kind="stable")] = np.arange(len(each))
    chains = np.zeros((each.max(), len(each)), np.intp)
    chains[number, rank[sequence]] = position
    joined = len(each) - np.cumsum(np.bincount(each, minlength=each.max() + 1))
    return chains, np.concatenate([[len(each)], joined[1:]])


def forward_backward(
    evidence: Array, lengths: Index, prior: Array, transition: Array, *, longest_block: int | None = None
) -> tuple[Array, Array]:
    """Return P(Y(t) = k | all rows of the sequence), and the log likelihood of each sequence.

    Parameters
    ----------
    evidence : array of shape (T, K)
        log P(row t | Y(t) = k), up to a constant for each row.
    lengths : integer array of shape (sequences,), sum T
    prior : array of shape (K,), above 0
        P(Y = k) in the first row of a sequence.
    transition : array of shape (K, K), above 0
        P(next = l | now = k).

    Returns
    -------
    posterior : array of shape (T, K)
    log_likelihood : array of shape (sequences,)
        Including the constants of ``evidence``.

    Examples
    --------
    >>> sure_then_silent = np.array([[0.0, 3.0], [0.0, 0.0]])
    >>> sticky = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> forward_backward(sure_then_silent, np.array([2]), np.array([0.5, 0.5]), sticky)[0].round(2)
    array([[0.05, 0.95],
           [0.14, 0.86]])
    """
    blocks = Blocks.of(lengths, longest_block)
    emissions, height = _emissions(evidence, blocks)
    arriving = np.repeat(prior[:, None], len(blocks.starts), axis=1)
    returning = np.ones((len(prior), len(blocks.starts)))
    if blocks.chains is not None:
        _join(blocks, _transfer(emissions, blocks, transition), transition, arriving, returning)
    forward, height = _forward(emissions, blocks, arriving, transition, height)
    posterior = _backward(emissions, blocks, forward, returning, transition)
    return posterior, np.asarray(np.bincount(blocks.sequence, height), np.float64)


def viterbi(
    evidence: Array, lengths: Index, prior: Array, transition: Array, *, longest_block: int | None = None
) -> Index:
    """Return the most probable path of each sequence, classes of shape (T,).

    The arguments are those of :func:`forward_backward`. Ties are broken from the last row on
    towards the lowest class; the result is always one path that attains the maximum.

    Examples
    --------
    >>> one_outlier = np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 3.0]])
    >>> sticky = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> viterbi(one_outlier, np.array([3]), np.array([0.5, 0.5]), sticky)
    array([1, 1, 1])
    """
    blocks = Blocks.of(lengths, longest_block)
    stored, steps = _stored(evidence, blocks), np.log(transition)
    arriving = np.repeat(np.log(prior)[:, None], len(blocks.starts), axis=1)
    if blocks.chains is not None:
        _join_best(blocks, _best_transfer(stored, blocks, steps), steps, arriving)
    came_from, last = _best_forward(stored, blocks, arriving, steps)
    ends = np.argmax(last, axis=0)  # the first of equals
    if blocks.chains is not None:
        _join_back(blocks, _first_of(came_from, blocks), last, steps, ends)
    return _trace(came_from, blocks, ends)


def combine_rows(
    alone: Array,
    shared: Array,
    lengths: Index,
    prior: Array,
    transition: Array,
    *,
    temper: float = 1.0,
    share: float = 1.0,
) -> Array:
    """Return labels of rows from their own votes and a message of all other rows, shape (T, K).

    The label is P(Y(t) = k | own votes) P(votes of other rows | Y(t) = k)^share, normalized.

    Parameters
    ----------
    alone : array of shape (T, K)
        log P(Y(t) = k | votes on the row itself), up to a constant for each row.
    shared : array of shape (T, K)
        log P(votes on the row | Y(t) = k), up to a constant for each row.
    lengths, prior, transition : as in :func:`forward_backward`
    temper : float in (0, 1]
        Exponent of the likelihood of every other row.
    share : float in [0, 1]
        Exponent of the message; with 0 the rows are independent.

    Examples
    --------
    >>> own = np.log([[0.1, 0.9], [0.5, 0.5]])
    >>> sticky, even = np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([0.5, 0.5])
    >>> combine_rows(own, own, np.array([2]), even, sticky).round(2)
    array([[0.1 , 0.9 ],
           [0.18, 0.82]])
    >>> combine_rows(own, own, np.array([2]), even, sticky, share=0.0).round(2)
    array([[0.1, 0.9],
           [0.5, 0.5]])
    """
    scores = alone.copy()
    if share > 0:
        posterior, _ = forward_backward(temper * shared, lengths, prior, transition)
        with np.errstate(divide="ignore"):  # a posterior that underflows stays 0
            message = np.log(posterior) - temper * shared - np.log(prior)
        scores += share * message
    return to_probabilities(scores)


def _stored(evidence: Array, blocks: Blocks) -> Array:
    """Return evidence in the order in which steps read it, shape (K, T)."""
    columns = np.ascontiguousarray(evidence.T)
    stored = np.empty(columns.shape)
    for step, count, at in blocks.steps():
        stored[:, at] = np.take(columns, blocks.starts[:count] + step, axis=1)
    return stored


# ---------------------------------------------------------------------- sums


def _emissions(evidence: Array, blocks: Blocks) -> tuple[Array, Array]:
    """Return exp(evidence) relative to its largest class, (K, T), and the sum of the largest by block."""
    emissions, height = _stored(evidence, blocks), np.zeros(len(blocks.starts))
    for _, count, at in blocks.steps():
        here = emissions[:, at]
        top = here.max(axis=0)
        height[:count] += top
        here -= top
        # An emission that underflows is 0, and so is its posterior.
        np.exp(here, out=here)
    return emissions, height


def _transfer(emissions: Array, blocks: Blocks, transition: Array) -> Array:
    """Return P(rows of a block, last class | first class) up to a factor, (K last, K first, blocks)."""
    k, n = len(transition), len(blocks.starts)
    pull = np.ascontiguousarray(transition.T)
    matrix = np.repeat(np.eye(k)[:, :, None], n, axis=2)
    for step, count, at in blocks.steps():
        part = matrix[:, :, :count]
        if step:
            part = (pull @ part.reshape(k, k * count)).reshape(k, k, count)
        part = part * emissions[:, None, at]
        part /= part.sum(axis=(0, 1))
        matrix[:, :, :count] = part
    return matrix


def _join(blocks: Blocks, matrix: Array, transition: Array, arriving: Array, returning: Array) -> None:
    """Fill in the messages at the borders of blocks, both of shape (K, blocks).

    ``arriving`` is P(first class of the block | rows before), ``returning`` is P(rows after the block | its
    last class) up to a factor.
    """
    joins = list(blocks.joins())
    for now, after in joins:
        message = np.einsum("lfb,fb->lb", matrix[:, :, now], arriving[:, now])
        arriving[:, after] = transition.T @ (message / message.sum(axis=0))
    for now, after in reversed(joins):
        message = np.einsum("lfb,lb->fb", matrix[:, :, after], returning[:, after])
        returning[:, now] = transition @ (message / message.sum(axis=0))


def _forward(
    emissions: Array, blocks: Blocks, arriving: Array, transition: Array, height: Array
) -> tuple[Array, Array]:
    """Return P(class | rows up to this one), (K, T), and log P(rows of a block | rows before), (blocks,)."""
    pull = np.ascontiguousarray(transition.T)
    forward, height = np.empty_like(emissions), height.copy()
    before = 0
    for step, count, at in blocks.steps():
        here = forward[:, at]
        arrives = pull @ forward[:, before : before + count] if step else arriving
        np.multiply(arrives, emissions[:, at], out=here)
        total = here.sum(axis=0)
        here /= total
        height[:count] += np.log(total, out=total)
        before = at.start
    return forward, height


def _backward(emissions: Array, blocks: Blocks, forward: Array, returning: Array, transition: Array) -> Array:
    """Return P(class | all rows), shape (T, K)."""
    posterior = np.empty(forward.shape[::-1])
    message = returning.copy()
    after, rest = slice(0, 0), 0
    for step, count, at in reversed(list(blocks.steps())):
        if rest:
            part = transition @ (emissions[:, after] * message[:, :rest])
            np.divide(part, part.sum(axis=0), out=message[:, :rest])
        here = forward[:, at] * message[:, :count]
        here /= here.sum(axis=0)
        rows = blocks.starts[:count] + step
        for k, column in enumerate(posterior.T):
            column[rows] = here[k]
        after, rest = at, count
    return posterior


# ---------------------------------------------------------------------- maxima, in logarithms


def _best(message: Array, steps: Array) -> tuple[Array, NDArray[np.int8]]:
    """Return the maximum of message[j] + steps[j, k] over j, and the first j that attains it."""
    extra = (slice(None), *(None,) * (message.ndim - 1))
    best = message[0] + steps[0][extra]
    who = np.zeros(best.shape, np.int8)
    for j in range(1, len(steps)):
        other = message[j] + steps[j][extra]
        who[other > best] = j
        np.maximum(best, other, out=best)
    return best, who


def _best_transfer(stored: Array, blocks: Blocks, steps: Array) -> Array:
    """Return the log score of the best path between the first and the last class of a block."""
    k, n = len(steps), len(blocks.starts)
    with np.errstate(divide="ignore"):
        matrix = np.repeat(np.log(np.eye(k))[:, :, None], n, axis=2)
    for step, count, at in blocks.steps():
        part = matrix[:, :, :count]
        if step:
            part = _best(part, steps)[0]
        part = part + stored[:, None, at]
        matrix[:, :, :count] = part - part.max(axis=(0, 1))
    return matrix


def _join_best(blocks: Blocks, matrix: Array, steps: Array, arriving: Array) -> None:
    for now, after in blocks.joins():
        message = (matrix[:, :, now] + arriving[:, now]).max(axis=1)
        arriving[:, after] = _best(message - message.max(axis=0), steps)[0]


def _best_forward(
    stored: Array, blocks: Blocks, arriving: Array, steps: Array
) -> tuple[NDArray[np.int8], Array]:
    """Return the previous class on the best path to each class, (K, T), and its value at the end of a block.

    The maximum is subtracted from values, so that long sequences do not lose digits.
    """
    came_from = np.zeros(stored.shape, np.int8)
    value = arriving.copy()
    for step, count, at in blocks.steps():
        here = value[:, :count]
        if step:
            here, came_from[:, at] = _best(here, steps)
        here = here + stored[:, at]
        value[:, :count] = here - here.max(axis=0)
    return came_from, value


def _first_of(came_from: NDArray[np.int8], blocks: Blocks) -> NDArray[Any]:
    """Return the first class of the best path in a block to each last class, shape (K, blocks)."""
    first = np.repeat(np.arange(len(came_from))[:, None], len(blocks.starts), axis=1)
    for step, count, at in reversed(list(blocks.steps())):
        if step:
            first[:, :count] = np.take_along_axis(came_from[:, at], first[:, :count], axis=0)
    return first


def _join_back(blocks: Blocks, first: NDArray[Any], last: Array, steps: Array, ends: Index) -> None:
    """Fill in the class at the end of each block, shape (blocks,), from the last block on."""
    for now, after in reversed(list(blocks.joins())):
        begins = first[ends[after], after]
        ends[now] = np.argmax(last[:, now] + steps[:, begins], axis=0)


def _trace(came_from: NDArray[np.int8], blocks: Blocks, ends: Index) -> Index:
    """Return the path, shape (T,)."""
    path = np.empty(came_from.shape[1], np.intp)
    here = ends.copy()
    for step, count, at in reversed(list(blocks.steps())):
        path[blocks.starts[:count] + step] = here[:count]
        if step:
            here[:count] = came_from[:, at][here[:count], np.arange(count)]
    return path
