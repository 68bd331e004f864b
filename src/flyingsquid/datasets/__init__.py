"""Datasets: simulated votes, small examples, and directories of the WRENCH benchmark."""

from flyingsquid.datasets.examples import BreastCancer, Comments, load_breast_cancer, simulate_comments
from flyingsquid.datasets.simulator import (
    DriftSimulation,
    GraphSimulation,
    SequenceSimulation,
    Simulation,
    simulate,
    simulate_drift,
    simulate_graph,
    simulate_sequence,
)
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
