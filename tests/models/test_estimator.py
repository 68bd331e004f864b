"""scikit-learn's contract: parameters, clones, routing and tags of estimators that do not inherit from it."""

from __future__ import annotations

import pickle

import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import GridSearchCV

import flyingsquid as fs
from flyingsquid.exceptions import NotFittedError, OptionError
from tests.support.errors import mentions

VOTES = [[0, 1, 1], [1, 1, 1], [0, 0, 1], [0, 1, 0]] * 5
MODELS = [fs.LabelModel, fs.MajorityVote, fs.OnlineLabelModel, fs.SequenceLabelModel, fs.MultiLabelModel]


@pytest.mark.parametrize("model", MODELS)
def test_a_clone_has_the_parameters_of_its_original(model):
    original = model()
    assert clone(original).get_params() == original.get_params()
    assert is_classifier(original)


def test_only_parameters_that_differ_from_their_defaults_are_shown():
    assert repr(fs.LabelModel()) == "LabelModel()"
    assert repr(fs.LabelModel(method="triplet", n_classes=3)) == "LabelModel(method='triplet', n_classes=3)"
    assert repr(fs.MultiLabelModel(fs.MajorityVote())) == "MultiLabelModel(label_model=MajorityVote())"


def test_nested_parameters_are_read_and_set():
    model = fs.MultiLabelModel(fs.LabelModel())
    assert model.set_params(label_model__method="triplet").get_params()["label_model__method"] == "triplet"
    assert "label_model__method" not in model.get_params(deep=False)


def test_unknown_parameters_are_refused():
    with pytest.raises(OptionError, match=mentions("metod", "method")):
        fs.LabelModel().set_params(metod="triplet")


def test_a_model_that_is_not_fitted_raises_both_errors():
    with pytest.raises(NotFittedError) as raised:
        _ = fs.LabelModel().accuracies_
    assert isinstance(raised.value, SklearnNotFittedError)
    assert not hasattr(fs.LabelModel(), "accuracies_")


def test_metadata_requests_exist_for_methods_that_take_metadata():
    assert hasattr(fs.LabelModel(), "set_fit_request")
    assert not hasattr(fs.OnlineLabelModel(), "set_fit_request")  # it has no fit


def test_models_survive_pickle_and_grid_search():
    model = fs.LabelModel().fit(VOTES)
    again = pickle.loads(pickle.dumps(model))
    assert (again.predict_proba(VOTES) == model.predict_proba(VOTES)).all()
    search = GridSearchCV(fs.LabelModel(), {"method": ["auto", "weighted"]}, cv=2)
    assert search.fit(VOTES, [1, 1, 0, 0] * 5).best_params_["method"] in ("auto", "weighted")


def test_notebooks_show_the_diagram_of_scikit_learn():
    assert "LabelModel" in fs.LabelModel()._repr_html_()
