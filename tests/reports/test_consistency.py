"""The report agrees with itself, with the library and with the command line: every number that appears twice.

Percentages are compared as they are printed, so that a reader never sees two different numbers for one thing.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid._values import format_count
from flyingsquid.analysis import agreement, compare_with_majority, contested_items, disagreement_buckets
from flyingsquid.analysis.findings import describe_balance, findings
from flyingsquid.files import write_votes
from tests.support.cli_files import run
from tests.support.report_data import Page

pytestmark = pytest.mark.slow
DATA = os.environ.get("FLYINGSQUID_DATA")


def _rules(n, rng):
    """Return votes of one-sided rules, some of which fire together, on imbalanced items."""
    y = (rng.random(n) < 0.3).astype(int)
    sides = np.array([0, 1, 0, 1, 1, 0])
    fires = rng.random((n, 6)) < np.where(y[:, None] == sides, 0.35, 0.08)
    fires[:, 3] |= fires[:, 1] & (rng.random(n) < 0.5)
    return fs.Votes.from_classes(np.where(fires, sides, -1), classes=(0, 1)), y


def _many_classes(n, rng):
    sample = fs.datasets.simulate_graph(
        n, fs.DependencyGraph(5), [0.85, 0.7, 0.6, 0.6, 0.5], n_classes=4, coverage=0.6, random_state=rng
    )
    return sample.votes, np.asarray(sample.y).ravel()


def _simulated(accuracies, n=800, **options):
    sample = fs.datasets.simulate(n, accuracies, random_state=0, **options)
    return sample.votes, np.asarray(sample.y)


def _dependent(n):
    graph = fs.DependencyGraph(8, source_edges=[(0, 1), (2, 3)])
    sample = fs.datasets.simulate_graph(n, graph, 0.75, random_state=0)
    return sample.votes, np.asarray(sample.y).ravel()


def _embedded():
    data = fs.datasets.load_breast_cancer()
    return data.votes, np.asarray(data.y)


DATASETS = {
    "clean": lambda: _simulated([0.9, 0.8, 0.7, 0.7, 0.6]),
    "imbalanced": lambda: _simulated([0.85, 0.8, 0.75, 0.7], coverage=0.5, class_balance=[0.85, 0.15]),
    "adversary": lambda: _simulated([0.9, 0.85, 0.8, 0.75, 0.3]),
    "ties": lambda: _simulated([0.75, 0.75, 0.75, 0.75], coverage=0.7),
    "coins": lambda: _simulated([0.8, 0.8, 0.5, 0.5, 0.5]),
    "two sources": lambda: _simulated([0.8, 0.7]),
    "rules": lambda: _rules(800, np.random.default_rng(0)),
    "four classes": lambda: _many_classes(800, np.random.default_rng(0)),
    "dependent": lambda: _dependent(1_000),
    "breast cancer": _embedded,
}
REAL = ("youtube", "crowd_rte", "prompted_youtube", "weather")


def _real(name):
    with np.load(Path(DATA or "") / name / f"{name}.npz", allow_pickle=False) as data:
        key = "" if "L" in data.files else "_train"
        return fs.Votes.from_classes(data[f"L{key}"][:1_000]), data[f"Y{key}"][:1_000]


def _parameters():
    for name in DATASETS:
        yield from (pytest.param((name, with_gold), id=f"{name}-{with_gold}") for with_gold in (False, True))
    needs_data = pytest.mark.skipif(not DATA, reason="FLYINGSQUID_DATA is not set")
    yield from (pytest.param((name, True), id=name, marks=needs_data) for name in REAL)


@pytest.fixture(scope="module", params=_parameters())
def case(request, tmp_path_factory):
    """Return votes, gold labels or None, the model, the page, and the output of the command line."""
    name, with_gold = request.param
    votes, y = DATASETS[name]() if name in DATASETS else _real(name)
    gold = y if with_gold else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fs.LabelModel().fit(votes)
        page = Page(fs.report(votes, gold, model=model))
    folder = tmp_path_factory.mktemp("case")
    labels = [label if label in votes.classes else None for label in y.tolist()] if with_gold else None
    write_votes(folder / "votes.csv", votes, gold=labels)
    return votes, gold, model, page, folder


def _options(gold):
    return [] if gold is None else ["--gold", "gold"]


def _percents(text):
    return re.findall(r"[\d.]+%", text)


def test_tiles_sentences_and_tables_agree(case):
    votes, gold, model, page, _ = case
    facts, comparison = page.facts(), compare_with_majority(model, votes, gold)
    words = page.section("summary").text
    found = findings(votes, gold, model=model)
    assert facts["items"] == f"{votes.n_items:,}"
    assert facts["votes-per-item"] == f"{votes.n_votes / votes.n_items:.1f}"
    if found.effective_sources is not None:
        assert f"{facts['effective-sources']} independent sources" in words
        assert words.count("independent sources") == 2
    assert f"{facts['differ']} of items" in words
    buckets = page.table(page.figure("Where do the sources disagree?"))
    counts = {row["Votes on the item"].text: int(row["Items"].text.replace(",", "")) for row in buckets}
    assert sum(counts.values()) == votes.n_items
    uncovered = counts.get("no vote", 0) / votes.n_items
    assert facts.get("coverage", "100.0%") == f"{1 - uncovered:.1%}"
    against = sum(int(row["Label differs"].text.replace(",", "")) for row in buckets)
    assert facts["differ"] == f"{against / votes.n_items:.1%}"
    assert against == contested_items(model, votes).n_overruled == round(comparison.differ * votes.n_items)
    if against:
        assert f"{format_count(against, 'item')} in total" in page.section("items").text
    if gold is None:
        certain = page.figure("How certain are the labels?").text
        assert f"{facts['certain']} of the labels" in certain
        return
    assert f"model is {facts['model-accuracy']} and" in words
    assert f"majority vote {facts['majority-accuracy']}" in words
    known = np.array([int(row["Gold labels"].text.replace(",", "")) for row in buckets])
    assert known.sum() == comparison.n_gold
    exact = disagreement_buckets(votes, gold, model=model).to_dict()
    for heading, column, fact in (
        ("Model accuracy", "accuracy", "model-accuracy"),
        ("Majority accuracy", "majority_accuracy", "majority-accuracy"),
    ):
        assert [row[heading].text for row in buckets] == [f"{v:.1%}" for v in exact[column]]
        assert f"{np.average(exact[column], weights=known):.1%}" == facts[fact]


def test_scores_are_those_of_the_library(case):
    votes, gold, model, page, _ = case
    if gold is None:
        assert page.figure("Which labels are more accurate?") is None
        return
    facts = page.facts()
    assert facts["model-accuracy"] == f"{model.score(votes, gold):.1%}"
    assert facts["majority-accuracy"] == f"{fs.MajorityVote().fit(votes).score(votes, gold):.1%}"
    caption = page.figure("Which labels are more accurate?").text
    assert compare_with_majority(model, votes, gold).f1_name in caption
    hints = page.hints("Which labels are more accurate?")
    assert any(hint.startswith(f"label model: {facts['model-accuracy']}") for hint in hints)
    assert any(hint.startswith(f"majority vote: {facts['majority-accuracy']}") for hint in hints)
    # Wrong labels in the histogram are those that the accuracy leaves.
    wrong = [hint for hint in page.hints("How certain are the labels?") if "wrong" in hint]
    share = sum(float(re.search(r"([\d.]+)% wrong", hint)[1]) for hint in wrong) / 100
    n_gold = compare_with_majority(model, votes, gold).n_gold
    assert share == pytest.approx((1 - model.score(votes, gold)) * n_gold / votes.n_items, abs=0.002)
    curve = page.hints("Would more items help?")
    if curve and votes.n_items <= 5_000:
        at_all = f"correct on gold labels, {votes.n_items:,} items fitted: {facts['model-accuracy']}"
        assert at_all in curve


def test_sources_are_those_of_the_summary(case):
    _votes, _gold, model, page, _ = case
    summary = model.summary().to_dict()
    rows = page.table(page.section("sources"))
    by_name = {row["Source"].text: row for row in rows}
    hints = {hint.split(": ", 1)[0]: hint for hint in page.hints("How accurate is each source?")}
    for j, name in enumerate(summary["source"]):
        row, accuracy = by_name[name], summary["accuracy"][j]
        assert row["Coverage"].text == f"{summary['coverage'][j]:.1%}"
        assert row["Votes"].text == f"{summary['votes'][j]:,}"
        if accuracy is None:
            continue
        assert row["Accuracy, estimated"].text.startswith(f"{accuracy:.1%}")
        if name in hints and "gold" not in hints[name]:
            assert hints[name].startswith(f"{name}: {accuracy:.1%}")
    assert [row["Source"].text for row in rows][: len(summary["source"])] == [
        summary["source"][j]
        for j in np.argsort(-np.array([-1.0 if a is None else a for a in summary["accuracy"]]), kind="stable")
    ]


def test_rankings_name_the_accuracies_of_the_table(case):
    votes, gold, model, page, _ = case
    found = findings(votes, gold, model=model)
    if found.strongest is None:
        return
    column = "Accuracy, estimated" if gold is None else "Accuracy on gold labels"
    rows = {row["Source"].text: row for row in page.table(page.section("sources"))}
    words = page.section("summary").text
    named = [found.strongest, found.weakest] if found.has_order else []
    for ranking in named:
        for name in ranking.names:
            shown = _percents(rows[name][column].text)[0]
            assert f"{name} ({shown})" in words


def test_dependent_pairs_are_one_list_with_signs(case):
    votes, gold, model, page, _ = case
    found = findings(votes, gold, model=model)
    section = page.section("dependencies")
    count = f"{len(found.dependent):,} of {found.n_pairs:,} pair"
    if not found.dependent:
        assert section is None or "None of" in section.text
        return
    assert count in section.text
    assert count in page.section("summary").text
    rows = page.table(section)
    expected = found.dependent[:12]
    assert [row["Correlation"].text for row in rows] == [f"{pair.correlation:+.2f}" for pair in expected]
    for pair in expected[:5]:
        assert f"({pair.correlation:+.2f})" in page.section("summary").text
    edges = section.all("path", **{"class": "source-edge"})
    assert len(edges) == len(rows)


def test_sources_below_chance_are_left_of_the_mark(case):
    votes, gold, model, page, _ = case
    found = findings(votes, gold, model=model)
    figure = page.figure("How accurate is each source?")
    chart = {hint.split(": ", 1)[0]: hint for hint in page.hints("How accurate is each source?")}
    marks = [line for line in figure.all("line") if line.attributes["class"] == "chance"]
    known = [
        name for name, chance in zip(votes.source_names, found.chance, strict=True) if np.isfinite(chance)
    ]
    assert len(marks) - 1 == min(len(known), 40)  # one is in the legend
    column = "accuracy" if gold is None else "precision"
    summary = fs.summarize(votes, gold, model=model).to_dict()
    values = dict(zip(summary["name"], summary[column], strict=True))
    chances = dict(zip(votes.source_names, found.chance, strict=True))
    for name in found.worse_than_chance:
        assert values[name] < chances[name]
    for name, hint in chart.items():
        if "; chance" in hint:
            assert hint.endswith(f"chance {chances[name]:.1%}")
    bad = [dot for dot in figure.all("circle") if "bad" in dot.attributes["class"]]
    shown = [name for name in found.worse_than_chance if name in chart]
    assert len(bad) == len(shown) + bool(shown)  # one is in the legend
    alert = [item.text for item in page.section("summary").all("li", **{"class": "alert"})]
    assert any("Worse than chance" in text for text in alert) == bool(found.worse_than_chance)


def test_verdict_and_balance_are_those_of_the_diagnostics(case):
    votes, gold, model, page, _folder = case
    comparison = compare_with_majority(model, votes, gold)
    verdict = model.diagnostics_.verdict if gold is None else comparison.verdict
    assert str(verdict) in page.section("summary").text
    other = comparison.verdict if gold is None else model.diagnostics_.verdict
    assert other is None or str(other) not in page.section("summary").text
    method = page.section("method").text
    assert describe_balance(model) in method
    assert model.diagnostics_.method in method
    test = model.diagnostics_.fit_test
    assert (test is None) == ("chi²" not in method)
    for text in model.fit_.concerns:
        assert text in page.section("summary").text


def test_class_shares_are_those_of_the_labels(case):
    votes, gold, model, page, _ = case
    labels = model.predict(votes)
    rows = page.table(page.figure("How often does each class occur?"))
    assert len(rows) == len(votes.classes)
    for label, balance, row in zip(votes.classes, model.class_balance_, rows, strict=True):
        assert row["Class"].text == str(label)
        assert row["Labels"].text == f"{np.mean(labels == label):.1%}"
        assert row["Class balance"].text.startswith(f"{balance:.1%}")
        if gold is not None:
            known = [each for each in gold.tolist() if each in votes.classes]
            assert row["Gold labels"].text == f"{known.count(label) / len(known):.1%}"


def test_highest_agreement_is_that_of_the_pairs(case):
    votes, _gold, _model, page, _ = case
    figure = page.figure("Which sources agree?")
    if len(votes.source_names) > 32 or figure is None:
        return
    found = agreement(votes)
    kappa = found.beyond_chance[np.tril_indices(votes.n_sources, -1)]
    description = figure.all("desc")[0].text
    if np.isfinite(kappa).any():
        at = np.nanargmax(kappa)
        i, j = (index[at] for index in np.tril_indices(votes.n_sources, -1))
        assert f"equal on {found.share[i, j]:.1%}" in description


def test_label_prints_the_same_numbers(case):
    votes, gold, model, page, folder = case
    options = _options(gold)
    labels, saved = folder / "labels.csv", folder / "model.fsq"
    said = run("label", folder / "votes.csv", "-o", labels, "--model", saved, "--force", *options)
    facts, comparison = page.facts(), compare_with_majority(model, votes, gold)
    verdict = model.diagnostics_.verdict if gold is None else comparison.verdict
    assert f"Verdict: {verdict}" in said
    assert describe_balance(model) in said
    assert comparison.sentence() in said
    assert f"on {facts['differ']} of items" in said
    for text in model.fit_.concerns:
        assert text in said
    if gold is not None:
        table = said[said.index("labels  ") :]
        assert facts["model-accuracy"] in table
        assert facts["majority-accuracy"] in table
    result = json.loads(run("label", folder / "votes.csv", "-o", labels, "--force", "--json", *options))
    assert result["verdict"] == str(verdict)
    assert result["comparison"]["differ"] == pytest.approx(comparison.differ)
    assert sum(result["labels"]["counts"].values()) == votes.n_items
    shares = [row["Labels"].text for row in page.table(page.figure("How often does each class occur?"))]
    assert [f"{count / votes.n_items:.1%}" for count in result["labels"]["counts"].values()] == shares
    shown = run("inspect", saved)
    assert f"Verdict: {model.diagnostics_.verdict}" in shown
    assert describe_balance(model) in shown
    assert votes.n_sources > 60 or str(model.summary()) in shown  # longer tables are cut


def test_analyze_prints_the_same_sentences(case):
    votes, gold, model, page, folder = case
    said = run("analyze", folder / "votes.csv", *_options(gold))
    for sentence in findings(votes, gold, model=model).sentences():
        assert f"- {sentence}" in said
        assert sentence in page.section("summary").text
    assert f"class balance: {describe_balance(model)}" in said
    facts = page.facts()
    if gold is not None:
        assert facts["model-accuracy"] in said
        assert facts["majority-accuracy"] in said
