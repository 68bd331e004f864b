"""Streams of votes: options, reading of further votes, and the state that a stream keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_integer, is_null, is_one_of
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import GraphError, IncompatibleError, ModelFileError, OptionError, VotesError
from flyingsquid.fits.base import Fit
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import smoothed_shares
from flyingsquid.models._base import VoteSchema
from flyingsquid.models._fitted import Fitted
from flyingsquid.models.drift import DriftHistory
from flyingsquid.models.validation import given_graph
from flyingsquid.moments import Moments
from flyingsquid.moments.adaptive import DyadicCounts, dispersion_of
from flyingsquid.moments.windows import DecayedCounts, Layout, RollingCounts, Window
from flyingsquid.solvers import Solver
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, Label, require_same, smallest_dtype
from flyingsquid.votes.gold_items import GoldItems
from flyingsquid.votes.reading import labels_in, one_row

Array = NDArray[np.float64]
# Items between two comparisons with the last fit if neither ``refresh`` nor a fixed window is given.
_REFRESH = 500


# ---------------------------------------------------------------------- options


def check_stream_options(model: Any, solver: Solver) -> None:
    """Raise an error for options of an online model that are invalid or that a stream does not support."""
    window, decay = model.window, model.decay
    is_auto = is_one_of(window, ("auto",))
    if not is_auto and not (is_integer(window) and window >= 1):
        raise OptionError(f'`window` must be an integer >= 1 or "auto"; got {format_value(window)}.')
    if decay is not None and not (isinstance(decay, (float, np.floating)) and 0 < decay < 1):
        raise OptionError(
            f"`decay` must be a float in (0, 1), such as 0.999, or None; got {format_value(decay)}."
        )
    if decay is not None and is_auto:
        raise OptionError('`decay` and window="auto" cannot be combined; choose one.')
    if model.refresh is not None and not (is_integer(model.refresh) and model.refresh >= 1):
        raise OptionError(f"`refresh` must be an integer >= 1 or None; got {format_value(model.refresh)}.")
    if not is_integer(model.warm_up) or model.warm_up < 0:
        raise OptionError(f"`warm_up` must be an integer >= 0; got {format_value(model.warm_up)}.")
    for name in ("new_sources", "new_classes"):
        if not is_one_of(getattr(model, name), ("error", "add")):
            raise OptionError(f'`{name}` must be "error" or "add"; got {format_value(getattr(model, name))}.')
    given_graph(model.graph, "a stream")
    if is_one_of(model.class_balance, ("estimate",)):
        raise OptionError(
            'class_balance="estimate" needs triples of votes, which a window does not count; pass the '
            "class balance here or with the votes."
        )
    if solver.requires.rows == "required":
        raise OptionError(
            f'method="{solver.name}" needs all items in memory and cannot run on a stream; use method="auto".'
        )


def check_widening(
    graph: DependencyGraph | None, before: Layout, classes: tuple[Label, ...], n_sources: int
) -> None:
    """Raise an error for new sources and classes on a graph."""
    if graph is None or (classes == before.classes and n_sources == before.n_sources):
        return
    what = "source" if n_sources != before.n_sources else "class"
    raise GraphError(
        f"The graph has {format_count(before.n_sources, 'source')} and two classes; a new {what} cannot be "
        "added to it."
    )


def new_window(model: Any, layout: Layout) -> Window:
    """Return an empty window for ``window`` or ``decay``."""
    if model.decay is not None:
        return DecayedCounts(layout, float(model.decay))
    if isinstance(model.window, str):
        return DyadicCounts(layout)
    return RollingCounts(layout, int(model.window))


def items_between_fits(model: Any) -> int:
    """Return ``refresh``, or its default."""
    if model.refresh is not None:
        return int(model.refresh)
    if model.decay is not None or isinstance(model.window, str):
        return _REFRESH
    return max(1, int(model.window) // 8)


# ---------------------------------------------------------------------- reading


def first_votes(data: Any, classes: tuple[Label, ...] | None, graph: DependencyGraph | None) -> Votes:
    """Return the first votes of a stream, dense."""
    votes = as_votes(data, classes, None if graph is None else graph.stacked_shape)
    if graph is not None and graph.n_sources != votes.n_sources:
        raise GraphError(
            f"`votes` must have one column per source of the graph, in the same order ({graph.n_sources}); "
            f"got {votes.n_sources}."
        )
    if classes is not None:
        votes = votes.matched_to(classes, None)
    return votes.to_dense()


def further_votes(data: Any, schema: VoteSchema, *, add_classes: bool) -> Votes:
    """Return further votes of a stream, dense, with new classes if these may be added.

    The convention was checked on the first votes: a test of every chunk would find something by chance.
    """
    classes, tasks = schema.classes, schema.tasks
    if isinstance(data, Votes) or not add_classes:
        votes = as_votes(data, classes, tasks, check=False)
        if votes.names is not None and votes.names != schema.names:
            votes = votes.with_all_sources(schema.names)
        return votes.to_dense()
    try:
        return as_votes(data, classes, tasks, check=False)
    except VotesError:
        new = _new_classes(labels_in(data), classes)
        if not new:
            raise
        return as_votes(data, (*classes, *new), tasks, check=False)


def classes_and_names(
    schema: VoteSchema, votes: Votes, *, add_classes: bool, add_sources: bool
) -> tuple[tuple[Label, ...], tuple[str, ...] | None]:
    """Return the classes and names of the stream, each followed by those that the votes add."""
    classes, names, n_sources = schema.classes, schema.names, len(schema.source_names)
    if votes.classes != classes:
        if not add_classes:
            require_same("classes", set(votes.classes) | set(classes), set(classes))
        classes = (*classes, *(label for label in votes.classes if label not in classes))
    if names is None or votes.names is None:
        if votes.n_sources != n_sources:
            hint = " new_sources='add' needs sources with names." if add_sources else ""
            raise IncompatibleError(
                f"`votes` must have the {format_count(n_sources, 'source')} of the stream; got "
                f"{votes.n_sources}.{hint}"
            )
    elif not add_sources:
        require_same("sources", set(votes.names), set(names))
    else:
        known = set(names)
        names = (*names, *(name for name in votes.names if name not in known))
    return classes, names


def matched_codes(votes: Votes, schema: VoteSchema) -> NDArray[Any]:
    """Return codes of shape (n, m) in the order of the stream; missing sources abstain."""
    classes, names = schema.classes, schema.names
    codes: Any = votes.codes
    if votes.classes != classes:
        to = np.array([classes.index(label) for label in votes.classes], smallest_dtype(len(classes)))
        codes = np.where(codes >= 0, to[np.maximum(codes, 0)], codes)
    if names is None or votes.names is None or votes.names == names:
        return np.asarray(codes)
    full = np.full((len(codes), len(names)), ABSTAIN, smallest_dtype(len(classes)))
    position = {name: at for at, name in enumerate(names)}
    full[:, [position[name] for name in votes.names]] = codes
    return full


def read_row(
    row: Any,
    names: tuple[str, ...] | None,
    classes: tuple[Label, ...] | None,
    tasks: tuple[int, int] | None,
    *,
    add_classes: bool,
) -> Any:
    """Return the votes on one item as a matrix of one row, and those of a mapping as Votes with its names."""
    if not isinstance(row, Mapping):
        if tasks is not None and tasks[0] > 1 and getattr(row, "shape", None) == tasks:
            return row.reshape(1, -1)
        return one_row(row, names)
    if not row:
        raise VotesError(
            "The votes on one item must name at least one source; got an empty mapping. Use None to abstain."
        )
    if classes is not None and add_classes:
        classes = (*classes, *_new_classes({vote for vote in row.values() if not is_null(vote)}, classes))
    array = np.empty((1, len(row)), object)
    array[0] = list(row.values())
    own = tuple(str(name) for name in row)
    if classes is not None and ABSTAIN in classes:
        return Votes.from_classes(array, abstain=None, classes=classes, names=own)
    return Votes.from_classes(array, classes=classes, names=own)


def _new_classes(labels: set[Any], classes: tuple[Label, ...]) -> tuple[Label, ...]:
    """Return labels that are not classes yet, in an order that does not depend on their positions."""
    found = {label for label in labels if label not in classes and label != ABSTAIN}
    plain = classes == tuple(range(len(classes)))
    if plain and found and all(is_integer(v) and v >= 0 for v in found):
        largest = int(max(found))
        if largest >= MOST_CLASSES:
            raise VotesError(
                f"Votes must be for at most {MOST_CLASSES:,} classes, counted from 0; got "
                f"{format_value(largest, 30)}. Pass `classes` if these are labels."
            )
        return tuple(range(len(classes), largest + 1))
    return tuple(sorted(found, key=lambda label: (type(label).__name__, label)))


# ---------------------------------------------------------------------- labels


def shares_before_a_fit(codes: Any, graph: DependencyGraph | None, priors: list[Array]) -> Array:
    """Return vote shares smoothed by P(Y = k) of each task, shape (n, D, K)."""
    if graph is None or graph.n_tasks == 1:
        return smoothed_shares(codes, priors[0])
    parts = [
        smoothed_shares(codes[:, list(graph.sources_of(task))], prior) for task, prior in enumerate(priors)
    ]
    return np.concatenate(parts, axis=1)


def priors_of_tasks(
    class_balance: Any, balance_now: Array | None, classes: tuple[Label, ...], n_tasks: int
) -> list[Array]:
    """Return P(Y = k) of each task: passed with the votes, given as an option, or uniform."""
    n_classes = len(classes)
    if balance_now is not None:
        return list(balance_now.reshape(-1, n_classes))
    given = resolve_task_balance(class_balance, classes, n_tasks).tasks
    return [each if isinstance(each, np.ndarray) else np.full(n_classes, 1 / n_classes) for each in given]


# ---------------------------------------------------------------------- state


LOOKUP_ERRORS = (KeyError, TypeError, ValueError)
"""What a lookup raises for an item that is not plain: the slow path validates it."""
# A gold label that counts less than this has faded.
_LEAST_WEIGHT = 0.01
# Mean squared change of the rates of votes since the last fit, relative to that between two windows without
# common items, up to which the parameters are kept. On 24 simulated streams with drift and four windows,
# labels are as accurate as with a fit after every quarter of the window, within .03 points, and .1 points
# more accurate after sudden changes; at 1.0 they lose up to .06 points.
_UNCHANGED = 0.5


# ---------------------------------------------------------------------- class balances


@dataclass(frozen=True, slots=True, eq=False)
class StreamBalances:
    """Class balances that were passed with the votes of a stream. It is false if there are none.

    Attributes
    ----------
    starts : tuple of int
        Number of items in the stream before each balance, ascending.
    values : tuple of arrays of shape (D K,)
    """

    starts: tuple[int, ...] = ()
    values: tuple[Array, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.starts)

    @property
    def now(self) -> Array | None:
        """The class balance of the next items; None if none was passed."""
        return self.values[-1] if self.values else None

    def extended(self, value: Array, window: Window) -> StreamBalances:
        """Return these balances and that of the next items, without those that the window has left."""
        kept = np.flatnonzero(self._weights(window) > 0)
        starts, values = (self.starts[i] for i in kept), (self.values[i] for i in kept)
        return StreamBalances((*starts, window.n_seen), (*values, value))

    def mean(self, window: Window) -> Array | None:
        """Return the mean balance of the items in the window that have one; None without such items."""
        weights = self._weights(window)
        return weights @ np.array(self.values) / weights.sum() if weights.any() else None

    def _weights(self, window: Window) -> Array:
        """Return the weight of the items of each balance in the window."""
        edges = np.array([*self.starts, window.n_seen])
        return np.asarray(-np.diff([window.weight_since(int(edge)) for edge in edges]), np.float64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a file."""
        if not self:
            return {}
        return {"balances.starts": np.array(self.starts, np.int64), "balances.values": np.array(self.values)}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], n_probabilities: int, n_seen: int
    ) -> StreamBalances:
        """Return the balances that :meth:`to_arrays` described."""
        if "balances.starts" not in arrays:
            return cls()
        starts, values = arrays["balances.starts"], arrays["balances.values"]
        fits = (
            starts.ndim == 1
            and starts.dtype == np.int64
            and values.dtype == np.float64
            and values.shape == (len(starts), n_probabilities)
            and bool(((values >= 0) & (values <= 1)).all())
            and bool((np.diff(starts, prepend=0, append=n_seen) >= 0).all())
        )
        if not fits:
            raise ModelFileError("The class balances of the stream in the file are inconsistent.")
        return cls(tuple(starts.tolist()), tuple(values))


# ---------------------------------------------------------------------- gold labels


@dataclass(frozen=True, slots=True, eq=False)
class StreamGold:
    """Items of a stream with gold labels.

    Attributes
    ----------
    known : GoldItems
    at : integer array of shape (g,)
        Number of items in the stream before each of them.
    """

    known: GoldItems
    at: NDArray[np.int64]

    @classmethod
    def of(cls, votes: Votes, gold: NDArray[Any], n_seen: int) -> StreamGold:
        """Select the items of a chunk with a code >= 0 in ``gold``, shape (n, D)."""
        at = n_seen + np.flatnonzero((gold >= 0).any(axis=1))
        known = GoldItems.of(votes, gold).newest()
        return cls(known, at[len(at) - len(known) :])

    def extended(self, later: StreamGold) -> StreamGold:
        """Return these items and later ones, at most as many as are kept."""
        known = (self.known + later.known).newest()
        at = np.concatenate([self.at, later.at])
        return StreamGold(known, at[len(at) - len(known) :])

    def within(self, n_seen: int, window: float | None) -> StreamGold:
        """Return the items among the last ``window`` of ``n_seen``; all of them if it is None."""
        first = 0 if window is None else int(np.searchsorted(self.at, n_seen - window))
        return StreamGold(self.known[first:], self.at[first:])

    def items(self, n_seen: int, decay: float | None) -> GoldItems | None:
        """Return the items to fit with, weighted by age if weights decay; None if there are none."""
        known = self.known
        if decay is not None:
            weights = np.asarray(float(decay) ** (n_seen - 1 - self.at), np.float64)
            known = replace(known, weights=weights)[weights > _LEAST_WEIGHT]
        return known if len(known) else None

    def widened(
        self, classes: tuple[Label, ...], names: tuple[str, ...] | None, n_sources: int
    ) -> StreamGold:
        """Return the items for more classes, or for more sources, which abstained."""
        codes = np.asarray(self.known.votes.codes)
        wider = np.full((len(codes), n_sources), ABSTAIN, smallest_dtype(len(classes)))
        wider[:, : codes.shape[1]] = codes
        return StreamGold(replace(self.known, votes=Votes(wider, classes, names)), self.at)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the items as plain arrays for a file."""
        return {**self.known.to_arrays(), "gold.at": self.at}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], layout: Layout, n_tasks: int, n_seen: int
    ) -> StreamGold | None:
        """Return the items that :meth:`to_arrays` described, None if there are none."""
        try:
            shape = (layout.n_sources, n_tasks)
            known = GoldItems.from_arrays(arrays, layout.classes, layout.names, shape)
        except ValueError as error:
            raise ModelFileError(str(error)) from error
        if known is None:
            return None
        at = arrays["gold.at"]
        ordered = at.shape == (len(known),) and at.dtype == np.int64 and bool((np.diff(at) > 0).all())
        if not ordered or (len(at) and not 0 <= at[0] <= at[-1] < n_seen):
            raise ModelFileError("the gold labels of the stream in the file are inconsistent")
        return cls(known, np.ascontiguousarray(at))


# ---------------------------------------------------------------------- single items


@dataclass(frozen=True, slots=True, eq=False)
class ItemLookup:
    """Lookup tables that read and label single items in a few microseconds. Rebuilt at every refresh.

    Attributes
    ----------
    width : int
        Number of sources.
    names : tuple of str, or None
    codes : mapping from a raw vote to its code
    tables : list of m mappings, or None
        Mapping from the raw vote of a source to its contribution to some sums; None if single items need the
        full inference.
    finish : callable, or None
        Turns the sums into two probabilities.
    classes : tuple of labels
    """

    width: int
    names: tuple[str, ...] | None
    codes: dict[Any, int]
    tables: list[dict[Any, tuple[float, ...]]] | None
    finish: Callable[[Sequence[float]], tuple[float, float]] | None
    classes: tuple[Label, ...]

    @classmethod
    def of(cls, layout: Layout, fit: Fit | None, balance: Array | None) -> ItemLookup | None:
        """Return the lookups of a stream; None if a raw -1 could be a class.

        ``balance`` is the current class balance, if it was passed with the votes.
        """
        classes, width = layout.classes, layout.n_sources
        if ABSTAIN in classes:
            return None
        codes: dict[Any, int] = {label: code for code, label in enumerate(classes)}
        codes |= {None: -1, ABSTAIN: -1}
        scores = None if fit is None else fit.item_scores(balance)
        if scores is None:
            return cls(width, layout.names, codes, None, None, classes)
        tables = [
            {label: tuple(adds[code]) for label, code in codes.items()} for adds in scores.adds.tolist()
        ]
        return cls(width, layout.names, codes, tables, scores.finish, classes)

    def values(self, row: Any) -> list[Any]:
        """Return the raw votes of an item in the order of the sources."""
        if isinstance(row, Mapping):
            if self.names is None or len(row) != self.width:
                raise KeyError
            return [row[name] for name in self.names]
        if isinstance(row, (list, tuple)):
            return list(row)
        raise TypeError


# ---------------------------------------------------------------------- the state


@dataclass
class StreamState:
    """Everything that a stream has learned. Chunks work on a copy, which then replaces it.

    Attributes
    ----------
    solver : Solver
    window : Window
    schema : VoteSchema
    history : DriftHistory
    fitted : Fitted or None
        The last fit; None before the first one.
    reason : str
        Why the last refresh did not determine the parameters; empty if it did.
    fitted_at : int
        Items seen at the last fit.
    fitted_on : float
        Items in the window at the last fit.
    due, record_due : int
        Items seen at which the next refresh and the next record are due.
    lookup : ItemLookup or None
    gold : StreamGold or None
    balances : StreamBalances
    """

    solver: Solver
    window: Window
    schema: VoteSchema
    history: DriftHistory
    fitted: Fitted | None = None
    reason: str = ""
    fitted_at: int = 0
    fitted_on: float = 0.0
    due: int = 1
    record_due: int = 0
    lookup: ItemLookup | None = None
    gold: StreamGold | None = None
    balances: StreamBalances = field(default_factory=StreamBalances)

    def update_lookup(self) -> None:
        """Rebuild the lookups of single items after anything they depend on has changed."""
        fit = None if self.fitted is None else self.fitted.fit
        self.lookup = ItemLookup.of(self.window.layout, fit, self.balances.now)

    def is_unchanged(self, moments: Moments) -> bool:
        """Return whether the last parameters still describe the window, whose counts are ``moments``.

        That is the case if the rates of votes and agreements have changed little since the last fit, relative
        to their sampling error. A window that has grown by a quarter improves the estimates.
        """
        if self.fitted is None or not moments.has_all_pairs or self.gold is not None or self.balances:
            return False
        before = self.fitted.moments
        if before.vote_counts.shape != moments.vote_counts.shape or moments.n_items > 1.25 * before.n_items:
            return False
        pairs = np.triu_indices(moments.n_sources, 1)
        newer, older = (
            np.concatenate([np.ravel(counts.vote_counts), counts.agreement()[pairs]])
            for counts in (moments, before)
        )
        return dispersion_of(newer, older, moments.n_items, before.n_items) <= _UNCHANGED

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lookup": None}  # functions cannot be pickled; built again from the fit

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.update_lookup()
