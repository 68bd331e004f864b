"""Fits of one task, and what they return for tasks that they do not have."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.confusion import fit_many
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.estimation.replicates import combine_replicates, compare_replicates
from flyingsquid.exceptions import OptionError

SAMPLE = fs.datasets.simulate(300, [0.9, 0.8, 0.75, 0.7], random_state=0)


@pytest.mark.parametrize("method", ["auto", "triplet", "em"])
def test_one_task_has_no_neighbors(method):
    fit = fs.LabelModel(method=method).fit(SAMPLE.votes).fit_
    codes = np.asarray(SAMPLE.votes.codes)
    labels = fit.joint_labels(codes)
    np.testing.assert_array_equal(labels[:, 0], fit.posterior(codes)[:, 0].argmax(axis=1))
    assert fit.task_tables.shape == (0, 2, 2)
    assert np.isnan(fit.excess_correlation).all()


@pytest.mark.parametrize("method", ["triplet", "em"])
def test_rows_of_sequences_have_the_evidence_of_items(method):
    """The posterior is the class balance times the likelihood, which is the evidence for neighbors."""
    fit = fs.LabelModel(method=method).fit(SAMPLE.votes).fit_
    codes = np.asarray(SAMPLE.votes.codes)
    balance = fit.mean_label(codes)
    np.testing.assert_allclose(balance, fit.class_balance[0])
    found = fit.row_evidence(codes, balance)
    np.testing.assert_allclose(found.alone, found.shared + np.log(balance))
    odds = np.exp(found.alone)
    np.testing.assert_allclose(odds / odds.sum(axis=1, keepdims=True), fit.posterior(codes)[:, 0], rtol=1e-9)


def test_diagnostics_are_a_table_in_a_notebook():
    found = fs.LabelModel().fit(SAMPLE.votes).diagnostics_
    page = found._repr_html_()
    assert page.startswith("<")
    assert str(found.verdict)[:20] in page


def test_features_need_a_model_that_was_fitted_with_them():
    model = fs.LabelModel().fit(SAMPLE.votes)
    with pytest.raises(OptionError, match="features"):
        model.predict_proba(SAMPLE.votes, features=np.zeros((300, 2)))


def test_an_estimated_balance_of_many_classes_needs_all_items():
    codes = np.random.default_rng(0).integers(0, 3, (300, 4))
    with pytest.raises(OptionError, match="class_balance"):
        fs.LabelModel(method="em", class_balance="estimate").fit(
            fs.VoteChunks([fs.Votes.from_classes(codes, classes=range(3))])
        )
    for method in ("agreement", "em", "decomposition"):
        with pytest.raises(OptionError, match='class_balance="estimate" needs the votes themselves'):
            fit_many(fs.Moments.of(codes), "estimate", None, method=method)


def test_gold_labels_of_very_many_classes_are_refused():
    votes = fs.Votes.from_classes(np.zeros((3, 2), np.int16), classes=range(9_000))
    with pytest.raises(OptionError, match="gold"):
        GoldCounts.of(votes, np.zeros(3, np.intp))


def test_votes_without_a_structure_have_no_replicates():
    assert combine_replicates(SAMPLE.votes) is SAMPLE.votes
    with pytest.raises(ValueError, match="structure"):
        compare_replicates(SAMPLE.votes)
