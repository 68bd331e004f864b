"""Bayesian multinomial regression: the most probable coefficients, the evidence, and leave-one-out logits.

The logits of item n are ``offset[n] + shared[n] @ a + own[n] @ B``. All elements of a, shape (s,), and of B,
shape (r, K), have a standard normal prior; other prior deviations are factors of the features.

Newton's method is run on the coefficients, or on one unknown per item and class (the dual), whichever is
less work. The prior covariance of the logits has one block per class, all equal, plus rank s. So the dual
takes K + 1 factorizations of a matrix of items by items (Rasmussen and Williams 2006, section 3.5), whatever
the number of coefficients.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert, solve_triangular
from scipy.linalg.lapack import dposv, dpotrf, dpotri

Array = NDArray[np.float64]
# The last step squares the error, so an expected gain of this size suffices before it.
_MOST_PASSES, _TOLERANCE, _LEAST_STEP = 50, 1e-4, 1e-6


class Regression(NamedTuple):
    """Result of :func:`fit_multinomial`.

    Attributes
    ----------
    shared : array of shape (s,)
    own : array of shape (r, K)
    left_out : array of shape (g, K)
        Logits of every item by a fit without it.
    evidence : float
        Log probability of the labels under the prior, by Laplace's approximation (MacKay 1992).
    """

    shared: Array
    own: Array
    left_out: Array
    evidence: float


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
    by_coefficient, by_item = _operations(g, n_classes, own.shape[1])
    space: _Space = (_Coefficients if by_coefficient <= by_item else _Items)(shared, own, share)
    truth = np.zeros_like(offset)
    truth[np.arange(g), labels] = 1.0
    at = space.zero()
    value = float(share @ log_loss(offset, labels))
    for _ in range(_MOST_PASSES):
        p = softmax(offset + at.logits)
        residuals = share[:, None] * (p - truth)
        step = space.step(p, residuals, at)
        expected = -float(np.sum(residuals * step.logits)) - space.inner(at, step)
        if expected < _TOLERANCE:
            at, value = at.plus(step), value - expected / 2
            break
        size = 1.0
        while size > _LEAST_STEP:
            tried = at.plus(step, size)
            new = float(share @ log_loss(offset + tried.logits, labels)) + space.inner(tried, tried) / 2
            if new <= value - size * expected / 4:
                break
            size /= 2
        at, value = tried, new
    logits = offset + at.logits
    p = softmax(logits)
    log_determinant, basis, covariance = space.posterior(p)
    left_out = logits + _left_out(p, share[:, None] * (p - truth), share, basis, covariance)
    return Regression(*space.coefficients(at), left_out, -value - log_determinant / 2)


def least_operations(g: int, n_classes: int, r: int) -> float:
    """Return the number of floating-point operations of a pass over g items and r features of every class."""
    return min(_operations(g, n_classes, r))


def _operations(g: int, n_classes: int, r: int) -> tuple[float, float]:
    """Return the floating-point operations of a pass by coefficient and by item."""
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


class _Point(NamedTuple):
    """Values of the unknowns, and what they add to the logits, shape (g, K)."""

    unknowns: Array
    logits: Array

    def plus(self, step: _Point, size: float = 1.0) -> _Point:
        return _Point(self.unknowns + size * step.unknowns, self.logits + size * step.logits)


class _Space(Protocol):
    """Unknowns of the optimization."""

    def zero(self) -> _Point: ...

    def inner(self, one: _Point, other: _Point) -> float:
        """Return the inner product of the coefficients of two points."""

    def step(self, p: Array, residuals: Array, at: _Point) -> _Point:
        """Return the Newton step."""

    def posterior(self, p: Array) -> tuple[float, Array, Array]:
        """Return the log determinant of the curvature, and the basis and covariance of the logits."""

    def coefficients(self, at: _Point) -> tuple[Array, Array]:
        """Return the coefficients of shared and of own features."""


class _Coefficients:
    """Unknowns: coefficients of shared features, then those of own features for K - 1 contrasts of classes.

    The sum of the coefficients over classes does not change the probabilities, so it is 0.
    """

    def __init__(self, shared: Array, own: Array, share: Array) -> None:
        self._shared, self._own, self._share = shared, own, share
        n_classes, (self._s, self._r) = shared.shape[1], (shared.shape[2], own.shape[1])
        self._contrasts = helmert(n_classes).T if self._r else np.zeros((n_classes, 0))  # (K, K - 1)

    def zero(self) -> _Point:
        size = self._s + self._contrasts.shape[1] * self._r
        return _Point(np.zeros(size), np.zeros(self._shared.shape[:2]))

    def _split(self, unknowns: Array) -> tuple[Array, Array]:
        return unknowns[: self._s], unknowns[self._s :].reshape(self._contrasts.shape[1], self._r)

    def inner(self, one: _Point, other: _Point) -> float:
        return float(one.unknowns @ other.unknowns)

    def step(self, p: Array, residuals: Array, at: _Point) -> _Point:
        shared = np.einsum("gk,gks->s", residuals, self._shared)
        own = (residuals @ self._contrasts).T @ self._own
        slope = np.concatenate([shared, own.ravel()]) + at.unknowns
        step = -dposv(self._curvature(p).T, slope, lower=True)[1]
        shared, own = self._split(step)
        return _Point(step, self._shared @ shared + self._own @ own.T @ self._contrasts.T)

    def _curvature(self, p: Array) -> Array:
        s, r, contrasts, own = self._s, self._r, self._contrasts, self._own
        weights = self._share[:, None] * p
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
        lower = np.tril(found)
        return np.asarray(lower + np.tril(lower, -1).T)

    def posterior(self, p: Array) -> tuple[float, Array, Array]:
        s, r, g = self._s, self._r, len(p)
        n_contrasts = self._contrasts.shape[1]
        inverse, log_determinant = _invert(self._curvature(p))
        covariance = np.empty((g, s + n_contrasts, s + n_contrasts))
        covariance[:, :s, :s] = inverse[:s, :s]
        for i in range(n_contrasts):
            across = self._own @ inverse[s + i * r : s + (i + 1) * r]
            covariance[:, s + i, :s] = covariance[:, :s, s + i] = across[:, :s]
            by_contrast = across[:, s:].reshape(g, n_contrasts, r)
            covariance[:, s + i, s:] = np.einsum("gcr,gr->gc", by_contrast, self._own)
        repeated = np.broadcast_to(self._contrasts, (g, *self._contrasts.shape))
        return log_determinant, np.concatenate([self._shared, repeated], axis=2), covariance

    def coefficients(self, at: _Point) -> tuple[Array, Array]:
        shared, own = self._split(at.unknowns)
        return shared, own.T @ self._contrasts.T


class _Items:
    """Unknowns: one per item and class, shape (g, K), times the prior covariance of the logits."""

    def __init__(self, shared: Array, own: Array, share: Array) -> None:
        self._shared, self._own, self._share = shared, own, share
        self._covariance = own @ own.T

    def zero(self) -> _Point:
        none = np.zeros(self._shared.shape[:2])
        return _Point(none, none)

    def _logits(self, unknowns: Array) -> Array:
        along = np.einsum("gks,gk->s", self._shared, unknowns)
        return np.asarray(self._covariance @ unknowns + self._shared @ along)

    def inner(self, one: _Point, other: _Point) -> float:
        return float(np.sum(one.unknowns * other.logits))

    def step(self, p: Array, residuals: Array, at: _Point) -> _Point:
        away = at.logits - np.sum(p * at.logits, axis=1, keepdims=True)
        weighted = self._share[:, None] * p * away - residuals
        step = weighted - _Precision(self, p).times(self._logits(weighted)) - at.unknowns
        return _Point(step, self._logits(step))

    def posterior(self, p: Array) -> tuple[float, Array, Array]:
        precision, n_classes = _Precision(self, p), p.shape[1]
        return precision.log_determinant, np.eye(n_classes)[None], precision.posterior_covariance()

    def coefficients(self, at: _Point) -> tuple[Array, Array]:
        return np.einsum("gks,gk->s", self._shared, at.unknowns), self._own.T @ at.unknowns


class _Precision:
    """A = (P + W^-1)^-1, where P is the prior covariance of all logits and W the curvature of the log loss.

    In the notation of Rasmussen and Williams, A = E - E R (R' E R)^-1 R' E for blocks E of classes, and a
    correction of rank s for shared features U.
    """

    def __init__(self, prior: _Items, p: Array) -> None:
        self._prior, self._covariance, u = prior, prior._covariance, prior._shared
        self._blocks, self.log_determinant = [], -float(np.log(prior._share).sum())
        for k in range(p.shape[1]):
            root = np.sqrt(prior._share * p[:, k])
            inverse, size = _invert(np.eye(len(p)) + root[:, None] * self._covariance * root)
            self._blocks.append(root[:, None] * inverse * root)
            self.log_determinant += size
        self._factor = np.linalg.cholesky(sum(self._blocks))
        self.log_determinant += 2 * float(np.log(np.diag(self._factor)).sum())
        self._of_shared = np.stack([self._times_blocks(each) for each in np.moveaxis(u, 2, 0)], axis=2)
        inner = np.einsum("gks,gkt->st", u, self._of_shared)
        self._inner, (self._small, size) = inner, _invert(np.eye(len(inner)) + inner)
        self.log_determinant += size

    def _times_blocks(self, values: Array) -> Array:
        found = np.stack([block @ each for block, each in zip(self._blocks, values.T, strict=True)], axis=1)
        half = solve_triangular(self._factor, found.sum(axis=1), lower=True)
        common = solve_triangular(self._factor, half, lower=True, trans="T")
        return found - np.stack([block @ common for block in self._blocks], axis=1)

    def times(self, values: Array) -> Array:
        """Return A times values of shape (g, K)."""
        along = self._small @ np.einsum("gks,gk->s", self._of_shared, values)
        return np.asarray(self._times_blocks(values) - self._of_shared @ along)

    def posterior_covariance(self) -> Array:
        """Return the diagonal blocks of P - P A P, one per item, shape (g, K, K)."""
        u, prior = self._prior._shared, self._covariance
        crossed = [block @ prior for block in self._blocks]
        halves = np.stack([solve_triangular(self._factor, each, lower=True).T for each in crossed], axis=1)
        found = halves @ np.swapaxes(halves, 1, 2)
        diagonal = np.arange(u.shape[1])
        own = np.stack([np.einsum("in,in->n", prior, each) for each in crossed], axis=1)
        found[:, diagonal, diagonal] += np.diag(prior)[:, None] - own
        across = np.einsum("in,nks->iks", prior, self._of_shared, optimize=True)
        # P A0 U, where A0 is A without the correction for shared features.
        total = across + u @ self._inner
        found += u @ np.swapaxes(u - total, 1, 2) - across @ np.swapaxes(u, 1, 2)
        return np.asarray(found + total @ self._small @ np.swapaxes(total, 1, 2))


def _invert(matrix: Array) -> tuple[Array, float]:
    """Return the inverse and the log determinant of a positive definite matrix."""
    # A symmetric matrix is its own transpose, which has the order of elements that LAPACK needs.
    factor, _ = dpotrf(matrix.T, lower=True, clean=False)
    log_determinant = 2 * float(np.log(np.diag(factor)).sum())
    inverse = np.tril(dpotri(factor, lower=True, overwrite_c=True)[0])
    return inverse + np.tril(inverse, -1).T, log_determinant


def softmax(scores: Array) -> Array:
    """Return probabilities, along the last axis."""
    odds = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))


def log_loss(logits: Array, labels: NDArray[np.intp]) -> Array:
    """Return the log loss of each item, shape (n,)."""
    top = logits.max(axis=1)
    total = top + np.log(np.exp(logits - top[:, None]).sum(axis=1))
    return np.asarray(total - logits[np.arange(len(labels)), labels])
