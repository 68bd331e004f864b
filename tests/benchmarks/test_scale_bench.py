"""The benchmark of scale runs, and its pages show the recorded results."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("psutil")
pytest.importorskip("threadpoolctl")
pytest.importorskip("matplotlib")

from benchmarks.scale import __main__ as suite
from benchmarks.scale import comparison, growth, page
from benchmarks.scale.made import make
from benchmarks.scale.one_machine import kernels

pytestmark = pytest.mark.extra
ROOT = Path(__file__).parents[2]

# No code of the authors: a majority vote with the signature of theirs.
STAND_IN = """
import numpy as np

class LabelModel:
    def __init__(self, m):
        self.m = m

    def fit(self, L):
        assert L.shape[1] == self.m and set(np.unique(L)) <= {-1.0, 0.0, 1.0}

    def predict_proba(self, L):
        for_one = (1 + np.sign(L.sum(axis=1))) / 2
        return np.column_stack([1 - for_one, for_one])
"""


@pytest.fixture
def in_the_project(monkeypatch):
    """Child processes find the benchmarks as this process does."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("FLYINGSQUID_PEERS", "/nowhere")


def test_a_quick_run_with_a_stand_in_for_the_authors_code(tmp_path, in_the_project):
    package = tmp_path / "checkout" / "flyingsquid"
    package.mkdir(parents=True)
    (package / "label_model.py").write_text(STAND_IN, encoding="utf-8")
    saved = tmp_path / "scale.json"
    wanted = ["many_sources", "many_items", "throughput", "reference"]
    reference = ["--reference", str(package.parent), "--reference-python", sys.executable]
    suite.main(["--quick", "--threads", "1", "--to", str(saved), "--only", *wanted, *reference])
    whole = json.loads(saved.read_text("utf-8"))
    assert set(whole["results"]) == set(wanted)
    one = whole["results"]["reference"][0]
    assert one["other_accuracy"] > 0.6
    assert one["fast"]["ratio"] > 0
    points = [
        {"at": at, "count": at / 1e3, "solve": 1e-3, "label": 1e-3, "peak_mb": 100} for at in (10, 20, 40)
    ]
    curve = {"points": points, "exponents": {"count": 1.0, "solve": 0.0, "label": 0.0}, "goal": 2.3}
    whole["results"] |= {"growth": {"m": curve, "n": curve}, "snorkel": None, "crowds": None}
    page.write(whole, tmp_path)
    text = (tmp_path / "scale.md").read_text("utf-8")
    assert "these numbers mean nothing" in text
    assert "Compared with Snorkel's LabelModel at its defaults: not measured" in text
    assert f"{one['fast']['accuracy']:.4f}" in text
    assert "**Projected, not measured**" in (tmp_path / "how-far.md").read_text("utf-8")
    assert (tmp_path / "growth.svg").read_text("utf-8").startswith("<?xml")


def test_a_checkout_without_the_code_is_refused(tmp_path, in_the_project):
    with pytest.raises(RuntimeError, match="ended with code"):
        comparison.compare_with_reference(tmp_path, sys.executable, 1, [(2_000, 6)])


def test_points_of_every_curve():
    for axis, values in growth.QUICK.items():
        point = growth.point(axis, values[0], 1_000)
        assert all(point[step] > 0 for step in growth.STEPS)


def test_exponents_are_slopes():
    at = [10, 100, 1_000]
    assert growth.exponent(at, [x**2.0 for x in at]) == 2.0


def test_the_switch_is_put_back(monkeypatch):
    monkeypatch.delenv("FLYINGSQUID_FAST", raising=False)
    with kernels("numpy"):
        assert os.environ["FLYINGSQUID_FAST"] == "0"
    assert "FLYINGSQUID_FAST" not in os.environ


def test_drawn_votes_are_what_they_say():
    made = make(20_000, 4, 3)
    assert made.votes.dtype == np.int8
    assert set(np.unique(made.votes)) == {-1, 0, 1, 2}
    right = made.votes == made.y[:, None]
    assert 0.55 < right.sum() / (made.votes >= 0).sum() < 0.95


@pytest.mark.parametrize("name", ["scale.md", "how-far.md"])
def test_the_pages_are_those_of_the_results_file(name, tmp_path):
    """If this fails, run ``python -m benchmarks.scale.page``."""
    results = ROOT / "benchmarks" / "results" / "scale.json"
    page.write(json.loads(results.read_text("utf-8")), tmp_path)
    assert (tmp_path / name).read_text("utf-8") == (ROOT / "docs" / "benchmarks" / name).read_text("utf-8")
