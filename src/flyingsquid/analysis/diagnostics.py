"""What a fit noticed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from flyingsquid.analysis.fit_test import FitTest, independence_of, independence_test
from flyingsquid.analysis.normal import NORMAL_95
from flyingsquid.analysis.verdict import Verdict, judge
from flyingsquid.estimate import BinaryFit, GraphFit
from flyingsquid.estimate.drawing import draw_around_task
from flyingsquid.estimate.intervals import draw_votes, strength_errors
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# Without an interval, an accuracy this close to one half is as good as a coin.
_COIN = 0.02
# Pairs of tasks that were moved by more than this did not fit together.
_IMPOSSIBLE_PAIRS = 0.01


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """What a fit noticed. Sources are given by name.

    Attributes
    ----------
    method : the method that was used
    reason : why, when ``method="auto"`` chose it; otherwise empty
    class_balance : where the class balance comes from, in words
    silent : sources that never vote; they weigh nothing
    one_sided : sources that vote for one class only
    identical : groups of sources that vote alike, or opposite, on every item
    unidentified : sources that no triplet could judge; they got the average accuracy
    useless : sources that cannot be told from a coin
    adversarial : sources that are worse than a coin
    clipped : sources whose vote rates do not fit the class balance and their accuracy
    triplets_used, triplets_skipped : integer arrays of shape (m,)
        Triplets that entered each source's estimate, and those left out for a weak denominator.
    fit_test : FitTest, or None where there are too few sources for one
        Whether the sources err independently given the truth, and how many independent ones they are worth.
    verdict : Verdict
        "Use it", or "majority vote is as good here" with the reason.
    """

    method: str
    reason: str
    class_balance: str
    silent: tuple[str, ...]
    one_sided: tuple[str, ...]
    identical: tuple[tuple[str, ...], ...]
    unidentified: tuple[str, ...]
    useless: tuple[str, ...]
    adversarial: tuple[str, ...]
    clipped: tuple[str, ...]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]
    fit_test: FitTest | None
    verdict: Verdict


def named(names: Sequence[str], mask: NDArray[np.bool_]) -> tuple[str, ...]:
    """The names of the sources in a mask."""
    return tuple(names[int(i)] for i in np.flatnonzero(mask))


def named_groups(names: Sequence[str], groups: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
    """The names in each group of two sources or more; ``groups``, shape (m,), numbers that of each source."""
    return tuple(named(names, groups == g) for g in np.flatnonzero(np.bincount(groups) > 1))


def without_triplets(
    moments: Moments,
    *,
    method: str,
    reason: str,
    class_balance: str,
    silent: NDArray[np.bool_],
    one_sided: NDArray[np.bool_],
    verdict: Verdict,
    identical: tuple[tuple[str, ...], ...] = (),
    useless: tuple[str, ...] = (),
    adversarial: tuple[str, ...] = (),
    fit_test: FitTest | None = None,
) -> Diagnostics:
    """Diagnostics of a method that compares no triplets of sources."""
    none = np.zeros(moments.n_sources, np.int64)
    return Diagnostics(
        method=method,
        reason=reason,
        class_balance=class_balance,
        silent=named(moments.source_names, silent),
        one_sided=named(moments.source_names, one_sided),
        identical=identical,
        unidentified=(),
        useless=useless,
        adversarial=adversarial,
        clipped=(),
        triplets_used=none,
        triplets_skipped=none,
        fit_test=fit_test,
        verdict=verdict,
    )


def diagnose(
    moments: Moments, fit: GraphFit, accuracies: Array, interval: Array, *, method: str, reason: str
) -> Diagnostics:
    """Name the sources that a fit flagged, test its assumption, and judge it.

    ``accuracies`` and ``interval`` have shapes (m,) and (m, 2).
    """
    names = moments.source_names
    fits = [task.fit for task in fit.tasks]
    judged = [
        _judge_sources(
            task.fit,
            accuracies[list(task.columns)],
            interval[list(task.columns)],
            draw_around_task(fit, number),
        )
        for number, task in enumerate(fit.tasks)
    ]
    one_sided = fit.gather([task.flags.one_sided for task in fits])
    test = _combined([_independence(moments, fit, task) for task in range(len(fits))])
    return Diagnostics(
        method=method,
        reason=_reasons(fit, method, reason),
        class_balance=_balance_note(fits),
        silent=named(names, fit.gather([task.flags.silent for task in fits])),
        one_sided=named(names, one_sided),
        identical=tuple(tuple(names[i] for i in group) for group in identical_sources(fit)),
        unidentified=named(names, fit.gather([task.unidentified for task in fits])),
        useless=named(names, fit.gather([useless for useless, _ in judged])),
        adversarial=named(names, fit.gather([adversarial for _, adversarial in judged])),
        clipped=named(names, fit.gather([task.clipped for task in fits]) & ~one_sided),
        triplets_used=fit.gather([task.triplets_used for task in fits]),
        triplets_skipped=fit.gather([task.triplets_skipped for task in fits]),
        fit_test=test,
        verdict=judge(fit, test, accuracies, moments.coverage),
    )


def identical_sources(fit: GraphFit) -> list[tuple[int, ...]]:
    """Groups of sources of one task that vote alike, or opposite, on every item."""
    found = []
    for task in fit.tasks:
        groups = ([task.columns[i] for i in group] for group in task.fit.flags.identical)
        found += [tuple(i for i in group if i in task.own) for group in groups]
    return [group for group in found if len(group) > 1]


def _balance_note(fits: Sequence[BinaryFit]) -> str:
    notes = [fit.balance_note for fit in fits]
    if len(set(notes)) == 1:
        return notes[0]
    return "; ".join(f"task {task}: {note}" for task, note in enumerate(notes))


def _reasons(fit: GraphFit, method: str, reason: str) -> str:
    """Why the method was chosen, and what the graph made of it."""
    found = [reason] if reason else []
    alone = [str(number) for number, task in enumerate(fit.tasks) if task.method != method]
    if alone:
        found.append(f"by the class balance where three groups are not separated: task {', '.join(alone)}")
    at_odds = pairs_at_odds(fit.mismatch)
    return "; ".join([*found, at_odds] if at_odds else found)


def pairs_at_odds(mismatch: float) -> str:
    """What is to be said where pairs of tasks were moved; empty where they fit together."""
    if mismatch <= _IMPOSSIBLE_PAIRS:
        return ""
    return (
        f"the estimated pairs of tasks fit no distribution together, so were weakened by up to {mismatch:.2g}"
    )


def _judge_sources(
    fit: BinaryFit, accuracies: Array, interval: Array, drawn: Array | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Sources that cannot be told from a coin, and sources that are worse than one.

    For class-conditional sources by their covariance with the truth: how often a vote is right depends on
    the class balance too. For symmetric ones by their accuracy; one-sided ones are not symmetric.
    """
    if fit.conditional is not None:
        judged = ~(fit.flags.silent | fit.unidentified)
        strength = fit.conditional.strength
        drawn = draw_votes(fit.tables, fit.balance)[0] if drawn is None else drawn
        reach = NORMAL_95 * strength_errors(fit.conditional, drawn)
        return judged & (np.abs(strength) <= reach), judged & (strength < -reach)
    judged = ~(fit.flags.silent | fit.flags.one_sided | fit.unidentified)
    known = np.isfinite(interval).all(axis=1)
    low = np.where(known, interval[:, 0], accuracies - _COIN)
    high = np.where(known, interval[:, 1], accuracies + _COIN)
    return judged & (low <= 0.5) & (high >= 0.5), judged & (high < 0.5)


def _independence(moments: Moments, whole: GraphFit, task: int) -> FitTest | None:
    place = whole.tasks[task]
    fit, conditional = place.fit, place.fit.conditional
    if whole.graph is not None:
        if place.columns != place.own:  # sources of other tasks are tested there
            return None
        moments = moments.part(place.block, place.columns)
    if conditional is None:
        return independence_of(moments, fit.flags, fit.separation)
    return independence_test(conditional, fit.flags)


def _combined(tests: Sequence[FitTest | None]) -> FitTest | None:
    """One test for all tasks: under the assumption their statistics add up."""
    known = [test for test in tests if test is not None]
    if len(known) < 2:
        return known[0] if known else None
    statistic, degrees = sum(test.statistic for test in known), sum(test.degrees for test in known)
    effective = sum(test.effective_sources for test in known)
    return FitTest(statistic, degrees, float(chi2.sf(statistic, degrees)), effective)


def concern_of_silence(names: Sequence[str], silent: NDArray[np.bool_]) -> str:
    """A sentence about sources that never vote; empty when there is none."""
    if not silent.any():
        return ""
    return f"Sources that never vote, so weigh nothing: {_listed(list(named(names, silent)))}"


def concerns(fit: GraphFit, names: tuple[str, ...]) -> str:
    """One sentence for each kind of source that deserves a look; empty when there is none."""

    def listed(mask: NDArray[np.bool_]) -> str:
        return _listed([names[i] for i in np.flatnonzero(mask)])

    fits = [task.fit for task in fit.tasks]
    silent, one_sided, unidentified, clipped = (
        fit.gather(values)
        for values in (
            [task.flags.silent for task in fits],
            [task.flags.one_sided for task in fits],
            [task.unidentified for task in fits],
            [task.clipped for task in fits],
        )
    )
    found = []
    if silent.any():
        found.append(f"never vote, so weigh nothing: {listed(silent)}")
    identical = identical_sources(fit)
    if fit.graph is not None:  # declared to depend on each other, they count as what they are
        of = fit.graph._groups
        identical = [group for group in identical if len(set(of[list(group)].tolist())) > 1]
    if identical:
        groups = "; ".join(_listed([names[i] for i in group]) for group in identical)
        found.append(f"vote alike on every item, so count as more than one: {groups}")
    if one_sided.any():
        found.append(f"vote for one class only: {listed(one_sided)}")
    if unidentified.any():
        found.append(
            f"agree with too few others to be judged, so got the average accuracy: {listed(unidentified)}"
        )
    clipped &= ~one_sided
    if 2 * clipped.sum() > len(names):
        found.append(
            f"vote at rates that do not fit the class balance: {listed(clipped)} (pass class_balance= if it "
            "is not the one used)"
        )
    return ". ".join(f"Sources that {sentence}" for sentence in found)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
