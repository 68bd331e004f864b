"""Adaptive asking: fewer calls, the budget, resumed runs, dry runs and invalid options."""

from __future__ import annotations

import threading
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import OptionError
from flyingsquid.judges import ask_judges, simulate_asking
from flyingsquid.judges.planner import Planner
from flyingsquid.judges.policy import spread_items
from flyingsquid.votes.codes import ABSTAIN, NOT_ASKED
from tests.fuzz.asking_kills import CONCURRENCY, killed
from tests.support.judge_tools import judge
from tests.support.panel_of_functions import ACCURACIES, CLASSES, accuracy_of, all_votes, make_panel

N = 400
NAMES = tuple(f"judge {j}" for j in range(len(ACCURACIES)))
NAMES_OF_CROWD = tuple(f"worker {j}" for j in range(400))


def votes_of_everybody(n=N):
    return fs.Votes.from_classes(all_votes(n), classes=CLASSES, names=NAMES)


class Log:
    """Counts of calls, safe for threads."""

    def __init__(self):
        self.calls, self._lock = Counter(), threading.Lock()

    def __call__(self, name, item):
        with self._lock:
            self.calls[name, item] += 1


# ---------------------------------------------------------------------- what is asked


def test_fewer_calls_for_nearly_the_same_labels():
    log = Log()
    run = ask_judges(make_panel(log), range(N), stop_at=0.9)
    asking = run.asking
    assert sum(log.calls.values()) == asking.calls == asking.n_asked.sum() == run.counts["asked"].sum()
    assert asking.saved > 0.3
    everybody = fs.LabelModel().fit(votes_of_everybody())
    full = accuracy_of(everybody.predict_proba(votes_of_everybody()).argmax(axis=1), N)
    assert accuracy_of(asking.probabilities.argmax(axis=1), N) > full - 0.06
    assert set(asking.outcomes) <= {"pilot", "certain", "settled", "all asked"}
    assert (asking.outcomes == "pilot").sum() == 80
    # Asked cells hold what the judges said, all others are marked.
    is_asked = np.array([[(name, i) in log.calls for name in NAMES] for i in range(N)])
    assert ((run.votes.codes == -5) == ~is_asked).all()
    said = votes_of_everybody().codes[is_asked]
    assert (np.maximum(run.votes.codes[is_asked], -1) == said).all()
    assert "pilot" in str(asking)
    assert "saved" in asking._repr_html_()
    assert "not_asked" in str(run)


@pytest.mark.parametrize("n_classes", [2, 4])
def test_independent_judges_reach_the_target(n_classes):
    rng = np.random.default_rng(n_classes)
    y = rng.integers(0, n_classes, 2_000)
    is_right = rng.random((2_000, 10)) < rng.uniform(0.6, 0.9, 10)
    votes = np.where(is_right, y[:, None], (y[:, None] + rng.integers(1, n_classes, (2_000, 10))) % n_classes)
    found = simulate_asking(votes, y, stop_at=0.95)
    certain = found.asking.outcomes == "certain"
    assert certain.mean() > 0.6
    errors = found.asking.probabilities.argmax(axis=1)[certain] != y[certain]
    assert errors.mean() <= 0.05 + 0.01
    assert found.asking.estimated_errors[certain].mean() == pytest.approx(errors.mean(), abs=0.02)
    assert found.accuracy[-1] > found.full_accuracy - 0.015  # one panel; the mean is half a point
    assert found.asking.saved > 0.4
    assert len(found.cost) == len(found.accuracy) == len(found.table()) - 1
    assert (np.diff(found.cost) > 0).all()
    assert "round 1" in str(found)
    assert "<table>" in found._repr_html_()
    # Votes that were not asked for are no evidence, and pairs of judges that vote do not look dependent.
    model = fs.LabelModel().fit(found.votes)
    assert model.score(found.votes, y) >= found.accuracy[-1] - 0.03


@pytest.mark.slow
@pytest.mark.parametrize("n_judges", [4, 5])
def test_small_panels_lose_little(n_judges):
    """Before judges were asked in twos, one of these panels lost 5.5 points."""
    lost = []
    for seed in range(6):
        rng = np.random.default_rng([21, 2, 1_000, n_judges, seed])
        y = rng.choice(2, 1_000, p=[1 / 3, 2 / 3])
        is_right = rng.random((1_000, n_judges)) < rng.uniform(0.6, 0.9, n_judges)
        found = simulate_asking(np.where(is_right, y[:, None], 1 - y[:, None]), y, stop_at=0.95)
        lost.append(found.full_accuracy - found.accuracy[-1])
        assert (found.asking.n_asked >= 2).all()
    assert np.mean(lost) < 0.01
    assert max(lost) < 0.025


def test_stop_at_one_asks_everybody_as_without_it():
    plain, adaptive = ask_judges(make_panel(), range(60)), ask_judges(make_panel(), range(60), stop_at=1)
    np.testing.assert_array_equal(plain.votes.codes, adaptive.votes.codes)
    np.testing.assert_array_equal(plain.answers, adaptive.answers)
    for name, counts in plain.counts.items():
        np.testing.assert_array_equal(counts, adaptive.counts[name])
    assert plain.asking is None
    assert (adaptive.asking.outcomes == "all asked").all()
    assert adaptive.asking.saved == 0
    np.testing.assert_allclose(
        adaptive.asking.probabilities, fs.LabelModel().fit(plain.votes).predict_proba(plain.votes)
    )


def test_more_certainty_takes_more_calls():
    votes = votes_of_everybody()
    asked = [simulate_asking(votes, stop_at=p).asking.calls for p in (0.7, 0.9, 0.99, 1.0)]
    assert asked == sorted(asked)
    assert asked[0] < asked[-1] == votes.n_items * votes.n_sources


def test_the_dry_run_asks_for_the_same_votes_as_judges():
    run = ask_judges(make_panel(), range(N), stop_at=0.9, costs=dict.fromkeys(NAMES, 2.0))
    dry = simulate_asking(votes_of_everybody(), stop_at=0.9, costs=dict.fromkeys(NAMES, 2.0))
    np.testing.assert_array_equal(run.votes.codes == -5, dry.votes.codes == -5)
    np.testing.assert_allclose(run.asking.probabilities, dry.asking.probabilities)
    assert run.asking.cost == dry.asking.cost == 2 * run.asking.calls


def test_cheap_judges_are_asked_first():
    votes = votes_of_everybody()
    cheap = dict.fromkeys(NAMES, 20.0) | {"judge 4": 1.0, "judge 5": 1.0}
    even = (simulate_asking(votes, stop_at=0.9).votes.codes >= 0).sum(axis=0)
    priced = (simulate_asking(votes, stop_at=0.9, costs=cheap).votes.codes >= 0).sum(axis=0)
    assert even[0] > even[4]
    assert priced[4] - even[4] > 100 + max(0, priced[0] - even[0])


def test_only_votes_that_were_asked_for_are_used():
    """Votes that are never asked for may be anything."""
    votes = votes_of_everybody()
    first = simulate_asking(votes, stop_at=0.9)
    other = np.where(first.votes.codes == -5, 1 - np.abs(votes.codes), votes.codes)
    again = simulate_asking(fs.Votes(other, votes.classes, votes.names), stop_at=0.9)
    np.testing.assert_array_equal(first.votes.codes, again.votes.codes)
    np.testing.assert_array_equal(first.asking.probabilities, again.asking.probabilities)


def test_a_judge_that_always_fails_is_hardly_asked():
    log = Log()
    run = ask_judges(make_panel(log, failing=("judge 0",), retries=0), range(N), stop_at=0.9)
    n_pilot = (run.asking.outcomes == "pilot").sum()
    assert run.counts["failed"][0] == run.counts["asked"][0] < n_pilot + 70
    assert run.asking.saved > 0.2


def test_all_judges_fail():
    run = ask_judges(make_panel(failing=NAMES, retries=0), range(40), stop_at=0.9)
    assert (run.votes.codes == -4).all()
    assert np.allclose(run.asking.probabilities, 0.5)


def test_one_judge_is_asked_about_everything():
    run = ask_judges(judge(lambda i: CLASSES[i % 2]), range(50), stop_at=0.8)
    assert run.counts["answered"].tolist() == [50]


def test_no_label_is_certain_if_the_pilot_does_not_test_the_judges():
    """400 workers with about 3 votes each in the pilot."""
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.95] * 400, random_state=rng)
    seen = rng.random((2_000, 400)) < 6 / 400
    votes = fs.Votes(np.where(seen, sample.votes.codes, -1), (0, 1))
    found = fs.judges.simulate_asking(votes, sample.y, stop_at=0.9, pilot=200, available=seen)
    assert "certain" not in found.asking.outcomes
    assert found.asking.calls < seen.sum()


@pytest.mark.parametrize("budget", [None, pytest.param(11_000, marks=pytest.mark.slow)])
def test_items_of_a_crowd_are_started_in_parts(budget):
    """Workers are hardly known after the pilot. A budget is spread over all items instead."""
    rng = np.random.default_rng(0)
    available = rng.random((2_000, 400)) < 6 / 400
    planner = Planner((0, 1), NAMES_OF_CROWD, available, stop_at=0.9, pilot=200, budget=budget)
    truth = rng.integers(0, 2, 2_000)[:, None]
    votes = np.where(rng.random(available.shape) < 0.8, truth, 1 - truth)
    codes = np.where(available, NOT_ASKED, ABSTAIN).astype(np.int8)
    started = []
    for cells in planner.rounds(codes, lambda: planner.budget - (codes >= 0).sum()):
        judges, items = np.array(cells, np.intp).reshape(-1, 2).T
        codes[items, judges] = votes[items, judges]
        started.append(int((codes >= 0).any(axis=1).sum()))
    assert started[0] == 200 - (~available[spread_items(2_000, 200)].any(axis=1)).sum()
    answerable = int(available.any(axis=1).sum())
    assert started[1] < 400 if budget is None else started[1] == answerable
    assert started[-1] == answerable


def test_a_single_class_and_a_crowd():
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((500, 30)) < 0.2, 0, -1).astype(np.int8)
    votes = fs.Votes(codes, (0, 1))
    found = simulate_asking(votes, available=codes >= 0)
    assert found.asking.n_possible.sum() == (codes >= 0).sum()
    assert ((found.votes.codes == -5) <= (codes >= 0)).all()


def test_gold_labels_correct_judges_that_share_a_bias():
    """Four of six judges copy each other's errors; the label model of the run gets 100 gold labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 1_500)
    biased = np.where(rng.random(1_500) < 0.7, y, 1)
    votes = np.column_stack([
        *(np.where(rng.random(1_500) < 0.93, biased, 1 - biased) for _ in range(4)),
        *(np.where(rng.random(1_500) < 0.85, y, 1 - y) for _ in range(2)),
    ])  # fmt: skip
    gold = np.full(1_500, -1)
    gold[:150] = y[:150]
    plain = simulate_asking(votes, y, stop_at=0.9)
    with_gold = simulate_asking(votes, y, stop_at=0.9, gold=gold)
    assert with_gold.accuracy[-1] > plain.accuracy[-1] + 0.02


# ---------------------------------------------------------------------- budget


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    budget=st.integers(6 * 30, 600),
    costs=st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=6, max_size=6),
    stop_at=st.sampled_from([0.8, 0.95, 1.0]),
    flaky=st.sampled_from([0.0, 0.3]),
    retries=st.integers(0, 3),
)
def test_the_budget_is_never_exceeded(budget, costs, stop_at, flaky, retries):
    log, prices = Log(), dict(zip(NAMES, costs, strict=True))
    if 30 * sum(costs) > budget:
        return
    run = ask_judges(
        make_panel(log, flaky=flaky, retries=retries),
        range(100),
        stop_at=stop_at,
        budget=budget,
        costs=prices,
    )
    spent = sum(prices[name] * n for (name, _), n in log.calls.items())
    assert spent == pytest.approx(run.asking.cost)
    assert spent <= budget
    assert run.asking.calls == sum(log.calls.values())
    if (run.asking.outcomes == "out of budget").any():
        assert spent > budget - max(costs)
    dry = simulate_asking(votes_of_everybody(100), stop_at=stop_at, budget=budget, costs=prices)
    assert dry.asking.cost <= budget


def test_a_budget_alone_spends_it_on_uncertain_items():
    run = ask_judges(make_panel(), range(N), budget=1_200)
    assert run.asking.calls == 1_200
    out = run.asking.outcomes == "out of budget"
    assert out.any()
    assert run.asking.n_asked[out].max() - run.asking.n_asked[out].min() <= 2


def test_the_price_of_a_fraction_does_not_round_up():
    prices = dict.fromkeys(NAMES, 0.1)
    run = ask_judges(make_panel(), range(30), budget=0.1 * 6 * 30, costs=prices)
    assert run.asking.calls == 180


# ---------------------------------------------------------------------- resumed runs


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"stop_at": 0.9}, {"stop_at": 0.9, "budget": 900.0}])
def test_a_run_that_is_interrupted_goes_on_as_if_it_was_not(tmp_path, options):
    path, whole = tmp_path / "answers.jsonl", ask_judges(make_panel(), range(N), **options)

    class StopError(BaseException):
        pass

    total, log = Counter(), Log()
    for n_calls in (1, 50, 333, 200):
        log = Log()

        def called(name, item, log=log, n_calls=n_calls):
            log(name, item)
            if sum(log.calls.values()) >= n_calls:
                raise StopError

        with pytest.raises(StopError):
            ask_judges(make_panel(called), range(N), cache=path, concurrency=1, **options)
        total += log.calls
    log = Log()
    run = ask_judges(make_panel(log), range(N), cache=path, **options)
    total += log.calls
    lost = sum(total.values()) - len(total)
    assert lost <= 4  # the call in progress of each interrupted run
    assert sum(total.values()) <= options.get("budget", np.inf)
    assert run.counts["kept"].sum() + run.counts["asked"].sum() == run.asking.n_asked.sum()
    if "budget" not in options:
        np.testing.assert_array_equal(run.votes.codes, whole.votes.codes)
        np.testing.assert_array_equal(run.asking.probabilities, whole.asking.probabilities)
    log = Log()
    again = ask_judges(make_panel(log), range(N), cache=path, **options)
    assert not log.calls
    np.testing.assert_array_equal(run.votes.codes, again.votes.codes)


def test_lost_calls_count_towards_the_budget(tmp_path):
    """A kill leaves the beginning of a call without its answer."""
    path, log = tmp_path / "answers.jsonl", Log()
    ask_judges(make_panel(log), range(40), cache=path, budget=200)
    lines = path.read_text().splitlines()
    kept = [line for line in lines[:-30] if '"begins"' in line or "flyingsquid" in line or '"class"' in line]
    path.write_text("\n".join(kept) + "\n")
    begun = sum('"begins"' in line for line in kept)
    again = Log()
    run = ask_judges(make_panel(again), range(40), cache=path, budget=200)
    assert begun + sum(again.calls.values()) == run.asking.calls <= 200


@pytest.mark.slow
def test_answers_of_an_earlier_run_are_used(tmp_path):
    path, log = tmp_path / "answers.jsonl", Log()
    ask_judges(make_panel(), range(N), cache=path)
    run = ask_judges(make_panel(log), range(N), cache=path, stop_at=0.9)
    assert not log.calls
    assert run.asking.n_asked.sum() < N * 6
    assert run.counts["kept"].sum() == run.asking.n_asked.sum()


@pytest.mark.parametrize(("n_cached", "budget", "n_new"), [(2, 500, 100), (2, 450, 50), (4, 300, 0)])
def test_a_budget_counts_the_whole_cache_and_uses_it(tmp_path, n_cached, budget, n_new):
    """The cache may even have cost more than the budget. Then no judge is asked."""
    path, log = tmp_path / "answers.jsonl", Log()
    ask_judges(make_panel()[:n_cached], range(200), cache=path)
    options = {"cache": path, "stop_at": 0.9, "budget": budget}
    run = ask_judges(make_panel(log)[:4], range(200), **options)
    assert sum(log.calls.values()) == run.counts["asked"].sum() == n_new
    assert run.asking.calls == run.asking.cost == 200 * n_cached + n_new
    out = run.asking.outcomes == "out of budget"
    assert out.any() == (n_new > 0)
    assert (run.votes.codes[out][:, :n_cached] != NOT_ASKED).all()  # paid for, so used
    again = ask_judges(make_panel(pytest.fail)[:4], range(200), **options)
    np.testing.assert_array_equal(again.votes.codes, run.votes.codes)
    np.testing.assert_array_equal(again.asking.outcomes, run.asking.outcomes)
    assert again.asking.cost == run.asking.cost


# ---------------------------------------------------------------------- invalid options


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("stop_at", 0.5), ("stop_at", 1.01), ("stop_at", "high"), ("stop_at", True), ("stop_at", np.nan),
        ("budget", 0), ("budget", -5), ("budget", np.nan), ("budget", "all"), ("budget", 10),
        ("pilot", 0), ("pilot", 101), ("pilot", 2.5),
        ("costs", {"judge 0": 1.0}), ("costs", dict.fromkeys((*NAMES, "judge 9"), 1.0)), ("costs", 3),
        ("costs", dict.fromkeys(NAMES, 0.0)), ("costs", dict.fromkeys(NAMES, np.inf)),
    ],
)  # fmt: skip
def test_invalid_options(option, value):
    with pytest.raises(OptionError, match=f"`{option}.*` must"):
        ask_judges(make_panel(pytest.fail), range(100), **{"stop_at": 0.9} | {option: value})
    with pytest.raises(OptionError, match=f"`{option}.*` must"):
        simulate_asking(votes_of_everybody(100), **{option: value})


@pytest.mark.parametrize("option", [{"costs": dict.fromkeys(NAMES, 1.0)}, {"pilot": 5}, {"gold": [0] * 100}])
def test_options_without_effect_are_refused(option):
    with pytest.raises(OptionError, match="`stop_at` or `budget`"):
        ask_judges(make_panel(pytest.fail), range(100), **option)


def test_invalid_masks_and_labels():
    votes = votes_of_everybody(50)
    with pytest.raises(OptionError, match="`available` must"):
        simulate_asking(votes, available=np.ones((50, 2), bool))
    with pytest.raises(fs.FlyingSquidError, match="`y`"):
        simulate_asking(votes, ["good"])
    with pytest.raises(fs.FlyingSquidError, match="gold"):
        ask_judges(make_panel(), range(50), stop_at=0.9, gold=["ugly"] * 50)


@pytest.mark.system
@pytest.mark.parametrize("budget", [1e9, 900.0])
def test_killed_runs_ask_nothing_twice_and_keep_the_budget(tmp_path, budget):
    """``python -m tests.fuzz.asking_kills`` does it with 30 kills."""
    found = killed(tmp_path, 400, 3, budget)
    assert found.n_kills == 3
    assert found.n_repeated <= 3 * CONCURRENCY
    assert found.n_calls <= budget
    assert found.is_same or budget < 1e9
