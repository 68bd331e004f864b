"""Damaged files in every reader and unusual values in every call: ``python -m tests.fuzz --minutes 20``."""
