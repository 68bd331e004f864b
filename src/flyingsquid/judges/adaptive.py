"""Rounds of adaptive asking with real judges: cached answers first, then calls within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from flyingsquid.judges.asking import Asking, make_report
from flyingsquid.judges.judge import Answer
from flyingsquid.judges.planner import Planner
from flyingsquid.judges.policy import within_budget
from flyingsquid.votes.codes import NOT_ASKED, smallest_dtype

Cell = tuple[int, int]


class AdaptiveCalls:
    """Calls of adaptive asking, round by round.

    Each round uses cached answers first, then asks for the rest. A run that is started again therefore makes
    the same decisions as before, and asks only for answers that are not in the cache.

    Parameters
    ----------
    planner : Planner
    kept : dict from (int, int) to Answer
        Cached answers of (judge, item).
    n_recorded : dict from (int, int) to int
        Number of attempts that the cache records for (judge, item). They count towards the budget.
    record : callable, optional
        Called with judge and item when an attempt begins; needed for a budget.

    Attributes
    ----------
    used : dict from (int, int) to Answer
        The cached answers that were used.
    n_calls : integer array of shape (m,)
        Number of attempts of each judge, including those of earlier runs.
    """

    def __init__(
        self,
        planner: Planner,
        kept: dict[Cell, Answer],
        n_recorded: dict[Cell, int],
        record: Callable[[int, int], None] | None = None,
    ) -> None:
        self._planner, self._kept, self._record = planner, kept, record
        self._n_recorded = n_recorded
        self.used: dict[Cell, Answer] = {}
        shape = planner.available.shape
        self.n_calls = np.zeros(shape[1], np.int64)
        self._codes = np.full(shape, NOT_ASKED, smallest_dtype(len(planner.classes)))
        self._answers: dict[Cell, Answer] = {}
        self._rounds = self._plan()
        # Attempts whose answers are lost or requested again count as spent from the start, other attempts
        # when their answers are used. This reproduces the decisions of the earlier run.
        self._n_unused = np.zeros(shape[1], np.int64)
        for cell, n in n_recorded.items():
            self.n_calls[cell[0]] += n
            if cell in kept:
                self._n_unused[cell[0]] += n

    def report(self) -> Asking:
        """Return the report of a run that has ended."""
        return make_report(self._planner, self._codes, self._n_used)

    @property
    def _n_used(self) -> NDArray[np.int64]:
        """Attempts of each judge, except those whose cached answers were not used, shape (m,)."""
        return np.asarray(self.n_calls - self._n_unused)

    @property
    def _cost(self) -> float:
        """Cost of all attempts, including those of earlier runs."""
        return float(self.n_calls @ self._planner.costs)

    def begin(self, judge: int, item: int) -> bool:
        """Reserve the cost of one attempt; return False if the budget does not allow it."""
        if self._cost + self._planner.costs[judge] > self._planner.budget:
            return False
        self.n_calls[judge] += 1
        if self._record is not None:
            self._record(judge, item)
        return True

    def more(self, answers: dict[Cell, Answer]) -> list[Cell]:
        """Return the cells of the next round that are not in the cache; an empty list at the end."""
        self._answers = answers
        return next(self._rounds, [])

    def _plan(self) -> Iterator[list[Cell]]:
        budget, costs = self._planner.budget, self._planner.costs
        for cells in self._planner.rounds(self._codes, lambda: budget - float(self._n_used @ costs)):
            yield from self._ask(cells)

    def _ask(self, cells: list[Cell]) -> Iterator[list[Cell]]:
        """Use cached answers, yield the other cells once, then store their answers."""
        for cell in cells:
            if cell in self._kept:
                self.used[cell] = self._kept[cell]
                self._n_unused[cell[0]] -= self._n_recorded.get(cell, 0)
                self._take(cell, self._kept[cell])
        new = [cell for cell in cells if cell not in self._kept]
        costs = self._planner.costs[[judge for judge, _ in new]]
        taken = within_budget(costs, self._planner.budget - self._cost)
        new = [cell for cell, is_taken in zip(new, taken, strict=True) if is_taken]
        if new:
            yield new
        for cell in new:
            if cell in self._answers:  # the budget may have been exhausted before
                self._take(cell, self._answers[cell])

    def _take(self, cell: Cell, answer: Answer) -> None:
        judge, item = cell
        self._codes[item, judge] = answer.code(self._planner.classes)
