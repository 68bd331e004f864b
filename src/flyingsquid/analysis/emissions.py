"""From fitted parameters to what inference reads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation import UnitTable
from flyingsquid.infer import Emissions

Array = NDArray[np.float64]
# No vote is taken to be rarer than this given a class, or an item could be impossible.
_RAREST = 1e-6


def emissions_of(
    tasks: tuple[tuple[int, ...], ...],
    tables: Array,
    weights: Array | None,
    balance: Array,
    units: tuple[UnitTable, ...] = (),
) -> Emissions:
    """log P(votes | truth) of every task.

    Parameters
    ----------
    tasks : the sources on each of D tasks
    tables : array of shape (m, K, K + 1)
        P(vote | Y = k).
    weights : array of shape (m, 3), for two classes
        The log ratio of each vote. Where it is 0, the vote says nothing, and has the same probability
        under both classes. None takes the tables as they are.
    balance : array of shape (D, K)
    units : dependent sources, which replace their single tables
    """
    log_tables = np.log(np.maximum(tables, _RAREST))
    for task, sources in enumerate(tasks if weights is not None else ()):
        at = list(sources)
        overall = np.log(np.maximum(np.einsum("k,mkv->mv", balance[task], tables[at]), _RAREST))
        says_nothing = np.asarray(weights)[at] == 0
        log_tables[at] = np.where(says_nothing[:, None, :], overall[:, None, :], log_tables[at])
    found = []
    for unit in units:
        log_tables[list(unit.sources)] = 0.0
        found.append((unit.sources, np.log(np.maximum(unit.conditional, 1e-300))))
    return Emissions(tasks, log_tables, tuple(found))
