"""Module of the 2020 code: imports from it fail with a hint."""

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "LabelModel":
        raise ImportError(
            "`flyingsquid.label_model` is a module of the 2020 code. Import LabelModel from `flyingsquid`, "
            "or from `flyingsquid.legacy` for old scripts.",
            name=f"{__name__}.{name}",
        )
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
