"""Panels: replicates count once, consistent judges count more, and gold labels choose an explanation."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.replicates import combine_replicates
from flyingsquid.exceptions import NotIdentifiableError, OptionError, SourceWarning
from flyingsquid.votes.decisions import expected_credit

pytestmark = pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")


def accuracy(model, votes, y):
    return float(expected_credit(np.round(model.predict_proba(votes), 10), y).mean())


def biased_panel(n, rng, *, steady=3, biased=7, bias=0.55):
    """Return judges of which some follow the truth steadily, and more follow a bias unsteadily."""
    y, b = rng.choice([-1, 1], (2, n))
    m = steady + biased
    of_y = np.r_[np.full(steady, 0.9), np.full(biased, 0.1)]
    of_b = np.r_[np.full(steady, 0.05), np.full(biased, bias)]
    own = y[:, None] * of_y + b[:, None] * of_b
    codes = (rng.random((n, m, 2)) < (1 + own[:, :, None]) / 2).astype(int)
    # What steady judges answer does not depend on the order.
    codes[:, :steady, 1] = np.where(rng.random((n, steady)) < 0.9, codes[:, :steady, 0], codes[:, :steady, 1])
    return fs.Votes.from_panel(codes, classes=(0, 1)), (y + 1) // 2


def independent_panel(n, rng, accuracies, *, same=0.5, n_calls=2):
    """Return judges that err independently, and repeat an answer with the probability ``same``."""
    y = rng.integers(0, 2, n)
    right = rng.random((n, len(accuracies), n_calls)) < np.array(accuracies)[:, None]
    kept = rng.random(right.shape) < same
    right = np.where(kept, right[:, :, :1], right)
    return fs.Votes.from_panel(np.where(right, y[:, None, None], 1 - y[:, None, None]), classes=(0, 1)), y


def test_auto_uses_the_structure():
    votes, y = biased_panel(600, np.random.default_rng(0))
    with pytest.warns(SourceWarning, match="contradict"):
        model = fs.LabelModel().fit(votes)
    assert model.method_ == "panel"
    plain = fs.LabelModel().fit(votes.with_structure(None))
    assert plain.method_ == "auto"
    assert accuracy(model, votes, y) > accuracy(fs.MajorityVote().fit(votes), votes, y) + 0.08
    assert accuracy(model, votes, y) > accuracy(plain, votes, y)
    assert model.diagnostics_.verdict.kind != "recommended"


def test_a_structure_without_replicates_changes_nothing():
    sample = fs.datasets.simulate(1_000, [0.9, 0.8, 0.7, 0.6, 0.7], random_state=0)
    votes = sample.votes.with_structure([f"judge {j}" for j in range(5)])
    model, plain = fs.LabelModel().fit(votes), fs.LabelModel().fit(sample.votes)
    np.testing.assert_allclose(model.predict_proba(votes), plain.predict_proba(sample.votes), atol=1e-12)


def test_repeats_without_orders_are_the_default_on_combined_answers():
    votes, _ = independent_panel(
        1_000, np.random.default_rng(0), [0.9, 0.8, 0.7, 0.65, 0.8], same=1.0, n_calls=3
    )
    votes = votes.with_structure([fs.SourceInfo(s.judge, repeat=s.order) for s in votes.structure])
    combined = combine_replicates(votes)
    expected = fs.LabelModel().fit(combined).predict_proba(combined)
    # Tables are mixed with one vote by the prior, next to all votes of an item.
    np.testing.assert_allclose(fs.LabelModel().fit(votes).predict_proba(votes), expected, atol=5e-3)


@pytest.mark.parametrize("same", [0.0, 0.5, 1.0])
def test_independent_judges_lose_at_most_half_a_point(same):
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(6):
        votes, y = independent_panel(1_000, rng, rng.uniform(0.55, 0.9, 6), same=same)
        plain = votes.with_structure(None)
        gains.append(
            accuracy(fs.LabelModel().fit(votes), votes, y) - accuracy(fs.LabelModel().fit(plain), plain, y)
        )
    assert np.mean(gains) > -0.005


def test_unsteady_judges_are_labeled_by_majority_vote():
    rng = np.random.default_rng(0)
    y, first, second = rng.choice([-1, 1], (3, 400))
    # Three judges share one taste, and three another one: tables of one factor do not explain the votes.
    own = 0.1 * y[:, None] + 0.55 * np.stack([first] * 3 + [second] * 3, axis=1)
    codes = (rng.random((400, 6, 2)) < (1 + own[:, :, None]) / 2).astype(int)
    votes = fs.Votes.from_panel(codes, classes=(0, 1))
    model = fs.LabelModel().fit(votes)
    assert model.fit_.mixture.trust < 0.25  # the prior
    assert "self-agreement" in model.reason_
    expected = fs.MajorityVote().fit(votes).predict(votes, tie_break="abstain")
    is_tied = expected == fs.ABSTAIN
    assert (model.predict(votes) == expected)[~is_tied].all()


def test_answers_that_are_as_independent_as_judges_count_as_sources():
    rng = np.random.default_rng(0)
    votes, _ = independent_panel(300, rng, [0.85, 0.75, 0.65, 0.8], same=0.0)
    plain = votes.with_structure(None)
    expected = fs.LabelModel().fit(plain).predict_proba(plain)
    np.testing.assert_allclose(fs.LabelModel().fit(votes).predict_proba(votes), expected, atol=1e-12)
    votes, _ = independent_panel(300, rng, [0.85, 0.75, 0.65, 0.8], same=0.5)
    assert "combined into 4 judges" in fs.LabelModel().fit(votes).reason_
    # Options about judges apply to judges.
    model = fs.LabelModel(method=fs.solvers.Panel(share_families=True)).fit(votes)
    assert "combined into 4 judges" in model.reason_


def test_tables_that_contradict_self_agreement_are_not_used():
    """Four judges that share a taste would outvote two steady ones: tables take the taste for the truth."""
    rng = np.random.default_rng(0)
    y, taste = rng.integers(0, 2, (2, 500))
    codes = []
    for truth, of_taste, position in [(0.85, 0.05, 0.05), (0.7, 0.1, 0.1), *[(0.1, 0.4, 0.2)] * 4]:
        u = rng.random((500, 1)).repeat(2, axis=1)
        causes = [u < truth, u < truth + of_taste, u < truth + of_taste + position]
        choices = [y[:, None], taste[:, None], np.array([[0, 1]])]
        codes.append(np.select(causes, choices, rng.integers(0, 2, (500, 2))))
    votes = fs.Votes.from_panel(np.stack(codes, axis=1), classes=(0, 1))
    model = fs.LabelModel().fit(votes)
    assert accuracy(model, votes, y) > accuracy(fs.MajorityVote().fit(votes), votes, y) + 0.1
    low, high = model.accuracies_interval_[0]
    assert low <= np.mean(np.asarray(votes.codes)[:, 0] == y) <= high


def test_the_order_of_sources_and_judges_does_not_matter():
    votes, _ = biased_panel(300, np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(votes.n_sources).tolist()
    moved = votes.of_sources(order)
    expected = fs.LabelModel().fit(votes).predict_proba(votes)
    np.testing.assert_allclose(fs.LabelModel().fit(moved).predict_proba(moved), expected, atol=1e-8)


def test_contradicting_answers_of_a_judge_cancel():
    votes, _ = biased_panel(300, np.random.default_rng(0))
    model = fs.LabelModel().fit(votes)
    other = np.full((1, votes.n_sources), -1)
    other[0, :2] = 0, 1
    np.testing.assert_allclose(model.predict_proba(other), [[0.5, 0.5]], atol=1e-12)
    other[0, 1] = 0
    agreeing = model.predict_proba(other)[0, 0]
    other[0, 1] = -1
    assert agreeing > model.predict_proba(other)[0, 0] > 0.5


@pytest.mark.parametrize("declared", [True, False])
def test_gold_labels_choose_an_explanation(declared):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(4):
        votes, y = biased_panel(400, rng, steady=5, biased=7)
        votes = votes if declared else votes.with_structure(None)
        gold = np.full(400, None)
        gold[:12] = y[:12]
        model = fs.LabelModel().fit(votes, gold=gold)
        found.append(accuracy(model, votes[12:], y[12:]))
    assert np.mean(found) > 0.9
    assert model.diagnostics_.gold.n_gold == 12


def test_suggested_items_settle_a_contradiction():
    votes, y = biased_panel(400, np.random.default_rng(0), steady=6, biased=8, bias=0.8)
    votes = votes.with_structure(None)
    model = fs.LabelModel().fit(votes)
    assert model.diagnostics_.verdict.kind in ("contradictory", "unproven")
    assert model.fit_.has_several_explanations
    suggested = fs.suggest_items(model, votes, 10, random_state=0)
    assert all("distinguishes explanations" in each.reason for each in suggested)
    gold = np.full(400, None)
    gold[suggested.positions] = y[suggested.positions]
    rest = np.setdiff1d(np.arange(400), suggested.positions)
    again = fs.LabelModel().fit(votes, gold=gold)
    assert not any("contradict" in concern for concern in again.fit_.concerns)
    assert accuracy(again, votes[rest], y[rest]) > accuracy(model, votes[rest], y[rest]) + 0.1
    more = fs.suggest_items(again, votes, 4, labeled=gold, random_state=0)
    assert not set(more.positions) & set(suggested.positions)


def test_trusted_judges_choose_an_explanation():
    votes, y = biased_panel(600, np.random.default_rng(0), steady=4, biased=8)
    model = fs.LabelModel(method=fs.solvers.Panel(trusted=["judge 0"])).fit(votes)
    assert accuracy(model, votes, y) > 0.9
    wrong = fs.LabelModel(method=fs.solvers.Panel(trusted=["judge 11"])).fit(votes)
    assert accuracy(wrong, votes, y) < 0.7
    plain = fs.LabelModel(method=fs.solvers.Panel(trusted=["source 0"])).fit(votes.with_structure(None).codes)
    assert accuracy(plain, votes, y) > 0.9


def test_trusted_judges_have_no_effect_if_there_is_one_explanation():
    votes, _ = independent_panel(600, np.random.default_rng(0), [0.9, 0.8, 0.8, 0.7, 0.7])
    plain = fs.LabelModel(method=fs.solvers.Panel()).fit(votes)
    trusting = fs.LabelModel(method=fs.solvers.Panel(trusted=["judge 4"])).fit(votes)
    np.testing.assert_array_equal(trusting.predict_proba(votes), plain.predict_proba(votes))
    assert "no effect" in trusting.reason_


def test_families_share_weight_on_request():
    votes, _ = independent_panel(300, np.random.default_rng(0), [0.8] * 5)
    layout = [
        fs.SourceInfo(s.judge, s.order, model="m" if s.judge in ("judge 0", "judge 1") else None)
        for s in votes.structure
    ]
    votes = votes.with_structure(layout)
    plain = fs.LabelModel(method="panel").fit(votes).fit_.mixture.weights[:, 0]
    shared = fs.LabelModel(method=fs.solvers.Panel(share_families=True)).fit(votes).fit_.mixture.weights[:, 0]
    np.testing.assert_allclose(shared / plain, [0.5] * 4 + [1] * 6)


def test_more_than_two_classes():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    right = rng.random((600, 5, 2)) < [[0.95], [0.6], [0.6], [0.6], [0.6]]
    codes = np.where(right, y[:, None, None], rng.integers(0, 3, (600, 5, 2)))
    votes = fs.Votes.from_panel(codes, classes=(0, 1, 2))
    model = fs.LabelModel().fit(votes)
    assert accuracy(model, votes, y) >= accuracy(fs.MajorityVote().fit(votes), votes, y)
    with pytest.raises(OptionError, match="trusted"):
        fs.LabelModel(method=fs.solvers.Panel(trusted=["judge 0"])).fit(votes)


def test_a_panel_survives_a_file(tmp_path):
    votes, _ = biased_panel(300, np.random.default_rng(0))
    model = fs.LabelModel(method=fs.solvers.Panel(trusted=["judge 0"])).fit(votes)
    model.save(tmp_path / "panel.fsq")
    loaded = fs.load(tmp_path / "panel.fsq")
    assert loaded.method == model.method
    np.testing.assert_array_equal(loaded.predict_proba(votes), model.predict_proba(votes))


@pytest.mark.parametrize(
    "options", [{"trusted": "judge 0"}, {"trusted": []}, {"trusted": 3}, {"share_families": 1}]
)
def test_options_that_are_refused(options):
    with pytest.raises(OptionError, match=next(iter(options))):
        fs.solvers.Panel(**options)


def test_votes_that_are_refused():
    votes, _ = biased_panel(100, np.random.default_rng(0))
    with pytest.raises(OptionError, match="trusted"):
        fs.LabelModel(method=fs.solvers.Panel(trusted=["nobody"])).fit(votes)
    with pytest.raises(OptionError, match="votes"):
        fs.LabelModel(method="panel").fit_moments(fs.Moments.of(votes))
    silent = fs.Votes.from_panel(np.full((10, 3, 2), -1), classes=(0, 1))
    with pytest.raises(NotIdentifiableError):
        fs.LabelModel().fit(silent)
