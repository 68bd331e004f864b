"""The label model with the interface of the 2020 code."""

from __future__ import annotations

import itertools
import logging
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.exceptions import NotFittedError, NotIdentifiableError, OptionError
from flyingsquid.fits import GraphFit
from flyingsquid.inference.junction_tree import plan
from flyingsquid.legacy.arguments import (
    MAX_ENUMERATED_TASKS,
    Edges,
    SignRecovery,
    SolveMethod,
    options_for,
    read_balance,
    read_graph,
    read_triplets,
    read_votes,
)
from flyingsquid.models import LabelModel as NewLabelModel
from flyingsquid.votes import Votes
from flyingsquid.votes.codes import Codes

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
    evidence = fit.emissions.evidence(codes)
    n, n_tasks, _ = evidence.shape
    log_prior = _log_prior(fit, n_tasks)
    result = np.empty((n, 2**n_tasks))
    rows = max(1, _CHUNK_CELLS >> n_tasks)
    for start in range(0, n, rows):
        part = evidence[start : start + rows]
        score = np.broadcast_to(log_prior, (len(part), *log_prior.shape)).copy()
        for task in range(n_tasks):
            score += part[:, task].reshape(len(part), *_axes((task,), n_tasks))
        flat = score.reshape(len(part), -1)
        flat -= flat.max(axis=1, keepdims=True)
        np.exp(flat, out=flat)
        result[start : start + rows] = flat / flat.sum(axis=1, keepdims=True)
    return result


def _log_prior(fit: GraphFit, n_tasks: int) -> NDArray[np.float64]:
    """Return log P(Y_0, Y_1, ...), shape (2,) * D: the sum over cliques given their separators."""
    total = np.zeros((2,) * n_tasks)
    tree = fit.graph._task_tree
    for clique, step in zip(tree.cliques, plan(tree, fit.clique_tables), strict=True):
        table = step.log_table[..., 0].transpose(np.argsort(clique))
        total = total + table.reshape(_axes(clique, n_tasks))
    return np.asarray(total)


def _axes(tasks: tuple[int, ...], n_tasks: int) -> tuple[int, ...]:
    return tuple(2 if task in tasks else 1 for task in range(n_tasks))
