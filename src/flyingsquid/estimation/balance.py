"""Class balance: given by the user, or estimated from triples of votes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value
from flyingsquid.estimation.conditional import ConditionalFit, curvature
from flyingsquid.exceptions import OptionError
from flyingsquid.inference.posterior import binary_evidence
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label
from flyingsquid.votes.patterns import compressed

Array = NDArray[np.float64]
UNIFORM_NOTE = "uniform, the default of the method"
"""``balance_note`` of a fit whose method assumes a uniform balance if none is given."""
# The sum of a balance that was typed with a few digits may differ from 1 by this much; it is rescaled.
_SUM_TOLERANCE = 1e-3
# Smaller probabilities underflow before any vote could matter.
_RAREST = 1e-12


def resolve_balance(
    class_balance: Any, classes: tuple[Label, ...]
) -> NDArray[np.float64] | Literal["estimate"] | None:
    """Return P(Y = k), shape (K,), for ``"uniform"`` or K numbers; ``"estimate"`` and None unchanged."""
    n_classes = len(classes)
    class_balance = _in_class_order(class_balance, classes)
    if class_balance is None:
        return None
    if isinstance(class_balance, str) and class_balance == "estimate":
        return "estimate"
    if isinstance(class_balance, str) and class_balance == "uniform":
        return np.full(n_classes, 1 / n_classes)
    wanted = f"one probability for each of the classes {', '.join(map(repr, classes[:8]))}"
    balance = _numbers(class_balance, f"'uniform', 'estimate' or {wanted}")
    if balance.shape != (n_classes,):
        raise OptionError(f"`class_balance` must be {wanted}; got shape {balance.shape}.")
    if not (np.isfinite(balance).all() and (balance >= _RAREST).all()):
        raise OptionError(
            f"`class_balance` must consist of probabilities >= {_RAREST:g}; got {balance.tolist()}. Leave "
            "out classes that cannot occur."
        )
    if not _sums_to_1(balance):
        raise OptionError(
            f"`class_balance` must sum to 1; got {balance.tolist()}, which sums to {balance.sum():.6g}."
        )
    return np.asarray(balance / balance.sum())


@dataclass(frozen=True, slots=True)
class TaskBalance:
    """Class balance of D tasks, if it was given.

    Attributes
    ----------
    tasks : tuple of D
        For each task P(Y = k) as given, ``"estimate"``, or None for the default of the method.
    joint : array of shape (K,) * D, or None
        P(Y_0, Y_1, ...), if the joint table was given.
    """

    tasks: tuple[NDArray[np.float64] | Literal["estimate"] | None, ...]
    joint: NDArray[np.float64] | None = None


def resolve_task_balance(class_balance: Any, classes: tuple[Label, ...], n_tasks: int) -> TaskBalance:
    """Return the balance of every task from the ``class_balance`` that a user passed.

    One balance, as :func:`resolve_balance` reads it, is shared by all tasks. An array (D, K) has one row per
    task. An array (K,) * D, or flat with the last task fastest, is the joint table of all tasks.
    """
    class_balance = _in_class_order(class_balance, classes)
    values = None
    if class_balance is not None and not isinstance(class_balance, str):
        values = _numbers(class_balance, "an array of numbers")
    if n_tasks == 1 or values is None or values.shape == (len(classes),):
        return TaskBalance((resolve_balance(class_balance, classes),) * n_tasks)
    n_classes = len(classes)
    shape = (n_classes,) * n_tasks
    # With as many tasks as classes both forms have the same shape; only the sum distinguishes them.
    is_per_task = values.shape == (n_tasks, n_classes) and not (values.shape == shape and _sums_to_1(values))
    if is_per_task:
        return TaskBalance(tuple(resolve_balance(row, classes) for row in values))
    if values.size == n_classes**n_tasks and values.shape in (shape, (values.size,)):
        return _joint(values.reshape(shape))
    raise OptionError(
        f"`class_balance` must have shape ({n_classes},) for all {n_tasks} tasks, ({n_tasks}, {n_classes}) "
        f"for each task, or {n_classes}^{n_tasks} cells for the joint table; got shape {values.shape}."
    )


def _in_class_order(class_balance: Any, classes: tuple[Label, ...]) -> Any:
    """Return the values of a mapping from classes in the order of the classes; other values unchanged."""
    if not isinstance(class_balance, Mapping):
        return class_balance
    if set(class_balance) != set(classes):
        raise OptionError(
            f"`class_balance` must map each of the classes {format_list(classes)} to a probability; got "
            f"{format_value(dict(class_balance))}.",
            parameter="class_balance",
        )
    return [class_balance[label] for label in classes]


def _numbers(class_balance: Any, wanted: str) -> NDArray[np.float64]:
    try:
        return np.asarray(class_balance, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"`class_balance` must be {wanted}; got {format_value(class_balance)}.") from error


def _sums_to_1(values: NDArray[np.float64]) -> bool:
    return bool(abs(values.sum() - 1) <= _SUM_TOLERANCE)


def _joint(table: NDArray[np.float64]) -> TaskBalance:
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise OptionError(
            "`class_balance` must be > 0 in every cell of a joint table. Pass a small number for "
            "combinations that cannot occur."
        )
    if not _sums_to_1(table):
        raise OptionError(f"`class_balance` must sum to 1 as a joint table; got a sum of {table.sum():.6g}.")
    joint = table / table.sum()
    axes = range(joint.ndim)
    rows = [joint.sum(axis=tuple(other for other in axes if other != task)) for task in axes]
    return TaskBalance(tuple(rows), joint)


# Lower bound of the residual variance, as a share of a source's variance: without it, a source that looks
# perfect by chance would outweigh all others.
_RESIDUAL_FLOOR = 0.05
# An estimate of E[Y] with a larger standard error is not used.
_LARGEST_STANDARD_ERROR = 0.15
# Estimates are clipped to a balance of 1 in 1000, because third moments are noisy.
_MOST_IMBALANCED = 0.998
_CHUNK_CELLS = 1 << 20
# The standard error is computed from at most this many rows, fewer if rows are wide.
_ROWS_FOR_ERROR, _LEAST_ROWS_FOR_ERROR, _CELLS_FOR_ERROR = 20_000, 5_000, 400_000


@dataclass(frozen=True, slots=True)
class BalanceEstimate:
    """Estimate of E[Y] from third moments.

    Attributes
    ----------
    expected : float
        e = E[Y] = P(class 1) - P(class 0).
    error : float
        Its standard error.
    """

    expected: float
    error: float

    @property
    def is_usable(self) -> bool:
        """True if the standard error of E[Y] is at most 0.15."""
        return bool(np.isfinite(self.expected) and self.error <= _LARGEST_STANDARD_ERROR)

    @property
    def balance(self) -> Array:
        """P(class 0), P(class 1)."""
        return np.array([1 - self.expected, 1 + self.expected]) / 2


def estimate_balance(votes: Votes, weights: NDArray[Any] | None, fit: ConditionalFit) -> BalanceEstimate:
    """Estimate E[Y] from all triples of sources, in one more pass over the votes.

    ``weights`` of shape (n,) are the weights of the items.
    """
    score, scale = _scores(fit)
    if not scale > 0:
        return BalanceEstimate(0.0, np.inf)
    skewness = _mean_triple(votes, weights, fit, score) / scale
    expected = -skewness / np.sqrt(4 + skewness**2)
    wanted = max(_CELLS_FOR_ERROR // votes.n_sources, _LEAST_ROWS_FOR_ERROR)
    spread = min(votes.n_items, _ROWS_FOR_ERROR, wanted)
    at = np.arange(spread) * votes.n_items // spread
    moves = skewness_influence(centered_rows(votes[at], fit.centered.mean), fit, skewness)
    counts = np.ones(len(at)) if weights is None else weights[at].astype(np.float64)
    mean = counts @ moves / counts.sum()
    variance = float(counts @ (moves - mean) ** 2 / counts.sum())
    error = float(np.sqrt(variance / fit.centered.n_items))
    return BalanceEstimate(float(np.clip(expected, -_MOST_IMBALANCED, _MOST_IMBALANCED)), error)


def skewness_influence(rows: Array, fit: ConditionalFit, skewness: float) -> Array:
    """Return the influence of each centered row on the estimate of E[Y], shape (n,)."""
    score, scale = _scores(fit)
    if not scale > 0:
        return np.zeros(len(rows))
    moves = _triples(rows * score, fit.groups) / scale - skewness
    moves += _correction(rows, fit, score, scale, skewness)
    return np.asarray(-4 / (4 + skewness**2) ** 1.5 * moves)


def _scores(fit: ConditionalFit) -> tuple[Array, float]:
    """Return the weight of each source in a triple, and the sum over triples of the factors of κ."""
    b, variance = fit.strength, fit.centered.variance
    residual = np.maximum(variance - b**2, _RESIDUAL_FLOOR * variance)
    score = np.divide(b, residual, out=np.zeros_like(b), where=residual > 0)
    return score, float(_triples((b * score)[None, :], fit.groups)[0])


def centered_rows(votes: Votes, mean: Array) -> Array:
    """Return signed votes minus their means, shape (n, m)."""
    codes = votes.to_dense().codes
    # Small integers, because floats take eight times the memory.
    return np.asarray(np.where(codes < 0, 0, 2 * codes - 1) - mean)


def rank_one_influence(rows: Array, fit: ConditionalFit, share: Array | None = None) -> Array:
    """Return the influence of each row on b, shape (n, m); the error of b is its mean over items.

    With ``share`` of shape (m,), return the influence on share @ b, shape (n,).
    """
    b, weights = fit.strength, fit.weights
    moves = rows * (rows @ (weights * b).T) - b * (weights @ b**2)
    # The pseudo-inverse, because a source without any pair makes the system singular.
    inverse = np.linalg.pinv(curvature(fit.centered.covariance, weights, b), rcond=1e-13).T
    return np.asarray(moves @ (inverse if share is None else inverse @ share))


def _mean_triple(votes: Votes, weights: NDArray[Any] | None, fit: ConditionalFit, score: Array) -> float:
    few = compressed(votes.codes, votes.n_classes, weights)
    if few is not None:
        votes, weights = Votes(few[0], votes.classes), few[1]
    mean, apart = fit.centered.mean, len(np.unique(fit.groups)) == votes.n_sources
    # In blocks, because votes are bytes and centered rows are floats.
    total, rows = 0.0, max(1, (_CHUNK_CELLS << 2 if apart else _CHUNK_CELLS) // votes.n_sources)
    for start in range(0, votes.n_items, rows):
        part = slice(start, start + rows)
        if apart:
            values = _triples_of_votes(votes[part], mean, score)
        else:
            values = _triples(centered_rows(votes[part], mean) * score, fit.groups)
        total += float(values.sum() if weights is None else weights[part] @ values)
    return total / float(votes.n_items if weights is None else weights.sum())


def _triples_of_votes(votes: Votes, mean: Array, score: Array) -> Array:
    """Return :func:`_triples` of the scored centered votes if each source is its own group, shape (n,).

    A vote has three states, so a power sum adds one of three numbers per source.
    """
    values = (np.array([-1.0, 1.0, 0.0]) - mean[:, None]) * score[:, None]
    sums = binary_evidence(votes.codes, np.stack([values, values**2, values**3], axis=2))
    return _newton(*sums.T)


def _correction(rows: Array, fit: ConditionalFit, score: Array, scale: float, skewness: float) -> Array:
    """Return the contribution of the estimated means and b to the influence of each row, shape (n,)."""
    b = fit.strength
    ratio = b * score
    inside = np.bincount(fit.groups, ratio)  # one number per group, because only groups are independent
    rest = inside.sum() - inside
    pairs = ((inside.sum() ** 2 - (inside**2).sum()) / 2 - inside * rest)[fit.groups]  # pairs without i's
    by_mean = -(rows @ (score * pairs)) / scale
    share = np.divide(ratio * pairs, b, out=np.zeros_like(b), where=b != 0) / scale
    by_fit = -skewness * rank_one_influence(rows, fit, share)
    return np.asarray(by_mean + by_fit)


def _triples(values: Array, groups: NDArray[np.intp]) -> Array:
    """Sum, for each row, the products of three entries from different groups, shape (n,)."""
    n_groups = int(groups.max()) + 1
    if n_groups < values.shape[1]:
        values = values @ (groups[:, None] == np.arange(n_groups)).astype(np.float64)
    # Products with ones, because NumPy's sums over few columns are slow.
    ones, squares = np.ones(values.shape[1]), values * values
    return _newton(values @ ones, squares @ ones, (squares * values) @ ones)


def _newton(p1: Array, p2: Array, p3: Array) -> Array:
    """Return the sum over triples of products, from sums of powers."""
    # A product, because a power takes ten times as long.
    return np.asarray((p1 * (p1 * p1 - 3 * p2) + 2 * p3) / 6)
