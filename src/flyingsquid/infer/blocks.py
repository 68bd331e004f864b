"""Sequences cut into blocks of bounded length, so that all blocks advance together.

A scan over T rows in Python costs T steps. Blocks of about √T rows advance side by side: √T steps of √T rows
each, and the blocks of one sequence are joined by a second, short scan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Index = NDArray[np.intp]
# Sequences up to this length are never cut: a step costs little more for a few rows than for one.
_UNCUT = 64


@dataclass(frozen=True, slots=True)
class Blocks:
    """Blocks of rows, longest first, so that those which reach a step are a prefix.

    Attributes
    ----------
    starts, lengths : integer arrays of shape (blocks,)
        First row and number of rows of each block.
    sequence : integer array of shape (blocks,)
        Which sequence each block is of.
    active : integer array of shape (longest + 1,)
        How many blocks have a row at each step; 0 at the end.
    chains : integer array of shape (rounds, sequences), or None where no sequence was cut
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
        """For each step its number, how many blocks take part, and where their rows are stored.

        Rows are stored step by step, a block's row at its block's position: what a step reads and
        writes lies side by side.
        """
        at = 0
        for step, count in enumerate(self.active[:-1].tolist()):
            yield step, count, slice(at, at + count)
            at += count

    def joins(self) -> Iterator[tuple[Index, Index]]:
        """Positions of blocks and of the blocks that follow them, from the beginning of sequences on."""
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
