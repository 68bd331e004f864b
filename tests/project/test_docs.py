"""Every code block in the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import doctest
import itertools
import re
from contextlib import redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path

import pytest

from flyingsquid import solvers

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A block that imports one of these runs only where it is installed.
PEERS = ("torch", "transformers", "snorkel", "crowdkit", "cleanlab", "pandas", "dask", "datasets")
MISSING = [name for name in PEERS if find_spec(name) is None]
# A block of code, and the block of its output if that follows.
PYTHON = re.compile(r"^```python\n(.*?)^```(?:\n\n```output\n(.*?)^```)?", re.DOTALL | re.MULTILINE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.system
@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text("utf-8"))], ids=name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a page may write files
    monkeypatch.setattr(solvers, "_SOLVERS", dict(solvers._SOLVERS))  # and register a solver
    namespace: dict[str, object] = {}
    for block, output in PYTHON.findall(page.read_text("utf-8")):
        if any(re.search(rf"^(>>> )?(import|from) {extra}\b", block, re.MULTILINE) for extra in MISSING):
            if page.parent.name == "tutorials":
                break  # one story: what follows builds on it
            continue
        if ">>>" not in block:
            with redirect_stdout(StringIO()) as printed:
                exec(compile(block, name(page), "exec"), namespace)  # our own pages
            assert not output or printed.getvalue() == output
            continue
        case = doctest.DocTestParser().get_doctest(block, namespace, name(page), name(page), 0)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(case, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0
        namespace.update(case.globs)


def anchors_of(page: Path) -> set[str]:
    """Return the anchors that GitHub and MyST make from the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere():
    dead = []
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text("utf-8")):
            if target.startswith("http"):
                continue
            path = page.parent / target if target else page
            if not path.exists() or (anchor and anchor not in anchors_of(path)):
                dead.append(f"{name(page)}: {target}#{anchor}")
    assert not dead


def test_files_and_tests_named_in_a_page_exist():
    defined = {
        (path.name, test)
        for path in (ROOT / "tests").rglob("test_*.py")
        for test in re.findall(r"def (test_\w+)\(", path.read_text("utf-8"))
    }
    missing = []
    for page in PAGES:
        text = page.read_text("utf-8")
        files = re.findall(r"`(\w+/[\w/]+\.py)", text)  # of the repository, or of the package
        missing += [
            f"{name(page)}: {file}"
            for file in files
            if not ((ROOT / file).exists() or (ROOT / "src" / "flyingsquid" / file).exists())
        ]
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", text)
        missing += [f"{name(page)}: {file}::{test}" for file, test in named if (file, test) not in defined]
    assert not missing


def test_make_help_lists_every_target():
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.search(r"\.PHONY: (.*)", text)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """Return the first table after a heading: the cells of each row, by its first cell without markup."""
    lines = (ROOT / page).read_text("utf-8").partition(heading)[2].lstrip().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("| "))
    rows = [[cell.strip(" *`%") for cell in line.strip("|").split("|")] for line in lines[start:]]
    table = list(itertools.takewhile(lambda row: len(row) > 1, rows))
    return {re.sub(r"[*`]|.*, (?=`fs)", "", row[0]): row[1:] for row in table}


def test_front_pages_repeat_the_measured_results():
    """README and release notes have the numbers of docs/quality, of the datasets reserved for reporting."""
    measured = rows_of("docs/quality/index.md", "**Frozen half")
    names = {"fs.LabelModel()": "LabelModel()"}
    for page, heading in (
        ("README.md", "## Accuracy"),
        ("docs/release-notes.md", "**More accurate than majority vote"),
    ):
        shown = rows_of(page, heading)
        assert "fs.LabelModel()" in shown
        for method, cells in list(shown.items())[2:]:
            found = measured[names.get(method, method)]
            assert cells[:3] == found[:3], f"{page}: {method}"
            assert cells[-1] in (found[3], ""), f"{page}: {method}"
    heading = "### Datasets on which `auto` is below majority vote, frozen half"
    section = (ROOT / "docs/quality/default.md").read_text("utf-8").partition(heading)[2].partition("\n#")[0]
    for loss in re.findall(r"- `\w+`: ([\d.]+) ±", section)[:1]:  # the largest one
        for page in ("README.md", "docs/release-notes.md"):
            assert f"it loses {loss} points" in (ROOT / page).read_text("utf-8"), page
