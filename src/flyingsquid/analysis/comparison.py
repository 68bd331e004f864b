"""Labels compared with majority vote and with gold labels: scores, and calibration of probabilities.

Ties are counted as defined in ``votes/decisions.py``. Shares are relative to all items.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table, Tabular
from flyingsquid._values import format_count, read_integer
from flyingsquid.analysis.items import Items, read_items, require_gold
from flyingsquid.estimation.shares import NORMAL_95, wilson
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.fits.diagnostics import Verdict, recommend_by_gold
from flyingsquid.votes.codes import Label
from flyingsquid.votes.decisions import best_classes, expected_credit, label_shares
from flyingsquid.votes.tallies import has_votes, item_votes

Array = NDArray[np.float64]
# A label with probability zero would cost an infinite log loss.
_LEAST_PROBABILITY = 1e-6
_LONGEST_CLASS = 30  # in the name of a score


@dataclass(frozen=True, slots=True)
class Scores:
    """Quality of labels on items with gold labels.

    Attributes
    ----------
    accuracy : float
        Share of correct labels. If t classes tie and one of them is correct, the label counts as 1/t.
    f1 : float
        F1 of the second class for two classes; for more, the mean over the classes that occur as gold labels
        or as labels. A label of t tied classes counts as 1/t of a label of each.
    log_loss : float
        Mean of -log P(gold label), with probabilities of at least 1e-6.
    chance : float
        Accuracy of random labels with the same class frequencies.
    """

    accuracy: float
    f1: float
    log_loss: float
    chance: float


@dataclass(frozen=True, slots=True, repr=False)
class Comparison(Tabular):
    """Labels of a model compared with majority vote.

    Attributes
    ----------
    n_items, n_covered : int
        Number of items, and of items with at least one vote.
    coverage : float
        Share of items with a vote.
    ties : float
        Share of items with votes on which several classes have the most votes.
    differ : float
        Share of items whose label differs from majority vote. Items without votes and ties are not
        counted.
    classes : tuple of K labels
    n_gold : int
        Number of gold labels.
    model, majority : Scores, or None without gold labels
        Scores on all items with gold labels: ``accuracy``, ``f1`` and ``log_loss``.
    gain : float or None
        Accuracy of the model minus that of majority vote.
    gain_interval : pair of floats or None
        95% interval of the gain.

    If there are gold labels, ``verdict`` recommends the model or majority vote.
    """

    n_items: int
    n_covered: int
    coverage: float
    ties: float
    differ: float
    classes: tuple[Label, ...]
    n_gold: int
    model: Scores | None
    majority: Scores | None
    gain: float | None
    gain_interval: tuple[float, float] | None

    def sentence(self) -> str:
        """Return the result in one or two sentences."""
        text = f"The model disagrees with majority vote on {self.differ:.1%} of items"
        undecided = []
        if self.ties > 0:
            undecided.append(f"is tied on {self.ties:.1%}")
        if self.coverage < 1:
            undecided.append(f"has no votes on {1 - self.coverage:.1%}")
        if undecided:
            text += f"; majority vote {' and '.join(undecided)}"
        if self.model is None or self.majority is None:
            return f"{text}. Compare both with gold labels to see which is more accurate."
        ties = " if ties are broken at random" if undecided else ""
        return (
            f"{text}. On {format_count(self.n_gold, 'item')} with gold labels, the accuracy of the model is "
            f"{self.model.accuracy:.1%} and that of majority vote {self.majority.accuracy:.1%}{ties}."
        )

    @property
    def f1_name(self) -> str:
        """Name of the scores ``f1``, with the class that they are about."""
        about = str(self.classes[1]) if len(self.classes) == 2 else "mean over classes"
        return f"F1 ({about if len(about) <= _LONGEST_CLASS else about[: _LONGEST_CLASS - 3] + '...'})"

    @property
    def verdict(self) -> Verdict | None:
        """Recommendation based on gold labels; None without gold labels."""
        if self.gain is None or self.gain_interval is None:
            return None
        return recommend_by_gold(self.gain, self.gain_interval, self.n_gold)

    @property
    def is_majority_below_chance(self) -> bool:
        """True if majority vote is significantly less accurate than random labels on gold labels."""
        if self.majority is None:
            return False
        _, high = wilson(np.array(self.majority.accuracy), np.array(self.n_gold))
        return bool(high < self.majority.chance)

    def table(self) -> Table:
        """Return the scores as a table with one row for the model and one for majority vote."""
        sides = (("model", self.model), ("majority vote", self.majority))
        rows = tuple(
            (name, None, None, None) if s is None else (name, s.accuracy, s.f1, s.log_loss)
            for name, s in sides
        )
        formats = ("", ".1%", ".3f", ".3f")
        notes = (self.sentence(), *([] if self.verdict is None else [str(self.verdict)]))
        columns = ("labels", "accuracy", "f1", "log_loss")
        headings = ("labels", "accuracy", self.f1_name, "log_loss")
        return Table(columns, rows, footnotes=notes, formats=formats, headings=headings)


def compare_with_majority(
    model: Any, votes: Any, y: Any = None, *, task: int | None = None, features: Any = None
) -> Comparison:
    """Compare the labels of a fitted model with majority vote.

    Parameters
    ----------
    model : fitted label model
    votes : as for ``model.predict_proba``
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class. If they are
        given, both are scored.
    task : int, optional
        Task to analyze, for a model of several tasks.
    features : as for ``model.predict_proba``, optional
        Features of the items, for a model that was fitted with features.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(5_000, [0.95, 0.6, 0.6, 0.6], random_state=0)
    >>> found = compare_with_majority(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.model.accuracy > found.majority.accuracy + 0.1
    True
    """
    return compare_items(read_items(model, votes, y, task=task, features=features))


def compare_items(items: Items) -> Comparison:
    """Compare the labels of items with majority vote."""
    running = RunningComparison(items.votes.classes)
    running.add(items.posterior, items.shares, item_votes(items.votes.codes).n_votes)
    if items.gold is not None:
        require_gold(items.gold)
        known = items.gold >= 0
        running.add_known(items.posterior[known], items.shares[known], items.gold[known])
    return running.result()


class RunningComparison:
    """Running sums of a :class:`Comparison`. Memory does not grow with the number of items.

    Parameters
    ----------
    classes : tuple of K labels

    Examples
    --------
    >>> running = RunningComparison(("ham", "spam"))
    >>> running.add(np.array([[0.2, 0.8]]), np.array([[0.5, 0.5]]), np.array([2]), times=np.array([3]))
    >>> found = running.result()
    >>> found.n_items, found.ties, found.differ
    (3, 1.0, 0.0)
    """

    def __init__(self, classes: tuple[Label, ...]) -> None:
        self._classes = classes
        self._items = self._covered = self._tied = self._differ = 0
        self._gold = 0
        self._sides = (_ScoreSums(len(classes)), _ScoreSums(len(classes)))
        self._gains = np.zeros(2)  # their sum, and the sum of their squares

    def add(
        self, posterior: Array, shares: Array, cast: NDArray[Any], *, times: NDArray[Any] | None = None
    ) -> None:
        """Add items.

        Parameters
        ----------
        posterior, shares : arrays of shape (n, K)
            P(Y = k | votes) by the model, and shares of the votes.
        cast : integer array of shape (n,)
            Votes on each item.
        times : integer array of shape (n,), optional
            How often each row counts.
        """
        weights = np.ones(len(cast), np.int64) if times is None else times
        covered, most = cast > 0, best_classes(shares)
        tied = most.sum(axis=1) > 1
        self._items += int(weights.sum())
        self._covered += int(weights[covered].sum())
        self._tied += int(weights[covered & tied].sum())
        self._differ += int(weights[differs_from(posterior, shares)].sum())

    def add_known(self, posterior: Array, shares: Array, gold: NDArray[Any]) -> None:
        """Add items to the scores: arrays of shape (n, K), and the codes of n gold labels."""
        if not len(gold):
            return
        self._gold += len(gold)
        for side, scores in zip(self._sides, (posterior, shares), strict=True):
            side.add(scores, gold)
        each = expected_credit(posterior, gold) - expected_credit(shares, gold)
        self._gains += (each.sum(), (each**2).sum())

    def result(self) -> Comparison:
        """Return the comparison on all items so far."""
        n = max(self._items, 1)
        facts = (
            self._items,
            self._covered,
            self._covered / n,
            self._tied / n,
            self._differ / n,
            self._classes,
        )
        if not self._gold:
            return Comparison(*facts, 0, None, None, None, None)
        gain, square = (float(total) for total in self._gains / self._gold)
        # One more item on which they differ, so that few gold labels without any do not count as certainty.
        more = 1 / self._gold if self._differ or square else 0.0
        reach = NORMAL_95 * float(np.sqrt(max(square - gain**2 + more, 0.0) / self._gold))
        model, majority = (side.scores(self._gold) for side in self._sides)
        return Comparison(*facts, self._gold, model, majority, gain, (gain - reach, gain + reach))


def differs_from(posterior: Array, shares: Array) -> NDArray[np.bool_]:
    """Return whether a label differs from majority vote, shape (n,); False if majority vote is tied.

    An item without votes has equal shares, which is a tie.
    """
    most = best_classes(shares)
    return np.asarray((most.sum(axis=1) == 1) & ~(best_classes(posterior) & most).any(axis=1))


def score_labels(posterior: Array, gold: NDArray[Any]) -> Scores:
    """Score labels of shape (n, K) against n gold labels, all of them known.

    >>> found = score_labels(np.array([[0.5, 0.5], [0.2, 0.8], [0.9, 0.1]]), np.array([1, 1, 1]))
    >>> found.accuracy, round(found.f1, 3)
    (0.5, 0.667)
    """
    sums = _ScoreSums(posterior.shape[1])
    sums.add(posterior, gold)
    return sums.scores(len(gold))


class _ScoreSums:
    """Running sums of :class:`Scores`."""

    def __init__(self, n_classes: int) -> None:
        self._right = self._loss = 0.0
        self._hits = np.zeros(n_classes)
        self._gold = np.zeros(n_classes)
        self._labels = np.zeros(n_classes)

    def add(self, scores: Array, gold: NDArray[Any]) -> None:
        k = len(self._hits)
        credit = expected_credit(scores, gold)
        self._right += float(credit.sum())
        true = np.maximum(scores[np.arange(len(gold)), gold], _LEAST_PROBABILITY)
        self._loss -= float(np.log(true).sum())
        self._hits += np.bincount(gold, credit, minlength=k)
        self._gold += np.bincount(gold, minlength=k)
        self._labels += label_shares(scores).sum(axis=0)

    def scores(self, n: int) -> Scores:
        k = len(self._hits)
        total = self._gold + self._labels
        each = np.divide(2.0 * self._hits, total, out=np.zeros(k), where=total > 0)
        f1 = float(each[1]) if k == 2 else float(each[total > 0].mean())
        return Scores(self._right / n, f1, self._loss / n, float(self._gold @ self._labels) / n**2)


# ---------------------------------------------------------------------- calibration


_MOST_BINS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Observed frequency of an event, by its predicted probability.

    Attributes
    ----------
    event : str
        Event whose probability is predicted.
    edges : array of shape (b + 1,)
        Edges of the bins.
    counts : integer array of shape (b,)
        Items in each bin.
    probability : array of shape (b,)
        Mean probability in each bin; NaN in an empty bin.
    observed : array of shape (b,)
        Share of items in each bin for which the event occurred.
    low, high : arrays of shape (b,)
        Ends of the 95% interval of ``observed`` (Wilson).
    error : float
        Expected calibration error: mean of ``|probability - observed|``, bins weighted by their counts.
    """

    event: str
    edges: Array
    counts: NDArray[np.int64]
    probability: Array
    observed: Array
    low: Array
    high: Array
    error: float

    def _repr_html_(self) -> str:
        columns = (self.edges[:-1], self.edges[1:], self.counts, self.probability, self.observed)
        rows = tuple(zip(*(column.tolist() for column in columns), strict=True))
        head = ("from", "to", "items", "probability", "observed")
        title = f"{self.event}: expected calibration error {self.error:.3f}"
        return Table(head, rows, title, formats=(".2f", ".2f", ",", ".3f", ".3f"))._repr_html_()


def calibration(
    model: Any, votes: Any, y: Any, *, bins: int = 10, task: int | None = None, features: Any = None
) -> Calibration:
    """Compare the probabilities of a fitted model with gold labels.

    For two classes the event is the second class; for more, that the label is correct. Items without a gold
    label or without votes are not counted.

    Parameters
    ----------
    model : fitted label model
    votes : as for ``model.predict_proba``
    y : array of shape (n,)
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class.
    bins : int, default=10
        Number of bins of equal width.
    task, features : optional
        As in :func:`~flyingsquid.analysis.compare_with_majority`.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(20_000, [0.8, 0.75, 0.7, 0.65], random_state=0)
    >>> found = calibration(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.event, found.error < 0.03
    ('P(1)', True)
    """
    items = read_items(model, votes, y, task=task, features=features)
    if items.gold is None:
        raise OptionError("`y` must be gold labels; got None.")
    kept = (items.gold >= 0) & has_votes(items.votes.codes)
    if not kept.any():
        raise VotesError("`y` must have a gold label for at least one item with votes; got none.")
    classes = items.votes.classes
    if len(classes) == 2:
        return calibrate(items.posterior[kept, 1], items.gold[kept] == 1, f"P({classes[1]})", bins=bins)
    right = expected_credit(items.posterior[kept], items.gold[kept])
    return calibrate(items.posterior[kept].max(axis=1), right, "P(label is right)", bins=bins)


def calibrate(probability: Array, occurred: NDArray[Any], event: str, *, bins: int = 10) -> Calibration:
    """Compare probabilities of shape (n,) with whether the event occurred.

    >>> rained = np.array([False, False, True, False])
    >>> found = calibrate(np.array([0.1, 0.1, 0.9, 0.9]), rained, "rain", bins=2)
    >>> found.counts.tolist(), found.observed.tolist(), round(found.error, 3)
    ([2, 2], [0.0, 0.5], 0.25)
    """
    bins = read_integer("bins", bins, 1, _MOST_BINS)
    edges = np.linspace(0.0, 1.0, bins + 1)
    at = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, bins - 1)
    counts = np.bincount(at, minlength=bins).astype(np.int64)
    filled = counts > 0
    mean, observed = (
        np.divide(np.bincount(at, values, minlength=bins), counts, out=np.full(bins, np.nan), where=filled)
        for values in (probability, occurred)
    )
    low, high = wilson(observed, counts)
    error = float(np.sum(counts[filled] * np.abs(mean - observed)[filled]) / max(int(counts.sum()), 1))
    return Calibration(event, edges, counts, mean, observed, low, high, error)
