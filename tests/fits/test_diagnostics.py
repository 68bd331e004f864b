"""Diagnostics of a fit: a calibrated test, correct names, and the verdict."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier

import flyingsquid as fs
from flyingsquid.estimation.dependence import Dependence
from flyingsquid.estimation.mixture import gain_over_majority
from flyingsquid.estimation.table_em import rows_of
from flyingsquid.exceptions import NotFittedError, SourceWarning
from flyingsquid.fits.diagnostics import recommend_by_gold
from tests.oracle.star import AnyStar
from tests.support.strategies import draw


@pytest.mark.slow
@pytest.mark.parametrize("method", ["covariance", "triplet"])
def test_the_test_of_independence_has_its_size(method):
    star, rng, p_values = AnyStar.random(np.random.default_rng(3), 7), np.random.default_rng(0), []
    for _ in range(150):
        votes = fs.Votes(star.sample(2_000, rng)[0], (0, 1))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)
            test = fs.LabelModel(method=method, class_balance=star.balance).fit(votes).diagnostics_.fit_test
        p_values.append(test.p_value)
        assert test.degrees == 21 - 7
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.1
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.07)


def test_copying_is_detected():
    votes = draw([0.8, 0.75, 0.7, 0.7, 0.65, 0.7]).votes.codes.copy()
    honest = fs.LabelModel(method="triplet").fit(votes).diagnostics_
    rng = np.random.default_rng(1)
    for j in (1, 2):
        copied = rng.random(4_000) < 0.7
        votes[copied, j] = votes[copied, 0]
    copying = fs.LabelModel(method="triplet").fit(votes).diagnostics_
    assert honest.fit_test.p_value > 0.01
    assert copying.fit_test.p_value < 1e-6
    assert not copying.verdict.use_model
    assert "not independent" in str(copying.verdict)
    assert "not independent" not in str(honest.verdict)


def test_three_sources_have_no_test():
    found = fs.LabelModel(method="triplet").fit(draw([0.95, 0.7, 0.6]).votes).diagnostics_
    assert found.fit_test is None
    assert "too few votes to test" in str(found.verdict)


def test_adversarial_sources_do_not_hide_the_test():
    votes = draw([0.8, 0.8, 0.7, 0.75, 0.2, 0.2, 0.3, 0.25]).votes
    assert fs.LabelModel(signs={0: 1}).fit(votes).diagnostics_.fit_test.degrees == 28 - 8


def test_usefulness_does_not_depend_on_the_class_balance():
    """With nine in ten of one class, a source that ignores the item is right most of the time."""
    rng = np.random.default_rng(0)
    y = (rng.random(20_000) < 0.1).astype(int)
    good = np.column_stack([np.where(rng.random(20_000) < 0.85, y, 1 - y) for _ in range(4)])
    deaf = (rng.random(20_000) < 0.1).astype(int)
    eager = np.where(rng.random(20_000) < np.where(y == 1, 0.9, 0.4), 1, 0)
    model = fs.LabelModel(method="covariance", class_balance=[0.9, 0.1]).fit(
        np.column_stack([good, deaf, eager])
    )
    assert model.accuracies_[4] > 0.8
    assert model.diagnostics_.useless == ("source 4",)
    assert model.diagnostics_.adversarial == ()


@pytest.mark.parametrize("method", ["triplet", "covariance", fs.solvers.Triplet("median")])
def test_useless_and_adversarial_sources_are_named(method):
    sample = draw([0.9, 0.8, 0.8, 0.75, 0.5, 0.25], n=20_000)
    found = fs.LabelModel(method=method).fit(sample.votes).diagnostics_
    assert found.adversarial == ("source 5",)
    assert found.useless == ("source 4",)


def test_a_verdict_for_unequal_sources_is_to_use_the_model_and_is_true():
    sample = draw([0.95, 0.6, 0.6, 0.6, 0.6], n=10_000)
    model = fs.LabelModel(method="triplet").fit(sample.votes)
    verdict = model.diagnostics_.verdict
    truth = model.score(sample.votes, sample.y) - fs.MajorityVote().fit(sample.votes).score(
        sample.votes, sample.y
    )
    assert verdict.kind == "recommended"
    assert verdict.use_model
    assert verdict.gain == pytest.approx(truth, abs=0.04)


def test_a_verdict_for_equal_sources_is_that_majority_vote_will_do():
    verdict = fs.LabelModel(method="triplet").fit(draw([0.75] * 5).votes).diagnostics_.verdict
    assert verdict.kind == "no better"
    assert not verdict.use_model
    assert "about equally good" in str(verdict)
    sparse = draw([0.8, 0.7, 0.7, 0.75], coverage=0.15, n=100_000).votes
    assert "0.6 votes on average" in str(fs.LabelModel(method="triplet").fit(sparse).diagnostics_.verdict)


def test_a_wrong_balance_is_in_the_verdict():
    votes = draw([0.95, 0.9, 0.9, 0.85], class_balance=[0.9, 0.1]).votes
    with pytest.warns(SourceWarning, match="do not fit"):
        model = fs.LabelModel(method="triplet").fit(votes)
    assert "class balance does not fit" in str(model.diagnostics_.verdict)
    assert model.diagnostics_.verdict.kind == "unproven"
    assert len(model.diagnostics_.clipped) > 2


class TestVerdictOfTheDefault:
    @pytest.mark.parametrize(
        ("shares", "n", "m", "coverage"),
        [
            ([0.5, 0.5], 2_000, 8, 1.0),
            ([0.8, 0.2], 2_000, 8, 1.0),
            ([0.5, 0.5], 2_000, 20, 0.3),
            ([0.25] * 4, 500, 8, 1.0),
            ([0.6, 0.3, 0.1], 500, 8, 1.0),
        ],
    )
    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
    def test_noise_has_no_signal(self, shares, n, m, coverage):
        kinds = []
        for seed in range(20):
            rng = np.random.default_rng(seed)
            votes = rng.choice(len(shares), (n, m), p=shares)
            votes[rng.random((n, m)) >= coverage] = -1
            kinds.append(fs.LabelModel(n_classes=len(shares)).fit(votes).diagnostics_.verdict.kind)
        assert kinds.count("no signal") >= 18
        assert kinds.count("recommended") <= 1

    def test_a_gain_comes_with_an_interval_that_contains_it(self):
        inside = []
        for seed in range(20):
            sample = fs.datasets.simulate(
                5_000, [0.9, 0.85, 0.6, 0.6, 0.6, 0.6, 0.6], coverage=0.8, random_state=seed
            )
            model = fs.LabelModel().fit(sample.votes)
            verdict = model.diagnostics_.verdict
            majority = fs.MajorityVote().fit(sample.votes)
            gain = model.score(sample.votes, sample.y) - majority.score(sample.votes, sample.y)
            low, high = verdict.gain_interval
            assert low <= verdict.gain <= high
            assert verdict.kind == "recommended"
            inside.append(low <= gain <= high)
        assert sum(inside) >= 17

    def test_a_clean_gain_is_recommended_if_the_tables_are_likely(self):
        kinds = []
        for seed in range(20):
            sample = fs.datasets.simulate(
                500, [0.9, 0.9, 0.6, 0.6, 0.6, 0.6, 0.6], coverage=0.6, random_state=seed
            )
            model = fs.LabelModel().fit(sample.votes)
            if 0.8 < model.fit_.mixture.trust < 0.95:
                kinds.append(model.diagnostics_.verdict.kind)
        assert len(kinds) >= 4
        assert kinds.count("recommended") >= len(kinds) - 1

    @pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
    @pytest.mark.parametrize("seed", range(3))
    def test_weak_classifiers_are_recommended_only_with_a_gain(self, seed):
        """Each source sees two pixels of a digit; how difficult a digit is, is the same for all of them."""
        rng = np.random.default_rng(seed)
        x, digits = load_digits(return_X_y=True)
        y = digits % 2
        for m in (6, 10, 20):
            votes = np.empty((len(y), m), np.int8)
            for vote in votes.T:
                pixels, known = rng.choice(64, 2, replace=False), rng.choice(len(y), 40, replace=False)
                source = KNeighborsClassifier(5).fit(x[np.ix_(known, pixels)], y[known])
                vote[:] = source.predict(x[:, pixels])
            model = fs.LabelModel().fit(votes)
            gain = model.score(votes, y) - fs.MajorityVote().fit(votes).score(votes, y)
            assert gain > 0 or model.diagnostics_.verdict.kind != "recommended"

    def test_sources_that_never_vote_together_do_not_test_the_model(self):
        rng = np.random.default_rng(1)
        y = rng.integers(0, 2, 1_000)
        votes = np.where(rng.random((1_000, 4)) < [0.9, 0.8, 0.7, 0.8], y[:, None], 1 - y[:, None])
        batch = np.arange(1_000)[:, None] // 40
        votes[:, 1:] = np.where(batch == np.arange(3), votes[:, 1:], -1)
        fit = fs.LabelModel().fit(votes).fit_
        assert fit.mixture.trust == 0
        assert not fit.is_tested

    def test_contradictory_groups(self):
        rng = np.random.default_rng(0)
        truth, bias = rng.integers(0, 2, (2, 400))
        votes = np.where(rng.random((400, 27)) < np.repeat([0.9, 0.5, 0.1], 9), truth[:, None], bias[:, None])
        votes = np.where(rng.random(votes.shape) < 0.9, votes, 1 - votes)
        with pytest.warns(SourceWarning, match="contradict"):
            verdict = fs.LabelModel().fit(votes).diagnostics_.verdict
        assert verdict.kind == "contradictory"

    def test_three_sources_are_never_enough_for_a_recommendation(self):
        sample = draw([0.95, 0.6, 0.6], n=10_000, coverage=1.0)
        verdict = fs.LabelModel().fit(sample.votes).diagnostics_.verdict
        assert verdict.kind in ("unproven", "no better")

    def test_files_keep_it(self, tmp_path):
        model = fs.LabelModel().fit(draw([0.9, 0.8, 0.7, 0.6, 0.6]).votes)
        model.save(tmp_path / "model.fsq")
        assert fs.load(tmp_path / "model.fsq").diagnostics_.verdict == model.diagnostics_.verdict


def test_diagnostics_need_a_fit_and_belong_to_it():
    with pytest.raises(NotFittedError):
        fs.LabelModel(method="triplet").diagnostics_  # noqa: B018
    model = fs.LabelModel(method="triplet").fit(draw([0.9, 0.8, 0.7, 0.6]).votes)
    assert model.set_params(method="covariance").diagnostics_.method == "triplet"


@pytest.mark.parametrize(
    ("gain", "interval", "kind"),
    [
        (0.03, (0.01, 0.05), "recommended"),
        (0.001, (0.0005, 0.002), "no better"),
        (-0.02, (-0.03, -0.01), "no better"),
        (0.02, (-0.01, 0.05), "unproven"),
        (-0.01, (-0.03, 0.01), "unproven"),
    ],
)
def test_gold_labels_decide(gain, interval, kind):
    verdict = recommend_by_gold(gain, interval, 100)
    assert verdict.kind == kind
    assert "100 gold labels" in str(verdict)
    assert (verdict.gain, verdict.gain_interval) == (gain, interval)


def test_a_fit_with_gold_labels_is_recommended_by_them():
    """One source is much better than five that share errors, so votes alone cannot show which is right."""
    sample = draw([0.9, 0.55, 0.55, 0.55, 0.55])
    model = fs.LabelModel().fit(sample.votes, gold=sample.y)
    effect, verdict = model.diagnostics_.gold, model.diagnostics_.verdict
    majority = fs.MajorityVote().fit(sample.votes).score(sample.votes, sample.y)
    assert effect.majority_accuracy.value == pytest.approx(majority)
    assert effect.gain.value == pytest.approx(effect.accuracy.value - majority)
    assert (verdict.kind, verdict.gain) == ("recommended", effect.gain.value)
    assert verdict.gain_interval == (effect.gain.low, effect.gain.high)
    few = fs.LabelModel().fit(sample.votes, gold=np.where(np.arange(len(sample.y)) < 6, sample.y, -1))
    assert few.diagnostics_.gold.gain.high - few.diagnostics_.gold.gain.low > 0.1


def test_diagnostics_print_what_is_worth_reading():
    votes = fs.datasets.load_breast_cancer().votes
    model = fs.LabelModel().fit(votes)
    lines = str(model.diagnostics_).splitlines()
    assert lines[0] == "method: auto"
    assert lines[-1] == f"verdict: {model.diagnostics_.verdict}"
    assert not any(line.endswith(": ") for line in lines)


@pytest.mark.parametrize(("given", "kind"), [(None, "unproven"), ([0.8, 0.2], "recommended")])
@pytest.mark.parametrize("graph", [None, fs.DependencyGraph.chain(2, 4)])
def test_a_class_balance_that_does_not_fit_the_votes_is_a_doubt(graph, given, kind):
    rng = np.random.default_rng(0)
    y = (rng.random(3_000) < 0.2).repeat(2)[:, None]
    right = rng.random((6_000, 4)) < [0.9, 0.8, 0.7, 0.7]
    votes = np.where(rng.random((6_000, 4)) < 0.8, np.where(right, y, ~y), -1)
    if graph is not None:
        votes = votes.reshape(-1, 2, 4)
    verdict = fs.LabelModel(graph, method="triplet", class_balance=given).fit(votes).diagnostics_.verdict
    assert verdict.kind == kind
    assert ("class balance" in str(verdict)) == (given is None)


def test_a_class_without_votes_does_not_make_sources_look_random():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    votes = np.where(rng.random((500, 5)) < [0.9, 0.8, 0.75, 0.65, 0.5], y[:, None], 1 - y[:, None])
    for n_classes in (2, 3):
        assert fs.LabelModel(n_classes=n_classes).fit(votes).diagnostics_.useless == ("source 4",)


class TestGainOfTheDefault:
    def test_an_untested_gain_may_be_wrong_on_every_item_with_votes(self):
        """Of four items, one label differs from majority vote, and one item without votes has the label 1."""
        votes = fs.Votes.from_classes(
            np.array([[0, 0, 1], [0, 0, 0], [1, 1, 1], [-1, -1, -1]]), classes=(0, 1)
        )
        rows = rows_of(votes, None)
        labels = np.array([[0.1, 0.9], [0.9, 0.1], [0.1, 0.9], [0.1, 0.9]])
        tested, untested = (gain_over_majority(labels, [], rows, is_tested=each) for each in (True, False))
        assert tested.value == untested.value == pytest.approx((0.8 + 0.4) / 4)
        assert tested.interval[0] - untested.interval[0] == pytest.approx((0.8 + 1) / 4)
        assert tested.interval[1] == untested.interval[1]

    @pytest.mark.parametrize("coverage", [0.005, 0.02, 0.1])
    def test_items_that_all_sources_miss_do_not_prove_a_gain(self, coverage):
        """Five rules mark two kinds of spans, two others some of the tokens outside; most are outside."""
        rng = np.random.default_rng(0)
        y = np.where(rng.random(3_000) < 0.1, rng.integers(1, 3, 3_000), 0)
        finds = rng.random((3_000, 5)) < np.where(y > 0, 0.5, 0.01)[:, None]
        spans = np.where(y > 0, y, rng.integers(1, 3, 3_000))
        outside = rng.random((3_000, 2)) < np.where(y > 0, 0.0, coverage)[:, None]
        codes = np.hstack([np.where(finds, spans[:, None], -1), np.where(outside, 0, -1)])
        votes = fs.Votes(codes, (0, 1, 2))
        model = fs.LabelModel().fit(votes)
        assert model.score(votes, y) < fs.MajorityVote().fit(votes).score(votes, y) - 0.1
        verdict = model.diagnostics_.verdict
        assert verdict.kind != "recommended"
        assert verdict.gain_interval[0] < -0.1

    def test_the_test_of_independence_must_accept_what_is_not_discounted(self):
        """Tables explain the average agreement with or without the three pairs of copies."""
        rng = np.random.default_rng(2)
        y = rng.integers(0, 2, 1_000)
        votes = np.where(rng.random((1_000, 12)) < rng.uniform(0.6, 0.85, 12), y[:, None], 1 - y[:, None])
        for j in (1, 2, 3):
            copied = rng.random(1_000) < 0.4
            votes[copied, j] = votes[copied, j - 1]
        votes[rng.random(votes.shape) >= 0.7] = -1
        found = fs.LabelModel().fit(votes).fit_.assessment.found
        assert found.dependence.n_pairs == 3
        undetected = replace(found, dependence=Dependence(np.zeros((12, 12))))
        assert found.gain.interval[0] > 0.005
        assert undetected.gain.interval[0] < 0.005

    def test_gold_labels_that_confirm_the_model_do_not_widen_intervals(self):
        sample = fs.datasets.simulate(2_000, [0.85, 0.75, 0.7, 0.65, 0.6], coverage=0.8, random_state=0)
        gold = np.full(2_000, -1)
        gold[:100] = sample.y[:100]
        without, corrected = (fs.LabelModel().fit(sample.votes, gold=each) for each in (None, gold))
        moved = np.abs(corrected.accuracies_ - without.accuracies_)
        widths = [np.ptp(model.accuracies_interval_, axis=1) for model in (without, corrected)]
        assert (widths[1] <= widths[0] + 2 * moved + 1e-9).all()


def test_the_verdict_on_copies_does_not_name_accuracies():
    copies = np.repeat(np.random.default_rng(0).integers(0, 2, (200, 1)), 5, axis=1)
    verdict = fs.LabelModel().fit(copies).diagnostics_.verdict
    assert verdict.kind == "no better"
    assert "%" not in verdict.text
