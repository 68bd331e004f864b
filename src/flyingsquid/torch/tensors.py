"""The label model behind a loss: votes are counted, and the model is fitted, on the host.

The counts are those of ``Moments.of``, summed over processes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, distributed

from flyingsquid._values import is_one_of
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import LabelModel
from flyingsquid.models.validation import check_options
from flyingsquid.moments import Moments
from flyingsquid.moments.counting import CountPlan, count_tables
from flyingsquid.moments.moments import moments_from_tables
from flyingsquid.votes import REASONS, Votes
from flyingsquid.votes.codes import smallest_dtype


def count_shapes(plan: CountPlan, n_classes: int) -> list[tuple[int, ...]]:
    """Return the shapes of all counts of a plan: the number of items, every pair set, every unit."""
    return [(1,), *plan.shapes(n_classes)]


def count_votes(votes: Tensor, plan: CountPlan, n_classes: int) -> Tensor:
    """Return all counts in one flat int64 tensor, in the order of :func:`count_shapes`.

    ``votes`` are integers of shape (b, m), with -1 for no vote.
    """
    if not len(votes):
        total = sum(math.prod(shape) for shape in count_shapes(plan, n_classes))
        return torch.zeros(total, dtype=torch.int64, device=votes.device)
    codes = votes.cpu().numpy().astype(smallest_dtype(n_classes))
    pairs, units = count_tables(codes, n_classes, plan)
    tables = [np.array([len(codes)]), *(each.to_dense().array for each in pairs), *units]
    flat = np.concatenate([table.ravel() for table in tables])
    return torch.as_tensor(flat, dtype=torch.int64, device=votes.device)


def moments_of_counts(flat: NDArray[np.int64], plan: CountPlan, n_classes: int) -> Moments:
    """Return the counts of :func:`count_votes` as ``Moments``."""
    (n_items,), *tables = _split(flat, count_shapes(plan, n_classes))
    missing = np.zeros((plan.n_sources, len(REASONS) - 1), np.int64)
    return moments_from_tables(plan, int(n_items), tables, missing, tuple(range(n_classes)))


def _split(flat: NDArray[np.int64], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]


# ---------------------------------------------------------------------- vote shares


def vote_shares(votes: Tensor, tasks: tuple[tuple[int, ...], ...], prior: Tensor) -> Tensor:
    """Return vote shares, shape (b, D, K), with one vote added per task that is split by the prior.

    ``prior`` has shape (D, K). Without votes, the result is the prior. With a uniform prior of two classes,
    one vote gives 3 to 1.
    """
    classes = torch.arange(prior.shape[1], device=votes.device)
    shares = []
    for task, sources in enumerate(tasks):
        cast = (votes[:, list(sources), None] == classes).sum(dim=1).to(prior.dtype) + prior[task]
        shares.append(cast / cast.sum(dim=1, keepdim=True))
    return torch.stack(shares, dim=1)


def float_dtype(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float32 if device.type == "mps" else torch.float64


# ---------------------------------------------------------------------- processes


def sum_over_processes(counts: Tensor, group: Any) -> Tensor:
    """Return the sum of integer counts over all processes, the same on every rank."""
    if _n_processes(group) > 1:
        distributed.all_reduce(counts, op=distributed.ReduceOp.SUM, group=group)
    return counts


def gather_over_processes(rows: Tensor, group: Any) -> Tensor:
    """Return the rows of all processes in the order of ranks, shape (sum of b, m); b may differ."""
    world = _n_processes(group)
    if world == 1:
        return rows
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(size) for _ in range(world)]
    distributed.all_gather(sizes, size, group=group)
    largest = int(torch.cat(sizes).max())
    # all_gather needs tensors of one size.
    padded = torch.full((largest, rows.shape[1]), -1, dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(parts, padded, group=group)
    return torch.cat([part[: int(n)] for part, n in zip(parts, sizes, strict=True)])


def _n_processes(group: Any) -> int:
    """Return the number of processes; 1 if ``torch.distributed`` is not in use."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size(group))


# ---------------------------------------------------------------------- the label model


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
