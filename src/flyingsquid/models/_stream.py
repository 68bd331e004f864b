"""Streams of votes: options, reading of further votes, and the state that a stream keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value, is_integer, is_null, is_one_of
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import GraphError, ModelFileError, OptionError, VotesError
from flyingsquid.files.state import (
    BOOLEAN,
    LABELS,
    OBJECT,
    TEXT,
    State,
    decode_labels,
    encode_labels,
    finite,
    integer,
    list_of,
    optional,
    sequence_of,
)
from flyingsquid.fits.base import Fit
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import smoothed_shares
from flyingsquid.models._base import VoteSchema
from flyingsquid.models._fitted import Fitted
from flyingsquid.models.drift import DriftHistory
from flyingsquid.models.files import fit_from_state, fit_to_state, nest_state, part_of, unnest_state
from flyingsquid.models.validation import given_graph
from flyingsquid.moments import Moments
from flyingsquid.moments.adaptive import DyadicCounts, dispersion_of
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.windows import DecayedCounts, Layout, RollingCounts, Window
from flyingsquid.solvers import Solver
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.codes import ABSTAIN, MOST_CLASSES, Label, require_same, smallest_dtype
from flyingsquid.votes.gold_items import GoldItems
from flyingsquid.votes.reading import labels_in, one_row

Array = NDArray[np.float64]
# Items between two comparisons with the last fit if neither ``refresh`` nor a fixed window is given.
_REFRESH = 500
_ADD = 'Pass new_{0}="add" to OnlineLabelModel to add new {0}.'


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
    """Return further votes of a stream, with new classes if these may be added.

    The convention was checked on the first votes: a test of every chunk would find something by chance.
    """
    classes, tasks = schema.classes, schema.tasks
    try:
        return as_votes(data, classes, tasks, check=False)
    except VotesError:
        new = () if isinstance(data, Votes) or not add_classes else _new_classes(labels_in(data), classes)
        if not new:
            raise
        return as_votes(data, (*classes, *new), tasks, check=False)


def with_missing_sources(votes: Votes, names: tuple[str, ...] | None) -> Votes:
    """Return the votes, in which each source of ``names`` that they do not have abstains."""
    own = votes.names
    if names is None or own is None or set(names) <= set(own):
        return votes
    missing = tuple(name for name in names if name not in own)
    codes = np.asarray(votes.to_dense().codes)
    silent = np.full((len(codes), len(missing)), ABSTAIN, codes.dtype)
    return Votes(np.hstack([codes, silent]), votes.classes, (*own, *missing))


def refuse_new(votes: Votes, classes: tuple[Label, ...], names: tuple[str, ...] | None) -> None:
    """Raise an error that names the option if votes have other classes or sources than the stream."""
    require_same("classes", set(votes.classes) | set(classes), set(classes), _ADD.format("classes"))
    if names is not None and votes.names is not None:
        require_same("sources", set(votes.names) | set(names), set(names), _ADD.format("sources"))


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


# Windows count at most 2**25 pairs of votes, so they have fewer sources than this.
_MOST_SOURCES = 1 << 13
FIELDS = {
    "classes": LABELS,
    "names": optional(list_of(TEXT)),
    "n_sources": integer(1, _MOST_SOURCES),
    "n_seen": integer(),
    "urgent": BOOLEAN,
    "window": OBJECT,
    "last": optional(OBJECT),
    "reason": TEXT,
    "marks": sequence_of(integer(), integer(), integer()),
    "fitted_on": finite(0),
}
"""Fields of a stream in a file, without the options of the model."""


def count_plan(n_sources: int, graph: DependencyGraph | None) -> CountPlan:
    """Return which pairs of sources are counted."""
    return CountPlan.all_pairs(n_sources) if graph is None else CountPlan.of(graph)


def read_layout(meta: dict[str, Any], graph: DependencyGraph | None) -> Layout:
    """Return the layout of the counts in a file."""
    names = None if meta["names"] is None else tuple(meta["names"])
    layout = Layout(count_plan(meta["n_sources"], graph), decode_labels(meta["classes"]), names)
    fits = (
        layout.n_classes >= 2
        and layout.n_sources == meta["n_sources"]
        and (names is None or len(names) == len(set(names)) == layout.n_sources)
    )
    if not fits:
        raise ModelFileError("The stream in the file is inconsistent.")
    return layout


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

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return :data:`FIELDS` and arrays, for files."""
        window, layout = self.window, self.window.layout
        window_meta, arrays = window.state()
        arrays = {f"window.{name}": array for name, array in arrays.items()}
        arrays |= self.history.to_arrays() | self.balances.to_arrays()
        arrays |= {} if self.gold is None else self.gold.to_arrays()
        last = None
        if self.fitted is not None:
            last, fit_arrays = nest_state(fit_to_state(self.fitted.fit, self.fitted.moments), "last")
            arrays |= fit_arrays
        meta = {
            "classes": encode_labels(layout.classes),
            "names": None if layout.names is None else list(layout.names),
            "n_sources": layout.n_sources,
            "n_seen": window.n_seen,
            "urgent": window.urgent,
            "window": window_meta,
            "last": last,
            "reason": self.reason,
            "marks": [self.due, self.record_due, self.fitted_at],
            "fitted_on": self.fitted_on,
        }
        return meta, arrays

    def restore(self, state: State, n_tasks: int) -> None:
        """Continue from a file, whose fields are those of :meth:`to_state`."""
        meta, arrays, window, layout = state.meta, state.arrays, self.window, self.window.layout
        window.n_seen, window.urgent = meta["n_seen"], meta["urgent"]
        window.restore(meta["window"], part_of(arrays, "window"))
        if meta["last"] is not None:
            fit, moments = fit_from_state(unnest_state(meta["last"], arrays, "last"))
            if moments.classes != layout.classes or moments.names != layout.names:
                raise ModelFileError("The last fit in the file has other sources or classes.")
            self.fitted = Fitted.of(fit, moments)
        self.reason, self.fitted_on = meta["reason"], meta["fitted_on"]
        self.due, self.record_due, self.fitted_at = meta["marks"]
        self.history = DriftHistory.from_state(state, self.schema.source_names)
        self.gold = StreamGold.from_arrays(arrays, layout, n_tasks, window.n_seen)
        self.balances = StreamBalances.from_arrays(arrays, n_tasks * layout.n_classes, window.n_seen)
        self.update_lookup()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "lookup": None}  # functions cannot be pickled; built again from the fit

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.update_lookup()
