"""Tables of many classes by agreement, EM and gold labels, as loops over items; balance of gold labels."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.agreement import (
    EMVotes,
    agreement_tables,
    prior_table,
    refine,
    sparse_agreement_tables,
)
from flyingsquid.estimation.confusion import estimate_many_balance, fit_many, fit_one_vs_rest
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.exceptions import OptionError
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from tests.oracle.many import ManyStar


def sample(n=60, n_classes=3, seed=0, m=4):
    star = ManyStar.random(np.random.default_rng(seed), m, n_classes)
    codes, y = star.sample(n, np.random.default_rng(seed + 1))
    return Votes.from_classes(codes, classes=range(n_classes)), y


def some_gold(y, share=0.3):
    return np.where(np.random.default_rng(5).random(len(y)) < share, y, -1)


def agreement_by_definition(codes, gold, meaning):
    """Every vote without a gold label is spread over the classes like the votes of others on its items."""
    m, n_classes = codes.shape[1], len(meaning)
    prior = np.full((n_classes, n_classes), 0.3 / (n_classes - 1))  # truth, vote
    for v in range(n_classes):
        prior[meaning[v], v] = 0.7
    tables = np.zeros((m, n_classes, n_classes))
    for i in range(m):
        for v in range(n_classes):
            items = np.flatnonzero(codes[:, i] == v)
            others = np.zeros(n_classes)
            for n in items:
                for j in range(m):
                    if j != i and codes[n, j] >= 0:
                        others[meaning[codes[n, j]]] += 1
            spread = (others + 4 * prior[:, v]) / (others.sum() + 4)
            known = np.array([(gold[items] == k).sum() for k in range(n_classes)], float)
            worth = min(others.sum() + 4, 50.0) if (gold >= 0).any() else 1.0
            share = (worth * spread + known) / (worth + known.sum())
            tables[i, :, v] = known + (len(items) - known.sum()) * share
    tables += 4 * prior
    return tables / tables.sum(axis=2, keepdims=True)


@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("renamed", [False, True])
def test_agreement_tables_spread_votes_like_those_of_others(with_gold, n_classes, renamed):
    votes, y = sample(n_classes=n_classes)
    known = some_gold((y + 1) % n_classes if renamed else y) if with_gold else np.full(len(y), -1)
    gold = EMVotes(votes, None, known).gold
    assert (gold is not None) == with_gold
    meaning = np.arange(n_classes) if gold is None else gold.meaning
    assert (meaning.tolist() != list(range(n_classes))) == (renamed and with_gold)
    expected = agreement_by_definition(np.asarray(votes.codes), known, meaning)
    np.testing.assert_allclose(agreement_tables(Moments.of(votes), gold), expected, rtol=1e-10)
    sparse = np.asarray(sparse_agreement_tables(Moments.of(votes), gold))
    coverage = Moments.of(votes).coverage[:, None, None]
    np.testing.assert_allclose(sparse[:, :, :-1], coverage * expected, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("with_gold", [False, True])
@pytest.mark.parametrize("learn_balance", [False, True])
def test_passes_label_items_by_tables_and_count_again(weighted, with_gold, learn_balance):
    votes, y = sample()
    codes, weights = np.asarray(votes.codes), np.random.default_rng(2).uniform(0.5, 2, len(y))
    known = some_gold(y) if with_gold else None
    over = EMVotes(votes, weights if weighted else None, known)
    tables, balance = agreement_tables(Moments.of(votes)), np.array([0.2, 0.3, 0.5])
    found = refine(over, tables, balance, learn_balance=learn_balance, passes=2, gold=over.gold)
    for _ in range(2):
        expected, mass = 4 * np.tile(prior_table(3), (4, 1, 1)), np.ones(3)
        for n, row in enumerate(codes):
            label = balance.copy()
            for i, v in enumerate(row):
                label = label * (tables[i, :, v] if v >= 0 else 1.0)
            label = label / label.sum()
            if with_gold and known[n] >= 0:
                label = np.eye(3)[known[n]]
            label = label * (weights[n] if weighted else 1.0)
            mass = mass + label
            for i, v in enumerate(row):
                if v >= 0:
                    expected[i, :, v] += label
        tables = expected / expected.sum(axis=2, keepdims=True)
        balance = mass / mass.sum() if learn_balance else balance
    np.testing.assert_allclose(found.tables, tables, rtol=1e-9)
    np.testing.assert_allclose(found.balance, balance, rtol=1e-9)


def test_counts_alone_are_not_refined():
    votes, _ = sample()
    moments, given = Moments.of(votes), np.array([0.2, 0.3, 0.5])
    fit = fit_many(moments, given, None, method="agreement")
    assert fit.balance is given
    assert not fit.learned_balance
    tables = np.asarray(fit.tables)
    np.testing.assert_allclose(tables[:, :, :3], moments.coverage[:, None, None] * agreement_tables(moments))
    for method in ("em", "decomposition"):
        with pytest.raises(OptionError, match=f'method="{method}" needs the votes themselves'):
            fit_many(moments, given, None, method=method)


# ---------------------------------------------------------------------- class balance of many classes


def one_sided_rules(n=300):
    rng = np.random.default_rng(0)
    y = rng.choice(3, n, p=[0.6, 0.3, 0.1])
    codes = np.full((n, 6), -1, np.int8)
    for i in range(6):
        codes[rng.random(n) < np.where(y == i % 3, 0.7, 0.1), i] = i % 3
    return Votes.from_classes(codes, classes=range(3)), y


@pytest.mark.parametrize("with_gold", [False, True])
def test_em_learns_the_balance_unless_gold_labels_come_with_one_sided_sources(with_gold):
    for (votes, y), is_learned in ((sample(300), True), (one_sided_rules(), not with_gold)):
        over = EMVotes(votes, None, some_gold(y) if with_gold else None)
        fit = fit_many(Moments.of(votes), None, over, method="em", gold=over.gold)
        assert fit.learned_balance == is_learned
        assert np.allclose(fit.balance, 1 / 3) != is_learned


def test_a_given_balance_is_kept():
    votes, _ = sample(3_000, m=6)
    given = np.array([0.2, 0.3, 0.5])
    for method in ("agreement", "em", "decomposition"):
        fit = fit_many(Moments.of(votes), given, EMVotes(votes), method=method)
        assert fit.balance is given
        assert not fit.learned_balance


@pytest.mark.parametrize(
    ("n", "with_gold", "is_enough"), [(29, False, False), (30, False, True), (5, True, True)]
)
def test_ten_items_with_three_votes_per_class_are_needed_without_gold_labels(n, with_gold, is_enough):
    rng = np.random.default_rng(0)
    codes = np.full((40, 4), -1, np.int8)
    codes[:n, :3] = rng.integers(0, 3, (n, 3))
    codes[n:, :2] = rng.integers(0, 3, (40 - n, 2))  # two votes are no triple
    votes = Votes.from_classes(codes, classes=range(3))
    known = np.full(40, -1)
    known[:5] = 0
    over = EMVotes(votes, None, known if with_gold else None)
    balance, errors = estimate_many_balance(Moments.of(votes), over, over.gold)
    assert np.isfinite(errors).all() == is_enough
    if not is_enough:
        np.testing.assert_allclose(balance, 1 / 3)


@pytest.mark.parametrize(("n_triples", "n_gold", "is_enough"), [(1, 2, True), (1, 1, False), (3, 0, False)])
def test_with_gold_labels_fewer_items_than_classes_are_not_enough(n_triples, n_gold, is_enough):
    codes = np.full((20, 3), -1, np.int8)
    codes[:n_triples] = 0
    codes[10:, 0] = np.arange(10) % 3
    known = np.full(20, -1)
    known[10 : 10 + n_gold] = 0
    votes = Votes.from_classes(codes, classes=range(3))
    over = EMVotes(votes, None, known)
    _, errors = estimate_many_balance(Moments.of(votes), over, over.gold)
    assert np.isfinite(errors).all() == is_enough


def test_one_vs_rest_spreads_other_votes_by_their_frequency():
    star = ManyStar.random(np.random.default_rng(1), 5, 3)
    codes, _ = star.sample(4_000, np.random.default_rng(2))
    moments = Moments.of(Votes.from_classes(codes, classes=range(3)))
    tables = fit_one_vs_rest(moments, star.balance, method="covariance", screen=0.0)
    np.testing.assert_allclose(tables.sum(axis=2), 1)
    for k in range(3):
        two = fs.LabelModel(method="covariance", class_balance=[1 - star.balance[k], star.balance[k]]).fit(
            np.where(codes < 0, -1, codes == k)
        )
        of_class = np.asarray(two.confusion_)[:, 1]
        np.testing.assert_allclose(tables[:, k, k], of_class[:, 1], atol=1e-9)
        np.testing.assert_allclose(tables[:, k, -1], of_class[:, 2], atol=1e-9)
        others = [v for v in range(3) if v != k]
        for i in range(5):
            often = np.array([(codes[:, i] == v).sum() for v in others])
            np.testing.assert_allclose(tables[i, k, others], of_class[i, 0] * often / often.sum(), atol=1e-9)


# ---------------------------------------------------------------------- gold labels


def test_gold_labels_are_counted_with_weights_and_by_unit():
    votes, y = sample(n_classes=2, m=3)
    codes, known = np.asarray(votes.codes), some_gold(y)
    weights = np.random.default_rng(1).uniform(0.5, 2, len(y))
    found = GoldCounts.of(votes, known, weights, units=[(0, 2)])
    for i in range(3):
        for k in range(2):
            for v in (0, 1, -1):
                assert found.tables[i, k, v] == pytest.approx(
                    weights[(known == k) & (codes[:, i] == v)].sum()
                )
    np.testing.assert_allclose(found.classes, [weights[known == k].sum() for k in (0, 1)])
    labeled = known >= 0
    for i in range(3):
        right = labeled & (codes[:, i] == known)
        assert found.right[i] == pytest.approx(weights[right].sum())
        assert found.n_votes[i] == pytest.approx(weights[labeled & (codes[:, i] >= 0)].sum())
    (unit,) = found.units
    for a in (-1, 0, 1):
        for b in (-1, 0, 1):
            state = (a + 1) + 3 * (b + 1)
            items = (codes[:, 0] == a) & (codes[:, 2] == b)
            np.testing.assert_allclose(unit[:, state], [weights[items & (known == k)].sum() for k in (0, 1)])


@pytest.mark.parametrize("error", [0.05, 0.3, np.inf])
def test_the_balance_pools_votes_and_gold_labels_by_their_precision(error):
    expected, found_error = gold_of([30, 10]).expected_truth(0.2, error)
    # Beta posterior with one added item of each class.
    p, n = 11 / 42, 42
    own, variance = 2 * p - 1, 4 * p * (1 - p) / (n + 1)
    precision = 1 / variance + (0 if np.isinf(error) else error**-2)
    pooled = (own / variance + (0 if np.isinf(error) else 0.2 * error**-2)) / precision
    assert (expected, found_error) == pytest.approx((pooled, precision**-0.5))


def test_preference_is_the_difference_of_normal_log_likelihoods():
    votes, y = sample(200, n_classes=2, m=3)
    found = GoldCounts.of(votes, y)
    codes = np.asarray(votes.codes)
    signed = np.where(codes < 0, 0, 2 * codes - 1.0)
    rates = np.array([[(codes[:, i] == v).mean() for v in (0, 1)] for i in range(3)])
    accuracies = np.array([0.3, -0.2, 0.1])
    expected = (found.classes[1] - found.classes[0]) / (len(y) + 2)
    away = 2 * y - 1 - expected
    total = 0.0
    for i in range(3):
        residual = signed[:, i] - signed[:, i].mean()
        noise = max(residual.var() - accuracies[i] ** 2, 0.2 * residual.var())
        total += (
            ((residual + accuracies[i] * away) ** 2 - (residual - accuracies[i] * away) ** 2) / 2 / noise
        ).sum()
    assert found.preference(accuracies, rates) == pytest.approx(total)


def gold_of(classes):
    votes = Votes.from_classes(np.zeros((sum(classes), 1), np.int8), classes=range(len(classes)))
    return GoldCounts.of(votes, np.repeat(np.arange(len(classes)), classes))


def test_few_gold_labels_leave_the_balance_uniform_and_many_determine_it():
    np.testing.assert_allclose(gold_of([4, 3, 3]).balance_with_uniform(), 1 / 3)
    for classes in ([40, 5, 5], [600, 300, 100]):
        n, share = sum(classes), np.array(classes) / sum(classes)
        chi_squared = n * ((share - 1 / 3) ** 2 * 3).sum()
        kept = 1 - 2 * 2 / chi_squared
        shrunk = (np.array(classes) + 20 / 3) / (n + 20)
        np.testing.assert_allclose(gold_of(classes).balance_with_uniform(), 1 / 3 + kept * (shrunk - 1 / 3))


@pytest.mark.parametrize(("n", "is_renamed"), [(8, True), (3, False)])
def test_votes_mean_another_class_if_gold_labels_clearly_say_so(n, is_renamed):
    """Two swapped classes gain all n items; by chance, the root of n and two items may be gained."""
    labels = np.arange(n) % 2
    votes = Votes.from_classes((1 - labels)[:, None].astype(np.int8), classes=range(3))
    assert (GoldCounts.of(votes, labels).meaning.tolist() == [1, 0, 2]) == is_renamed
