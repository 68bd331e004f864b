"""Numbers about a fit; no pictures."""

from flyingsquid.analysis.diagnostics import Diagnostics, diagnose

__all__ = ["Diagnostics", "diagnose"]
