"""Counts to parameters. Pure functions on arrays."""

from flyingsquid.estimate.balance import resolve_balance, resolve_task_balance
from flyingsquid.estimate.binary import METHODS, BinaryFit
from flyingsquid.estimate.gold import GoldCounts
from flyingsquid.estimate.gold_many import ManyGold
from flyingsquid.estimate.graph_fit import GraphFit, Options, fit_graph
from flyingsquid.estimate.intervals import accuracy_errors
from flyingsquid.estimate.many import MANY_CLASSES, ManyFit, fit_many
from flyingsquid.estimate.many_graph import ManyGraphFit, fit_many_graph
from flyingsquid.estimate.opinion_fit import OPINIONS, OpinionFit, fit_opinion
from flyingsquid.estimate.sparse_tables import SparseTables
from flyingsquid.estimate.transition import Transition, fit_transition, persistence_of_errors, worth_of_a_row
from flyingsquid.estimate.units import UnitTable

__all__ = [
    "MANY_CLASSES",
    "METHODS",
    "OPINIONS",
    "BinaryFit",
    "GoldCounts",
    "GraphFit",
    "ManyFit",
    "ManyGold",
    "ManyGraphFit",
    "OpinionFit",
    "Options",
    "SparseTables",
    "Transition",
    "UnitTable",
    "accuracy_errors",
    "fit_graph",
    "fit_many",
    "fit_many_graph",
    "fit_opinion",
    "fit_transition",
    "persistence_of_errors",
    "resolve_balance",
    "resolve_task_balance",
    "worth_of_a_row",
]
