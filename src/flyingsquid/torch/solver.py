"""From counts to what labels a batch: the label model, fitted on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._remarks import listening
from flyingsquid.estimation import resolve_task_balance
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.junction import JunctionTree
from flyingsquid.infer import Emissions
from flyingsquid.models import LabelModel
from flyingsquid.models._auto import is_plain, settled
from flyingsquid.models._stream_labels import priors_of_tasks
from flyingsquid.models.parameters import PosteriorParameters, posterior_parameters
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

# Rows of made-up votes on which options are tried.
_TRIAL_ROWS = 60


@dataclass(frozen=True, slots=True)
class Solved:
    """What counts determine.

    Attributes
    ----------
    models : tuple of LabelModel
        One, or one a task where tasks of many classes are fitted apart; empty where counts do not suffice.
    parameters : PosteriorParameters, or None
    reason : text
        Why the counts do not suffice, where they do not.
    """

    models: tuple[LabelModel, ...]
    parameters: PosteriorParameters | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Solver:
    """Options of the label model, and how it is fitted to counts.

    Attributes
    ----------
    n_classes : int
    graph : DependencyGraph
        Of all sources; trivial for one task of independent sources.
    class_balance : as ``LabelModel`` takes it, but for "estimate"
    options : mapping
        Further options of ``LabelModel``, by name.
    """

    n_classes: int
    graph: DependencyGraph
    class_balance: Any
    options: Mapping[str, Any]

    def check(self) -> None:
        """Refuse now what would otherwise be refused in the middle of an epoch."""
        if isinstance(self.class_balance, str) and self.class_balance == "estimate":
            raise OptionError(
                "class_balance='estimate' needs triples of votes, and a loss keeps counts of pairs; pass "
                "class_balance_ of a LabelModel that was fitted on whole data"
            )
        joined = self.graph.task_edges or self.graph.source_edges
        if self.n_classes > 2 and joined:
            raise GraphError(
                f"a graph with edges and {self.n_classes} classes is fitted by triples of votes, and a loss "
                "keeps counts of pairs. Leave the edges out; or label with LabelModel(graph).fit(votes), and "
                "train with SoftCrossEntropy"
            )
        rng = np.random.default_rng(0)
        codes = rng.integers(-1, self.n_classes, (_TRIAL_ROWS, self.graph.n_sources))
        made_up = Votes.from_classes(codes, classes=tuple(range(self.n_classes)))
        self.solve(Moments.of(made_up, self.graph))

    def prior(self) -> NDArray[np.float64]:
        """P(Y = k) of each task as given, even where it was not, shape (D, K)."""
        classes = tuple(range(self.n_classes))
        return np.stack(priors_of_tasks(self.class_balance, None, classes, self.graph.n_tasks))

    def solve(self, moments: Moments) -> Solved:
        """Fit the counts, where they suffice."""
        try:
            with listening():  # every batch would say it anew; the fitted model says it when asked
                if self.n_classes > 2 and self.graph.n_tasks > 1:
                    return self._solve_apart(moments)
                graph = None if self.graph.is_trivial else self.graph
                model = settled(LabelModel(graph, class_balance=self.class_balance, **self.options))
                model.fit_moments(moments)
        except NotIdentifiableError as error:
            return Solved((), None, str(error))
        return Solved((model,), posterior_parameters(model))

    def _solve_apart(self, moments: Moments) -> Solved:
        """Tasks of many classes that nothing joins, one by one."""
        tasks = tuple(self.graph.sources_of(task) for task in range(self.graph.n_tasks))
        balance = resolve_task_balance(self.class_balance, moments.classes, len(tasks))
        models: list[LabelModel] = []
        cliques: list[NDArray[np.float64]] = []
        log_tables = np.empty((self.graph.n_sources, self.n_classes, self.n_classes + 1))
        for task, sources in enumerate(tasks):
            model = LabelModel(class_balance=balance.tasks[task], **self.options)
            if is_plain(model, with_gold=False):
                model.set_params(method="agreement")  # tables of all tasks are put together
            model.fit_moments(moments.part(moments.cover.homes[task], sources))
            found = posterior_parameters(model)
            log_tables[list(sources)] = found.emissions.log_tables
            cliques.extend(found.clique_tables)
            models.append(model)
        numbers = range(len(tasks))
        forest = JunctionTree(tuple((task,) for task in numbers), (-1,) * len(tasks), ((),) * len(tasks))
        parameters = PosteriorParameters(Emissions(tasks, log_tables), forest, tuple(cliques), 1.0)
        return Solved(tuple(models), parameters)
