"""Votes drawn from the model, with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import is_whole, told
from flyingsquid.estimation.balance import resolve_balance
from flyingsquid.exceptions import OptionError
from flyingsquid.votes import ABSTAIN, Votes

_MOST_VOTES = 1 << 40


@dataclass(frozen=True, slots=True)
class Simulation:
    """Simulated votes and the truth behind them.

    Attributes
    ----------
    votes : Votes of shape (n, m)
    y : int8 array of shape (n,)
        True classes, 0 or 1.
    accuracies, coverage : arrays of shape (m,)
        P(vote is right | source votes), P(source votes).
    class_balance : array of shape (2,)
    """

    votes: Votes
    y: NDArray[np.int8]
    accuracies: NDArray[np.float64]
    coverage: NDArray[np.float64]
    class_balance: NDArray[np.float64]


def simulate(
    n_items: int,
    accuracies: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    random_state: RandomState = None,
) -> Simulation:
    """Draw one binary task whose sources are independent given the truth.

    Parameters
    ----------
    n_items : int
    accuracies : array of shape (m,)
        P(vote is right | source votes), equal for both classes.
    coverage : number or array of shape (m,)
        P(source votes), whatever the truth.
    class_balance : None for uniform, or P(Y=0), P(Y=1)
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator of the draws. None draws differently every time.

    Examples
    --------
    >>> sample = simulate(1000, [0.9, 0.7, 0.6], coverage=0.5, random_state=0)
    >>> sample.votes
    Votes(1,000 items x 3 sources, classes 0, 1, 50% voted, dense int8)
    """
    right, votes_at = read_sources(n_items, accuracies, coverage)
    rng = read_random_state(random_state)
    balance = read_balance(class_balance, 2)
    y = (rng.random(n_items) < balance[1]).astype(np.int8)
    shape = (n_items, len(right))
    votes = np.where(rng.random(shape) < right, y[:, None], 1 - y[:, None])
    votes = np.where(rng.random(shape) < votes_at, votes, ABSTAIN).astype(np.int8)
    return Simulation(Votes.from_classes(votes, classes=(0, 1)), y, right, votes_at, balance)


def read_balance(class_balance: Any, n_classes: int) -> NDArray[np.float64]:
    """P(Y = k) to draw from, shape (K,); even where none is given."""
    balance = resolve_balance("uniform" if class_balance is None else class_balance, tuple(range(n_classes)))
    if not isinstance(balance, np.ndarray):
        raise OptionError("class_balance must be known to draw from it")
    return balance


def read_sources(
    n_items: int, accuracies: ArrayLike, coverage: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Accuracies and coverages as a user gives them, both of shape (m,)."""
    if not is_whole(n_items) or n_items < 1:
        raise OptionError(f"n_items={told(n_items)}; at least one item is needed")
    try:
        right = np.atleast_1d(np.asarray(accuracies, np.float64))
        votes_at = np.asarray(coverage, np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionError(f"accuracies and coverage must be probabilities: {error}") from error
    if n_items * right.size > _MOST_VOTES:
        raise OptionError(f"n_items={told(n_items, 30)} of {right.size:,} sources do not fit into memory")
    votes_at = np.full(right.shape, votes_at) if votes_at.ndim == 0 else votes_at
    if votes_at.shape != right.shape:
        raise OptionError(
            f"coverage has shape {votes_at.shape}; one number, or one for each of {len(right)} sources"
        )
    for name, values in (("accuracies", right), ("coverage", votes_at)):
        if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
            raise OptionError(f"{name} must be probabilities, one a source")
    return right, votes_at
