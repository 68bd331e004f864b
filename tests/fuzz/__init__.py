"""Damaged and arbitrary files against every reader: ``python -m tests.fuzz --minutes 10``."""
