"""The model beside majority vote on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid.analysis.reading import Items, read_items, tie_credit, winners
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
# A label that was given no probability at all would cost an infinite log loss.
_LEAST_PROBABILITY = 1e-6
# Equal evidence summed in another order.
_TIE = 1e-9


@dataclass(frozen=True, slots=True)
class Scores:
    """How good labels are on items of known class.

    Attributes
    ----------
    accuracy : float
        Share of right labels; where classes tie, the share that would win by chance.
    f1 : float
        Of the second class for two, the mean over all classes for more; ties go to the first class.
    log_loss : float
        Mean of -log P(true class), no probability below 1e-6.
    """

    accuracy: float
    f1: float
    log_loss: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """A model beside majority vote.

    Attributes
    ----------
    n_items, n_covered : int
        All items, and those with a vote.
    coverage : float
        Share of the items with a vote; the others have only the class balance to go by.
    ties : float
        Share of the items with votes on which majority vote cannot decide.
    differ : float
        Share of the items with votes whose label is not the majority's, ties not counted.
    n_known : int
        Items whose class is known.
    model, majority : Scores, or None without known labels
        On all known items.
    gain : float or None
        Accuracy of the model less that of majority vote.
    gain_interval : pair of floats or None
        95%, by the items on which the two do not fare equally.
    """

    n_items: int
    n_covered: int
    coverage: float
    ties: float
    differ: float
    n_known: int
    model: Scores | None
    majority: Scores | None
    gain: float | None
    gain_interval: tuple[float, float] | None

    def sentence(self) -> str:
        """The verdict in one sentence."""
        labels = f"The model's label is not the majority's on {self.differ:.1%} of the items"
        if self.ties > 0:
            labels += f", and majority vote cannot decide {self.ties:.1%}"
        if self.model is None or self.majority is None or self.gain_interval is None or self.gain is None:
            return f"{labels}; which of them is right more often takes known labels to say."
        low, high = self.gain_interval
        points = f"{100 * self.gain:+.1f} points, 95% interval {100 * low:+.1f} to {100 * high:+.1f}"
        word = "better" if low > 0 else "worse" if high < 0 else "not clearly different"
        known = f"{self.n_known:,} items of known class"
        return (
            f"{labels}. On {known} the model is right on {self.model.accuracy:.1%} and majority vote on "
            f"{self.majority.accuracy:.1%}: {word} ({points})."
        )

    def table(self) -> Table:
        """Both as rows."""
        rows = tuple(
            (
                name,
                None if s is None else s.accuracy,
                None if s is None else s.f1,
                None if s is None else s.log_loss,
            )
            for name, s in (("model", self.model), ("majority vote", self.majority))
        )
        formats = ("", ".1%", ".3f", ".3f")
        return Table(
            ("labels", "accuracy", "f1", "log_loss"), rows, footnotes=(self.sentence(),), formats=formats
        )

    def __str__(self) -> str:
        return str(self.table())


def compare_with_majority(model: Any, votes: Any, y: Any = None, *, task: int | None = None) -> Comparison:
    """Set a fitted model beside majority vote: where labels differ, and who is right with known labels.

    Parameters
    ----------
    model : a fitted label model
    votes : as ``model.predict_proba`` takes them
    y : array of shape (n,), optional
        True classes; None, NaN and masked are unknown, and -1 unless it is a class.
    task : int, for a graph of several tasks

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(5_000, [0.95, 0.6, 0.6, 0.6], random_state=0)
    >>> found = compare_with_majority(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.model.accuracy > found.majority.accuracy + 0.1
    True
    """
    items = read_items(model, votes, y, task=task)
    return compare_items(items)


def compare_items(items: Items) -> Comparison:
    """The same for items that were read already."""
    running = RunningComparison(items.votes.n_classes)
    running.add(items.posterior, items.shares, item_votes(items.votes.codes).cast)
    if items.gold is None:
        return running.result()
    known = items.gold >= 0
    if not known.any():
        raise VotesError("y holds no known class; leave it out where nothing is known")
    running.add_known(items.posterior[known], items.shares[known], items.gold[known])
    return running.result()


class RunningComparison:
    """Sums from which :class:`Comparison` follows. Memory does not grow with the items.

    Parameters
    ----------
    n_classes : int

    Examples
    --------
    >>> running = RunningComparison(2)
    >>> running.add(np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]]), np.array([2]), times=np.array([3]))
    >>> found = running.result()
    >>> found.n_items, found.ties, found.differ
    (3, 1.0, 0.0)
    """

    def __init__(self, n_classes: int) -> None:
        self._items = self._covered = self._tied = self._differ = 0
        self._known = 0
        self._sides = (_Sums(n_classes), _Sums(n_classes))
        self._gains = np.zeros(2)  # their sum, and the sum of their squares

    def add(
        self, posterior: Array, shares: Array, cast: NDArray[Any], *, times: NDArray[Any] | None = None
    ) -> None:
        """Add items.

        Parameters
        ----------
        posterior, shares : P(Y = k | votes) by the model, and shares of the votes, shape (n, K)
        cast : how many sources vote, shape (n,)
        times : how often each row counts, shape (n,), optional
        """
        n = len(cast)
        weights = np.ones(n, np.int64) if times is None else times
        covered = cast > 0
        tied = (shares >= shares.max(axis=1, keepdims=True) - _TIE).sum(axis=1) > 1
        differ = (winners(posterior) != winners(shares)) & ~tied
        self._items += int(weights.sum())
        self._covered += int(weights[covered].sum())
        self._tied += int(weights[covered & tied].sum())
        self._differ += int(weights[covered & differ].sum())

    def add_known(self, posterior: Array, shares: Array, gold: NDArray[Any]) -> None:
        """Add items to the scores: shapes (n, K), and n codes of true classes, all of them known."""
        if not len(gold):
            return
        self._known += len(gold)
        for side, scores in zip(self._sides, (posterior, shares), strict=True):
            side.add(scores, gold)
        each = tie_credit(posterior, gold) - tie_credit(shares, gold)
        self._gains += (each.sum(), (each**2).sum())

    def result(self) -> Comparison:
        """The comparison of all items so far."""
        n, covered = max(self._items, 1), max(self._covered, 1)
        facts = (
            self._items,
            self._covered,
            self._covered / n,
            self._tied / covered,
            self._differ / covered,
        )
        if not self._known:
            return Comparison(*facts, 0, None, None, None, None)
        gain, square = (float(total) for total in self._gains / self._known)
        reach = NORMAL_95 * float(np.sqrt(max(square - gain**2, 0.0) / self._known))
        model, majority = (side.scores(self._known) for side in self._sides)
        return Comparison(*facts, self._known, model, majority, gain, (gain - reach, gain + reach))


class _Sums:
    """What the scores of one kind of labels are made of."""

    def __init__(self, n_classes: int) -> None:
        self._right = self._loss = 0.0
        self._hits = np.zeros(n_classes, np.int64)
        self._total = np.zeros(n_classes, np.int64)

    def add(self, scores: Array, gold: NDArray[Any]) -> None:
        k = len(self._hits)
        labels = winners(scores)
        self._right += float(tie_credit(scores, gold).sum())
        true = np.maximum(scores[np.arange(len(gold)), gold], _LEAST_PROBABILITY)
        self._loss -= float(np.log(true).sum())
        self._hits += np.bincount(gold[labels == gold], minlength=k)
        self._total += np.bincount(gold, minlength=k) + np.bincount(labels, minlength=k)

    def scores(self, n: int) -> Scores:
        k = len(self._hits)
        each = np.divide(2.0 * self._hits, self._total, out=np.zeros(k), where=self._total > 0)
        f1 = float(each[1]) if k == 2 else float(each[self._total > 0].mean())
        return Scores(self._right / n, f1, self._loss / n)
