"""The model beside majority vote on the same items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.contested import tie_credit
from flyingsquid.analysis.overlaps import look_at_rows
from flyingsquid.analysis.reading import Items, read_items, winners
from flyingsquid.analysis.table import Table
from flyingsquid.exceptions import VotesError

Array = NDArray[np.float64]
# A label that was given no probability at all would cost an infinite log loss.
_LEAST_PROBABILITY = 1e-6
_NORMAL_95 = 1.959963984540054


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
    >>> sample = fs.datasets.simulate(5_000, [0.95, 0.6, 0.6, 0.6], rng=np.random.default_rng(0))
    >>> found = compare_with_majority(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.model.accuracy > found.majority.accuracy + 0.1
    True
    """
    items = read_items(model, votes, y, task=task)
    return compare_items(items)


def compare_items(items: Items) -> Comparison:
    """The same for items that were read already."""
    covered = look_at_rows(items.votes).cast > 0
    tied = (items.shares >= items.shares.max(axis=1, keepdims=True) - 1e-9).sum(axis=1) > 1
    n_covered = int(covered.sum())
    differ = float(((items.labels != items.majority) & ~tied & covered).sum() / max(n_covered, 1))
    facts = (
        items.votes.n_items,
        n_covered,
        n_covered / items.votes.n_items,
        float((tied & covered).sum() / max(n_covered, 1)),
        differ,
    )
    if items.gold is None:
        return Comparison(*facts, 0, None, None, None, None)
    known = items.gold >= 0
    if not known.any():
        raise VotesError("y holds no known class; leave it out where nothing is known")
    gold = items.gold[known]
    posterior, shares = items.posterior[known], items.shares[known]
    each = tie_credit(posterior, gold) - tie_credit(shares, gold)
    gain, error = float(each.mean()), float(each.std() / np.sqrt(len(each)))
    reach = _NORMAL_95 * error
    interval = (gain - reach, gain + reach)
    scores = (score_labels(posterior, gold), score_labels(shares, gold))
    return Comparison(*facts, int(known.sum()), *scores, gain, interval)


def score_labels(posterior: Array, gold: NDArray[Any]) -> Scores:
    """Scores of probabilities of shape (n, K) on n items of known class."""
    at = np.arange(len(gold))
    accuracy = float(tie_credit(posterior, gold).mean())
    loss = float(-np.log(np.maximum(posterior[at, gold], _LEAST_PROBABILITY)).mean())
    labels, n_classes = winners(posterior), posterior.shape[1]
    hits = np.bincount(gold[labels == gold], minlength=n_classes)
    total = np.bincount(gold, minlength=n_classes) + np.bincount(labels, minlength=n_classes)
    each = np.divide(2.0 * hits, total, out=np.zeros(n_classes), where=total > 0)
    f1 = float(each[1]) if n_classes == 2 else float(each[total > 0].mean())
    return Scores(accuracy, f1, loss)
