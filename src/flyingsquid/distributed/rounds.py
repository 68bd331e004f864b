"""Votes that stay on a cluster, and the rounds of map and reduce over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from flyingsquid._registry import reader_of
from flyingsquid._values import listed, told
from flyingsquid.distributed import chunks
from flyingsquid.distributed.labels import Labelling, Work
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Gathered, Moments
from flyingsquid.votes.codes import Label, require_same
from flyingsquid.votes.encode import Convention, encode


class Parts(Protocol):
    """What an engine does; ``dask.py`` and ``spark.py`` are the two of them."""

    columns: tuple[Any, ...] | None
    """Names of the columns, known without computing; None for chunks without names."""

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and bring the sum here."""

    def label(self, labelling: Labelling) -> Any:
        """Labels of every chunk, where the chunk is."""

    def transform(self, work: Work) -> Any:
        """A dataframe turned into another one, chunk by chunk, where it is."""


@dataclass(frozen=True, slots=True, repr=False)
class DistributedVotes:
    """Votes on a cluster. Nothing is computed before counts are asked for. Made by :func:`votes`.

    Attributes
    ----------
    parts : the frame, in the hands of its engine
    columns : tuple of column names, or None where chunks have none
        The sources, in order.
    classes : tuple of K labels, or None: found by a round over the votes
    keep : tuple of column names
        What stands beside the labels that ``predict`` and ``predict_proba`` give.
    """

    parts: Parts
    columns: tuple[Any, ...] | None = None
    classes: tuple[Label, ...] | None = None
    keep: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        sources = "sources without names" if self.columns is None else f"{len(self.columns)} sources"
        return (
            f"DistributedVotes({type(self.parts).__name__}, {sources}, classes {self.classes or 'not known'})"
        )

    def with_classes(self, classes: tuple[Label, ...] | None = None) -> DistributedVotes:
        """The same votes with their classes known: given, declared, or found by a round over the votes."""
        if classes is not None and self.classes is not None and len(classes) != len(self.classes):
            raise OptionError(f"n_classes={len(classes)}, and the classes are {listed(self.classes)}")
        known = self.classes or classes
        return replace(self, classes=self._find_classes() if known is None else known)

    def gather(self, graph: DependencyGraph | None = None, rows: bool = True) -> Gathered:
        """Counts and, while they are few, the distinct rows; one round more finds classes not known."""
        known = self.with_classes()
        tasks = None if graph is None else graph.stacked_shape
        reader = chunks.Reader(known.columns, known.classes, tasks)
        total: Gathered = known._round(partial(chunks.gather, reader=reader, graph=graph, rows=rows))
        return total

    def moments(self, graph: DependencyGraph | None = None) -> Moments:
        """Counts, the same integers as on one machine."""
        return self.gather(graph, rows=False).moments

    def label(self, estimator: Any, method: str, options: dict[str, Any]) -> Any:
        """What ``estimator.predict`` or ``predict_proba`` says of every chunk, where the chunk is."""
        if self.columns is not None:  # said here: on a worker it would be too late for a plain error
            theirs = set(estimator.vote_schema_.names or map(str, self.columns))
            try:
                require_same("sources", set(map(str, self.columns)), theirs)
            except IncompatibleError as error:
                raise IncompatibleError(f"{error}. {chunks.PICK}") from error
        return self.parts.label(Labelling.by(estimator, method, options, self.columns, self.keep))

    def _find_classes(self) -> tuple[Label, ...]:
        found: chunks.Labels = self._round(partial(chunks.find_labels, reader=chunks.Reader(self.columns)))
        if found.declared is not None:
            return found.declared
        labels = [sorted(values, key=repr) for values in found.values]
        if not all(isinstance(label, bool) for column in labels for label in column):
            labels = [[int(v) if isinstance(v, bool) else v for v in column] for column in labels]
        table = np.full((max(1, *map(len, labels)), len(labels)), None, object)
        for j, column in enumerate(labels):
            table[: len(column), j] = column
        try:
            return encode(table, Convention.declared(None), lambda _, j: f"column {found.names[j]!r}")[1]
        except VotesError as error:
            raise VotesError(f"{error}. {chunks.PICK}, which also takes classes=") from error

    def _round(self, task: Callable[[Any], Any]) -> Any:
        total = self.parts.reduce(task, self.columns)
        if total is None:
            raise VotesError("votes are empty: no part of the frame has any rows")
        if isinstance(total, FlyingSquidError):
            raise total
        return total


def votes(
    frame: Any,
    *,
    columns: Sequence[Any] | None = None,
    classes: Sequence[Label] | None = None,
    keep: Sequence[Any] = (),
) -> DistributedVotes:
    """Say how a frame on a cluster is read. The result goes where the frame would go.

    Parameters
    ----------
    frame : Dask array or dataframe, list of dask.delayed chunks, or Spark dataframe
        One row an item and one column a source. A chunk is anything that ``Votes.from_classes`` or
        ``Votes.from_frame`` take, or ``Votes``. Null, NaN and -1 are no vote.
    columns : sequence of column names, optional
        The sources. Default: all columns but those in ``keep``.
    classes : sequence of K labels, optional
        Saves the round over the votes that finds them: 0 to the largest for integers, the sorted labels
        for texts.
    keep : sequence of column names
        Columns that stand beside the labels, such as identifiers.
    """
    home = reader_of(frame)
    if home is None:
        raise OptionError(
            f"a Dask array or dataframe, a list of dask.delayed chunks or a Spark dataframe is needed, not "
            f"{type(frame).__name__}; votes in memory are read by fs.Votes"
        )
    parts: Parts = import_module(home).parts_of(frame)
    present = parts.columns
    if present is None:
        if keep:
            raise OptionError(
                "keep= names columns of a dataframe, and these chunks have none; zip them by position"
            )
        chosen = None if columns is None else _listed("columns", columns)
    else:
        kept = _listed("keep", keep)
        chosen = (
            tuple(c for c in present if c not in kept) if columns is None else _listed("columns", columns)
        )
        for name in (*chosen, *kept):
            if name not in present:
                raise VotesError(f"no column {told(name)}; the frame has {', '.join(map(str, present))}")
        if not chosen:
            raise VotesError("no column of votes is left; one column a source is needed")
    known = Convention.declared(classes).classes
    return DistributedVotes(parts, chosen, known, tuple(keep))


def _listed(option: str, names: Any) -> tuple[Any, ...]:
    if isinstance(names, str):
        raise OptionError(f"{option}={told(names)} is one text; pass a list of column names")
    return tuple(names)
