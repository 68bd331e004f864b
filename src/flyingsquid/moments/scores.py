"""Sums of scores: the mergeable statistic of `ScoreModel`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.exceptions import IncompatibleError, ModelFileError
from flyingsquid.files.state import State, check_fields, integer

Array = NDArray[np.float64]
KIND = "ScoreMoments"
# Sums of products of the largest scores stay below this.
_LARGEST = 1e250
_FIELDS = {"n_items": integer()}


@dataclass(frozen=True, slots=True, eq=False)
class ScoreMoments:
    """Sums of products of up to four scores of pairs of sources, and variances between repeats.

    The score of a source on an item is the mean over its repeats. Sums are relative to ``center``, so that
    scores far from 0 lose no digits.

    Attributes
    ----------
    n_items : int
    center : float64 array of shape (m,)
    pairs : int64 array of shape (m, m)
        Items that both sources scored.
    sums : float64 array of shape (m, m)
        ``sums[i, j]`` is the sum of scores of source i over the items that source j scored, too.
    products : float64 array of shape (m, m)
        Sums of products of two scores.
    squares, cubes, fourths : float64 arrays of shape (m, m)
        Over the items that both sources scored, the sums of squared scores of source i, of these times the
        scores of source j, and of these times the squared scores of source j.
    equal : int64 array of shape (m, m)
        Items on which two sources give the same score.
    repeat_squares : float64 array of shape (m,)
        Sums of squared deviations of repeats from the mean of their item.
    repeat_freedom : int64 array of shape (m,)
        Number of repeats beyond the first of each item.
    inverse_repeats : float64 array of shape (m,)
        Sums of 1 / (number of repeats) over items.

    Examples
    --------
    >>> scores = np.array([[1.0, 2.0], [3.0, 5.0], [2.0, np.nan]])[:, :, None]
    >>> ScoreMoments.of(scores).covariances()
    array([[0.66666667, 1.5       ],
           [1.5       , 2.25      ]])
    """

    n_items: int
    center: Array
    pairs: NDArray[np.int64]
    sums: Array
    products: Array
    squares: Array
    cubes: Array
    fourths: Array
    equal: NDArray[np.int64]
    repeat_squares: Array
    repeat_freedom: NDArray[np.int64]
    inverse_repeats: Array

    @classmethod
    def of(cls, scores: Array) -> Self:
        """Count scores of shape (n, m, r) with NaN for missing ones."""
        means, repeats = mean_over_repeats(scores)
        present = repeats > 0
        counts = present.sum(axis=0)
        center = np.where(present, means, 0.0).sum(axis=0) / np.maximum(counts, 1)
        deviations = np.where(present, means - center, 0.0)
        seen = present.astype(np.float64)  # NumPy multiplies only floats with BLAS
        squares = deviations**2
        return cls(
            len(scores),
            center,
            np.rint(seen.T @ seen).astype(np.int64),
            deviations.T @ seen,
            deviations.T @ deviations,
            squares.T @ seen,
            squares.T @ deviations,
            squares.T @ squares,
            np.stack([(means == column[:, None]).sum(axis=0) for column in means.T]),
            np.nansum((scores - means[:, :, None]) ** 2, axis=(0, 2)),
            np.maximum(repeats - 1, 0).sum(axis=0),
            (seen / np.maximum(repeats, 1)).sum(axis=0),
        )

    @property
    def n_sources(self) -> int:
        return len(self.center)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Number of items that each source scored, shape (m,)."""
        return np.diagonal(self.pairs)

    def __add__(self, other: ScoreMoments) -> ScoreMoments:
        if other.n_sources != self.n_sources:
            raise IncompatibleError(
                f"Cannot combine scores of {format_count(self.n_sources, 'source')} with scores of "
                f"{other.n_sources}."
            )
        # A source without scores here has no center of its own.
        center = np.where(self.counts > 0, self.center, other.center)
        one, two = self.recentered(center), other.recentered(center)
        added = {name: getattr(one, name) + getattr(two, name) for name in self.__slots__ if name != "center"}
        return ScoreMoments(center=center, **added)

    def recentered(self, center: Array) -> ScoreMoments:
        """Return the same sums relative to another center."""
        other = self.center - center
        own = other[:, None]
        # The sums over (x_i + own)^a (x_j + other)^b, expanded in x_i.
        sums = self.sums + own * self.pairs
        products = self.products + own * self.sums.T + other * sums
        squares = self.squares + own * (self.sums + sums)
        cubes = self.cubes + own * (2 * self.products + own * self.sums.T) + other * squares
        moved = self.fourths + other * (2 * self.cubes + other * self.squares)
        mixed = self.cubes.T + other * (2 * self.products + other * self.sums)
        fourths = moved + own * (2 * mixed + own * squares.T)
        return replace(
            self, center=center, sums=sums, products=products, squares=squares, cubes=cubes, fourths=fourths
        )

    def means(self) -> Array:
        """Return the mean score of each source, shape (m,); NaN without scores."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.center + np.diagonal(self.sums) / self.counts

    def covariances(self) -> Array:
        """Return covariances over the items that both sources scored, shape (m, m); NaN if there are none."""
        with np.errstate(invalid="ignore", divide="ignore"):
            means = self.sums / self.pairs
            return self.products / self.pairs - means * means.T

    def fourth_cumulants(self) -> Array:
        """Return cumulants of two scores of each of two sources, shape (m, m); NaN without common items.

        The diagonal has those of four scores of one source. All are 0 for Gaussian scores.
        """
        central = self.recentered(self.means())
        with np.errstate(invalid="ignore", divide="ignore"):
            squares, products = central.squares / self.pairs, central.products / self.pairs
            return central.fourths / self.pairs - squares * squares.T - 2 * products**2

    def repeat_variances(self) -> Array:
        """Return the variance of repeated scores of one item, shape (m,); NaN without repeats."""
        with np.errstate(invalid="ignore", divide="ignore"):
            return self.repeat_squares / self.repeat_freedom

    def to_state(self) -> State:
        arrays = {name: np.asarray(getattr(self, name)) for name in self.__slots__ if name != "n_items"}
        return State(KIND, {"n_items": self.n_items}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Return the sums that :meth:`to_state` described."""
        check_fields(state.meta, _FIELDS)
        arrays: dict[str, NDArray[Any]] = {}
        m = state.arrays["center"].size
        for name in cls.__slots__:
            if name == "n_items":
                continue
            array = state.arrays[name]
            dtype = np.int64 if name in ("pairs", "equal", "repeat_freedom") else np.float64
            shape = (m,) if name == "center" or "repeat" in name else (m, m)
            if array.dtype != dtype or array.shape != shape or not (np.abs(array) <= _LARGEST).all():
                raise ModelFileError(
                    f"`{name}` in the file must be {np.dtype(dtype)} of shape {shape}, finite and "
                    f"at most {_LARGEST:g} in absolute value."
                )
            arrays[name] = array
        counted = [arrays["pairs"], arrays["equal"], arrays["repeat_freedom"], arrays["repeat_squares"]]
        if m == 0 or any((each < 0).any() for each in counted):
            raise ModelFileError(
                "The file must contain the sums of at least one source, and its counts must be >= 0."
            )
        pairs, counts = arrays["pairs"], np.diagonal(arrays["pairs"])
        is_possible = (pairs <= counts).all() and (counts <= state.meta["n_items"]).all()
        is_possible &= bool((arrays["equal"] <= pairs).all())
        if not is_possible or any((each != each.T).any() for each in (pairs, arrays["equal"])):
            raise ModelFileError(
                "`pairs` and `equal` in the file must be symmetric and at most the number of items of each "
                "source."
            )
        return cls(state.meta["n_items"], **arrays)


def mean_over_repeats(scores: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the mean and the number of repeats of each cell, shape (n, m); the mean of none is NaN."""
    repeats = np.isfinite(scores).sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nansum(scores, axis=2) / repeats, repeats
