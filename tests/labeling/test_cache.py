"""Votes kept on disk: found again when nothing changed, computed when anything did."""

from __future__ import annotations

import abc
import collections
import dataclasses
import datetime
import enum
import functools
import os
import re
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, SourceWarning
from flyingsquid.labeling import LabelingFunction
from flyingsquid.labeling.cache import FingerprintError, fingerprint_data, fingerprint_function

DATA = ["a song", "http", "my channel", "b"]
CALLS: list[str] = []
LEVEL = 1


def links(x):
    note(x)
    return LEVEL if "http" in x else None


def short(x):
    return x == "b" if len(x) < 4 else None


def note(x):
    CALLS.append(x)


def run(folder, function=links, data=DATA, **options):
    CALLS.clear()  # a global of the functions, and so part of their marks
    votes, log = fs.apply([function], data, cache=folder, return_log=True, **options)
    return votes, log, len(CALLS)


def test_the_second_run_calls_nothing_and_gives_the_same(tmp_path):
    first, log, calls = run(tmp_path / "new" / "cache")
    assert (calls, log.cached, log.not_cached) == (4, (), {})
    second, log, calls = run(tmp_path / "new" / "cache")
    assert (calls, log.cached) == (0, ("links",))
    assert second.codes.tolist() == first.codes.tolist() == [[-1], [1], [-1], [-1]]
    assert (second.names, second.classes) == (first.names, first.classes)


def test_only_a_new_function_is_run(tmp_path):
    fs.apply([short], DATA, cache=tmp_path)
    votes, log = fs.apply([short, lambda x: True], DATA, cache=tmp_path, return_log=True)
    assert log.cached == ("short",)
    assert votes.codes.tolist() == [[-1, 1], [-1, 1], [-1, 1], [1, 1]]


@pytest.mark.parametrize("values", [["a", "b", None], [True, False, None], [3, 0, -1]])
def test_every_kind_of_class_comes_back(tmp_path, values):
    function = LabelingFunction(values.__getitem__, "f")
    made = [fs.apply([function], [0, 1, 2, 0], cache=tmp_path, return_log=True) for _ in range(2)]
    assert made[1][1].cached == ("f",)
    assert made[0][0].classes == made[1][0].classes
    assert made[0][0].codes.tolist() == made[1][0].codes.tolist()


def test_data_that_changed_is_labeled_again(tmp_path):
    run(tmp_path)
    assert run(tmp_path, data=[*DATA[:3], "c"])[2] == 4
    assert run(tmp_path, data=DATA[::-1])[2] == 4
    assert run(tmp_path, data=list(DATA))[2] == 0


def test_a_global_that_changed_is_seen(tmp_path, monkeypatch):
    assert run(tmp_path)[0].classes == (0, 1)
    monkeypatch.setattr(sys.modules[__name__], "LEVEL", 2)
    votes, log, calls = run(tmp_path)
    assert (calls, log.cached, votes.classes) == (4, (), (0, 1, 2))


def test_failed_votes_are_not_kept(tmp_path):
    def fails(x):
        return 1 / (len(x) - 1) > 0

    for _ in range(2):
        with pytest.warns(SourceWarning, match="1 failed"):
            _, log, _ = run(tmp_path, fails, on_error="abstain")
        assert log.not_cached == {"fails": "it failed on some items"}
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("damage", [b"", b"PK nonsense", None])
def test_a_damaged_file_is_computed_again_and_mended(tmp_path, damage):
    run(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:-7] if damage is None else damage)
    votes, log, calls = run(tmp_path)
    assert (calls, log.cached) == (4, ())
    assert votes.codes.ravel().tolist() == [-1, 1, -1, -1]
    assert file.read_bytes() == whole
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_file_of_something_else_under_the_name_is_replaced(tmp_path):
    from flyingsquid.files.state import State, write_state

    run(tmp_path)
    (file,) = tmp_path.iterdir()
    index = np.array([0, 5, -1, -1], np.int32)
    for kind, meta, arrays in (
        ("Moments", {}, {}),
        ("labeling.Column", {"values": [1]}, {"index": index}),
        ("labeling.Column", {"values": [1, "a"]}, {"index": np.zeros(4, np.int32)}),
        ("labeling.Column", {"values": [[1]]}, {"index": np.zeros(4, np.int32)}),
        ("labeling.Column", {"values": [1]}, {"index": np.zeros(3, np.int32)}),
        ("labeling.Column", {"values": [1]}, {"index": np.zeros(4, np.int8)}),
    ):
        write_state(file, State(kind, meta, arrays))
        assert run(tmp_path)[2] == 4


def test_what_has_no_mark_is_run_and_said(tmp_path):
    lock = __import__("_thread").allocate_lock()
    function = LabelingFunction(lambda x, lock: 1, "f", {"lock": lock})
    _, log, _ = run(tmp_path, function)
    assert "lock" in log.not_cached["f"]
    assert not list(tmp_path.iterdir())


def test_iterators_and_items_without_a_mark_are_refused(tmp_path):
    with pytest.raises(OptionError, match="`cache`"):
        run(tmp_path, data=iter(DATA))
    with pytest.raises(OptionError, match="`cache`"):
        run(tmp_path, lambda x: 1, data=[__import__("_thread").allocate_lock()])
    with pytest.raises(OptionError, match="`cache` must"):
        run(3)


# ---------------------------------------------------------------------- marks


def made(body, **names):
    """A function from its source, as another run would have it."""
    namespace = {"__name__": "rules_of_a_user", **names}
    code = compile(textwrap.dedent(body), "rules.py", "exec", dont_inherit=True)
    exec(code, namespace)  # our own source
    return LabelingFunction(namespace["f"], "f")


SOURCE = "def f(x):\n    return 1 if x > 2 else None"


@pytest.mark.parametrize(
    "other",
    [
        made("def f(x):\n    return 1 if x > 3 else None"),
        made("def f(x):\n    return 1 if x < 2 else None"),
        made("def f(x, y=1):\n    return 1 if x > 2 else None"),
        made("def f(x):\n    return 1 if x.a > 2 else None"),
        LabelingFunction(made(SOURCE).function, "f", {"a": 1}),
        LabelingFunction(made(SOURCE).function, "f", vectorized=True),
    ],
)
def test_marks_of_different_functions_differ(other):
    assert fingerprint_function(other) != fingerprint_function(made(SOURCE))


def test_where_a_function_stands_does_not_matter():
    moved = made("# a comment\n\n\n" + SOURCE + "  # another\n")
    assert fingerprint_function(moved) == fingerprint_function(made(SOURCE))


def closure(value):
    return LabelingFunction(lambda x: value, "f")


def helper_of(body):
    return made("def f(x):\n    return g(x)", g=made(body).function)


@pytest.mark.parametrize(
    ("make", "one", "other"),
    [
        (closure, 1, 2),
        (closure, 1, True),
        (closure, 1, 1.0),
        (closure, ["ab"], ["a", "b"]),
        (closure, {"a": 1}, {"a": 2}),
        (closure, {1: "a"}, {1: "b"}),
        (closure, {"a", "b"}, {"a", "c"}),
        (closure, re.compile("a"), re.compile("a", re.IGNORECASE)),
        (closure, np.zeros(3), np.zeros(3, np.float32)),
        (closure, np.zeros((2, 3)), np.zeros((3, 2))),
        (closure, datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
        (closure, SimpleNamespace(a=1), SimpleNamespace(a=2)),
        (closure, [1, 2].__getitem__, [1, 3].__getitem__),
        (closure, {1, 2}.__contains__, {1, 3}.__contains__),
        (closure, (1, 2).__contains__, (1, 3).__contains__),
        (closure, len, max),
        (helper_of, "def f(x):\n    return 1", "def f(x):\n    return 2"),
    ],
)
def test_what_a_function_closes_over_or_calls_is_seen(make, one, other):
    assert fingerprint_function(make(one)) != fingerprint_function(make(other))
    assert fingerprint_function(make(one)) == fingerprint_function(make(one))


def test_fitted_models_and_makers_have_marks():
    X, y = np.arange(8.0)[:, None], [0, 0, 0, 0, 1, 1, 1, 1]
    forests = [RandomForestClassifier(3, random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    a, again, other = (fingerprint_function(fs.labeling.classifier(f)) for f in forests)
    assert a == again
    assert a != other
    assert fingerprint_function(fs.labeling.keywords("a", 1)) != fingerprint_function(
        fs.labeling.keywords("b", 1)
    )


class Scale:
    """A user's own class."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x):
        return int(x * self.factor > 1)


def test_objects_are_marked_by_attributes_and_by_the_code_of_their_class(monkeypatch):
    first = fingerprint_function(LabelingFunction(Scale(1), "f"))
    assert first == fingerprint_function(LabelingFunction(Scale(1), "f"))
    assert first != fingerprint_function(LabelingFunction(Scale(2), "f"))
    monkeypatch.setattr(Scale, "__call__", lambda self, x: 0)
    assert first != fingerprint_function(LabelingFunction(Scale(1), "f"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("class C(enum.Enum):\n    A = 1\n    B = 2", "class C(enum.Enum):\n    A = 1\n    B = 3"),
        ("class C(enum.Enum):\n    A = 1\n    B = 2", "class C(enum.Enum):\n    B = 2\n    A = 1"),
        ("class C(enum.IntEnum):\n    A = 1", "class C(enum.IntEnum):\n    A = 2"),
        ("class C(str, enum.Enum):\n    A = 'a'", "class C(str, enum.Enum):\n    A = 'b'"),
        ("class C:\n    A = 1", "class C:\n    A = 2"),
        ("class C:\n    A = [1]", "class C:\n    A = [2]"),
        (
            "class C:\n    @staticmethod\n    def A(): return 1",
            "class C:\n    @staticmethod\n    def A(): return 2",
        ),
        ("class C:\n    @staticmethod\n    def A(x=1): 1", "class C:\n    @classmethod\n    def A(x=1): 1"),
        (
            "class C:\n    @classmethod\n    def A(cls): return 1",
            "class C:\n    @classmethod\n    def A(cls): return 2",
        ),
        (
            "class C:\n    @property\n    def A(self): return 1",
            "class C:\n    @property\n    def A(self): return 2",
        ),
        (
            "class C:\n    @functools.cached_property\n    def A(self): return 1",
            "class C:\n    @functools.cached_property\n    def A(self): return 2",
        ),
        ("class B:\n    A = 1\nclass C(B): pass", "class B:\n    A = 2\nclass C(B): pass"),
        ("class B: pass\nclass C(B): pass", "class B: pass\nclass C: pass"),
        (
            "class M(type):\n    A = 1\nclass C(metaclass=M): pass",
            "class M(type):\n    A = 2\nclass C(metaclass=M): pass",
        ),
        ("class C(abc.ABC):\n    A = 1", "class C(abc.ABC):\n    A = 2"),
        ("class C:\n    class A:\n        B = 1", "class C:\n    class A:\n        B = 2"),
        ("C = collections.namedtuple('C', 'A B')", "C = collections.namedtuple('C', 'B A')"),
        (
            "@dataclasses.dataclass\nclass C:\n    A: list[int] | None = 1",
            "@dataclasses.dataclass\nclass C:\n    A: list[int] | None = 2",
        ),
        ("def C(): 1\nC.A = 1", "def C(): 1\nC.A = 2"),
    ],
)
def test_classes_are_marked_by_all_that_they_hold(one, other):
    def mark(source):
        modules = {m.__name__: m for m in (abc, collections, dataclasses, enum, functools)}
        return fingerprint_function(made(source + "\ndef f(x):\n    return C.A", **modules))

    assert mark(one) == mark(one)
    assert mark(one) != mark(other)


def test_values_of_classes_of_the_user_are_marked_by_content_and_by_class():
    class Word(str):
        pass

    class Words(list):
        pass

    Pair = collections.namedtuple("Pair", "a b")
    Swapped = collections.namedtuple("Pair", "b a")
    marks = [
        fingerprint_function(closure(value))
        for value in (
            "a", Word("a"), Word("b"), ["a"], Words("a"), Words("b"), (1, 2), Pair(1, 2), Swapped(1, 2),
            {"a": 1}, collections.defaultdict(int, a=1), collections.defaultdict(list, a=1),
        )
    ]  # fmt: skip
    assert len(set(marks)) == len(marks)


def test_the_order_of_a_dict_is_seen():
    """The first that fits wins in many a function."""
    for one, other in (({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 1, 2: 2}, {2: 2, 1: 1})):
        assert fingerprint_function(closure(one)) != fingerprint_function(closure(other))
        assert fingerprint_data([one]) != fingerprint_data([other])


def test_functions_that_all_call_each_other_are_marked_quickly():
    names = [f"g{i}" for i in range(40)]
    body = "".join(f"def {name}(x):\n    return {' + '.join(f'{n}(x)' for n in names)}\n" for name in names)
    assert fingerprint_function(made(body + "def f(x):\n    return g0(x)"))


def test_installed_code_goes_by_name():
    """A helper of an installed package leads to all of it, and to what has no mark."""
    assert fingerprint_function(closure(textwrap.dedent)) != fingerprint_function(closure(textwrap.indent))
    assert fingerprint_function(closure(subprocess.run))
    assert fingerprint_function(closure(np.mean))
    assert fingerprint_function(closure(RandomForestClassifier))


def test_a_recursive_function_has_a_mark():
    assert fingerprint_function(made("def f(x):\n    return f(x - 1) if x else 1"))


@pytest.mark.system
def test_marks_do_not_depend_on_the_run():
    code = (
        "import flyingsquid as fs\n"
        "from flyingsquid.labeling.cache import *\n"
        "import enum, logging\n"
        "class B:\n    held = {'p', 'q', int, str}\n"
        "class C(B, enum.Enum):\n    A = 1\n    B = 2\n"
        "    def g(self): return self.h + self.i\n"
        "    def say(self): return logging.getLogger()\n"
        "    log = property(lambda self, log=logging.getLogger('rules'): log)\n"
        "def f(x, w): return C.A in {'a', 'b', 'c'}\n"
        "lf = fs.labeling.LabelingFunction(f, 'f', {'w': {'x', 'y', 'z'}})\n"
        "print(fingerprint_function(lf), fingerprint_data([{'a': {'q', 'r', 's'}}]))"
    )
    marks = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(marks) == 1


@pytest.mark.extra
def test_marks_of_tables():
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    columns = {"text": ["a", "b", None] * 4, "n": [1, 2, 3] * 4}
    for make in (pd.DataFrame, pl.DataFrame, pa.table):
        mark = fingerprint_data(make(columns))
        if make is pd.DataFrame:
            assert mark != fingerprint_data(make(columns, index=range(1, 13)))
        assert mark == fingerprint_data(make(columns))
        for other in (
            {**columns, "n": [1, 2, 4] * 4},
            {**columns, "n": [1.0, 2.0, 3.0] * 4},
            {**columns, "text": ["a", None, "b"] * 4},
            {**columns, "text": ["ab", "", None] * 4},
            {"texts": columns["text"], "n": columns["n"]},
            {"n": columns["n"], "text": columns["text"]},
        ):
            assert mark != fingerprint_data(make(other))


def test_integers_of_any_length_have_a_mark(tmp_path):
    """Python refuses to write integers of more than 4,300 digits as text."""
    huge = 10**5_000
    assert fingerprint_data([huge]) == fingerprint_data([huge]) != fingerprint_data([huge + 1])
    assert fs.apply([lambda x: 1], [huge, huge + 1], cache=tmp_path).codes.tolist() == [[1], [1]]


def test_what_tells_nothing_has_no_mark():
    with pytest.raises(FingerprintError):
        fingerprint_data([__import__("_thread").allocate_lock()])
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(FingerprintError, match="nested"):
        fingerprint_data(deep)
    while deep:
        deep = deep[0]  # taken apart here, for nobody else does it without recursion
