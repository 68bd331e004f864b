"""Settings of all tests: Hypothesis profiles, warnings about drawn votes, and interrupts.

No test fails because the machine is busy, so the profiles set no deadline. The profile "quick"
(``--hypothesis-profile=quick``, as ``make test-quick`` passes it) draws few examples.
"""

import signal

import pytest
from hypothesis import settings

settings.register_profile("full", deadline=None, max_examples=50)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("full")

# A background job starts with interrupts ignored, and so do the processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow warnings about votes and sources in tests whose votes are drawn by Hypothesis."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            for kind in ("VotesWarning", "SourceWarning"):
                item.add_marker(pytest.mark.filterwarnings(f"ignore::flyingsquid.exceptions.{kind}"))
