"""Scheduling of calls: waits, retries and limits."""

from __future__ import annotations

from queue import Empty

import numpy as np

from flyingsquid.judges.answers import FAILED
from flyingsquid.judges.calls import Calls, Clock
from tests.support.judge_tools import judge


class LeapingClock(Clock):
    """A clock that advances at once when no call is running."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def get(self, events, wait):
        try:
            return events.get(timeout=0.05)
        except Empty:
            self.time += wait
            return None


def run_calls(judges, items, clock, **options):
    cells = [(j, i) for i in range(len(items)) for j in range(len(judges))]
    options = {"concurrency": 4, "on_error": "abstain", "store": lambda *_: None} | options
    calls = Calls(judges, items, cells, rng=np.random.default_rng(0), clock=clock, **options)
    calls.run()
    return calls


def test_retry_after_makes_the_whole_judge_wait():
    clock, asked = LeapingClock(), []

    def ask(item):
        asked.append((item, clock.now()))
        if len(asked) == 1:
            error = OSError("slow down")
            error.retry_after = 30
            raise error
        return "good"

    run_calls([judge(ask, concurrency=1)], [0, 1, 2], clock)
    assert asked[0] == (0, 0.0)
    assert [item for item, _ in asked[1:]] == [0, 1, 2]
    assert all(when >= 30 for _, when in asked[1:])


def test_backoff_holds_no_place():
    """While one item waits for its retry, others are asked."""
    clock, asked = LeapingClock(), []

    def ask(item):
        asked.append((item, clock.now()))
        if item == 0:
            raise OSError
        return "good"

    calls = run_calls([judge(ask, backoff=100, max_wait=1000, retries=2)], range(5), clock, concurrency=1)
    assert [item for item, _ in asked] == [0, 1, 2, 3, 4, 0, 0]
    assert 50 <= asked[5][1] <= 100 <= asked[6][1] - asked[5][1] <= 200
    assert calls.answers[0, 0].outcome is FAILED
    assert calls.counts[0] == {"asked": 5, "retries": 2, "timeouts": 0}
