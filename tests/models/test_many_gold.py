"""Gold labels for many classes: no loss on average, and a correction if the votes share errors."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.exceptions import NotIdentifiableError, VotesError
from tests.models.test_gold import some_known
from tests.oracle.many import ManyStar, crowd
from tests.support.errors import mentions

METHODS = ["agreement", "em", "decomposition"]


def draw(kind: str, rng: np.random.Generator) -> tuple[fs.Votes, np.ndarray, np.ndarray]:
    if kind == "any":
        star = ManyStar.random(rng, 6, 4)
    elif kind == "crowd":
        star = crowd(rng, 10, 4, right=0.6, coverage=0.5)
    elif kind == "weak":
        star = crowd(rng, 6, 3, right=0.5, coverage=0.5)
    elif kind == "one-class":
        confusion = np.zeros((9, 3, 4))
        for i in range(9):
            rates = np.where(np.arange(3) == i % 3, rng.uniform(0.2, 0.8), rng.uniform(0.02, 0.2, 3))
            confusion[i, :, i % 3], confusion[i, :, -1] = rates, 1 - rates
        star = ManyStar(confusion, rng.dirichlet([5, 5, 5]))
    else:
        star = ManyStar(crowd(rng, 8, 4, right=0.6, coverage=0.6).confusion, np.array([0.7, 0.15, 0.1, 0.05]))
    codes, y = star.sample(2_000, rng)
    return fs.Votes(codes, tuple(range(star.n_classes))), y, star.balance


def test_counts_on_known_items():
    votes = fs.Votes.from_classes([[0, 2], [1, -1], [1, 1], [0, 0]])
    gold = GoldCounts.of(votes, np.array([0, 1, -1, 2]), np.array([1, 2, 1, 1]))
    counted = gold.votes.to_array()  # source, vote, class
    assert counted[:, 0].tolist() == [[1, 0, 1], [0, 0, 1]]
    assert counted[:, 1].tolist() == [[0, 2, 0], [0, 0, 0]]
    assert counted[:, 2].tolist() == [[0, 0, 0], [1, 0, 0]]
    assert gold.classes.tolist() == [1, 2, 1]
    assert gold.shared_votes.tolist() == [[0.5, 0, 1], [0, 2, 0], [0.5, 0, 0]]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["any", "crowd", "weak", "one-class", "imbalanced"])
@pytest.mark.parametrize("balance", ["given", "default"])
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_gold_labels_never_hurt_on_average(method, kind, balance):
    gains = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        votes, y, truth = draw(kind, rng)
        options = {"method": method, "class_balance": truth if balance == "given" else None}
        try:
            without = fs.LabelModel(**options).fit(votes).score(votes, y)
        except NotIdentifiableError:
            continue  # nothing to compare with
        known = some_known(y, 20, rng)
        gains.append(fs.LabelModel(**options).fit(votes, gold=known).score(votes, y) - without)
    assert np.mean(gains) > -0.003 if gains else method == "decomposition"


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_known", [20, 50])
def test_gold_labels_repair_permuted_classes(method, n_known):
    rng = np.random.default_rng(0)
    codes, y = crowd(rng, 6, 4, right=0.75, coverage=0.8).sample(3_000, rng)
    shifted = np.where(codes < 0, -1, (codes + 1) % 4).astype(np.int8)  # everybody counts from 1
    votes = fs.Votes(shifted, (0, 1, 2, 3))
    assert fs.LabelModel(method=method).fit(votes).score(votes, y) < 0.1
    model = fs.LabelModel(method=method).fit(votes, gold=some_known(y, n_known, rng))
    assert model.score(votes, y) > 0.9


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", METHODS)
def test_gold_labels_repair_an_adversarial_majority(method):
    """Five of six shift the classes, each in its own way; one is right."""
    rng = np.random.default_rng(1)
    codes, y = crowd(rng, 6, 4, right=0.75, coverage=0.8).sample(3_000, rng)
    for i in range(5):
        codes[:, i] = np.where(codes[:, i] < 0, -1, (codes[:, i] + 1 + i % 3) % 4)
    votes = fs.Votes(codes, (0, 1, 2, 3))
    assert fs.LabelModel(method=method).fit(votes).score(votes, y) < 0.3
    model = fs.LabelModel(method=method).fit(votes, gold=some_known(y, 100, rng))
    assert model.score(votes, y) > 0.85


def test_a_few_labels_do_not_rename_classes():
    """One vote per item, half of them wrong: some renaming always fits a few gold labels better."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 50, 2_000)
    codes = np.full((2_000, 20), -1, np.int8)
    codes[np.arange(2_000), rng.integers(0, 20, 2_000)] = np.where(
        rng.random(2_000) < 0.5, y, rng.integers(0, 50, 2_000)
    )
    for seed in range(20):
        known = some_known(y, 20, np.random.default_rng(seed))
        gold = GoldCounts.of(fs.Votes(codes, tuple(range(50))), known)
        assert gold.meaning.tolist() == list(range(50))


@pytest.mark.parametrize("method", METHODS)
def test_gold_labels_on_every_item_are_the_tables(method):
    rng = np.random.default_rng(0)
    codes, y = ManyStar.random(rng, 6, 3).sample(4_000, rng)
    model = fs.LabelModel(method=method).fit(codes, gold=y)
    right = [np.mean(y[codes[:, i] >= 0] == codes[codes[:, i] >= 0, i]) for i in range(6)]
    given = np.mean(y == np.arange(3)[:, None], axis=1)
    assert np.abs(model.class_balance_ - given).max() < 0.05
    by_hand = fs.LabelModel(method=method, class_balance=given).fit(codes, gold=y)
    np.testing.assert_allclose(by_hand.accuracies_, right, atol=0.05)


def test_the_balance_joins_unless_it_was_given():
    rng = np.random.default_rng(0)
    votes, y, truth = draw("imbalanced", rng)
    known = some_known(y, 200, rng)
    for method in METHODS[:2]:
        model = fs.LabelModel(method=method).fit(votes, gold=known)
        np.testing.assert_allclose(model.class_balance_, truth, atol=0.1)
        assert "gold labels" in model.diagnostics_.class_balance
    given = fs.LabelModel(class_balance=[0.4, 0.2, 0.2, 0.2]).fit(votes, gold=known)
    np.testing.assert_array_equal(given.class_balance_, [0.4, 0.2, 0.2, 0.2])


@pytest.mark.parametrize("method", METHODS)
def test_gold_of_any_kind_is_read_and_bad_gold_is_located(method):
    rng = np.random.default_rng(0)
    votes, y, _ = draw("any", rng)
    known = some_known(y, 50, rng)
    model = fs.LabelModel(method=method)
    expected = model.fit(votes, gold=known).predict_proba(votes)
    for gold in (
        np.where(known < 0, np.nan, known),
        [None if c < 0 else int(c) for c in known],
        np.ma.masked_array(y, known < 0),
    ):
        np.testing.assert_array_equal(model.fit(votes, gold=gold).predict_proba(votes), expected)
    nothing = model.fit(votes, gold=np.full(len(y), -1)).predict_proba(votes)
    np.testing.assert_array_equal(nothing, model.fit(votes).predict_proba(votes))
    with pytest.raises(VotesError, match=r"gold\[3\]: .*got 7"):
        model.fit(votes, gold=np.where(np.arange(len(y)) == 3, 7, known))
    with pytest.raises(VotesError, match=mentions("gold", 3, "2,000")):
        model.fit(votes, gold=[1, 0, 1])


@pytest.mark.parametrize("method", METHODS)
def test_weights_count_known_items_too(method):
    rng = np.random.default_rng(0)
    votes, y, _ = draw("any", rng)
    known = some_known(y, 50, rng)
    tripled = fs.Votes(np.tile(votes.codes, (3, 1)), votes.classes)
    a = fs.LabelModel(method=method).fit(votes, gold=known, sample_weight=3)
    b = fs.LabelModel(method=method).fit(tripled, gold=np.tile(known, 3))
    np.testing.assert_allclose(a.confusion_, b.confusion_, atol=1e-8)


@pytest.mark.filterwarnings("ignore:Without gold labels:flyingsquid.exceptions.SourceWarning")
def test_gold_labels_keep_their_effect_in_partial_fit_and_in_files(tmp_path):
    rng = np.random.default_rng(0)
    codes, y = crowd(rng, 6, 4, right=0.75, coverage=0.8).sample(2_000, rng)
    votes = fs.Votes(np.where(codes < 0, -1, (codes + 1) % 4).astype(np.int8), (0, 1, 2, 3))
    model = fs.LabelModel().fit(votes[:1_000], gold=some_known(y[:1_000], 50, rng))
    model.save(tmp_path / "m.fsq")
    later = [each.partial_fit(votes[1_000:]) for each in (model, fs.load(tmp_path / "m.fsq"))]
    for each in later:
        assert each.score(votes, y) > 0.9
    np.testing.assert_array_equal(later[0].confusion_, later[1].confusion_)
    assert fs.LabelModel().fit(votes).score(votes, y) < 0.1
    assert model.fit_moments(fs.Moments.of(votes)).score(votes, y) < 0.1  # counts alone forget them


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_a_file_records_whether_gold_labels_took_part(method, tmp_path):
    votes, y, _ = draw("any", np.random.default_rng(0))
    for gold in (None, y):
        model = fs.LabelModel(method=method).fit(votes, gold=gold)
        model.save(tmp_path / "model.fsm")
        assert model.fit_.uses_gold == fs.load(tmp_path / "model.fsm").fit_.uses_gold == (gold is not None)
