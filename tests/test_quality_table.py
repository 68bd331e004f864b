"""The table of the binary sets: its scores by hand, its refusals, its page, and a run on real votes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.quality import scores
from benchmarks.quality.halves import DESIGN, RealSet

pytestmark = pytest.mark.extra  # the harness reads the machine with psutil
ROOT = Path(__file__).parents[1]
FOLDER = os.environ.get("FLYINGSQUID_DATA")
LABELED = RealSet("made", "labeling functions", 2)


@pytest.fixture(scope="module")
def table():
    from benchmarks.quality import binary_table

    return binary_table


@pytest.fixture(scope="module")
def page():
    from benchmarks.quality import binary_page

    return binary_page


def test_scores_by_hand():
    """One right, one wrong, one tie on each class: 3 of 6, and 2 · 1.5 / (3 + 3)."""
    p, y = np.array([0.9, 0.2, 0.5, 0.1, 0.8, 0.5]), np.array([1, 1, 1, 0, 0, 0], np.int8)
    np.testing.assert_array_equal(scores.credit(p, y), [1, 0, 0.5, 1, 0, 0.5])
    assert scores.f1(p, y) == pytest.approx(0.5)
    assert scores.log_loss(p, y) == pytest.approx(-np.log([0.9, 0.2, 0.5, 0.9, 0.2, 0.5]).mean())


def test_log_loss_is_clipped():
    assert scores.log_loss(np.array([0.0]), np.array([1], np.int8)) == pytest.approx(-math.log(1e-4))


def test_nothing_of_class_1_scores_0():
    assert scores.f1(np.array([0.1]), np.array([0], np.int8)) == 0


def test_majority_vote_is_add_one_shares():
    votes = np.array([[1, 1, 0], [0, -1, -1], [-1, -1, -1]], np.int8)
    np.testing.assert_allclose(scores.add_one_shares(votes), [3 / 5, 1 / 3, 1 / 2])


def save_set(folder, real, **arrays):
    (folder / real.name).mkdir()
    np.savez(folder / real.name / f"{real.name}.npz", **arrays)


def simulated(n=400):
    sample = fs.datasets.simulate(n, [0.9, 0.8, 0.7, 0.7], coverage=0.9, rng=np.random.default_rng(0))
    return np.asarray(sample.votes.codes), np.asarray(sample.y, np.int8)


def test_train_is_fitted_and_test_scored(table, tmp_path):
    votes, y = simulated()
    y[-1] = -1
    save_set(tmp_path, LABELED, L_train=votes[:300], Y_train=y[:300], L_test=votes[300:], Y_test=y[300:])
    pool = table.load(tmp_path, LABELED)
    assert (len(pool.fit), len(pool.score), len(pool.y), pool.is_one) == (300, 99, 99, False)


@pytest.mark.parametrize("split", ["", "_test"])
def test_one_pool_is_fitted_and_scored(table, tmp_path, split):
    votes, y = simulated()
    save_set(tmp_path, LABELED, **{f"L{split}": votes, f"Y{split}": y})
    pool = table.load(tmp_path, LABELED)
    assert len(pool.fit) == len(pool.y) == 400
    assert pool.is_one


def test_blanks_of_sequences_are_votes_for_class_0(table, tmp_path):
    tags = RealSet("tags", "sequences", 2)
    votes, y = simulated()
    save_set(tmp_path, tags, L=votes, Y=y)
    pool = table.load(tmp_path, tags)
    assert pool.fit.min() == pool.score.min() == 0


def test_a_missing_set_is_named(table, tmp_path):
    with pytest.raises(SystemExit, match=r"made/made\.npz"):
        table.load(tmp_path, LABELED)


def test_without_data_it_says_so(table, monkeypatch):
    monkeypatch.delenv("FLYINGSQUID_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["binary_table"])
    with pytest.raises(SystemExit, match="FLYINGSQUID_DATA is not set"):
        table.main()


def test_a_refusal_counts_as_the_majority_vote(table, page):
    votes, y = simulated()
    good = table.measure(LABELED, table.Pool(votes, votes, y, True))
    two = table.measure(LABELED, table.Pool(votes[:, :2], votes[:, :2], y, True))
    assert "refused" in two["methods"]["covariance"]
    results = table.summarise("design", [good, two])
    majority = [s["methods"]["majority"]["accuracy"] for s in (good, two)]
    expected = (good["methods"]["covariance"]["accuracy"] + majority[1]) / 2
    assert results["means"]["all"]["covariance"]["accuracy"] == pytest.approx(expected, abs=2e-6)
    text = page.render(results)
    assert "| refused |" in text
    assert "`covariance` on `made`: " in text


def test_circular_gold_is_in_no_mean(table):
    votes, y = simulated()
    sets = [table.measure(LABELED, table.Pool(votes, votes, y, True))]
    circular = table.measure(RealSet("weather", "crowds", 2), table.Pool(votes, votes, 1 - y, True))
    assert table.summarise("design", [*sets, circular])["means"] == table.summarise("design", sets)["means"]


def test_each_half_has_its_own_page(table, page, tmp_path, monkeypatch):
    monkeypatch.setattr(page, "DOCS", tmp_path)
    votes, y = simulated()
    measured = [table.measure(LABELED, table.Pool(votes, votes, y, True))]
    for half, name in (("design", "binary.md"), ("frozen", "binary-frozen.md")):
        assert page.write(table.summarise(half, measured)).name == name
    assert "design half only" in (tmp_path / "binary.md").read_text("utf-8")
    assert "design half only" not in (tmp_path / "binary-frozen.md").read_text("utf-8")


def test_the_page_is_what_the_results_say(page):
    saved = json.loads((ROOT / "benchmarks" / "results" / "binary_table.json").read_text("utf-8"))["results"]
    assert page.render(saved) == (ROOT / "docs" / "quality" / "binary.md").read_text("utf-8")
    assert [s["name"] for s in saved["sets"]] == [real.name for real in DESIGN if real.n_classes == 2]


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
@pytest.mark.parametrize("real", [real for real in DESIGN if real.n_classes == 2], ids=lambda real: real.name)
def test_every_method_scores_or_says_why_not(table, real):
    measured = table.measure(real, table.load(Path(str(FOLDER)), real))
    for result in measured["methods"].values():
        if "refused" in result:
            assert len(result["refused"]) > 20
        else:
            assert all(math.isfinite(value) for value in result.values())
