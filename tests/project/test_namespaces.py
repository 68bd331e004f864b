"""Everything is reached from ``import flyingsquid as fs``, and nothing is imported before it is used."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import flyingsquid as fs

ROOT = Path(__file__).parents[2]
NAMESPACES = fs._NAMESPACES
INSTALLED = [name for name in NAMESPACES if name != "torch" or find_spec("torch")]


def run(code: str) -> str:
    """Return what a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.system
def test_namespaces_load_on_first_use():
    code = f"""
import sys, flyingsquid as fs
print([name for name in {INSTALLED} if f"flyingsquid.{{name}}" in sys.modules])
print([name for name in {INSTALLED} if getattr(fs, name).__name__ != f"flyingsquid.{{name}}"])
print([name for name in {INSTALLED} if name not in dir(fs)])
"""
    assert run(code).split() == ["[]", "[]", "[]"]


def test_an_import_of_the_2020_code_names_its_successors():
    with pytest.raises(ImportError, match=r"flyingsquid\.legacy"):
        from flyingsquid.label_model import LabelModel  # noqa: F401


@pytest.mark.system
def test_a_missing_extra_is_named():
    code = """
import sys
sys.modules["torch"] = None
import flyingsquid as fs
try:
    fs.torch
except ModuleNotFoundError as error:
    print("flyingsquid[torch]" in str(error))
"""
    assert run(code).strip() == "True"


@pytest.mark.system
def test_star_import_loads_names_and_no_namespaces():
    code = """
from flyingsquid import *
print(LabelModel.__name__, "datasets" in globals(), "torch" in globals())
"""
    assert run(code).split() == ["LabelModel", "False", "False"]


def test_a_misspelled_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="LabelModle"):
        fs.LabelModle  # noqa: B018


def test_type_checkers_see_the_same_names():
    """The block for type checkers imports exactly the namespaces and the lazy names."""
    tree = ast.parse((ROOT / "src" / "flyingsquid" / "__init__.py").read_text("utf-8"))
    block = next(
        node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    )
    seen = {alias.name for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    eager = {"FlyingSquidError", "__version__", "exceptions"}
    assert seen == {*NAMESPACES, *fs.__all__} - eager
