"""Explanations: contributions add up to the posterior, and sentences are correct."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, NotFittedError, VotesError
from flyingsquid.fits.explanation import (
    Explanation,
    build_explanation,
    contributions_of,
    count_item,
    next_best_and_best,
)
from flyingsquid.inference import binary_posterior, vote_shares
from tests.support.errors import mentions
from tests.support.strategies import fittable_votes

NAMES = ("links", "short", "caps")
EVEN = np.array([0.5, 0.5])


def symmetric(*odds: float) -> np.ndarray:
    return np.column_stack([-np.array(odds), odds, np.zeros(len(odds))])


def explain_item(codes, classes, names, prior, weights) -> Explanation:
    """Explain an item by weights (m, 3): what each vote, no vote last, adds to the log odds of class 1."""
    posterior = binary_posterior(codes[None, :], prior, weights)[0, 0]
    said = weights[np.arange(len(codes)), np.where(codes < 0, 2, codes)]
    _, best = next_best_and_best(posterior)
    adds = said if best == 1 else -said
    return build_explanation(classes, posterior, prior, contributions_of(names, codes, classes, adds), codes)


@st.composite
def items(draw):
    m = draw(st.integers(1, 8))
    codes = draw(arrays(np.int8, m, elements=st.integers(-4, 1)))
    weights = draw(arrays(np.float64, (m, 3), elements=st.floats(-5, 5)))
    p = draw(st.floats(0.001, 0.999))
    return codes, np.array([1 - p, p]), weights


# ---------------------------------------------------------------------- laws


@given(items())
def test_prior_and_contributions_sum_to_the_log_odds_of_the_posterior(item):
    codes, prior, weights = item
    why = explain_item(codes, ("no", "yes"), [f"s{i}" for i in range(len(codes))], prior, weights)
    posterior = binary_posterior(codes[None, :], prior, weights)[0, 0]
    assert why.probabilities == tuple(posterior)
    best = why.classes.index(why.predicted)
    log_odds = np.log(posterior[best]) - np.log(posterior[1 - best])
    total = why.prior_log_odds + sum(c.adds for c in why.contributions)
    assert total == pytest.approx(log_odds, abs=1e-12)
    assert why.log_odds == pytest.approx(log_odds, abs=1e-12)
    assert sum(why.table().to_dict()["adds"]) == pytest.approx(log_odds, abs=1e-12)


@given(items())
def test_the_strongest_come_first_and_none_adds_nothing(item):
    codes, prior, weights = item
    names = [f"s{i}" for i in range(len(codes))]
    why = explain_item(codes, ("no", "yes"), names, prior, weights)
    sizes = [abs(c.adds) for c in why.contributions]
    assert (np.diff(sizes) <= 1e-9).all()  # those that are equal but for rounding keep their order
    assert all(sizes)
    said = weights[np.arange(len(codes)), np.where(codes < 0, 2, codes)]
    assert {c.source for c in why.contributions} == {names[i] for i in np.flatnonzero(said)}


@given(items())
def test_swapping_the_classes_explains_the_same_prediction(item):
    codes, prior, weights = item
    names = [f"s{i}" for i in range(len(codes))]
    why = explain_item(codes, ("no", "yes"), names, prior, weights)
    swapped = np.where(codes >= 0, 1 - codes, codes)
    other = explain_item(swapped, ("yes", "no"), names, prior[::-1], -weights[:, [1, 0, 2]])
    if abs(why.log_odds) > 1e-6:  # a tie goes to the first class
        assert other.predicted == why.predicted
        assert other.contributions == why.contributions


@given(arrays(np.int8, 6, elements=st.integers(-4, 3)))
def test_shares_of_a_majority_vote_sum_to_its_probabilities(codes):
    why = count_item(codes, ("a", "b", "c", "d"), [f"s{i}" for i in range(6)])
    np.testing.assert_allclose(why.probabilities, vote_shares(codes[None, :], 4)[0, 0])
    assert len(why.contributions) == (codes >= 0).sum()
    if why.contributions:
        shares = [sum(c.adds for c in why.contributions if c.vote == k) for k in why.classes]
        np.testing.assert_allclose(shares, why.probabilities, atol=1e-12)
        assert why.contributions[0].vote == why.predicted


# ---------------------------------------------------------------------- words


def test_an_explanation_reads_as_a_table_and_a_sentence():
    why = explain_item(np.array([1, 1, 0]), ("ham", "spam"), NAMES, EVEN, symmetric(1.8, 0.9, 0.4))
    assert str(why).splitlines() == [
        "log odds of spam: +2.30",
        "source  vote   adds",
        "prior         +0.00",
        "links   spam  +1.80",
        "short   spam  +0.90",
        "caps    ham   -0.40",
        "spam with probability 0.91: links (+1.8) and short (+0.9) for it, caps (-0.4) against it",
    ]


def test_what_speaks_for_the_first_class_is_positive_when_it_is_predicted():
    why = explain_item(np.array([0, 1, -1]), ("ham", "spam"), NAMES, np.array([0.8, 0.2]), symmetric(2, 1, 3))
    assert (why.predicted, why.prior_log_odds) == ("ham", pytest.approx(np.log(4)))
    assert [(c.source, c.vote, c.adds) for c in why.contributions] == [
        ("links", "ham", 2.0),
        ("short", "spam", -1.0),
    ]


def test_a_missing_vote_that_speaks_is_listed_with_its_reason():
    weights = np.array([[-1, 1, 0.5], [-1, 1, 0.3], [-1, 1, 0.0]])
    why = explain_item(np.array([-1, -2, -1]), ("ham", "spam"), NAMES, EVEN, weights)
    assert why.table().to_dict()["vote"] == [None, "no vote", "no vote (refused)"]
    assert [(c.vote, c.reason) for c in why.contributions] == [(None, "abstained"), (None, "refused")]


@pytest.mark.parametrize(
    ("codes", "prior", "odds", "sentence"),
    [
        ([-1, -1, -1], [0.5, 0.5], [1, 1, 1], "0 with probability 0.50: no source adds anything; 3"),
        ([1, -1, -1], [0.5, 0.5], [9, 1, 1], "1 with probability above 0.999: links (+9.0) for it; 2"),
        ([1, -1, -1], [0.5, 0.5], [6, 1, 1], "1 with probability 0.998: links (+6.0) for it; 2"),
        (
            [1, 1, -1],
            [0.5, 0.5],
            [1, 0.03, 1],
            "1 with probability 0.74: links (+1.0) and short (+0.03) for it; 1",
        ),
        (
            [0, -1, -1],
            [0.0001, 0.9999],
            [1, 1, 1],
            "1 with probability above 0.999 (above 0.999 before the votes): links (-1.0) against it; 2",
        ),
        (
            [0, -1, -1],
            [0.0001, 0.9999],
            [12, 1, 1],
            "0 with probability 0.94 (below 0.001 before the votes): links (+12.0) for it; 2",
        ),
    ],
)
def test_sentences(codes, prior, odds, sentence):
    why = explain_item(np.array(codes), (0, 1), NAMES, np.array(prior), symmetric(*odds))
    assert why.sentence() == sentence + " of 3 sources did not vote"


def test_a_sentence_names_a_few_sources_and_adds_up_the_rest():
    names = [f"s{i}" for i in range(9)]
    why = explain_item(np.ones(9, np.int8), (0, 1), names, EVEN, symmetric(*range(9, 0, -1)))
    assert why.sentence().endswith("s3 (+6.0), s4 (+5.0) and 4 more (+10.0) for it")
    assert len(why.table()) == 10


def test_a_majority_vote_is_explained_by_counting():
    why = count_item(np.array([2, 0, -1, 2]), ("a", "b", "c"), ["w", "x", "y", "z"])
    assert [(c.source, c.vote) for c in why.contributions] == [("w", "c"), ("z", "c"), ("x", "a")]
    assert why.sentence() == "c with probability 0.67: 2 of 3 votes; 1 of 4 sources did not vote"
    nobody = count_item(np.array([-1, -2]), ("a", "b"), ["w", "x"])
    assert (
        nobody.sentence() == "a with probability 0.50: no source votes, so all classes are equally probable"
    )
    assert "no source votes" in str(nobody)


def test_explanations_go_to_json_and_html():
    labels = (("a", 1), 3)  # a class may be anything
    for why in (
        explain_item(np.array([1, 0, -1]), labels, ("<b>", "short", "caps"), EVEN, symmetric(2, 1, 1)),
        count_item(np.array([1, 0, -1]), labels, ("<b>", "short", "caps")),
    ):
        state = json.loads(json.dumps(why.to_dict(), allow_nan=False))
        assert state["classes"] == ["('a', 1)", 3]
        assert set(state["contributions"]) == {"source", "vote", "adds"}
        assert "&lt;b&gt;" in why._repr_html_()
        assert "<b>" not in why._repr_html_()


# ---------------------------------------------------------------------- models

ROW = {"e": 0, "d": -1, "c": 1, "b": 1, "a": 0}  # reordered on purpose


def fitted(estimator, **options):
    votes = fs.Votes.from_classes(fittable_votes(0), names=list("abcde"))
    return estimator(**options).fit(votes)


@pytest.mark.parametrize("method", ["triplet", "covariance"])
def test_an_explanation_gives_the_probabilities_of_the_model(method):
    votes = fs.Votes.from_classes(fittable_votes(0), names=list("abcde"))
    model = fs.LabelModel(method=method, class_balance=[0.4, 0.6]).fit(votes)
    for i in range(50):
        why = model.explain(votes[[i]])
        np.testing.assert_allclose(why.probabilities, model.predict_proba(votes[[i]])[0], atol=1e-12)
        assert why.predicted == model.predict(votes[[i]])[0]
        assert why.prior == (0.4, 0.6)


@pytest.mark.parametrize("estimator", [fs.LabelModel, fs.MajorityVote])
def test_one_row_in_any_form(estimator):
    model = fitted(estimator)
    row = [0, 1, 1, -1, 0]
    expected = model.explain(row)
    forms = [
        tuple(row),
        np.array(row),
        np.array([row], float),
        [row],
        [0, 1, 1, None, 0],
        np.ma.masked_equal(row, -1),
        ROW,
        fs.Votes.from_classes([row]),
        fs.Votes.from_classes([list(ROW.values())], names=list(ROW)),
        fs.Votes.from_sparse(csr_array(np.array([row]) + 1), classes=[0, 1]),
    ]
    for form in forms:
        assert model.explain(form) == expected


@pytest.mark.extra
@pytest.mark.parametrize("estimator", [fs.LabelModel, fs.MajorityVote])
def test_one_row_of_a_table(estimator):
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    model = fitted(estimator)
    expected = model.explain(ROW)
    column = {name: [vote, 1 - abs(vote)] for name, vote in ROW.items()}
    frame = pd.DataFrame(column)
    forms = [
        frame.iloc[:1],
        frame.iloc[0],
        frame.iloc[0].astype(object),
        pd.Series([0, 1, 1, -1, 0]),
        pl.DataFrame(column)[:1],
        pl.DataFrame(column).row(0, named=True),
        pl.Series([0, 1, 1, None, 0]),
        pa.table(column)[:1],
        pa.array([0, 1, 1, None, 0]),
    ]
    for form in forms:
        assert model.explain(form) == expected
    assert list(expected.to_pandas().columns) == ["source", "vote", "adds"]


@pytest.mark.extra
def test_a_row_of_a_table_whose_columns_are_numbers_is_matched_by_them():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(fittable_votes(0))
    model = fs.LabelModel().fit(frame)
    assert model.explain(frame[[4, 2, 0, 1, 3]].iloc[0]) == model.explain(frame.iloc[:1])


@pytest.mark.parametrize("estimator", [fs.LabelModel, fs.MajorityVote])
@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (fittable_votes(0)[:3], VotesError, "`votes_row`.*one item; got 3"),
        (fs.Votes.from_classes(fittable_votes(0)), VotesError, "`votes_row`.*one item; got 400"),
        (1, VotesError, "got 1"),
        ("spam", VotesError, "got .spam."),
        (None, VotesError, "got None"),
        (np.zeros((1, 5, 1)), VotesError, "got shape"),
        ([[0, 1], [1]], VotesError, "must be a sequence"),
        ([0, 1, 7, 0, 1], VotesError, "got 7"),
        ([], VotesError, "at least one column"),
        ([0, 1], IncompatibleError, mentions("5 sources", 2)),
        ({"a": 1}, IncompatibleError, "'b'"),
        (dict([*ROW.items(), (7, 1)]), IncompatibleError, " 7"),
        (csr_array([[1, 2, 0, 0, 1]]), VotesError, "Votes.from_sparse"),
    ],
)
def test_what_is_not_one_row_is_refused(estimator, row, error, message):
    with pytest.raises(error, match=message):
        fitted(estimator).explain(row)


def test_an_explanation_needs_a_fit():
    for model in (fs.LabelModel(), fs.MajorityVote()):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            model.explain([0, 1])


def test_unnamed_sources_take_a_mapping_in_its_order():
    model = fs.LabelModel().fit(fittable_votes(0))
    assert model.explain(ROW) == model.explain(list(ROW.values()))


def test_signed_votes_are_asked_for_by_name():
    votes = np.where(fittable_votes(0) >= 0, 2 * fittable_votes(0) - 1, 0)
    model = fs.LabelModel().fit(fs.Votes.from_signed(votes))
    with pytest.raises(VotesError, match="from_signed"):
        model.explain(votes[0])
    assert model.explain(fs.Votes.from_signed(votes[:1])).predicted in (-1, 1)


def test_every_kind_of_fit_says_who_did_not_vote():
    rng = np.random.default_rng(0)
    binary = fs.datasets.simulate(2_000, [0.8, 0.75, 0.7, 0.7], random_state=rng).votes
    graph = fs.DependencyGraph(4, source_edges=[(2, 3)])
    three = fs.datasets.simulate_graph(2_000, fs.DependencyGraph(4), 0.7, n_classes=3, random_state=rng).votes
    chain = fs.DependencyGraph.chain(2, 4)
    clips = fs.datasets.simulate_graph(2_000, chain, 0.75, random_state=rng).votes
    explained = [
        fs.LabelModel(method="triplet").fit(binary).explain([1, -1, 1, -1]),
        fs.LabelModel(method="covariance").fit(binary).explain([1, -1, 1, -1]),
        fs.LabelModel(method="weighted").fit(binary).explain([1, -1, 1, -1]),
        fs.LabelModel(method="auto").fit(binary).explain([1, -1, 1, -1]),
        fs.LabelModel(graph).fit(binary).explain([1, -1, 1, -1]),
        fs.LabelModel(method="em").fit(three).explain([2, -1, 2, -1]),
        fs.LabelModel(chain).fit(clips).explain([1, -1, 1, -1, 0, 0, 0, 0], task=0),
    ]
    for why in explained:
        assert (why.n_sources, why.n_missing) == (4, 2)
        assert "2 of 4" in why.sentence()
        assert why.sentence().startswith(f"{why.predicted} with probability 0.")


def test_a_tie_up_to_rounding_goes_to_the_first_class_as_in_predict():
    third = np.array([1 / 3 - 1e-15, 1 / 3, 1 / 3 + 1e-15])
    assert next_best_and_best(third) == (1, 0)
