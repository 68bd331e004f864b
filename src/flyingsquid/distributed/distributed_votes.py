"""Votes that stay on a cluster, and the rounds of map and reduce over them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from flyingsquid._registry import reader_of
from flyingsquid._values import format_count, format_list, format_value, option_error
from flyingsquid.distributed.transforms import (
    COLUMNS_HINT,
    Labeling,
    Labels,
    Reader,
    Transform,
    count,
    find_labels,
    labeled_rows,
)
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, OptionError, VotesError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import ChunkCounts, Moments
from flyingsquid.votes.arguments import read_keys
from flyingsquid.votes.codes import Label, require_same
from flyingsquid.votes.conventions import is_gold_name
from flyingsquid.votes.encode import Convention, classes_of
from flyingsquid.votes.gold_items import GoldItems, LabeledRows, require_all_found


class Parts(Protocol):
    """Interface of an engine, implemented in ``dask.py`` and ``spark.py``."""

    columns: tuple[Any, ...] | None
    """Names of the columns, known in advance; None for chunks without names."""

    def reduce(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None) -> Any:
        """Apply a task to every chunk, add the results in a tree, and return the sum."""

    def label(self, labeling: Labeling) -> Any:
        """Return labels on the cluster, lazily."""

    def transform(self, transform: Transform) -> Any:
        """Return a transformed dataframe on the cluster, lazily."""


@dataclass(frozen=True, slots=True, repr=False)
class DistributedVotes:
    """Votes on a cluster, as returned by :func:`votes`. Nothing is computed until counts are needed.

    Attributes
    ----------
    parts : Parts
        The chunks and their engine.
    columns : tuple of column names, or None if chunks have none
        The sources, in order.
    classes : tuple of K labels, or None to find them in a pass over the votes
    keep : tuple of column names
        Columns to keep next to the labels of ``predict`` and ``predict_proba``.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> import pandas as pd
    >>> from dask.dataframe import from_pandas
    >>> frame = from_pandas(pd.DataFrame({"a": [0, 1, 1], "b": [1, 1, 0]}), npartitions=2)
    >>> fs.Moments.of(fs.distributed.votes(frame))
    Moments(3 items x 2 sources, classes 0, 1, integer counts)
    """

    parts: Parts
    columns: tuple[Any, ...] | None = None
    classes: tuple[Label, ...] | None = None
    keep: tuple[Any, ...] = ()

    def __repr__(self) -> str:
        names = self.columns
        sources = "sources without names" if names is None else format_count(len(names), "source")
        return (
            f"DistributedVotes({type(self.parts).__name__}, {sources}, classes {self.classes or 'unknown'})"
        )

    def with_classes(self, classes: tuple[Label, ...] | None = None) -> DistributedVotes:
        """Return the same votes with known classes: given, declared, or found in a pass over the votes."""
        if classes is not None and self.classes is not None and len(classes) != len(self.classes):
            raise OptionError(
                f"`n_classes` must match the classes {format_list(self.classes)}; got {len(classes)}.",
                parameter="n_classes",
            )
        known = self.classes or classes
        return replace(self, classes=self._find_classes() if known is None else known)

    def count(self, graph: DependencyGraph | None = None, rows: bool = True) -> ChunkCounts:
        """Return counts and, while they are few, the distinct rows; unknown classes take one more round."""
        known = self.with_classes()
        tasks = None if graph is None else graph.stacked_shape
        reader = Reader(known.columns, known.classes, tasks)
        total: ChunkCounts = known._round(partial(count, reader=reader, graph=graph, rows=rows))
        return total

    def gold_items(self, gold: Any) -> GoldItems | None:
        """Return the votes on items with gold labels. Requires a pass over the votes.

        Items are identified by the column in ``keep`` if it has one entry, otherwise by the index of a pandas
        chunk or by ``Votes.items``.

        Raises
        ------
        VotesError
            If ``gold`` is not a mapping or a pandas Series, or cannot be joined.
        """
        by_id = read_keys(gold, "gold")
        if by_id is None:
            raise VotesError(
                "`gold` must be a mapping or a pandas Series by item identifier for votes on a cluster; got "
                f"{type(gold).__name__}.",
                parameter="gold",
            )
        item = self.keep[0] if len(self.keep) == 1 else None
        columns = self.columns if item is None else (*(self.columns or ()), item)
        task = partial(labeled_rows, reader=Reader(self.columns, self.classes), item=item, by_id=by_id)
        found: LabeledRows = self._round(task, columns)
        require_all_found(by_id, set(found.ids))
        if len(set(found.ids)) < len(found.ids):
            raise VotesError("`votes` must have unique item identifiers to be joined with `gold`.")
        return found.items if len(found.items) else None

    def moments(self, graph: DependencyGraph | None = None) -> Moments:
        """Return the counts, the same integers as on one machine."""
        return self.count(graph, rows=False).moments

    def label(self, estimator: Any, method: str, options: dict[str, Any]) -> Any:
        """Return the labels of ``estimator.predict`` or ``predict_proba`` on the cluster, lazily."""
        if (
            self.columns is not None
        ):  # checked here, because an error on a worker would be wrapped by the engine
            theirs = set(estimator.vote_schema_.names or map(str, self.columns))
            try:
                require_same("sources", set(map(str, self.columns)), theirs)
            except IncompatibleError as error:
                raise IncompatibleError(f"{error} {COLUMNS_HINT}.") from error
        return self.parts.label(Labeling.by(estimator, method, options, self.columns, self.keep))

    def _find_classes(self) -> tuple[Label, ...]:
        found: Labels = self._round(partial(find_labels, reader=Reader(self.columns)))
        if found.declared is not None:
            return found.declared
        labels = [sorted(values, key=repr) for values in found.values]
        if not all(isinstance(label, bool) for column in labels for label in column):
            labels = [[int(v) if isinstance(v, bool) else v for v in column] for column in labels]
        try:
            return classes_of(labels, Convention.declared(None), lambda _, j: f"column {found.names[j]!r}")
        except VotesError as error:
            raise VotesError(f"{error} {COLUMNS_HINT}, which also accepts `classes`.") from error

    def _round(self, task: Callable[[Any], Any], columns: tuple[Any, ...] | None = None) -> Any:
        total = self.parts.reduce(task, columns or self.columns)
        if total is None:
            raise VotesError("Votes must have at least one row; all partitions are empty.")
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
    """Select the votes of a dataframe on a cluster. Pass the result wherever votes are accepted.

    Parameters
    ----------
    frame : Dask array or dataframe, list of dask.delayed chunks, or Spark dataframe
        One row per item and one column per source. A chunk is ``Votes``, or anything that
        ``Votes.from_classes`` or ``Votes.from_frame`` accepts. Null, NaN and -1 are no vote.
    columns : sequence of column names or None, default=None
        The sources; None is all columns that are not in ``keep``.
    classes : sequence of K labels or None, default=None
        None finds them in a pass over the votes: 0 to the largest for integers, the sorted labels for
        strings.
    keep : sequence of column names, default=()
        Columns to keep next to the labels, such as identifiers.

    Returns
    -------
    DistributedVotes

    Examples
    --------
    >>> import flyingsquid as fs
    >>> import pandas as pd
    >>> from dask.dataframe import from_pandas
    >>> frame = from_pandas(pd.DataFrame({"id": [1, 2], "a": [0, 1], "b": [1, 1]}), npartitions=2)
    >>> fs.distributed.votes(frame, columns=["a", "b"], classes=[0, 1], keep=["id"])
    DistributedVotes(DaskParts, 2 sources, classes (0, 1))
    """
    home = reader_of(frame)
    if home is None:
        raise OptionError(
            "`frame` must be a Dask array or dataframe, a list of dask.delayed chunks or a Spark dataframe; "
            f"got {type(frame).__name__}. Use fs.Votes for votes in memory.",
            parameter="frame",
        )
    parts: Parts = import_module(home).parts_of(frame)
    present = parts.columns
    if present is None:
        if keep:
            raise OptionError(
                "`keep` needs a dataframe with named columns; these chunks have none.", parameter="keep"
            )
        chosen = None if columns is None else _read_names("columns", columns)
    else:
        kept = _read_names("keep", keep)
        chosen = (
            tuple(c for c in present if c not in kept) if columns is None else _read_names("columns", columns)
        )
        for name in (*chosen, *kept):
            if name not in present:
                raise VotesError(
                    f"No column is named {format_value(name)}; the columns are "
                    f"{', '.join(map(str, present))}."
                )
        if not chosen:
            raise VotesError("There must be at least one column of votes; got none.")
        gold = [name for name in chosen if is_gold_name(name)] if columns is None else []
        if gold:
            raise VotesError(
                f"Not all columns are votes: column {format_value(gold[0])} looks like gold labels. Pass the "
                "columns of votes, or fs.distributed.votes(frame, columns=[...]) if it is one of them.",
                parameter="columns",
            )
    known = Convention.declared(classes).classes
    return DistributedVotes(parts, chosen, known, tuple(keep))


def _read_names(option: str, names: Any) -> tuple[Any, ...]:
    if isinstance(names, str):
        raise option_error(option, "a list of column names", names)
    return tuple(names)
