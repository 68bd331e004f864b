"""Fits that happen whole or not at all, whatever interrupts them."""

from __future__ import annotations

from typing import Any, TypeVar

Model = TypeVar("Model")


def draft_of(model: Model) -> Model:
    """A shallow copy to work on. Values are replaced, never changed, so the model itself stays as it is."""
    draft: Any = object.__new__(type(model))
    draft.__dict__.update(model.__dict__)
    return draft


def keep(model: Any, draft: Any) -> None:
    """Make all attributes of the draft those of the model, in one step that nothing can come between."""
    model.__dict__ = draft.__dict__
