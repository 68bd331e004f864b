"""Losses that estimate label sources in the training loop of a PyTorch model; need the extra ``[torch]``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._values import format_count, is_one_of, option_error, read_integer
from flyingsquid._warnings import capture_source_warnings
from flyingsquid.estimation.balance import resolve_task_balance
from flyingsquid.exceptions import (
    GraphError,
    IncompatibleError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VotesError,
)
from flyingsquid.graph import DependencyGraph
from flyingsquid.graph.junction import components
from flyingsquid.models import LabelModel
from flyingsquid.models.label_model import Method
from flyingsquid.models.validation import check_options
from flyingsquid.moments import Moments
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.windows import Layout
from flyingsquid.votes import Votes

try:
    import torch
    from torch import Tensor, distributed, nn
    from torch.nn import functional
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "flyingsquid.torch needs PyTorch, which is not installed. Run: pip install 'flyingsquid[torch]'",
        name="torch",
    ) from error

__all__ = ["LabelModelLoss", "SoftCrossEntropy"]
Reduction: TypeAlias = Literal["mean", "sum", "none"]
REDUCTIONS = ("mean", "sum", "none")


class SoftCrossEntropy(nn.Module):
    """Cross entropy -Σₖ P(Y = k) log softmax(logits)ₖ, averaged over items.

    Half precision is computed in float32. Only the logits receive gradients.

    Parameters
    ----------
    weight : tensor of shape (K,) or None, default=None
        Weight of the errors on each class, as in ``torch.nn.CrossEntropyLoss``.
    reduction : {"mean", "sum", "none"}, default="mean"
        ``"mean"`` divides by the number of items (and tasks), or by the sum of their weights; if that is 0,
        the loss is 0.

    Examples
    --------
    >>> import torch
    >>> loss_fn = SoftCrossEntropy()
    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> labels = torch.tensor([[0.9, 0.1], [0.5, 0.5]])
    >>> round(float(loss_fn(logits, labels)), 4)
    0.5701
    >>> round(float(loss_fn(logits, labels, torch.tensor([1.0, 0.0]))), 4)  # the second item left out
    0.3269
    """

    weight: Tensor | None

    def __init__(self, weight: Tensor | None = None, *, reduction: Reduction = "mean") -> None:
        super().__init__()
        if reduction not in REDUCTIONS:
            raise option_error("reduction", f"one of {', '.join(REDUCTIONS)}", reduction)
        if weight is not None and weight.ndim != 1:
            raise OptionError(f"`weight` must have the shape (K,); got {tuple(weight.shape)}.")
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Tensor, item_weight: Tensor | None = None) -> Tensor:
        """Return the loss of a batch.

        Parameters
        ----------
        logits : tensor of shape (b, ..., K)
            For two classes also (b, ...) or (b, 1), the log odds of class 1.
        targets : tensor of shape (b, ..., K)
            P(Y = k), as returned by ``LabelModel.predict_proba``.
        item_weight : tensor of shape (b,) or (b, ...), or None, default=None
            Weight of each item, or a mask: ``(votes >= 0).any(1)`` leaves out items without votes.
        """
        losses = self._losses(logits, targets.detach())
        if item_weight is None:
            return _reduced(losses, self.reduction)
        shares = _expand_weights(item_weight.detach(), losses)
        losses = losses * shares
        if self.reduction != "mean":
            return _reduced(losses, self.reduction)
        total = shares.sum()
        # A batch with total weight 0 must not make every parameter NaN.
        return losses.sum() / torch.where(total > 0, total, torch.ones_like(total))

    def extra_repr(self) -> str:
        """Return the options for the ``repr`` of the module."""
        return f"reduction={self.reduction!r}"

    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of every item and task, shape ``targets.shape[:-1]``."""
        if targets.ndim < 2 or targets.shape[-1] < 2:
            raise IncompatibleError(
                "`targets` must have the shape (b, ..., K), with the probabilities of all K classes; got "
                f"{tuple(targets.shape)}."
            )
        logits = logits if logits.dtype == torch.float64 else logits.float()
        require_logits(logits.shape, targets.shape)
        if logits.shape == targets.shape:
            log_proba = functional.log_softmax(logits, dim=-1)
        else:
            log_odds = logits.reshape(targets.shape[:-1])
            # One logistic per class: 1 - p would round a small probability to 0.
            sides = (functional.logsigmoid(-log_odds), functional.logsigmoid(log_odds))
            log_proba = torch.stack(sides, dim=-1)
        costs = targets.to(log_proba.dtype)
        if self.weight is not None:
            if len(self.weight) != targets.shape[-1]:
                raise IncompatibleError(
                    f"`weight` must have one value per class, {targets.shape[-1]}; got {len(self.weight)}."
                )
            costs = costs * self.weight.to(log_proba.dtype)
        return -(costs * log_proba).sum(dim=-1)


def require_logits(logits: tuple[int, ...], targets: tuple[int, ...], name: str = "logits") -> None:
    """Raise an error if the shape of the parameter ``name`` does not match labels of shape (b, ..., K)."""
    logits, targets = tuple(logits), tuple(targets)
    one_number = (targets[:-1], (*targets[:-1], 1)) if targets[-1] == 2 else ()
    if logits != targets and logits not in one_number:
        allowed = " or ".join(map(str, (targets, *one_number)))
        raise IncompatibleError(f"`{name}` must have the shape {allowed}; got {logits}.")


def _expand_weights(item_weight: Tensor, losses: Tensor) -> Tensor:
    """Return weights of items as weights of every task, in the type of the losses."""
    shape = item_weight.shape
    if shape != losses.shape[: len(shape)] or not shape:
        raise IncompatibleError(
            f"`item_weight` must have the shape ({len(losses)},) or {tuple(losses.shape)}; got "
            f"{tuple(shape)}."
        )
    wide = item_weight.to(losses.dtype).reshape(*shape, *([1] * (losses.ndim - len(shape))))
    return wide.expand_as(losses)


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()


# ---------------------------------------------------------------------- estimated sources

_INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)


class LabelModelLoss(nn.Module):
    """Cross entropy against labels from votes, whose sources are estimated in the same loop.

    In training mode ``loss_fn(logits, votes)`` adds the votes to its counts, fits the label model to them,
    labels the batch and returns the loss. In evaluation mode it labels with the current label model and does
    not change it. Only the logits receive gradients.

    Parameters
    ----------
    n_sources : int
        The number m of sources of all tasks together.
    n_classes : int, default=2
        The number K of classes, 0 to K - 1.
    graph : DependencyGraph or None, default=None
        Dependent sources and tasks. With more than two classes, edges are not supported.
    window : int or None, default=None
        Number of latest items, of all processes together, to estimate the sources from. None uses all items.
    class_balance : "uniform", array-like or None, default=None
        As in ``LabelModel``; "estimate" is not supported.
    method : str or Solver, default="auto"
        As in ``LabelModel``, for methods that need only counts. ``"auto"`` works as in
        ``LabelModel.fit_moments``.
    signs, temper
        As in ``LabelModel``.
    weight : tensor of shape (K,) or None, default=None
        As in :class:`SoftCrossEntropy`.
    reduction : {"mean", "sum", "none"}, default="mean"
        As in :class:`SoftCrossEntropy`.
    drop_uncovered : bool, default=True
        Whether to leave items without votes out of the loss. The label model always counts them. A task is
        left out if neither it nor any task connected to it has votes.
    warm_up : int, default=100
        Until this many items are counted, and while the counts do not determine the sources, labels are
        smoothed vote shares: the share of each class, with one vote added that is split by the class balance.
    process_group : optional
        Group of ``torch.distributed``, if it is in use. All processes must see the same number of batches.

    Notes
    -----
    A batch of b items costs one copy of the votes to the host and, there, counting, O(b K² m²), one fit,
    about 1.5 ms for 10 sources and two classes, and the labels, O(b K² m). Counts are an int64 buffer on the
    device of the module, so ``state_dict`` contains the complete state.

    Examples
    --------
    >>> import torch
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(2_000, accuracies=[0.9, 0.8, 0.7], random_state=0)
    >>> votes = torch.as_tensor(sample.votes.codes.astype("int64"))
    >>> loss_fn = LabelModelLoss(n_sources=3, method="triplet")
    >>> for batch in votes.split(100):
    ...     loss = loss_fn(torch.zeros(100, requires_grad=True), batch)
    >>> loss_fn.label_model.accuracies_.round(1)
    array([0.9, 0.8, 0.7])
    >>> loss_fn.label_model.moments_ == fs.Moments.of(sample.votes)
    True
    """

    def __init__(
        self,
        n_sources: int,
        n_classes: int = 2,
        graph: DependencyGraph | None = None,
        window: int | None = None,
        class_balance: Literal["uniform"] | ArrayLike | None = None,
        *,
        method: Method = "auto",
        signs: Literal["average"] | Mapping[int, int] = "average",
        temper: Literal["auto"] | float | None = None,
        weight: Tensor | None = None,
        reduction: Reduction = "mean",
        drop_uncovered: bool = True,
        warm_up: int = 100,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        self.n_sources = read_integer("n_sources", n_sources, 1)
        self.n_classes = read_integer("n_classes", n_classes, 2)
        self.window = None if window is None else read_integer("window", window, 1)
        self.warm_up = read_integer("warm_up", warm_up, 0)
        self.graph = _read_graph(graph, self.n_sources)
        self.drop_uncovered = drop_uncovered
        self.process_group = process_group
        self.soft_cross_entropy = SoftCrossEntropy(weight, reduction=reduction)
        self._layout = Layout(CountPlan.of(self.graph), tuple(range(self.n_classes)))
        self._solver = LossSolver(self.n_classes, self.graph, class_balance, method, signs, temper)
        self._prior = self._solver.prior()
        self._solver.check()
        self._tasks = tuple(self.graph.sources_of(task) for task in range(self.graph.n_tasks))
        self._connected = _connected_sources(self.graph)
        self._solved: tuple[NDArray[np.int64], Solved] | None = None
        self._has_warned = False
        self.register_buffer("counts", torch.zeros(self._layout.size, dtype=torch.int64))
        if self.window is not None:
            dtype = torch.int8 if self.n_classes < 128 else torch.int32
            self.register_buffer("recent", torch.full((self.window, self.n_sources), -1, dtype=dtype))
            self.register_buffer("next_row", torch.zeros(1, dtype=torch.int64))

    def forward(self, logits: Tensor, votes: Tensor, item_weight: Tensor | None = None) -> Tensor:
        """Count the batch (in training mode), label it, and return the loss.

        Parameters
        ----------
        logits : tensor of shape (b, K), or (b, D, K) for D > 1 tasks
            For two classes also (b,), (b, 1) or (b, D), the log odds of class 1.
        votes : integer tensor of shape (b, m), or (b, D, s) for D tasks with s sources each
            0 to K - 1; -1 for no vote.
        item_weight : tensor of shape (b,) or None, default=None
            Weight of each item in the loss. The label model counts every item once.
        """
        if logits.shape[:1] != votes.shape[:1]:
            raise IncompatibleError(
                "`logits` and `votes` must have one row per item; got the shapes "
                f"{tuple(logits.shape)} and {tuple(votes.shape)}."
            )
        tasks = () if len(self._tasks) == 1 else (len(self._tasks),)
        # Checked before anything is counted, so that a second call with correct logits counts the batch once.
        require_logits(logits.shape, (len(logits), *tasks, self.n_classes))
        labels, covered = self._count_and_label(votes)
        if self.drop_uncovered:
            covered = covered.to(labels.dtype)
            item_weight = covered if item_weight is None else _product(covered, item_weight)
        return self.soft_cross_entropy(logits, labels, item_weight)

    @torch.compiler.disable
    @torch.no_grad()
    def update(self, votes: Tensor) -> None:
        """Add votes to the counts of all processes, in training and in evaluation mode."""
        self._update(self._read(votes))

    @torch.compiler.disable
    @torch.no_grad()
    def soft_labels(self, votes: Tensor) -> Tensor:
        """Return P(Y = k | votes) by the current label model, shape (b, K), or (b, D, K) for D > 1 tasks."""
        return self._label(self._read(votes))

    @property
    def moments(self) -> Moments:
        """The counts, equal to ``Moments.of`` of the same votes."""
        return self._layout.moments(self.counts.cpu().numpy().astype(np.float64), exact=True)

    @property
    def label_model(self) -> Any:
        """The fitted ``LabelModel``; None while labels are vote shares.

        For several tasks of more than two classes, a tuple with one model per task.
        """
        models = self._solve().models
        return (models[0] if len(models) == 1 else models) or None

    def reset(self) -> None:
        """Remove all votes from the counts."""
        self.counts.zero_()
        if self.window is not None:
            self.recent.fill_(-1)
            self.next_row.zero_()

    def extra_repr(self) -> str:
        """Return the options for the ``repr`` of the module."""
        sources = format_count(self.n_sources, "source")
        return f"{sources}, {self.n_classes} classes, window={self.window}"

    # ------------------------------------------------------------------ counts

    def _count(self, votes: Tensor) -> Tensor:
        """Return the counts of votes of shape (b, m) in the order of the buffer."""
        found = self._layout.count(votes.cpu().numpy().astype(self._layout.dtype))
        return torch.as_tensor(found.astype(np.int64), device=votes.device)

    def _update(self, votes: Tensor) -> None:
        if self.window is None:
            change = self._count(votes)
            if _n_processes(self.process_group) > 1:
                distributed.all_reduce(change, op=distributed.ReduceOp.SUM, group=self.process_group)
        else:
            rows = gather_over_processes(votes.to(self.recent.dtype), self.process_group)
            change = self._replace_oldest(rows, self.window)
        self.counts.add_(change)

    def _replace_oldest(self, rows: Tensor, window: int) -> Tensor:
        """Put rows into the window and return the change of the counts."""
        rows = rows[-window:]
        at = (int(self.next_row) + torch.arange(len(rows), device=rows.device)) % window
        leaving = self.recent[at[at < int(self.counts[0])]]  # rows fill the window from 0 on
        change = self._count(rows) - self._count(leaving)
        self.recent[at] = rows
        self.next_row.add_(len(rows)).remainder_(window)
        return change

    # ------------------------------------------------------------------ labels

    @torch.compiler.disable
    @torch.no_grad()
    def _count_and_label(self, votes: Tensor) -> tuple[Tensor, Tensor]:
        """Return labels as in :meth:`soft_labels`, and whether there are votes for them, (b,) or (b, D)."""
        read = self._read(votes)
        if self.training:
            self._update(read)
        covered = torch.stack([(read[:, at] >= 0).any(dim=1) for at in self._connected], dim=1)
        return self._label(read), covered[:, 0] if len(self._connected) == 1 else covered

    def _label(self, votes: Tensor) -> Tensor:
        solved, device = self._solve(), votes.device
        if solved.models:
            found = solved.posterior(votes.cpu().numpy())
            labels = torch.as_tensor(found, dtype=float_dtype(device), device=device)
        else:
            prior = torch.as_tensor(self._prior, dtype=float_dtype(device), device=device)
            labels = vote_shares(votes, self._tasks, prior)
        return labels[:, 0] if len(self._tasks) == 1 else labels

    def _solve(self) -> Solved:
        """Return the fit of the counts, which is cached until the counts change."""
        counts = self.counts.cpu().numpy()
        if self._solved is None or not np.array_equal(self._solved[0], counts):
            enough = self.warm_up if self.window is None else min(self.warm_up, self.window)
            if counts[0] < max(1, enough):
                solved = Solved()
            else:
                solved = self._solver.solve(self.moments)
                self._warn_once(solved, int(counts[0]))
            self._solved = counts.copy(), solved
        return self._solved[1]

    def _warn_once(self, solved: Solved, n_items: int) -> None:
        if solved.reason and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"After {format_count(n_items, 'item')} the labels are still vote shares, because "
                f"{solved.reason}",
                SourceWarning,
                stacklevel=2,
            )

    def _read(self, votes: Tensor) -> Tensor:
        """Return votes of shape (b, m); -1 for no vote."""
        if not isinstance(votes, Tensor):
            raise VotesError(
                "`votes` must be a tensor of integers, with -1 for no vote, such as "
                f"torch.as_tensor(votes.codes); got a value of type {type(votes).__name__}."
            )
        graph = self.graph
        shapes: list[tuple[int, ...]] = [(graph.n_sources,)]
        if graph.n_tasks > 1 and graph.stacked_shape is not None:
            shapes.append(graph.stacked_shape)
        if tuple(votes.shape[1:]) not in shapes:
            allowed = " or ".join(str(("b", *shape)).replace("'", "") for shape in shapes)
            raise VotesError(f"`votes` must have the shape {allowed}; got {tuple(votes.shape)}.")
        if votes.dtype not in _INTEGERS:
            raise VotesError(f"`votes` must be integers, with -1 for no vote; got {votes.dtype}.")
        votes = votes.reshape(len(votes), graph.n_sources)
        if votes.dtype == torch.uint8:  # it cannot be compared with -1
            votes = votes.short()
        wrong = (votes < -1) | (votes >= self.n_classes)
        if wrong.any():
            row, source = wrong.nonzero()[0].tolist()
            raise VotesError(
                f"`votes` must be from 0 to {self.n_classes - 1}, or -1 for no vote; got "
                f"{int(votes[row, source])} in row {row}, source {source}."
            )
        return votes


def _read_graph(graph: Any, n_sources: int) -> DependencyGraph:
    if graph is None:
        return DependencyGraph(n_sources)
    if not isinstance(graph, DependencyGraph):
        raise option_error("graph", "a DependencyGraph or None", graph)
    if graph.n_sources != n_sources:
        raise GraphError(
            f"`graph` must have {format_count(n_sources, 'source')} (`n_sources`); got {graph.n_sources}."
        )
    return graph


def _connected_sources(graph: DependencyGraph) -> list[list[int]]:
    """Return for each task the sources on it and on all tasks that it is connected to."""
    part = components(graph.task_edges, graph.n_tasks)
    part_of_source = part[list(graph.source_task)]
    return [np.flatnonzero(part_of_source == part[task]).tolist() for task in range(graph.n_tasks)]


def _product(covered: Tensor, item_weight: Tensor) -> Tensor:
    """Return weights of items, with 0 for items without votes."""
    wide = item_weight.to(covered.dtype)
    return covered * wide.reshape(*wide.shape, *([1] * (covered.ndim - wide.ndim)))


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


# ---------------------------------------------------------------------- the label model behind a loss


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
