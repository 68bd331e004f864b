"""A report that a colleague can open: one HTML file that draws its own pictures."""

from flyingsquid.reports.build import report

__all__ = ["report"]
