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
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError, IncompatibleError, OptionError, VotesError
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


def test_rows_in_another_order_than_votes_of_a_numbered_table_are_refused():
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(40, [0.9, 0.8, 0.7], random_state=0)
    votes, X = fs.Votes.from_frame(pd.DataFrame(sample.votes.codes)), pd.DataFrame({"x": sample.y})
    model = fs.WeaklySupervisedClassifier(LogisticRegression())
    model.fit(X, votes)
    model.fit(X[5:], votes[5:])
    with pytest.raises(FlyingSquidError, match="`X`"):
        model.fit(X[::-1], votes)


@pytest.mark.extra
def test_probabilities_in_another_order_than_the_rows_are_refused():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0, 1, 1], "b": [0, 1, -1]}, index=["x", "y", "z"])
    X = frame.set_axis(["p", "q"], axis=1)
    proba = fs.MajorityVote().fit(frame).predict_proba(frame, output="pandas")
    for table in (X, X.to_numpy()):
        assert fs.to_training_set(table, proba, votes=frame).proba.tolist() == proba.to_numpy().tolist()
        with pytest.raises(IncompatibleError, match=r"`proba`.*order"):
            fs.to_training_set(table, proba[::-1], votes=frame)


# ---------------------------------------------------------------------- gold labels


def some_gold(y, n=60, seed=3):
    gold = np.full(len(y), -1)
    at = np.random.default_rng(seed).choice(len(y), n, replace=False)
    gold[at] = y[at]
    return gold


class Recorder(LogisticRegression):
    """A classifier that keeps its training rows."""

    def fit(self, X, y, sample_weight=None):
        self.seen_ = np.asarray(X), np.asarray(y), sample_weight
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize("use_features", [False, True])
@pytest.mark.parametrize("labels", ["soft", "hard"])
def test_the_end_model_is_trained_on_gold_labels(data, labels, use_features):
    X, votes, y = data
    gold = some_gold(y)
    weak = fs.WeaklySupervisedClassifier(
        Recorder(), labels=labels, min_confidence=0.95, use_features=use_features
    ).fit(X, votes, gold=gold)
    rows, targets, weights = weak.end_model_.seen_
    known = np.flatnonzero(gold >= 0)
    assert (~(votes.codes[known] >= 0).any(axis=1)).any()  # some have no votes
    assert set(known) <= set(weak.rows_)
    for at in known:
        mine = (rows == X[at]).all(axis=1)
        assert targets[mine].tolist() == [y[at]]
        assert weights is None or weights[mine].tolist() == [1.0]
    options = {"features": X} if use_features else {}
    same = fs.LabelModel().fit(votes, gold=gold, **options).predict_proba(votes, **options)
    np.testing.assert_array_equal(weak.label_model_.predict_proba(votes, **options), same)


def test_probabilities_as_targets_are_one_for_gold_labels(data):
    X, votes, y = data
    gold = some_gold(y)
    weak = fs.WeaklySupervisedClassifier(Shares(), labels="proba", drop_uncovered=False)
    weak.fit(X, votes, gold=gold)
    targets = weak.label_model_.predict_proba(votes)
    targets[gold >= 0] = np.eye(2)[gold[gold >= 0]]
    np.testing.assert_allclose(weak.end_model_.coef_, LinearRegression().fit(X, targets).coef_)


def test_gold_labels_of_several_classes_in_another_order_of_classes():
    rng = np.random.default_rng(0)
    names = np.array(["red", "amber", "green"])
    y = rng.integers(0, 3, 600)
    codes = np.where(rng.random((600, 4)) < 0.7, y[:, None], rng.integers(0, 3, (600, 4)))
    votes = fs.Votes.from_classes(names[codes], classes=names.tolist())
    label_model = fs.LabelModel(classes=["green", "red", "amber"])
    X = rng.normal(0, 1, (600, 2))
    gold = {at: str(names[y[at]]) for at in range(50)}
    as_list = [gold.get(at) for at in range(600)]
    weak = fs.WeaklySupervisedClassifier(Recorder(), label_model).fit(X, votes, gold=as_list)
    rows, targets, _ = weak.end_model_.seen_
    assert weak.classes_.tolist() == ["green", "red", "amber"]
    for at, label in gold.items():
        assert targets[(rows == X[at]).all(axis=1)].tolist() == [label]


def test_gold_labels_are_joined_by_identifier(data):
    pd = pytest.importorskip("pandas")
    X, votes, y = (values[:400] for values in data)
    ids = [f"q{i}" for i in range(400)]
    table = pd.DataFrame(votes.codes, index=ids)
    gold = some_gold(y)
    known = {ids[at]: int(gold[at]) for at in reversed(np.flatnonzero(gold >= 0))}
    weak = fs.WeaklySupervisedClassifier(LogisticRegression())
    expected = clone(weak).fit(X, table, gold=gold)
    for given in (known, pd.Series(known), np.where(gold >= 0, gold, np.nan)):
        found = clone(weak).fit(X, table, gold=given)
        np.testing.assert_array_equal(found.rows_, expected.rows_)
        np.testing.assert_array_equal(found.end_model_.coef_, expected.end_model_.coef_)


def test_unknown_gold_labels_change_nothing(data):
    X, votes, _ = data
    without = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, votes)
    unknown = fs.WeaklySupervisedClassifier(LogisticRegression()).fit(X, votes, gold=[None] * len(X))
    np.testing.assert_array_equal(unknown.rows_, without.rows_)
    np.testing.assert_array_equal(unknown.end_model_.coef_, without.end_model_.coef_)


def test_gold_labels_alone_are_enough_to_train_on():
    votes = fs.Votes.from_classes([[0, 1, 0], [1, 0, 1], [-1, -1, -1], [-1, -1, -1]] * 10, classes=(0, 1))
    X = np.tile(np.arange(4.0), 10)[:, None]
    weak = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.LabelModel(method="em"), min_confidence=1.0)
    with pytest.raises(VotesError, match="No row is left"):
        weak.fit(X, votes)
    weak.fit(X, votes, gold=[None, None, 0, 1] + [None] * 36)
    assert weak.rows_.tolist() == [2, 3]


def test_bad_gold_labels_are_named(data):
    X, votes, y = data
    weak = fs.WeaklySupervisedClassifier(LogisticRegression())
    with pytest.raises(VotesError, match=r"gold\[0\]: .*got 7"):
        weak.fit(X, votes, gold=[7, *y[1:]])
    with pytest.raises(VotesError, match="`gold` must have one label for each of 3,000 items"):
        weak.fit(X, votes, gold=y[:10])
    with pytest.raises(VotesError, match="`gold` must be a sequence"):
        weak.fit(X, votes, gold={"a": 1})
    majority = fs.WeaklySupervisedClassifier(LogisticRegression(), fs.MajorityVote())
    with pytest.raises(OptionError, match="`gold` is not supported by MajorityVote") as caught:
        majority.fit(X, votes, gold=y)
    assert caught.value.parameter == "gold"
    assert not hasattr(weak, "end_model_")


def test_cross_validation_splits_gold_labels(data):
    X, votes, y = data

    def accuracy(model, _X, _votes):
        return model.score(X, y)

    gold = some_gold(y, 300)
    found = cross_validate(
        fs.WeaklySupervisedClassifier(LogisticRegression()),
        X,
        votes.codes,
        scoring=accuracy,
        cv=KFold(3),
        params={"gold": gold},
        return_estimator=True,
        error_score="raise",
    )
    n_gold = [(gold[train] >= 0).sum() for train, _ in KFold(3).split(X)]
    assert [model.label_model_.n_gold_ for model in found["estimator"]] == n_gold
    outside = make_pipeline(StandardScaler(), fs.WeaklySupervisedClassifier(LogisticRegression()))
    outside.fit(X, votes, weaklysupervisedclassifier__gold=gold)
    assert outside[-1].label_model_.n_gold_ == 300


def test_gold_labels_improve_the_end_model_on_real_votes():
    """Mean over 6 splits of ``breast_cancer``, scored on items that were not trained on."""
    data = fs.datasets.load_breast_cancer()
    X, y = StandardScaler().fit_transform(data.features), np.asarray(data.y)
    gains = []
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:400], order[400:]
        weak = fs.WeaklySupervisedClassifier(LogisticRegression())
        without = clone(weak).fit(X[train], data.votes[train])
        gold = [label if at < 100 else None for at, label in enumerate(y[train].tolist())]
        weak.fit(X[train], data.votes[train], gold=gold)
        gains.append(weak.score(X[test], y[test]) - without.score(X[test], y[test]))
    assert np.mean(gains) > 0.01


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:With the gold labels, votes rarely")
def test_gold_labels_may_shift_the_threshold_if_votes_are_weak():
    """The limit in docs/guides/end-models.md; update the guide if this fails."""
    scores = []  # without gold labels, with them, and with features in the label model
    for seed in range(12):
        sample = fs.datasets.simulate(
            2_000, [0.7, 0.65, 0.65, 0.6], coverage=0.5, class_balance=[0.7, 0.3], random_state=seed
        )
        X = np.random.default_rng(seed + 1_000).normal(sample.y[:, None], 1.5, (2_000, 5))
        gold = some_gold(sample.y[:1_000], 100, seed + 2_000)
        weak = fs.WeaklySupervisedClassifier(LogisticRegression())
        by_features = clone(weak).set_params(use_features=True, drop_uncovered=False)
        scores.append(
            [
                clone(model)
                .fit(X[:1_000], sample.votes[:1_000], gold=given)
                .score(X[1_000:], sample.y[1_000:])
                for model, given in ((weak, None), (weak, gold), (by_features, gold))
            ]
        )
    without, with_gold, with_features = np.mean(scores, axis=0)
    assert with_gold < without - 0.005
    assert with_features > without + 0.005


def test_a_training_set_keeps_rows_with_gold_labels():
    X, votes, proba = np.arange(3), [[1, 1], [-1, -1], [0, 1]], [[0.1, 0.9], [0.5, 0.5], [0.5, 0.5]]
    chosen = fs.to_training_set(X, proba, votes=votes, min_confidence=0.8, gold=[None, 0, None])
    assert (chosen.rows.tolist(), chosen.proba.tolist()) == ([0, 1], [[0.1, 0.9], [1.0, 0.0]])
    with pytest.raises(OptionError, match="`gold` requires `votes`"):
        fs.to_training_set(X, proba, gold=[None, 0, None])
    with pytest.raises(IncompatibleError, match="`votes` must have one row per row"):
        fs.to_training_set(X, proba, votes=votes[:2], gold=[None, 0], drop_uncovered=False)
