"""Options of a judge, and when it is asked again."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.exceptions import OptionError
from flyingsquid.judges.judge import is_transient, retry_after, wait_before_retry
from tests.support.judge_tools import judge


class StatusError(Exception):
    def __init__(self, status, headers=None):
        super().__init__(f"status {status}")
        self.status_code, self.headers = status, headers or {}


def test_which_errors_pass():
    passing = [OSError(), ValueError(), KeyError("x"), StatusError(429), StatusError(503), TimeoutError()]
    assert all(map(is_transient, passing))
    assert not any(map(is_transient, [TypeError(), NameError(), StatusError(401), StatusError(404)]))


def test_waits_double_with_jitter_up_to_the_longest():
    rng = np.random.default_rng(1)
    patient = judge(str, retries=9, backoff=1, max_wait=10)
    waits = np.array(
        [[wait_before_retry(patient, k, OSError(), rng) for k in range(1, 8)] for _ in range(200)]
    )
    longest = np.minimum(2.0 ** np.arange(7), 10)
    assert (waits <= longest).all()
    assert (waits >= longest / 2).all()
    assert (waits.max(axis=0) - waits.min(axis=0) > 0.4 * longest).all()
    assert wait_before_retry(patient, 10, OSError(), rng) is None


def test_retry_after_header_sets_the_wait():
    assert retry_after(StatusError(429, {"Retry-After": "2.5"})) == 2.5
    assert [
        retry_after(StatusError(429, {"Retry-After": x})) for x in ("Wed, 21 Oct", "-1", "inf", None)
    ] == [None] * 4
    rng = np.random.default_rng(0)
    asked = judge(str, max_wait=60)
    assert wait_before_retry(asked, 1, StatusError(429, {"Retry-After": "30"}), rng) == 30
    assert wait_before_retry(asked, 1, StatusError(429, {"Retry-After": "61"}), rng) is None


@pytest.mark.parametrize(
    "options",
    [
        {"retries": -1}, {"retries": 1.5}, {"retries": None}, {"backoff": float("nan")}, {"backoff": None},
        {"max_wait": -1}, {"timeout": 0}, {"concurrency": 0}, {"parse": "x"}, {"retry_if": None},
        {"name": ""}, {"classes": "spam"}, {"classes": 5},
    ],
)  # fmt: skip
def test_invalid_options_of_a_judge(options):
    with pytest.raises(OptionError, match=f"`{next(iter(options))}`.* must"):
        judge(str, **options)
