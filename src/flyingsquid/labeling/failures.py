"""What went wrong where, counted by function."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from flyingsquid._values import told
from flyingsquid.exceptions import LabelingError, SourceWarning


@dataclass(frozen=True, slots=True)
class Failure:
    """The failed calls of one function.

    Attributes
    ----------
    count : int
        How many items it failed on.
    row : int
        The first of them.
    error : str
        What was raised there, in one line.
    traceback : str
        The same with all frames.
    """

    count: int
    row: int
    error: str
    traceback: str

    def __str__(self) -> str:
        return f"{self.count:,} failed, first on row {self.row:,}: {self.error}"


@dataclass(frozen=True, slots=True)
class ApplyLog:
    """What happened while functions were applied.

    Attributes
    ----------
    n_items : int
    failures : mapping from name to :class:`Failure`
        Only functions that failed somewhere.
    cached : tuple of str
        Functions whose votes were read from the cache.
    not_cached : mapping from name to str
        Functions that a cache was asked for and whose votes could not be kept, with the reason.

    Examples
    --------
    >>> import warnings, flyingsquid as fs
    >>> @fs.labeling_function
    ... def inverse(x):
    ...     return int(1 / x)
    >>> with warnings.catch_warnings(action="ignore"):
    ...     votes, log = fs.apply([inverse], [1, 0, 1], on_error="abstain", return_log=True)
    >>> print(log)
    3 items; inverse: 1 failed, first on row 1: ZeroDivisionError: division by zero
    >>> votes.missing_counts()["failed"]
    array([1])
    """

    n_items: int
    failures: Mapping[str, Failure]
    cached: tuple[str, ...] = ()
    not_cached: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        parts = [f"{self.n_items:,} items", *(f"{name}: {what}" for name, what in self.failures.items())]
        if self.cached:
            parts.append(f"from the cache: {', '.join(self.cached)}")
        parts += [f"{name} not kept: {why}" for name, why in self.not_cached.items()]
        return "; ".join(parts)


class Watch:
    """Notes the failures of one function on one chunk, or raises at the first."""

    def __init__(self, name: str, first_row: int, raises: bool) -> None:
        self.name = name
        self.first_row = first_row
        self.raises = raises
        self.failure: Failure | None = None

    def call_failed(self, at: int, error: Exception, count: int = 1) -> None:
        """A call on item ``at`` of the chunk raised; of a vectorised function, on all ``count`` items."""
        row = self.first_row + at
        summary = _one_line(error)
        if self.raises:
            where = f"row {row}" if count == 1 else f"rows {row} to {row + count - 1}"
            raise LabelingError(
                f"{where}, function {told(self.name)}: {summary}. Mend the function, or pass "
                "on_error='abstain' to count such rows as missing votes",
                function=self.name,
            ) from error
        self._note(row, summary, lambda: _trace_of(error), count)

    def bad_value(self, at: int, what: str) -> None:
        """The function returned what is no vote on item ``at`` of the chunk."""
        row = self.first_row + at
        if self.raises:
            raise LabelingError(f"row {row}, function {told(self.name)} {what}", function=self.name)
        self._note(row, what, lambda: f"row {row}, function {self.name!r} {what}\n")

    def _note(self, row: int, error: str, trace: Callable[[], str], count: int = 1) -> None:
        known = self.failure
        if known is not None and known.row <= row:
            # Only the count changes: a traceback is slow to write, and failures may be many.
            self.failure = replace(known, count=known.count + count)
        else:
            before = 0 if known is None else known.count
            self.failure = Failure(before + count, row, error, trace())


def merge_failures(parts: Sequence[Failure | None]) -> Failure | None:
    """The failures of one function on several chunks: counts add up, the first row is kept."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    first = min(present, key=lambda part: part.row)
    return Failure(sum(part.count for part in present), first.row, first.error, first.traceback)


def warn_of_failures(log: ApplyLog, stacklevel: int) -> None:
    """One warning for all functions that failed."""
    if log.failures:
        failed = "; ".join(f"{name!r}: {what}" for name, what in log.failures.items())
        warnings.warn(
            f"labeling functions failed, and these votes are missing: {failed}. return_log=True gives the "
            "first traceback of each",
            SourceWarning,
            stacklevel=stacklevel + 1,
        )


def _trace_of(error: Exception) -> str:
    """The traceback from the user's function on: how it was called says nothing."""
    begins = error.__traceback__.tb_next if error.__traceback__ is not None else None
    return "".join(traceback.format_exception(type(error), error, begins or error.__traceback__))


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    text = text if len(text) <= 200 else text[:197] + "..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
