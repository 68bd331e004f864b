"""What a fit noticed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.fit_test import FitTest, independence_test
from flyingsquid.analysis.verdict import Verdict, judge
from flyingsquid.estimate import BinaryFit
from flyingsquid.estimate.conditional import fit_conditional
from flyingsquid.estimate.intervals import strength_errors
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# Without an interval, an accuracy this close to one half is as good as a coin.
_COIN = 0.02


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


def diagnose(
    moments: Moments, fit: BinaryFit, accuracies: Array, interval: Array, *, method: str, reason: str
) -> Diagnostics:
    """Name the sources that a fit flagged, test its assumption, and judge it.

    ``accuracies`` and ``interval`` have shapes (m,) and (m, 2).
    """
    names = moments.source_names

    def named(mask: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(names[i] for i in np.flatnonzero(mask))

    useless, adversarial = _judge_sources(fit, accuracies, interval)
    test = _independence(moments, fit)
    return Diagnostics(
        method=method,
        reason=reason,
        class_balance=fit.balance_note,
        silent=named(fit.flags.silent),
        one_sided=named(fit.flags.one_sided),
        identical=tuple(tuple(names[i] for i in group) for group in fit.flags.identical),
        unidentified=named(fit.unidentified),
        useless=named(useless),
        adversarial=named(adversarial),
        clipped=named(fit.clipped & ~fit.flags.one_sided),
        triplets_used=fit.triplets_used,
        triplets_skipped=fit.triplets_skipped,
        fit_test=test,
        verdict=judge(fit, test, accuracies, moments.coverage),
    )


def _judge_sources(
    fit: BinaryFit, accuracies: Array, interval: Array
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Sources that cannot be told from a coin, and sources that are worse than one.

    For class-conditional sources by their covariance with the truth: how often a vote is right depends on
    the class balance too. For symmetric ones by their accuracy; one-sided ones are not symmetric.
    """
    if fit.conditional is not None:
        judged = ~(fit.flags.silent | fit.unidentified)
        strength = fit.conditional.strength
        reach = 1.96 * strength_errors(fit.conditional, fit.tables, fit.balance)
        return judged & (np.abs(strength) <= reach), judged & (strength < -reach)
    judged = ~(fit.flags.silent | fit.flags.one_sided | fit.unidentified)
    known = np.isfinite(interval).all(axis=1)
    low = np.where(known, interval[:, 0], accuracies - _COIN)
    high = np.where(known, interval[:, 1], accuracies + _COIN)
    return judged & (low <= 0.5) & (high >= 0.5), judged & (high < 0.5)


def _independence(moments: Moments, fit: BinaryFit) -> FitTest | None:
    conditional = fit.conditional
    if conditional is None:
        try:
            conditional = fit_conditional(
                moments, fit.flags, method="covariance", anchors={}, screen=0.0, oriented=False
            )
        except NotIdentifiableError:
            return None
    return independence_test(conditional, fit.flags)


def concerns(fit: BinaryFit, names: tuple[str, ...]) -> str:
    """One sentence for each kind of source that deserves a look; empty when there is none."""

    def listed(mask: NDArray[np.bool_]) -> str:
        return _listed([names[i] for i in np.flatnonzero(mask)])

    found = []
    if fit.flags.silent.any():
        found.append(f"never vote, so weigh nothing: {listed(fit.flags.silent)}")
    if fit.flags.identical:
        groups = "; ".join(_listed([names[i] for i in group]) for group in fit.flags.identical)
        found.append(f"vote alike on every item, so count as more than one: {groups}")
    if fit.flags.one_sided.any():
        found.append(f"vote for one class only: {listed(fit.flags.one_sided)}")
    if fit.unidentified.any():
        found.append(
            f"agree with too few others to be judged, so got the average accuracy: {listed(fit.unidentified)}"
        )
    clipped = fit.clipped & ~fit.flags.one_sided
    if 2 * clipped.sum() > len(names):
        found.append(
            f"vote at rates that do not fit the class balance: {listed(clipped)} (pass class_balance= if it "
            "is not the one used)"
        )
    return ". ".join(f"Sources that {sentence}" for sentence in found)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
