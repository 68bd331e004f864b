"""The label model with the interface of the 2020 code, and its arguments."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from flyingsquid._values import format_count, format_value, is_one_of, option_error
from flyingsquid.exceptions import GraphError, NotFittedError, NotIdentifiableError, OptionError, VotesError
from flyingsquid.fits import GraphFit
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.dependency import read_count
from flyingsquid.inference.junction_tree import plan
from flyingsquid.models import LabelModel as NewLabelModel
from flyingsquid.solvers import Marginal, Triplet
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Codes

Edges: TypeAlias = Sequence[Sequence[int]]
SolveMethod: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
SignRecovery: TypeAlias = Literal["all_positive", "fully_independent"]
MAX_ENUMERATED_TASKS = 20
"""Largest number of tasks whose 2^v combinations are enumerated."""
# Up to this many tasks gold labels are counted by combination, and by task for more.
_MAX_COUNTED_TASKS = 12
# Replaces a probability of 0, for which there is no log probability.
_SMALLEST_SHARE = 1e-6
_AGGREGATES: dict[str, Literal["mean", "median", "best"]] = {
    "triplet_mean": "mean",
    "triplet_median": "median",
    "triplet": "best",
}


def read_graph(m: int, v: int, y_edges: Edges, lambda_y_edges: Edges, lambda_edges: Edges) -> DependencyGraph:
    """Return the graph of m sources on v tasks.

    >>> read_graph(4, 2, [(0, 1)], [(0, 0), (1, 0), (2, 1), (3, 1)], [])
    DependencyGraph(4 sources on 2 tasks, 1 task edge)
    """
    m, v = read_count(m, "m"), read_count(v, "v")
    if len(lambda_y_edges) == 0:
        if v > 1:
            raise GraphError(
                f"`lambda_y_edges` must have one (source, task) pair per source if v > 1; got none for v={v}."
            )
        return DependencyGraph(m, task_edges=y_edges, source_edges=lambda_edges)
    task_of: dict[int, int] = {}
    for edge in lambda_y_edges:
        try:
            source, task = edge
        except (TypeError, ValueError) as error:
            raise GraphError(
                f"`lambda_y_edges` must contain (source, task) pairs; got {format_value(edge)}."
            ) from error
        if task_of.setdefault(source, task) != task:
            raise GraphError(
                f"`lambda_y_edges` must assign one task per source; got {task_of[source]} and {task} for "
                f"source {source}. Use one column of votes per task."
            )
    missing = sorted(set(range(m)) - set(task_of))
    if missing or len(task_of) != m:
        unknown = sorted(set(task_of) - set(range(m)), key=repr)
        got = f"no task for source {missing[0]}" if missing else f"source {format_value(unknown[0])}"
        raise GraphError(f"`lambda_y_edges` must assign a task to each of sources 0 to {m - 1}; got {got}.")
    return DependencyGraph(
        m, v, source_task=[task_of[i] for i in range(m)], task_edges=y_edges, source_edges=lambda_edges
    )


def read_triplets(triplets: Any, m: int) -> list[tuple[Any, ...]] | None:
    """Return triplets of positions, from positions or from the names of expectations in the 2020 code.

    >>> read_triplets([(0, 1, 2), [(("lambda_3", "Y_0"), ("0",)), ("lambda_4", "Y_0"), "lambda_0"]], 5)
    [(0, 1, 2), (3, 4, 0)]
    """
    if triplets is None:
        return None
    names = {f"lambda_{i}": i for i in range(m)}
    return [tuple(_position(entry, names) for entry in triplet) for triplet in triplets]


def _position(entry: Any, names: dict[str, int]) -> Any:
    if isinstance(entry, (tuple, list)):
        # (('lambda_4', 'Y_0'), ('0',)) if sources may abstain, ('lambda_4', 'Y_0') otherwise.
        conditional = len(entry) == 2 and isinstance(entry[0], (tuple, list))
        product, condition = entry if conditional else (entry, ("0",))
        if len(product) != 2 or tuple(condition) != ("0",):
            raise OptionError(
                f"`triplets` must contain single sources; got {format_value(entry)}. Dependent sources are "
                "estimated without triplets.",
                parameter="triplets",
            )
        entry = product[0]
    if isinstance(entry, str) and entry not in names:
        raise OptionError(
            f"`triplets` must contain lambda_0 to lambda_{len(names) - 1}; got {format_value(entry)}.",
            parameter="triplets",
        )
    return names.get(entry, entry) if isinstance(entry, str) else entry


def read_votes(L: Any, graph: DependencyGraph, *, allow_abstentions: bool, what: str) -> Votes:
    """Read votes of shape (n, m) in -1, 0 and +1; ``what`` is the name of the parameter."""
    votes = Votes.from_signed(L)
    if votes.n_sources != graph.n_sources:
        raise VotesError(
            f"`{what}` must have {format_count(graph.n_sources, 'column')}, one per source; got "
            f"{votes.n_sources}."
        )
    if not allow_abstentions and (missing := votes.to_dense().codes < 0).any():
        row, source = np.argwhere(missing)[0].tolist()
        raise VotesError(
            f"`{what}` must not contain abstentions with allow_abstentions=False; got 0 in row {row}, source "
            f"{source}."
        )
    return votes


def read_balance(
    class_balance: ArrayLike | None, Y_dev: ArrayLike | None, v: int
) -> NDArray[np.float64] | None:
    """Return P(Y) in the form of ``LabelModel``; None if neither argument is given.

    The shape is (2,) for one task. For several tasks it is the table of all combinations, or (v, 2) if gold
    labels of many tasks are counted by task.
    """
    if class_balance is not None and Y_dev is not None:
        raise OptionError("Pass either `class_balance` or `Y_dev`, not both.")
    if Y_dev is not None:
        return _balance_of(Y_dev, v)
    if class_balance is None:
        return None
    if v > MAX_ENUMERATED_TASKS:
        raise OptionError(
            f"`class_balance` needs all 2^{v} combinations; at most {MAX_ENUMERATED_TASKS} tasks are "
            "supported. Pass `Y_dev`, or use flyingsquid.LabelModel, which accepts one balance per task.",
            parameter="class_balance",
        )
    try:
        table = np.asarray(class_balance, np.float64)
    except (TypeError, ValueError) as error:
        raise option_error("class_balance", "an array of numbers", class_balance) from error
    if table.shape != (2**v,):
        raise OptionError(
            f"`class_balance` must have one number per combination, 2^{v}, in the order of enumerate_ys(); "
            f"got the shape {table.shape}.",
            parameter="class_balance",
        )
    if v > 1 and (table == 0).any() and table.sum() > 0:
        table = np.maximum(table, _SMALLEST_SHARE * table.sum())
        table = table / table.sum()
    return table


def _balance_of(Y_dev: ArrayLike, v: int) -> NDArray[np.float64]:
    """Return shares of gold labels, with two uniform items added so that no share is 0."""
    gold = np.asarray(Y_dev)
    gold = gold[:, None] if gold.ndim == 1 and v == 1 else gold
    if gold.ndim != 2 or gold.shape[1] != v or not len(gold):
        raise OptionError(f"`Y_dev` must have the shape (items, {v}); got {gold.shape}.", parameter="Y_dev")
    if not np.isin(gold, (-1, 1)).all():
        row, task = np.argwhere(~np.isin(gold, (-1, 1)))[0].tolist()
        raise OptionError(
            f"`Y_dev` must be -1 or +1; got {format_value(gold[row, task])} in row {row}, task {task}.",
            parameter="Y_dev",
        )
    codes = (gold > 0).astype(np.intp)
    if v > _MAX_COUNTED_TASKS:
        positive = (codes.sum(axis=0) + 1) / (len(codes) + 2)
        return np.column_stack([1 - positive, positive])
    counts = np.bincount(codes @ (1 << np.arange(v)[::-1]), minlength=2**v)
    return np.asarray((counts + 2 / 2**v) / (len(codes) + 2))


# ---------------------------------------------------------------------- options


def options_for(
    graph: DependencyGraph,
    solve_method: SolveMethod,
    sign_recovery: SignRecovery,
    triplets: Sequence[tuple[Any, ...]] | None,
) -> dict[str, Any]:
    """Return the options of ``flyingsquid.LabelModel`` except for the class balance.

    >>> options_for(DependencyGraph(3), "triplet_median", "fully_independent", None)["method"]
    Triplet(aggregate='median', triplets=None, screen=0.0, cliques='instrument')
    """
    for name, value, allowed in (
        ("solve_method", solve_method, get_args(SolveMethod)),
        ("sign_recovery", sign_recovery, get_args(SignRecovery)),
    ):
        if not is_one_of(value, allowed):
            raise option_error(name, f"one of {', '.join(allowed)}", value)
    if triplets is not None and solve_method in ("triplet_median", "independencies"):
        raise OptionError(
            f"`triplets` is not supported by solve_method={format_value(solve_method)}; use 'triplet_mean' "
            "for their mean.",
            parameter="triplets",
        )
    if triplets is not None:
        solve_method = "triplet"  # the mean for a source in several triplets
    # The paper's linear system; for three sources it divides by E[Y], which is 0 for a uniform balance.
    largest = max((len(clique) for unit in graph._units for clique in unit.cliques), default=0)
    cliques: Literal["instrument", "linear"] = "linear" if largest == 2 else "instrument"
    options: dict[str, Any] = {"graph": None if graph.is_trivial else graph}
    if solve_method == "independencies":  # estimates have signs and need no triplets
        return {**options, "method": Marginal(cliques)}
    # The 2020 code averages over all triplets without screening.
    options["method"] = Triplet(_AGGREGATES[solve_method], triplets, 0.0, cliques)
    if sign_recovery == "all_positive":
        options["signs"] = dict.fromkeys(range(graph.n_sources), 1)
    return options


# ---------------------------------------------------------------------- the label model

_LOGGER = logging.getLogger("flyingsquid")
_RENAMED_NOTE = (
    "In flyingsquid.legacy, `method` is `solve_method`, source edges are `lambda_edges`, and `signs` is "
    "`sign_recovery`, with 'fully_independent' for signs='average'."
)
# Cells of the joint table of all combinations that are computed at once, 32 MB.
_CHUNK_CELLS = 1 << 22


class LabelModel:
    """The 2020 interface to :class:`flyingsquid.LabelModel`.

    Votes are -1, 0 (no vote) and +1.

    Parameters
    ----------
    m : int
        The number of sources of all tasks together.
    v : int, default=1
        The number of tasks, such as the frames of a clip.
    y_edges : list of (task, task), default=()
        Pairs of dependent tasks.
    lambda_y_edges : list of (source, task), default=()
        The task that each source votes on. It may be empty for ``v=1``.
    lambda_edges : list of (source, source), default=()
        Pairs of dependent sources.
    allow_abstentions : bool, default=True
        Whether votes may be 0.
    triplets : list of triplets or None, default=None
        For ``solve_method="triplet"`` and ``"triplet_mean"``: three positions each, or names as in the 2020
        code: ``"lambda_4"``, ``("lambda_4", "Y_0")`` or ``(("lambda_4", "Y_0"), ("0",))``. Each triplet is
        solved for its three sources; the estimate of a source in several triplets is their mean.
    triplet_seed : int or None, default=0
        Ignored: ``solve_method="triplet"`` uses the best triplet of each source instead of a random one. Pass
        the random triplets of the 2020 code as ``triplets``.

    Attributes
    ----------
    model_ : flyingsquid.LabelModel
        The fitted model, which also has ``summary``, ``explain``, ``save`` and more.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> from flyingsquid.legacy import LabelModel
    >>> sample = fs.datasets.simulate(5_000, accuracies=[0.9, 0.8, 0.7], random_state=0)
    >>> L_train = 2 * sample.votes.codes - 1  # -1 and +1
    >>> label_model = LabelModel(3)
    >>> label_model.fit(L_train)
    >>> np.round(label_model.estimated_accuracies(), 1)
    array([0.9, 0.8, 0.7])
    >>> label_model.predict([[1, 0, -1], [-1, -1, 1]])
    array([[ 1],
           [-1]])
    """

    model_: NewLabelModel

    def __init__(
        self,
        m: int,
        v: int = 1,
        y_edges: Edges = (),
        lambda_y_edges: Edges = (),
        lambda_edges: Edges = (),
        allow_abstentions: bool = True,
        triplets: Sequence[Sequence[Any]] | None = None,
        triplet_seed: int | None = 0,
    ) -> None:
        self._graph = read_graph(m, v, y_edges, lambda_y_edges, lambda_edges)
        self.m, self.v = self._graph.n_sources, self._graph.n_tasks
        self.allow_abstentions = allow_abstentions
        self.triplets = read_triplets(triplets, self.m)
        self.triplet_seed = triplet_seed

    def fit(
        self,
        L_train: ArrayLike,
        class_balance: ArrayLike | None = None,
        Y_dev: ArrayLike | None = None,
        flip_negative: bool = True,
        clamp: bool = True,
        solve_method: SolveMethod = "triplet_mean",
        sign_recovery: SignRecovery = "all_positive",
        verbose: bool = False,
    ) -> None:
        """Estimate the accuracies of the sources.

        Parameters
        ----------
        L_train : array-like of shape (n, m)
            Votes: -1, 0 (no vote) and +1.
        class_balance : array-like of shape (2^v,) or None, default=None
            P(Y) of all combinations, in the order of :meth:`enumerate_ys`; for several tasks, 0 is replaced
            by 1e-6. None is a uniform balance for every task; the dependence of tasks is estimated.
        Y_dev : array-like of shape (items, v) or None, default=None
            Gold labels of any items, -1 and +1. The class balance is their shares, with two uniform items
            added; for more than 12 tasks, the shares of each task.
        flip_negative, clamp : bool, default=True
            Accepted for old scripts. False is ignored with a warning: tables that noise makes negative are
            always projected to probabilities with the same vote rates and class balance.
        solve_method : {"triplet_mean", "triplet_median", "triplet", "independencies"}, \
                default="triplet_mean"
            "independencies" needs an imbalanced class balance, and no triplets.
        sign_recovery : {"all_positive", "fully_independent"}, default="all_positive"
            "all_positive" assumes that every source is better than random, "fully_independent" that sources
            are better than random on average. "independencies" estimates signs, and with "all_positive"
            raises an error if a source is clearly worse than random.
        verbose : bool, default=False
            Whether to log at level INFO of the logger ``flyingsquid``.
        """
        if not (flip_negative and clamp):
            warnings.warn(
                "`flip_negative` and `clamp` are ignored: tables are always projected to probabilities.",
                UserWarning,
                stacklevel=2,
            )
        votes = self._read(L_train, "L_train")
        balance = read_balance(class_balance, Y_dev, self.v)
        options = options_for(self._graph, solve_method, sign_recovery, self.triplets)
        model = NewLabelModel(class_balance=balance, **options)
        _log(verbose, "Estimating %d sources on %d items by %s", self.m, votes.n_items, solve_method)
        try:
            model.fit(votes)
        except (NotIdentifiableError, OptionError) as error:
            error.add_note(_RENAMED_NOTE)
            raise
        if solve_method == "independencies" and sign_recovery == "all_positive":
            _require_better_than_random(model)
        _log(verbose, "P(vote is right): %s", np.round(model.coverage_ * model.accuracies_, 3).tolist())
        self.model_ = model

    def predict(self, L: ArrayLike, verbose: bool = True) -> NDArray[np.int64]:
        """Return the most probable combination of labels, shape (n, v), -1 and +1; ties are -1.

        The time is linear in v. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        votes = self._read_fitted(L, verbose)
        # For one task the shape is (n,), and ties are the first class, -1.
        return np.asarray(self.model_.predict(votes, joint=True), np.int64).reshape(votes.n_items, self.v)

    def predict_proba(self, L_matrix: ArrayLike, verbose: bool = True) -> NDArray[np.float64]:
        """Return P(Y | votes) of all combinations in the order of :meth:`enumerate_ys`, shape (n, 2^v).

        v may be up to 20. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        self._require_few_tasks("predict_proba")
        votes = self._read_fitted(L_matrix, verbose)
        fit = self.model_.fit_
        if isinstance(fit, GraphFit) and self.v > 1:
            return _joint_posterior(votes.codes, fit)
        return np.asarray(self.model_.predict_proba(votes))

    def predict_proba_marginalized(self, L: ArrayLike, verbose: bool = False) -> NDArray[np.float64]:
        """Return P(Y_d = +1 | votes), shape (n·v,): all v tasks of the first item, then of the next.

        The time is linear in v. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        votes = self._read_fitted(L, verbose)
        return np.ascontiguousarray(self.model_.predict_proba(votes)[..., 1]).ravel()

    def estimated_accuracies(self) -> list[float]:
        """Return P(vote is right) of every source; an abstention does not count as right."""
        self._require_fitted()
        return [float(right) for right in self.model_.coverage_ * self.model_.accuracies_]

    def enumerate_ys(self) -> list[list[int]]:
        """Return all combinations of -1 and +1 in sorted order, the columns of :meth:`predict_proba`.

        v may be up to 20.

        >>> LabelModel(6, 2, [(0, 1)], [(i, i // 3) for i in range(6)]).enumerate_ys()
        [[-1, -1], [-1, 1], [1, -1], [1, 1]]
        """
        self._require_few_tasks("enumerate_ys")
        return [list(ys) for ys in itertools.product((-1, 1), repeat=self.v)]

    # ------------------------------------------------------------------ reading

    def _read(self, L: ArrayLike, what: str) -> Votes:
        return read_votes(L, self._graph, allow_abstentions=self.allow_abstentions, what=what)

    def _read_fitted(self, L: ArrayLike, verbose: bool) -> Votes:
        self._require_fitted()
        votes = self._read(L, "L")
        _log(verbose, "Labeling %d items", votes.n_items)
        return votes

    def _require_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("This LabelModel is not fitted. Call `fit` first.")

    def _require_few_tasks(self, method: str) -> None:
        if self.v > MAX_ENUMERATED_TASKS:
            raise OptionError(
                f"{method} enumerates all 2^{self.v} combinations; at most {MAX_ENUMERATED_TASKS} tasks are "
                "supported. Use predict or predict_proba_marginalized."
            )


def _log(verbose: bool, message: str, *values: object) -> None:
    if verbose:
        _LOGGER.info(message, *values)


def _require_better_than_random(model: NewLabelModel) -> None:
    worse = model.accuracies_interval_[:, 1] < 0.5
    if worse.any():
        i = int(np.flatnonzero(worse)[0])
        raise NotIdentifiableError(
            f"Source {i} has an estimated accuracy of {model.accuracies_[i]:.0%}, but "
            "sign_recovery='all_positive' assumes that every source is better than random. Pass "
            "sign_recovery='fully_independent'."
        )


def _joint_posterior(codes: Codes, fit: GraphFit) -> NDArray[np.float64]:
    """Return P(Y_0, Y_1, ... | votes), shape (n, 2^D), in the order of ``enumerate_ys``."""
    evidence, tree = fit.emissions.evidence(codes), fit.graph._task_tree
    n, n_tasks, _ = evidence.shape
    ys = np.indices((2,) * n_tasks, np.int8).reshape(n_tasks, -1)
    # log P(Y_0, Y_1, ...) is the sum over cliques given their separators.
    steps = zip(tree.cliques, plan(tree, fit.clique_tables), strict=True)
    prior = sum(step.log_table[..., 0][tuple(ys[list(clique)])] for clique, step in steps)
    result = np.empty((n, 2**n_tasks))
    rows = max(1, _CHUNK_CELLS >> n_tasks)
    for start in range(0, n, rows):
        part = result[start : start + rows]
        part[:] = prior
        for task, y in enumerate(ys):
            part += evidence[start : start + rows, task][:, y]
        part[:] = softmax(part, axis=1)
    return result
