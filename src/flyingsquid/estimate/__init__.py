"""Counts to parameters. Pure functions on arrays."""

from flyingsquid.estimate.balance import resolve_balance
from flyingsquid.estimate.binary import METHODS, BinaryFit, Evidence, fit_binary
from flyingsquid.estimate.gold import GoldCounts
from flyingsquid.estimate.gold_tables import with_gold
from flyingsquid.estimate.intervals import accuracy_errors

__all__ = [
    "METHODS",
    "BinaryFit",
    "Evidence",
    "GoldCounts",
    "accuracy_errors",
    "fit_binary",
    "resolve_balance",
    "with_gold",
]
