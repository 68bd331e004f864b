"""Every example runs at small size, with the described results."""

from __future__ import annotations

import importlib
import os
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
pytestmark = [pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning"), pytest.mark.system]


def test_a_classifier_trained_online_survives_a_change(capsys):
    results = runpy.run_path(str(EXAMPLES / "drift.py"))["main"]()
    printed = capsys.readouterr().out
    online, once, majority = (results[name] for name in ("online", "fitted once", "majority vote"))
    assert online[0] > max(once[0], majority[0]) + 0.05
    assert online[1] > once[1]
    assert online[1] > 0.9
    assert "source 0 fell from" in printed


@pytest.fixture
def run(monkeypatch, capsys):
    """The scores of one example."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def run_one(name: str, n_items: int, *more: object) -> dict[str, float]:
        try:
            return importlib.import_module(name).main(n_items, *more)
        finally:
            for module in (name, "comments"):
                sys.modules.pop(module, None)

    return run_one


def test_n_grams_learn_more_than_the_rules_know(run):
    scores = run("text_classification", 3_000)
    assert scores["n-grams on our labels"] > scores["the rules alone"] + 0.05
    assert scores["n-grams on our labels"] > scores["n-grams on majority votes"] + 0.05
    assert scores["n-grams on gold"] > scores["n-grams on our labels"] - 0.02


def test_a_crowd_is_ported_from_crowd_kit(run):
    scores = run("crowd", 600)
    assert scores["label model"] > scores["majority vote"]
    assert scores["with gold labels"] > scores["majority vote"]
    assert scores["later tasks"] > 0.7


@pytest.mark.filterwarnings("error::flyingsquid.exceptions.VotesWarning")
def test_the_spam_tutorial_is_ported_from_snorkel(run, monkeypatch, capsys):
    monkeypatch.delenv("FLYINGSQUID_DATA", raising=False)
    scores = run("snorkel_spam", 2_000)
    assert scores["classifier"] > 0.85
    assert "keyword_my" in capsys.readouterr().out


@pytest.mark.skipif(not os.environ.get("FLYINGSQUID_DATA"), reason="FLYINGSQUID_DATA is not set")
@pytest.mark.filterwarnings("error::flyingsquid.exceptions.VotesWarning")
def test_the_ported_tutorial_on_real_comments(run):
    scores = run("snorkel_spam", 0)
    assert scores["label model"] > 0.8
    assert scores["classifier"] > 0.85


def test_a_label_model_is_a_step_of_scikit_learn(run):
    scores = run("sklearn_pipeline", 1_500)
    assert scores["gold labels used"] > 100
    assert scores["label model, cross-validated"] > 0.75
    assert scores["classifier"] > scores["rules and label model"]


def test_judges_are_asked_once(run, capsys):
    scores = run("judges", 400)
    assert "first error: ConnectionError" in capsys.readouterr().out
    assert scores["label model"] > 0.75
    assert scores["kept"] >= 0.9 * 200 * 5
    # 400 items x 5 judges, and what the shaky one needs besides: at most two retries, and the failed again.
    assert 2_000 <= scores["calls"] <= 2_000 + 3 * 400


def test_ten_functions_label_comments_as_well_as_their_majority(run, monkeypatch, tmp_path):
    monkeypatch.delenv("FLYINGSQUID_DATA", raising=False)
    scores = run("spam", 2_000, tmp_path / "spam.html")
    assert "Spam by ten functions" in (tmp_path / "spam.html").read_text("utf-8")
    # All functions vote for one class only, and ties count half, so there is nothing to gain.
    assert scores["label model"] > max(0.9, scores["majority vote"] - 0.01)


@pytest.mark.skipif(not os.environ.get("FLYINGSQUID_DATA"), reason="FLYINGSQUID_DATA is not set")
def test_the_same_functions_on_real_comments(run):
    scores = run("spam", 0)
    assert scores["label model"] > max(0.82, scores["majority vote"] + 0.02)


@pytest.mark.extra
@needs_torch
def test_n_grams_in_a_training_loop(run):
    assert run("text_classification_torch", 2_000)["n-grams, rules learned in the loop"] > 0.75


@pytest.mark.extra
@needs_torch
def test_a_window_follows_detectors_that_drift(run):
    scores = run("online_video", 3_000)
    assert scores["a window of the latest frames"] > scores["all frames so far"] + 0.03
    assert scores["a window of the latest frames"] > scores["majority vote"]
    assert scores["gold"] > 0.85


@pytest.mark.extra
@needs_torch
def test_one_pass_in_the_loop_costs_little(run, capsys):
    scores = run("loop_or_two_stages", 4_000)
    assert "same counts: True" in capsys.readouterr().out
    assert abs(scores["in the loop"] - scores["two stages"]) < 0.03


def test_the_first_steps_of_the_2020_code():
    results = runpy.run_path(str(EXAMPLES / "legacy_basics.py"))["main"]()
    assert results["label model"] > results["majority vote"] + 0.02
    expected = [0.81, 0.64, 0.375, 0.49, 0.6]
    assert max(abs(a - b) for a, b in zip(results["estimated"], expected, strict=True)) < 0.03


def test_three_frames_by_the_2020_code():
    results = runpy.run_path(str(EXAMPLES / "legacy_video.py"))["main"]()
    assert results["sequences"] > results["one by one"] + 0.04


@pytest.mark.extra
@needs_torch
def test_the_loss_of_the_2020_code():
    results = runpy.run_path(str(EXAMPLES / "legacy_loss.py"))["main"]()
    assert results["end model"] > 0.85
    assert abs(results["sources"] - [0.85, 0.75, 0.7, 0.65]).max() < 0.08  # by 1,000 items


@pytest.mark.parametrize("name", ["basics", "video", "loss"])
def test_scripts_of_the_2020_code_differ_by_their_import_line_only(name):
    """No other name of this package occurs in them."""
    text = (EXAMPLES / f"legacy_{name}.py").read_text("utf-8").split('"""')[2]
    assert [line for line in text.splitlines() if "flyingsquid" in line] == [
        f"from flyingsquid.legacy import {'FSLoss' if name == 'loss' else 'LabelModel'}"
    ]
    assert "fs." not in text


@pytest.mark.extra
@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is not installed")
def test_two_processes_write_the_labels_of_one_machine(run, capsys):
    scores = run("cluster", 4_000)
    assert "same counts: True" in capsys.readouterr().out
    assert scores["labels"] > scores["majority vote"]


def test_the_list_names_every_example():
    text = (EXAMPLES / "README.md").read_text("utf-8")
    scripts = {path.name for path in EXAMPLES.glob("*.py")} - {"comments.py"}
    assert all(name in text for name in scripts)
