"""Plausible mistakes and mixed conventions: each is read correctly, or an error or warning names the fix."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pytest
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError, VotesWarning

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

RNG = np.random.default_rng(5)
N, M = 1000, 5
TRUTH = RNG.integers(0, 2, N)
CODES = np.where(RNG.random((N, M)) < 0.85, TRUTH[:, None], 1 - TRUTH[:, None])
CODES = np.where(RNG.random((N, M)) < 0.7, CODES, -1).astype(np.int64)
NAMES = ["links", "short", "caps", "greeting", "price"]
FRAME = pd.DataFrame(CODES, columns=NAMES)
WORDS = FRAME.replace({-1: None, 0: "ham", 1: "spam"}).astype(object)
SIGNED = np.select([CODES == 0, CODES == 1], [-1, 1], 0)
MANY = np.where(RNG.random((N, M)) < 0.8, RNG.integers(1, 6, (N, 1)), RNG.integers(1, 6, (N, M)))
LONG = pd.DataFrame({"task": np.repeat(np.arange(N), M), "worker": NAMES * N, "label": CODES.ravel()})
LONG = LONG[LONG["label"] >= 0]
TEXTS = [f"comment number {i}" for i in range(N)]


def put(array, value, at=(0, 0)):
    changed = np.array(array)
    changed[at] = value
    return changed


def read(data):
    """As fit reads it."""
    return fs.LabelModel().fit(data).moments_


# ---------------------------------------------------------------------- refused, with the fix

REFUSED = {
    # tables with columns that are not votes
    "gold column": (FRAME.assign(label=TRUTH), "columns="),
    "gold column, other name": (FRAME.assign(Ground_Truth=TRUTH), "columns="),
    "gold column called y": (FRAME.assign(y=TRUTH), "gold"),
    "gold column of words": (WORDS.assign(target=np.where(TRUTH, "spam", "ham")), "columns="),
    "text column": (WORDS.assign(text=TEXTS), "columns="),
    "text and gold columns": (WORDS.assign(text=TEXTS, gold="spam"), "columns="),
    "text column in a short table": (WORDS[:12].assign(text=TEXTS[:12]), "columns="),
    "text column next to numbers": (FRAME.assign(text=TEXTS), "columns"),
    "identifiers in the last column": (FRAME.assign(row=np.arange(N) + 1000), "columns="),
    "an age": (FRAME.assign(age=RNG.integers(18, 90, N)), "columns="),
    "a year": (FRAME.assign(year=RNG.integers(1990, 2024, N)), "columns="),
    "a date": (WORDS.assign(day=pd.date_range("2024-01-01", periods=N)), "columns="),
    "a confidence": (FRAME.assign(confidence=RNG.random(N)), "columns="),
    "everything of a csv": (WORDS.assign(text=TEXTS, label="ham").reset_index(), "columns="),
    "polars with a text column": (pl.DataFrame({"a": [0, 1] * 50, "t": TEXTS[:100]}), "columns"),
    "pyarrow with a gold column": (pa.Table.from_pandas(FRAME.assign(label=TRUTH)), "columns="),
    # one row per vote
    "long table": (LONG, "Votes.from_long"),
    "long table of polars": (pl.from_pandas(LONG), "Votes.from_long"),
    "long table, other names": (
        LONG.rename(columns={"task": "item", "worker": "annotator", "label": "answer"}),
        "Votes.from_long",
    ),
    "long table with capitals": (LONG.rename(columns=str.upper), "Votes.from_long"),
    "long table, unknown names": (
        LONG.rename(columns={"task": "tweet", "worker": "coder", "label": "code"}),
        "columns",
    ),
    # numbers that are no class numbers
    "uint8 with 255": (np.where(CODES < 0, 255, CODES).astype(np.uint8), "abstain=255"),
    "uint16 with 65535": (np.where(CODES < 0, 65535, CODES).astype(np.uint16), "classes"),
    "99 for no vote": (np.where(CODES < 0, 99, CODES), "abstain=99"),
    "999 for no vote": (np.where(CODES < 0, 999, CODES), "abstain=999"),
    "classes 0 and 1000": (CODES * 1000, "classes"),
    "classes 0 and 100": (np.abs(CODES) * 100, "classes"),
    "-9 for no vote": (np.where(CODES < 0, -9, CODES), "no vote"),
    "-99 for no vote": (np.where(CODES < 0, -99, CODES), "no vote"),
    "likert from -2 to 2": (MANY - 3, "classes"),
    "probabilities": (RNG.random((N, M)), "Votes.from_scores"),
    "scores with halves": (MANY / 2, "Votes.from_scores"),
    "percentages": (np.round(RNG.random((N, M)) * 100, 1), "Votes.from_scores"),
    "infinite scores": (put(MANY.astype(float), np.inf), "infinite"),
    "complex numbers": (CODES.astype(complex), "integers"),
    "huge numbers": (put(CODES, 10**12), "classes"),
    # words
    "empty strings": (WORDS.fillna(""), "abstain=''"),
    "the word abstain": (WORDS.fillna("ABSTAIN"), "abstain='ABSTAIN'"),
    "the word NA": (WORDS.fillna("NA"), "abstain='NA'"),
    "the word n/a": (WORDS.fillna("n/a"), "abstain='n/a'"),
    "the word None": (WORDS.fillna("None"), "abstain='None'"),
    "the word nan": (WORDS.fillna("nan"), "abstain='nan'"),
    "the word null": (WORDS.fillna("null"), "abstain='null'"),
    "the string -1": (FRAME.astype(str), "abstain='-1'"),
    "words and numbers": (np.where(CODES == 1, 1, WORDS.to_numpy()), "type"),
    "booleans and words": ([[True, "spam"], [False, "ham"], [True, "ham"]], "type"),
    "a single word": (WORDS.where(WORDS == "spam", None), "classes"),
    "bytes and strings": ([[b"spam", "spam"], ["ham", b"ham"]], "type"),
    # shapes and types
    "one source as a list": (CODES[:, 0].tolist(), "one row per item"),
    "one source as a Series": (FRAME["links"], "one row per item"),
    "one item": (CODES[0], "one row per item"),
    "rows of different length": ([[0, 1], [1]], "rectangular"),
    "no items": (CODES[:0], "at least one item"),
    "no sources": (CODES[:, :0], "at least one column"),
    "three dimensions": (CODES.reshape(N, M, 1), "graph"),
    "a sparse matrix": (csr_array(CODES + 1), "Votes.from_sparse"),
    "a lazy table": (pl.from_pandas(FRAME).lazy(), "collect"),
    "lists in cells": (
        pd.DataFrame({"a": [[0], [1], [0]], "b": [[1], [1], [0]]}),
        "numbers, strings or booleans",
    ),
    "two columns of one name": (pd.DataFrame(CODES[:, :2], columns=["a", "a"]), "unique"),
    "a dictionary": ({"a": [0, 1], "b": [1, 1]}, "DataFrame"),
}

# ---------------------------------------------------------------------- warned about, with the fix

DOUBTED = {
    "signed votes": (SIGNED, "Votes.from_signed"),
    "signed votes in a table": (pd.DataFrame(SIGNED, columns=NAMES), "Votes.from_signed"),
    "signed votes as floats": (SIGNED.astype(float), "Votes.from_signed"),
    "signed votes without abstention": (2 * (CODES > 0) - 1, "Votes.from_signed"),
    "signed votes in a list": (SIGNED.tolist(), "Votes.from_signed"),
    "0 for no vote": (CODES + 1, "abstain=0"),
    "0 for no vote, many classes": (np.where(RNG.random((N, M)) < 0.5, MANY, 0), "abstain=0"),
    "0 for no vote in a table": (pd.DataFrame(CODES + 1, columns=NAMES), "abstain=0"),
    "9 for no vote": (np.where(RNG.random((N, M)) < 0.2, 9, MANY), "abstain=9"),
    "words in other case": (WORDS.assign(links=WORDS["links"].str.upper()), "normalize=True"),
    "words with spaces": (WORDS.assign(links=WORDS["links"] + " "), "normalize=True"),
    "transposed": (CODES[:200].T, "transposed"),
    "transposed words": (WORDS.fillna("ham").to_numpy()[:200].T, "transposed"),
}

# ---------------------------------------------------------------------- read correctly: classes and first row

FIRST = [None if v < 0 else int(v) for v in CODES[0]]
RIGHT = {
    "the usual convention": (CODES, (0, 1)),
    "int8": (CODES.astype(np.int8), (0, 1)),
    "floats with NaN": (np.where(CODES < 0, np.nan, CODES), (0, 1)),
    "masked": (np.ma.masked_less(CODES, 0), (0, 1)),
    "objects with None": (np.where(CODES < 0, np.array(None, object), CODES), (0, 1)),
    "decimals": (np.array([[Decimal(int(v)) for v in row] for row in CODES], object), (0, 1)),
    "nullable integers of pandas": (FRAME.replace(-1, pd.NA).astype("Int64"), (0, 1)),
    "floats of pandas": (FRAME.replace(-1, np.nan), (0, 1)),
    "polars": (pl.from_pandas(FRAME), (0, 1)),
    "pyarrow": (pa.Table.from_pandas(FRAME), (0, 1)),
    "an identifier column": (FRAME.assign(id=np.arange(N) + 7)[["id", *NAMES]], (0, 1)),
    "an identifier column, last": (FRAME.assign(id=np.arange(N) + 7), (0, 1)),
    "an identifier of strings first": (pd.concat([pd.Series(TEXTS, name="tweet"), FRAME], axis=1), (0, 1)),
    "the index of a saved csv": (FRAME.reset_index(names="Unnamed: 0"), (0, 1)),
    "an index of strings": (FRAME.set_index(pd.Index(TEXTS)), (0, 1)),
    "categories": (WORDS.astype("category"), ("ham", "spam")),
    "words": (WORDS, ("ham", "spam")),
    "arrow strings": (WORDS.astype("string[pyarrow]"), ("ham", "spam")),
    "classes 1 and 2": (np.where(CODES < 0, -1, CODES + 1), (1, 2)),
    "scores 1 to 5": (MANY, (1, 2, 3, 4, 5)),
    "booleans": (CODES > 0, (False, True)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_mistake_is_refused_with_the_fix(case):
    data, fix = REFUSED[case]
    with pytest.raises(FlyingSquidError) as raised:
        read(data)
    assert fix in str(raised.value)


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("case", DOUBTED)
def test_a_doubtful_reading_is_warned_about_with_the_fix(case):
    data, fix = DOUBTED[case]
    with pytest.warns(VotesWarning) as caught:
        read(data)
    assert any(fix in str(w.message) for w in caught if w.category is VotesWarning)


@pytest.mark.parametrize("case", RIGHT)
def test_a_convention_is_read_correctly(case):
    data, classes = RIGHT[case]
    with warnings.catch_warnings():
        warnings.simplefilter("error", VotesWarning)
        moments = read(data)
        votes = fs.Votes.from_classes(data)
    assert moments.classes == votes.classes == classes
    assert votes.shape == (N, M)
    if len(classes) == 2 and classes[0] is not False:
        np.testing.assert_array_equal(votes.codes, CODES)


def test_there_are_at_least_80_cases():
    assert len(REFUSED) + len(DOUBTED) + len(RIGHT) >= 80


# ---------------------------------------------------------------------- the fixes work


def test_the_named_calls_read_the_votes():
    frame = WORDS.assign(text=TEXTS, label=np.where(TRUTH, "spam", "ham"), id=TEXTS)
    chosen = fs.Votes.from_frame(frame, columns=NAMES)
    long = fs.Votes.from_long(LONG, item="task", source="worker", label="label")
    signed = fs.Votes.from_signed(pd.DataFrame(SIGNED, columns=NAMES))
    zero = fs.Votes.from_classes(CODES + 1, abstain=0)
    joined = fs.Votes.from_frame(WORDS.assign(links=WORDS["links"].str.upper()), normalize=True)
    several = fs.Votes.from_classes(WORDS.fillna("").replace("ham", "skip"), abstain=["", "skip", "spam"])
    for votes in (chosen, signed, zero, joined):
        np.testing.assert_array_equal(votes.to_dense().codes, CODES)
    assert list(chosen.items) == TEXTS
    assert signed.names == tuple(NAMES)
    assert long.n_votes == (CODES >= 0).sum()
    assert several.n_votes == 0


def test_labels_may_be_read_from_the_table_that_the_model_was_fitted_on():
    """Identifiers, texts and gold labels are left out at prediction; unknown sources are refused."""
    model = fs.LabelModel().fit(FRAME)
    wide = FRAME.assign(id=TEXTS, text=TEXTS, label=TRUTH)
    np.testing.assert_array_equal(model.predict_proba(wide), model.predict_proba(FRAME))
    with pytest.raises(FlyingSquidError, match="new"):
        model.predict_proba(FRAME.assign(new=TRUTH))


def test_gold_labels_and_y_are_aligned_as_pandas_aligns_them():
    frame = FRAME.set_index(pd.Index(TEXTS))
    shuffled = pd.Series(TRUTH, index=TEXTS).sample(frac=1, random_state=0)
    model = fs.LabelModel().fit(frame, gold=shuffled)
    assert model.score(frame, shuffled) == model.score(frame, TRUTH)
    assert model.diagnostics_.gold.n_gold == N
    numbered = FRAME.assign(id=RNG.permutation(N))
    assert model.score(numbered, pd.Series(TRUTH)) == model.score(FRAME, TRUTH)
    with pytest.raises(FlyingSquidError, match="`y`"):
        model.score(frame, pd.Series(TRUTH))


def test_a_series_in_another_order_than_votes_without_identifiers_is_an_error():
    votes, y = fs.Votes.from_frame(FRAME), pd.Series(TRUTH)
    model, shuffled = fs.LabelModel().fit(votes), y.sample(frac=1, random_state=0)
    for score in (model.score, fs.summarize):
        with pytest.raises(FlyingSquidError, match=r"`y`.*identifiers"):
            score(votes, shuffled)
    with pytest.raises(FlyingSquidError, match=r"`y`.*identifiers"):
        model.score(pl.from_pandas(FRAME), shuffled)
    assert model.score(FRAME, shuffled) == model.score(votes, y)
    order = shuffled.index.to_numpy()
    assert model.score(CODES[order], shuffled) == model.score(CODES, TRUTH)  # arrays, as in scikit-learn
    # As in cross-validation, a part has the index of all items.
    assert model.score(votes[5:], y[5:]) == model.score(votes[5:], TRUTH[5:])


def test_gold_labels_of_another_convention_are_doubted():
    model = fs.LabelModel().fit(CODES)
    with pytest.warns(VotesWarning, match="`y`.*-1"):
        model.score(CODES, 2 * TRUTH - 1)
    few = np.where(np.arange(N) < 8, 1, -1)  # a few gold labels of one class, others unknown
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.score(CODES, few)
        model.score(CODES[TRUTH == 1], TRUTH[TRUTH == 1])


@pytest.mark.parametrize("library", [pd, pl])
def test_gold_labels_must_be_one_column(library):
    table = library.DataFrame({"gold": TRUTH})
    with pytest.raises(FlyingSquidError, match="`gold` must be one column"):
        fs.LabelModel().fit(CODES, gold=table)
    with pytest.raises(FlyingSquidError, match="`y` must be one column"):
        fs.LabelModel().fit(CODES).score(CODES, table)


def test_features_as_the_second_argument_are_doubted():
    with pytest.warns(VotesWarning, match="features=X"):
        fs.LabelModel().fit(CODES, np.zeros((N, 3)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.LabelModel().fit(CODES, TRUTH)  # as in scikit-learn's cross-validation
