"""``flyingsquid analyze``, ``report`` and ``inspect``."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.analysis import findings, panel_report
from flyingsquid.cli.analysis import analyze, records_of
from flyingsquid.cli.console import Console, describe
from flyingsquid.cli.inputs import LoadedVotes
from flyingsquid.exceptions import Hint, Note, OptionError, VoteFileError
from flyingsquid.files import open_votes
from tests.support.cli_files import NAMES, make_samples, run, write_csv


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_samples(tmp_path)


def test_analyze_prints_the_results_of_the_library(folder):
    said = run("analyze", "judged.csv", "--gold", "truth")
    chunk = open_votes("judged.csv", gold="truth").read()
    model = fs.LabelModel().fit(chunk.votes)
    assert str(fs.summarize(chunk.votes, chunk.gold, model=model)) in said
    for sentence in findings(chunk.votes, chunk.gold, model=model).sentences():
        assert f"- {sentence}\n" in said
    assert "Pairs that agree most beyond chance" in said
    assert re.search(r"^majority vote +\d", said, re.MULTILINE)


def test_analyze_as_json(folder):
    found = json.loads(run("analyze", "judged.csv", "--gold", "truth", "--json", "--pairs", "3"))
    assert found["items_analyzed"] == 300
    assert found["sources"]["name"] == list(NAMES)
    assert len(found["pairs"]["source"]) == 3
    assert found["comparison"]["n_gold"] == 150
    assert found["findings"][0].startswith("5 sources on 300 items")


def test_analyze_by_a_kept_model_and_without_any(folder):
    assert "accuracy" in run("analyze", "more.csv", "--with-model", "spam.fsq")
    np.save("one.npy", np.array([[0], [1], [1], [0]], np.int8))
    assert "4 items, 1 source, classes 0/1" in run("analyze", "one.npy")


@pytest.fixture
def panel(folder):
    pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    right = rng.random((200, 4, 2)) < [[0.9], [0.8], [0.8], [0.7]]
    votes = fs.Votes.from_panel(np.where(right, y[:, None, None], 1 - y[:, None, None]), judges=list("abcd"))
    votes.to_pandas().to_csv("panel.csv", index_label="id")
    return votes


def test_analyze_a_panel(panel):
    said = run("analyze", "panel.csv", "--layout", "{judge}|{order}")
    assert str(panel_report(panel)) in said
    found = json.loads(run("analyze", "panel.csv", "--layout", "{judge}|{order}", "--json"))
    assert found["panel"]["judges"]["judge"] == list("abcd")
    assert json.loads(run("analyze", "panel.csv", "--json"))["panel"] is None


def test_replicates_without_a_layout_are_pointed_out(panel):
    hint = "Use --layout '{judge}|{order}' to combine them"
    assert hint in run("label", "panel.csv", "-o", "labels.csv")
    assert hint in run("analyze", "panel.csv")
    assert hint not in run("analyze", "panel.csv", "--layout", "{judge}|{order}")
    assert hint not in run("analyze", "judged.csv")


def test_report_and_label_a_panel(panel):
    run("report", "panel.csv", "-o", "panel.html", "--layout", "{judge}|{order}")
    with open("panel.html", encoding="utf-8") as file:
        assert 'id="panel"' in file.read()
    said = run("label", "panel.csv", "-o", "labels.csv", "--layout", "{judge}|{order}")
    assert str(panel_report(panel)) in said
    assert "Method: panel" in said


def test_a_panel_with_one_row_per_answer(panel):
    lines = ["pair,rater,turn,said"]
    for item, row in enumerate(np.asarray(panel.codes).tolist()):
        lines += [f"{item},{s.judge},{s.order},{'xy'[k]}" for s, k in zip(panel.structure, row, strict=True)]
    named = ["item,judge,order,verdict", *lines[1:]]
    for path, rows in (("calls.csv", lines), ("named.csv", named)):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(rows))
    options = ("--long", "pair,rater,said", "--panel", "order=turn")
    said = run("label", "calls.csv", "-o", "labels.csv", *options)
    assert re.search(r"^a +2 .*\d+% \[", said, re.MULTILINE)
    assert "position_bias" in said
    assert "--layout" not in said
    found = json.loads(run("label", "named.csv", "-o", "labels.csv", "--force", "--json"))
    assert found["panel"]["judges"]["judge"] == list("abcd")
    assert found["method"] == "panel"
    assert json.loads(run("analyze", "named.csv", "--json"))["panel"] == found["panel"]
    run("report", "calls.csv", "-o", "calls.html", *options)
    with open("calls.html", encoding="utf-8") as file:
        assert 'id="panel"' in file.read()
    assert json.loads(run("label", "votes.csv", "-o", "other.csv", "--json"))["panel"] is None
    for invalid in ("order", "order=", "=turn"):
        assert "judge=rater" in run("label", "calls.csv", "-o", "x.csv", "--panel", invalid, code=2)
    assert "--panel" in run("label", "calls.csv", "-o", "x.csv", "--panel", "judge=rater", "--wide", code=2)


def test_a_layout_needs_all_votes_in_memory(panel):
    with use_limits(loaded_cells=10, most_cells=20), pytest.raises(OptionError, match="--layout"):
        LoadedVotes.load(open_votes("panel.csv"), layout="{judge}|{order}")


def test_analyze_looks_at_a_part_of_a_large_file(folder):
    assert "A sample of 100 items" in run("analyze", "votes.csv", limits={"sampled_items": 100})


def test_a_report_shows_the_items(folder):
    run(
        "report",
        "judged.csv",
        "-o",
        "report.html",
        "--gold",
        "truth",
        "--data",
        "texts.csv",
        "--title",
        "My mails",
    )
    page = (folder / "report.html").read_text("utf-8")
    assert "My mails" in page
    assert "mail &lt;b&gt;" in page
    assert "mail <b>" not in page


@pytest.mark.parametrize("most", [300, 60])  # all items, and a sample of every fifth
def test_a_report_names_items_by_their_identifiers(folder, most):
    run("report", "votes.csv", "-o", "report.html", limits={"sampled_items": most})
    named = re.findall(r'class="id"><bdi>(.*?)</bdi>', (folder / "report.html").read_text("utf-8"))
    ids = open_votes("votes.csv").read().ids[:: 300 // most]
    assert named
    assert set(named) <= set(ids)


@pytest.mark.parametrize(
    "ending", ["txt", "jsonl", "csv", "json", pytest.param("parquet", marks=pytest.mark.extra)]
)
def test_items_from_any_file_in_the_order_of_the_votes(folder, ending):
    texts = [f"text number {i}" for i in range(300)]
    path = folder / f"items.{ending}"
    if ending == "txt":
        path.write_text("\n".join(texts) + "\n")
    elif ending == "csv":
        write_csv(path, ["text"], [[text] for text in texts])
    elif ending == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table({"text": texts}), path)
    else:
        records = [{"text": text} for text in texts]
        lines = json.dumps(records) if ending == "json" else "\n".join(map(json.dumps, records))
        path.write_text(lines)
    run("report", "votes.csv", "-o", "report.html", "--data", path)
    page = (folder / "report.html").read_text("utf-8")
    assert re.search(r"text number \d+", page)
    votes = LoadedVotes.load(open_votes("votes.csv"))
    found = records_of(votes.loaded, str(path), votes)
    assert [record if ending == "txt" else record["text"] for record in found] == texts


def test_items_by_identifier_in_any_order(folder):
    write_csv(folder / "mixed.csv", ["text", "id"], [[f"text {i}", f"m{i}"] for i in reversed(range(400))])
    votes = LoadedVotes.load(open_votes("votes.csv"))
    found = records_of(votes.loaded, "mixed.csv", votes)
    assert [record["text"] for record in found] == [f"text {i}" for i in range(300)]


def test_items_that_do_not_fit_the_votes(folder):
    write_csv(folder / "short.csv", ["text"], [["only one"]])
    assert "300 rows" in run("report", "votes.csv", "-o", "r.html", "--data", "short.csv", code=1)
    write_csv(folder / "other.csv", ["id", "text"], [["m0", "only one"]])
    assert "'m1'" in run("report", "votes.csv", "-o", "r.html", "--data", "other.csv", code=1)
    assert not (folder / "r.html").exists()


def test_a_report_where_no_model_can_be_fitted(folder):
    np.save("two.npy", np.array([[0, 1], [1, -1], [-1, 0]] * 5, np.int8))
    run("report", "two.npy", "-o", "r.html")
    assert (folder / "r.html").exists()


def test_inspect_votes(folder):
    said = run("inspect", "judged.csv", "--gold", "truth")
    for words in (
        "300 items",
        "Format: csv",
        "column 'id'",
        "links, caps, sender",
        "Gold labels: column 'truth'",
    ):
        assert words in said
    found = json.loads(run("inspect", "crowd.csv", "--long", "task,worker,answer", "--json"))
    assert (found["kind"], found["form"], found["items"]) == ("votes", "long", 300)


def test_inspect_models_and_counts(folder):
    said = run("inspect", "spam.fsq")
    model = fs.load("spam.fsq")
    assert "LabelModel, from 300 items, 5 sources, classes ham/spam" in said
    assert f"Written by FlyingSquid {fs.__version__}" in said
    assert str(model.summary()) in said
    found = json.loads(run("inspect", "spam.fsq", "--json"))
    assert found["method"] == model.diagnostics_.method
    assert found["sources"] == list(NAMES)
    model.moments_.save("counts.fsq")
    assert "Moments, from 300 items, 5 sources" in run("inspect", "counts.fsq")
    votes = np.asarray(open_votes("votes.csv").read().votes.codes)
    fs.SequenceLabelModel().fit(votes).save("sequence.fsq")
    assert "SequenceLabelModel" in run("inspect", "sequence.fsq")
    online = fs.OnlineLabelModel(window=250, classes=[0, 1])
    for start in range(0, 300, 20):
        online.partial_fit(votes[start : start + 20])
    online.save("online.fsq")
    said = run("inspect", "online.fsq")  # parameters are older than the window
    assert "OnlineLabelModel, after 300 items of a stream" in said
    assert online.status_ in said
    found = json.loads(run("inspect", "online.fsq", "--json"))
    assert (found["items"], found["window"], found["status"]) == (300, 250, online.status_)
    fs.OnlineLabelModel(classes=[0, 1]).partial_fit(votes[:20]).save("young.fsq")
    assert "20 of 100 items to warm up" in run("inspect", "young.fsq")  # no parameters yet
    fs.MajorityVote().fit(votes).save("majority.fsq")
    assert "MajorityVote" in run("inspect", "majority.fsq")
    chunk = open_votes("judged.csv", gold="truth").read()
    fs.MultiLabelModel().fit({"spam": chunk.votes.codes}).save("labels.fsq")
    assert "0 sources" not in run("inspect", "labels.fsq")


def test_label_by_every_kind_of_model(folder):
    votes = open_votes("votes.csv").read().votes
    for model in (fs.MajorityVote(), fs.SequenceLabelModel(), fs.OnlineLabelModel(classes=["ham", "spam"])):
        fitted = model.partial_fit(votes) if isinstance(model, fs.OnlineLabelModel) else model.fit(votes)
        fitted.save("kept.fsq")
        run("label", "votes.csv", "-o", "labels.csv", "--with-model", "kept.fsq", "--force")
        rows = [line.split(",") for line in (folder / "labels.csv").read_text().splitlines()[1:]]
        found = np.array([[float(row[2]), float(row[3])] for row in rows])
        np.testing.assert_allclose(found, fitted.predict_proba(votes), atol=1e-12)
    said = run("label", "votes.csv", "-o", "a.csv", "--with-model", "counts.fsq", code=2)
    assert "counts.fsq" in said
    fs.Moments.of(votes).save("counts.fsq")
    assert "a model that labels rows" in run(
        "label", "votes.csv", "-o", "a.csv", "--with-model", "counts.fsq", code=1
    )


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        (Hint("item", "to choose one"), " Use --item to choose one."),
        (Hint("item", "if none", False), " Use --no-item if none."),
        (Hint("gold", "to use it", "y"), " Use --gold y to use it."),
        (Hint("ignore", "to leave them out", ["a", "b"]), " Use --ignore a,b to leave them out."),
        (Hint("header", "if so", False), " Use --no-header if so."),
        (Hint("header", "if so", True), " Use --header if so."),
        (Hint("form", "if so", "wide"), " Use --wide if so."),
        (Hint("format", "to read it", "npy"), " Use --format npy to read it."),
        (Hint("signed", "to read it", True), " Use --signed to read it."),
        (Hint("overwrite", "to replace it", True), ""),  # analyze writes nothing
        (Hint("form", "to write it", "long"), ""),
        (Hint("chunk_rows", "to read less"), ""),
    ],
)
def test_hints_become_options_of_the_command(hint, shown):
    assert describe(Note("So it is.", (hint,)), analyze) == f"So it is.{shown}"
    error = VoteFileError("So it is.", hints=[hint], path="v.csv", line=3)
    assert describe(error, analyze) == f"v.csv, line 3: So it is.{shown}"
    assert str(error) == f"v.csv, line 3: So it is. {hint}"


def test_parameters_become_options_of_the_command():
    assert describe(OptionError("No.", parameter="classes"), analyze) == "Invalid value for --classes: No."
    assert describe(OptionError("No.", parameter="chunk_rows"), analyze) == "No."
    assert describe(OptionError("No.", parameter="classes"), None) == "No."


def test_long_tables_are_cut(capsys):
    table = fs.summarize(np.zeros((3, 100), np.int8) + np.arange(3, dtype=np.int8)[:, None] % 2)
    Console().table(table)
    assert "... and 40 more rows" in capsys.readouterr().out
