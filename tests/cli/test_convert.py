"""``flyingsquid convert``: any format to any other, without changing the votes."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.files import open_votes
from tests.support.cli_files import NAMES, make_samples, run

COLUMNAR = [pytest.param(name, marks=pytest.mark.extra) for name in ("parquet", "arrow")]
FORMATS = ["csv", "tsv", "jsonl", "npz", "npy", "json", "csv.gz", *COLUMNAR]


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.mark.parametrize("ending", FORMATS)
def test_there_and_back(ending, samples, tmp_path):
    if ending in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    other, back = tmp_path / f"votes.{ending}", tmp_path / "back.csv"
    said = run("convert", samples / "votes.csv", other)
    assert "300 items" in said
    assert "written" in said
    nameless = ending in ("npy", "json")  # codes alone; json is WRENCH in one file
    classes = [] if nameless else ["--classes", "ham,spam"]
    run("convert", other, back, *classes)
    first, last = open_votes(samples / "votes.csv").read(), open_votes(back).read()
    np.testing.assert_array_equal(last.votes.codes, first.votes.codes)
    if not nameless:
        assert (last.votes.classes, last.votes.names) == (("ham", "spam"), NAMES)
        assert list(last.ids) == list(first.ids)


def test_long_to_wide_and_back(samples, tmp_path):
    run(
        "convert",
        samples / "crowd.csv",
        tmp_path / "wide.csv",
        "--long",
        "task,worker,answer",
        "--to",
        "wide",
    )
    run("convert", tmp_path / "wide.csv", tmp_path / "long.csv", "--to", "long", "--item", "task")
    wide, long = open_votes(tmp_path / "wide.csv").read(), open_votes(tmp_path / "long.csv").read()
    assert (open_votes(tmp_path / "wide.csv").form, open_votes(tmp_path / "long.csv").form) == (
        "wide",
        "long",
    )
    again = long.votes.to_dense().matched_to(wide.votes.classes, wide.votes.names)
    np.testing.assert_array_equal(again.codes, np.asarray(wide.votes.codes))


@pytest.mark.parametrize("ending", ["csv", "jsonl", pytest.param("parquet", marks=pytest.mark.extra)])
def test_long_form_keeps_items_without_votes_and_the_name_of_their_column(tmp_path, ending):
    (tmp_path / "wide.csv").write_text("task,links,short\na,spam,\nb,,\nc,ham,ham\n")
    run("convert", tmp_path / "wide.csv", tmp_path / f"long.{ending}", "--to", "long")
    file = open_votes(tmp_path / f"long.{ending}")
    assert file.item_name == "task"
    assert list(file.read().ids) == ["a", "b", "c"]
    assert file.read().votes.to_dense().codes.tolist() == [[1, -1], [-1, -1], [0, 0]]


def test_the_form_stays_unless_asked(samples, tmp_path):
    run("convert", samples / "crowd.csv", tmp_path / "crowd.jsonl", "--long", "task,worker,answer")
    assert open_votes(tmp_path / "crowd.jsonl").form == "long"


def test_gold_labels_are_kept(samples, tmp_path):
    run("convert", samples / "judged.csv", tmp_path / "judged.jsonl", "--gold", "truth", "--quiet")
    first = open_votes(samples / "judged.csv", gold="truth").read()
    last = open_votes(tmp_path / "judged.jsonl", gold="gold").read()
    np.testing.assert_array_equal(first.gold_codes, last.gold_codes)


def test_a_wrench_directory(samples, tmp_path):
    (tmp_path / "wrench").mkdir()
    run("convert", samples / "votes.csv", tmp_path / "wrench")
    assert (tmp_path / "wrench").is_dir()
    assert "300 items" in run("inspect", tmp_path / "wrench")


def test_wrong_requests(samples, tmp_path):
    assert "--to" in run("convert", samples / "votes.csv", tmp_path / "v.npz", "--to", "long", code=2)
    assert "Use --output-format" in run("convert", samples / "votes.csv", tmp_path / "v.xyz", code=1)
    assert not list(tmp_path.iterdir())
