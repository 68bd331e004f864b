"""For pytest: how long each test that passes takes, and no time spent on small examples of a failure."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import Phase, settings

settings.register_profile(
    "mutants", deadline=None, database=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
_seconds: dict[str, float] = {}
_not_passed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {test: seconds for test, seconds in _seconds.items() if test not in _not_passed}
    Path(os.environ["MUTANTS_TIMES"]).write_text(json.dumps(passed), "utf-8")
