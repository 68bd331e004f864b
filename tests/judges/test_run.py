"""Asking judges: kinds of answers, timeouts, errors, options and results."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.judges import Judge, answers, ask_judges
from flyingsquid.judges.answers import ABSTAINED, FAILED, REFUSED, UNPARSEABLE
from tests.support.judge_tools import WORDS, judge, outcomes


def test_plain_and_async_judges_and_every_kind_of_answer():
    said = ["good", None, "I cannot answer that", "hm", "boom", np.str_("bad")]

    def plain(i):
        if said[i] == "boom":
            raise RuntimeError("boom")
        return said[i]

    async def later(i):
        await asyncio.sleep(0.001)
        return plain(i)

    judges = [judge(plain, "plain"), judge(later, "async"), judge(lambda i: later(i + 0), "hidden async")]
    run = ask_judges(judges, range(6), ids=list("abcdef"))
    wanted = ["good", ABSTAINED, REFUSED, UNPARSEABLE, FAILED, "bad"]
    assert outcomes(run) == [w for w in wanted for _ in judges]
    assert run.votes.items.tolist() == list("abcdef")
    assert run.counts["retries"].tolist() == [2, 2, 2]
    assert run.first_errors == ("RuntimeError: boom",) * 3
    assert run.first_unparseable == ("hm",) * 3
    assert run.answers[5].tolist() == ["bad"] * 3
    assert "hidden async, first error: RuntimeError: boom" in str(run)
    assert "<table>" in run._repr_html_()


def test_a_call_that_never_returns_is_left_behind():
    stuck = threading.Event()
    started = time.monotonic()
    run = ask_judges(judge(lambda _: stuck.wait(60), timeout=0.05, retries=1), ["x"])
    assert outcomes(run) == [FAILED]
    assert time.monotonic() - started < 20
    assert run.counts["timeouts"].tolist() == [2]
    assert run.first_errors == ("TimeoutError: no answer within 0.05 s",)
    stuck.set()


def test_a_coroutine_that_never_returns_is_cancelled():
    ended = []

    async def ask(_):
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(1)

    run = ask_judges(judge(ask, timeout=0.05, retries=1), ["x"])
    assert outcomes(run) == [FAILED]
    assert ended == [1, 1]


def test_asking_from_within_an_event_loop():
    async def ask(_):
        await asyncio.sleep(0)
        return "good"

    async def notebook():
        return ask_judges(judge(ask), range(3))

    assert outcomes(asyncio.run(notebook())) == ["good"] * 3


@pytest.mark.system
def test_a_program_ends_though_a_call_does_not():
    code = """
import time, flyingsquid as fs
judge = fs.judges.Judge("a", lambda x: time.sleep(600), classes=(0, 1), timeout=0.1, retries=0)
print(fs.judges.ask_judges(judge, [1]).counts["failed"])
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    assert answer.stdout.strip() == "[1]"


def test_a_late_answer_is_thrown_away(tmp_path):
    release, calls = threading.Event(), Counter()

    def ask(item):
        calls[item] += 1
        if calls[item] == 1:
            release.wait(30)
            return "bad"
        release.set()  # the first call returns now, or a little later
        time.sleep(0.05)
        return "good"

    path = tmp_path / "a.jsonl"
    run = ask_judges(judge(ask, timeout=0.3, backoff=0), ["x"], cache=path)
    assert outcomes(run) == ["good"]
    assert [json.loads(line).get("answer") for line in path.read_text().splitlines()[1:]] == ["good"]


def test_limits_hold_in_all_and_for_each_judge():
    now, most, lock = Counter(), Counter(), threading.Lock()

    def counted(name):
        def ask(_):
            with lock:
                now.update([name, "all"])
                for key in (name, "all"):
                    most[key] = max(most[key], now[key])
            time.sleep(0.002)
            with lock:
                now.subtract([name, "all"])
            return "good"

        return ask

    ask_judges(
        [judge(counted("one"), "one", concurrency=1), judge(counted("two"), "two")], range(40), concurrency=4
    )
    assert most["one"] == 1
    assert 2 <= most["all"] <= 4


def test_errors_of_the_program_are_not_retried():
    asked = []

    def ask(item):
        asked.append(item)
        return item.no_such_thing

    assert outcomes(ask_judges(judge(ask, retries=5), ["x"])) == [FAILED]
    assert asked == ["x"]
    run = ask_judges(judge(lambda _: object(), retries=5), ["x"])
    assert "a judge must return a string" in run.first_errors[0]
    asked.clear()
    ask_judges(judge(ask, retries=2, retry_if=lambda error: True), ["x"])
    assert len(asked) == 3


def test_raising_instead_of_abstaining(tmp_path):
    def ask(item):
        if item == 3:
            raise OSError("broken")
        return "good"

    path = tmp_path / "a.jsonl"
    with pytest.raises(OSError, match="broken") as caught:
        ask_judges(judge(ask, retries=1), range(6), on_error="raise", concurrency=1, cache=path)
    assert "judge 'a', item 3, attempt 2" in caught.value.__notes__[0]
    asked = []
    run = ask_judges(judge(lambda i: asked.append(i) or "good"), range(6), cache=path)
    assert {3} <= set(asked) <= {3, 4, 5}
    assert outcomes(run) == ["good"] * 6


def test_a_parser_that_raises_costs_no_answer(tmp_path):
    path = tmp_path / "a.jsonl"
    run = ask_judges(judge(lambda _: "good", parse=lambda text: 1 / 0), range(3), cache=path)
    assert outcomes(run) == [UNPARSEABLE] * 3
    assert run.first_unparseable == ("good (ZeroDivisionError in its parser)",)
    with pytest.raises(ZeroDivisionError):
        ask_judges(judge(lambda _: "good", parse=lambda text: 1 / 0), range(3), cache=path, on_error="raise")
    run = ask_judges(judge(pytest.fail), range(3), cache=path)
    assert outcomes(run) == ["good"] * 3


def test_a_judge_that_ends_the_program_ends_the_run():
    with pytest.raises(SystemExit):
        ask_judges(judge(lambda _: sys.exit(3)), [1, 2])


@pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_parser_that_ends_the_program_ends_the_run(ending, is_async):
    """It hung, even with a timeout."""

    def parse(_answer):
        raise ending

    async def later(_item):
        return "good"

    ask = later if is_async else lambda _item: "good"
    panel = [Judge("a", ask, parse=parse, classes=("bad", "good"), timeout=5)]
    with pytest.raises(ending):
        ask_judges(panel, range(3))


def test_integers_that_python_does_not_write(tmp_path):
    huge = 10**4_400
    with pytest.raises(OptionError, match=r"items\[0\]"):
        ask_judges([judge(lambda _item: "good")], [huge], cache=tmp_path / "answers.jsonl")
    run = ask_judges([judge(lambda _item: huge, retries=0)], [1], cache=tmp_path / "other.jsonl")
    assert outcomes(run) == [FAILED]
    assert answers.number(10**400) == float("inf")
    assert answers.score(0.5, classes=["low", "high"])(10**400) == "high"


def test_progress_is_drawn_only_when_asked(capsys):
    ask_judges(judge(lambda _: "good"), range(3))
    assert capsys.readouterr() == ("", "")
    ask_judges(judge(lambda _: "good"), range(3), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "3/3" in err


def test_tables_give_rows(tmp_path):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"text": ["a", "b"], "n": [1, 2]})
    run = ask_judges(judge(lambda row: "good" if row["n"] == 2 else "bad"), frame, cache=tmp_path / "a.jsonl")
    assert outcomes(run) == ["bad", "good"]


def test_numbers_of_judges():
    parse = answers.score(3, classes=WORDS)
    judges = [judge(float, "number", parse=parse), judge(lambda x: f"Of 5: {x}/5", "text", parse=parse)]
    run = ask_judges(judges, [1, 4])
    np.testing.assert_array_equal(run.scores(pick="last"), [[1, 1], [4, 4]])
    assert fs.Votes.from_scores(run.scores(pick="last"), 3, classes=WORDS).codes.tolist() == [[0, 0], [1, 1]]
    assert ask_judges(judges[0], [float("inf"), float("nan")]).votes.codes.tolist() == [[1], [-1]]


# ---------------------------------------------------------------------- classes and options


def test_classes_come_from_somewhere():
    with pytest.raises(OptionError, match="`classes` must"):
        ask_judges(Judge("a", str), [1])
    some = Judge("a", lambda _: "yes", parse=answers.yes_no("spam", None))
    with pytest.raises(OptionError, match="`classes` must"):
        ask_judges(some, [1])
    run = ask_judges([some, Judge("b", lambda _: "ham")], [1], classes=("ham", "spam"))
    assert run.votes.codes.tolist() == [[1, 0]]
    with pytest.raises(OptionError, match=r"judge 'b' .*'good'.*got 'x', 'y'"):
        ask_judges([judge(str), Judge("b", str, classes=("x", "y"))], [1])
    with pytest.raises(OptionError, match="`classes` must not contain -1"):
        ask_judges(judge(str, classes=(-1, 1)), [1])


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0}, {"on_error": "skip"}, {"ask_again": ("answered",)},
        {"ids": [1, 1]}, {"ids": [1]}, {"ids": [1, 1.5]},
    ],
)  # fmt: skip
def test_invalid_options(options):
    with pytest.raises(fs.FlyingSquidError, match=f"`{next(iter(options))}.*` must"):
        ask_judges(judge(pytest.fail), ["x", "y"], **options)


@pytest.mark.parametrize("items", ["text", {"a": 1}, 5, []])
def test_bad_items(items):
    with pytest.raises(VotesError, match="`items` must"):
        ask_judges(judge(str), items)


def test_bad_panels():
    for wrong in ([], [str], [judge(str), judge(str)]):
        with pytest.raises(fs.FlyingSquidError):
            ask_judges(wrong, [1])
