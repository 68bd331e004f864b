"""Answers of judges on disk: what is kept, found again, repaired and refused."""

from __future__ import annotations

import _thread
import json
import subprocess
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.judges import answers, ask_judges
from flyingsquid.judges.answer_file import fingerprint_items
from flyingsquid.judges.answers import ABSTAINED, FAILED, REFUSED, UNPARSEABLE
from tests.support.judge_tools import WORDS, judge, outcomes


def count_asks(path, items, answer="good", **options):
    asked = []
    run = ask_judges(judge(lambda item: asked.append(item) or answer, **options), items, cache=path)
    return sorted(asked, key=str), run


def test_answers_are_kept_by_content_id_version_and_judge(tmp_path):
    path = tmp_path / "a.jsonl"
    assert count_asks(path, ["x", "y", "x"])[0] == ["x", "x", "y"]
    asked, run = count_asks(path, ["y", "z", "x", "x"])  # another order, one more
    assert asked == ["z"]
    assert run.counts["kept"].tolist() == [3]
    assert count_asks(path, ["x", "x", "x"])[0] == ["x"]  # a third one like it
    assert count_asks(path, ["x"], version={"prompt": "new"})[0] == ["x"]
    assert count_asks(path, ["x"], version={"prompt": "new"})[0] == []
    assert count_asks(path, ["x"], name="b")[0] == ["x"]
    with_ids = lambda items, ids: ask_judges(  # noqa: E731
        judge(lambda _: "bad"), items, ids=ids, cache=path
    ).counts["asked"][0]
    assert with_ids(["x", "y"], [1, 2]) == 2
    assert with_ids(["y", "x"], [2, 1]) == 0
    assert with_ids(["y", "changed"], [2, 1]) == 1


def test_ask_again_names_the_outcomes_to_repeat(tmp_path):
    path = tmp_path / "a.jsonl"
    said = {"r": "I cannot help", "u": "hm", "a": None, "g": "good", "said": answers.REFUSED}

    def ask(item):
        if item == "f":
            raise OSError("down")
        return said[item]

    def again(**options):
        asked = []
        run = ask_judges(
            judge(lambda i: asked.append(i) or ask(i), retries=0), [*said, "f"], cache=path, **options
        )
        assert outcomes(run) == [REFUSED, UNPARSEABLE, ABSTAINED, "good", REFUSED, FAILED]
        return sorted(asked), run

    assert len(again()[0]) == 6
    assert again()[0] == ["f"]
    asked, run = again(ask_again=())
    assert asked == []
    assert run.first_errors == ("OSError: down",)
    assert again(ask_again=("failed", "refused"))[0] == ["f", "r", "said"]
    assert again(ask_again="unparseable")[0] == ["u"]


def test_another_parser_reads_kept_answers_again(tmp_path):
    path = tmp_path / "a.jsonl"
    assert outcomes(count_asks(path, ["x"], "first bad, then good")[1]) == [UNPARSEABLE]
    asked, run = count_asks(path, ["x"], parse=answers.class_name(WORDS, pick="last"))
    assert (asked, outcomes(run)) == ([], ["good"])


@given(cut=st.integers(0, 400))
def test_a_torn_last_line_is_repaired(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("torn") / "a.jsonl"
    count_asks(path, ["x", "y", "z"])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - cut % len(whole)])
    torn = path.read_bytes()
    ends = [at + 1 for at, byte in enumerate(whole) if byte == ord("\n")]
    # A line that lacks only its end is whole.
    n_kept = max(0, sum(end - 1 <= len(torn) for end in ends) - 1)
    asked, run = count_asks(path, ["x", "y", "z"])
    assert len(asked) == 3 - n_kept
    assert outcomes(run) == ["good"] * 3
    assert count_asks(path, ["x", "y", "z"])[0] == []
    assert all(json.loads(line) for line in path.read_text().splitlines())


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 3 must be JSON"), ("[1]", "line 3 must be a JSON object"),
        ("[" * 100_000, "line 3 must be JSON"),
        ('{"judge": "a", "key": 5, "answer": 1, "attempts": 1}', "line 3 must have the fields"),
        ('{"judge": "a", "key": "k", "answer": 1, "attempts": 0}', "line 3 must have the fields"),
        ('{"judge": "a", "key": "k", "attempts": 1}', "line 3 must have one of"),
        ('{"judge": "a", "key": "k", "answer": 1, "error": "", "attempts": 1}', "line 3 must have one of"),
        ('{"judge": "a", "key": "k", "said": "maybe", "attempts": 1}', "line 3 must have a known reason"),
        ('{"judge": "a", "key": "k", "said": ["refused"], "attempts": 1}', "line 3 must have a known reason"),
    ],
)  # fmt: skip
def test_bad_lines_are_named(tmp_path, line, message):
    path = tmp_path / "a.jsonl"
    count_asks(path, ["x"])
    before = path.read_text() + line + "\n"
    path.write_text(before + before.splitlines()[1] + "\n")
    with pytest.raises(ModelFileError, match=message):
        count_asks(path, ["x"])
    assert path.read_text().startswith(before)  # nothing was touched


def test_other_files_are_not_written_to(tmp_path):
    for content in (
        '{"text": "my data"}\n',
        "no end of line",
        "{",
        '{"flyingsquid": "answers of judges", "version": 2}\n',
    ):
        path = tmp_path / "data.jsonl"
        path.write_text(content)
        if content == "{":  # what a killed run may leave of its first line
            count_asks(path, ["x"])
            continue
        with pytest.raises(ModelFileError, match="line 1 is not the header"):
            count_asks(path, ["x"])
        assert path.read_text() == content
    with pytest.raises(ModelFileError, match="cannot be written"):
        count_asks(tmp_path / "missing" / "answers.jsonl", ["x"])


@pytest.mark.system
def test_two_runs_do_not_share_a_file(tmp_path):
    path = tmp_path / "a.jsonl"

    def ask(_):
        with pytest.raises(ModelFileError, match="another run"):
            count_asks(path, ["inner"])
        return "good"

    assert outcomes(ask_judges(judge(ask), ["outer"], cache=path)) == ["good"]
    code = f"""
from flyingsquid.judges.answer_file import AnswerFile
AnswerFile({str(path)!r})
"""
    from flyingsquid.judges.answer_file import AnswerFile

    file = AnswerFile(path)
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    file.close()
    assert "another run uses this file" in answer.stderr


def test_an_interrupt_loses_nothing_answered(tmp_path):
    path, stuck = tmp_path / "a.jsonl", threading.Event()

    def ask(item):
        if item == 5:
            _thread.interrupt_main()
            stuck.wait(60)
        return "good"

    with pytest.raises(KeyboardInterrupt):
        ask_judges(judge(ask), range(8), cache=path, concurrency=1)
    assert len(path.read_text().splitlines()) == 1 + 5
    stuck.set()
    assert count_asks(path, range(8))[0] == [5, 6, 7]


def test_a_full_disk_ends_the_run(tmp_path, monkeypatch):
    from flyingsquid.judges.answer_file import AnswerFile

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            return self.file.write(data[:10])

        def close(self):
            self.file.close()

    path = tmp_path / "a.jsonl"
    opened = AnswerFile.__init__

    def init(self, *args):
        opened(self, *args)
        self._file = Full(self._file)

    monkeypatch.setattr(AnswerFile, "__init__", init)
    with pytest.raises(ModelFileError, match="cannot be written"):
        count_asks(path, range(5))
    monkeypatch.undo()
    assert count_asks(path, range(5))[0] == [0, 1, 2, 3, 4]


def test_items_without_a_fingerprint(tmp_path):
    class Strange:
        name = "s"

    path = tmp_path / "a.jsonl"
    with pytest.raises(OptionError, match=r"`items\[0\]` must .*Strange"):
        count_asks(path, [Strange()])
    for n_asked in (1, 0):
        asked = []
        ask_judges(
            judge(lambda i, asked=asked: asked.append(i) or "bad"),
            [Strange()],
            cache=path,
            fingerprint=lambda i: i.name,
        )
        assert len(asked) == n_asked


@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.none()), max_size=8))
def test_fingerprints_tell_items_apart_and_forget_their_order(items):
    prints = fingerprint_items(items, None, None)
    assert len(set(prints)) == len(items)
    shuffled = [{k: item[k] for k in reversed(item)} for item in reversed(items)]
    assert set(fingerprint_items(shuffled, None, None)) == set(prints)
