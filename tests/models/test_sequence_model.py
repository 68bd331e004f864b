"""SequenceLabelModel: exact on exact counts, equal to enumeration, better than rows by themselves."""

from __future__ import annotations

import dataclasses
import itertools
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.exceptions import (
    FlyingSquidError,
    IncompatibleError,
    ModelFileError,
    NotFittedError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VotesError,
)
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.fits.base import RowEvidence
from tests.oracle.star import AnyStar, Star
from tests.support.model_files import with_odd_array

RNG = np.random.default_rng(0)
VIDEO = fs.datasets.simulate_sequence(
    6_000,
    [0.85, 0.8, 0.75, 0.7],
    coverage=[1, 0.8, 0.6, 0.6],
    persistence=0.9,
    lengths=[1, 2_000, 3_000, 999],
    random_state=RNG,
)


def exact_moments(star: Star | AnyStar, confusion: np.ndarray, joint: np.ndarray) -> fs.SequenceMoments:
    """A billion rows and pairs that occur as often as the model predicts; ``confusion`` is (m, 2, 3)."""
    n = 1e9
    rows = fs.Moments.of(
        fs.Votes(star.patterns().astype(np.int8), (0, 1)), sample_weight=star.joint().sum(axis=1) * n
    )
    votes = confusion[:, :, :2]
    lagged = np.einsum("yz,iya,jzb->abij", joint, votes, votes) * n
    margin = np.einsum("y,iya->ia", joint.sum(axis=1), votes) * n
    return fs.SequenceMoments(rows, n, lagged, margin, margin.copy())


def chain(p: float, correlation: float) -> np.ndarray:
    balance = np.array([1 - p, p])
    return correlation * np.diag(balance) + (1 - correlation) * np.outer(balance, balance)


@pytest.mark.parametrize(
    "method", ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best"), "covariance", "quadratic"]
)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("correlation", [0.95, 0.3, 0.0, -0.02])
def test_exact_counts_give_the_exact_model(method, seed, correlation):
    rng = np.random.default_rng(seed)
    star = Star.random(rng, 4)
    right, votes = star.accuracies, star.coverage
    confusion = np.empty((4, 2, 3))
    confusion[:, 0] = np.stack([votes * right, votes * (1 - right), 1 - votes], axis=1)
    confusion[:, 1] = confusion[:, 0][:, [1, 0, 2]]
    joint = chain(star.p, correlation)
    model = fs.SequenceLabelModel(method=method, class_balance=star.balance)
    model.fit_moments(exact_moments(star, confusion, joint))
    np.testing.assert_allclose(model.accuracies_, star.accuracies, atol=1e-10)
    np.testing.assert_allclose(model.transition_, joint / joint.sum(axis=1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(model.confusion_, confusion, atol=1e-9)
    np.testing.assert_allclose(model.excess_correlation_, 0, atol=1e-9)
    np.testing.assert_allclose(model.class_balance_ @ model.transition_, model.class_balance_, atol=1e-14)


@pytest.mark.parametrize("seed", range(3))
def test_exact_counts_of_sources_of_any_kind(seed):
    star = AnyStar.random(np.random.default_rng(seed), 4)
    joint = chain(star.p, 0.8)
    model = fs.SequenceLabelModel(method="covariance", class_balance=star.balance)
    model.fit_moments(exact_moments(star, star.confusion, joint))
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-9)
    np.testing.assert_allclose(model.transition_, joint / joint.sum(axis=1, keepdims=True), atol=1e-10)
    np.testing.assert_allclose(model.excess_correlation_, 0, atol=1e-9)


@pytest.mark.parametrize("method", ["triplet", "covariance"])
@pytest.mark.parametrize("temper", [None, 0.5])
def test_labels_equal_enumeration(method, temper):
    model = fs.SequenceLabelModel(method=method, temper=temper).fit(VIDEO.votes, VIDEO.lengths)
    rows = np.asarray(VIDEO.votes.codes[1:6])
    tables = model.confusion_.copy()
    if method == "triplet":
        tables[:, :, 2] = (model.class_balance_ @ tables[:, :, 2].T)[:, None]  # not evidence
    scores, likelihood, own_in_full = {}, 0.0, np.zeros((5, 2))
    for path in itertools.product((0, 1), repeat=5):
        chance = model.class_balance_[path[0]] * np.prod(
            [model.transition_[a, b] for a, b in itertools.pairwise(path)]
        )
        each = [
            np.prod([tables[i, y, v] for i, v in enumerate(row)]) for y, row in zip(path, rows, strict=True)
        ]
        scores[path] = chance * np.prod(each) ** (temper or 1)
        likelihood += chance * np.prod(each)
        for t, y in enumerate(path):  # the current row counts in full, the others are tempered
            own_in_full[t, y] += scores[path] * each[t] ** (1 - (temper or 1))
    expected = own_in_full[:, 1] / own_in_full.sum(axis=1)
    np.testing.assert_allclose(model.predict_proba(rows)[:, 1], expected, atol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), max(scores, key=scores.__getitem__))
    np.testing.assert_array_equal(model.predict(rows, joint=False), np.array(expected) > 0.5)
    assert model.log_likelihood(rows)[0] == pytest.approx(np.log(likelihood), abs=1e-10)


def enumerate_rows(model: fs.SequenceLabelModel, rows: np.ndarray) -> tuple[np.ndarray, tuple[int, ...]]:
    """Labels and the best path of one short sequence by the definition of the default model."""
    balance = np.linalg.matrix_power(model.transition_, 4_096)[0]
    alone = model.fit_.posterior(rows)[:, 0]
    voted = np.any(rows >= 0, axis=1)
    emissions = np.where(voted.reshape(-1, 1), alone / balance, 1.0) ** model.temper_
    together = model.transition_ / balance
    message, paths = np.zeros_like(alone), {}
    for path in itertools.product(range(len(balance)), repeat=len(rows)):
        steps = np.prod([together[a, b] for a, b in itertools.pairwise(path)])
        at = np.arange(len(rows)), np.array(path)
        for t, k in enumerate(path):
            others = np.delete(emissions[at] * balance[list(path)], t)
            message[t, k] += steps * others.prod()
        paths[path] = alone[at].prod() * steps**model.neighbor_share_
    labels = alone * message**model.neighbor_share_
    return labels / labels.sum(axis=1, keepdims=True), max(paths, key=paths.__getitem__)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("temper", ["auto", None, 0.3])
def test_labels_of_the_default_equal_enumeration(share, temper):
    model = fs.SequenceLabelModel(temper=temper).fit(VIDEO.votes, VIDEO.lengths)
    assert model.neighbor_share_ == 1
    model._state = model._state._replace(
        fitted=dataclasses.replace(model._state.fitted, neighbor_share=share)
    )
    rows = np.array(VIDEO.votes.codes[1:7])
    rows[[1, 4]] = -1
    labels, path = enumerate_rows(model, rows)
    np.testing.assert_allclose(model.predict_proba(rows), labels, atol=1e-10)
    np.testing.assert_array_equal(model.predict(rows), path)
    if share == 0:
        alone = fs.LabelModel().fit(VIDEO.votes)
        np.testing.assert_allclose(model.predict_proba(rows), alone.predict_proba(rows), atol=1e-14)


def test_neighbors_do_not_count_if_sources_depend_on_each_other():
    """Some rows are hard for all sources: the labels are those of LabelModel(), ties included."""
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate_sequence(6_000, np.full(6, 0.97), persistence=0.9, random_state=rng)
    hard = rng.random((6_000, 1)) < 0.4
    votes = np.where(hard, rng.integers(0, 2, (6_000, 6)), np.asarray(sample.votes.codes))
    votes = np.where(rng.random(votes.shape) < 0.7, votes, -1)
    model, alone = fs.SequenceLabelModel().fit(votes), fs.LabelModel().fit(votes)
    assert model.neighbor_share_ == 0
    assert "separately" in model.diagnostics_.transition
    np.testing.assert_allclose(model.predict_proba(votes), alone.predict_proba(votes), atol=1e-15)
    np.testing.assert_array_equal(model.predict(votes), alone.predict(votes))


def test_a_list_of_sequences_is_refused_with_advice():
    with pytest.raises(VotesError, match=r"np\.concatenate"):
        fs.SequenceLabelModel().fit([np.zeros((5, 3), int), np.ones((7, 3), int)])


def test_three_sources_use_neighbors_unless_they_repeat_their_errors():
    """Three sources leave nothing to test within a row; whether errors repeat is tested between rows."""
    video = fs.datasets.simulate_sequence(5_000, [0.8, 0.7, 0.75], persistence=0.9, random_state=0)
    y = np.asarray(video.y).ravel()
    model, alone = fs.SequenceLabelModel().fit(video.votes), fs.LabelModel().fit(video.votes)
    assert model.neighbor_share_ > 0.8
    assert model.score(video.votes, y) > alone.score(video.votes, y) + 0.08
    # Every error lasts for ten rows.
    right = np.repeat(np.random.default_rng(1).random((500, 3)) < [0.8, 0.7, 0.75], 10, axis=0)
    stuck = np.where(right, y[:, None], 1 - y[:, None])
    model, alone = fs.SequenceLabelModel().fit(stuck), fs.LabelModel().fit(stuck)
    assert model.neighbor_share_ == 0
    np.testing.assert_allclose(model.predict_proba(stuck), alone.predict_proba(stuck), atol=1e-15)


def test_the_default_is_deterministic_and_permutes_with_classes_and_sources():
    codes = np.asarray(VIDEO.votes.codes)
    model = fs.SequenceLabelModel().fit(codes, VIDEO.lengths)
    labels = model.predict_proba(codes, VIDEO.lengths)
    again = fs.SequenceLabelModel().fit(codes, VIDEO.lengths)
    np.testing.assert_array_equal(again.predict_proba(codes, VIDEO.lengths), labels)
    swapped = np.where(codes >= 0, 1 - codes, -1)[:, ::-1]
    other = fs.SequenceLabelModel().fit(swapped, VIDEO.lengths)
    np.testing.assert_allclose(other.predict_proba(swapped, VIDEO.lengths), labels[:, ::-1], atol=1e-6)
    np.testing.assert_allclose(other.transition_, model.transition_[::-1, ::-1], atol=1e-6)
    np.testing.assert_allclose(other.excess_correlation_, model.excess_correlation_[::-1], atol=1e-6)


def test_counts_alone_give_nearly_the_same_labels():
    whole = fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths)
    counted = fs.SequenceLabelModel().partial_fit(VIDEO.votes, VIDEO.lengths)
    assert counted.moments_ == whole.moments_
    ours, theirs = (m.predict(VIDEO.votes, VIDEO.lengths) for m in (whole, counted))
    assert np.mean(ours != theirs) < 0.02


def test_sequences_are_independent_of_each_other():
    model = fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths)
    a, b = VIDEO.votes[:50], VIDEO.votes[3_000:3_120]
    both = fs.Votes(np.concatenate([a.codes, b.codes]), (0, 1))
    np.testing.assert_allclose(
        model.predict_proba(both, [50, 120]),
        np.concatenate([model.predict_proba(a), model.predict_proba(b)]),
        atol=1e-12,
    )
    np.testing.assert_array_equal(
        model.predict(both, [50, 120]), np.concatenate([model.predict(a), model.predict(b)])
    )
    np.testing.assert_allclose(
        model.log_likelihood(both, [50, 120]), [model.log_likelihood(a)[0], model.log_likelihood(b)[0]]
    )


def test_an_index_of_clips_and_frames_tells_where_sequences_begin():
    pd = pytest.importorskip("pandas")
    codes, lengths = VIDEO.votes.codes, [1, 2_000, 3_000, 999]
    clips = np.repeat(["d", "b", "c", "a"], lengths)
    frames = np.concatenate([np.arange(n) for n in lengths])
    names = [f"rule{j}" for j in range(codes.shape[1])]
    table = pd.DataFrame(codes, pd.MultiIndex.from_arrays([clips, frames]), names)
    model = fs.SequenceLabelModel().fit(table)
    expected = fs.SequenceLabelModel().fit(codes, lengths)
    np.testing.assert_array_equal(model.predict(table), expected.predict(codes, lengths))
    counted = fs.SequenceMoments.of(table)
    assert counted.n_pairs == fs.SequenceMoments.of(codes, lengths).n_pairs < len(codes) - 1
    assert fs.SequenceLabelModel().partial_fit(table).moments_.n_pairs == counted.n_pairs
    assert fs.SequenceMoments.of(table, [len(codes)]).n_pairs == len(codes) - 1  # as declared
    with pytest.raises(VotesError, match="rows of a sequence must be adjacent; those of 'a'"):
        fs.SequenceLabelModel().fit(table.sort_index(level=1))


@pytest.mark.parametrize("unit", [int, float, "datetime64[s]", "timedelta64[s]"])
def test_rows_of_an_index_must_be_in_the_order_of_their_numbers(unit):
    pd = pytest.importorskip("pandas")
    codes = np.random.default_rng(0).integers(-1, 2, (40, 4))
    clips, frames = np.repeat(["b", "a"], 20), np.tile(np.arange(20), 2)
    frames[20:] += 100
    names = [f"rule{j}" for j in range(4)]
    table = pd.DataFrame(codes, pd.MultiIndex.from_arrays([clips, frames.astype(unit)]), names)
    fs.SequenceMoments.of(table)  # the next clip may start at any number
    mixed = table.iloc[[*range(30), 31, 30, *range(32, 40)]]
    with pytest.raises(VotesError, match="'a'") as raised:
        fs.SequenceMoments.of(mixed)
    assert raised.value.parameter == "lengths"
    fs.SequenceMoments.of(mixed, [20, 20])  # as declared
    tokens = table.set_axis(pd.MultiIndex.from_arrays([clips, [f"w{-i}" for i in range(40)]]))
    fs.SequenceMoments.of(tokens)  # names do not number the rows


@pytest.mark.parametrize("method", ["auto", "triplet"])
def test_a_row_without_votes_learns_from_its_neighbors(method):
    model = fs.SequenceLabelModel(method=method).fit(VIDEO.votes, VIDEO.lengths)
    votes = np.full((9, 4), -1)
    votes[4] = 1
    up = model.predict_proba(votes)[:, 1]
    assert (np.diff(up[:5]) > 0).all()
    assert (np.diff(up[4:]) < 0).all()
    assert up[0] > 0.6
    nobody = model.fit_.posterior(votes[:4])[:, 0]
    np.testing.assert_allclose(model.predict_proba(votes[:4]), nobody, atol=1e-12)


def test_neighbors_help_where_truths_persist():
    sample = fs.datasets.simulate_sequence(
        5_000, [0.75, 0.7, 0.7, 0.65], coverage=0.6, persistence=0.95, random_state=3
    )
    ours = fs.SequenceLabelModel().fit(sample.votes)
    alone, majority = (
        fs.LabelModel(method="triplet").fit(sample.votes),
        fs.MajorityVote().fit(sample.votes),
    )
    score = ours.score(sample.votes, sample.y)
    assert score > alone.score(sample.votes, sample.y) + 0.15
    assert score > majority.score(sample.votes, sample.y) + 0.15
    assert np.mean(ours.predict(sample.votes) == sample.y) == score
    assert ours.diagnostics_.verdict.kind in ("recommended", "unproven")


def test_rows_that_do_not_follow_each_other_are_labeled_as_by_themselves():
    sample = fs.datasets.simulate_sequence(50_000, [0.85, 0.8, 0.7], persistence=0.0, random_state=0)
    ours, alone = fs.SequenceLabelModel().fit(sample.votes), fs.LabelModel().fit(sample.votes)
    gap = np.abs(ours.predict_proba(sample.votes) - alone.predict_proba(sample.votes))
    assert gap.max() < 0.05
    assert ours.accuracies_ == pytest.approx(alone.accuracies_)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["triplet", "covariance"])
def test_sixteen_times_the_rows_is_four_times_closer(method):
    rng, balance = np.random.default_rng(0), [0.4, 0.6]

    def rmse(n: int) -> np.ndarray:
        off = []
        for _ in range(60):
            sample = fs.datasets.simulate_sequence(
                n, [0.9, 0.8, 0.75, 0.7], class_balance=balance, persistence=0.7, random_state=rng
            )
            model = fs.SequenceLabelModel(method=method, class_balance=balance).fit(sample.votes)
            off.append(
                [np.ptp(model.accuracies_ - sample.accuracies), (model.transition_ - sample.transition)[0, 0]]
            )
        return np.sqrt(np.mean(np.square(off), axis=0))

    np.testing.assert_allclose(rmse(4_000) / rmse(64_000), 4, rtol=0.3)


@pytest.mark.slow
def test_intervals_cover_the_truth_also_where_errors_persist():
    rng, inside = np.random.default_rng(0), []
    for _ in range(150):
        sample = fs.datasets.simulate_sequence(
            3_000, [0.85, 0.8, 0.75, 0.7], persistence=0.9, error_persistence=0.6, random_state=rng
        )
        low, high = fs.SequenceLabelModel(method="triplet").fit(sample.votes).accuracies_interval_.T
        inside.append((low <= sample.accuracies) & (sample.accuracies <= high))
    assert 0.91 < np.mean(inside) <= 0.995


def test_parts_add_up_to_the_whole():
    whole = fs.SequenceLabelModel(method="triplet").fit(VIDEO.votes, VIDEO.lengths)
    parts = fs.SequenceLabelModel(method="triplet").partial_fit(VIDEO.votes[:2001], [1, 2_000])
    parts.partial_fit(VIDEO.votes[2001:], [3_000, 999])
    counted = fs.SequenceLabelModel(method="triplet").fit_moments(
        fs.SequenceMoments.of(VIDEO.votes, VIDEO.lengths)
    )
    for other in (parts, counted):
        assert other.moments_ == whole.moments_
        np.testing.assert_array_equal(other.transition_, whole.transition_)
        np.testing.assert_array_equal(
            other.predict_proba(VIDEO.votes, VIDEO.lengths), whole.predict_proba(VIDEO.votes, VIDEO.lengths)
        )


def test_counts_that_do_not_suffice_yet_are_kept():
    model = fs.SequenceLabelModel(method="triplet")
    with pytest.raises(NotIdentifiableError):
        model.partial_fit(fs.Votes(np.array([[0, -1, -1, -1], [1, -1, -1, -1]], np.int8), (0, 1)))
    model.partial_fit(VIDEO.votes, VIDEO.lengths)
    assert model.moments_.rows.n_items == 6_002
    assert model.moments_.n_pairs == 5_997
    # They are not counted again by the next call.
    assert model.partial_fit(VIDEO.votes, VIDEO.lengths).moments_.rows.n_items == 12_002


def test_the_class_balance_may_be_estimated():
    sample = fs.datasets.simulate_sequence(
        40_000,
        [0.9, 0.85, 0.8, 0.75],
        class_balance=[0.8, 0.2],
        persistence=0.8,
        random_state=0,
    )
    estimated = {"method": "triplet", "class_balance": "estimate"}
    for options in ({"method": "covariance"}, estimated):
        model = fs.SequenceLabelModel(**options).fit(sample.votes)
        np.testing.assert_allclose(model.class_balance_, [0.8, 0.2], atol=0.03)
        np.testing.assert_allclose(model.transition_, sample.transition, atol=0.03)
    with pytest.raises(OptionError, match="`class_balance` must"):
        fs.SequenceLabelModel(**estimated).fit_moments(fs.SequenceMoments.of(sample.votes))
    given = fs.SequenceLabelModel(class_balance=[0.8, 0.2]).fit(sample.votes)
    np.testing.assert_array_equal(given.class_balance_, [0.8, 0.2])


@pytest.mark.parametrize("method", ["auto", "triplet"])
def test_tempering_makes_labels_less_sure_where_errors_persist(method):
    sample = fs.datasets.simulate_sequence(
        20_000, [0.85, 0.8, 0.75, 0.7], persistence=0.9, error_persistence=0.7, random_state=0
    )
    at = np.arange(20_000), sample.y

    def log_loss(model: fs.SequenceLabelModel) -> float:
        return float(-np.log(model.fit(sample.votes).predict_proba(sample.votes)[at]).mean())

    auto = fs.SequenceLabelModel(method=method)
    assert log_loss(auto) < log_loss(fs.SequenceLabelModel(method=method, temper=None)) - 0.01
    r = auto.excess_correlation_.mean()  # all sources vote on every row
    assert auto.temper_ == pytest.approx((1 - r) / (1 + r))
    assert auto.diagnostics_.temper == auto.temper_
    assert len(auto.diagnostics_.persistent) == 4
    by_hand = fs.SequenceLabelModel(method=method, temper=auto.temper_).fit(sample.votes)
    np.testing.assert_array_equal(by_hand.predict_proba(sample.votes), auto.predict_proba(sample.votes))


def test_sparse_named_and_text_votes():
    codes = np.asarray(VIDEO.votes.codes)
    words = np.array([None, "ad", "show"], object)[codes + 1]
    plain = fs.SequenceLabelModel().fit(codes, VIDEO.lengths)
    model = fs.SequenceLabelModel().fit(fs.Votes.from_classes(words, names=list("wxyz")), VIDEO.lengths)
    assert set(model.predict(words, VIDEO.lengths)) == {"ad", "show"}
    shuffled = fs.Votes.from_classes(words[:, ::-1], names=list("zyxw"))
    expected = plain.predict_proba(codes, VIDEO.lengths)
    np.testing.assert_allclose(model.predict_proba(shuffled, VIDEO.lengths), expected, atol=1e-12)
    sparse = fs.Votes.from_long(*np.nonzero(codes >= 0), codes[codes >= 0])
    again = fs.SequenceLabelModel().fit(sparse, VIDEO.lengths)
    np.testing.assert_allclose(again.predict_proba(sparse, VIDEO.lengths), expected, atol=1e-12)
    assert model.score(words, np.array(["ad", "show"])[VIDEO.y], VIDEO.lengths) == plain.score(
        codes, VIDEO.y, VIDEO.lengths
    )


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda m, v: m.fit(v, [3, 3]), VotesError, "the number of rows, 300; got a sum of 6"),
        (lambda m, v: m.fit(v, [300, 0]), VotesError, "`lengths` .*got 0 at position 1"),
        (lambda m, v: m.fit(v, [150.0, 150.0]), VotesError, "`lengths` must be integers"),
        (lambda m, v: m.fit(v, VIDEO.y[:300]), VotesError, "If these are gold labels"),
        (lambda m, v: m.partial_fit(v, VIDEO.y[:300]), VotesError, "If these are gold labels"),
        (lambda m, v: m.fit(v).predict_proba(v, [1]), VotesError, "got a sum of 1"),
        (lambda m, v: m.fit(v).predict(v, [1]), VotesError, "got a sum of 1"),
        (lambda m, v: m.fit(v).log_likelihood(v, [-1]), VotesError, "got -1 at position 0"),
        (lambda m, v: m.fit(v).score(v, VIDEO.y[:300], [299]), VotesError, "got a sum of 299"),
        (lambda m, v: m.fit(v).score(v, VIDEO.y), VotesError, "one label for each of 300 items; got 6000"),
        (lambda m, v: m.fit(v).score(v, np.full(300, -1)), VotesError, "`y` must"),
        (lambda m, v: m.fit(v).predict(np.zeros((5, 3), int)), IncompatibleError, "4 sources.*got 3"),
        (lambda m, v: m.fit_moments(fs.Moments.of(v)), OptionError, "must be SequenceMoments; got Moments"),
        (lambda m, v: m.predict(v), NotFittedError, "not fitted yet"),
        (lambda m, v: m.set_params(temper=0).fit(v), OptionError, "`temper`.*got 0"),
        (lambda m, v: m.set_params(temper=1.5).fit(v), OptionError, "`temper`.*got 1.5"),
        (lambda m, v: m.set_params(temper="much").fit(v), OptionError, "`temper`.*got 'much'"),
        (lambda m, v: m.set_params(temper=True).fit(v), OptionError, "`temper`.*got True"),
        (lambda m, v: m.set_params(method="best").fit(v), OptionError, "`method`.*got 'best'"),
        (lambda m, v: m.set_params(method="weighted").fit(v), OptionError, 'method="weighted"'),
        (lambda m, v: m.set_params(signs={"nobody": 1}).fit(v), OptionError, "`signs`.*got 'nobody'"),
        (lambda m, v: m.set_params(class_balance=[0.1]).fit(v), OptionError, "`class_balance`.*shape"),
        (lambda m, v: m.set_params(method="triplet").fit(v[:, :2]), NotIdentifiableError, "three different"),
        (lambda m, v: m.fit(v[:0]), VotesError, "at least one item"),
        (lambda m, v: m.fit(np.full_like(v, -1)), FlyingSquidError, "classes|At least one source"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(call, error, message):
    votes = np.asarray(VIDEO.votes.codes[:300], int)
    with pytest.raises(error, match=message):
        call(fs.SequenceLabelModel(), votes)


def test_a_refused_fit_changes_nothing():
    model = fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths)
    before = model.predict_proba(VIDEO.votes, VIDEO.lengths)
    for call in (
        lambda: model.fit(VIDEO.votes, [5]),
        lambda: model.fit(np.full((5, 4), -1)),
        lambda: model.partial_fit(VIDEO.votes, [5]),
    ):
        with pytest.raises(fs.FlyingSquidError):
            call()
    np.testing.assert_array_equal(model.predict_proba(VIDEO.votes, VIDEO.lengths), before)


def test_warnings_point_to_the_caller():
    votes = np.column_stack([VIDEO.votes.codes, np.full(6_000, -1)])
    with pytest.warns(SourceWarning, match="always abstain") as caught:
        model = fs.SequenceLabelModel().fit(votes, VIDEO.lengths)
    assert caught[0].filename == __file__
    assert model.diagnostics_.silent == ("source 4",)
    assert model.excess_correlation_[4] == 0
    assert np.isfinite(model.predict_proba(votes, VIDEO.lengths)).all()


OPTIONS = [
    {},
    {"temper": None, "class_balance": [0.4, 0.6]},
    {"method": "covariance", "temper": "auto"},
    {"method": fs.solvers.Triplet("median"), "class_balance": [0.4, 0.6], "signs": {"w": 1}, "temper": 0.5},
    {"method": fs.solvers.Quadratic(screen=0.5), "class_balance": "estimate"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_model_comes_back_identical(options, tmp_path):
    votes = fs.Votes(VIDEO.votes.codes, ("ad", "show"), tuple("wxyz"))
    model = fs.SequenceLabelModel(**options).fit(votes, VIDEO.lengths)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert isinstance(again, fs.SequenceLabelModel)
    for method in ("predict_proba", "predict", "log_likelihood"):
        ours, theirs = (getattr(m, method)(votes, VIDEO.lengths) for m in (model, again))
        np.testing.assert_array_equal(ours, theirs)
    for name in (
        "classes_", "class_balance_", "transition_", "accuracies_", "accuracies_interval_", "coverage_",
        "confusion_", "excess_correlation_", "temper_", "neighbor_share_",
    ):  # fmt: skip
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.moments_ == model.moments_
    assert str(again.summary()) == str(model.summary())
    for field in dataclasses.fields(model.diagnostics_):
        np.testing.assert_array_equal(
            np.array(getattr(model.diagnostics_, field.name), object),
            np.array(getattr(again.diagnostics_, field.name), object),
        )
    again.save(tmp_path / "again.fsq")
    assert (tmp_path / "again.fsq").read_bytes() == (tmp_path / "m.fsq").read_bytes()
    refit = fs.SequenceLabelModel(**again.get_params()).fit(votes, VIDEO.lengths)
    np.testing.assert_array_equal(
        refit.predict_proba(votes, VIDEO.lengths), model.predict_proba(votes, VIDEO.lengths)
    )
    more = again.set_params(class_balance="uniform").partial_fit(votes, VIDEO.lengths)
    assert more.moments_.n_pairs == 2 * model.moments_.n_pairs


def test_a_model_without_neighbors_is_kept_too(tmp_path):
    model = fs.SequenceLabelModel().fit(VIDEO.votes, [1] * 6_000)
    model.save(tmp_path / "m.fsq")
    assert fs.load(tmp_path / "m.fsq").diagnostics_.correlation_error == np.inf
    model.moments_.save(tmp_path / "c.fsq")
    assert fs.load(tmp_path / "c.fsq") == model.moments_


def test_only_a_fitted_model_is_saved(tmp_path):
    with pytest.raises(NotFittedError):
        fs.SequenceLabelModel().save(tmp_path / "m.fsq")


@pytest.mark.parametrize(
    "name", ["joint", "excess", "correlation", "lagged", "first", "fit.accuracies", "fit.confusion"]
)
@pytest.mark.parametrize("how", ["absent", "short", "type", "nan"])
def test_whole_files_with_wrong_contents_are_refused(tmp_path, name, how):
    if how == "nan" and name in ("lagged", "first"):
        return
    fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths).save(tmp_path / "m.fsq")
    write_state(tmp_path / "m.fsq", with_odd_array(read_state(tmp_path / "m.fsq"), name, how))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "m.fsq")


@pytest.mark.parametrize(
    "meta",
    [
        {"temper": 0.0}, {"temper": 2.0}, {"neighbor_share": -0.1},
        {"neighbor_share": "1"}, {"pairs": "12"}, {"counts": {}}, {"options": {}},
        {"fit": {}}, {"fit": {"tag": "unknown"}}, {"n_pairs": -1},
    ],
)  # fmt: skip
def test_wrong_metadata_is_refused(tmp_path, meta):
    fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths).save(tmp_path / "m.fsq")
    state = read_state(tmp_path / "m.fsq")
    write_state(tmp_path / "m.fsq", State(state.kind, {**state.meta, **meta}, state.arrays))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "m.fsq")


def test_scikit_learn_conventions():
    model = fs.SequenceLabelModel(temper=0.5).fit(VIDEO.votes, VIDEO.lengths)
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(clone(model), "classes_")
    again = pickle.loads(pickle.dumps(model))  # our own bytes
    np.testing.assert_array_equal(again.predict(VIDEO.votes), model.predict(VIDEO.votes))


def test_the_summary_has_the_estimates_of_each_source():
    table = fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths).summary()
    assert table.columns == (
        "source", "polarity", "coverage", "accuracy", "accuracy_low", "accuracy_high", "excess", "votes",
        "note",
    )  # fmt: skip
    assert "the next row has the same class: 9" in str(table)


@pytest.mark.slow
def test_evidence_beyond_every_float_gives_no_nan():
    sample = fs.datasets.simulate_sequence(5_000, np.full(600, 0.95), persistence=0.99, random_state=0)
    model = fs.SequenceLabelModel().fit(sample.votes)
    posterior = model.predict_proba(sample.votes)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    assert np.isfinite(model.log_likelihood(sample.votes)).all()


def test_new_kinds_of_votes_at_labeling():
    """The first source never abstains in training, and may do so later."""
    model = fs.SequenceLabelModel().fit(VIDEO.votes, VIDEO.lengths)
    votes = np.array([[-1, 1, 1, 1], [-1, -1, -1, -1]])
    assert np.isfinite(model.predict_proba(votes)).all()
    assert np.isfinite(model.log_likelihood(votes)).all()


def test_rows_without_evidence_get_the_first_class_on_a_path():
    """Not the class that rounding favors, as it did for rows without votes."""
    sample = fs.datasets.simulate_sequence(2_000, [0.9, 0.8, 0.8, 0.7], persistence=0.9, random_state=0)
    fitted = fs.SequenceLabelModel().fit(sample.votes)._fitted
    assert fitted.neighbor_share > 0
    independent = dataclasses.replace(fitted.transition, joint=np.full((2, 2), 0.25))
    fitted = dataclasses.replace(fitted, transition=independent)
    rounding = np.tile([0.0, 1e-16], (400, 1))
    np.testing.assert_array_equal(fitted.paths(RowEvidence(rounding, rounding), np.array([400])), 0)


@pytest.mark.extra
def test_results_are_tables_by_item():
    pd = pytest.importorskip("pandas")
    video = fs.datasets.simulate_sequence(400, [0.9, 0.8, 0.7], random_state=0)
    index = [f"frame {i}" for i in range(400)]
    frame = pd.DataFrame(np.asarray(video.votes.codes), index=index)
    model = fs.SequenceLabelModel().fit(frame, [150, 250])
    for joint in (True, False):
        labels = model.predict(frame, [150, 250], joint=joint, output="pandas")
        assert (labels.index == index).all()
        np.testing.assert_array_equal(labels, model.predict(frame, [150, 250], joint=joint))
    table = model.predict_proba(frame, [150, 250], output="pandas")
    assert table.columns.tolist() == [0, 1]
    np.testing.assert_array_equal(table, model.predict_proba(frame, [150, 250]))
    assert table.equals(fs.SequenceLabelModel().fit_predict_proba(frame, [150, 250], output="pandas"))
