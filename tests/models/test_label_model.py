"""The label model: exact on exact moments, laws, and errors about bad input."""

from __future__ import annotations

import contextlib
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV, cross_validate

import flyingsquid as fs
from flyingsquid.exceptions import (
    IncompatibleError,
    NotFittedError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VoteFileError,
    VotesError,
)
from flyingsquid.models._base import VoteSchema
from tests.oracle.star import Star
from tests.support.errors import mentions
from tests.support.strategies import examples, fittable_votes, vote_matrices

pytestmark = pytest.mark.filterwarnings("ignore:Most votes:flyingsquid.exceptions.SourceWarning")

TRIPLET_METHODS = ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best")]
UNSCREENED = fs.solvers.Triplet(screen=0)
EXACT = 1e12
"""Exact tests feed every vote pattern with its probability times this as its weight."""


def fit_exactly(star: Star, **options) -> fs.LabelModel:
    weights = star.joint().sum(axis=1) * EXACT
    return fs.LabelModel(**{"method": "triplet", "class_balance": star.balance, **options}).fit(
        star.patterns(), sample_weight=weights
    )


# ---------------------------------------------------------------------- oracle


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@pytest.mark.parametrize("p", [0.05, 0.2, 0.5, 0.8, 0.95])
@pytest.mark.parametrize("adversarial", [0, 1])
def test_exact_moments_give_exact_parameters(method, p, adversarial):
    for seed in range(3):
        star = Star.random(np.random.default_rng(seed), 5, adversarial=adversarial)
        star = Star(star.accuracies, star.coverage, p)
        model = fit_exactly(star, method=method)
        np.testing.assert_allclose(model.accuracies_, star.accuracies, atol=1e-10)
        np.testing.assert_allclose(model.coverage_, star.coverage, atol=1e-10)
        right = star.coverage * star.accuracies
        expected = np.stack([right, star.coverage - right], axis=1)
        np.testing.assert_allclose(model.confusion_[:, 0, :2], expected, atol=1e-10)
        np.testing.assert_allclose(model.confusion_[:, 1, 1::-1], expected, atol=1e-10)


@pytest.mark.parametrize("p", [0.05, 0.2, 0.8, 0.95])
def test_independencies_are_exact_too(p):
    star = Star(np.array([0.9, 0.3]), np.array([0.5, 1.0]), p)
    model = fit_exactly(star, method="marginal")
    np.testing.assert_allclose(model.accuracies_, star.accuracies, atol=1e-10)


def test_fitted_posteriors_equal_enumeration_on_200_random_models():
    """From exact moments to labels: the whole path, prior included once."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        star = Star.random(rng, int(rng.integers(3, 6)))
        posterior = fit_exactly(star).predict_proba(star.patterns())
        np.testing.assert_allclose(posterior, star.posterior(), atol=1e-12)


def test_given_triplets_by_name_or_position():
    star = Star.random(np.random.default_rng(0), 4)
    for triplets in ([(0, 1, 2), (1, 2, 3)], [("source 0", 1, "source 2"), (1, 2, 3)]):
        model = fit_exactly(star, method=fs.solvers.Triplet("best", triplets=triplets))
        np.testing.assert_allclose(model.accuracies_, star.accuracies, atol=1e-10)


# ---------------------------------------------------------------------- laws

seeds = st.integers(0, 200)
lawful = examples(30)


def fit(votes, **options) -> fs.LabelModel:
    return fs.LabelModel(**{"method": "triplet", **options}).fit(votes)


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@lawful
@given(seed=seeds)
def test_order_of_rows_changes_nothing(method, seed):
    votes = fittable_votes(seed)
    shuffled = votes[np.random.default_rng(seed).permutation(len(votes))]
    np.testing.assert_array_equal(
        fit(votes, method=method).predict_proba(votes), fit(shuffled, method=method).predict_proba(votes)
    )


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@lawful
@given(seed=seeds)
def test_order_of_sources_only_orders_the_estimates(method, seed):
    votes = fittable_votes(seed)
    order = np.random.default_rng(seed).permutation(votes.shape[1])
    a, b = fit(votes, method=method), fit(votes[:, order], method=method)
    np.testing.assert_allclose(b.accuracies_, a.accuracies_[order], rtol=1e-9)
    np.testing.assert_allclose(b.predict_proba(votes[:, order]), a.predict_proba(votes), atol=1e-9)


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@lawful
@given(seed=seeds)
def test_renamed_classes_only_rename_the_labels(method, seed):
    votes = fittable_votes(seed)
    swapped = np.where(votes >= 0, 1 - votes, -1)
    a = fit(votes, method=method, class_balance=[0.4, 0.6])
    b = fit(swapped, method=method, class_balance=[0.6, 0.4])
    np.testing.assert_allclose(b.accuracies_, a.accuracies_, rtol=1e-9)
    np.testing.assert_allclose(b.predict_proba(swapped)[:, ::-1], a.predict_proba(votes), atol=1e-9)
    texts = np.array(["no", "yes"], object)[votes]
    texts[votes == -1] = None
    named = fit(texts, method=method, class_balance=[0.4, 0.6])
    np.testing.assert_array_equal(named.predict_proba(texts), a.predict_proba(votes))
    assert set(named.predict(texts)) <= {"no", "yes"}


@pytest.mark.parametrize("aggregate", ["mean", "median", "best"])
@lawful
@given(seed=seeds, copies=st.integers(2, 5))
def test_duplicated_data_gives_the_same_point_estimates(aggregate, seed, copies):
    votes = fittable_votes(seed)
    method = fs.solvers.Triplet(aggregate, screen=0)
    a = fit(votes, method=method)
    b = fit(np.tile(votes, (copies, 1)), method=method)
    np.testing.assert_allclose(b.accuracies_, a.accuracies_, rtol=1e-9)


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@lawful
@given(seed=seeds, at=st.integers(0, 5))
def test_a_source_that_never_votes_changes_nothing(method, seed, at):
    votes = fittable_votes(seed)
    padded = np.insert(votes, at, -1, axis=1)
    with pytest.warns(SourceWarning, match=mentions("abstain", f"source {at}")):
        with_silent = fit(padded, method=method)
    np.testing.assert_allclose(
        with_silent.predict_proba(padded), fit(votes, method=method).predict_proba(votes), atol=1e-12
    )
    assert with_silent.accuracies_[at] == 0.5


@pytest.mark.parametrize("method", TRIPLET_METHODS)
@lawful
@given(seed=seeds)
def test_all_votes_flipped_with_a_flipped_anchor_flips_the_signs(method, seed):
    """Flipping every vote negates every E[λY]; an anchor tells the two worlds apart."""
    votes = fittable_votes(seed)
    flipped = np.where(votes >= 0, 1 - votes, -1)
    a = fit(votes, method=method, signs=dict.fromkeys(range(5), 1))
    b = fit(flipped, method=method, signs=dict.fromkeys(range(5), -1))
    np.testing.assert_allclose(b.accuracies_, 1 - a.accuracies_, atol=1e-9)
    np.testing.assert_allclose(b.predict_proba(flipped), a.predict_proba(votes), atol=1e-9)


def outcome(votes, **options):
    """The posterior on every pattern, or the kind of refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        try:
            return (
                fs.LabelModel(**{"method": "triplet", **options})
                .fit(votes)
                .predict_proba(ALL_ROWS[:, : votes.shape[1]])
            )
        except fs.FlyingSquidError as error:
            return type(error)


ALL_ROWS = np.array(list(itertools.product([-1, 0, 1], repeat=4)))


def same(a, b) -> bool:
    if isinstance(a, type) or isinstance(b, type):
        return a is b
    return bool(np.allclose(a, b, atol=1e-9))


@pytest.mark.parametrize("method", [*TRIPLET_METHODS, "marginal"])
@examples(150)
@given(votes=vote_matrices(), seed=st.integers(0, 99))
def test_laws_hold_on_any_votes_for_results_and_errors_alike(method, votes, seed):
    options = {"method": method, "class_balance": [0.3, 0.7]}
    swapped = {"method": method, "class_balance": [0.7, 0.3]}
    votes = fs.Votes(votes, (0, 1))
    expected = outcome(votes, **options)
    if not isinstance(expected, type):
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(expected.sum(axis=1), 1)
        np.testing.assert_allclose(expected[0], [0.3, 0.7])
    order = np.random.default_rng(seed).permutation(len(votes))
    assert same(outcome(votes[order], **options), expected)
    flipped = outcome(fs.Votes(np.where(votes.codes >= 0, 1 - votes.codes, -1), (0, 1)), **swapped)
    if not isinstance(flipped, type):
        mirror = np.where(ALL_ROWS >= 0, 1 - ALL_ROWS, -1)
        at = [int(np.flatnonzero((row == ALL_ROWS).all(axis=1))[0]) for row in mirror]
        flipped = flipped[at][:, ::-1]
    assert same(flipped, expected)


@lawful
@given(seed=seeds, cuts=st.lists(st.integers(1, 399), max_size=4))
def test_split_counted_and_merged_is_the_batch_fit(seed, cuts):
    votes = fittable_votes(seed)
    parts = np.split(votes, sorted(cuts))
    batch = fit(votes)
    merged = fs.LabelModel(method="triplet").fit_moments(
        sum(fs.Moments.of(part) for part in parts if len(part))
    )
    assert merged.moments_ == batch.moments_
    np.testing.assert_array_equal(merged.predict_proba(votes), batch.predict_proba(votes))


@lawful
@given(seed=seeds)
def test_partial_fit_adds_up_to_fit(seed):
    votes = fittable_votes(seed)
    model = fs.LabelModel(method="triplet")
    for part in np.array_split(votes, 4):
        with contextlib.suppress(NotIdentifiableError), warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)  # a part may not determine much yet
            model.partial_fit(part)
    assert model.moments_ == fs.Moments.of(votes)
    np.testing.assert_array_equal(model.predict_proba(votes), fit(votes).predict_proba(votes))


def test_sparse_and_dense_votes_give_the_same_model():
    votes = fittable_votes(0)
    sparse = fs.Votes.from_sparse(csr_array(votes + 1))
    dense, other = fit(votes), fit(sparse)
    np.testing.assert_allclose(other.predict_proba(sparse), dense.predict_proba(votes), atol=1e-14)


def test_signed_votes_give_the_same_model():
    votes = fittable_votes(0)
    signed = fs.Votes.from_signed(np.where(votes == -1, 0, 2 * votes - 1))
    model = fit(signed)
    np.testing.assert_array_equal(model.predict_proba(signed), fit(votes).predict_proba(votes))
    assert set(model.predict(signed)) == {-1, 1}
    with pytest.raises(VotesError, match="from_signed"):
        model.predict_proba(votes)


# ---------------------------------------------------------------------- hard sources


def test_a_source_may_abstain_later_that_never_did_in_training():
    votes = fs.datasets.simulate(1_000, [0.9, 0.8, 0.7], random_state=0).votes
    p = fit(votes).predict_proba([[1, -1, 1], [-1, -1, 0]])
    assert np.isfinite(p).all()
    assert p[0, 1] > 0.9 > p[1, 0] > 0.5


def test_identical_columns_are_flagged_and_do_not_lift_each_other():
    sample = fs.datasets.simulate(5_000, [0.7, 0.8, 0.65, 0.75], random_state=0)
    votes = np.column_stack([sample.votes.codes, sample.votes.codes[:, 0]])
    with pytest.warns(SourceWarning, match="source 0, source 4"):
        model = fit(votes)
    assert model.diagnostics_.identical == (("source 0", "source 4"),)
    np.testing.assert_allclose(model.accuracies_[[0, 4]], 0.7, atol=0.03)


@pytest.mark.parametrize("p", [0.3, 0.5, 0.8])
def test_an_always_yes_source_does_not_take_over(p):
    sample = fs.datasets.simulate(5_000, [0.8, 0.75, 0.7, 0.8, 0.7], class_balance=[1 - p, p], random_state=0)
    votes = sample.votes.codes
    yes = np.column_stack([votes, np.ones(5_000, np.int8)])
    for balance in (None, [1 - p, p]):
        with pytest.warns(SourceWarning, match="one class only: source 5"):
            with_yes = fit(yes, class_balance=balance)
        change = with_yes.score(yes, sample.y) - fit(votes, class_balance=balance).score(votes, sample.y)
        assert abs(change) < 0.01


def test_a_source_that_meets_no_other_gets_the_average_and_is_named():
    votes = fittable_votes(0)
    alone = np.full((50, 6), -1)
    alone[:, 5] = np.arange(50) % 2
    votes = np.vstack([np.column_stack([votes, np.full(400, -1)]), alone])
    with pytest.warns(SourceWarning, match=r"agree with too few others.*source 5"):
        model = fit(votes)
    assert model.diagnostics_.unidentified == ("source 5",)
    assert 0.55 < model.accuracies_[5] < 0.95
    assert model.predict_proba(alone[:1])[0, 0] > 0.55


def test_copies_and_perfect_sources_are_not_distinguishable():
    y = np.arange(100) % 2
    with pytest.raises(NotIdentifiableError, match=r"got 1 of 3.*vote alike"):
        fit(np.column_stack([y, y, y]))
    with pytest.raises(NotIdentifiableError, match="got 2 of 3"):
        fit(GOOD[:, [0, 0, 1]])


def test_a_mirrored_column_is_a_copy_too():
    sample = fs.datasets.simulate(5_000, [0.7, 0.8, 0.65, 0.75], random_state=0)
    votes = np.column_stack([sample.votes.codes, 1 - sample.votes.codes[:, 0]])
    with pytest.warns(SourceWarning, match="vote alike"):
        model = fit(votes)
    np.testing.assert_allclose(model.accuracies_, [0.7, 0.8, 0.65, 0.75, 0.3], atol=0.03)


def test_posteriors_follow_from_the_published_tables_on_sampled_votes():
    """Prior times the product of confusion_ over the votes cast, whatever was clipped."""
    for seed, p in ((0, 0.5), (1, 0.1), (2, 0.95)):
        rng = np.random.default_rng(seed)
        votes = fs.datasets.simulate(
            300, rng.uniform(0.6, 0.95, 6), coverage=0.7, class_balance=[1 - p, p], random_state=rng
        ).votes.codes
        for balance in (None, [1 - p, p]):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SourceWarning)
                model = fit(votes, class_balance=balance)
            np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
            joint = np.tile(model.class_balance_, (300, 1))
            for i in range(6):
                cast = votes[:, i] >= 0
                joint[cast] *= model.confusion_[i][:, votes[cast, i]].T
            expected = joint / joint.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(model.predict_proba(votes), expected, atol=1e-12)


def test_tables_are_probabilities_when_items_are_few_and_classes_imbalanced():
    for n, balance in ((15, [0.05, 0.95]), (500, [0.001, 0.999])):
        votes = fs.datasets.simulate(n, [0.9, 0.8, 0.8, 0.9], class_balance=balance, random_state=1).votes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SourceWarning)
            model = fit(votes, class_balance=balance, signs=dict.fromkeys(range(4), 1), method=UNSCREENED)
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
        assert (model.confusion_ >= 0).all()


def test_two_good_sources_and_noise_are_refused_not_averaged():
    sample = fs.datasets.simulate(5_000, [0.9, 0.9, 0.5], random_state=1)
    with pytest.raises(NotIdentifiableError, match="got 1 of 3"):
        fit(sample.votes)


def test_votes_that_do_not_fit_the_balance_are_pointed_out():
    sample = fs.datasets.simulate(5_000, [0.95, 0.9, 0.9, 0.85], class_balance=[0.9, 0.1], random_state=0)
    with pytest.warns(SourceWarning, match="class_balance"):
        fit(sample.votes)
    assert fit(sample.votes, class_balance=[0.9, 0.1]).score(sample.votes, sample.y) > 0.97


def test_estimates_stay_below_the_vote_rate():
    """Noise carries a raw estimate past what any source can have."""
    star = Star(np.array([1.0, 0.6, 0.6, 0.6]), np.array([0.3, 1.0, 1.0, 1.0]), 0.5)
    rng = np.random.default_rng(0)
    for _ in range(20):
        votes = fs.datasets.simulate(500, star.accuracies, coverage=star.coverage, random_state=rng).votes
        with contextlib.suppress(NotIdentifiableError):
            assert fit(votes, method=UNSCREENED).accuracies_.max() <= 1


# ---------------------------------------------------------------------- bad input

GOOD = fittable_votes(0)

BAD_FITS = [
    (np.empty((0, 3)), {}, VotesError, "at least one item"),
    (np.empty((3, 0)), {}, VotesError, "at least one column"),
    (np.zeros(3), {}, VotesError, r"got shape \(\d,\)"),
    (
        [[0, 1, 2]] * 5,
        {"method": fs.solvers.Triplet("best")},
        OptionError,
        "got 3: 0, 1, 2.*OneVsRest",
    ),
    ([[0, 1, 0.5]], {}, VotesError, "fractional"),
    ([[0, 1, np.inf]], {}, VotesError, "infinite"),
    (np.full((9, 3), -1), {}, NotIdentifiableError, "At least one source must vote"),
    (GOOD[:, :2], {}, NotIdentifiableError, "got 2 of 2.*MajorityVote"),
    (
        np.column_stack([GOOD[:, :2], np.full(400, -1)]),
        {},
        NotIdentifiableError,
        "got 2 of 3",
    ),
    (
        [[0, -1, -1], [-1, 1, -1], [-1, -1, 0]],
        {},
        NotIdentifiableError,
        "got 0 of 3",
    ),
    (GOOD, {"class_balance": [0.5, 0.6]}, OptionError, "sums to 1.1"),
    (GOOD, {"class_balance": [0.0, 1.0]}, OptionError, "`class_balance` must"),
    (GOOD, {"class_balance": [0.5, np.nan]}, OptionError, "`class_balance` must"),
    (GOOD, {"class_balance": [0.2, 0.3, 0.5]}, OptionError, r"shape \(3,\)"),
    (GOOD, {"class_balance": 0.3}, OptionError, "one probability for each of the classes 0, 1"),
    (GOOD, {"class_balance": object()}, OptionError, "`class_balance` must"),
    (
        GOOD,
        {"method": "magic"},
        OptionError,
        '`method` must be a solver or one of "auto", "triplet".*got .magic',
    ),
    (np.where(GOOD >= 0, 1, -1), {}, NotIdentifiableError, "both classes.*from_signed"),
    ([[0, 1, 19_900]] * 4, {"method": "em", "n_classes": 19_901}, OptionError, "3 sources and 19,901"),
    (GOOD, {"method": fs.solvers.Triplet("best", [(0, 1, 1)])}, OptionError, "`triplets`.*different"),
    (
        GOOD,
        {"method": fs.solvers.Triplet("best", [(0, 1, 9)])},
        OptionError,
        "`triplets`.*from 0 to 4; got 9",
    ),
    (GOOD, {"method": fs.solvers.Triplet("best", [(0, 1, "x")])}, OptionError, "`triplets`.*got 'x'"),
    (
        GOOD,
        {"method": fs.solvers.Triplet("best", [(0, 1, 2)])},
        NotIdentifiableError,
        "`triplets`.*'source 3'",
    ),
    (GOOD, {"method": "marginal"}, NotIdentifiableError, "too close to 0"),
    (
        GOOD,
        {"method": "marginal", "class_balance": [0.3, 0.7], "signs": {0: 1}},
        OptionError,
        "`signs` is not supported",
    ),
]


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
@pytest.mark.parametrize(("votes", "options", "error", "message"), BAD_FITS, ids=range(len(BAD_FITS)))
def test_bad_input_is_refused_with_what_where_and_what_to_do(votes, options, error, message):
    with pytest.raises(error, match=message) as caught:
        fs.LabelModel(**{"method": "triplet", **options}).fit(votes)
    assert isinstance(caught.value, fs.FlyingSquidError)
    assert isinstance(caught.value, ValueError)


BAD_SOLVERS = [
    (fs.solvers.Triplet, {"aggregate": "worst"}, "`aggregate`.*got 'worst'"),
    (fs.solvers.Triplet, {"screen": -1}, "`screen`.*got -1"),
    (fs.solvers.Triplet, {"screen": "1.0"}, "`screen`.*got '1.0'"),
    (fs.solvers.Triplet, {"screen": 10**400}, "`screen`.*got 1000"),
    (fs.solvers.Quadratic, {"screen": -1}, "`screen`.*got -1"),
    (fs.solvers.Triplet, {"cliques": "none"}, "`cliques`.*got 'none'"),
    (fs.solvers.Marginal, {"cliques": "none"}, "`cliques`.*got 'none'"),
    (fs.solvers.Triplet, {"triplets": [(0, 1, 2)]}, '`aggregate` must be "best"'),
    (fs.solvers.Triplet, {"aggregate": "best", "triplets": np.array(0)}, "`triplets` must be a sequence"),
    (fs.solvers.Triplet, {"aggregate": "best", "triplets": 5}, "`triplets` must be a sequence.*got 5"),
    (fs.solvers.Triplet, {"aggregate": "best", "triplets": [(0, 1)]}, "`triplets`.*three sources"),
    (fs.solvers.Triplet, {"aggregate": "best", "triplets": []}, "`triplets` must not be empty"),
    (fs.solvers.Triplet, {"aggregate": "best", "triplets": iter([(0, 1, 2)])}, "read only once"),
]


@pytest.mark.parametrize(("solver", "options", "message"), BAD_SOLVERS, ids=range(len(BAD_SOLVERS)))
def test_bad_options_of_a_solver_are_refused_when_it_is_made(solver, options, message):
    with pytest.raises(OptionError, match=message):
        solver(**options)


def test_class_balance_that_cannot_be_used():
    """Counts of pairs do not determine the balance, so "estimate" is refused there, not ignored."""
    counts = fs.Moments.of(GOOD)
    for method in ("triplet", "covariance"):
        model = fs.LabelModel(class_balance="estimate", method=method)
        with pytest.raises(OptionError, match=r"`class_balance` must.*fit\(votes\)"):
            model.fit_moments(counts)
        with pytest.raises(OptionError, match="`class_balance` must"):
            model.partial_fit(GOOD)
        assert "estimated from votes" in model.fit(GOOD).diagnostics_.class_balance
    with pytest.raises(OptionError, match=mentions("class_balance", "'guess'", "'uniform'", "'estimate'")):
        fs.LabelModel(method="triplet", class_balance="guess").fit(GOOD)


def test_predict_refuses_other_sources():
    model = fit(fs.Votes.from_classes(GOOD, names=list("abcde")))
    with pytest.raises(IncompatibleError, match=mentions("5 sources", 4, "a, b")):
        model.predict(GOOD[:, :4])
    with pytest.raises(IncompatibleError, match="unexpected 'z'; missing 'e'"):
        model.predict(fs.Votes.from_classes(GOOD, names=list("abcdz")))
    with pytest.raises(VotesError, match=r"row 0, source 2: .*got 2"):
        model.predict_proba([[0, 1, 2, 0, 1]])
    with pytest.raises(IncompatibleError, match="classes differ"):
        model.predict_proba(fs.Votes.from_classes([["x", "y", "x", "x", "x"]]))


@pytest.mark.parametrize("make", [fs.LabelModel, fs.MajorityVote, fs.OnlineLabelModel])
def test_later_tasks_of_a_crowd_may_lack_workers_and_classes(make):
    rng = np.random.default_rng(0)
    triples = [(i, f"w{j}", str(rng.choice(["cat", "dog", "fox"]))) for i in range(60) for j in range(6)]
    model = make().partial_fit(fs.Votes.from_long(*zip(*triples, strict=True)))
    some = list(zip(*[t for t in triples[:60] if t[1] != "w3" and t[2] != "fox"], strict=True))
    later, declared = fs.Votes.from_long(*some), fs.Votes.from_long(*some, classes=["cat", "dog", "fox"])
    assert (later.n_sources, later.n_classes) == (5, 2)
    expected = model.predict_proba(model.read_votes(declared, unknown_sources="ignore"))
    np.testing.assert_array_equal(model.predict_proba(later), expected)
    model.partial_fit(model.read_votes(later))
    others = fs.Votes.from_long([1, 1, 2], ["w1", "eve", "w2"], ["cat", "dog", "cat"])
    with pytest.raises(IncompatibleError, match=mentions("'eve'", "unknown_sources")):
        model.predict(others)


def test_predict_before_fit_is_scikit_learns_error_and_ours():
    for error in (NotFittedError, SklearnNotFittedError, fs.FlyingSquidError, AttributeError):
        with pytest.raises(error, match="not fitted yet"):
            fs.LabelModel(method="triplet").predict(GOOD)


def test_fit_moments_takes_moments():
    with pytest.raises(OptionError, match=r"`moments` must be Moments.*fit"):
        fs.LabelModel(method="triplet").fit_moments(GOOD)


def test_a_failed_fit_leaves_the_model_as_it_was():
    model = fit(GOOD)
    before = model.predict_proba(GOOD)
    with pytest.raises(NotIdentifiableError):
        model.fit(np.full((9, 5), -1))
    np.testing.assert_array_equal(model.predict_proba(GOOD), before)


def test_partial_fit_keeps_counts_that_do_not_suffice_yet():
    model = fs.LabelModel(method="triplet")
    with pytest.raises(NotIdentifiableError):
        model.partial_fit([[0, -1, -1]])
    with pytest.raises(NotFittedError):
        model.predict_proba([[0, 0, 0]])
    model.partial_fit(fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0).votes)
    assert model.moments_.n_items == 501


def test_partial_fit_does_not_count_twice_after_a_wrong_option():
    model = fs.LabelModel(signs={"nobody": 1})
    with pytest.raises(OptionError):
        model.partial_fit(GOOD)
    assert model.set_params(signs="average").partial_fit(GOOD).moments_.n_items == 400


def test_a_failed_partial_fit_leaves_the_last_fit_unchanged():
    model = fit(GOOD)
    before = (model.moments_, model.accuracies_interval_, str(model.summary()))
    model.set_params(method="marginal")
    with pytest.raises(NotIdentifiableError):
        model.partial_fit(GOOD)
    assert (model.moments_, str(model.summary())) == (before[0], before[2])
    np.testing.assert_array_equal(model.accuracies_interval_, before[1])
    assert model.set_params(method="auto").partial_fit(GOOD).moments_.n_items == 1_200


def test_results_cannot_be_changed_by_accident():
    with pytest.raises(ValueError, match="read-only"):
        fit(GOOD).accuracies_interval_[0, 0] = 0


def test_counts_of_nothing_are_refused():
    counts = fs.Moments.of(GOOD)
    for model in (fs.LabelModel(method="triplet"), fs.MajorityVote()):
        with pytest.raises(NotIdentifiableError, match="at least one item"):
            model.fit_moments(counts - counts)
        with pytest.raises(OptionError, match="`moments` must be Moments"):
            model.fit_moments(GOOD)


def test_the_warning_points_at_the_caller():
    silent = np.column_stack([GOOD, np.full(400, -1)])
    for train in (fs.LabelModel(method="triplet").fit, fs.LabelModel(method="triplet").partial_fit):
        with pytest.warns(SourceWarning) as caught:
            train(silent)
        assert caught[0].filename == __file__
    with pytest.warns(SourceWarning) as caught:
        fs.LabelModel(method="triplet").fit_moments(fs.Moments.of(silent))
    assert caught[0].filename == __file__


def test_partial_fit_refuses_other_classes_and_keeps_what_it_had():
    model = fit(GOOD)
    with pytest.raises(VotesError, match="got 2"):
        model.partial_fit([[0, 1, 2, 0, 1]])
    assert model.moments_.n_items == 400


# ---------------------------------------------------------------------- answers


def test_ties_follow_the_stated_policy():
    model = fs.MajorityVote().fit([[0, 1]])
    tied = [[0, 1], [1, 1], [-1, -1]]
    assert model.predict(tied).tolist() == [0, 1, 0]
    assert model.predict(tied, tie_break="abstain").tolist() == [-1, 1, -1]
    drawn = model.predict(np.tile([[0, 1]], (400, 1)), tie_break="random", random_state=0)
    assert 150 < drawn.sum() < 250
    with pytest.raises(OptionError, match=r"`tie_break` must.*'best'"):
        model.predict(tied, tie_break="best")
    assert set(model.predict(tied, tie_break="random")) <= {0, 1}
    for tie_break in ("first", "random"):
        with pytest.raises(OptionError, match="random_state"):
            model.predict(tied, tie_break=tie_break, random_state="0")


def test_no_label_is_never_a_class():
    signed = fs.Votes.from_signed([[1, -1], [1, 1]])
    assert fs.MajorityVote().fit(signed).predict(signed, tie_break="abstain").tolist() == [0, 1]
    texts = [["a", "b"], ["b", "b"]]
    assert fs.MajorityVote().fit(texts).predict(texts, tie_break="abstain").tolist() == [None, "b"]


def test_equal_evidence_is_a_tie_in_any_order_of_summation():
    votes = fs.datasets.simulate(500, [0.8, 0.8, 0.8, 0.8], random_state=0).votes.codes
    balanced = np.vstack([np.roll(votes, shift, axis=1) for shift in range(4)])
    balanced = np.vstack([balanced, 1 - balanced])
    model = fit(balanced)
    assert model.predict([[0, 1, 1, 0], [1, 0, 0, 1]], tie_break="abstain").tolist() == [-1, -1]


def test_score_counts_items_whose_truth_is_known():
    sample = fs.datasets.simulate(300, [0.9, 0.9, 0.8], random_state=0)
    model = fit(sample.votes)
    whole = model.score(sample.votes, sample.y)
    assert whole == np.mean(model.predict(sample.votes) == sample.y)
    some = sample.y.astype(float)
    some[100:] = np.nan
    for gold in (some, np.where(np.isnan(some), -1, some), [None if np.isnan(v) else int(v) for v in some]):
        assert model.score(sample.votes, gold) == model.score(sample.votes[:100], sample.y[:100])
    assert model.score(sample.votes, sample.y, sample_weight=np.ones(300)) == pytest.approx(whole)
    with pytest.raises(VotesError, match="`y` must"):
        model.score(sample.votes, np.full(300, -1))
    with pytest.raises(VotesError, match="one label for each of 300"):
        model.score(sample.votes, sample.y[:5])
    with pytest.raises(VotesError, match=mentions("y[0]", 7)):
        model.score(sample.votes, np.full(300, 7))
    for weights in (np.zeros(300), np.ones(5), np.full(300, np.nan), "heavy"):
        with pytest.raises(VotesError, match="sample_weight"):
            model.score(sample.votes, sample.y, sample_weight=weights)


def test_diagnostics_name_the_method_and_its_options():
    model = fit(GOOD)
    assert model.diagnostics_.method == "triplet"
    assert model.diagnostics_.reason == ""
    auto = fit(GOOD, method="auto")
    assert auto.diagnostics_.method == auto.method_ == "auto"
    assert auto.diagnostics_.reason == auto.reason_ != ""
    assert model.diagnostics_.class_balance == "uniform, the default of the method"
    assert fit(GOOD, method=fs.solvers.Triplet("best")).diagnostics_.reason == ""
    used, skipped = model.diagnostics_.triplets_used, model.diagnostics_.triplets_skipped
    np.testing.assert_array_equal(used + skipped, 6)  # 4 choose 2


# ---------------------------------------------------------------------- scikit-learn


def test_scikit_learn_conventions_hold():
    model = fs.LabelModel(method=fs.solvers.Triplet("median"), class_balance=[0.3, 0.7])
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(temper=None, n_classes=2).n_classes == 2
    assert not [name for name in vars(model) if name.endswith("_")]
    copy = pickle.loads(pickle.dumps(model.fit(GOOD)))  # our own bytes
    np.testing.assert_array_equal(copy.predict_proba(GOOD), model.predict_proba(GOOD))
    assert model.classes_.tolist() == [0, 1]
    assert model.n_features_in_ == 5


def test_a_grid_search_over_the_method_runs():
    sample = fs.datasets.simulate(300, [0.9, 0.8, 0.7, 0.8], random_state=0)
    search = GridSearchCV(fs.LabelModel(method="triplet"), {"method": TRIPLET_METHODS}, cv=3)
    for votes in (sample.votes.codes, sample.votes, fs.Votes.from_sparse(csr_array(sample.votes.codes + 1))):
        search.fit(votes, sample.y)
        assert search.best_params_["method"] in TRIPLET_METHODS
        assert search.best_score_ > 0.85


def test_fitting_does_not_touch_the_votes_or_the_global_generator():
    votes, before = GOOD.copy(), np.random.get_state()[1].copy()  # noqa: NPY002  # what must not change
    votes.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(votes).predict(votes)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


# ---------------------------------------------------------------------- majority vote


def test_majority_vote_has_the_same_methods():
    votes = fs.Votes.from_classes([["a", "c", "c"], ["b", None, None]], names=["x", "y", "z"])
    model = fs.MajorityVote().fit(votes)
    assert model.predict(votes).tolist() == ["c", "b"]
    assert model.score(votes, ["c", "a"]) == 0.5
    same = fs.MajorityVote().fit_moments(fs.Moments.of(votes))
    np.testing.assert_array_equal(same.predict_proba(votes), model.predict_proba(votes))
    assert fs.MajorityVote().partial_fit(votes).partial_fit(votes).n_features_in_ == 3
    with pytest.raises(NotFittedError):
        fs.MajorityVote().predict(votes)


def test_class_balance_may_be_a_mapping(tmp_path):
    votes = fs.Votes.from_classes([["spam", "spam", "ham"], ["ham", "ham", "ham"], ["spam", "ham", "spam"]])
    model = fs.LabelModel(class_balance={"spam": 0.2, "ham": 0.8}).fit(votes)
    assert model.class_balance_.tolist() == [0.8, 0.2]
    model.save(tmp_path / "model")
    assert fs.load(tmp_path / "model").class_balance == {"spam": 0.2, "ham": 0.8}
    with pytest.raises(OptionError, match="`class_balance`"):
        fs.LabelModel(class_balance={"spam": 0.2, "eggs": 0.8}).fit(votes)


def test_names_of_other_packages_point_to_ours():
    with pytest.raises(AttributeError, match="summarize"):
        _ = fs.LFAnalysis


def test_unknown_sources_can_be_left_out():
    votes = fs.Votes.from_classes([[0, 1, 1], [1, 1, 0], [0, 0, 0]], names=["a", "b", "c"])
    model = fs.MajorityVote().fit(votes)
    more = fs.Votes.from_classes([[1, 0, 0, 0]], names=["new", "c", "a", "b"], classes=[0, 1])
    with pytest.raises(IncompatibleError):
        model.predict(more)
    assert model.read_votes(more, unknown_sources="ignore").codes.tolist() == [[0, 0, 0]]
    with pytest.raises(IncompatibleError, match="without any of these sources"):
        model.read_votes(more[:, ["new"]], unknown_sources="ignore")


def test_gold_labels_are_routed_by_scikit_learn():
    """Cross-validation slices gold labels with the votes."""
    sample = fs.datasets.simulate(300, [0.9, 0.8, 0.7, 0.6], random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        model = fs.LabelModel().set_fit_request(gold=True)
        found = cross_validate(
            model, sample.votes, sample.y, cv=3, params={"gold": sample.y}, return_estimator=True
        )
    assert [fitted.n_gold_ for fitted in found["estimator"]] == [200, 200, 200]


# ---------------------------------------------------------------------- arguments of other libraries


MODEL: Any = fs.LabelModel  # not checked by mypy, which would find the wrong names
MAJORITY: Any = fs.MajorityVote


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda votes: MODEL(cardinality=2), mentions("`cardinality`", "`n_classes`")),
        (
            lambda votes: MODEL().fit(votes, class_balance=[0.5, 0.5]),
            mentions("`class_balance`", "constructor", "LabelModel(class_balance=...)"),
        ),
        (lambda votes: MODEL().fit(L_train=votes), mentions("`L_train`", "`votes`")),
        (
            lambda votes: MODEL().fit(votes).predict(votes, tie_break_policy="abstain"),
            mentions("`tie_break_policy`", "`tie_break`"),
        ),
        (
            lambda votes: MAJORITY().fit(votes).predict(votes, tie_brake="first"),
            mentions("MajorityVote.predict", "`tie_brake`", "`tie_break`"),
        ),
    ],
)
def test_an_unknown_argument_is_named_with_the_one_to_use(call, hint):
    votes = np.random.default_rng(0).integers(0, 2, (50, 4))
    with pytest.raises(TypeError, match=hint):
        call(votes)


def test_warnings_point_to_the_line_that_called_fit():
    votes = np.random.default_rng(0).integers(0, 2, (50, 4))
    votes[:, 3] = -1
    with pytest.warns(SourceWarning) as caught:
        fs.LabelModel().fit(votes)
    assert [warning.filename for warning in caught] == [__file__]


@pytest.mark.parametrize("wrong", [None, 3])
def test_votes_that_are_not_an_array_are_shown(wrong):
    with pytest.raises(VotesError, match=mentions("`votes` must be an array or a table", repr(wrong))):
        fs.LabelModel().fit(wrong)


@pytest.mark.parametrize("path", ["votes.csv", Path("votes.csv")])
def test_a_file_that_does_not_exist_is_named(path):
    with pytest.raises(VoteFileError, match=r"votes\.csv"):
        fs.LabelModel().fit(path)


def test_workers_may_be_missing_from_later_votes_and_new_ones_are_named():
    rng = np.random.default_rng(0)
    y, items = rng.integers(0, 2, 400), np.repeat(np.arange(400), 3)
    worker = np.array([rng.choice(6, 3, replace=False) for _ in range(400)]).ravel()
    label = np.where(rng.random(1_200) < 0.8, y[items], 1 - y[items])
    early, few = items < 200, worker < 4

    def votes(mask):
        return fs.Votes.from_long(items[mask], np.array(list("abcdef"))[worker[mask]], label[mask])

    model = fs.LabelModel().partial_fit(votes(early)).partial_fit(votes(~early & few))
    together = fs.LabelModel().partial_fit(votes(early | few))
    assert model.moments_ == together.moments_
    with pytest.raises(IncompatibleError, match="'e', 'f'"):
        fs.LabelModel().partial_fit(votes(few)).partial_fit(votes(early))


def test_sources_and_parameters_of_a_prediction_come_from_one_fit(monkeypatch):
    """Another thread may fit the model while votes are read."""
    rng = np.random.default_rng(0)
    votes, others = rng.integers(0, 2, (200, 4)), rng.integers(0, 3, (200, 6))
    model = fs.LabelModel().fit(votes)
    expected = model.predict_proba(votes)
    read = VoteSchema.read

    def read_and_fit(schema, data):
        found = read(schema, data)
        model.fit(others)
        return found

    monkeypatch.setattr(VoteSchema, "read", read_and_fit)
    np.testing.assert_array_equal(model.predict_proba(votes), expected)
    assert model.n_features_in_ == 6
