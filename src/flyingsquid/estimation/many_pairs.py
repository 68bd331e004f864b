"""How two truths of K classes depend on each other, from votes alone.

For i on task a and j on task b, Cov(1{λᵢ = v}, 1{λⱼ = w}) = Σ P(v | Y_a = k) C_kl P(w | Y_b = l) with
C = P(Y_a, Y_b) less the product of its margins. In contrasts of variance 1 the unknown is a matrix of
correlations, and least squares over all pairs of sources across the edge finds it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.contrasts import Instruments
from flyingsquid.estimation.margins import fit_margins
from flyingsquid.estimation.task_pairs import SAYS_NOTHING
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
# A detector whose errors are rarer than this has none that could persist.
_LEAST_NOISE = 1e-6


@dataclass(frozen=True, slots=True)
class ManyPair:
    """Two neighbouring truths.

    Attributes
    ----------
    table : array of shape (K, K)
        P(Y_a, Y_b), every cell above 0; independent as far as the votes leave it open.
    excess : array of shape (s,), or empty
        For each pair of sources that is one detector on both tasks: how much its errors agree beyond what the
        truths explain, as a correlation.
    """

    table: Array
    excess: Array


def pair_of_many(
    moments: Moments,
    instruments: tuple[Instruments, Instruments],
    balance: tuple[Array, Array],
    margins: tuple[Array, Array],
    *,
    same_detectors: bool,
) -> ManyPair:
    """Solve for one task edge.

    Parameters
    ----------
    moments : counts of the sources of task a, then those of task b
    instruments : the sources of both tasks
    balance : two arrays of shape (K,)
        P(Y = k) as the votes have it.
    margins : two arrays of shape (K,)
        P(Y = k) as the table is to have it.
    same_detectors : bool
        Whether source i of task a and source i of task b are one detector. Its errors persist from one frame
        to the next, so it is not asked about the truths, as long as others can be; its excess is reported.
    """
    first, second = instruments
    covariance = _across(moments, len(first.tables))
    scaled = covariance * first.scale[:, :, None, None] * second.scale
    correlation = _correlation(scaled, first.design, second.design, moments.n_items, same_detectors)
    moved = first.basis @ correlation @ second.basis.T
    apart = np.outer(*balance)
    floor = np.minimum(0.5 / moments.n_items, apart / 2)
    table = fit_margins(np.maximum(apart + moved, floor), *margins)
    excess = _excess(covariance, moved, first, second) if same_detectors else np.zeros(0)
    return ManyPair(table, excess)


def _across(moments: Moments, n_first: int) -> Array:
    """Cov(1{i votes v}, 1{j votes w}) of the first sources with the others, axes i, v, j, w."""
    pairs = moments.joint_counts(range(n_first), range(n_first, moments.n_sources))
    rates = np.asarray(moments.vote_counts) / moments.n_items
    return np.asarray(pairs / moments.n_items - rates[:n_first, :, None, None] * rates[n_first:])


def _correlation(scaled: Array, first: Array, second: Array, n_items: float, same_detectors: bool) -> Array:
    """Correlations of the contrasts of two truths, shape (K - 1, K - 1)."""
    size = first.shape[2]
    pull = np.einsum("ivc,ivjw,jwd->cd", first, scaled, second, optimize=True)
    left, right = (np.einsum("ivc,ivd->icd", design, design) for design in (first, second))
    system = np.kron(left.sum(axis=0), right.sum(axis=0))
    found, known = _solve(system, pull, n_items)
    if same_detectors:
        own = np.einsum("ivc,iviw,iwd->cd", first, scaled, second, optimize=True)
        same = np.einsum("icp,idq->cdpq", left, right).reshape(size**2, size**2)
        others, known_to_others = _solve(system - same, pull - own, n_items)
        if known_to_others == known:
            return others
    return found


def _solve(system: Array, pull: Array, n_items: float) -> tuple[Array, int]:
    """Least squares in the directions that the votes determine, and how many these are."""
    sizes, directions = np.linalg.eigh(system)
    # Votes are scaled to noise of variance 1, so a correlation has variance 1/(n size). One with a larger
    # standard error may be anything.
    known = n_items * sizes * SAYS_NOTHING**2 > 1
    weights = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=known)
    found = directions @ (weights * (directions.T @ pull.ravel()))
    return found.reshape(pull.shape), int(known.sum())


def _excess(covariance: Array, moved: Array, first: Instruments, second: Instruments) -> Array:
    explained = np.einsum("ikv,kl,ilv->iv", first.tables, moved, second.tables)
    beyond = np.einsum("iviv->iv", covariance) - explained
    size = np.sqrt(first.noise.sum(axis=1) * second.noise.sum(axis=1))
    share = np.divide(beyond.sum(axis=1), size, out=np.full(len(size), np.nan), where=size > _LEAST_NOISE)
    return np.clip(share, -1.0, 1.0)
