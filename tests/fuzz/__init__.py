"""Damaged files in every reader and strange values in every call: ``python -m tests.fuzz --minutes 20``."""
