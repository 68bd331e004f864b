"""Inference: equal to enumeration, with the prior once, and the same by every code path."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.inference import binary_posterior, vote_shares
from tests.oracle.star import Star


def test_posteriors_equal_enumeration_on_200_random_models():
    rng = np.random.default_rng(0)
    for _ in range(200):
        star = Star.random(rng, int(rng.integers(1, 6)))
        odds = np.log(star.accuracies) - np.log1p(-star.accuracies)
        ours = binary_posterior(
            star.patterns().astype(np.int8), np.array(star.balance), np.column_stack([-odds, odds, 0 * odds])
        )
        np.testing.assert_allclose(ours[:, 0], star.posterior(), atol=1e-12)


def test_posteriors_have_a_task_axis():
    weights = np.zeros((3, 3))
    assert binary_posterior(np.zeros((5, 3), np.int8), np.array([0.5, 0.5]), weights).shape == (5, 1, 2)
    assert vote_shares(np.zeros((5, 3), np.int8), 4).shape == (5, 1, 4)


@pytest.mark.parametrize("n", [5, 20_000])
@pytest.mark.parametrize("m", [1, 4, 40])
def test_dense_tabled_and_sparse_paths_agree(n, m):
    rng = np.random.default_rng(0)
    codes = rng.integers(-4, 2, (n, m), dtype=np.int8)
    prior, weights = np.array([0.3, 0.7]), rng.normal(size=(m, 3))
    expected = np.log(7 / 3) + sum(
        np.where(codes[:, i] >= 0, weights[i, np.maximum(codes[:, i], 0)], weights[i, 2]) for i in range(m)
    )
    expected = 1 / (1 + np.exp(-expected))
    sparse = csr_array(np.where(codes >= 0, codes + 1, np.where(codes < -1, codes, 0)))
    for votes in (codes, sparse):
        np.testing.assert_allclose(binary_posterior(votes, prior, weights)[:, 0, 1], expected, atol=1e-12)


def test_sure_labels_keep_their_small_side():
    sure = binary_posterior(np.ones((1, 1), np.int8), np.array([0.5, 0.5]), np.array([[-60.0, 60.0, 0.0]]))
    assert 0 < sure[0, 0, 0] < 1e-25


def test_hundreds_of_sources_do_not_underflow():
    codes = np.tile(np.array([0, 1], np.int8), 300)[None, :]
    weights = np.tile([-9.0, 9.0, 0.0], (600, 1))
    weights[0] = [-9.0, 9.5, 0.0]
    p = binary_posterior(codes, np.array([0.5, 0.5]), weights)[0, 0]
    np.testing.assert_allclose(p, [0.5, 0.5], atol=1e-12)


def test_vote_shares_count_votes_and_leave_unvoted_items_even():
    codes = np.array([[0, 2, 2], [-1, -3, -1], [1, -1, -1]], np.int8)
    expected = [[1 / 3, 0, 2 / 3], [1 / 3, 1 / 3, 1 / 3], [0, 1, 0]]
    sparse = csr_array(np.where(codes >= 0, codes + 1, np.where(codes < -1, codes, 0)))
    for votes in (codes, sparse):
        np.testing.assert_allclose(vote_shares(votes, 3)[:, 0], expected)


def test_an_item_without_votes_gets_the_prior_exactly():
    sample = fs.datasets.simulate(
        500, [0.9, 0.8, 0.7], coverage=0.6, class_balance=[0.2, 0.8], random_state=0
    )
    model = fs.LabelModel(method="triplet", class_balance=[0.2, 0.8]).fit(sample.votes)
    np.testing.assert_allclose(model.predict_proba([[-1, -1, -1]]), [[0.2, 0.8]], atol=1e-15)
