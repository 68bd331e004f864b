"""Places that can be changed, and how."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("estimation", "fits", "inference", "solvers")
OPPOSITE: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
AT_THE_EDGE: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip


# Types are checked by mypy; decorators and the words of errors are not calculations.
NOT_MUTATED = (ast.Raise, ast.JoinedStr)
FIELDS_NOT_MUTATED = ("annotation", "returns", "decorator_list")
Lines = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change: the ``number``-th site of a file."""

    file: Path
    number: int
    line: int
    kind: str
    text: str  # the line as it is
    before: str
    after: str
    reach: Lines  # a test must execute one of these lines to detect the change
    is_outside_functions: bool  # then other files may read it, too

    @property
    def path(self) -> str:
        return str(self.file.relative_to(ROOT / "src" / "flyingsquid"))

    @property
    def module(self) -> str:
        return ".".join(self.file.relative_to(ROOT / "src").with_suffix("").parts)

    def tree(self) -> ast.Module:
        """The file with the change in it."""
        tree = ast.parse(self.file.read_text(encoding="utf-8"))
        node, kind, _ = list(sites(tree))[self.number]
        change(node, kind)
        return ast.fix_missing_locations(tree)


def sample(size: int, seed: int) -> list[Mutant]:
    """Draw a number of mutants from all of them."""
    files = [f for package in PACKAGES for f in sorted((ROOT / "src/flyingsquid" / package).glob("*.py"))]
    places = {file: list(sites(ast.parse(file.read_text(encoding="utf-8")))) for file in files}
    found = [(file, number) for file in files for number in range(len(places[file]))]
    random.Random(seed).shuffle(found)
    return [mutant_at(file, number, *places[file][number]) for file, number in found[:size]]


def mutant_at(file: Path, number: int, node: ast.AST, kind: str, reach: Lines) -> Mutant:
    line, wrong = node.lineno, deepcopy(node)  # type: ignore[attr-defined]
    change(wrong, kind)
    text = file.read_text(encoding="utf-8").splitlines()[line - 1].strip()
    outside = line not in reach
    return Mutant(file, number, line, kind, text, _words(node), _words(wrong), reach, outside)


def _words(node: ast.AST) -> str:
    return ast.unparse(node).split("\n", maxsplit=1)[0]


def sites(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Lines]]:
    """Yield nodes that can be changed, the kind of change, and the lines of which a test must execute one."""
    inside = [line for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) for line in _body(node)]
    # What stands outside functions is executed by an import, not by a test: all tests of the file are meant.
    return _sites_below(tree, tuple(sorted(set(inside))), in_function=False)


def _sites_below(parent: ast.AST, reach: Lines, *, in_function: bool) -> Iterator[tuple[ast.AST, str, Lines]]:
    for name, value in ast.iter_fields(parent):
        if name in FIELDS_NOT_MUTATED:
            continue
        for node in value if isinstance(value, list) else [value]:
            if not isinstance(node, ast.AST) or isinstance(node, NOT_MUTATED):
                continue
            here, inside = reach, in_function
            if isinstance(parent, ast.FunctionDef):
                here, inside = _body(parent), name == "body"
            if inside and isinstance(node, ast.stmt):
                here = _header(node)
            kind = _kind(node, parent)
            if kind:
                yield node, kind, here
            yield from _sites_below(node, here, in_function=inside)


def _body(function: ast.FunctionDef) -> Lines:
    return tuple(range(function.body[0].lineno, (function.end_lineno or 0) + 1))


def _header(node: ast.stmt) -> Lines:
    """The lines of a statement, without the statements in it."""
    inner = [n.lineno for n in ast.walk(node) if isinstance(n, ast.stmt) and n is not node]
    return tuple(range(node.lineno, max(node.lineno + 1, min([(node.end_lineno or 0) + 1, *inner]))))


def _kind(node: ast.AST, parent: ast.AST) -> str:  # noqa: PLR0911
    is_condition = isinstance(parent, (ast.If, ast.IfExp, ast.While)) and node is parent.test
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            return "condition"
        case ast.Compare() if is_condition:  # its opposite is a mutant already; what is left is the edge
            return "edge" if type(node.ops[0]) in AT_THE_EDGE else ""
        case ast.Compare() if type(node.ops[0]) in OPPOSITE:
            return "comparison"
        case ast.UnaryOp(op=ast.Not()) if is_condition:
            return ""
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert()):
            return "sign"
        case ast.BinOp() | ast.BoolOp() if type(node.op) in OPPOSITE and not _is_text(node):
            return "operator"
        case ast.Constant(value=bool()):
            return "truth"
        case ast.Constant(value=int() | float()):
            return "number"
        case ast.AugAssign():
            return "removal"
        case ast.Return(value=ast.expr() as value) if not _is_none(value):
            return "removal"
    return ""


def _is_text(node: ast.AST) -> bool:
    return any(
        isinstance(n, ast.JoinedStr) or isinstance(getattr(n, "value", 0), str)
        for n in ast.iter_child_nodes(node)
    )


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def change(node: ast.AST, kind: str) -> None:
    """Change a node, in place."""
    match kind, node:
        case "operator", ast.BinOp() | ast.BoolOp():
            node.op = OPPOSITE[type(node.op)]()
        case "comparison", ast.Compare():
            node.ops[0] = OPPOSITE[type(node.ops[0])]()
        case "edge", ast.Compare():
            node.ops[0] = AT_THE_EDGE[type(node.ops[0])]()
        case "truth", ast.Constant():
            node.value = not node.value
        case "number", ast.Constant(value=int() | float() as number):
            node.value = number + 1 if number + 1 != number else number / 2  # 1e300 + 1 is 1e300
        case "sign", ast.UnaryOp():
            node.operand = ast.UnaryOp(node.op, node.operand)  # twice is not at all
        case "condition", ast.If() | ast.IfExp() | ast.While():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case "removal", ast.AugAssign():
            node.op, node.value = ast.Add(), ast.Constant(0)
        case "removal", ast.Return():
            node.value = ast.Constant(None)
