"""scikit-learn's own checks of estimators, with every check that cannot hold listed, and why.

The checks pass random numbers as features. Votes are class numbers, and a vote of 0.5488 raises an error.
So the label models are checked as they are, where the refusal is all that can be asked for, and once more
through an adapter that votes by the sign of each feature, where the contract itself is at stake.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.utils import estimator_checks
from sklearn.utils.fixes import parse_version

import flyingsquid as fs
from flyingsquid.exceptions import VotesError

OLD = parse_version(sklearn.__version__) < parse_version("1.6")
pytestmark = [
    pytest.mark.skipif(OLD, reason="its checks give no report of what failed"),
    pytest.mark.filterwarnings("ignore"),
]


def by_sign(X: Any) -> Any:
    """Votes by the sign of each feature; whatever is no matrix of finite numbers as it is."""
    if hasattr(X, "tocsr"):
        return X
    array = np.asarray(X)
    if array.ndim != 2 or 0 in array.shape:
        return X
    try:
        numbers = array.astype(np.float64) if array.dtype.kind != "c" else None
    except (TypeError, ValueError):
        return X
    return X if numbers is None or not np.isfinite(numbers).all() else (numbers > 0).astype(np.int8)


class _BySign:
    """Fits and labels the signs of features."""

    def fit(self, X, y=None, **more):
        return super().fit(by_sign(X), **more)

    def partial_fit(self, X, y=None):
        return super().partial_fit(by_sign(X))

    def predict(self, X, *options, **more):
        return super().predict(by_sign(X), *options, **more)

    def predict_proba(self, X, **options):
        return super().predict_proba(by_sign(X), **options)

    def score(self, X, y):
        return super().score(by_sign(X), (np.asarray(y) > 0).astype(int))


class SignedMajority(_BySign, fs.MajorityVote):  # type: ignore[misc]  # X in the place of votes
    pass


class SignedModel(_BySign, fs.LabelModel):  # type: ignore[misc]
    pass


NO_TRUTH = "y is not read: labels come from votes, and classes_ are those of the votes, not of y"
WORDS = "refused with a message of our own, that speaks of votes, items and sources"
NO_CLASSES = "partial_fit takes no classes=; n_classes of the model, or the first votes, say them"
# What holds for no label model, whatever it is fed.
LABELS_WITHOUT_TRUTH = {
    "check_classifiers_train": NO_TRUTH,
    "check_classifiers_classes": NO_TRUTH,
    "check_classifiers_regression_target": NO_TRUTH,
    "check_supervised_y_2d": NO_TRUTH,
    "check_supervised_y_no_nan": NO_TRUTH,
    "check_estimators_partial_fit_n_features": NO_CLASSES,
    "check_complex_data": WORDS,
    "check_estimators_empty_data_messages": WORDS,
    "check_fit2d_predict1d": WORDS,
    "check_n_features_in_after_fitting": "another number of sources is refused: " + WORDS,
    "check_dtype_object": "a dict as a vote is refused by VotesError, where the check asks for TypeError",
}


def failing(estimator: Any) -> dict[str, BaseException]:
    results = estimator_checks.check_estimator(estimator, on_fail=None, on_skip=None)
    return {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}


def refuses_votes(error: BaseException | None) -> bool:
    """Return whether an error is a VotesError, or follows one that the check did not expect."""
    while error is not None and not isinstance(error, VotesError):
        error = error.__cause__ or error.__context__
    return error is not None


@pytest.mark.parametrize(
    "estimator", [SignedMajority(), SignedModel(method="weighted")], ids=lambda e: type(e).__name__
)
def test_the_contract_holds_for_votes(estimator):
    found = failing(estimator)
    assert set(found) <= set(LABELS_WITHOUT_TRUTH), {
        k: v for k, v in found.items() if k not in LABELS_WITHOUT_TRUTH
    }


@pytest.mark.parametrize("estimator", [fs.MajorityVote(), fs.LabelModel()], ids=lambda e: type(e).__name__)
def test_features_in_place_of_votes_are_refused_with_advice(estimator):
    """All other checks fail because features are not votes, with an error that names the reason."""
    listed = {*LABELS_WITHOUT_TRUTH, "check_requires_y_none"}  # the features are refused before y is missed
    found = {name: what for name, what in failing(estimator).items() if name not in listed}
    assert all(map(refuses_votes, found.values())), found


VOTES_FOR_Y = "fit takes votes with one column per source instead of y; a flat y raises an error"
CLASSIFIER = {
    "check_estimators_nan_inf": VOTES_FOR_Y,
    "check_classifiers_one_label": VOTES_FOR_Y,
    "check_classifiers_regression_target": VOTES_FOR_Y,
    "check_estimator_sparse_tag": VOTES_FOR_Y + "; sparse features go to the end model as they are",
    "check_estimator_sparse_array": VOTES_FOR_Y,
    "check_estimator_sparse_matrix": VOTES_FOR_Y,
}


def test_the_classifier_of_features():
    """Its X is a matrix of features, and its second argument holds votes; what takes no y holds as it is."""
    found = failing(fs.WeaklySupervisedClassifier(LogisticRegression()))
    other = {name: error for name, error in found.items() if not refuses_votes(error)}
    assert set(other) <= set(CLASSIFIER), other
