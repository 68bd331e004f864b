"""The engine: votes, labels, filters, gold labels and undo."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError
from flyingsquid.studio.columns import read_items
from flyingsquid.studio.project import Project
from flyingsquid.studio.workspace import Workspace
from tests.studio.support import RULES, open_workspace, spam_features

SIMILAR = {"kind": "similarity", "item": 0, "at_least": 0.9, "label": 1}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    with open_workspace(tmp_path_factory.mktemp("studio")) as workspace:
        yield workspace


def test_table_equals_the_label_model(workspace):
    state = workspace.state()
    view = workspace.view
    votes = fs.Votes(np.stack(view.columns, axis=1), ("ham", "spam"), view.names)
    model = fs.LabelModel(classes=("ham", "spam")).fit(votes)
    shown = [row["accuracy"] for row in state["sources"]]
    np.testing.assert_allclose(shown, model.accuracies_)
    np.testing.assert_allclose([row["coverage"] for row in state["sources"]], model.coverage_)
    np.testing.assert_allclose([each["share"] for each in state["balance"]], model.class_balance_)
    assert state["verdict"]["kind"] == model.diagnostics_.verdict.kind
    assert state["sampled"] is None
    covered = (votes.codes >= 0).any(axis=1)
    assert state["labels"]["covered"] == covered.sum() == sum(state["labels"]["by_class"])


def test_conflicts_are_those_counted_item_by_item(workspace):
    codes = np.stack(workspace.view.columns, axis=1)
    for j, row in enumerate(workspace.state()["sources"]):
        expected = np.mean([v[j] >= 0 and any(w >= 0 and w != v[j] for w in v) for v in codes])
        assert row["conflicts"] == pytest.approx(expected)


def test_filters_and_orders(workspace):
    codes = np.stack(workspace.view.columns, axis=1)
    uncovered = workspace.list_items("uncovered", limit=500)
    assert [each["index"] for each in uncovered["items"]] == np.flatnonzero((codes < 0).all(axis=1)).tolist()
    assert all(each["label"] is None for each in uncovered["items"])
    for each in workspace.list_items("disagreement", limit=500)["items"]:
        assert len({vote for vote in each["votes"] if vote is not None}) == 2
    of_source = workspace.list_items("source", source="s2")
    assert of_source["total"] == (codes[:, 1] >= 0).sum()
    ordered = workspace.list_items("uncertain", order="uncertain", limit=500)["items"]
    assert np.all(np.diff([max(each["proba"]) for each in ordered]) >= 0)
    spam = workspace.list_items("class", label=1, limit=500)
    assert spam["total"] == workspace.state()["labels"]["by_class"][1]
    assert {each["label"] for each in spam["items"]} == {1}
    chosen = workspace.list_items("indexes", indexes=[7, 3, 9999])
    assert [each["index"] for each in chosen["items"]] == [7, 3]
    found = workspace.list_items(search="GREAT Song", limit=500)
    assert found["total"] > 0
    assert all("great song" in each["text"] for each in found["items"])
    with pytest.raises(OptionError, match="filter"):
        workspace.list_items("nothing")
    assert workspace.list_items(offset=10_000)["items"] == []


def test_explanation_adds_up(workspace):
    index = workspace.list_items("disagreement")["items"][0]["index"]
    found = workspace.item(index)
    proba = found["item"]["proba"]
    assert {each["source"] for each in found["explanation"]} <= set(workspace.view.names)
    assert any(each["log_odds"] < 0 for each in found["explanation"])
    assert max(proba) == proba[found["item"]["label"]]
    with pytest.raises(OptionError, match="item"):
        workspace.item(400)


def test_changing_the_class_of_a_rule_needs_no_new_matching(workspace):
    jobs = len(workspace._columns._jobs)
    workspace.act({"type": "update_source", "id": "s1", "source": {**RULES[0], "label": 0}})
    assert len(workspace._columns._jobs) == jobs
    assert workspace.state()["sources"][0]["votes"][1] == 0
    workspace.undo()
    assert workspace.state()["sources"][0]["votes"][0] == 0


@pytest.mark.slow
def test_votes_of_many_previews_are_forgotten_but_not_those_of_sources(tmp_path, monkeypatch):
    from flyingsquid.studio import columns

    monkeypatch.setattr(columns, "_KEPT_BYTES", 0)
    with open_workspace(tmp_path) as workspace:
        for i in range(columns._KEPT_MORE + 10):
            workspace.preview({"kind": "keywords", "words": [f"word{i}"], "label": 1})
        assert len(workspace._columns._jobs) <= len(RULES) + columns._KEPT_MORE
        kept = dict(workspace._columns._codes)
        workspace.act({"type": "set_gold", "items": [1], "label": 1})
        assert [row["status"] for row in workspace.state()["sources"]] == ["ready"] * 4
        assert workspace._columns._codes == kept


def test_undo_and_redo_restore_the_table(workspace):
    def table():
        return [(row["id"], row["accuracy"], row["enabled"]) for row in workspace.state()["sources"]]

    before = table()
    workspace.act({"type": "set_enabled", "id": "s2", "enabled": False})
    after = table()
    assert after != before
    assert workspace.state()["history"]["undo"].startswith("Disable rule /free")
    workspace.undo()
    assert table() == before
    workspace.redo()
    assert table() == after
    workspace.undo()
    workspace.act({"type": "remove_source", "id": "s4"})
    assert workspace.state()["history"]["redo"] is None  # a new action removes what was undone
    with pytest.raises(OptionError, match="redo"):
        workspace.redo()
    workspace.undo()
    assert table() == before


def test_removing_a_source_changes_as_many_labels_as_announced(workspace):
    workspace.settle()
    rows = {row["id"]: row for row in workspace.state()["sources"]}
    announced = rows["s3"]["effect"]["changed"]
    workspace.act({"type": "remove_source", "id": "s3"})
    assert workspace.state()["labels"]["changed"] == announced > 0
    workspace.undo()


def test_preview_counts_matches_and_stores_nothing(workspace):
    found = workspace.preview({"kind": "regex", "pattern": "drums|channel", "label": 1})
    texts = workspace.items.columns["text"]
    assert found["matches"] == sum("drums" in text or "channel" in text for text in texts)
    assert "drums" in found["examples"][0]["text"] or "channel" in found["examples"][0]["text"]
    assert len(workspace.project.state.sources) == 4
    with pytest.raises(OptionError) as raised:
        workspace.preview({"kind": "regex", "pattern": "(", "label": 1})
    assert raised.value.parameter == "pattern"


@pytest.mark.parametrize(
    ("action", "field"),
    [
        ({"type": "nothing"}, "type"),
        ({"type": "add_source", "source": {"kind": "keywords", "words": [], "label": 1}}, "words"),
        ({"type": "add_source", "source": {"kind": "keywords", "words": ["a"], "label": 2}}, "label"),
        ({"type": "add_source", "source": {**RULES[0], "column": "none"}}, "column"),
        ({"type": "add_source", "source": {**RULES[3], "column": "text"}}, "column"),
        ({"type": "add_source", "source": {**RULES[3], "operator": "~"}}, "operator"),
        ({"type": "add_source", "source": {**RULES[3], "value": float("nan")}}, "value"),
        ({"type": "add_source", "source": SIMILAR}, "kind"),
        ({"type": "add_source", "source": {"kind": "regex", "pattern": "\ud800", "label": 1}}, "pattern"),
        ({"type": "remove_source", "id": "s99"}, "id"),
        ({"type": "set_gold", "items": [400], "label": 1}, "items"),
        ({"type": "set_gold", "items": [1], "label": True}, "label"),
        ({"type": "set_classes", "classes": ["only"]}, "classes"),
        ({"type": "set_columns", "text": "none"}, "column"),
        ({"type": "accept_suggestion", "id": "none"}, "id"),
        ({"type": "add_source", "source": {**RULES[3], "value": 10**400}}, "value"),
        ({"type": "set_classes", "classes": ["ham", "spam", " ham "]}, "classes"),
        # These could be written to a project file, but not read again.
        ({"type": "set_classes", "classes": ["ham", "\ud800"]}, "type"),
        ({"type": "reject_suggestion", "id": "\udfff"}, "type"),
        ({"type": "set_gold", "items": [1], "label": 1, "note": float("inf")}, "type"),
    ],
)  # fmt: skip
def test_invalid_actions_change_nothing(workspace, action, field):
    before = workspace.project.to_json()
    with pytest.raises(OptionError) as raised:
        workspace.act(action)
    assert raised.value.parameter == field
    assert workspace.project.to_json() == before


def test_gold_labels_enter_the_fit_and_the_comparison(tmp_path):
    with open_workspace(tmp_path) as workspace:
        assert workspace.state()["comparison"] is None
        for i in range(15):
            workspace.act({"type": "set_gold", "items": [i], "label": int(i % 5 < 2)})
        state = workspace.state()
        assert state["gold"] == {"count": 15, "by_class": [9, 6]}
        assert state["comparison"]["gold"] == workspace.view.fit.model.n_gold_ == 15
        low, high = state["comparison"]["majority"]["interval"]
        assert low <= state["comparison"]["majority"]["accuracy"] <= high
        assert not {each["index"] for each in workspace.next_items(10)["items"]} & set(range(15))
        workspace.act({"type": "set_gold", "items": list(range(15)), "label": None})
        assert workspace.state()["gold"]["count"] == 0


def test_a_sample_is_fitted_first_and_all_items_after(tmp_path):
    with open_workspace(tmp_path, n=3_000, sample_size=1_000) as workspace:
        workspace.act({"type": "set_gold", "items": [5, 6, 2_995, 2_996], "label": 1})
        workspace.act({"type": "set_gold", "items": [7, 8, 2_997, 2_998], "label": 0})
        state = workspace.state()
        assert 1_000 <= state["sampled"] <= 1_008
        exact = [row["coverage"] for row in state["sources"]]
        workspace.settle()
        refined = workspace.state()
        assert refined["sampled"] is None
        assert refined["revision"] > state["revision"]
        assert [row["coverage"] for row in refined["sources"]] == exact
        view = workspace.view
        votes = fs.Votes(np.stack(view.columns, axis=1), view.classes, view.names)
        gold = [None] * 3_000
        gold[5] = gold[6] = gold[2_995] = gold[2_996] = "spam"
        gold[7] = gold[8] = gold[2_997] = gold[2_998] = "ham"
        whole = fs.LabelModel(classes=view.classes).fit(votes, gold=gold)
        np.testing.assert_allclose([row["accuracy"] for row in refined["sources"]], whole.accuracies_)
        assert all(row["effect"] is not None for row in refined["sources"])


def test_vote_columns_are_the_first_sources(tmp_path):
    with open_workspace(tmp_path, rules=[], with_votes=True) as workspace:
        state = workspace.state()
        assert state["classes"] == ["ham", "spam"]
        assert [row["kind"] for row in state["sources"]] == ["column"]
        assert state["sources"][0]["coverage"] == 1


def test_similarity_to_an_item(tmp_path):
    with open_workspace(tmp_path, features=spam_features()) as workspace:
        workspace.act({"type": "add_source", "source": SIMILAR})
        row = workspace.state()["sources"][-1]
        assert row["votes"] == [0, 160]  # two of five comments are spam
        assert workspace.item(0)["neighbors"][0]["similarity"] > 0.9


def test_text_column_can_be_chosen(tmp_path):
    with open_workspace(tmp_path) as workspace:
        before = workspace.state()["sources"][0]["coverage"]
        workspace.act({"type": "set_columns", "text": "likes"})
        workspace.wait()
        assert workspace.state()["data"]["text_column"] == "likes"
        assert workspace.state()["sources"][0]["coverage"] == 0
        workspace.undo()
        workspace.wait()
        assert workspace.state()["sources"][0]["coverage"] == before


@pytest.mark.slow
def test_functions_of_a_watched_file(tmp_path):
    import time

    file = tmp_path / "functions.py"
    code = (
        "import flyingsquid as fs\n\n@fs.labeling_function\ndef begs(x):\n"
        "    return {} if 'subscribe' in x.text else None\n"
    )
    file.write_text(code.format("'spam'"))
    with open_workspace(tmp_path, functions=file, background=True) as workspace:
        assert workspace.state()["data"]["functions"] == [{"file": "functions.py", "function": "begs"}]
        source = {"kind": "function", "file": "functions.py", "function": "begs"}
        workspace.act({"type": "add_source", "source": source})
        workspace.wait()
        texts = workspace.items.columns["text"]
        row = workspace.state()["sources"][-1]
        assert row["votes"] == [0, sum("subscribe" in text for text in texts)]

        def wait_for(condition):
            deadline = time.monotonic() + 60
            while not condition(workspace.state()["sources"][-1]):
                assert time.monotonic() < deadline
                time.sleep(0.02)

        file.write_text(code.format("'ham'"))
        wait_for(lambda row: row["votes"] and row["votes"][0] > 0)
        file.write_text("raise ValueError('broken on purpose')")
        wait_for(lambda row: row["status"] == "error" and "broken on purpose" in row["error"])
        assert any("broken on purpose" in message for message in workspace.state()["messages"])
        file.write_text(code.format("1"))  # a vote that is not a class
        wait_for(lambda row: row["status"] == "error" and "begs" in row["error"])
        file.write_text(code.format("'spam'"))
        wait_for(lambda row: row["status"] == "ready" and row["votes"] and row["votes"][1] > 0)


@pytest.mark.parametrize("n_llm", [1, 2])
def test_columns_that_share_no_class_do_not_add_classes(tmp_path, n_llm):
    rng = np.random.default_rng(0)
    topics, lines = ["praise", "refund"], [["text", "stars", "channel", "llm", "other"][: 3 + n_llm]]
    for i in range(60):
        votes = [topics[rng.integers(2)] for _ in range(n_llm)]
        lines.append([f"word{i} text", "" if i % 9 == 0 else str(i % 5 + 1), ["chat", "mail"][i % 2], *votes])
    path = tmp_path / "tickets.csv"
    path.write_text("\n".join(map(",".join, lines)))
    items = read_items(path)
    assert items.kinds["stars"] == "number"
    assert items.kinds["channel"] == "vote"
    project = Project.open(tmp_path / "tickets.studio.json", len(items), items.name)
    with Workspace(items, project, background=False) as workspace:
        assert list(workspace.project.state.classes) == (topics if n_llm == 2 else [])
        assert len(workspace.project.state.sources) == (2 if n_llm == 2 else 0)
