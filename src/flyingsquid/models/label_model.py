"""Label model for items: the batch estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._table import Table
from flyingsquid._values import is_one_of
from flyingsquid._warnings import warn_about_votes
from flyingsquid.exceptions import (
    GraphError,
    ModelFileError,
    NotIdentifiableError,
    OptionError,
)
from flyingsquid.files.state import State, check_fields, integer, one_of
from flyingsquid.fits.base import Assessment
from flyingsquid.fits.explanation import Explanation
from flyingsquid.fits.summary import concerns_about, summarize_sources
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference.features import combine
from flyingsquid.models import validation
from flyingsquid.models._base import DOUBLE, BatchEstimator, VoteSchema
from flyingsquid.models._fitted import FitAttributes, FitState, Fitted
from flyingsquid.models.files import fit_from_state, fit_to_state, options_from_meta, options_to_meta
from flyingsquid.moments import Moments
from flyingsquid.solvers import FitData, Solver
from flyingsquid.solvers.base import Rows
from flyingsquid.solvers.data import feature_items, join_gold, read_fit_data
from flyingsquid.votes import Votes, as_votes
from flyingsquid.votes.arguments import in_item_order, join_weights
from flyingsquid.votes.codes import Label
from flyingsquid.votes.features import Features
from flyingsquid.votes.gold_items import GoldItems

Source: TypeAlias = int | str
Method: TypeAlias = (
    Solver
    | Literal[
        "auto",
        "triplet",
        "covariance",
        "quadratic",
        "marginal",
        "agreement",
        "em",
        "decomposition",
        "one_vs_rest",
        "weighted",
        "panel",
    ]
)


class LabelModel(FitAttributes[Fitted, FitData], BatchEstimator):
    """Label model that combines noisy votes into probabilistic labels without gold labels.

    It supports one or several tasks, any number of classes, and sources that abstain.

    Parameters
    ----------
    graph : DependencyGraph, "learn" or None, default=None
        Sources that depend on each other given the truth, and tasks that depend on each other, such as the
        frames of a clip or the pixels of an image. ``"learn"`` finds dependent sources of one task with
        :func:`~flyingsquid.learn_structure`, in ``fit`` only; use it with ``method="covariance"``. None is
        one task with independent sources.
    method : str or Solver, default="auto"
        How parameters are estimated: the name of a solver, or a solver with its own options from
        ``flyingsquid.solvers``.

        ================= =============================== ================= ============================
        method            assumes                         needs             use for
        ================= =============================== ================= ============================
        ``auto``          better than random on average   counts or votes   any votes
        ``weighted``      better than random on average   counts            many sources and classes
        ``triplet``       independent, equal errors       counts, 2 classes results of the paper
        ``covariance``    independent                     counts, 2 classes independent sources
        ``quadratic``     independent                     counts, 2 classes results of the paper
        ``marginal``      equal errors                    counts, 2 classes a known, imbalanced balance
        ``agreement``     independent                     counts            many classes, few votes
        ``em``            independent                     votes             many classes, many votes
        ``decomposition`` independent                     votes             three sources per class
        ``one_vs_rest``   as its binary solver            counts            results of the paper
        ``panel``         consistent judges err less      votes             judges with orders or repeats
        ================= =============================== ================= ============================

        "Independent" means independent given the truth; "equal errors" means that errors are equally
        frequent on both classes. ``auto`` mixes confusion tables with weighted votes. The share of the
        tables depends on how well they explain the agreement of sources. Dependent sources get less weight,
        and gold labels correct the log odds. For votes with a structure (:meth:`Votes.with_structure`),
        ``auto`` uses ``panel``, which combines the answers of each judge. With a graph or ``signs``,
        ``auto`` uses ``triplet``; for more than two classes on a graph, ``em`` or ``decomposition``.
        ``method_`` and ``reason_`` report what was used.
    class_balance : None, "uniform", "estimate", mapping or array, default=None
        P(Y = k) in the order of ``classes_``, shape (K,), or a mapping from classes; it is shared by all D
        tasks. An array (D, K) has one row per task. The joint table of all tasks, shape (K,) * D or flat in C
        order, also sets how they depend on each other, which is otherwise learned from votes. ``"estimate"``
        estimates the balance from triples of votes (for more than two classes, by EM passes), and keeps a
        uniform balance if its standard error is above 0.075. None uses the default of the method: ``auto``
        estimates the balance from the labels, and does so for ``"estimate"``, too; ``triplet``,
        ``agreement`` and ``weighted`` use a uniform one; ``covariance`` and ``quadratic`` estimate it in
        ``fit``, and use a uniform one in ``fit_moments`` and ``partial_fit``, where triples of votes are
        not available.
    classes : sequence of labels, optional
        Class labels in order, including classes without votes. Default: the classes that occur.
    n_classes : int, optional
        Short for ``classes=range(n_classes)``.
    signs : "average" or mapping {source: +1 or -1}, default="average"
        ``"average"`` assumes that the sources are better than random on average. A mapping names sources, by
        name or position, that are known to be better (+1) or worse (-1) than random.
    temper : None, "auto" or float in (0, 1], default=None
        Factor for the log evidence of other tasks. With a factor near 0, every task is labeled separately.
        Errors that persist from frame to frame make a chain of tasks overconfident; ``"auto"`` estimates
        their correlation r from the votes and uses (1 - r)/(1 + r). None is a factor of 1. In
        ``predict(joint=True)`` the factor applies to all evidence.

    Attributes
    ----------
    classes_ : array of shape (K,)
        Class labels, in the order of probabilities and tables.
    source_names_ : tuple of m str
        Names of the sources.
    method_ : str
        The method that was used.
    reason_ : str
        Description of what ``"auto"`` and gold labels did; empty for other methods.
    class_balance_ : array of shape (K,), or (D, K) for D > 1 tasks
    class_balance_interval_ : array of shape (K, 2), or (D, K, 2) for D > 1 tasks
        95% intervals of ``class_balance_``; NaN if it was given, or unknown.
    accuracies_ : array of shape (m,)
        P(vote is right | source votes); 0.5 for a source that always abstains.
    accuracies_interval_ : array of shape (m, 2)
        95% intervals of ``accuracies_``; NaN if unknown. Computed on demand.
    coverage_ : array of shape (m,)
        P(source votes).
    confusion_ : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last. ``"agreement"`` stores more than 2^24 cells sparsely; then
        ``confusion_[i]`` is the table of source i, and ``len`` and iteration go by source.
    graph_ : DependencyGraph
        The graph; for ``graph="learn"``, the learned graph with the scores of its edges.
    task_tables_ : array of shape (E, K, K)
        P(Y_a, Y_b) for each of the E edges in ``graph_.task_edges``.
    excess_correlation_ : array of shape (m,)
        Correlation of the errors of each source on neighboring tasks that the truths do not explain; NaN
        unless all tasks have the same sources in the same order.
    temper_ : float
        Factor for the log evidence of other tasks.
    rows_used_ : {"all", "distinct", "none"}
        Rows of votes that the solver could read in addition to the counts.
    n_gold_ : int
        Number of gold labels that were passed to ``fit``.
    moments_ : Moments
        The counts that were fitted.
    fit_ : Fit
        The estimated parameters.
    diagnostics_ : Diagnostics
        Suspicious sources, a test of independence, and a recommendation. Computed on demand.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     5_000, accuracies=[0.9, 0.8, 0.7, 0.6], coverage=0.8, random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> model.accuracies_.round(1)
    array([0.9, 0.8, 0.7, 0.6])
    >>> model.predict_proba([[1, -1, 0, 1], [-1, -1, -1, -1]]).round(2)
    array([[0.15, 0.85],
           [0.47, 0.53]])
    """

    @validation.hint_arguments
    def __init__(
        self,
        graph: DependencyGraph | Literal["learn"] | None = None,
        *,
        method: Method = "auto",
        class_balance: Literal["uniform", "estimate"] | Mapping[Any, float] | ArrayLike | None = None,
        classes: Sequence[Label] | None = None,
        n_classes: int | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        temper: Literal["auto"] | float | None = None,
    ) -> None:
        self.graph = graph
        self.method = method
        self.class_balance = class_balance
        self.classes = classes
        self.n_classes = n_classes
        self.signs = signs
        self.temper = temper

    # ------------------------------------------------------------------ fitting

    def for_labeling(self) -> Self:
        """Return a copy that only labels: without counts and diagnostics, to be sent to workers."""
        fitted = self._fitted
        fit = replace(fitted.fit, assessment=Assessment(), findings=None)
        model: Self = type(self)(**self.get_params(deep=False))
        labeler = Fitted(fit, None, fitted.schema, n_gold=fitted.n_gold)  # type: ignore[arg-type]  # counts stay behind
        model._state = FitState(labeler)
        return model

    @validation.hint_arguments
    def fit(
        self,
        votes: Any,
        y: object = None,
        *,
        gold: Any = None,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
    ) -> Self:
        """Count the votes, then estimate the parameters.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (n, m)
            Keep items without votes, because dropping them biases the estimates. Other supported types are

            - an array of shape (n, D, s), for a graph whose D tasks have s sources each;
            - ``VoteChunks``, which are read once. Methods that need the votes themselves use their distinct
              rows, or only the counts if there are too many distinct rows;
            - votes on a cluster: a Dask array or dataframe, a list of ``dask.delayed`` chunks, or a Spark
              dataframe. Only counts and distinct rows leave the cluster;
            - the path of a file that ``flyingsquid.files.open_votes`` reads without options.
        y : ignored
            Not used, present for scikit-learn's cross-validation. Gold labels are passed as ``gold``.
        gold : sequence of n labels, mapping {item: label}, pandas Series, or array (n, D), optional
            Gold labels of some items; None, NaN and masked values are unknown, and so is -1 unless it is a
            class. They should be a random sample of the items. A mapping or a Series is joined by item
            identifier; other values are matched by position. ``method="auto"`` first fits the votes without
            gold labels, then corrects the log odds as far as the gold labels support it; fewer than five
            labels are not used. ``diagnostics_.gold`` reports the effect. Closed forms use gold
            labels for signs, for the class balance unless it was given, and for accuracies; ``em`` keeps them
            fixed during its passes.
        sample_weight : array of shape (n,) or float, optional
            How often each item counts.
        features : array, sparse matrix or table of shape (n, d), optional
            Numbers about the items, such as embeddings, in the order of the votes; a pandas table is joined
            by item identifier if its index holds them. Pass features to :meth:`predict_proba` as well: then
            labels are based on votes and features, and items without votes are labeled by features alone.
            NaN is missing. For ``VoteChunks``, pass the rows of all chunks in one matrix, or an iterable
            with one matrix per chunk: a sample of 20,000 items is kept to learn from. Not supported on
            clusters and with several tasks.
            ``diagnostics_.features`` reports what they contributed.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> data = fs.datasets.load_breast_cancer()
        >>> gold = [label if i < 50 else None for i, label in enumerate(data.y.tolist())]
        >>> model = fs.LabelModel().fit(data.votes, gold=gold)
        >>> model.diagnostics_.gold.n_gold
        50
        """
        solver = validation.check_options(self.method, self.graph, self.temper)
        if features is not None:
            self._require_one_task()
        elif self.graph is None and getattr(y, "shape", ())[1:] > (1,):
            warn_about_votes("The second argument is ignored. Pass features=X to use features.")
        with self._lock:
            classes = validation.read_classes(self.classes, self.n_classes, votes)
            if self.classes is not None and isinstance(votes, Votes) and classes is not None:
                votes = votes.matched_to(classes, None)
            needs_rows = solver.requires.rows != "unused" or is_one_of(self.class_balance, ("estimate",))
            data = read_fit_data(
                votes,
                self.graph,
                classes=classes,
                gold=gold,
                sample_weight=sample_weight,
                features=features,
                keep_rows=needs_rows or gold is not None or isinstance(self.graph, str),
                class_balance=self.class_balance,
                signs=self.signs,
                temper=self.temper,
            )
            self._solve(solver, data)
        return self._warn(stacklevel=4)  # the decorator adds a frame

    def fit_moments(self, moments: Moments) -> Self:
        """Estimate the parameters from counts, for example from several machines.

        With a graph, count the votes with ``Moments.of(votes, graph)``.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> counts = fs.Moments.of(votes[:300]) + fs.Moments.of(votes[300:])  # gathered in two places
        >>> model = fs.LabelModel(method="triplet")
        >>> bool((model.fit_moments(counts).accuracies_ == model.fit(votes).accuracies_).all())
        True
        """
        solver = validation.check_options(self.method, self.graph, self.temper)
        graph = validation.given_graph(self.graph, "fit_moments")
        validation.require_moments(moments)
        wanted = None if graph is None or graph.is_trivial else graph
        if moments.graph != wanted:
            raise GraphError(
                f"`moments` must be counted for the graph of the model, {wanted}; got {moments.graph}. "
                "Count with Moments.of(votes, graph)."
            )
        with self._lock:
            data = FitData(
                moments=moments, class_balance=self.class_balance, signs=self.signs, temper=self.temper
            )
            self._solve(solver, data)
        return self._warn()

    def partial_fit(
        self,
        votes: Any,
        y: object = None,
        *,
        gold: Any = None,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
    ) -> Self:
        """Add the votes to the counts of earlier calls, then estimate the parameters again.

        The counts are kept even if they do not determine the accuracies yet and
        :class:`~flyingsquid.exceptions.NotIdentifiableError` is raised, so that a stream can continue.

        Parameters
        ----------
        votes, sample_weight : as in :meth:`fit`
            Sources of earlier calls may be missing from votes in long form. New sources raise an error; use
            :class:`OnlineLabelModel` if sources join later.
        y : ignored
        gold : gold labels of some of these items, as in :meth:`fit`, optional
            They are added to those of earlier calls. The votes on the newest 10,000 items with gold labels
            are kept, fewer if there are more than 26,000 sources.
        features : features of these items, as in :meth:`fit`, optional
            A sample of 20,000 items of all calls is kept to learn from. Files do not contain it, so a model
            with features that was loaded from a file cannot be continued.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> model = fs.LabelModel()
        >>> for start in range(0, 569, 100):
        ...     model = model.partial_fit(votes[start : start + 100])
        >>> model.moments_ == fs.Moments.of(votes)
        True
        """
        with self._lock:
            self._add(votes, gold, sample_weight, features)
        return self._warn()

    def _add(self, votes: Any, gold: Any, sample_weight: ArrayLike | None, features: Any) -> None:
        """Add votes to the counts and solve, without warnings."""
        solver = validation.check_options(self.method, self.graph, self.temper)
        if features is not None:
            self._require_one_task()
        graph = validation.given_graph(self.graph, "partial_fit")
        fitted, pending = getattr(self, "_state", FitState())
        before: Fitted | FitData | None = fitted if pending is None else pending
        if before is None:
            known = validation.read_classes(self.classes, self.n_classes, votes)
        else:
            known = before.moments.classes
        stacked = None if graph is None else graph.stacked_shape
        chunk = as_votes(votes, known, stacked, check=before is None)
        if before is not None:
            names = before.moments.names
            chunk = chunk.with_all_sources(names).matched_to(before.moments.classes, names)
        weights = join_weights(sample_weight, votes, chunk)
        total = Moments.of(chunk, graph, sample_weight=weights)
        labeled, items = None, None
        if before is not None:
            total = before.moments + total
            labeled, items = before.gold_items, before.feature_items
        if isinstance(before, Fitted) and items is None and before.fit.by_features is not None:
            raise OptionError(
                "`partial_fit` needs the features of earlier items, which files do not contain; call fit."
            )
        codes = None
        if gold is not None:
            codes = join_gold(gold, votes, chunk, 1 if graph is None else graph.n_tasks)
            new = GoldItems.of(chunk, codes, weights)
            labeled = (new if labeled is None else labeled + new).newest()
        if features is not None:
            new_items = feature_items(features, votes, chunk, codes, weights).sample()
            items = new_items if items is None else (items + new_items).sample()
        data = FitData(
            moments=total,
            gold_items=labeled or None,
            feature_items=items,
            class_balance=self.class_balance,
            signs=self.signs,
            temper=self.temper,
        )
        try:
            self._solve(solver, data)
        except NotIdentifiableError:
            # Later calls continue from the new counts; the last fit keeps those it was estimated from.
            self._state = FitState(fitted, data)
            raise

    def _require_one_task(self) -> None:
        """Raise an error if there are several tasks, which features do not support."""
        n_tasks = self.graph.n_tasks if isinstance(self.graph, DependencyGraph) else 1
        if n_tasks > 1:
            raise OptionError(
                f"`features` is not supported with several tasks; got a graph with {n_tasks} tasks.",
                parameter="features",
            )

    def _solve(self, solver: Solver, data: FitData) -> None:
        fit = solver.checked_for(data).solve(data)
        items = data.feature_items
        if items is not None:
            votes_on = np.asarray(data.moments.vote_counts, np.float64).sum(axis=1)
            fit = fit.with_features(items, votes_on)
        notes = [note for note in (fit.reason, data.note) if note]
        general = concerns_about(fit, data.moments, data.votes)
        fit = replace(fit, reason="; ".join(notes), concerns=(*data.concerns, *fit.concerns, *general))
        fitted = Fitted.of(fit, data.moments, data.learned_graph, data.rows)
        labeled = data.labeled
        if labeled is not None:
            fitted = replace(fitted, n_gold=labeled.n_labels, gold_items=labeled.newest())
        if items is not None:
            fitted = replace(fitted, feature_items=items.sample())
        # One assignment: an interrupted fit leaves the model as it was.
        self._state = FitState(fitted)

    # ------------------------------------------------------------------ labels

    def log_likelihood(self, votes: Any) -> NDArray[np.float64]:
        """Return log P(votes of an item) under the fitted model, shape (n,). Use the sum to compare models.

        ``temper`` does not apply.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> fs.LabelModel().fit(votes).log_likelihood(votes).shape
        (569,)
        """
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        return fitted.fit.log_likelihood(fitted.schema.read(votes).codes)

    def explain(self, votes_row: Any, *, task: int | None = None, features: Any = None) -> Explanation:
        """Explain the label of one item: what each source adds to the log odds, strongest first.

        Parameters
        ----------
        votes_row : the votes on one item
            ``Votes`` or a table with one row, an array of shape (1, m) or (m,), a sequence of m votes,
            or a mapping or pandas row from names to votes.
        task : int, optional
            The task to explain, for a graph of several. The votes on other tasks are one contribution.
        features : array of shape (d,) or (1, d), or a table with one row, optional
            Features of the item, for a model that was fitted with features. They are one contribution.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> why = fs.LabelModel().fit(votes).explain(votes[[2]])
        >>> why.predicted, why.contributions[0].source
        ('malignant', 'dented outline')
        """
        model = self._snapshot()
        codes, fit = model._read_row(votes_row), model.fit_
        adds = None
        if features is not None:
            one_row = features[None, :] if getattr(features, "ndim", 2) == 1 else features
            adds = fit.feature_log_odds(codes[None, :], Features.read(one_row, 1))[0]
        return fit.explain(codes, validation.read_task(task, len(fit.class_balance)), adds)

    def summary(self) -> Table:
        """Return one row per source: what it votes for, how often, and how accurately.

        The columns are those of :func:`~flyingsquid.fits.summary.summarize_sources`.
        """
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        balance = fitted.fit.class_balance
        has_one_task = len(balance) == 1
        return summarize_sources(
            fitted.moments,
            fitted.fit.accuracies,
            fitted.interval,
            fitted.diagnostics,
            np.asarray(balance[0]) if has_one_task else None,
            np.asarray(fitted.fit.balance_intervals()[0]) if has_one_task else None,
        )

    def _to_state(self) -> State:
        fitted = self._fitted
        options = {name: value for name, value in self.get_params(deep=False).items() if name != "graph"}
        state = fit_to_state(
            fitted.fit,
            fitted.moments,
            options=options_to_meta(options),
            rows=fitted.rows,
            n_gold=fitted.n_gold,
        )
        gold = {} if fitted.gold_items is None else fitted.gold_items.to_arrays()
        return State(type(self).__name__, state.meta, {**state.arrays, **gold})

    @classmethod
    def _from_state(cls, state: State) -> Self:
        fit, moments = fit_from_state(state)
        model = cls(moments.graph, **options_from_meta(state.meta["options"], cls))
        validation.check_options(model.method, model.graph, model.temper)
        check_fields(state.meta, {"rows": one_of(*get_args(Rows)), "n_gold": integer()})
        fitted = Fitted.of(fit, moments, rows=state.meta["rows"], n_gold=state.meta["n_gold"])
        try:
            items = GoldItems.from_arrays(
                state.arrays, moments.classes, moments.names, (moments.n_sources, len(fit.class_balance))
            )
        except ValueError as error:
            raise ModelFileError(str(error)) from error
        model._state = FitState(replace(fitted, gold_items=items))
        return model

    def _label(
        self, votes: Any, features: Any = None, dtype: np.dtype[Any] = DOUBLE
    ) -> tuple[Votes, NDArray[Any]]:
        fitted = self._fitted  # once, because another thread may fit the model meanwhile
        read = fitted.schema.read(votes)
        if features is None:
            return read, fitted.fit.posterior(read.codes, dtype)
        of_items = Features.read(in_item_order(features, votes, read, "features"), read.n_items)
        adds = fitted.fit.feature_log_odds(read.codes, of_items)
        return read, combine(fitted.fit.posterior(read.codes)[:, 0], adds)[:, None]

    # ------------------------------------------------------------------ fitted attributes

    @property
    def vote_schema_(self) -> VoteSchema:
        return self._fitted.schema

    @property
    def moments_(self) -> Moments:
        return self._fitted.moments

    @property
    def rows_used_(self) -> Rows:
        return self._fitted.rows

    @property
    def n_gold_(self) -> int:
        return self._fitted.n_gold

    @property
    def graph_(self) -> DependencyGraph:
        return self._fitted.graph

    @property
    def task_tables_(self) -> NDArray[np.float64]:
        return self.fit_.task_tables

    @property
    def excess_correlation_(self) -> NDArray[np.float64]:
        return self.fit_.excess_correlation

    @property
    def temper_(self) -> float:
        return self.fit_.temper
