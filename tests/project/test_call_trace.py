"""The public calls run through no more functions and files than recorded."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.trace_calls import CALLS, RECORD, Counts, count, find_excesses, trace

MODULE = """\
class Shape:
    @property
    def sides(self):
        return len([side for side in self.list_sides()])

    def list_sides(self):
        yield from range(3)


def unused():
    pass


def call():
    class Local:
        pass

    return (lambda: Shape().sides)()
"""


@pytest.mark.system
def test_calls_stay_within_the_recorded_counts():
    # In a process of its own, so that what other tests imported or cached makes no difference.
    command = [sys.executable, "-m", "benchmarks.trace_calls", "--check"]
    checked = subprocess.run(
        command, cwd=RECORD.parents[2], capture_output=True, text=True, check=False, timeout=300
    )
    assert checked.returncode == 0, checked.stderr


def test_every_call_has_counts_before_and_now_and_a_goal():
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    for counts in (record["before"]["calls"], record["recorded"], record["goal"]):
        assert list(counts) == list(CALLS)


def test_functions_count_and_lambdas_comprehensions_and_class_bodies_do_not(tmp_path: Path):
    package = tmp_path / "shapes"
    package.mkdir()
    namespace: dict[str, Any] = {"__name__": "shapes"}
    exec(compile(MODULE, str(package / "shape.py"), "exec"), namespace)
    calls = trace(namespace["call"], tmp_path)
    assert list(dict.fromkeys(code.co_name for code in calls)) == ["call", "sides", "list_sides"]
    assert count(calls, tmp_path) == Counts(functions=3, files=1, switches=0)


def test_an_excess_is_reported_with_both_numbers():
    recorded = {"fit": {"functions": 10, "files": 5, "switches": 1}}
    assert find_excesses({"fit": Counts(10, 5, 99)}, recorded) == []
    (message,) = find_excesses({"fit": Counts(11, 5, 1)}, recorded)
    assert "fit: 11 functions" in message
    assert "10" in message


def test_a_call_without_recorded_counts_is_reported():
    (message,) = find_excesses({"new": Counts(1, 1, 0)}, {})
    assert "new" in message
