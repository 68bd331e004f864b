"""Whether compiled loops are used, and on how many threads.

They are used where numba is installed, votes are many, and FLYINGSQUID_FAST is not 0. Threads are as many as
FLYINGSQUID_THREADS says; otherwise as many as BLAS may use, so that OMP_NUM_THREADS and threadpoolctl hold
here too. Nothing is compiled or imported before it is needed, and nothing outside this module is changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

# Below so many cells NumPy is done before numba is imported.
FEWEST_CELLS = 1 << 22
# Codes of more classes are wider than a byte.
_MOST_CLASSES = 127
# Rows that a thread takes at a time.
_BLOCK_CELLS = 1 << 20


class Kernels(Protocol):
    """The compiled functions, each on one thread and without Python's lock; see ``compiled.py``."""

    def histogram(
        self,
        cells: NDArray[np.int8],
        by_column: bool,
        low: int,
        high: int,
        powers: NDArray[np.int32],
        counts: NDArray[np.int64],
    ) -> None: ...

    def look_up(
        self,
        cells: NDArray[np.int8],
        by_column: bool,
        low: int,
        high: int,
        powers: NDArray[np.int32],
        table: NDArray[Any],
        answer: NDArray[Any],
    ) -> None: ...

    def pack(self, codes: NDArray[np.int8], n_classes: int, octets: NDArray[np.uint8]) -> None: ...

    def count(self, planes: NDArray[np.uint64], low: int, high: int, counts: NDArray[np.int64]) -> None: ...

    def binary_labels(
        self,
        codes: NDArray[np.int8],
        zero: NDArray[np.float64],
        one: NDArray[np.float64],
        offset: float,
        answer: NDArray[Any],
    ) -> None: ...


def kernels_for(codes: Any, n_classes: int, what: Literal["patterns", "bits", "labels"]) -> Kernels | None:
    """Return the compiled functions if they pay for ``codes``; None for few or sparse codes."""
    if (
        not isinstance(codes, np.ndarray)
        or codes.size < FEWEST_CELLS
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
    except Exception:  # not installed, too old for this Python, no compiler for this machine: NumPy does it
        return None
    return cast(Kernels, module) if works else None


def n_threads() -> int:
    """How many threads to use: FLYINGSQUID_THREADS, or what BLAS may use."""
    given = os.environ.get("FLYINGSQUID_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    libraries = _blas()
    pools = [] if libraries is None else libraries.info()
    # One library with a lower limit was limited on purpose, or is what the others were limited to.
    allowed = [int(pool["num_threads"]) for pool in pools]
    return max(1, min(allowed, default=1))


@lru_cache
def _blas() -> Any:
    """The BLAS libraries of this process, whose limits can be asked for; finding them takes milliseconds."""
    try:
        return import_module("threadpoolctl").ThreadpoolController().select(user_api="blas")
    except ImportError:
        return None


def blocks_of(length: int, step: int) -> list[slice]:
    """Slices of at most ``step`` that cover 0 to ``length``."""
    return [slice(start, min(length, start + step)) for start in range(0, length, step)]


def rows_of(codes: NDArray[Any]) -> list[slice]:
    """Slices of rows, each a good portion for one thread."""
    return blocks_of(len(codes), max(1, _BLOCK_CELLS // codes.shape[1]))


def as_bytes(codes: NDArray[Any]) -> NDArray[np.int8]:
    """Codes as the kernels read them: one byte a cell, row by row; a copy only where they are not."""
    return np.ascontiguousarray(codes, np.int8)


def share_out(work: Callable[[Sequence[slice]], Any], blocks: Sequence[slice]) -> list[Any]:
    """What ``work`` answers for the blocks of each thread; it is called once a thread, side by side."""
    threads = min(n_threads(), len(blocks))
    if threads <= 1:
        return [work(blocks)]
    # The caller works too: starting a thread takes a millisecond.
    with ThreadPoolExecutor(threads - 1) as pool:
        others = [pool.submit(work, blocks[t::threads]) for t in range(1, threads)]
        return [work(blocks[::threads]), *(other.result() for other in others)]
