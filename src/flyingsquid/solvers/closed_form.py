"""Closed forms for two classes (Fu et al. 2020): triplets, covariances, and the class balance.

All four solvers estimate P(vote | truth) of each source from counts of pairs, with a dependency graph or
without, and return an :class:`IndependentFit` or a :class:`GraphFit`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from flyingsquid._values import format_value, is_number, is_one_of
from flyingsquid.estimation.binary import (
    BinaryFit,
    BinaryTasks,
    Evidence,
    TaskFit,
    check_unused_options,
    fit_binary,
    is_imbalanced,
)
from flyingsquid.estimation.conditional import CONDITIONAL
from flyingsquid.estimation.graph_fit import fit_graph
from flyingsquid.estimation.independence import (
    CLEARLY_DEPENDENT,
    FitTest,
    independence_of,
    independence_test,
)
from flyingsquid.estimation.intervals import intervals_around
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.estimation.standard_errors import accuracy_errors, strength_errors, with_gold
from flyingsquid.estimation.triplets import SYMMETRIC, Options
from flyingsquid.estimation.units import LARGEST_SYSTEM, draw_around_task, draw_votes, with_units
from flyingsquid.exceptions import GraphError, OptionError
from flyingsquid.fits.base import Array, Assessment, Fit
from flyingsquid.fits.diagnostics import (
    Diagnostics,
    accuracy_gain,
    dependence_doubts,
    format_names,
    names_in,
    persistence_doubts,
    recommend,
)
from flyingsquid.fits.graph import GraphFit, contradiction_note, gain_on_graph, resolve_temper
from flyingsquid.fits.independent import IndependentFit
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import vote_shares
from flyingsquid.moments import Moments
from flyingsquid.solvers.base import FitData, Requires, Solver, position_of

Source: TypeAlias = int | str
Mask = NDArray[np.bool_]
_CLOSED_FORM = Requires(
    classes="binary", rows="unused", graph=True, gold=True, signs=True, estimated_balance=True
)
# Larger values would skip all triplets of any data.
_LARGEST_SCREEN = 1e6
# Without an interval, an accuracy this close to one half counts as indistinguishable from random votes.
_NEAR_CHANCE = 0.02
# Share of votes for one class, beyond the expected share, that makes the class balance doubtful.
_DOUBTFUL_EXCESS = 0.05


@dataclass(frozen=True)
class Triplet(Solver):
    """Closed-form accuracies from triplets of sources (Fu et al. 2020, section 3).

    Assumes that a source errs, and abstains, equally often on both classes.

    Parameters
    ----------
    aggregate : {"mean", "median", "best"}, default="mean"
        How the triplets of a source are combined: their mean, their median, or only the one with the smallest
        predicted error.
    triplets : sequence of (source, source, source), optional
        Triplets to use with ``aggregate="best"``, by name or position. Each is solved for its three sources.
    screen : float, default=1.0
        Triplets whose denominator is below this many standard errors are skipped; 0 uses all.
    cliques : {"instrument", "linear"}, default="instrument"
        How the joint votes of dependent sources are estimated: from the sources that are independent of them,
        or by the paper's linear system, for at most three dependent sources. With ``"linear"``, single votes
        may weigh more than twice the odds of their source.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Triplet(aggregate="median")).fit(votes)
    >>> model.method_
    'triplet'
    """

    name: ClassVar[str] = "triplet"
    requires: ClassVar[Requires] = _CLOSED_FORM

    aggregate: Literal["mean", "median", "best"] = "mean"
    triplets: Sequence[tuple[Source, Source, Source]] | None = None
    screen: float = 1.0
    cliques: Literal["instrument", "linear"] = "instrument"

    def __post_init__(self) -> None:
        if not is_one_of(self.aggregate, ("mean", "median", "best")):
            raise OptionError(
                f'`aggregate` must be "mean", "median" or "best"; got {format_value(self.aggregate)}.'
            )
        if self.triplets is not None:
            if self.aggregate != "best":
                raise OptionError(
                    f'`aggregate` must be "best" with `triplets`; got {format_value(self.aggregate)}.'
                )
            object.__setattr__(self, "triplets", _as_triplets(self.triplets))
        _check_screen(self.screen)
        _check_cliques(self.cliques)

    def check_graph(self, graph: Any) -> None:
        super().check_graph(graph)
        _check_linear(self.cliques, graph)

    def solve(self, data: FitData) -> Fit:
        names = data.moments.source_names
        given = None
        if self.triplets is not None:
            given = [
                tuple(position_of(source, names, "triplets") for source in each) for each in self.triplets
            ]
            for triplet in given:
                if len(set(triplet)) < 3:
                    raise OptionError(f"`triplets` must name three different sources each; got {triplet}.")
        route = self.aggregate
        options = Options(route, data.anchors, float(self.screen), given, self.cliques)  # type: ignore[arg-type]
        return solve_closed_form(data, options, self.name)


@dataclass(frozen=True)
class Marginal(Solver):
    """Accuracies from how often each source votes for each class, given an imbalanced class balance.

    E[λᵢ] = aᵢE[Y] for a source that errs equally often on both classes; needs no triplets.

    Parameters
    ----------
    cliques : {"instrument", "linear"}, default="instrument"
        As in :class:`Triplet`.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Marginal(), class_balance=[0.63, 0.37]).fit(votes)
    >>> model.method_
    'marginal'
    """

    name: ClassVar[str] = "marginal"
    requires: ClassVar[Requires] = Requires(
        classes="binary", rows="unused", graph=True, gold=True, estimated_balance=True
    )

    cliques: Literal["instrument", "linear"] = "instrument"

    def __post_init__(self) -> None:
        _check_cliques(self.cliques)

    def check_graph(self, graph: Any) -> None:
        super().check_graph(graph)
        _check_linear(self.cliques, graph)

    def solve(self, data: FitData) -> Fit:
        return solve_closed_form(data, Options("marginal", cliques=self.cliques), self.name)


@dataclass(frozen=True)
class Covariance(Solver):
    """Accuracies from the covariances of all pairs of sources, which may err differently on each class.

    Exact for any confusion table and for abstentions that depend on the truth, if the sources are independent
    given the truth.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Covariance()).fit(votes)
    >>> model.method_
    'covariance'
    """

    name: ClassVar[str] = "covariance"
    requires: ClassVar[Requires] = Requires(
        classes="binary", rows="optional", graph=True, gold=True, signs=True, estimated_balance=True
    )

    def solve(self, data: FitData) -> Fit:
        return solve_closed_form(data, Options("covariance", data.anchors), self.name)


@dataclass(frozen=True)
class Quadratic(Solver):
    """Triplets of single votes, for sources that err differently on each class (appendix C.2, corrected).

    Parameters
    ----------
    screen : float, default=1.0
        Triplets whose denominator is below this many standard errors are skipped; 0 uses all.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> model = fs.LabelModel(method=fs.solvers.Quadratic()).fit(votes)
    >>> model.method_
    'quadratic'
    """

    name: ClassVar[str] = "quadratic"
    requires: ClassVar[Requires] = Covariance.requires

    screen: float = 1.0

    def __post_init__(self) -> None:
        _check_screen(self.screen)

    def solve(self, data: FitData) -> Fit:
        return solve_closed_form(data, Options("quadratic", data.anchors, float(self.screen)), self.name)


def solve_closed_form(
    data: FitData, options: Options, name: str, *, reason: str = ""
) -> IndependentFit | GraphFit:
    """Fit tasks of two classes and put the parameters into a fit."""
    moments, gold = data.moments, data.gold_by_task
    if moments.graph is None:
        found = _fit_single_task(data, options)
    else:
        found = fit_graph(
            moments, data.balance, options, votes=data.votes, sample_weight=data.weights, gold=gold
        )
    tables = with_units(found.gather([task.fit.tables for task in found.tasks]), found.units)
    common: dict[str, Any] = {
        "classes": moments.classes,
        "source_names": moments.source_names,
        "method": name,
        "reason": _join(reason, _fallback_note(found, options.method), contradiction_note(found.mismatch)),
        "balance_note": _balance_note([task.fit for task in found.tasks]),
        "class_balance": found.balance,
        "accuracies": _accuracies(found, moments),
        "confusion": tables,
        "concerns": _concerns(found, moments.source_names),
        "uses_gold": gold is not None,
        "silence_counts": options.method in CONDITIONAL,
        "assessment": ClosedFormAssessment(moments=moments, tasks=found, options=options),
    }
    if found.graph is None:
        return IndependentFit(**common, findings=found.tasks[0].fit)
    excess = tuple(pair.excess for pair in found.pairs)
    return GraphFit(
        **common,
        graph=found.graph,
        temper=resolve_temper(data.temper, excess, found.graph, moments.coverage),
        units=found.units,
        clique_tables=found.tables,
        edge_excess=excess,
        mismatch=found.mismatch,
    )


def _fit_single_task(data: FitData, options: Options) -> BinaryTasks:
    """Fit one task whose sources are independent given the truth."""
    moments = data.moments
    every, balance = tuple(range(moments.n_sources)), data.balance.tasks[0]
    gold = None if data.gold_by_task is None else data.gold_by_task[0]
    evidence = Evidence(moments, data.votes, data.weights, gold)
    voting = np.count_nonzero(moments.vote_counts.sum(axis=1) > 0)
    if voting < 3 and options.method in SYMMETRIC and options.method != "marginal" and is_imbalanced(balance):
        # An imbalanced class balance takes the place of a third source.
        check_unused_options(moments, every, options)
        options = replace(options, method="marginal", triplets=None)
    fit = fit_binary(evidence, balance, options)
    fit = with_gold(fit, evidence, method=options.method, screen=options.screen)
    return BinaryTasks(None, (TaskFit(every, every, options.method, fit),))


def _accuracies(found: BinaryTasks, moments: Moments) -> Array:
    """Return P(vote is right | source votes), shape (m,)."""
    coverage = np.minimum(moments.coverage, 1.0)
    mean_parameters = found.gather([task.fit.mean_parameters for task in found.tasks])
    share = np.divide(mean_parameters, coverage, out=np.zeros_like(mean_parameters), where=coverage > 0)
    return np.clip((1 + share) / 2, 0.0, 1.0)


def _join(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _balance_note(fits: Sequence[BinaryFit]) -> str:
    notes = [fit.balance_note for fit in fits]
    if len(set(notes)) == 1:
        return notes[0]
    return "; ".join(f"task {task}: {note}" for task, note in enumerate(notes))


def _fallback_note(found: BinaryTasks, method: str) -> str:
    """Return a remark on tasks that were estimated by the class balance."""
    alone = [str(number) for number, task in enumerate(found.tasks) if task.method != method]
    if not alone:
        return ""
    return f"by the class balance because three groups are not separated: task {', '.join(alone)}"


# ---------------------------------------------------------------------- options


def _check_screen(screen: Any) -> None:
    if not is_number(screen) or not 0 <= screen <= _LARGEST_SCREEN:
        raise OptionError(f"`screen` must be a float >= 0; got {format_value(screen)}.")


def _check_cliques(cliques: Any) -> None:
    if not is_one_of(cliques, ("instrument", "linear")):
        raise OptionError(f'`cliques` must be "instrument" or "linear"; got {format_value(cliques)}.')


def _check_linear(cliques: str, graph: Any) -> None:
    """Raise an error if the paper's linear system does not hold for the graph."""
    if cliques != "linear":
        return
    if not isinstance(graph, DependencyGraph) or not graph.source_edges:
        raise OptionError('`graph` must have source edges with cliques="linear".')
    largest = max((clique for unit in graph._units for clique in unit.cliques), key=len)
    if len(largest) > LARGEST_SYSTEM:
        raise GraphError(
            f"`graph` must have at most {LARGEST_SYSTEM} sources that all depend on each other with "
            f'cliques="linear"; got {largest}. Use cliques="instrument", which supports four.'
        )


def _as_triplets(triplets: Any) -> tuple[tuple[Source, Source, Source], ...]:
    """Return given triplets as tuples of names and positions."""
    try:
        if iter(triplets) is triplets:
            raise OptionError("`triplets` must be a list; got an iterator, which can be read only once.")
        read = tuple(tuple(triplet) for triplet in triplets)
    except TypeError as error:
        raise OptionError(
            f"`triplets` must be a sequence of three sources each; got {format_value(triplets)}."
        ) from error
    if not read:
        raise OptionError("`triplets` must not be empty; pass None to let the method choose.")
    for triplet in read:
        if len(triplet) != 3 or isinstance(triplet, str):
            raise OptionError(
                f"`triplets` must be a sequence of three sources each; got {format_value(triplet)}."
            )
    return read


# ---------------------------------------------------------------------- standard errors and diagnostics


@dataclass(frozen=True, eq=False, kw_only=True)
class ClosedFormAssessment(Assessment):
    """Standard errors and diagnostics of a closed form, computed on demand.

    Attributes
    ----------
    moments : Moments
    tasks : BinaryTasks
    options : Options
    """

    is_recorded: ClassVar[bool] = True

    moments: Moments
    tasks: BinaryTasks
    options: Options

    @cached_property
    def computed(self) -> Assessment:
        """The standard errors."""
        moments = self.moments
        errors = [
            accuracy_errors(
                moments if moments.graph is None else moments.select(task.columns),
                task.fit,
                method=task.method,
                screen=self.options.screen,
                by_hand=self.options.triplets is not None,
                rows=draw_around_task(self.tasks, number) if task.fit.conditional is not None else None,
            )
            for number, task in enumerate(self.tasks.tasks)
        ]
        return Assessment(np.asarray(self.tasks.gather(errors)))

    @cached_property
    def _test(self) -> FitTest | None:
        tasks = range(len(self.tasks.tasks))
        return _combine([_test_independence(self.moments, self.tasks, task) for task in tasks])

    def balance_intervals(self, balance: Array) -> Array:
        """Return intervals from sampling; NaN if it was not estimated, or sources are clearly dependent."""
        errors = np.full_like(balance, np.nan)
        for number, task in enumerate(self.tasks.tasks):
            estimate = task.fit.balance_estimate
            if estimate is not None and np.array_equal(estimate.balance, balance[number]):
                errors[number] = self.widening * estimate.error / 2  # of E[Y], twice that of P(Y)
        if np.isfinite(errors).any() and self._test is not None and self._test.p_value < CLEARLY_DEPENDENT:
            errors[:] = np.nan
        return intervals_around(balance, errors)

    def diagnose(self, fit: Fit, moments: Moments) -> Diagnostics:
        names, found = moments.source_names, self.tasks
        fits = [task.fit for task in found.tasks]
        interval = self.accuracy_intervals(fit.accuracies)
        compared = [
            _compare_with_chance(
                task.fit,
                fit.accuracies[list(task.columns)],
                interval[list(task.columns)],
                draw_around_task(found, number),
            )
            for number, task in enumerate(found.tasks)
        ]
        one_sided = found.gather([task.flags.one_sided for task in fits])
        clipped = found.gather([task.clipped for task in fits])
        test = self._test
        return Diagnostics(
            method=fit.method,
            reason=fit.reason,
            class_balance=fit.balance_note,
            silent=names_in(names, found.gather([task.flags.silent for task in fits])),
            one_sided=names_in(names, one_sided),
            identical=tuple(tuple(names[i] for i in group) for group in _identical_sources(found)),
            unidentified=names_in(names, found.gather([task.unidentified for task in fits])),
            useless=names_in(names, found.gather([useless for useless, _ in compared])),
            adversarial=names_in(names, found.gather([adversarial for _, adversarial in compared])),
            clipped=names_in(names, clipped & ~one_sided),
            triplets_used=found.gather([task.triplets_used for task in fits]),
            triplets_skipped=found.gather([task.triplets_skipped for task in fits]),
            fit_test=test,
            verdict=recommend(
                _gain(fit, found),
                fit.accuracies,
                moments.coverage,
                [
                    *dependence_doubts(test),
                    *persistence_doubts([pair.excess for pair in found.pairs]),
                    *_balance_doubts(fit, moments, found),
                ],
            ),
        )


def _gain(fit: Fit, found: BinaryTasks) -> float:
    """Return the accuracy minus that of majority vote, on items drawn from the fit, over all tasks."""
    if isinstance(fit, GraphFit):
        return gain_on_graph(fit)
    only = found.tasks[0].fit
    signed, y = draw_votes(only.tables, only.balance)
    codes = np.where(signed == 0, -1, signed > 0).astype(np.int8)
    return accuracy_gain(fit.posterior(codes)[:, 0], vote_shares(codes, 2)[:, 0], y)


def _balance_doubts(fit: Fit, moments: Moments, found: BinaryTasks) -> list[str]:
    """Return a doubt if most votes lean to one class, as if the class balance were wrong.

    A table of votes may explain any lean of a single source. If classes are simulated with a share of 0.3
    or less but assumed to be equally frequent, all sources lean by 0.1 or more, and labels are worse than
    majority vote.
    """
    counts, lean = np.asarray(moments.vote_counts, np.float64), 0.0
    for number, task in enumerate(found.tasks):
        own = [i for i in task.own if counts[i].all()]
        accuracy, share = fit.accuracies[own], fit.class_balance[number][1]
        expected = share * accuracy + (1 - share) * (1 - accuracy)
        lean += float((counts[own, 1] - expected * counts[own].sum(axis=1)).sum())
    return ["the class balance does not fit the votes"] if abs(lean) > _DOUBTFUL_EXCESS * counts.sum() else []


def _identical_sources(found: BinaryTasks) -> list[tuple[int, ...]]:
    """Return groups of sources of one task that vote alike, or opposite, on every item."""
    groups = []
    for task in found.tasks:
        inside = ([task.columns[i] for i in group] for group in task.fit.flags.identical)
        groups += [tuple(i for i in group if i in task.own) for group in inside]
    return [group for group in groups if len(group) > 1]


def _compare_with_chance(
    fit: BinaryFit, accuracies: Array, interval: Array, drawn: Array | None
) -> tuple[Mask, Mask]:
    """Return sources that are indistinguishable from random votes, and sources that are worse.

    Class-conditional sources are compared by their covariance with the truth, because how often a vote is
    right also depends on the class balance. Symmetric ones are compared by their accuracy; one-sided ones are
    not symmetric.
    """
    if fit.conditional is not None:
        estimated = ~(fit.flags.silent | fit.unidentified)
        strength = fit.conditional.strength
        drawn = draw_votes(fit.tables, fit.balance)[0] if drawn is None else drawn
        reach = NORMAL_95 * strength_errors(fit.conditional, drawn)
        return estimated & (np.abs(strength) <= reach), estimated & (strength < -reach)
    estimated = ~(fit.flags.silent | fit.flags.one_sided | fit.unidentified)
    known = np.isfinite(interval).all(axis=1)
    low = np.where(known, interval[:, 0], accuracies - _NEAR_CHANCE)
    high = np.where(known, interval[:, 1], accuracies + _NEAR_CHANCE)
    return estimated & (low <= 0.5) & (high >= 0.5), estimated & (high < 0.5)


def _test_independence(moments: Moments, found: BinaryTasks, task: int) -> FitTest | None:
    place = found.tasks[task]
    fit, conditional = place.fit, place.fit.conditional
    if found.graph is not None:
        if place.columns != place.own:  # sources of other tasks are tested there
            return None
        moments = moments.select(place.columns)
    if conditional is None:
        return independence_of(moments, fit.flags, fit.separation)
    return independence_test(conditional)


def _combine(tests: Sequence[FitTest | None]) -> FitTest | None:
    """Return one test for all tasks: under independence their statistics add up."""
    known = [test for test in tests if test is not None]
    if len(known) < 2:
        return known[0] if known else None
    statistic, degrees = sum(test.statistic for test in known), sum(test.degrees for test in known)
    return FitTest(statistic, degrees, float(chdtrc(degrees, statistic)))


def _concerns(found: BinaryTasks, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return one sentence for each kind of suspicious source."""

    def format_list(mask: Mask) -> str:
        return format_names(names_in(names, mask))

    fits = [task.fit for task in found.tasks]
    silent = found.gather([task.flags.silent for task in fits])
    one_sided = found.gather([task.flags.one_sided for task in fits])
    unidentified = found.gather([task.unidentified for task in fits])
    clipped = found.gather([task.clipped for task in fits]) & ~one_sided
    identical = _identical_sources(found)
    if found.graph is not None:  # sources declared to depend on each other are not counted twice
        of = found.graph._groups
        identical = [group for group in identical if len(set(of[list(group)].tolist())) > 1]
    sentences = []
    if silent.any():
        sentences.append(f"These sources always abstain and are ignored: {format_list(silent)}.")
    if identical:
        groups = "; ".join(format_names([names[i] for i in group]) for group in identical)
        sentences.append(f"These sources vote alike on every item but count separately: {groups}.")
    if one_sided.any():
        sentences.append(f"These sources vote for one class only: {format_list(one_sided)}.")
    if unidentified.any():
        sentences.append(
            "These sources agree with too few others to be estimated and got the average accuracy: "
            f"{format_list(unidentified)}."
        )
    if 2 * clipped.sum() > len(names):
        sentences.append(
            f"The vote rates of these sources do not fit the class balance: {format_list(clipped)}. Pass "
            "`class_balance` if it is known."
        )
    return tuple(sentences)
