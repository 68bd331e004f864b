"""Settings of all tests: Hypothesis profiles, and interrupts.

No test fails because the machine is busy, so the profiles set no deadline. The profile "quick"
(``--hypothesis-profile=quick``, as ``make test-quick`` passes it) draws few examples.
"""

import signal

from hypothesis import settings

settings.register_profile("full", deadline=None, max_examples=70)
settings.register_profile("quick", deadline=None, max_examples=10)
settings.load_profile("full")

# A background job starts with interrupts ignored, and so do the processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
