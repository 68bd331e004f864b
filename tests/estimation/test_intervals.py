"""95% intervals of accuracies contain the true value in about 95 of 100 fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.intervals import AccuracyEvidence, accuracy_reach
from flyingsquid.exceptions import NotFittedError, SourceWarning
from tests.oracle.star import AnyStar, Star
from tests.support.strategies import fittable_votes, one_sided_rules

ACCURACIES = np.array([0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.8, 0.7])
COVERAGE = np.array([1.0, 0.8, 0.9, 0.7, 1.0, 0.9, 0.6, 0.8])


def covers(model: fs.LabelModel, truth: np.ndarray) -> np.ndarray:
    low, high = model.accuracies_interval_.T
    return np.asarray((low <= truth) & (truth <= high))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "p"),
    [("triplet", 0.5), ("triplet", 0.3), (fs.solvers.Triplet("best"), 0.3), ("marginal", 0.2)],
)
def test_intervals_of_symmetric_methods_cover_the_truth(method, p):
    rng, inside = np.random.default_rng(0), []
    for _ in range(500):
        votes = fs.datasets.simulate(
            2_000, ACCURACIES, coverage=COVERAGE, class_balance=[1 - p, p], random_state=rng
        ).votes
        inside.append(covers(fs.LabelModel(method=method, class_balance=[1 - p, p]).fit(votes), ACCURACIES))
    assert 0.92 <= np.mean(inside) <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize("balance", ["given", "estimated"])
def test_intervals_of_covariance_cover_the_truth(balance):
    rng, inside = np.random.default_rng(0), []
    stars = [AnyStar.random(np.random.default_rng(seed), 8) for seed in (3, 5)]
    for star in stars:
        given = star.balance if balance == "given" else None
        for _ in range(120):
            votes = fs.Votes(star.sample(2_000, rng)[0], (0, 1))
            model = fs.LabelModel(method="covariance", class_balance=given).fit(votes)
            inside.append(covers(model, star.accuracies()))
    assert 0.92 <= np.mean(inside) <= 0.98


@pytest.mark.parametrize("method", ["triplet", fs.solvers.Triplet("best"), "covariance", "marginal"])
def test_four_times_the_items_halve_the_interval(method):
    star = Star(np.array([0.9, 0.8, 0.7, 0.75]), np.array([1.0, 0.8, 0.7, 0.9]), 0.2)
    weights = star.joint().sum(axis=1)

    def width(n: float) -> np.ndarray:
        model = fs.LabelModel(method=method, class_balance=star.balance)
        model.fit(star.patterns(), sample_weight=weights * n)
        return np.diff(model.accuracies_interval_, axis=1).ravel()

    np.testing.assert_allclose(width(1e6) / width(4e6), 2, rtol=1e-3)


def test_methods_and_sources_without_a_formula_have_no_interval():
    votes = fittable_votes(0)
    for options in ({"method": fs.solvers.Triplet("median")}, {"method": "quadratic"}):
        assert np.isnan(
            fs.LabelModel(**{"method": "triplet", **options}).fit(votes).accuracies_interval_
        ).all()
    with pytest.warns(SourceWarning):
        model = fs.LabelModel(method="triplet").fit(np.column_stack([votes, np.full(400, -1)]))
    assert np.isnan(model.accuracies_interval_[5]).all()
    assert np.isfinite(model.accuracies_interval_[:5]).all()


def test_intervals_belong_to_the_fit_and_need_one():
    with pytest.raises(NotFittedError):
        fs.LabelModel(method="triplet").accuracies_interval_  # noqa: B018
    model = fs.LabelModel(method="covariance").fit(fittable_votes(0))
    first = model.accuracies_interval_
    model.set_params(method=fs.solvers.Triplet(screen=3.0))
    np.testing.assert_array_equal(model.accuracies_interval_, first)
    assert (first[:, 0] <= model.accuracies_).all()
    assert (model.accuracies_ <= first[:, 1]).all()


# ---------------------------------------------------------------------- intervals of the default

QUICKSTART = {"accuracies": [0.85, 0.75, 0.7, 0.65, 0.6], "coverage": [0.7, 0.8, 0.6, 0.9, 0.5]}


def evidence(**changes: Any) -> AccuracyEvidence:
    accuracies = np.array([0.9, 0.7, 0.4])
    given: dict[str, Any] = {
        "accuracies": accuracies,
        "lowest": accuracies,
        "highest": accuracies,
        "doubt": np.full(3, 0.2),
        "trust": np.zeros(3),
        "suspect": np.zeros(3),
        "n_classes": 2,
        "contradiction": 0.0,
        "n_groups": 8,
    }
    return AccuracyEvidence(**{**given, **changes})


def votes_on_hard_items(n: int = 1_000, m: int = 25) -> tuple[np.ndarray, np.ndarray]:
    """Return votes of sources that mostly err on the same items, and the accuracies that they have."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    p = np.where(rng.random((n, 1)) < 0.1, 0.25, np.where(rng.random((n, 1)) < 0.2, 0.55, 0.8))
    votes = np.where(rng.random((n, m)) < p, y[:, None], 1 - y[:, None])
    return votes, (votes == y[:, None]).mean(axis=0)


@pytest.mark.slow
def test_intervals_of_the_default_cover_the_truth_of_independent_sources():
    inside, widths = [], []
    for seed in range(60):
        votes = fs.datasets.simulate(2_000, **QUICKSTART, random_state=seed).votes
        model = fs.LabelModel().fit(votes)
        inside.append(covers(model, np.array(QUICKSTART["accuracies"])))
        other = fs.LabelModel(method="covariance").fit(votes)
        widths.append([np.ptp(each.accuracies_interval_, axis=1).mean() for each in (model, other)])
    assert 0.92 <= np.mean(inside) <= 0.985
    ours, closed_form = np.mean(widths, axis=0)
    assert ours < 1.3 * closed_form


def test_trusted_tables_leave_only_the_sampling_error():
    np.testing.assert_array_equal(accuracy_reach(evidence(trust=np.ones(3))), 0)


def test_intervals_reach_towards_chance_and_further_with_more_doubt():
    low, high = (accuracy_reach(evidence(doubt=np.full(3, doubt))) for doubt in (0.1, 0.3))
    assert (high > low).all()
    assert (low[:2, 0] > low[:2, 1]).all()  # above chance, the truth is rather lower
    assert low[2, 1] > low[2, 0]


def test_plausible_labels_widen_the_interval():
    reach = accuracy_reach(evidence(highest=np.array([0.95, 0.95, 0.4]), doubt=np.zeros(3)))
    np.testing.assert_allclose(reach[:, 1] - 0.05, [0.05, 0.25, 0.0], atol=1e-12)


def test_contradicting_groups_reach_beyond_chance():
    reach = accuracy_reach(evidence(contradiction=1.0))
    assert (evidence().accuracies[:2] - reach[:2, 0] < 0.5).all()


@pytest.mark.parametrize("accuracies", [[0.85], [0.85, 0.75]])
def test_one_or_two_sources_have_no_accuracy(accuracies):
    votes = fs.datasets.simulate(500, accuracies, random_state=0).votes
    with pytest.warns(fs.exceptions.SourceWarning, match="cannot be estimated without gold labels"):
        model = fs.LabelModel().fit(votes)
    assert np.isnan(model.accuracies_interval_).all()
    assert model.diagnostics_.unidentified == model.source_names_
    assert set(model.summary().to_dict()["accuracy"]) == {None}
    assert "three sources" in str(model.summary())


def test_a_copy_is_not_a_third_source():
    votes = np.asarray(fs.datasets.simulate(500, [0.85, 0.75], random_state=0).votes.codes)
    model = fs.LabelModel().fit(votes[:, [0, 1, 1]])
    assert np.isnan(model.accuracies_interval_).all()


@pytest.mark.parametrize("coverage", [1.0, 0.7])
def test_three_sources_with_a_coin_reach_down_to_chance(coverage):
    accuracies = [0.9, 0.8, 0.5]
    votes = fs.datasets.simulate(2_000, accuracies, coverage=coverage, random_state=0).votes
    model = fs.LabelModel().fit(votes)
    assert covers(model, np.array(accuracies)).all()
    assert (model.accuracies_interval_[:, 0] <= 0.5).all()


def test_intervals_hold_accuracies_of_sources_that_share_errors():
    votes, realized = votes_on_hard_items()
    assert covers(fs.LabelModel().fit(votes), realized).mean() > 0.9
    # A closed form assumes that there are no shared errors, and its interval covers sampling only.
    assert covers(fs.LabelModel(method="covariance").fit(votes), realized).mean() < 0.2


def test_order_of_sources_and_items_does_not_matter():
    votes = np.asarray(fs.datasets.simulate(600, **QUICKSTART, random_state=3).votes.codes)
    rng = np.random.default_rng(0)
    sources, items = rng.permutation(5), rng.permutation(600)
    whole = fs.LabelModel().fit(votes).accuracies_interval_
    shuffled = fs.LabelModel().fit(votes[items][:, sources]).accuracies_interval_
    np.testing.assert_allclose(shuffled, whole[sources], atol=1e-6)


def test_weights_count_as_repeated_items():
    votes = np.asarray(fs.datasets.simulate(400, **QUICKSTART, random_state=4).votes.codes)
    weighted = fs.LabelModel().fit(votes, sample_weight=np.full(400, 2.0))
    repeated = fs.LabelModel().fit(np.concatenate([votes, votes]))
    for name in ("accuracies_interval_", "class_balance_interval_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-6)


def test_every_view_shows_the_interval_of_the_fit(tmp_path):
    votes = fs.datasets.load_breast_cancer().votes
    model = fs.LabelModel().fit(votes)
    expected = model.fit_.accuracy_intervals()
    np.testing.assert_array_equal(model.accuracies_interval_, expected)
    for table in (model.summary(), fs.analysis.summarize(votes, model=model)):
        columns = table.to_dict()
        shown = np.column_stack([columns["accuracy_low"], columns["accuracy_high"]]).astype(float)
        np.testing.assert_array_equal(shown, expected)
    model.save(tmp_path / "model.fsq")
    loaded = fs.load(tmp_path / "model.fsq")
    np.testing.assert_array_equal(loaded.accuracies_interval_, expected)
    np.testing.assert_array_equal(loaded.class_balance_interval_, model.class_balance_interval_)


# ---------------------------------------------------------------------- class balance


def test_interval_of_the_class_balance_holds_the_truth():
    sample = fs.datasets.simulate(
        4_000, [0.85, 0.8, 0.75, 0.7, 0.7, 0.65], class_balance=[0.8, 0.2], random_state=0
    )
    model = fs.LabelModel().fit(sample.votes)
    low, high = model.class_balance_interval_.T
    assert (low <= [0.8, 0.2]).all()
    assert (high >= [0.8, 0.2]).all()
    assert (high - low < 0.1).all()
    assert "class balance, estimated" in str(model.summary())


def test_one_sided_sources_leave_the_class_balance_open():
    model = fs.LabelModel().fit(one_sided_rules(3_000, 6, share=0.1, recall=0.4))
    low, high = model.class_balance_interval_[1]
    assert low <= 0.1 <= high


def test_a_given_class_balance_has_no_interval():
    votes = fs.datasets.simulate(500, **QUICKSTART, random_state=0).votes
    model = fs.LabelModel(class_balance=[0.4, 0.6]).fit(votes)
    assert np.isnan(model.class_balance_interval_).all()


def test_a_closed_form_shows_no_balance_interval_if_sources_are_dependent():
    sample = fs.datasets.simulate(4_000, ACCURACIES, class_balance=[0.7, 0.3], random_state=0)
    independent = fs.LabelModel(method="covariance").fit(sample.votes)
    assert np.isfinite(independent.class_balance_interval_).all()
    rng = np.random.default_rng(0)
    votes = np.asarray(sample.votes.codes).copy()
    for source in range(1, 4):
        copied = rng.random(len(votes)) < 0.5
        votes[copied, source] = votes[copied, 0]
    dependent = fs.LabelModel(method="covariance").fit(votes)
    assert np.isnan(dependent.class_balance_interval_).all()
