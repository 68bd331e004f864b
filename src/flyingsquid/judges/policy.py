"""Policy of adaptive asking: choice of the next judge, and stopping rules. Pure functions on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

# All judges are asked about this many items first, or about a fifth of the items if that is less, but not
# about fewer than the second number. Thresholds are calibrated on these items.
_PILOT_ITEMS, _FEWEST_PILOT_ITEMS = 200, 30
# Steps of the golden ratio spread items evenly, regardless of periods in their order.
_GOLDEN_RATIO = (1 + 5**0.5) / 2
_PLASTIC_RATIO = 1.324717957244746  # in two dimensions
# Judges take turns if their values differ by less than this share. Otherwise, the labels of all items would
# contain the errors of the one or two best judges. With turns, accuracy on llm_civilcomments is .5 points
# higher, and the spread between pilots is half as large.
_TURNS = 0.5
_CHUNK_CELLS = 1 << 20
# Lower limit of probabilities, so that logarithms are finite.
_TINY = 1e-12
# Thresholds that are compared, evenly spaced among the scores of the pilot.
_THRESHOLDS = 100
_LEAST_ERROR = 1e-4


def pilot_size(n_items: int) -> int:
    """Return the default number of items that all judges are asked about.

    >>> pilot_size(5_000), pilot_size(400), pilot_size(20)
    (200, 80, 20)
    """
    return min(n_items, max(_FEWEST_PILOT_ITEMS, min(_PILOT_ITEMS, n_items // 5)))


def spread_items(n_items: int, size: int) -> NDArray[np.intp]:
    """Return ``size`` different items, spread evenly, in ascending order; always the same ones.

    >>> spread_items(10, 4)
    array([0, 2, 5, 7])
    """
    order = np.argsort(np.arange(n_items) * _GOLDEN_RATIO % 1, kind="stable")
    return np.asarray(np.sort(order[:size]))


# ---------------------------------------------------------------------- value of a vote


def information(posterior: Array, tables: Array) -> Array:
    """Return the expected information of the next vote of each judge about the class, in nats.

    Parameters
    ----------
    posterior : array of shape (n, K)
        P(Y = k | votes so far).
    tables : array of shape (m, K, K)
        P(vote v | Y = k) of each judge, axes judge, truth, vote.

    Returns
    -------
    array of shape (n, m)
        Mutual information of Y and the vote given the votes so far: the expected decrease of the entropy of
        Y, ``H(vote) - sum_k P(Y = k) H(vote | Y = k)``. The expected gain of accuracy is not suitable,
        because it is 0 unless a single vote can change the label.

    Examples
    --------
    >>> perfect, useless = np.eye(2), np.full((2, 2), 0.5)
    >>> information(np.array([[0.5, 0.5], [1.0, 0.0]]), np.stack([perfect, useless])).round(3)
    array([[0.693, 0.   ],
           [0.   , 0.   ]])
    """
    votes = np.einsum("nk,mkv->nmv", posterior, tables, optimize=True)
    # Rounding may give a tiny negative value.
    return np.maximum(_entropy(votes) - posterior @ _entropy(tables).T, 0.0)


def _entropy(shares: Array) -> Array:
    return np.asarray(-(shares * np.log(np.maximum(shares, _TINY))).sum(axis=-1))


def choose_judges(
    posterior: Array,
    tables: Array,
    can_ask: Mask,
    *,
    costs: Array,
    asked: Mask | None = None,
    shared: Array | None = None,
    items: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.intp], Array]:
    """Choose for each item the judge with the largest expected value per cost.

    Returns the judges and these values, each of shape (n,); -1 and 0 if no judge can be asked.

    Parameters
    ----------
    posterior : array of shape (n, K)
    tables : array of shape (m, K, K)
    can_ask : mask of shape (n, m)
    costs : array of shape (m,)
        Cost of one vote of each judge.
    asked : mask of shape (n, m), optional
        Judges that were asked about the item, needed with ``shared``.
    shared : array of shape (m, m), optional
        Share of the evidence that two judges have in common: 1 for copies, 0 if independent.
    items : array of shape (n,), optional
        Positions of the items. If given, judges of similar value take turns.

    Examples
    --------
    >>> tables = np.array([[[0.9, 0.1], [0.1, 0.9]], [[0.8, 0.2], [0.2, 0.8]]])
    >>> even = np.array([[0.5, 0.5]])
    >>> choose_judges(even, tables, np.array([[True, True]]), costs=np.array([1.0, 1.0]))[0]
    array([0])
    >>> choose_judges(even, tables, np.array([[True, True]]), costs=np.array([3.0, 1.0]))[0]
    array([1])
    """
    n, m = can_ask.shape
    chosen, values = np.full(n, -1, np.intp), np.zeros(n)
    related = np.empty(0, np.intp) if shared is None else np.flatnonzero(shared.any(axis=0))
    step = max(1, _CHUNK_CELLS // (m * tables.shape[1]))
    for start in range(0, n, step):
        part = slice(start, start + step)
        value = information(posterior[part], tables) / costs
        if shared is not None and asked is not None and len(related):
            value[:, related] /= 1 + asked[part][:, related] @ shared[np.ix_(related, related)]
        value = np.where(can_ask[part], value, -1.0)
        best = (value if items is None else value * _turns(items[part], m)).argmax(axis=1)
        top = value[np.arange(len(best)), best]
        chosen[part] = np.where(top >= 0, best, -1)
        values[part] = np.maximum(top, 0.0)
    return chosen, values


def _turns(items: NDArray[np.intp], n_judges: int) -> Array:
    """Return factors from 1 to 1 + _TURNS that differ by item and judge, shape (n, m)."""
    shift = items[:, None] * _GOLDEN_RATIO + np.arange(n_judges) * _PLASTIC_RATIO
    return np.asarray(1 + _TURNS * (shift % 1))


def within_budget(costs: Array, room: float) -> Mask:
    """Return a mask of the calls to make, taken in order, with a total cost of at most ``room``.

    >>> within_budget(np.array([2.0, 5.0, 1.0]), 3.5)
    array([ True, False,  True])
    """
    if costs.sum() <= room:
        return np.ones(len(costs), np.bool_)
    taken = np.zeros(len(costs), np.bool_)
    for at, cost in enumerate(costs):
        if cost <= room:
            taken[at] = True
            room -= cost
    return taken


# ---------------------------------------------------------------------- stopping


def loss_features(errors: Array, n_asked: NDArray[Any], n_left: NDArray[Any]) -> Array:
    """Return the predictors of the loss of stopping, shape (..., 4).

    These are a constant, the estimated log odds of the label, and logarithms of the numbers of judges that
    were asked and that are left.
    """
    # Beyond these limits, the estimated error carries no further information.
    clipped = np.clip(errors, _LEAST_ERROR, 1 - _LEAST_ERROR)
    odds = np.log1p(-clipped) - np.log(clipped)
    return np.stack([np.ones_like(odds), odds, np.log1p(n_asked), np.log1p(n_left)], axis=-1)


def settled_score(scores: Array, is_stage: Mask, tolerance: float) -> float:
    """Return the largest score at which labels count as settled; minus infinity if there is none.

    If items stop as soon as their score is at most this, the expected loss is at most ``tolerance`` on
    average over all items. Expected losses vary less between pilots than realized ones: a pilot has only
    three or four labels that change.

    Parameters
    ----------
    scores : array of shape (n, s)
        Log odds of the expected loss if each pilot item is stopped after 1, 2, ..., s calls.
    is_stage : mask of shape (n, s)
        Whether a judge is left to ask.
    tolerance : float

    Examples
    --------
    >>> scores = np.tile([-1.0, -3.0, -5.0], (100, 1))  # expected losses of 27%, 5% and 1%
    >>> settled_score(scores, np.ones((100, 3), bool), 0.05)
    -3.0
    """
    candidates = np.unique(scores[is_stage])[::-1]
    some = np.unique(np.linspace(0, len(candidates) - 1, min(len(candidates), _THRESHOLDS)).astype(np.intp))
    expected = (1 + np.tanh(scores / 2)) / 2  # the logistic function, without overflow
    for threshold in candidates[some]:
        stops = is_stage & (scores <= threshold)
        first = expected[np.arange(len(stops)), stops.argmax(axis=1)]
        if np.where(stops.any(axis=1), first, 0.0).mean() <= tolerance:
            return float(threshold)
    return -np.inf
