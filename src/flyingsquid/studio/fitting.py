"""Fits of the studio: a label model on all items or on a sample, and counts of votes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._warnings import capture_source_warnings
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.models import LabelModel
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import ABSTAIN

Codes = NDArray[np.int8]


@dataclass(frozen=True, eq=False)
class VoteSummary:
    """Numbers about the votes on all items; exact at every size."""

    # Share of items on which a source votes, and votes while another source votes for another class.
    coverage: NDArray[np.float64]
    conflicts: NDArray[np.float64]
    votes: NDArray[np.int64]  # shape (m, K)
    # Items with a vote, and with votes for different classes; shape (n,).
    covered: NDArray[np.bool_]
    disputed: NDArray[np.bool_]


def summarize_votes(columns: Sequence[Codes], n_items: int, n_classes: int) -> VoteSummary:
    """Count the votes of columns of shape (n,), in passes over bytes.

    Examples
    --------
    >>> import numpy as np
    >>> a, b = np.array([0, 1, -1], np.int8), np.array([1, 1, -1], np.int8)
    >>> summarize_votes([a, b], 3, 2).conflicts.round(2).tolist()
    [0.33, 0.33]
    """
    highest = np.full(n_items, ABSTAIN, np.int8)
    lowest = np.full(n_items, 255, np.uint8)  # a missing vote is 255 as an unsigned byte
    for column in columns:
        np.maximum(highest, column, out=highest)
        np.minimum(lowest, column.view(np.uint8), out=lowest)
    covered = highest >= 0
    disputed = covered & (highest.view(np.uint8) != lowest)
    votes = np.zeros((len(columns), n_classes), np.int64)
    conflicts = np.zeros(len(columns))
    for j, column in enumerate(columns):
        votes[j] = [np.count_nonzero(column == k) for k in range(n_classes)]
        conflicts[j] = np.count_nonzero((column >= 0) & disputed) / n_items
    return VoteSummary(votes.sum(axis=1) / n_items, conflicts, votes, covered, disputed)


@dataclass(frozen=True, eq=False)
class StudioFit:
    """A fitted model and the labels of the items that it was fitted on."""

    rows: NDArray[np.intp] | None  # the items of the fit; None for all; shape (r,)
    model: LabelModel | None  # none if no source votes, or if the fit failed
    votes: Votes | None
    proba: NDArray[np.float32] | None  # shape (r, K)
    labels: NDArray[np.int16]  # most probable class; -1 for items without votes; shape (r,)
    messages: tuple[str, ...] = ()


def fit_columns(
    columns: Sequence[Codes],
    classes: tuple[str, ...],
    names: Sequence[str],
    gold: dict[int, int],
    rows: NDArray[np.intp] | None,
    n_items: int,
) -> StudioFit:
    """Fit a label model to the columns of some items, and label these items."""
    n = n_items if rows is None else len(rows)
    nothing = np.full(n, ABSTAIN, np.int16)
    if not columns or len(classes) < 2:
        return StudioFit(rows, None, None, None, nothing)
    codes = np.empty((n, len(columns)), np.int8, order="F")
    for j, column in enumerate(columns):
        codes[:, j] = column if rows is None else column[rows]
    covered = codes.max(axis=1) >= 0
    if not covered.any():
        return StudioFit(rows, None, None, None, nothing)
    votes = Votes(np.ascontiguousarray(codes), classes, tuple(names))
    try:
        with capture_source_warnings() as messages:
            model = LabelModel(classes=classes).fit(votes, gold=gold_labels(gold, classes, rows, n))
        proba = model.predict_proba(votes, dtype=np.float32)
        _ = model.accuracies_interval_, model.diagnostics_  # shown in every table; computed on demand
    except FlyingSquidError as error:
        message = (f"The labels could not be estimated: {error}",)
        return StudioFit(rows, None, votes, None, nothing, message)
    labels = np.where(covered, proba.argmax(axis=1), ABSTAIN).astype(np.int16)
    return StudioFit(rows, model, votes, proba, labels, tuple(messages))


def gold_labels(
    gold: dict[int, int], classes: tuple[str, ...], rows: NDArray[np.intp] | None, n: int
) -> NDArray[Any] | None:
    """Return the gold labels of n items, None for those without one; None if there are no gold labels."""
    if not gold:
        return None
    items = np.fromiter(gold, np.intp, len(gold))
    labels = np.full(n, None, object)
    places = items if rows is None else np.searchsorted(rows, items)
    labels[places] = [classes[k] for k in gold.values()]
    return labels


def sample_rows(n_items: int, size: int, seed: int = 0) -> NDArray[np.intp] | None:
    """Return a fixed random sample of items in order; None if all items are few enough."""
    if n_items <= size:
        return None
    return np.sort(np.random.default_rng(seed).choice(n_items, size, replace=False)).astype(np.intp)


def with_gold(rows: NDArray[np.intp] | None, gold: dict[int, int]) -> NDArray[np.intp] | None:
    """Return the sample together with all items that have gold labels."""
    if rows is None or not gold:
        return rows
    return np.union1d(rows, np.fromiter(gold, np.intp, len(gold))).astype(np.intp)
