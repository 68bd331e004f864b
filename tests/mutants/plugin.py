"""Plugin of pytest that records CPU seconds of each passing test, and does not shrink failing examples."""

from __future__ import annotations

import json
import os
import resource
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

settings.register_profile(
    "mutants", deadline=None, database=None, derandomize=True, phases=(Phase.explicit, Phase.generate)
)
_seconds: dict[str, float] = {}
_not_passed: set[str] = set()


def cpu_seconds() -> float:
    """CPU time of this process and of the processes that it waited for, which does not depend on the load."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    begin = cpu_seconds()
    answer = yield
    _seconds[item.nodeid] = cpu_seconds() - begin
    return answer


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.outcome != "passed":
        _not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    passed = {test: seconds for test, seconds in _seconds.items() if test not in _not_passed}
    Path(os.environ["MUTANTS_TIMES"]).write_text(json.dumps(passed), "utf-8")
