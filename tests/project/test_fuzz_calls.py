"""A short run of unusual values against every public call; ``python -m tests.fuzz`` is the long one."""

import pytest

from tests.fuzz.api import fuzz_calls
from tests.fuzz.calls import CALLS

pytestmark = pytest.mark.slow


def test_a_short_run_finds_nothing():
    """A number of rounds instead of seconds, so that every run finds the same. Half a minute on one core."""
    outcome = fuzz_calls(rounds=100, first_seed=1)
    assert not outcome.findings, outcome.findings
    assert set(outcome.calls) == {call.__name__ for call in CALLS}
    assert outcome.refused.total() < outcome.calls.total()  # some calls make sense
