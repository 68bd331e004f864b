"""What the labels owe to each source, and to the number of items: by fitting again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._table import Scalar, Table
from flyingsquid._values import is_whole, told
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.analysis.reading import winners
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.moments import Moments
from flyingsquid.solvers import get_solver
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import read_task_gold

Array = NDArray[np.float64]
# Methods whose fit is a function of the counts of pairs, given the class balance.
# A learning curve labels at most so many items, and begins with at least so many.
_MOST_LABELLED, _FEWEST_ITEMS = 20_000, 50
_MOST_SIZES, _MOST_REPEATS = 6, 10_000


@dataclass(frozen=True, slots=True, eq=False)
class LeaveOneOut:
    """What becomes of the labels without each of m sources.

    Attributes
    ----------
    source_names : tuple of m texts
    changed : array of shape (m,)
        Share of the labels that change; NaN where the others do not suffice for a fit.
    shift : array of shape (m,)
        Mean of how far the probabilities of an item move, half of ``Σ |ΔP(Y = k)|``.
    accuracy_change : array of shape (m,), or None without known labels
        Accuracy without the source less that with it: negative for a source that helps.
    accuracy : float or None
        With all sources, on the items of known class.
    """

    source_names: tuple[str, ...]
    changed: Array
    shift: Array
    accuracy_change: Array | None
    accuracy: float | None

    def table(self) -> Table:
        """One row a source, the most influential first."""
        order = np.argsort(-np.nan_to_num(self.changed, nan=np.inf), kind="stable")
        columns: dict[str, tuple[Array, str]] = {
            "changed": (self.changed, ".2%"),
            "shift": (self.shift, ".4f"),
        }
        notes = ["changed: share of the labels that are different without the source"]
        if self.accuracy_change is not None and self.accuracy is not None:
            columns["accuracy_change"] = (self.accuracy_change, "+.2%")
            notes.append(f"accuracy_change: without the source, from {self.accuracy:.1%} with all")
        rows: list[tuple[Scalar, ...]] = [
            (self.source_names[i], *(float(values[i]) for values, _ in columns.values())) for i in order
        ]
        formats = ("", *(spec for _, spec in columns.values()))
        return Table(("source", *columns), tuple(rows), footnotes=tuple(notes), formats=formats)

    def __str__(self) -> str:
        return str(self.table())


def leave_one_out(
    model: LabelModel | MajorityVote, votes: Any, y: Any = None, *, gold: Any = None
) -> LeaveOneOut:
    """Fit without each source in turn, and see which labels change.

    Cost: m fits and m times labelling all items. Methods that count pairs once (``"triplet"``,
    medians of triplets with a given balance, without a graph) are solved again from the same counts.

    Parameters
    ----------
    model : a fitted LabelModel or MajorityVote, of one task
    votes : what it was fitted on
    y : array of shape (n,), optional
        True classes, to see what each source does to the accuracy; they have no part in any fit.
    gold : optional
        The known labels that the model was fitted with, if it was.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(5_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> found = leave_one_out(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> int(np.argmax(found.changed)), bool(found.accuracy_change[0] < -0.1)
    (0, True)
    """
    read = _read(model, votes, gold)
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


@dataclass(frozen=True, slots=True, eq=False)
class LearningCurve:
    """How labels settle with the number of items that were fitted.

    Attributes
    ----------
    sizes : integer array of shape (s,)
        Items fitted; the last is all of them.
    same : array of shape (s, r)
        Share of the labels that equal those of all items, in r repeats; NaN where a fit was refused.
    moved : array of shape (s, r)
        Root mean square of how far the estimated accuracies are from those of all items, sources that never
        vote left out; NaN for a model that estimates none.
    accuracy : array of shape (s, r), or None without known labels
    """

    sizes: NDArray[np.int64]
    same: Array
    moved: Array
    accuracy: Array | None

    def table(self) -> Table:
        """One row a size, means over the repeats."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a size at which every fit was refused
            columns: dict[str, tuple[Array, str]] = {
                "same": (np.nanmean(self.same, axis=1), ".1%"),
                "moved": (np.nanmean(self.moved, axis=1), ".3f"),
            }
            if self.accuracy is not None:
                columns["accuracy"] = (np.nanmean(self.accuracy, axis=1), ".1%")
        rows: list[tuple[Scalar, ...]] = [
            (int(size), *(float(values[i]) for values, _ in columns.values()))
            for i, size in enumerate(self.sizes)
        ]
        note = "same: labels equal to those of all items; moved: how far estimated accuracies are from those"
        formats = (",", *(spec for _, spec in columns.values()))
        return Table(("items", *columns), tuple(rows), footnotes=(note,), formats=formats)

    def __str__(self) -> str:
        return str(self.table())


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
    """Fit on parts of the items, and see how far labels and accuracies are from those of all.

    Cost: one fit for each size and repeat, and each time labelling at most 20,000 items, drawn once.

    Parameters
    ----------
    model : a fitted LabelModel or MajorityVote, of one task
    votes : what it was fitted on
    y : array of shape (n,), optional
        True classes; they have no part in any fit.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator that draws the parts. None draws differently every time.
    sizes : increasing numbers of items, optional
        Default: halving from all items, at most six sizes of at least 50 items.
    repeats : int
    gold : optional
        The known labels that the model was fitted with, if it was.

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
    chosen = _sizes(read.n_items, sizes)
    _check_repeats(repeats)
    labelled = np.sort(rng.permutation(read.n_items)[:_MOST_LABELLED])
    shown = read[labelled]
    truth = None if y is None else read_task_gold(y, read.classes, (read.n_items, 1), "y")[:, 0][labelled]
    whole = winners(model.predict_proba(shown))
    shape = (len(chosen), repeats)
    same, moved, right = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    for (s, r), _ in np.ndenumerate(same):
        part = np.sort(rng.permutation(read.n_items)[: chosen[s]])
        fitted = _fitted(model, read[part], None if gold is None else np.asarray(gold)[part])
        if fitted is None:
            continue
        posterior = fitted.predict_proba(shown)
        same[s, r] = float(np.mean(winners(posterior) == whole))
        moved[s, r] = _moved(model, fitted)
        if truth is not None:
            right[s, r] = _accuracy(posterior, truth)
    return LearningCurve(np.asarray(chosen, np.int64), same, moved, None if truth is None else right)


def _read(model: Any, votes: Any, gold: Any) -> Votes:
    """The votes as the model reads them, or an error for a model that cannot be fitted again."""
    if not isinstance(model, (LabelModel, MajorityVote)):
        raise OptionError(f"a fitted LabelModel or MajorityVote is needed, not {type(model).__name__}")
    read = model.read_votes(votes)
    if isinstance(model, MajorityVote):
        return read
    if model.graph_.n_tasks > 1:
        raise OptionError("models of several tasks are not fitted again; look at the tasks one by one")
    if getattr(get_solver(model.method), "triplets", None) is not None:
        raise OptionError(
            "`triplets` of the solver names sources that are left out; use a method without it."
        )
    if model.fit_.gold is not None and gold is None:
        raise OptionError("The model was fitted with gold labels; pass them again as `gold`.")
    return read


def _without(model: Any, votes: Votes, left_out: int, gold: Any) -> Array | None:
    """Posteriors without one source, shape (n, K); None where the others do not suffice."""
    others = [i for i in range(votes.n_sources) if i != left_out]
    if not others:
        return None
    part = votes.of_sources(others)
    if _by_counts(model, gold):
        counts = model.moments_.select(others)
        again = _attempt(lambda: clone(model).fit_moments(counts))
        return None if again is None else np.asarray(again.predict_proba(_renamed(part, counts)))
    again = _fitted(_for_sources(model, others), part, gold)
    return None if again is None else np.asarray(again.predict_proba(part))


def _by_counts(model: Any, gold: Any) -> bool:
    if isinstance(model, MajorityVote) or gold is not None:
        return False
    if get_solver(model.method).requires.rows != "unused":
        return False
    estimated = isinstance(model.class_balance, str) and model.class_balance == "estimate"
    return len(model.classes_) == 2 and model.graph is None and model.signs == "average" and not estimated


def _renamed(votes: Votes, counts: Moments) -> Votes:
    """Votes under the names of the counts, which have some where the votes have none."""
    return Votes(votes.codes, votes.classes, counts.names)


def _for_sources(model: Any, kept: list[int]) -> Any:
    """An unfitted model of some of the sources."""
    again = clone(model)
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


def _fitted(model: Any, votes: Votes, gold: Any = None) -> Any:
    """Return a copy of the model fitted on votes; None if these do not suffice."""
    known = {} if gold is None else {"gold": gold}
    return _attempt(lambda: clone(model).fit(votes, **known))


def _attempt(fit: Any) -> Any:
    with capture_source_warnings():  # m warnings about the same sources would not help
        try:
            return fit()
        except NotIdentifiableError:
            return None


def _moved(model: Any, fitted: Any) -> float:
    whole, part = getattr(model, "accuracies_", None), getattr(fitted, "accuracies_", None)
    if whole is None or part is None:
        return float("nan")
    voting = (model.coverage_ > 0) & (fitted.coverage_ > 0)
    return float(np.sqrt(np.mean((whole - part)[voting] ** 2))) if voting.any() else float("nan")


def _accuracy(posterior: Array, truth: NDArray[Any]) -> float:
    known = truth >= 0
    if not known.any():
        return float("nan")
    return float(np.mean(winners(posterior[known]) == truth[known]))


def _sizes(n: int, sizes: Sequence[int] | None) -> list[int]:
    if sizes is None:
        halved = [n >> step for step in range(_MOST_SIZES) if n >> step >= _FEWEST_ITEMS or not step]
        return halved[::-1]
    chosen = [int(size) for size in sizes]
    if not chosen or min(chosen) < 1 or max(chosen) > n or sorted(set(chosen)) != chosen:
        raise OptionError(
            f"sizes={told(list(sizes))}; increasing numbers of items from 1 to {n:,} are needed"
        )
    return chosen


def _check_repeats(repeats: Any) -> None:
    if not is_whole(repeats) or not 1 <= repeats <= _MOST_REPEATS:
        raise OptionError(f"repeats={told(repeats)} is no number of repeats, 1 to {_MOST_REPEATS:,}")
