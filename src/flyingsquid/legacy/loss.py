"""The loss with the interface of the 2020 code; needs the extra ``[torch]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from flyingsquid._values import format_value, option_error, read_integer
from flyingsquid.exceptions import VotesError
from flyingsquid.legacy.label_model import Edges, options_for, read_balance, read_graph, read_triplets
from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy, require_logits


class FSLoss(nn.Module):
    """The 2020 interface to :class:`flyingsquid.torch.LabelModelLoss`.

    ``loss(predictions, weak_labels)`` keeps the votes of the latest items, estimates the sources from them,
    labels the batch and returns binary cross entropy, averaged over items and tasks. In evaluation mode the
    estimates do not change.

    Parameters
    ----------
    m, v, task_deps, lf_task_deps, lf_deps
        As ``m, v, y_edges, lambda_y_edges, lambda_edges`` of :class:`flyingsquid.legacy.LabelModel`.
    Y_dev, cb
        As ``Y_dev, class_balance`` of its ``fit``.
    allow_abstentions : bool, default=True
        Whether votes may be 0.
    device : torch.device or str, default="cpu"
        Where votes are counted.
    buffer_capacity : int, default=100
        Number of latest items that the sources are estimated from. Labels are vote shares until the buffer is
        full or has 100 items.
    update_frequency : int, default=10
        Number of items after which the sources are estimated again.
    clamp_vals : bool, default=False
        Whether labels are 0 or 1 instead of probabilities.
    triplets : list of triplets or None, default=None
        Triplets to take the mean over; None uses all.
    pos_weight : float, tensor of one number or None, default=None
        Weight of the errors on the positive class, as in ``torch.nn.BCEWithLogitsLoss``.

    Examples
    --------
    >>> import torch
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(1_000, accuracies=[0.9, 0.8, 0.7], random_state=0)
    >>> votes = 2 * torch.as_tensor(sample.votes.codes.astype("int64")) - 1
    >>> criterion = FSLoss(3, buffer_capacity=1_000)
    >>> for batch in votes.split(100):
    ...     loss = criterion(torch.zeros(100, 1, requires_grad=True), batch)
    >>> criterion.label_model.accuracies_.round(1)
    array([0.9, 0.8, 0.7])
    """

    def __init__(
        self,
        m: int,
        v: int = 1,
        task_deps: Edges = (),
        lf_task_deps: Edges = (),
        lf_deps: Edges = (),
        Y_dev: ArrayLike | None = None,
        cb: ArrayLike | None = None,
        allow_abstentions: bool = True,
        device: Any = "cpu",
        buffer_capacity: int = 100,
        update_frequency: int = 10,
        clamp_vals: bool = False,
        triplets: Sequence[Sequence[Any]] | None = None,
        pos_weight: Any = None,
    ) -> None:
        super().__init__()
        graph = read_graph(m, v, task_deps, lf_task_deps, lf_deps)
        self.m, self.v = graph.n_sources, graph.n_tasks
        self.allow_abstentions, self.clamp_vals, self.device = allow_abstentions, clamp_vals, device
        self.buffer_capacity = read_integer("buffer_capacity", buffer_capacity, 1)
        self.update_frequency = read_integer("update_frequency", update_frequency, 1)
        chosen = read_triplets(triplets, self.m)
        options = options_for(graph, "triplet_mean", "all_positive", chosen)
        self.sources = LabelModelLoss(
            self.m,
            window=self.buffer_capacity,
            class_balance=read_balance(cb, Y_dev, self.v),
            **options,
        )
        self.criterion = SoftCrossEntropy(_class_weights(pos_weight))
        # Votes that are not counted yet; buffers, so that state_dict contains them.
        self.register_buffer("waiting", torch.zeros((self.buffer_capacity, self.m), dtype=torch.int8))
        self.register_buffer("n_waiting", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("n_since_update", torch.zeros(1, dtype=torch.int64))
        self.to(device)

    def forward(
        self, predictions: Tensor, weak_labels: Tensor, update_frequency: int | None = None
    ) -> Tensor:
        """Count the batch (in training mode), label it, and return the loss.

        Parameters
        ----------
        predictions : tensor of shape (b, v)
            Log odds of +1.
        weak_labels : tensor of shape (b, m) or (b, v, m/v)
            Votes: -1, 0 (no vote) and +1.
        update_frequency : int or None, default=None
            Value for this call.
        """
        votes = self._read(weak_labels)
        tasks = () if self.v == 1 else (self.v,)
        # Checked before anything is counted, so that a second call with correct shapes counts the batch once.
        require_logits(predictions.shape, (len(votes), *tasks, 2), "predictions")
        if self.training:
            every = self.update_frequency
            if update_frequency is not None:
                every = read_integer("update_frequency", update_frequency, 1)
            self._count(votes, every)
        labels = self.sources.soft_labels(votes)
        if self.clamp_vals:
            positive = (labels[..., 1] >= 0.5).to(labels.dtype)
            labels = torch.stack([1 - positive, positive], dim=-1)
        return self.criterion(predictions, labels)

    @property
    def label_model(self) -> Any:
        """The fitted ``flyingsquid.LabelModel``; None while labels are vote shares."""
        return self.sources.label_model

    @torch.no_grad()
    def _count(self, votes: Tensor, every: int) -> None:
        """Keep the votes, and count all kept votes if ``every`` items have come since the last time."""
        kept = torch.cat([self.waiting[: int(self.n_waiting)], votes.to(torch.int8)])[-self.buffer_capacity :]
        self.n_since_update += len(votes)
        if int(self.n_since_update) >= every:
            self.sources.update(kept)
            self.n_since_update.zero_()
            kept = kept[:0]
        self.waiting[: len(kept)] = kept
        self.n_waiting.fill_(len(kept))

    def _read(self, weak_labels: Tensor) -> Tensor:
        """Return votes of shape (b, m) as classes: 0 and 1, with -1 for no vote."""
        if weak_labels.ndim < 2 or weak_labels[:1].numel() not in (0, self.m):
            raise VotesError(
                f"`weak_labels` must have the shape (b, {self.m}); got {tuple(weak_labels.shape)}."
            )
        signed = weak_labels.to(self.waiting.device).reshape(len(weak_labels), self.m)
        wrong = (signed != 0) & (signed != 1) & (signed != -1)
        if not self.allow_abstentions:
            wrong |= signed == 0
        if wrong.any():
            row, source = wrong.nonzero()[0].tolist()
            allowed = "-1, 0 or +1" if self.allow_abstentions else "-1 or +1 with allow_abstentions=False"
            raise VotesError(
                f"`weak_labels` must be {allowed}; got {format_value(signed[row, source].item())} in row "
                f"{row}, source {source}."
            )
        return torch.where(signed == 0, -1, (signed.long() + 1) // 2)


def _class_weights(pos_weight: Any) -> Tensor | None:
    if pos_weight is None:
        return None
    weight = torch.as_tensor(pos_weight, dtype=torch.float32).reshape(-1)
    if len(weight) != 1 or not bool(weight > 0):
        raise option_error("pos_weight", "one number > 0", pos_weight)
    return torch.cat([torch.ones_like(weight), weight])
