"""The label model behind a loss: fitted to counts on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_one_of
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import LabelModel
from flyingsquid.models.validation import check_options
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

# Items of random votes on which options are checked.
_TRIAL_ROWS = 60


@dataclass(frozen=True, slots=True)
class Solved:
    """Label models fitted to counts.

    Attributes
    ----------
    models : tuple of LabelModel
        One, or one per task if tasks of more than two classes are fitted separately; empty if the counts do
        not determine the sources.
    sources : tuple of lists of int
        The columns of votes that each model labels.
    reason : str
        Reason why the counts do not determine the sources.
    """

    models: tuple[LabelModel, ...] = ()
    sources: tuple[list[int], ...] = ()
    reason: str = ""

    def posterior(self, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Return P(Y_d = k | votes), shape (b, D, K), for codes of shape (b, m)."""
        parts = zip(self.models, self.sources, strict=True)
        return np.concatenate([model.fit_.posterior(codes[:, at]) for model, at in parts], axis=1)


@dataclass(frozen=True, slots=True)
class LossSolver:
    """Options of the label model behind a loss.

    Attributes
    ----------
    n_classes : int
    graph : DependencyGraph
        Graph of all sources; trivial for one task of independent sources.
    class_balance : as in ``LabelModel``, without "estimate"
    method : str or Solver
    signs, temper : as in ``LabelModel``
    """

    n_classes: int
    graph: DependencyGraph
    class_balance: Any
    method: Any
    signs: Any
    temper: Any

    def check(self) -> None:
        """Raise the errors of invalid options now instead of in the middle of an epoch."""
        if is_one_of(self.class_balance, ("estimate",)):
            raise OptionError(
                'class_balance="estimate" needs triples of votes, and a loss keeps counts of pairs. Pass '
                "`class_balance_` of a LabelModel that was fitted to all votes."
            )
        joined = self.graph.task_edges or self.graph.source_edges
        if self.n_classes > 2 and joined:
            raise GraphError(
                f"A graph with edges and {self.n_classes} classes needs the votes themselves, and a loss "
                "keeps counts of pairs. Remove the edges, or label with LabelModel(graph).fit(votes) and "
                "train with SoftCrossEntropy."
            )
        is_separate = self.graph.is_trivial or (self.n_classes > 2 and self.graph.n_tasks > 1)
        check_options(self.method, None if is_separate else self.graph, self.temper)
        rng = np.random.default_rng(0)
        codes = rng.integers(-1, self.n_classes, (_TRIAL_ROWS, self.graph.n_sources))
        trial = Votes.from_classes(codes, classes=tuple(range(self.n_classes)))
        self.solve(Moments.of(trial, self.graph))

    def prior(self) -> NDArray[np.float64]:
        """Return P(Y = k) of each task, uniform if it was not given, shape (D, K)."""
        given = resolve_task_balance(self.class_balance, tuple(range(self.n_classes)), self.graph.n_tasks)
        uniform = np.full(self.n_classes, 1 / self.n_classes)
        return np.stack([each if isinstance(each, np.ndarray) else uniform for each in given.tasks])

    def solve(self, moments: Moments) -> Solved:
        """Fit the counts, if they suffice; unconnected tasks of more than two classes one by one."""
        sources: tuple[list[int], ...] = (list(range(self.graph.n_sources)),)
        parts, balances = [moments], [self.class_balance]
        if self.n_classes > 2 and self.graph.n_tasks > 1:
            sources = tuple(list(self.graph.sources_of(task)) for task in range(self.graph.n_tasks))
            parts = [moments.select(each) for each in sources]
            balances = list(resolve_task_balance(self.class_balance, moments.classes, len(parts)).tasks)
        try:
            with capture_source_warnings():
                models = [self._fit(part, balance) for part, balance in zip(parts, balances, strict=True)]
        except NotIdentifiableError as error:
            return Solved(reason=str(error))
        return Solved(tuple(models), sources)

    def _fit(self, moments: Moments, class_balance: Any) -> LabelModel:
        temper = None if moments.graph is None else self.temper
        options: dict[str, Any] = {"method": self.method, "signs": self.signs, "temper": temper}
        return LabelModel(moments.graph, class_balance=class_balance, **options).fit_moments(moments)
