"""What to know about a fit: suspicious sources, a test of independence, and a recommendation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.independence import FitTest
from flyingsquid.exceptions import ModelFileError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Below this gain the two are equally good for any practical purpose.
_WORTH_HAVING = 0.005
_ALIKE = 0.08
_CLEARLY_DEPENDENT = 1e-3
# No real dataset has shown a gain this large.
_TOO_GOOD = 0.3
PERSISTENT = 0.1
"""Errors with a smaller excess correlation than this hardly change a label."""
_MOST_NAMED = 5
_SOURCE_FIELDS = ("silent", "one_sided", "unidentified", "useless", "adversarial", "clipped")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Recommendation for or against the model.

    Attributes
    ----------
    words : str
    gain : float
        Accuracy of the model less that of majority vote on items drawn from the fitted model: a model-based
        estimate, right only as far as the assumptions are.
    use_model : bool
        Whether the gain is worth having and nothing speaks against the assumptions.
    """

    words: str
    gain: float
    use_model: bool

    def __str__(self) -> str:
        return self.words


@dataclass(frozen=True, slots=True, eq=False)
class Diagnostics:
    """Diagnostics of a fit. Sources are given by name.

    Attributes
    ----------
    method : str
        The method that was used.
    reason : str
        Why ``method="auto"`` chose it; otherwise empty.
    class_balance : str
        Where the class balance comes from.
    silent : tuple of str
        Sources that always abstain; they are ignored.
    one_sided : tuple of str
        Sources that vote for one class only.
    identical : tuple of tuples of str
        Groups of sources that vote alike, or opposite, on every item.
    unidentified : tuple of str
        Sources that no triplet could estimate; they got the average accuracy.
    useless : tuple of str
        Sources that cannot be told from random votes.
    adversarial : tuple of str
        Sources that are worse than random votes.
    clipped : tuple of str
        Sources whose vote rates do not fit the class balance and their accuracy.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
        Triplets that entered the estimate of each source, and those left out for a weak denominator.
    fit_test : FitTest or None
        Test of whether the sources err independently given the truth; None if there are too few sources.
    verdict : Verdict
        Recommendation for or against the model.
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

    def to_meta(self) -> dict[str, Any]:
        """Return everything but the two arrays as JSON values."""
        test, verdict = self.fit_test, self.verdict
        return {
            "method": self.method,
            "reason": self.reason,
            "class_balance": self.class_balance,
            **{name: list(getattr(self, name)) for name in _SOURCE_FIELDS},
            "identical": [list(group) for group in self.identical],
            "fit_test": None
            if test is None
            else [test.statistic, test.degrees, test.p_value, test.effective_sources],
            "verdict": [verdict.words, verdict.gain, verdict.use_model],
        }

    @classmethod
    def from_meta(
        cls,
        meta: dict[str, Any],
        triplets_used: NDArray[np.int64],
        triplets_skipped: NDArray[np.int64],
        source_names: tuple[str, ...],
    ) -> Diagnostics:
        """Read what :meth:`to_meta` returned; sources that do not exist are refused."""
        mentioned = [name for field in _SOURCE_FIELDS for name in meta[field]]
        mentioned += [name for group in meta["identical"] for name in group]
        if not set(mentioned) <= set(source_names):
            raise ModelFileError("the diagnostics in the file name sources that the model does not have")
        words, gain, use_model = meta["verdict"]
        test = None
        if meta["fit_test"] is not None:
            statistic, degrees, p_value, effective = meta["fit_test"]
            test = FitTest(float(statistic), int(degrees), float(p_value), float(effective))
        return cls(
            method=str(meta["method"]),
            reason=str(meta["reason"]),
            class_balance=str(meta["class_balance"]),
            **{name: tuple(meta[name]) for name in _SOURCE_FIELDS},
            identical=tuple(tuple(group) for group in meta["identical"]),
            triplets_used=triplets_used,
            triplets_skipped=triplets_skipped,
            fit_test=test,
            verdict=Verdict(str(words), float(gain), bool(use_model)),
        )


def without_triplets(
    moments: Moments,
    *,
    method: str,
    reason: str,
    class_balance: str,
    verdict: Verdict,
    identical: tuple[tuple[str, ...], ...] = (),
    useless: tuple[str, ...] = (),
    adversarial: tuple[str, ...] = (),
    fit_test: FitTest | None = None,
) -> Diagnostics:
    """Return diagnostics of a method that compares no triplets of sources."""
    used = (np.asarray(moments.vote_counts) > 0).sum(axis=1)
    none = np.zeros(moments.n_sources, np.int64)
    return Diagnostics(
        method=method,
        reason=reason,
        class_balance=class_balance,
        silent=names_in(moments.source_names, used == 0),
        one_sided=names_in(moments.source_names, used == 1),
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


def names_in(names: Sequence[str], mask: Mask) -> tuple[str, ...]:
    """Return the names of the sources in a mask."""
    return tuple(names[int(i)] for i in np.flatnonzero(mask))


def names_in_groups(names: Sequence[str], groups: NDArray[np.intp]) -> tuple[tuple[str, ...], ...]:
    """Return the names in each group of two or more sources; ``groups`` numbers the group of each source."""
    return tuple(names_in(names, groups == g) for g in np.flatnonzero(np.bincount(groups) > 1))


def format_names(names: Sequence[str]) -> str:
    """Join names for a message, with the rest of a long list left out."""
    shown = ", ".join(names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def silent_sources_concern(moments: Moments) -> tuple[str, ...]:
    """Return a sentence about sources that always abstain, in a tuple; empty if there are none."""
    silent = names_in(moments.source_names, np.asarray(moments.vote_counts).sum(axis=1) == 0)
    if not silent:
        return ()
    return (f"These sources always abstain and are ignored: {format_names(silent)}.",)


# ---------------------------------------------------------------------- recommendation


def recommend(
    gain: float,
    accuracies: Array,
    coverage: Array,
    *,
    clipped: Mask | None = None,
    test: FitTest | None = None,
    doubts: Sequence[str] = (),
) -> Verdict:
    """Recommend the model or majority vote, given the estimated gain and reasons against it.

    Parameters
    ----------
    gain : float
    accuracies, coverage : arrays of shape (m,)
    clipped : mask of shape (m,), optional
        Sources that do not fit the class balance.
    test : FitTest, optional
    doubts : sequence of str
        Further reasons to distrust the estimate.
    """
    if gain < _WORTH_HAVING:
        return Verdict(
            f"Majority vote is as good here, because {_reason(accuracies, coverage)}.", gain, use_model=False
        )
    claim = f"estimated accuracy is {100 * gain:.1f} points above majority vote"
    found = [*_doubts(clipped, test, gain), *doubts]
    if found:
        words = f"Uncertain: {claim}, but {' and '.join(found)}. Compare with some gold labels before use."
        return Verdict(words, gain, use_model=False)
    caution = (
        "" if test is not None else " There are too few votes to test whether the sources are independent."
    )
    return Verdict(f"Recommended: {claim}.{caution}", gain, use_model=True)


def persistent_errors_doubt(persistence: float, steps: str) -> str:
    """Return the doubt that errors persist from one task or row to the next."""
    return (
        f"errors persist from {steps} (excess correlation {persistence:.2f} on average), so probabilities "
        "are too extreme unless `temper` is below 1"
    )


def accuracy_gain(posterior: Array, shares: Array, y: NDArray[Any]) -> float:
    """Return the accuracy of posteriors less that of vote shares, both of shape (..., K); ties share."""
    return float(np.mean(_credit(posterior, y)) - np.mean(_credit(shares, y)))


def _credit(scores: Array, y: NDArray[Any]) -> Array:
    """Return 1 for a right label, 0 for a wrong one, and a share of 1 for ties; shape of ``y``."""
    best = scores >= scores.max(axis=-1, keepdims=True) - 1e-9
    right = np.take_along_axis(best, y[..., None].astype(np.intp), axis=-1)[..., 0]
    return np.asarray(right / best.sum(axis=-1))


def _reason(accuracies: Array, coverage: Array) -> str:
    voting = accuracies[coverage > 0]
    if coverage.sum() < 1.5:
        return f"an item has {coverage.sum():.1f} votes on average, so there is little to weigh"
    if np.ptp(voting) < _ALIKE:
        low, high = voting.min(), voting.max()
        return f"the sources are about equally good ({low:.0%} to {high:.0%})"
    return "the weights of the sources rarely change which class wins"


def _doubts(clipped: Mask | None, test: FitTest | None, gain: float) -> list[str]:
    doubts = []
    if test is not None and test.p_value < _CLEARLY_DEPENDENT:
        p = f"p = {test.p_value:.1g}" if test.p_value > 0 else "p < 1e-300"
        doubts.append(f"the sources are not independent given the truth ({p})")
    if gain > _TOO_GOOD:
        doubts.append(
            "so large a gain is more often a sign that the good and the bad are taken for each other"
        )
    if clipped is not None and 2 * clipped.sum() > len(clipped):
        doubts.append("the class balance does not fit the votes")
    return doubts
