"""Regression on gold labels: leave-one-out is right, features do not depend on order, and bounds hold."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from flyingsquid.estimation import gold_regression
from flyingsquid.estimation.gold_regression import _effect, _most_active, fit_correction
from flyingsquid.votes.codes import OneHot


def drawn(n: int, n_classes: int, m: int, seed: int = 0):
    """Return label-free posteriors, codes and true classes of n items."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    codes = np.where(rng.random((n, m)) < 0.6, y[:, None], rng.integers(0, n_classes, (n, m)))
    codes[rng.random((n, m)) < 0.3] = -1
    counts = np.stack([(codes == k).sum(axis=1) for k in range(n_classes)], axis=1) + 1.0
    return counts / counts.sum(axis=1, keepdims=True), codes, y


def probabilities(labels, codes, found):
    return found.correction.apply(labels, OneHot.of(codes, labels.shape[1]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_order_does_not_matter(n_classes):
    labels, codes, y = drawn(60, n_classes, 6)
    rng = np.random.default_rng(1)
    items, sources, names = rng.permutation(60), rng.permutation(6), rng.permutation(n_classes)
    plain = probabilities(labels, codes, fit_correction(labels, OneHot.of(codes, n_classes), y))
    renamed = np.where(codes < 0, -1, np.argsort(names)[codes])[:, sources]
    mixed = labels[:, names]
    cast = OneHot.of(renamed[items], n_classes)
    found = fit_correction(mixed[items], cast, np.argsort(names)[y][items])
    np.testing.assert_allclose(probabilities(mixed, renamed, found), plain[:, names], atol=1e-5)


def test_the_number_of_coefficients_is_bounded(monkeypatch):
    """The most frequent votes keep coefficients of their own; equally frequent ones are treated alike."""
    labels, codes, y = drawn(50, 2, 8)
    codes[:, :3] = -1
    codes[:10, :3] = 0
    monkeypatch.setattr(gold_regression, "_MOST_CELLS", 50 * (4 + 12))  # 12 columns of 50 items
    found = fit_correction(labels, OneHot.of(codes, 2), y)
    assert not found.correction.tables[:3].any()
    assert found.correction.tables[3:].any(axis=(1, 2)).all()


def test_sources_with_confusions_of_their_own_get_tables():
    """Two groups of sources, each of which confuses other classes: gold labels separate them."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 1_200)
    swapped = np.array([[1, 0, 2, 3], [0, 1, 3, 2]])
    codes = np.where(rng.random((1_200, 6)) < 0.5, y[:, None], swapped[np.arange(6) % 2][:, y].T)
    counts = np.stack([(codes == k).sum(axis=1) for k in range(4)], axis=1) + 1.0
    labels = counts / counts.sum(axis=1, keepdims=True)
    found = fit_correction(labels[:200], OneHot.of(codes[:200], 4), y[:200])
    right = probabilities(labels, codes, found)[200:].argmax(axis=1) == y[200:]
    assert right.mean() > 0.9
    adds = found.correction.tables
    assert (adds[::2, 2, 2] - adds[::2, 2, 3]).min() > (adds[1::2, 2, 2] - adds[1::2, 2, 3]).max()


def test_candidates_of_negligible_evidence_do_not_matter(monkeypatch):
    labels, codes, y = drawn(300, 3, 6)
    found = fit_correction(labels, OneHot.of(codes, 3), (y + 1) % 3)
    monkeypatch.setattr(gold_regression, "_NEGLIGIBLE_EVIDENCE", np.inf)
    expected = fit_correction(labels, OneHot.of(codes, 3), (y + 1) % 3)
    np.testing.assert_allclose(found.correction.tables, expected.correction.tables, atol=1e-12)
    assert found.effect.log_loss.value == pytest.approx(expected.effect.log_loss.value, abs=1e-9)


def test_sources_without_gold_labels_get_the_common_confusion():
    labels, codes, y = drawn(150, 3, 5)
    codes[:, 4] = -1
    tables = fit_correction(labels, OneHot.of(codes, 3), (y + 1) % 3).correction.tables
    assert np.abs(tables[4]).max() > 0.1
    spread = tables[:4].max(axis=0) - tables[:4].min(axis=0)
    assert (np.abs(tables[4] - tables[:4].mean(axis=0)) <= 2 * spread).all()


@pytest.mark.parametrize(("n", "n_classes", "m"), [(40, 2, 60), (200, 10, 40), (3_000, 2, 20)])
def test_every_vote_has_coefficients_at_usual_sizes(n, n_classes, m):
    labels, codes, _ = drawn(n, n_classes, m)
    features = gold_regression._Features.of(labels, OneHot.of(codes, n_classes))
    assert features.columns.all()
    assert features.is_pooled == (n_classes > 2)


def test_labels_that_the_posterior_predicts_well_change_little():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.05, 0.95, 2_000)
    y = (rng.random(2_000) < p).astype(int)
    labels, codes = np.stack([1 - p, p], axis=1), rng.integers(-1, 2, (2_000, 4))
    found = fit_correction(labels, OneHot.of(codes, 2), y)
    assert np.abs(probabilities(labels, codes, found) - labels).max() < 0.05
    assert found.effect.is_enough
    assert abs(found.effect.log_loss_change.value) < 0.02


def test_the_effect_has_intervals_around_its_values():
    labels, codes, y = drawn(80, 3, 6)
    effect = fit_correction(labels, OneHot.of(codes, 3), y).effect
    for score in (effect.accuracy, effect.accuracy_without, effect.log_loss, effect.log_loss_without):
        assert score.low <= score.value <= score.high
    change = effect.log_loss.value - effect.log_loss_without.value
    assert effect.log_loss_change.value == pytest.approx(change)
    assert "80 gold labels" in effect.sentence()


def test_very_many_classes_need_no_table_of_classes_by_classes():
    labels, codes, y = drawn(6, 3, 5)
    wide = np.full((6, 20_000), 1e-6)
    wide[:, :3] += labels
    wide /= wide.sum(axis=1, keepdims=True)
    found = fit_correction(wide, OneHot.of(codes, 20_000), y)
    assert found.correction.tables is None
    np.testing.assert_allclose(found.correction.apply(wide, OneHot.of(codes, 20_000)).sum(axis=1), 1)


# ---------------------------------------------------------------------- the reported effect


def test_the_effect_is_that_of_cross_validated_labels_on_the_same_items():
    """Without weights: Wilson intervals of accuracies, and normal intervals of losses."""
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 40)
    before, crossed = rng.normal(size=(2, 40, 2))
    votes = rng.integers(0, 4, (40, 2)).astype(float)  # some ties
    effect = _effect(crossed, before, votes, gold, np.ones(40))
    at = np.arange(40)

    def credit(scores):
        best = scores == scores.max(axis=1, keepdims=True)
        return (best / best.sum(axis=1, keepdims=True))[at, gold]

    def losses(logits):
        return -(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))[at, gold]

    for estimate, scores in (
        (effect.accuracy, crossed), (effect.accuracy_without, before), (effect.majority_accuracy, votes),
    ):  # fmt: skip
        assert estimate.value == pytest.approx(credit(scores).mean())
        p, z = credit(scores).mean(), stats.norm.ppf(0.975)
        center, reach = (p + z**2 / 80) / (1 + z**2 / 40), z / (1 + z**2 / 40)
        reach *= np.sqrt(p * (1 - p) / 40 + z**2 / 6400)
        assert (estimate.low, estimate.high) == pytest.approx((center - reach, center + reach))
    change = losses(crossed) - losses(before)
    for estimate, values in (
        (effect.log_loss, losses(crossed)), (effect.log_loss_without, losses(before)),
        (effect.log_loss_change, change),
    ):  # fmt: skip
        reach = stats.norm.ppf(0.975) * values.std(ddof=1) / np.sqrt(40)
        expected = (values.mean(), values.mean() - reach, values.mean() + reach)
        assert (estimate.value, estimate.low, estimate.high) == pytest.approx(expected)
    gain = credit(crossed) - credit(votes)
    reach = stats.norm.ppf(0.975) * np.sqrt((((gain - gain.mean()) ** 2).sum() + 1) / 40**2 * 40 / 39)
    assert effect.gain.value == pytest.approx(gain.mean())
    assert effect.gain.high - effect.gain.value == pytest.approx(reach)


def test_an_item_of_weight_two_counts_twice_in_every_mean():
    rng = np.random.default_rng(1)
    gold, share = rng.integers(0, 2, 30), rng.integers(1, 4, 30).astype(float)
    before, crossed = rng.normal(size=(2, 30, 2))
    weighted = _effect(crossed, before, np.ones((30, 2)), gold, share)
    at = np.repeat(np.arange(30), share.astype(int))
    repeated = _effect(crossed[at], before[at], np.ones((len(at), 2)), gold[at], np.ones(len(at)))
    for name in ("accuracy", "log_loss", "log_loss_change", "gain", "majority_accuracy"):
        assert getattr(weighted, name).value == pytest.approx(getattr(repeated, name).value)
        # Copies of an item are less informative than other items.
        assert getattr(weighted, name).high >= getattr(repeated, name).high - 1e-9


@pytest.mark.parametrize(
    ("low", "high", "is_enough"),
    [(-0.5, -0.01, True), (-0.5, 0.01, False), (-0.019, 0.019, True), (-0.021, 0.02, False)],
)
def test_labels_are_enough_if_they_help_clearly_or_change_clearly_nothing(low, high, is_enough):
    rng = np.random.default_rng(0)
    logits, gold = rng.normal(size=(20, 2)), rng.integers(0, 2, 20)
    effect = _effect(logits, logits, logits, gold, np.ones(20))
    changed = replace(effect, log_loss_change=effect.log_loss_change._replace(low=low, high=high))
    assert changed.is_enough == is_enough
    assert ("more gold labels are needed" in changed.sentence()) != is_enough


@pytest.mark.parametrize(("most", "kept"), [(4, 4), (3, 2), (2, 2), (1, 1), (0, 0), (-1, 0)])
def test_equally_frequent_votes_are_kept_or_left_out_together(most, kept):
    assert _most_active(np.array([[9.0, 7.0], [4.0, 4.0]]), most).ravel().tolist() == [
        i < kept for i in range(4)
    ]


def test_all_votes_are_kept_if_there_are_few_except_those_that_never_occur():
    assert _most_active(np.array([0.0, 0.5, 1.0, 7.0]), 4).tolist() == [False, True, True, True]
