"""Datasets: simulated votes, small examples, and directories of the WRENCH benchmark."""

from flyingsquid.datasets.examples import (
    BreastCancer,
    Comments,
    Wrench,
    WrenchSplit,
    load_breast_cancer,
    load_wrench,
    simulate_comments,
)
from flyingsquid.datasets.simulator import (
    GraphSimulation,
    SequenceSimulation,
    Simulation,
    simulate,
    simulate_drift,
    simulate_graph,
    simulate_sequence,
)

__all__ = [
    "BreastCancer",
    "Comments",
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
