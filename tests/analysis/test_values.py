"""Booleans and time spans are not accepted as numbers, although Python and NumPy treat them as integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import calibration, contested_items, learning_curve
from flyingsquid.exceptions import OptionError, VotesError
from tests.support.strategies import fittable_votes

VOTES = fittable_votes(0)
RNG = np.random.default_rng(0)
CALLS = {
    "n_classes": lambda n: fs.LabelModel(n_classes=n).fit(VOTES),
    "screen": lambda n: fs.LabelModel(method=fs.solvers.Triplet(screen=n)).fit(VOTES),
    "window": lambda n: fs.OnlineLabelModel(n).partial_fit(VOTES),
    "warm_up": lambda n: fs.OnlineLabelModel(warm_up=n).partial_fit(VOTES),
    "max_edges": lambda n: fs.learn_structure(VOTES, max_edges=n),
    "significance": lambda n: fs.learn_structure(VOTES, significance=n),
    "n_items": lambda n: fs.datasets.simulate(n, [0.8, 0.7], random_state=RNG),
    "persistence": lambda n: fs.datasets.simulate_sequence(9, [0.8, 0.7], persistence=n, random_state=RNG),
    "n_bins": lambda n: fs.score_bins([[0.1], [0.5], [0.9]], n),
    "chunk": lambda n: fs.apply([str], ["a"], chunk=n),
    "n_jobs": lambda n: fs.apply([str], ["a"], n_jobs=n),
    "bins": lambda n: calibration(fs.LabelModel().fit(VOTES), VOTES, VOTES[:, 0], bins=n),
    "n": lambda n: contested_items(fs.LabelModel().fit(VOTES), VOTES, n=n),
    "repeats": lambda n: learning_curve(fs.LabelModel().fit(VOTES), VOTES, random_state=RNG, repeats=n),
}


@pytest.mark.parametrize("wrong", [np.timedelta64(3, "s"), True], ids=["a span of time", "True"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_number_is_refused_by_name(name, wrong: Any):
    with pytest.raises(OptionError, match=name):
        CALLS[name](wrong)


INDEXED = {
    "task": lambda n: fs.LabelModel().fit(VOTES).explain(VOTES[0], task=n),
    "signs": lambda n: fs.LabelModel(signs={n: 1}).fit(VOTES),
    "item": lambda n: fs.Votes.from_classes(VOTES)[n],
    "lengths": lambda n: fs.SequenceLabelModel().fit(VOTES, [n, len(VOTES)]),
    "n_sources": fs.DependencyGraph,
    "source_edges": lambda n: fs.DependencyGraph(4, source_edges=[(0, n)]),
    "source_task": lambda n: fs.DependencyGraph(4, source_task=[n] * 4),
    "accuracies": lambda n: fs.datasets.simulate(9, [n, 0.7], random_state=RNG),
    "vote": lambda n: fs.OnlineLabelModel(new_classes="add").partial_fit(VOTES).learn_one([n, 0, 1, 1]),
    "label": lambda n: fs.MultiLabelModel(labels=[n, 1]).fit(np.zeros((9, 3, 2), int)),
}


@pytest.mark.parametrize("huge", [10**5000, -(10**5000), 2**63], ids=["huge", "less than nothing", "64 bits"])
@pytest.mark.parametrize("name", [name for name in CALLS if name not in ("chunk", "warm_up")] + list(INDEXED))
def test_numbers_that_have_no_text_are_refused_in_words(name, huge: int):
    """Python writes no integer of more than 4,300 digits, not even into a message."""
    try:
        (CALLS | INDEXED)[name](huge)
    except fs.FlyingSquidError as error:
        assert len(str(error)) < 1_000  # noqa: PT017  # some are no error at all
    else:
        assert name in ("max_edges", "screen", "n", "label"), "a number that is far too large"


def test_a_chain_and_a_grid_that_do_not_fit_into_memory():
    with pytest.raises(fs.exceptions.GraphError, match=r"`n_sources` .*10,000,000"):
        fs.DependencyGraph.chain(10_000, 10_000)
    with pytest.raises(fs.exceptions.GraphError, match=r"`n_sources` .*10,000,000"):
        fs.DependencyGraph.grid(10, 10_000, 10_000)


def test_a_span_of_time_is_no_item_and_no_vote():
    with pytest.raises(VotesError, match="indexed by"):
        fs.Votes.from_classes(VOTES)[np.timedelta64(3, "s")]
    with pytest.raises(fs.exceptions.LabelingError, match="timedelta64"):
        fs.apply([lambda _: np.timedelta64(1, "s")], ["a"])


def test_results_print_a_summary_instead_of_their_fields():
    data = fs.datasets.load_breast_cancer()
    votes, y = data.votes, data.y
    model = fs.LabelModel().fit(votes, gold=y, features=data.features)
    found = model.diagnostics_
    results = [
        data,
        fs.datasets.simulate_sequence(50, [0.8, 0.7, 0.7], random_state=0),
        found,
        found.verdict,
        found.gold,
        found.features,
        fs.analysis.krippendorff_alpha(votes),
        fs.analysis.findings(votes),
        fs.to_training_set(data.features, model.predict_proba(votes)),
    ]
    for result in results:
        shown = repr(result)
        assert 0 < len(shown) < 1_500, shown
        assert "array(" not in shown
        assert "value=" not in shown
    assert repr(found.verdict) == found.verdict.text


def _crowd():
    """Votes whose items are sorted as strings, and gold labels by item in another order."""
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(60, [0.9, 0.8, 0.7, 0.7], random_state=0)
    table = pd.DataFrame(sample.votes.codes, columns=list("abcd"), index=[f"q{i}" for i in range(60)])
    long = table.stack().reset_index().set_axis(["task", "worker", "label"], axis=1)
    votes = fs.Votes.from_long(long)
    assert votes.items.tolist() != table.index.tolist()
    return votes, pd.Series(sample.y, index=table.index)


TAKING_GOLD = {
    "summarize": lambda model, votes, y: fs.summarize(votes, y).to_dict()["precision"],
    "findings": lambda model, votes, y: str(fs.analysis.findings(votes, y, model=model)),
    "compare": lambda model, votes, y: str(fs.analysis.compare_with_majority(model, votes, y)),
    "calibration": lambda model, votes, y: calibration(model, votes, y).observed.tolist(),
    "contested": lambda model, votes, y: str(contested_items(model, votes, y)),
    "buckets": lambda model, votes, y: str(fs.analysis.disagreement_buckets(votes, y)),
    "label buckets": lambda model, votes, y: str(fs.analysis.label_buckets(y, votes[:, ["a"]])),
    "dependence": lambda model, votes, y: fs.analysis.dependence_given_truth(votes, y).tolist(),
    "leave one out": lambda model, votes, y: str(fs.analysis.leave_one_out(model, votes, y)),
    "learning curve": lambda model, votes, y: str(learning_curve(model, votes, y, random_state=0)),
    "report": lambda model, votes, y: fs.report(votes, y, model=model),
}


@pytest.mark.parametrize("result", TAKING_GOLD.values(), ids=TAKING_GOLD)
def test_gold_labels_are_joined_by_item(result):
    votes, gold = _crowd()
    model = fs.LabelModel().fit(votes)
    in_order = gold[votes.items].to_numpy()
    expected = result(model, votes, in_order)
    assert result(model, votes, gold) == expected
    assert result(model, votes, gold.sample(frac=1, random_state=0)) == expected
    if result is not TAKING_GOLD["label buckets"]:
        assert result(model, votes, gold.to_dict()) == expected
    assert result(model, votes, gold.to_numpy()) != expected  # the test can fail
