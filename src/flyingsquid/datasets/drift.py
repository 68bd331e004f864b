"""Streams of votes whose sources get better or worse, with the truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState, read_random_state
from flyingsquid._values import told
from flyingsquid.datasets.simulator import Simulation, simulate
from flyingsquid.exceptions import OptionError
from flyingsquid.votes import ABSTAIN, Votes

Kind = Literal["none", "sudden", "gradual", "periodic"]


@dataclass(frozen=True, slots=True)
class DriftSimulation(Simulation):
    """Simulated votes of sources that change, and the truth behind them.

    Attributes
    ----------
    votes, y, coverage, class_balance : as in :class:`Simulation`
    accuracies : array of shape (n, m)
        P(vote is right | source votes) at every item.
    """


def simulate_drift(
    n_items: int,
    before: ArrayLike,
    after: ArrayLike,
    *,
    kind: Kind = "sudden",
    at: float = 0.5,
    period: int | None = None,
    coverage: ArrayLike = 1.0,
    class_balance: Any = None,
    random_state: RandomState = None,
) -> DriftSimulation:
    """Draw a stream of one binary task whose sources change between two sets of accuracies.

    Parameters
    ----------
    n_items : int
    before, after : arrays of shape (m,)
        Accuracies at the two ends.
    kind : "none", "sudden", "gradual" or "periodic"
        Always ``before``; ``before`` up to the share ``at`` of the stream and ``after`` from there; in a
        straight line from one to the other; to and fro, as a cosine.
    at : float in (0, 1), for "sudden"
    period : int, for "periodic"
        Items from ``before`` to ``after`` and back; default a fifth of the stream.
    coverage, class_balance, random_state : as in :func:`simulate`

    Examples
    --------
    >>> stream = simulate_drift(1000, [0.9, 0.7], [0.6, 0.7], kind="gradual", random_state=0)
    >>> stream.accuracies[[0, 500, 999]].round(2).tolist()
    [[0.9, 0.7], [0.75, 0.7], [0.6, 0.7]]
    """
    if kind not in get_args(Kind):
        raise OptionError(f"kind={told(kind)} is unknown; one of {', '.join(get_args(Kind))}")
    if not 0 < at < 1:
        raise OptionError(f"at={told(at)}; a share of the stream above 0 and below 1 is needed")
    if period is not None and period < 2:
        raise OptionError(f"period={told(period)}; two items or more are needed")
    first, last = (np.atleast_1d(np.asarray(ends, np.float64)) for ends in (before, after))
    if first.shape != last.shape or not ((last >= 0) & (last <= 1)).all():
        raise OptionError("before and after must be probabilities, one a source in each")
    rng = read_random_state(random_state)
    alone = simulate(n_items, first, coverage=coverage, class_balance=class_balance, random_state=rng)
    share = _share(np.arange(n_items), n_items, kind, at, period)
    accuracies = first + share[:, None] * (last - first)
    silent = np.asarray(alone.votes.codes) == ABSTAIN
    right = rng.random(silent.shape) < accuracies
    votes = np.where(silent, ABSTAIN, np.where(right, alone.y[:, None], 1 - alone.y[:, None]))
    return DriftSimulation(
        Votes.from_classes(votes.astype(np.int8), classes=(0, 1)),
        alone.y,
        accuracies,
        alone.coverage,
        alone.class_balance,
    )


def _share(
    item: NDArray[np.intp], n_items: int, kind: Kind, at: float, period: int | None
) -> NDArray[np.float64]:
    """How far each item is on the way from the one end to the other, shape (n,)."""
    if kind == "none":
        return np.zeros(n_items)
    if kind == "sudden":
        return (item >= at * n_items).astype(np.float64)
    if kind == "gradual":
        return item / max(1, n_items - 1)
    return np.asarray((1 - np.cos(2 * np.pi * item / (period or max(2, n_items // 5)))) / 2)
