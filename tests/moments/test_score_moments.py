"""Sums of scores: they describe all scores, and those of parts add up to those of the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyingsquid.exceptions import IncompatibleError, ModelFileError
from flyingsquid.files.state import State
from flyingsquid.moments.scores import ScoreMoments

cells = st.one_of(st.just(np.nan), st.integers(-50, 50).map(float))
tables = st.integers(1, 12).flatmap(lambda n: arrays(np.float64, (n, 3, 2), elements=cells))
FIELDS = (
    "pairs",
    "sums",
    "products",
    "squares",
    "cubes",
    "fourths",
    "repeat_squares",
    "repeat_freedom",
    "inverse_repeats",
)


@given(tables, tables)
def test_parts_add_up_to_the_whole(a, b):
    whole = ScoreMoments.of(np.concatenate([a, b]))
    parts = (ScoreMoments.of(a) + ScoreMoments.of(b)).recentered(whole.center)
    assert parts.n_items == whole.n_items
    for name in FIELDS:
        atol = 1e-5 if name in ("cubes", "fourths") else 1e-8  # sums of up to 1e9 cancel
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=atol, err_msg=name)


def test_covariances_are_those_of_numpy():
    scores = np.random.default_rng(0).normal(size=(50, 3))
    moments = ScoreMoments.of(scores[:, :, None])
    np.testing.assert_allclose(moments.covariances(), np.cov(scores.T, ddof=0), atol=1e-14)
    np.testing.assert_allclose(moments.means(), scores.mean(axis=0))


def test_fourth_cumulants_are_those_of_the_definition():
    scores = 5 + np.random.default_rng(0).standard_t(5, size=(50, 3))
    d = scores - scores.mean(axis=0)
    second = d.T @ d / 50
    fourth = (d**2).T @ d**2 / 50 - np.outer(np.diag(second), np.diag(second)) - 2 * second**2
    halves = ScoreMoments.of(scores[:20, :, None]) + ScoreMoments.of(scores[20:, :, None])
    np.testing.assert_allclose(halves.fourth_cumulants(), fourth, atol=1e-12)


def test_covariances_of_missing_scores_are_over_common_items():
    scores = np.random.default_rng(0).normal(size=(60, 2))
    scores[:20, 0] = scores[50:, 1] = np.nan
    both = scores[20:50]
    covariance = ScoreMoments.of(scores[:, :, None]).covariances()[0, 1]
    assert covariance == pytest.approx(np.cov(both.T, ddof=0)[0, 1])


def test_scores_far_from_zero_lose_no_digits():
    scores = np.random.default_rng(0).normal(size=(100, 3))
    near, far = (ScoreMoments.of(each[:, :, None]) for each in (scores, scores + 1e9))
    np.testing.assert_allclose(far.covariances(), near.covariances(), rtol=1e-5)
    merged = ScoreMoments.of(scores[:50, :, None] + 1e9) + ScoreMoments.of(scores[50:, :, None] + 1e9)
    np.testing.assert_allclose(merged.covariances(), near.covariances(), rtol=1e-5)


def test_repeats_are_averaged_and_their_variance_is_counted():
    scores = np.array([[[1.0, 3.0, np.nan]], [[5.0, np.nan, np.nan]], [[np.nan] * 3]])
    moments = ScoreMoments.of(scores)
    assert moments.means()[0] == pytest.approx(3.5)
    assert moments.repeat_variances()[0] == pytest.approx(2.0)
    assert moments.inverse_repeats[0] == pytest.approx(1.5)
    assert moments.counts.tolist() == [2]


def test_sums_of_other_sources_are_refused():
    with pytest.raises(IncompatibleError):
        ScoreMoments.of(np.zeros((2, 2, 1))) + ScoreMoments.of(np.zeros((2, 3, 1)))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pairs", np.array([[1, 2], [3, 4]])),
        ("pairs", np.full((2, 2), -1)),
        ("pairs", np.full((2, 2), 99)),
        ("sums", np.full((2, 2), np.nan)),
        ("products", np.zeros((2, 3))),
        ("repeat_squares", np.array([-1.0, 0.0])),
        ("center", np.zeros(2, np.float32)),
    ],
)
def test_damaged_sums_are_refused(name, value):
    state = ScoreMoments.of(np.ones((4, 2, 1))).to_state()
    damaged = State(state.kind, state.meta, state.arrays | {name: value})
    with pytest.raises(ModelFileError):
        ScoreMoments.from_state(damaged)
