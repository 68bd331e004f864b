"""Errors of ``flyingsquid studio`` before it serves anything."""

from __future__ import annotations

import importlib.util
import re
import shlex
import webbrowser

import numpy as np
import pytest
from click.testing import CliRunner

from flyingsquid.cli.main import main
from flyingsquid.cli.studio import studio
from flyingsquid.files.outputs import locked
from tests.studio.support import open_workspace, write_comments

pd = pytest.importorskip("pandas")


def run(*arguments):
    return CliRunner().invoke(main, ["studio", *map(str, arguments)])


def test_missing_extra_is_named(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "uvicorn" else find(name, *rest)
    )
    answer = run(write_comments(tmp_path / "comments.csv"))
    assert answer.exit_code == 1
    assert "pip install 'flyingsquid[studio]'" in answer.output


@pytest.mark.extra
def test_project_of_other_data_is_refused(tmp_path):
    pytest.importorskip("uvicorn")
    with open_workspace(tmp_path):
        pass
    write_comments(tmp_path / "comments.csv", 50)
    answer = run(tmp_path / "comments.csv")
    assert answer.exit_code == 1
    assert "400 items, but the data has 50" in answer.output


@pytest.mark.extra
def test_columns_and_features_must_fit_the_data(tmp_path):
    pytest.importorskip("uvicorn")
    data = write_comments(tmp_path / "comments.csv")
    answer = run(data, "--text", "title")
    assert answer.exit_code == 2
    assert "title" in answer.output
    np.save(tmp_path / "few.npy", np.ones((3, 2)))
    answer = run(data, "--features", tmp_path / "few.npy")
    assert answer.exit_code == 2
    assert "(400, d)" in answer.output
    np.save(tmp_path / "objects.npy", np.array([object()]), allow_pickle=True)
    answer = run(data, "--features", tmp_path / "objects.npy")
    assert answer.exit_code == 1
    assert ".npy" in answer.output
    assert run(data, "--classes", "only").exit_code == 2


@pytest.mark.extra
def test_empty_files_are_refused(tmp_path):
    pytest.importorskip("uvicorn")
    (tmp_path / "empty.csv").write_text("id,text\n")
    answer = run(tmp_path / "empty.csv")
    assert answer.exit_code == 1
    assert "no items" in answer.output


@pytest.mark.extra
@pytest.mark.parametrize("example", re.findall(r"flyingsquid studio .*", studio.help or ""))
def test_examples_of_the_help_run(tmp_path, monkeypatch, example):
    """Everything but serving, which tests/studio/test_server.py does."""
    pytest.importorskip("starlette")
    monkeypatch.chdir(tmp_path)
    data = write_comments(tmp_path / "comments.csv", 60)
    pd.read_csv(data).to_parquet("reviews.parquet")
    np.save("embeddings.npy", np.ones((60, 3)))
    code = "import flyingsquid as fs\nsong = fs.labeling.keywords('song', 'ham', name='song')\n"
    (tmp_path / "rules.py").write_text(code)
    opened = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr("flyingsquid.studio.server.serve", lambda _app, _socket, _broadcast, ready: ready())
    answer = run(*shlex.split(example)[2:])
    assert answer.exit_code == 0, answer.output
    assert "60 items" in answer.stdout
    url = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S{40,}", answer.stdout)[0]
    assert opened == ([url] if "--open" in example else [])


@pytest.mark.extra
def test_a_project_that_cannot_be_saved_is_refused_at_the_start(tmp_path):
    pytest.importorskip("uvicorn")
    data = write_comments(tmp_path / "comments.csv")
    answer = run(data, "--project", tmp_path / "missing" / "p.json")
    assert answer.exit_code == 1
    assert "does not exist" in answer.output
    answer = run(data, "--project", data)
    assert answer.exit_code == 2
    assert "--project" in answer.output


@pytest.mark.extra
def test_a_second_studio_of_a_project_is_refused(tmp_path):
    """It would overwrite the changes of the first one."""
    pytest.importorskip("uvicorn")
    data = write_comments(tmp_path / "comments.csv")
    with locked(str(tmp_path / "comments.studio.json"), ""):
        answer = run(data)
    assert answer.exit_code == 1
    assert "Another studio uses this project" in answer.output
