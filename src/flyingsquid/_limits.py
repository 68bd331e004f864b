"""Size limits that determine how votes are read, counted and stored. Tests can change them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Limits:
    """Size limits that determine how votes are read, counted and stored.

    Attributes
    ----------
    dense_pair_bytes : int
        Counts of pairs of more than two classes that would take more bytes than this are stored sparsely.
    pair_bytes : int
        Dense counts of pairs that would take more bytes than this raise an error.
    unit_bytes, all_units_bytes : int
        Counts of the joint votes of one group of dependent sources, and of all such groups together, that
        would take more bytes than this raise an error.
    dense_table_cells : int
        Confusion tables with more cells than this are stored sparsely if the method allows it.
    table_cells : int
        Confusion tables with more cells than this are never converted to one array.
    distinct_rows : int
        Chunks of votes with more distinct rows than this are counted in pairs only.
    compiled_cells : int
        Votes with fewer cells than this are processed by NumPy on one thread, which is done before numba is
        imported or a second thread has started.
    chunk_rows : int
        Files are read in chunks of at most this many items.
    loaded_cells, most_cells : int
        Commands load files with at most this many votes, and read larger ones in chunks. Work that needs all
        votes in memory raises an error above the second number.
    sampled_items : int
        Analyses and reports of a file use an evenly spaced sample of at most this many items.
    """

    dense_pair_bytes: int = 1 << 28
    pair_bytes: int = 1 << 33
    unit_bytes: int = 1 << 30
    all_units_bytes: int = 1 << 31
    dense_table_cells: int = 1 << 24
    table_cells: int = 1 << 28
    distinct_rows: int = 1 << 18  # more than all rows of eleven binary sources
    compiled_cells: int = 1 << 22
    chunk_rows: int = 1 << 19
    loaded_cells: int = 1 << 24
    most_cells: int = 1 << 28
    sampled_items: int = 1_000_000


LIMITS: ContextVar[Limits] = ContextVar("limits", default=Limits())  # noqa: B039  # immutable
"""The limits that apply now: ``LIMITS.get()``."""


@contextmanager
def use_limits(**changes: int) -> Iterator[Limits]:
    """Change some limits inside a ``with`` block, for the current thread.

    This is for tests and for measurements. Worker threads and processes keep the default limits.

    >>> from flyingsquid.moments import Moments
    >>> with use_limits(dense_pair_bytes=0):
    ...     sparse = Moments.of([[0, 2], [1, 1]])
    >>> sparse == Moments.of([[0, 2], [1, 1]])
    True
    """
    token = LIMITS.set(replace(LIMITS.get(), **changes))
    try:
        yield LIMITS.get()
    finally:
        LIMITS.reset(token)
