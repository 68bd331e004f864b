"""Every code block in the documentation runs, and every link leads somewhere."""

from __future__ import annotations

import doctest
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
# A block that imports one of these runs only where it is installed.
PEERS = ("torch", "transformers", "snorkel", "crowdkit", "cleanlab", "pandas", "dask")
MISSING = [name for name in PEERS if find_spec(name) is None]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if PYTHON.search(p.read_text("utf-8"))], ids=name)
def test_code_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a page may write files
    namespace: dict[str, object] = {}
    for block in PYTHON.findall(page.read_text("utf-8")):
        if any(re.search(rf"^(>>> )?(import|from) {extra}\b", block, re.MULTILINE) for extra in MISSING):
            if page.parent.name == "tutorials":
                break  # one story: what follows builds on it
            continue
        if ">>>" not in block:
            exec(compile(block, name(page), "exec"), namespace)  # our own pages
            continue
        case = doctest.DocTestParser().get_doctest(block, namespace, name(page), name(page), 0)
        runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
        runner.run(case, clear_globs=False)
        assert runner.summarize(verbose=False).failed == 0
        namespace.update(case.globs)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text("utf-8")):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), f"{name(page)} links to {target}"


@pytest.mark.parametrize("page", [p for p in PAGES if "::test_" in p.read_text("utf-8")], ids=name)
def test_tests_named_in_a_design_page_exist(page):
    for file, test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", page.read_text("utf-8")):
        found = [path.read_text("utf-8") for path in (ROOT / "tests").rglob(file)]
        assert any(f"def {test}(" in text for text in found), f"{file}::{test}"


def test_make_help_lists_every_target():
    text = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.search(r"\.PHONY: (.*)", text)[1].split())
    assert targets == set(re.findall(r"^([a-z-]+):.*##", text, re.MULTILINE))
