"""``flyingsquid suggest``."""

from __future__ import annotations

import json

import pytest

from tests.support.cli_files import make_samples, read_rows, run, simulate, texts, write_csv


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_samples(tmp_path)


def test_the_output_is_filled_and_read_again(folder):
    _, truth = simulate()
    said = run("suggest", "votes.csv", "-n", "30", "-o", "to_label.csv", "--seed", "0")
    assert "30 items to label" in said
    rows = read_rows("to_label.csv")
    assert len({row["id"] for row in rows}) == 30
    assert {row["gold"] for row in rows} == {""}
    labels = [[row["id"], ("ham", "spam")[truth[int(row["id"][1:])]]] for row in rows]
    write_csv(folder / "labeled.csv", ["id", "gold"], labels)
    more = json.loads(run("suggest", "votes.csv", "-n", "10", "--gold", "labeled.csv", "--json"))
    assert len(more["suggestions"]) == 10
    assert not {each["id"] for each in more["suggestions"]} & {row["id"] for row in rows}


def test_a_column_of_gold_labels(folder):
    found = json.loads(run("suggest", "judged.csv", "--gold", "truth", "-n", "5", "--json"))
    labeled = {row["id"] for row in read_rows("judged.csv") if row["truth"]}
    assert not {each["id"] for each in found["suggestions"]} & labeled


def test_items_without_identifiers(folder):
    codes, truth = simulate()
    write_csv(folder / "plain.csv", list("abcde"), texts(codes))
    run("suggest", "plain.csv", "--no-item", "-n", "30", "-o", "first.csv")
    rows = read_rows("first.csv")
    labels = [[row["id"], ("ham", "spam")[truth[int(row["id"])]]] for row in rows]
    write_csv(folder / "done.csv", ["id", "gold"], labels)
    found = json.loads(run("suggest", "plain.csv", "--no-item", "-n", "5", "--gold", "done.csv", "--json"))
    assert not {str(each["id"]) for each in found["suggestions"]} & {row["id"] for row in rows}


def test_items_with_the_index_that_pandas_writes(folder):
    codes, truth = simulate()
    write_csv(folder / "indexed.csv", ["", *"abcde"], [[i, *row] for i, row in enumerate(texts(codes))])
    run("suggest", "indexed.csv", "-n", "30", "-o", "to_label.csv")
    labels = [[row["id"], ("ham", "spam")[truth[int(row["id"])]]] for row in read_rows("to_label.csv")]
    write_csv(folder / "labeled.csv", ["id", "gold"], labels)
    more = json.loads(run("suggest", "indexed.csv", "-n", "10", "--gold", "labeled.csv", "--json"))
    assert not {each["id"] for each in more["suggestions"]} & {row[0] for row in labels}


def test_standard_output_and_a_saved_model(folder):
    run("label", "votes.csv", "-o", "labels.csv", "--model", "fitted.fsq")
    said = run("suggest", "votes.csv", "-n", "4", "-o", "-", "--with-model", "fitted.fsq")
    assert "id,gold,predicted,probability,reason" in said


def test_bad_input(folder):
    run("suggest", "votes.csv", "-o", "to_label.csv", "-n", "3")
    assert "to_label.csv" in run("suggest", "votes.csv", "-o", "to_label.csv", "-n", "3", code=1)
    run("suggest", "votes.csv", "-o", "to_label.csv", "-n", "3", "--force")
    write_csv(folder / "bad.csv", ["id", "gold"], [["nobody", "ham"]])
    assert "nobody" in run("suggest", "votes.csv", "--gold", "bad.csv", code=1)
    run("suggest", "votes.csv", "-n", "0", code=2)
    assert "n" in run("suggest", "votes.csv", "-n", "5000", code=2)
