"""End models trained on votes, and training sets for other trainers."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from tests.support.errors import mentions


def draw(n=3_000, seed=0, coverage=0.6):
    sample = fs.datasets.simulate(n, accuracies=[0.85, 0.75, 0.7, 0.6], coverage=coverage, random_state=seed)
    X = np.random.default_rng(seed + 1).normal(sample.y[:, None], 1.0, (n, 3))
    return X, sample.votes, sample.y


@pytest.fixture
def data():
    return draw()


def test_learns_from_votes_what_gold_would_teach(data):
    X, votes, y = data
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.LabelModel(method="triplet"))
    weak.fit(X, votes)
    X_new, _, y_new = draw(seed=7)
    gold = LogisticRegression().fit(X, y)
    assert weak.score(X_new, y_new) > gold.score(X_new, y_new) - 0.02
    assert weak.score(X_new, y_new) > fs.MajorityVote().fit(votes).score(votes, y)
    assert weak.n_features_in_ == 3
    assert weak.classes_.tolist() == [0, 1]


def test_soft_labels_are_the_expected_loss(data):
    """The gradient of the expected log loss of the soft labels vanishes at what was learned."""
    X, votes, _ = data
    weak = fs.WeaklySupervisedClassifier(
        LogisticRegression(C=1e8, tol=1e-10, max_iter=1_000), fs.LabelModel(method="triplet")
    ).fit(X, votes)
    labels = weak.label_model_.predict_proba(votes)[weak.rows_]
    gap = weak.predict_proba(X[weak.rows_])[:, 1] - labels[:, 1]
    np.testing.assert_allclose(X[weak.rows_].T @ gap / len(gap), 0, atol=1e-4)
    assert abs(gap.mean()) < 1e-4


def test_uncovered_rows_are_dropped_or_kept(data):
    X, votes, _ = data
    covered = (votes.codes >= 0).any(axis=1)
    assert (~covered).sum() > 0
    dropped = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, votes)
    np.testing.assert_array_equal(dropped.rows_, np.flatnonzero(covered))
    kept = fs.WeaklySupervisedClassifier(LogisticRegression(), drop_uncovered=False).fit(X, votes)
    assert len(kept.rows_) == len(X)
    assert not np.allclose(kept.end_model_.coef_, dropped.end_model_.coef_)


def test_sparse_votes_and_sparse_features(data):
    X, votes, _ = data
    counts = np.clip(X.round() + 3, 0, None)
    at, source = np.nonzero(votes.codes >= 0)
    long = fs.Votes.from_long(at, source, votes.codes[at, source])
    kept = np.asarray(long.items, dtype=int)
    ours = fs.WeaklySupervisedClassifier(MultinomialNB()).fit(csr_matrix(counts)[kept], long)
    theirs = fs.WeaklySupervisedClassifier(MultinomialNB()).fit(counts[kept], votes[kept])
    np.testing.assert_allclose(
        ours.predict_proba(csr_matrix(counts)), theirs.predict_proba(counts), atol=1e-9
    )


def test_a_sparse_vote_with_a_reason_is_no_vote():
    votes = fs.Votes.from_sparse(csr_matrix([[1, 2, 1], [0, 0, 0], [0, 2, 0]]))
    chosen = fs.to_training_set(np.eye(3), [[0.6, 0.4]] * 3, votes=votes)
    assert chosen.rows.tolist() == [0, 2]


def test_texts_through_a_pipeline_inside_or_outside(data):
    _, votes, y = data
    rng = np.random.default_rng(0)
    words = np.where(rng.random((len(y), 4)) < 0.6, np.where(y, "spam", "ham")[:, None], "the")
    texts = [" ".join(row) for row in words]
    inside = fs.WeaklySupervisedClassifier(make_pipeline(CountVectorizer(), LogisticRegression()))
    inside.fit(texts, votes)
    outside = make_pipeline(CountVectorizer(), fs.WeaklySupervisedClassifier(LogisticRegression()))
    outside.fit(texts, votes)
    assert inside.score(texts, y) > 0.9
    np.testing.assert_allclose(inside.predict_proba(texts), outside.predict_proba(texts), atol=1e-3)
    nested = Pipeline([("a", CountVectorizer()), ("b", make_pipeline(LogisticRegression()))])
    again = fs.WeaklySupervisedClassifier(nested).fit(texts, votes)
    np.testing.assert_allclose(again.predict_proba(texts), inside.predict_proba(texts))


def test_features_in_a_table(data):
    pd = pytest.importorskip("pandas")
    X, votes, _ = data
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=np.arange(len(X)) + 10)
    weak = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(frame, votes)
    plain = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, votes)
    np.testing.assert_allclose(weak.predict_proba(frame), plain.predict_proba(X))
    assert weak.end_model_.feature_names_in_.tolist() == ["a", "b", "c"]


def test_classes_keep_their_names_and_order():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, 900)
    right = rng.random((900, 5)) < 0.8
    codes = np.where(right, truth[:, None], rng.integers(0, 3, (900, 5)))
    names = ["red", "amber", "green"]
    votes = fs.Votes.from_classes(np.array(names)[codes], classes=names)
    X = np.eye(3)[truth] + rng.normal(0, 0.3, (900, 3))
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.MajorityVote()).fit(X, votes)
    assert weak.classes_.tolist() == names
    proba = weak.predict_proba(np.eye(3))
    assert proba.argmax(axis=1).tolist() == [0, 1, 2]
    assert weak.predict(np.eye(3)).tolist() == names


def test_a_class_without_any_label_has_probability_zero():
    votes = fs.Votes.from_classes([[2, 2, 2], [0, 0, 0], [0, 0, -1]] * 20, classes=(2, 1, 0))
    X = np.array([[1.0], [0.0], [0.0]] * 20)
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.MajorityVote()).fit(X, votes)
    proba = weak.predict_proba(X[:2])
    assert weak.classes_.tolist() == [2, 1, 0]
    assert (proba[:, 1] == 0).all()
    assert proba[0, 0] > 0.8
    assert proba[1, 2] > 0.8


def test_hard_labels_for_models_without_weights(data):
    X, votes, y = data
    with pytest.raises(OptionError, match=mentions("KNeighborsClassifier", "sample_weight")):
        fs.WeaklySupervisedClassifier(KNeighborsClassifier()).fit(X, votes)
    weak = fs.WeaklySupervisedClassifier(KNeighborsClassifier(25), labels="hard").fit(X, votes)
    assert weak.score(X, y) > 0.75


class Shares(LinearRegression):
    """A model that takes probabilities as targets."""

    def predict_proba(self, X):
        return super().predict(X)


def test_probabilities_as_targets(data):
    X, votes, y = data
    weak = fs.WeaklySupervisedClassifier(Shares(), labels="proba").fit(X, votes)
    labels = weak.label_model_.predict_proba(votes)[weak.rows_]
    expected = LinearRegression().fit(X[weak.rows_], labels)
    np.testing.assert_allclose(weak.end_model_.coef_, expected.coef_)
    assert weak.predict_proba(X).shape == (len(X), 2)
    assert weak.score(X, y) > 0.75


def test_follows_the_conventions_of_scikit_learn(data):
    X, votes, y = data
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(C=2.0), min_confidence=0.7)
    assert is_classifier(weak)
    copy = clone(weak).set_params(end_model__C=3.0)
    assert (weak.end_model.C, copy.end_model.C) == (2.0, 3.0)
    assert weak.get_params()["min_confidence"] == 0.7
    with pytest.raises(SklearnNotFittedError, match="call fit first"):
        weak.predict(X)
    assert weak.fit(X, votes) is weak
    assert not hasattr(weak.end_model, "coef_")
    again = pickle.loads(pickle.dumps(weak))
    np.testing.assert_array_equal(again.predict(X), weak.predict(X))
    assert weak.decision_function(X).shape == (len(X),)
    margin = fs.WeaklySupervisedClassifier(LinearSVC(dual="auto"))
    assert not hasattr(margin, "predict_proba")
    assert margin.fit(X, votes).score(X, y) > 0.75


def test_a_grid_search_scores_with_gold_of_its_own(data):
    X, votes, y = data

    def accuracy(model, _X, _votes):
        return model.score(X[:500], y[:500])

    grid = {"label_model__method": ["triplet", "covariance"], "end_model__C": [1.0]}
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.LabelModel())
    search = GridSearchCV(weak, grid, scoring=accuracy, cv=2, error_score="raise")
    search.fit(X, votes.codes)
    assert search.best_score_ > 0.75


def test_what_cannot_be_trained_is_named(data):
    X, votes, _ = data
    with pytest.raises(OptionError, match="`end_model`"):
        fs.WeaklySupervisedClassifier(LogisticRegression).fit(X, votes)
    with pytest.raises(OptionError, match="`labels` must be"):
        fs.WeaklySupervisedClassifier(LogisticRegression(), labels="warm").fit(X, votes)
    with pytest.raises(IncompatibleError, match=r"`proba` .*\(10\); got 3000"):
        fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X[:10], votes)
    graph = fs.DependencyGraph.chain(2, 3)
    sample = fs.datasets.simulate_graph(200, graph, 0.8, random_state=0)
    with pytest.raises(IncompatibleError, match="must have one task"):
        fs.WeaklySupervisedClassifier(LogisticRegression(), fs.LabelModel(graph)).fit(X[:200], sample.votes)


# ---------------------------------------------------------------------- training sets


PROBA = np.array([[0.1, 0.9], [0.5, 0.5], [0.7, 0.3], [1.0, 0.0]])


def test_expanded_rows_carry_the_probabilities():
    chosen = fs.to_training_set(["a", "b", "c", "d"], PROBA, drop_uncovered=False, classes=["no", "yes"])
    rows, y, weight = chosen.expanded()
    assert rows == ["a", "a", "b", "b", "c", "c", "d"]
    assert y.tolist() == ["no", "yes", "no", "yes", "no", "yes", "no"]
    assert weight.tolist() == [0.1, 0.9, 0.5, 0.5, 0.7, 0.3, 1.0]
    np.testing.assert_allclose(np.bincount([0, 0, 1, 1, 2, 2, 3], weight), 1)


def test_hard_labels_carry_their_confidence():
    rows, y, confidence = fs.to_training_set(np.arange(4), PROBA, drop_uncovered=False).hard()
    assert rows.tolist() == [0, 1, 2, 3]
    assert y.tolist() == [1, 0, 0, 0]
    assert confidence.tolist() == [0.9, 0.5, 0.7, 1.0]


def test_rows_are_chosen_by_confidence_and_coverage():
    assert fs.to_training_set(np.arange(4), PROBA).rows.tolist() == [0, 2, 3]
    assert fs.to_training_set(np.arange(4), PROBA, min_confidence=0.9).rows.tolist() == [0, 3]
    votes = [[1, 1], [0, 1], [-1, -1], [0, 0]]
    chosen = fs.to_training_set(np.arange(4), PROBA, votes=votes)
    assert chosen.rows.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(chosen.X, [0, 1, 3])
    np.testing.assert_array_equal(chosen.proba, PROBA[[0, 1, 3]])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"proba": PROBA[:3]}, IncompatibleError, r"`proba` .*\(4\); got 3"),
        ({"proba": PROBA[:, 0]}, IncompatibleError, r"`proba` .*got \(4,\)"),
        ({"proba": PROBA * 2}, IncompatibleError, "`proba`"),
        ({"proba": PROBA * np.nan}, IncompatibleError, "`proba`"),
        ({"min_confidence": 2}, OptionError, "`min_confidence` must"),
        ({"votes": [[0, 1]]}, IncompatibleError, "`votes` must"),
        ({"votes": [[-1, -1], [-1, -1], [-1, -1], [-1, 0]], "min_confidence": 1.0}, None, ""),
        ({"proba": PROBA[:, [0, 1]] * 0 + 0.5}, VotesError, "No row is left"),
        ({"classes": ["a"]}, IncompatibleError, "`classes`"),
    ],
)
def test_what_is_no_training_set_is_named(change, error, message):
    arguments = {"X": np.arange(4), "proba": PROBA, **change}
    if error is None:
        assert fs.to_training_set(**arguments).rows.tolist() == [3]
        return
    with pytest.raises(error, match=message):
        fs.to_training_set(**arguments)


def test_rows_in_another_order_than_the_items_are_refused():
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(40, [0.9, 0.8, 0.7], random_state=0)
    ids = [f"q{i}" for i in range(40)]
    votes = pd.DataFrame(sample.votes.codes, index=ids)
    X = pd.DataFrame({"x": sample.y}, index=ids)
    labels = fs.LabelModel().fit(votes).predict_proba(votes, output="pandas")
    for proba, others in ((labels, {}), (labels.to_numpy(), {"votes": votes})):
        assert fs.to_training_set(X, proba, **others).X.equals(X)
        with pytest.raises(IncompatibleError, match="order of the items"):
            fs.to_training_set(X[::-1], proba, **others)
    with pytest.raises(IncompatibleError, match="order of the items"):
        fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X[::-1], votes)
