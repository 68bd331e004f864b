"""Rates from few gold labels: reading of labels and groups, models fitted with gold labels, and results."""

from __future__ import annotations

import json

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import Rates
from flyingsquid.analysis.rates import MIN_GOLD
from flyingsquid.estimation.shares import NORMAL_95, estimate_shares
from flyingsquid.exceptions import NotFittedError, OptionError, VotesError

pd = pytest.importorskip("pandas")

N = 2_000


@pytest.fixture(scope="module")
def sample():
    return fs.datasets.simulate(N, [0.85, 0.8, 0.75, 0.7], class_balance=[0.7, 0.3], random_state=0)


@pytest.fixture(scope="module")
def model(sample):
    return fs.LabelModel(method="triplet").fit(sample.votes)


@pytest.fixture(scope="module")
def gold(sample):
    return known(sample.y, 100)


def known(y, n, seed=0):
    """Return the labels of n random items, and -1 for the others."""
    chosen = np.random.default_rng(seed).choice(len(y), n, replace=False)
    labels = np.full(len(y), -1)
    labels[chosen] = y[chosen]
    return labels


# ---------------------------------------------------------------------- estimates


def test_rates_are_those_of_the_formula(model, sample, gold):
    found = fs.estimate_rate(model, sample.votes, gold)
    posterior, at = model.predict_proba(sample.votes), np.flatnonzero(gold >= 0)
    expected = estimate_shares(
        np.eye(2)[gold[at]], posterior[at], posterior.mean(axis=0), posterior.var(axis=0), N, NORMAL_95
    )
    for k, rate in enumerate(found.rates):
        assert (rate.group, rate.label, rate.n_items, rate.n_gold) == (None, k, N, 100)
        assert (rate.share, rate.low, rate.high) == pytest.approx(
            (expected.share[k], expected.low[k], expected.high[k])
        )
        assert rate.n_effective == pytest.approx(expected.n_effective[k])
        assert rate.gold_share == np.mean(gold[at] == k)
    assert found.rate(1).high - found.rate(1).low < found.rate(1).gold_high - found.rate(1).gold_low
    assert found.concerns == ()


def test_a_model_without_information_leaves_the_proportion():
    votes = fs.Votes(np.full((50, 3), -1, np.int8), (0, 1))
    voted = fs.Votes(np.array([[0, 0, 1], [1, 1, 0]] * 20, np.int8), (0, 1))
    model = fs.MajorityVote().fit(voted)
    gold = np.where(np.arange(50) < 20, np.arange(50) % 4 == 0, -1).astype(int)
    rate = fs.estimate_rate(model, votes, gold).rate(1)
    assert rate.share == pytest.approx(5 / 20)
    assert (rate.low, rate.high) == pytest.approx((rate.gold_low, rate.gold_high))
    assert rate.n_effective == pytest.approx(20)


def test_order_of_items_does_not_matter(model, sample, gold):
    order = np.random.default_rng(1).permutation(N)
    by = np.where(np.arange(N) % 3, "a", "b")
    one = fs.estimate_rate(model, sample.votes, gold, by=by).rates
    other = fs.estimate_rate(model, sample.votes[order], gold[order], by=by[order]).rates
    for a, b in zip(one, other, strict=True):
        assert (a.group, a.label, a.n_gold) == (b.group, b.label, b.n_gold)
        assert (a.share, a.low, a.high) == pytest.approx((b.share, b.low, b.high))


def test_a_group_is_what_its_items_are_alone(model, sample, gold):
    by = np.arange(N) % 3
    found = fs.estimate_rate(model, sample.votes, gold, by=by)
    assert found.groups == (0, 1, 2)
    for group in found.groups:
        members = np.flatnonzero(by == group)
        alone = fs.estimate_rate(model, sample.votes[members], gold[members])
        assert found.rate(1, group).share == pytest.approx(alone.rate(1).share)
        assert found.rate(1, group).low == pytest.approx(alone.rate(1).low)
    assert found.differences == ()
    assert len(found.difference(2, 0)) == 2


def test_difference_of_two_groups(model, sample, gold):
    by = np.where(np.arange(N) % 2, "old", "new")
    found = fs.estimate_rate(model, sample.votes, gold, by=by)
    forward, back = found.difference("new", "old"), found.difference("old", "new")
    assert found.differences == forward
    for one, other in zip(forward, back, strict=True):
        expected = found.rate(one.label, "new").share - found.rate(one.label, "old").share
        assert one.difference == pytest.approx(expected)
        assert (one.low, one.high) == pytest.approx((-other.high, -other.low))
        assert one.low < one.difference < one.high
    assert forward[0].sentence() in str(found) or forward[1].sentence() in str(found)


@pytest.mark.parametrize("kind", [fs.MajorityVote, fs.OnlineLabelModel])
def test_other_models(kind, sample, gold):
    model = kind()
    model.partial_fit(sample.votes) if kind is fs.MajorityVote else model.update(sample.votes)
    rate = fs.estimate_rate(model, sample.votes, gold).rate(1)
    assert rate.low < np.mean(sample.y) < rate.high
    assert rate.n_effective > 120


def test_many_classes_and_a_class_nobody_votes_for():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    votes = np.where(rng.random((600, 4)) < 0.7, np.minimum(y, 1)[:, None], rng.integers(0, 2, (600, 4)))
    model = fs.LabelModel(n_classes=3).fit(votes)
    found = fs.estimate_rate(model, votes, known(y, 90))
    assert sum(rate.share for rate in found.rates) == pytest.approx(1)
    assert found.rate(2).low < 1 / 3 < found.rate(2).high


def test_coverage_on_repeated_samples(model, sample):
    truth = np.mean(sample.y)
    rates = [fs.estimate_rate(model, sample.votes, known(sample.y, 60, seed)).rate(1) for seed in range(300)]
    assert np.mean([rate.low <= truth <= rate.high for rate in rates]) >= 0.93


def test_wider_confidence_is_wider(model, sample, gold):
    wide, narrow = (
        fs.estimate_rate(model, sample.votes, gold, confidence=level).rate(1) for level in (0.99, 0.8)
    )
    assert wide.low < narrow.low < narrow.high < wide.high


# ---------------------------------------------------------------------- results


def test_results_print_and_convert_to_json(model, sample, gold):
    found = fs.estimate_rate(model, sample.votes, gold, by=np.arange(N) % 2)
    assert str(found) == repr(found)
    assert str(found).splitlines()[0].split() == [
        "group", "class", "share", "low", "high", "gold", "n_eff", "items",
    ]  # fmt: skip
    read = json.loads(json.dumps(found.to_dict()))
    assert read["rates"][1]["share"] == found.rates[1].share
    assert read["differences"][0]["first"] == 0
    assert "<table>" in found._repr_html_()
    assert "group" not in str(fs.estimate_rate(model, sample.votes, gold)).splitlines()[0]


def test_unknown_names_are_refused(model, sample, gold):
    found = fs.estimate_rate(model, sample.votes, gold)
    assert isinstance(found, Rates)
    with pytest.raises(OptionError, match="`label`"):
        found.rate("spam")
    with pytest.raises(OptionError, match="`group`"):
        found.rate(1, "new")


# ---------------------------------------------------------------------- identifiers


def test_labels_and_groups_are_joined_by_identifier(sample, gold):
    ids = [f"q{i}" for i in range(N)]
    frame = pd.DataFrame(np.asarray(sample.votes.codes), index=ids, columns=list("abcd"))
    model = fs.LabelModel(method="triplet").fit(frame)
    by = np.where(np.arange(N) % 2, "old", "new")
    expected = fs.estimate_rate(model, frame, gold, by=by).rates
    few = {ids[i]: int(gold[i]) for i in np.flatnonzero(gold >= 0)[::-1]}
    groups = pd.Series(by, index=ids).sample(frac=1, random_state=0)
    assert fs.estimate_rate(model, frame, few, by=groups).rates == expected
    assert fs.estimate_rate(model, frame, pd.Series(few), by=dict(groups)).rates == expected


def test_items_of_long_votes_are_identifiers(sample, gold):
    codes = np.asarray(sample.votes.codes)
    item, source = (part.ravel() for part in np.indices(codes.shape))
    votes = fs.Votes.from_long(item + 1_000, source, codes.ravel(), classes=[0, 1])
    model = fs.LabelModel(method="triplet").fit(votes)
    few = {int(i) + 1_000: int(gold[i]) for i in np.flatnonzero(gold >= 0)}
    assert fs.estimate_rate(model, votes, few).rates == fs.estimate_rate(model, votes, gold).rates


def test_numbered_series_are_by_position(model, sample, gold):
    expected = fs.estimate_rate(model, sample.votes, gold).rates
    assert fs.estimate_rate(model, sample.votes, pd.Series(gold)).rates == expected
    missing = pd.Series(gold, dtype="Int64").mask(gold < 0)
    assert fs.estimate_rate(model, sample.votes, missing).rates == expected


def test_polars_series_are_by_position(model, sample, gold):
    pl = pytest.importorskip("polars")
    expected = fs.estimate_rate(model, sample.votes, gold).rates
    labels = pl.Series([None if label < 0 else int(label) for label in gold])
    assert fs.estimate_rate(model, sample.votes, labels).rates == expected


def test_identifiers_that_cannot_be_joined_are_refused(model, sample, gold):
    frame = pd.DataFrame(np.asarray(sample.votes.codes)[:100], index=[f"q{i}" for i in range(100)])
    few = {f"q{i}": i % 2 for i in range(20)}
    twice = pd.Series(list(few.values()) * 2, index=list(few) * 2)
    for labels in (few | {"other": 1}, twice, {i: i % 2 for i in range(20)}):
        with pytest.raises(VotesError) as raised:
            fs.estimate_rate(model, frame, labels)
        assert raised.value.parameter == "gold"
    with pytest.raises(VotesError, match="`votes`"):
        fs.estimate_rate(model, frame.rename(index={"q1": "q0"}), few)
    with pytest.raises(VotesError, match="identifiers"):
        fs.estimate_rate(model, sample.votes, few)
    with pytest.raises(VotesError, match="identifiers"):
        fs.estimate_rate(model, sample.votes, pd.Series(gold, index=np.arange(N) + 1))


# ---------------------------------------------------------------------- bad input


def test_too_few_gold_labels_are_refused(model, sample):
    for labels in (known(sample.y, MIN_GOLD - 1), np.full(N, -1), None):
        with pytest.raises((VotesError, OptionError), match="`gold`"):
            fs.estimate_rate(model, sample.votes, labels)
    assert fs.estimate_rate(model, sample.votes, known(sample.y, MIN_GOLD)).rate(1).low >= 0


def test_labels_of_other_classes_or_lengths_are_refused(model, sample, gold):
    with pytest.raises(VotesError, match="gold"):
        fs.estimate_rate(model, sample.votes, np.where(gold == 1, 7, gold))
    with pytest.raises(VotesError, match="gold"):
        fs.estimate_rate(model, sample.votes, gold[:-1])


@pytest.mark.parametrize("model", [None, fs.LabelModel, fs.LabelModel(), "triplet"], ids=str)
def test_other_values_than_fitted_models_are_refused(model, sample, gold):
    with pytest.raises((OptionError, NotFittedError)):
        fs.estimate_rate(model, sample.votes, gold)


def test_one_class_only(model, sample, gold):
    rate = fs.estimate_rate(model, sample.votes, np.where(gold == 1, 0, gold)).rate(1)
    assert rate.share == 0
    assert 0 < rate.high < 0.1


def test_groups_without_gold_labels_have_no_estimate(model, sample, gold):
    by = np.where(gold >= 0, "labeled", "unlabeled")
    found = fs.estimate_rate(model, sample.votes, gold, by=by)
    assert found.rate(1, "unlabeled").share is None
    assert found.rate(1, "labeled").share == pytest.approx(np.mean(gold[gold >= 0]))
    assert any("unlabeled" in concern for concern in found.concerns)
    assert found.differences == ()
    with pytest.raises(OptionError, match="unlabeled"):
        found.difference("labeled", "unlabeled")
    with pytest.raises(VotesError, match="`gold`"):
        fs.estimate_rate(model, sample.votes, known(sample.y, 10), by=np.arange(N))


@pytest.mark.parametrize(
    "by", ["system", ["a"] * (N - 1), [None] * N, [["a"]] * N, {"a": 1}], ids=lambda by: str(by)[:12]
)
def test_bad_groups_are_refused(model, sample, gold, by):
    with pytest.raises((OptionError, VotesError), match="`by`"):
        fs.estimate_rate(model, sample.votes, gold, by=by)


@pytest.mark.parametrize("confidence", [0, 0.3, 1, 95, "high", None, True])
def test_bad_confidence_is_refused(model, sample, gold, confidence):
    with pytest.raises(OptionError, match="`confidence`"):
        fs.estimate_rate(model, sample.votes, gold, confidence=confidence)


def test_biased_samples_are_reported(model, sample):
    confidence = model.predict_proba(sample.votes).max(axis=1)
    unsure = np.full(N, -1)
    unsure[np.argsort(confidence)[:100]] = 0
    assert fs.estimate_rate(model, sample.votes, unsure).concerns
    positive = np.where(np.asarray(sample.y) == 1, 1, -1)
    assert fs.estimate_rate(model, sample.votes, positive).concerns


def test_random_samples_are_rarely_reported(model, sample):
    found = [fs.estimate_rate(model, sample.votes, known(sample.y, 50, seed)) for seed in range(300)]
    assert sum(bool(each.concerns) for each in found) <= 3


# ---------------------------------------------------------------------- models fitted with gold labels


def test_models_fitted_with_gold_labels_are_refused(sample, gold):
    for method in ("auto", "triplet"):
        model = fs.LabelModel(method=method).fit(sample.votes, gold=gold)
        assert model.n_gold_ == 100
        with pytest.raises(OptionError) as raised:
            fs.estimate_rate(model, sample.votes, gold)
        assert {hint.value for hint in raised.value.hints} == {0, 5}


def test_cross_fitting_compares_with_labels_that_were_left_out(sample):
    """Two items of the same votes get the same probabilities, unless one of them was left out."""
    gold = known(sample.y, 60)
    model = fs.LabelModel(method="triplet").fit(sample.votes, gold=gold)
    crossed = fs.estimate_rate(model, sample.votes, gold, cross_fit=5).rate(1)
    reused = fs.estimate_rate(model, sample.votes, gold, cross_fit=0).rate(1)
    assert crossed.share != reused.share
    assert crossed.low < np.mean(sample.y) < crossed.high
    fresh = fs.LabelModel(method="triplet").fit(sample.votes)
    assert fs.estimate_rate(fresh, sample.votes, gold, cross_fit=5).rate(1) == crossed


@pytest.mark.slow
def test_cross_fitting_covers(sample):
    truth, held = np.mean(sample.y[:500]), []
    votes = sample.votes[:500]
    for seed in range(100):
        gold = known(sample.y[:500], 50, seed)
        model = fs.LabelModel(method="triplet").fit(votes, gold=gold)
        rate = fs.estimate_rate(model, votes, gold, cross_fit=5).rate(1)
        held.append(rate.low <= truth <= rate.high)
    assert np.mean(held) >= 0.9


@pytest.mark.parametrize("cross_fit", [1, -1, 2.5, True, "5"])
def test_bad_cross_fit_is_refused(model, sample, gold, cross_fit):
    with pytest.raises(OptionError, match="`cross_fit`"):
        fs.estimate_rate(model, sample.votes, gold, cross_fit=cross_fit)


def test_models_without_gold_labels_cannot_be_cross_fitted(sample, gold):
    model = fs.MajorityVote().fit(sample.votes)
    with pytest.raises(OptionError, match="`cross_fit`"):
        fs.estimate_rate(model, sample.votes, gold, cross_fit=5)


def test_one_of_several_tasks():
    graph = fs.DependencyGraph.chain(3, 4)
    sample = fs.datasets.simulate_graph(800, graph, [0.85] * 12, random_state=0)
    model = fs.LabelModel(graph).fit(sample.votes)
    gold = np.full((800, 3), -1)
    gold[:100] = sample.y[:100]
    for task in range(3):
        rate = fs.estimate_rate(model, sample.votes, gold, task=task).rate(1)
        assert rate.low < np.mean(sample.y[:, task]) < rate.high
    with pytest.raises(OptionError, match="`task`"):
        fs.estimate_rate(model, sample.votes, gold)
    with pytest.raises(OptionError, match="`cross_fit`"):
        fs.estimate_rate(model, sample.votes, gold, task=0, cross_fit=3)
