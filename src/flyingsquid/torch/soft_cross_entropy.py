"""Cross entropy against labels that are probabilities."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from flyingsquid._values import told
from flyingsquid.exceptions import IncompatibleError, OptionError

Reduction: TypeAlias = Literal["mean", "sum", "none"]
REDUCTIONS = ("mean", "sum", "none")


class SoftCrossEntropy(nn.Module):
    """-Σₖ P(Y = k) log softmax(logits)ₖ, averaged over items.

    Half precision is computed in float32. Gradients reach the logits only.

    Parameters
    ----------
    weight : tensor of shape (K,), optional
        What an error on each class costs, as in ``torch.nn.CrossEntropyLoss``.
    reduction : "mean", "sum" or "none"
        ``"mean"`` divides by the number of items (and tasks), or by the sum of their weights; it is 0 where
        that is 0.

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
            raise OptionError(f"reduction={told(reduction)} is unknown; one of {', '.join(REDUCTIONS)}")
        if weight is not None and weight.ndim != 1:
            raise OptionError(f"weight has shape {tuple(weight.shape)}; one number a class is needed")
        self.register_buffer("weight", weight)
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Tensor, item_weight: Tensor | None = None) -> Tensor:
        """The loss of a batch.

        Parameters
        ----------
        logits : tensor of shape (b, ..., K); or (b, ...) or (b, 1) for two classes, the log odds of class 1
        targets : tensor of shape (b, ..., K)
            P(Y = k), as ``LabelModel.predict_proba`` gives it.
        item_weight : tensor of shape (b,) or (b, ...), optional
            How much each item counts, booleans too: ``(votes >= 0).any(1)`` leaves out items without votes.
        """
        losses = self._losses(logits, targets.detach())
        if item_weight is None:
            return _reduced(losses, self.reduction)
        shares = _spread(item_weight.detach(), losses)
        losses = losses * shares
        if self.reduction != "mean":
            return _reduced(losses, self.reduction)
        total = shares.sum()
        # A batch in which nothing counts is no reason for NaN in every parameter.
        return losses.sum() / torch.where(total > 0, total, torch.ones_like(total))

    def extra_repr(self) -> str:
        """How the module prints."""
        return f"reduction={self.reduction!r}"

    def _losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of every item and task, shape ``targets.shape[:-1]``."""
        logits = logits if logits.dtype == torch.float64 else logits.float()
        require_logits(logits.shape, targets.shape)
        if logits.shape == targets.shape:
            log_shares = functional.log_softmax(logits, dim=-1)
        else:
            log_odds = logits.reshape(targets.shape[:-1])
            # Each side by its own logistic: 1 - p would round the small side of a sure answer to 0.
            sides = (functional.logsigmoid(-log_odds), functional.logsigmoid(log_odds))
            log_shares = torch.stack(sides, dim=-1)
        costs = targets.to(log_shares.dtype)
        if self.weight is not None:
            if len(self.weight) != targets.shape[-1]:
                raise IncompatibleError(
                    f"weight has {len(self.weight)} classes, the labels {targets.shape[-1]}"
                )
            costs = costs * self.weight.to(log_shares.dtype)
        return -(costs * log_shares).sum(dim=-1)


def require_logits(logits: tuple[int, ...], targets: tuple[int, ...]) -> None:
    """Refuse shapes of logits that do not go with labels of the shape (b, ..., K)."""
    logits, targets = tuple(logits), tuple(targets)
    one_number = (targets[:-1], (*targets[:-1], 1)) if targets[-1] == 2 else ()
    if logits != targets and logits not in one_number:
        binary = " or, for log odds, that without its last axis" if one_number else ""
        raise IncompatibleError(
            f"logits have shape {logits}, and the labels {targets}; logits need the shape of the labels"
            f"{binary}"
        )


def _spread(item_weight: Tensor, losses: Tensor) -> Tensor:
    """Weights of items as weights of every task, in the type of the losses."""
    shape = item_weight.shape
    if shape != losses.shape[: len(shape)] or not shape:
        raise IncompatibleError(
            f"item_weight has shape {tuple(shape)}; one number for each of {len(losses)} items"
        )
    wide = item_weight.to(losses.dtype).reshape(*shape, *([1] * (losses.ndim - len(shape))))
    return wide.expand_as(losses)


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction == "none":
        return losses
    return losses.sum() if reduction == "sum" else losses.mean()
