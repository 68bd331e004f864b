"""A grid of all possible rows gives the sums of the rows themselves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import expit

from flyingsquid.votes.codes import OneHot
from flyingsquid.votes.grid import CountedRows, pattern_grid
from flyingsquid.votes.patterns import all_patterns


@pytest.mark.parametrize(("m", "n_classes"), [(1, 2), (2, 3), (5, 2), (4, 3)])
def test_sums_are_those_of_the_rows(m, n_classes):
    grid, rows = pattern_grid(m, n_classes), OneHot.of(all_patterns(m, n_classes), n_classes)
    rng = np.random.default_rng(m)
    one, several = rng.normal(size=rows.n_items), rng.normal(size=(rows.n_items, 3))
    weights, by_class = rng.normal(size=(n_classes * m, 2)), rng.normal(size=(m, n_classes))
    assert grid.n_items == rows.n_items
    np.testing.assert_array_equal(grid.n_votes, rows.n_votes)
    np.testing.assert_array_equal(grid.totals, rows.totals)
    np.testing.assert_allclose(grid @ weights, rows @ weights, atol=1e-12)
    np.testing.assert_allclose(grid @ weights[:, 0], rows @ weights[:, 0], atol=1e-12)
    np.testing.assert_allclose(grid.class_sums(by_class), rows.class_sums(by_class), atol=1e-12)
    for scale in (1.0, 300.0):  # also beyond the largest exponential
        odds = scale * rng.normal(size=n_classes * m)
        found, expected = (cast.share_of_second(odds, 0.3, np.abs(one)) for cast in (grid, rows))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-100)
        np.testing.assert_allclose(found, np.abs(one) * expit(-(rows @ odds + 0.3)), rtol=1e-9, atol=1e-100)
        found, expected = (cast.binary_posterior(odds, 0.3) for cast in (grid, rows))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-100)
        np.testing.assert_allclose(found[:, 1], expit(rows @ odds + 0.3), rtol=1e-9, atol=1e-100)
    np.testing.assert_allclose(grid.vote_sums(one), rows.vote_sums(one), atol=1e-12)
    np.testing.assert_allclose(grid.vote_sums(several), rows.vote_sums(several), atol=1e-12)
    pairs = np.triu_indices(m, 1)
    np.testing.assert_allclose(
        [*grid.co_votes(several, *pairs)], [*rows.co_votes(several, *pairs)], atol=1e-12
    )
    np.testing.assert_array_equal(grid[1:].matrix.toarray(), rows.matrix[1:].toarray())


@pytest.mark.parametrize("weighted", [False, True])
def test_every_item_is_counted_once(weighted):
    rng = np.random.default_rng(0)
    codes = rng.integers(-2, 2, (400, 3)).astype(np.int8)  # -2 is a reason for a missing vote
    weights = rng.integers(0, 5, 400) if weighted else None
    counted = CountedRows.of(codes, 2, weights)
    grid, counts = counted.grid, counted.counts
    times = np.ones(400) if weights is None else weights
    assert counts.sum() == times.sum()
    np.testing.assert_array_equal(
        grid.vote_sums(counts), OneHot.of(np.maximum(codes, -1), 2).vote_sums(times)
    )


def test_a_grid_that_would_not_be_faster_is_left_out():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (1_000, 6)).astype(np.int8)
    assert not CountedRows.of(codes, 2, None).are_dense  # all sources vote, so few of the rows occur
    assert CountedRows.of(codes[:100], 2, None) is None
    assert CountedRows.of(np.tile(codes, (1, 20)), 2, None) is None
    assert CountedRows.of(csr_array(codes + 1), 2, None) is None
    assert CountedRows.of(np.arange(2_000)[:, None], 2_000, None) is None  # too many classes


def test_dense_products_give_the_same_sums():
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((5_000, 8)) < 0.8, rng.integers(0, 2, (5_000, 8)), -1).astype(np.int8)
    once, repeated = (OneHot.of(codes, 2, repeated=repeated) for repeated in (False, True))
    weights, values = rng.normal(size=16), rng.random((5_000, 2))
    np.testing.assert_allclose(repeated @ weights, once @ weights, atol=1e-12)
    np.testing.assert_allclose(repeated.vote_sums(values), once.vote_sums(values), rtol=1e-12)
    pairs = np.triu_indices(8, 1)
    np.testing.assert_allclose(
        [*repeated.co_votes(values, *pairs)], [*once.co_votes(values, *pairs)], rtol=1e-12
    )


@pytest.mark.parametrize("chunk", [1, 1_000, 1 << 20])
def test_pairs_of_sparse_votes_are_summed_like_those_of_dense_ones(monkeypatch, chunk):
    monkeypatch.setattr("flyingsquid.votes.codes._CHUNK_CELLS", chunk)
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 3, (600, 60))
    codes = np.where(rng.random((600, 60)) < 0.05, votes, -1)
    weights = rng.random((600, 2))
    first, second = (each[::3] for each in np.triu_indices(60, 1))
    sums = [*OneHot.of(codes, 3).co_votes(weights, first, second)]
    voted = (codes >= 0).astype(float)
    expected = [((voted * each[:, None]).T @ voted)[first, second] for each in weights.T]
    np.testing.assert_allclose(sums, expected, rtol=1e-12)


def test_sums_do_not_depend_on_the_layout_of_the_codes():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 2, (900, 9)).astype(np.int8)
    weights = rng.normal(size=18)
    by_column = OneHot.of(np.asfortranarray(codes), 2)
    np.testing.assert_array_equal(by_column @ weights, OneHot.of(codes, 2) @ weights)


@pytest.mark.parametrize("coverage", [0.9, 0.1])
def test_chunks_hold_every_item_once(monkeypatch, coverage):
    for name, cells in (("_FEW_CELLS", 100), ("_CACHED_CELLS", 1_000), ("_CHUNK_CELLS", 500)):
        monkeypatch.setattr(f"flyingsquid.votes.codes.{name}", cells)
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 2, (300, 5))
    codes = np.where(rng.random((300, 5)) < coverage, votes, -1).astype(np.int8)
    parts = [*OneHot.chunks(codes, 2)]
    assert len(parts) > 1
    assert [item for items, _ in parts for item in range(300)[items]] == [*range(300)]
    sums = np.concatenate([part @ np.arange(10.0) for _, part in parts])
    np.testing.assert_array_equal(sums, OneHot.of(codes, 2) @ np.arange(10.0))
