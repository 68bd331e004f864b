"""Influence of sources, items and gold labels on the labels, by fitting again."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import RandomState, format_count, option_error, read_integer, read_random_state
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.items import read_items, read_votes
from flyingsquid.exceptions import NotIdentifiableError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.solvers import get_solver
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import item_ids, join_by_item, join_labels, read_task_gold
from flyingsquid.votes.decisions import expected_credit, winners
from flyingsquid.votes.encode import as_column

Array = NDArray[np.float64]
# A learning curve labels at most this many items, and starts with at least this many.
_MOST_LABELED, _FEWEST_ITEMS = 20_000, 50
_MOST_SIZES, _MOST_REPEATS = 6, 10_000


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LeaveOneOut(Tabular):
    """Effect of leaving out each of m sources.

    Attributes
    ----------
    source_names : tuple of m str
    changed : array of shape (m,)
        Share of labels that change; NaN if the model cannot be fitted without the source.
    shift : array of shape (m,)
        Mean change of the probabilities of an item, ``Σ |ΔP(Y = k)| / 2``.
    accuracy_change : array of shape (m,), or None without gold labels
        Accuracy without the source minus accuracy with it: negative for a source that helps.
    accuracy : float or None
        Accuracy with all sources on the gold labels.
    """

    source_names: tuple[str, ...]
    changed: Array
    shift: Array
    accuracy_change: Array | None
    accuracy: float | None

    def table(self) -> Table:
        """Return a table with one row per source, the most influential first."""
        order = np.argsort(-np.nan_to_num(self.changed, nan=np.inf), kind="stable")
        columns: dict[str, tuple[Sequence[Scalar], str]] = {
            "source": ([self.source_names[i] for i in order], ""),
            "changed": (self.changed[order].tolist(), ".2%"),
            "shift": (self.shift[order].tolist(), ".4f"),
        }
        notes = ["changed: share of labels that change without the source"]
        if self.accuracy_change is not None and self.accuracy is not None:
            columns["accuracy_change"] = (self.accuracy_change[order].tolist(), "+.2%")
            notes.append(
                f"accuracy_change: accuracy without the source minus {self.accuracy:.1%} with all sources"
            )
        return Table.of_columns(columns, footnotes=tuple(notes))


def leave_one_out(
    model: LabelModel | MajorityVote, votes: Any, y: Any = None, *, gold: Any = None
) -> LeaveOneOut:
    """Fit the model without each source in turn, and compare the labels.

    Cost: m fits, and labeling all items m times.

    Parameters
    ----------
    model : fitted LabelModel or MajorityVote of one task
    votes : Votes that the model was fitted on
    y : array of shape (n,), optional
        Gold labels, to measure the change of accuracy; they are not used in any fit.
    gold : array of shape (n,), mapping {item: label} or pandas Series, optional
        Gold labels that the model was fitted with, if any.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(5_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> found = leave_one_out(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> int(np.argmax(found.changed)), bool(found.accuracy_change[0] < -0.1)
    (0, True)
    """
    read = _read(model, votes, gold)
    gold = join_by_item(gold, item_ids(votes, read, gold), read.n_items, "gold")
    y = join_labels(y, votes, read)
    truth = None if y is None else read_task_gold(y, read.classes, (read.n_items, 1), "y")[:, 0]
    whole = model.predict_proba(read)
    m = read.n_sources
    changed, shift, right = np.full(m, np.nan), np.full(m, np.nan), np.full(m, np.nan)
    accuracy = None if truth is None else _accuracy(whole, truth)
    for j in range(m):
        without = _without(model, read, j, gold)
        if without is None:
            continue
        changed[j] = float(np.mean(winners(without) != winners(whole)))
        shift[j] = float(np.abs(without - whole).sum(axis=1).mean() / 2)
        if truth is not None and accuracy is not None:
            right[j] = _accuracy(without, truth) - accuracy
    return LeaveOneOut(read.source_names, changed, shift, None if truth is None else right, accuracy)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class LearningCurve(Tabular):
    """Effect of the number of items on the labels.

    Attributes
    ----------
    sizes : integer array of shape (s,)
        Number of items fitted.
    same : array of shape (s, r)
        Share of labels that are the same as with all items, in r repeats; NaN if a fit failed.
    moved : array of shape (s, r)
        Root mean square difference of the estimated accuracies from those with all items, without sources
        that always abstain; NaN for a model that estimates none.
    accuracy : array of shape (s, r), or None without gold labels
    """

    sizes: NDArray[np.int64]
    same: Array
    moved: Array
    accuracy: Array | None

    def table(self) -> Table:
        """Return a table with one row per size, means over the repeats."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a size at which every fit failed
            columns: dict[str, tuple[Sequence[Scalar], str]] = {
                "items": (self.sizes.tolist(), ","),
                "same": (np.nanmean(self.same, axis=1).tolist(), ".1%"),
                "moved": (np.nanmean(self.moved, axis=1).tolist(), ".3f"),
            }
            if self.accuracy is not None:
                columns["accuracy"] = (np.nanmean(self.accuracy, axis=1).tolist(), ".1%")
        note = (
            "same: labels as with all items; moved: distance of estimated accuracies from those of all items"
        )
        return Table.of_columns(columns, footnotes=(note,))


def learning_curve(
    model: LabelModel | MajorityVote,
    votes: Any,
    y: Any = None,
    *,
    random_state: RandomState = None,
    sizes: Sequence[int] | None = None,
    repeats: int = 5,
    gold: Any = None,
) -> LearningCurve:
    """Fit the model on samples of the items, and compare labels and accuracies with those of all items.

    Cost: one fit for each size and repeat, and each time labeling at most 20,000 items, drawn once.

    Parameters
    ----------
    model : fitted LabelModel or MajorityVote of one task
    votes : Votes that the model was fitted on
    y : array of shape (n,), optional
        Gold labels, to measure the accuracy; they are not used in any fit.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator that draws the samples. None uses a new seed on every call.
    sizes : increasing sequence of int, optional
        Numbers of items. By default all items are halved repeatedly, to at most six sizes of at least 50.
    repeats : int, default=5
        Samples of each size.
    gold : array of shape (n,), mapping {item: label} or pandas Series, optional
        Gold labels that the model was fitted with, if any.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(4_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> curve = learning_curve(model, sample.votes, random_state=1, repeats=2)
    >>> curve.sizes.tolist()
    [125, 250, 500, 1000, 2000, 4000]
    >>> bool(curve.same[-1].min() == 1), bool(curve.moved[0].mean() > curve.moved[-2].mean())
    (True, True)
    """
    rng = read_random_state(random_state)
    read = _read(model, votes, gold)
    gold = join_by_item(gold, item_ids(votes, read, gold), read.n_items, "gold")
    chosen = _sizes(read.n_items, sizes)
    repeats = read_integer("repeats", repeats, 1, _MOST_REPEATS)
    labeled = np.sort(rng.permutation(read.n_items)[:_MOST_LABELED])
    shown = read[labeled]
    y = join_labels(y, votes, read)
    truth = None if y is None else read_task_gold(y, read.classes, (read.n_items, 1), "y")[:, 0][labeled]
    whole = winners(model.predict_proba(shown))
    shape = (len(chosen), repeats)
    same, moved, right = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    for (s, r), _ in np.ndenumerate(same):
        part = np.sort(rng.permutation(read.n_items)[: chosen[s]])
        fitted = _fitted(model, read[part], None if gold is None else as_column(gold, "gold")[part])
        if fitted is None:
            continue
        posterior = fitted.predict_proba(shown)
        same[s, r] = float(np.mean(winners(posterior) == whole))
        moved[s, r] = _measure_change(model, fitted)
        if truth is not None:
            right[s, r] = _accuracy(posterior, truth)
    return LearningCurve(np.asarray(chosen, np.int64), same, moved, None if truth is None else right)


def _read(model: Any, votes: Any, gold: Any) -> Votes:
    """Return the votes as the model reads them; raise an error for a model that cannot be fitted again."""
    if not isinstance(model, (LabelModel, MajorityVote)):
        raise OptionError(f"`model` must be a fitted LabelModel or MajorityVote; got {type(model).__name__}.")
    read = model.read_votes(votes)
    if isinstance(model, MajorityVote):
        return read
    if model.graph_.n_tasks > 1:
        raise OptionError(
            f"`model` must have one task; got {model.graph_.n_tasks}. Fit each task separately."
        )
    if getattr(get_solver(model.method), "triplets", None) is not None:
        raise OptionError(
            "`model` must not use `triplets`, which name sources that are left out; use another method."
        )
    if model.fit_.uses_gold and gold is None:
        raise OptionError("The model was fitted with gold labels; pass them again as `gold`.")
    return read


def _without(model: Any, votes: Votes, left_out: int, gold: Any) -> Array | None:
    """Return posteriors without one source, shape (n, K); None if the model cannot be fitted."""
    others = [i for i in range(votes.n_sources) if i != left_out]
    part = votes.of_sources(others)
    again = _fitted(_for_sources(model, others), part, gold) if others else None
    return None if again is None else np.asarray(again.predict_proba(part))


def _for_sources(model: Any, kept: list[int]) -> Any:
    """Return an unfitted model for some of the sources."""
    again = _unfitted(model)
    if isinstance(model, MajorityVote):
        return again
    at = {old: new for new, old in enumerate(kept)}
    if isinstance(model.graph, DependencyGraph):
        edges = [(at[a], at[b]) for a, b in model.graph.source_edges if a in at and b in at]
        again.set_params(graph=DependencyGraph(len(kept), source_edges=edges))
    if not isinstance(model.signs, str):
        names = {model.source_names_[i]: i for i in range(len(model.source_names_))}
        places = {names.get(source, source): sign for source, sign in dict(model.signs).items()}
        again.set_params(signs={at[i]: sign for i, sign in places.items() if i in at} or "average")
    return again


def _unfitted(model: Any) -> Any:
    from sklearn.base import clone  # slow to import

    return clone(model)


def _fitted(model: Any, votes: Votes, gold: Any = None) -> Any:
    """Return a copy of the model fitted on votes; None if that is not possible."""
    known = {} if gold is None else {"gold": gold}
    with capture_source_warnings():  # m warnings about the same sources would not help
        try:
            return _unfitted(model).fit(votes, **known)
        except NotIdentifiableError:
            return None


def _measure_change(model: Any, fitted: Any) -> float:
    whole, part = getattr(model, "accuracies_", None), getattr(fitted, "accuracies_", None)
    if whole is None or part is None:
        return float("nan")
    voting = (model.coverage_ > 0) & (fitted.coverage_ > 0)
    return float(np.sqrt(np.mean((whole - part)[voting] ** 2))) if voting.any() else float("nan")


def _accuracy(posterior: Array, truth: NDArray[Any]) -> float:
    known = truth >= 0
    if not known.any():
        return float("nan")
    return float(np.mean(expected_credit(posterior[known], truth[known])))


def _sizes(n: int, sizes: Sequence[int] | None) -> list[int]:
    if sizes is None:
        halved = [n >> step for step in range(_MOST_SIZES) if n >> step >= _FEWEST_ITEMS or not step]
        return halved[::-1]
    chosen = [int(size) for size in sizes]
    if not chosen or min(chosen) < 1 or max(chosen) > n or sorted(set(chosen)) != chosen:
        raise option_error("sizes", f"increasing integers from 1 to {n:,}", list(sizes))
    return chosen


# ---------------------------------------------------------------------- gold labels saved

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

    from flyingsquid.models.end_model import WeaklySupervisedClassifier, require_item_order, select_rows

    rng = read_random_state(random_state)
    if model is None:
        raise OptionError("`model` must be a fitted label model; got None.", parameter="model")
    read, tasks = read_votes(model, votes)
    if len(tasks) > 1 or hasattr(model, "transition_"):
        raise OptionError(
            "`model` must be for one task and must not be a model of sequences.", parameter="model"
        )
    require_item_order(X, votes, read, "X")
    joined = join_by_item(gold, item_ids(votes, read, gold), read.n_items, "gold")
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
