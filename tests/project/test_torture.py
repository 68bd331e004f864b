"""Extreme votes: perfect, useless and adversarial sources, hardly any votes, and very many items."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError, NotIdentifiableError, SourceWarning
from tests.support.errors import mentions

BINARY = [
    "auto",
    "triplet",
    fs.solvers.Triplet("median"),
    fs.solvers.Triplet("best"),
    "covariance",
    "quadratic",
    "weighted",
]
MANY = ["auto", "agreement", "em", "decomposition", "weighted"]


def assert_sound(model, votes) -> np.ndarray:
    posterior = model.predict_proba(votes)
    assert np.isfinite(posterior).all()
    assert posterior.min() >= 0
    np.testing.assert_allclose(posterior.sum(axis=-1), 1, atol=1e-12)
    assert np.isfinite(model.accuracies_).all()
    assert ((model.accuracies_ >= 0) & (model.accuracies_ <= 1)).all()
    np.testing.assert_allclose(np.sum(model.class_balance_, axis=-1), 1, atol=1e-9)
    return posterior


def fitted(votes, **options):
    """Return a fitted model, or None if the votes do not determine one."""
    try:
        return fs.LabelModel(**options).fit(votes)
    except NotIdentifiableError:
        return None


def votes_of(y, right, rng, n_classes=2, coverage=1.0):
    n, m = len(y), len(right)
    wrong = (y[:, None] + rng.integers(1, n_classes, (n, m))) % n_classes
    codes = np.where(rng.random((n, m)) < right, y[:, None], wrong)
    return np.where(rng.random((n, m)) < coverage, codes, -1).astype(np.int8)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", BINARY)
@pytest.mark.parametrize("n", [3, 500])
def test_all_sources_perfect(method, n):
    y = np.arange(n) % 2
    votes = np.repeat(y[:, None], 5, axis=1).astype(np.int8)
    model = fitted(votes, method=method)
    if model is not None:
        assert (assert_sound(model, votes).argmax(axis=1) == y).all()


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", BINARY)
def test_all_sources_useless(method):
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 2, (2_000, 6)).astype(np.int8)
    if method in ("covariance", "quadratic"):
        with pytest.raises(NotIdentifiableError):
            fs.LabelModel(method=method).fit(votes)
    else:
        assert_sound(fs.LabelModel(method=method).fit(votes), votes)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", BINARY)
def test_a_hostile_majority_is_sound_and_an_anchor_settles_it(method):
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 4_000)
    votes = votes_of(y, [0.2, 0.25, 0.2, 0.9, 0.3], rng)
    model = fitted(votes, method=method)
    if model is not None:
        assert_sound(model, votes)
    if method in ("triplet", "covariance"):
        anchored = fs.LabelModel(method=method, signs={3: 1}).fit(votes)
        assert anchored.score(votes, y) > 0.9


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", ["auto", "triplet", "covariance", "weighted"])
def test_one_vote_among_a_million_million_items(method):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 1_000)
    codes = votes_of(y, [0.8, 0.8, 0.7, 0.6], rng)
    codes[:, 3] = -1
    codes[0, 3] = 1
    weights = np.full(len(codes), 10**9)
    weights[0] = 1  # the one vote of the last source: coverage 1e-12
    model = fs.LabelModel(method=method).fit(codes, sample_weight=weights)
    assert 0 < model.coverage_[3] < 2e-12
    posterior = assert_sound(model, codes)
    without = fs.LabelModel(method=method).fit(codes[:, :3], sample_weight=weights)
    # One vote is one standard error, so it has a little say in a mean over triplets.
    same = posterior[1:].argmax(axis=1) == without.predict_proba(codes[1:, :3]).argmax(axis=1)
    assert same.mean() > 0.9


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_handful_of_votes_on_very_many_items():
    shape = (300_000, 4)
    rows = np.array([7, 7, 7, 9, 299_999])
    matrix = csr_array((np.array([2, 2, 2, 1, 1], np.int8), (rows, [0, 1, 2, 3, 0])), shape=shape)
    votes = fs.Votes.from_sparse(matrix, classes=[0, 1])
    for method in ("auto", "weighted", "triplet", "covariance"):
        model = fitted(votes, method=method)
        if model is not None:
            assert_sound(model, votes[[7, 8, 9]])
    assert fs.MajorityVote().fit(votes).predict_proba(votes[[7, 8]]).tolist() == [[0, 1], [0.5, 0.5]]


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", BINARY)
def test_three_items_of_every_kind(method):
    """Tables of 3 x 3 votes, drawn: a sound posterior or `NotIdentifiableError`."""
    rng = np.random.default_rng(3)
    for _ in range(25):
        votes = rng.integers(-1, 2, (3, 3)).astype(np.int8)
        model = fitted(votes, method=method)
        if model is not None:
            assert_sound(model, votes)
        else:
            assert method not in ("auto", "weighted")  # they fit any votes


@pytest.mark.parametrize("method", BINARY)
def test_a_class_of_one_in_a_thousand(method):
    rng = np.random.default_rng(4)
    y = (rng.random(40_000) < 0.001).astype(int)
    votes = votes_of(y, [0.9, 0.85, 0.8, 0.95, 0.9], rng)
    model = fs.LabelModel(method=method, class_balance=[0.999, 0.001]).fit(votes)
    posterior = assert_sound(model, votes)
    # Shares of votes, not odds; the default uses some, because agreement on one class does not test tables.
    assert posterior[:, 1].mean() < {"weighted": 0.15, "auto": 0.1}.get(method, 0.05)
    assert posterior[y == 1, 1].mean() > 5 * posterior[y == 0, 1].mean()


@pytest.mark.parametrize("times", [10**9, 10**12])
def test_counts_of_a_million_million_do_not_overflow(times):
    rng = np.random.default_rng(5)
    votes = votes_of(rng.integers(0, 2, 500), [0.9, 0.8, 0.7, 0.75], rng, coverage=0.8)
    once = fs.Moments.of(votes)
    many = fs.Moments.of(votes, sample_weight=np.full(500, times))
    assert many.n_items == 500 * times
    assert many.pair_counts.max() == once.pair_counts.max() * times
    assert (many + many) - many == many
    small, large = (fs.LabelModel(method=fs.solvers.Triplet(screen=0)).fit_moments(m) for m in (once, many))
    np.testing.assert_allclose(large.accuracies_, small.accuracies_, rtol=1e-9)
    np.testing.assert_allclose(assert_sound(large, votes), small.predict_proba(votes), atol=1e-9)


def test_counts_by_doubling_reach_a_million_million():
    rng = np.random.default_rng(6)
    votes = votes_of(rng.integers(0, 2, 1_000), [0.9, 0.8, 0.7], rng)
    total = fs.Moments.of(votes)
    for _ in range(30):
        total = total + total
    assert total.n_items == 1_000 << 30
    assert (np.asarray(total.pair_counts) >= 0).all()
    assert_sound(fs.LabelModel(method="triplet").fit_moments(total), votes)


def test_more_items_than_float64_can_count_are_refused():
    with pytest.raises(FlyingSquidError, match=mentions("sample_weight", "2**53")):
        fs.Moments.of(np.zeros((2, 3), np.int8), sample_weight=np.full(2, 2**53))


@pytest.mark.parametrize("method", ["auto", "triplet", "covariance", "weighted"])
def test_five_hundred_sources(method):
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 1_500)
    votes = votes_of(y, rng.uniform(0.55, 0.75, 500), rng, coverage=0.3)
    model = fs.LabelModel(method=method).fit(votes)
    assert (assert_sound(model, votes).argmax(axis=1) == y).mean() > 0.97


@pytest.mark.parametrize("method", MANY)
def test_fifty_classes(method):
    rng = np.random.default_rng(8)
    y = rng.integers(0, 50, 3_000)
    votes = votes_of(y, [0.8, 0.7, 0.75, 0.6, 0.7], rng, n_classes=50)
    model = fitted(votes, method=method)
    if model is None:  # exact, and 60 items per class are too few for it
        assert method == "decomposition"
        return
    assert (assert_sound(model, votes).argmax(axis=1) == y).mean() > 0.9


@pytest.mark.slow
def test_a_million_sources_that_never_vote():
    """Either a FlyingSquidError or a result, with little memory and time."""
    silent = fs.Votes.from_sparse(csr_array((3, 1_000_000), dtype=np.int8), classes=[0, 1])
    posterior = fs.MajorityVote().fit(silent).predict_proba(silent)
    assert (posterior == 0.5).all()
    with pytest.raises(FlyingSquidError):
        fs.LabelModel().fit(silent)
    with pytest.raises(FlyingSquidError):
        fs.Votes.from_classes(np.empty((3, 0)))
    with pytest.raises(FlyingSquidError):
        fs.OnlineLabelModel().update(np.full((3, 100_000), -1, np.int8))


def test_streams_refuse_counts_that_would_not_fit():
    with pytest.raises(FlyingSquidError, match="support at most"):
        fs.OnlineLabelModel(n_classes=8_001).update(np.array([[8_000, 1, 1]]))


def test_evidence_of_hundreds_of_sources_does_not_underflow():
    y = np.array([0, 1] * 200)
    rng = np.random.default_rng(9)
    votes = votes_of(y, np.full(400, 0.9), rng)
    with np.errstate(all="raise", under="ignore"):
        model = fs.LabelModel(method="triplet").fit(votes)
        assert (assert_sound(model, votes).argmax(axis=1) == y).all()


def test_sources_that_never_vote_are_reported_and_change_nothing():
    rng = np.random.default_rng(10)
    votes = votes_of(rng.integers(0, 2, 800), [0.9, 0.8, 0.7, 0.75], rng)
    padded = np.column_stack([votes, np.full(800, -1, np.int8)])
    with pytest.warns(SourceWarning, match="always abstain"):
        wide = fs.LabelModel(method="triplet").fit(padded)
    plain = fs.LabelModel(method="triplet").fit(votes)
    np.testing.assert_allclose(wide.predict_proba(padded), plain.predict_proba(votes), atol=1e-12)
