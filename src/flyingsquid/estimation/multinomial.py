"""Bayesian multinomial regression: the most probable coefficients, the evidence, and leave-one-out logits.

The logits of item n are ``offset[n] + shared[n] @ a + own[n] @ B``. All elements of a, shape (s,), and of B,
shape (r, K), have a standard normal prior; other prior deviations are factors of the features.

Coefficients are found by Newton's method, with steps by conjugate gradients, which need no matrix of
coefficients. Only the evidence and leave-one-out logits need the covariance of the logits. It follows from
the curvature by the coefficients, or from one unknown per item and class (the dual), whichever is less work.
The prior covariance of the logits has one block per class, all equal, plus rank s. So the dual takes K + 1
factorizations of a matrix of items by items (Rasmussen and Williams 2006, section 3.5), whatever the number
of coefficients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # imports scipy.linalg on first use, which takes long
from numpy.typing import NDArray

Array = NDArray[np.float64]
# Newton's method stops if the expected gain in log probability is this small. Conjugate gradients reduce the
# residual of a step to this part.
_MOST_PASSES, _TOLERANCE, _LEAST_STEP, _RESIDUAL = 50, 1e-7, 1e-6, 0.03
# Directions of features with a smaller part of the largest sum of squares than this are rounding errors.
_ROUNDING = 1e-12


class Regression(NamedTuple):
    """Result of :func:`fit_multinomial`.

    Attributes
    ----------
    shared : array of shape (s,)
    own : array of shape (r, K)
    evidence : float
        Log probability of the labels under the prior, by Laplace's approximation (MacKay 1992).
    left_out : callable
        Returns the logits of every item by a fit without it, shape (g, K).
    """

    shared: Array
    own: Array
    evidence: float
    left_out: Callable[[], Array]


def fit_multinomial(
    offset: Array, shared: Array, own: Array, labels: NDArray[np.intp], share: Array
) -> Regression:
    """Fit multinomial regression with a standard normal prior.

    Parameters
    ----------
    offset : array of shape (g, K)
        Logits if all coefficients are 0.
    shared : array of shape (g, K, s)
        Features with a value for every class, and a coefficient for all of them.
    own : array of shape (g, r)
        Features with a coefficient for every class.
    labels : integer array of shape (g,)
    share : array of shape (g,)
        How often each item counts.

    Notes
    -----
    Without item n, its logits are, by one Newton step, z + J (I - S J)^-1 (p - y), where J is the covariance
    of the logits z by the curvature at the optimum, and S = diag(p) - p p' (Rad and Maleki 2020).
    """
    g, n_classes = offset.shape
    # Items of weight 0 would make the dual singular.
    share = np.maximum(share, 1e-9)
    design = _Design(shared, own)
    truth = np.zeros_like(offset)
    truth[np.arange(g), labels] = 1.0
    at, logits = np.zeros(design.n_coefficients), offset
    value = float(share @ log_loss(offset, labels))
    for _ in range(_MOST_PASSES):
        p = softmax(logits)
        slope = design.sums(share[:, None] * (p - truth)) + at
        step = _newton_step(design, p, share, slope)
        adds, expected = design.logits(step), -float(slope @ step)
        if expected < _TOLERANCE:
            at, logits, value = at + step, logits + adds, value - expected / 2
            break
        size = 1.0
        while size > _LEAST_STEP:
            tried, moved = at + size * step, logits + size * adds
            new = float(share @ log_loss(moved, labels)) + float(tried @ tried) / 2
            if new <= value - size * expected / 4:
                break
            size /= 2
        at, logits, value = tried, moved, new
    p = softmax(logits)
    by_coefficient, by_item = _operations(g, n_classes, own.shape[1])
    spread = (_ByCoefficient if by_coefficient <= by_item else _ByItem)(shared, own, share, p)

    def left_out() -> Array:
        return logits + _left_out(p, share[:, None] * (p - truth), share, *spread.covariance())

    return Regression(*design.split(at), -value - spread.log_determinant / 2, left_out)


class _Design:
    """Linear map from coefficients (a, then the rows of B) to logits."""

    def __init__(self, shared: Array, own: Array) -> None:
        self._shape, self._s = shared.shape[:2], shared.shape[2]
        self._shared, self._own = np.ascontiguousarray(shared).reshape(-1, self._s), own
        self.n_coefficients = self._s + own.shape[1] * self._shape[1]

    def split(self, coefficients: Array) -> tuple[Array, Array]:
        return coefficients[: self._s], coefficients[self._s :].reshape(-1, self._shape[1])

    def logits(self, coefficients: Array) -> Array:
        shared, own = self.split(coefficients)
        return np.asarray((self._shared @ shared).reshape(self._shape) + self._own @ own)

    def sums(self, values: Array) -> Array:
        """Return the transpose of the map, times ``values`` of shape (g, K)."""
        return np.concatenate([values.ravel() @ self._shared, (self._own.T @ values).ravel()])

    def shared_curvature(self, p: Array, share: Array) -> Array:
        """Return the curvature by the coefficients of shared features, shape (s, s)."""
        values = self._shared.reshape(*self._shape, self._s)
        centered = values - np.einsum("gk,gks->gs", p, values)[:, None, :]
        weighted = (share[:, None] * p)[:, :, None] * centered
        return np.asarray(np.eye(self._s) + self._shared.T @ weighted.reshape(-1, self._s))


def _newton_step(design: _Design, p: Array, share: Array, slope: Array) -> Array:
    """Return the Newton step by conjugate gradients, preconditioned by the curvature of shared features.

    These are logarithms, and much larger than the votes. Without other preconditioning, candidates for 1,000
    labels of ten classes take 2 to 14 products with the curvature per step.
    """
    weights, inverse = share[:, None] * p, np.linalg.inv(design.shared_curvature(p, share))

    def preconditioned(residual: Array) -> Array:
        return np.concatenate([inverse @ residual[: len(inverse)], residual[len(inverse) :]])

    step, residual = np.zeros_like(slope), -slope
    direction = preconditioned(residual)
    size = first = float(residual @ direction)
    for _ in range(len(slope)):
        if size <= _RESIDUAL**2 * first:
            break
        logits = design.logits(direction)
        bent = design.sums(weights * (logits - np.einsum("gk,gk->g", p, logits)[:, None])) + direction
        length = size / float(direction @ bent)
        step, residual = step + length * direction, residual - length * bent
        ahead = preconditioned(residual)
        last, size = size, float(residual @ ahead)
        direction = ahead + size / last * direction
    return step


def least_operations(g: int, n_classes: int, r: int) -> float:
    """Return the floating-point operations of the covariance of g items and r features of every class."""
    return min(_operations(g, n_classes, r))


def _operations(g: int, n_classes: int, r: int) -> tuple[float, float]:
    """Return the floating-point operations of the covariance by coefficient and by item."""
    d = float(n_classes - 1) * r + 2
    each = float(n_classes) ** 3 if r else float(n_classes)  # leaving out one item
    return g * d**2 / 2 + d**3 / 3 + g * each, 2 * (n_classes + 1) * float(g) ** 3 + g * each


def _left_out(p: Array, residuals: Array, share: Array, basis: Array, covariance: Array) -> Array:
    """Return the change of logits of every item if it is left out, shape (g, K).

    Logits are ``basis``, shape (g, K, l), times coordinates with ``covariance``, shape (g, l, l).
    """
    back = np.swapaxes(basis, 1, 2)
    means = back @ p[:, :, None]
    spread = back @ (p[:, :, None] * basis) - means @ np.swapaxes(means, 1, 2)
    system = np.eye(basis.shape[2]) - covariance @ (share[:, None, None] * spread)
    moved = np.linalg.solve(system, covariance @ (back @ residuals[:, :, None]))
    return np.asarray((basis @ moved)[:, :, 0])


class _ByCoefficient:
    """Covariance of the logits from the curvature by the coefficients.

    These are coefficients of shared features, then those of own features for K - 1 contrasts of classes,
    because the sum of coefficients over classes does not change the probabilities. The prior does not depend
    on the axes, so own features are replaced by their principal axes, which are fewer: for example, the votes
    of a source that never abstains sum to 1.
    """

    def __init__(self, shared: Array, own: Array, share: Array, p: Array) -> None:
        sizes, axes = np.linalg.eigh(own.T @ own)
        self._shared, self._own = shared, own @ axes[:, sizes > _ROUNDING * sizes.max(initial=0.0)]
        n_classes, r = shared.shape[1], self._own.shape[1]
        self._contrasts = scipy.linalg.helmert(n_classes).T if r else np.zeros((n_classes, 0))  # (K, K - 1)
        self._factor, self.log_determinant = _factor(self._curvature(share, p))

    def _curvature(self, share: Array, p: Array) -> Array:
        """Return the curvature; only its lower triangle is filled."""
        contrasts, own, s, r = self._contrasts, self._own, self._shared.shape[2], self._own.shape[1]
        weights = share[:, None] * p
        means = np.einsum("gk,gks->gs", p, self._shared)
        spread = weights[:, :, None] * (self._shared - means[:, None, :])  # (g, K, s)
        found = np.eye(s + contrasts.shape[1] * r)
        found[:s, :s] += np.einsum("gks,gkt->st", self._shared, spread)
        for i, one in enumerate(contrasts.T):
            rows = slice(s + i * r, s + (i + 1) * r)
            found[rows, :s] = own.T @ np.einsum("gks,k->gs", spread, one)
            others = contrasts[:, : i + 1]
            between = (weights * one) @ others - (weights @ one)[:, None] * (p @ others)
            weighted = between[:, :, None] * own[:, None, :]
            found[rows, s : rows.stop] += own.T @ weighted.reshape(len(p), -1)
        return found

    def covariance(self) -> tuple[Array, Array]:
        """Return a basis of the logits, shape (g, K, l), and the covariance in it, shape (g, l, l)."""
        (g, _, s), r, n_contrasts = self._shared.shape, self._own.shape[1], self._contrasts.shape[1]
        inverse = _inverse(self._factor)
        covariance = np.empty((g, s + n_contrasts, s + n_contrasts))
        covariance[:, :s, :s] = inverse[:s, :s]
        for i in range(n_contrasts):
            across = self._own @ inverse[s + i * r : s + (i + 1) * r, : s + (i + 1) * r]
            row = np.einsum("gcr,gr->gc", across[:, s:].reshape(g, i + 1, r), self._own)
            row = np.concatenate([across[:, :s], row], axis=1)
            covariance[:, s + i, : s + i + 1] = covariance[:, : s + i + 1, s + i] = row
        repeated = np.broadcast_to(self._contrasts, (g, *self._contrasts.shape))
        return np.concatenate([self._shared, repeated], axis=2), covariance


class _ByItem:
    """Covariance of the logits from A = (P + W^-1)^-1, where P is their prior covariance.

    W is the curvature of the log loss. In the notation of Rasmussen and Williams, A is
    E - E R (R' E R)^-1 R' E for blocks E of classes, and a correction of rank s for shared features U.
    """

    def __init__(self, shared: Array, own: Array, share: Array, p: Array) -> None:
        self._shared, self._prior = shared, own @ own.T
        self._blocks, self.log_determinant = [], -float(np.log(share).sum())
        for k in range(p.shape[1]):
            root = np.sqrt(share * p[:, k])
            factor, size = _factor(np.eye(len(p)) + root[:, None] * self._prior * root)
            self._blocks.append(root[:, None] * _inverse(factor) * root)
            self.log_determinant += size
        self._factor = np.linalg.cholesky(sum(self._blocks))
        self.log_determinant += 2 * float(np.log(np.diag(self._factor)).sum())
        self._of_shared = np.stack([self._times_blocks(each) for each in np.moveaxis(shared, 2, 0)], axis=2)
        self._inner = np.einsum("gks,gkt->st", shared, self._of_shared)
        self._small, size = _factor(np.eye(len(self._inner)) + self._inner)
        self.log_determinant += size

    def _times_blocks(self, values: Array) -> Array:
        """Return A without the correction for shared features, times values of shape (g, K)."""
        found = np.stack([block @ each for block, each in zip(self._blocks, values.T, strict=True)], axis=1)
        half = scipy.linalg.solve_triangular(self._factor, found.sum(axis=1), lower=True)
        common = scipy.linalg.solve_triangular(self._factor, half, lower=True, trans="T")
        return found - np.stack([block @ common for block in self._blocks], axis=1)

    def covariance(self) -> tuple[Array, Array]:
        """Return classes as the basis, and the diagonal blocks of P - P A P, shape (g, K, K)."""
        u, prior = self._shared, self._prior
        crossed = [block @ prior for block in self._blocks]
        halves = np.stack(
            [scipy.linalg.solve_triangular(self._factor, each, lower=True).T for each in crossed], axis=1
        )
        found = halves @ np.swapaxes(halves, 1, 2)
        diagonal = np.arange(u.shape[1])
        own = np.stack([np.einsum("in,in->n", prior, each) for each in crossed], axis=1)
        found[:, diagonal, diagonal] += np.diag(prior)[:, None] - own
        across = np.einsum("in,nks->iks", prior, self._of_shared, optimize=True)
        # P A0 U, where A0 is A without the correction for shared features.
        total = across + u @ self._inner
        found += u @ np.swapaxes(u - total, 1, 2) - across @ np.swapaxes(u, 1, 2)
        return np.eye(u.shape[1])[None], found + total @ _inverse(self._small) @ np.swapaxes(total, 1, 2)


def _factor(matrix: Array) -> tuple[Array, float]:
    """Return a Cholesky factor and the log determinant, from the lower triangle of a matrix."""
    # LAPACK reads columns, so it gets the transpose, and the lower triangle is its upper one.
    factor, _ = scipy.linalg.lapack.dpotrf(matrix.T, lower=False, clean=False, overwrite_a=True)
    return factor, 2 * float(np.log(np.diag(factor)).sum())


def _inverse(factor: Array) -> Array:
    """Return the inverse of a matrix from its Cholesky factor."""
    inverse = np.tril(scipy.linalg.lapack.dpotri(factor, lower=False)[0].T)
    return np.asarray(inverse + np.tril(inverse, -1).T)


def softmax(scores: Array) -> Array:
    """Return probabilities, along the last axis."""
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def log_loss(logits: Array, labels: NDArray[np.intp]) -> Array:
    """Return the log loss of each item, shape (n,)."""
    top = logits.max(axis=1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return np.asarray(total - logits[np.arange(len(labels)), labels])
