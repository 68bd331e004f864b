"""Pairs of sources: shares, kappa, copies, and dependence given the truth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.analysis import agreement, dependence_given_truth
from flyingsquid.analysis.agreement import effective_sources
from flyingsquid.exceptions import OptionError, VotesError
from tests.support.strategies import examples

codes = st.integers(2, 40).flatmap(
    lambda n: st.lists(st.lists(st.integers(-1, 2), min_size=4, max_size=4), min_size=n, max_size=n)
)


@examples(60)
@given(codes)
def test_agreement_equals_its_definition_dense_and_sparse(rows):
    array = np.array(rows, np.int8)
    dense = fs.Votes(array, (0, 1, 2))
    thin = fs.Votes(csr_array(array + 1), (0, 1, 2))
    found, same = agreement(dense), agreement(thin)
    for field in ("overlaps", "share", "beyond_chance"):
        np.testing.assert_allclose(getattr(found, field), getattr(same, field), equal_nan=True)
    for i in range(4):
        for j in range(4):
            a, b = array[:, i], array[:, j]
            both = (a >= 0) & (b >= 0)
            assert found.overlaps[i, j] == both.sum()
            if not both.any():
                assert np.isnan(found.share[i, j])
                continue
            share = np.mean(a[both] == b[both])
            chance = sum(np.mean(a[both] == k) * np.mean(b[both] == k) for k in range(3))
            assert found.share[i, j] == pytest.approx(share)
            if chance < 1 - 1e-9:
                assert found.beyond_chance[i, j] == pytest.approx((share - chance) / (1 - chance))
            else:
                assert np.isnan(found.beyond_chance[i, j])


def test_the_strongest_pairs_come_first():
    rng = np.random.default_rng(0)
    a = rng.integers(0, 2, 500)
    votes = np.column_stack([a, np.where(rng.random(500) < 0.9, a, 1 - a), rng.integers(0, 2, 500)])
    table = agreement(fs.Votes.from_classes(votes, names=["a", "b", "c"])).pairs(2).to_dict()
    assert (table["source"][0], table["other"][0]) == ("a", "b")
    assert table["beyond_chance"][0] > 0.7 > table["beyond_chance"][1]
    few = agreement(votes[:20])
    assert len(few.pairs()) == 0  # too few items to judge a pair by
    assert len(few.pairs(least_overlap=20)) == 3


def test_copies_are_found():
    sample = fs.datasets.simulate(3_000, [0.8, 0.75, 0.7, 0.65], random_state=0)
    doubled = np.column_stack([sample.votes.codes, sample.votes.codes[:, 0]])
    assert agreement(doubled).duplicates == (("source 0", "source 4"),)
    assert agreement(sample.votes).duplicates == ()


def test_dependence_of_two_classes_is_the_correlation_within_them():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4_000)
    shared = rng.random(4_000) < 0.5
    flip = rng.random((4_000, 3)) < 0.25
    flip[:, 1] = np.where(shared, flip[:, 0], flip[:, 1])
    votes = np.where(flip, 1 - y[:, None], y[:, None])
    found = dependence_given_truth(votes, y)
    centered = votes - np.array([votes[y == k].mean(axis=0) for k in (0, 1)])[y]
    np.testing.assert_allclose(found, np.corrcoef(centered.T), atol=1e-9)
    assert found[0, 1] == pytest.approx(0.5, abs=0.05)
    assert abs(found[0, 2]) < 0.05


def test_right_probabilities_in_the_place_of_labels_are_right_on_average():
    sample = fs.datasets.simulate(30_000, [0.8, 0.75, 0.7, 0.7, 0.65], random_state=0)
    model = fs.LabelModel(method="covariance").fit(sample.votes)
    found = dependence_given_truth(sample.votes, posterior=model.predict_proba(sample.votes))
    off = found[~np.eye(5, dtype=bool)]
    assert np.abs(off).max() < 0.05
    by_labels = dependence_given_truth(sample.votes, model.predict(sample.votes))
    # Labels without doubt are wrong together with the sources, which looks like sources avoiding each other.
    assert by_labels[0, 1] < -0.05


@pytest.mark.extra
def test_probabilities_may_be_a_list_or_a_table():
    pytest.importorskip("pandas")
    votes = fs.datasets.simulate(500, [0.8, 0.75, 0.7], random_state=0).votes
    model = fs.MajorityVote().fit(votes)
    posterior = model.predict_proba(votes)
    found = dependence_given_truth(votes, posterior=posterior)
    for other in (posterior.tolist(), model.predict_proba(votes, output="pandas")):
        np.testing.assert_array_equal(dependence_given_truth(votes, posterior=other), found)


def test_sources_of_one_class_depend_by_where_they_vote():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 5_000)
    fires = rng.random(5_000) < 0.2 + 0.3 * y
    same = np.where(fires & (rng.random(5_000) < 0.8), 1, -1)
    other = np.where(rng.random(5_000) < 0.2 + 0.3 * y, 1, -1)
    votes = fs.Votes.from_classes(np.column_stack([np.where(fires, 1, -1), same, other]), classes=[0, 1])
    found = dependence_given_truth(votes, y)
    assert found[0, 1] > 0.7
    assert abs(found[0, 2]) < 0.05


def test_unknown_labels_do_not_count():
    rng = np.random.default_rng(0)
    votes, y = rng.integers(0, 3, (300, 3)), rng.integers(0, 3, 300)
    partly = np.where(np.arange(300) < 200, y, -1)
    np.testing.assert_allclose(
        dependence_given_truth(votes, partly), dependence_given_truth(votes[:200], y[:200])
    )


def test_effective_sources():
    half = np.full((4, 4), 0.5)
    assert effective_sources(half) == pytest.approx(16 / (4 + 12 * 0.25))
    assert effective_sources(-half) == 4  # sources that avoid each other are worth no less
    assert effective_sources(np.full((3, 3), np.nan)) == 3
    assert effective_sources(half, np.full((4, 4), 15.0)) == 4  # within two standard errors of nothing


def test_bad_inputs_are_named():
    votes = [[0, 1], [1, 1]]
    with pytest.raises(OptionError, match="`y` and `posterior`"):
        dependence_given_truth(votes)
    with pytest.raises(OptionError, match="`posterior`"):
        dependence_given_truth(votes, posterior=np.ones((3, 2)))
    with pytest.raises(VotesError, match="`y`"):
        dependence_given_truth(votes, [None, None])
    many = fs.Votes.from_sparse(csr_array((5, 2_001), dtype=np.int8), classes=(0, 1))
    with pytest.raises(OptionError, match="of_sources"):
        agreement(many)
