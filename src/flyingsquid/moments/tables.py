"""Count everything that a plan asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.moments.counting import count_pairs
from flyingsquid.moments.pairs import PairCounts
from flyingsquid.moments.plan import CountPlan
from flyingsquid.votes import REASONS
from flyingsquid.votes.states import Codes, rows_of_entries


def count_tables(
    codes: Codes, n_classes: int, plan: CountPlan, weights: NDArray[Any] | None = None
) -> tuple[list[PairCounts], list[NDArray[Any]]]:
    """Count the pair sets and units of a plan; integers in float64 unless the weights are fractions."""
    table: Any = codes
    inside: list[list[int]] = [[] for _ in plan.pair_sets]
    for unit, number in enumerate(plan.unit_sets):
        inside[number].append(unit)
    pairs: list[PairCounts] = []
    units: list[NDArray[Any]] = [np.empty(0)] * len(plan.units)
    for number, (sources, members) in enumerate(zip(plan.pair_sets, inside, strict=True)):
        whole = len(sources) == table.shape[1]
        columns = [plan.positions(number, plan.units[unit]) for unit in members]
        counts, joint = count_pairs(table if whole else table[:, list(sources)], n_classes, weights, columns)
        pairs.append(counts)
        for unit, states in zip(members, joint, strict=True):
            units[unit] = states
    return pairs, units


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
