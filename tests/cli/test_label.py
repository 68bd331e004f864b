"""``flyingsquid label``: its files, its messages and its errors."""

from __future__ import annotations

import csv
import json
import os
import re

import numpy as np
import pytest
from click.testing import CliRunner

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.cli.inputs import LoadedVotes
from flyingsquid.cli.main import main
from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes
from tests.support.cli_files import NAMES, make_samples, simulate, texts, write_csv, write_wide


@pytest.fixture(scope="module")
def samples(tmp_path_factory):
    return make_samples(tmp_path_factory.mktemp("samples"))


@pytest.fixture
def folder(samples, tmp_path, monkeypatch):
    """An empty directory to write to; the samples are in ../samples."""
    monkeypatch.chdir(tmp_path)
    for name in os.listdir(samples):
        os.link(samples / name, tmp_path / name)
    return tmp_path


def run(*words: object, code: int = 0, limits: dict[str, int] | None = None):
    with use_limits(**(limits or {})):
        result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


def label(*words: object, code: int = 0, limits: dict[str, int] | None = None):
    return run("label", *words, code=code, limits=limits)


def rows_of(path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def probabilities(path, classes=("ham", "spam")) -> np.ndarray:
    return np.array([[float(row[f"p_{c}"]) for c in classes] for row in rows_of(path)])


def test_labels_are_those_of_the_library(folder):
    said = label("votes.csv", "-o", "labels.csv").output
    votes = open_votes("votes.csv").read().votes
    model = fs.LabelModel().fit(votes)
    rows = rows_of("labels.csv")
    assert list(rows[0]) == ["id", "label", "p_ham", "p_spam", "n_votes", "tied"]
    assert [row["id"] for row in rows] == [f"m{i}" for i in range(300)]
    assert [row["label"] for row in rows] == model.predict(votes).tolist()
    np.testing.assert_allclose(probabilities("labels.csv"), model.predict_proba(votes), rtol=0, atol=1e-15)
    assert [int(row["n_votes"]) for row in rows] == (votes.codes >= 0).sum(axis=1).tolist()
    assert "300 items, 5 sources, classes ham/spam, blank = abstain, wide form" in said
    assert str(model.summary()) in said
    assert str(model.diagnostics_.verdict) in said
    assert "The model disagrees with majority vote on" in said
    assert re.search(r"labels\.csv: 300 labels \(ham: \d+, spam: \d+\)", said)


def test_chunks_give_the_labels_of_memory(folder):
    label("votes.csv", "-o", "whole.csv")
    limits = {"loaded_cells": 0, "chunk_rows": 7}
    said = label("votes.csv", "-o", "chunks.csv", limits=limits).output
    assert "distinct rows" in said
    np.testing.assert_allclose(probabilities("chunks.csv"), probabilities("whole.csv"), atol=1e-12)
    assert [r["label"] for r in rows_of("chunks.csv")] == [r["label"] for r in rows_of("whole.csv")]
    words = ("judged.csv", "-o", "with-gold.csv", "--gold", "truth", "--report", "r.html")
    with_gold = label(*words, limits=limits).output
    again = label("judged.csv", "-o", "gold2.csv", "--gold", "truth").output
    compared = [line for line in with_gold.splitlines() if line.startswith(("model ", "majority vote "))]
    assert len(compared) == 2
    assert all(line in again for line in compared)


def test_a_kept_model_labels_the_same_and_other_votes(folder):
    label("votes.csv", "-o", "a.csv", "--model", "kept.fsq")
    label("votes.csv", "-o", "b.csv", "--with-model", "kept.fsq")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    assert fs.load("kept.fsq").source_names_ == NAMES
    # Columns in another order, and a class that nobody votes for there.
    write_csv(folder / "few.csv", ["id", *NAMES[::-1]], [["x", "", "", "", "", "ham"], ["y"] + [""] * 5])
    said = label("few.csv", "-o", "few-labels.csv", "--with-model", "kept.fsq").output
    first, second = rows_of("few-labels.csv")
    assert (first["label"], first["n_votes"], second["n_votes"]) == ("ham", "1", "0")
    assert "Items without votes (n_votes is 0): 1." in said
    label("few.csv", "-o", "z.csv", "--with-model", "kept.fsq", "--method", "covariance", code=2)
    label("few.csv", "-o", "z.csv", "--with-model", "kept.fsq", "--model", "n.fsq", code=2)
    write_csv(folder / "odd.csv", ["id", "links", "other"], [["x", "spam", "ham"]])
    refused = label("odd.csv", "-o", "z.csv", "--with-model", "kept.fsq", code=1).output
    assert "missing 'caps', 'sender'" in refused.splitlines()[-1]
    assert not (folder / "z.csv").exists()


@pytest.mark.parametrize("order", [1, -1])
def test_gold_labels_of_a_file_are_joined_by_identifier(folder, order):
    """A file in any order has the effect of a column."""
    rows = list(csv.DictReader((folder / "judged.csv").read_text("utf-8").splitlines()))
    header = next(iter(rows[0]))
    lines = [f"{row[header]},{row['truth']}" for row in rows if row["truth"]][::order]
    (folder / "gold.csv").write_text("\n".join([f"{header},gold", *lines]) + "\n", encoding="utf-8")
    by_column = ("judged.csv", "--gold", "truth", "--json", "-o")
    by_file = ("judged.csv", "--gold", "gold.csv", "--ignore", "truth", "--json", "-o")
    column, file = label(*by_column, "a.csv").output, label(*by_file, "b.csv").output
    assert json.loads(file)["comparison"] == json.loads(column)["comparison"]
    label(*by_column, "c.csv", "--learn-from-gold")
    label(*by_file, "d.csv", "--learn-from-gold")
    assert (folder / "c.csv").read_bytes() == (folder / "d.csv").read_bytes()


def test_gold_labels_of_unknown_items_are_refused(folder):
    (folder / "gold.csv").write_text("id,gold\nnobody,spam\n", encoding="utf-8")
    result = label("judged.csv", "-o", "a.csv", "--gold", "gold.csv", "--ignore", "truth", code=1)
    assert "nobody" in result.output
    assert not (folder / "a.csv").exists()


def test_gold_labels_are_compared_and_never_learned_silently(folder):
    said = label("judged.csv", "-o", "a.csv", "--gold", "truth").output
    assert "On 150 items with gold labels" in said
    assert "F1 (spam)" in said
    assert "optimistic" not in said
    label("votes.csv", "-o", "b.csv")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    said = label("judged.csv", "-o", "c.csv", "--gold", "truth", "--learn-from-gold").output
    assert "optimistic" in said
    assert (folder / "c.csv").read_bytes() != (folder / "b.csv").read_bytes()
    label("judged.csv", "-o", "d.csv", "--learn-from-gold", code=2)


def test_json_is_all_there_is_on_standard_output(folder):
    result = label("judged.csv", "-o", "labels.csv", "--gold", "truth", "--json", "--report", "r.html")
    found = json.loads(result.output)
    assert found["votes"]["items"] == 300
    assert found["votes"]["classes"] == ["ham", "spam"]
    assert sum(found["labels"]["counts"].values()) == 300
    assert found["sources"]["source"] == list(NAMES)
    assert found["comparison"]["n_gold"] == 150
    assert 0.5 < found["comparison"]["model"]["accuracy"] <= 1
    assert found["use_model"] == (found["verdict_kind"] == "recommended")
    label("votes.csv", "-o", "-", "--json", code=2)


def test_labels_on_standard_output_are_alone_there(folder):
    result = label("votes.csv", "-o", "-")
    lines = (getattr(result, "stdout_bytes", None) or result.output.encode()).decode().splitlines()
    at = lines.index("id,label,p_ham,p_spam,n_votes,tied")
    assert len(lines[at:]) >= 301
    assert (
        label("votes.csv", "-o", "-", "--quiet").output.splitlines()[0]
        == "id,label,p_ham,p_spam,n_votes,tied"
    )
    quiet = label("votes.csv", "-o", "-", "--quiet", "--output-format", "jsonl").output
    assert [json.loads(line)["id"] for line in quiet.splitlines()] == [f"m{i}" for i in range(300)]


def test_votes_from_standard_input(folder):
    result = CliRunner().invoke(
        main, ["label", "-", "-o", "labels.csv"], input=(folder / "votes.csv").read_bytes()
    )
    assert result.exit_code == 0
    assert "standard input: 300 items" in result.output


def test_long_form_and_wide_form_give_the_same_labels(folder):
    label("votes.csv", "-o", "wide.csv", "--method", "covariance")
    label("crowd.csv", "-o", "long.csv", "--long", "task,worker,answer", "--method", "covariance")
    wide = {row["id"]: row for row in rows_of("wide.csv")}
    rows = rows_of("long.csv")
    assert next(iter(rows[0])) == "task"
    for row in rows:  # items without any vote are not in a file of votes
        other = wide[row["task"].replace("t", "m")]
        assert (row["label"], row["n_votes"]) == (other["label"], other["n_votes"])
        assert float(row["p_ham"]) == pytest.approx(float(other["p_ham"]), abs=0.02)


def test_a_model_of_a_crowd_labels_votes_of_some_of_it(folder):
    label("crowd.csv", "-o", "a.csv", "--long", "task,worker,answer", "--model", "crowd.fsq")
    write_csv(
        folder / "few.csv", ["task", "worker", "answer"], [["t0", "sender", "ham"], ["t0", "caps", "ham"]]
    )
    label("few.csv", "-o", "b.csv", "--long", "task,worker,answer", "--with-model", "crowd.fsq")
    (row,) = rows_of("b.csv")
    model = fs.load("crowd.fsq")
    alone = {"sender": "ham", "caps": "ham"}
    codes = [[0 if name in alone else -1 for name in model.source_names_]]
    wanted = model.predict_proba(fs.Votes(np.array(codes, np.int8), ("ham", "spam"), model.source_names_))
    assert float(row["p_ham"]) == pytest.approx(wanted[0, 0])
    write_csv(folder / "new.csv", ["task", "worker", "answer"], [["t0", "newcomer", "ham"]])
    said = label(
        "new.csv", "-o", "c.csv", "--long", "task,worker,answer", "--with-model", "crowd.fsq", code=1
    )
    assert "newcomer" in said.output


def test_signed_votes_only_with_the_option(folder):
    said = label("signed.npy", "-o", "a.csv").output
    assert "--signed" in said
    assert "classes 0/1" in said
    said = label("signed.npy", "-o", "b.csv", "--signed").output
    assert {row["label"] for row in rows_of("b.csv")} == {"-1", "1"}
    label("signed.npy", "-o", "c.csv", "--signed", "--model", "signed.fsq")
    label("signed.npy", "-o", "d.csv", "--with-model", "signed.fsq")  # the model stores that
    assert (folder / "c.csv").read_bytes() == (folder / "d.csv").read_bytes()


def test_clips_label_every_row(folder):
    codes, _ = simulate(302)
    codes[[7, 8]] = -1
    write_wide(folder / "frames302.csv", codes)
    said = label("frames302.csv", "-o", "labels.csv", "--graph", "chain:6", "--model", "chain.fsq").output
    assert "links 1/6" in said
    assert "Labels are based on the rows around them" in said
    assert len(rows_of("labels.csv")) == 302
    votes = open_votes("frames302.csv").read().votes
    graph = fs.DependencyGraph.chain(6, 5)
    clips = np.asarray(votes.codes)[:300].reshape(-1, 6, 5)
    model = fs.LabelModel(graph).fit(clips)
    wanted = model.predict_proba(clips).reshape(-1, 2)
    np.testing.assert_allclose(probabilities("labels.csv")[:300], wanted, atol=1e-12)
    label("frames302.csv", "-o", "again.csv", "--with-model", "chain.fsq", "--report", "r.html")
    assert (folder / "labels.csv").read_bytes() == (folder / "again.csv").read_bytes()
    (folder / "chain.json").write_text(graph.to_json())
    label("frames302.csv", "-o", "third.csv", "--graph", "chain.json")
    assert (folder / "labels.csv").read_bytes() == (folder / "third.csv").read_bytes()


def test_graphs_of_sources(folder):
    graph = fs.DependencyGraph(5, source_edges=[(3, 4)])
    (folder / "graph.json").write_text(graph.to_json())
    label("votes.csv", "-o", "a.csv", "--graph", "graph.json")
    label("votes.csv", "-o", "b.csv", "--graph", "learn")
    (folder / "wrong.json").write_text("{}")
    assert "wrong.json" in label("votes.csv", "-o", "c.csv", "--graph", "wrong.json", code=2).output
    (folder / "tasks.json").write_text(fs.DependencyGraph.chain(2, 3).to_json())
    assert "once per task" in label("votes.csv", "-o", "c.csv", "--graph", "tasks.json", code=1).output
    label("votes.csv", "-o", "c.csv", "--graph", "chain:1", code=2)
    label("votes.csv", "-o", "c.csv", "--graph", "nowhere.json", code=2)


def test_class_balance_by_position_and_by_name(folder):
    label("votes.csv", "-o", "a.csv", "--class-balance", "0.9,0.1", "--method", "covariance")
    label("votes.csv", "-o", "b.csv", "--class-balance", "spam=0.1,ham=0.9", "--method", "covariance")
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    label("votes.csv", "-o", "c.csv", "--class-balance", "estimate")
    assert "ham, spam" in label("votes.csv", "-o", "d.csv", "--class-balance", "a=0.5,b=0.5", code=2).output
    label("votes.csv", "-o", "d.csv", "--class-balance", "much", code=2)
    refused = label("votes.csv", "-o", "d.csv", "--class-balance", "0.9,0.2", "--quiet", code=1).output
    assert refused.startswith("Error: ")
    assert "must sum to 1" in refused


def test_ties_are_broken_by_the_option(folder):
    rows = [
        [i, a, b, c] for i, (a, b, c) in enumerate([("y", "n", ""), ("n", "n", "n"), ("y", "y", "y")] * 40)
    ]
    write_csv(folder / "ties.csv", ["id", "a", "b", "c"], [*rows, [999, "", "", ""]])
    words = ("ties.csv", "--class-balance", "uniform", "--method", "triplet")
    label(*words, "-o", "first.csv")
    said = label(*words, "-o", "none.csv", "--tie-break", "abstain").output
    assert rows_of("first.csv")[-1]["label"] == "n"
    assert rows_of("none.csv")[-1]["label"] == ""
    assert "no label: " in said
    label(*words, "-o", "r0.csv", "--tie-break", "random")
    label(*words, "-o", "r1.csv", "--tie-break", "random", "--seed", "0")
    assert (folder / "r0.csv").read_bytes() == (folder / "r1.csv").read_bytes()


def test_many_classes(folder):
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 4, 500)
    votes = np.where(rng.random((500, 6)) < 0.7, truth[:, None], rng.integers(0, 4, (500, 6)))
    rows = [[i, *(f"class {v}" for v in row)] for i, row in enumerate(votes.tolist())]
    write_csv(folder / "many.csv", ["id", *"abcdef"], rows)
    label("many.csv", "-o", "labels.csv")
    found = [int(row["label"].split()[1]) for row in rows_of("labels.csv")]
    assert np.mean(np.array(found) == truth) > 0.9
    assert list(rows_of("labels.csv")[0])[2:6] == [f"p_class {k}" for k in range(4)]


def test_a_report_of_a_large_file_is_about_a_part(folder):
    words = ("votes.csv", "-o", "labels.csv", "--report", "report.html")
    said = label(*words, limits={"sampled_items": 100}).output
    assert "report.html: report of a sample of 100 items" in said
    assert "100 items" in (folder / "report.html").read_text("utf-8")


def test_parts_that_were_left_out_to_save_memory_are_named(folder):
    limits = {"loaded_cells": 0}
    with use_limits(distinct_rows=5):
        said = label("votes.csv", "-o", "labels.csv", limits=limits).output
    assert "from counts, because there are more than 5 distinct rows" in said
    rows = [[i, *row, ""] for i, row in enumerate([["x", "y", "x"], ["y", "y", "x"]] * 20)]
    write_csv(folder / "none.csv", ["id", "a", "b", "c", "truth"], rows)
    words = ("none.csv", "-o", "b.csv", "--gold", "truth")
    assert "Column truth contains no gold labels" in label(*words, limits=limits).output


def test_a_file_of_gold_labels_that_is_not_filled_in_is_named(folder):
    write_csv(folder / "to_label.csv", ["id", "gold"], [["0", ""], ["1", ""]])
    rows = [[i, *row] for i, row in enumerate([["x", "y", "x"], ["y", "y", "x"]] * 20)]
    write_csv(folder / "votes3.csv", ["id", "a", "b", "c"], rows)
    said = label("votes3.csv", "-o", "b.csv", "--gold", "to_label.csv", code=1).output
    assert "Error: to_label.csv: The file contains no gold labels" in said


def test_a_graph_is_learned_from_chunks_too(folder):
    codes, _ = simulate(2_000)
    codes = np.column_stack([codes, codes[:, 1]])
    codes[::7, 5] = 1 - np.maximum(codes[::7, 5], 0)  # nearly a copy
    write_csv(
        folder / "copies.csv", ["id", *NAMES, "copy"], [[i, *row] for i, row in enumerate(texts(codes))]
    )
    label("copies.csv", "-o", "whole.csv", "--graph", "learn", "--model", "whole.fsq")
    words = ("copies.csv", "-o", "chunks.csv", "--graph", "learn", "--model", "chunks.fsq")
    with use_limits(distinct_rows=5):
        label(*words, limits={"loaded_cells": 0})
    whole, chunks = fs.load("whole.fsq"), fs.load("chunks.fsq")
    assert whole.graph_.source_edges == chunks.graph_.source_edges != ()
    assert whole.moments_ == chunks.moments_


def test_a_report_of_many_clips_is_about_some(folder):
    limits = {"sampled_items": 60}
    words = ("frames.csv", "-o", "a.csv", "--graph", "chain:6", "--report", "r.html", "--model", "c.fsq")
    assert "of row 4 of clips of 6, 10 of them" in label(*words, limits=limits).output
    assert "of row 4" in run("report", "frames.csv", "-o", "s.html", "--with-model", "c.fsq").output
    words = ("report", "frames.csv", "-o", "t.html", "--with-model", "c.fsq", "--data", "texts.csv")
    assert "models of clips" in run(*words, code=1).output


def test_formats_that_cannot_be_written_are_found_out_first(folder, monkeypatch):
    def absent(*_words):
        raise VoteFileError("parquet requires pyarrow")

    monkeypatch.setattr("flyingsquid.files.outputs.import_pyarrow", absent)
    assert label("votes.csv", "-o", "a.parquet", code=1).output == "Error: parquet requires pyarrow\n"


def test_an_output_without_a_format_names_the_option_of_the_output(folder):
    assert "Use --output-format" in label("votes.csv", "-o", "a.xyz", code=1).output


def test_commands_that_need_all_votes_refuse_too_many(folder):
    words = ("judged.csv", "-o", "labels.csv", "--gold", "truth", "--learn-from-gold")
    limits = {"loaded_cells": 10, "most_cells": 100}
    assert "--learn-from-gold needs all votes in memory" in label(*words, code=1, limits=limits).output
    assert not (folder / "labels.csv").exists()


def test_names_in_any_script_reach_any_terminal(folder):
    header, rows = ["id", "ссылки", "大写", "c"], [[i, "да", "да", "нет"] for i in range(5)]
    write_csv(folder / "names.csv", header, [*rows, *([i + 5, "нет", "нет", "нет"] for i in range(5))])
    result = CliRunner(charset="ascii").invoke(main, ["label", "names.csv", "-o", "labels.csv"])
    assert result.exit_code == 0, result.output
    assert {row["label"] for row in rows_of("labels.csv")} == {"да", "нет"}


def test_strings_agree_with_codes():
    assert texts(np.array([[-1, 0, 1]])) == [["", "ham", "spam"]]


@pytest.mark.parametrize("most", [1, 7, 299, 300, 1000])
@pytest.mark.parametrize("whole", [True, False])
def test_items_are_spread_evenly(folder, most, whole):
    with use_limits(loaded_cells=1 << 24 if whole else 0, sampled_items=most):
        chunk, step = LoadedVotes.load(open_votes("votes.csv", chunk_rows=11)).sample()
    assert [str(each) for each in chunk.ids] == [f"m{i}" for i in range(0, 300, step)]
    assert chunk.votes.n_items <= most
    assert chunk.votes.n_items == -(-300 // step)


def test_new_workers_are_left_out_of_later_tasks(folder):
    rng = np.random.default_rng(0)
    rows = [[f"t{i}", f"w{j}", str(rng.choice(["cat", "dog"]))] for i in range(40) for j in range(4)]
    write_csv(folder / "crowd.csv", ["task", "worker", "label"], rows)
    label("crowd.csv", "-o", "first.csv", "--model", "crowd.fsq")
    write_csv(folder / "known.csv", ["task", "worker", "label"], rows[:6])
    write_csv(folder / "later.csv", ["task", "worker", "label"], [*rows[:6], ["t1", "eve", "dog"]])
    label("known.csv", "-o", "known-labels.csv", "--with-model", "crowd.fsq")
    said = label(
        "later.csv", "-o", "later-labels.csv", "--with-model", "crowd.fsq", "--report", "r.html"
    ).output
    assert "left out: 'eve'" in said
    assert "left out: 'eve'" in run("analyze", "later.csv", "--with-model", "crowd.fsq").output
    assert "left out: 'eve'" in run("report", "later.csv", "-o", "s.html", "--with-model", "crowd.fsq").output
    assert (folder / "later-labels.csv").read_bytes() == (folder / "known-labels.csv").read_bytes()


def test_control_codes_in_classes_do_not_reach_the_terminal(folder):
    rows = "".join(f'm{i},"{a}","{b}","{a}"\n' for i in range(9) for a, b in [("h\nam", "s\x1b[31mpam")])
    (folder / "odd.csv").write_text(f"id,a,b,c\n{rows}", encoding="utf-8")
    output = label("odd.csv", "-o", "odd-labels.csv").output
    assert "\x1b" not in output
    assert "classes h am/s" in output
    assert rows_of("odd-labels.csv")[0]["label"] == "h\nam"


def test_gold_labels_that_are_something_else(folder):
    rows = [f"k{i},{'ham' if i % 2 else 'spam'},ham,spam,{'spma' if i == 7 else 'ham'}" for i in range(300)]
    (folder / "v.csv").write_text("\n".join(["key,a,b,c,known", *rows]))
    said = label("v.csv", "-o", "labels.csv", "--gold", "key", code=1).output
    assert "'key' has at least 300 different values on 300 rows and is probably not the gold labels" in said
    assert not (folder / "labels.csv").exists()
    said = label("v.csv", "-o", "labels.csv", "--gold", "known").output
    assert "No source votes for 'spma'" in " ".join(said.split())
