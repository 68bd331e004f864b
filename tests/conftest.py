"""For all tests: none fails because the machine is busy, or because they run in the background."""

import signal

from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A job in the background starts with interrupts ignored, and so do the processes that it starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
