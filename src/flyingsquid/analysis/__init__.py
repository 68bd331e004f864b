"""Numbers about a fit; no pictures."""

from flyingsquid.analysis.diagnostics import Diagnostics, concerns, diagnose
from flyingsquid.analysis.fit_test import FitTest
from flyingsquid.analysis.verdict import Verdict

__all__ = ["Diagnostics", "FitTest", "Verdict", "concerns", "diagnose"]
