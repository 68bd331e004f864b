"""Features of items: numbers that come with votes, such as embeddings, read in chunks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse

from flyingsquid._values import format_count
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.frames import float_columns, is_frame, is_lazy

Array: TypeAlias = NDArray[np.float64]
N_FOLDS = 5
"""Number of folds into which items are divided by their features."""
MOST_COLUMNS = 1_024
"""Largest number of columns; more columns are reduced to it by random sums with random signs."""
# Maximum number of cells in one chunk of rows.
_CHUNK_CELLS = 1 << 22
_SEED = 28


@dataclass(frozen=True, slots=True, eq=False)
class Features:
    """Features of n items, dense or sparse.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, d)
        NaN marks missing values. An item whose values are all missing has no features.
    """

    values: NDArray[Any] | csr_array

    @classmethod
    def read(cls, features: Any, n_items: int, ids: list[Any] | None = None) -> Features:
        """Read an array, a sparse matrix or a table with one row per item.

        Parameters
        ----------
        features : array-like, scipy sparse matrix, or pandas, polars or pyarrow table of shape (n, d)
        n_items : int
        ids : list of n identifiers, optional
            Rows of a pandas table whose index holds these identifiers are joined by identifier.
        """
        values = _as_matrix(_joined(features, ids))
        if values.ndim != 2 or values.shape[0] != n_items or not values.shape[1]:
            raise VotesError(
                f"`features` must have one row for each of {format_count(n_items, 'item')} and at least one "
                f"column; got shape {values.shape}.",
                parameter="features",
            )
        found = cls(values)
        for at, rows in found.raw_chunks():
            if np.isinf(rows).any():
                item = at.start + int(np.flatnonzero(np.isinf(rows).any(axis=1))[0])
                raise VotesError(
                    f"`features` must be finite, or NaN if missing; got infinity in row {item:,}.",
                    parameter="features",
                )
        return found

    @property
    def n_items(self) -> int:
        return int(self.values.shape[0])

    @property
    def n_columns(self) -> int:
        """Number of columns that were passed."""
        return int(self.values.shape[1])

    @property
    def width(self) -> int:
        """Number of columns of the chunks."""
        return min(self.n_columns, MOST_COLUMNS)

    def take(self, items: NDArray[np.intp]) -> Features:
        """Return the features of some items."""
        return Features(self.values[items])

    def raw_chunks(self) -> Iterator[tuple[slice, Array]]:
        """Yield dense rows as they were passed, as float64."""
        step = max(1, _CHUNK_CELLS // max(self.n_columns, 1))
        for start in range(0, self.n_items, step):
            at = slice(start, min(start + step, self.n_items))
            rows: Any = self.values[at]
            yield at, np.asarray(rows.toarray() if issparse(rows) else rows, np.float64)

    def chunks(self) -> Iterator[tuple[slice, Array, NDArray[np.intp]]]:
        """Yield rows of shape (r, width) as float64, and the fold of each of them.

        The fold depends only on the values of the item, so an item has the same fold in every call, and
        copies of an item are in one fold.
        """
        sketch = None if self.n_columns <= MOST_COLUMNS else _sketch(self.n_columns)
        for at, rows, hashes in self._hashed_chunks():
            folds = ((hashes >> np.uint64(29)) % np.uint64(N_FOLDS)).astype(np.intp)
            yield at, rows if sketch is None else _apply(sketch, rows), folds

    def priorities(self) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return pseudorandom numbers (n,) that depend only on the values, and which items have features."""
        found, is_present = np.zeros(self.n_items, np.uint64), np.zeros(self.n_items, bool)
        for at, rows, hashes in self._hashed_chunks():
            # Multiplied and mixed (Steele et al. 2014), so that they are independent of the folds.
            mixed = (hashes ^ (hashes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            found[at] = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            is_present[at] = ~np.isnan(rows).all(axis=1)
        return found, is_present

    def _hashed_chunks(self) -> Iterator[tuple[slice, Array, NDArray[np.uint64]]]:
        """Yield rows as they were passed, and a hash of each of them."""
        multipliers = _draw(self.n_columns).integers(1, 1 << 31, self.n_columns, dtype=np.uint64) | 1
        for at, rows in self.raw_chunks():
            # Rounded, so that single and double precision agree; adding 0 turns -0.0 into 0.
            with np.errstate(over="ignore"):
                bits = rows.astype(np.float32) + np.float32(0)
            yield at, rows, bits.view(np.uint32).astype(np.uint64) @ multipliers


def _apply(sketch: csr_array, rows: Array) -> Array:
    missing = np.isnan(rows).all(axis=1)
    sums = np.asarray(np.nan_to_num(rows) @ sketch)
    sums[missing] = np.nan
    return sums


def _draw(n_columns: int) -> np.random.Generator:
    # The seed is fixed, because fit and predict must use the same random numbers.
    return np.random.default_rng([_SEED, n_columns])


def _sketch(n_columns: int) -> csr_array:
    """Return a random projection that sums columns with random signs, shape (d, MOST_COLUMNS)."""
    rng = _draw(n_columns)
    signs = rng.choice([-1.0, 1.0], n_columns)
    targets = rng.integers(0, MOST_COLUMNS, n_columns)
    return csr_array((signs, (np.arange(n_columns), targets)), shape=(n_columns, MOST_COLUMNS))


def _joined(features: Any, ids: list[Any] | None) -> Any:
    """Return a pandas table in the order of the items, if its index holds their identifiers."""
    index = getattr(features, "index", None)
    if ids is None or not is_frame(features) or index is None or not hasattr(features, "reindex"):
        return features
    keys = index.tolist()
    if keys == list(ids) or keys == list(range(len(keys))):
        return features
    if len(set(keys)) < len(keys) or not set(ids) <= set(keys):
        raise VotesError(
            "The index of `features` must contain each item identifier of `votes` once, or be numbered from "
            "0.",
            parameter="features",
        )
    return features.reindex(ids)


def _as_matrix(features: Any) -> Any:
    """Return a numeric array or csr matrix."""
    if issparse(features):
        return csr_array(features)
    if is_lazy(features):
        raise VotesError("`features` must not be lazy; pass features.collect().", parameter="features")
    if is_frame(features):
        columns, names = float_columns(features)
        odd = [name for name, column in zip(names, columns, strict=True) if column.dtype.kind not in "biuf"]
        if odd:
            raise VotesError(
                f"`features` must have only numeric columns; got {', '.join(odd[:5])}.",
                parameter="features",
            )
        return np.column_stack(columns) if columns else np.empty((0, 0))
    try:
        values = np.asarray(features)
    except Exception as error:  # user objects may raise any exception
        raise VotesError(
            f"`features` must be an array of numbers; reading it failed: {error}", parameter="features"
        ) from error
    if values.dtype.kind == "O":
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise VotesError(
                "`features` must be numbers; convert strings to numbers first, for example by an embedding.",
                parameter="features",
            ) from error
    if values.dtype.kind not in "biuf":
        raise VotesError(
            f"`features` must be numbers; got an array of type {values.dtype}. Convert strings to numbers "
            "first, for example by an embedding.",
            parameter="features",
        )
    return values
