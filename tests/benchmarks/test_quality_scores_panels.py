"""The measurement of scores: baselines, the page, and the results on real panels."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

pytestmark = [
    pytest.mark.extra,  # the harness reads the machine with psutil
    # Some judges, simulated and real, have nothing in common with the others.
    pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning"),
]


@pytest.fixture(scope="module")
def panels():
    from benchmarks.quality import scores_panels

    return scores_panels


def real(name):
    """Return the arrays of a real panel, or skip."""
    directory = os.environ.get("FLYINGSQUID_DATA")
    path = Path(directory or "").parent / "panels" / name / f"{name}.npz"
    if not directory or not path.is_file():
        pytest.skip("needs FLYINGSQUID_DATA, with the directory panels next to it")
    return dict(np.load(path))


def test_ties_share_the_credit(panels):
    values = np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    assert panels.accuracy_of_best(values, np.array([0, 1])) == pytest.approx(0.75)


def test_judges_vote_for_their_highest_score(panels):
    grid = np.array([[[3.0, 1.0, np.nan], [3.0, 2.0, np.nan]]])  # two answers, three judges
    np.testing.assert_allclose(panels.votes_for_best(grid), [[0.5, 1.5]])


def test_breaking_ties_takes_their_advantage(panels):
    rng = np.random.default_rng(0)
    gold = rng.normal(size=300)
    noisy = gold + rng.normal(size=300)
    coarse = np.round(noisy / 2)
    assert panels.tau(coarse, gold) > panels.tau(noisy, gold)
    assert panels.tau_without_ties(coarse, gold, rng) < panels.tau(noisy, gold)
    assert panels.tau_without_ties(noisy, gold, rng) == pytest.approx(panels.tau(noisy, gold))


def test_steps_have_no_preferred_position(panels):
    rng = np.random.default_rng(0)
    gold = rng.normal(50, 15, 300)
    found = gold + rng.normal(0, 10, 300)
    assert panels.tau_in_steps(found + 3, gold) == pytest.approx(panels.tau_in_steps(found, gold))
    assert panels.tau_in_steps(gold, gold, 5) > 0.9


def test_the_page_shows_what_was_measured(panels):
    found = {
        "draws": 2,
        "ratings": panels.measure_ratings(*small_ratings(), np.arange(80) // 2, draws=2),
        "best": {"3": panels.measure_best(*small_answers(), 3, 2)},
        "levels": panels.measure_levels(100, 2),
        "coverage": {"100": panels.measure_coverage(100, 5)},
        "tails": panels.measure_tails(100, 2),
        "ties": panels.measure_ties(1),
    }
    page = panels.render(found)
    assert page.startswith("# Scores of judges")
    assert "{" not in page
    assert page.count("\n| ") > 20


def small_ratings():
    rng = np.random.default_rng(0)
    gold = rng.normal(50, 10, 80)
    return gold[:, None] + rng.normal(0, 8, (80, 9)), gold


def small_answers():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(60, 4, 1, 1))
    scores = np.rint(5 + quality + rng.normal(size=(60, 4, 6, 2)))
    return scores, quality.reshape(60, 4).argmax(axis=1)


def test_ratings_are_at_or_above_mean_and_median(panels):
    """Tau-b rewards ties, so methods are compared at the resolution of the median, and without ties."""
    asset = real("asset_scores")
    scores, gold = asset["scores"].astype(float), asset["gold"].astype(float)
    found = panels.measure_ratings(scores, gold, asset["example"], 2)["methods"]
    simple = [found[name] for name in ("mean", "median", "mean of z-scores")]
    assert found["`predict`"]["tens"] > max(each["tens"] for each in simple[:2])
    assert found["`predict_class`, steps of 10"]["tau"] > max(each["tau"] for each in simple)
    assert found["`predict`"]["without ties"] > max(each["without ties"] for each in simple) + 0.01


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 5])
def test_best_of_four_is_at_or_above_the_mean_of_z_scores(panels, size):
    answers = real("rewardbench2_scores")
    found = panels.measure_best(answers["scores"].astype(float), answers["gold"].astype(int), size, 40)
    assert found["difference"] > -2 * found["error"] - 1e-9
    assert found["ScoreModel"] > found["voting"]
