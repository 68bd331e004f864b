"""The interface of the authors' 2020 research code, on today's label model.

Change the import line and keep the script::

    from flyingsquid.legacy import LabelModel, FSLoss

Votes are -1, 0 (no vote) and +1 here. It translates, and estimates nothing of its own; the guide
``docs/guides/migrating.md`` says which numbers change, and why. ``FSLoss`` needs the extra ``[torch]``, and
is imported when it is asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flyingsquid._values import told
from flyingsquid.legacy.label_model import LabelModel

if TYPE_CHECKING:
    from flyingsquid.legacy.loss import FSLoss

__all__ = ["FSLoss", "LabelModel"]


def __getattr__(name: str) -> Any:
    if name != "FSLoss":
        raise AttributeError(f"module {told(__name__)} has no attribute {told(name)}")
    import_module("flyingsquid.torch")  # says how to get PyTorch where it is missing
    return import_module("flyingsquid.legacy.loss").FSLoss
