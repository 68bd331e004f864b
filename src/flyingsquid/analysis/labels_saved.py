"""Estimate how many gold labels weak supervision saves: a learning curve of a supervised model."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import RandomState, format_count, read_random_state
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.items import read_items, read_votes
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.arguments import item_ids, join_by_item

Array = NDArray[np.float64]
# With fewer gold labels, a curve is mostly noise.
FEWEST_GOLD = 20
# Each repeat tests on this share of the gold labels. Intervals draw the gold labels again this many times.
_TESTED, _REPEATS, _DRAWS = 0.3, 20, 500
# Numbers of labels of the curve grow by this factor from the first on.
_FIRST_SIZE, _GROWTH = 5, 1.6


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class LabelsSaved(Tabular):
    """Number of gold labels that a supervised model needs to match a weakly supervised one.

    Prints as a table.

    Attributes
    ----------
    needed : float
        Estimated number of gold labels; infinite if the supervised model does not reach the accuracy with the
        available labels.
    low, high : float
        95% interval of ``needed``; infinite beyond the largest number of labels.
    weak_accuracy : float
        Accuracy of the end model that was trained on the labels of the label model.
    sizes : integer array of shape (s,)
        Numbers of gold labels that supervised models were trained on.
    accuracies : array of shape (s,)
        Their mean accuracies on other gold labels.
    n_gold : int
        Number of gold labels.
    """

    needed: float
    low: float
    high: float
    weak_accuracy: float
    sizes: NDArray[np.intp]
    accuracies: Array
    n_gold: int

    def sentence(self) -> str:
        """Return the result in one sentence."""
        most, least = int(self.sizes[-1]), int(self.sizes[0])
        weak = f"the weakly supervised model (accuracy {self.weak_accuracy:.1%})"
        if math.isinf(self.needed):
            reached = f"No supervised model with up to {most:,} gold labels matches {weak}"
        elif self.needed <= least:
            reached = f"A supervised model with {least:,} gold labels or fewer matches {weak}"
        else:
            reached = f"A supervised model needs about {self.needed:,.0f} gold labels to match {weak}"
        low = f"at most {least:,}" if self.low <= least else f"{self.low:,.0f}"
        low = f"more than {most:,}" if math.isinf(self.low) else low
        high = f"more than {most:,}" if math.isinf(self.high) else f"{self.high:,.0f}"
        interval = low if low == high else f"{low} to {high}"
        return f"{reached}; 95% interval: {interval}."

    def table(self) -> Table:
        """Return the learning curve, with the result below it."""
        rows: list[tuple[Scalar, ...]] = [
            (int(size), float(value)) for size, value in zip(self.sizes, self.accuracies, strict=True)
        ]
        return Table(
            ("gold labels", "accuracy"), tuple(rows), footnotes=(self.sentence(),), formats=(",d", ".1%")
        )

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON; infinite numbers are None."""
        ends = {name: getattr(self, name) for name in ("needed", "low", "high")}
        return {
            **{name: value if math.isfinite(value) else None for name, value in ends.items()},
            "weak_accuracy": self.weak_accuracy,
            "sizes": self.sizes.tolist(),
            "accuracies": self.accuracies.tolist(),
            "n_gold": self.n_gold,
            "sentence": self.sentence(),
        }


def labels_saved(
    model: Any, votes: Any, X: Any, gold: Any, *, end_model: Any = None, random_state: RandomState = None
) -> LabelsSaved:
    """Estimate how many gold labels a supervised model needs to match the weakly supervised one.

    The same classifier is trained twice on the same features: on the probabilities of the label model,
    without any gold label, and on a growing number of gold labels. Both are scored on gold
    labels that they were not trained on.

    Parameters
    ----------
    model : fitted label model of one task
        If it was fitted with gold labels, a copy is fitted without them.
    votes : as for ``model.predict_proba``
        All n items.
    X : array, sparse matrix, table or list of n rows
        Features of the items.
    gold : sequence of n labels, or mapping or pandas Series by item identifier
        Gold labels of at least 20 items of at least two classes; None, NaN and masked values are unknown, and
        so is -1 unless it is a class. They must be a random sample of the items.
    end_model : classifier, optional
        Default: logistic regression on features that are scaled to [-1, 1].
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator that divides the gold labels. None uses a new seed on every call.

    Returns
    -------
    LabelsSaved
        The number with its interval, and the learning curve. ``sentence()`` sums it up.

    Raises
    ------
    VotesError
        If fewer than 20 gold labels or fewer than two classes are known, or labels cannot be joined.

    Notes
    -----
    In each of 20 repeats, 30% of the gold labels are kept for the scores, and classifiers are trained on
    parts of the others. The curve is made monotone and interpolated on the scale of log labels. The interval
    is that of a bootstrap over the gold labels; it does not cover the choice of the classifier and features.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> data = fs.datasets.load_breast_cancer()
    >>> model = fs.LabelModel().fit(data.votes)
    >>> chosen = np.random.default_rng(0).choice(569, 100, replace=False)
    >>> gold = np.full(569, None)
    >>> gold[chosen] = data.y[chosen]
    >>> saved = fs.labels_saved(model, data.votes, data.features, gold, random_state=0)
    >>> saved.n_gold, saved.weak_accuracy > 0.8
    (100, True)
    """
    from sklearn.base import clone  # scikit-learn is slow to import, and nothing else here needs it
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.isotonic import isotonic_regression
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    from flyingsquid.models.end_model import WeaklySupervisedClassifier, select_rows

    rng = read_random_state(random_state)
    if model is None:
        raise OptionError("`model` must be a fitted label model; got None.", parameter="model")
    read, tasks = read_votes(model, votes)
    if len(tasks) > 1 or hasattr(model, "transition_"):
        raise OptionError(
            "`model` must be for one task and must not be a model of sequences.", parameter="model"
        )
    joined = join_by_item(gold, item_ids(votes, read), read.n_items, "gold")
    truth = read_items(model, read, joined, name="gold").gold
    if truth is None:
        raise OptionError("`gold` must be gold labels; got None.", parameter="gold")
    at = np.flatnonzero(truth >= 0)
    if len(at) < FEWEST_GOLD or len(np.unique(truth[at])) < 2:
        raise VotesError(
            f"`gold` must have at least {FEWEST_GOLD} labels of at least two classes; got "
            f"{format_count(len(at), 'label')} of "
            f"{format_count(len(np.unique(truth[at])), 'class', 'classes')}.",
            parameter="gold",
        )
    classifier = make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=1_000))
    classifier = classifier if end_model is None else end_model
    with capture_source_warnings(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weak = WeaklySupervisedClassifier(classifier, clone(model)).fit(X, read)
        features = select_rows(X, at)
        codes = np.array([read.classes.index(label) for label in weak.predict(features).tolist()])
        sizes, right, tested = _learning_curve(classifier, features, truth[at], rng)
    n, is_right = len(at), (codes == truth[at]).astype(np.float64)
    draws = rng.multinomial(n, np.full(n, 1 / n), _DRAWS)
    found = []
    for weights in np.vstack([np.ones(n), draws]):  # the gold labels themselves, then draws of them
        raw = weights @ right / (weights @ tested)
        curve = isotonic_regression(raw)
        found.append((curve, _needed(sizes, curve, weights @ is_right / weights.sum())))
    curve, needed = found[0]
    low, high = np.quantile([end for _, end in found[1:]], [0.025, 0.975], method="nearest")
    return LabelsSaved(needed, float(low), float(high), float(is_right.mean()), sizes, curve, n)


def _learning_curve(
    classifier: Any, features: Any, y: NDArray[Any], rng: np.random.Generator
) -> tuple[NDArray[np.intp], Array, Array]:
    """Score supervised models on items that they were not trained on.

    Returns
    -------
    sizes : integer array of shape (s,)
        Numbers of gold labels that models are trained on.
    right, tested : arrays of shape (g, s) and (g,)
        How often each of g items was right, and how often it was tested.
    """
    from sklearn.base import clone

    from flyingsquid.models.end_model import select_rows

    n = len(y)
    n_trained = n - max(1, round(_TESTED * n))
    steps = int(math.log(n_trained / _FIRST_SIZE, _GROWTH))
    sizes = np.unique([*(round(_FIRST_SIZE * _GROWTH**step) for step in range(steps + 1)), n_trained])
    right, tested = np.zeros((n, len(sizes))), np.zeros(n)
    for _ in range(_REPEATS):
        order = rng.permutation(n)
        test = order[n_trained:]
        tested[test] += 1
        held_out = select_rows(features, test)
        for column, size in enumerate(sizes.tolist()):
            part = order[:size]
            if len(np.unique(y[part])) == 1:  # nothing to train on
                found = np.full(len(test), y[part[0]])
            else:
                found = clone(classifier).fit(select_rows(features, part), y[part]).predict(held_out)
            right[test, column] += found == y[test]
    return sizes, right, tested


def _needed(sizes: NDArray[np.intp], curve: Array, goal: float) -> float:
    """Return the size at which a monotone curve reaches the goal, interpolated; inf if it does not."""
    at = int(np.searchsorted(curve, goal))
    if at == len(curve):
        return math.inf
    step = slice(max(at - 1, 0), at + 1)
    return float(np.exp(np.interp(goal, curve[step], np.log(sizes[step]))))
