"""``flyingsquid score``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from tests.support.cli_files import make_samples, read_rows, run, write_csv


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_samples(tmp_path)


def test_estimates_are_those_of_the_model(folder):
    said = run("score", "scores.csv", "-o", "out.csv")
    model = fs.ScoreModel().fit("scores.csv")
    assert str(model.summary()) in said
    rows = read_rows("out.csv")
    assert [row["id"] for row in rows] == [f"a{i}" for i in range(100)]
    np.testing.assert_array_equal([float(row["score"]) for row in rows], model.predict("scores.csv"))
    ends = [[float(row["low"]), float(row["high"])] for row in rows]
    np.testing.assert_array_equal(ends, model.predict_interval("scores.csv"))


def test_levels_and_ignored_columns(folder):
    run("score", "stars.csv", "-o", "out.jsonl", "--levels", "1,2,3,4,5", "--ignore", "text")
    rows = [json.loads(line) for line in Path("out.jsonl").read_text("utf-8").splitlines()]
    assert {row["level"] for row in rows} <= {1, 2, 3, 4, 5}
    assert isinstance(rows[0]["level"], int)
    assert "'text'" in run("score", "stars.csv", "-o", "other.csv", code=1)
    assert not Path("other.csv").exists()


def test_long_files_keep_the_name_of_the_item_column(folder):
    table = [
        [row["id"], name, row[name]] for row in read_rows("scores.csv") for name in ("large", "small", "tiny")
    ]
    write_csv(folder / "long.csv", ["task", "judge", "score"], table)
    run("score", "long.csv", "-o", "out.csv")
    found = [float(row["score"]) for row in read_rows("out.csv")]
    assert read_rows("out.csv")[0]["task"] == "a0"
    np.testing.assert_allclose(found, fs.ScoreModel().fit("scores.csv").predict("scores.csv"))


def test_a_saved_model_scores_other_items(folder):
    run("score", "scores.csv", "-o", "out.csv", "--model", "new.fsq")
    run("score", "scores.csv", "-o", "again.csv", "--with-model", "new.fsq")
    assert Path("again.csv").read_bytes() == Path("out.csv").read_bytes()
    assert "ScoreModel" in run("score", "scores.csv", "-o", "x.csv", "--with-model", "spam.fsq", code=1)
    assert "ScoreModel, from 100 items, 3 sources" in run("inspect", "new.fsq")


def test_sources_as_json(folder):
    found = json.loads(run("score", "scores.csv", "-o", "out.csv", "--json"))
    assert found["sources"]["source"] == ["large", "small", "tiny"]
    assert found["items"] == 100


def test_warnings_are_notes(folder):
    rows = [[row["large"], row["small"]] for row in read_rows("scores.csv")]
    write_csv(folder / "two.csv", ["a", "b"], rows)
    assert "Note: No triplet" in run("score", "two.csv", "-o", "out.csv")
    assert read_rows("out.csv")[3]["id"] == "3"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["missing.csv", "-o", "out.csv"], 2, "missing.csv"),
        (["scores.csv", "-o", "scores.csv"], 2, "--output"),
        (["scores.csv", "-o", "votes.csv"], 1, "--force"),
        (["scores.csv", "-o", "out.xlsx"], 1, "--output-format"),
        (["scores.csv", "-o", "out.csv", "--levels", "a,b"], 2, "levels"),
        (["scores.csv", "-o", "out.csv", "--levels", "2,1"], 1, "levels"),
        (["scores.csv", "-o", "out.csv", "--ignore", "nothing"], 1, "nothing"),
        (["scores.csv", "-o", "out.csv", "--model", "m.fsq", "--with-model", "judges.fsq"], 2, "--model"),
        (["scores.csv", "-o", "-", "--json"], 2, "--json"),
        (["votes.csv", "-o", "out.csv"], 1, "votes.csv"),
    ],
)
def test_bad_calls_write_nothing(folder, words, code, said):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert said in run("score", *words, code=code)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
