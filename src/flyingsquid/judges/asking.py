"""Adaptive asking: options, report, and a dry run on recorded votes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import format_count, format_list, format_value, is_number
from flyingsquid.exceptions import OptionError
from flyingsquid.judges.planner import OUTCOMES, Planner
from flyingsquid.judges.policy import Array, Mask, pilot_size, within_budget
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import item_ids, join_by_item, read_gold
from flyingsquid.votes.codes import ABSTAIN, NOT_ASKED, Label, dense_codes


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
        Number of calls, including retries and calls of earlier runs whose answers were used or lost.
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
    >>> found.votes.missing_counts()["not_asked"].sum() > 1_000
    np.True_
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
    planner = read_planner(
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


# ---------------------------------------------------------------------- options


def read_planner(
    classes: tuple[Label, ...],
    names: tuple[str, ...],
    available: Mask,
    *,
    stop_at: Any,
    budget: Any,
    costs: Any,
    pilot: Any,
    gold: NDArray[np.int64] | None,
) -> Planner:
    """Check the options of adaptive asking, and return the planner."""
    n_items = len(available)
    if not is_number(stop_at) or not 0.5 < stop_at <= 1:
        raise OptionError(f"`stop_at` must be a float in (0.5, 1]; got {format_value(stop_at)}.")
    if budget is not None and (not is_number(budget) or not budget > 0):
        raise OptionError(f"`budget` must be a positive number; got {format_value(budget)}.")
    if pilot is not None and (type(pilot) is not int or not 1 <= pilot <= n_items):
        raise OptionError(
            f"`pilot` must be an integer from 1 to the number of items, {n_items}; got {format_value(pilot)}."
        )
    size = pilot_size(n_items) if pilot is None else pilot
    planner = Planner(
        classes,
        names,
        available,
        stop_at=float(stop_at),
        # A sum of costs such as 0.1 may be rounded up.
        budget=math.inf if budget is None else float(budget) * (1 + 1e-12),
        costs=np.ones(len(names)) if costs is None else read_costs(costs, names),
        pilot=size,
        gold=gold,
    )
    least = float(sum(planner.costs[j] for j, _ in planner.pilot_cells()))
    if least > planner.budget:
        raise OptionError(
            f"`budget` must be at least {least:,.10g}, the cost of {format_count(size, 'pilot item')}; got "
            f"{format_value(budget)}. Pass a smaller `pilot`."
        )
    return planner


def read_costs(costs: Any, names: tuple[str, ...], *, may_be_free: bool = False) -> Array:
    """Check a mapping with the cost of one call of each judge, and return the costs in order."""
    if not isinstance(costs, Mapping) or set(costs) != set(names):
        got = format_list(sorted(map(str, costs))) if isinstance(costs, Mapping) else format_value(costs)
        raise OptionError(
            f"`costs` must be a mapping with one cost for each of {format_list(names)}; got {got}.",
            parameter="costs",
        )
    for name, cost in costs.items():
        if not is_number(cost) or not 0 <= cost < math.inf or (cost == 0 and not may_be_free):
            least = "a number >= 0" if may_be_free else "a positive number"
            raise OptionError(
                f"`costs[{format_value(name)}]` must be {least}; got {format_value(cost)}.", parameter="costs"
            )
    return np.array([costs[name] for name in names], np.float64)


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
