"""The HTML report: one self-contained page about votes and labels."""

from flyingsquid.reports.build import report

__all__ = ["report"]
