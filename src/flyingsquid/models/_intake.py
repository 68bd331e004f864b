"""What a stream brings: votes matched to the sources and classes that are known, new ones found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, is_whole, told
from flyingsquid.exceptions import GraphError, IncompatibleError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.coerce import labels_in, one_row
from flyingsquid.votes.states import ABSTAIN, MOST_CLASSES, Label, require_same, smallest_dtype


def first_votes(data: Any, classes: tuple[Label, ...] | None, graph: DependencyGraph | None) -> Votes:
    """The votes that a stream begins with, dense."""
    votes = as_votes(data, classes, None if graph is None else graph.stacked_shape)
    if graph is not None and graph.n_sources != votes.n_sources:
        raise GraphError(
            f"the graph has {graph.n_sources} sources, the votes have {votes.n_sources}; one column a "
            "source, in the order of the graph"
        )
    if classes is not None:
        votes = votes.matched_to(classes, None)
    return votes.to_dense()


def further_votes(
    data: Any, classes: tuple[Label, ...], *, add_classes: bool, tasks: tuple[int, int] | None
) -> Votes:
    """Votes of a stream that has begun, dense; of more classes where these may be added."""
    if isinstance(data, Votes) or not add_classes:
        return as_votes(data, classes, tasks).to_dense()
    try:
        return as_votes(data, classes, tasks)
    except VotesError:
        new = _new_classes(labels_in(data), classes)
        if not new:
            raise
        return as_votes(data, (*classes, *new), tasks)


def all_classes(classes: tuple[Label, ...], votes: Votes, *, add: bool) -> tuple[Label, ...]:
    """The classes that are known, and those that the votes add."""
    if not add:
        require_same("classes", set(votes.classes), set(classes))
        return classes
    return (*classes, *(label for label in votes.classes if label not in classes))


def all_names(
    names: tuple[str, ...] | None, n_sources: int, votes: Votes, *, add: bool
) -> tuple[str, ...] | None:
    """The names that are known, and those that the votes add."""
    if names is None or votes.names is None:
        if votes.n_sources != n_sources:
            hint = "; new_sources='add' needs named sources on both sides" if add else ""
            raise IncompatibleError(f"votes have {votes.n_sources} sources; the stream has {n_sources}{hint}")
        return names
    if not add:
        require_same("sources", set(votes.names), set(names))
        return names
    known = set(names)
    return (*names, *(name for name in votes.names if name not in known))


def matched_codes(
    votes: Votes, classes: tuple[Label, ...], names: tuple[str, ...] | None, n_sources: int
) -> NDArray[Any]:
    """Codes of shape (n, n_sources) in the order of the stream; a source that is not there abstains."""
    codes: Any = votes.codes
    if votes.classes != classes:
        to = np.array([classes.index(label) for label in votes.classes], smallest_dtype(len(classes)))
        codes = np.where(codes >= 0, to[np.maximum(codes, 0)], codes)
    if names is None or votes.names is None or votes.names == names:
        return np.asarray(codes)
    full = np.full((len(codes), n_sources), ABSTAIN, smallest_dtype(len(classes)))
    position = {name: at for at, name in enumerate(names)}
    full[:, [position[name] for name in votes.names]] = codes
    return full


def row_votes(row: Any, names: tuple[str, ...] | None, tasks: tuple[int, int] | None) -> Any:
    """The votes on one item as a matrix of one row; a mapping keeps its names."""
    if isinstance(row, Mapping):
        if not row:
            raise VotesError("the votes on one item are an empty mapping; name the sources, None abstains")
        return _Named(tuple(str(name) for name in row), list(row.values()))
    if tasks is not None and tasks[0] > 1 and getattr(row, "shape", None) == tasks:
        return row.reshape(1, -1)
    return one_row(row, names)


class _Named:
    """One row of named votes, before its classes are known."""

    def __init__(self, names: tuple[str, ...], values: list[Any]) -> None:
        self.names, self.values = names, values

    def read(self, classes: tuple[Label, ...] | None) -> Votes:
        array = np.empty((1, len(self.values)), object)
        array[0] = self.values
        if classes is not None and ABSTAIN in classes:
            return Votes.from_classes(array, abstain=None, classes=classes, names=self.names)
        return Votes.from_classes(array, classes=classes, names=self.names)

    def labels(self) -> set[Any]:
        return {value for value in self.values if not is_null(value)}


def read_row(data: Any, classes: tuple[Label, ...] | None, *, add_classes: bool) -> Any:
    """A named row as votes; anything else as it is."""
    if not isinstance(data, _Named):
        return data
    if classes is not None and add_classes:
        classes = (*classes, *_new_classes(data.labels(), classes))
    return data.read(classes)


def _new_classes(labels: set[Any], classes: tuple[Label, ...]) -> tuple[Label, ...]:
    """Labels that are not known, in an order that does not depend on where they stand."""
    found = {label for label in labels if label not in classes and label != ABSTAIN}
    plain = classes == tuple(range(len(classes)))
    if plain and found and all(is_whole(v) and v >= 0 for v in found):
        largest = int(max(found))
        if largest >= MOST_CLASSES:
            raise VotesError(
                f"the largest vote is {told(largest, 30)}, and there can be {MOST_CLASSES:,} classes at "
                "most, counted from 0; name the classes of the stream with classes= if these are labels"
            )
        return tuple(range(len(classes), largest + 1))
    return tuple(sorted(found, key=lambda label: (type(label).__name__, label)))
