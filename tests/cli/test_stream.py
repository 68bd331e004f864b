"""``flyingsquid stream`` with files, pipes and signals."""

from __future__ import annotations

import json
import re
from inspect import signature
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.cli.main import main
from flyingsquid.cli.stream_lines import Known, Rules, read_block, write_block
from tests.support.strategies import examples

NAMES = list("abcde")
CODES = np.asarray(
    fs.datasets.simulate_drift(
        1_234,
        [0.9, 0.8, 0.7, 0.6, 0.7],
        [0.6, 0.8, 0.9, 0.7, 0.7],
        coverage=0.8,
        random_state=0,
    ).votes.codes
)
OPTIONS = ["--method", "triplet", "--window", "300"]

# click 8.1 mixes both outputs unless told otherwise, click 8.2 cannot be told.
_APART: Any = {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
RUNNER = CliRunner(**_APART)


def lines_of(codes, names=NAMES):
    rows = [[None if vote < 0 else vote for vote in row] for row in codes.tolist()]
    shaped = rows if names is None else [dict(zip(names, row, strict=True)) for row in rows]
    return "".join(json.dumps(row) + "\n" for row in shaped)


LINES = lines_of(CODES)


def run(*arguments, text=LINES):
    return RUNNER.invoke(main, ["stream", *map(str, arguments)], input=text)


def parsed(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def straight():
    """Return the output of one run over all lines."""
    result = run(*OPTIONS)
    assert result.exit_code == 0
    return result.stdout


# ---------------------------------------------------------------------- labels


@pytest.mark.parametrize("names", [NAMES, None])
@pytest.mark.parametrize("block", [1, 100, 5_000])
def test_labels_are_those_of_the_online_model(names, block):
    online = fs.OnlineLabelModel(300, method="triplet")
    codes = CODES[:400]
    wanted = np.concatenate([online.update(codes[t : t + block]) for t in range(0, len(codes), block)])
    found = parsed(run(*OPTIONS, "--block", block, text=lines_of(codes, names)).stdout)
    assert [line["id"] for line in found] == list(range(1, 401))
    np.testing.assert_array_equal([list(line["probabilities"].values()) for line in found], wanted)
    assert [line["label"] for line in found] == (wanted[:, 1] > wanted[:, 0] + 1e-9).astype(int).tolist()
    assert list(found[0]["probabilities"]) == ["0", "1"]


def test_texts_ids_and_forms_of_a_line():
    rows = [
        {"id": "x", "votes": {"a": "ham", "b": "spam"}, "text": "passed over"},
        {"id": [7], "a": "spam", "b": None},
        {"a": "spam", "b": "ham", "id": None},
        {"votes": {"b": "spam"}},
        {},
    ]
    found = parsed(run(text="\n\n".join(map(json.dumps, rows))).stdout)
    assert [line["id"] for line in found] == ["x", [7], None, 7, 9]
    assert list(found[0]["probabilities"]) == ["ham", "spam"]
    assert found[1]["label"] == found[3]["label"] == "spam"
    assert found[1]["probabilities"] == found[3]["probabilities"]  # a missing source abstains
    assert found[4]["probabilities"] == {"ham": 0.5, "spam": 0.5}


@pytest.mark.parametrize("first", [True, False])
def test_a_refusal_is_not_silently_a_class(first):
    rows = [{"a": "ham", "b": "spam", "c": "spam"}, {"a": "ham", "b": "ham", "c": "spam"}]
    rows.insert(0 if first else 2, {"a": "ham", "b": "I'm sorry, but I can't help", "c": "spam"})
    text = "\n".join(map(json.dumps, rows))
    named = run("--new-classes", "add", "--block", 1 if not first else 9, text=text)
    assert "can't help" in named.stderr
    assert "--abstain" in named.stderr
    assert "Votes." not in named.stderr
    found = run("--abstain", "I'm sorry, but I can't help", "--abstain", "9", text=text)
    assert not found.stderr
    assert [*parsed(found.stdout)[-1]["probabilities"]] == ["ham", "spam"]


def test_a_dash_is_standard_output(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = json.dumps({"a": 0, "b": 1, "c": 1})
    assert run("-o", "-", text=text).stdout == run(text=text).stdout != ""
    assert not [*tmp_path.iterdir()]


def test_numbers_that_mean_no_vote():
    text = "[9, 1, 0]\n[1, 1, 0]\n[0, 0, 9]"
    assert [*parsed(run("--abstain", "9", text=text).stdout)[0]["probabilities"]] == ["0", "1"]


def test_another_field_may_be_the_id_and_an_id_may_be_a_source():
    text = json.dumps({"key": "k", "id": 1, "a": 0, "b": 1}) + "\n"
    assert parsed(run("--id", "key", "--sources", "a,b,id", text=text).stdout)[0]["id"] == "k"


@pytest.mark.parametrize("classes", [["red", "green", "blue"], [0, 1, 2]])
def test_many_classes(classes):
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=500)
    wrong = (truth[:, None] + rng.integers(1, 3, (500, 5))) % 3
    codes = np.where(rng.random((500, 5)) < 0.8, truth[:, None], wrong)
    text = "".join(json.dumps([classes[k] for k in row]) + "\n" for row in codes.tolist())
    listed = ",".join(classes) if isinstance(classes[0], str) else "3"
    found = parsed(run("--classes", listed, "--method", "agreement", text=text).stdout)
    assert list(found[0]["probabilities"]) == [str(label) for label in classes]
    assert np.mean([line["label"] == classes[k] for line, k in zip(found, truth, strict=True)]) > 0.85


def test_a_class_balance_is_used():
    found = parsed(run("--class-balance", "0.3,0.7", text="[1, 1, 0]\n[null, null, null]\n").stdout)
    assert found[1]["probabilities"] == {"0": 0.3, "1": 0.7}


def test_new_sources_and_classes_join_or_are_refused():
    text = '{"a": 0, "b": 1}\n{"a": 1, "b": 1}\n{"c": 1}\n{"a": 2}\n{"c": 0}\n'
    for option, line in (("--new-sources", 3), ("--new-classes", 4)):
        others = {"--new-sources", "--new-classes"} - {option}
        refused = run("--block", 2, *(part for other in others for part in (other, "add")), text=text)
        assert refused.exit_code == 1
        assert f"line {line}: " in refused.stderr
        assert f"{option} add" in refused.stderr
    found = parsed(run("--block", 2, "--new-sources", "add", "--new-classes", "add", text=text).stdout)
    assert [len(line["probabilities"]) for line in found] == [2, 2, 3, 3, 3]
    assert found[3]["label"] == 2


# ---------------------------------------------------------------------- lines that are wrong

BAD = [
    ("{", "JSON"),
    ("nonsense", "JSON"),
    ("null", "null"),
    ("7", "got 7"),
    ('{"a": Infinity}', "Infinity"),
    ('{"id": 1e999, "a": 1}', "1e999"),
    ('{"a": 1, "b": 0, "a": 0}', "key 'a'"),
    ('{"a": 1, "b": true}', "booleans and numbers"),
    ('{"a": false}', "booleans and numbers"),
    ('{"id": "x\\ud800", "a": 1}', "Column 10: .*ud800"),
    ('{"a": 0.5}', "source 'a' has 0.5"),
    ('{"a": {"x": 1}}', "source 'a'"),
    ('{"a": 2}', "class 2 .*0, 1.*--new-classes add"),
    ('{"z": 1}', "source 'z'.*'a', 'b', 'c'.*--new-sources add"),
    ("[1, 0, 1, 1, 1]", "got a list"),
    ('{"votes": []}', "got a list"),
    ("[" * 100_000, "nested too deeply|JSON"),
    ("1" * 5_000, "JSON"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=range(len(BAD)))
def test_bad_lines_stop_or_are_skipped(line, reason, straight):
    lines = LINES.splitlines()
    text = "\n".join([*lines[:150], line, *lines[150:]])
    stopped = run(*OPTIONS, text=text)
    assert stopped.exit_code == 1
    assert stopped.stderr.startswith("Error: line 151: ")
    assert stopped.stderr.count("\n") == 1
    assert re.search(reason, stopped.stderr)
    assert stopped.stdout == "".join(straight.splitlines(keepends=True)[:100])  # whole blocks only
    skipped = run(*OPTIONS, "--on-error", "skip", text=text)
    assert skipped.exit_code == 0
    assert "line 151 skipped: " in skipped.stderr
    assert skipped.stderr.endswith("1 of 1,235 lines skipped\n")
    assert [line["id"] for line in parsed(skipped.stdout)] == [*range(1, 151), *range(152, 1_236)]


def test_booleans_are_not_numbers():
    """As in a file of votes: true and 1 are different classes, although Python compares them as equal."""
    result = run(text='{"a": true, "b": true}\n{"a": false, "b": null}\n' * 60)
    assert {json.dumps(line["label"]) for line in parsed(result.stdout)} == {"true", "false"}
    for line in ('{"a": 1, "b": 0}', '{"a": 1, "b": true}', '{"a": true, "b": 0}'):
        result = run("--block", 2, text='{"a": true, "b": false}\n' * 2 + line)
        assert (result.exit_code, "line 3: " in result.stderr) == (1, True)
        result = run("--block", 2, text='{"a": 1, "b": 0}\n' * 2 + line.replace("1", "false"))
        assert (result.exit_code, "line 3: " in result.stderr) == (1, True)


def test_nan_abstains():
    text = '{"a": 1, "b": 0}\n{"a": NaN, "b": 1}\n'
    assert run(text=text).stdout == run(text=text.replace("NaN", "null")).stdout


@pytest.mark.parametrize("block", [1, 100])
@pytest.mark.parametrize("blank", ["", " ", "NA", "None", "abstain"])
def test_strings_that_mean_no_vote_abstain_as_in_files(blank, block):
    text = '{"a": "spam", "b": "ham"}\n{"a": null, "b": "ham"}\n{"a": "ham", "b": null}\n'
    wanted = run("--block", block, "--classes", "ham,spam", text=text)
    found = run("--block", block, "--classes", "ham,spam", text=text.replace("null", json.dumps(blank)))
    assert wanted.exit_code == 0
    assert found.stdout == wanted.stdout
    declared = run("--classes", f"ham,spam,{blank or 'none'}", text=text.replace("null", '"NA"'))
    assert ("NA" in declared.stdout) == (blank == "NA")


@pytest.mark.parametrize("option", ["--block", "--every", "--refresh", "--window"])
def test_numbers_that_no_computer_counts_to(option, tmp_path):
    result = run("--checkpoint", tmp_path / "run.fsq", option, "9" * 23)
    assert (result.exit_code, option in result.stderr) == (2, True)


def test_what_is_no_utf_8_and_a_byte_order_mark():
    result = RUNNER.invoke(main, ["stream"], input=b"\xef\xbb\xbf[1, 0]\n")
    assert result.exit_code == 0
    result = RUNNER.invoke(main, ["stream"], input=b'["\xff", 0]\n')
    assert (result.exit_code, "line 1: The line is not UTF-8" in result.stderr) == (1, True)


def test_lists_of_another_length_are_refused():
    result = run(text="[1, 0]\n[1]\n")
    assert (result.exit_code, "line 2: The list must contain" in result.stderr) == (1, True)
    assert "line 2: " in run(text='[1, 0]\n{"a": 1}\n').stderr


def test_one_class_is_not_enough_to_know_all():
    result = run(text='["spam", null]\n')
    assert (result.exit_code, "--classes" in result.stderr) == (1, True)
    assert run("--classes", "ham,spam", text='["spam", null]\n').exit_code == 0


def test_a_line_that_is_refused_leaves_nothing_behind():
    rules = Rules(add_sources=True, add_classes=True)
    known = Known(("a", "b"), (0, 1))
    block = read_block([b'{"a": 7, "c": [1]}\n', b'{"a": 1}\n'], 1, known, rules)
    assert len(block.bad) == 1
    assert block.known == known
    assert block.votes.codes.tolist() == [[1, -1]]


def test_a_line_without_votes_before_any_source_is_known():
    result = run("--on-error", "skip", "--block", 1, text='{}\n{"a": 1, "b": 0}\n{}\n')
    assert re.search("line 1 skipped: .*--sources", result.stderr)
    assert [line["id"] for line in parsed(result.stdout)] == [2, 3]
    assert len(parsed(run("--sources", "a,b", text="{}\n").stdout)) == 1


def test_an_empty_list_is_reported_before_and_after_the_first_votes():
    result = run("--on-error", "skip", text="[]\n[1, 0]\n[]\n")
    assert re.findall(r"line (\d) skipped", result.stderr) == ["1", "3"]
    assert [line["id"] for line in parsed(result.stdout)] == [2]


def test_empty_input_and_blank_lines():
    assert (run(text="").exit_code, run(text="").stdout) == (0, "")
    assert run(text="\n \n").stdout == ""


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(values=st.lists(json_values | st.just("{"), max_size=12), data=st.data())
@examples(150)
def test_every_line_is_an_item_or_reported(values, data):
    """Each line is labeled, reported or blank, and nothing else is raised."""
    add = data.draw(st.booleans())
    lines = [json.dumps(value).encode() + b"\n" for value in values]
    known = data.draw(st.sampled_from([Known(None, (0, 1)), Known(("a", "b"), (0, 1, "x"))]))
    block = read_block(lines, 1, known, Rules(add_sources=add, add_classes=add))
    assert len(block.ids) + len(block.bad) == len(lines)
    assert [number for number, _ in block.bad] == sorted(number for number, _ in block.bad)
    if block.votes is not None:
        assert len(block.votes.codes) == len(block.ids)
        assert block.votes.classes[: len(known.classes)] == known.classes
        posterior = np.full((len(block.ids), len(block.votes.classes)), 1 / len(block.votes.classes))
        written = parsed(write_block(block.ids, posterior, block.votes.classes).decode())
        assert [line["id"] for line in written] == json.loads(json.dumps(block.ids))


# ---------------------------------------------------------------------- wrong usage


@pytest.mark.parametrize(
    "arguments",
    [
        ["--window", "0"],
        ["--window", "many"],
        ["--decay", "1"],
        ["--decay", "0.9", "--window", "auto"],
        ["--block", "0"],
        ["--method", "nonsense"],
        ["--method", "em"],
        ["--every", "10"],
        ["--position"],
        ["--continued"],
        ["--classes", "a,,b"],
        ["--classes", "a,a"],
        ["--classes", "a"],
        ["--sources", "a,a"],
        ["--class-balance", "x,y"],
        ["--on-error", "perhaps"],
        ["nowhere.jsonl"],
        ["--output", "/dev/null"],
    ],
)
def test_wrong_usage_is_exit_code_two(arguments):
    assert run(*arguments).exit_code == 2


def test_a_table_is_not_a_stream(tmp_path):
    table = tmp_path / "votes.csv"
    table.write_text("a,b,c\n0,1,1\n")
    result = run(table)
    assert result.exit_code == 2
    assert "flyingsquid label" in result.stderr


def test_files_must_differ(tmp_path):
    path = tmp_path / "votes"
    path.write_text(LINES)
    assert run(path, "-o", path).exit_code == 2
    assert path.read_text() == LINES
    assert run(path, "-o", tmp_path / "x", "--checkpoint", tmp_path / "x").exit_code == 2


def test_known_errors_are_one_line_and_exit_code_one(tmp_path):
    for arguments in (
        ["-o", tmp_path / "missing" / "labels"],
        ["--checkpoint", tmp_path / "missing" / "checkpoint"],
        ["--class-balance", "0.9,0.9"],
        ["--method", "quadratic", "--classes", "3"],
    ):
        result = run(*arguments)
        assert result.exit_code == 1, arguments
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1


def test_help_has_an_example_and_the_limits_of_standard_output():
    text = " ".join(RUNNER.invoke(main, ["stream", "--help"]).output.split())
    for words in ("Examples:", "printed twice", "143 SIGTERM", "141 standard output was closed"):
        assert words in text


@pytest.mark.parametrize(
    ("field", "values"),
    [("label", [0, 1]), ("text", [f"text {i}" for i in range(100)]), ("split", ["train", "test"])],
)
def test_a_field_that_is_not_a_vote_is_refused_before_labels_are_written(field, values, straight):
    rows = [json.loads(line) for line in LINES.splitlines()]
    more = "".join(json.dumps(row | {field: values[i % len(values)]}) + "\n" for i, row in enumerate(rows))
    refused = run(*OPTIONS, text=more)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert f"--ignore {field}" in refused.stderr
    assert run(*OPTIONS, "--ignore", field, text=more).stdout == straight
    nested = "".join(json.dumps({field: values[0], "votes": row}) + "\n" for row in rows)
    assert run(*OPTIONS, text=nested).stdout == straight


def test_any_name_is_a_source_in_a_field_of_votes():
    text = "".join(json.dumps({"votes": {"label": i % 2, "y": i % 2}}) + "\n" for i in range(30))
    assert run(text=text).exit_code == 0
    named = "".join(json.dumps({"label": i % 2, "y": i % 2}) + "\n" for i in range(30))
    assert run("--sources", "label,y", text=named).exit_code == 0
