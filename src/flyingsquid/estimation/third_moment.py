"""The class balance from votes alone: a lopsided truth leaves its mark on triples of votes.

With cᵢ the centred vote of source i, E[cᵢcⱼcₖ] = κ bᵢbⱼbₖ for sources independent given Y, where
κ = -2e/√(1-e²) is the skewness of Y and e = E[Y]. Hence e = -κ/√(4+κ²), in closed form. All triples
are pooled in O(nm): a sum over triples of products is a polynomial in power sums (Newton).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.conditional import ConditionalFit
from flyingsquid.estimation.rank_one import curvature
from flyingsquid.infer.posterior import binary_evidence
from flyingsquid.votes import Votes
from flyingsquid.votes.distinct import compressed

Array = NDArray[np.float64]
# Residual variance below this share of a source's variance is not believed: the weight of a
# seemingly perfect source would drown all others.
_RESIDUAL_FLOOR = 0.05
# An estimate of E[Y] with a larger standard error says too little to be used.
_TOO_WIDE = 0.15
# A balance is not believed beyond 1 in 1000.
_MOST_LOPSIDED = 0.998
_CHUNK_CELLS = 1 << 20
# The standard error needs no more rows than this, and of wide rows fewer.
_ROWS_FOR_ERROR, _LEAST_ROWS_FOR_ERROR, _CELLS_FOR_ERROR = 20_000, 5_000, 400_000


@dataclass(frozen=True, slots=True)
class BalanceEstimate:
    """E[Y] from third moments.

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
        """Whether the estimate says anything: a standard error of E[Y] of at most 0.15."""
        return bool(np.isfinite(self.expected) and self.error <= _TOO_WIDE)

    @property
    def balance(self) -> Array:
        """P(class 0), P(class 1)."""
        return np.array([1 - self.expected, 1 + self.expected]) / 2


def estimate_balance(votes: Votes, weights: NDArray[Any] | None, fit: ConditionalFit) -> BalanceEstimate:
    """Pool all triples of sources, in one more pass over the votes.

    ``weights`` say how often each item counts, shape (n,).
    """
    score, scale = _scores(fit)
    if not scale > 0:
        return BalanceEstimate(0.0, np.inf)
    skewness = _mean_triple(votes, weights, fit, score) / scale
    expected = -skewness / np.sqrt(4 + skewness**2)
    wanted = max(_CELLS_FOR_ERROR // votes.n_sources, _LEAST_ROWS_FOR_ERROR)
    spread = min(votes.n_items, _ROWS_FOR_ERROR, wanted)
    at = np.arange(spread) * votes.n_items // spread
    moves = skewness_influence(centred_rows(votes[at], fit.centered.mean), fit, skewness)
    counts = np.ones(len(at)) if weights is None else weights[at].astype(np.float64)
    mean = counts @ moves / counts.sum()
    variance = float(counts @ (moves - mean) ** 2 / counts.sum())
    error = float(np.sqrt(variance / fit.centered.n_items))
    return BalanceEstimate(float(np.clip(expected, -_MOST_LOPSIDED, _MOST_LOPSIDED)), error)


def skewness_influence(rows: Array, fit: ConditionalFit, skewness: float) -> Array:
    """How much each centred row moves the estimate of E[Y], shape (n,)."""
    score, scale = _scores(fit)
    if not scale > 0:
        return np.zeros(len(rows))
    moves = _triples(rows * score, fit.groups) / scale - skewness
    moves += _correction(rows, fit, score, scale, skewness)
    return np.asarray(-4 / (4 + skewness**2) ** 1.5 * moves)


def _scores(fit: ConditionalFit) -> tuple[Array, float]:
    """The weight of each source in a triple, and the sum over triples of what it multiplies κ by."""
    b, variance = fit.strength, fit.centered.variance
    residual = np.maximum(variance - b**2, _RESIDUAL_FLOOR * variance)
    score = np.divide(b, residual, out=np.zeros_like(b), where=residual > 0)
    return score, float(_triples((b * score)[None, :], fit.groups)[0])


def centred_rows(votes: Votes, mean: Array) -> Array:
    """Signed votes less their means, shape (n, m)."""
    codes = votes.to_dense().codes
    signed = np.where(codes < 0, 0, 2 * codes - 1)  # small integers as long as that lasts
    return np.asarray(signed - mean)


def rank_one_influence(rows: Array, fit: ConditionalFit, share: Array | None = None) -> Array:
    """How much each row moves b, shape (n, m): the error of b is the mean of these over items.

    With ``share`` (m,) how much it moves share @ b, shape (n,).
    """
    b, weights = fit.strength, fit.weights
    moves = rows * (rows @ (weights * b).T) - b * (weights @ b**2)
    # The pseudo-inverse: a source that is linked to nothing leaves the system singular.
    inverse = np.linalg.pinv(curvature(fit.centered.covariance, weights, b), rcond=1e-13).T
    return np.asarray(moves @ (inverse if share is None else inverse @ share))


def _mean_triple(votes: Votes, weights: NDArray[Any] | None, fit: ConditionalFit, score: Array) -> float:
    few = compressed(votes.codes, votes.n_classes, weights)
    if few is not None:
        votes, weights = Votes(few[0], votes.classes), few[1]
    mean, apart = fit.centered.mean, len(np.unique(fit.groups)) == votes.n_sources
    # Votes are bytes, and centred rows are floats.
    total, rows = 0.0, max(1, (_CHUNK_CELLS << 2 if apart else _CHUNK_CELLS) // votes.n_sources)
    for start in range(0, votes.n_items, rows):
        part = slice(start, start + rows)
        if apart:
            values = _triples_of_votes(votes[part], mean, score)
        else:
            values = _triples(centred_rows(votes[part], mean) * score, fit.groups)
        total += float(values.sum() if weights is None else weights[part] @ values)
    return total / float(votes.n_items if weights is None else weights.sum())


def _triples_of_votes(votes: Votes, mean: Array, score: Array) -> Array:
    """As :func:`_triples` of the scored centred votes, where each source is a group of its own, shape (n,).

    A source says one of three things, so a power sum is a sum of one of three numbers a source.
    """
    values = (np.array([-1.0, 1.0, 0.0]) - mean[:, None]) * score[:, None]
    sums = binary_evidence(votes.codes, np.stack([values, values**2, values**3], axis=2))
    return _newton(*sums.T)


def _correction(rows: Array, fit: ConditionalFit, score: Array, scale: float, skewness: float) -> Array:
    """What the estimated means and b add to a row's influence on the skewness, shape (n,)."""
    b = fit.strength
    ratio = b * score
    inside = np.bincount(fit.groups, ratio)  # one number a group, since only groups are independent
    rest = inside.sum() - inside
    pairs = ((inside.sum() ** 2 - (inside**2).sum()) / 2 - inside * rest)[fit.groups]  # pairs without i's
    by_mean = -(rows @ (score * pairs)) / scale
    share = np.divide(ratio * pairs, b, out=np.zeros_like(b), where=b != 0) / scale
    by_fit = -skewness * rank_one_influence(rows, fit, share)
    return np.asarray(by_mean + by_fit)


def _triples(values: Array, groups: NDArray[np.intp]) -> Array:
    """Σ over triples of different groups of the product of three entries of each row, shape (n,)."""
    n_groups = int(groups.max()) + 1
    if n_groups < values.shape[1]:
        values = values @ (groups[:, None] == np.arange(n_groups)).astype(np.float64)
    # Products with ones: sums over few columns are slow.
    ones, squares = np.ones(values.shape[1]), values * values
    return _newton(values @ ones, squares @ ones, (squares * values) @ ones)


def _newton(p1: Array, p2: Array, p3: Array) -> Array:
    """The sum over triples of products, from sums of powers."""
    return np.asarray((p1 * (p1 * p1 - 3 * p2) + 2 * p3) / 6)  # a power takes ten times as long
