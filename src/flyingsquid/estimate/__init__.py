"""Counts to parameters. Pure functions on arrays."""

from flyingsquid.estimate.balance import resolve_balance
from flyingsquid.estimate.binary import METHODS, BinaryFit, Evidence, fit_binary
from flyingsquid.estimate.gold import GoldCounts
from flyingsquid.estimate.gold_tables import with_gold
from flyingsquid.estimate.intervals import accuracy_errors
from flyingsquid.estimate.transition import Transition, fit_transition, persistence_of_errors, worth_of_a_row

__all__ = [
    "METHODS",
    "BinaryFit",
    "Evidence",
    "GoldCounts",
    "Transition",
    "accuracy_errors",
    "fit_binary",
    "fit_transition",
    "persistence_of_errors",
    "resolve_balance",
    "with_gold",
    "worth_of_a_row",
]
