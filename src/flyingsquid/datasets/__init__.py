"""Votes to try things on: a simulator, and rules over data that scikit-learn carries."""

from flyingsquid.datasets.breast_cancer import BreastCancer, load_breast_cancer
from flyingsquid.datasets.simulator import Simulation, simulate

__all__ = ["BreastCancer", "Simulation", "load_breast_cancer", "simulate"]
