"""The paper's bounds: closed forms, laws, and simulations and enumerations that must stay within them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid import theory
from flyingsquid.exceptions import OptionError
from tests.support.strategies import examples

sizes = st.integers(1, 10**7)
sources = st.integers(3, 60)
smallest = st.floats(0.05, 1.0)
shares = st.floats(0.01, 1.0)
drifts = st.floats(1e-9, 1e-1)
models = st.integers(1, 5).flatmap(
    lambda m: st.tuples(
        st.lists(st.floats(-0.9, 0.9), min_size=m, max_size=m),
        st.lists(st.floats(-0.9, 0.9), min_size=m, max_size=m),
        st.floats(0.1, 0.9),
    )
)


def joint(parameters, positive=0.5, coverage=None):
    """Outcomes (Y, λ) and their probabilities, listed, for independent sources with symmetric errors."""
    m = len(parameters)
    votes = (-1, 1) if coverage is None else (-1, 0, 1)
    coverage = np.ones(m) if coverage is None else np.asarray(coverage)
    outcomes = np.array([(y, *row) for y in (-1, 1) for row in itertools.product(votes, repeat=m)])
    y, vote = outcomes[:, :1], outcomes[:, 1:]
    prior = np.where(y[:, 0] == 1, positive, 1 - positive)
    parts = np.where(vote == 0, 1 - coverage, (coverage + vote * y * np.asarray(parameters)) / 2)
    return outcomes, prior * parts.prod(axis=1)


# ---------------------------------------------------------------------- constants and closed forms


def system(s):
    """A_s and B_s of the paper's linear system."""
    if s == 0:
        return np.array([[1, 1], [1, 0]]), np.array([[0, 0], [0, 1]])
    a, b = system(s - 1)
    d, e = np.array([[1, 1, 1], [1, 0, 0], [0, 1, 0]]), np.array([[0, 0, 0], [0, 0, 1], [0, 0, 0]])
    return np.kron(d, a) + np.kron(e, b), np.kron(e, a) + np.kron(d, b)


def test_the_norms_are_those_of_the_inverses():
    for s, norm, printed in ((1, theory.NORM_ONE, 3.19), (2, theory.NORM_TWO, 6.35)):
        matrix = system(s)[0].astype(float)
        assert np.linalg.norm(np.linalg.inv(matrix), 2) == pytest.approx(norm, abs=1e-4)
        assert np.linalg.norm(matrix, 2) == pytest.approx(printed, abs=5e-3)  # what the paper prints


def test_constants_by_hand():
    assert pytest.approx(math.sqrt(1944 * 3)) == theory.C_ACCURACY
    assert pytest.approx(41.0980, abs=1e-4) == theory.C_ONE
    assert pytest.approx(123.0711, abs=1e-4) == theory.C_TWO


def test_bounds_by_hand():
    assert theory.accuracy_error_bound(100, 4, 1.0) == pytest.approx(76.3675 * 0.2, rel=1e-5)
    assert theory.sampling_error_bound(100, 4, 1.0) == pytest.approx(90.539 * 0.2, rel=1e-4)
    with_pairs = theory.sampling_error_bound(100, 4, 1.0, dependent=True, abstain_rate=0.25)
    assert with_pairs == pytest.approx(90.539 * 0.2 + 383.10 * 4 / (0.5 * 10), rel=1e-4)
    assert theory.lower_bound(900, 9, 0.4) == pytest.approx(0.005)
    assert theory.generalization_bound(0.01, 0.5, n_labels=4, divergence=0.02, training_error=0.1) == (
        pytest.approx(0.1 + 0.64 + 0.4)
    )
    assert theory.model_distance(0.01, 0.25, 81, divergence=0.08) == pytest.approx(0.2 + 3 * 0.2)
    assert theory.end_model_drift_bound(10_000, 1e-6, 0.01, 4) == pytest.approx(0.06 + 0.08 + 6.82)
    # A = 2.203 C₁ √4 / 0.5⁵ and B = 2 √2 · 5 · 1e-4 / √(3 · 0.01).
    noise, drag = 2.203 * 41.098 * 2 * 32, 2 * math.sqrt(2) * 5e-4 / math.sqrt(0.03)
    assert theory.window_error_bound(100, 4, 0.5, 1e-4, 0.01) == pytest.approx(
        noise / 10 + drag * 1e3, rel=1e-4
    )
    assert theory.optimal_window(4, 0.5, 1e-4, 0.01) == pytest.approx(math.sqrt(noise / (3 * drag)), rel=1e-4)


def test_the_sum_of_squares_that_the_paper_bounds_too_low():
    for w in (3, 10, 1_000):
        total = sum(i * i for i in range(w))
        assert total <= w**3 / 3
    assert sum(i * i for i in range(1_000)) > 0.33 * 1_000**3 > 1_000**3 / 6


def test_without_drift_there_is_no_longest_window():
    assert theory.optimal_window(5, 0.5, 0.0, 0.01) == math.inf


REFUSED = {
    "n_items": lambda: theory.sampling_error_bound(0, 5, 0.5),
    "a_min": lambda: theory.sampling_error_bound(10, 5, 0.0),
    "n_sources": lambda: theory.accuracy_error_bound(10, 0, 0.5),
    "abstain_rate": lambda: theory.sampling_error_bound(10, 5, 0.5, abstain_rate=0.0),
    "e_min": lambda: theory.lower_bound(10, 5, 2.0),
    "error": lambda: theory.generalization_bound(math.nan, 0.5),
    "n_statistics": lambda: theory.model_distance(0.1, 0.5, 0),
    "drift": lambda: theory.optimal_window(5, 0.5, -1.0, 0.01),
    "rarest": lambda: theory.optimal_window(5, 0.5, 1.0, 0.0),
    "window": lambda: theory.window_error_bound(0, 5, 0.5, 0.1, 0.01),
    "epsilon": lambda: theory.tolerated_drift(2.0, 0.0, 1),
    "distance": lambda: theory.end_model_window(0.5, 0.1, -1.0),
    "vc_dimension": lambda: theory.end_model_drift_bound(10, 0.1, 0.1, -3),
    "accuracies": lambda: theory.mean_parameters([1.2]),
    "parameters": lambda: theory.covariance_floor([1.2]),
    "class_balance": lambda: theory.covariance_floor([0.2], [0.5, 0.6]),
    "probabilities": lambda: theory.smallest_eigenvalue([[1.0]], [0.5, 0.5]),
}


@pytest.mark.parametrize("parameter", REFUSED)
def test_values_without_a_bound_are_refused(parameter):
    with pytest.raises(OptionError, match=f"`{parameter}` must") as raised:
        REFUSED[parameter]()
    assert raised.value.parameter == parameter


# ---------------------------------------------------------------------- laws


@given(sizes, sources, smallest, shares)
def test_sampling_error_falls_with_items_and_accuracy_and_rises_with_sources(n, m, a, r):
    def bound(n=n, m=m, a=a, r=r):
        return theory.sampling_error_bound(n, m, a, dependent=True, abstain_rate=r)

    assert bound(n=4 * n) == pytest.approx(bound() / 2)
    assert bound(m=m + 1) > bound()
    assert bound(a=a * 0.9) == pytest.approx(bound() * 0.9**-5)
    assert bound(r=r / 2) > bound()
    assert bound() > theory.sampling_error_bound(n, m, a) > theory.lower_bound(n, m, 1.0)


@given(sources, smallest, drifts, shares, st.floats(0.01, 100))
def test_the_optimal_window_is_optimal(m, a, drift, rarest, factor):
    best = theory.optimal_window(m, a, drift, rarest)
    least = theory.window_error_bound(best, m, a, drift, rarest)
    assert least <= theory.window_error_bound(best * factor, m, a, drift, rarest) * (1 + 1e-12)
    assert theory.optimal_window(m, a, 100 * drift, rarest) == pytest.approx(best / 10)


def test_the_optimal_window_is_found_by_scanning():
    arguments = {"drift": 1e-6, "rarest": 1e-3, "dependent": True, "abstain_rate": 0.3}
    windows = np.arange(1, 20_000)
    bounds = [theory.window_error_bound(w, 5, 0.6, **arguments) for w in windows.tolist()]
    assert windows[np.argmin(bounds)] == pytest.approx(theory.optimal_window(5, 0.6, **arguments), abs=1)


@given(st.floats(0.01, 1), st.floats(0, 0.124), st.integers(1, 1_000))
def test_what_theorem_5_tolerates_it_bounds(epsilon, distance, d):
    drift = theory.tolerated_drift(epsilon, distance, d)
    if drift == 0 or epsilon - 8 * distance < 1e-6:
        return
    s = theory.end_model_window(epsilon, drift, distance)
    assert theory.end_model_drift_bound(s, drift, distance, d) <= epsilon


def test_the_constant_of_theorem_5():
    """Σ 2⁻ⁱ √(14400 (ln 8 + d ln 41 + i ln 2)) is at most 341 √d."""
    for d in (1, 2, 10, 1_000):
        terms = [
            2.0**-i * math.sqrt(14_400 * (math.log(8) + d * math.log(41) + i * math.log(2)))
            for i in range(1, 60)
        ]
        assert sum(terms) <= 341 * math.sqrt(d)


# ---------------------------------------------------------------------- enumeration


@given(models)
@examples(60)
def test_the_floor_is_the_smallest_eigenvalue_of_the_statistics(model):
    parameters, _, positive = model
    outcomes, probabilities = joint(parameters, positive)
    statistics = np.column_stack([outcomes[:, 0], outcomes[:, 1:] * outcomes[:, :1]])
    floor = theory.covariance_floor(parameters, [1 - positive, positive])
    assert theory.smallest_eigenvalue(statistics, probabilities) == pytest.approx(floor, abs=1e-9)


@given(models)
@examples(60)
def test_two_models_are_as_close_as_the_bounds(model):
    """Lemma D^μ and Theorem 3, exactly: all distributions are listed."""
    ours, theirs, positive = model
    outcomes, p = joint(ours, positive)
    _, q = joint(theirs, positive)
    error = float(np.linalg.norm(np.subtract(ours, theirs)))
    floor = theory.covariance_floor([ours, theirs], [1 - positive, positive])
    assert np.abs(p - q).sum() / 2 <= theory.model_distance(error, floor, len(ours) + 1) + 1e-12
    # The end model of Theorem 3 sees the votes: the best rule by the wrong model, judged by the right one.
    half = len(p) // 2
    chosen, best = q[half:] > q[:half], p[half:] > p[:half]
    losses = [float(np.where(rule, p[:half], p[half:]).sum()) for rule in (chosen, best)]
    assert losses[0] - losses[1] <= theory.generalization_bound(error, floor) + 1e-12
    assert outcomes[0, 0] == -1


@given(st.integers(1, 4), st.integers(0, 2**32 - 1))
@examples(40)
def test_drift_and_the_rarest_event_by_listing_all(m, seed):
    rng = np.random.default_rng(seed)
    accuracies, coverage = rng.uniform(0.1, 0.9, (4, m)), rng.choice([0.3, 0.8, 1.0], m)
    positive = rng.uniform(0.1, 0.9)
    each = [joint(theory.mean_parameters(row, coverage), positive, coverage)[1] for row in accuracies]
    variation = max(np.abs(now - then).sum() / 2 for then, now in itertools.pairwise(each))
    assert variation <= theory.drift_of(accuracies, coverage) + 1e-12
    rarest = theory.rarest_event(accuracies[0], coverage, [1 - positive, positive])
    assert rarest == pytest.approx(each[0][each[0] > 1e-15].min())


def test_the_distance_of_windows_in_the_proof_of_theorem_4():
    """Total variation of W drifting items from W items of now, enumerated, compared with Δ W^1.5 / √(3 α)."""
    for size in (2, 3, 6, 9):
        rates = 0.5 + 0.01 * np.arange(size)[::-1]  # one source, no truth: enough for the lemma
        rows = np.array(list(itertools.product((0, 1), repeat=size)))
        drifting = np.where(rows, rates, 1 - rates).prod(axis=1)
        still = np.where(rows, rates[-1], 1 - rates[-1]).prod(axis=1)
        bound = 0.01 * size**1.5 / math.sqrt(3 * min(rates[-1], 1 - rates[-1]))
        assert np.abs(drifting - still).sum() / 2 <= bound


# ---------------------------------------------------------------------- simulation


def simulated_errors(n, accuracies):
    """Mean errors of the tables and of the mean parameters over 20 samples, and the smallest |a| seen."""
    truth = theory.mean_parameters(accuracies)
    right = np.where(np.eye(2, dtype=bool), accuracies[:, None, None], 1 - accuracies[:, None, None]) / 2
    tables, parameters, a_min = [], [], truth.min()
    for seed in range(20):
        votes = fs.datasets.simulate(n, accuracies, random_state=seed).votes
        model = fs.LabelModel(method="triplet", class_balance="uniform").fit(votes)
        found = theory.mean_parameters(model.accuracies_)
        tables.append(np.linalg.norm(model.confusion_[:, :, :2] / 2 - right))
        parameters.append(np.linalg.norm(found - truth))
        a_min = min(a_min, found.min())
    return np.mean(tables), np.mean(parameters), a_min


def test_simulated_errors_lie_between_the_bounds():
    accuracies = np.array([0.9, 0.85, 0.8, 0.8, 0.75])
    floor = theory.covariance_floor(theory.mean_parameters(accuracies))
    scaled = []
    for n in (1_000, 16_000):
        tables, parameters, a_min = simulated_errors(n, accuracies)
        least = theory.lower_bound(n, 5, floor)
        assert least <= tables <= theory.sampling_error_bound(n, 5, a_min)
        assert least <= parameters <= theory.accuracy_error_bound(n, 5, a_min)
        scaled.append(tables * math.sqrt(n))
    # The bounds are loose, but what they say of n is so: 16 times the items, a quarter of the error.
    assert scaled[0] == pytest.approx(scaled[1], rel=0.25)


def test_windows_under_drift_stay_within_the_bound():
    before, after = [0.9, 0.85, 0.75, 0.8, 0.8], [0.75, 0.8, 0.9, 0.85, 0.8]
    stream = fs.datasets.simulate_drift(8_000, before, after, kind="gradual", random_state=0)
    drift = theory.drift_of(stream.accuracies)
    rarest = min(theory.rarest_event(row) for row in stream.accuracies[::500])
    for window in (200, 1_000, 5_000):
        online = fs.OnlineLabelModel(window, method="triplet").partial_fit(stream.votes)
        off = theory.mean_parameters(online.accuracies_) - theory.mean_parameters(stream.accuracies[-1])
        a_min = min(0.5, theory.mean_parameters(online.accuracies_).min())
        error = np.linalg.norm(off) / 2  # of the tables, each of whose four cells is off by a quarter
        assert error <= theory.window_error_bound(window, 5, a_min, drift, rarest)


def test_faster_drift_makes_both_windows_shorter():
    """The choice of theory and that of the data go the same way."""
    theirs, ours = [], []
    for period in (20_000, 4_000):
        before, after = [0.9, 0.85, 0.6, 0.65, 0.7], [0.6, 0.65, 0.9, 0.85, 0.7]
        stream = fs.datasets.simulate_drift(
            20_000, before, after, kind="periodic", period=period, random_state=0
        )
        theirs.append(theory.optimal_window(5, 0.2, theory.drift_of(stream.accuracies), 3e-4))
        online, chosen = fs.OnlineLabelModel("auto", method="triplet"), []
        for t in range(0, 20_000, 500):
            online.update(stream.votes[t : t + 500])
            chosen.append(online.window_)
        ours.append(float(np.median(chosen[20:])))
    assert theirs[0] / theirs[1] == pytest.approx(math.sqrt(5), rel=0.01)
    assert ours[0] > 1.2 * ours[1]
