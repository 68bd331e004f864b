"""Read votes and gold labels for multi-label models."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_list, format_value, option_error
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.votes import Votes, as_votes, frames
from flyingsquid.votes.arguments import join_labels, read_gold, read_task_gold
from flyingsquid.votes.codes import Label, require_same
from flyingsquid.votes.reading import located

NO_YES = (0, 1)
"""The classes of every label: 0 if it does not apply, 1 if it applies."""


def naming(label: Label) -> AbstractContextManager[None]:
    """Add the label to error messages."""
    return located(f"label {format_value(label)}")


def read_labels(labels: Any) -> tuple[Label, ...] | None:
    """Return the names of the labels; None if they are not given."""
    if labels is None:
        return None
    try:
        read = tuple(v.item() if isinstance(v, np.generic) else v for v in labels)
        distinct = len(set(read)) == len(read)
    except TypeError as error:
        raise OptionError(f"`labels` must be a sequence of labels; reading it failed: {error}") from error
    if isinstance(labels, str) or not read or not distinct:
        raise option_error("labels", "a sequence of different labels", labels)
    return read


def read_votes(data: Any, labels: tuple[Label, ...] | None) -> dict[Label, Votes]:
    """Return votes with the classes 0 and 1 by label, in the order of ``labels``, all on the same items."""
    if isinstance(data, Mapping):
        by_label = dict(data)
        if labels is not None:
            require_same("labels", set(by_label), set(labels))
            by_label = {label: by_label[label] for label in labels}
    else:
        by_label = _by_last_axis(data, labels)
    if not by_label:
        raise VotesError("`votes` must have at least one label; got an empty mapping.")
    read = {label: _read_one(votes, label) for label, votes in by_label.items()}
    first = next(iter(read))
    for label, votes in read.items():
        if len(votes) != len(read[first]):
            raise VotesError(
                f"`votes` must have the same items for all labels; got {len(read[first])} for "
                f"{format_value(first)} and {len(votes)} for {format_value(label)}. Use -1 for missing "
                "votes."
            )
        read[label] = _in_order_of(votes, read[first], f"The votes on {format_value(label)}")
    return read


def _in_order_of(votes: Votes, first: Votes, what: str) -> Votes:
    """Return votes with the items in the order of the first ones, if both have identifiers."""
    if votes.items is None or first.items is None or votes.items.tolist() == first.items.tolist():
        return votes
    position = {key: at for at, key in enumerate(votes.items.tolist())}
    ids = first.items.tolist()
    if len(position) < len(ids) or not set(ids) <= set(position):
        raise VotesError(
            f"{what} must have the items of the votes on the first label; got other identifiers, such as "
            f"{format_list([key for key in position if key not in set(ids)] or list(position), 2)}."
        )
    return votes[[position[key] for key in ids]]


def _by_last_axis(data: Any, labels: tuple[Label, ...] | None) -> dict[Label, Any]:
    try:
        array = np.asanyarray(None if isinstance(data, Votes) else data)
    except ValueError as error:
        raise VotesError(
            f"`votes` must be an array of shape (n, m, C); reading it failed: {error}"
        ) from error
    if array.ndim != 3 or 0 in array.shape:
        what = f"{type(data).__name__}, shape {array.shape}" if array.ndim else type(data).__name__
        raise VotesError(
            "`votes` must be an array of shape (n, m, C), items x sources x labels, or a mapping from "
            f"labels to votes; got {what}."
        )
    names = tuple(range(array.shape[2])) if labels is None else labels
    if len(names) != array.shape[2]:
        raise IncompatibleError(
            f"`votes` must have one entry per label on the last axis ({len(names)}: {format_list(names)}); "
            f"got shape {array.shape}."
        )
    return {label: array[:, :, c].copy() for c, label in enumerate(names)}


def _read_one(data: Any, label: Label) -> Votes:
    with naming(label):
        votes = as_votes(data, NO_YES)
        if votes.classes in (NO_YES, (-1, 1)):
            return replace(votes, classes=NO_YES)
        raise VotesError(
            f"The classes must be 0 and 1 (the label applies); got {format_list(votes.classes)}. If the "
            "second class means that the label applies, pass Votes(votes.codes, (0, 1), votes.names)."
        )


def read_truth(y: Any, by_label: Mapping[Label, Votes], what: str) -> NDArray[Any]:
    """Return gold labels of the votes on each label, shape (n, C): 0, 1, or negative if unknown.

    Series, and the rows of a pandas table, are joined by item identifier if the votes have some.
    """
    labels, votes = tuple(by_label), next(iter(by_label.values()))
    n_items = len(votes)
    if isinstance(y, Mapping):
        unknown = [label for label in y if label not in labels]
        if unknown:
            raise VotesError(
                f"`{what}` must have labels among {format_list(labels)}; got {format_value(unknown[0])}."
            )
        truth = np.full((n_items, len(labels)), -1)
        for at, label in enumerate(labels):
            if label in y:
                name = f"{what}[{label!r}]"
                truth[:, at] = read_gold(join_labels(y[label], votes, votes, name), NO_YES, n_items, name)
        return truth
    if not frames.is_frame(y):
        return read_task_gold(y, NO_YES, (n_items, len(labels)), what)
    table = Votes.from_frame(y, classes=NO_YES)
    require_same(f"labels of {what}", set(table.source_names), set(map(str, labels)))
    if len(table) != n_items:
        raise VotesError(
            f"`{what}` must have one row for each of {format_count(n_items, 'item')}; got {len(table):,}."
        )
    table = table.matched_to(NO_YES, tuple(map(str, labels)))
    return np.asarray(_in_order_of(table, votes, f"`{what}`").codes)
