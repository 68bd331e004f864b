"""The batch label model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._random import RandomState
from flyingsquid._registry import distributed_votes
from flyingsquid._values import told
from flyingsquid.analysis import Diagnostics, Explanation, Table, summarize_sources
from flyingsquid.analysis.normal import NORMAL_95
from flyingsquid.estimate import (
    GoldCounts,
    GraphFit,
    ManyFit,
    ManyGraphFit,
    OpinionFit,
    UnitTable,
)
from flyingsquid.estimate.refine import Passes
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.infer import Emissions, TieBreak, max_product
from flyingsquid.infer.decide import as_label_array
from flyingsquid.models import _options
from flyingsquid.models._base import DOUBLE, BatchEstimator, InMemory
from flyingsquid.models._counted import count_votes
from flyingsquid.models._graphs import stacked_shape
from flyingsquid.models._solve import solve
from flyingsquid.models._ways import diagnostics_of, errors_of, explanation_of, likelihood_of, posterior_of
from flyingsquid.models._whole import draft_of, keep
from flyingsquid.models.structure import given_graph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes, as_chunks, as_votes

Method: TypeAlias = Literal[
    "auto",
    "triplet_mean",
    "triplet_median",
    "triplet",
    "independencies",
    "covariance",
    "quadratic",
    "agreement",
    "refined",
    "decomposition",
    "consensus",
    "anchored",
]
Source: TypeAlias = int | str


class LabelModel(BatchEstimator):
    """Combine noisy votes into probabilistic labels, in closed form and without gold labels.

    For one task or several, of any number of classes, whose sources may abstain. Without a graph: one task,
    whose sources err independently given the truth.

    Parameters
    ----------
    graph : DependencyGraph or "learn", optional
        Which sources depend on each other beyond the truth, and which tasks on each other: the frames of a
        clip, the pixels of an image. ``"learn"`` finds dependent sources of one task by
        :func:`~flyingsquid.learn_structure`, in ``fit`` only; prefer ``method="covariance"`` with it.
    method : text
        How sources are judged. For sources that err and abstain equally often on both classes:
        ``"triplet_mean"`` and ``"triplet_median"`` average over all triplets of sources; ``"triplet"``
        uses the strongest one for each source, or those in ``triplets``; ``"independencies"`` divides by
        a known, lopsided class balance and needs no triplets. For sources of any kind:
        ``"covariance"`` fits all pairs at once; ``"quadratic"`` averages triplets vote by vote. For any
        number of classes: ``"agreement"`` judges a source by the other votes on its items, from counts alone;
        ``"refined"`` adds ten passes over the votes; ``"decomposition"`` is exact for sources of any kind, by
        three views. On a graph with more than two classes ``"refined"`` starts from three views where these
        suffice, and ``"decomposition"`` is those alone. For votes that need not be independent:
        ``"consensus"`` weighs a vote by how often others side with it, from counts alone; ``"anchored"`` adds
        ten passes over the votes that cannot drift from there. ``"auto"`` decides by the votes: a closed form
        (``"covariance"``; ``"refined"`` for more than two classes) where they look independent given the
        truth and are many enough to tell, and to find the balance of two; otherwise ``"anchored"`` where an
        item has 2.5 votes of sources that use several classes, otherwise ``"consensus"``. With a graph,
        ``signs``, ``screen`` or an estimated balance, or ``gold`` that shows weighing to be wrong, it is
        ``"triplet_mean"``; for more than two classes ``"refined"`` or ``"agreement"``. ``diagnostics_``
        says what was chosen and why.
    multiclass : "native" or "one_vs_rest"
        For more than two classes. ``"one_vs_rest"`` fits every class against the rest by a binary ``method``,
        and puts the results into one table: the paper's reduction.
    class_balance : None, "uniform", "estimate" or array
        P(Y = k) in the order of ``classes_``, shape (K,); for D tasks it is shared by all. An array (D, K)
        has one row a task. The joint table of all tasks, shape (K,) * D or flat in C order, also says how
        they depend on each other, which is otherwise learned from votes. ``"estimate"`` reads the balance
        off triples of votes (of more than two classes, by passes over the votes), and keeps an even one
        where those say too little (a standard error of P above 0.075). None is the method's own choice: even
        for symmetric methods, ``"agreement"`` and ``"consensus"``; learned by ``"anchored"``, where an even
        one is worth 20 items; for ``"covariance"`` and ``"quadratic"`` estimated by ``fit``, even in
        ``fit_moments`` and ``partial_fit``, which see no triples.
    n_classes : int, optional
        Classes are 0 to ``n_classes`` - 1, also those that nobody votes for. Default: those that occur.
    signs : "average" or mapping {source: +1 | -1}
        ``"average"`` takes the sources to be better than random on average. Anchors name sources
        known to be better (+1) or worse (-1) than random, by name or position.
    screen : float
        Triplets whose denominator is below this many standard errors are skipped; 0 uses all.
    triplets : sequence of (source, source, source), for ``method="triplet"``
        Names or positions. Each triplet is solved for its three sources.
    cliques : "instrument" or "linear"
        How the joint votes of dependent sources are judged: by the sources that are independent of them,
        or by the paper's linear system, for symmetric methods and at most three sources. The latter is the
        paper's route throughout: single votes, too, may then weigh more than twice their source's odds.
    temper : None, "auto" or number in (0, 1]
        The power that the evidence of other tasks is taken to: near 0 every task stands alone. Errors that
        persist from frame to frame make a chain of tasks too sure of itself; ``"auto"`` reads their
        correlation r off the votes and takes (1 - r)/(1 + r). None is 1. In ``predict(joint=True)``, where
        no task is the one at hand, it is taken of all evidence.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m texts
    class_balance_ : array of shape (K,); (D, K) for D > 1 tasks
    accuracies_ : array of shape (m,)
        P(vote is right | source votes); 0.5 for a source that never votes.
    accuracies_interval_ : array of shape (m, 2)
        95% intervals of ``accuracies_``; NaN where there is none (see the docs). Computed when asked.
    coverage_ : array of shape (m,)
        P(source votes).
    confusion_ : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last. With ``class_balance_`` it gives every posterior, unless a graph
        says that there is more to know; and up to what no vote says, which is nothing for symmetric methods
        even where the balance does not fit the votes. With more than 2^24 cells by ``"agreement"`` it is
        kept sparse: ``confusion_[i]`` still is the table of source i, an array, ``len`` and iteration go by
        source, and ``np.asarray(confusion_)`` is refused where it would not fit into memory.
    graph_ : DependencyGraph
        The learned one, with scores, for ``graph="learn"``.
    task_tables_ : array of shape (E, K, K)
        P(Y_a, Y_b) for each of the E edges in ``graph_.task_edges``.
    excess_correlation_ : array of shape (m,)
        For each source how much its errors on neighbouring tasks agree beyond what the truths explain; NaN
        unless all tasks have equally many sources, numbered task by task, so that equal places are one
        detector.
    temper_ : float
    moments_ : Moments
        The counts that were fitted.
    diagnostics_ : Diagnostics
        Sources that deserve a look, a test of independence, and a verdict beside majority vote. Computed
        when asked.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     5_000, accuracies=[0.9, 0.8, 0.7, 0.6], coverage=0.8, random_state=0)
    >>> model = fs.LabelModel().fit(sample.votes)
    >>> model.accuracies_.round(1)
    array([0.9, 0.8, 0.7, 0.6])
    >>> model.predict_proba([[1, -1, 0, 1], [-1, -1, -1, -1]]).round(2)
    array([[0.11, 0.89],
           [0.42, 0.58]])
    """

    moments_: Moments
    class_balance_: NDArray[np.float64]
    accuracies_: NDArray[np.float64]
    coverage_: NDArray[np.float64]
    confusion_: NDArray[np.float64]
    _many: ManyFit | None = None
    _passes: Passes | None = None
    _many_graph: ManyGraphFit | None = None
    _pending: Moments | None
    _opinion: OpinionFit | None = None
    _note: str = ""
    _gold: list[GoldCounts | None] | None = None
    _interval: NDArray[np.float64] | None
    _fit: GraphFit
    _fitted_with: dict[str, Any]
    _weights: NDArray[np.float64]
    _units: tuple[UnitTable, ...]
    _clique_tables: tuple[NDArray[np.float64], ...]
    _emissions: Emissions
    _diagnostics: Diagnostics | None
    graph_: DependencyGraph
    task_tables_: NDArray[np.float64]
    excess_correlation_: NDArray[np.float64]
    temper_: float

    def __init__(
        self,
        graph: DependencyGraph | Literal["learn"] | None = None,
        *,
        method: Method = "auto",
        multiclass: Literal["native", "one_vs_rest"] = "native",
        class_balance: Literal["uniform", "estimate"] | ArrayLike | None = None,
        n_classes: int | None = None,
        signs: Literal["average"] | Mapping[Source, int] = "average",
        screen: float = 1.0,
        triplets: Sequence[tuple[Source, Source, Source]] | None = None,
        cliques: Literal["instrument", "linear"] = "instrument",
        temper: Literal["auto"] | float | None = None,
    ) -> None:
        self.graph = graph
        self.method = method
        self.multiclass = multiclass
        self.class_balance = class_balance
        self.n_classes = n_classes
        self.signs = signs
        self.screen = screen
        self.triplets = triplets
        self.cliques = cliques
        self.temper = temper

    def fit(
        self, votes: Any, y: object = None, *, gold: Any = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Count the votes, then solve.

        Parameters
        ----------
        votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
            Or an array (n, D, s) for a graph whose D tasks have s sources each. Keep items that nobody
            votes on: dropping them biases every rate. Or ``VoteChunks``, which are read once: what needs the
            votes themselves then reads their distinct rows, and counts alone where these are too many.
            Or votes on a cluster: a Dask array or dataframe, a list of ``dask.delayed`` chunks, a Spark
            dataframe; the same of them comes here, and no more.
        y : ignored
            Accepted because scikit-learn's cross-validation passes it. Gold labels that should take part in
            the fit are passed as ``gold``.
        gold : sequence of n labels, or array (n, D), optional
            Known classes of some items; None, NaN and masked where unknown, and -1 unless it is a class.
            In a closed form they settle signs, join the estimate of the class balance unless it was given,
            and correct the sources by their weight; where votes are weighed, passes hold on to them. They
            should be a random sample of the items.
        sample_weight : array of shape (n,) or number, optional
            How often each item counts.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> data = fs.datasets.load_breast_cancer()
        >>> known = [label if i < 50 else None for i, label in enumerate(data.y.tolist())]
        >>> fs.LabelModel().fit(data.votes, gold=known).classes_
        array(['benign', 'malignant'], dtype='<U9')
        """
        self._check_options()
        counted = count_votes(self, votes, gold, sample_weight)
        draft = draft_of(self)
        solve(draft, counted.moments, counted.votes, counted.weights, gold, note=counted.note)
        if counted.learned is not None and counted.learned == draft.graph_:  # not where it had to be left out
            draft.graph_ = counted.learned
        keep(self, draft)
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Solve from counts alone, wherever they were gathered.

        With a graph they must have been counted for it, by ``Moments.of(votes, graph)``.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> counts = fs.Moments.of(votes[:300]) + fs.Moments.of(votes[300:])  # gathered in two places
        >>> model = fs.LabelModel(method="triplet_mean")
        >>> bool((model.fit_moments(counts).accuracies_ == model.fit(votes).accuracies_).all())
        True
        """
        self._check_options()
        graph = given_graph(self.graph, "fit_moments")
        _options.require_moments(moments)
        wanted = None if graph is None or graph.is_trivial else graph
        if moments.graph != wanted:
            raise GraphError(
                f"the counts were made for {moments.graph or 'no graph'}, the model has {wanted or 'none'}; "
                "count with Moments.of(votes, graph)"
            )
        draft = draft_of(self)
        solve(draft, moments)
        keep(self, draft)
        return self

    def partial_fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Add the votes to the counts of earlier calls, then solve again.

        The counts are kept even when they do not determine the accuracies yet and
        :class:`~flyingsquid.exceptions.NotIdentifiableError` is raised, so that a stream can go on. Known
        labels of an earlier ``fit`` keep their say where they corrected the sources.

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
        self._check_options()
        graph = given_graph(self.graph, "partial_fit")
        before: Moments | None = getattr(self, "_pending", None) or getattr(self, "moments_", None)
        known = _options.read_n_classes(self.n_classes, votes) if before is None else before.classes
        chunk = as_votes(votes, known, stacked_shape(graph))
        if before is not None and before.graph is not None and before.names and chunk.names:
            chunk = chunk.matched_to(before.classes, before.names)
        total = Moments.of(chunk, graph, sample_weight=sample_weight)
        if before is not None:
            total = before + total
        draft = draft_of(self)
        try:
            solve(draft, total, again=True)
        except NotIdentifiableError:
            # Apart from the counts of the last fit, which its parameters belong to.
            self._pending = total
            raise
        keep(self, draft)
        return self

    @overload
    def predict(
        self,
        votes: InMemory,
        tie_break: TieBreak = ...,
        random_state: RandomState = ...,
        *,
        joint: bool = ...,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self, votes: Any, tie_break: TieBreak = ..., random_state: RandomState = ..., *, joint: bool = ...
    ) -> Any: ...

    def predict(
        self,
        votes: Any,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
        *,
        joint: bool = False,
    ) -> Any:
        """The most probable class of each item, shape (n,); (n, D) for D > 1 tasks.

        Parameters
        ----------
        votes : as in :meth:`predict_proba`
        tie_break : ``"first"``, ``"abstain"`` or ``"random"``
            Label of an item whose most probable classes are equally probable: the first of them; no label
            (-1, or 0 if -1 is a class, or None if classes are not integers); or one of them at random.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator for ``tie_break="random"``. None draws differently every time.
        joint : bool
            For several tasks. False: the most probable class of each task by itself, which is wrong least
            often. True: the most probable classes of all tasks together, which is possible as a whole.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = [["spam", "spam", "ham"], ["ham", None, "ham"], ["ham", "spam", "ham"], [None] * 3]
        >>> model = fs.LabelModel(class_balance="uniform").fit(votes)
        >>> model.predict(votes, tie_break="abstain").tolist()
        ['spam', 'ham', 'ham', None]
        """
        if joint and tie_break != "first":
            raise OptionError(f"joint=True breaks ties by tie_break='first' only, not by {told(tie_break)}")
        self._require_fitted()
        on_cluster = distributed_votes(votes)
        if on_cluster is not None:
            return on_cluster.label(self, "predict", {"tie_break": tie_break, "joint": joint})
        if not joint or self.graph_.n_tasks == 1:  # one task has nothing to be joined with
            return super().predict(votes, tie_break, random_state)
        chunks = as_chunks(votes)
        if chunks is not None:
            return (self.predict(chunk, joint=True) for chunk in chunks)
        read = self._read(votes)
        evidence = self.temper_ * self._emissions.evidence(read.codes)
        states = max_product(evidence, self.graph_._task_tree, self._clique_tables)
        return as_label_array(self._classes)[states]

    def log_likelihood(self, votes: Any) -> NDArray[np.float64]:
        """log P(votes of an item) under the fitted model, shape (n,); its sum compares models.

        ``temper`` has no part in it.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> fs.LabelModel().fit(votes).log_likelihood(votes).shape
        (569,)
        """
        return likelihood_of(self, self._read(votes))

    def explain(self, votes_row: Any, *, task: int | None = None) -> Explanation:
        """Why one item got its label: what each source adds to the log odds, strongest first.

        Parameters
        ----------
        votes_row : the votes on one item
            ``Votes`` or a table with one row, an array of shape (1, m) or (m,), a sequence of m votes,
            or a mapping or pandas row from names to votes.
        task : int, for a graph of several tasks
            Which truth to explain. What is known from the votes on other tasks is one contribution.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.datasets.load_breast_cancer().votes
        >>> why = fs.LabelModel().fit(votes).explain(votes[[2]])
        >>> why.predicted, why.contributions[0].source
        ('malignant', 'dented outline')
        """
        codes = self._read_row(votes_row)
        return explanation_of(self, codes, _options.read_task(task, self.graph_.n_tasks))

    def summary(self) -> Table:
        """What each source is worth, one row a source. Prints; ``.to_dict()``, ``.to_pandas()``.

        The columns are those of :func:`~flyingsquid.analysis.summarize_sources`.
        """
        self._require_fitted()
        return summarize_sources(
            self.moments_, self.accuracies_, self.accuracies_interval_, self.diagnostics_
        )

    @property
    def accuracies_interval_(self) -> NDArray[np.float64]:
        """95% intervals of ``accuracies_``, shape (m, 2); NaN for a source or method without a formula.

        ``"consensus"`` and ``"anchored"`` judge sources by their own labels; the interval is what chance does
        to that, and not how far the labels are off.

        For more than two classes they cover what the method finds on endless items of the same kind, which
        is not the truth where the method leans, as ``"agreement"`` does. They pass over the votes of ``fit``
        once more (``"agreement"``) or fit ten times (others), with the balance as it is unless the method
        learned it; NaN after ``fit_moments`` and ``partial_fit``, which see counts alone.
        """
        self._require_fitted()
        if self._interval is None:
            errors = errors_of(self)
            reach = NORMAL_95 * errors[:, None] * np.array([-1.0, 1.0])
            self._interval = np.clip(self.accuracies_[:, None] + reach, 0.0, 1.0)
            self._interval.flags.writeable = False
        return self._interval

    @property
    def diagnostics_(self) -> Diagnostics:
        """What the fit noticed; computed when asked."""
        self._require_fitted()
        if self._diagnostics is None:
            self._diagnostics = diagnostics_of(self)
        return self._diagnostics

    def _posterior(self, votes: Votes, dtype: np.dtype[Any] = DOUBLE) -> NDArray[Any]:
        return posterior_of(self, votes, dtype)

    def __getstate__(self) -> dict[str, Any]:
        # Votes stay where they are; what still needs them is computed before a copy leaves.
        if self._many is not None:
            _ = self.accuracies_interval_
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_passes"}

    def _check_options(self) -> None:
        _options.check_label_model(self)
