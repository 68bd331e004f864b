"""Class balance of many classes from votes: accurate within its error, and not used if that is large."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.agreement import EMVotes
from flyingsquid.estimation.confusion import estimate_many_balance
from flyingsquid.exceptions import OptionError
from tests.models.test_gold import some_known
from tests.oracle.many import ManyStar, crowd

LOPSIDED = np.array([0.5, 0.3, 0.15, 0.05])


def star_of(kind: str) -> ManyStar:
    rng = np.random.default_rng(3)
    if kind == "any":
        return ManyStar.random(rng, 6, 4)
    sources, right, coverage = {"crowd": (8, 0.65, 0.6), "sparse": (60, 0.7, 0.06)}[kind]
    return ManyStar(crowd(rng, sources, 4, right=right, coverage=coverage).confusion, LOPSIDED)


def votes_of(codes: np.ndarray) -> fs.Votes:
    return fs.Votes(codes, (0, 1, 2, 3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "n"),
    [
        ("any", 1_000),
        ("crowd", 1_000),
        ("sparse", 1_000),
    ],
)
def test_estimates_are_near_the_truth_by_their_own_error(kind, n):
    star, distances = star_of(kind), []
    for seed in range(20):
        votes = votes_of(star.sample(n, np.random.default_rng(seed))[0])
        balance, errors = estimate_many_balance(fs.Moments.of(votes), EMVotes(votes), None)
        assert errors.max() < 0.075
        assert balance.sum() == pytest.approx(1)
        distances.append(np.abs(balance - star.balance) / errors)
    assert 0.88 <= np.mean(np.array(distances) <= 1.96) <= 0.999
    assert np.mean(np.array(distances) <= 3) > 0.97


def test_votes_are_not_more_informative_than_gold_labels():
    y = np.arange(400) // 10 % 4
    votes = votes_of(np.repeat(y[:, None], 5, axis=1))
    balance, errors = estimate_many_balance(fs.Moments.of(votes), EMVotes(votes), None)
    np.testing.assert_allclose(balance, 0.25, atol=0.01)
    least = np.sqrt(balance * (1 - balance) / 400)
    assert (errors >= least).all()
    np.testing.assert_allclose(np.sort(errors / least)[:3], 1)  # parts of the items differ by chance


@pytest.mark.slow
@pytest.mark.parametrize("method", ["agreement", "em", "decomposition"])
def test_the_model_uses_it_and_says_so(method):
    rng = np.random.default_rng(0)
    star = ManyStar(star_of("any").confusion, LOPSIDED)
    codes, y = star.sample(3_000, rng)
    model = fs.LabelModel(method=method, class_balance="estimate").fit(votes_of(codes))
    np.testing.assert_allclose(model.class_balance_, LOPSIDED, atol=0.06)
    assert "estimated from votes: 0 0." in model.diagnostics_.class_balance
    assert "±" in model.diagnostics_.class_balance
    known = fs.LabelModel(method=method, class_balance="estimate").fit(
        votes_of(codes), gold=some_known(y, 100, rng)
    )
    assert "estimated from votes and gold labels" in known.diagnostics_.class_balance
    np.testing.assert_allclose(known.class_balance_, LOPSIDED, atol=0.06)
    if method != "decomposition":  # refused without some group of items, where one class has few
        assert np.isfinite(model.accuracies_interval_).all()


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_balance_that_votes_leave_open_stays_even():
    rng = np.random.default_rng(0)
    weak = ManyStar(crowd(rng, 5, 3, right=0.4, coverage=0.6).confusion, np.array([0.6, 0.3, 0.1]))
    model = fs.LabelModel(method="agreement", class_balance="estimate").fit(weak.sample(300, rng)[0])
    np.testing.assert_allclose(model.class_balance_, 1 / 3)
    assert "uniform, because the votes do not determine it (P ± " in model.diagnostics_.class_balance


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_two_votes_an_item_determine_no_balance():
    rng = np.random.default_rng(0)
    codes, _ = star_of("crowd").sample(4_000, rng)
    for row in codes:
        row[rng.permutation(np.flatnonzero(row >= 0))[2:]] = -1
    model = fs.LabelModel(method="agreement", class_balance="estimate").fit(votes_of(codes))
    np.testing.assert_allclose(model.class_balance_, 0.25)
    assert "do not determine it" in model.diagnostics_.class_balance


def test_counts_alone_determine_no_balance():
    codes, _ = star_of("any").sample(300, np.random.default_rng(0))
    with pytest.raises(OptionError, match="needs the votes themselves"):
        fs.LabelModel(method="agreement", class_balance="estimate").fit_moments(fs.Moments.of(codes))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_labels_gain_from_the_balance():
    rng = np.random.default_rng(0)
    star = ManyStar(crowd(rng, 6, 4, right=0.5, coverage=0.7).confusion, np.array([0.7, 0.2, 0.05, 0.05]))
    codes, y = star.sample(6_000, rng)
    votes = votes_of(codes)
    even, estimated = (
        fs.LabelModel(method="agreement", class_balance=balance).fit(votes).score(votes, y)
        for balance in (None, "estimate")
    )
    assert estimated > even + 0.05
