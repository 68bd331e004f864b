"""Tables of pandas, polars and pyarrow."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import VotesError, VotesWarning

pytestmark = pytest.mark.extra
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

FRAMES = [pd.DataFrame, pl.DataFrame, pa.table]


@pytest.mark.parametrize("frame", FRAMES)
def test_names_classes_and_nulls_are_read(frame):
    votes = fs.Votes.from_frame(frame({"links": [1, -1, 0], "short": [1.0, None, 0.0]}))
    assert votes.names == ("links", "short")
    assert votes.codes.tolist() == [[1, 1], [-1, -1], [0, 0]]


@pytest.mark.parametrize(
    "empty",
    [
        pd.Series([np.nan, np.nan]),
        pd.Series([None, None], dtype="Int64"),
        pl.Series([float("nan"), None]),
        pl.Series([None, None], dtype=pl.Int64),
    ],
)
def test_a_column_of_numbers_without_any_votes_may_be_next_to_strings(empty):
    """As pandas.read_csv returns it, if no item of a file has a vote of the source."""
    frame = pd.DataFrame if isinstance(empty, pd.Series) else pl.DataFrame
    table = frame({"a": ["ham", "spam"], "b": empty, "c": ["spam", "spam"]})
    assert fs.Votes.from_frame(table).codes.tolist() == [[0, -1, 1], [1, -1, 1]]
    model = fs.MajorityVote().fit(frame({"a": ["ham", "spam"], "b": ["ham", "spam"], "c": ["ham", "ham"]}))
    assert model.predict(table).tolist() == ["ham", "spam"]


@pytest.mark.parametrize("frame", FRAMES)
def test_texts_and_chosen_columns(frame):
    table = frame({"id": [7, 8], "b": ["ham", None], "a": ["spam", "ham"]})
    votes = fs.Votes.from_frame(table, columns=["a", "b"])
    assert (votes.names, votes.classes) == (("a", "b"), ("ham", "spam"))
    assert votes.codes.tolist() == [[1, 0], [0, -1]]


def test_a_column_of_strings_may_have_no_votes():
    table = pa.table({"a": pa.array([None, None], pa.string()), "b": ["spam", "ham"]})
    for frame in (table, pl.from_arrow(table), table.to_pandas()):
        assert fs.Votes.from_frame(frame).codes.tolist() == [[-1, 1], [-1, 0]]


@pytest.mark.parametrize("frame", FRAMES)
def test_booleans_with_and_without_nulls(frame):
    assert fs.Votes.from_frame(frame({"a": [True, False]})).classes == (False, True)
    nullable = frame({"a": [True, False, True], "b": [True, None, False]})
    assert fs.Votes.from_frame(nullable).codes.tolist() == [[1, 1], [0, -1], [1, 0]]


def test_categories_and_nullable_integers():
    frame = pd.DataFrame({"a": pd.Categorical(["x", None, "y"]), "b": ["y", "y", None]})
    assert fs.Votes.from_frame(frame).codes.tolist() == [[0, 1], [-1, 1], [1, -1]]
    frame = pd.DataFrame({"a": pd.array([1, None, 0], dtype="Int64")})
    assert fs.Votes.from_frame(frame).codes.tolist() == [[1], [-1], [0]]


def test_columns_named_by_numbers_and_null_integers():
    frame = pd.DataFrame(np.array([[0, 1, 1], [1, 1, 0]]))
    assert fs.Votes.from_frame(frame, columns=[2, 0]).names == ("2", "0")
    assert fs.Votes.from_frame(frame).codes.tolist() == [[0, 1, 1], [1, 1, 0]]
    big = [2**60, 2**60 + 1]
    for table in (pd.DataFrame({"a": pd.array([*big, None], "Int64")}), pl.DataFrame({"a": [*big, None]})):
        assert fs.Votes.from_frame(table, classes=big).codes.tolist() == [[0], [1], [-1]]
    mixed = pl.DataFrame(
        {"a": [2**63 + 1, None], "b": [-1, 2**60 + 1]}, schema={"a": pl.UInt64, "b": pl.Int64}
    )
    votes = fs.Votes.from_frame(mixed, classes=[2**63 + 1, 2**60 + 1])
    assert votes.codes.tolist() == [[0, -1], [-1, 1]]


def test_numeric_categories_are_read_next_to_numbers():
    frame = pd.DataFrame({"a": pd.Categorical([1, 0]), "b": [0, 1]})
    assert fs.Votes.from_frame(frame).codes.tolist() == [[1, 0], [0, 1]]


def test_nulls_of_pyarrow_dictionaries_are_no_votes():
    labels = pa.chunked_array([["x", "y", None]]).dictionary_encode()
    votes = fs.Votes.from_long([1, 2, 3], ["a", "a", "a"], labels)
    assert votes.to_dense().codes.tolist() == [[0], [1], [-1]]


def test_tables_that_are_no_tables_yet():
    with pytest.raises(VotesError, match=r"\.collect\(\)"):
        fs.Votes.from_frame(pl.DataFrame({"a": [1]}).lazy())
    twice = pd.DataFrame([[0, 1]], columns=["a", "a"])
    with pytest.raises(VotesError, match=r"must be unique|Reading.*failed"):
        fs.Votes.from_frame(twice)


def test_reasons_in_a_frame():
    frame = pl.DataFrame({"judge": ["yes", "no", "n/a"]})
    votes = fs.Votes.from_frame(frame, reasons={"n/a": "refused"})
    assert votes.missing_counts()["refused"].tolist() == [1]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"a": [1], "b": ["x"]}, {}, "'a'.*numbers.*'b' strings"),
        ({"a": [1]}, {"columns": ["z"]}, "`columns` must be among a; got 'z'"),
        ({"a": [1]}, {"columns": "a"}, "`columns` must be a list"),
        ({"a": [1]}, {"columns": 3}, "`columns` must be a list"),
        ({"a": []}, {}, "at least one item"),
        ({}, {}, "at least one column"),
        ({"a": [0.5]}, {}, "row 0, source 'a': .* fractional"),
    ],
)
def test_bad_tables_are_refused(table, options, message):
    with pytest.raises(VotesError, match=message):
        fs.Votes.from_frame(pd.DataFrame(table), **options)


def test_an_array_is_not_a_table():
    with pytest.raises(VotesError, match="from_classes"):
        fs.Votes.from_frame(np.zeros((2, 2)))


def test_a_model_takes_frames_and_matches_columns_by_name():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=rng)
    frame = pd.DataFrame(sample.votes.codes, columns=["a", "b", "c"])
    model = fs.LabelModel().fit(frame)
    assert model.source_names_ == ("a", "b", "c")
    np.testing.assert_array_equal(
        model.predict_proba(frame[["c", "a", "b"]]), model.predict_proba(sample.votes)
    )
    with pytest.raises(fs.exceptions.IncompatibleError, match="'d'"):
        model.predict_proba(frame.rename(columns={"c": "d"}))


def test_an_unnamed_index_next_to_identifiers_is_left_out():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {"Unnamed: 0": range(30), "id": range(100, 130), "a": [0, 1] * 15, "b": [0, 1, 1] * 10}
    )
    votes = fs.Votes.from_frame(table)
    assert votes.names == ("a", "b")
    assert votes.items.tolist() == list(range(100, 130))
    draws = np.random.default_rng(0).normal(size=(30, 4))
    scores = table.assign(**{name: draws[:, 3] + draws[:, j] / 2 for j, name in enumerate("abc")})
    assert fs.ScoreModel().fit(scores).source_names_ == ("a", "b", "c")


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("n_rows", [40, 10_040])
def test_identifiers_of_any_name_are_those_of_the_fit(frame, n_rows):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n_rows)
    columns = {name: np.where(rng.random(n_rows) < 0.8, y, 1 - y) for name in "abcd"}
    names = [f"doc-{i}" for i in range(n_rows)]
    table = frame({"doc": names, **columns})
    gold = {names[i]: int(y[i]) for i in rng.choice(n_rows, 20, replace=False)}
    model = fs.LabelModel().fit(table, gold=gold)
    assert model.n_gold_ == 20
    assert model.read_votes(table).items.tolist() == names
    assert model.score(table, gold) > 0.5
    assert model.score(table, dict(zip(names, y.tolist(), strict=True))) == model.score(table, y)
    again = frame({"doc": [*names[:-1], names[0]], **columns})
    assert model.read_votes(again).items is None  # not identifiers
    if frame is pd.DataFrame:
        indexed = table.set_axis([f"row {i}" for i in range(n_rows)])
        assert model.read_votes(indexed).items[0] == "row 0"


def test_a_table_of_calls_names_the_method_that_reads_it():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"id": [0, 0], "judge": ["x", "x"], "order": ["ab", "ba"], "label": [0, 1]})
    with pytest.raises(VotesError, match="from_panel"):
        fs.LabelModel().fit(table)


@pytest.mark.parametrize("name", ["label", "Labels", "class", "true_labels", "Gold Label", "GroundTruth"])
def test_columns_with_usual_names_of_gold_labels_are_not_votes(name):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": [0, 1, 1], "b": [0, 1, 0], name: [0, 1, 1]})
    with pytest.raises(VotesError, match="gold labels"):
        fs.LabelModel().fit(table)
    assert fs.Votes.from_frame(table, columns=["a", "b", name]).n_sources == 3


def test_labels_of_a_table_with_one_row_per_vote_are_refused_as_in_fit():
    table = pd.DataFrame({"task": [0, 0, 1, 1], "worker": ["a", "b"] * 2, "label": ["x", "y", "x", "x"]})
    model = fs.MajorityVote().fit(fs.Votes.from_long(table))
    with pytest.raises(VotesError, match="from_long"):
        model.predict(table)


def test_a_column_that_agrees_with_nobody_is_not_a_source():
    votes = {"a": ["ham", "spam", None, "ham"] * 10, "b": ["ham", "spam", "spam", None] * 10}
    frame = pd.DataFrame({**votes, "split": ["train", "train", "train", "test"] * 10})
    with pytest.raises(VotesError, match=r"column 'split' .* columns=\['a', 'b'\]"):
        fs.LabelModel().fit(frame)
    assert fs.Votes.from_frame(frame, ["a", "b", "split"]).n_classes == 4  # chosen by the user
    model = fs.MajorityVote().fit(frame[["a", "b"]])
    assert model.predict(frame).shape == (40,)  # left out, as other columns are
    # These may be votes: a default class, rules for classes of their own, and a few items.
    assert fs.Votes.from_frame(frame.assign(split=["x", "y", None, None] * 10)).n_sources == 3
    with pytest.warns(VotesWarning, match="votes 'other' on every item"):
        assert fs.Votes.from_frame(frame.assign(split="other")).n_sources == 3
    assert fs.Votes.from_frame(frame.assign(split="ham")).n_sources == 3
    assert fs.Votes.from_frame(frame[:8]).n_sources == 3


def test_the_advice_about_a_table_names_a_function_that_has_the_option():
    frame = pd.DataFrame({"a": ["ham", "", "spam"], "b": ["ham", "ham", ""], "c": ["ham", "spam", "spam"]})
    with pytest.raises(VotesError, match=r"Pass Votes.from_frame\(...\) .* such as abstain=''"):
        fs.LabelModel().fit(frame)
    assert fs.Votes.from_frame(frame, abstain="").n_votes == 7


def test_columns_in_long_form_must_have_their_entries_in_one_order():
    items, sources = pd.Series([1, 1, 2, 2]), pd.Series(list("abab"))
    labels = pd.Series(list("xyyx"))
    assert fs.Votes.from_long(items, sources, labels.set_axis([7, 8, 9, 10])).n_votes == 4  # by position
    with pytest.raises(VotesError, match="same order"):
        fs.Votes.from_long(items, sources, labels.sort_values())
