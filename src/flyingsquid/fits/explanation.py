"""Explanation of one label: what each source contributes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular, as_scalar
from flyingsquid._values import format_count
from flyingsquid.inference import vote_shares
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import Label
from flyingsquid.votes.decisions import winners

Array = NDArray[np.float64]
# A sentence names this many sources on each side; the table has them all.
_MOST_NAMED = 5
# Log odds this small are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Contribution:
    """Vote of one source on the item, and its contribution.

    Attributes
    ----------
    source : name
    vote : class label, or None for no vote
    reason : why there is no vote, such as ``"refused"``; empty for a vote
    adds : float
        Contribution to the log odds of the predicted class, or, in a majority vote, to the share of its
        class.
    """

    source: str
    vote: Label | None
    reason: str
    adds: float

    @property
    def shown_vote(self) -> Scalar:
        """The vote as a cell: the class label, ``"no vote"``, or ``"no vote (refused)"``."""
        if not self.reason:
            return as_scalar(self.vote)
        return "no vote" if self.reason == REASONS[0] else f"no vote ({self.reason})"


@dataclass(frozen=True, slots=True, repr=False)
class _Explained(Tabular):
    """Base class of both kinds of explanation, which are shown as a table."""

    classes: tuple[Label, ...]
    predicted: Label
    probabilities: tuple[float, ...]
    contributions: tuple[Contribution, ...]
    n_sources: int
    n_missing: int

    def to_dict(self) -> dict[str, Any]:
        """Return prediction, classes, probabilities and ``contributions`` by column, as JSON values."""
        return {
            "predicted": as_scalar(self.predicted),
            "classes": [as_scalar(label) for label in self.classes],
            "probabilities": list(self.probabilities),
            "contributions": self.table().to_dict(),
        }

    def claim(self) -> str:
        """Return a sentence about the label and its probability."""
        probability = _rounded(self.probabilities[self.classes.index(self.predicted)])
        return f"{as_scalar(self.predicted)} with probability {probability}"

    def _abstained(self) -> str:
        if not self.n_missing:
            return ""
        return f"; {self.n_missing} of {format_count(self.n_sources, 'source')} did not vote"


@dataclass(frozen=True, slots=True, repr=False)
class Explanation(_Explained):
    """Contributions of the sources to the probability of one item.

    All log odds are those of the predicted class against the other one, or against the next best of many;
    positive values support the prediction. The prior and the contributions sum to ``log_odds``.

    Attributes
    ----------
    classes : tuple of K labels
    predicted : the most probable label; the first on a tie
    probabilities : tuple of K, P(Y = k | votes)
    prior : tuple of K, P(Y = k)
    prior_log_odds : float
    contributions : tuple of Contribution, strongest first
        Sources without a contribution are left out.
    log_odds : float
    against : the next best label if there are more than two; otherwise None
    n_sources, n_missing : int
        Number of sources that could vote on the item, and of those that did not.
    """

    prior: tuple[float, ...]
    prior_log_odds: float
    log_odds: float
    against: Label | None

    def table(self) -> Table:
        """Return the prior, then the sources, strongest first; the column ``adds`` sums to the log odds."""
        rows = tuple((c.source, c.shown_vote, c.adds) for c in self.contributions)
        rival = "" if self.against is None else f" against {as_scalar(self.against)}"
        return Table(
            ("source", "vote", "adds"),
            (("prior", None, self.prior_log_odds), *rows),
            title=f"log odds of {as_scalar(self.predicted)}{rival}: {self.log_odds:+.2f}",
            footnotes=(self.sentence(),),
            formats=("", "", "+.2f"),
        )

    def sentence(self) -> str:
        """Return the explanation in one sentence."""
        before = ""
        if np.ptp(self.prior) > _ROUNDING:
            before = f" ({_rounded(self.prior[self.classes.index(self.predicted)])} before the votes)"
        pro = _listed([c for c in self.contributions if c.adds > 0])
        con = _listed([c for c in self.contributions if c.adds < 0])
        sides = [f"{pro} for it"] * bool(pro) + [f"{con} against it"] * bool(con)
        return f"{self.claim()}{before}: {', '.join(sides) or 'no source adds anything'}{self._abstained()}"

    def to_dict(self) -> dict[str, Any]:
        """Return prediction, classes, probabilities, prior, log odds, and ``contributions`` by column."""
        return {
            **_Explained.to_dict(self),
            "prior": list(self.prior),
            "prior_log_odds": self.prior_log_odds,
            "log_odds": self.log_odds,
        }


@dataclass(frozen=True, slots=True, repr=False)
class VoteCount(_Explained):
    """A majority vote on one item. Each contribution is a share of its own class.

    Attributes
    ----------
    classes : tuple of K labels
    predicted : the label with the most votes; the first on a tie
    probabilities : tuple of K shares
    contributions : tuple of Contribution
        Votes for the predicted class first. The shares of a class sum to its probability.
    n_sources, n_missing : int
        Number of sources that could vote on the item, and of those that did not.
    """

    def table(self) -> Table:
        """Return one row per vote, those for the predicted class first."""
        rows = tuple((c.source, c.shown_vote, c.adds) for c in self.contributions)
        footnotes = (self.sentence(),)
        return Table(("source", "vote", "adds"), rows, footnotes=footnotes, formats=("", "", ".2f"))

    def sentence(self) -> str:
        """Return the explanation in one sentence."""
        if not self.contributions:
            return f"{self.claim()}: no source votes, so all classes are equally probable"
        votes = sum(c.vote == self.predicted for c in self.contributions)
        total = format_count(len(self.contributions), "vote")
        return f"{self.claim()}: {votes} of {total}{self._abstained()}"


def next_best_and_best(posterior: Array) -> tuple[int, int]:
    """Return the two most probable of K classes; the first among equally probable ones.

    >>> next_best_and_best(np.array([0.4, 0.2, 0.4]))
    (2, 0)
    """
    best = _first_best(posterior)
    rest = posterior.copy()
    rest[best] = -1.0
    return _first_best(rest), best


def _first_best(scores: Array) -> int:
    return int(winners(scores[None, :])[0])


def build_explanation(
    classes: tuple[Label, ...],
    posterior: Array,
    prior: Array,
    said: Sequence[Contribution],
    codes: NDArray[Any],
) -> Explanation:
    """Return an explanation: contributions to the log odds of the best class, strongest first.

    Contributions of 0 are left out. ``posterior`` and ``prior`` have shape (K,); ``codes`` are those of the
    sources that could vote on the task.

    >>> names, codes, classes = ["links", "short", "caps"], np.array([1, 1, 0]), ("ham", "spam")
    >>> said = contributions_of(names, codes, classes, np.array([1.8, 0.9, -0.4]))
    >>> build_explanation(classes, np.array([0.09, 0.91]), np.array([0.5, 0.5]), said, codes)
    log odds of spam: +2.30
    source  vote   adds
    prior         +0.00
    links   spam  +1.80
    short   spam  +0.90
    caps    ham   -0.40
    spam with probability 0.91: links (+1.8) and short (+0.9) for it, caps (-0.4) against it
    """
    second, best = next_best_and_best(posterior)
    # Adding 0 turns the -0.0 of an even prior into 0.
    start = float(np.log(prior[best]) - np.log(prior[second])) + 0.0
    strongest = sorted((c for c in said if c.adds != 0), key=lambda c: -round(abs(c.adds), 9))
    return Explanation(
        classes,
        classes[best],
        tuple(posterior.tolist()),
        tuple(strongest),
        len(codes),
        int(np.count_nonzero(codes < 0)),
        tuple(prior.tolist()),
        start,
        math.fsum([start, *(c.adds for c in strongest)]),
        classes[second] if len(classes) > 2 else None,
    )


def count_item(codes_row: NDArray[Any], classes: tuple[Label, ...], names: Sequence[str]) -> VoteCount:
    """Explain the majority vote on one item of K classes.

    >>> count_item(np.array([2, 0, -1, 2]), ("a", "b", "c"), ["w", "x", "y", "z"])
    source  vote  adds
    w       c     0.33
    z       c     0.33
    x       a     0.33
    c with probability 0.67: 2 of 3 votes; 1 of 4 sources did not vote
    """
    shares = vote_shares(codes_row[None, :], len(classes))[0]
    best = _first_best(shares[0])
    voters = [i for i, code in enumerate(codes_row) if code >= 0]
    order = sorted(voters, key=lambda i: (codes_row[i] != best, codes_row[i]))
    equal = np.full(len(voters), 1 / max(len(voters), 1))
    said = contributions_of([names[i] for i in order], codes_row[order], classes, equal)
    missing = len(codes_row) - len(voters)
    return VoteCount(classes, classes[best], tuple(shares[0].tolist()), tuple(said), len(codes_row), missing)


def contributions_of(
    names: Sequence[str], codes: NDArray[Any], classes: tuple[Label, ...], adds: NDArray[Any]
) -> list[Contribution]:
    """Return the contributions of sources from their codes; all arguments but ``classes`` have length m."""
    return [
        Contribution(name, classes[code], "", float(add))
        if code >= 0
        else Contribution(name, None, REASONS[-1 - code], float(add))
        for name, code, add in zip(names, codes.tolist(), adds, strict=True)
    ]


def _listed(contributions: Sequence[Contribution]) -> str:
    shown = [f"{c.source} ({_format_log_odds(c.adds)})" for c in contributions[:_MOST_NAMED]]
    rest = contributions[_MOST_NAMED:]
    if rest:
        shown.append(f"{len(rest)} more ({_format_log_odds(math.fsum(c.adds for c in rest))})")
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def _rounded(p: float) -> str:
    """Return a probability with two digits, or three near 0 and 1; "below 0.001" or "above 0.999"."""
    if 0.005 <= p < 0.995:
        return f"{p:.2f}"
    if 0.0005 <= p < 0.9995:
        return f"{p:.3f}"
    return "below 0.001" if p < 0.5 else "above 0.999"


def _format_log_odds(adds: float) -> str:
    # One decimal, unless the number would be rounded to 0.
    return f"{adds:+.1f}" if abs(adds) >= 0.05 else f"{adds:+.1g}"
