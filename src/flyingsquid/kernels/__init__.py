"""Compiled loops over codes, installed by the extra ``[fast]``, and the choice between them and NumPy.

Everything works without them. They are used if numba is installed, there are many votes, and
FLYINGSQUID_FAST is not 0. The number of threads is FLYINGSQUID_THREADS; by default as many as BLAS may use,
so that OMP_NUM_THREADS and threadpoolctl apply here too. Nothing is compiled or imported before it is needed.
Reasons not to use them are logged.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS

_log = logging.getLogger(__name__)
# Codes of more classes need more than one byte.
_MOST_CLASSES = 127
# Cells that a thread works on at a time.
_BLOCK_CELLS = 1 << 20


Kernels: TypeAlias = Any
"""The module ``compiled.py``: its functions run on one thread and without the global interpreter lock."""


def kernels_for(codes: Any, n_classes: int, what: Literal["patterns", "bits", "labels"]) -> Kernels | None:
    """Return the compiled functions if they are faster for ``codes``; None for few or sparse codes."""
    if (
        not isinstance(codes, np.ndarray)
        or codes.size < LIMITS.get().compiled_cells
        or n_classes > _MOST_CLASSES
        or os.environ.get("FLYINGSQUID_FAST") == "0"
    ):
        return None
    return _compiled(what)


@lru_cache
def _compiled(what: str) -> Kernels | None:
    try:
        module = import_module("flyingsquid.kernels.compiled")
        works = module.CHECKS[what]()
    except ImportError as error:
        _log.debug("Compiled loops are not available, NumPy is used: %s", error)
        return None
    except Exception:  # for example numba too old for this Python, or no compiler for this machine
        _log.info("Compiled loops for %s cannot be used, NumPy is used.", what, exc_info=True)
        return None
    if not works:
        _log.info("Compiled loops for %s gave wrong results in a self-test, NumPy is used.", what)
        return None
    return module


def n_threads() -> int:
    """Return the number of threads to use: FLYINGSQUID_THREADS, or as many as BLAS may use."""
    given = os.environ.get("FLYINGSQUID_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    libraries = _blas()
    pools = [] if libraries is None else libraries.info()
    # If libraries have different limits, the lowest one was probably set on purpose.
    allowed = [int(pool["num_threads"]) for pool in pools]
    return max(1, min(allowed, default=1))


@lru_cache
def _blas() -> Any:
    """Return the BLAS libraries of this process; finding them takes milliseconds."""
    try:
        return import_module("threadpoolctl").ThreadpoolController().select(user_api="blas")
    except ImportError:
        return None


def blocks_of(length: int, step: int) -> list[slice]:
    """Return slices of at most ``step`` that cover 0 to ``length``."""
    return [slice(start, min(length, start + step)) for start in range(0, length, step)]


def row_blocks(codes: NDArray[Any]) -> list[slice]:
    """Return slices of rows of a size that suits one thread."""
    return blocks_of(len(codes), max(1, _BLOCK_CELLS // codes.shape[1]))


def as_bytes(codes: NDArray[Any]) -> NDArray[np.int8]:
    """Return codes with one byte per cell, row by row; a copy only if they are not stored like that."""
    return np.ascontiguousarray(codes, np.int8)


def run_in_threads(
    work: Callable[[Sequence[slice]], Any], blocks: Sequence[slice], most: int | None = None
) -> list[Any]:
    """Call ``work`` once per thread, of which there are at most ``most``, each with a part of the blocks."""
    threads = min(n_threads(), len(blocks), most or len(blocks))
    if threads <= 1:
        return [work(blocks)]
    # The calling thread works too, because starting a thread takes a millisecond.
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work, blocks[t::threads]) for t in range(1, threads)]
        return [work(blocks[::threads]), *(other.result() for other in others)]


# ---------------------------------------------------------------------- pairs as common bits


# Items whose bits are compared at a time: 2 KB per plane, so that tiles of planes stay in the cache.
_ROWS = 1 << 14
# Every thread has its own counters. There are as many threads as fit into this memory, and at least one.
_COUNTER_BYTES = 1 << 30


def pair_counts(kernels: Kernels, codes: NDArray[Any], n_classes: int) -> NDArray[np.int64]:
    """Count how often two votes occur on one item, shape (K m, K m); row v m + j is "source j votes v"."""
    width = n_classes * codes.shape[1]

    def count(blocks: Sequence[slice]) -> NDArray[np.int64]:
        """Count above the diagonal for some blocks of rows."""
        octets, counts = np.zeros((width, _ROWS // 8), np.uint8), np.zeros((width, width), np.int64)
        for rows in blocks:
            if rows.stop - rows.start < _ROWS:
                octets[:] = 0
            kernels.pack(as_bytes(codes[rows]), n_classes, octets)
            kernels.count(octets.view(np.uint64), counts)
        return counts

    most = max(1, _COUNTER_BYTES // (8 * width**2))
    parts = run_in_threads(count, blocks_of(len(codes), _ROWS), most)
    counts: NDArray[np.int64] = parts[0]
    for part in parts[1:]:
        counts += part
    for tile in blocks_of(width, 256):
        # In place and tile by tile: with very many sources the counts dominate the memory.
        counts[tile.stop :, tile] = counts[tile, tile.stop :].T
        inside = counts[tile, tile]
        counts[tile, tile] = np.triu(inside) + np.triu(inside, 1).T
    return counts


# ---------------------------------------------------------------------- patterns


def histogram(kernels: Kernels, codes: NDArray[Any], n_classes: int, size: int) -> NDArray[np.int64]:
    """Count how often each of ``size`` patterns occurs in dense ``codes`` (n, m), shape (size,)."""
    cells, by_column = _in_memory_order(codes)
    powers = _powers(codes, n_classes)

    def count(blocks: Sequence[slice]) -> NDArray[np.int64]:
        counts = np.zeros((4, size), np.int64)
        for rows in blocks:
            kernels.histogram(cells, by_column, rows.start, rows.stop, powers, counts)
        return np.asarray(counts.sum(axis=0))

    return np.asarray(sum(run_in_threads(count, row_blocks(codes))))


def look_up(
    kernels: Kernels, codes: NDArray[Any], n_classes: int, table: NDArray[Any], answer: NDArray[Any]
) -> None:
    """Write ``table[pattern]`` for each row of ``codes`` (n, m) to ``answer`` (n, ...)."""
    flat, target = table.reshape(len(table), -1), answer.reshape(len(answer), -1)
    cells, by_column = _in_memory_order(codes)
    powers = _powers(codes, n_classes)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.look_up(cells, by_column, rows.start, rows.stop, powers, flat, target)

    run_in_threads(write, row_blocks(codes))


def _in_memory_order(codes: NDArray[Any]) -> tuple[NDArray[np.int8], bool]:
    """Return cells row by row (n, m), or column by column (m, n) if stored so; and whether they are."""
    by_column = bool(codes.flags.f_contiguous and not codes.flags.c_contiguous)
    return as_bytes(codes.T if by_column else codes), by_column


def _powers(codes: NDArray[Any], n_classes: int) -> NDArray[np.int32]:
    return np.asarray((n_classes + 1) ** np.arange(codes.shape[1]), np.int32)


# ---------------------------------------------------------------------- labels of two classes


def split_missing(
    weights: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """Split weights of both votes and of no vote, shape (m, 3), into a constant and contributions of votes.

    An item without votes then has exactly the constant, and so do votes that cancel out. Weights of
    shape (m, 3, r) give arrays of shape (m, r), and r constants.

    >>> zero, one, constant = split_missing(np.array([[-1.0, 2.0, 0.5]]))
    >>> float(zero[0] + constant), float(one[0] + constant), float(constant)
    (-1.0, 2.0, 0.5)
    """
    none = weights[:, 2]
    return weights[:, 0] - none, weights[:, 1] - none, none.sum(axis=0)


def binary_labels(
    kernels: Kernels, codes: NDArray[Any], weights: NDArray[np.float64], offset: float, answer: NDArray[Any]
) -> None:
    """Write P(Y = k | votes) to ``answer`` (n, 2), for log odds of ``offset`` plus the ``weights`` (m, 3)."""
    zero, one, constant = split_missing(weights)

    def write(blocks: Sequence[slice]) -> None:
        for rows in blocks:
            kernels.binary_labels(as_bytes(codes[rows]), zero, one, constant + offset, answer[rows])

    run_in_threads(write, row_blocks(codes))
