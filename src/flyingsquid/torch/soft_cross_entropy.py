"""Cross entropy against labels that are probabilities."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from flyingsquid._values import option_error
from flyingsquid.exceptions import IncompatibleError, OptionError

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
