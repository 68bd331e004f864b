"""Class balance as a user gives it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.votes.states import Label

# A balance typed with a few digits may miss 1 by this much; it is then rescaled.
_SUM_TOLERANCE = 1e-3
# No class is rarer than this; with less, numbers run out before any vote could matter.
_RAREST = 1e-12


def resolve_balance(
    class_balance: Any, classes: tuple[Label, ...]
) -> NDArray[np.float64] | Literal["estimate"] | None:
    """P(Y = k), shape (K,), from ``"uniform"`` or K numbers; ``"estimate"`` and None as they are."""
    n_classes = len(classes)
    if class_balance is None:
        return None
    if isinstance(class_balance, str) and class_balance == "estimate":
        return "estimate"
    if isinstance(class_balance, str) and class_balance == "uniform":
        return np.full(n_classes, 1 / n_classes)
    wanted = f"one probability for each of the classes {', '.join(map(repr, classes[:8]))}"
    if isinstance(class_balance, str):
        raise OptionError(
            f"class_balance={told(class_balance)} is unknown; pass 'uniform', 'estimate', or {wanted}"
        )
    try:
        balance = np.asarray(class_balance, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"class_balance={told(class_balance)} cannot be read; pass {wanted}") from error
    if balance.shape != (n_classes,):
        raise OptionError(f"class_balance has shape {balance.shape}; pass {wanted}")
    if not (np.isfinite(balance).all() and (balance >= _RAREST).all()):
        raise OptionError(
            f"class_balance={balance.tolist()} holds a value that is not above 0, or below {_RAREST:g}; a "
            "class that cannot occur is left out of the classes instead"
        )
    if abs(balance.sum() - 1) > _SUM_TOLERANCE:
        raise OptionError(f"class_balance={balance.tolist()} sums to {balance.sum():.6g}, not to 1")
    return np.asarray(balance / balance.sum())


@dataclass(frozen=True, slots=True)
class TaskBalance:
    """The class balance of D tasks, as far as it is known.

    Attributes
    ----------
    tasks : tuple of D
        For each task P(Y = k) as given, ``"estimate"``, or None for what suits the method.
    joint : array of shape (K,) * D, or None
        P(Y_0, Y_1, ...), where it was given whole.
    """

    tasks: tuple[NDArray[np.float64] | Literal["estimate"] | None, ...]
    joint: NDArray[np.float64] | None = None


def resolve_task_balance(class_balance: Any, classes: tuple[Label, ...], n_tasks: int) -> TaskBalance:
    """The balance of every task from what a user gives for all of them.

    One balance, as :func:`resolve_balance` reads it, is shared by all tasks. An array (D, K) has one row a
    task. An array (K,) * D, or flat with the last task fastest, is the joint table of all tasks.
    """
    values = None if class_balance is None or isinstance(class_balance, str) else _numbers(class_balance)
    if n_tasks == 1 or values is None or values.shape == (len(classes),):
        return TaskBalance((resolve_balance(class_balance, classes),) * n_tasks)
    n_classes = len(classes)
    shape = (n_classes,) * n_tasks
    # With as many tasks as classes both readings have one shape; only the sum tells them apart.
    is_per_task = values.shape == (n_tasks, n_classes) and not (values.shape == shape and _sums_to_1(values))
    if is_per_task:
        return TaskBalance(tuple(resolve_balance(row, classes) for row in values))
    if values.size == n_classes**n_tasks and values.shape in (shape, (values.size,)):
        return _joint(values.reshape(shape))
    raise OptionError(
        f"class_balance has shape {values.shape}; pass ({n_classes},) for all {n_tasks} tasks alike, "
        f"({n_tasks}, {n_classes}) for each, or the joint table of {n_classes}^{n_tasks} cells"
    )


def _numbers(class_balance: Any) -> NDArray[np.float64]:
    try:
        return np.asarray(class_balance, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"class_balance={told(class_balance)} cannot be read as numbers") from error


def _sums_to_1(values: NDArray[np.float64]) -> bool:
    return bool(abs(values.sum() - 1) <= _SUM_TOLERANCE)


def _joint(table: NDArray[np.float64]) -> TaskBalance:
    if not (np.isfinite(table).all() and (table > 0).all()):
        raise OptionError(
            "class_balance as a joint table must be above 0 everywhere; give what cannot happen a small "
            "number"
        )
    if not _sums_to_1(table):
        raise OptionError(f"class_balance as a joint table sums to {table.sum():.6g}, not to 1")
    joint = table / table.sum()
    axes = range(joint.ndim)
    rows = [joint.sum(axis=tuple(other for other in axes if other != task)) for task in axes]
    return TaskBalance(tuple(rows), joint)
