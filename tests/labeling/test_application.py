"""fs.apply over every kind of data, its errors, its processes, and streams."""

from __future__ import annotations

import collections
import itertools
import os
import subprocess
import sys
import textwrap
import traceback
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import LabelingError, OptionError, SourceWarning, VotesError
from flyingsquid.labeling import LabelingFunction, apply_chunks

TEXTS = ["win http://a.example", "great song", "subscribe to me please", "hi", "http song"]
STARS = [1, 5, 2, 4, 3]
EXPECTED = [[1, -1, 0], [-1, 0, 1], [-1, -1, 0], [-1, 0, 1], [1, -1, -1]]


@fs.labeling_function
def links(x):
    return 1 if "http" in x.text else fs.ABSTAIN


@fs.labeling_function
def short(x):
    return 0 if len(x["text"]) < 12 and "http" not in x.text else None


@fs.labeling_function(resources={"middle": 3})
def liked(x, middle):
    return None if x.stars == middle else int(x.stars > middle)


LFS = [links, short, liked]


def columns():
    return {"text": TEXTS, "stars": STARS}


def records():
    return [{"text": t, "stars": s} for t, s in zip(TEXTS, STARS, strict=True)]


def pandas_frame():
    # An index that does not count from 0: rows are taken by position.
    return pytest.importorskip("pandas").DataFrame(columns(), index=[9, 7, 7, 3, 1])


DATA = {
    "dicts": records,
    "pandas": pandas_frame,
    "polars": lambda: pytest.importorskip("polars").DataFrame(columns()),
    "pyarrow": lambda: pytest.importorskip("pyarrow").table(columns()),
    "generator": lambda: iter(records()),
    "tuple": lambda: tuple(records()),
    "array": lambda: np.array(records(), object),
}
FRAMES = ["pandas", "polars", "pyarrow"]


def marked(kind):
    return pytest.param(kind, marks=pytest.mark.extra) if kind in FRAMES else kind


@pytest.mark.parametrize("chunk", [None, 1, 2, 100])
@pytest.mark.parametrize("kind", [marked(kind) for kind in DATA])
def test_every_kind_of_data_gives_the_same_votes(kind, chunk):
    votes = fs.apply(LFS, DATA[kind](), chunk=chunk)
    assert votes.codes.tolist() == EXPECTED
    assert (votes.names, votes.classes) == (("links", "short", "liked"), (0, 1))


def test_objects_are_passed_as_they_are():
    items = [SimpleNamespace(text=t) for t in TEXTS]
    seen = []
    fs.apply([links, LabelingFunction(seen.append, "see")], items)
    assert all(a is b for a, b in zip(seen, items, strict=True))


@pytest.mark.parametrize("kind", [marked(kind) for kind in FRAMES])
def test_rows_of_tables_hold_python_values_by_attribute_and_item(kind):
    seen = []

    def look(x):
        seen.append((x.text, x["stars"], type(x.stars), list(x), x.get("absent"), "text" in x, dict(x)))

    fs.apply([look], DATA[kind]())
    row = {"text": TEXTS[1], "stars": 5}
    assert seen[1] == (TEXTS[1], 5, int, ["text", "stars"], None, True, row)


@pytest.mark.parametrize("kind", [marked(kind) for kind in FRAMES])
def test_rows_of_tables_outlive_the_call_and_cannot_be_written_to(kind):
    kept = []
    fs.apply([kept.append], DATA[kind](), chunk=2)
    assert [x.text for x in kept] == TEXTS
    with pytest.raises(AttributeError):
        kept[0].text = "other"
    with pytest.raises(TypeError):
        kept[0]["text"] = "other"
    with pytest.raises(AttributeError, match=r"'txt'.*text, stars"):
        _ = kept[0].txt
    with pytest.raises(KeyError, match="no column 'txt'"):
        _ = kept[0]["txt"]


@pytest.mark.extra
def test_awkward_column_names():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(
        {"get": [1], "_at": [2], "class": [3], "two words": [4], "__class__": [5], "_id": [6]}
    )
    kept = []
    fs.apply([kept.append], frame)
    (x,) = kept
    assert [x[name] for name in frame.columns] == [1, 2, 3, 4, 5, 6]
    assert (x._id, getattr(x, "class"), x.get("get")) == (6, 3, 1)


class Columnar:
    """Like some data sets: an item is a dict, and a slice is a dict of columns."""

    def __len__(self):
        return 3

    def __getitem__(self, at):
        if at >= 3:
            raise IndexError
        return {"text": str(at)}


@pytest.mark.parametrize("data", [Columnar(), collections.deque({"text": t} for t in "012")])
def test_containers_of_other_kinds_are_read_item_by_item(data):
    at_once = LabelingFunction(lambda rows: [int(r["text"]) for r in rows], "v", vectorized=True)
    lfs = [lambda x: int(x.text), at_once]
    assert fs.apply(lfs, data).codes.tolist() == [[0, 0], [1, 1], [2, 2]]
    assert fs.apply(lfs[:1], data, chunk=2).shape == (3, 1)


@pytest.mark.extra
def test_columns_as_data():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    values = ["a", "b", "a"]
    lfs = [lambda x: x, fs.labeling.keywords("a", "a")]
    for data in (
        pd.Series(values, index=[5, 5, 1]),
        pl.Series(values),
        pa.array(values),
        pa.chunked_array([values]),
    ):
        assert fs.apply(lfs, data, chunk=2).codes.tolist() == [[0, 0], [1, -1], [0, 0]]


@pytest.mark.extra
def test_a_frame_on_a_cluster_does_not_come_in_chunks():
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    with pytest.raises(LabelingError, match="cluster"):
        list(fs.labeling.apply_chunks(LFS, dd.from_pandas(pd.DataFrame(columns()), npartitions=1)))


@pytest.mark.extra
def test_pandas_columns_named_by_numbers():
    pd = pytest.importorskip("pandas")
    assert fs.apply([lambda x: x[0]], pd.DataFrame([[1, 5], [0, 5]])).codes.ravel().tolist() == [1, 0]


# ---------------------------------------------------------------------- vectorized functions


def vectorized(function, name="v"):
    return LabelingFunction(function, name, vectorized=True)


@pytest.mark.extra
def test_vectorized_functions_get_the_whole_table_and_stand_in_their_place():
    pd, frame = pytest.importorskip("pandas"), pandas_frame()
    sizes = []

    @fs.labeling_function(vectorized=True)
    def above_mean(df):
        sizes.append(len(df))
        return (df.stars > df.stars.mean()).astype("Int64").where(df.stars != 3, pd.NA)

    votes = fs.apply([links, above_mean, short], frame, chunk=2)
    assert sizes == [5]
    assert votes.codes.tolist() == [[a, c, b] for a, b, c in EXPECTED]


def test_a_vectorized_function_on_a_generator_gets_a_list():
    assert fs.apply([vectorized(list)], iter([0, 1, 1])).codes.ravel().tolist() == [0, 1, 1]


# ---------------------------------------------------------------------- errors


def picky(x):
    return x % 2 if x not in (3, 5) else [][x]


def test_an_error_names_function_and_row_and_chains_the_cause():
    with pytest.raises(LabelingError, match="item 3, function 'picky': IndexError") as caught:
        fs.apply([picky], range(10), chunk=2)
    assert isinstance(caught.value.__cause__, IndexError)
    assert "return x % 2" in "".join(traceback.format_exception(caught.value.__cause__))


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_failed_calls_are_missing_votes_with_a_reason(chunk):
    with pytest.warns(SourceWarning, match="'picky': 2 failed.*item 3: IndexError") as warned:
        votes, log = fs.apply(
            [picky, lambda x: 1], range(8), on_error="abstain", chunk=chunk, return_log=True
        )
    assert len(warned) == 1
    assert Path(warned[0].filename).name == "test_application.py"
    assert votes.codes[:, 0].tolist() == [0, 1, 0, -4, 0, -4, 0, 1]
    assert votes.missing_counts()["failed"].tolist() == [2, 0]
    assert votes.missing_counts()["abstained"].tolist() == [0, 0]
    failure = log.failures["picky"]
    assert (failure.count, failure.item, log.n_items) == (2, 3, 8)
    assert "IndexError" in failure.traceback
    assert "in picky" in failure.traceback
    assert "flyingsquid" not in failure.traceback
    assert list(log.failures) == ["picky"]


def test_what_is_no_vote_fails_like_an_error():
    def odd(x):
        return 0.5 if x == 1 else [][x] if x == 4 else 1

    with pytest.warns(SourceWarning, match="2 failed.*item 1: .*0.5"):
        votes = fs.apply([odd], range(5), on_error="abstain")
    assert votes.codes.ravel().tolist() == [1, -4, 1, 1, -4]


def test_a_vectorized_function_that_raises_fails_on_all_rows():
    failing = vectorized(lambda data: 1 / 0)
    with pytest.raises(LabelingError, match=r"items 0 to 2.*'v': ZeroDivisionError"):
        fs.apply([failing], [1, 2, 3])
    with pytest.warns(SourceWarning, match="3 failed"):
        votes = fs.apply([failing, vectorized(np.sign, "w")], [1, 2, 3], on_error="abstain")
    assert votes.codes.tolist() == [[-4, 1]] * 3
    with pytest.warns(SourceWarning, match="1 failed.*item 1: .*0.5"):
        votes = fs.apply([vectorized(lambda data: [0, 0.5, 1])], [1, 2, 3], on_error="abstain")
    assert votes.codes.ravel().tolist() == [0, -4, 1]


def test_nothing_is_warned_of_where_nothing_failed():
    votes, log = fs.apply([lambda x: x], [0, 1], on_error="abstain", return_log=True)
    assert (log.failures, votes.shape) == ({}, (2, 1))


def test_a_stop_iteration_does_not_shift_votes():
    def first_even(x):
        return next(i for i in x if i % 2 == 0) // 2

    items = [[0], [1], [2], [3], [0]]
    with pytest.raises(LabelingError, match=r"item 1.*'first_even': .*StopIteration"):
        fs.apply([first_even], items)
    with pytest.warns(SourceWarning, match="2 failed, first on item 1"):
        votes = fs.apply([first_even], items, on_error="abstain")
    assert votes.codes.ravel().tolist() == [0, -4, 1, -4, 0]


def test_a_maker_that_fails_in_a_later_chunk_says_where_rows_are_counted_from():
    stream = apply_chunks([fs.labeling.keywords("a", 1)], ["a", "b", "c", 3], chunk=2)
    next(stream)
    with pytest.raises(LabelingError, match=r"'keywords_a': item 1.*from item 2"):
        next(stream)


def test_an_interrupt_is_no_failure():
    def stop(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fs.apply([stop], [1], on_error="abstain")


def test_votes_outside_the_classes_stop_before_the_end():
    seen = []

    def typo(x):
        seen.append(x)
        return "spma"

    with pytest.raises(VotesError, match=r"item 0.*'typo'.*'spma'.*classes"):
        fs.apply([typo], range(100), classes=["ham", "spam"], chunk=10)
    assert len(seen) == 10
    late = LabelingFunction(lambda x: 2 if x == 25 else 1, "late")
    with pytest.raises(VotesError, match=r"item 25.*'late'.*got 2.*classes"):
        fs.apply([late], range(100), classes=[0, 1], chunk=10)


@pytest.mark.parametrize("data", [[], iter([]), "one text", {"text": ["a"]}, 3, np.array(3), np.float64(3)])
def test_data_without_items_is_refused(data):
    with pytest.raises(LabelingError, match="`data` must"):
        fs.apply([lambda x: 1], data)


@pytest.mark.extra
def test_tables_that_cannot_be_read_are_refused():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    with pytest.raises(LabelingError, match="collect"):
        fs.apply(LFS, pl.DataFrame(columns()).lazy())
    with pytest.raises(LabelingError, match="`data`"):
        fs.apply(LFS, pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(LabelingError, match="`data` must"):
        fs.apply([lambda x: 1], pl.DataFrame({"text": []}))


@pytest.mark.parametrize(
    "options",
    [{"on_error": "ignore"}, {"n_jobs": 0}, {"n_jobs": 1.5}, {"n_jobs": True}, {"chunk": 0}, {"chunk": "10"}],
)
def test_unknown_options_are_refused(options):
    with pytest.raises(OptionError, match=f"`{next(iter(options))}` must"):
        fs.apply([lambda x: 1], [1], **options)


@pytest.mark.parametrize("classes", ["ab", 3, ["a"], ["a", "a"], [[1], [2]], [-1, 1]])
def test_wrong_classes_are_refused_before_anything_is_run(classes):
    with pytest.raises(OptionError, match="`classes`"):
        fs.apply([lambda x: pytest.fail("was run")], [1], classes=classes)


def test_classes_may_be_any_iterable():
    assert fs.apply([lambda x: x], ["b", "c"], classes=iter("abc"), chunk=1).codes.ravel().tolist() == [1, 2]
    assert fs.apply([lambda x: x], [0, 2], classes=np.arange(3), chunk=1).n_classes == 3


def test_progress_is_shown_on_standard_error_only_when_asked(capsys):
    fs.apply([lambda x: 1], range(10))
    assert capsys.readouterr() == ("", "")
    fs.apply([lambda x: 1, vectorized(lambda x: [1] * len(x))], range(10), progress=True)
    fs.apply([vectorized(lambda x: [1] * len(x))], range(10), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2 labeling functions" in shown.err
    assert "10/10" in shown.err


# ---------------------------------------------------------------------- streams


def test_an_unbounded_stream_is_read_chunk_by_chunk():
    read = []

    def stream():
        for x in itertools.count():
            read.append(x)
            yield x

    chunks = apply_chunks([lambda x: x % 2], stream(), chunk=4)
    assert next(chunks).codes.ravel().tolist() == [0, 1, 0, 1]
    assert len(read) == 4
    assert next(chunks).shape == (4, 1)


def test_the_last_chunk_may_be_shorter_and_tables_are_cut():
    assert [v.n_items for v in apply_chunks(LFS, records(), chunk=2)] == [2, 2, 1]
    joined = np.concatenate([v.codes for v in apply_chunks(LFS, records(), chunk=2)])
    assert joined.tolist() == EXPECTED


def test_a_class_that_appears_in_mid_stream_is_an_error_unless_declared():
    def value(x):
        return x

    chunks = apply_chunks([value], [0, 1, 2, 1], chunk=2)
    assert next(chunks).classes == (0, 1)
    with pytest.raises(VotesError, match=r"item 2.*'value'.*got 2.*classes"):
        next(chunks)
    assert [v.n_classes for v in apply_chunks([value], [0, 1, 2, 1], chunk=2, classes=[0, 1, 2])] == [3, 3]


def test_a_stream_warns_of_a_function_once():
    with pytest.warns(SourceWarning) as warned:
        votes = list(apply_chunks([picky], range(8), chunk=2, on_error="abstain"))
    assert len(warned) == 1
    assert sum(int(v.missing_counts()["failed"][0]) for v in votes) == 2


def test_options_of_a_stream_are_checked_before_it_begins():
    with pytest.raises(OptionError, match="chunk"):
        apply_chunks([picky], [1], chunk=0)


# ---------------------------------------------------------------------- processes

SCRIPT = """
import os, sys, warnings
import flyingsquid as fs

@fs.labeling_function(resources={"word": "http"})
def links(x, word):
    return 1 if word in x["text"] else None

@fs.labeling_function
def who(x):
    return os.getpid() != int(os.environ["PARENT"])

@fs.labeling_function
def fails(x):
    return 1 / x["n"] and True

data = [{"text": "http" * (i % 2), "n": i % 10} for i in range(40)]

if __name__ == "__main__":
    os.environ["PARENT"] = str(os.getpid())
    warnings.simplefilter("ignore")
    one = fs.apply([links], data)
    two = fs.apply([links], data, n_jobs=2, chunk=3)
    assert (one.codes == two.codes).all()
    assert (fs.apply([who], data, n_jobs=2).codes == 1).all()
    votes, log = fs.apply([fails], data, n_jobs=2, on_error="abstain", return_log=True)
    assert log.failures["fails"].count == 4 and log.failures["fails"].item == 0, log
    assert "in fails" in log.failures["fails"].traceback
    try:
        fs.apply([fails], data[1:], n_jobs=2)
    except fs.exceptions.LabelingError as error:
        assert "item 9, function 'fails': ZeroDivisionError" in str(error), error
        assert error.__cause__ is not None
    print("done")
"""


def run_script(source, path, *arguments):
    path.write_text(textwrap.dedent(source))
    return subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", *arguments],
        cwd=path.parent, capture_output=True, text=True, timeout=120, check=False, env={**os.environ},
    )  # fmt: skip


@pytest.mark.system
def test_processes_give_the_same_votes_in_order(tmp_path):
    done = run_script(SCRIPT, tmp_path / "script.py", "script.py")
    assert (done.stdout, done.stderr) == ("done\n", "")


NOTEBOOK = """
import sys
if {hidden}:
    sys.modules["cloudpickle"] = None
import flyingsquid as fs

@fs.labeling_function
def links(x):
    return int("http" in x)

try:
    print(fs.apply([links], ["http", "a"], n_jobs=2, chunk=1).codes.ravel().tolist())
except fs.FlyingSquidError as error:
    print(error)
"""


@pytest.mark.system
def test_functions_of_a_notebook_that_cannot_be_sent_say_what_to_do(tmp_path):
    """A program that is an argument has no file that another process could import, like a notebook."""
    done = run_script("", tmp_path / "none.py", "-c", NOTEBOOK.format(hidden=True))
    assert "function 'links' cannot be sent to another process" in done.stdout, done.stderr
    assert "cloudpickle" in done.stdout
    assert "n_jobs=1" in done.stdout


@pytest.mark.system
@pytest.mark.extra
def test_functions_of_a_notebook_are_sent_by_cloudpickle(tmp_path):
    pytest.importorskip("cloudpickle")
    done = run_script("", tmp_path / "none.py", "-c", NOTEBOOK.format(hidden=False))
    assert done.stdout == "[1, 0]\n", done.stderr


INTERRUPTED = """
import multiprocessing, os, signal, threading, time
import flyingsquid as fs

@fs.labeling_function
def slow(x):
    time.sleep(60)

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    threading.Timer(4, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    start = time.monotonic()
    try:
        fs.apply([slow], range(10), n_jobs=2, chunk=1)
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - start < 30, multiprocessing.active_children())
"""


@pytest.mark.system
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_an_interrupt_ends_the_processes_at_once(tmp_path):
    done = run_script(INTERRUPTED, tmp_path / "script.py", "script.py")
    assert done.stdout == "interrupted True []\n", done.stderr


def test_the_index_of_a_pandas_table_identifies_the_items():
    pd = pytest.importorskip("pandas")
    data = pd.DataFrame({"text": ["a http", "b", "c http", "d"], "gold": [1, 0, 1, 0]}, index=list("wxyz"))
    votes = fs.apply([lambda x: int("http" in x.text)], data)
    assert votes.items.tolist() == list("wxyz")
    model = fs.MajorityVote().fit(votes)
    assert model.score(votes, data.gold.iloc[::-1]) == 1
    assert model.predict(votes, output="pandas").to_dict() == data.gold.to_dict()
    assert fs.apply([len], data.text.tolist(), classes=range(9)).items is None


def test_a_chunk_may_be_larger_than_any_sequence():
    always = LabelingFunction(lambda item: 1, "always")
    votes = fs.apply([always], iter(range(3)), chunk=10**30)
    assert votes.codes.ravel().tolist() == [1, 1, 1]
