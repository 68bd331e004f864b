"""Class-conditional sources: exact on exact moments; class balance from votes alone; calibrated errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.estimation.balance import estimate_balance
from flyingsquid.estimation.conditional import fit_conditional, fit_rank_one, orient_conditional
from flyingsquid.estimation.signs import SignKnowledge
from flyingsquid.estimation.sources import Separation, SignedMoments, flag_sources
from flyingsquid.exceptions import NotIdentifiableError
from tests.oracle.star import AnyStar
from tests.support.strategies import examples, vote_matrices

METHODS = ["covariance", "quadratic"]


def exact_votes(star: AnyStar) -> dict[str, object]:
    return {"votes": star.patterns(), "sample_weight": star.joint().sum(axis=1) * 1e12}


def stars() -> list[AnyStar]:
    """Asymmetric with abstains that depend on Y; singleton potentials on one and on all sources."""
    rng = np.random.default_rng(0)
    one, every = np.array([0.6, 0, 0, 0, 0]), rng.uniform(-0.6, 0.6, 5)
    made = [AnyStar.random(rng, 5) for _ in range(6)]
    return [*made, AnyStar.ising(rng, 5, one), AnyStar.ising(rng, 5, every)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("star", stars(), ids=range(8))
def test_exact_moments_give_exact_tables(method, star):
    model = fs.LabelModel(method=method, class_balance=star.balance).fit(**exact_votes(star))
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-10)
    np.testing.assert_allclose(model.accuracies_, star.accuracies(), atol=1e-10)
    np.testing.assert_allclose(model.predict_proba(star.patterns()), star.posterior(), atol=1e-10)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("star", stars(), ids=range(8))
def test_exact_moments_give_the_exact_balance(method, star):
    model = fs.LabelModel(method=method).fit(**exact_votes(star))
    np.testing.assert_allclose(model.class_balance_, star.balance, atol=1e-8)
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-7)
    assert "estimated from votes" in model.diagnostics_.class_balance


def test_an_always_silent_class_is_told_by_its_silence():
    """Sources that vote on one class only: abstaining is the evidence for the other."""
    confusion = np.zeros((4, 2, 3))
    confusion[:, 1, 1], confusion[:, 1, 2] = 0.7, 0.3
    confusion[:, 0, 1], confusion[:, 0, 2] = 0.1, 0.9
    star = AnyStar.of(confusion, 0.4)
    votes = {**exact_votes(star)}
    votes["votes"] = fs.Votes.from_classes(star.patterns(), classes=(0, 1))
    with pytest.raises(NotIdentifiableError, match="both classes"):
        fs.LabelModel(method="covariance").fit(**votes)
    confusion[3] = [[0.6, 0.2, 0.2], [0.1, 0.5, 0.4]]
    star = AnyStar.of(confusion, 0.4)
    with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
        model = fs.LabelModel(method="covariance").fit(**exact_votes(star))
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-7)
    assert model.predict_proba([[-1, -1, -1, -1]])[0, 1] < 0.1


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_one_sign_for_a_source_however_many_are_adversarial():
    star = stars()[0]
    flipped = star.confusion.copy()
    flipped[:2] = flipped[:2][:, ::-1]
    star = AnyStar.of(flipped, star.p)
    model = fs.LabelModel(method="covariance", class_balance=star.balance).fit(**exact_votes(star))
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-10)
    mirrored = fs.LabelModel(method="covariance", class_balance=star.balance[::-1], signs={4: -1})
    np.testing.assert_allclose(
        mirrored.fit(**exact_votes(star)).confusion_, star.confusion[:, ::-1], atol=1e-10
    )


def test_a_pair_that_is_left_out_does_not_matter():
    b = np.array([0.5, -0.4, 0.3, 0.6])
    covariance, weights = np.outer(b, b), np.ones((4, 4)) - np.eye(4)
    covariance[0, 1] = covariance[1, 0] = 99.0
    weights[0, 1] = weights[1, 0] = 0
    np.testing.assert_allclose(fit_rank_one(covariance, weights, np.sign(b)), b, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_fewer_than_three_sources_that_vary_are_refused(method):
    votes = np.random.default_rng(0).integers(0, 2, (100, 2))
    for columns in (votes, np.column_stack([votes, np.ones(100)]), votes[:, [0, 1, 0]]):
        with pytest.raises(NotIdentifiableError, match="three different sources"):
            fs.LabelModel(method=method).fit(columns)


@pytest.mark.parametrize("method", METHODS)
def test_noise_is_refused(method):
    for seed in range(20):
        votes = np.random.default_rng(seed).integers(-1, 2, (300, 5))
        with pytest.raises(NotIdentifiableError, match="No three sources"):
            fs.LabelModel(method=method).fit(votes)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_order_of_sources_and_names_of_classes_decide_nothing(method):
    rng, star = np.random.default_rng(0), stars()[1]
    for n in (200, 1_000):
        codes, y = star.sample(n, rng)
        gold = np.where(np.arange(n) < 20, y, -1)
        order = rng.permutation(5)
        for options in ({}, {"gold": gold}):
            a = fs.LabelModel(method=method).fit(fs.Votes(codes, (0, 1)), **options)
            b = fs.LabelModel(method=method).fit(fs.Votes(codes[:, order], (0, 1)), **options)
            np.testing.assert_allclose(
                a.predict_proba(fs.Votes(codes, (0, 1))),
                b.predict_proba(fs.Votes(codes[:, order], (0, 1))),
                atol=1e-6,
            )
            np.testing.assert_allclose(b.accuracies_interval_, a.accuracies_interval_[order], atol=1e-6)
        flipped = np.where(codes >= 0, 1 - codes, -1)
        c = fs.LabelModel(method=method).fit(fs.Votes(flipped, (0, 1)))
        plain = fs.LabelModel(method=method).fit(fs.Votes(codes, (0, 1)))
        np.testing.assert_allclose(
            c.predict_proba(fs.Votes(flipped, (0, 1)))[:, ::-1],
            plain.predict_proba(fs.Votes(codes, (0, 1))),
            atol=1e-6,
        )


@pytest.mark.parametrize("method", METHODS)
@examples(150)
@given(votes=vote_matrices(n_sources=5, most_items=20), data=st.data())
def test_any_votes_give_probabilities_or_a_refusal(method, votes, data):
    gold = data.draw(st.lists(st.integers(-1, 1), min_size=len(votes), max_size=len(votes)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        try:
            model = fs.LabelModel(method=method).fit(fs.Votes(votes, (0, 1)), gold=gold)
        except fs.FlyingSquidError:
            return
    assert (model.confusion_ >= 0).all()
    assert (model.confusion_ <= 1).all()
    posterior = model.predict_proba(fs.Votes(votes, (0, 1)))
    assert np.isfinite(posterior).all()
    assert str(model.diagnostics_.verdict)
    assert len(model.summary()) == 5


def test_float_weights_and_a_constant_source_do_no_harm():
    sample = fs.datasets.simulate(500, [0.8, 0.75, 0.7, 0.7], random_state=0)
    votes = np.column_stack([sample.votes.codes, np.zeros(500, np.int8)])
    for seed in range(40):
        with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
            fs.LabelModel(method="quadratic").fit(
                votes, sample_weight=np.random.default_rng(seed).random(500)
            )


def test_a_balance_that_the_votes_leave_open_stays_even():
    star = AnyStar.of(np.tile([[0.6, 0.4, 0.0], [0.35, 0.65, 0.0]], (4, 1, 1)), 0.3)
    votes, _ = star.sample(2_000, np.random.default_rng(0))
    model = fs.LabelModel(method="covariance", signs=dict.fromkeys(range(4), 1)).fit(votes)
    np.testing.assert_array_equal(model.class_balance_, [0.5, 0.5])
    assert "uniform, because the votes do not determine it" in model.diagnostics_.class_balance


def test_counts_alone_keep_an_even_balance_and_say_so():
    votes, _ = stars()[0].sample(2_000, np.random.default_rng(0))
    model = fs.LabelModel(method="covariance").fit_moments(fs.Moments.of(votes))
    np.testing.assert_array_equal(model.class_balance_, [0.5, 0.5])
    assert "counts of pairs do not determine it" in model.diagnostics_.class_balance


def test_an_estimated_balance_helps_symmetric_methods_too():
    sample = fs.datasets.simulate(5_000, [0.95, 0.9, 0.9, 0.85], class_balance=[0.9, 0.1], random_state=0)
    model = fs.LabelModel(class_balance="estimate").fit(sample.votes)
    assert model.class_balance_[1] == pytest.approx(0.1, abs=0.02)
    assert model.score(sample.votes, sample.y) > 0.98


@pytest.mark.slow
@pytest.mark.parametrize("star", [stars()[0], stars()[3]], ids=["a", "b"])
def test_sixteen_times_the_rows_is_four_times_closer(star):
    rng = np.random.default_rng(0)

    def rmse(n: int) -> float:
        errors = []
        for _ in range(60):
            votes, _ = star.sample(n, rng)
            model = fs.LabelModel(method="covariance", class_balance=star.balance).fit(votes)
            errors.append(model.confusion_ - star.confusion)
        return float(np.sqrt(np.mean(np.square(errors))))

    assert rmse(2_000) / rmse(32_000) == pytest.approx(4, rel=0.3)


@pytest.mark.slow
def test_the_standard_error_of_the_balance_is_calibrated():
    rng, inside = np.random.default_rng(0), []
    for star in (stars()[0], stars()[2], stars()[4]):
        for _ in range(170):
            votes = fs.Votes(star.sample(2_000, rng)[0], (0, 1))
            moments = fs.Moments.of(votes)
            flags = flag_sources(SignedMoments.of(moments))
            separation = Separation.independent(star.m)
            fit = fit_conditional(moments, flags, method="covariance", screen=1.0, separation=separation)
            fit = orient_conditional(fit, SignKnowledge(moments.source_names, separation.own, {}))
            estimate = estimate_balance(votes, None, fit)
            inside.append(abs(estimate.expected - (2 * star.p - 1)) < 1.96 * estimate.error)
    assert 0.92 <= np.mean(inside) <= 0.98


def panel(kind: str, p: float, rng: np.random.Generator) -> AnyStar:
    """Ten sources of coverage .1 to .6: one-sided labeling functions, or asymmetric judges."""
    confusion = np.zeros((10, 2, 3))
    for i in range(10):
        coverage = rng.uniform(0.1, 0.6)
        if kind == "one-sided":
            own, accuracy = i % 2, rng.uniform(0.65, 0.9)
            confusion[i, own, own] = min(2 * coverage * accuracy, 0.95)
            confusion[i, 1 - own, own] = 2 * coverage * (1 - accuracy)
        else:
            votes = np.clip(coverage * rng.uniform(0.6, 1.4, 2), 0.05, 0.95)
            right = rng.uniform(0.55, 0.95, 2)
            confusion[i, 0, :2] = votes[0] * np.array([right[0], 1 - right[0]])
            confusion[i, 1, :2] = votes[1] * np.array([1 - right[1], right[1]])
        confusion[i, :, 2] = 1 - confusion[i, :, :2].sum(axis=1)
    return AnyStar.of(confusion, p)


def bayes(star: AnyStar, votes: np.ndarray) -> np.ndarray:
    logs = np.log(np.maximum(star.confusion, 1e-300))
    evidence = sum(logs[i, 1, votes[:, i]] - logs[i, 0, votes[:, i]] for i in range(star.m))
    return np.asarray(np.log(star.p / (1 - star.p)) + evidence > 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("kind", ["one-sided", "judges"])
@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
@pytest.mark.parametrize("balance", ["given", "default"])
def test_labels_are_within_a_point_of_the_bayes_rule(kind, p, balance):
    """At 5,000 items; and at 500 not more than a point below the triplet mean with the same balance."""
    scores: dict[int, list[tuple[float, float, float]]] = {500: [], 5_000: []}
    refused = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        star = panel(kind, p, rng)
        given = star.balance if balance == "given" else None
        for n, rows in scores.items():
            codes, y = star.sample(n, rng)
            votes = fs.Votes(codes, (0, 1))
            ours, triplets = (_score(method, given, votes, y) for method in ("covariance", "triplet"))
            refused += ours is None
            majority = float(np.mean(fs.MajorityVote().fit(votes).predict(votes) == y))  # if a fit is refused
            rows.append((ours or majority, triplets or majority, float(np.mean(bayes(star, codes) == y))))
    small, large = (np.mean(scores[n], axis=0) for n in (500, 5_000))
    assert large[0] > large[2] - 0.01
    assert small[0] > small[1] - 0.01
    assert refused <= 4


def _score(method, balance, votes, y) -> float | None:
    try:
        return fs.LabelModel(method=method, class_balance=balance).fit(votes).score(votes, y)
    except NotIdentifiableError:
        return None


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_an_always_yes_source_changes_nothing(p):
    sample = fs.datasets.simulate(5_000, [0.8, 0.75, 0.7, 0.8, 0.7], class_balance=[1 - p, p], random_state=0)
    votes = sample.votes.codes
    yes = np.column_stack([votes, np.ones(5_000, np.int8)])
    with pytest.warns(fs.exceptions.SourceWarning, match="one class only"):
        with_yes = fs.LabelModel(method="covariance").fit(yes)
    without = fs.LabelModel(method="covariance").fit(votes)
    assert abs(with_yes.score(yes, sample.y) - without.score(votes, sample.y)) < 0.01


@pytest.mark.parametrize("method", ["covariance", "quadratic", "triplet"])
def test_many_strong_sources_and_an_imbalanced_balance_give_sure_labels(method):
    sample = fs.datasets.simulate(600, np.full(450, 0.9), class_balance=[0.01, 0.99], random_state=0)
    model = fs.LabelModel(method=method, class_balance=[0.01, 0.99])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        posterior = model.fit(sample.votes).predict_proba(sample.votes)
    assert np.isfinite(posterior).all()
    assert (np.abs(posterior[:, 1] - 0.5) > 0.4).all()
    assert model.score(sample.votes, sample.y) > 0.99
