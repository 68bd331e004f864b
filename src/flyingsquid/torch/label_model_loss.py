"""The loss that learns the label sources while the end model trains."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from flyingsquid.exceptions import IncompatibleError, SourceWarning
from flyingsquid.graph import DependencyGraph
from flyingsquid.models.label_model import Method
from flyingsquid.moments import Moments
from flyingsquid.moments.plan import CountPlan
from flyingsquid.torch.counting import count_shapes, count_votes, moments_of_counts
from flyingsquid.torch.posterior import float_dtype, posterior, vote_shares
from flyingsquid.torch.processes import gathered, summed
from flyingsquid.torch.reading import joined_sources, read_graph, read_votes, read_whole, require_dense
from flyingsquid.torch.soft_cross_entropy import Reduction, SoftCrossEntropy, require_logits
from flyingsquid.torch.solver import LossSolver, Solved


class LabelModelLoss(nn.Module):
    """Cross entropy against labels from votes, whose sources are learned in the same loop.

    In training mode ``loss_fn(logits, votes)`` adds the votes to its counts, fits the label model to them,
    labels the batch and returns the loss. In evaluation mode it labels by what it has learned so far, and
    learns nothing. The gradient reaches the logits only.

    Parameters
    ----------
    n_sources : int
        The number m of sources, counted over all tasks.
    n_classes : int
        The number K of classes, 0 to K - 1.
    graph : DependencyGraph, optional
        Which sources depend on each other, and which tasks. With more than two classes: tasks without edges.
    window : int, optional
        Learn from the latest so many items only, of all processes together. None: from all.
    class_balance : as in ``LabelModel``, but for "estimate"
    method, signs, temper : as in ``LabelModel``
        Methods that work from counts. ``"auto"`` is ``"weighted"``, which takes any votes, unless a graph or
        another option asks for a closed form; see ``LabelModel``.
    weight : tensor of shape (K,), optional
    reduction : "mean", "sum" or "none"
        Both as in :class:`SoftCrossEntropy`.
    drop_uncovered : bool
        Whether items without votes have no part in the loss. They always count for the label model. Of
        several tasks, one has no part where neither it nor any task joined to it has votes.
    warm_up : int
        Before so many items are counted, and while counts do not determine the sources, labels are smoothed
        vote shares: every class's share of the votes, with one vote added that is split by the balance.
    process_group : optional
        Of ``torch.distributed``, where it is in use. Every process must then see equally many batches.

    Notes
    -----
    A batch of b items costs one product of the one-hot votes, O(b K² m²), on the device; one copy of the
    counts, 8 K² m² bytes, to the host; one fit there, about 1.5 ms for 10 sources and two classes; and the
    labels, O(b K² m), on the device. Votes do not leave the device. Counts are int64 buffers: ``state_dict``
    has all that was learned.

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
        self.n_sources = read_whole("n_sources", n_sources, 1)
        self.n_classes = read_whole("n_classes", n_classes, 2)
        self.window = None if window is None else read_whole("window", window, 1)
        self.warm_up = read_whole("warm_up", warm_up, 0)
        self.graph = read_graph(graph, self.n_sources)
        self.drop_uncovered = drop_uncovered
        self.process_group = process_group
        self.soft_cross_entropy = SoftCrossEntropy(weight, reduction=reduction)
        self._plan = CountPlan.of(self.graph)
        require_dense(self._plan, self.n_classes)
        self._solver = LossSolver(self.n_classes, self.graph, class_balance, method, signs, temper)
        self._prior = self._solver.prior()
        self._solver.check()
        self._tasks = tuple(self.graph.sources_of(task) for task in range(self.graph.n_tasks))
        self._parts = joined_sources(self.graph)
        self._solved: tuple[NDArray[np.int64], Solved] | None = None
        self._has_warned = False
        self._count_names = self._register_counts()

    def forward(self, logits: Tensor, votes: Tensor, item_weight: Tensor | None = None) -> Tensor:
        """Learn the batch (in training mode), label it, and return the loss.

        Parameters
        ----------
        logits : tensor
            (b, K); for two classes also (b,) or (b, 1), the log odds of class 1. For D > 1 tasks (b, D, K),
            or (b, D) for two classes.
        votes : integer tensor of shape (b, m), or (b, D, s) for D tasks with s sources each
            0 to K - 1; -1 where a source does not vote.
        item_weight : tensor of shape (b,), optional
            How much each item counts in the loss. The label model counts every item once.
        """
        if logits.shape[:1] != votes.shape[:1]:
            raise IncompatibleError(
                f"logits have shape {tuple(logits.shape)}, and votes {tuple(votes.shape)}; one row an item "
                "in both"
            )
        tasks = () if len(self._tasks) == 1 else (len(self._tasks),)
        # Before anything is counted: who mends the logits and tries again should not count the batch twice.
        require_logits(logits.shape, (len(logits), *tasks, self.n_classes))
        labels, covered = self._learn_and_label(votes)
        if self.drop_uncovered:
            covered = covered.to(labels.dtype)
            item_weight = covered if item_weight is None else _product(covered, item_weight)
        return self.soft_cross_entropy(logits, labels, item_weight)

    @torch.compiler.disable
    @torch.no_grad()
    def update(self, votes: Tensor) -> None:
        """Add votes to the counts, without a loss and in either mode; over all processes."""
        self._update(self._read(votes))

    @torch.compiler.disable
    @torch.no_grad()
    def soft_labels(self, votes: Tensor) -> Tensor:
        """P(Y = k | votes) by what was learned so far, shape (b, K), or (b, D, K) for D > 1 tasks."""
        return self._label(self._read(votes))

    @property
    def moments(self) -> Moments:
        """The counts, equal to ``Moments.of`` the same votes."""
        return moments_of_counts(self._counts_on_host(), self._plan, self.n_classes)

    @property
    def label_model(self) -> Any:
        """The fitted ``LabelModel``; None while labels are vote shares.

        Where there are several tasks of more than two classes: a tuple, one for each.
        """
        models = self._solve().models
        return (models[0] if len(models) == 1 else models) or None

    def reset(self) -> None:
        """Forget all votes."""
        for name in self._count_names:
            getattr(self, name).zero_()
        if self.window is not None:
            self.recent.fill_(-1)
            self.next_row.zero_()

    def extra_repr(self) -> str:
        """How the module prints."""
        return f"{self.n_sources} sources, {self.n_classes} classes, window={self.window}"

    # ------------------------------------------------------------------ counts

    def _register_counts(self) -> tuple[str, ...]:
        """One int64 buffer a table: shapes that differ are refused by ``load_state_dict``."""
        n_sets = len(self._plan.pair_sets)
        names = ["n_items", *(f"pairs_{i}" for i in range(n_sets))]
        names += [f"unit_{i}" for i in range(len(self._plan.units))]
        shapes = count_shapes(self._plan, self.n_classes)
        for name, shape in zip(names, shapes, strict=True):
            self.register_buffer(name, torch.zeros(shape, dtype=torch.int64))
        if self.window is not None:
            dtype = torch.int8 if self.n_classes < 128 else torch.int32
            self.register_buffer("recent", torch.full((self.window, self.n_sources), -1, dtype=dtype))
            self.register_buffer("next_row", torch.zeros(1, dtype=torch.int64))
        return tuple(names)

    def _update(self, votes: Tensor) -> None:
        if self.window is None:
            change = summed(count_votes(votes, self._plan, self.n_classes), self.process_group)
        else:
            change = self._roll(gathered(votes.to(self.recent.dtype), self.process_group), self.window)
        tables = [getattr(self, name) for name in self._count_names]
        for table, part in zip(tables, change.split([t.numel() for t in tables]), strict=True):
            table.add_(part.reshape(table.shape))

    def _roll(self, rows: Tensor, window: int) -> Tensor:
        """Put rows into the window; what that adds to the counts, less what it pushes out."""
        rows = rows[-window:]
        at = (int(self.next_row) + torch.arange(len(rows), device=rows.device)) % window
        leaving = self.recent[at[at < int(self.n_items)]]  # rows fill the window from 0 on
        change = count_votes(rows, self._plan, self.n_classes)
        change -= count_votes(leaving, self._plan, self.n_classes)
        self.recent[at] = rows
        self.next_row.add_(len(rows)).remainder_(window)
        return change

    def _counts_on_host(self) -> NDArray[np.int64]:
        tables = [getattr(self, name).reshape(-1) for name in self._count_names]
        return np.asarray(torch.cat(tables).cpu().numpy())

    # ------------------------------------------------------------------ labels

    @torch.compiler.disable
    @torch.no_grad()
    def _learn_and_label(self, votes: Tensor) -> tuple[Tensor, Tensor]:
        """Labels as in :meth:`soft_labels`, and which of them rest on votes, shape (b,) or (b, D)."""
        read = self._read(votes)
        if self.training:
            self._update(read)
        covered = torch.stack([(read[:, at] >= 0).any(dim=1) for at in self._parts], dim=1)
        return self._label(read), covered[:, 0] if len(self._parts) == 1 else covered

    def _label(self, votes: Tensor) -> Tensor:
        found = self._solve().parameters
        if found is None:
            prior = torch.as_tensor(self._prior, dtype=float_dtype(votes.device), device=votes.device)
            labels = vote_shares(votes, self._tasks, prior)
        else:
            labels = posterior(votes, found)
        return labels[:, 0] if len(self._tasks) == 1 else labels

    def _solve(self) -> Solved:
        """The fit of the counts; kept until they change, wherever they were changed."""
        counts = self._counts_on_host()
        if self._solved is None or not np.array_equal(self._solved[0], counts):
            enough = self.warm_up if self.window is None else min(self.warm_up, self.window)
            if counts[0] < max(1, enough):
                solved = Solved((), None)
            else:
                solved = self._solver.solve(moments_of_counts(counts, self._plan, self.n_classes))
                self._warn_once(solved, int(counts[0]))
            self._solved = counts.copy(), solved
        return self._solved[1]

    def _warn_once(self, solved: Solved, n_items: int) -> None:
        if solved.reason and not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"After {n_items:,} items the labels are still vote shares, because {solved.reason}",
                SourceWarning,
                stacklevel=2,
            )

    def _read(self, votes: Tensor) -> Tensor:
        return read_votes(votes, self.graph, self.n_classes)


def _product(covered: Tensor, item_weight: Tensor) -> Tensor:
    """Weights of items, 0 where nothing is known of them."""
    wide = item_weight.to(covered.dtype)
    return covered * wide.reshape(*wide.shape, *([1] * (covered.ndim - wide.ndim)))
