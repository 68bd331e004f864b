"""Would the tests notice? ``python -m tests.mutants --sample 300 --seed 0``.

One place of ``estimation/``, ``fits/``, ``inference/`` or ``solvers/`` at a time is made wrong, and the
tests that execute it are run, the quickest first, until one fails. What no test notices is a survivor.

sites.py   places that can be made wrong, and how
record.py  which tests execute which line, and how long each takes
judge.py   a process for each mutant, with everything but the library imported already
"""
