"""Coefficients of agreement, compared with the packages krippendorff, statsmodels and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

import flyingsquid as fs
from flyingsquid.analysis import cohen_kappa, fleiss_kappa, krippendorff_alpha
from flyingsquid.exceptions import OptionError, VotesError


def draw(seed, *, n=60, m=5, n_classes=4, coverage=0.7):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, n_classes, (n, 1))
    votes = np.where(rng.random((n, m)) < 0.6, truth, rng.integers(0, n_classes, (n, m)))
    return np.where(rng.random((n, m)) < coverage, votes, -1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", ["nominal", "ordinal", "interval"])
def test_alpha_equals_the_package_krippendorff(level, seed):
    krippendorff = pytest.importorskip("krippendorff")
    votes = draw(seed)
    data = np.where(votes < 0, np.nan, votes).T
    expected = krippendorff.alpha(data, level_of_measurement=level, value_domain=[0, 1, 2, 3])
    assert krippendorff_alpha(votes, level=level).value == pytest.approx(expected, abs=1e-10)


def test_alpha_uses_the_numbers_of_the_classes():
    krippendorff = pytest.importorskip("krippendorff")
    values = np.array([1.0, 2.0, 5.0, 10.0])[draw(3, coverage=1.0)]
    expected = krippendorff.alpha(values.T, level_of_measurement="interval")
    read = fs.Votes.from_classes(values, classes=[1, 2, 5, 10])
    assert krippendorff_alpha(read, level="interval").value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("seed", range(5))
def test_fleiss_equals_statsmodels(seed):
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    votes = draw(seed, coverage=1.0)
    table, _ = inter_rater.aggregate_raters(votes, n_cat=4)
    expected = inter_rater.fleiss_kappa(table, method="fleiss")
    assert fleiss_kappa(votes).value == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("weights", [None, "linear", "quadratic"])
@pytest.mark.parametrize("seed", range(3))
def test_cohen_equals_scikit_learn(weights, seed):
    votes = draw(seed)
    both = votes[(votes[:, [1, 3]] >= 0).all(axis=1)]
    expected = cohen_kappa_score(both[:, 1], both[:, 3], weights=weights, labels=range(4))
    found = cohen_kappa(fs.Votes.from_classes(votes, names=list("abcde")), "b", "d", weights=weights)
    assert found.value == pytest.approx(expected, abs=1e-10)
    assert found.n_items == len(both)


@pytest.mark.slow
def test_intervals_cover_the_value_of_many_items():
    """19 of 20 intervals do; at least 86% of 100 is more than three standard errors below that."""
    limits = [
        krippendorff_alpha(draw(0, n=20_000)).value,
        fleiss_kappa(draw(0, n=20_000)).value,
    ]
    hits = np.zeros(2)
    for seed in range(1, 101):
        votes = draw(seed, n=40)
        for j, found in enumerate((krippendorff_alpha(votes), fleiss_kappa(votes))):
            hits[j] += found.interval[0] <= limits[j] <= found.interval[1]
    assert (hits / 100 >= 0.86).all()


def test_sparse_and_dense_votes_agree():
    items, sources = np.nonzero(draw(0) >= 0)
    long = fs.Votes.from_long(items, sources, draw(0)[items, sources])
    assert krippendorff_alpha(long).value == pytest.approx(krippendorff_alpha(long.to_dense()).value)


def test_what_cannot_be_computed_is_refused():
    assert np.isnan(krippendorff_alpha([[1, 1], [1, 1]]).value)
    with pytest.raises(OptionError, match="`level`"):
        krippendorff_alpha([["a", "b"], ["a", "a"]], level="interval")
    with pytest.raises(OptionError, match="`level`"):
        krippendorff_alpha([[0, 1]], level="ratio")
    with pytest.raises(OptionError, match="`weights`"):
        cohen_kappa([[0, 1]], weights="cubic")
    with pytest.raises(VotesError, match="two votes"):
        fleiss_kappa([[0, -1], [-1, 1]])
    with pytest.raises(VotesError, match="common item"):
        cohen_kappa([[0, -1], [-1, 1]])
