"""Dependency graphs and junction trees."""

from flyingsquid.graph.dependency import DependencyGraph
from flyingsquid.graph.junction import JunctionTree

__all__ = ["DependencyGraph", "JunctionTree"]
