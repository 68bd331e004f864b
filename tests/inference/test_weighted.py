"""Posteriors of a mixture, compared with their definition, one item, source and class at a time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from flyingsquid.inference.weighted import (
    Mixture,
    TableTerm,
    best_class,
    mixture_posterior,
    shares_of,
    to_probabilities,
)


def by_weights(row, weights, prior):
    """Share of each class in the weighted votes, and in one vote that is split by the prior."""
    sums = [prior[k] + sum(weights[i, k] for i, v in enumerate(row) if v == k) for k in range(len(prior))]
    return np.array(sums) / sum(sums)


def by_table(row, term, one_sided):
    """Bayes' theorem over sources with tables; one-sided sources have the likelihood of their shares."""
    n_classes = len(term.balance)
    logs = np.log(term.balance)
    for i, v in enumerate(row):
        if v >= 0 and not one_sided[i]:
            logs = logs + term.logs[i, :, v]
    if one_sided.any():
        votes = [v if one_sided[i] else -1 for i, v in enumerate(row)]
        logs = logs + np.log(by_weights(votes, term.weights, np.full(n_classes, 1 / n_classes)))
    return np.exp(logs) / np.exp(logs).sum()


def by_definition(row, mixture):
    n_classes = mixture.weights.shape[1]
    cast = [i for i, v in enumerate(row) if v >= 0]
    if not cast:
        return mixture.without_votes
    prior = np.full(n_classes, 1 / n_classes) if mixture.prior is None else mixture.prior
    answer = by_weights(row, mixture.weights, prior)
    if mixture.anchored is not None:
        anchored = by_table(row, mixture.anchored, mixture.one_sided)
        anchored = (len(cast) * anchored + prior) / (len(cast) + 1)
        answer = (1 - mixture.anchored_share) * answer + mixture.anchored_share * anchored
    if mixture.tables is not None:
        trust = mixture.trust * np.mean([not mixture.one_sided[i] for i in cast])
        answer = trust * by_table(row, mixture.tables, mixture.one_sided) + (1 - trust) * answer
    equal = by_weights(row, np.ones_like(mixture.weights), prior)
    return (1 - mixture.majority) * answer + mixture.majority * equal


def random_mixture(rng, m, n_classes, parts, one_sided):
    def term():
        logs = np.log(rng.dirichlet(np.ones(n_classes), (m, n_classes)))
        logs[one_sided] = 0.0
        return TableTerm(logs, rng.uniform(0.2, 3, (m, n_classes)), rng.dirichlet(np.ones(n_classes)))

    return Mixture(
        weights=rng.uniform(0.2, 3, (m, n_classes)),
        one_sided=one_sided,
        without_votes=rng.dirichlet(np.ones(n_classes)),
        prior=rng.dirichlet(np.ones(n_classes)) if "prior" in parts else None,
        tables=term() if "tables" in parts else None,
        trust=0.0 if "tables" not in parts else 1.0 if "trusted" in parts else 0.7,
        anchored=term() if "anchored" in parts else None,
        anchored_share=0.3 if "anchored" in parts else 0.0,
        majority=0.4 if "majority" in parts else 0.0,
    )


@pytest.mark.parametrize("n_classes", [2, 3, 9])
@pytest.mark.parametrize("one_sided", [False, True])
@pytest.mark.parametrize(
    "parts",
    [
        "", "prior", "majority", "tables", "trusted tables", "anchored", "tables anchored",
        "trusted tables majority", "prior tables anchored majority",
    ],
)  # fmt: skip
def test_posterior_is_the_mixture_of_its_parts(n_classes, one_sided, parts):
    rng = np.random.default_rng(len(parts) + n_classes)
    mask = np.array([False, one_sided, False])
    mixture = random_mixture(rng, 3, n_classes, parts, mask)
    values = range(-1, n_classes) if n_classes < 9 else (-1, 0, 4, 8)
    rows = np.array(list(itertools.product(values, repeat=3)), np.int8)
    found = mixture_posterior(rows, mixture)
    np.testing.assert_allclose(found, [by_definition(row, mixture) for row in rows], rtol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), 1)


@pytest.mark.parametrize("parts", ["", "tables anchored"])
def test_sources_that_do_not_vote_on_an_item_do_not_matter(parts):
    mixture = random_mixture(np.random.default_rng(3), 4, 2, parts, np.zeros(4, bool))
    some = np.array([0, 2])
    rows = np.array([[1, -1, 0, -1], [0, -1, -1, -1]], np.int8)
    part = mixture_posterior(rows[:, some], mixture.of_sources(some))
    np.testing.assert_allclose(part, mixture_posterior(rows, mixture), rtol=1e-12)


def test_ties_of_hard_labels_are_divided():
    labels = np.array([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.4 + 1e-12, 0.2]])
    expected = [[0.5, 0.5, 0], [0, 0, 1], [0, 1, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(best_class(labels), expected)
    many = np.zeros((2, 40))
    many[0, 7] = many[1, 3] = many[1, 39] = 1
    np.testing.assert_allclose(best_class(many), many / many.sum(axis=1, keepdims=True))


def test_shares_without_votes_are_the_prior():
    np.testing.assert_allclose(shares_of(np.zeros((1, 4))), np.full((1, 4), 0.25))
    np.testing.assert_allclose(shares_of(np.zeros((1, 2)), np.array([0.9, 0.1])), [[0.9, 0.1]])


def test_probabilities_do_not_overflow():
    scores = np.array([[1e4, 1e4 + np.log(3)], [-1e4, -2e4]])
    np.testing.assert_allclose(to_probabilities(scores), [[0.25, 0.75], [1.0, 0.0]])
