"""Every example in a help text runs, help is fast and complete, and the reference page matches it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docs.cli_reference import reference
from flyingsquid.cli.main import COMMANDS, main
from flyingsquid.cli.options import MethodName
from flyingsquid.solvers import solver_names
from tests.support.cli_files import make_samples

ROOT = Path(__file__).parents[2]


def command_of(name: str) -> click.Command:
    found = main.get_command(click.Context(main), name)
    assert found is not None
    return found


def examples() -> list[str]:
    found = []
    for text in [main.help, *(command_of(name).help for name in COMMANDS)]:
        listed = re.search(r"Examples?:\n(.*)\Z", text or "", re.DOTALL)
        assert listed is not None, text
        found += [line.strip() for line in listed[1].splitlines() if line.strip()]
    # The studio serves until it is interrupted; tests/studio/test_command.py runs its examples.
    return [each for each in dict.fromkeys(found) if not each.startswith("flyingsquid studio")]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def folder(samples, tmp_path, monkeypatch):
    shutil.copytree(samples, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.system
@pytest.mark.parametrize("example", examples())
def test_examples_run(example, folder):
    if ".parquet" in example and find_spec("pyarrow") is None:
        pytest.skip("needs pyarrow")
    before = set(os.listdir(folder))
    if "|" in example:
        run_in_shell(example, folder)
        return
    words = shlex.split(example)
    assert words[0] == "flyingsquid"
    if "--model" in words:  # a sample, which this example makes
        (folder / words[words.index("--model") + 1]).unlink()
    result = CliRunner().invoke(main, words[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    named = {word for word in words if re.search(r"\.(csv|jsonl|parquet|html|fsq|npz)$", word)}
    assert named <= set(os.listdir(folder)), "a file that the example names was not written"
    assert result.output.strip() or set(os.listdir(folder)) > before


def run_in_shell(example: str, folder: Path) -> None:
    ours = f"{shlex.quote(sys.executable)} -m flyingsquid "
    line = example.replace("flyingsquid ", ours).replace("tail -f", "cat")  # which would never end
    answer = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, text=True, check=True)
    assert answer.stdout.strip()
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_agrees_with_their_help(name):
    assert (command_of(name).help or "").split("\n", 1)[0] == COMMANDS[name]
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output


def test_every_option_is_explained():
    for name in COMMANDS:
        for param in command_of(name).params:
            if isinstance(param, click.Option):
                assert param.help, f"{name} {param.opts}"


def test_methods_are_those_of_the_library():
    assert MethodName().choices == solver_names()
    result = CliRunner().invoke(main, ["label", "-", "-o", "a.csv", "--method", "none such"])
    assert result.exit_code == 2
    assert "covariance" in result.output


@pytest.mark.system
def test_help_imports_no_more_than_it_needs():
    code = (
        "import sys; from flyingsquid.cli.main import main\n"
        "for words in (['--help'], ['label', '--help'], ['completion', 'bash']):\n"
        "    main(words, standalone_mode=False)\n"
        "print([m for m in ('sklearn', 'pyarrow', 'rich', 'pandas') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"


@pytest.mark.system
def test_label_imports_no_more_than_it_needs(tmp_path):
    (tmp_path / "votes.csv").write_text("a,b,c\n" + "0,0,1\n1,1,1\n0,1,0\n" * 10)
    code = (
        "import sys; from flyingsquid.cli.main import main\n"
        "main(['label', 'votes.csv', '-o', 'labels.csv'], standalone_mode=False)\n"
        "slow = ('sklearn', 'scipy.stats', 'scipy.linalg', 'narwhals', 'asyncio', 'pyarrow', 'pandas')\n"
        "print([m for m in slow if m in sys.modules])"
    )
    run = [sys.executable, "-W", "ignore", "-c", code]
    answer = subprocess.run(run, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert answer.stdout.splitlines()[-1] == "[]"


@pytest.mark.system
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell):
    script = CliRunner().invoke(main, ["completion", shell]).output
    assert f"_FLYINGSQUID_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


@pytest.mark.system
def test_completion_completes():
    environment = {
        **os.environ, "_FLYINGSQUID_COMPLETE": "bash_complete", "COMP_WORDS": "flyingsquid label --clas",
        "COMP_CWORD": "2",
    }  # fmt: skip
    code = "from flyingsquid.cli.main import main; main(prog_name='flyingsquid')"
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert "--class-balance" in answer.stdout
    assert "--classes" in answer.stdout


def test_the_reference_page_is_up_to_date():
    page = (ROOT / "docs" / "reference" / "cli.md").read_text("utf-8")
    assert page == reference(), "run python docs/cli_reference.py > docs/reference/cli.md"
