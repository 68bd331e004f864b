"""Exported rules cast the same votes as the page, by fs.apply on csv rows and on pandas tables."""

from __future__ import annotations

import csv
import types

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra [studio] is not installed")

import flyingsquid as fs
from flyingsquid.studio.rules import name_sources, read_source
from flyingsquid.studio.server import export, list_exports
from tests.studio.support import RULES, open_workspace, spam_features

pd = pytest.importorskip("pandas")

HOSTILE = 'quote " and \' and \\ and {brace} and """ and \n newline'


def load_rules(code: bytes, directory):
    path = directory / "rules.py"
    path.write_bytes(code)
    module = types.ModuleType("rules")
    module.__file__ = str(path)
    exec(compile(code, str(path), "exec"), vars(module))
    return module


@pytest.mark.parametrize("reader", ["csv", "pandas"])
def test_exported_rules_cast_the_same_votes(tmp_path, reader):
    features = spam_features()
    np.save(tmp_path / "features.npy", features)
    (tmp_path / "functions.py").write_text(
        "import flyingsquid as fs\n\n@fs.labeling_function\ndef long(x):\n"
        "    return 'ham' if len(x.text) > 30 else None\n"
    )
    rules = [
        *RULES,
        {"kind": "keywords", "words": [HOSTILE, "drums"], "label": 0, "whole_words": False, "name": HOSTILE},
        {"kind": "regex", "pattern": r"\bvideo\b", "label": 0, "ignore_case": False},
        {"kind": "regex", "pattern": r"\bVIDEO\b", "label": 0},
        {"kind": "regex", "pattern": r"\bVIDEO\b", "label": 0, "name": r"/\bVIDEO\b/"},
        {"kind": "comparison", "column": "likes", "operator": "<", "value": 2.5, "label": 1},
        {"kind": "comparison", "column": "likes", "operator": "==", "value": 4, "label": 1},
        {"kind": "similarity", "item": 0, "at_least": 0.9, "label": 1},
        {"kind": "column", "column": "annotator", "name": "copy"},
        {"kind": "function", "file": "functions.py", "function": "long"},
    ]
    with open_workspace(
        tmp_path, rules=rules, with_votes=True, features=features, features_name="features.npy",
        functions=tmp_path / "functions.py",
    ) as workspace:  # fmt: skip
        assert [row["status"] for row in workspace.state()["sources"]] == ["ready"] * 14
        code, _ = export(workspace, "rules.py")
        labels = export(workspace, "labels.csv")[0].decode().splitlines()
        view = workspace.view
    module = load_rules(code, tmp_path)
    if reader == "csv":
        with (tmp_path / "comments.csv").open(newline="", encoding="utf-8") as file:
            data = list(csv.DictReader(file))
    else:
        data = pd.read_csv(tmp_path / "comments.csv")
    votes = fs.apply(module.FUNCTIONS, data, classes=module.CLASSES)
    assert votes.source_names == view.names
    np.testing.assert_array_equal(votes.codes, np.stack(view.columns, axis=1))
    predicted = fs.LabelModel().fit_predict(votes)
    covered = (votes.codes >= 0).any(axis=1)
    shown = np.array([line.split(",")[1] for line in labels[1:]])
    np.testing.assert_array_equal(shown[covered], predicted[covered])
    assert set(shown[~covered]) <= {""}


def test_disabled_sources_are_not_exported(tmp_path):
    with open_workspace(tmp_path) as workspace:
        workspace.act({"type": "set_enabled", "id": "s1", "enabled": False})
        assert b"subscribe" not in export(workspace, "rules.py")[0]


def test_model_labels_and_report(tmp_path):
    with open_workspace(tmp_path, n=3_000, sample_size=500) as workspace:
        assert set(list_exports(workspace)) >= {"rules.py", "labels.csv", "model.fsq", "report.html"}
        path = tmp_path / "model.fsq"
        path.write_bytes(export(workspace, "model.fsq")[0])
        view = workspace.view
        votes = fs.Votes(np.stack(view.columns, axis=1), view.classes, view.names)
        # Of all items, although the page shows a sample.
        np.testing.assert_allclose(
            fs.load(path).accuracies_, fs.LabelModel(classes=view.classes).fit(votes).accuracies_
        )
        assert b"<!DOCTYPE html>" in export(workspace, "report.html")[0]
        parquet = tmp_path / "labels.parquet"
        parquet.write_bytes(export(workspace, "labels.parquet")[0])
        table = pd.read_parquet(parquet)
        assert list(table["id"][:2]) == ["c0", "c1"]
        assert len(table) == 3_000


def test_a_new_project_exports_rules_only(tmp_path):
    with open_workspace(tmp_path, rules=[]) as workspace:
        assert list_exports(workspace) == ["rules.py", "project.json"]
        module = load_rules(export(workspace, "rules.py")[0], tmp_path)
        assert module.FUNCTIONS == []


def test_names_are_unique():
    rule = read_source({"kind": "regex", "pattern": "a", "label": 0}, 2, 10)
    assert name_sources([rule, rule, {**rule, "name": "/a/ (2)"}]) == ["/a/", "/a/ (2)", "/a/ (2) (2)"]
