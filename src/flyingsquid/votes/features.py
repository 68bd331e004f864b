"""Features of items: numbers that come with votes, such as embeddings, and the items that a fit keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from flyingsquid._values import format_count, format_list
from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.votes.arguments import HasItems, in_item_order, index_of, item_ids
from flyingsquid.votes.frames import float_columns, is_frame, is_lazy
from flyingsquid.votes.reading import VoteChunks, is_empty
from flyingsquid.votes.votes import Votes

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
    names : tuple of d str, or None
        Names of the columns of a table.
    """

    values: NDArray[Any] | csr_array
    names: tuple[str, ...] | None = None

    @classmethod
    def read(cls, features: Any, n_items: int) -> Features:
        """Read an array, a sparse matrix or a table with one row per item.

        Parameters
        ----------
        features : array-like, scipy sparse matrix, or pandas, polars or pyarrow table of shape (n, d)
        n_items : int
        """
        values, names = _as_matrix(features)
        if values.ndim != 2 or values.shape[0] != n_items or not values.shape[1]:
            raise VotesError(
                f"`features` must have one row for each of {format_count(n_items, 'item')} and at least one "
                f"column; got shape {values.shape}.",
                parameter="features",
            )
        found = cls(values, names)
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
        return Features(self.values[items], self.names)

    def matched_to(self, names: tuple[str, ...] | None, n_columns: int) -> Features:
        """Return features with the columns of an earlier call in their order.

        Columns are matched by name if both calls passed tables, unless one of them only numbers its columns.
        """
        if names is None or self.names is None or (_are_numbers(names) != _are_numbers(self.names)):
            if self.n_columns == n_columns:
                return self
            raise IncompatibleError(
                f"`features` must have {format_count(n_columns, 'column')}, as in the fit; got "
                f"{self.n_columns:,}."
            )
        if self.names == names:
            return self
        position = {name: at for at, name in enumerate(self.names)}
        absent = [name for name in names if name not in position]
        unknown = sorted(position.keys() - set(names))
        if absent or unknown:
            found = [f"{format_list(absent, 3)} missing"] if absent else []
            found += [f"{format_list(unknown, 3)} unexpected"] if unknown else []
            raise IncompatibleError(f"`features` must have the columns of the fit; got {', '.join(found)}.")
        return Features(self.values[:, [position[name] for name in names]], names)

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


def _are_numbers(names: tuple[str, ...]) -> bool:
    """Return whether columns are numbered from 0, as pandas does it, in any order."""
    return set(names) == {str(j) for j in range(len(names))}


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


def _as_matrix(features: Any) -> tuple[Any, tuple[str, ...] | None]:
    """Return a numeric array or csr matrix, and the names of the columns of a table."""
    if issparse(features):
        return csr_array(features), None
    if is_lazy(features):
        raise VotesError("`features` must not be lazy; pass features.collect().", parameter="features")
    if is_frame(features):
        columns, names = float_columns(features, with_booleans=True)
        odd = [name for name, column in zip(names, columns, strict=True) if column.dtype.kind not in "biuf"]
        if odd:
            raise VotesError(
                f"`features` must have only numeric columns; got {', '.join(odd[:5])}.",
                parameter="features",
            )
        return np.column_stack(columns), names
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
    return values, None


# ---------------------------------------------------------------------- items that a fit keeps

# Features are learned from the labels of the fit, so votes and features are needed after the last chunk. A
# sample of the items is kept. It is chosen by a hash of the features, so it does not depend on the chunks or
# on the order of the items, and samples can be added.
MOST_FEATURE_ITEMS = 20_000
"""Maximum size of a sample of items with features."""
# With very many columns fewer items are kept, so that dense features take a quarter of a gigabyte.
_MOST_CELLS = 1 << 25


@dataclass(frozen=True, slots=True, eq=False)
class FeatureItems:
    """Votes on g items and their features.

    Attributes
    ----------
    votes : Votes
    features : Features
    weights : array of shape (g,) or None
        How often each item counts.
    gold : integer array of shape (g,) or None
        Codes of gold labels, negative if unknown.
    n_seen : int
        Number of items that these were chosen from.

    Examples
    --------
    >>> votes = Votes.from_classes([[0, 1], [1, 1], [0, 0]])
    >>> X = np.array([[0.5], [np.nan], [0.3]])
    >>> parts = [FeatureItems(votes[at], Features(X[at]), n_seen=len(X[at])).sample() for at in ([0], [1, 2])]
    >>> total = parts[0] + parts[1]
    >>> total.votes.n_items, total.n_seen
    (2, 3)
    """

    votes: Votes
    features: Features
    weights: NDArray[np.float64] | None = None
    gold: NDArray[np.intp] | None = None
    n_seen: int = 0

    def __add__(self, later: FeatureItems) -> FeatureItems:
        """Return the items of both."""
        names = self.features.names
        first: Any = self.features.values
        second: Any = later.features.matched_to(names, self.features.n_columns).values
        if issparse(first) != issparse(second):
            first, second = (each.toarray() if issparse(each) else each for each in (first, second))
        stacked = vstack([first, second]).tocsr() if issparse(first) else np.concatenate([first, second])
        return FeatureItems(
            self.votes.followed_by(later.votes),
            Features(stacked, later.features.names if names is None else names),
            _joined(self, later, "weights", 1.0),
            _joined(self, later, "gold", -1),
            self.n_seen + later.n_seen,
        )

    def sample(self) -> FeatureItems:
        """Return at most 20,000 items with features, those with gold labels first."""
        order, is_present = self.features.priorities()
        known = np.zeros(len(order), bool) if self.gold is None else self.gold >= 0
        ranked = np.lexsort((order, ~known, ~is_present))[: np.count_nonzero(is_present)]
        is_dense = not issparse(self.features.values)
        most = max(1, _MOST_CELLS // self.features.n_columns) if is_dense else MOST_FEATURE_ITEMS
        at = np.sort(ranked[: min(MOST_FEATURE_ITEMS, most)])
        return replace(
            self,
            votes=self.votes[at].to_dense(),
            features=self.features.take(at),
            weights=None if self.weights is None else self.weights[at],
            gold=None if self.gold is None else self.gold[at],
        )


def _joined(first: FeatureItems, second: FeatureItems, name: str, default: float) -> Any:
    arrays = [getattr(first, name), getattr(second, name)]
    if arrays[0] is None and arrays[1] is None:
        return None
    sizes = (first.votes.n_items, second.votes.n_items)
    kind = np.float64 if name == "weights" else np.intp
    filled = [np.full(n, default, kind) if a is None else a for a, n in zip(arrays, sizes, strict=True)]
    return np.concatenate(filled)


class FeatureParts:
    """Features of chunks of items, in order.

    Parameters
    ----------
    features : array, sparse matrix or table with the rows of all chunks; or an iterable with one per chunk
        Features without rows are skipped, as chunks without rows are.

    Examples
    --------
    >>> from flyingsquid.votes.arguments import Items
    >>> parts = FeatureParts(np.arange(6).reshape(3, 2))
    >>> parts.next(None, Items(2)).tolist(), parts.next(None, Items(1)).tolist()
    ([[0, 1], [2, 3]], [[4, 5]])
    >>> parts.finish()
    """

    def __init__(self, features: Any) -> None:
        is_matrix = is_frame(features) or len(getattr(features, "shape", ())) == 2
        if not is_matrix and not isinstance(features, Iterable):
            raise VotesError(
                "`features` of VoteChunks must be a matrix with the rows of all chunks, or an iterable with "
                f"one matrix per chunk; got {type(features).__name__}.",
                parameter="features",
            )
        self._matrix = features if is_matrix else None
        self._parts: Iterator[Any] = iter(()) if is_matrix else iter(features)
        self._start = 0

    def next(self, chunk: Any, read: HasItems) -> Any:
        """Return the features of the next chunk, which is ``read`` after reading."""
        n_items = read.n_items
        if self._matrix is None:
            found = next((part for part in self._parts if not is_empty(part)), None)
        else:
            at = slice(self._start, self._start + n_items)
            found = self._matrix.iloc[at] if hasattr(self._matrix, "iloc") else self._matrix[at]
            self._start += n_items
        if found is None or is_empty(found):
            raise VotesError("`features` must have a row for each item of all chunks.", parameter="features")
        if index_of(found) is None:
            return found
        if self._matrix is None:
            found = in_item_order(found, chunk, read, "features")
        else:
            self._require_order(index_of(found), item_ids(chunk, read))
        return found.reset_index(drop=True)

    def _require_order(self, keys: Any, ids: list[Any] | None) -> None:
        """Raise an error if the index of the next rows shows that they are of other items."""
        if ids is None or keys in (ids, None) or ids == list(range(len(ids))):
            return
        every = range(self._matrix.shape[0])  # type: ignore[union-attr]
        if keys != list(every[self._start - len(keys) : self._start]) or set(ids) <= set(every):
            raise VotesError(
                "`features` must have its rows in the order of the chunks; its index has the identifiers in "
                "another order.",
                parameter="features",
            )

    def finish(self) -> None:
        """Raise VotesError if there are features after the last chunk."""
        left = any(not is_empty(part) for part in self._parts)
        if left or (self._matrix is not None and self._start < self._matrix.shape[0]):
            raise VotesError(
                "`features` must not have more rows than all chunks together.", parameter="features"
            )


class FeatureCollector:
    """Collect a sample of items with features while chunks of votes are read.

    Parameters
    ----------
    features : as for FeatureParts

    Examples
    --------
    >>> chunks = VoteChunks([[[0, 1], [1, 1]], [[0, 0]]], classes=[0, 1])
    >>> collector = FeatureCollector(np.array([[0.5], [0.1], [0.3]]))
    >>> len(list(collector.collect(chunks))), collector.items().votes.n_items
    (2, 3)
    """

    def __init__(self, features: Any) -> None:
        self._parts = FeatureParts(features)
        self._found: FeatureItems | None = None

    def collect(self, chunks: VoteChunks) -> Iterator[Votes]:
        """Yield the chunks, and keep a sample of their items."""
        for chunk, votes in chunks._pairs():
            n = votes.n_items
            read = Features.read(self._parts.next(chunk, votes), n)
            own = FeatureItems(votes, read, n_seen=n).sample()
            self._found = own if self._found is None else (self._found + own).sample()
            yield votes
        self._parts.finish()

    def items(self) -> FeatureItems:
        """Return the sample."""
        if self._found is None:
            raise VotesError("`votes` must have at least one item; got chunks without items.")
        return self._found
