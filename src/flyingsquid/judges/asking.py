"""Adaptive asking: its report, a dry run on recorded votes, and rounds of calls of real judges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import format_count
from flyingsquid.exceptions import OptionError
from flyingsquid.judges.judge import Answer
from flyingsquid.judges.planner import OUTCOMES, Planner
from flyingsquid.judges.policy import Array, Mask, within_budget
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import item_ids, join_by_item, read_gold
from flyingsquid.votes.codes import ABSTAIN, NOT_ASKED, Label, dense_codes, smallest_dtype

Cell = tuple[int, int]
"""A judge and an item, by their positions."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Asking(Tabular):
    """Report of adaptive asking. Prints as a table with one row per outcome.

    Attributes
    ----------
    outcomes : array of n str
        Reason why asking stopped for each item: ``"pilot"`` (all were asked first), ``"settled"`` (asking the
        others would hardly improve its label), ``"certain"`` (likewise, and its estimated error is below the
        target), ``"all asked"`` or ``"out of budget"``.
    probabilities : array of shape (n, K)
        P(Y = k | votes) by the label model of the run, which takes the pilot into account.
    n_asked : integer array of shape (n,)
        Number of judges asked about each item.
    n_possible : integer array of shape (n,)
        Number of judges that could have been asked.
    calls : int
        Number of calls, including retries and all calls of earlier runs that the cache records.
    cost, full_cost : float
        Cost of these calls, and of one call of every judge about every item.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, [0.9, 0.85, 0.8, 0.8, 0.75], random_state=0)
    >>> found = fs.judges.simulate_asking(sample.votes, stop_at=0.9).asking
    >>> found.saved > 0.3
    True
    """

    outcomes: NDArray[np.str_]
    probabilities: Array
    n_asked: NDArray[np.int64]
    n_possible: NDArray[np.int64]
    calls: int
    cost: float
    full_cost: float

    @property
    def estimated_errors(self) -> Array:
        """Estimated probability that the label of each item is wrong, shape (n,)."""
        return np.asarray(1 - self.probabilities.max(axis=1))

    @property
    def saved(self) -> float:
        """Share of the cost of asking all judges that was not spent; negative if retries cost more."""
        return 1 - self.cost / self.full_cost

    def table(self) -> Table:
        """Return items, calls per item and the mean estimated error for each outcome."""
        rows: list[tuple[Scalar, ...]] = []
        for outcome in OUTCOMES:
            of = self.outcomes == outcome
            if of.any():
                means = (float(each[of].mean()) for each in (self.n_asked, self.estimated_errors))
                rows.append((outcome, int(of.sum()), *means))
        possible, asked = int(self.n_possible.sum()), int(self.n_asked.sum())
        notes = (
            f"{asked:,} of {possible:,} votes asked for with {format_count(self.calls, 'call')}; "
            f"cost {self.cost:,.10g} of {self.full_cost:,.10g}, {max(self.saved, 0):.0%} saved.",
        )
        columns = ("outcome", "items", "votes asked per item", "estimated error")
        return Table(columns, tuple(rows), footnotes=notes, formats=("", ",d", ".1f", ".1%"))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AskingSimulation(Tabular):
    """Result of :func:`simulate_asking`. Prints as a table of accuracy against cost.

    Attributes
    ----------
    votes : Votes of shape (n, m)
        The votes that would have been asked for; the others have the reason ``not_asked``.
    asking : Asking
    cost : array of shape (r,)
        Cost after each round, from the pilot to the end.
    accuracy : array of shape (r,)
        Share of correct labels after each round; without ``y``, share of labels that agree with those of
        asking all judges.
    full_accuracy : float
        The same after asking all judges.
    is_scored : bool
        Whether gold labels ``y`` were given.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, [0.9, 0.85, 0.8, 0.8, 0.75], random_state=0)
    >>> found = fs.judges.simulate_asking(sample.votes, sample.y, stop_at=0.9)
    >>> bool(found.accuracy[-1] > found.full_accuracy - 0.05), found.votes.n_votes < 3_500
    (True, True)
    """

    votes: Votes
    asking: Asking
    cost: Array
    accuracy: Array
    full_accuracy: float
    is_scored: bool

    def table(self) -> Table:
        """Return cost and accuracy after each round, and of asking all judges."""
        measure = "accuracy" if self.is_scored else "agreement with asking all"
        share = self.cost / self.asking.full_cost
        rows: list[tuple[Scalar, ...]] = [
            ("pilot" if at == 0 else f"round {at}", float(cost), float(share[at]), float(self.accuracy[at]))
            for at, cost in enumerate(self.cost)
        ]
        rows.append(("all asked", self.asking.full_cost, 1.0, self.full_accuracy))
        columns = ("after", "cost", "share of full cost", measure)
        return Table(columns, tuple(rows), formats=("", ",.10g", ".0%", ".1%"))


def simulate_asking(
    votes: Any,
    y: Any = None,
    *,
    stop_at: float = 0.95,
    budget: float | None = None,
    costs: Mapping[str, float] | None = None,
    pilot: int | None = None,
    gold: Any = None,
    available: NDArray[np.bool_] | None = None,
) -> AskingSimulation:
    """Replay recorded votes as if they were asked for by ``ask_judges(..., stop_at=...)``.

    The label model uses only votes that would have been asked for. Further items are likely to need a similar
    number of calls per item, if the judges are the same.

    Parameters
    ----------
    votes : Votes, or any input that ``LabelModel.fit`` accepts
        Votes of all judges.
    y : gold labels, optional
        For scoring only; None or -1 for items without one.
    stop_at, budget, costs, pilot : as in :func:`ask_judges`
        Each vote counts as one call.
    gold : gold labels, optional
        For the label model, as in ``LabelModel.fit``.
    available : mask of shape (n, m), optional
        Votes that can be asked for. Default: all but those with the reason ``not_asked``, so abstentions are
        answers. For a crowd, in which each worker sees some items, pass ``votes.codes >= 0``.

    Returns
    -------
    AskingSimulation

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, [0.9, 0.85, 0.8, 0.8, 0.75], random_state=0)
    >>> found = fs.judges.simulate_asking(sample.votes, sample.y, stop_at=0.9)
    >>> found.asking.table().columns
    ('outcome', 'items', 'votes asked per item', 'estimated error')
    >>> bool(found.votes.missing_counts()["not_asked"].sum() > 1_000)
    True
    """
    read = as_votes(votes)
    codes = np.asarray(dense_codes(read.codes))
    can_ask = _read_available(available, codes)
    known, truth = (
        None
        if labels is None
        else read_gold_codes(labels, item_ids(votes, read, labels), read.classes, read.n_items, name)
        for labels, name in ((gold, "gold"), (y, "y"))
    )
    planner = Planner(
        read.classes,
        read.source_names,
        can_ask,
        stop_at=stop_at,
        budget=budget,
        costs=costs,
        pilot=pilot,
        gold=known,
    )
    full = np.where(can_ask, codes, ABSTAIN)
    asked_all = planner.label_items(full)
    truth = asked_all if truth is None else truth
    seen = np.where(can_ask, NOT_ASKED, ABSTAIN).astype(codes.dtype)
    spent, spending, scores = 0.0, [], []
    rounds = planner.rounds(seen, lambda: planner.budget - spent)
    for number, cells in enumerate(rounds):
        if number:  # the model is fitted after the pilot
            spending.append(spent)
            scores.append(_accuracy(planner.posterior, truth))
        judges, items = np.array(cells, np.intp).reshape(-1, 2).T
        cost = planner.costs[judges]
        taken = within_budget(cost, planner.budget - spent)
        seen[items[taken], judges[taken]] = full[items[taken], judges[taken]]
        spent += float(cost[taken].sum())
    scores[-1] = _accuracy(planner.posterior, truth)
    report = make_report(planner, seen, ((seen != NOT_ASKED) & can_ask).sum(axis=0))
    result = Votes(np.where(can_ask, seen, codes), read.classes, read.source_names, read.items)
    return AskingSimulation(
        result,
        report,
        np.array(spending),
        np.array(scores),
        _accuracy(np.eye(len(read.classes))[asked_all], truth),
        y is not None,
    )


def make_report(planner: Planner, codes: NDArray[Any], n_calls: NDArray[np.int64]) -> Asking:
    """Return the report of a planner that has finished, given votes (n, m) and calls of each judge (m,)."""
    available, costs = planner.available, planner.costs
    return Asking(
        outcomes=np.array(OUTCOMES)[planner.outcomes],
        probabilities=planner.posterior,
        n_asked=((codes != NOT_ASKED) & available).sum(axis=1),
        n_possible=available.sum(axis=1),
        calls=int(n_calls.sum()),
        cost=float(n_calls @ costs),
        full_cost=float((available * costs).sum()),
    )


def _accuracy(posterior: Array, truth: NDArray[Any]) -> float:
    known = truth >= 0
    return float(np.mean(posterior.argmax(axis=1)[known] == truth[known])) if known.any() else math.nan


def _read_available(available: Any, codes: NDArray[Any]) -> Mask:
    if available is None:
        return np.asarray(codes != NOT_ASKED)
    mask = np.asarray(available)
    if mask.shape != codes.shape or mask.dtype != np.bool_:
        raise OptionError(
            f"`available` must be a boolean array of shape {codes.shape}; got {mask.dtype} of shape "
            f"{mask.shape}."
        )
    return mask


def read_gold_codes(
    labels: Any, ids: Any, classes: tuple[Label, ...], n_items: int, name: str
) -> NDArray[np.int64]:
    """Return codes of gold labels, shape (n,), negative if unknown."""
    return read_gold(join_by_item(labels, ids, n_items, name), classes, n_items, name).astype(np.int64)


# ---------------------------------------------------------------------- calls of real judges


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
        self.used: dict[Cell, Answer] = {}
        shape = planner.available.shape
        self.n_calls = np.zeros(shape[1], np.int64)
        for (judge, _), n in n_recorded.items():
            self.n_calls[judge] += n
        self._codes = np.full(shape, NOT_ASKED, smallest_dtype(len(planner.classes)))
        self._answers: dict[Cell, Answer] = {}
        self._rounds = self._plan()

    def report(self) -> Asking:
        """Return the report of a run that has ended."""
        return make_report(self._planner, self._codes, self.n_calls)

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
        is_cached = np.zeros(self._codes.shape, np.bool_)
        for judge, item in self._kept:
            is_cached[item, judge] = True
        for cells in self._planner.rounds(self._codes, lambda: self._planner.budget - self._cost, is_cached):
            yield from self._ask(cells)

    def _ask(self, cells: list[Cell]) -> Iterator[list[Cell]]:
        """Use cached answers, yield the other cells once, then store their answers."""
        for cell in cells:
            if cell in self._kept:
                self.used[cell] = self._kept[cell]
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
