"""``flyingsquid label --features``: labels of the library, models that are used again, and refusals."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array, save_npz

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.cli.main import main
from flyingsquid.files import open_votes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A directory with votes on 600 items and their features."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 600)
    features = rng.normal(2 * y[:, None] - 1, 1.5, (600, 3))
    votes = np.where(rng.random((600, 4)) < 0.75, y[:, None], 1 - y[:, None])
    votes = np.where(rng.random((600, 4)) < 0.4, votes, -1)
    with open("votes.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "a", "b", "c", "d", "truth"])
        for i, row in enumerate(votes):
            names = ["" if vote < 0 else ("ham", "spam")[vote] for vote in row]
            writer.writerow([f"m{i}", *names, ("ham", "spam")[y[i]]])
    np.save("X.npy", features)
    np.savez("X.npz", features)
    save_npz("sparse.npz", csr_array(features))
    return tmp_path


def label(*words: object, code: int = 0, limits: dict[str, int] | None = None) -> str:
    with use_limits(**(limits or {})):
        result = CliRunner().invoke(main, ["label", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def read_probabilities(path: str) -> np.ndarray:
    with open(path, newline="", encoding="utf-8") as file:
        return np.array([[float(row["p_ham"]), float(row["p_spam"])] for row in csv.DictReader(file)])


@pytest.mark.parametrize("name", ["X.npy", "X.npz", "sparse.npz"])
def test_labels_are_those_of_the_library(folder, name):
    said = label("votes.csv", "-o", "labels.csv", "--features", name, "--ignore", "truth")
    votes, features = open_votes("votes.csv", ignore=["truth"]).read().votes, np.load("X.npy")
    model = fs.LabelModel().fit(votes, features=features)
    expected = model.predict_proba(votes, features=features)
    np.testing.assert_allclose(read_probabilities("labels.csv"), expected, atol=1e-6)
    assert model.diagnostics_.features.sentence() in said
    assert "Labels are based on features alone." in said


def test_files_that_do_not_fit_into_memory_are_read_in_chunks(folder):
    words = ("votes.csv", "-o", "labels.csv", "--features", "X.npy", "--ignore", "truth", "--force")
    label(*words)
    expected = read_probabilities("labels.csv")
    label(*words, limits={"loaded_cells": 10, "most_cells": 20})
    np.testing.assert_allclose(read_probabilities("labels.csv"), expected, atol=1e-4)


def test_a_saved_model_labels_the_same_way(folder):
    label("votes.csv", "-o", "a.csv", "--features", "X.npy", "--ignore", "truth", "--model", "m.fsq")
    label("votes.csv", "-o", "b.csv", "--features", "X.npy", "--ignore", "truth", "--with-model", "m.fsq")
    np.testing.assert_array_equal(read_probabilities("a.csv"), read_probabilities("b.csv"))
    label("votes.csv", "-o", "c.csv", "--ignore", "truth", "--with-model", "m.fsq")
    assert np.abs(read_probabilities("c.csv") - read_probabilities("a.csv")).max() > 0.1


def test_json_has_the_effect(folder):
    words = ("votes.csv", "-o", "labels.csv", "--gold", "truth", "--json")
    with_features = json.loads(label(*words, "--features", "X.npy"))
    assert with_features["features"]["n_columns"] == 3
    plain = json.loads(label(*words, "--force"))
    assert plain["features"] is None
    assert with_features["comparison"]["model"]["accuracy"] > plain["comparison"]["model"]["accuracy"]


def test_files_that_do_not_fit_are_refused(folder):
    np.save("short.npy", np.zeros((5, 2)))
    np.savez("two.npz", a=np.zeros((600, 1)), b=np.zeros((600, 1)))
    for name in ("short.npy", "two.npz", "votes.csv"):
        said = label("votes.csv", "-o", "labels.csv", "--ignore", "truth", "--features", name, code=2)
        assert name in said
    assert not (folder / "labels.csv").exists()


def test_votes_in_long_form_are_refused(folder):
    label("votes.csv", "-o", "plain.csv", "--ignore", "truth", "--model", "plain.fsq")
    said = label(
        "votes.csv",
        "-o",
        "l.csv",
        "--ignore",
        "truth",
        "--features",
        "X.npy",
        "--with-model",
        "plain.fsq",
        code=2,
    )
    assert "features" in said
    (folder / "long.csv").write_text("item,source,label\n" + "i,a,x\ni,b,y\nj,a,x\nj,b,x\n", encoding="utf-8")
    np.save("two.npy", np.zeros((2, 2)))
    said = label("long.csv", "-o", "l.csv", "--long", "item,source,label", "--features", "two.npy", code=2)
    assert "one row per item" in said


def test_reports_label_with_features(folder):
    words = ("votes.csv", "-o", "labels.csv", "--ignore", "truth", "--features", "X.npy")
    label(*words, "--report", "report.html", "--model", "m.fsq")
    assert "those of votes and features" in (folder / "report.html").read_text(encoding="utf-8")
    report = ["report", "votes.csv", "--ignore", "truth", "--features", "X.npy", "-o"]
    for name, extra in (("fitted.html", ()), ("loaded.html", ("--with-model", "m.fsq"))):
        result = CliRunner().invoke(main, [*report, name, *extra], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        assert "those of votes and features" in (folder / name).read_text(encoding="utf-8")
