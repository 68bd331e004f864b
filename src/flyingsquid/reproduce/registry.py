"""The tables and figures by name, in the order of the paper."""

from __future__ import annotations

from importlib import import_module

from flyingsquid.reproduce.artifact import Artifact

_MODULES = (
    "table_1",
    "table_2",
    "drift",
    "ablations",
    "theorem_1",
    "theorem_2",
    "theorem_3",
    "theorem_4",
    "theorem_5",
)


def artifacts() -> dict[str, Artifact]:
    """All of them. Imported here, because together they load half of scikit-learn."""
    found = [import_module(f"flyingsquid.reproduce.{name}").ARTIFACT for name in _MODULES]
    return {each.name: each for each in found}
