"""Intervals of accuracies for many classes: coverage, and computation on demand."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.standard_errors import group_errors
from tests.oracle.many import ManyStar, crowd


def drawn(n: int = 400) -> fs.Votes:
    rng = np.random.default_rng(0)
    return fs.Votes(ManyStar.random(rng, 5, 3).sample(n, rng)[0], (0, 1, 2))


def test_groups_give_the_error_of_a_mean():
    values = np.random.default_rng(0).normal(size=(5_000, 200))
    errors = group_errors(lambda rows: values[rows].mean(axis=0), 5_000)
    # Ten groups widen by Student's t, 2.26 for 1.96.
    assert np.mean(errors) == pytest.approx(1 / np.sqrt(5_000) * 2.262 / 1.96, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "method", "n", "options", "n_known"),
    [
        ("any", "agreement", 1_000, {}, 0),
        ("crowd", "agreement", 1_000, {}, 0),
        ("crowd", "agreement", 1_000, {}, 100),
        ("any", "em", 1_000, {}, 0),
        ("crowd", "em", 1_000, {"class_balance": "uniform"}, 0),
        ("any", "decomposition", 2_000, {}, 0),
        ("any", "one_vs_rest", 1_000, {}, 0),
    ],
)
def test_intervals_cover_what_the_method_finds(kind, method, n, options, n_known):
    rng = np.random.default_rng(0)
    star = ManyStar.random(rng, 6, 4) if kind == "any" else crowd(rng, 8, 3, right=0.65, coverage=0.6)
    found, intervals = [], []
    for _ in range(40):
        codes, y = star.sample(n, rng)
        gold = np.where(np.arange(n) < n_known, y, -1)
        model = fs.LabelModel(method=method, **options).fit(
            fs.Votes(codes, tuple(range(star.n_classes))), gold=gold
        )
        found.append(model.accuracies_)
        intervals.append(model.accuracies_interval_)
    center, ends = np.mean(found, axis=0), np.array(intervals)
    inside = (ends[:, :, 0] <= center) & (center <= ends[:, :, 1])
    computed = np.isfinite(ends).all(axis=2)
    assert computed.mean() > 0.8
    assert 0.88 <= inside[computed].mean() <= 0.995


@pytest.mark.slow
def test_a_consistent_method_covers_the_truth():
    rng, inside = np.random.default_rng(0), []
    star = crowd(rng, 8, 3, right=0.75, coverage=0.8)
    truth = np.einsum("k,mkk->m", star.balance, star.confusion[:, :, :3]) / 0.8
    for _ in range(25):
        codes, _ = star.sample(1_500, rng)
        low, high = fs.LabelModel(method="em").fit(codes).accuracies_interval_.T
        inside.append((low <= truth) & (truth <= high))
    assert np.mean(inside) > 0.88


def test_they_come_when_asked_and_from_votes_only(tmp_path):
    votes = drawn()
    model = fs.LabelModel(method="agreement").fit(votes)
    ends = model.accuracies_interval_
    assert (ends[:, 0] < model.accuracies_).all()
    assert (ends[:, 1] > model.accuracies_).all()
    assert model.accuracies_interval_ is ends
    model.save(tmp_path / "m.fsq")
    np.testing.assert_array_equal(fs.load(tmp_path / "m.fsq").accuracies_interval_, ends)
    copy = pickle.loads(pickle.dumps(fs.LabelModel(method="agreement").fit(votes)))
    assert not hasattr(copy.fit_.assessment, "over")  # votes do not travel
    np.testing.assert_array_equal(copy.accuracies_interval_, ends)
    assert np.isnan(
        fs.LabelModel(method="agreement").fit_moments(fs.Moments.of(votes)).accuracies_interval_
    ).all()
    assert np.isnan(model.partial_fit(votes).accuracies_interval_).all()


def test_more_items_are_surer():
    short, long = (
        np.diff(fs.LabelModel(method="agreement").fit(drawn(n)).accuracies_interval_) for n in (400, 6_400)
    )
    # The width falls by √16; ten groups determine each width to about a quarter.
    assert 2 < np.mean(short) / np.mean(long) < 8


def test_a_single_vote_has_no_interval():
    codes = np.array(drawn().codes)
    codes[:, 4] = -1
    codes[0, 4] = 0
    for method in ("agreement", "em"):
        ends = fs.LabelModel(method=method).fit(codes).accuracies_interval_
        assert np.isnan(ends[4]).all()
        assert np.isfinite(ends[:4]).all()
