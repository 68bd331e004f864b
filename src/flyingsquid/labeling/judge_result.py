"""What a run of judges gave: votes, raw answers, and counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.labeling.answers import Missing, Pick, number
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import REASONS

if TYPE_CHECKING:
    from flyingsquid._table import Scalar, Table

_EVENTS = ("asked", "kept", "retries", "timeouts")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class JudgeRun:
    """What :func:`ask_judges` returns; printed, a table of counts.

    Attributes
    ----------
    votes : Votes of shape (n, m)
        Missing ones with their reasons: abstained, refused, unparseable or failed.
    answers : objects of shape (n, m)
        What each judge returned, before it was read; None where there is nothing.
    counts : mapping from a count to m numbers, one a judge
        ``answered`` and the four reasons sum to n. ``asked``: items asked about in this run; ``kept``: items
        whose answer was taken from the file; ``retries`` and ``timeouts``: attempts of this run.
    first_errors, first_unparseable : m texts or None
        The first error, and the first answer that could not be read, of each judge.
    """

    votes: Votes
    answers: NDArray[np.object_]
    counts: dict[str, NDArray[np.int64]]
    first_errors: tuple[str | None, ...]
    first_unparseable: tuple[str | None, ...]

    def summary(self) -> Table:
        """One row a judge; below it the first error and the first unparseable answer of each."""
        # Here, because analysis takes most of a second to import, and asking does not need it.
        from flyingsquid._table import Table  # noqa: PLC0415

        columns = ("answered", *REASONS, *_EVENTS)
        rows: list[tuple[Scalar, ...]] = [
            (name, *(int(self.counts[column][j]) for column in columns))
            for j, name in enumerate(self.votes.source_names)
        ]
        notes = []
        for j, name in enumerate(self.votes.source_names):
            for what, text in (("error", self.first_errors[j]), ("unparseable", self.first_unparseable[j])):
                if text is not None:
                    notes.append(f"{name}, first {what}: {text if len(text) <= 100 else text[:97] + '...'}")
        return Table(
            ("judge", *columns), tuple(rows), footnotes=tuple(notes), formats=("", *[",d"] * len(columns))
        )

    def scores(self, *, pick: Pick = "only") -> NDArray[np.float64]:
        """The number in each answer, shape (n, m), NaN where there is none, for ``fs.score_bins``."""
        flat = [number(answer, pick=pick) for answer in self.answers.ravel()]
        return np.array(flat, np.float64).reshape(self.answers.shape)

    def __repr__(self) -> str:
        return repr(self.summary())

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def count_outcomes(outcomes: Sequence[Sequence[Any]]) -> dict[str, NDArray[np.int64]]:
    """How often each judge answered, and did not; ``outcomes[i][j]`` is a class or one of ``Missing``."""
    n_judges = len(outcomes[0])
    counts = {name: np.zeros(n_judges, np.int64) for name in ("answered", *REASONS)}
    for row in outcomes:
        for j, outcome in enumerate(row):
            counts[outcome.value if isinstance(outcome, Missing) else "answered"][j] += 1
    return counts
