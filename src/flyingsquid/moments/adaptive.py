"""Window of adaptive length: counts at dyadic ages, and a test for change."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from flyingsquid.files.state import check_fields, integer, list_of
from flyingsquid.moments.windows import BlockWindow, Layout, Vector, checked_vector, require

# Upper bound of the probability that a window of votes that never change is cut.
FALSE_ALARMS = 0.05


def agreeing_parts(
    sizes: NDArray[np.float64], hits: NDArray[np.float64], *, dispersion: float = 1.0, tests: float = 1.0
) -> int:
    """Return the number of newest parts that are consistent with one population.

    The largest number k such that, for every split of the newest k parts in two, no statistic differs between
    the newer and the older side by more than chance allows. Chance is bounded by Bernstein's inequality, as
    in ADWIN (Bifet and Gavaldà 2007), divided among all statistics, all splits, and ``tests``.

    Parameters
    ----------
    sizes : array of shape (s,)
        Rows of each part, newest first.
    hits : array of shape (s, p)
        Number of rows of each part on which each of p events occurred.
    dispersion : float, at least 1
        Ratio of the variance of parts to that of independent rows.
    tests : float
        Number of times that the same rows are tested.

    Examples
    --------
    >>> rows = np.full(4, 500.0)
    >>> agreeing_parts(rows, np.array([[400.0], [390.0], [410.0], [395.0]]))
    4
    >>> agreeing_parts(rows, np.array([[250.0], [240.0], [410.0], [395.0]]))
    2
    """
    newer, older = np.cumsum(sizes), np.cumsum(hits, axis=0)
    keep = len(sizes)
    while keep > 1 and not _is_homogeneous(newer[:keep], older[:keep], dispersion, tests):
        keep -= 1
    return keep


def _is_homogeneous(
    sizes: NDArray[np.float64], hits: NDArray[np.float64], dispersion: float, tests: float
) -> bool:
    """Return whether no split shows a difference, for sums from the newest part on."""
    total, splits = sizes[-1], len(sizes) - 1
    share = hits[-1] / total
    inverse = (1 / sizes[:-1] + 1 / (total - sizes[:-1]))[:, None]
    difference = np.abs(hits[:-1] / sizes[:-1, None] - (hits[-1] - hits[:-1]) / (total - sizes[:-1])[:, None])
    nats = np.log(2 * hits.shape[1] * splits * max(tests, 1.0) / FALSE_ALARMS) * dispersion
    allowed = np.sqrt(2 * nats * inverse * share * (1 - share)) + 2 / 3 * nats * inverse
    return not bool((difference > allowed).any())


def dispersion_of(newer: NDArray[np.float64], older: NDArray[np.float64], size: float, other: float) -> float:
    """Return the dispersion of two neighboring parts: 1 on average for independent rows.

    Parameters
    ----------
    newer, older : arrays of shape (p,)
        In how many of ``size`` and ``other`` rows each event occurred.
    """
    share = (newer + older) / (size + other)
    variance = share * (1 - share) * (1 / size + 1 / other)
    varies = variance > 0
    if not varies.any():
        return 1.0
    return float(np.mean((newer / size - older / other)[varies] ** 2 / variance[varies]))


# ---------------------------------------------------------------------- window


# Maximum number of parts of the same size.
_PER_SIZE = 3
# Dispersion and prediction errors are averaged over about this many blocks.
_AVERAGED_BLOCKS = 50
# A window is tested again after it has grown by this share.
_GROWTH = 0.01
# Cap on the relative error of one block, such as the first one after a change.
_WORST_BLOCK = 2.0
# Blocks that are needed before anything is dropped, or before a window may be shorter than what is kept.
_FEW_BLOCKS = 8


_FIELDS = {
    "sizes": list_of(integer(1)),
    **dict.fromkeys(("forgotten", "next_test", "foretold", "compared", "chosen"), integer()),
}


class DyadicCounts(BlockWindow):
    """Counts at dyadic ages; the window in use is the one that predicts the next rows best.

    Rows are counted in blocks of ``block`` rows; when more than three parts have the same size, the two
    oldest are merged. So n rows take O(log n) parts and no rows are kept. Two rules choose the parts in use:

    - Parts that differ from the newer ones are dropped permanently, after a sudden change. See
      :func:`agreeing_parts`, whose probability of error is bounded.
    - Among the parts that are kept, the window that predicted the latest blocks best is used, on a grid of
      doubling sizes: a slow drift makes all parts differ a little, which no strict test detects in time.

    Attributes
    ----------
    sizes : list of int
        Rows of each part, oldest first.
    forgotten : int
        Number of times that parts were dropped.
    """

    def __init__(self, layout: Layout, block: int = 100) -> None:
        super().__init__(layout, block)
        self.sizes: list[int] = []
        self.forgotten = 0
        self._parts: list[Vector] = []
        self._hits: list[Vector] = []  # of each part: the statistics that a change would move
        self._apart, self._compared = 1.0, 0
        self._next_test = 0
        # For windows of 2, 4, 8, ... blocks: the mean error relative to the best one of each block.
        self._errors: list[float] = []
        self._foretold = 0
        self._chosen = 0

    @property
    def n_items(self) -> float:
        return sum(self.sizes[len(self.sizes) - self._chosen :]) + self.waiting

    @property
    def dispersion(self) -> float:
        """Ratio of the variance of blocks to that of independent rows; at least 1."""
        return max(1.0, self._apart)

    def counts(self) -> Vector:
        total = self.layout.count(self.ring.read(0, self.waiting))
        for part in self._parts[len(self._parts) - self._chosen :]:
            total = total + part
        return total

    def draft(self, n_rows: int | None = None) -> Self:
        twin = super().draft(n_rows)
        twin.sizes, twin._parts, twin._hits = list(self.sizes), list(self._parts), list(self._hits)
        return twin

    def _close(self) -> None:
        new = self.layout.count(self.ring.read(0, self.block))
        hits = self.layout.rates_of(new[None])[0]
        if self.sizes:
            self._note_errors(hits)
            if self.sizes[-1] == self.block:
                apart = dispersion_of(hits, self._hits[-1], self.block, self.block)
                self._compared += 1
                self._apart += (apart - self._apart) / min(self._compared, _AVERAGED_BLOCKS)
        self.sizes.append(self.block)
        self._parts.append(new)
        self._hits.append(hits)
        self._merge()
        if self.n_seen >= self._next_test:
            self._forget()
            self._next_test = self.n_seen + int(_GROWTH * sum(self.sizes))
        self._choose()

    def _merge(self) -> None:
        size, at = self.block, len(self.sizes)
        while True:
            count = 0
            while at - count > 0 and self.sizes[at - count - 1] == size:
                count += 1
            if count <= _PER_SIZE:
                return
            oldest = at - count
            for parts in (self._parts, self._hits):
                parts[oldest : oldest + 2] = [parts[oldest] + parts[oldest + 1]]
            self.sizes[oldest : oldest + 2] = [2 * size]
            size, at = 2 * size, oldest + 1

    def _forget(self) -> None:
        kept = len(self.sizes)
        if self._compared < _FEW_BLOCKS:
            return
        sizes, blocks = np.array(self.sizes[::-1], np.float64), sum(self.sizes) / self.block
        # The same rows are tested at every block at first, later whenever the window has grown by a share.
        tests = min(blocks, np.log(max(blocks, 3)) / _GROWTH)
        keep = agreeing_parts(sizes, np.stack(self._hits[::-1]), dispersion=self.dispersion, tests=tests)
        if keep < kept:
            for parts in (self._parts, self._hits, self.sizes):
                del parts[: kept - keep]
            self.forgotten += 1
            self.urgent = True

    # ------------------------------------------------------------------ the best window

    def _reaches(self) -> list[int]:
        """Return the number of newest parts in each window of the grid; the last window has all parts."""
        reaches, total, wanted = list[int](), 0, 2 * self.block
        for reach, size in enumerate(reversed(self.sizes), start=1):
            total += size
            if total >= wanted:
                reaches.append(reach)
                while wanted <= total:
                    wanted *= 2
        if not reaches or reaches[-1] < len(self.sizes):
            reaches.append(len(self.sizes))
        return reaches

    def _note_errors(self, hits: Vector) -> None:
        """Update the prediction error of every window with a new block."""
        reaches = np.array(self._reaches()) - 1
        sums = np.cumsum(np.stack(self._hits[::-1]), axis=0)[reaches]
        sizes = np.cumsum(self.sizes[::-1])[reaches][:, None]
        share = np.clip(sums[-1] / sizes[-1], 0.5 / sizes[-1], 1 - 0.5 / sizes[-1])
        errors = np.mean((sums / sizes - hits / self.block) ** 2 / (share * (1 - share)), axis=1)
        relative = np.minimum(errors / max(errors.min(), 1e-12), _WORST_BLOCK).tolist()
        self._foretold += 1
        rate = 1 / min(self._foretold, _AVERAGED_BLOCKS)
        # A window that has just become possible has had the same parts as the one before it.
        known = (self._errors + self._errors[-1:] * len(relative))[: len(relative)] or [1.0] * len(relative)
        self._errors = [old + rate * (new - old) for old, new in zip(known, relative, strict=True)]

    def _choose(self) -> None:
        self._chosen = len(self.sizes)
        if self._foretold >= _FEW_BLOCKS:
            # The number of windows may have changed by now.
            reaches = self._reaches()
            errors = (self._errors + self._errors[-1:])[: len(reaches)]
            best = min(range(len(errors)), key=lambda at: (errors[at], -at))
            self._chosen = reaches[best]

    def _widen(self, before: Layout) -> None:
        self.ring.widen(self.layout)
        self._parts = [before.moved(part, self.layout) for part in self._parts]
        self._hits = [self.layout.rates_of(part[None])[0] for part in self._parts]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        meta = {
            "sizes": list(self.sizes),
            "forgotten": self.forgotten,
            "next_test": self._next_test,
            "foretold": self._foretold,
            "compared": self._compared,
            "chosen": self._chosen,
        }
        arrays = {
            **self.state_of_rows(self.n_seen - self.waiting),
            "parts": np.array(self._parts).reshape(len(self._parts), self.layout.size),
            "apart": np.array([self._apart]),
            "errors": np.array(self._errors, np.float64),
        }
        return meta, arrays

    def restore(self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        self.restore_rows(arrays, self.n_seen - self.waiting)
        check_fields(meta, _FIELDS, "window.")
        parts, sizes, errors, apart = arrays["parts"], meta["sizes"], arrays["errors"], arrays["apart"]
        require(
            meta["chosen"] <= len(sizes)
            and parts.dtype == np.float64
            and bool(np.isfinite(parts).all())
            and parts.shape == (len(sizes), self.layout.size)
            and [round(part[0]) for part in parts] == sizes
            and sum(sizes) + self.waiting <= self.n_seen
            and apart.shape == (1,)
            and errors.ndim == 1
            and apart.dtype == errors.dtype == np.float64
            and bool(np.isfinite(apart).all() and np.isfinite(errors).all())
        )
        self.sizes, self._parts = list(sizes), [checked_vector(part, self.layout) for part in parts]
        self._hits = [self.layout.rates_of(part[None])[0] for part in self._parts]
        self.forgotten, self._next_test = meta["forgotten"], meta["next_test"]
        self._foretold, self._compared, self._chosen = meta["foretold"], meta["compared"], meta["chosen"]
        self._apart, self._errors = float(apart[0]), errors.tolist()
