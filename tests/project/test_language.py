"""The project is written in plain American English, without the words and constructions listed here.

Docstrings, comments and string literals are checked, and the text of the pages. Code is not: ``x is None`` is
not prose. A phrase may span lines, and letter case does not matter.
"""

from __future__ import annotations

import ast
import io
import itertools
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
    "array", "axis", "batch", "bin", "block", "byte", "cell", "chunk", "class", "column", "edge", "entry",
    "file", "fit", "function", "group", "hour", "item", "judge", "label", "line", "list", "minute",
    "number", "pair", "panel", "part", "partition", "pass", "price", "process", "record", "round",
    "row", "rule", "second", "sequence", "solver", "source", "step", "table", "task", "thread", "triplet",
    "unit", "value", "vote", "window", "worker",
])  # fmt: skip
ANYWHERE = {
    "dialect": r"\b(come what may|of a sudden|by its own account|more right than|says otherwise"
    r"|ha(s|ve) no part in|at hand|in words|anew|lopsided|strangers?|opinions?|beside|known labels?"
    r"|whole numbers?|up to chance|says? (nothing|little))\b",
    "this many": r"(?<![,;] )(?<!not )\bso many\b(?!.{0,60}\bthat\b)",
    "even if": r", also (if|where|when)\b",
    "is none": r"(?<!there )\b(is|are) (?-i:none)\b(?! of)",  # "is None" is about a value
    "told()": r"\btold\(",
    "directory": r"\bfolders?\b",
    "personification": r"\b(models?|votes?|sources?|labels?|verdict|page|report|guide|file|docs?|method)"
    r" (says?|tells?|notices?|believes?|hears?|knows?)\b",
    "American spelling": r"\b(label|model|cancel|signal)l(ed|ing|er)\b(?<!cancelled)|\bbehaviours?\b"
    r"|\bcolou?rs?\b(?<!color)(?<!colors)|\bneighbours?\b|\bfavour\w*"
    r"|\b(normal|optim|initial|summar|organ|recogn|minim|maxim|vector)is(e[sd]?|ing|ation)\b",
    "per": rf"(?<!how )\b(a|an|one|two|three|four|five|ten|\d+|few|many|several|some|more|most|all)"
    rf" (\w+ )?({NOUNS})(s|es)? an? ({NOUNS})\b|\b(row|item|vote|line)s a second\b",
    "plural": r"(?<![\w.,^<>=-])(?<![<>=] )"
    r"1 (items|sources|classes|votes|rows|labels|tasks|columns|chunks|files)\b",
}
IN_MESSAGES = {
    "is no": r"(?<!here )\b(is|are) no\b(?! (longer|more|less)\b)",
    "belongs to": r"\bbelongs? to\b",
}
IN_DOCSTRINGS = {
    "str": r"(?m)^ *\w+ : .*\btexts?\b",
    "riddle": r"(?-i:\A\s*((What|Who|Whose|How|Which|Whether|Where|When|Why)\b|.*\?$))",
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


def read_page(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the first line, the kind and the text of each block of code and each other part of a page."""
    kind, start, block = "page", 1, list[str]()
    for number, line in enumerate([*text.splitlines(), "```"], 1):
        if line.lstrip().startswith("```"):
            yield start, kind, "\n".join(block)
            kind, start, block = ("code" if kind == "page" else "page"), number + 1, []
        else:
            block.append(line)


def read_prose() -> Iterator[Prose]:
    for path in CODE:
        text = path.read_text("utf-8")
        for node, kind in read_strings(ast.parse(text)):
            yield Prose(path, node.lineno, kind, render(node) or "")  # type: ignore[attr-defined]
        for line, comment in read_comments(text):
            yield Prose(path, line, "comment", comment)
    for path in PAGES:
        for line, kind, text in read_page(path.read_text("utf-8")):
            yield Prose(path, line, kind, text)


def find_offenses(prose: Prose) -> Iterator[str]:
    # A phrase may continue on the next line, but not in the next paragraph.
    words = list(re.finditer(r"\S+|\n[ \t]*\n", prose.text))
    flat = " ".join(word[0].strip() or "|" for word in words)
    for name, pattern in RULES.get(prose.kind, ANYWHERE).items():
        text = prose.text if name in IN_DOCSTRINGS else flat
        for found in re.finditer(pattern, text, re.IGNORECASE):
            start = found.start() if text is prose.text else words[flat.count(" ", 0, found.start())].start()
            line = prose.line + prose.text.count("\n", 0, start)
            yield f"{prose.path.relative_to(ROOT)}:{line}: {name}: {found[0].strip()}"


# Values that may be 1, followed by a plural. ``format_count`` chooses the right form.
COUNTS = re.compile(r"^len\(|(^|[._])n_(items|sources|gold|rows|votes)$")
PLURALS = re.compile(
    r" (items|sources|votes|rows|labels|columns|chunks|files|names|records|pairs|cells|lines)\b"
)


def find_bare_counts(tree: ast.Module) -> Iterator[int]:
    """Yield the lines of f-strings that insert a count before a fixed plural."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            for part, after in itertools.pairwise(node.values):
                if (
                    isinstance(part, ast.FormattedValue)
                    and COUNTS.search(ast.unparse(part.value))
                    and isinstance(after, ast.Constant)
                    and PLURALS.match(str(after.value))
                ):
                    yield node.lineno


def test_counts_agree_with_their_nouns():
    offenses = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in CODE
        if path.is_relative_to(ROOT / "src")
        for line in find_bare_counts(ast.parse(path.read_text("utf-8")))
    ]
    assert not offenses, "use format_count: " + ", ".join(offenses)


def test_bare_counts_are_found():
    assert list(find_bare_counts(ast.parse('f"{len(names):,} sources"')))
    assert list(find_bare_counts(ast.parse('f"of {self.n_items} items"')))
    assert not list(
        find_bare_counts(ast.parse("f\"{format_count(len(names), 'source')} and {n_classes} classes\""))
    )


@pytest.mark.slow
def test_the_language_is_plain():
    offenses = [offense for prose in read_prose() for offense in find_offenses(prose)]
    assert not offenses, "\n".join(offenses)


LONGEST_PARAGRAPH = 900  # characters, about seven lines; a longer one holds several ideas


def find_long_paragraphs(text: str) -> Iterator[str]:
    """Yield the beginnings of paragraphs and list items of a page that are too long. Tables may be longer."""
    for _line, kind, part in read_page(text):
        for paragraph in re.split(r"\n[ \t]*\n|\n(?=[ ]*(?:[-*]|\d+\.) )", part if kind == "page" else ""):
            prose = " ".join(line for line in paragraph.splitlines() if not line.lstrip().startswith("|"))
            if len(prose) > LONGEST_PARAGRAPH:
                yield prose[:60]


def test_paragraphs_are_short():
    found = {
        str(page.relative_to(ROOT)): list(find_long_paragraphs(page.read_text("utf-8"))) for page in PAGES
    }
    assert not {page: beginnings for page, beginnings in found.items() if beginnings}


def test_long_paragraphs_are_found():
    words = "word " * 200
    assert list(find_long_paragraphs(f"# Title\n\n{words}"))
    assert list(find_long_paragraphs(f"- first\n- {words}"))
    assert not list(find_long_paragraphs(f"{words[:800]}\n\n{words[:800]}\n- {words[:800]}\n| {words} |"))


def test_entries_of_the_changelog_are_short():
    """One change per entry. What changed since a version that was never released is not an entry."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    entries = [" ".join(entry.split()) for entry in re.findall(r"^- (.*(?:\n  .*)*)", text, re.MULTILINE)]
    assert entries
    assert not [entry for entry in entries if len(re.sub(r"\]\([^)]*\)", "]", entry)) > 300]
    first_release = text.rpartition("\n## ")[2]
    assert not re.findall(
        r".*\b(?:than before|than earlier|no longer|formerly|used to be)\b.*", first_release
    )


def test_links_name_their_target():
    """Pages for users name a design page by its subject: its number means nothing to them."""
    users = [
        page
        for page in PAGES
        if page.parent.name in ("guides", "tutorials", "concepts", "reference") or page.name == "README.md"
    ]
    found = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in users
        for link in re.findall(r"\[\d{4}\]\(", page.read_text("utf-8"))
    ]
    assert not found


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
        ("page", "the array is\ncounted anew", "dialect"),
        ("message", "Strangers' files", "dialect"),
        ("string", "told(value)", "told()"),
        ("docstring", "Many labels an item.", "per"),
        ("docstring", "Rows a second of counting.", "per"),
        ("comment", "it needs so many items in common", "this many"),
        ("comment", "the sign stays, also if it is 0", "even if"),
        ("docstring", "who votes is up to chance, which says nothing", "dialect"),
        ("docstring", "an iterator, one array a\n        chunk", "per"),
        ("comment", "the model says so", "personification"),
        ("page", "labelling functions", "American spelling"),
        ("message", "unknown behaviour", "American spelling"),
        ("string", "colours of a chart", "American spelling"),
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
        ("page", "One row\n\nA source votes.\n\nsets how many items a function reads, in color"),
        ("comment", "labels, labeling and behavior; ``x is None``"),
        ("comment", "so many objects are alive that it dominates; it also applies if it is 0"),
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
