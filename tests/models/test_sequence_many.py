"""Sequences of many classes: exact transitions, labels by enumeration, files."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.transition import fit_transition_many, with_margins
from flyingsquid.exceptions import OptionError
from tests.oracle.many import ManyStar, crowd


def chain(rng: np.random.Generator, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """A stationary joint table of neighboring truths, and its margin."""
    table = rng.dirichlet(np.full(n_classes**2, 2.0)).reshape(n_classes, n_classes) + 0.8 * np.eye(n_classes)
    table = (table + table.T) / 2
    table /= table.sum()
    return table, table.sum(axis=0)


def draw(
    star: ManyStar, joint: np.ndarray, n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    steps = np.cumsum(joint / joint.sum(axis=1, keepdims=True), axis=1)
    y, u = np.empty(n, int), rng.random(n)
    y[0] = rng.choice(len(joint), p=joint.sum(axis=0))
    for t in range(1, n):
        y[t] = min(int(np.searchsorted(steps[y[t - 1]], u[t])), len(joint) - 1)
    seen = star.confusion[:, y].transpose(1, 0, 2).cumsum(axis=2)
    drawn = (rng.random((n, len(star.confusion), 1)) > seen).sum(axis=2)
    return np.where(drawn >= len(joint), -1, drawn).astype(np.int8), y


@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_exact_lagged_counts_give_the_exact_transition(n_classes):
    rng = np.random.default_rng(n_classes)
    joint, balance = chain(rng, n_classes)
    star = ManyStar(ManyStar.random(rng, 4, n_classes).confusion, balance)
    votes = star.confusion[:, :, :-1]
    lagged = 1e9 * np.einsum("kl,ika,jlb->abij", joint, votes, votes)
    cast = 1e9 * np.einsum("k,ika->ia", balance, votes)
    rows = fs.Moments.of(fs.Votes(star.patterns(), tuple(range(n_classes))))
    moments = fs.SequenceMoments(rows, 1e9, lagged, cast, cast)
    found = fit_transition_many(moments, star.confusion, balance)
    np.testing.assert_allclose(found.joint, joint, atol=1e-10)
    np.testing.assert_allclose(found.matrix.sum(axis=1), 1)


def test_labels_equal_enumeration():
    rng = np.random.default_rng(0)
    joint, balance = chain(rng, 3)
    codes, _ = draw(ManyStar(crowd(rng, 6, 3, right=0.7, coverage=0.7).confusion, balance), joint, 4_000, rng)
    model = fs.SequenceLabelModel(method="em", class_balance=balance, temper=None)
    model.fit(fs.Votes(codes, (0, 1, 2)))
    rows = codes[10:15]
    tables = model.confusion_
    scores = {}
    for path in itertools.product(range(3), repeat=5):
        chance = model.class_balance_[path[0]]
        chance *= np.prod([model.transition_[a, b] for a, b in itertools.pairwise(path)])
        for y, row in zip(path, rows, strict=True):
            chance *= np.prod([tables[i, y, v] for i, v in enumerate(row)])
        scores[path] = chance
    total = sum(scores.values())
    posterior = model.predict_proba(fs.Votes(rows, (0, 1, 2)))
    for t, k in itertools.product(range(5), range(3)):
        expected = sum(s for path, s in scores.items() if path[t] == k) / total
        assert posterior[t, k] == pytest.approx(expected, abs=1e-9)
    assert tuple(model.predict(fs.Votes(rows, (0, 1, 2)))) == max(scores, key=scores.__getitem__)
    assert model.log_likelihood(fs.Votes(rows, (0, 1, 2)))[0] == pytest.approx(np.log(total), abs=1e-6)


def test_neighbors_help_and_the_transition_is_found(tmp_path):
    rng = np.random.default_rng(1)
    joint = 0.9 * np.diag([0.3, 0.3, 0.4]) + 0.1 * np.outer([0.3, 0.3, 0.4], [0.3, 0.3, 0.4])
    star = ManyStar(crowd(rng, 6, 3, right=0.7, coverage=0.5).confusion, joint.sum(axis=0))
    codes, y = draw(star, joint, 20_000, rng)
    votes = fs.Votes(codes, ("a", "b", "c"))
    truth = np.array(["a", "b", "c"])[y]
    model, alone = fs.SequenceLabelModel().fit(votes), fs.LabelModel().fit(votes)
    assert model.score(votes, truth) > alone.score(votes, truth) + 0.05
    np.testing.assert_allclose(model.transition_, joint / joint.sum(axis=1, keepdims=True), atol=0.05)
    assert model.diagnostics_.transition.startswith("agreement of neighboring truths")
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    np.testing.assert_array_equal(again.transition_, model.transition_)
    assert str(again.summary()) == str(model.summary())
    counted = fs.SequenceLabelModel(method="agreement").fit_moments(fs.SequenceMoments.of(votes))
    np.testing.assert_allclose(
        counted.predict_proba(votes),
        fs.SequenceLabelModel(method="agreement").fit(votes).predict_proba(votes),
    )
    assert model.neighbor_share_ == 1
    np.testing.assert_allclose(model.excess_correlation_, 0, atol=0.05)
    assert 0.95 < model.temper_ <= 1
    weakened = fs.SequenceLabelModel(temper=1e-9).fit(votes)
    np.testing.assert_allclose(weakened.predict_proba(votes), alone.predict_proba(votes), atol=1e-6)


def test_rows_without_neighbors_are_independent():
    rng = np.random.default_rng(2)
    codes, _ = crowd(rng, 5, 3, right=0.7, coverage=0.8).sample(600, rng)
    votes = fs.Votes(codes, (0, 1, 2))
    model = fs.SequenceLabelModel().fit(votes, [1] * 600)
    np.testing.assert_allclose(
        model.predict_proba(votes, [1] * 600),
        fs.LabelModel().fit(votes).predict_proba(votes),
        atol=1e-9,
    )


def test_errors_that_persist_are_measured_for_any_number_of_classes():
    rng = np.random.default_rng(4)
    joint = 0.6 * np.eye(3) / 3 + 0.4 / 9
    star = crowd(rng, 5, 3, right=0.7, coverage=1.0)
    codes, y = draw(ManyStar(star.confusion, np.full(3, 1 / 3)), joint, 20_000, rng)
    stuck = codes.copy()
    for t in range(1, len(y)):  # an error is repeated as long as the truth stays
        again = (rng.random(5) < 0.6) & (y[t] == y[t - 1])
        stuck[t] = np.where(again, stuck[t - 1], codes[t])
    for method in ("auto", "em"):
        free = fs.SequenceLabelModel(method=method).fit(fs.Votes(codes, (0, 1, 2)))
        held = fs.SequenceLabelModel(method=method).fit(fs.Votes(stuck, (0, 1, 2)))
        np.testing.assert_allclose(free.excess_correlation_, 0, atol=0.05)
        assert (held.excess_correlation_ > 0.2).all()
        assert held.temper_ < 0.7 < free.temper_


def test_classes_permute():
    rng = np.random.default_rng(5)
    joint, balance = chain(rng, 3)
    star = ManyStar(crowd(rng, 6, 3, right=0.7, coverage=0.7).confusion, balance)
    codes = draw(star, joint, 3_000, rng)[0]
    to = np.array([2, 0, 1])
    moved = np.where(codes >= 0, to[np.maximum(codes, 0)], -1).astype(np.int8)
    ours, theirs = (fs.Votes(each, (0, 1, 2)) for each in (codes, moved))
    model, other = fs.SequenceLabelModel().fit(ours), fs.SequenceLabelModel().fit(theirs)
    np.testing.assert_allclose(other.predict_proba(theirs)[:, to], model.predict_proba(ours), atol=1e-6)
    np.testing.assert_allclose(other.transition_[np.ix_(to, to)], model.transition_, atol=1e-6)


def test_margins_are_kept():
    balance = np.array([0.2, 0.3, 0.5])
    table = with_margins(np.random.default_rng(0).normal(size=(3, 3)), balance, 100)
    np.testing.assert_allclose(table.sum(axis=0), balance, atol=1e-9)
    np.testing.assert_allclose(table.sum(axis=1), balance, atol=1e-9)
    assert (table > 0).all()


def test_too_many_classes_are_refused():
    codes = np.random.default_rng(0).integers(0, 50, (200, 5))
    with pytest.raises(OptionError, match="at most 40 classes"):
        fs.SequenceLabelModel().fit(fs.Votes(codes.astype(np.int8), tuple(range(50))))


def test_a_balance_that_does_not_fit_leaves_rows_independent():
    rng = np.random.default_rng(3)
    balance = np.array([0.9, 0.05, 0.05])
    joint = 0.5 * np.diag(balance) + 0.5 * np.outer(balance, balance)
    star = ManyStar(crowd(rng, 6, 3, right=0.8, coverage=0.9).confusion, balance)
    votes = fs.Votes(draw(star, joint, 10_000, rng)[0], (0, 1, 2))
    wrong = fs.SequenceLabelModel(method="agreement", class_balance="uniform").fit(votes)
    np.testing.assert_allclose(wrong.transition_, 1 / 3, atol=1e-12)
    assert "contradict the class balance" in wrong.diagnostics_.transition
    right = fs.SequenceLabelModel(method="decomposition").fit(votes)
    np.testing.assert_allclose(right.transition_, joint / joint.sum(axis=1, keepdims=True), atol=0.12)


def persistent_votes() -> np.ndarray:
    """Votes of five sources whose errors last for eight rows, on runs of ten rows of three classes."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.integers(0, 3, 200), 10)
    right = np.repeat(rng.random((250, 5)) < 0.75, 8, axis=0)
    return np.where(right, y[:, None], (y[:, None] + rng.integers(1, 3, right.shape)) % 3)


def test_a_model_of_classes_that_rarely_change_can_be_loaded(tmp_path):
    """The margins of its transition agree to five digits only."""
    votes = persistent_votes()
    model = fs.SequenceLabelModel().fit(votes)
    model.save(tmp_path / "model.fsm")
    np.testing.assert_array_equal(
        fs.load(tmp_path / "model.fsm").predict_proba(votes), model.predict_proba(votes)
    )


@pytest.mark.parametrize("method", ["auto", "em", "agreement", "decomposition"])
def test_intervals_are_wider_if_errors_persist(method, tmp_path):
    """Rows whose errors persist count as fewer rows, for every method, also after saving and pickling."""
    votes = persistent_votes()
    model = fs.SequenceLabelModel(method=method).fit(votes)
    assert model.temper_ < 0.6
    alone = fs.LabelModel(method=method).fit(votes).fit_.standard_errors()
    expected = alone / np.sqrt(model.temper_)
    np.testing.assert_allclose(model.fit_.standard_errors(), expected)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).fit_.standard_errors(), expected)
    model.save(tmp_path / "model.fsm")
    np.testing.assert_allclose(fs.load(tmp_path / "model.fsm").fit_.standard_errors(), expected)
