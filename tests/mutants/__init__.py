"""Mutation tests: ``python -m tests.mutants --sample 300 --seed 0``.

One place of ``estimation/``, ``fits/``, ``inference/`` or ``solvers/`` at a time is changed, and the
tests that execute it are run, the quickest first, until one fails. A change that no test detects survives.

sites.py   places that can be changed, and how
record.py  which tests execute which line, and how long each takes
judge.py   a process for each mutant, in which everything but the library is imported already
"""
