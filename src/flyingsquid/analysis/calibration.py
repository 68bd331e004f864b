"""Calibration: predicted probabilities compared with observed frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid._values import format_value, is_integer
from flyingsquid.analysis.items import read_items
from flyingsquid.estimation.normal import wilson
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.decisions import expected_credit
from flyingsquid.votes.tallies import has_votes

Array = NDArray[np.float64]

_MOST_BINS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """Observed frequency of an event, by its predicted probability.

    Attributes
    ----------
    event : str
        Event whose probability is predicted.
    edges : array of shape (b + 1,)
        Edges of the bins.
    counts : integer array of shape (b,)
        Items in each bin.
    probability : array of shape (b,)
        Mean probability in each bin; NaN in an empty bin.
    observed : array of shape (b,)
        Share of items in each bin for which the event occurred.
    low, high : arrays of shape (b,)
        Ends of the 95% interval of ``observed`` (Wilson).
    error : float
        Expected calibration error: mean of ``|probability - observed|``, bins weighted by their counts.
    """

    event: str
    edges: Array
    counts: NDArray[np.int64]
    probability: Array
    observed: Array
    low: Array
    high: Array
    error: float

    def _repr_html_(self) -> str:
        columns = (self.edges[:-1], self.edges[1:], self.counts, self.probability, self.observed)
        rows = tuple(zip(*(column.tolist() for column in columns), strict=True))
        head = ("from", "to", "items", "probability", "observed")
        title = f"{self.event}: expected calibration error {self.error:.3f}"
        return Table(head, rows, title, formats=(".2f", ".2f", ",", ".3f", ".3f"))._repr_html_()


def calibration(
    model: Any, votes: Any, y: Any, *, bins: int = 10, task: int | None = None, features: Any = None
) -> Calibration:
    """Compare the probabilities of a fitted model with gold labels.

    For two classes the event is the second class; for more, that the label is correct. Items without a gold
    label or without votes are not counted.

    Parameters
    ----------
    model : fitted label model
    votes : as for ``model.predict_proba``
    y : array of shape (n,)
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class.
    bins : int, default=10
        Number of bins of equal width.
    task : int, optional
        Task to analyze, for a model of several tasks.
    features : as for ``model.predict_proba``, optional
        Features of the items, for a model that was fitted with features.

    Returns
    -------
    Calibration

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(20_000, [0.8, 0.75, 0.7, 0.65], random_state=0)
    >>> found = calibration(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.event, found.error < 0.03
    ('P(1)', True)
    """
    items = read_items(model, votes, y, task=task, features=features)
    if items.gold is None:
        raise OptionError("`y` must be gold labels; got None.")
    kept = (items.gold >= 0) & has_votes(items.votes.codes)
    if not kept.any():
        raise VotesError("`y` must have a gold label for at least one item with votes; got none.")
    classes = items.votes.classes
    if len(classes) == 2:
        return calibrate(items.posterior[kept, 1], items.gold[kept] == 1, f"P({classes[1]})", bins=bins)
    right = expected_credit(items.posterior[kept], items.gold[kept])
    return calibrate(items.posterior[kept].max(axis=1), right, "P(label is right)", bins=bins)


def calibrate(probability: Array, occurred: NDArray[Any], event: str, *, bins: int = 10) -> Calibration:
    """Compare probabilities of shape (n,) with whether the event occurred.

    >>> rained = np.array([False, False, True, False])
    >>> found = calibrate(np.array([0.1, 0.1, 0.9, 0.9]), rained, "rain", bins=2)
    >>> found.counts.tolist(), found.observed.tolist(), round(found.error, 3)
    ([2, 2], [0.0, 0.5], 0.25)
    """
    if not is_integer(bins) or not 1 <= bins <= _MOST_BINS:
        raise OptionError(f"`bins` must be an integer from 1 to {_MOST_BINS:,}; got {format_value(bins)}.")
    bins = int(bins)
    edges = np.linspace(0.0, 1.0, bins + 1)
    at = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, bins - 1)
    counts = np.bincount(at, minlength=bins).astype(np.int64)
    filled = counts > 0
    mean, observed = (
        np.divide(np.bincount(at, values, minlength=bins), counts, out=np.full(bins, np.nan), where=filled)
        for values in (probability, occurred)
    )
    low, high = wilson(observed, counts)
    error = float(np.sum(counts[filled] * np.abs(mean - observed)[filled]) / max(int(counts.sum()), 1))
    return Calibration(event, edges, counts, mean, observed, low, high, error)
