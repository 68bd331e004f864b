"""Corrections of log probabilities, one item and class at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flyingsquid.inference.posterior import Correction
from flyingsquid.votes.codes import OneHot


def random_correction(n_classes, m=3, *, has_tables=True):
    rng = np.random.default_rng(n_classes)
    return Correction(
        of_posterior=0.8,
        of_share=0.6,
        intercepts=rng.normal(size=n_classes),
        tables=rng.normal(size=(m, n_classes, n_classes)) if has_tables else None,
    )


def by_definition(correction, label, row):
    n_classes = len(label)
    cast = [v for v in row if v >= 0]
    scores = np.zeros(n_classes)
    for k in range(n_classes):
        share = (cast.count(k) + 1 / n_classes) / (len(cast) + 1)
        scores[k] = correction.of_posterior * np.log(label[k]) + correction.of_share * np.log(share)
        scores[k] += correction.intercepts[k]
        if correction.tables is not None:
            scores[k] += sum(correction.tables[i, v, k] for i, v in enumerate(row) if v >= 0)
    return np.exp(scores) / np.exp(scores).sum()


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("has_tables", [False, True])
def test_corrected_posteriors(n_classes, has_tables):
    correction = random_correction(n_classes, has_tables=has_tables)
    rows = np.array(list(itertools.product(range(-1, n_classes), repeat=3)), np.int8)
    labels = np.random.default_rng(0).dirichlet(np.ones(n_classes), len(rows))
    found = correction.apply(labels, OneHot.of(rows, n_classes))
    for row, label, one in zip(rows, labels, found, strict=True):
        np.testing.assert_allclose(one, by_definition(correction, label, row), rtol=1e-9)
    nobody = correction.without_votes(labels[0])
    expected = labels[0] ** 0.8 * np.exp(correction.intercepts)
    np.testing.assert_allclose(nobody, expected / expected.sum())


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("has_tables", [False, True])
def test_contributions_of_votes_add_up_to_the_change_of_the_log_odds(n_classes, has_tables):
    correction = random_correction(n_classes, has_tables=has_tables)
    row, base = np.array([1, 0, 1], np.int8), np.array([0.7, -0.4, 0.2])
    prior = np.full(n_classes, 1 / n_classes)
    label = prior.copy()
    label[1] *= np.exp(base.sum())  # what the votes add to the log odds of class 1 against class 0
    label /= label.sum()
    parts = correction.parts(row, base, 1, 0)
    after = correction.apply(label[None], OneHot.of(row[None], n_classes))[0]
    before = correction.without_votes(prior)
    assert parts.sum() == pytest.approx(np.log(after[1] / after[0]) - np.log(before[1] / before[0]))


def test_sources_that_do_not_vote_do_not_matter():
    correction = random_correction(2)
    label = np.array([[0.3, 0.7]])
    whole = correction.apply(label, OneHot.of(np.array([[1, -1, 0]], np.int8), 2))
    part = correction.of_sources(np.array([0, 2])).apply(label, OneHot.of(np.array([[1, 0]], np.int8), 2))
    np.testing.assert_allclose(part, whole)


def test_impossible_classes_stay_finite():
    correction = random_correction(2)
    found = correction.apply(np.array([[0.0, 1.0]]), OneHot.of(np.array([[0, 0, 0]], np.int8), 2))
    assert np.isfinite(found).all()
    assert found.sum() == pytest.approx(1)
