"""Influence of each source and of the number of items on the labels, by fitting again."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Scalar, Table, Tabular
from flyingsquid._values import RandomState, option_error, read_integer, read_random_state
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.exceptions import NotIdentifiableError, OptionError
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

    Returns
    -------
    LeaveOneOut

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(5_000, [0.9, 0.7, 0.7, 0.6], random_state=0)
    >>> found = leave_one_out(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> int(np.argmax(found.changed)), bool(found.accuracy_change[0] < -0.1)
    (0, True)
    """
    read = _read(model, votes, gold)
    gold = join_by_item(gold, item_ids(votes, read), read.n_items, "gold")
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

    Returns
    -------
    LearningCurve

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
    gold = join_by_item(gold, item_ids(votes, read), read.n_items, "gold")
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
        moved[s, r] = _moved(model, fitted)
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
    return float(np.mean(expected_credit(posterior[known], truth[known])))


def _sizes(n: int, sizes: Sequence[int] | None) -> list[int]:
    if sizes is None:
        halved = [n >> step for step in range(_MOST_SIZES) if n >> step >= _FEWEST_ITEMS or not step]
        return halved[::-1]
    chosen = [int(size) for size in sizes]
    if not chosen or min(chosen) < 1 or max(chosen) > n or sorted(set(chosen)) != chosen:
        raise option_error("sizes", f"increasing integers from 1 to {n:,}", list(sizes))
    return chosen
