"""The interface of the authors' 2020 research code, for scripts that were written for it.

Change the import line of the script::

    from flyingsquid.legacy import LabelModel, FSLoss

Votes are -1, 0 (no vote) and +1. Both classes translate their arguments to those of
``flyingsquid.LabelModel``; ``docs/guides/migrating.md`` describes which numbers change, and why. ``FSLoss``
needs the extra ``[torch]`` and is imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flyingsquid._values import format_value
from flyingsquid.legacy.label_model import LabelModel

if TYPE_CHECKING:
    from flyingsquid.legacy.loss import FSLoss

__all__ = ["FSLoss", "LabelModel"]


def __getattr__(name: str) -> Any:
    if name != "FSLoss":
        raise AttributeError(f"module {format_value(__name__)} has no attribute {format_value(name)}")
    import_module("flyingsquid.torch")  # its error names PyTorch if it is missing
    return import_module("flyingsquid.legacy.loss").FSLoss
