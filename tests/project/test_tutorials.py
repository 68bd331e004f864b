"""Tutorials: every file is created and every command is run, and its output is the one on the page."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from flyingsquid.cli.main import main

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
PAGES = sorted(p for p in (ROOT / "docs" / "tutorials").glob("*.md") if "```console" in p.read_text("utf-8"))
STEP = re.compile(
    r"as `(?P<name>[\w.-]+)`:\n\n```text\n(?P<text>.*?)^```|^```console\n(?P<typed>.*?)^```"
    r"|^```python\n(?P<program>(?!>>>).*?)^```",
    re.M | re.S,
)
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*%?")


def commands(block: str) -> list[tuple[str, str]]:
    """Yield commands and their expected output."""
    parts = re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]
    return [(line, shown) for line, _, shown in (part.partition("\n") for part in parts)]


def run(line: str) -> str:
    if not line.startswith("flyingsquid "):
        return subprocess.run(shlex.split(line), capture_output=True, text=True, check=True).stdout
    result = CliRunner().invoke(main, shlex.split(line)[1:], catch_exceptions=False)
    assert result.exit_code == (1 if result.output.startswith("Error: ") else 0), result.output
    return result.output


def require_alike(found: str, shown: str) -> None:
    """The same words, and numbers that differ by no more than another machine's rounding."""
    assert NUMBER.sub("#", found) == NUMBER.sub("#", shown)
    for one, other in zip(NUMBER.findall(found), NUMBER.findall(shown), strict=True):
        a, b = (float(text.replace(",", "").rstrip("%")) for text in (one, other))
        assert a == pytest.approx(b, rel=1e-9, abs=0.11 if one.endswith("%") else 1e-9)


def test_there_is_a_transcript():
    assert {"first-labels.md", "streaming.md"} <= {page.name for page in PAGES}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_transcript_is_true(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    typed = 0
    for step in STEP.finditer(page.read_text("utf-8")):
        if step["name"]:
            Path(step["name"]).write_text(step["text"], encoding="utf-8")
            continue
        if step["program"]:
            exec(compile(step["program"], page.name, "exec"), {})  # it makes the files that follow
            continue
        for line, shown in commands(step["typed"]):
            if line.startswith("pip install"):
                continue
            require_alike(run(line), shown)
            typed += 1
    assert typed >= 5
    if "report.html" in page.read_text("utf-8"):
        assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]
