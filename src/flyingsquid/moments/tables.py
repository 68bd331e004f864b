"""Every table that a cover asks for, counted from codes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.moments.counting import count_block
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.storage import Block
from flyingsquid.votes import REASONS
from flyingsquid.votes.states import Codes, rows_of_entries


def count_tables(
    codes: Codes, n_classes: int, cover: Cover, weights: NDArray[Any] | None = None
) -> tuple[list[Block], list[NDArray[Any]]]:
    """Blocks and units of a cover, integers in float64 unless the weights are fractions."""
    table: Any = codes
    inside: list[list[int]] = [[] for _ in cover.blocks]
    for unit, block in enumerate(cover.unit_blocks):
        inside[block].append(unit)
    blocks: list[Block] = []
    units: list[NDArray[Any]] = [np.empty(0)] * len(cover.units)
    for block, (sources, members) in enumerate(zip(cover.blocks, inside, strict=True)):
        whole = len(sources) == table.shape[1]
        columns = [cover.positions(block, cover.units[unit]) for unit in members]
        pairs, joint = count_block(table if whole else table[:, list(sources)], n_classes, weights, columns)
        blocks.append(pairs if isinstance(pairs, csr_array) else np.ascontiguousarray(pairs))
        for unit, counts in zip(members, joint, strict=True):
            units[unit] = counts
    return blocks, units


def count_missing(codes: Codes, weights: NDArray[Any] | None = None) -> NDArray[np.float64]:
    """Refused, unparseable and failed votes of each source, shape (m, 3)."""
    missing = np.zeros((codes.shape[1], len(REASONS) - 1))
    if isinstance(codes, csr_array):
        row = rows_of_entries(codes)
        column, values = codes.indices, codes.data
    elif codes.min() >= -1:
        return missing
    else:
        row, column = np.nonzero(codes < -1)
        values = codes[row, column]
    stated = values < -1
    share = np.ones(stated.sum()) if weights is None else weights[row[stated]]
    np.add.at(missing, (column[stated], -2 - values[stated].astype(np.intp)), share)
    return missing
