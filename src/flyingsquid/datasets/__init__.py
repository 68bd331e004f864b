"""Votes to try things on: a simulator, and rules over data that scikit-learn carries."""

from flyingsquid.datasets.breast_cancer import BreastCancer, load_breast_cancer
from flyingsquid.datasets.comments import Comments, simulate_comments
from flyingsquid.datasets.drift import DriftSimulation, simulate_drift
from flyingsquid.datasets.graphs import GraphSimulation, simulate_graph
from flyingsquid.datasets.sequences import SequenceSimulation, simulate_sequence
from flyingsquid.datasets.simulator import Simulation, simulate

__all__ = [
    "BreastCancer",
    "Comments",
    "DriftSimulation",
    "GraphSimulation",
    "SequenceSimulation",
    "Simulation",
    "load_breast_cancer",
    "simulate",
    "simulate_comments",
    "simulate_drift",
    "simulate_graph",
    "simulate_sequence",
]
