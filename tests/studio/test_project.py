"""Project files: replay, undo, and crashes at any moment."""

from __future__ import annotations

import json
import os
import random
import signal
import time

import pytest

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.studio.project import Project
from tests.studio.support import RULES, run_python

CLASSES = {"type": "set_classes", "classes": ["ham", "spam"]}


def make_project(path=None, n_items=100):
    project = Project(n_items, path)
    project.act(CLASSES)
    for rule in RULES:
        project.act({"type": "add_source", "source": rule})
    return project


def test_reopened_project_has_the_same_state_and_history(tmp_path):
    path = tmp_path / "a.studio.json"
    project = make_project(path)
    project.act({"type": "set_gold", "items": [3, 4], "label": 1})
    project.act({"type": "remove_source", "id": "s2"})
    project.move(-1)
    again = Project.open(path, 100)
    assert again.state == project.state
    assert again.history() == project.history()
    assert again.history()["redo"] == r"Remove rule /free|visit\s/"
    assert again.move(+1) == project.move(+1)


def test_identifiers_are_never_reused():
    project = make_project()
    project.act({"type": "remove_source", "id": "s4"})
    project.act({"type": "add_source", "source": RULES[0]})
    assert list(project.state.sources) == ["s1", "s2", "s3", "s5"]


def test_classes_in_use_cannot_be_removed():
    project = make_project()
    project.act({"type": "set_classes", "classes": ["no", "yes", "maybe"]})
    project.act({"type": "set_gold", "items": [0], "label": 2})
    with pytest.raises(OptionError) as raised:
        project.act(CLASSES)
    assert raised.value.parameter == "classes"
    assert project.state.classes == ("no", "yes", "maybe")


def test_a_failed_write_leaves_the_project_unchanged(tmp_path):
    path = tmp_path / "sub" / "a.studio.json"
    path.parent.mkdir()
    project = make_project(path)
    before = project.to_json()
    for name in os.listdir(path.parent):
        (path.parent / name).unlink()
    path.parent.rmdir()
    with pytest.raises(VoteFileError):
        project.act({"type": "remove_source", "id": "s1"})
    with pytest.raises(VoteFileError):
        project.move(-1)
    assert project.to_json() == before


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda content: content.update(format="other"), "not a project"),
        (lambda content: content.update(version=99), "version"),
        (lambda content: content.update(n_items=7), "items"),
        (lambda content: content.update(position=99), "position"),
        (lambda content: content.update(position=-1), "position"),
        (lambda content: content.update(actions=3), "actions"),
        (lambda content: content["actions"].append({"type": "run", "code": "1"}), "Action 6"),
        (lambda content: content["actions"].insert(0, []), "Action 1"),
    ],
)
def test_damaged_projects_are_refused(tmp_path, change, match):
    path = tmp_path / "a.studio.json"
    make_project(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(VoteFileError, match=match):
        Project.open(path, 100)


WRITER = """
import sys
from pathlib import Path
from flyingsquid.studio.project import Project
project = Project.open(Path(sys.argv[1]), 100_000)
if not project.actions:
    project.act({"type": "set_classes", "classes": ["ham", "spam"]})
i = max(project.state.gold, default=0) + 1
while True:
    project.act({"type": "set_gold", "items": [i], "label": i % 2})
    print(project.position, flush=True)
    if i % 7 == 0:
        project.move(-1)
        print(project.position, flush=True)
    i += 1
"""


@pytest.mark.system
def test_killed_at_any_moment_the_project_has_every_acknowledged_action(tmp_path):
    path = tmp_path / "a.studio.json"
    rng = random.Random(0)
    for _ in range(6):
        with run_python("-c", WRITER, str(path)) as process:
            first = process.stdout.readline()
            time.sleep(rng.random() * 0.5)
            process.send_signal(signal.SIGKILL)
            acknowledged = [int(line) for line in [first, *process.stdout] if line.endswith("\n")]
        found = Project.open(path, 100_000)
        # The action that was being written may be there or not.
        assert abs(found.position - acknowledged[-1]) <= 1
        assert len(found.state.gold) == found.position - 1
    assert found.position > 6
