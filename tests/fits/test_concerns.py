"""Warnings about a fit as a whole: they appear when they should, and not on clean votes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.fits.summary import concerns_about
from flyingsquid.moments import ConfusionTables


def concerns(votes, **options):
    gold = options.pop("gold", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fs.LabelModel(**options).fit(votes, gold=gold).fit_.concerns


@pytest.mark.slow
def test_clean_votes_raise_no_alarm():
    """300 draws with 3 to 11 sources, any class balance and coverage: at most 1% false alarms."""
    rng, found = np.random.default_rng(0), []
    for seed in range(300):
        accuracies = rng.uniform(0.55, 0.95, rng.integers(3, 12))
        share, n, coverage = (
            rng.uniform(0.05, 0.95),
            rng.choice([100, 300, 1_000]),
            rng.choice([0.3, 0.6, 1.0]),
        )
        sample = fs.datasets.simulate(
            int(n), accuracies, coverage=coverage, class_balance=[1 - share, share], random_state=seed
        )
        found.append(concerns(sample.votes))
    assert np.mean([bool(each) for each in found]) <= 0.01


@pytest.mark.parametrize(
    ("accuracies", "words"), [([0.85], "Only one source"), ([0.85, 0.7], "Only two sources")]
)
def test_one_and_two_sources_do_not_determine_accuracies(accuracies, words):
    sample = fs.datasets.simulate(500, accuracies, random_state=0)
    assert any(words in text for text in concerns(sample.votes))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fs.LabelModel().fit(sample.votes)
    assert "%" not in str(model.diagnostics_.verdict)
    # A silent source does not help, and gold labels do.
    silent = np.column_stack([sample.votes.codes, np.full(500, -1)])
    assert any(words in text for text in concerns(fs.Votes.from_classes(silent, classes=(0, 1))))
    assert not any(words in text for text in concerns(sample.votes, gold=sample.y))


def test_three_sources_are_enough():
    sample = fs.datasets.simulate(2_000, [0.85, 0.8, 0.75], random_state=0)
    assert concerns(sample.votes) == ()


def test_a_class_balance_that_contradicts_the_votes_is_reported():
    sample = fs.datasets.simulate(2_000, [0.9, 0.85, 0.8], class_balance=[0.85, 0.15], random_state=0)
    found = concerns(sample.votes, class_balance=[0.1, 0.9])
    assert any("contradicts" in text and "`class_balance`" in text for text in found)
    assert not any("contradicts" in text for text in concerns(sample.votes, class_balance=[0.85, 0.15]))


def test_labels_that_depend_on_a_uniform_balance_are_reported():
    sample = fs.datasets.simulate(3_000, [0.75, 0.7, 0.65], class_balance=[0.8, 0.2], random_state=0)
    found = concerns(sample.votes, method="covariance", class_balance="uniform")
    assert any("depend on the class balance" in text for text in found)
    even = fs.datasets.simulate(3_000, [0.75, 0.7, 0.65], random_state=0)
    assert not any("depend on" in text for text in concerns(even.votes, method="covariance"))


def test_votes_of_sources_below_chance_are_reported():
    sample = fs.datasets.simulate(2_000, [0.2, 0.25, 0.3, 0.8], random_state=0)
    signs = {0: -1, 1: -1, 2: -1}
    found = concerns(sample.votes, method="triplet", signs=signs)
    assert any("worse than chance" in text for text in found)


def test_all_items_of_one_class_are_reported():
    rng = np.random.default_rng(0)
    votes = fs.Votes.from_classes((rng.random((500, 4)) < 0.02).astype(int), classes=(0, 1))
    assert any("0" in text for text in concerns(votes))
    assert concerns(votes)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_votes_that_do_not_determine_the_class_balance_have_its_full_interval():
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.8], coverage=0.5, random_state=0)
    codes = np.asarray(sample.votes.codes)
    for votes in (codes[:, :1], codes[:, :2], np.where(codes == 1, 1, -1)):
        interval = fs.LabelModel().fit(fs.Votes(votes, (0, 1))).class_balance_interval_
        np.testing.assert_array_equal(interval, [[0.0, 1.0], [0.0, 1.0]])
    assert (fs.LabelModel().fit(codes).class_balance_interval_[:, 0] > 0).all()


# ---------------------------------------------------------------------- thresholds


def even_fit(votes, balance=(0.5, 0.5), **changed):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = fs.LabelModel().fit(votes).fit_
    return replace(fit, class_balance=np.array([balance]), uses_gold=False, findings=None, **changed)


def said(fit, votes, given=True):
    read = fs.Votes.from_classes(votes, classes=(0, 1))
    return " ".join(concerns_about(fit, fs.Moments.of(read), read if given else None))


def simulated(n=400, share=0.5):
    return np.asarray(
        fs.datasets.simulate(
            n, [0.9, 0.85, 0.8, 0.8], class_balance=[1 - share, share], random_state=0
        ).votes.codes
    )


@pytest.mark.parametrize(("p", "is_reported"), [(0.61, True), (0.59, False)])
def test_a_balance_contradicts_votes_if_both_differ_by_a_fifth(p, is_reported):
    votes = simulated(share=0.15)  # most votes are for class 0
    found = said(even_fit(votes, (1 - p, p)), votes)
    assert ("contradicts the votes" in found) == is_reported


def test_a_balance_does_not_contradict_votes_that_are_nearly_even():
    votes = simulated()
    assert "contradicts" not in said(even_fit(votes, (0.9, 0.1)), votes)
    assert "contradicts" not in said(even_fit(votes, (0.1, 0.9)), votes)


@pytest.mark.parametrize(("n", "is_reported"), [(19, False), (20, True)])
def test_twenty_items_are_needed_for_any_concern(n, is_reported):
    votes = np.zeros((n, 1), np.int8)
    votes[::2] = 1
    assert ("Only one source" in said(even_fit(votes), votes)) == is_reported


@pytest.mark.parametrize(("n_below", "is_reported"), [(2, False), (3, True)])
def test_most_votes_below_chance_are_reported(n_below, is_reported):
    votes = simulated()
    right = np.where(np.arange(4) < n_below, 0.2, 0.9)
    tables = np.zeros((4, 2, 3))
    for k in range(2):
        tables[:, k, k], tables[:, k, 1 - k] = right, 1 - right
    fit = even_fit(votes, confusion=ConfusionTables.of(tables))
    assert ("worse than chance" in said(fit, votes)) == is_reported
    near = ConfusionTables.of(np.full((4, 2, 3), [0.5, 0.5, 0.0]))
    assert "worse than chance" not in said(even_fit(votes, confusion=near), votes)
    with_gold = replace(fit, uses_gold=True)
    assert "worse than chance" not in said(with_gold, votes)


def test_labels_depend_on_a_uniform_balance_if_a_tenth_would_change():
    votes = simulated(share=0.1)
    fit = even_fit(votes)
    posterior = fit.posterior(votes)[:, 0]
    shares = np.array([(votes == k).sum() for k in (0, 1)]) / (votes >= 0).sum()
    changed = np.mean((posterior * shares / 0.5).argmax(axis=1) != posterior.argmax(axis=1))
    assert ("depend on the class balance" in said(fit, votes)) == (changed >= 0.1)
    assert "depend on the class balance" not in said(fit, votes, given=False)
    assert "depend on the class balance" not in said(even_fit(votes, (0.51, 0.49)), votes)
    # A vote more or less decides on every second item: with the shares of the votes, all of them change.
    tied = np.zeros((200, 2), np.int8)
    tied[::2, 1] = 1
    unsure = even_fit(tied, mixture=replace(even_fit(tied).mixture, weights=np.array([[1, 1], [1, 1.01]])))
    assert "50% of the labels" in said(unsure, tied)


@pytest.mark.parametrize(("n_more", "is_reported"), [(20, False), (40, True)])
def test_labels_do_not_depend_on_a_balance_that_the_votes_do_not_contradict(n_more, is_reported):
    votes = np.zeros((200, 2), np.int8)
    votes[::2, 1] = 1  # the two sources disagree on every second item
    votes[1::4] = 1
    votes[:n_more] = 1  # 55 or 60% of the votes; 57% would be significant for 200 items
    assert ("depend on the class balance" in said(even_fit(votes), votes)) == is_reported
