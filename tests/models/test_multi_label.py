"""MultiLabelModel: every label is labeled by its own model, and every invalid input raises its own error."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score

import flyingsquid as fs
from flyingsquid.exceptions import (
    GraphError,
    IncompatibleError,
    ModelFileError,
    NotFittedError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VotesError,
)
from flyingsquid.files.state import State, read_state, write_state
from tests.support.errors import mentions
from tests.support.strategies import fittable_votes

CUBE = np.stack([fittable_votes(seed) for seed in range(3)], axis=2)  # (400, 5, 3)
LABELS = ["sports", "politics", "art"]
BY_LABEL = {label: CUBE[:, :, c] for c, label in enumerate(LABELS)}
NOBODY = np.full((400, 5), -1)


def alone(c: int, **options) -> fs.LabelModel:
    return fs.LabelModel(**options).fit(CUBE[:, :, c])


# ---------------------------------------------------------------------- what it is


def test_every_label_is_its_own_label_model():
    model = fs.MultiLabelModel().fit(CUBE)
    assert model.labels_ == (0, 1, 2)
    probabilities = model.predict_proba(CUBE)
    assert probabilities.shape == (400, 3)
    for c in range(3):
        np.testing.assert_array_equal(probabilities[:, c], alone(c).predict_proba(CUBE[:, :, c])[:, 1])
        np.testing.assert_array_equal(model.predict(CUBE)[:, c], alone(c).predict(CUBE[:, :, c]))
        np.testing.assert_array_equal(model.models_[c].accuracies_, alone(c).accuracies_)


def test_an_array_and_a_mapping_are_the_same_votes():
    one = fs.MultiLabelModel(labels=LABELS).fit(CUBE)
    other = fs.MultiLabelModel().fit(BY_LABEL)
    assert one.labels_ == other.labels_ == tuple(LABELS)
    assert [classes.tolist() for classes in one.classes_] == [[0, 1]] * 3
    np.testing.assert_array_equal(one.predict_proba(CUBE), other.predict_proba(BY_LABEL))
    np.testing.assert_array_equal(one.predict_proba(BY_LABEL), other.predict_proba(CUBE))


def test_labels_are_matched_by_name_whatever_their_order():
    model = fs.MultiLabelModel(labels=LABELS[::-1]).fit(BY_LABEL)
    assert model.labels_ == tuple(LABELS[::-1])
    reordered = {label: BY_LABEL[label] for label in ("art", "sports", "politics")}
    np.testing.assert_array_equal(model.predict_proba(reordered), model.predict_proba(BY_LABEL))
    np.testing.assert_array_equal(
        model.predict_proba(BY_LABEL)[:, ::-1], fs.MultiLabelModel().fit(CUBE).predict_proba(CUBE)
    )


def test_votes_of_all_kinds_and_other_sources_for_each_label():
    codes = CUBE[:, :, 1]
    votes = {
        "array": CUBE[:, :, 0],
        "nan": np.where(codes < 0, np.nan, codes),
        "signed": fs.Votes.from_signed(np.where(codes < 0, 0, 2 * codes - 1)),
        "named": fs.Votes.from_classes(codes[:, :4], names=list("abcd")),
        "bools": fs.Votes.from_classes(np.where(codes < 0, None, codes == 1)),
    }
    model = fs.MultiLabelModel().fit(votes)
    probabilities = model.predict_proba(votes)
    for c in (1, 2, 4):
        np.testing.assert_array_equal(probabilities[:, c], alone(1).predict_proba(codes)[:, 1])
    assert model.models_["named"].source_names_ == tuple("abcd")
    turned = {**votes, "named": fs.Votes.from_classes(codes[:, 3::-1], names=list("dcba"))}
    np.testing.assert_array_equal(model.predict_proba(turned), probabilities)


@pytest.mark.parametrize("dtype", [np.int64, np.float32, object])
def test_arrays_of_any_type(dtype):
    np.testing.assert_array_equal(
        fs.MultiLabelModel().fit(CUBE.astype(dtype)).predict_proba(CUBE.tolist()),
        fs.MultiLabelModel().fit(CUBE).predict_proba(CUBE),
    )
    masked = np.ma.masked_less(CUBE.astype(np.int64), 0)
    assert fs.MultiLabelModel().fit(masked).models_[0].moments_ == alone(0).moments_


def test_an_item_without_votes_has_no_labels():
    model = fs.MultiLabelModel(fs.LabelModel(method="triplet")).fit(CUBE)
    assert model.predict(np.full((1, 5, 3), -1)).tolist() == [[0, 0, 0]]


@pytest.mark.extra
def test_tables_of_votes_and_truths():
    pd = pytest.importorskip("pandas")
    frames = {label: pd.DataFrame(votes, columns=list("abcde")) for label, votes in BY_LABEL.items()}
    model = fs.MultiLabelModel().fit(frames)
    answers = model.predict(frames)
    truth = pd.DataFrame(answers, columns=LABELS)
    assert model.score(frames, truth[["art", "sports", "politics"]]) == 1
    assert model.score(frames, truth.astype(bool)) == 1
    with pytest.raises(IncompatibleError, match="labels of y differ"):
        model.score(frames, truth[["art"]])
    with pytest.raises(VotesError, match=mentions("y", 3, 400)):
        model.score(frames, truth[:3])


# ---------------------------------------------------------------------- options


def test_the_given_model_is_cloned_for_each_label():
    given = fs.LabelModel(method="covariance")
    model = fs.MultiLabelModel(given).fit(CUBE)
    assert not hasattr(given, "classes_")
    np.testing.assert_array_equal(
        model.predict_proba(CUBE)[:, 2], alone(2, method="covariance").predict_proba(CUBE[:, :, 2])[:, 1]
    )


def test_every_label_may_have_its_own_model():
    given = {
        "sports": fs.LabelModel(method="triplet", class_balance=[0.52, 0.48]),
        "politics": fs.MajorityVote(),
        "art": None,
    }
    model = clone(fs.MultiLabelModel(given)).fit(BY_LABEL)
    assert model.models_["sports"].class_balance_.tolist() == [0.52, 0.48]
    assert isinstance(model.models_["politics"], fs.MajorityVote)
    np.testing.assert_array_equal(model.models_["art"].accuracies_, alone(2).accuracies_)
    with pytest.raises(IncompatibleError, match=mentions("labels", "'art'")):
        fs.MultiLabelModel({"sports": None, "politics": None}).fit(BY_LABEL)


def test_a_label_that_cannot_be_fitted_is_named():
    votes = {**BY_LABEL, "chess": NOBODY}
    with pytest.raises(NotIdentifiableError, match=mentions("label 'chess'", 400)):
        fs.MultiLabelModel().fit(votes)


def test_a_label_that_cannot_be_fitted_may_have_a_majority_vote():
    votes = {**BY_LABEL, "chess": NOBODY}
    model = fs.MultiLabelModel(on_failure="majority").fit(votes)
    assert isinstance(model.models_["chess"], fs.MajorityVote)
    assert list(model.failures_) == ["chess"]
    assert model.failures_["chess"].startswith("At least one source must vote")
    np.testing.assert_array_equal(model.predict_proba(votes)[:, 3], 0.5)
    np.testing.assert_array_equal(
        model.predict_proba(votes)[:, :3], fs.MultiLabelModel().fit(CUBE).predict_proba(CUBE)
    )
    assert model.summary().to_dict()["verdict"][3].startswith("Majority vote. At least one source")


def test_a_failed_fit_changes_nothing():
    model = fs.MultiLabelModel().fit(BY_LABEL)
    before = model.predict_proba(BY_LABEL)
    with pytest.raises(NotIdentifiableError):
        model.fit({**BY_LABEL, "chess": NOBODY})
    np.testing.assert_array_equal(model.predict_proba(BY_LABEL), before)


@pytest.mark.filterwarnings("ignore:Without gold labels:flyingsquid.exceptions.SourceWarning")
def test_gold_and_weights_reach_every_label():
    gold = np.full((400, 3), -1)
    gold[:60, 1] = np.arange(60) % 2
    weights = np.arange(400) % 3
    expected = fs.LabelModel().fit(CUBE[:, :, 1], gold=gold[:, 1], sample_weight=weights)
    ignored = fs.LabelModel().fit(CUBE[:, :, 1], sample_weight=weights)
    assert not np.array_equal(ignored.accuracies_, expected.accuracies_)
    for known in (gold, np.where(gold < 0, np.nan, gold), {"politics": gold[:, 1]}):
        model = fs.MultiLabelModel().fit(BY_LABEL, gold=known, sample_weight=weights)
        np.testing.assert_array_equal(model.models_["politics"].accuracies_, expected.accuracies_)
    unaided = fs.LabelModel().fit(CUBE[:, :, 0], sample_weight=weights)
    np.testing.assert_array_equal(model.models_["sports"].accuracies_, unaided.accuracies_)
    with pytest.raises(OptionError, match=mentions("label 'sports'", "MajorityVote", "gold")):
        fs.MultiLabelModel(fs.MajorityVote()).fit(BY_LABEL, gold={"sports": gold[:, 1]})


def test_one_warning_names_the_labels():
    padded = np.concatenate([CUBE, np.full((400, 1, 3), -1)], axis=1)
    with pytest.warns(SourceWarning, match=mentions("label 0", "source 5", "1, 2")) as caught:
        model = fs.MultiLabelModel().fit(padded)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.models_[2].diagnostics_.silent == ("source 5",)


# ---------------------------------------------------------------------- scoring and scikit-learn


def test_score_is_the_share_of_known_entries():
    model = fs.MultiLabelModel(labels=LABELS).fit(CUBE)
    answers = model.predict(CUBE)
    assert answers.dtype == np.int8
    truth = answers.astype(float)
    assert model.score(CUBE, truth) == 1
    truth[0, 0] = 1 - truth[0, 0]
    truth[1:, 0] = np.nan
    assert model.score(CUBE, truth) == pytest.approx(1 - 1 / 801)
    assert model.score(CUBE, {"sports": truth[:, 0]}) == 0
    weights = np.r_[0, np.ones(399)]
    assert model.score(CUBE, truth, sample_weight=weights) == 1
    with pytest.raises(VotesError, match="sample_weight"):
        model.score(CUBE, {"sports": truth[:, 0]}, sample_weight=weights)
    with pytest.raises(VotesError, match="`y`"):
        model.score(CUBE, np.full((400, 3), -1))
    with pytest.raises(VotesError, match=mentions("y", "'chess'", "'sports'")):
        model.score(CUBE, {"chess": [1] * 400})
    with pytest.raises(VotesError, match=mentions("`y`", "(400, 2)")):
        model.score(CUBE, answers[:, :2])
    with pytest.raises(VotesError, match=mentions("y['art'][0]", "got 2")):
        model.score(CUBE, {"art": [2] * 400})


def test_works_with_clone_and_cross_validation():
    rng = np.random.default_rng(0)
    samples = [fs.datasets.simulate(600, [0.9, 0.8, 0.7, 0.7], random_state=rng) for _ in range(2)]
    cube = np.stack([s.votes.codes for s in samples], axis=2)
    y = np.stack([s.y for s in samples], axis=1)
    model = fs.MultiLabelModel(fs.LabelModel(method="triplet"), labels=["a", "b"])
    assert clone(model).get_params()["labels"] == ["a", "b"]
    assert cross_val_score(model, cube, y).mean() > 0.85
    assert cross_val_score(model, cube, y, scoring="f1_macro").mean() > 0.85
    assert cross_val_score(model, cube, y, scoring="roc_auc").mean() > 0.9
    search = GridSearchCV(model, {"label_model__method": ["triplet", "covariance"]}).fit(cube, y)
    assert search.best_score_ > 0.85
    fitted = model.fit(cube)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(cube), fitted.predict_proba(cube))
    assert accuracy_score(y, fitted.predict(cube)) < fitted.score(cube, y)


def test_summary_has_one_row_per_label():
    even = fs.LabelModel(method="triplet")
    given = {"sports": even, "politics": fs.MajorityVote(), "art": even}
    table = fs.MultiLabelModel(given).fit(BY_LABEL).summary().to_dict()
    assert table["label"] == LABELS
    assert table["model"] == ["LabelModel", "MajorityVote", "LabelModel"]
    assert table["sources"] == [5, 5, 5]
    assert table["votes"] == [int((CUBE[:, :, c] >= 0).sum()) for c in range(3)]
    assert table["applies"] == [0.5, None, 0.5]
    assert table["accuracy"][1] is None
    voted = (CUBE[:, :, 0] >= 0).sum(axis=0)
    expected = np.average(alone(0, method="triplet").accuracies_, weights=voted)
    assert table["accuracy"][0] == pytest.approx(expected)
    assert table["verdict"][1] == ""


# ---------------------------------------------------------------------- errors

BAD_VOTES = [
    (CUBE[:, :, 0], VotesError, r"\(400, 5\)"),
    (CUBE[:0], VotesError, r"shape \(0, 5, 3\)"),
    ([[[0]], [[0, 1]]], VotesError, "array"),
    (fs.Votes.from_classes(CUBE[:, :, 0]), VotesError, "Votes"),
    ({}, VotesError, "empty"),
    ({"a": CUBE[:, :, 0], "b": CUBE[:9, :, 0]}, VotesError, mentions("'a'", 9, "'b'")),
    ({"a": [[0, 1], [1, 2]]}, VotesError, mentions("label 'a'", "row 1, source 1", "got 2")),
    ({"a": fs.Votes.from_classes([["no", "yes"]])}, VotesError, mentions("label 'a'", "'no', 'yes'")),
    ({"a": [0, 1]}, VotesError, mentions("label 'a'", "(2,)")),
]  # fmt: skip


@pytest.mark.parametrize(("votes", "error", "message"), BAD_VOTES)
def test_bad_votes_are_refused_by_label(votes, error, message):
    with pytest.raises(error, match=message):
        fs.MultiLabelModel().fit(votes)


def test_other_labels_and_sources_are_refused():
    model = fs.MultiLabelModel().fit(BY_LABEL)
    with pytest.raises(IncompatibleError, match=mentions("labels", "'chess'", "'art'")):
        model.predict({"sports": CUBE[:, :, 0], "politics": CUBE[:, :, 1], "chess": CUBE[:, :, 2]})
    with pytest.raises(IncompatibleError, match=mentions("`votes` must", 3, "'sports'")):
        model.predict(CUBE[:, :, :2])
    with pytest.raises(IncompatibleError, match=mentions("label 'sports'", "5 sources", 4)):
        model.predict(CUBE[:, :4])


BAD_OPTIONS = [
    ({"labels": ["a", "b"]}, IncompatibleError, "`votes` must.*2: 'a', 'b'"),
    ({"labels": "abc"}, OptionError, "`labels`"),
    ({"labels": ["a", "a", "b"]}, OptionError, "different labels"),
    ({"labels": 3}, OptionError, "`labels`"),
    ({"labels": []}, OptionError, "`labels`"),
    ({"on_failure": "ignore"}, OptionError, "`on_failure` must.*'ignore'"),
    ({"label_model": "auto"}, OptionError, "`label_model` .*got 'auto'"),
    ({"label_model": fs.LabelModel}, OptionError, "`label_model`"),
    ({"label_model": fs.LabelModel(fs.DependencyGraph.chain(2, 3))}, GraphError, "one task; got 2"),
    ({"label_model": fs.LabelModel(method="best")}, OptionError, "`method`.*'best'"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "error", "message"), BAD_OPTIONS, ids=[str(o) for o, _, _ in BAD_OPTIONS]
)
def test_bad_options_are_refused(options, error, message):
    with pytest.raises(error, match=message):
        fs.MultiLabelModel(**options).fit(CUBE)


def test_only_a_fitted_model_predicts(tmp_path):
    model = fs.MultiLabelModel()
    for call in (
        lambda: model.predict_proba(CUBE),
        lambda: model.predict(CUBE),
        lambda: model.score(CUBE, CUBE[:, 0]),
        model.summary,
        lambda: model.save(tmp_path / "m.fsq"),
    ):
        with pytest.raises(NotFittedError, match="MultiLabelModel"):
            call()
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels": LABELS, "label_model": fs.LabelModel(method="covariance", signs={0: 1})},
        {"label_model": fs.LabelModel(fs.DependencyGraph(5, source_edges=[(0, 1)]))},
        {"label_model": fs.MajorityVote()},
        {
            "label_model": {
                0: None,
                1: fs.MajorityVote(),
                2: fs.LabelModel(class_balance=[0.7, 0.3]),
            }
        },
    ],
    ids=range(5),
)
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_model_comes_back_identical(options, tmp_path):
    model = fs.MultiLabelModel(**options).fit(CUBE)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert isinstance(again, fs.MultiLabelModel)
    np.testing.assert_array_equal(again.predict_proba(CUBE), model.predict_proba(CUBE))
    assert (again.labels_, again.failures_) == (model.labels_, model.failures_)
    assert str(again.summary()) == str(model.summary())
    refitted = clone(again).fit(CUBE)
    np.testing.assert_array_equal(refitted.predict_proba(CUBE), model.predict_proba(CUBE))
    again.save(tmp_path / "again.fsq")
    assert (tmp_path / "again.fsq").read_bytes() == (tmp_path / "m.fsq").read_bytes()


def test_failures_and_other_sources_come_back(tmp_path):
    votes = {"chess": NOBODY, "go": fs.Votes.from_classes(CUBE[:, :3, 0], names=list("xyz"))}
    model = fs.MultiLabelModel(fs.LabelModel(method="triplet"), on_failure="majority").fit(votes)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert again.failures_ == model.failures_
    assert again.get_params()["on_failure"] == "majority"
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))


def test_other_estimators_are_not_kept(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        model = fs.MultiLabelModel(fs.SequenceLabelModel()).fit(CUBE)
    assert model.predict_proba(CUBE).shape == (400, 3)
    with pytest.raises(ModelFileError, match=mentions("label 0", "SequenceLabelModel")):
        model.save(tmp_path / "m.fsq")


def test_whole_files_with_wrong_contents_are_refused(tmp_path):
    model = fs.MultiLabelModel(fs.LabelModel(method="triplet"), labels=LABELS)
    model.fit(CUBE).save(tmp_path / "m.fsq")
    state = read_state(tmp_path / "m.fsq")
    models, options = state.meta["models"], state.meta["options"]
    signed = {**models[0]["meta"], "counts": {**models[0]["meta"]["counts"], "classes": [-1, 1]}}
    wrong_meta = [
        {"labels": LABELS[:2]},
        {"labels": ["a", "a", "b"]},
        {"labels": []},
        {"models": models[:2]},
        {"models": [*models[:2], {"kind": "Crystal", "meta": {}}]},
        {"models": [{"kind": "LabelModel", "meta": signed}, *models[1:]]},
        {"failures": [[0, "why"]]},
        {"failures": [[7, "why"]]},
        {"options": {}},
        {"options": {**options, "on_failure": "ignore"}},
        {"options": {**options, "label_model": [None]}},
        {"options": {**options, "label_model": {"kind": "LabelModel"}}},
    ]
    odd = [State(state.kind, {**state.meta, **wrong}, state.arrays) for wrong in wrong_meta]
    wrong_arrays = [{k: v for k, v in state.arrays.items() if k != "label_0.fit.accuracies"}]
    wrong_arrays += [
        {**state.arrays, name: np.zeros(3)} for name in ("label_9.fit.accuracies", "fit.accuracies")
    ]
    odd += [State(state.kind, state.meta, arrays) for arrays in wrong_arrays]
    for wrong in odd:
        write_state(tmp_path / "odd.fsq", wrong)
        with pytest.raises(ModelFileError):
            fs.load(tmp_path / "odd.fsq")


def test_items_of_labels_and_gold_labels_are_joined():
    pd = pytest.importorskip("pandas")
    draws = {name: fs.datasets.simulate(60, [0.9, 0.8, 0.7], random_state=at) for at, name in enumerate("ab")}
    ids = [f"q{i}" for i in range(60)]
    votes = {
        name: pd.DataFrame(draw.votes.codes, columns=list("rst"), index=ids) for name, draw in draws.items()
    }
    y = pd.DataFrame({name: draw.y for name, draw in draws.items()}, index=ids)
    mixed = y.sample(frac=1, random_state=0)
    model = fs.MultiLabelModel(fs.MajorityVote()).fit(votes)
    expected = model.score(votes, y)
    assert model.score(votes, y.to_numpy()[::-1]) != expected
    assert model.score(votes, mixed) == expected
    assert model.score(votes, {name: mixed[name] for name in mixed}) == expected
    assert model.score({"a": votes["a"], "b": votes["b"][::-1]}, mixed) == expected
    with pytest.raises(fs.exceptions.VotesError, match="other identifiers"):
        model.score(votes, y.set_axis([f"p{i}" for i in range(60)]))


def test_tables_of_labels_that_number_their_rows_are_joined_too():
    """A table in the order of its rows has an index that only counts; the others may be sorted otherwise."""
    pd = pytest.importorskip("pandas")
    draws = {name: fs.datasets.simulate(60, [0.9, 0.8, 0.7], random_state=at) for at, name in enumerate("ab")}
    votes = {name: pd.DataFrame(draw.votes.codes, columns=list("rst")) for name, draw in draws.items()}
    y = pd.DataFrame({name: draw.y for name, draw in draws.items()})
    weight = pd.Series(np.arange(1, 61))
    model = fs.MultiLabelModel(fs.LabelModel()).fit(votes, sample_weight=weight)
    mixed = votes | {"b": votes["b"].sample(frac=1, random_state=0)}
    assert np.array_equal(model.predict_proba(mixed), model.predict_proba(votes))
    shuffled = y.sample(frac=1, random_state=1)
    expected = model.score(votes, y, weight)
    assert expected != model.score(votes, y)
    for one in (votes, mixed):
        assert model.score(one, shuffled, weight[::-1]) == expected
        assert model.score(one, {name: shuffled[name] for name in shuffled}, weight) == expected
    again = fs.MultiLabelModel(fs.LabelModel()).fit(mixed, sample_weight=weight[::-1])
    assert np.array_equal(again.predict_proba(votes), model.predict_proba(votes))
