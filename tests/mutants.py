"""Would the tests notice? ``python -m tests.mutants --sample 300 --seed 0``.

One line of ``estimate/`` or ``infer/`` at a time is made wrong, in a copy of the tree, and the tests that
should notice are run until the first failure. Survivors are printed with what was changed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("estimate", "infer")
SWAPS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt,
    ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.And: ast.Or, ast.Or: ast.And,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
# What is run for each package, quickest to fail first.
TESTS = [
    "tests/test_triplets.py",
    "tests/test_signs.py",
    "tests/test_tables.py",
    "tests/test_posterior.py",
    "tests/test_conditional.py",
    "tests/test_intervals.py",
    "tests/test_label_model.py",
    "tests/test_many_classes.py",
    "tests/test_opinions.py",
    "tests/test_junction.py",
    "tests/test_scan.py",
    "tests/test_transition.py",
    "tests/test_gold.py",
    "tests/test_structure.py",
    "tests/test_graph_model.py",
    "tests/test_many_graphs.py",
    "tests/test_many_gold.py",
    "tests/test_many_balance.py",
    "tests/test_many_intervals.py",
    "tests/test_many_sparse.py",
    "tests/test_sequence_model.py",
    "tests/test_simulator.py",
]


def sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Nodes that can be made wrong, and how."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.BinOp, ast.BoolOp)) and type(node.op) in SWAPS:
            yield node, "operator"
        elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
            yield node, "comparison"
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield node, "number"
        elif isinstance(node, ast.If):
            yield node, "condition"
        elif isinstance(node, (ast.Return, ast.AugAssign)) and getattr(node, "value", None) is not None:
            yield node, "removal"


def mutate(node: ast.AST, how: str) -> None:
    """Make a node wrong, in place."""
    if how == "operator" and isinstance(node, (ast.BinOp, ast.BoolOp)):
        node.op = SWAPS[type(node.op)]()
    elif how == "comparison" and isinstance(node, ast.Compare):
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif how == "number" and isinstance(node, ast.Constant):
        node.value = node.value + 1  # type: ignore[operator]
    elif how == "condition" and isinstance(node, ast.If):
        node.test = ast.UnaryOp(ast.Not(), node.test)
    elif isinstance(node, ast.AugAssign):
        node.op, node.value = ast.Add(), ast.Constant(0)
    elif isinstance(node, ast.Return):
        node.value = ast.Constant(None)


def mutants(seed: int) -> list[tuple[Path, int]]:
    """All places, in a random order: a file and the number of a site in it."""
    files = [f for package in PACKAGES for f in sorted((ROOT / "src/flyingsquid" / package).glob("*.py"))]
    found = [(f, i) for f in files for i, _ in enumerate(sites(ast.parse(f.read_text(encoding="utf-8"))))]
    random.Random(seed).shuffle(found)
    return found


def is_killed(file: Path, number: int, copy: Path, seconds: float) -> tuple[bool, str]:
    """Whether the tests fail, and what was changed."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    node, how = list(sites(tree))[number]
    line = getattr(node, "lineno", 0)
    mutate(node, how)
    target = copy / file.relative_to(ROOT)
    target.write_text(ast.unparse(ast.fix_missing_locations(tree)), encoding="utf-8")
    try:
        killed = not _passes(copy, seconds)
    finally:
        target.write_text(source, encoding="utf-8")
    text = source.splitlines()[line - 1].strip() if line else ""
    return killed, f"{file.relative_to(ROOT)}:{line} ({how}) {text}"


def _passes(copy: Path, seconds: float) -> bool:
    """Whether all tests pass, in time: a mutant that does not end would be noticed."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", *TESTS]
    env = os.environ | {"PYTHONPATH": f"{copy / 'src'}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=copy, env=env, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=600.0)
    chosen = parser.parse_args()
    killed = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for part in ("src", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("pyproject.toml", "conftest.py"):
            shutil.copy(ROOT / name, copy / name)
        if not _passes(copy, chosen.timeout):
            sys.stdout.write("the tests fail, or take too long, without any mutant; see --timeout\n")
            return 2
        sample = mutants(chosen.seed)[: chosen.sample]
        for at, (file, number) in enumerate(sample, start=1):
            noticed, what = is_killed(file, number, copy, chosen.timeout)
            killed += noticed
            sys.stdout.write(f"{at:4} {'killed  ' if noticed else 'SURVIVED'} {what}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{killed} of {len(sample)} killed, {killed / len(sample):.0%}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
