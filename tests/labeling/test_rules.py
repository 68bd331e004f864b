"""Ready-made labeling functions."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import flyingsquid as fs
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.labeling import (
    classifier,
    from_column,
    from_file,
    gazetteer,
    keywords,
    regex,
    threshold,
)

WRONG: Any = b"a"
NUMBER: Any = 5
TEXTS = ["Subscribe to MY channel", "subscriber of C++", None, "ein Käse, naïve", "sub scribe"]


def kinds_of_data(columns):
    """The same items in every container that is installed."""
    names = list(columns)
    yield [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    for package, make in (("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")):
        try:
            module = __import__(package)
        except ImportError:
            continue
        yield getattr(module, make)(columns)


def votes_of(function, columns, classes=None):
    """Votes, which must be the same whatever holds the data."""
    every = [
        fs.apply([function], data, classes=classes).codes.ravel().tolist() for data in kinds_of_data(columns)
    ]
    assert all(votes == every[0] for votes in every)
    return every[0]


# ---------------------------------------------------------------------- texts


@pytest.mark.parametrize(
    ("words", "options", "expected"),
    [
        ("subscribe", {}, [1, -1, -1, -1, -1]),
        ("subscribe", {"whole_words": False}, [1, 1, -1, -1, -1]),
        ("subscribe", {"ignore_case": False}, [-1, -1, -1, -1, -1]),
        (["my channel", "c++"], {}, [1, 1, -1, -1, -1]),
        (["käse"], {}, [-1, -1, -1, 1, -1]),
        (["k"], {}, [-1, -1, -1, -1, -1]),
        (["."], {}, [-1, -1, -1, -1, -1]),
    ],
)
def test_keywords(words, options, expected):
    assert votes_of(keywords(words, 1, **options), {"text": TEXTS}) == expected


def test_a_list_of_texts_is_looked_at_itself():
    assert fs.apply([keywords("song", 0)], ["a song", "none"]).codes.ravel().tolist() == [0, -1]
    assert fs.apply([keywords("song", 0, column="title")], [{"title": "song"}]).codes.tolist() == [[0]]


def test_regex():
    pattern = r"sub.?scribe\b"
    assert votes_of(regex(pattern, 1, flags=re.IGNORECASE), {"text": TEXTS}) == [1, -1, -1, -1, 1]
    assert regex(re.compile("a", re.IGNORECASE), "x")("A") == "x"


def test_gazetteer():
    places = gazetteer({"New York": "place", "New York Times": "paper", "C++": "language", "Times": "paper"})
    texts = ["in new york.", "The NEW  York Times", "c++ in New York", "c + +", "new times", "york", None, ""]
    expected = ["place", "paper", None, "language", "paper", None, None, None]
    classes = ["place", "paper", "language"]
    codes = [-1 if e is None else classes.index(e) for e in expected]
    assert votes_of(places, {"text": texts}, classes) == codes
    one = gazetteer(["Ann", "Bob"], "person", ignore_case=False)
    assert (one("ann and Bob"), one("bob")) == ("person", None)


@given(st.lists(st.sampled_from(["a", "b", "a b", "c", "b c a"]), unique=True, min_size=1), st.text("abc "))
def test_a_gazetteer_of_one_class_is_keywords(entries, text):
    assert gazetteer(entries, 1)(text) == keywords(entries, 1)(re.sub(" +", " ", text))


def test_what_is_no_text_is_named():
    with pytest.raises(LabelingError, match=r"item 1.*'text' .*got 3"):
        fs.apply([keywords("a", 1)], [{"text": "a"}, {"text": 3}])
    with pytest.raises(LabelingError, match=r"'keywords_a'.*item 1 .*'text'"):
        fs.apply([keywords("a", 1)], [{"text": "a"}, {"body": "a"}])


@pytest.mark.extra
def test_missing_texts_of_pandas_get_no_vote():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"text": ["a", None, np.nan, pd.NA]})
    assert fs.apply([keywords("a", 1)], frame).codes.ravel().tolist() == [1, -1, -1, -1]
    assert fs.apply([keywords("a", 1)], frame["text"]).codes.ravel().tolist() == [1, -1, -1, -1]
    with pytest.raises(LabelingError, match="no column 'body'; the table has text"):
        fs.apply([keywords("a", 1, column="body")], frame)


# --------------------------------------------------------------------- numbers, classifiers, labels


def test_threshold():
    columns = {"size": [1.0, 5.0, None, 10.0, float("nan")]}
    assert votes_of(threshold("size", 1, at_least=5), columns) == [-1, 1, -1, 1, -1]
    assert votes_of(threshold("size", 1, at_most=5), columns) == [1, 1, -1, -1, -1]
    assert votes_of(threshold("size", 1, at_least=2, at_most=5, otherwise=0), columns) == [0, 1, -1, 0, -1]
    assert votes_of(threshold("size", True, at_least=2), {"size": [1, 2]}) == [-1, 1]
    with pytest.raises(LabelingError, match="column 'size' must contain numbers"):
        fs.apply([threshold("size", 1, at_least=2)], [{"size": "large"}])


def test_classifier_votes_where_it_is_sure():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    model = LogisticRegression().fit(X, ["a", "a", "b", "b"])
    votes = fs.apply([classifier(model, min_confidence=0.75)], X)
    sure = model.predict_proba(X).max(axis=1) >= 0.75
    assert 0 < sure.sum() < 4
    assert [votes.classes[c] if c >= 0 else None for c in votes.codes[:, 0]] == [
        label if s else None for label, s in zip("aabb", sure, strict=True)
    ]
    every = fs.apply([classifier(model, min_confidence=0)], X)
    assert every.codes.ravel().tolist() == [0, 0, 1, 1]


def test_classifier_looks_at_columns():
    columns = {"size": [0.0, 1.0, 2.0, 3.0], "noise": [5.0, 5.0, 5.0, 5.0], "text": ["a", "a", "b", "b"]}
    model = DecisionTreeClassifier().fit(np.array([columns["size"], columns["noise"]]).T, [0, 0, 1, 1])
    picked = classifier(model, columns=["size", "noise"])
    assert votes_of(picked, columns) == [0, 0, 1, 1]

    class Texts:
        classes_ = ["a", "b"]

        def predict_proba(self, texts):
            return [[float(t == "a"), float(t == "b")] for t in texts]

    assert votes_of(classifier(Texts(), columns="text"), columns) == [0, 0, 1, 1]


def test_a_classifier_without_probabilities_or_fit_is_refused():
    with pytest.raises(OptionError, match=r"`model` .*got LinearSVC"):
        classifier(LinearSVC())
    with pytest.raises(OptionError, match=r"`model` must .*classes_"):
        classifier(make_pipeline(LogisticRegression()))
    with pytest.raises(OptionError, match="`min_confidence` must"):
        classifier(LogisticRegression().fit([[0], [1]], [0, 1]), min_confidence=80)


def test_labels_of_somebody_else():
    columns = {"id": ["c1", "c2", "c3"], "stars": [1, 5, 3], "ann": ["spam", None, "ham"]}
    assert votes_of(from_column("id", labels={"c1": 1, "c9": 0}), columns) == [1, -1, -1]
    assert votes_of(from_column("stars", labels={1: 0, 5: 1}), columns) == [0, 1, -1]
    assert votes_of(from_column("ann"), columns) == [1, -1, 0]
    assert from_column("ann").name == "ann"


@pytest.mark.extra
def test_a_classifier_fitted_on_names_gets_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"noise": [5.0] * 4, "size": [0.0, 1.0, 2.0, 3.0]})
    model = DecisionTreeClassifier().fit(frame[["size"]], [0, 0, 1, 1])
    assert fs.apply([classifier(model, columns=["size"])], frame).codes.ravel().tolist() == [0, 0, 1, 1]
    with pytest.raises(LabelingError, match=r"'weight'.*noise, size"):
        fs.apply([classifier(model, columns=["weight"])], frame)


@pytest.mark.extra
def test_a_column_of_integers_with_nulls():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"ann": [1, None, 0]})  # pandas makes floats of it
    assert fs.apply([from_column("ann")], frame).codes.ravel().tolist() == [1, -1, 0]


def test_labels_in_a_file(tmp_path):
    path = tmp_path / "ann.csv"
    path.write_text("\ufeffid,label,note\n1,spam,x\n2,,y\n3,ham,\n3,ham,\n")
    ann = from_file(path)
    assert ann.name == "ann"
    assert votes_of(ann, {"id": [1, 2, 3, 4]}) == [1, -1, 0, -1]
    (tmp_path / "bob.tsv").write_text("key\tsaid\n1\t2\n2\t0\n")
    bob = from_file(tmp_path / "bob.tsv", id="key", label="said")
    assert fs.apply([bob], [{"key": "1"}, {"key": "2"}]).codes.ravel().tolist() == [2, 0]
    with pytest.raises(LabelingError, match=r"'said'; got id, label, note"):
        from_file(path, label="said")
    path.write_text("id,label\n1,spam\n1,ham\n")
    with pytest.raises(LabelingError, match=r"'1' .*'spam' and 'ham'"):
        from_file(path)
    (tmp_path / "cleo.jsonl").write_text('{"id": 1, "label": 0}\n{"id": 2, "label": null}\n')
    assert votes_of(from_file(tmp_path / "cleo.jsonl"), {"id": [1, 2]}) == [0, -1]
    (tmp_path / "dan.txt").write_text("1 spam\n")
    with pytest.raises(LabelingError, match="'id'; got lines of text"):
        from_file(tmp_path / "dan.txt")


def test_columns_other_than_the_usual_ones(tmp_path):
    items = [{"title": "New York", "key": 7}, {"title": "a song", "key": 8}]
    functions = [
        regex("so.g", 0, column="title"),
        gazetteer({"New York": 1}, column="title"),
        from_column("key", labels={8: 1}),
    ]
    assert fs.apply(functions, items).codes.tolist() == [[-1, 1, -1], [0, -1, 1]]
    path = tmp_path / "labels.csv"
    path.write_text("id;label\n1;spam\n")
    ann = from_file(path, name="Ann")
    assert (ann.name, ann({"id": "1"})) == ("Ann", "spam")


# ---------------------------------------------------------------------- names and wrong options


@pytest.mark.parametrize(
    ("made", "name"),
    [
        (keywords(["check out", "C++"], 1), "keywords_check_out_C"),
        (keywords("a" * 90, 1), "keywords_" + "a" * 31),
        (regex(r"check.*out", 1), "regex_check_out"),
        (regex(r"^\W+$", 1), "regex_W"),
        (gazetteer(["Ann", "Bob", "Cleo", "Dan"], 1), "gazetteer_Ann_Bob_Cleo"),
        (threshold("length", 1, at_least=2.5, at_most=1e6), "length_at_least_2_5_at_most_1e_06"),
        (classifier(LogisticRegression().fit([[0], [1]], [0, 1])), "LogisticRegression_0_8"),
        (from_column("id", labels={1: 1}), "id"),
        (keywords("a", 1, name="mine"), "mine"),
        (gazetteer(["a"], 1, name="mine"), "mine"),
        (threshold("a", 1, at_least=1, name="mine"), "mine"),
        (classifier(LogisticRegression().fit([[0], [1]], [0, 1]), name="mine"), "mine"),
        (from_column("a", name="mine"), "mine"),
    ],
)
def test_names(made, name):
    assert made.name == name
    assert made.vectorized


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: keywords([], 1), "words"),
        (lambda: keywords(["a", " "], 1), "words"),
        (lambda: keywords("a", 0.5), "label"),
        (lambda: keywords("a", None), "label"),
        (lambda: regex("(", 1), "pattern"),
        (lambda: regex(WRONG, 1), "pattern"),
        (lambda: gazetteer({"a": 1}, 1), "label"),
        (lambda: gazetteer(["a"]), "label"),
        (lambda: gazetteer({"a": 1, "A": 0}), "entries"),
        (lambda: gazetteer({" ": 1}), "entries"),
        (lambda: threshold("a", 1), "at_most"),
        (lambda: threshold("a", 1, at_least=WRONG), "at_least"),
        (lambda: threshold("a", 1, at_most=float("nan")), "at_most"),
        (lambda: threshold("a", 1, at_least=3, at_most=1), "at_least"),
        (
            lambda: classifier(LogisticRegression().fit([[0], [1]], [0, 1]), min_confidence=WRONG),
            "min_confidence",
        ),
        (lambda: keywords(NUMBER, 1), "words"),
        (lambda: gazetteer(NUMBER, 1), "entries"),
        (lambda: from_column("id", labels=WRONG), "labels"),
    ],
)
def test_invalid_options_are_refused_when_the_function_is_made(call, parameter):
    with pytest.raises(OptionError, match=f"`{parameter}` must"):
        call()
