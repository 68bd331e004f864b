"""Models and counts as files: identical after a round trip, and errors for inconsistent files."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import ModelFileError, NotFittedError, SourceWarning
from flyingsquid.files.state import State, read_state, write_state
from tests.support.model_files import with_odd_array
from tests.support.strategies import examples, fittable_votes, graph_of, votes_of_four

VOTES = fs.Votes.from_classes(fittable_votes(0), names=list("abcde"))
OPTIONS = [
    {},
    {"method": fs.solvers.Triplet("median"), "class_balance": [0.4, 0.6], "signs": {"a": 1, 2: 1}},
    {"method": fs.solvers.Triplet("best", triplets=[("a", 1, "c"), (2, 3, 4)], screen=0)},
    {"method": "marginal", "class_balance": np.array([0.2, 0.8])},
    {"method": "covariance"},
    {"method": "quadratic", "class_balance": "uniform"},
    {"method": np.str_("triplet"), "signs": {np.str_("b"): 1}},
    {"method": fs.solvers.Triplet(screen=np.float32(1.5)), "classes": np.array([0, 1])},  # type: ignore[arg-type]
    {"method": fs.solvers.OneVsRest(fs.solvers.Triplet("median"))},
]


@pytest.mark.parametrize("options", OPTIONS, ids=range(len(OPTIONS)))
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_label_model_comes_back_identical(options, tmp_path):
    model = fs.LabelModel(**{"method": "triplet", **options}).fit(VOTES)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert isinstance(again, fs.LabelModel)
    np.testing.assert_array_equal(again.predict_proba(VOTES), model.predict_proba(VOTES))
    for name in (
        "classes_",
        "class_balance_",
        "accuracies_",
        "accuracies_interval_",
        "coverage_",
        "confusion_",
    ):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    assert again.moments_ == model.moments_
    assert again.source_names_ == model.source_names_
    assert str(again.summary()) == str(model.summary())
    assert str(again.explain(VOTES[[3]])) == str(model.explain(VOTES[[3]]))
    for field in dataclasses.fields(model.diagnostics_):
        ours, theirs = getattr(model.diagnostics_, field.name), getattr(again.diagnostics_, field.name)
        if isinstance(ours, np.ndarray):
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert ours == theirs
    refit = fs.LabelModel(**again.get_params()).fit(VOTES)
    np.testing.assert_array_equal(refit.predict_proba(VOTES), model.predict_proba(VOTES))
    again.save(tmp_path / "again.fsq")
    assert (tmp_path / "again.fsq").read_bytes() == (tmp_path / "m.fsq").read_bytes()


def test_a_loaded_model_goes_on_counting(tmp_path):
    model = fs.LabelModel(method="triplet").fit(VOTES[:200])
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq").partial_fit(VOTES[200:])
    np.testing.assert_array_equal(
        again.predict_proba(VOTES), fs.LabelModel(method="triplet").fit(VOTES).predict_proba(VOTES)
    )


@pytest.mark.parametrize("labels", [("ham", "spam"), (False, True), (-1, 1), (0.5, 1.5)])
def test_class_labels_keep_their_types(labels, tmp_path):
    votes = fs.Votes(VOTES.codes, labels)
    model = fs.LabelModel(method="triplet").fit(votes)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert again.classes_.tolist() == list(labels)
    assert [type(v) for v in again.classes_.tolist()] == [type(v) for v in labels]
    np.testing.assert_array_equal(again.predict(votes), model.predict(votes))


def test_majority_vote_and_counts_come_back_identical(tmp_path):
    votes = fs.Votes.from_classes([["a", "c", "?"], ["b", None, "a"]], reasons={"?": "failed"})
    model = fs.MajorityVote().fit(votes)
    model.save(tmp_path / "v.fsq")
    again = fs.load(tmp_path / "v.fsq")
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    assert str(again.summary()) == str(model.summary())
    for counts in (fs.Moments.of(votes), fs.Moments.of(votes, sample_weight=[0.5, 2.25])):
        counts.save(tmp_path / "c.fsq")
        assert fs.load(tmp_path / "c.fsq") == counts


def test_only_a_fitted_model_is_saved(tmp_path):
    for model in (fs.LabelModel(method="triplet"), fs.MajorityVote()):
        with pytest.raises(NotFittedError):
            model.save(tmp_path / "m.fsq")
    assert not list(tmp_path.iterdir())


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.fsq"
    fs.LabelModel(method="covariance").fit(VOTES).save(path)
    return path


@examples(200)
@given(data=st.data())
def test_two_hundred_corruptions_give_the_documented_error(saved, data):
    whole = saved.read_bytes()
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "drop"]))
    at = data.draw(st.integers(0, len(whole) - 1))
    if kind == "flip":
        broken = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    elif kind == "cut":
        broken = whole[:at]
    elif kind == "insert":
        broken = whole[:at] + data.draw(st.binary(min_size=1, max_size=50)) + whole[at:]
    else:
        broken = whole[:at] + whole[at + data.draw(st.integers(1, 100)) :]
    path = saved.with_name("broken.fsq")
    path.write_bytes(broken)
    assume(broken != whole)
    with pytest.raises(ModelFileError):
        fs.load(path)


def change(state: State, **changes) -> State:
    return State(state.kind, {**state.meta, **changes}, state.arrays)


ODD = [
    *itertools.product(
        ["fit.accuracies", "fit.class_balance", "fit.confusion", "fit.errors", "fit.triplets_used"],
        ["absent", "short", "type"],
    ),
    *itertools.product(["counts.pairs_0", "counts.missing"], ["absent", "short", "type"]),
    ("fit.accuracies", "nan"),
    ("fit.confusion", "nan"),
]


@pytest.mark.parametrize(("name", "how"), ODD)
def test_whole_files_with_wrong_contents_are_refused(saved, tmp_path, name, how):
    write_state(tmp_path / "odd.fsq", with_odd_array(read_state(saved), name, how))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "odd.fsq")


@pytest.mark.parametrize(
    "meta",
    [
        {"options": None},
        {"options": {"method": "auto"}},
        {"counts": {}},
        {"counts": {"n_items": -1, "classes": [0, 1], "names": None}},
        {"counts": {"n_items": 400, "classes": [0, 1], "names": ["a"]}},
        {"fit": 5},
        {"fit": {}},
        {"fit": {"tag": "crystal"}},
        {"rows": "some"},
        {"n_gold": -1},
        {"n_gold": "many"},
    ],
)
def test_wrong_metadata_is_refused(saved, tmp_path, meta):
    write_state(tmp_path / "odd.fsq", change(read_state(saved), **meta))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "odd.fsq")


# Not probabilities: numbers without an upper bound, or without any.
UNBOUNDED = {"fit.errors", "fit.reach", "fit.feature_scales", "gold.weights"}
ANY_NUMBER = {"fit.feature_intercepts", "fit.feature_means", "fit.feature_offsets"}
TRIPLE = votes_of_four(0, 300, 3)
RIGHT = np.where(np.arange(400) < 60, (VOTES.codes == 1).sum(axis=1) > 2, -1)
FITS = {
    "weighted": (VOTES, {"class_balance": [0.4, 0.6]}, {}),
    "weighted, three classes": (TRIPLE, {}, {}),
    "corrected": (VOTES, {}, {"gold": RIGHT}),
    "features": (VOTES, {}, {"features": np.random.default_rng(0).normal(size=(400, 3))}),
    "independent": (VOTES, {"method": "triplet"}, {}),
    "independent, three classes": (TRIPLE, {"method": "em"}, {}),
    "graph": (
        np.asarray(VOTES.codes)[:, [0, 1, 2, 3, 4, 0]],
        {"graph": graph_of((0, 0, 0, 1, 1, 1), [(0, 1)], [(0, 1)]), "method": "covariance"},
        {},
    ),
}


@pytest.mark.parametrize(("votes", "options", "more"), FITS.values(), ids=FITS)
def test_numbers_outside_of_their_range_are_refused(votes, options, more, tmp_path):
    fs.LabelModel(**options).fit(votes, **more).save(tmp_path / "m.fsq")
    state = read_state(tmp_path / "m.fsq")
    for name, array in state.arrays.items():
        if array.dtype.kind != "f" or not array.size or name in ANY_NUMBER:
            continue
        is_share = np.nanmin(array) >= 0 and np.nanmax(array) <= 1
        for wrong in (-1e12, -0.01 if is_share else -1e12, 1e12, 1.01 if is_share else 1e12):
            if wrong > 0 and name in UNBOUNDED:
                continue
            changed = array.copy()
            changed.flat[-1] = wrong
            odd = tmp_path / f"{name}{wrong}.fsq"
            write_state(odd, State(state.kind, state.meta, {**state.arrays, name: changed}))
            with pytest.raises(ModelFileError, match=name.rpartition(".")[2].split("_")[-1]):
                fs.load(odd)


def test_counts_that_count_nothing_real_are_refused(saved, tmp_path):
    state = read_state(saved)
    for counts in (
        {**state.meta["counts"], "n_items": 1},
        {**state.meta["counts"], "classes": [0, 0]},
        {**state.meta["counts"], "names": list("aaaaa")},
    ):
        write_state(tmp_path / "odd.fsq", change(state, counts=counts))
        with pytest.raises(ModelFileError):
            fs.load(tmp_path / "odd.fsq")


def test_invalid_diagnostics_are_refused(saved, tmp_path):
    state = read_state(saved)
    for wrong in ({"silent": ["nobody"]}, {"verdict": [1]}, {"fit_test": ["x", 1, 2, 3]}):
        fitted = state.meta["fit"]
        fitted = {**fitted, "diagnostics": {**fitted["diagnostics"], **wrong}}
        write_state(tmp_path / "odd.fsq", change(state, fit=fitted))
        with pytest.raises(ModelFileError):
            fs.load(tmp_path / "odd.fsq")


def test_unknown_kinds_of_files_are_refused(tmp_path):
    write_state(tmp_path / "odd.fsq", State("Crystal", {}, {}))
    with pytest.raises(ModelFileError, match="'Crystal'"):
        fs.load(tmp_path / "odd.fsq")


def test_options_that_no_fit_would_take_are_not_saved(tmp_path):
    for wrong in ({"signs": None}, {"signs": 5}, {"method": "best"}, {"method": 5}):
        model = fs.LabelModel(method="triplet").fit(VOTES).set_params(**wrong)
        with pytest.raises(fs.exceptions.OptionError):
            model.save(tmp_path / "m.fsq")


def test_a_missing_file_is_an_ordinary_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        fs.load(tmp_path / "nothing.fsq")


def test_warnings_do_not_travel(tmp_path):
    with pytest.warns(SourceWarning):
        model = fs.LabelModel(method="triplet").fit(np.column_stack([VOTES.codes, np.full(400, -1)]))
    model.save(tmp_path / "m.fsq")
    assert fs.load(tmp_path / "m.fsq").diagnostics_.silent == ("source 5",)
