"""Warnings about conventions: found when they should be, and no false alarms."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import VotesWarning
from flyingsquid.votes.conventions import _count_values, find_misreadings

DATA = os.environ.get("FLYINGSQUID_DATA")


def draw(rng, n_classes):
    """Votes of the usual convention with random accuracies, coverage, one-sidedness and dependence."""
    n, m = (int(np.exp(rng.uniform(np.log(lo), np.log(hi)))) for lo, hi in ((50, 2000), (3, 40)))
    truth = rng.choice(n_classes, n, p=rng.dirichlet(np.full(n_classes, rng.choice([1.0, 3.0, 20.0]))))
    accuracy = np.clip(rng.uniform(0.5, 0.95) + rng.normal(0, 0.1, m), 0.2, 0.99)
    wrong = (truth[:, None] + rng.integers(1, n_classes, (n, m))) % n_classes
    votes = np.where(rng.random((n, m)) < accuracy, truth[:, None], wrong)
    cast = rng.random((n, m)) < np.clip(rng.beta(*[(1, 1), (1, 5), (5, 1)][rng.integers(3)], m), 0.01, 1)
    kind = rng.integers(4)
    if kind == 1:  # rules for one class each
        cast &= votes == rng.integers(0, n_classes, m)
    elif kind == 2:  # items that many or few sources vote on
        cast &= rng.random((n, m)) < rng.beta(0.5, 0.5, n)[:, None]
    elif kind == 3:  # copies of the first source
        votes[:, : m // 2] = np.where(rng.random((n, m // 2)) < 0.7, votes[:, :1], votes[:, : m // 2])
    return np.where(cast, votes, -1).astype(np.int8)


def is_misread(codes, n_classes):
    return bool(find_misreadings(codes, tuple(range(n_classes))))


@pytest.mark.slow
def test_usual_votes_raise_at_most_one_alarm_in_a_hundred():
    rng = np.random.default_rng(11)
    alarms = []
    for _ in range(300):
        binary, many = draw(rng, 2), draw(rng, 4)
        both = len(np.unique(binary[binary >= 0])) > 1
        alarms += [both and is_misread(binary, 2), is_misread(many, 4)]
        complete = draw(rng, 4)
        complete = complete[(complete >= 0).all(axis=1)]
        alarms += [is_misread(complete, 4)] if len(complete) > 50 else []
    assert np.mean(alarms) <= 0.01


@pytest.mark.skipif(DATA is None, reason="FLYINGSQUID_DATA is not set")
def test_shared_datasets_raise_no_alarm():
    alarms = []
    for path in sorted(Path(str(DATA)).glob("*/*.npz")):
        if path.stem != path.parent.name:
            continue
        with np.load(path) as arrays, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for key in arrays.files:
                if key.startswith("L"):
                    fs.Votes.from_classes(arrays[key])
        alarms += [f"{path.stem}: {w.message}" for w in caught]
    assert alarms == []


@pytest.mark.skipif(DATA is None, reason="FLYINGSQUID_DATA is not set")
@pytest.mark.parametrize("name", ["census", "youtube", "crowd_rte", "tennis", "imdb", "weather"])
def test_other_conventions_are_found_on_real_votes(name):
    with np.load(Path(str(DATA)) / name / f"{name}.npz") as arrays:
        votes = arrays[arrays.files[0]].astype(int)
    signed = np.select([votes == 0, votes == 1], [-1, 1], 0)
    assert is_misread(signed, 2)
    assert is_misread(votes + 1, 3)


def test_signed_votes_without_abstention_are_found():
    votes = np.random.default_rng(0).choice([-1, 1], (100, 3))
    with pytest.warns(VotesWarning, match="from_signed"):
        fs.Votes.from_classes(votes)


def test_a_transposed_matrix_is_found():
    votes = fs.datasets.simulate(200, accuracies=[0.8] * 6, random_state=0).votes.codes
    with pytest.warns(VotesWarning, match="transposed"):
        fs.Votes.from_classes(votes.T)
    assert find_misreadings(votes, (0, 1)) == []


@pytest.mark.parametrize(
    "undecided",
    ["?", "-", "Unknown", "unsure", "Refused", "I’m sorry, but I cannot help.", "I can't compare them."],
)
def test_a_string_that_usually_means_no_vote_is_reported(undecided):
    votes = [["spam", "ham", undecided], ["ham", undecided, "ham"]]
    with pytest.warns(VotesWarning, match="abstain"):
        read = fs.Votes.from_classes(votes)
    assert undecided in read.classes
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.Votes.from_classes(votes, abstain=undecided)
        fs.Votes.from_classes(votes, classes=["ham", "spam", undecided])


def test_symbols_and_pictures_are_usual_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        signs = fs.Votes.from_classes([["+", "-"], ["-", "+"]])
        thumbs = fs.Votes.from_classes([["\N{THUMBS UP SIGN}", "bad"], ["bad", "bad"]])
    assert set(signs.classes) == {"+", "-"}
    assert set(thumbs.classes) == {"\N{THUMBS UP SIGN}", "bad"}


@pytest.mark.parametrize("scale", [10, 100])
def test_integer_scores_are_found(scale):
    rng = np.random.default_rng(0)
    truth = rng.uniform(0.1, 0.9, 300)
    scores = np.clip(np.rint(scale * (truth[:, None] + rng.normal(0, 0.1, (300, 4)))), 0, scale).astype(int)
    with pytest.warns(VotesWarning, match="ScoreModel"):
        fs.LabelModel().fit(scores)


def test_many_classes_are_not_taken_for_scores():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 60, 400)
    for accuracy in np.linspace(0.1, 0.9, 20):
        right = rng.random((400, 4)) < accuracy
        votes = np.where(right, truth[:, None], rng.integers(0, 60, (400, 4)))
        assert find_misreadings(votes, tuple(range(60))) == []
    near = (truth[:, None] // 5) * 5 + rng.integers(
        0, 5, (400, 4)
    )  # classes with similar numbers are confused
    assert find_misreadings(np.where(right, truth[:, None], near), tuple(range(60))) == []


def test_declared_classes_turn_the_check_off():
    votes = np.random.default_rng(0).choice([-1, 1], (100, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read = fs.Votes.from_classes(votes, classes=[0, 1])
    assert read.classes == (0, 1)


def test_the_warning_names_the_line_of_the_caller():
    votes = np.random.default_rng(0).choice([-1, 1], (100, 3))
    with pytest.warns(VotesWarning) as caught:
        fs.Votes.from_classes(votes)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "learn",
    [
        lambda chunks: [(model := fs.OnlineLabelModel(), [model.update(each) for each in chunks])],
        lambda chunks: [(model := fs.LabelModel(), [model.partial_fit(each) for each in chunks])],
        lambda chunks: [(model := fs.SequenceLabelModel(), [model.partial_fit(each) for each in chunks])],
        lambda chunks: fs.Moments.of(fs.VoteChunks(chunks)),
    ],
    ids=["stream", "partial_fit", "sequences", "chunks"],
)
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_only_the_first_chunk_is_checked(learn):
    """A test of every chunk of a long stream would find something by chance."""
    sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.8, 0.7], coverage=0.7, random_state=0)
    usual = np.asarray(sample.votes.codes)
    signed = np.where(usual < 0, 0, 2 * usual - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", VotesWarning)
        learn([usual, signed])
    with pytest.warns(VotesWarning):
        learn([signed, usual])


def test_two_unicode_forms_of_a_class_are_found_and_joined():
    votes = [["Zu\u0308rich", "Z\u00fcrich"], ["tea", "tea"], ["Z\u00fcrich", "tea"]]
    with pytest.warns(fs.exceptions.VotesWarning, match="Unicode form"):
        fs.Votes.from_classes(votes)
    assert fs.Votes.from_classes(votes, normalize=True).classes == ("tea", "z\u00fcrich")


def test_values_are_counted_by_source_and_in_pairs_on_one_item():
    codes, values = np.random.default_rng(0).integers(-2, 3, (104, 4)).astype(np.int8), (-1, 0, 2)
    pairs, by_source = _count_values(codes, values)
    for at, value in enumerate(values):
        np.testing.assert_array_equal(by_source[at], (codes == value).sum(axis=0))
        for other, second in enumerate(values):
            on_items = (codes == value).sum(axis=1) @ (codes == second).sum(axis=1)
            assert pairs[at, other] == on_items
