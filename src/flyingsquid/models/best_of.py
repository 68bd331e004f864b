"""Choice of the best of several candidates, such as answers to one question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table, Tabular
from flyingsquid._values import format_count
from flyingsquid.exceptions import VotesError
from flyingsquid.votes.encode import as_column

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class BestOf(Tabular):
    """The best candidate of each group.

    Attributes
    ----------
    groups : array of shape (g,)
        Labels of the groups, or their positions.
    chosen : int array of shape (g,)
        Position of the chosen candidate within its group; -1 if a group has no scores.
    probabilities : array of shape (g, c)
        Probability that each candidate is the best of its group, 0 or NaN for missing candidates.
    scores : array of shape (g, c)
        Expected true score of each candidate, NaN for missing ones.
    """

    groups: NDArray[Any]
    chosen: NDArray[np.intp]
    probabilities: Array
    scores: Array

    @property
    def probability(self) -> Array:
        """Probability that the chosen candidate is the best, shape (g,); NaN without scores."""
        at = np.maximum(self.chosen, 0)[:, None]
        return np.where(self.chosen >= 0, np.take_along_axis(self.probabilities, at, axis=1)[:, 0], np.nan)

    def table(self) -> Table:
        """Return one row per group."""
        at = np.maximum(self.chosen, 0)[:, None]
        scores = np.take_along_axis(self.scores, at, axis=1)[:, 0]
        chosen = [int(k) if k >= 0 else None for k in self.chosen]
        rows = zip(self.groups.tolist(), chosen, self.probability.tolist(), scores.tolist(), strict=True)
        return Table(
            ("group", "chosen", "probability", "score"), tuple(rows), formats=("", "d", ".2f", ".4g")
        )


def group_rows(groups: Any, n_items: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the distinct groups in order of occurrence, and their rows (g, c), padded with -1."""
    labels = as_column(groups, "groups").tolist()
    if len(labels) != n_items:
        raise VotesError(
            f"`groups` must have one label for each of {format_count(n_items, 'row')} of `scores`; got "
            f"{len(labels)}.",
            parameter="groups",
        )
    members: dict[Any, list[int]] = {}
    for row, label in enumerate(labels):
        members.setdefault(label, []).append(row)
    rows = np.full((len(members), max(map(len, members.values()))), -1, np.intp)
    for at, found in enumerate(members.values()):
        rows[at, : len(found)] = found
    keys = np.empty(len(members), object)
    keys[:] = list(members)
    return keys, rows
