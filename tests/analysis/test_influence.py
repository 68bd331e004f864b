"""Influence of each source and of the number of items on the labels."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import learning_curve, leave_one_out
from flyingsquid.exceptions import OptionError


@pytest.fixture(scope="module")
def sample():
    return fs.datasets.simulate(3_000, [0.9, 0.75, 0.7, 0.7, 0.65], coverage=0.9, random_state=0)


OPTIONS = [{}, {"method": "triplet"}, {"method": "covariance"}, {"graph": "learn"}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_leaving_out_is_fitting_without(sample, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = fs.LabelModel(**options).fit(sample.votes)
        found = leave_one_out(model, sample.votes, sample.y)
        for j in (0, 4):
            part = sample.votes.of_sources([i for i in range(5) if i != j])
            again = fs.LabelModel(**options).fit(part)
            changed = np.mean(again.predict(part) != model.predict(sample.votes))
            shift = np.abs(again.predict_proba(part) - model.predict_proba(sample.votes))[:, 0].mean()
            change = again.score(part, sample.y) - model.score(sample.votes, sample.y)
            assert found.changed[j] == pytest.approx(changed)
            assert found.shift[j] == pytest.approx(shift)
            assert found.accuracy_change[j] == pytest.approx(change)


def test_the_best_source_matters_most(sample):
    found = leave_one_out(fs.LabelModel().fit(sample.votes), sample.votes, sample.y)
    assert np.argmax(found.changed) == 0
    assert found.accuracy_change[0] < -0.03
    table = found.table().to_dict()
    assert table["source"][0] == "source 0"
    assert "accuracy_change" in str(found)


def test_a_silent_source_changes_nothing(sample):
    votes = np.column_stack([sample.votes.codes, np.full(3_000, -1)])
    with pytest.warns(fs.exceptions.SourceWarning):
        model = fs.LabelModel().fit(votes)
    found = leave_one_out(model, votes)
    assert found.changed[5] == 0
    assert found.shift[5] < 1e-6  # where EM stops
    assert found.accuracy_change is None


def test_options_that_name_sources_follow_them(sample):
    graph = fs.DependencyGraph(5, source_edges=[(3, 4)])
    model = fs.LabelModel(graph, signs={0: 1, 4: 1}).fit(sample.votes)
    found = leave_one_out(model, sample.votes)
    part = sample.votes.of_sources([0, 2, 3, 4])
    again = fs.LabelModel(fs.DependencyGraph(4, source_edges=[(2, 3)]), signs={0: 1, 3: 1}).fit(part)
    assert found.changed[1] == np.mean(again.predict(part) != model.predict(sample.votes))


def test_where_the_others_do_not_suffice(sample):
    three = sample.votes.of_sources([0, 1, 2])
    found = leave_one_out(fs.LabelModel(method="triplet").fit(three), three)
    assert np.isnan(found.changed).all()
    majority = leave_one_out(fs.MajorityVote().fit(three), three, sample.y)
    assert np.isfinite(majority.changed).all()


def test_gold_labels_of_the_fit_are_required(sample):
    gold = np.where(np.arange(3_000) < 100, sample.y, -1)
    model = fs.LabelModel().fit(sample.votes, gold=gold)
    with pytest.raises(OptionError, match="`gold`"):
        leave_one_out(model, sample.votes)
    assert np.isfinite(leave_one_out(model, sample.votes, gold=gold).changed).all()
    rng = np.random.default_rng(0)
    with pytest.raises(OptionError, match="`gold`"):
        learning_curve(model, sample.votes, random_state=rng)
    curve = learning_curve(model, sample.votes, random_state=rng, gold=gold, sizes=[1_000, 3_000], repeats=1)
    assert (curve.same[-1] == 1).all()


def test_learning_curves_settle(sample):
    model = fs.LabelModel().fit(sample.votes)
    curve = learning_curve(model, sample.votes, sample.y, random_state=0, repeats=4)
    assert curve.sizes[-1] == 3_000
    assert (np.diff(curve.sizes) > 0).all()
    assert (curve.same[-1] == 1).all()
    assert (curve.moved[-1] < 1e-9).all()
    assert np.nanmean(curve.moved[0]) > 2 * np.nanmean(curve.moved[-2])
    assert curve.accuracy[-1, 0] == pytest.approx(model.score(sample.votes, sample.y))
    assert "items" in str(curve)


def test_the_same_generator_gives_the_same_curve(sample):
    model = fs.LabelModel(method="triplet").fit(sample.votes)
    first, second = (
        learning_curve(model, sample.votes, random_state=7, sizes=[100, 1_000], repeats=2) for _ in range(2)
    )
    np.testing.assert_array_equal(first.same, second.same)
    assert first.accuracy is None
    assert first.sizes.tolist() == [100, 1_000]


def test_bad_inputs_are_named(sample):
    model = fs.LabelModel().fit(sample.votes)
    rng = np.random.default_rng(0)
    for sizes in ([], [0, 10], [10, 5], [10_000]):
        with pytest.raises(OptionError, match="sizes"):
            learning_curve(model, sample.votes, random_state=rng, sizes=sizes)
    with pytest.raises(OptionError, match="repeats"):
        learning_curve(model, sample.votes, random_state=rng, repeats=0)
    with pytest.raises(OptionError, match="random_state"):
        learning_curve(model, sample.votes, random_state="0")
    with pytest.raises(OptionError, match="`model`"):
        leave_one_out(fs.SequenceLabelModel().fit(sample.votes), sample.votes)
    graph = fs.DependencyGraph.chain(2, 3)
    clips = fs.datasets.simulate_graph(500, graph, 0.75, random_state=rng)
    with pytest.raises(OptionError, match="`model`"):
        leave_one_out(fs.LabelModel(graph).fit(clips.votes), clips.votes)
