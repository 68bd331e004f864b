"""Suggested rules follow from the current labels, and only a person adds them."""

from __future__ import annotations

import numpy as np
import pytest

from flyingsquid.studio.rules import OPERATORS
from flyingsquid.studio.worker import match
from tests.studio.support import RULES, open_workspace


def matches_of(workspace, source):
    items = workspace.items
    if source["kind"] == "comparison":
        return OPERATORS[source["operator"]](items.numbers(source["column"]), source["value"])
    return match(source, items.columns["text"]) > 0


@pytest.fixture
def workspace(tmp_path):
    with open_workspace(tmp_path, n=1_000) as workspace:
        workspace.find_suggestions()
        yield workspace


@pytest.mark.slow
def test_numbers_of_suggestions_are_those_of_their_matches(workspace):
    found = workspace.suggestions()
    assert found["status"] == "ready"
    assert len(found["suggestions"]) >= 4
    covered = workspace.view.summary.covered
    for each in found["suggestions"]:
        matches = matches_of(workspace, each["source"])
        label = each["source"]["label"]
        assert each["coverage"] == matches.sum()
        assert each["new_items"] == (matches & ~covered).sum()
        assert each["precision"] == pytest.approx(
            workspace.view.proba[matches & covered, label].mean(), abs=1e-6
        )
        low, high = each["interval"]
        assert 0 <= low <= each["precision"] <= high <= 1
        for other in each["overlap"]:
            column = workspace.view.columns[[e.id for e in workspace.view.entries].index(other["source"])]
            assert other["share"] == pytest.approx((matches & (column >= 0)).sum() / matches.sum())


def test_suggestions_find_words_that_tell_the_classes_apart(workspace):
    spam = np.arange(1_000) % 5 < 2
    first = workspace.suggestions()["suggestions"][:4]
    for each in first:
        matches = matches_of(workspace, each["source"])
        assert np.mean(spam[matches] == each["source"]["label"]) > 0.7
    assert {each["source"]["label"] for each in workspace.suggestions()["suggestions"]} == {0, 1}


def test_one_threshold_per_column_and_class(tmp_path):
    with open_workspace(tmp_path, n=1_000, rules=RULES[:3]) as workspace:
        workspace.find_suggestions()
        found = [each["source"] for each in workspace.suggestions()["suggestions"]]
        compared = [(each["column"], each["label"]) for each in found if each["kind"] == "comparison"]
        assert ("likes", 0) in compared  # comments with many likes are not spam
        assert len(set(compared)) == len(compared)


def test_nothing_is_added_without_a_click(workspace):
    assert len(workspace.state()["sources"]) == 4
    first = workspace.suggestions()["suggestions"][0]
    workspace.act({"type": "accept_suggestion", "id": first["id"]})
    assert workspace.suggestions()["status"] == "working"  # until they follow from the new labels
    workspace.wait()
    assert workspace.state()["sources"][-1]["source"] == first["source"]
    assert first["id"] not in {each["id"] for each in workspace.suggestions()["suggestions"]}
    workspace.find_suggestions()
    assert first["id"] not in {each["id"] for each in workspace.suggestions()["suggestions"]}
    workspace.undo()
    assert len(workspace.state()["sources"]) == 4


def test_rejected_suggestions_do_not_return_unless_undone(workspace):
    first = workspace.suggestions()["suggestions"][0]["id"]
    workspace.act({"type": "reject_suggestion", "id": first})
    for _ in range(2):
        assert first not in {each["id"] for each in workspace.suggestions()["suggestions"]}
        workspace.find_suggestions()
    workspace.undo()
    workspace.find_suggestions()
    assert first in {each["id"] for each in workspace.suggestions()["suggestions"]}


@pytest.mark.slow
def test_suggestions_of_a_sample_are_scaled_to_all_items(tmp_path):
    with open_workspace(tmp_path, n=4_000, sample_size=1_000) as workspace:
        workspace.find_suggestions()
        for each in workspace.suggestions()["suggestions"][:5]:
            assert each["coverage"] == pytest.approx(matches_of(workspace, each["source"]).sum(), rel=0.25)


def test_no_labels_no_suggestions(tmp_path):
    with open_workspace(tmp_path, rules=[]) as workspace:
        assert workspace.suggestions() == {"status": "working", "suggestions": []}
        workspace.find_suggestions()
        assert workspace.suggestions() == {"status": "ready", "suggestions": []}
