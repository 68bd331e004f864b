"""narwhals, imported on first use: only tables need it, and importing it takes longer than most fits."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    import narwhals.stable.v1 as nw  # noqa: PLC0415

    value = globals()[name] = getattr(nw, name)
    return value
