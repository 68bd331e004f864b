"""The loss of the 2020 code, by its arguments. Needs the extra ``[torch]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.legacy.reading import Edges, read_balance, read_graph, read_triplets
from flyingsquid.legacy.translation import options_for
from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy
from flyingsquid.torch.reading import read_whole
from flyingsquid.torch.soft_cross_entropy import require_logits


class FSLoss(nn.Module):
    """The 2020 interface to :class:`flyingsquid.torch.LabelModelLoss`.

    ``loss(predictions, weak_labels)`` keeps the votes of the latest items, judges the sources by them, labels
    the batch and returns binary cross entropy, averaged over items and tasks. In evaluation mode it learns
    nothing.

    Parameters
    ----------
    m, v, task_deps, lf_task_deps, lf_deps : as ``m, v, y_edges, lambda_y_edges, lambda_edges`` in
        :class:`flyingsquid.legacy.LabelModel`
    Y_dev, cb : known labels, or the class balance; as ``Y_dev, class_balance`` in its ``fit``
    allow_abstentions : bool
        False refuses votes that hold a 0.
    device : where the votes are counted and the labels are made
    buffer_capacity : int
        The sources are judged by the latest so many items. Until the buffer is full, or has 100 items, labels
        are shares of votes.
    update_frequency : int
        The sources are judged anew after so many items; between, labels are made by what is known.
    clamp_vals : bool
        Whether labels are 0 or 1 instead of probabilities.
    triplets : list of triplets, optional
        Judge the sources by the mean of these instead of all.
    pos_weight : number or tensor of one number, optional
        What an error on the positive class costs, as in ``torch.nn.BCEWithLogitsLoss``.

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
        self.buffer_capacity = read_whole("buffer_capacity", buffer_capacity, 1)
        self.update_frequency = read_whole("update_frequency", update_frequency, 1)
        chosen = read_triplets(triplets, self.m)
        options = options_for(graph, "triplet_mean", "all_positive", chosen, None)
        self.sources = LabelModelLoss(
            self.m,
            window=self.buffer_capacity,
            class_balance=read_balance(cb, Y_dev, self.v),
            **options,
        )
        self.criterion = SoftCrossEntropy(_class_weights(pos_weight))
        # Votes that the sources are not yet judged by; in state_dict, so that nothing is lost.
        self.register_buffer("waiting", torch.zeros((self.buffer_capacity, self.m), dtype=torch.int8))
        self.register_buffer("n_waiting", torch.zeros(1, dtype=torch.int64))
        self.register_buffer("n_since_update", torch.zeros(1, dtype=torch.int64))
        self.to(device)

    def forward(
        self, predictions: Tensor, weak_labels: Tensor, update_frequency: int | None = None
    ) -> Tensor:
        """Learn the batch (in training mode), label it, and return the loss.

        Parameters
        ----------
        predictions : tensor of shape (b, v), the log odds of +1
        weak_labels : tensor of shape (b, m), or (b, v, m/v), entries -1, 0, +1
        update_frequency : int, optional
            For this call.
        """
        votes = self._read(weak_labels)
        tasks = () if self.v == 1 else (self.v,)
        # Before anything is learned: who mends the shape and tries again should not count the batch twice.
        require_logits(predictions.shape, (len(votes), *tasks, 2))
        if self.training:
            every = self.update_frequency
            if update_frequency is not None:
                every = read_whole("update_frequency", update_frequency, 1)
            self._learn(votes, every)
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
    def _learn(self, votes: Tensor, every: int) -> None:
        """Keep the votes; judge the sources by all that is kept, where it is time."""
        kept = torch.cat([self.waiting[: int(self.n_waiting)], votes.to(torch.int8)])[-self.buffer_capacity :]
        self.n_since_update += len(votes)
        if int(self.n_since_update) >= every:
            self.sources.update(kept)
            self.n_since_update.zero_()
            kept = kept[:0]
        self.waiting[: len(kept)] = kept
        self.n_waiting.fill_(len(kept))

    def _read(self, weak_labels: Tensor) -> Tensor:
        """Votes of shape (b, m) as classes: 0, 1, and -1 for none."""
        if weak_labels.ndim < 2 or weak_labels[:1].numel() not in (0, self.m):
            raise VotesError(f"weak_labels have shape {tuple(weak_labels.shape)}; (b, {self.m}) is needed")
        signed = weak_labels.to(self.waiting.device).reshape(len(weak_labels), self.m)
        wrong = (signed != 0) & (signed != 1) & (signed != -1)
        if not self.allow_abstentions:
            wrong |= signed == 0
        if wrong.any():
            row, source = wrong.nonzero()[0].tolist()
            allowed = (
                "-1, 0 and +1 are" if self.allow_abstentions else "allow_abstentions=False, so -1 and +1 are"
            )
            raise VotesError(
                f"weak_labels[{row}, {source}] is {told(signed[row, source].item())}; {allowed} votes"
            )
        return torch.where(signed == 0, -1, (signed.long() + 1) // 2)


def _class_weights(pos_weight: Any) -> Tensor | None:
    if pos_weight is None:
        return None
    weight = torch.as_tensor(pos_weight, dtype=torch.float32).reshape(-1)
    if len(weight) != 1 or not bool(weight > 0):
        raise OptionError(f"pos_weight={told(pos_weight)}; one number above 0 is needed")
    return torch.cat([torch.ones_like(weight), weight])
