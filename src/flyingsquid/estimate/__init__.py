"""Counts to parameters. Pure functions on arrays."""

from flyingsquid.estimate.balance import resolve_balance
from flyingsquid.estimate.binary import METHODS, BinaryFit, Evidence, fit_binary

__all__ = ["METHODS", "BinaryFit", "Evidence", "fit_binary", "resolve_balance"]
