"""Mathematics of features: evidence, the class balance, the weight, and sums that add up."""

import numpy as np
import pytest

from flyingsquid.estimation import features as regression
from flyingsquid.estimation.features import (
    Folded,
    _choose_weight,
    _shares,
    _split,
    fit_features,
    learn,
    restoring_offsets,
)
from flyingsquid.inference.features import combine, to_evidence, weighted_evidence
from flyingsquid.votes.features import Features


def make(n=2_000, *, signal=1.5, accuracies=(0.8, 0.75, 0.7, 0.7), coverage=0.5, seed=0):
    """Return features, votes and classes of n items of two classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 8))
    X[:, 0] += signal * (2 * y - 1)
    right = rng.random((n, len(accuracies))) < accuracies
    votes = np.where(right, y[:, None], 1 - y[:, None])
    return X, np.where(rng.random(votes.shape) < coverage, votes, -1), y


def posterior(votes, accuracies=(0.8, 0.75, 0.7, 0.7)):
    """Return the exact posterior of independent sources with these accuracies."""
    weights = np.log(np.array(accuracies) / (1 - np.array(accuracies)))
    log_odds = ((votes == 1) * weights - (votes == 0) * weights).sum(axis=1)
    p = 1 / (1 + np.exp(-log_odds))
    return np.column_stack([1 - p, p])


def fit(X, votes, **options):
    def posterior_of(kept, items):
        return posterior(np.where(kept, votes[items], -1))

    has_votes = (votes >= 0).any(axis=1)
    return fit_features(
        Features.read(X, len(X)),
        posterior_of,
        posterior(votes),
        has_votes,
        (votes >= 0).sum(axis=0).astype(float),
        np.arange(votes.shape[1]),
        **options,
    )


def accuracy(p, y):
    return np.mean(p.argmax(axis=1) == y)


def test_evidence_undoes_what_uncertain_labels_hide():
    """Labels of probability 0.75 or 0.25 hide three quarters of the variance of the truth."""
    truth = np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]])
    predicted = 0.5 + 0.25 * (truth - 0.5)
    found = to_evidence(predicted, np.array([0.5, 0.5]), 0.25)
    np.testing.assert_allclose(found, np.log((truth + 0.02) / 0.52))


def test_noise_does_not_favor_a_rare_class():
    balance = np.array([0.98, 0.01, 0.01])
    noisy = balance + np.array([[0.0, 0.02, -0.02]])
    log_odds = to_evidence(noisy, balance, 1.0)[0]
    assert log_odds.max() - log_odds.min() < 1.5  # 3 to 1 without smoothing, and unbounded below


def test_nothing_added_changes_nothing():
    p = np.array([[0.3, 0.7], [1.0, 0.0]])
    np.testing.assert_array_equal(combine(p, np.zeros((2, 2))), p)
    assert combine(p, np.array([[0.0, 1.0], [0.0, 1.0]]))[1, 1] < 1e-200


def test_shares_and_offsets_apply_to_items_with_and_without_votes():
    """If votes count half, the log odds are log 4 / 2 and log 3; without votes only features are added."""
    by_votes, evidence = np.array([[0.2, 0.8], [0.5, 0.5]]), np.log(np.array([[3.0, 1.0], [3.0, 1.0]]))
    has_votes, offsets = np.array([True, False]), np.log([[1.0, 1.0], [1.0, 5.0]])
    half = combine(by_votes, weighted_evidence(by_votes, evidence, has_votes, np.array([0.5, 1.0]), offsets))
    np.testing.assert_allclose(half[:, 1] / half[:, 0], [5 * 2 / 3, 1 / 3])


def test_features_that_repeat_votes_make_both_count_less():
    """The shares are those of Fisher's discriminant for two correlated pieces of evidence."""
    repeated, strength = 0.6, 0.5
    # Calibrated log odds have variance 2 m and means m and -m; their covariance is that of the repeated part.
    covariance = 2 * np.array([[1.0, repeated * strength], [repeated * strength, strength]])
    best = np.linalg.solve(covariance, 2 * np.array([1.0, strength]))
    np.testing.assert_allclose(_shares(best[1] / best[0], strength), best)
    np.testing.assert_allclose(_shares(1.0, strength), [1.0, 1.0])
    np.testing.assert_allclose(_shares(2.0, strength), [0.5, 1.0])
    np.testing.assert_allclose(_shares(1.25, strength), [0.8, 1.0])
    np.testing.assert_allclose(_shares(0.0, strength), [1.0, 0.0])
    np.testing.assert_allclose(_shares(0.5, np.inf), [2 / 3, 1 / 3], rtol=1e-6)


def test_labels_by_votes_and_features_need_no_correction():
    """Predictions of posteriors by votes are spread by the root of their separation, others are not."""
    X, votes, _ = make(500)
    features, d, p = Features.read(X, 500), X.shape[1], posterior(votes)
    separation = np.sum(p.var(axis=0)) / np.sum(p.mean(axis=0) * (1 - p.mean(axis=0)))
    arguments = (features, np.zeros(d), np.ones(d), [p], np.ones(500))
    assert learn(*arguments)[0].slope == 1.0
    assert learn(*arguments, by_votes=True)[0].slope == pytest.approx(np.sqrt(separation))


def test_contradicting_sources_reduce_the_weight():
    """Half of the sources vote for the opposite class, and features agree with all of them."""
    X, votes, _ = make(3_000, accuracies=(0.8, 0.8, 0.8, 0.8), coverage=0.8)
    opposed = np.where(votes >= 0, np.where([True, True, False, False], votes, 1 - votes), -1)
    effect = fit(X, opposed)[1]
    assert effect.contradiction > 0.95
    assert effect.weight < 0.1
    assert fit(X, votes)[1].contradiction == 0.0


def test_offsets_restore_the_class_balance():
    rng = np.random.default_rng(0)
    p, counts = rng.dirichlet(np.ones(4), 500), rng.integers(1, 4, 500).astype(float)
    balance = counts @ p / counts.sum()
    adds = rng.normal(size=(500, 4)) + np.array([3.0, 0.0, 0.0, -1.0])
    restored = combine(p, adds + restoring_offsets(p, adds, counts))
    np.testing.assert_allclose(counts @ restored / counts.sum(), balance, atol=1e-5)


def test_sums_of_two_parts_add_up():
    X, votes, _ = make(400)
    target, weights = posterior(votes), np.ones(400)
    features, d = Features.read(X, 400), X.shape[1]
    whole = Folded.of(features, np.zeros(d), np.ones(d), target, weights)
    halves = [
        Folded.of(features.take(at), np.zeros(d), np.ones(d), target[at], weights[at])
        for at in (np.arange(150), np.arange(150, 400))
    ]
    for name in ("squares", "products"):
        np.testing.assert_allclose(getattr(whole, name), sum(getattr(half, name) for half in halves))


def test_every_fold_is_predicted_by_the_others(monkeypatch):
    monkeypatch.setattr(regression, "_PENALTIES", np.array([0.1]))  # all folds take part in the choice
    X, votes, _ = make(500)
    features, d = Features.read(X, 500), X.shape[1]
    (learner,) = learn(features, np.zeros(d), np.ones(d), [posterior(votes)], np.ones(500))
    before, _ = learner.evidence(features)
    (_, _, folds), *_ = features.chunks()
    changed = posterior(votes)
    changed[folds == 2] = changed[folds == 2][:, ::-1]
    (other,) = learn(features, np.zeros(d), np.ones(d), [changed], np.ones(500))
    np.testing.assert_allclose(other.coefficients[2], learner.coefficients[2])
    assert np.abs(other.evidence(features)[0] - before).max() > 0.1


def test_good_features_improve_labels_and_label_items_without_votes():
    X, votes, y = make()
    weights, effect = fit(X, votes)
    has_votes = (votes >= 0).any(axis=1)
    both = combine(posterior(votes), weights.log_odds(posterior(votes), has_votes, Features.read(X, len(X))))
    assert effect.weight >= 1.0  # features and votes are independent given the class
    assert effect.both_gain > max(effect.votes_gain, effect.features_gain) > 0
    assert accuracy(both, y) > accuracy(posterior(votes), y) + 0.1
    assert accuracy(both[~has_votes], y[~has_votes]) > 0.85
    assert effect.n_labeled == np.count_nonzero(~has_votes)


@pytest.mark.parametrize("seed", range(8))
def test_noise_is_not_used(seed):
    X, votes, _ = make(600, signal=0.0, seed=seed)
    weights, effect = fit(X, votes)
    assert not effect.is_used
    assert not weights.log_odds(posterior(votes), (votes >= 0).any(axis=1), Features.read(X, 600)).any()


def test_one_source_does_not_show_what_features_are_worth():
    X, votes, _ = make(500)
    only_one = np.where(np.arange(4) == 0, votes, -1)
    assert fit(X, only_one)[1].weight == 0.0


def test_gold_labels_take_part_in_the_choice_of_the_weight():
    """Features predict what all sources get wrong; gold labels show that."""
    X, votes, y = make(1_500, signal=0.0, coverage=0.7)
    shared = np.where(X[:, [1]] > 0, 1, 0)  # all sources follow a feature that is unrelated to the class
    votes = np.where((votes >= 0) & (np.random.default_rng(1).random(votes.shape) < 0.5), shared, votes)
    gold = np.where(np.arange(1_500) < 300, y, -1)
    without, informed = fit(X, votes)[1], fit(X, votes, gold=gold)[1]
    assert without.weight > 0
    assert informed.n_gold == 300
    assert informed.weight < without.weight


def test_gold_labels_that_features_predict_raise_the_weight_and_others_lower_it():
    X, votes, y = make(1_500, coverage=0.7)
    is_gold = np.arange(1_500) < 300
    weights = [
        fit(X, votes, gold=np.where(is_gold, labels, -1))[1].weight
        for labels in (np.where(X[:, 0] > 0, 1, 0), y, np.where(X[:, 0] > 0, 0, 1))
    ]
    assert weights[0] > weights[1] > weights[2]


def test_weights_count_items_several_times():
    X, votes, _ = make(300)
    counts = np.random.default_rng(0).integers(1, 4, 300)
    repeated = np.repeat(np.arange(300), counts)
    one, two = fit(X, votes, weights=counts.astype(float)), fit(X[repeated], votes[repeated])
    np.testing.assert_allclose(one[0].learner.balance, two[0].learner.balance)
    np.testing.assert_allclose(one[1].votes_gain, two[1].votes_gain, rtol=1e-6)


def test_hostile_columns_do_no_harm():
    X, votes, y = make(800)
    hostile = np.column_stack([X, np.ones(800), 1e150 * X[:, 0], np.full(800, np.nan), np.zeros(800)])
    hostile[::7, 2] = np.nan
    with np.errstate(all="raise", under="ignore"):
        weights, _ = fit(hostile, votes)
        adds = weights.log_odds(posterior(votes), (votes >= 0).any(axis=1), Features.read(hostile, 800))
    assert np.isfinite(adds).all()
    assert accuracy(combine(posterior(votes), adds), y) > accuracy(posterior(votes), y) + 0.05


# ---------------------------------------------------------------------- definitions


def test_columns_are_described_by_weighted_means_and_deviations_of_known_values():
    X = np.random.default_rng(0).normal(3, 2, (50, 4)) * [1.0, 1e200, 1e-3, 1.0]
    X[5:15, 0] = np.nan
    X[:, 3] = 7.0
    weights = np.random.default_rng(1).integers(0, 3, 50).astype(float)
    means, scales = regression.column_statistics(Features.read(X, 50), weights)
    for column in range(3):
        known = ~np.isnan(X[:, column])
        mean = np.average(X[known, column], weights=weights[known])
        assert means[column] == pytest.approx(mean)
        # Divided first, because squares of huge numbers overflow.
        unit = np.abs(X[known, column]).max()
        variance = np.average(((X[known, column] - mean) / unit) ** 2, weights=weights[known])
        assert scales[column] == pytest.approx(unit * np.sqrt(variance))
    assert means[3] == pytest.approx(7.0)
    assert scales[3] > 1e100


def test_coefficients_are_those_of_a_ridge_regression_on_the_other_folds():
    rng = np.random.default_rng(0)
    X, targets = rng.normal(size=(200, 3)), rng.normal(size=(200, 2)) * 0.1
    targets += X @ rng.normal(size=(3, 2)) + 1
    weights = rng.uniform(0, 2, 200)
    features = Features.read(X, 200)
    (_, rows, folds), *_ = features.chunks()
    intercepts, coefficients = Folded.of(features, np.zeros(3), np.ones(3), targets, weights).solve(2)
    losses, found = [], []
    for penalty in regression._PENALTIES:
        loss, of_folds = 0.0, []
        for fold in range(regression.N_FOLDS):
            kept, out = folds != fold, folds == fold
            w = weights[kept] / weights[kept].sum()
            center, mean = w @ rows[kept], w @ targets[kept]
            A, b = rows[kept] - center, targets[kept] - mean
            covariance = A.T @ (A * w[:, None])
            scale = np.trace(covariance) / 3
            slope = np.linalg.solve(covariance + penalty * scale * np.eye(3), A.T @ (b * w[:, None]))
            intercept = mean - center @ slope
            of_folds.append((intercept, slope))
            loss += (weights[out, None] * (targets[out] - intercept - rows[out] @ slope) ** 2).sum()
        losses.append(loss)
        found.append(of_folds)
    best = found[int(np.argmin(losses))]
    np.testing.assert_allclose(intercepts, [one for one, _ in best], atol=1e-8)
    np.testing.assert_allclose(coefficients, [slope for _, slope in best], atol=1e-8)


def gains_of(best, mean, deviation, n):
    """Gains by weight: n items whose mean gain at the best weight has this mean and deviation."""
    gains = np.zeros((n, 10))
    spread = np.where(np.arange(n) % 2, 1.0, -1.0) * deviation
    gains[:, best] = mean + spread
    gains[:, best - 1] = 0.5 * (mean + spread)
    return gains


@pytest.mark.parametrize(("z", "weight"), [(2.9, 0.0), (3.1, 0.5)])
def test_without_gold_labels_the_most_likely_weight_needs_three_standard_errors(z, weight):
    gains = gains_of(4, 1.0, 10 / z, 100)  # the error of the sum is 10 deviations
    assert _choose_weight(gains, np.zeros((0, 10))) == (weight, pytest.approx(z))


def test_gold_labels_give_the_mean_of_the_posterior_of_the_weight():
    held_out, gold = gains_of(4, 0.5, 0.1, 100), gains_of(6, 0.3, 0.1, 30)
    weights = np.array([0.0, 0.125, 0.25, 0.375, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0])
    logs = 20 / 100 * held_out.sum(axis=0) + gold.sum(axis=0)  # votes count as 20 labels
    posterior = np.exp(logs - logs.max())
    found, z = _choose_weight(held_out, gold)
    assert found == pytest.approx(weights @ posterior / posterior.sum())
    assert z == pytest.approx(max(10 * 0.5 / 0.1, np.sqrt(30) * 0.3 / 0.1))


@pytest.mark.parametrize(("z", "is_used"), [(1.9, False), (2.1, True)])
def test_gold_labels_alone_need_two_standard_errors(z, is_used):
    gold = gains_of(6, 1.0, np.sqrt(30) / z, 30)
    found, found_z = _choose_weight(np.zeros((50, 10)), gold)
    assert (found > 0) == is_used
    assert found_z == pytest.approx(z)


def test_sources_are_held_out_in_groups_of_similar_size():
    groups = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    votes_on = np.array([4.0, 5, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    masks = _split(votes_on, groups)
    assert len(masks) == 8
    together = np.sum(masks, axis=0)
    assert together.tolist() == [1] * 10 + [0]  # each source with votes once
    assert any(mask[0] and mask[1] for mask in masks)
    assert [float(votes_on[mask].sum()) for mask in masks] == [9, 8, 7, 6, 5, 4, 3, 3]


def test_the_effect_counts_items_with_features_and_changed_labels():
    X, votes, _ = make(1_000, signal=2.5, coverage=0.4)
    X[:50] = np.nan
    weights, effect = fit(X, votes, n_seen=5_000)
    has_votes, p = (votes >= 0).any(axis=1), posterior(votes)
    features = Features.read(X, 1_000)
    combined = combine(p, weights.log_odds(p, has_votes, features))
    moved = combined.argmax(axis=1) != p.argmax(axis=1)
    assert effect.is_used
    assert effect.n_items == 950
    assert effect.n_seen == 5_000
    assert effect.n_changed == (moved & has_votes).sum()
    assert effect.n_labeled == (~has_votes[50:]).sum()
    assert fit(X, votes)[1].n_seen == 1_000
    np.testing.assert_array_equal(combined[:50], p[:50])  # items without features keep their labels
    assert effect.both_gain > effect.votes_gain
    np.testing.assert_allclose(combined[has_votes & (np.arange(1_000) >= 50)].mean(axis=0),
                               p[has_votes & (np.arange(1_000) >= 50)].mean(axis=0), atol=1e-3)  # fmt: skip


def test_evidence_of_extreme_predictions_is_that_of_one_class():
    # The prediction is outside of the range that P(Y | features) allows: P = 1 for the second class.
    balance = np.array([0.25, 0.75])
    extreme = to_evidence(np.array([[0.1, 0.9]]), balance, 0.1)
    possible = to_evidence(np.array([[0.25 - 0.025, 0.75 + 0.025]]), balance, 0.1)
    np.testing.assert_allclose(extreme, possible, rtol=1e-12)
