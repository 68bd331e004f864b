"""``flyingsquid rate``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.files import open_votes
from tests.support.cli_files import make_samples, run, simulate, texts, write_csv


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_samples(tmp_path)


def rows_of(path):
    return [line.split(",") for line in Path(path).read_text("utf-8").splitlines()[1:]]


def test_a_column_of_gold_labels(folder):
    said = run("rate", "judged.csv", "--gold", "truth")
    chunk = open_votes("judged.csv", gold="truth").read()
    expected = fs.estimate_rate(fs.LabelModel().fit(chunk.votes), chunk.votes, chunk.gold)
    assert str(expected) in said


def test_a_file_of_gold_labels_and_groups(folder):
    found = json.loads(run("rate", "systems.csv", "--gold", "gold.csv", "--by", "system", "--json"))
    chunk = open_votes("systems.csv", ignore=["system"]).read()
    known, ids = dict(rows_of("gold.csv")), list(chunk.ids)
    expected = fs.estimate_rate(
        fs.LabelModel().fit(chunk.votes),
        chunk.votes,
        [known.get(item) for item in ids],
        by=[row[1] for row in rows_of("systems.csv")],
    )
    assert found["rates"] == json.loads(json.dumps(expected.to_dict()["rates"]))
    assert found["votes"]["sources"] == ["links", "caps", "sender", "short", "words"]
    assert [each["first"] for each in found["differences"]] == ["new", "new"]


def test_groups_are_compared(folder):
    words = ("rate", "systems.csv", "--gold", "gold.csv", "--by", "system")
    assert "spam: new minus old" in run(*words)
    said = run(*words, "--compare", "old,new")
    assert "ham: old minus new" in said
    assert json.loads(run(*words, "--compare", "old,new", "--json"))["differences"][0]["first"] == "old"


def test_votes_in_long_form(folder):
    codes, truth = simulate()
    rows = [
        [f"m{i}", ("old", "new")[i % 2], f"judge {j}", vote]
        for i, row in enumerate(texts(codes))
        for j, vote in enumerate(row)
        if vote
    ]
    write_csv(folder / "long.csv", ["item", "system", "judge", "vote"], rows)
    gold = [[f"m{i}", ("ham", "spam")[truth[i]]] for i in range(0, 300, 3) if (codes[i] >= 0).any()]
    write_csv(folder / "gold.csv", ["item", "label"], gold)
    words = ("--long", "item,judge,vote", "--gold", "gold.csv", "--by", "system", "--json")
    found = json.loads(run("rate", "long.csv", *words))
    assert {each["group"] for each in found["rates"]} == {"new", "old"}
    assert sum(each["n_gold"] for each in found["rates"]) == 2 * len(gold)


def test_items_without_identifiers_are_by_row(folder):
    codes, truth = simulate()
    write_csv(folder / "plain.csv", list("abcde"), texts(codes))
    gold = [[("ham", "spam")[truth[i]] if i % 3 == 0 else ""] for i in range(300)]
    write_csv(folder / "labels.csv", ["gold"], gold)
    found = json.loads(run("rate", "plain.csv", "--no-item", "--gold", "labels.csv", "--json"))
    assert found["rates"][0]["n_gold"] == 100
    write_csv(folder / "labels.csv", ["gold"], gold[1:])
    assert "labels.csv" in run("rate", "plain.csv", "--no-item", "--gold", "labels.csv", code=1)


def test_gold_labels_with_identifiers_are_not_matched_by_row(folder):
    """Votes without identifiers are numbered from 0, as pandas numbers the rows of a gold file."""
    codes, truth = simulate()
    write_csv(folder / "plain.csv", list("abcde"), texts(codes))
    numbered = [[i, ("ham", "spam")[truth[i]]] for i in reversed(range(300))]
    rates = {}
    for header in (["", "gold"], ["id", "gold"], ["gold"]):
        rows = numbered if len(header) == 2 else [row[1:] for row in reversed(numbered)]
        write_csv(folder / "g.csv", header, rows)
        rates[header[0]] = run("rate", "plain.csv", "--no-item", "--gold", "g.csv", "--json")
    assert rates[""] == rates["id"] == rates["gold"]
    write_csv(folder / "g.csv", ["comment", "gold"], [[f"c{i}", label] for i, label in numbered])
    assert "'c299'" in run("rate", "plain.csv", "--no-item", "--gold", "g.csv", code=1)


def test_a_class_that_nobody_votes_for(folder):
    rows = [[item, "phish" if at == 0 else label] for at, (item, label) in enumerate(rows_of("gold.csv"))]
    write_csv(folder / "more_gold.csv", ["id", "gold"], rows)
    words = ("rate", "votes.csv", "--gold", "more_gold.csv")
    assert "--classes" in run(*words, code=1)
    said = run(*words, "--classes", "ham,spam,phish", "--json")
    assert json.loads(said)["rates"][2]["gold_share"] == pytest.approx(0.01)


def test_a_model_fitted_with_gold_labels_is_refused(folder):
    chunk = open_votes("judged.csv", gold="truth").read()
    fs.LabelModel().fit(chunk.votes, gold=chunk.gold).save("fitted.fsq")
    words = ("rate", "judged.csv", "--gold", "truth", "--with-model", "fitted.fsq")
    assert "--cross-fit 5" in run(*words, code=1)
    crossed = json.loads(run(*words, "--cross-fit", "5", "--json"))
    assert np.isfinite(crossed["rates"][0]["share"])
    assert run(*words, "--cross-fit", "0")


@pytest.mark.parametrize(
    ("rows", "header", "named"),
    [
        ([["m1", "ham"], ["x", "spam"]], ["id", "gold"], "'x'"),
        ([["m1", "ham"], ["m1", "ham"]], ["id", "gold"], "'m1'"),
        ([["m1", "ham", "a"]], ["id", "one", "other"], "gold"),
        ([["m1", "ham"]], ["number", "gold"], "'id'"),
        ([["m1", "ham"]], ["id", "gold"], "`gold`"),
    ],
    ids=["unknown item", "item twice", "no label column", "no item column", "too few"],
)
def test_bad_files_of_gold_labels_are_refused(folder, rows, header, named):
    write_csv(folder / "bad.csv", header, rows)
    assert named in run("rate", "votes.csv", "--gold", "bad.csv", code=1)


def test_bad_groups_are_refused(folder):
    assert "'group'" in run("rate", "systems.csv", "--gold", "gold.csv", "--by", "group", code=1)
    assert "--by" in run("rate", "votes.csv", "--gold", "gold.csv", "--compare", "a,b", code=2)
    words = ("rate", "systems.csv", "--gold", "gold.csv", "--by", "system")
    assert "'nowhere'" in run(*words, "--compare", "new,nowhere", code=2)
    assert "--compare" in run(*words, "--compare", "new", code=2)
    write_csv(folder / "blank.csv", ["id", "system", "a"], [["m1", "", "ham"], ["m2", "x", "spam"]])
    write_csv(folder / "few.csv", ["id", "gold"], [["m1", "ham"]])
    assert "'m1'" in run("rate", "blank.csv", "--gold", "few.csv", "--by", "system", code=1)


def test_messages_about_files_of_gold_labels(folder):
    words = ("rate", "votes.csv", "--gold")
    assert "--gold: File 'absent.csv' does not exist" in run(*words, "absent.csv", code=2)
    assert "--gold: File 'absent.csv.gz' does not exist" in run(*words, "absent.csv.gz", code=2)
    write_csv(folder / "other.csv", ["number", "gold"], [["1", "spam"]])
    assert "a column 'id'; its columns are 'number', 'gold'" in run(*words, "other.csv", code=1)
