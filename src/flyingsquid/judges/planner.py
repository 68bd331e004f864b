"""Planner of adaptive asking: fits the label model to the votes so far, stops items, and chooses calls.

The planner is deterministic: the same answers lead to the same decisions. A run that is started again
therefore finds the answers that it needs in its cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value, is_number, option_error
from flyingsquid.estimation.dependence import find_dependence
from flyingsquid.estimation.factors import fit_logistic
from flyingsquid.estimation.mixture import PLAUSIBLE
from flyingsquid.exceptions import OptionError
from flyingsquid.fits.base import Fit
from flyingsquid.fits.weighted import WeightedFit
from flyingsquid.inference.weighted import mixture_posterior
from flyingsquid.judges.policy import (
    Array,
    Mask,
    choose_judges,
    loss_features,
    pilot_size,
    settled_score,
    spread_items,
)
from flyingsquid.moments import Moments
from flyingsquid.solvers import Auto, FitData
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN, NOT_ASKED, Label

Codes = NDArray[np.int16]

# The model is fitted again when the number of votes has grown by this factor since the last fit (1.1 gives
# the same results on crowd_rte and llm_civilcomments).
_GROWTH = 1.2
# Pilot items are left out of the fit in this many folds, so that thresholds are not calibrated on items that
# the model was fitted to. Without folds, five times as many labels as intended change on crowd_rte.
_FOLDS = 5
# Share of the tolerated error by which labels may be worse than those of asking all judges: half a point of
# accuracy for stop_at=0.95.
_LOSS_SHARE = 0.1
# With fewer votes per judge, the pilot cannot test the tables: no item is called certain, and the label model
# tests the tables on all items. In a pilot of 200 items, workers of crowd_adult have 2 votes, and 29% of the
# labels that were called certain were wrong.
_MIN_PILOT_VOTES = 20
# Judges that are asked about every item of a panel that the pilot can test. With 1, simulated panels of four
# judges lose up to 5.5 points on 1,000 items; with 2, up to 2.5 (docs/quality/asking.md).
_FEWEST_ASKED = 2
# In a crowd, more items are started if less than this share of those so far is open (0 to .5: same calls and
# losses on crowd_adult, crowd_trec and crowd_rte, but with 0, three times as many rounds). If all items are
# started at once, crowd_trec loses a point more, and both crowd_adult and crowd_trec need more calls.
_OPEN_SHARE = 0.5
# Judges that share at least this much evidence are near-copies, as in the label model.
_COPIES = 0.9
# Pseudo-calls with and without a vote in the estimated share of calls of a judge that return a vote.
_PRIOR_CALLS = (1.0, 0.1)

OUTCOMES = ("pilot", "certain", "settled", "all asked", "out of budget")
"""Reasons why no more judges are asked about an item."""
_OPEN = -1
_PILOT, _CERTAIN, _SETTLED, _ALL_ASKED, _OUT_OF_BUDGET = range(len(OUTCOMES))


class _Model(NamedTuple):
    """Fitted label model: posteriors of items, and tables of judges."""

    fit: Fit | None
    n_classes: int
    tables: Array  # (m, K, K)

    def posterior(self, codes: Codes) -> Array:
        if self.fit is None:
            return np.full((len(codes), self.n_classes), 1 / self.n_classes)
        return np.asarray(self.fit.posterior(codes)[:, 0])

    def confident_posterior(self, codes: Codes) -> Array:
        """Return the posterior by confusion tables if they are plausible."""
        # Not if gold labels correct the fit: they also correct its confidence.
        if type(self.fit) is not WeightedFit or self.fit.mixture.tables is None:
            return self.posterior(codes)
        mixture = self.fit.mixture
        return mixture_posterior(codes, replace(mixture, trust=min(mixture.trust / PLAUSIBLE, 1.0)))


class Planner:
    """Choose the next calls, given the votes so far.

    Parameters
    ----------
    classes, names
        Classes, and names of the m judges.
    available : mask of shape (n, m)
        Which judges can be asked about which items.
    stop_at, budget, costs, pilot
        As in :func:`~flyingsquid.judges.ask_judges`; they are checked here.
    gold : integer array of shape (n,) or None
        Codes of gold labels for the fit, negative if unknown.

    Attributes
    ----------
    budget : float
        Infinity if not limited.
    costs : array of shape (m,)
    outcomes : integer array of shape (n,)
        Positions in :data:`OUTCOMES`; -1 for items that are still open.
    posterior : array of shape (n, K)
        P(Y = k | votes so far) by the latest fit.
    """

    def __init__(
        self,
        classes: tuple[Label, ...],
        names: tuple[str, ...],
        available: Mask,
        *,
        stop_at: float | None = None,
        budget: float | None = None,
        costs: Mapping[str, float] | None = None,
        pilot: int | None = None,
        gold: NDArray[np.int64] | None = None,
    ) -> None:
        n = len(available)
        if stop_at is not None and (not is_number(stop_at) or not 0.5 < stop_at <= 1):
            raise option_error("stop_at", "a float in (0.5, 1]", stop_at)
        if budget is not None and (not is_number(budget) or not budget > 0):
            raise option_error("budget", "a positive number", budget)
        if pilot is not None and (type(pilot) is not int or not 1 <= pilot <= n):
            raise option_error("pilot", f"an integer from 1 to the number of items, {n}", pilot)
        self.classes, self.available = classes, available
        # A sum of costs such as 0.1 may be rounded up.
        self.budget = math.inf if budget is None else float(budget) * (1 + 1e-12)
        self.costs = np.ones(len(names)) if costs is None else read_costs(costs, names)
        self._names, self._gold, self._stop_at = names, gold, 1.0 if stop_at is None else float(stop_at)
        self.outcomes = np.full(n, _OPEN, np.int8)
        self.posterior = np.full((n, len(classes)), 1 / len(classes))
        self._can_stop = self._stop_at < 1 or budget is not None
        size = pilot_size(n) if pilot is None else pilot
        self._pilot = spread_items(n, size if self._can_stop else n)
        least = float(sum(self.costs[j] for j, _ in self.pilot_cells()))
        if least > self.budget:
            raise OptionError(
                f"`budget` must be at least {least:,.10g}, the cost of {format_count(size, 'pilot item')}; "
                f"got {format_value(budget)}. Pass a smaller `pilot`."
            )
        self._shared: Array | None = None
        self._is_tested = False
        self._losses = np.zeros(4)
        self._settled = -np.inf
        self._n_fitted = -1
        self._n_started = n

    def pilot_cells(self) -> list[tuple[int, int]]:
        """Return the calls of the pilot, pairs (judge, item); all calls if the run cannot end early."""
        items, judges = np.nonzero(self.available[self._pilot])
        return list(zip(judges.tolist(), self._pilot[items].tolist(), strict=True))

    def rounds(
        self, codes: Codes, room: Callable[[], float], is_cached: Mask | None = None
    ) -> Iterator[list[tuple[int, int]]]:
        """Yield the calls of each round: those of the pilot, then at most one for each open item.

        Parameters
        ----------
        codes : integer array of shape (n, m)
            The votes so far; :data:`NOT_ASKED` for judges that were not asked. The caller adds the answers of
            a round before the next one.
        room : callable
            Returns the remaining budget, negative if the cache cost more.
        is_cached : mask of shape (n, m), optional
            Calls whose answers are in the cache, which do not need the budget.
        """
        self._is_cached = np.zeros(codes.shape, np.bool_) if is_cached is None else is_cached
        yield self.pilot_cells()
        self._start(codes)
        n_asked = -1
        while n_asked < (n_asked := int((codes != NOT_ASKED).sum())):
            yield self._next_cells(codes, room())
        self._finish(codes)

    def _start(self, codes: Codes) -> None:
        """Process the answers of the pilot, shape (n, m)."""
        is_complete = ~((codes == NOT_ASKED) & self.available).any(axis=1)
        is_complete &= np.isin(np.arange(len(codes)), self._pilot)
        self.outcomes[is_complete] = _PILOT if self._can_stop else _ALL_ASKED
        self._pilot = np.flatnonzero(is_complete)  # the budget may have been exhausted before
        n_votes = (codes[self._pilot] >= 0).sum(axis=0)
        self._is_tested = bool(n_votes.any()) and np.median(n_votes[n_votes > 0]) >= _MIN_PILOT_VOTES
        if not self._is_tested and self.budget == math.inf:  # a budget is spread over all items
            self._n_started = max(1, len(self._pilot))
        if len(self._pilot):
            shared = find_dependence(Moments.of(self._votes(codes[self._pilot]))).shared
            # Weaker dependence is left to the label model: on llm_civilcomments, with 69 dependent pairs, the
            # order in which judges are asked would become worse.
            self._shared = None if shared is None else np.where(shared >= _COPIES, shared, 0.0)

    def _next_cells(self, codes: Codes, room: float) -> list[tuple[int, int]]:
        """Return one call for each open item, pairs (judge, item), the most valuable per cost first."""
        if not (self.outcomes == _OPEN).any():
            return []
        self._update(codes)
        to_ask = (codes == NOT_ASKED) & self.available
        self._stop_items(to_ask, has_votes=np.asarray((codes >= 0).any(axis=1)))
        is_open = self._open_items()
        can_ask = to_ask[is_open] & (self._is_cached[is_open] | (self.costs <= room))
        judges, values = choose_judges(
            self.posterior[is_open],
            self._model.tables,
            can_ask,
            costs=self._costs_of_votes(codes),
            asked=~to_ask[is_open],
            shared=self._shared,
            items=is_open,
        )
        order = np.argsort(-values, kind="stable")
        order = order[judges[order] >= 0]
        return list(zip(judges[order].tolist(), is_open[order].tolist(), strict=True))

    def label_items(self, codes: Codes) -> NDArray[np.intp]:
        """Return the labels of all items by a label model that is fitted to the votes (n, m)."""
        return np.asarray(self._fit(codes, np.arange(len(codes))).posterior(codes).argmax(axis=1))

    def _finish(self, codes: Codes) -> None:
        """Close the items that are still open, and fit the final model."""
        to_ask = ((codes == NOT_ASKED) & self.available).any(axis=1)
        self.outcomes[(self.outcomes == _OPEN) & ~to_ask] = _ALL_ASKED
        self.outcomes[self.outcomes == _OPEN] = _OUT_OF_BUDGET
        self._model = self._fit(codes, np.arange(len(codes)))
        self.posterior = self._model.posterior(codes)

    # ------------------------------------------------------------------ fits

    def _update(self, codes: Codes) -> None:
        """Fit the model again if there are enough new votes, and label all items."""
        n_votes = int((codes >= 0).sum())
        if n_votes >= _GROWTH * self._n_fitted:
            self._model = self._fit(codes, np.arange(len(codes)))
            self._n_fitted = n_votes
            if self._stop_at < 1:
                self._calibrate(codes)
        self.posterior = self._model.posterior(codes)

    def _fit(self, codes: Codes, items: NDArray[np.intp]) -> _Model:
        """Fit the label model to some items."""
        m, n_classes = codes.shape[1], len(self.classes)
        votes = self._votes(codes[items])
        if not votes.n_votes:
            return _Model(None, n_classes, np.full((m, n_classes, n_classes), 1 / n_classes))
        known = None if self._gold is None else self._gold[items, None]
        data = FitData(
            moments=Moments.of(votes),
            votes=votes,
            rows="all",
            gold=None if known is None or known.max() < 0 else known,
            # Items on which all judges were asked because the votes disagreed are not typical.
            complete=np.isin(items, self._pilot) & self._is_tested,
        )
        fit = Auto().checked_for(data).solve(data)
        tables = np.asarray(fit.confusion, np.float64)[:, :, :n_classes]
        total = tables.sum(axis=2, keepdims=True)
        uniform = np.full_like(tables, 1 / n_classes)
        return _Model(fit, n_classes, np.divide(tables, total, out=uniform, where=total > 0))

    def _votes(self, codes: Codes) -> Votes:
        return Votes(codes, self.classes, self._names)

    def _calibrate(self, codes: Codes) -> None:
        """Calibrate the threshold of settled labels on a replay of the pilot.

        Each part of the pilot is replayed with a model that was fitted without it. The loss of stopping is
        the difference between the probabilities of the label of all judges and of the label so far.
        """
        pilot, self._settled = self._pilot, -np.inf
        if len(pilot) < 2 * _FOLDS:
            return
        n_judges = self.available[pilot].sum(axis=1, keepdims=True)
        n_asked = np.minimum(np.arange(n_judges.max()) + 1, n_judges)
        is_stage = n_asked < n_judges
        if not is_stage.any():
            return
        # A pilot may be too small to show that judges are independent. If they are, weighted votes understate
        # how much the judges that are left would improve a label.
        label = self._model.confident_posterior if self._is_tested else self._model.posterior
        final, (errors, losses) = label(codes[pilot]), np.zeros((2, *is_stage.shape))
        for fold in range(_FOLDS):
            part = np.arange(fold, len(pilot), _FOLDS)
            model = self._fit(codes, np.delete(np.arange(len(codes)), pilot[part]))
            for stage, posterior in enumerate(self._replay(model, codes, pilot[part])):
                errors[part, stage] = 1 - posterior.max(axis=1)
                losses[part, stage] = final[part].max(axis=1) - final[part, posterior.argmax(axis=1)]
        features = loss_features(errors, n_asked, n_judges - n_asked)
        self._losses = fit_logistic(features[is_stage], losses[is_stage], np.zeros(4), np.ones(4))
        # Pilot items lose nothing, so the others may lose more on average.
        tolerance = _LOSS_SHARE * (1 - self._stop_at) * len(codes) / max(1, len(codes) - len(pilot))
        can_stop = is_stage & (n_asked >= self._fewest_asked)
        self._settled = settled_score(features @ self._losses, can_stop, tolerance)

    def _replay(self, model: _Model, codes: Codes, items: NDArray[np.intp]) -> Iterator[Array]:
        """Yield the posterior of complete items after each call."""
        seen = np.where(self.available[items], NOT_ASKED, ABSTAIN).astype(codes.dtype)
        posterior, costs = model.posterior(seen), self._costs_of_votes(codes)
        while (to_ask := seen == NOT_ASKED).any():
            judges, _ = choose_judges(
                posterior,
                model.tables,
                to_ask,
                costs=costs,
                asked=~to_ask,
                shared=self._shared,
                items=items,
            )
            at = np.flatnonzero(judges >= 0)
            seen[at, judges[at]] = codes[items[at], judges[at]]
            posterior = model.posterior(seen)
            yield posterior

    # ------------------------------------------------------------------ decisions

    @property
    def _fewest_asked(self) -> int:
        """Number of judges before an item may be stopped.

        One vote does not show whether its judge is right. If most items have one vote, by the judge that
        looks best in the pilot, the others are estimated from the pilot alone. Workers of a crowd are
        different on every item, and compared with each other by the items that are not stopped.
        """
        return _FEWEST_ASKED if self._is_tested else 1

    def _open_items(self) -> NDArray[np.intp]:
        """Return the open items that were started.

        The pilot hardly shows which workers of a crowd are accurate. So items are started in parts: when half
        of them are closed, as many again are started, with workers who are known better by then.
        """
        n, is_open = len(self.outcomes), self.outcomes == _OPEN
        while True:
            started = spread_items(n, self._n_started)
            at = started[is_open[started]]
            if self._n_started >= n or len(at) >= _OPEN_SHARE * self._n_started:
                return at
            self._n_started *= 2

    def _stop_items(self, to_ask: Mask, has_votes: Mask) -> None:
        """Stop items that are certain or settled, or that have no judge left."""
        errors, n_left = 1 - self.posterior.max(axis=1), to_ask.sum(axis=1)
        features = loss_features(errors, self.available.sum(axis=1) - n_left, n_left)
        stops = (self.outcomes == _OPEN) & has_votes & (features @ self._losses <= self._settled)
        stops &= self.available.sum(axis=1) - n_left >= self._fewest_asked
        is_certain = (errors <= 1 - self._stop_at) & self._is_tested
        self.outcomes[stops] = np.where(is_certain, _CERTAIN, _SETTLED)[stops]
        self.outcomes[(self.outcomes == _OPEN) & (n_left == 0)] = _ALL_ASKED

    def _costs_of_votes(self, codes: Codes) -> Array:
        """Return the cost of a vote of each judge, shape (m,); calls without a vote cost as much."""
        with_vote, without = _PRIOR_CALLS
        n_calls = ((codes != NOT_ASKED) & self.available).sum(axis=0) + with_vote + without
        return np.asarray(self.costs * n_calls / ((codes >= 0).sum(axis=0) + with_vote))


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
