"""Counting kernels: votes to counts of pairs of votes. All give the same integers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from flyingsquid.kernels import kernels_for
from flyingsquid.kernels.dispatch import pair_counts
from flyingsquid.moments.pairs import DensePairs, PairCounts, SparsePairs
from flyingsquid.moments.plan import CountPlan, are_pairs_sparse
from flyingsquid.votes import REASONS
from flyingsquid.votes.codes import Codes, OneHot, dense_codes, rows_of_entries
from flyingsquid.votes.grid import CountedRows, one_hot_patterns
from flyingsquid.votes.patterns import all_patterns, n_patterns, packed_chunks

# With a smaller share of votes than this, counting vote by vote beats the matrix product.
_FEW_VOTES = 0.05
_SAMPLE_CELLS = 1 << 20
_BUFFER_BYTES = 1 << 26
# Below 2**24, up to which float32 counts exactly, and large enough for BLAS.
_CHUNK_ROWS = 1 << 13
_SPARSE_CHUNK_PAIRS = 1 << 22


def count_pairs(
    codes: Codes,
    n_classes: int,
    weights: NDArray[Any] | None = None,
    units: Sequence[tuple[int, ...]] = (),
    rows: CountedRows | None = None,
) -> tuple[PairCounts, list[NDArray[Any]]]:
    """Count pairs of votes, and the joint votes of ``units`` of sources.

    Parameters
    ----------
    codes : dense (n, m) or sparse codes
    weights : array of shape (n,), optional
        How often each item counts.
    units : sequence of tuples of columns
    rows : CountedRows, optional
        How often each row occurs, if it has been counted already.

    Returns
    -------
    pairs : PairCounts
        Integers, unless the weights are floats; the same holds for the units.
    units : list of arrays of shape ((K+1)^s, 1 + K m), for units of s sources
        Row r is the state whose votes are row r of ``all_patterns(s, K)``. Column 0 counts the items in
        that state, column 1 + v m + j those of them in which source j votes v.
    """
    m = codes.shape[1]
    is_exact = weights is None or weights.dtype.kind == "i"
    counts: Any
    if are_pairs_sparse(m, n_classes):
        counts = _sparse_pairs(codes, n_classes, weights)
        joint = _count_units(codes, n_classes, weights, units)
        if is_exact:
            counts.data = np.rint(counts.data).astype(np.int64)
    elif (found := rows or CountedRows.of(codes, n_classes, weights)) is not None:
        counts = found.grid.pair_counts(found.counts)
        joint = [_unit_of_histogram(found.counts, m, n_classes, unit) for unit in units]
    else:
        by_product = isinstance(codes, csr_array) or _are_few(codes)
        counts = (_by_sparse_product if by_product else _by_bits)(codes, n_classes, weights)
        joint = _count_units(codes, n_classes, weights, units)
    if is_exact:
        joint = [np.rint(unit).astype(np.int64) for unit in joint]
    if isinstance(counts, csr_array):
        return SparsePairs(counts, n_classes), joint
    if is_exact and counts.dtype != np.int64:
        counts = np.rint(counts).astype(np.int64)
    return DensePairs(np.ascontiguousarray(counts)), joint


def _are_few(codes: NDArray[Any]) -> bool:
    """Return whether few cells contain a vote, estimated from evenly spaced items."""
    sample = codes[:: max(1, codes.size // _SAMPLE_CELLS)]
    return bool(np.count_nonzero(sample >= 0) < _FEW_VOTES * sample.size)


def _unit_of_histogram(
    histogram: NDArray[np.float64], m: int, n_classes: int, unit: tuple[int, ...]
) -> NDArray[np.float64]:
    """Count the patterns of a unit, separately and together with the votes of all sources."""
    others = [j for j in range(m) if j not in unit]
    radix, size = n_classes + 1, n_patterns(len(unit), n_classes)
    # The first source of a pattern is the fastest axis, the last one of the reshaped histogram.
    axes = [m - 1 - j for j in (*reversed(unit), *reversed(others))]
    table = histogram.reshape((radix,) * m).transpose(axes).reshape(size, -1)
    total = table.sum(axis=1)
    counts = np.empty((size, n_classes, m))
    votes = table @ one_hot_patterns(len(others), n_classes)
    counts[:, :, others] = votes.reshape(size, n_classes, len(others))
    inside = all_patterns(len(unit), n_classes)[:, None, :] == np.arange(n_classes)[:, None]
    counts[:, :, list(unit)] = total[:, None, None] * inside
    return np.column_stack([total, counts.reshape(size, n_classes * m)])


def _by_bits(codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None) -> NDArray[Any]:
    """Count common bits if compiled loops are available and all weights are 1, otherwise by products."""
    kernels = None if weights is not None else kernels_for(codes, n_classes, "bits")
    if kernels is None:
        return _by_gram(codes, n_classes, weights)
    m = codes.shape[1]
    counts = pair_counts(kernels, codes, n_classes)
    return counts.reshape(n_classes, m, n_classes, m).transpose(0, 2, 1, 3)


def _by_gram(
    codes: NDArray[Any], n_classes: int, weights: NDArray[Any] | None, buffer_bytes: int = _BUFFER_BYTES
) -> NDArray[np.float64]:
    n, m = codes.shape
    # Unweighted counts of a chunk are exact in float32, at half the cost of float64.
    dtype = np.dtype(np.float32 if weights is None else np.float64)
    width = n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, buffer_bytes // (width * dtype.itemsize)))
    buffer = np.empty((rows, n_classes, m), dtype)
    counts = np.zeros((width, width))
    for start in range(0, n, rows):
        chunk = codes[start : start + rows]
        hot = buffer[: len(chunk)]
        for k in range(n_classes):
            hot[:, k] = chunk == k
        flat = hot.reshape(len(chunk), width)
        if weights is None:
            counts += flat.T @ flat
        else:
            counts += flat.T @ (flat * weights[start : start + len(chunk), None])
    return counts.reshape(n_classes, m, n_classes, m).transpose(0, 2, 1, 3)


def _by_sparse_product(codes: Codes, n_classes: int, weights: NDArray[Any] | None) -> NDArray[Any]:
    m = codes.shape[1]
    # Integers in the final order from the start: most cells stay 0, and a copy would touch them all.
    counts = np.zeros(n_classes**2 * m**2, np.int64 if weights is None else np.float64)
    for product in _sparse_products(codes, n_classes, weights):
        part = product.tocoo()
        (a, i), (b, j) = (np.divmod(at.astype(np.int64), m) for at in (part.row, part.col))
        counts[((a * n_classes + b) * m + i) * m + j] += part.data.astype(counts.dtype)
    return counts.reshape(n_classes, n_classes, m, m)


def _sparse_pairs(codes: Codes, n_classes: int, weights: NDArray[Any] | None) -> csr_array:
    """Count pairs as a sparse matrix, shape (K m, K m)."""
    width = n_classes * codes.shape[1]
    total = csr_array((width, width))
    for product in _sparse_products(codes, n_classes, weights):
        total = total + product
    return csr_array(total)


def _sparse_products(codes: Codes, n_classes: int, weights: NDArray[Any] | None) -> Iterator[csr_array]:
    """Yield counts of pairs for one chunk of items after the other."""
    cast, n = OneHot.of(codes, n_classes).matrix, codes.shape[0]
    # The product of a chunk holds at most the squared votes of its rows.
    cost = np.cumsum(np.diff(cast.indptr).astype(np.int64) ** 2)
    start = 0
    while start < n:
        reached = (cost[start - 1] if start else 0) + _SPARSE_CHUNK_PAIRS
        stop = max(start + 1, int(np.searchsorted(cost, reached, side="right")))
        part = cast[start:stop]
        right = part if weights is None else part.multiply(weights[start:stop, None]).tocsr()
        yield part.T @ right
        start = stop


def _count_units(
    codes: Codes, n_classes: int, weights: NDArray[Any] | None, units: Sequence[tuple[int, ...]]
) -> list[NDArray[np.float64]]:
    if not units:
        return []
    n, m = codes.shape
    dtype = np.dtype(np.float32 if weights is None else np.float64)
    sizes = [n_patterns(len(unit), n_classes) for unit in units]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    width = 1 + n_classes * m
    rows = min(n, _CHUNK_ROWS, max(1, _BUFFER_BYTES // ((width + int(starts[-1])) * dtype.itemsize)))
    votes, states = np.ones((rows, width), dtype), np.empty((rows, int(starts[-1])), dtype)
    counts = np.zeros((int(starts[-1]), width))
    step = max(1, _BUFFER_BYTES // (width * dtype.itemsize))
    for start in range(0, n, rows):
        chunk = dense_codes(codes[start : start + rows])
        hot, state = votes[: len(chunk)], states[: len(chunk)]
        for k in range(n_classes):
            hot[:, 1 + k * m : 1 + (k + 1) * m] = chunk == k
        for unit, low, size in zip(units, starts, sizes, strict=False):
            for part, numbers in packed_chunks(chunk[:, unit], n_classes):
                state[part, low : low + size] = numbers[:, None] == np.arange(size)
        if weights is not None:
            state *= weights[start : start + len(chunk), None]
        for low in range(0, len(counts), step):  # in parts, to avoid a second table of that size
            counts[low : low + step] += state[:, low : low + step].T @ hot
    return [counts[low : low + size] for low, size in zip(starts, sizes, strict=False)]


# ---------------------------------------------------------------------- all counts of a plan


def count_tables(
    codes: Codes,
    n_classes: int,
    plan: CountPlan,
    weights: NDArray[Any] | None = None,
    rows: CountedRows | None = None,
) -> tuple[list[PairCounts], list[NDArray[Any]]]:
    """Count the pair sets and units of a plan; integers unless the weights are floats.

    ``rows`` is how often each row of ``codes`` occurs, if it has been counted already.
    """
    table: Any = codes
    inside: list[list[int]] = [[] for _ in plan.pair_sets]
    for unit, number in enumerate(plan.unit_sets):
        inside[number].append(unit)
    pairs: list[PairCounts] = []
    units: list[NDArray[Any]] = [np.empty(0)] * len(plan.units)
    for number, (sources, members) in enumerate(zip(plan.pair_sets, inside, strict=True)):
        whole = len(sources) == table.shape[1]
        columns = [plan.positions(number, plan.units[unit]) for unit in members]
        part = table if whole else table[:, list(sources)]
        counts, joint = count_pairs(part, n_classes, weights, columns, rows if whole else None)
        pairs.append(counts)
        for unit, states in zip(members, joint, strict=True):
            units[unit] = states
    return pairs, units


def count_missing(codes: Codes, weights: NDArray[Any] | None = None) -> NDArray[Any]:
    """Count refused, unparseable, failed and unasked votes of each source, shape (m, 4)."""
    is_exact = weights is None or weights.dtype.kind == "i"
    missing = np.zeros((codes.shape[1], len(REASONS) - 1), np.int64 if is_exact else np.float64)
    if isinstance(codes, csr_array):
        row = rows_of_entries(codes)
        column, values = codes.indices, codes.data
    elif codes.min() >= -1:
        return missing
    else:
        row, column = np.nonzero(codes < -1)
        values = codes[row, column]
    stated = values < -1
    share = 1 if weights is None else weights[row[stated]]
    np.add.at(missing, (column[stated], -2 - values[stated].astype(np.intp)), share)
    return missing
