"""Every example runs, and shows what it says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_classifier_trained_online_survives_a_change(capsys):
    results = runpy.run_path(str(EXAMPLES / "04_drift.py"))["main"]()
    printed = capsys.readouterr().out
    online, once, majority = (results[name] for name in ("online", "fitted once", "majority vote"))
    assert online[0] > max(once[0], majority[0]) + 0.05
    assert online[1] > once[1]
    assert online[1] > 0.9
    assert "source 0 fell from" in printed


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_an_example_is_short(path):
    assert len(path.read_text("utf-8").splitlines()) <= 85
