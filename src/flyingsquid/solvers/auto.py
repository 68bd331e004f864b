"""What ``method="auto"`` means: the only module that knows.

If nothing is asked for that only one family of solvers supports, two questions decide. Do the votes look
independent given the truth, and are there enough of them to tell? Then a closed form is right. Otherwise
votes are weighted, and nothing more is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from flyingsquid.estimation.binary import Options
from flyingsquid.estimation.conditional import ConditionalFit
from flyingsquid.estimation.confusion import fit_many, is_huge
from flyingsquid.estimation.em import Passes, refine
from flyingsquid.estimation.independence import agreement_misfit, independence_p_value, rank_one_fit
from flyingsquid.estimation.sources import Separation, SignedMoments, flag_sources, near_copies
from flyingsquid.estimation.weighted import MOST_DENSE, VoteWeights, vote_weights, votes_of_several_classes
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.fits.base import Fit
from flyingsquid.fits.graph import GraphFit
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver, check_capabilities
from flyingsquid.solvers.closed_form import ClosedFormAssessment, Covariance, Triplet, solve_closed_form
from flyingsquid.solvers.graph_tables import solve_tables_on_graph
from flyingsquid.solvers.tables import EM, Agreement, solve_tables
from flyingsquid.solvers.weighted import AnchoredEM, Weighted, solve_weighted
from flyingsquid.votes import Votes
from flyingsquid.votes.patterns import compressed

# Independence is believed only of votes that could have shown the contrary: items, sources, share of votes.
_ITEMS, _LEAST_SOURCES, _MOST_SOURCES, _DENSE = 1_000, 4, 100, 0.4
_P_VALUE = 0.01
# A closed form needs the class balance: given, or estimated with a standard error of P below this.
_BALANCE_ERROR = 0.03
# Mean squared standardized residual of the agreement of pairs; 1 for independent sources.
_MISFIT = 2.0
# Beyond this many pairs of votes of two sources, independence is not checked.
_MOST_PAIRS = 1 << 25
# How far ten more passes may move the balance, and how much better than chance sources must be.
_AT_REST, _BEYOND_CHANCE = 0.01, 0.15
# EM passes over weighted votes pay if an item has this many votes of sources that use several classes
# (docs/design/0009-default.md).
_VOTES_PER_ITEM = 2.5
# EM passes over tables pay if also a cell of a source's table has this many votes on average.
_VOTES_PER_CELL = 30.0
# Gold labels replace the weighted votes by a closed form only if that gets this many standard errors more of
# them right: a correction by few labels costs more than it gives.
_CLEARLY_BETTER = 2.0


@dataclass(frozen=True)
class Auto(Solver):
    """Choose the method by the votes; ``method_`` and ``reason_`` of the model report it."""

    name: ClassVar[str] = "auto"
    requires: ClassVar[Requires] = Requires(
        rows="optional", graph=True, gold=True, signs=True, estimated_balance=True
    )

    def solve(self, data: FitData) -> Fit:
        if data.use == "tables" or not _is_open(data):
            return _tables_or_triplets(data)
        if data.use == "stream":
            # Whether votes look independent is not asked at every refresh: it costs, and labels would jump.
            return Weighted().solve(data)
        if data.gold is None and data.earlier_gold is not None:
            return _tables_or_triplets(data)
        # Counts of pairs say nothing about the balance, and an even one would be a guess.
        knows_balance = data.votes is not None or data.class_balance is not None
        evidence = _independence(data) if knows_balance else _NOT_INDEPENDENT
        if not evidence.is_independent:
            return _weigh(data) if data.gold is None else _weigh_or_correct(data)
        if data.n_classes > 2:
            return _tables(data)
        return _closed_form(data, evidence.rank_one)


def _is_open(data: FitData) -> bool:
    """Return whether nothing is asked for that only one family of solvers supports."""
    has_graph = data.moments.graph is not None or data.learned_graph is not None
    return not (has_graph or data.has_signs or data.estimates_balance)


# ---------------------------------------------------------------------- are the sources independent?


@dataclass(frozen=True, slots=True)
class _Independence:
    """Whether the sources look independent, and for two classes the fit that was tested."""

    is_independent: bool
    rank_one: ConditionalFit | None = None


_NOT_INDEPENDENT = _Independence(False)


def _independence(data: FitData) -> _Independence:
    """Test whether the sources look independent given the truth, with votes enough to tell."""
    moments = data.moments
    cast = np.asarray(moments.vote_counts, np.float64).sum(axis=1)
    voting = int((cast > 0).sum())
    dense = cast.sum() >= _DENSE * moments.n_items * moments.n_sources
    if moments.n_items < _ITEMS or not _LEAST_SOURCES <= voting <= _MOST_SOURCES or not dense:
        return _NOT_INDEPENDENT
    if moments.n_classes > 2 and (data.votes is None or not _is_small(moments)):
        return _NOT_INDEPENDENT
    if len(np.unique(near_copies(moments))) < moments.n_sources:
        return _NOT_INDEPENDENT
    if moments.n_classes > 2 and data.votes is not None:
        return _Independence(_tables_fit(data, data.votes))
    flags = flag_sources(SignedMoments.of(moments))
    rank_one = rank_one_fit(moments, flags, Separation.independent(moments.n_sources))
    p_value = None if rank_one is None else independence_p_value(rank_one)
    return _Independence(p_value is not None and p_value >= _P_VALUE, rank_one)


def _is_small(moments: Moments) -> bool:
    m, n_classes = moments.n_sources, moments.n_classes
    return m * n_classes**2 <= MOST_DENSE and (m * n_classes) ** 2 <= _MOST_PAIRS


def _tables_fit(data: FitData, votes: Votes) -> bool:
    """Return whether tables predict the agreement of pairs, and more passes do not move them."""
    moments = data.moments
    few = compressed(votes.codes, votes.n_classes, data.weights)
    over = Passes(votes, data.weights) if few is None else Passes(Votes(few[0], votes.classes), few[1])
    first = fit_many(
        moments,
        None,
        method="em",
        multiclass="native",
        screen=1.0,
        votes=over.votes,
        sample_weight=over.weights,
    )
    tables = np.asarray(first.tables)[:, :, :-1]
    # A source that always abstains has a table of zeros, which have no logarithm.
    given_vote = np.maximum(tables / np.maximum(tables.sum(axis=2, keepdims=True), 1e-12), 1e-12)
    if float(np.mean(first.accuracies)) < 1 / moments.n_classes + _BEYOND_CHANCE:
        return False
    if agreement_misfit(moments, tables, first.balance) > _MISFIT:
        return False
    # The agreement of pairs does not show a wrong balance; passes that have not come to rest do.
    later = refine(over, given_vote, first.balance, learn_balance=True)
    return bool(np.abs(later.balance - first.balance).sum() / 2 <= _AT_REST)


# ---------------------------------------------------------------------- weighted votes


def _weigh(data: FitData) -> Fit:
    """Weight the votes; with passes over them if these pay."""
    weights = vote_weights(data.moments)
    name, reason = _choose_weighting(data, weights)
    return solve_weighted(data, name, reason=reason, weights=weights)


def _choose_weighting(data: FitData, weights: VoteWeights) -> tuple[str, str]:
    moments = data.moments
    several = votes_of_several_classes(moments, weights)
    cells = moments.n_sources * moments.n_classes**2
    found = f"an item has {several:.1f} votes of sources that use several classes"
    if several < _VOTES_PER_ITEM:
        return Weighted.name, f"{found}, too few to learn more than weights"
    if cells > MOST_DENSE:
        return Weighted.name, f"tables of {cells:,} cells are too many to learn more than weights"
    if data.votes is None:
        return Weighted.name, f"{found}, enough to pass over, but only counts are at hand"
    return AnchoredEM.name, found


def _weigh_or_correct(data: FitData) -> Fit:
    """Weight the votes, or let gold labels correct a closed form if that is clearly better on them.

    It is when most sources err more often than not, which only gold labels can show.
    """
    weighted = _weigh(data)
    try:
        corrected = _tables_or_triplets(data)
    except NotIdentifiableError:
        return weighted
    gold, votes = data.gold, data.votes
    if gold is None or votes is None:
        return weighted
    known = np.flatnonzero(gold[:, 0] >= 0)
    codes, truth = votes.codes[known], gold[known, 0]
    right = [fit.posterior(codes)[:, 0].argmax(axis=1) == truth for fit in (weighted, corrected)]
    won, lost = np.count_nonzero(right[1] & ~right[0]), np.count_nonzero(right[0] & ~right[1])
    return corrected if won - lost > _CLEARLY_BETTER * np.sqrt(won + lost) else weighted


# ---------------------------------------------------------------------- closed forms and tables


def _closed_form(data: FitData, rank_one: ConditionalFit | None) -> Fit:
    """Fit two classes by covariances if they determine the class balance; otherwise weight the votes."""
    options = Options("covariance", data.anchors, 1.0)
    reason = "the votes look independent given the truth"
    try:
        fit = solve_closed_form(data, options, Covariance.name, reason=reason, rank_one=rank_one)
    except NotIdentifiableError:
        return _weigh(data)
    return fit if data.class_balance is not None or _estimates_balance_well(fit) else _weigh(data)


def _estimates_balance_well(fit: Fit) -> bool:
    assessment = fit.assessment
    if not isinstance(assessment, ClosedFormAssessment):
        return False
    estimate = assessment.tasks.tasks[0].fit.balance_estimate
    return estimate is not None and estimate.error / 2 <= _BALANCE_ERROR


def _tables_or_triplets(data: FitData) -> Fit:
    """Fit confusion tables: two classes by triplets, more by agreement or EM."""
    if data.moments.graph is not None and data.n_classes > 2:
        return _tables_on_graph(data)
    if data.n_classes > 2:
        return _tables(data)
    options = Options("mean", data.anchors, 1.0)
    return solve_closed_form(data, options, Triplet.name, reason="the mean over all triplets")


def _tables(data: FitData) -> IndependentFit:
    """Fit tables of more than two classes, with EM passes if there are votes enough."""
    moments = data.moments
    cast = np.asarray(moments.vote_counts, np.float64)
    per_item = float(cast.sum() / moments.n_items)
    voting = cast.sum(axis=1)
    typical = float(np.median(voting[voting > 0])) if voting.any() else 0.0
    per_cell = typical / (moments.n_classes * (moments.n_classes - 1))
    solver: Solver = Agreement()
    if is_huge(moments):
        reason = "all cells of all tables would not fit into memory, and it needs few"
    elif data.votes is None:
        reason = "counts of pairs determine no more"
    elif per_item >= _VOTES_PER_ITEM and per_cell >= _VOTES_PER_CELL:
        solver = EM()
        reason = f"{per_item:.1f} votes an item and {per_cell:,.0f} for each cell of a table"
    else:
        reason = (
            f"{per_item:.1f} votes an item and {per_cell:,.1f} for each cell of a table are too few to refine"
        )
    check_capabilities(solver, data)
    return solve_tables(data, solver.name, reason=reason)


def _tables_on_graph(data: FitData) -> Fit:
    """Fit more than two classes on a graph.

    A learned graph on which three views fail is left out with a warning: nobody asked for its edges, and on
    real rules such graphs lost accuracy.
    """
    check_capabilities(EM(), data)
    if data.learned_graph is None:
        return _with_passes_noted(solve_tables_on_graph(data, "em_if_dense"))
    try:
        return _with_passes_noted(solve_tables_on_graph(data, "decomposition", passes=True))
    except NotIdentifiableError as error:
        dropped = f"The learned dependencies are left out, because they leave too little to estimate: {error}"
        plain = replace(
            data,
            moments=Moments.of(data.votes, sample_weight=data.weights),
            learned_graph=None,
        )
        weighted = _weigh(plain)
        return replace(weighted, concerns=(dropped, *weighted.concerns))


def _with_passes_noted(fit: GraphFit) -> GraphFit:
    if fit.method != EM.name:
        return fit
    notes = ("three views and ten passes over the votes", fit.reason)
    return replace(fit, reason="; ".join(note for note in notes if note))
