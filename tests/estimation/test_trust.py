"""Trust in confusion tables: chance, the evidence of abstentions, and what pairs determine."""

from functools import partial

import numpy as np
import pytest
from scipy import integrate, stats

from flyingsquid.estimation.dependence import Dependence
from flyingsquid.estimation.table_em import Tables
from flyingsquid.estimation.trust import (
    Trust,
    _evidence_against,
    _Residuals,
    evidence_against_abstention,
    p_value_of_chance,
    probability_adequate,
    share_determined,
    shares_of_pairs,
    trust_in_tables,
)
from flyingsquid.estimation.weighted import vote_weights
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes


def simulate(rng, n, accuracies, balance=0.5, coverage=1.0):
    y = (rng.random(n) < balance).astype(int)
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])
    votes[rng.random(votes.shape) >= coverage] = -1
    return votes.astype(np.int8), y


@pytest.mark.parametrize("balance", [0.5, 0.2])
@pytest.mark.parametrize("coverage", [1.0, 0.3])
def test_coins_agree_by_chance(balance, coverage):
    """P-values of guesses are below .05 in 5% of draws at most; 12 of 100 have a probability of .004."""
    rng = np.random.default_rng(5)
    coins = (rng.random((100, 300, 6)) < balance).astype(np.int8)
    coins[rng.random(coins.shape) >= coverage] = -1
    assert sum(p_value_of_chance(Moments.of(votes)) < 0.05 for votes in coins) <= 11


@pytest.mark.parametrize("accuracies", [[0.7] * 4, [0.3, 0.3, 0.8, 0.8]], ids=["signal", "two groups"])
def test_signal_and_contradiction_are_not_chance(accuracies):
    votes, _ = simulate(np.random.default_rng(0), 400, accuracies)
    assert p_value_of_chance(Moments.of(votes)) < 1e-6


def test_sources_that_never_meet_cannot_be_compared():
    votes = np.full((40, 2), -1, np.int8)
    votes[:20, 0], votes[20:, 1] = 0, 1
    assert p_value_of_chance(Moments.of(votes)) == 0
    always = np.zeros((40, 2), np.int8)  # agreement without variance is not evidence
    assert p_value_of_chance(Moments.of(Votes.from_classes(always, classes=[0, 1]))) == 0


def test_half_is_determined_by_a_hundred_pairs_of_votes():
    votes, _ = simulate(np.random.default_rng(1), 100, [0.8, 0.8])
    moments = Moments.of(votes)
    weights = vote_weights(moments, None)
    assert share_determined(moments.compare_pairs(), weights) == pytest.approx(0.5)
    three, _ = simulate(np.random.default_rng(1), 100, [0.8] * 3)
    moments = Moments.of(three)
    weights = vote_weights(moments, None)
    assert share_determined(moments.compare_pairs(), weights) == pytest.approx(0.75)
    one_sided = np.ones((100, 1), np.int8)  # its pairs do not count
    moments = Moments.of(np.hstack([votes, one_sided]))
    weights = vote_weights(moments, None)
    assert share_determined(moments.compare_pairs(), weights) == pytest.approx(0.5)


def test_the_prior_is_kept_without_evidence():
    assert probability_adequate(0.0) == pytest.approx(0.25)
    assert probability_adequate(10.0) < 1e-3
    assert probability_adequate(-10.0) > 0.999


class TestAbstention:
    """Abstentions that depend only on the class fit coverage by class; those on shared items do not."""

    def tables(self, accuracy, coverage):
        table = [[accuracy, 1 - accuracy], [1 - accuracy, accuracy]]
        return Tables(np.array([table] * 4), np.array([0.5, 0.5]), np.array([coverage] * 4))

    def test_abstention_by_class_is_adequate(self):
        rng = np.random.default_rng(2)
        votes, y = simulate(rng, 4_000, [0.8] * 4)
        votes[rng.random(votes.shape) >= np.where(y == 1, 0.9, 0.5)[:, None]] = -1
        moments = Moments.of(Votes.from_classes(votes, classes=[0, 1]))
        evidence = evidence_against_abstention(moments, vote_weights(moments, None))
        assert evidence is not None
        assert probability_adequate(evidence(self.tables(0.8, [0.5, 0.9]))) > 0.98
        assert probability_adequate(evidence(self.tables(0.8, [0.9, 0.5]))) < 0.01

    def test_abstention_on_the_same_items_is_not(self):
        rng = np.random.default_rng(3)
        votes, _ = simulate(rng, 4_000, [0.8] * 4)
        easy = rng.random(4_000) < 0.5
        votes[rng.random(votes.shape) >= np.where(easy, 0.9, 0.3)[:, None]] = -1
        moments = Moments.of(votes)
        evidence = evidence_against_abstention(moments, vote_weights(moments, None))
        assert evidence is not None
        assert probability_adequate(evidence(self.tables(0.8, [0.6, 0.6]))) < 0.01

    @pytest.mark.parametrize(("n_sources", "coverage"), [(4, 1.0), (2, 0.5)])
    def test_complete_votes_and_two_sources_cannot_be_tested(self, n_sources, coverage):
        votes, _ = simulate(np.random.default_rng(4), 500, [0.8] * n_sources, coverage=coverage)
        moments = Moments.of(votes)
        assert evidence_against_abstention(moments, vote_weights(moments, None)) is None


# ---------------------------------------------------------------------- Bayes factors by integration


def normal(value, variance):
    return np.exp(-(value**2) / variance / 2) / np.sqrt(2 * np.pi * variance)


def evidence_of_mean(mean, error, scale):
    """Wrong tables: half a normal of scale .15. Negligible: a normal of scale .003."""
    grid = np.linspace(0, 1, 200_001)
    wrong = integrate.trapezoid(2 * normal(grid, (scale * 0.15) ** 2) * normal(mean - grid, error**2), grid)
    return np.log(wrong / normal(mean, (scale * 0.003) ** 2 + error**2))


@pytest.mark.parametrize("mean", [-0.05, 0.0, 0.01, 0.2])
@pytest.mark.parametrize("misfit", [0.5, 1.0, 1.6])
@pytest.mark.parametrize("scale", [1.0, 0.2])
def test_evidence_is_the_mean_over_the_ways_to_be_wrong(mean, misfit, scale):
    """On average, for single pairs, or both. A smaller misfit counts if the sources agree little."""
    precision, n = 50.0, 12
    values = np.full(n, np.sqrt(misfit))
    wrong, negligible = (normal(values, 1 + precision * (scale * s) ** 2).prod() for s in (0.15, 0.003))
    by_pairs, by_mean = wrong / negligible, np.exp(evidence_of_mean(mean, 0.02, scale))
    found = _evidence_against(_Residuals(mean, 0.02, misfit, n, precision, scale))
    assert found == pytest.approx(np.log((by_mean + by_pairs + 2 * by_mean * by_pairs) / 4), abs=1e-4)


def test_pairs_that_fit_do_not_make_up_for_shared_errors():
    """With any number of pairs that fit, tables are wrong if the mean correlation is far from 0."""
    shared = [_evidence_against(_Residuals(0.1, 0.01, 0.9, n, 1_000.0, 1.0)) for n in (20, 2_000)]
    assert shared[0] > 30
    assert shared[1] == pytest.approx(shared[0])


def trust_by_definition(votes, tables, shared, most):
    """Trust, one pair of sources at a time; every source votes for several classes."""
    (_, m), n_classes = votes.shape, tables.tables.shape[1]
    residual, spread, spare, tested = [], [], [], set()
    signal, room = [], []
    for i in range(m):
        for j in range(i + 1, m):
            both = (votes[:, i] >= 0) & (votes[:, j] >= 0)
            if not both.any() or shared[i, j]:
                continue
            coverage = tables.balance * tables.coverage[i] * tables.coverage[j]
            rate = [tables.tables[i, k] @ tables.tables[j, k] for k in range(n_classes)]
            expected = both.sum() * np.average(rate, weights=coverage)
            variance = both.sum() * np.average([r * (1 - r) for r in rate], weights=coverage)
            agreed = (votes[both, i] == votes[both, j]).sum()
            residual.append(agreed - expected)
            spread.append(max(variance, 0.25))
            spare.append(max(both.sum() - expected, 0.05 * both.sum()))
            shares = [[(votes[both, s] == k).mean() for k in range(n_classes)] for s in (i, j)]
            by_chance = both.sum() * np.dot(*shares)
            signal.append((expected - by_chance) ** 2 / (both.sum() - by_chance))
            room.append(both.sum() - by_chance)
            tested |= {i, j}
    residual, spread, spare = map(np.array, (residual, spread, spare))
    n_tested = len(residual) - len(tested)
    against = _evidence_against(
        _Residuals(
            mean=residual.sum() / spare.sum(),
            error=np.sqrt(spread.sum()) / spare.sum(),
            misfit=(residual**2 / spread).sum() / n_tested,
            degrees=n_tested,
            precision=(spare**2 / spread).mean(),
            scale=min(np.sqrt(sum(signal) / sum(room)) / 0.15, 1.0),
        )
    )
    dependent = np.triu(shared > 0).sum() / (m * (m - 1) / 2)
    share = min(most, probability_adequate(against)) / (1 + (dependent / 0.25) ** 8)
    return share, residual.sum() / spare.sum(), n_tested


@pytest.mark.parametrize("n_dependent", [0, 1, 2])
@pytest.mark.parametrize("most", [1.0, 0.8])
@pytest.mark.parametrize("right", [0.8, 0.75, 0.6])
def test_trust_compares_the_agreement_of_every_pair_with_the_prediction(n_dependent, most, right):
    votes, _ = simulate(np.random.default_rng(8), 400, [right] * 5, coverage=0.7)
    moments = Moments.of(votes)
    shared = np.zeros((5, 5))
    for i in range(n_dependent):
        shared[0, i + 1] = shared[i + 1, 0] = 0.3
    table = np.array([[right, 1 - right], [1 - right, right]])
    coverage = np.random.default_rng(0).uniform(0.5, 0.9, (5, 2))
    tables = Tables(np.array([table] * 5), np.array([0.4, 0.6]), coverage)
    dependence = Dependence(shared if n_dependent else None, n_pairs=n_dependent)
    weights = vote_weights(moments, None)
    found = trust_in_tables(
        moments,
        moments.compare_pairs(),
        tables,
        partial(shares_of_pairs, tables),
        weights,
        dependence,
        None,
        most=most,
    )
    expected = trust_by_definition(votes, tables, shared, most)
    assert (found.share, found.shared_errors, found.n_tested) == pytest.approx(expected)


def test_abstentions_count_only_if_pairs_cannot_be_tested_and_all_sources_meet():
    votes, _ = simulate(np.random.default_rng(9), 400, [0.8] * 3, coverage=0.6)
    moments = Moments.of(votes)
    tables = Tables(np.array([[[0.8, 0.2], [0.2, 0.8]]] * 3), np.array([0.5, 0.5]))
    weights, pairs = vote_weights(moments, None), moments.compare_pairs()

    def trust(abstained, moments=moments, most=1.0):
        pairs = moments.compare_pairs()
        met = partial(shares_of_pairs, tables)
        return trust_in_tables(moments, pairs, tables, met, weights, Dependence(None), abstained, most=most)

    assert trust(None) == Trust(0.0)
    determined = share_determined(pairs, weights)
    assert trust(-1.0).share == pytest.approx(min(determined, probability_adequate(-1.0)))
    assert trust(-20.0).share == pytest.approx(determined)
    assert trust(-20.0, most=0.8).share == pytest.approx(0.8 * determined)
    apart = votes.copy()
    apart[:200, 0], apart[200:, 1] = -1, -1  # two sources never meet
    assert trust(-20.0, Moments.of(apart)).share == 0


@pytest.mark.parametrize("n_dependent", [0, 3])
@pytest.mark.parametrize("coverage", [0.0, 0.4])
@pytest.mark.parametrize("at", [0, 2, 5])
def test_a_source_of_at_most_one_class_does_not_change_the_trust(at, coverage, n_dependent):
    votes, _ = simulate(np.random.default_rng(10), 400, [0.8] * 5, coverage=0.7)
    one_sided = np.where(np.random.default_rng(11).random(400) < coverage, 1, -1)
    found = []
    for part in (votes, np.insert(votes, at, one_sided, axis=1)):
        moments = Moments.of(Votes.from_classes(part, classes=(0, 1)))
        m = part.shape[1]
        tables = Tables(np.array([[[0.8, 0.2], [0.2, 0.8]]] * m), np.array([0.5, 0.5]))
        weights, pairs = vote_weights(moments, None), moments.compare_pairs()
        met = partial(shares_of_pairs, tables)
        dependence = Dependence(None, n_pairs=n_dependent)
        found.append(trust_in_tables(moments, pairs, tables, met, weights, dependence, None, most=1.0))
    assert found[0].n_tested == 5
    assert found[1] == found[0]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_evidence_about_abstention_compares_the_densities_of_all_correlations(n_classes):
    """Of "i votes" with "j votes v", against the correlation that coverage in each class predicts."""
    rng = np.random.default_rng(12)
    y = rng.integers(0, n_classes, 500)
    coverage, accuracy = rng.uniform(0.4, 0.9, (4, n_classes)), 0.75
    wrong = (y[:, None] + rng.integers(1, n_classes, (500, 4))) % n_classes
    votes = np.where(rng.random((500, 4)) < accuracy, y[:, None], wrong)
    votes[rng.random((500, 4)) >= coverage[:, y].T] = -1
    rates = np.full((n_classes, n_classes), (1 - accuracy) / (n_classes - 1))
    np.fill_diagonal(rates, accuracy)
    balance = rng.dirichlet([20.0] * n_classes)
    tables = Tables(np.array([rates] * 4), balance, coverage)
    correlations = []
    for i in range(4):
        for j in set(range(4)) - {i}:
            for k in range(n_classes):
                said, voted = votes[:, j] == k, votes[:, i] >= 0
                together = sum(
                    balance[c] * coverage[i, c] * coverage[j, c] * rates[c, k] for c in range(n_classes)
                )
                correlations.append(((said & voted).mean() - together) / (said.std() * voted.std()))
    wrong_scale, small = np.sqrt(1 / 500 + 0.15**2), np.sqrt(1 / 500 + 0.003**2)
    densities = [stats.norm.logpdf(correlations, 0, scale).sum() for scale in (wrong_scale, small)]
    moments = Moments.of(votes.astype(np.int8))
    evidence = evidence_against_abstention(moments, vote_weights(moments, None))
    assert evidence is not None
    assert evidence(tables) == pytest.approx(densities[0] - densities[1])


def chance_by_definition(votes, n_classes):
    """Cohen's kappa of every pair, tested together and one by one."""
    beyond, variance, often = [], [], []
    m = votes.shape[1]
    for i in range(m):
        for j in range(i + 1, m):
            both = (votes[:, i] >= 0) & (votes[:, j] >= 0)
            if min(len(set(votes[both, s])) for s in (i, j)) < 2:
                continue  # agreement with a constant is not evidence
            n = both.sum()
            agreed = (votes[both, i] == votes[both, j]).sum()
            on_shared = [[(votes[both, s] == k).mean() for k in range(n_classes)] for s in (i, j)]
            p, q = ([(votes[votes[:, s] >= 0, s] == k).mean() for k in range(n_classes)] for s in (i, j))
            chance = np.dot(p, q)
            cubes = sum(p[k] * q[k] * (p[k] + q[k]) for k in range(n_classes))
            beyond.append(agreed - n * np.dot(*on_shared))
            variance.append(n * (chance + chance**2 - cubes))
            often.append(n >= 10)
    beyond, variance, often = map(np.array, (beyond, variance, often))
    together = stats.norm.sf(beyond.sum() / np.sqrt(variance.sum()))
    single = stats.chi2.sf((beyond**2 / variance)[often].sum(), often.sum())
    return min(2 * min(together, single), 1.0)


@pytest.mark.parametrize("accuracy", [0.5, 0.56])
@pytest.mark.parametrize("seed", range(4))
def test_p_value_of_chance_tests_all_pairs_together_and_one_by_one(accuracy, seed):
    votes, _ = simulate(np.random.default_rng(seed), 90, [accuracy] * 4, coverage=0.6)
    votes[12:, 3] = -1  # its pairs share fewer than ten items
    found = p_value_of_chance(Moments.of(Votes.from_classes(votes, classes=[0, 1])))
    assert found == pytest.approx(chance_by_definition(votes, 2))
