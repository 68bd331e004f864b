"""Fit of one binary task with independent sources (Fu et al. 2020, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.estimation.balance import UNIFORM_NOTE, BalanceEstimate, estimate_balance
from flyingsquid.estimation.conditional import (
    CONDITIONAL,
    ConditionalFit,
    fit_conditional,
    orient_conditional,
)
from flyingsquid.estimation.gold import UNIFORM_LABELS, GoldCounts
from flyingsquid.estimation.signs import SignKnowledge
from flyingsquid.estimation.sources import (
    Separation,
    SignedMoments,
    SourceFlags,
    conditional_tables,
    flag_sources,
    vote_tables,
)
from flyingsquid.estimation.triplets import SYMMETRIC, Options, fit_symmetric
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

if TYPE_CHECKING:
    from flyingsquid.estimation.transition import TaskPair
    from flyingsquid.estimation.units import UnitTable

Array = NDArray[np.float64]
METHODS: tuple[str, ...] = (*SYMMETRIC, *CONDITIONAL)
Balance: TypeAlias = Array | Literal["estimate", "uniform"] | None
"""P(Y = k) as given, "estimate" for a pass over the votes, or None for the default of the method."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Input of a fit: counts, and the votes if they are available.

    Attributes
    ----------
    moments : Moments of two classes
    votes : Votes of shape (n, m), or None if only counts are available
    sample_weight : array of shape (n,), or None
    gold : GoldCounts, or None without gold labels
    separation : Separation, or None if all sources are on the task and independent given its truth
    """

    moments: Moments
    votes: Votes | None = None
    sample_weight: NDArray[Any] | None = None
    gold: GoldCounts | None = None
    separation: Separation | None = None

    @property
    def related(self) -> Separation:
        """The separation of the sources; by default all are independent."""
        return self.separation or Separation.independent(self.moments.n_sources)

    def sign_knowledge(self, anchors: Mapping[int, int]) -> SignKnowledge:
        """Return what anchors and gold labels show about signs."""
        moments, preference = self.moments, None
        if self.gold is not None:
            rates = np.asarray(moments.vote_counts / moments.n_items, np.float64)
            preference = partial(self.gold.preference, rates=rates)
        return SignKnowledge(moments.source_names, self.related.own, anchors, preference)


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """Parameters of one binary task.

    Attributes
    ----------
    balance : array of shape (2,)
        P(Y = class 0), P(Y = class 1).
    balance_estimate : BalanceEstimate, or None if nothing was estimated
    balance_note : origin of the balance, for messages
    mean_parameters : array of shape (m,)
        aᵢ = E[λᵢY], with sign.
    tables : array of shape (m, 2, 3)
        P(vote | truth); columns class 0, class 1, no vote.
    flags : SourceFlags
    unidentified : mask of shape (m,)
        Voting sources that could not be estimated; they have the average accuracy of the others.
    clipped : mask of shape (m,)
        Sources whose vote rates and accuracy do not fit the class balance.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
    conditional : ConditionalFit, or None for a symmetric method
    separation : Separation
    errors : array of shape (m,) or None
        Standard errors of accuracies that gold labels changed.
    worth : array of shape (m, 2), or None without gold labels
        Effective number of items of each class that each table is based on, relative to gold labels.
    """

    balance: Array
    balance_estimate: BalanceEstimate | None
    balance_note: str
    mean_parameters: Array
    tables: Array
    flags: SourceFlags
    unidentified: NDArray[np.bool_]
    clipped: NDArray[np.bool_]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]
    conditional: ConditionalFit | None
    separation: Separation
    errors: Array | None = None
    worth: Array | None = None

    @property
    def slopes(self) -> Array:
        """βᵢ of E[λᵢ | Y] = αᵢ + βᵢY, shape (m,)."""
        if self.conditional is not None:
            expected = float(self.balance[1] - self.balance[0])
            return np.asarray(self.conditional.strength / np.sqrt(1 - expected**2))
        # Symmetric errors have α = 0. The slope of one-sided sources, whose errors are not symmetric, follows
        # from their tables.
        mean = self.tables[:, :, 1] - self.tables[:, :, 0]
        return np.where(self.flags.one_sided, (mean[:, 1] - mean[:, 0]) / 2, self.mean_parameters)


@dataclass(frozen=True, slots=True)
class TaskFit:
    """Parameters of one task, estimated from its sources and those of its neighbors.

    Attributes
    ----------
    columns : tuple of int
        The sources in ``fit``: those of the task, and helpers on its neighbors.
    own : tuple of int
        The sources of the task.
    method : the method that was used
    fit : BinaryFit
    """

    columns: tuple[int, ...]
    own: tuple[int, ...]
    method: str
    fit: BinaryFit

    @property
    def at(self) -> NDArray[np.intp]:
        """Positions of the task's sources in ``fit``."""
        return np.flatnonzero(self.fit.separation.own)

    @property
    def estimated_slopes(self) -> Array:
        """β = Cov(λ, Y)/Var(Y) of the task's sources; 0 for those that could not be estimated."""
        return np.asarray(np.where(self.fit.unidentified, 0.0, self.fit.slopes)[self.at])


@dataclass(frozen=True, slots=True)
class BinaryTasks:
    """Parameters of D tasks of two classes.

    Attributes
    ----------
    graph : DependencyGraph, or None for one task of independent sources
    tasks : tuple of D TaskFit
    units : tuple of UnitTable
        Every clique of dependent sources, after the one it shares sources with.
    pairs : tuple of TaskPair, one per task edge
        Their estimates; not used if the joint table of tasks was given.
    tables : tuple of arrays of shape (2,) * c, one for each clique of ``graph._task_tree``
        P(Y_C).
    mismatch : float
        The largest difference between ``tables`` and the pairs, which may contradict each other.
    """

    graph: DependencyGraph | None
    tasks: tuple[TaskFit, ...]
    units: tuple[UnitTable, ...] = ()
    pairs: tuple[TaskPair, ...] = ()
    tables: tuple[Array, ...] = ()
    mismatch: float = 0.0

    @property
    def balance(self) -> Array:
        """P(Y_d = k), shape (D, 2)."""
        return np.stack([task.fit.balance for task in self.tasks])

    def gather(self, values: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Return one array for all sources, shape (m, ...), from arrays for the columns of each task."""
        if len(self.tasks) == 1:
            return np.array(values[0])
        n_sources = sum(len(task.own) for task in self.tasks)
        result = np.empty((n_sources, *values[0].shape[1:]), values[0].dtype)
        for task, part in zip(self.tasks, values, strict=True):
            result[list(task.own)] = part[task.at]
        return result


def fit_binary(evidence: Evidence, balance: Balance, options: Options) -> BinaryFit:
    """Estimate every source from counts of two classes."""
    method = options.method
    signed = SignedMoments.of(evidence.moments)
    flags = flag_sources(signed)
    _require_votes(signed, flags)
    if balance is None and method in SYMMETRIC and evidence.gold is None:
        balance = "uniform"
    conditional = None
    if method in CONDITIONAL or balance is None or (isinstance(balance, str) and balance == "estimate"):
        needed = method in CONDITIONAL
        route = method if needed else "covariance"
        conditional = _try_conditional(evidence, flags, route, options, needed=needed)
    settled, estimate, note = _choose_balance(balance, evidence, conditional)
    is_conditional = method in CONDITIONAL
    if conditional is not None and is_conditional:
        used, skipped = conditional.triplets_used, conditional.triplets_skipped
        unidentified = (conditional.strength == 0) & (conditional.centered.variance > 0)
        latent = conditional.latent(float(settled[1] - settled[0]))
        tables, clipped = conditional_tables(latent, signed.rates, settled, signed.n_items)
        accuracies = _implied(tables, settled)
    else:
        known = evidence.sign_knowledge(options.anchors)
        fit = fit_symmetric(evidence.moments, signed, flags, settled, options, evidence.related, known)
        used, skipped, unidentified = fit.triplets_used, fit.triplets_skipped, fit.unidentified
        capped = options.cliques != "linear"
        tables, clipped = vote_tables(fit.accuracies, signed.rates, settled, signed.n_items, capped=capped)
        # A one-sided source does not have symmetric errors: its accuracy is the one that its table implies.
        accuracies = np.where(flags.one_sided, _implied(tables, settled), fit.accuracies)
    return BinaryFit(
        balance=settled,
        balance_estimate=estimate,
        balance_note=note,
        mean_parameters=accuracies,
        tables=tables,
        flags=flags,
        unidentified=unidentified,
        clipped=clipped,
        triplets_used=used,
        triplets_skipped=skipped,
        conditional=conditional if is_conditional else None,
        separation=evidence.related,
    )


def _try_conditional(
    evidence: Evidence, flags: SourceFlags, method: str, options: Options, *, needed: bool
) -> ConditionalFit | None:
    """Return the class-conditional fit; None if only the balance needs it and it is not identifiable."""
    try:
        fit = fit_conditional(
            evidence.moments, flags, method=method, screen=options.screen, separation=evidence.related
        )
        return orient_conditional(fit, evidence.sign_knowledge(options.anchors))
    except NotIdentifiableError:
        if needed:
            raise
        return None


def _choose_balance(
    balance: Balance, evidence: Evidence, fit: ConditionalFit | None
) -> tuple[Array, BalanceEstimate | None, str]:
    """Return the balance to use, the estimate behind it, and its origin, for messages."""
    if isinstance(balance, np.ndarray):
        return balance, None, "as given"
    uniform = np.array([0.5, 0.5])
    if balance == "uniform":
        return uniform, None, UNIFORM_NOTE
    if evidence.votes is None and evidence.gold is None:
        if balance is None:
            return uniform, None, "uniform, because counts of pairs do not determine it"
        raise OptionError(
            "`class_balance` must be numbers or 'uniform' if only counts of pairs are available; got "
            "'estimate'. Call fit(votes) to estimate it."
        )
    estimate = BalanceEstimate(0.0, np.inf)
    if fit is not None and evidence.votes is not None:
        estimate = estimate_balance(evidence.votes, evidence.sample_weight, fit)
    origin = "estimated from votes"
    if evidence.gold is not None:
        own = estimate if estimate.is_usable else BalanceEstimate(0.0, np.inf)
        prior_items = UNIFORM_LABELS if balance is None else 2.0
        estimate = BalanceEstimate(*evidence.gold.expected_truth(own.expected, own.error, prior_items))
        origin = "estimated from votes and gold labels" if own.is_usable else "estimated from gold labels"
    elif not estimate.is_usable:
        return (
            uniform,
            estimate,
            f"uniform, because the votes do not determine it (P ± {estimate.error / 2:.2g})",
        )
    p, error = float(estimate.balance[1]), estimate.error / 2
    note = f"{origin}: {p:.3f} for the second class, ± {error:.2g} if sources are independent"
    return estimate.balance, estimate, note


def _implied(tables: Array, balance: Array) -> Array:
    """Return E[λY] as implied by tables and balance, shape (m,)."""
    return np.einsum("k,mk->m", balance * [-1, 1], tables[:, :, 1] - tables[:, :, 0])


def _require_votes(signed: SignedMoments, flags: SourceFlags) -> None:
    if flags.silent.all():
        raise NotIdentifiableError(
            "At least one source must vote; all sources abstain on all "
            f"{format_count(signed.n_items, 'item')}."
        )
    if (signed.rates.sum(axis=0) == 0).any():
        raise NotIdentifiableError(
            "Votes must be for both classes; all are for the same class, so their agreement carries no "
            "information. Use Votes.from_signed if -1 is a class and 0 means no vote."
        )


def is_imbalanced(balance: object) -> bool:
    """Return whether a class balance was given whose two classes differ."""
    return isinstance(balance, np.ndarray) and bool(balance[0] != balance[1])


def check_unused_options(moments: Moments, own: tuple[int, ...], options: Options) -> None:
    """Raise OptionError for signs and triplets of sources that are estimated from the class balance."""
    named = [i for i in options.anchors if i in own]
    idle = "signs" if named else "triplets" if options.triplets is not None else ""
    if idle:
        name = moments.source_names[named[0] if named else own[0]]
        raise OptionError(
            f"`{idle}` must not name {format_value(name)}: fewer than three separated groups vote on its "
            "task, so it is estimated from the class balance, which determines the sign and uses no "
            "triplets."
        )
