"""Reports about panels of judges."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import panel_report
from flyingsquid.exceptions import OptionError, SourceWarning, VotesError


@pytest.fixture(scope="module")
def panel():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    right = rng.random((400, 5, 2)) < [[0.93], [0.85], [0.85], [0.8], [0.5]]
    codes = np.where(right, y[:, None, None], 1 - y[:, None, None])
    codes[:20, 1] = -2  # refused
    return fs.Votes.from_panel(codes, classes=(0, 1), reasons={-2: "refused"}), y


def test_one_row_per_judge(panel):
    votes, _ = panel
    table = panel_report(votes).judges
    found = table.to_dict()
    assert found["judge"] == list(votes.structure.judges)
    expected = [0.93**2 + 0.07**2, 0.745, 0.745, 0.68, 0.5]
    np.testing.assert_allclose(found["self_agreement"], expected, atol=0.07)
    assert "<table>" in table._repr_html_()


def test_the_report_has_reliability_refusals_and_redundancy(panel):
    votes, y = panel
    report = panel_report(votes, y, costs={f"judge {j}": 0.5 + j for j in range(5)})
    found = report.judges.to_dict()
    np.testing.assert_allclose(found["refused"], [0, 0.05, 0, 0, 0])
    np.testing.assert_allclose(found["gold_accuracy"], [0.93, 0.85, 0.85, 0.8, 0.5], atol=0.04)
    low, high = np.array(found["accuracy_low"]), np.array(found["accuracy_high"])
    gold = np.array(found["gold_accuracy"])
    assert ((low <= gold + 0.02) & (gold - 0.02 <= high)).all()
    assert "judge 4" in report.redundant
    assert "judge 0" not in report.redundant
    assert report.changed <= 0.01
    assert report.cost == pytest.approx(400 * 2 * sum(0.5 + j for j in range(5)))
    assert report.saved == pytest.approx(400 * 2 * sum(0.5 + int(name[-1]) for name in report.redundant))
    assert 0 < report.alpha.value < 1
    assert "judge 4" in str(report)
    assert "<table>" in report._repr_html_()
    assert report.to_dict()["redundant"] == list(report.redundant)


def test_the_sign_of_position_bias_is_explained():
    """The first judge prefers the answer that is shown first; rows of a table may be in any order."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    codes = np.repeat(y[:, None, None], 2, axis=2).repeat(3, axis=1)
    codes = np.where(rng.random(codes.shape) < 0.2, 1 - codes, codes)
    codes[:150, 0] = [0, 1]
    for step in (1, -1):
        answers = np.array(["A", "B"])[codes[:, :, ::step]]
        votes = fs.Votes.from_panel(answers, orders=["AB", "BA"][::step])
        report = panel_report(votes)
        shown_first = dict(zip(("AB", "BA"), ("A", "B"), strict=True))
        sign = 1 if dict(report.preferred) == shown_first else -1
        assert sign * report.judges.to_dict()["position_bias"][0] > 0.3
        assert "'A' in order" in str(report)


def test_votes_that_name_positions_are_noticed(panel):
    votes, _ = panel
    assert "position" not in str(panel_report(votes)).replace("position_bias", "")
    codes = votes.codes.copy()
    codes[:, 1::2] = np.where(codes[:, 1::2] >= 0, 1 - codes[:, 1::2], -1)  # the position in the other order
    turned = fs.Votes(codes, votes.classes, votes.names, structure=votes.structure)
    with pytest.warns(SourceWarning, match="name the answer"):
        model = fs.LabelModel().fit(turned)
    report = panel_report(turned, model=model)
    assert "'judge 0', 'judge 1', 'judge 2', 'judge 3'. Check that votes name the answer" in str(report)
    found = report.judges.to_dict()
    values = [np.array(found[name]) for name in ("accuracy_low", "accuracy", "accuracy_high")]
    assert (values[0] <= values[1]).all()
    assert (values[1] <= values[2]).all()


def test_dropping_the_redundant_judges_changes_as_many_labels_as_reported(panel):
    votes, _ = panel
    model = fs.LabelModel().fit(votes)
    report = panel_report(votes, model=model)
    codes = np.maximum(votes.codes, -1)
    codes[:, [source.judge in report.redundant for source in votes.structure]] = -1
    changed = np.mean(model.predict(codes) != model.predict(votes))
    assert changed == pytest.approx(report.changed, abs=0.005)


def answers_of(n_items, accuracies, seed=0):
    """Return answers of judges in two orders, of which the second mostly repeats the first."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_items)
    right = rng.random((n_items, len(accuracies), 2)) < np.array(accuracies)[:, None]
    right[:, :, 1] = np.where(rng.random(right.shape[:2]) < 0.6, right[:, :, 0], right[:, :, 1])
    return np.where(right, y[:, None, None], 1 - y[:, None, None])


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("accuracies", [[0.8], [0.9, 0.6]])
def test_one_or_two_judges_have_no_accuracy(accuracies):
    """Two judges show how often they agree, not which one is right; self-agreement needs no other judge."""
    votes = fs.Votes.from_panel(answers_of(300, accuracies), classes=(0, 1))
    columns = panel_report(votes).judges.to_dict()
    assert columns["accuracy"] == columns["accuracy_high"] == [None] * len(accuracies)
    assert None not in columns["self_agreement"] + columns["accuracy_at_most"]


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_sources_that_never_vote_do_not_count_for_their_judge():
    answers = answers_of(300, [0.9, 0.8, 0.7, 0.7])
    answers[:, :, 1] = -1
    votes = fs.Votes.from_panel(answers, classes=(0, 1))
    model = fs.LabelModel().fit(votes)
    columns = panel_report(votes, model=model).judges.to_dict()
    assert columns["accuracy"] == pytest.approx(model.accuracies_[::2])
    assert None not in columns["accuracy_low"]


def test_few_items_do_not_show_that_a_judge_is_redundant():
    answers = answers_of(300, [0.97, 0.6, 0.6])
    many, few = (panel_report(fs.Votes.from_panel(part, classes=(0, 1))) for part in (answers, answers[:30]))
    assert many.redundant
    assert not few.redundant
    assert "Drop" not in str(few)
    low, high = (few.judges.to_dict()[f"position_bias_{end}"] for end in ("low", "high"))
    assert min(np.subtract(high, low)) > 0.05
    unanimous = panel_report(fs.Votes.from_panel(np.zeros((300, 3, 2), int), classes=(0, 1)))
    assert "Drop" not in str(unanimous)
    assert "nan" not in str(unanimous)


def test_input_that_is_refused(panel):
    votes, _ = panel
    for wrong in (votes.with_structure(None), np.asarray(votes.codes)):
        with pytest.raises(VotesError, match="structure"):
            panel_report(wrong)
    for costs in (
        {"judge 0": 1.0},
        3,
        {f"judge {j}": -1 for j in range(5)},
        {f"judge {j}": "x" for j in range(5)},
    ):
        with pytest.raises(OptionError, match="costs"):
            panel_report(votes, costs=costs)
    with pytest.raises(OptionError, match="model"):
        panel_report(votes, model=fs.MajorityVote().fit(votes))


def test_the_report_page_has_a_section(panel):
    votes, y = panel
    assert 'id="panel"' in fs.report(votes, y)
    assert 'id="panel"' not in fs.report(votes.with_structure(None), y)
