"""Label sources learned in the training loop of a PyTorch model. Needs the extra ``[torch]``."""

try:
    import torch as _torch  # noqa: F401  # so that its absence is told by name
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "flyingsquid.torch needs PyTorch, which is not installed; run pip install 'flyingsquid[torch]'",
        name="torch",
    ) from error

from flyingsquid.torch.label_model_loss import LabelModelLoss
from flyingsquid.torch.soft_cross_entropy import SoftCrossEntropy

__all__ = ["LabelModelLoss", "SoftCrossEntropy"]
