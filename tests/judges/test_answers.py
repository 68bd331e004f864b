"""Parsing of the answers of judges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import OptionError
from flyingsquid.judges import answers
from flyingsquid.judges.answers import ABSTAINED, REFUSED, UNPARSEABLE, Missing
from tests.support.judge_tools import WORDS, judge


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("good", "good"),
        ("GOOD.", "good"),
        ("**Good**", "good"),
        ("_good_", "good"),
        ("It is\n\ngood, really good", "good"),
        ("goods", UNPARSEABLE),
        ("non-good", UNPARSEABLE),
        ("not_good", UNPARSEABLE),
        ("bad or good", UNPARSEABLE),
        ("", UNPARSEABLE),
        ("  ", UNPARSEABLE),
        (None, ABSTAINED),
        (float("nan"), ABSTAINED),
        (-1, ABSTAINED),
        (7, UNPARSEABLE),
        (["good"], UNPARSEABLE),
        (REFUSED, REFUSED),
        ("I'm sorry, but I can't help with that.", REFUSED),
        ("I’m sorry, I cannot say whether it is good.", REFUSED),
        ("As an AI, I cannot answer.", REFUSED),
        ("I cannot find a mistake: good", "good"),
        ("As an AI-generated text it is bad", "bad"),
        ("It violates the content policy: bad", "bad"),
        ("I am sorry to say that it is bad", "bad"),
        ("good " + "x" * 300 + " I cannot help", "good"),
    ],
)
def test_class_names_and_refusals(answer, label):
    assert judge(str).read(answer) == label


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("1", 1), ("Answer: 1.", 1), ("(0)", 0), ("0, I think", 0), ("+1", 1), ("It is 0.\nReally 0.", 0),
        ("0.9", UNPARSEABLE), ("1.5", UNPARSEABLE), (".1", UNPARSEABLE), ("1,000", UNPARSEABLE),
        ("0,5", UNPARSEABLE), ("0-1", UNPARSEABLE), ("It is -1.", UNPARSEABLE), ("1.0.1", UNPARSEABLE),
        ("-1", fs.ABSTAIN), (" −1 ", fs.ABSTAIN),
    ],
)  # fmt: skip
def test_numeric_class_names_match_complete_integers(text, label):
    assert answers.class_name([0, 1])(text) == label


def test_minus_one_may_be_a_class():
    parse = answers.class_name({"-1": "bad", "1": "good"})
    assert [parse(t) for t in ("-1", "−1", "1", "I say -1.", -1)] == ["bad", "bad", "good", "bad", "bad"]
    assert answers.class_name(WORDS)("-1") == fs.ABSTAIN


def test_longer_names_win_and_picks():
    parse = answers.class_name({"not spam": 0, "spam": 1, "unsure": None})
    assert [parse(t) for t in ("Not   SPAM", "spam", "unsure")] == [0, 1, None]
    assert parse.classes == (0, 1)
    both = "bad, no, good"
    assert [answers.class_name(WORDS, pick=p)(both) for p in ("first", "last", "only")] == [
        "bad",
        "good",
        UNPARSEABLE,
    ]


@pytest.mark.parametrize("wrong", [[], ["a", "A"], [""], {}, "spam", 5])
def test_class_names_that_are_not_distinct_are_refused(wrong):
    with pytest.raises(OptionError, match="`names` must"):
        answers.class_name(wrong)


@pytest.mark.parametrize("wrong", ["no comment", 5, ["("]])
def test_invalid_patterns_of_refusals(wrong):
    with pytest.raises(OptionError, match="`patterns` must"):
        answers.refusal(wrong)


def test_invalid_regular_expression():
    with pytest.raises(OptionError, match="`regex` must"):
        answers.pattern("(")


def test_unknown_pick():
    with pytest.raises(OptionError, match="`pick` must"):
        answers.yes_no(pick="best")


def test_which_match_of_a_pattern_counts():
    text = "First I thought: label ham. But then: label spam."
    assert answers.pattern(r"label (\w+)")(text) is UNPARSEABLE
    assert answers.pattern(r"label (\w+)", pick="first")(text) == "ham"
    assert answers.pattern(r"label (\w+)", pick="last")(text) == "spam"


def test_custom_patterns_of_refusals():
    refuses = answers.refusal(["no comment"], within=10)
    assert refuses("Well, NO comment")
    assert not refuses("I have nothing to say, so no comment")
    assert not refuses("I'm sorry, but I can't help with that.")


def test_no_detector_of_refusals():
    assert judge(str, refuses=None).read("I cannot help, it is good") == "good"
    assert judge(str, refuses=lambda text: text == "pass").read("pass") is REFUSED


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"label": "good"}', "good"),
        ('```json\n{"label": "Good"}\n```', "good"),
        ('{broken {"label": "bad"}', "bad"),
        ('{"label": null}', ABSTAINED),
        ('{"other": 1}', UNPARSEABLE),
        ("[1]", UNPARSEABLE),
        ('{"label": {"deep": 1}}', UNPARSEABLE),
        ('{"a":' * 5000, UNPARSEABLE),
        ({"label": "good"}, "good"),
    ],
)
def test_json_fields(text, value):
    assert judge(str, parse=answers.json_field("label")).read(text) == value


def test_nested_json_fields_and_what_reads_them():
    parse = answers.json_field(("result", "score"), then=answers.score((0.3, 0.7)))
    assert parse('{"result": {"score": 0.9}}') == 1
    assert parse('{"result": {"score": 0.5}}') is ABSTAINED
    assert parse('{"result": []}') is UNPARSEABLE
    assert parse.classes == (0, 1)
    with pytest.raises(OptionError, match="`field` must"):
        answers.json_field(())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", 8), ("8/10", 8), ("8 out of 10", 8), ("Score: -0.5.", -0.5), ("85%", 85), ("1e-3", 0.001),
        (".5", 0.5),
        ("7 and 7", 7), (3, 3), (True, None), ("none", None), ("3-5", None),
        ("3 or 5", None), ("GPT-4", None),         ("v2", None), ("8th", None),
        ("0.8-0.9", None), ("8.5-9.5", None), ("3 - 5", None), ("3–5", None), ("0.8 − 0.9", None),
        ("-3 - -1", None), ("8.5-9.5kg", None), ("2024-01-15", None), ("1.2.3", None), ("1,000", None),
        ("7.5kg", None), ("7.5 kg", 7.5), ("−0.5", -0.5), ("On 0-10: 7", 7), ("- 7.5", 7.5), ("1. -5", -5),
    ],
)  # fmt: skip
def test_numbers(text, value):
    got = answers.number(text)
    assert np.isnan(got) if value is None else got == value


@given(st.floats(-5, 15, allow_nan=False))
def test_scores_are_read_as_votes_read_them(value):
    for options in ({"thresholds": (3, 7)}, {"bins": [2, 4]}, {"thresholds": 5}):
        code = int(fs.Votes.from_scores([[value]], **options).codes[0, 0])
        got = answers.score(**options)(value)
        assert got is ABSTAINED if code < 0 else got == code
        assert answers.score(**options)(f"I say {value!r} here") == got


def test_scores_beyond_the_scale():
    parse = answers.score(5, low=0, high=10)
    assert [parse(x) for x in (0, 10, 11, -1, "85%", "x")] == [0, 1, *[UNPARSEABLE] * 4]
    with pytest.raises(OptionError, match="`thresholds`"):
        answers.score()


@given(st.text())
def test_no_text_breaks_a_parser(text):
    for parse in (
        answers.class_name(WORDS), answers.yes_no("good", "bad"), answers.score(0.5, classes=WORDS),
        answers.json_field("x"), answers.pattern("b(.*)d"),
    ):  # fmt: skip
        got = judge(str, parse=parse).read(text)
        assert got in WORDS or isinstance(got, Missing)
