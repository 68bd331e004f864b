"""A module may import only from layers below its own, and layers only the packages they may."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src" / "flyingsquid"
LAYERS = {
    "_version": 0,
    "_limits": 0,
    "_registry": 0,
    "exceptions": 0,
    "_values": 1,
    "kernels": 1,
    "_warnings": 1,
    "votes": 2,
    "graph": 2,
    "theory": 2,
    "_table": 3,
    "files": 3,
    "moments": 4,
    "inference": 5,
    "estimation": 6,
    "fits": 7,
    "solvers": 8,
    "judges": 9,
    "models": 9,
    "analysis": 10,
    "datasets": 10,
    "labeling": 10,
    "charts": 11,
    "torch": 11,
    "distributed": 11,
    "plot": 12,
    "reports": 12,
    "legacy": 12,
    "label_model": 12,
    "studio": 13,
    "cli": 14,
}
NUMERIC = {"numpy", "scipy"}
MAY_IMPORT = {
    "_values": {"numpy"},
    "_table": {"rich"},
    "kernels": {"numpy", "numba"},
    "votes": NUMERIC | {"narwhals"},
    "graph": NUMERIC,
    "theory": {"numpy"},
    "files": NUMERIC | {"pyarrow", "inspect_ai"},
    "moments": NUMERIC,
    "estimation": NUMERIC,
    "fits": NUMERIC,
    "solvers": NUMERIC,
    "inference": NUMERIC,
    "analysis": NUMERIC | {"sklearn"},
    "charts": NUMERIC,
    "models": NUMERIC | {"sklearn"},
    "datasets": NUMERIC | {"sklearn"},
    "plot": {"numpy", "matplotlib"},
    "judges": NUMERIC | {"narwhals"},
    "labeling": {"numpy", "narwhals"},
    "reports": {"numpy"},
    "torch": {"numpy", "torch"},
    "distributed": {"numpy", "narwhals", "dask", "distributed", "pyspark", "pyarrow", "pandas"},
    "legacy": NUMERIC | {"torch"},
    "studio": {"numpy", "sklearn", "starlette", "uvicorn"},
    "cli": {"numpy", "click", "rich", "sklearn"},
}
OPTIONAL = [
    "torch", "pandas", "polars", "pyarrow", "dask", "pyspark", "matplotlib", "numba", "networkx",
    "inspect_ai", "starlette", "uvicorn",
]  # fmt: skip
MODULES = sorted(path for path in SRC.rglob("*.py") if path.parent != SRC or path.stem in LAYERS)


def package_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def imports_of(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if node.module == "flyingsquid" else {node.module or ""}
    return found


def test_every_package_has_a_layer():
    present = {package_of(path) for path in SRC.rglob("*.py")}
    assert present - {"__init__", "__main__"} <= set(LAYERS)


def test_imports_point_downwards():
    wrong = []
    for path in MODULES:
        ours = package_of(path)
        for name in imports_of(path):
            parts = name.split(".")
            if parts[0] == "flyingsquid":
                if len(parts) > 1 and parts[1] != ours and LAYERS[parts[1]] >= LAYERS[ours]:
                    wrong.append(f"{path.relative_to(SRC)} imports {name}")
            elif parts[0] not in sys.stdlib_module_names and parts[0] not in MAY_IMPORT.get(ours, set()):
                wrong.append(f"{path.relative_to(SRC)} imports {name}")
    assert not wrong


def test_only_votes_and_moments_know_how_counts_are_stored():
    """Other packages ask Moments, OneHot and ConfusionTables, which answer for dense and sparse storage."""
    storage = re.compile(r"\.blocks\b|csr_array")
    leaks = [
        f"{path.relative_to(SRC)}:{number}"
        for path in MODULES
        if package_of(path) not in ("votes", "moments")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if storage.search(line)
    ]
    assert not leaks


def loaded_by(statement: str) -> set[str]:
    """Packages other than Python's own and ours that a fresh interpreter has loaded after ``statement``."""
    code = f"import sys; before = set(sys.modules); {statement}; print(*sorted(set(sys.modules) - before))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    packages = {name.split(".")[0] for name in answer.stdout.split()}
    assert "flyingsquid" in packages
    return packages - sys.stdlib_module_names - {"flyingsquid"}


@pytest.mark.system
def test_importing_the_package_imports_nothing_else():
    """So it takes less than importing NumPy, on every machine."""
    assert loaded_by("import flyingsquid") == set()


@pytest.mark.system
@pytest.mark.parametrize(
    "statement",
    [
        "fs.Moments.of([[0, 1, 1]]); fs.datasets",
        "fs.LabelModel().fit([[0, 1, 1], [1, 1, 1], [0, 0, 1], [0, 1, 0]]).predict([[0, 1, 1]])",
    ],
    ids=["count", "fit"],
)
def test_label_models_import_neither_scikit_learn_nor_extras(statement):
    """scikit-learn, which imports pandas if it is installed, takes longer to import than all the rest."""
    loaded = loaded_by(
        f"import warnings; warnings.simplefilter('ignore'); import flyingsquid as fs; {statement}"
    )
    assert loaded >= {"numpy"}
    assert not loaded & {*OPTIONAL, "sklearn", "click", "rich"}


@pytest.mark.system
def test_the_package_works_where_nothing_optional_is_installed():
    """Block every optional package, then fit, predict and run the command line."""
    from tests.support.absent import without

    code = """
import numpy as np, flyingsquid as fs
from flyingsquid.cli.main import main
votes = fs.datasets.load_breast_cancer().votes
print(fs.LabelModel().fit(votes).predict_proba(votes).shape)
main(["--version"], standalone_mode=False)
"""
    answer = subprocess.run(
        [sys.executable, "-c", without(OPTIONAL, code)], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["(569,", "2)", "flyingsquid,", "version", version()]


def version() -> str:
    import flyingsquid

    return flyingsquid.__version__


def test_the_architecture_page_names_every_package():
    page = (ROOT / "docs" / "design" / "architecture.md").read_text(encoding="utf-8")
    packages = {package_of(path) for path in SRC.rglob("*.py")} - {"__init__", "__main__"}
    names = [f"`{name}/`" if (SRC / name).is_dir() else f"`{name}.py`" for name in sorted(packages)]
    assert not [name for name in names if name not in page]


def test_models_are_private_to_their_package():
    """Everything else talks to the public interface of models and fits."""
    wrong = []
    for path in MODULES:
        if package_of(path) in ("models", "legacy"):
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                private = node.attr.startswith("_") and not node.attr.startswith("__")
                if private and node.value.id in ("model", "estimator", "label_model", "online", "fitted"):
                    wrong.append(f"{path.relative_to(SRC)}:{node.lineno}: {node.value.id}.{node.attr}")
    assert not wrong


def test_one_module_defines_auto():
    """Methods are chosen in solvers/auto.py; nobody else compares a method with "auto"."""
    wrong = []
    for path in MODULES:
        if path.relative_to(SRC).as_posix() == "solvers/auto.py":
            continue
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                names = {
                    side.attr if isinstance(side, ast.Attribute) else getattr(side, "id", "")
                    for side in sides
                }
                values = {side.value for side in sides if isinstance(side, ast.Constant)}
                if "method" in names and "auto" in values:
                    wrong.append(f"{path.relative_to(SRC)}:{node.lineno}")
    assert not wrong


def test_the_library_never_prints():
    wrong = []
    for path in MODULES:
        if package_of(path) != "cli":
            calls = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.Call)]
            lines = [c.lineno for c in calls if isinstance(c.func, ast.Name) and c.func.id == "print"]
            wrong += [f"{path.relative_to(SRC)}:{line}" for line in lines]
    assert not wrong


def test_errors_format_values_with_care():
    """``format_value`` handles integers of 5,000 digits, lists of a million labels, values without repr."""
    wrong = []
    for path in MODULES:
        for error in ast.walk(tree_of(path)):
            for part in ast.walk(error) if isinstance(error, ast.Raise) else ():
                is_repr = isinstance(part, ast.FormattedValue) and part.conversion == ord("r")
                if is_repr and not isinstance(part.value, ast.Call):
                    wrong.append(f"{path.relative_to(SRC)}:{error.lineno}: {{format_value(x)}} for {{x!r}}")
    assert not wrong


# Attributes that hold prose for a person to read.
_PROSE = {"message", "args", "summary", "reason", "note", "_note", "verdict"}
_INSPECTIONS = {
    "startswith",
    "endswith",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "partition",
    "replace",
}
_PATTERNS = {"match", "search", "fullmatch", "sub", "findall", "split"}


def inspections_of_messages(tree: ast.AST) -> list[int]:
    """Lines on which code looks into the wording of an error, a warning or a note.

    Prose is ``str(error)`` of a caught error, an attribute such as ``message``, and any local variable that
    one of these was assigned to.
    """
    found: set[int] = set()
    scopes = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    for scope in scopes:
        caught = {n.name for n in ast.walk(scope) if isinstance(n, ast.ExceptHandler) and n.name}
        tainted: set[str] = set()

        def is_prose(node: ast.AST, caught=caught, tainted=tainted) -> bool:
            if isinstance(node, ast.Name):
                return node.id in tainted
            if isinstance(node, ast.Attribute):
                return node.attr in _PROSE and not (
                    isinstance(node.value, ast.Name) and node.value.id == "self"
                )
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
                return any((isinstance(a, ast.Name) and a.id in caught) or is_prose(a) for a in node.args)
            return isinstance(node, ast.Subscript) and is_prose(node.value)

        for node in ast.walk(scope):
            if isinstance(node, ast.Assign) and is_prose(node.value):
                tainted |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        for node in ast.walk(scope):
            if isinstance(node, ast.Compare):
                operands = [node.left, *node.comparators]
                if any(map(is_prose, operands)) and not any(
                    isinstance(o, ast.Constant) and o.value in (None, "") for o in operands
                ):
                    found.add(node.lineno)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in _INSPECTIONS and is_prose(node.func.value):
                    found.add(node.lineno)
                if node.func.attr in _PATTERNS and any(map(is_prose, node.args)):
                    found.add(node.lineno)
    return sorted(found)


def test_no_decision_depends_on_the_wording_of_a_message():
    assert inspections_of_messages(ast.parse(INSPECTING)) == [5, 7, 9, 11]
    wrong = [
        f"{path.relative_to(SRC)}:{line}"
        for path in MODULES
        for line in inspections_of_messages(tree_of(path))
    ]
    assert not wrong, "decide by a type or an attribute, not by prose"


INSPECTING = """def f(model):
    try:
        g()
    except ValueError as error:
        if "shape" in str(error):
            text = str(error)
            return text.removesuffix(".")
    for warning in w:
        if re.match("no", warning.message):
            pass
    if model._note.startswith("from counts"):
        return error.message
"""


def test_files_do_not_depend_on_the_command_line():
    """Layers below the command line name parameters; the command line turns them into its options."""
    wrong = [
        f"{path.relative_to(SRC)}:{node.lineno}"
        for path in MODULES
        if package_of(path) in ("files", "exceptions")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if re.search(r"(^|[\s(`'])--[a-z]", node.value)
    ]
    assert not wrong
