"""Class balance as a user gives it."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError
from flyingsquid.votes.states import Label

# A balance typed with a few digits may miss 1 by this much; it is then rescaled.
_SUM_TOLERANCE = 1e-3


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
            f"class_balance={class_balance!r} is unknown; pass 'uniform', 'estimate', or {wanted}"
        )
    try:
        balance = np.asarray(class_balance, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise OptionError(f"class_balance={class_balance!r} cannot be read; pass {wanted}") from error
    if balance.shape != (n_classes,):
        raise OptionError(f"class_balance has shape {balance.shape}; pass {wanted}")
    if not (np.isfinite(balance).all() and (balance > 0).all()):
        raise OptionError(
            f"class_balance={balance.tolist()} holds a value that is not above 0; a class that "
            "cannot occur is left out of the classes instead"
        )
    if abs(balance.sum() - 1) > _SUM_TOLERANCE:
        raise OptionError(f"class_balance={balance.tolist()} sums to {balance.sum():.6g}, not to 1")
    return np.asarray(balance / balance.sum())
