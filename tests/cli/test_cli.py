"""The command line, called as a user would."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

import flyingsquid as fs
from flyingsquid.cli.main import main


def test_demo_prints_its_tables():
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 0
    texts = ["large nuclei", "estimated", "95% interval", "Verdict.", "majority vote", "FlyingSquid labels"]
    for text in [*texts, "trained on gold"]:
        assert text in result.output
    accuracies = {}
    for line in result.output.splitlines():
        if found := re.match(r"^(.*\S)\s+(\d+\.\d)%\s+(\d+)$", line):
            accuracies[found[1]] = (float(found[2]), int(found[3]))
    assert len(accuracies) == 4
    assert accuracies["FlyingSquid labels"][0] > accuracies["majority vote of the rules"][0]
    assert [gold for _, gold in accuracies.values()] == [0, 0, 0, 398]


def test_demo_is_the_same_every_time_and_differs_by_seed():
    first, again, other = (CliRunner().invoke(main, ["demo", "--seed", s]).output for s in "001")
    assert first == again != other


@pytest.mark.system
def test_demo_runs_on_a_terminal_without_unicode():
    command = [sys.executable, "-m", "flyingsquid", "demo"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "large nuclei" in answer.stdout
    assert answer.stdout.isascii()


def test_version_and_help():
    assert fs.__version__ in CliRunner().invoke(main, ["--version"]).output
    assert "demo" in CliRunner().invoke(main, ["--help"]).output
    assert "Example:" in CliRunner().invoke(main, ["demo", "-h"]).output


def test_wrong_usage_is_exit_code_two():
    assert CliRunner().invoke(main, ["nonsense"]).exit_code == 2
    assert CliRunner().invoke(main, ["demo", "--seed", "x"]).exit_code == 2


def test_a_known_error_is_one_line_and_exit_code_one(monkeypatch):
    def broken() -> None:
        raise fs.exceptions.VotesError("row 3 is wrong")

    monkeypatch.setattr("flyingsquid.cli.demo.load_breast_cancer", broken)
    result = CliRunner().invoke(main, ["demo"])
    assert (result.exit_code, result.output) == (1, "Error: row 3 is wrong\n")


@pytest.mark.system
@pytest.mark.parametrize("command", [["-m", "flyingsquid", "--version"]])
def test_python_m_flyingsquid(command):
    answer = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    assert answer.stdout.strip().endswith(fs.__version__)
