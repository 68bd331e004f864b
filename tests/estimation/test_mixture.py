"""Rules of the default: priors, items without votes, support of anchored tables, the expected gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flyingsquid.estimation import mixture as module
from flyingsquid.estimation.dependence import Dependence
from flyingsquid.estimation.mixture import Complete, fit_mixture, fit_weights, gain_over_majority
from flyingsquid.estimation.table_em import PairEM, converge, rows_of
from flyingsquid.estimation.trust import Trust
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.inference.weighted import TableTerm, mixture_posterior
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes


def simulate(seed, n, accuracies, share=0.5, coverage=1.0, n_classes=2):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 0, rng.integers(1, n_classes, n))
    wrong = (y[:, None] + rng.integers(1, n_classes, (n, len(accuracies)))) % n_classes
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], wrong)
    votes[rng.random(votes.shape) >= coverage] = -1
    return Votes.from_classes(votes.astype(np.int8), classes=range(n_classes))


def with_one_sided(votes, column=0, only=1):
    codes = np.array(votes.codes)
    codes[codes[:, column] != only, column] = -1
    return Votes.from_classes(codes, classes=votes.classes)


# ---------------------------------------------------------------------- a given class balance


@pytest.mark.parametrize("one_sided", [False, True])
def test_a_given_balance_is_a_pseudo_vote_relative_to_the_labels(one_sided):
    votes = simulate(0, 500, [0.8, 0.7, 0.7], coverage=0.7)
    votes = with_one_sided(votes) if one_sided else votes
    moments, codes = Moments.of(votes), votes.codes
    given = np.array([0.3, 0.7])
    fit = fit_weights(moments, None, given)
    observed, weights = np.zeros(2), fit.mixture.weights
    for i in range(3):
        for k in range(2):
            n_votes = (codes[codes[:, i] == k] >= 0).sum(axis=1)
            items = weights[i, k] * len(n_votes) / n_votes.mean() if len(n_votes) else 0.0
            sure = n_votes.mean() / (n_votes.mean() + 1) if len(n_votes) else 0.0
            observed[k] += items * sure
            observed += items * (1 - sure) / 2
    relative = [min(max(given[k] / (observed[k] / sum(observed)), 1 / 3), 3.0) for k in range(2)]
    cast = moments.vote_counts
    several = cast[1:].sum() / cast.sum() if one_sided else 1.0
    expected = [several * relative[k] / sum(relative) + (1 - several) / 2 for k in range(2)]
    np.testing.assert_allclose(fit.mixture.prior, expected, rtol=1e-12)


@pytest.mark.parametrize("given", [[0.001, 0.999], [0.999, 0.001]])
def test_an_extreme_balance_counts_at_most_three_times_each_way(given):
    fit = fit_weights(Moments.of(simulate(1, 300, [0.8, 0.7, 0.7])), None, np.array(given))
    assert fit.mixture.prior.max() < 3 / (3 + 1 / 3) + 1e-12


@pytest.mark.parametrize("n_sources", [3, 8])
def test_a_balance_that_the_labels_have_changes_little(n_sources):
    votes = simulate(2, 2_000, [0.8] * n_sources, share=0.7)
    moments, rows = Moments.of(votes), rows_of(votes, None)
    labels = mixture_posterior(votes.codes, fit_weights(moments, rows, None).mixture)
    fit = fit_weights(moments, rows, labels.mean(axis=0))
    np.testing.assert_allclose(fit.mixture.prior, [0.5, 0.5], atol=0.02)


# ---------------------------------------------------------------------- items without votes


def without_votes(moments, balance=None, term=None, trust=0.0):
    return module._without_votes(moments, balance, term, Trust(trust), vote_weights(moments, None))


def test_items_without_votes_get_the_shares_of_votes_that_are_clearly_imbalanced():
    clear = Moments.of(simulate(3, 400, [0.9, 0.9, 0.9], share=0.75))
    cast = clear.vote_counts.sum(axis=0)
    np.testing.assert_allclose(without_votes(clear), (cast + 10) / (cast.sum() + 20))
    np.testing.assert_allclose(without_votes(Moments.of(simulate(3, 400, [0.9, 0.9, 0.9], share=0.55))), 0.5)
    given = np.array([0.2, 0.8])
    np.testing.assert_allclose(without_votes(clear, given), given)


def test_votes_of_mostly_one_sided_sources_do_not_show_the_balance():
    votes = simulate(4, 400, [0.9, 0.9, 0.9], share=0.8)
    for column in (0, 1):
        votes = with_one_sided(votes, column, only=0)
    np.testing.assert_allclose(without_votes(Moments.of(votes)), 0.5)


def test_votes_for_one_class_do_not_show_the_balance():
    always = Moments.of(Votes.from_classes(np.zeros((100, 3), np.int8), classes=[0, 1]))
    term = TableTerm(np.zeros((3, 2, 2)), np.ones((3, 2)), np.array([0.9, 0.1]))
    np.testing.assert_allclose(without_votes(always, term=term, trust=1.0), 0.5)


@pytest.mark.parametrize("one_sided", [False, True])
def test_the_balance_of_trusted_tables_is_mixed_in(one_sided):
    votes = simulate(5, 200, [0.8, 0.8, 0.8, 0.8])
    votes = with_one_sided(votes) if one_sided else votes
    moments = Moments.of(votes)
    term = TableTerm(np.zeros((4, 2, 2)), np.ones((4, 2)), np.array([0.9, 0.1]))
    several = moments.vote_counts[1:].sum() / moments.vote_counts.sum() if one_sided else 1.0
    trusted = 0.6 * several
    np.testing.assert_allclose(
        without_votes(moments, term=term, trust=0.6), trusted * term.balance + (1 - trusted) / 2
    )
    np.testing.assert_allclose(without_votes(moments, term=term, trust=0.05), 0.5)


# ---------------------------------------------------------------------- adaptively asked votes


def test_weights_rest_on_complete_items_as_far_as_a_source_votes_there():
    votes = simulate(6, 600, [0.9, 0.8, 0.7, 0.6])
    codes = np.array(votes.codes)
    codes[100:, 3] = -1
    every = Votes.from_classes(codes, classes=[0, 1])
    part = Votes.from_classes(codes[:100], classes=[0, 1])
    complete = Complete(Moments.of(part), rows_of(part, None))
    moments = Moments.of(every)
    firm = vote_weights(moments, None)
    found = module._with_complete(firm, complete, None)
    share = 100 / 110
    expected = share * vote_weights(complete.moments, None).weights + (1 - share) * firm.weights
    np.testing.assert_allclose(found.weights, expected, rtol=1e-12)
    fit = fit_mixture(moments, rows_of(every, None), None, complete)
    assert fit.trust.n_tested == 6 - 4  # all pairs of four sources, minus the number of sources


# ---------------------------------------------------------------------- support of anchored tables


class Movement:
    """Anchored tables that move some items, with a gain in log-likelihood per item."""

    def __init__(self, moved, gain, m=5):
        self.moved, self.gain = moved, gain
        self.rows = type("Rows", (), {"votes": np.ones((m, 2))})

    def moved_share(self, tables):
        return self.moved

    def likelihood_gain(self, tables):
        return self.gain


def supported(moved, gain, n_dependent=0):
    return module._supported(Movement(moved, gain), None, Dependence(None, n_pairs=n_dependent))


def test_moving_items_needs_support_of_the_likelihood():
    assert supported(0.0, 0.0) == 1
    assert supported(0.055, 0.0) == pytest.approx(0.5)
    assert supported(0.3, 0.0) < 1e-5
    assert supported(0.3, -1.0) == supported(0.3, 0.0)  # a loss is no support
    assert supported(0.3, 0.2 * 0.3) == 1  # .2 nats for each moved item
    assert supported(0.3, 0.2 * (0.3 - 0.055)) == pytest.approx(0.5)
    # One of ten pairs is dependent: twice the support is needed; two of ten, 17 times.
    assert supported(0.3, 0.4 * (0.3 - 0.055), n_dependent=1) == pytest.approx(0.5)
    assert supported(0.3, 17 * 0.2 * (0.3 - 0.055), n_dependent=2) == pytest.approx(0.5)


def test_support_is_smooth_where_it_begins():
    assert supported(0.055 / 4 + 1e-9, 0.0) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("share", "rounded"), [(0.0, 0), (0.009, 0), (0.011, 0.011), (0.5, 0.5), (0.989, 0.989), (0.991, 1)]
)
def test_negligible_parts_are_left_out(share, rounded):
    assert module._without_negligible(share) == rounded


# ---------------------------------------------------------------------- gain and verdict


def gain_by_definition(labels, plausible, codes, is_tested):
    """Expected gain, one item at a time; ties of either side are divided."""

    def hard(values):
        best = values >= values.max() - 1e-9
        return best / best.sum()

    gains, worst, differ = np.zeros((len(plausible) + 1, len(codes))), [], np.zeros(len(codes))
    for n, row in enumerate(codes):
        majority = hard(np.array([(row == k).sum() for k in range(labels.shape[1])], float))
        change = hard(labels[n]) - majority
        differ[n] = change[change > 0].sum()
        gains[:, n] = [p[n] @ change for p in (labels, *plausible)]
    voted = (codes >= 0).any(axis=1)
    worst = [np.where(voted, -differ, each).mean() for each in gains]
    reach = 1.959963984540054 * np.sqrt(differ.sum()) / len(codes)
    lowest = gains.mean(axis=1).min() if is_tested else min(worst)
    return gains[0].mean(), lowest - reach, gains.mean(axis=1).max() + reach


@pytest.mark.parametrize("is_tested", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_gain_is_a_mean_over_items(is_tested, n_classes):
    rng = np.random.default_rng(n_classes)
    codes = rng.integers(-1, n_classes, (80, 3)).astype(np.int8)
    codes[:4] = -1
    rows = rows_of(Votes.from_classes(codes, classes=range(n_classes)), None)
    of_rows = rng.dirichlet(np.ones(n_classes), (3, len(rows.counts)))
    # Rows are all possible ones: find the row of every item.
    hot = np.stack(
        [rows.one_hot.class_sums((np.arange(3) == i)[:, None] * np.ones(n_classes)) for i in range(3)], 1
    )
    row_codes = np.where(hot.any(axis=2), hot.argmax(axis=2), -1)
    of_item = [int(np.flatnonzero((row_codes == row).all(axis=1))[0]) for row in codes]
    labels, *plausible = of_rows
    found = gain_over_majority(labels, plausible, rows, is_tested=is_tested)
    expected = gain_by_definition(labels[of_item], [p[of_item] for p in plausible], codes, is_tested)
    assert (found.value, *found.interval) == pytest.approx(expected)


def test_no_items_have_no_gain():
    rows = rows_of(simulate(0, 5, [0.8, 0.8]), np.zeros(5))
    found = gain_over_majority(np.full((len(rows.counts), 2), 0.5), [], rows, is_tested=True)
    assert (found.value, found.interval) == (0.0, (0.0, 0.0))


@pytest.mark.parametrize(
    ("coverage", "n_tested", "share", "n_dependent", "is_tested"),
    [
        (1.0, 0, 0.51, 0, True),  # abstentions may show independence, too
        (1.0, 0, 0.5, 0, False),
        (1.0, 3, 0.0, 0, False),  # tables were tested and rejected
        (0.1, 3, 0.0, 0, True),  # members of a crowd meet on few items
        (0.1, 2, 0.0, 0, False),
        (1.0, 3, 1.0, 2, True),  # 2 of 45 pairs
        (1.0, 3, 1.0, 3, False),  # 3 of 45
    ],
)
def test_independence_must_not_be_rejected_except_in_a_crowd(
    coverage, n_tested, share, n_dependent, is_tested
):
    fit = fit_weights(Moments.of(simulate(0, 60, [0.8] * 10, coverage=coverage)), None, None)
    fit = replace(fit, trust=Trust(share, 0.0, n_tested), dependence=Dependence(None, n_pairs=n_dependent))
    assert fit.is_tested == is_tested


@pytest.mark.parametrize("n_items", [300, 20_000])
def test_a_single_class_is_recognized_among_few_and_many_rows(n_items):
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((n_items, 14)) < 0.2, 1, 0).astype(np.int8)
    codes[(codes == 1).sum(axis=1) >= 6] = 0
    votes = Votes.from_classes(codes, classes=[0, 1])
    assert fit_weights(Moments.of(votes), rows_of(votes, None), None).only_class == 0
    codes[-1] = 1
    mixed = Votes.from_classes(codes, classes=[0, 1])
    assert fit_weights(Moments.of(mixed), rows_of(mixed, None), None).only_class is None


# ---------------------------------------------------------------------- blanks that are votes for one class


def token_rules(seed, n_classes, n_rules):
    """Rules that mark spans of one class each; tokens that no rule marks are votes for class 0."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(10_000) < 0.12, rng.integers(1, n_classes, 10_000), 0)
    votes = np.full((len(y), n_rules), -1, np.int8)
    for j in range(n_rules):
        marked = 1 + j % (n_classes - 1)
        found = (y == marked) & (rng.random(len(y)) < rng.uniform(0.05, 0.5))
        votes[found | (rng.random(len(y)) < 0.002), j] = marked
    return Votes.from_classes(votes, classes=range(n_classes)).fill_abstains(0), y


@pytest.mark.parametrize("is_given", [False, True])
@pytest.mark.parametrize(("n_classes", "n_rules"), [(2, 10), (3, 5), (3, 12), (4, 9)])
def test_tokens_without_spans_are_as_certain_as_in_majority_vote(n_classes, n_rules, is_given):
    votes, y = token_rules(0, n_classes, n_rules)
    balance = np.bincount(y) / len(y) if is_given else None
    fit = fit_mixture(Moments.of(votes), rows_of(votes, None), balance)
    labels = mixture_posterior(votes.codes, fit.mixture)
    counts = np.stack([(votes.codes == k).sum(axis=1) for k in range(n_classes)], axis=1) + 1.0
    shares = counts / counts.sum(axis=1, keepdims=True)
    ours, plain = (-np.log(each[np.arange(len(y)), y]).mean() for each in (labels, shares))
    assert ours < plain
    assert (labels.argmax(axis=1) == y).mean() > (shares.argmax(axis=1) == y).mean() - 0.003
    assert fit.trust.share < 0.1


def test_abstentions_on_the_same_items_have_no_weight():
    votes = np.array(simulate(5, 2_000, [0.8] * 5, coverage=0.9).codes)
    votes[np.random.default_rng(6).random(2_000) < 0.5] = -1  # all sources abstain on half of the items
    moments = Moments.of(Votes.from_classes(votes, classes=(0, 1)))
    weights = vote_weights(moments, None)
    em = PairEM(moments, weights, np.zeros((5, 5)), None)
    tables, share, against = module._fit_tables(moments, weights, em)
    assert share == 0
    assert against is not None
    assert against > 10
    np.testing.assert_array_equal(tables.tables, converge(em.passes(), em.start()).tables)
