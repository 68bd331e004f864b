"""The label model of the 2020 code, by its arguments."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.exceptions import NotFittedError, NotIdentifiableError, OptionError
from flyingsquid.legacy.enumeration import joint_posterior
from flyingsquid.legacy.reading import (
    MOST_ENUMERATED,
    Edges,
    read_balance,
    read_graph,
    read_triplets,
    read_votes,
)
from flyingsquid.legacy.translation import SignRecovery, SolveMethod, options_for
from flyingsquid.models import LabelModel as NewLabelModel
from flyingsquid.votes import Votes

_LOGGER = logging.getLogger("flyingsquid")
_IN_OTHER_WORDS = (
    "In flyingsquid.legacy, method= is solve_method=, source edges are lambda_edges=, and signs= is "
    "sign_recovery=, where 'fully_independent' stands for signs='average'"
)


class LabelModel:
    """The 2020 interface to :class:`flyingsquid.LabelModel`.

    Votes are -1, 0 (no vote) and +1.

    Parameters
    ----------
    m : int
        The number of sources, counted over all tasks.
    v : int
        The number of tasks: the frames of a clip, for one.
    y_edges : list of (task, task)
        Tasks that depend on each other.
    lambda_y_edges : list of (source, task)
        The task that each source votes on. Empty: all on task 0, for ``v=1`` only.
    lambda_edges : list of (source, source)
        Sources that depend on each other.
    allow_abstentions : bool
        False refuses votes that hold a 0.
    triplets : list of triplets, for ``solve_method="triplet"`` or ``"triplet_mean"``
        Three positions each, or the 2020 code's own names: ``"lambda_4"``, ``("lambda_4", "Y_0")`` or
        ``(("lambda_4", "Y_0"), ("0",))``. Each is solved for its three sources; a source in several gets the
        mean.
    triplet_seed : int or None, for ``solve_method="triplet"`` without ``triplets``
        Triplets are drawn with it. None takes the best triplet of each source instead. No seed gives the
        triplets that the 2020 code drew; pass those.

    Attributes
    ----------
    model_ : flyingsquid.LabelModel
        The fitted model, with all that this interface does not show: ``summary``, ``explain``, ``save``.

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
        """Judge the sources.

        Parameters
        ----------
        L_train : array of shape (n, m), entries -1, 0, +1
        class_balance : array of shape (2^v,), optional
            P(Y) of all combinations, in the order of :meth:`enumerate_ys`. Of several tasks, 0 stands for one
            in a million. None: both classes equally frequent on every task; how tasks depend on each other is
            learned from the votes.
        Y_dev : array of shape (any number, v), entries -1, +1, optional
            Known labels, of any items, which say the class balance: shares of them and of two items spread
            evenly over all combinations. Of more than 12 tasks, the balance of each.
        flip_negative, clamp : bool
            With either, a table that noise carries below 0 is brought back to probabilities, in the one way
            that keeps vote rates and class balance. With neither, such a table is an error.
        solve_method : "triplet_mean", "triplet_median", "triplet" or "independencies"
            "independencies" needs a lopsided class balance, and no triplets.
        sign_recovery : "all_positive" or "fully_independent"
            The first takes every source to be better than random. The second finds those that are worse, and
            takes the sources to be better on average. "independencies" finds signs by itself, and
            "all_positive" then refuses a source that is clearly worse than random.
        verbose : bool
            Whether to log what is done, at level INFO of the logger ``flyingsquid``.
        """
        votes = self._read(L_train, "L_train")
        balance = read_balance(class_balance, Y_dev, self.v)
        repair = bool(flip_negative or clamp)
        if not repair and self._graph.source_edges:
            raise OptionError(
                "flip_negative=False with clamp=False is for sources without lambda_edges: joint tables of "
                "dependent sources are always brought back to probabilities. Leave clamp=True"
            )
        options = options_for(self._graph, solve_method, sign_recovery, self.triplets, self.triplet_seed)
        model = NewLabelModel(class_balance=balance, **options)
        _log(verbose, "judging %d sources on %d items by %s", self.m, votes.n_items, solve_method)
        try:
            model.fit(votes)
        except (NotIdentifiableError, OptionError) as error:
            error.add_note(_IN_OTHER_WORDS)
            raise
        if not repair:
            _require_probabilities(model)
        if solve_method == "independencies" and sign_recovery == "all_positive":
            _require_better_than_random(model)
        _log(verbose, "P(vote = truth): %s", np.round(model.coverage_ * model.accuracies_, 3).tolist())
        self.model_ = model

    def predict(self, L: ArrayLike, verbose: bool = True) -> NDArray[np.int64]:
        """The most probable labels of all tasks together, shape (n, v), -1 and +1; ties are -1.

        Linear in v. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        votes = self._read_fitted(L, verbose)
        # Of one task (n,), and its ties go to the first class, -1.
        return np.asarray(self.model_.predict(votes, joint=True), np.int64).reshape(votes.n_items, self.v)

    def predict_proba(self, L_matrix: ArrayLike, verbose: bool = True) -> NDArray[np.float64]:
        """P(Y | votes) of all combinations in the order of :meth:`enumerate_ys`, shape (n, 2^v).

        For v up to 20. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        self._require_few_tasks("predict_proba")
        votes = self._read_fitted(L_matrix, verbose)
        return joint_posterior(votes.codes, self.model_.fit_.parameters())

    def predict_proba_marginalized(self, L: ArrayLike, verbose: bool = False) -> NDArray[np.float64]:
        """P(Y_d = +1 | votes), flat: all v tasks of the first item, then those of the next, shape (n·v,).

        Linear in v. ``verbose`` logs at level INFO of the logger ``flyingsquid``.
        """
        votes = self._read_fitted(L, verbose)
        return np.ascontiguousarray(self.model_.predict_proba(votes)[..., 1]).ravel()

    def estimated_accuracies(self) -> list[float]:
        """P(vote = truth) of every source; an abstain is not right."""
        self._require_fitted()
        return [float(right) for right in self.model_.coverage_ * self.model_.accuracies_]

    def enumerate_ys(self) -> list[list[int]]:
        """All combinations of -1 and +1, sorted; the columns of :meth:`predict_proba`. For v up to 20.

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
        _log(verbose, "labelling %d items", votes.n_items)
        return votes

    def _require_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFittedError("this LabelModel is not fitted yet; call fit first")

    def _require_few_tasks(self, method: str) -> None:
        if self.v > MOST_ENUMERATED:
            raise OptionError(
                f"{method} lists all 2^{self.v} combinations of {self.v} tasks; it does for up to "
                f"{MOST_ENUMERATED}. predict and predict_proba_marginalized take any number of tasks"
            )


def _log(verbose: bool, text: str, *values: object) -> None:
    if verbose:
        _LOGGER.info(text, *values)


def _require_probabilities(model: NewLabelModel) -> None:
    """Refuse a fit in which P(vote, truth) = (P(vote) ± (E[Y] P(votes) ± E[λY])/2)/2 falls below 0."""
    graph = model.graph_
    balance = model.class_balance_.reshape(graph.n_tasks, 2)[list(graph.source_task)]
    expected, coverage = balance[:, 1] - balance[:, 0], model.coverage_
    accuracies = coverage * (2 * model.accuracies_ - 1)
    rates = model.moments_.vote_counts / model.moments_.n_items
    latent = np.column_stack([expected * coverage - accuracies, expected * coverage + accuracies]) / 2
    below = (np.abs(latent) > rates + 1e-12).any(axis=1)
    if below.any():
        source = int(np.flatnonzero(below)[0])
        raise NotIdentifiableError(
            f"vote rates and accuracy of source {source} do not fit the class balance: a probability "
            "would be below 0. Pass the true class_balance, or clamp=True"
        )


def _require_better_than_random(model: NewLabelModel) -> None:
    worse = model.accuracies_interval_[:, 1] < 0.5
    if worse.any():
        i = int(np.flatnonzero(worse)[0])
        raise NotIdentifiableError(
            f"source {i} is right in {model.accuracies_[i]:.0%} of its votes, and "
            "sign_recovery='all_positive' says that every source is better than random; pass "
            "sign_recovery='fully_independent'"
        )
