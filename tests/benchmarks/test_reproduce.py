"""``flyingsquid reproduce``: what it writes, what it says without data, and what its numbers are made of."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flyingsquid.cli.main import main
from flyingsquid.datasets import simulate
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.reproduce import (
    Outcome,
    Setting,
    ablations,
    artifacts,
    choose,
    drift,
    peers,
    rates,
    real_sets,
    run,
    theorem_3,
    triplet_search,
)
from flyingsquid.reproduce.peers_run import measure as measure_peer
from flyingsquid.reproduce.picture import can_draw, svg_of
from flyingsquid.reproduce.published import TABLE_1
from flyingsquid.reproduce.run import page_of

PAGES = Path(__file__).parents[2] / "docs" / "paper"
FOLDER = os.environ.get("FLYINGSQUID_DATA")
needs_data = pytest.mark.skipif(not FOLDER, reason="FLYINGSQUID_DATA is not set")
SIMULATED = ["theorem-1", "theorem-2", "theorem-3", "theorem-4", "theorem-5"]


def saved(name):
    return json.loads((PAGES / f"{name}.json").read_text("utf-8"))


def without_times(text):
    """A page or a json file up to what depends on the machine and the moment."""
    return re.split(r"## Fit time|\"timings\"", text)[0]


@pytest.fixture
def command(monkeypatch):
    for name in ("FLYINGSQUID_DATA", "FLYINGSQUID_PEERS"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: CliRunner().invoke(main, ["reproduce", *map(str, arguments)])


# ---------------------------------------------------------------------- the command


def test_the_list_has_every_table_and_figure(command):
    lines = command("--list").output.splitlines()
    assert [line.split()[0] for line in lines] == list(artifacts())
    assert "youtube" in lines[0]


def test_names_are_checked(command):
    assert "there are table-1" in command("table-9").output
    assert "--all" in command().output
    assert command().exit_code == 2
    with pytest.raises(OptionError, match="table-9"):
        choose(["table-9"])


def test_peers_that_are_not_there_are_named(command, tmp_path):
    answer = command("theorem-2", "--quick", "-o", tmp_path, "--peers", tmp_path / "python")
    assert answer.exit_code == 1
    assert "make peers" in answer.output


def test_simulations_run_without_data_and_come_out_the_same_twice(command, tmp_path):
    for folder in ("one", "two"):
        answer = command(*SIMULATED, "--quick", "-o", tmp_path / folder)
        assert answer.exit_code == 0, answer.output
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    kinds = ("json", "md", "svg") if can_draw() else ("json", "md")
    assert files == sorted(f"{name}.{kind}" for name in SIMULATED for kind in kinds)
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name


def test_without_data_it_says_what_to_download_and_does_the_rest(command, tmp_path):
    answer = command("table-1", "table-2", "--quick", "-o", tmp_path)
    assert answer.exit_code == 0
    assert "left out" in answer.output
    assert "spouse: the spouse set of" in answer.output
    assert not (tmp_path / "table-1.md").exists()
    assert "`simulated video`" in (tmp_path / "table-2.md").read_text("utf-8")
    assert "`tennis` |" not in (tmp_path / "table-2.md").read_text("utf-8").split("## The paper")[0]


# ---------------------------------------------------------------------- data


def _split(n, seed, *, text=True):
    sample = simulate(n, [0.85, 0.8, 0.75, 0.7], coverage=0.8, random_state=seed)
    items = {}
    for i, (votes, y) in enumerate(zip(np.asarray(sample.votes.codes), sample.y, strict=True)):
        words = {"text": f"{'buy now' if y else 'good song'} {i % 7}"} if text else {"feature": i}
        items[str(i)] = {"label": int(y), "weak_labels": votes.tolist(), "data": words}
    return items


@pytest.fixture
def wrench(tmp_path):
    """A folder of WRENCH with two of the sets, simulated."""
    for name, text in (("youtube", True), ("tennis", False)):
        place = tmp_path / "data" / name
        place.mkdir(parents=True)
        for seed, (split, n) in enumerate((("train", 400), ("valid", 90), ("test", 120))):
            (place / f"{split}.json").write_text(json.dumps(_split(n, seed, text=text)))
        (place / "label.json").write_text('{"0": "ham", "1": "spam"}')
    return tmp_path / "data"


def test_folders_of_wrench_are_read(wrench):
    comments = real_sets.load(wrench, "youtube")
    assert comments.train.votes.shape == (400, 4)
    assert comments.test.texts is not None
    assert comments.chain == 1
    frames = real_sets.load(wrench, "tennis")
    assert frames.train.texts is None
    assert frames.chain == 14
    assert real_sets.available(wrench, ("tennis", "spouse")) == ("tennis",)
    assert real_sets.available(None, ("tennis",)) == ()


def test_a_pool_is_cut_the_same_way_every_time(tmp_path):
    sample = simulate(287, [0.8, 0.7, 0.6], random_state=0)
    (tmp_path / "weather").mkdir()
    np.savez(tmp_path / "weather" / "weather.npz", L=sample.votes.codes, Y=sample.y)
    one, two = (real_sets.load(tmp_path, "weather") for _ in range(2))
    assert [len(split.y) for split in (one.train, one.valid, one.test)] == [187, 50, 50]
    np.testing.assert_array_equal(one.test.votes, two.test.votes)
    assert real_sets.load_whole(tmp_path, "weather")[0].shape == (287, 3)
    with pytest.raises(VotesError, match="spouse/spouse"):
        real_sets.load(tmp_path, "spouse")
    with pytest.raises(VotesError, match="spouse/spouse"):
        real_sets.load_whole(tmp_path, "spouse")


def test_tables_of_real_votes_run_on_what_is_at_hand(command, wrench, tmp_path):
    out = tmp_path / "out"
    answer = command("table-1", "table-2", "ablations", "--quick", "--data", wrench, "-o", out)
    assert answer.exit_code == 0, answer.output
    page = (out / "table-1.md").read_text("utf-8")
    assert "not installed" in page
    assert "| `youtube` | 400 / 90 / 120 | 4 | 1 |" in page
    assert "basketball: the basketball set of" in answer.output
    first = {path.name: without_times(path.read_text("utf-8")) for path in out.iterdir()}
    command("table-1", "table-2", "ablations", "--quick", "--data", wrench, "-o", out)
    assert first == {path.name: without_times(path.read_text("utf-8")) for path in out.iterdir()}


# ---------------------------------------------------------------------- peers


def test_a_peer_that_fails_is_an_answer(tmp_path):
    """This Python has no such peer, or the script is given one that dies: the column says so."""
    votes = np.zeros((5, 3), np.int8)
    answers = peers.ask(Path(sys.executable), "nobody", [peers.Question("tennis", votes, votes)])
    assert answers["tennis"].posterior is None
    assert "did not end" in answers["tennis"].failed
    assert "failed" in measure_peer("nobody", 5, votes, votes, 2)


def test_the_peers_answer_where_they_are_installed():
    python = peers.find_interpreter(None)
    if python is None:
        pytest.skip("FLYINGSQUID_PEERS is not set")
    sample = simulate(2_000, [0.9, 0.8, 0.7, 0.75], random_state=0)
    codes = np.asarray(sample.votes.codes)
    answer = peers.ask(python, "hmm", [peers.Question("x", codes, codes[:300])])["x"]
    assert answer.posterior is not None
    assert answer.posterior.shape == (300, 2)
    assert np.mean(answer.posterior.argmax(axis=1) == sample.y[:300]) > 0.85
    assert answer.fit_seconds > 0


# ---------------------------------------------------------------------- what numbers are made of


def test_the_search_by_hand():
    """Three sources have one triplet each: mean, median and single triplets agree; a = (.8, .6, .5)."""
    rows = []
    for signs, count in [((1, 1, 1), 545), ((1, 1, -1), 195), ((1, -1, 1), 155), ((-1, 1, 1), 105)]:
        rows += [signs] * count + [tuple(-s for s in signs)] * count
    votes = ((np.array(rows) + 1) // 2).astype(np.int8)
    np.testing.assert_allclose(triplet_search.all_triplets(votes)[:, 0], [0.8, 0.6, 0.5])
    proba = ablations.one_triplet_a_source(votes, votes, np.random.default_rng(0))
    odds = (1.8 / 0.2) * (1.6 / 0.4) * (1.5 / 0.5)
    assert proba[0] == pytest.approx(odds / (1 + odds))
    weights = triplet_search.weights_of(np.array([0.8, 0.6, 0.5]), votes)
    candidate = triplet_search.Candidate("mean", weights, 0.5)
    found = triplet_search.posterior(votes[:4], candidate, 1, 0.0)
    np.testing.assert_allclose(found[:, 1], proba[:4])


def test_the_search_looks_at_the_valid_split_alone(wrench):
    real = real_sets.load(wrench, "youtube")
    found = triplet_search.search(real, draws=10)
    hidden = real_sets.RealSet(
        real.name, real.train, real.valid, real_sets.Split(real.test.votes, 1 - real.test.y)
    )
    again = triplet_search.search(hidden, draws=10)
    assert found.chosen == again.chosen
    assert found.valid[found.chosen] == found.valid.max()
    assert found.candidates[0].triplets == "mean"
    assert found.candidates[0].balance == pytest.approx(real.valid.balance[1])
    with pytest.raises(ValueError, match="valid split"):
        triplet_search.search(real_sets.RealSet(real.name, real.train, None, real.test))


def test_no_source_abstains_once_coins_vote():
    votes = np.array([[-1, 0, 1]] * 400, np.int8)
    filled = ablations.without_abstains(votes, np.random.default_rng(0))
    assert (filled[:, 1:] == votes[:, 1:]).all()
    assert set(filled[:, 0].tolist()) == {0, 1}
    assert abs(filled[:, 0].mean() - 0.5) < 0.1


def test_the_error_of_a_linear_classifier_is_exact():
    class Line:
        coef_, intercept_ = np.array([[1.0, 0.3]]), np.array([0.2])

    rng, mean = np.random.default_rng(0), np.array([1.0, 0.0])
    y = rng.integers(0, 2, 400_000)
    X = rng.normal(size=(len(y), 2)) + (2 * y[:, None] - 1) * mean
    wrong = np.mean((X @ Line.coef_[0] + 0.2 > 0) != y)
    best = np.mean((X[:, 0] > 0) != y)
    assert rates.gaussian_excess(Line(), mean) == pytest.approx(wrong - best, abs=1e-3)


def test_tables_of_sources_by_hand():
    table = rates.tables_of([0.9], 0.5)
    np.testing.assert_allclose(table[0], [[0.225, 0.025, 0.25], [0.025, 0.225, 0.25]])


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_model_that_can_be_right_has_no_divergence():
    even = np.stack([theorem_3.ACCURACIES] * 2)
    assert theorem_3.divergence(even, "triplet") == pytest.approx(0, abs=1e-9)
    uneven = np.stack([theorem_3.MIDDLE - 0.15, theorem_3.MIDDLE + 0.15])
    assert theorem_3.divergence(uneven, "covariance") == pytest.approx(0, abs=1e-6)
    assert theorem_3.divergence(uneven, "triplet") > 1e-3


def test_the_oracle_of_drift_is_the_best_there_is():
    stream = drift.stream_of("sudden", 0)
    right = drift.oracle(stream).mean()
    assert right == pytest.approx(saved("drift")["results"]["sudden"]["accuracy"]["oracle"] / 100, abs=0.01)
    assert right > np.mean(drift.offline(stream))


# ---------------------------------------------------------------------- the pages of the project


@pytest.mark.parametrize("name", list(artifacts()))
def test_pages_are_made_of_their_numbers(name):
    content = saved(name)
    outcome = Outcome(content["results"], content.get("timings", {}))
    artifact = artifacts()[name]
    assert (PAGES / f"{name}.md").read_text("utf-8") == page_of(artifact, outcome, picture=True)
    if can_draw():
        assert svg_of(artifact.draw, outcome.results, artifact.size).startswith("<?xml")


def test_rates_are_those_of_the_theorems():
    one, three, five = (saved(f"theorem-{k}")["results"] for k in (1, 3, 5))
    assert one["slope_in_items"] == pytest.approx(-0.5, abs=0.05)
    assert one["slope_in_sources"] == pytest.approx(0.5, abs=0.1)
    assert three["slope_weak"] == pytest.approx(three["slope_gold"], abs=0.15)
    assert five["slope_weak"] > 1 / 3
    for row in saved("theorem-2")["results"]["rows"]:
        assert all(error > bound for error, bound in zip(row["error"], row["bound"], strict=True))
    four = saved("theorem-4")["results"]
    assert all(row["windows"][0] < row["best_window"] < row["windows"][-1] for row in four["streams"])
    assert four["slope_measured"] < -0.4


def test_the_figure_on_drift_shows_what_the_paper_found():
    found = saved("drift")["results"]
    assert set(found) == set(drift.DRIFTS)
    for name in ("none", "limited"):  # offline wins or ties
        assert -1 <= found[name]["auto_beside_offline"] <= 0.1
    assert found["large periodic"]["auto_beside_offline"] >= 5
    assert all(each["auto_beside_best_window"] >= -1 for each in found.values())
    assert all(items <= 2_000 for items in found["sudden"]["items_until_window_is_below_2000"])


def test_random_votes_cost_more_than_any_method_gains():
    """The paper's point, on all three sets."""
    for name, one in saved("ablations")["results"]["sets"].items():
        assert one["random votes"]["average"] < min(one["mean"], one["median"]), name
        assert one["one triplet"]["worst"] < one["mean"], name
        assert one["one triplet"]["average"] <= one["mean"], name


def test_label_models_beside_the_papers():
    tasks = saved("table-1")["results"]["tasks"]
    assert set(tasks) == set(TABLE_1)
    for name in ("tennis", "commercial"):
        assert 100 * tasks[name]["f1"]["tuned"] >= TABLE_1[name].label_model - 1
    page = (PAGES / "table-1.md").read_text("utf-8")
    for name in ("youtube", "basketball"):
        assert re.search(rf"`{name}`, goal .* missed by", page)


@needs_data
def test_the_search_can_be_measured_anew():
    """On the smallest set with a valid split."""
    found = triplet_search.search(real_sets.load(Path(str(FOLDER)), "youtube"))
    row = saved("table-1")["results"]["tasks"]["youtube"]
    assert found.test[found.chosen] == pytest.approx(row["f1"]["tuned"], abs=1e-3)
    assert found.test[0] == pytest.approx(row["f1"]["untuned"], abs=1e-3)


@needs_data
def test_the_ablations_can_be_measured_anew(tmp_path):
    (done,) = run(choose(["ablations"]), Setting(Path(str(FOLDER)), quick=True), tmp_path)
    assert done.outcome is not None
    for name, one in saved("ablations")["results"]["sets"].items():
        assert done.outcome.results["sets"][name]["mean"] == pytest.approx(one["mean"], abs=1e-3), name
    shutil.rmtree(tmp_path)
