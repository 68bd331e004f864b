"""Votes and labels in the files that people keep."""
