"""The label model of streams: every item seen once, labelled now, by parameters of a recent window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._remarks import listening
from flyingsquid.analysis.drift import ChangePoint, DriftHistory
from flyingsquid.estimation import resolve_task_balance
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _intake, _stream_options
from flyingsquid.models._auto import settled
from flyingsquid.models._base import DOUBLE
from flyingsquid.models._graphs import stacked_shape
from flyingsquid.models._history import Recorder
from flyingsquid.models._last_fit import LastFit
from flyingsquid.models._single import NEEDS_A_CLOSER_LOOK, SingleItems
from flyingsquid.models._stream_labels import fitted_posterior, priors_of_tasks, shares_before_a_fit
from flyingsquid.models._whole import draft_of, keep
from flyingsquid.models.label_model import LabelModel, Method, Source
from flyingsquid.moments import Moments
from flyingsquid.moments.cover import Cover
from flyingsquid.moments.vectors import Layout
from flyingsquid.moments.windows import Window
from flyingsquid.votes import Votes
from flyingsquid.votes.states import Label, shown_names

Array = NDArray[np.float64]
# A window of its own choice may shrink at any time, so is noted at least this often.
_NEWS = 1_000


class OnlineLabelModel(LastFit):
    """Label a stream of votes as it comes, under drift, without gold labels.

    Every item is counted into a window, and the parameters are those that :class:`LabelModel` finds in the
    counts of the window, in closed form. No item is passed over twice.

    Parameters
    ----------
    window : int or "auto"
        The last ``window`` items count, exactly. ``"auto"``: as many as agree with the newest ones, by a test
        on counts at dyadic ages; then no rows are kept, and memory grows with the logarithm of the stream.
    decay : float in (0, 1), optional
        Instead of a window: an item of age t weighs ``decay ** t``, so about 1 / (1 - decay) items count.
    graph : DependencyGraph, optional
        As in :class:`LabelModel`; the items of a chain come as arrays (b, D, s).
    method, multiclass, signs, screen, temper : as in :class:`LabelModel`
        Methods that counts suffice for. ``"auto"`` is ``"consensus"``, which takes any votes and costs
        little, unless a graph or another option asks for what only closed forms have; it does not change its
        ways in mid-stream. Where sources are independent given the truth, ``"triplet_mean"`` and
        ``"covariance"`` follow their accuracies more closely.
    class_balance : None, "uniform" or array
        As in :class:`LabelModel`. A balance that varies comes with the votes, see :meth:`update`.
    refresh : int, optional
        Parameters are computed anew after this many items, and earlier while few have been seen. Default: a
        quarter of the window; 1,000 where there is none.
    warm_up : int
        Items before the first parameters. Until then, and while the votes do not determine them, labels are
        vote shares smoothed by the class balance; ``status_`` says so.
    n_classes : int, optional
        Classes are 0 to ``n_classes`` - 1. Default: those in the first votes.
    classes : sequence of labels, optional
        All classes, where they are no such numbers, or in another order.
    new_sources : "error" or "add"
        What to do with a named source that was not there before. ``"add"`` takes it to have abstained so far,
        and a known source that is missing from the votes to abstain.
    new_classes : "error" or "add"
        What to do with a vote for a class that is not known. ``"add"`` appends it to ``classes_``.

    Attributes
    ----------
    n_seen_ : int
        Items learned so far: where to go on after :func:`flyingsquid.load`.
    window_ : float
        How many items count now.
    status_ : text
        Whether labels are by fitted parameters, of when, and if not, why.
    model_ : LabelModel
        The last fit; its ``accuracies_``, ``accuracies_interval_``, ``coverage_``, ``confusion_``,
        ``class_balance_`` and ``diagnostics_`` are also here.
    moments_ : Moments
        The counts of the window, up to the last item.
    history_ : DriftHistory
        Accuracies with intervals, and the window, at recorded positions; at most 512, the past coarser.
    classes_, source_names_ : as in :class:`LabelModel`

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> stream = fs.datasets.simulate_drift(
    ...     20_000, [0.9, 0.8, 0.7, 0.7], [0.6, 0.8, 0.9, 0.7], kind="sudden", random_state=0)
    >>> online = fs.OnlineLabelModel(window=2_000, method="triplet_mean")
    >>> labels = np.concatenate([online.update(stream.votes[t : t + 500]) for t in range(0, 20_000, 500)])
    >>> labels.shape
    (20000, 2)
    >>> for change in online.changes():
    ...     print(change)
    source 0 fell from .89 to .59 around item 9,800
    source 2 rose from .70 to .88 around item 10,200
    """

    _window: Window
    _recorder: Recorder

    def __init__(
        self,
        window: int | Literal["auto"] = 10_000,
        *,
        decay: float | None = None,
        graph: DependencyGraph | None = None,
        method: Method = "auto",
        multiclass: Literal["native", "one_vs_rest"] = "native",
        class_balance: Literal["uniform"] | ArrayLike | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        screen: float = 1.0,
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
        self.multiclass = multiclass
        self.class_balance = class_balance
        self.signs = signs
        self.screen = screen
        self.temper = temper
        self.refresh = refresh
        self.warm_up = warm_up
        self.n_classes = n_classes
        self.classes = classes
        self.new_sources = new_sources
        self.new_classes = new_classes

    # ------------------------------------------------------------------ chunks

    def update(self, votes: Any, class_balance: ArrayLike | None = None) -> Array:
        """Learn a chunk, then label it: P(Y = k | votes), shape (b, K); (b, D, K) for D > 1 tasks.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (b, m)
            Or an array (b, D, s) for a graph whose D tasks have s sources each. Named sources are matched by
            name, others by position.
        class_balance : array of shape (K,), or (D, K), optional
            P(Y = k) at the time of this chunk, which holds until another one is given. Parameters are those
            for the mean balance of the window, labels those for this one.

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
        codes = self._learn(votes, class_balance)
        posterior = self._posterior_of(codes)
        return posterior[:, 0, :] if posterior.shape[1] == 1 else posterior

    def partial_fit(self, votes: Any, y: object = None, *, class_balance: ArrayLike | None = None) -> Self:
        """Learn a chunk; as :meth:`update`, without labels. ``y`` is ignored."""
        self._learn(votes, class_balance)
        return self

    # ------------------------------------------------------------------ single items

    def learn_one(self, row: Any) -> Self:
        """Learn one item: an array or sequence of m votes, or a mapping from names to votes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> online = fs.OnlineLabelModel(classes=("ham", "spam"))
        >>> online = online.learn_one({"links": "spam", "short": None})
        >>> online.n_seen_, online.predict_proba_one({"links": "spam", "short": "spam"})
        (1, {'ham': 0.25, 'spam': 0.75})
        """
        fast = self.__dict__.get("_fast")
        if fast is not None and type(row) is np.ndarray and row.shape == fast.shape:
            window = self._window
            if fast.plain.issuperset(row.tolist()):  # labels that are their own codes
                window.append(row)
                if window.n_seen >= self._due or window.urgent:
                    self._refresh()
                return self
        self._learn_row(row)
        return self

    def predict_proba_one(self, row: Any) -> Any:
        """P(Y = k | votes) of one item as a mapping from classes; a list of them for D > 1 tasks.

        ``row`` as in :meth:`learn_one`.
        """
        fast = self.__dict__.get("_fast")
        if fast is not None and fast.tables is not None:
            try:
                values = row.tolist() if type(row) is np.ndarray else fast.values(row)
                if len(values) == fast.width:
                    odds = fast.offset
                    for table, value in zip(fast.tables, values, strict=False):
                        odds += table[value]
                    return fast.answer(odds)
            except NEEDS_A_CLOSER_LOOK:
                pass  # a value that needs a closer look, or an error that says what is wrong
        self._require_fitted()
        codes = self._read(self._row(row)).codes
        posterior = self._posterior_of(codes)[0]
        answers = [dict(zip(self._classes, each.tolist(), strict=True)) for each in posterior]
        return answers[0] if len(answers) == 1 else answers

    # ------------------------------------------------------------------ what is known

    @property
    def n_seen_(self) -> int:
        """Items learned so far."""
        return self._window.n_seen if hasattr(self, "_window") else 0

    @property
    def window_(self) -> float:
        """How many items count now."""
        return self._window.n_items if hasattr(self, "_window") else 0

    @property
    def moments_(self) -> Moments:
        """The counts of the window."""
        self._require_fitted()
        return self._window.moments()

    @property
    def status_(self) -> str:
        """Where the labels come from, in words."""
        if not hasattr(self, "_window"):
            return "no votes yet"
        if self._model is None:
            if self.n_seen_ < self.warm_up:
                return f"vote shares: {self.n_seen_:,} of {self.warm_up:,} items to warm up"
            return f"vote shares: {self._reason}"
        words = f"parameters of item {self._fitted_at:,}, from {self._fitted_on:,.0f} items"
        return f"{words}; since then: {self._reason}" if self._reason else words

    @property
    def history_(self) -> DriftHistory:
        """Accuracies, intervals and windows over time."""
        self._require_fitted()
        return self._recorder.history(self.source_names_)

    def changes(self) -> tuple[ChangePoint, ...]:
        """When sources changed: ``history_.changes()``. Each prints as a sentence."""
        return self.history_.changes()

    # ------------------------------------------------------------------ learning

    def _learn(self, votes: Any, class_balance: ArrayLike | None) -> NDArray[Any]:
        """Learn a chunk whole or not at all, whatever is raised on the way; the codes of its votes."""
        draft = draft_of(self)
        codes = draft._take(votes)
        if class_balance is not None:
            draft._window = draft._window.draft()
            draft._set_balance(class_balance)
        draft._window = window = draft._window.draft(len(codes))
        window.extend(codes)
        if window.n_seen >= draft._due or window.urgent:
            draft._refresh()
        keep(self, draft)
        return codes

    def _learn_row(self, row: Any) -> None:
        fast = self.__dict__.get("_fast")
        if fast is not None:
            try:
                values = row.tolist() if type(row) is np.ndarray else fast.values(row)
                codes = [fast.codes[value] for value in values]
            except NEEDS_A_CLOSER_LOOK:
                codes = []
            if len(codes) == fast.width:
                self._window.append(codes)
                if self._window.n_seen >= self._due or self._window.urgent:
                    self._refresh()
                return
        self._learn(self._row(row), None)

    def _row(self, row: Any) -> Any:
        begun = hasattr(self, "_window")
        names = self._names if begun else None
        classes = self._classes if begun else _stream_options.declared_classes(self)
        data = _intake.row_votes(row, names, stacked_shape(self.graph))
        return _intake.read_row(data, classes, add_classes=begun and self.new_classes == "add")

    def _take(self, data: Any) -> NDArray[Any]:
        """Codes of a chunk, with whatever is new in it made known."""
        if not hasattr(self, "_window"):
            return self._begin(data)
        add = self.new_classes == "add"
        votes = _intake.further_votes(data, self._classes, add_classes=add, tasks=self._tasks)
        classes = _intake.all_classes(self._classes, votes, add=add)
        m = self.n_features_in_
        names = _intake.all_names(self._names, m, votes, add=self.new_sources == "add")
        if classes != self._classes or names != self._names:
            self._widen(classes, names)
        return _intake.matched_codes(votes, self._classes, self._names, self.n_features_in_)

    def _begin(self, data: Any) -> NDArray[Any]:
        _stream_options.check(self)
        shell = self._label_model(self.class_balance)
        shell._check_options()
        votes = _intake.first_votes(data, _stream_options.declared_classes(self), self.graph)
        cover = Cover.everything(votes.n_sources) if self.graph is None else Cover.of(self.graph)
        layout = Layout(cover, votes.classes, votes.names)
        _stream_options.check_fit(shell, layout)
        self._start(_stream_options.new_window(self, layout))
        return np.asarray(votes.codes)

    def _start(self, window: Window) -> None:
        layout = window.layout
        self._window, self._model, self._recorder = window, None, Recorder()
        self._reason, self._fitted_at, self._fitted_on = "", 0, 0.0
        self._due, self._record_due = max(1, self.warm_up), 0
        self._tasks = stacked_shape(self.graph)
        self._know(layout)

    def _know(self, layout: Layout) -> None:
        self._remember(layout.classes, layout.names, shown_names(layout.names, layout.n_sources))
        self._prepare_single_items()

    def _prepare_single_items(self) -> None:
        """Whatever labels depend on has changed, and with it what single items are looked up in."""
        self._fast = SingleItems.of(self._window.layout, self._model, self._window.balance_now)

    def _widen(self, classes: tuple[Label, ...], names: tuple[str, ...] | None) -> None:
        before = self._window.layout
        n_sources = self.n_features_in_ if names is None else len(names)
        _stream_options.check_widening(self.graph, before, classes, n_sources)
        n_balance = before.n_balance if classes == self._classes else 0
        layout = before.widened(classes, names, n_sources, n_balance)
        _stream_options.check_fit(self._label_model(self.class_balance), layout)
        self._window = self._window.draft()
        self._window.widen(layout)
        if not n_balance:
            self._window.balance_now = None
        self._model, self._reason = None, "sources or classes were added"
        self._due = self._window.n_seen + 1
        self._know(layout)

    def _set_balance(self, class_balance: ArrayLike) -> None:
        layout = self._window.layout
        n_tasks = 1 if self.graph is None else self.graph.n_tasks
        given = resolve_task_balance(class_balance, layout.classes, n_tasks)
        if given.joint is not None or not all(isinstance(each, np.ndarray) for each in given.tasks):
            raise OptionError("the class balance of a chunk is an array of K probabilities, or one a task")
        flat = np.concatenate([np.asarray(each) for each in given.tasks])
        if layout.n_balance != len(flat):
            wider = layout.widened(layout.classes, layout.names, layout.n_sources, len(flat))
            self._window.widen(wider)
        self._window.balance_now = flat
        self._prepare_single_items()

    # ------------------------------------------------------------------ solving

    def _refresh(self) -> None:
        """Compute the parameters anew, and note them."""
        window, n = self._window, self._window.n_seen
        shrunk, window.urgent = window.urgent, False
        if n < self.warm_up:
            self._due = self.warm_up
            return
        every = _stream_options.items_between_fits(self)
        # While few items have been seen, a quarter more of them is news.
        self._due = n + min(every, max(10, n // 4))
        model = self._label_model(self._mean_balance())
        try:
            with listening():  # not once a refresh; diagnostics_ has them
                model.fit_moments(window.moments())
        except NotIdentifiableError as error:
            self._reason = str(error)
        else:
            self._model, self._reason = model, ""
            self._fitted_at, self._fitted_on = n, float(window.n_items)
            if n >= self._record_due or shrunk:
                self._recorder = self._recorder.with_added(
                    n, self._fitted_on, model.accuracies_, model.accuracies_interval_
                )
                pace = self._fitted_on / 4  # windows that overlap by more say little that is new
                pace = min(pace, _NEWS) if isinstance(self.window, str) else pace
                self._record_due = n + max(every, int(pace))
        self._prepare_single_items()

    def _label_model(self, class_balance: Any) -> LabelModel:
        model = LabelModel(
            self.graph,
            method=self.method,
            multiclass=self.multiclass,
            class_balance=class_balance,
            signs=self.signs,
            screen=self.screen,
            temper=self.temper,
        )
        return settled(model)

    def _mean_balance(self) -> Any:
        """The balance to solve with: the mean of those that came with the window, or the one given."""
        mean = self._window.balance()
        if mean is None:
            return self.class_balance
        n_classes = self._window.layout.n_classes
        return mean if len(mean) == n_classes else mean.reshape(-1, n_classes)

    # ------------------------------------------------------------------ labelling

    def _read(self, data: Any) -> Votes:
        """Votes to label, in the order of the stream; nothing is learned of them."""
        self._require_fitted()
        votes = _intake.further_votes(data, self._classes, add_classes=False, tasks=self._tasks)
        _intake.all_classes(self._classes, votes, add=False)
        names = _intake.all_names(self._names, self.n_features_in_, votes, add=self.new_sources == "add")
        if names != self._names:
            _intake.all_names(self._names, self.n_features_in_, votes, add=False)  # says which is unknown
        codes = _intake.matched_codes(votes, self._classes, self._names, self.n_features_in_)
        return Votes(codes, self._classes, self._names)

    def _posterior(self, votes: Votes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        return self._posterior_of(votes.codes)

    def _posterior_of(self, codes: Any) -> Array:
        """P(Y = k | votes), shape (n, D, K), for codes in the order of the stream."""
        now = self._window.balance_now
        if self._model is not None:
            return fitted_posterior(self._model, Votes(codes, self._classes), now)
        n_tasks = 1 if self.graph is None else self.graph.n_tasks
        priors = priors_of_tasks(self.class_balance, now, self._classes, n_tasks)
        return shares_before_a_fit(codes, self.graph, priors)
