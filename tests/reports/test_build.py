"""The report: contents of the page, untrusted data, kinds of input, and writing the file."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import NotFittedError, OptionError, VotesError
from tests.support.report_data import HOSTILE, Reader, hostile, ordinary, watched_stream

pytestmark = pytest.mark.slow

FOLDER = os.environ.get("FLYINGSQUID_DATA")


@pytest.fixture(scope="module")
def page():
    return fs.report(**ordinary())


@pytest.fixture(scope="module")
def hostile_page():
    return fs.report(**hostile())


# ---------------------------------------------------------------------- escaping


def test_hostile_data_adds_no_element(hostile_page):
    """Only elements that the report writes, no handler, no address; every tag closed."""
    reader = Reader(hostile_page)
    assert reader.open == []
    ours = {tag for tag, _ in Reader(fs.report(**ordinary(), ordered=True)).elements}
    # Fields and reasons of missing votes are in the hostile data alone.
    assert {tag for tag, _ in reader.elements} <= ours | {"blockquote"}
    assert len(reader.of("script")) == len(reader.of("style")) == 1
    for _, attributes in reader.elements:
        assert not any(key.startswith("on") for key in attributes)
        assert not {"src", "style", "action", "srcdoc", "xlink:href"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")


def test_hostile_data_keeps_the_page_small(hostile_page):
    assert len(hostile_page.encode()) < 600_000
    assert "x" * 2_001 not in hostile_page
    assert "… (100,000 characters)" in hostile_page
    for text in HOSTILE:
        if "<" in text:
            assert text not in hostile_page


def test_policy_allows_this_style_and_this_script_alone(page):
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        inside = re.findall(f"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        assert len(inside) == 1
        digest = base64.b64encode(hashlib.sha256(inside[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_page_needs_nothing_else(page):
    text = page.replace("http://www.w3.org/2000/svg", "")  # a name, never loaded
    assert not re.search(r"https?://|url\(|@import|innerHTML|eval\(", text)


# ---------------------------------------------------------------------- what stands on the page


def test_every_plot_has_a_title_a_description_and_a_caption(page):
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert len(figures) >= 9
    for figure in figures:
        assert re.search(r"<h3>[^<]+</h3>", figure)
        assert "<figcaption>How to read it: " in figure
        drawing = re.sub(r'<ul class="key">.*?</ul>', "", figure, flags=re.DOTALL)
        assert ('role="img"' in drawing and "<desc>" in drawing) or "<table" in drawing


def test_sections_and_links_to_them(page):
    reader = Reader(page)
    anchors = {attributes["id"] for _, attributes in reader.elements if "id" in attributes}
    links = [attributes["href"] for attributes in reader.of("a")]
    assert {link.removeprefix("#") for link in links} <= anchors
    assert {
        "summary",
        "majority",
        "sources",
        "agreement",
        "dependencies",
        "labels",
        "influence",
        "items",
    } <= anchors
    assert len(re.findall(r'id="([^"]*)"', page)) == len(set(re.findall(r'id="([^"]*)"', page)))


def test_summary_comes_first_and_says_what_stands_out(page):
    words = "".join(Reader(re.search(r'<section id="summary".*?</section>', page, re.DOTALL)[0]).texts)
    assert words.startswith("Summary\n8 sources on 2,000 items")
    assert "Worse than chance: judge H." in words
    assert "judge A and judge B" in words  # they share errors


def test_table_has_every_source_with_its_numbers(page):
    given = ordinary()
    rows = fs.summarize(given["votes"], given["y"], model=fs.LabelModel().fit(given["votes"])).to_dict()
    table = re.search(r'<table class="sources sortable".*?</table>', page, re.DOTALL)[0]
    for source, accuracy, coverage in zip(rows["name"], rows["accuracy"], rows["coverage"], strict=True):
        row = re.search(rf"<tr><th[^>]*><bdi>{source}</bdi>.*?</tr>", table)[0]
        assert f"{accuracy:.1%}" in row
        assert f"{coverage:.1%}" in row


@pytest.mark.slow
def test_same_input_same_bytes():
    given = ordinary()
    assert fs.report(**given, ordered=True) == fs.report(**given, ordered=True)


def test_global_random_numbers_are_left_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    fs.report([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1]] * 10)
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_missing_votes_are_shown_by_reason():
    raw = [["yes", "no", "yes", "declined"], ["no", "??", "no", "no"], ["yes", "yes", "declined", "no"]] * 20
    votes = fs.Votes.from_classes(raw, reasons={"declined": "refused", "??": "unparseable"})
    text = fs.report(votes)
    assert "Why are votes missing?" in text
    assert "40 refused, 20 unparseable" in text
    assert "Why are votes missing?" not in fs.report([[0, 1, -1], [1, 1, 0], [0, -1, 0]] * 9)


def test_items_in_order_show_drift_and_name_the_right_source():
    stream = fs.datasets.simulate_drift(
        8_000, [0.7, 0.8, 0.75, 0.9], [0.7, 0.8, 0.75, 0.6], kind="sudden", random_state=0
    )
    text = fs.report(stream.votes, ordered=True)
    assert re.search(r"source 3 fell from \.\d\d to \.\d\d around item 4,\d\d\d", text)
    assert 'id="drift"' not in fs.report(stream.votes[:1_000])
    assert "at least 500 items" in fs.report(stream.votes[:100], ordered=True)


def test_history_of_a_stream_is_shown():
    stream, online = watched_stream()
    text = fs.report(stream.votes, model=online)
    assert str(online.changes()[0]) in text


# ---------------------------------------------------------------------- kinds of votes and models


def test_votes_without_a_model_still_give_a_page_that_says_why():
    text = fs.report([[-1, -1, -1]] * 5)
    assert "No label model could be fitted" in text
    assert "There is no model" in text


@pytest.mark.parametrize(
    "votes", [[[0], [1], [1]], [[0, 1, 0]], [[0, 0, 0]] * 5, [[0, 1], [1, 1], [-1, 0]]], ids=str
)
def test_very_few_votes(votes):
    assert Reader(fs.report(votes)).open == []


def test_a_silent_source_among_many_classes_is_named_and_breaks_nothing():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 3_000)
    votes = np.where(rng.random((3_000, 6)) < 0.7, y[:, None], rng.integers(0, 4, (3_000, 6)))
    text = fs.report(np.column_stack([votes, np.full(3_000, -1)]))
    assert "Sources that always abstain: source 6." in text
    assert "divide by zero" not in text


def test_many_classes_and_some_gold_labels():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, 900)
    votes = np.where(rng.random((900, 6)) < 0.7, y[:, None], rng.integers(0, 5, (900, 6)))
    text = fs.report(votes, y=np.where(np.arange(900) < 300, y, -1))
    assert "Accuracy on gold labels" in text
    assert "of 300" in text


@pytest.mark.slow
def test_sparse_crowd_of_hundreds_says_what_is_left_out():
    rng = np.random.default_rng(0)
    n, m = 600, 1_100
    items = np.repeat(np.arange(n), 8)
    workers = np.concatenate([rng.choice(m, 8, replace=False) for _ in range(n)])
    truth = rng.integers(0, 3, n)
    labels = np.where(rng.random(8 * n) < 0.7, truth[items], rng.integers(0, 3, 8 * n))
    votes = fs.Votes.from_long(items, [f"worker {w:04d}" for w in workers], labels)
    text = fs.report(votes, y=truth, data={i: f"item number {i}" for i in range(n)})
    assert len(text.encode()) < 1_500_000
    assert "20 best and the 20 worst" in text
    assert f"{votes.n_sources - 1_000} more sources" in text
    assert "item number" in text


def test_one_task_of_several_is_shown_when_named():
    graph = fs.DependencyGraph.chain(3, 3)
    sample = fs.datasets.simulate_graph(800, graph, 0.8, random_state=0)
    model = fs.LabelModel(graph).fit(sample.votes)
    with pytest.raises(OptionError, match="`task`"):
        fs.report(sample.votes, model=model)
    text = fs.report(sample.votes, sample.y, model=model, task=1)
    assert "800 items · 3 sources · 2 classes" in text
    assert "task 1" in text
    assert "source 4" in text


def test_given_dependencies_are_drawn():
    graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    sample = fs.datasets.simulate_graph(1_000, graph, 0.75, random_state=0)
    text = fs.report(sample.votes, model=fs.LabelModel(graph).fit(sample.votes))
    assert "which were given" in text
    assert text.count('class="source-edge"') == 1


def test_majority_vote_as_the_model():
    given = ordinary()
    text = fs.report(given["votes"], given["y"], model=fs.MajorityVote().fit(given["votes"]))
    assert "shares of the votes" in text


@pytest.mark.parametrize(
    ("wrong", "error", "parameter"),
    [
        ({"title": 3}, OptionError, "`title`"),
        ({"data": ["only one"]}, VotesError, "`data`"),
        pytest.param({"data": iter([])}, VotesError, "`data`", id="an iterator"),
        ({"data": "text"}, VotesError, "`data`"),
        ({"y": [0, 1]}, VotesError, "y"),
        ({"y": [None] * 40}, VotesError, "`y`"),
        ({"model": fs.LabelModel()}, NotFittedError, None),
        ({"model": "auto"}, OptionError, "`model`"),
    ],
    ids=str,
)
def test_wrong_input_is_refused(wrong, error, parameter):
    with pytest.raises(error, match=parameter):
        fs.report([[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1]] * 10, **wrong)


# ---------------------------------------------------------------------- items themselves


def tables():
    columns = {"text": [f"text of {i}" for i in range(40)], "size": list(range(40))}
    yield "mappings", [{"text": t, "size": s} for t, s in zip(*columns.values(), strict=True)]
    yield "texts", columns["text"]
    yield "array", np.array(columns["text"])
    try:
        import pandas as pd

        frame = pd.DataFrame(columns, index=range(7, 47))  # positions count, not the index
        yield "pandas", frame
        yield "pandas column", frame["text"]
    except ImportError:
        pass
    try:
        import polars as pl

        yield "polars", pl.DataFrame(columns)
    except ImportError:
        pass
    try:
        import pyarrow as pa

        yield "pyarrow", pa.table(columns)
    except ImportError:
        pass


@pytest.mark.parametrize("data", [pytest.param(data, id=kind) for kind, data in tables()])
def test_items_of_any_kind_of_table(data):
    votes = np.random.default_rng(0).integers(0, 2, (40, 5))
    text = fs.report(votes, data=data)
    first = re.search(r'<details class="item">.*?item (\d+)<.*?</details>', text, re.DOTALL)
    assert f"text of {first[1]}<" in first[0]


def test_items_are_looked_up_by_identifier():
    items, sources = ["b", "b", "b", "a", "a", "a"], ["x", "y", "z"] * 2
    votes = fs.Votes.from_long(items, sources, [0, 1, 1, 0, 0, 1])
    text = fs.report(votes, data={"a": "about a", "b": "about b"})
    assert re.search(r"<bdi>a</bdi>.*?about a", text, re.DOTALL)
    with pytest.raises(VotesError, match=r"`data`.*'b'"):
        fs.report(votes, data={"a": "about a"})


def test_an_identifier_is_not_repeated_as_the_text_of_an_item():
    ids = [f"document-{i:012}" for i in range(40)]  # longer than the texts
    codes = np.random.default_rng(0).integers(0, 2, (40, 5))
    votes = fs.Votes(codes.astype(np.int8), (0, 1), items=np.array(ids, object))
    text = fs.report(votes, data=[{"id": name, "text": f"text {i}"} for i, name in enumerate(ids)])
    previews = re.findall(r'<span class="gist"><bdi>(.*?)</bdi>', text)
    assert previews
    assert all(preview.startswith("text ") for preview in previews)


# ---------------------------------------------------------------------- writing


def test_page_is_written_whole_or_not_at_all(tmp_path):
    votes = [[0, 1, 1], [1, 1, 0], [0, 0, 0], [1, 0, 1]] * 10
    path = tmp_path / "report.html"
    path.write_text("what was there")
    assert fs.report(votes, path=path) == str(path)
    assert path.read_text("utf-8") == fs.report(votes)
    assert os.listdir(tmp_path) == ["report.html"]
    with pytest.raises(FileNotFoundError):
        fs.report(votes, path=tmp_path / "missing" / "report.html")
    with pytest.raises(OptionError, match="`path`"):
        fs.report(votes, path=tmp_path)
    with pytest.raises(VotesError):
        fs.report([[0, 1], [7.5, "x"]], path=path)
    assert path.read_text("utf-8") == fs.report(votes)


@pytest.mark.slow
def test_a_million_items_stay_below_three_megabytes():
    sample = fs.datasets.simulate(2_000, np.linspace(0.9, 0.6, 10), coverage=0.8, random_state=0)
    codes = np.tile(np.asarray(sample.votes.codes), (500, 1))
    text = fs.report(codes, y=np.tile(sample.y, 500), data=range(len(codes)))
    assert "1,000,000 items" in text
    assert len(text.encode()) < 3_000_000


# ---------------------------------------------------------------------- real judges


@pytest.mark.slow
@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
def test_the_summary_of_24_judges_is_correct():
    """By gold: the five best and worst judges named, none worse than chance, the most dependent pair."""
    folder = Path(str(FOLDER)) / "llm_civilcomments"
    with np.load(folder / "llm_civilcomments.npz") as arrays:
        votes, y = arrays["L"], arrays["Y"]
    names = json.loads((folder / "meta.json").read_text())["judges"]
    with gzip.open(folder / "texts.jsonl.gz", "rt") as lines:
        texts = [json.loads(line)["text"] for line in lines]
    text = fs.report(fs.Votes.from_classes(votes, names=names), y=y, data=texts)
    words = "".join(Reader(re.search(r'<section id="summary".*?</section>', text, re.DOTALL)[0]).texts)
    voted = votes >= 0
    right = ((votes == y[:, None]) & voted).sum(axis=0) / voted.sum(axis=0)
    order = [names[i] for i in np.argsort(-right)]
    assert "No source is significantly worse than chance" in words
    strongest = re.search(r"Strongest sources by gold labels: (.*?)\)\. ?(?=[A-Z])", words)[1]
    weakest = re.search(r"Weakest sources: (.*?)\)\. ?(?=[A-Z])", words)[1]
    assert all(judge in strongest for judge in order[:5])
    assert all(judge in weakest for judge in order[-5:])
    assert "Llama-3.1-8B-Instruct and gemma-2-9b-it" in words


def test_sources_without_names_keep_their_numbers_in_every_chart():
    """Selecting sources of unnamed votes numbers them again; the heat map must not."""
    sample = fs.datasets.simulate(600, [0.6, 0.7, 0.8, 0.9], random_state=0)
    text = fs.report(sample.votes, sample.y)
    heat_map = re.search(r'<section id="agreement".*?</section>', text, re.DOTALL)[0]
    assert "1 = source 3" in heat_map


@pytest.mark.parametrize("kind", ["table", "series"])
def test_pandas_data_is_joined_by_item(kind):
    pd = pytest.importorskip("pandas")
    votes = fs.Votes.from_long(["a", "a", "b", "b", "b"], ["x", "y", "x", "y", "z"], [0, 1, 0, 1, 1])
    texts = pd.Series({"b": "about b", "a": "about a"})
    text = fs.report(votes, data=texts if kind == "series" else texts.to_frame("text"))
    assert text.index("about a") > text.index("<bdi>a</bdi>")
    for name in "ab":
        item = text[text.index(f'<span class="id"><bdi>{name}</bdi>') :]
        assert item.index(f"about {name}") < item.index("</details>")
    by_number = fs.report([[0, 1], [1, 0]], data=pd.Series(["first", "second"], index=[7, 5]))
    assert "first" in by_number
