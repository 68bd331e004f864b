"""Votes to try things on: a simulator, rules over data that scikit-learn carries, and folders of WRENCH."""

from flyingsquid.datasets.breast_cancer import BreastCancer, load_breast_cancer
from flyingsquid.datasets.comments import Comments, simulate_comments
from flyingsquid.datasets.drift import DriftSimulation, simulate_drift
from flyingsquid.datasets.graphs import GraphSimulation, simulate_graph
from flyingsquid.datasets.sequences import SequenceSimulation, simulate_sequence
from flyingsquid.datasets.simulator import Simulation, simulate
from flyingsquid.datasets.wrench import Wrench, WrenchSplit, load_wrench

__all__ = [
    "BreastCancer",
    "Comments",
    "DriftSimulation",
    "GraphSimulation",
    "SequenceSimulation",
    "Simulation",
    "Wrench",
    "WrenchSplit",
    "load_breast_cancer",
    "load_wrench",
    "simulate",
    "simulate_comments",
    "simulate_drift",
    "simulate_graph",
    "simulate_sequence",
]
