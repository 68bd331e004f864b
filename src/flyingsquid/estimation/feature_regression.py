"""Ridge regression of class probabilities on features, with one regression per fold of items."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.inference.features import Learner, standardized
from flyingsquid.votes.features import N_FOLDS, Features

Array = NDArray[np.float64]
# Ridge penalties relative to the mean variance of the columns; one is chosen by cross-validation.
_PENALTIES = np.logspace(-3, 2, 11)
# Scale of a constant column, whose standardized values are then 0.
_CONSTANT = 1e300


class Folded(NamedTuple):
    """Sums of products of features and targets by fold. Sums over parts of the data can be added.

    Attributes
    ----------
    squares : array of shape (F, d + 1, d + 1)
        Of standardized columns, the first of which is 1.
    products : array of shape (F, d + 1, t)
        With targets.
    """

    squares: Array
    products: Array

    @classmethod
    def of(cls, features: Features, means: Array, scales: Array, targets: Array, weights: Array) -> Folded:
        """Sum over items; ``targets`` are (n, t) and ``weights`` (n,), 0 for items to leave out."""
        d, t = features.width + 1, targets.shape[1]
        squares, products = np.zeros((N_FOLDS, d, d)), np.zeros((N_FOLDS, d, t))
        for at, rows, folds in features.chunks():
            present = ~np.isnan(rows).all(axis=1)
            values = np.column_stack([np.ones(len(rows)), standardized(rows, means, scales)])
            weight = weights[at] * present
            for fold in range(N_FOLDS):
                items = np.flatnonzero((folds == fold) & (weight > 0))
                weighted = values[items] * weight[items, None]
                squares[fold] += weighted.T @ values[items]
                products[fold] += weighted.T @ targets[at][items]
        return cls(squares, products)

    def solve(self, n_choosing: int) -> tuple[Array, Array]:
        """Return intercepts (F, t) and coefficients (F, d, t) with the penalty of least squared error.

        The error is that of the first ``n_choosing`` targets on the fold that is left out.
        """
        shape = (len(_PENALTIES), N_FOLDS, *self.products.shape[1:])
        solutions, errors = np.zeros(shape), np.zeros(len(_PENALTIES))
        all_squares, all_products = self.squares.sum(axis=0), self.products.sum(axis=0)
        for fold in range(N_FOLDS):
            squares, products = all_squares - self.squares[fold], all_products - self.products[fold]
            total = squares[0, 0]
            if total <= 0:
                continue
            centers, mean = squares[0] / total, products[0] / total
            covariance = (squares / total - np.outer(centers, centers))[1:, 1:]
            against = (products / total - np.outer(centers, mean))[1:]
            spectrum, basis = np.linalg.eigh(covariance)
            rotated, scale = basis.T @ against, max(np.trace(covariance) / max(len(spectrum), 1), 1e-12)
            for at, penalty in enumerate(_PENALTIES):
                shrunk = np.maximum(spectrum, 0.0) + penalty * scale
                coefficients = basis @ (rotated / shrunk[:, None])
                solutions[at, fold] = np.vstack([mean - centers[1:] @ coefficients, coefficients])
                own = solutions[at, fold, :, :n_choosing]
                # Squared error without the sum of squared targets, which all penalties share.
                errors[at] += np.sum(
                    own * (self.squares[fold] @ own - 2 * self.products[fold, :, :n_choosing])
                )
        best = solutions[int(np.argmin(errors))]
        return best[:, 0], best[:, 1:]


def learn(
    features: Features,
    means: Array,
    scales: Array,
    targets: list[Array],
    weights: Array,
    *,
    by_votes: bool = False,
) -> list[Learner]:
    """Return one learner per target of shape (n, K). All of them share the penalty of the first.

    If targets are posteriors given votes and features, the prediction is P(Y | features), by the law of total
    expectation. If they are posteriors ``by_votes`` alone, P(Y | features) is between two bounds. If features
    explain the errors of votes, it is the prediction. If errors are independent of features given the class,
    the prediction is P(Y | features) times s plus a constant, where s is the variance of the targets relative
    to that of certain labels. Only gold labels show how much features explain, so the geometric mean of both
    bounds is used.
    """
    n_classes = targets[0].shape[1]
    sums = Folded.of(features, means, scales, np.column_stack(targets), weights)
    intercepts, coefficients = sums.solve(n_classes)
    total = max(weights.sum(), 1e-300)
    learners = []
    for at, target in enumerate(targets):
        own = slice(at * n_classes, (at + 1) * n_classes)
        balance, slope = weights @ target / total, 1.0
        certain = float(np.sum(balance * (1 - balance)))
        if by_votes and certain > 0:
            variance = float(np.sum(weights @ (target - balance) ** 2 / total))
            # Nothing can be learned from labels without variance; the bound avoids a division by 0.
            slope = float(np.sqrt(min(1.0, max(variance / certain, 1e-6))))
        learners.append(Learner(means, scales, intercepts[:, own], coefficients[:, :, own], balance, slope))
    return learners


def column_statistics(features: Features, weights: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation of each column, shape (d,); a huge one for constant columns.

    ``weights`` (n,) count how often each item occurs.
    """
    d = features.width
    largest, n = np.zeros(d), np.zeros(d)
    for _, rows, _ in features.chunks():
        largest = np.maximum(largest, np.nan_to_num(np.abs(rows)).max(axis=0, initial=0.0))
    # Numbers are divided by the largest one first, because squares of huge numbers overflow.
    unit = np.where(largest > 0, largest, 1.0)
    sums, squares = np.zeros(d), np.zeros(d)
    for at, rows, _ in features.chunks():
        n += weights[at] @ ~np.isnan(rows)
        sums += weights[at] @ np.nan_to_num(rows / unit)
    means = sums / np.maximum(n, 1e-300)
    for at, rows, _ in features.chunks():
        squares += weights[at] @ np.nan_to_num(rows / unit - means) ** 2
    deviations = np.sqrt(squares / np.maximum(n, 1e-300))
    scales = np.where(deviations > 1e-12, deviations * unit, _CONSTANT)
    return means * unit, scales
