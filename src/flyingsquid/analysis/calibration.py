"""Do probabilities mean what they say? Labels beside known classes, by how sure the model is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_whole, told
from flyingsquid.analysis.reading import read_items
from flyingsquid.estimation.normal import wilson
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]

_MOST_BINS = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """How often events of about one probability occur, bin by bin.

    Attributes
    ----------
    event : text
        What the probabilities are of.
    edges : array of shape (b + 1,)
    counts : integer array of shape (b,)
        Probabilities in each bin.
    probability : array of shape (b,)
        Their mean; NaN in an empty bin.
    observed : array of shape (b,)
        How often the event occurred there.
    low, high : arrays of shape (b,)
        95% interval of ``observed`` (Wilson's).
    error : float
        Mean of ``|probability - observed|``, bins weighted by their counts: the expected calibration error.
    """

    event: str
    edges: Array
    counts: NDArray[np.int64]
    probability: Array
    observed: Array
    low: Array
    high: Array
    error: float


def calibration(model: Any, votes: Any, y: Any, *, bins: int = 10, task: int | None = None) -> Calibration:
    """Set the probabilities of a fitted model beside known labels.

    For two classes the event is the second one; for more, that the label is right. Only items of known class
    count, and of them only those with a vote.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(20_000, [0.8, 0.75, 0.7, 0.65], random_state=0)
    >>> found = calibration(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    >>> found.event, found.error < 0.03
    ('P(1)', True)
    """
    items = read_items(model, votes, y, task=task)
    if items.gold is None:
        raise OptionError("calibration takes known labels; pass y")
    kept = (items.gold >= 0) & (item_votes(items.votes.codes).cast > 0)
    if not kept.any():
        raise VotesError("y holds no known class of an item with votes, so nothing can be compared")
    classes = items.votes.classes
    if len(classes) == 2:
        return calibrate(items.posterior[kept, 1], items.gold[kept] == 1, f"P({classes[1]})", bins=bins)
    right = items.labels[kept] == items.gold[kept]
    return calibrate(items.posterior[kept].max(axis=1), right, "P(label is right)", bins=bins)


def calibrate(probability: Array, occurred: NDArray[np.bool_], event: str, *, bins: int = 10) -> Calibration:
    """The same for probabilities of shape (n,) of an event, and whether it occurred.

    >>> rained = np.array([False, False, True, False])
    >>> found = calibrate(np.array([0.1, 0.1, 0.9, 0.9]), rained, "rain", bins=2)
    >>> found.counts.tolist(), found.observed.tolist(), round(found.error, 3)
    ([2, 2], [0.0, 0.5], 0.25)
    """
    if not is_whole(bins) or not 1 <= bins <= _MOST_BINS:
        raise OptionError(f"bins={told(bins)} is no number of bins, 1 to {_MOST_BINS:,}")
    edges = np.linspace(0.0, 1.0, int(bins) + 1)
    at = np.clip(np.searchsorted(edges, probability, side="right") - 1, 0, int(bins) - 1)
    counts = np.bincount(at, minlength=int(bins)).astype(np.int64)
    mean = _over(np.bincount(at, probability, minlength=int(bins)), counts)
    observed = _over(np.bincount(at, occurred, minlength=int(bins)), counts)
    low, high = wilson(observed, counts)
    known = counts > 0
    error = float(np.sum(counts[known] * np.abs(mean - observed)[known]) / max(int(counts.sum()), 1))
    return Calibration(event, edges, counts, mean, observed, low, high, error)


def _over(part: NDArray[Any], whole: NDArray[Any]) -> Array:
    return np.divide(part, whole, out=np.full(len(whole), np.nan), where=whole > 0)
