"""The project is written in plain American English, without the words and constructions listed here.

Docstrings, comments and string literals are checked, and the text of the pages. Code is not: ``x is None`` is
not prose.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted(
    path
    for directory in ("src", "tests", "benchmarks", "examples", "docs")
    for path in (ROOT / directory).rglob("*.py")
    if path != Path(__file__)  # this file lists what it forbids
)
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")])

# Nouns that are counted per something: "one row per source", never "one row a source".
NOUNS = "|".join([
    "array", "batch", "bin", "block", "byte", "cell", "chunk", "class", "column", "edge", "entry",
    "file", "fit", "function", "group", "hour", "item", "judge", "label", "line", "list", "minute",
    "number", "pair", "part", "partition", "pass", "process", "record", "row", "second", "sequence",
    "solver", "source", "step", "table", "task", "thread", "triplet", "unit", "value", "vote", "window",
    "worker",
])  # fmt: skip
ANYWHERE = {
    "dialect": r"\b(come what may|of a sudden|by its own account|more right than|says otherwise"
    r"|ha(s|ve) no part in|at hand|in words|anew|lopsided|strangers?|opinions?|beside|known labels?"
    r"|whole numbers?)\b",
    "is none": r"(?<!there )\b(is|are) none\b(?! of)",
    "told()": r"\btold\(",
    "directory": r"\bfolders?\b",
    "per": rf"\b(a|an|one|two|three|\d+) (\w+ )?({NOUNS})s? an? ({NOUNS})\b",
    "plural": r"(?<![\w.,^<>=-])(?<![<>=] )"
    r"1 (items|sources|classes|votes|rows|labels|tasks|columns|chunks|files)\b",
}
IN_MESSAGES = {
    "is no": r"(?<!here )\b(is|are) no\b(?! (longer|more|less)\b)",
    "belongs to": r"\bbelongs? to\b",
}
IN_DOCSTRINGS = {
    "str": r"(?m)^ *\w+ : .*\btexts?\b",
    "riddle": r"\A\s*((What|Who|Whose|How|Which|Whether|Where|When|Why)\b|.*\?$)",
}
RULES = {
    "message": ANYWHERE | IN_MESSAGES,
    "docstring": ANYWHERE | IN_DOCSTRINGS,
    "code": {"plural": ANYWHERE["plural"]},  # on a page, with its output
}
# Calls whose arguments are messages.
MESSAGES = ("Error", "Warning", "Exception", "BadParameter", "warn", "warn_about_sources", "Hint", "Note")


class Prose(NamedTuple):
    path: Path
    line: int
    kind: str  # "docstring", "message", "string", "comment", "page" or "code"
    text: str


def render(node: ast.AST) -> str | None:
    """Return a string literal with ``{}`` for the values that it inserts; None for other expressions."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.JoinedStr):
        return "".join(render(part) or "{}" for part in node.values)
    return None


def read_strings(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    """Yield the docstrings, messages and other string literals of a module, each once."""
    kinds: dict[ast.AST, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr):
                kinds[first.value] = "docstring"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(MESSAGES):
            kinds |= dict.fromkeys(ast.walk(node), "message")
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if node not in inside and render(node) is not None:
            inside |= set(ast.walk(node))
            yield node, kinds.get(node, "string")


def read_comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the first line and the text of each block of comments."""
    start, block = 0, [""]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != start + len(block):
                yield start, " ".join(block)
                start, block = token.start[0], []
            block.append(token.string.lstrip("# "))
    yield start, " ".join(block)


def read_prose() -> Iterator[Prose]:
    for path in CODE:
        text = path.read_text("utf-8")
        for node, kind in read_strings(ast.parse(text)):
            yield Prose(path, node.lineno, kind, render(node) or "")  # type: ignore[attr-defined]
        for line, comment in read_comments(text):
            yield Prose(path, line, "comment", comment)
    for path in PAGES:
        is_code = False
        for line, text in enumerate(path.read_text("utf-8").splitlines(), 1):
            is_code ^= text.lstrip().startswith("```")
            yield Prose(path, line, "code" if is_code else "page", text)


def find_offenses(prose: Prose) -> Iterator[str]:
    for name, pattern in RULES.get(prose.kind, ANYWHERE).items():
        for found in re.finditer(pattern, prose.text):
            line = prose.line + prose.text.count("\n", 0, found.start())
            yield f"{prose.path.relative_to(ROOT)}:{line}: {name}: {found[0].strip()}"


def test_the_language_is_plain():
    offenses = [offense for prose in read_prose() for offense in find_offenses(prose)]
    assert not offenses, "\n".join(offenses)


@pytest.mark.parametrize(
    ("kind", "text", "name"),
    [
        ("comment", "one row a source", "per"),
        ("string", "an array a chunk", "per"),
        ("docstring", "Return one number for each group, or three votes an item.", "per"),
        ("message", "{} is none; pass a graph", "is none"),
        ("message", "{}=-1 is no number of standard errors", "is no"),
        ("message", "gold= belongs to votes in memory", "belongs to"),
        ("docstring", "Which way a label model goes: one place.", "riddle"),
        ("docstring", "Return labels.\n\n    title : text, optional", "str"),
        ("string", "1 sources, 2 items", "plural"),
        ("page", "measured beside majority vote", "dialect"),
    ],
)
def test_offenses_are_found(kind, text, name):
    assert any(f": {name}: " in offense for offense in find_offenses(Prose(ROOT / "x.py", 1, kind, text)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("comment", "one row per source, and a table of sources"),
        ("string", "{} of 1 item, 11 sources, D > 1 tasks"),
        ("message", "`graph` must be a DependencyGraph; got None. It is no longer supported."),
        ("docstring", "Return what is written, None of it is read."),
    ],
)
def test_plain_sentences_pass(kind, text):
    assert not list(find_offenses(Prose(ROOT / "x.py", 1, kind, text)))


@pytest.mark.extra
@pytest.mark.skipif(find_spec("codespell_lib") is None, reason="needs codespell")
def test_spelling_is_american():
    """The word lists and exceptions are in pyproject.toml."""
    command = [sys.executable, "-m", "codespell_lib", "src", "tests", "benchmarks", "examples", "docs"]
    command += [path.name for path in ROOT.glob("*.md")]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not found.stdout
