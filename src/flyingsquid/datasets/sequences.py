"""Sequences of votes drawn from the model, with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import is_number, told
from flyingsquid.datasets.simulator import Simulation, simulate
from flyingsquid.exceptions import OptionError
from flyingsquid.votes import ABSTAIN, Votes
from flyingsquid.votes.arguments import read_lengths, starts_of


@dataclass(frozen=True, slots=True)
class SequenceSimulation(Simulation):
    """Simulated votes on the rows of sequences, and the truth behind them.

    Attributes
    ----------
    votes, y, accuracies, coverage, class_balance : as in :class:`Simulation`
    lengths : integer array of shape (sequences,)
    transition : array of shape (2, 2)
        P(next = l | now = k).
    """

    lengths: NDArray[np.intp]
    transition: NDArray[np.float64]


def simulate_sequence(
    n_items: int,
    accuracies: ArrayLike,
    *,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    persistence: float = 0.9,
    lengths: Any = None,
    error_persistence: float = 0.0,
    random_state: RandomState = None,
) -> SequenceSimulation:
    """Draw sequences of one binary task whose sources are independent given the truth.

    Parameters
    ----------
    n_items : int
        Rows of all sequences together.
    accuracies, coverage, class_balance, random_state : as in :func:`simulate`
    persistence : float in [0, 1)
        Correlation of neighbouring truths: a row repeats the truth before it this often, and draws a new one
        otherwise.
    lengths : list of integers that add up to ``n_items``, optional
        Rows of each sequence; None is one sequence.
    error_persistence : float in [0, 1)
        How often a source repeats whether it was right, within a sequence. The model knows of no such
        thing: 0 draws from the model.

    Examples
    --------
    >>> video = simulate_sequence(
    ...     1000, [0.9, 0.7], coverage=0.5, persistence=0.8, lengths=[600, 400], random_state=0)
    >>> video.votes
    Votes(1,000 items x 2 sources, classes 0, 1, 49% voted, dense int8)
    >>> video.transition
    array([[0.9, 0.1],
           [0.1, 0.9]])
    """
    for name, share in (("persistence", persistence), ("error_persistence", error_persistence)):
        if not is_number(share) or not 0 <= share < 1:
            raise OptionError(f"{name}={told(share)}; a number from 0 up to, but not including, 1 is needed")
    rng = read_random_state(random_state)
    fresh = simulate(n_items, accuracies, coverage=coverage, class_balance=class_balance, random_state=rng)
    sequences = read_lengths(lengths, n_items)
    starts = starts_of(sequences)
    y = fresh.y[_source_row(rng.random(n_items) < persistence, starts)]
    right = rng.random((n_items, len(fresh.accuracies))) < fresh.accuracies
    if error_persistence > 0:
        repeats = rng.random(right.shape) < error_persistence
        right = np.stack([r[_source_row(s, starts)] for r, s in zip(right.T, repeats.T, strict=True)], axis=1)
    silent = np.asarray(fresh.votes.codes) == ABSTAIN
    votes = np.where(silent, ABSTAIN, np.where(right, y[:, None], 1 - y[:, None])).astype(np.int8)
    transition = persistence * np.eye(2) + (1 - persistence) * fresh.class_balance
    return SequenceSimulation(
        Votes.from_classes(votes, classes=(0, 1)),
        y,
        fresh.accuracies,
        fresh.coverage,
        fresh.class_balance,
        sequences,
        transition,
    )


def _source_row(repeats: NDArray[np.bool_], starts: NDArray[np.intp]) -> NDArray[np.intp]:
    """The row whose fresh draw each row repeats, shape (n,): itself, or the last one before it that drew."""
    repeats[starts] = False
    return np.maximum.accumulate(np.where(repeats, 0, np.arange(len(repeats))))
