"""Run code as if packages were not installed."""

from __future__ import annotations

from collections.abc import Iterable

_CODE = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Absent())
"""


def without(packages: Iterable[str], code: str) -> str:
    """Return ``code`` with a prefix that makes the packages impossible to import."""
    return _CODE.format(packages=list(packages)) + code
