"""Losses that estimate label sources in the training loop of a PyTorch model; need the extra ``[torch]``."""

try:
    import torch as _torch  # noqa: F401  # so that the error names it
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "flyingsquid.torch needs PyTorch, which is not installed. Run: pip install 'flyingsquid[torch]'",
        name="torch",
    ) from error

from flyingsquid.torch.losses import LabelModelLoss, SoftCrossEntropy

__all__ = ["LabelModelLoss", "SoftCrossEntropy"]
