"""Label model for streams: every item is read once and labeled with parameters of a recent window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid._values import format_count
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import ModelFileError, NotIdentifiableError, OptionError
from flyingsquid.files.state import (
    OBJECT,
    State,
    check_fields,
    optional,
)
from flyingsquid.fits.explanation import Explanation
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _stream, validation
from flyingsquid.models._base import DOUBLE, VoteEstimator, VoteSchema, refuse_features
from flyingsquid.models._estimator import not_fitted
from flyingsquid.models._fitted import FitAttributes, FitState, Fitted
from flyingsquid.models._stream import LOOKUP_ERRORS, StreamBalances, StreamGold, StreamState
from flyingsquid.models.drift import ChangePoint, DriftHistory
from flyingsquid.models.files import (
    options_from_meta,
    options_to_meta,
)
from flyingsquid.models.label_model import LabelModel, Method, Source
from flyingsquid.moments import Moments
from flyingsquid.moments.files import graph_from_meta
from flyingsquid.moments.windows import Layout, Window
from flyingsquid.solvers import FitData, Solver
from flyingsquid.solvers.data import join_gold
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Label, shown_names

Array = NDArray[np.float64]
# A window of its own choice may shrink at any time, so it is recorded at least this often.
_RECORD_EVERY = 1_000


class OnlineLabelModel(FitAttributes[Fitted, FitData], VoteEstimator):
    """Label model for streams of votes from sources that may drift, without gold labels.

    The model counts the votes on recent items, and estimates the parameters from these counts at regular
    intervals, as :meth:`LabelModel.fit_moments` does. Every item is read once.

    Parameters
    ----------
    window : int or "auto", default=10_000
        Number of latest items that the parameters are estimated from. ``"auto"`` chooses the number with a
        test for changes. It keeps counts instead of votes, so memory grows with the logarithm of the length
        of the stream.
    decay : float in (0, 1), optional
        Use all items instead of a window, with the weight ``decay ** t`` for an item of age t. This
        corresponds to about 1 / (1 - decay) items.
    graph : DependencyGraph, optional
        As in :class:`LabelModel`; pass the items of a chain as arrays of shape (b, D, s).
    method : str or Solver, default="auto"
        As in :class:`LabelModel`, for methods that need only counts. ``"auto"`` works as in
        :meth:`LabelModel.fit_moments`. If sources are independent given the truth, ``"triplet"`` and
        ``"covariance"`` follow changes of their accuracies more closely.
    signs, temper : as in :class:`LabelModel`
    class_balance : None, "uniform" or array, default=None
        As in :class:`LabelModel`. Pass a class balance that changes to :meth:`update`.
    refresh : int, optional
        Number of items after which the parameters are estimated again. It is smaller at the beginning of a
        stream. By default, the votes are compared with those of the last fit after an eighth of the window,
        or after 500 items if there is no fixed window, and the parameters are estimated again if they have
        changed: if the rates of votes and agreements differ by more than half of the squared sampling error
        between two windows without common items, or the window has grown by a quarter.
    warm_up : int, default=100
        Number of items before the first fit. Until then, and while the votes do not determine the
        parameters, labels are vote shares smoothed by the class balance; see ``status_``.
    n_classes : int, optional
        Number of classes, 0 to ``n_classes`` - 1. Default: the classes in the first votes.
    classes : sequence of labels, optional
        All classes in order, if they are not 0 to K - 1.
    new_sources : {"error", "add"}, default="error"
        What to do with a named source that did not occur before. ``"add"`` adds it as a source that has
        abstained so far, and treats sources that are missing from the votes as abstaining.
    new_classes : {"error", "add"}, default="error"
        What to do with a vote for a new class. ``"add"`` appends the class to ``classes_``.

    Attributes
    ----------
    n_seen_ : int
        Number of items learned so far. A model from :func:`flyingsquid.load` continues after them.
    window_ : float
        Number of items that the counts correspond to.
    status_ : str
        Description of how items are labeled: with fitted parameters, or with vote shares and the reason.
    model_ : LabelModel
        The last fit. Its ``accuracies_``, ``accuracies_interval_``, ``coverage_``, ``confusion_``,
        ``class_balance_``, ``class_balance_interval_`` and ``diagnostics_`` are attributes of this model too.
    moments_ : Moments
        The counts of the window, up to the last item.
    history_ : DriftHistory
        Accuracies with intervals, and the window, at up to 512 positions; older records are thinned out.
    classes_, source_names_ : as in :class:`LabelModel`

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> stream = fs.datasets.simulate_drift(
    ...     20_000, [0.9, 0.8, 0.7, 0.7], [0.6, 0.8, 0.9, 0.7], kind="sudden", random_state=0)
    >>> online = fs.OnlineLabelModel(window=2_000, method="triplet")
    >>> labels = np.concatenate([online.update(stream.votes[t : t + 500]) for t in range(0, 20_000, 500)])
    >>> labels.shape
    (20000, 2)
    >>> for change in online.changes():
    ...     print(change)
    source 0 fell from .89 to .59 around item 9,800
    source 2 rose from .70 to .89 around item 10,200
    """

    _stream: StreamState

    def __init__(
        self,
        window: int | Literal["auto"] = 10_000,
        *,
        decay: float | None = None,
        graph: DependencyGraph | None = None,
        method: Method = "auto",
        class_balance: Literal["uniform"] | ArrayLike | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        temper: Literal["auto"] | float | None = None,
        refresh: int | None = None,
        warm_up: int = 100,
        n_classes: int | None = None,
        classes: Sequence[Label] | None = None,
        new_sources: Literal["error", "add"] = "error",
        new_classes: Literal["error", "add"] = "error",
    ) -> None:
        self.window = window
        self.decay = decay
        self.graph = graph
        self.method = method
        self.class_balance = class_balance
        self.signs = signs
        self.temper = temper
        self.refresh = refresh
        self.warm_up = warm_up
        self.n_classes = n_classes
        self.classes = classes
        self.new_sources = new_sources
        self.new_classes = new_classes

    # ------------------------------------------------------------------ chunks

    def update(self, votes: Any, class_balance: ArrayLike | None = None, *, gold: Any = None) -> Array:
        """Learn from a chunk, then label it: P(Y = k | votes), shape (b, K); (b, D, K) for D > 1 tasks.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (b, m)
            Or an array (b, D, s) for a graph whose D tasks have s sources each. Named sources are matched by
            name, others by position.
        class_balance : array of shape (K,), or (D, K), optional
            P(Y = k) for this chunk and later ones, until another one is passed. Parameters are estimated
            with the mean balance of the window, and labels use the current balance.
        gold : gold labels of some items of the chunk, as in :meth:`LabelModel.fit`, optional
            A label is used as long as its item is in the window; with ``decay``, its weight decreases like
            that of the item. The votes on the newest 10,000 items with gold labels are kept.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> online = fs.OnlineLabelModel(window=500)
        >>> [online.update(votes[start : start + 200]).shape for start in (0, 200, 400)]
        [(200, 2), (200, 2), (169, 2)]
        >>> online.status_
        'parameters of item 569, from 500 items'
        """
        with self._lock:
            codes = self._learn(votes, class_balance, gold)
            posterior = self._posterior_of(self._stream, codes)
        return posterior[:, 0, :] if posterior.shape[1] == 1 else posterior

    def partial_fit(
        self, votes: Any, y: object = None, *, class_balance: ArrayLike | None = None, gold: Any = None
    ) -> Self:
        """Learn from a chunk, as :meth:`update` does, without labeling it. ``y`` is ignored."""
        with self._lock:
            self._learn(votes, class_balance, gold)
        return self

    # ------------------------------------------------------------------ single items

    def learn_one(self, row: Any) -> Self:
        """Learn from one item: an array or sequence of m votes, or a mapping from names to votes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> online = fs.OnlineLabelModel(classes=("ham", "spam"))
        >>> online = online.learn_one({"links": "spam", "short": None})
        >>> online.n_seen_, online.predict_proba_one({"links": "spam", "short": "spam"})
        (1, {'ham': 0.25, 'spam': 0.75})
        """
        with self._lock:
            self._learn_row(row)
        return self

    def predict_proba_one(self, row: Any) -> Any:
        """Return P(Y = k | votes) of one item as a mapping from classes; a list of them for D > 1 tasks.

        ``row`` is an item in the format of :meth:`learn_one`.
        """
        stream = self.__dict__.get("_stream")
        lookup = None if stream is None else stream.lookup
        if lookup is not None and lookup.tables is not None:
            try:
                values = row.tolist() if type(row) is np.ndarray else lookup.values(row)
                if len(values) == lookup.width:
                    sums = [
                        sum(adds) for adds in zip(*map(dict.__getitem__, lookup.tables, values), strict=True)
                    ]
                    return dict(zip(lookup.classes, lookup.finish(sums), strict=True))
            except LOOKUP_ERRORS:
                pass  # a value that needs a closer look, or an error with a better message below
        with self._lock:
            stream = self._learned
            posterior = self._posterior_of(stream, self.read_votes(self._row(row)).codes)[0]
        answers = [dict(zip(stream.schema.classes, each.tolist(), strict=True)) for each in posterior]
        return answers[0] if len(answers) == 1 else answers

    # ------------------------------------------------------------------ fitted attributes

    @property
    def _learned(self) -> StreamState:
        if not hasattr(self, "_stream"):
            raise self._not_fitted()
        return self._stream

    @property
    def _fitted(self) -> Fitted:
        fitted = self._learned.fitted
        if fitted is None:
            raise not_fitted(f"The parameters are not estimated yet: {self.status_}.")
        return fitted

    @property
    def vote_schema_(self) -> VoteSchema:
        return self._learned.schema

    @property
    def n_seen_(self) -> int:
        """Items learned so far."""
        return self._stream.window.n_seen if hasattr(self, "_stream") else 0

    @property
    def window_(self) -> float:
        """Number of items that the counts correspond to."""
        return self._stream.window.n_items if hasattr(self, "_stream") else 0

    @property
    def moments_(self) -> Moments:
        """The counts of the window."""
        with self._lock:
            return self._learned.window.moments()

    @property
    def status_(self) -> str:
        """Origin of the labels."""
        if not hasattr(self, "_stream"):
            return "no votes yet"
        stream = self._stream
        if stream.fitted is None:
            if self.n_seen_ < self.warm_up:
                return f"vote shares: {self.n_seen_:,} of {format_count(self.warm_up, 'item')} to warm up"
            return f"vote shares: {stream.reason}"
        window = format_count(round(stream.fitted_on), "item")
        words = f"parameters of item {stream.fitted_at:,}, from {window}"
        return f"{words}; since then: {stream.reason}" if stream.reason else words

    @property
    def history_(self) -> DriftHistory:
        """Accuracies, intervals and windows over time."""
        return self._learned.history

    def changes(self) -> tuple[ChangePoint, ...]:
        """Return when sources changed: ``history_.changes()``. Each prints as a sentence."""
        return self.history_.changes()

    @property
    def model_(self) -> LabelModel:
        """The label model of the last refresh."""
        model = LabelModel(
            self.graph,
            method=self.method,
            class_balance=self.class_balance,
            signs=self.signs,
            temper=self.temper,
        )
        model._state = FitState(self._fitted)
        return model

    def summary(self) -> Table:
        """Return one row per source, for the window of the last refresh; as ``LabelModel.summary``."""
        return self.model_.summary()

    def explain(self, votes_row: Any, *, task: int | None = None) -> Explanation:
        """Explain the label of one item by the parameters of the last refresh; as ``LabelModel.explain``."""
        return self.model_.explain(votes_row, task=task)

    # ------------------------------------------------------------------ learning

    def _learn(self, votes: Any, class_balance: ArrayLike | None, gold: Any = None) -> NDArray[Any]:
        """Learn from a chunk atomically, and return its codes."""
        draft, codes = self._take(votes)
        if gold is not None:
            draft.gold = self._with_gold(draft, gold, votes, codes)
        if class_balance is not None:
            self._set_balance(draft, class_balance)
        draft.window = window = draft.window.draft(len(codes))
        window.extend(codes)
        if window.n_seen >= draft.due or window.urgent:
            self._refresh(draft)
        self._stream = draft
        return codes

    def _with_gold(self, draft: StreamState, gold: Any, votes: Any, codes: NDArray[Any]) -> StreamGold:
        """Return the gold labels of a stream with those of a chunk."""
        schema = draft.schema
        read = Votes(codes, schema.classes, schema.names, votes.items if isinstance(votes, Votes) else None)
        known = join_gold(gold, votes, read, 1 if self.graph is None else self.graph.n_tasks)
        new = StreamGold.of(read, known, draft.window.n_seen)
        return new if draft.gold is None else draft.gold.extended(new)

    def _learn_row(self, row: Any) -> None:
        stream = self.__dict__.get("_stream")
        if stream is not None and stream.lookup is not None:
            lookup = stream.lookup
            try:
                values = row.tolist() if type(row) is np.ndarray else lookup.values(row)
                codes = [lookup.codes[value] for value in values]
            except LOOKUP_ERRORS:
                codes = []
            if len(codes) == lookup.width:
                stream.window.append(codes)
                if stream.window.n_seen >= stream.due or stream.window.urgent:
                    self._refresh(stream)
                return
        self._learn(self._row(row), None)

    def _row(self, row: Any) -> Any:
        stream = self.__dict__.get("_stream")
        names = None if stream is None else stream.schema.names
        classes = self._declared_classes() if stream is None else stream.schema.classes
        tasks = None if self.graph is None else self.graph.stacked_shape
        add = stream is not None and self.new_classes == "add"
        return _stream.read_row(row, names, classes, tasks, add_classes=add)

    def _declared_classes(self) -> tuple[Label, ...] | None:
        return validation.read_classes(self.classes, self.n_classes)

    def _take(self, data: Any) -> tuple[StreamState, NDArray[Any]]:
        """Return a copy of the state with the sources and classes of a chunk, and the codes of the chunk."""
        if not hasattr(self, "_stream"):
            return self._begin(data)
        draft, schema, add_classes = replace(self._stream), self._stream.schema, self.new_classes == "add"
        votes = _stream.further_votes(data, schema, add_classes=add_classes)
        classes, names = schema.classes, schema.names
        if add_classes:
            classes = (*classes, *(label for label in votes.classes if label not in classes))
        if self.new_sources == "add" and names is not None and votes.names is not None:
            names = (*names, *(name for name in votes.names if name not in names))
            votes = _stream.with_missing_sources(votes, names)
        _stream.refuse_new(votes, classes, names)
        if classes != schema.classes or names != schema.names:
            self._widen(draft, classes, names)
        return draft, np.asarray(draft.schema.read(votes).to_dense().codes)

    def _begin(self, data: Any) -> tuple[StreamState, NDArray[Any]]:
        solver = self._validate()
        votes = _stream.first_votes(data, self._declared_classes(), self.graph)
        layout = Layout(_stream.count_plan(votes.n_sources, self.graph), votes.classes, votes.names)
        self._check_fit(solver, layout)
        draft = self._new_state(solver, _stream.new_window(self, layout))
        return draft, np.asarray(votes.codes)

    def check_options(self) -> None:
        """Raise an error if an option is invalid, instead of at the first votes."""
        self._validate()
        self._declared_classes()

    def _validate(self) -> Solver:
        solver = validation.check_options(self.method, self.graph, self.temper)
        _stream.check_stream_options(self, solver)
        return solver

    def _check_fit(self, solver: Solver, layout: Layout) -> None:
        """Raise an error for options that the sources and classes of a stream do not support."""
        empty = self._fit_data(layout.moments(layout.zeros(), exact=True), self.class_balance)
        solver.checked_for(empty)
        _ = empty.anchors

    def _new_state(self, solver: Solver, window: Window) -> StreamState:
        schema = self._schema_of(window.layout)
        history = DriftHistory.empty(schema.source_names)
        state = StreamState(solver, window, schema, history, due=max(1, self.warm_up))
        state.update_lookup()
        return state

    def _schema_of(self, layout: Layout) -> VoteSchema:
        tasks = None if self.graph is None else self.graph.stacked_shape
        return VoteSchema(layout.classes, layout.names, shown_names(layout.names, layout.n_sources), tasks)

    def _widen(self, draft: StreamState, classes: tuple[Label, ...], names: tuple[str, ...] | None) -> None:
        before = draft.window.layout
        n_sources = len(draft.schema.source_names) if names is None else len(names)
        _stream.check_widening(self.graph, before, classes, n_sources)
        layout = before.widened(classes, names, n_sources)
        self._check_fit(draft.solver, layout)
        draft.window = draft.window.draft()
        draft.window.widen(layout)
        if classes != draft.schema.classes:
            draft.balances = StreamBalances()
        draft.fitted, draft.reason = None, "sources or classes were added"
        draft.due = draft.window.n_seen + 1
        draft.schema = self._schema_of(layout)
        draft.history = draft.history.with_sources(draft.schema.source_names)
        if draft.gold is not None:
            draft.gold = draft.gold.widened(layout.classes, layout.names, layout.n_sources)
        draft.update_lookup()

    def _set_balance(self, draft: StreamState, class_balance: ArrayLike) -> None:
        layout = draft.window.layout
        n_tasks = 1 if self.graph is None else self.graph.n_tasks
        given = resolve_task_balance(class_balance, layout.classes, n_tasks)
        if given.joint is not None or not all(isinstance(each, np.ndarray) for each in given.tasks):
            raise OptionError(
                "`class_balance` of a chunk must be an array of K probabilities, or one per task."
            )
        flat = np.concatenate([np.asarray(each) for each in given.tasks])
        draft.balances = draft.balances.extended(flat, draft.window)
        draft.update_lookup()

    # ------------------------------------------------------------------ solving

    def _fit_data(self, moments: Moments, class_balance: Any) -> FitData:
        return FitData(
            moments=moments,
            class_balance=class_balance,
            signs=self.signs,
            temper=self.temper,
        )

    def _refresh(self, stream: StreamState) -> None:
        """Estimate the parameters of the window again, and record them."""
        window, n = stream.window, stream.window.n_seen
        shrunk, window.urgent = window.urgent, False
        if n < self.warm_up:
            stream.due = self.warm_up
            return
        every = _stream.items_between_fits(self)
        # While few items have been seen, a quarter more of them can change the estimates.
        stream.due = n + min(every, max(10, n // 4))
        moments = window.moments()
        if self.refresh is None and stream.is_unchanged(moments):
            stream.reason = ""
            self._record(stream, shrunk)
            return
        data = self._fit_data(moments, self._mean_balance(stream))
        if stream.gold is not None:
            stream.gold = stream.gold.within(n, window.n_items if self.decay is None else None)
            data = replace(data, gold_items=stream.gold.items(n, self.decay))
        try:
            fit = stream.solver.checked_for(data).solve(data)
        except NotIdentifiableError as error:
            stream.reason = str(error)
        else:
            stream.fitted, stream.reason = Fitted.of(fit, data.moments), ""
            stream.fitted_at, stream.fitted_on = n, float(window.n_items)
            if self.refresh is None:  # computed later, it would change a fit that other threads may pickle
                _ = stream.fitted.interval
            self._record(stream, shrunk)
        stream.update_lookup()

    def _record(self, stream: StreamState, shrunk: bool) -> None:
        """Record the parameters, if a record is due or the window has shrunk."""
        n, fitted = stream.window.n_seen, stream.fitted
        if fitted is None or (n < stream.record_due and not shrunk):
            return
        size = float(stream.window.n_items)
        accuracies = fitted.fit.accuracies
        stream.history = stream.history.extended(n, size, accuracies, fitted.interval)
        pace = size / 4  # windows that overlap more add little information
        pace = min(pace, _RECORD_EVERY) if isinstance(self.window, str) else pace
        stream.record_due = n + max(_stream.items_between_fits(self), int(pace))

    def _mean_balance(self, stream: StreamState) -> Any:
        """Return the class balance for the fit: the mean over the window, or the given one."""
        mean = stream.balances.mean(stream.window)
        if mean is None:
            return self.class_balance
        n_classes = stream.window.layout.n_classes
        return mean if len(mean) == n_classes else mean.reshape(-1, n_classes)

    # ------------------------------------------------------------------ labels

    def read_votes(self, votes: Any, *, unknown_sources: Literal["error", "ignore"] = "error") -> Votes:
        """Return votes in the order of the stream; nothing is learned from them."""
        schema = self.vote_schema_
        if self.new_sources == "add":  # then sources of the stream may be missing
            votes = _stream.further_votes(votes, schema, add_classes=False)
            votes = _stream.with_missing_sources(votes, schema.names)
        return super().read_votes(votes, unknown_sources=unknown_sources)

    def _snapshot(self) -> Self:
        return (
            self  # learn_one changes the stream in place, so a copy would not keep it; methods take the lock
        )

    def _label(
        self, votes: Any, features: Any = None, dtype: np.dtype[Any] = DOUBLE
    ) -> tuple[Votes, NDArray[Any]]:
        refuse_features(features, self)
        with self._lock:  # sources and classes may be added between reading and labeling
            read = self.read_votes(votes)
            return read, self._posterior_of(self._learned, read.codes)

    def _posterior_of(self, stream: StreamState, codes: Any) -> Array:
        """Return P(Y = k | votes), shape (n, D, K), for codes in the order of the stream."""
        now = stream.balances.now
        if stream.fitted is None:
            n_tasks = 1 if self.graph is None else self.graph.n_tasks
            priors = _stream.priors_of_tasks(self.class_balance, now, stream.schema.classes, n_tasks)
            return _stream.shares_before_a_fit(codes, self.graph, priors)
        fit = stream.fitted.fit
        posterior = fit.posterior(codes)
        if now is None or posterior.shape[1] > 1:
            return posterior
        # The fit used the mean balance of the window; these votes come with their own.
        posterior = posterior * (now / fit.class_balance[0])
        return np.asarray(posterior / posterior.sum(axis=2, keepdims=True))

    # ------------------------------------------------------------------ files

    def _to_state(self) -> State:
        """Return the complete state, so that a restored model continues exactly where this one stopped."""
        with self._lock:
            meta, arrays = self._learned.to_state()
            options = {name: value for name, value in self.get_params(deep=False).items() if name != "graph"}
            graph = None if self.graph is None else self.graph.to_dict()
            return State(
                type(self).__name__, {"options": options_to_meta(options), "graph": graph, **meta}, arrays
            )

    @classmethod
    def _from_state(cls, state: State) -> Self:
        """Return a model that continues where it was saved; raise ModelFileError for damaged states."""
        meta = state.meta
        if "last" not in meta:
            raise ModelFileError(
                "The file was written by an earlier development version, whose format is no longer supported."
            )
        check_fields(meta, {"options": OBJECT, "graph": optional(OBJECT), **_stream.FIELDS})
        graph = None if meta["graph"] is None else graph_from_meta(meta["graph"], meta["n_sources"])
        model = cls(graph=graph, **options_from_meta(meta["options"], cls))
        solver, layout = model._validate(), _stream.read_layout(meta, graph)
        stream = model._new_state(solver, _stream.new_window(model, layout))
        stream.restore(state, 1 if graph is None else graph.n_tasks)
        model._stream = stream
        return model
