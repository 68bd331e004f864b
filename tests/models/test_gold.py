"""Gold labels on a few items: no loss on average, and a correction if most sources are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta

import flyingsquid as fs
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.exceptions import NotIdentifiableError, VotesError
from tests.estimation.test_conditional import panel
from tests.oracle.star import AnyStar

METHODS = ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best"), "covariance", "quadratic"]


def some_known(y: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    gold = np.full(len(y), -1)
    at = rng.choice(len(y), n, replace=False)
    gold[at] = y[at]
    return gold


def test_counts_on_known_items():
    votes = fs.Votes.from_classes([[0, 1], [1, -1], [1, 1], [0, 0]])
    gold = GoldCounts.of(votes, np.array([0, 1, -1, 1]))
    assert gold.tables[0].tolist() == [[1, 0, 0], [1, 1, 0]]
    assert gold.tables[1].tolist() == [[0, 1, 0], [1, 0, 1]]
    assert (gold.right.tolist(), gold.n_votes.tolist(), gold.classes.tolist()) == ([2, 0], [3, 2], [1, 2])


@pytest.mark.parametrize(("zeros", "ones", "believed"), [(3, 9, 2.0), (20, 1, 8.0), (0, 4, 0.5)])
def test_the_balance_of_gold_labels_is_pooled_by_precision(zeros, ones, believed):
    """Gold labels alone are a beta law; with another estimate each counts by its inverse variance."""
    y = np.repeat([0, 1], [zeros, ones])
    gold = GoldCounts.of(fs.Votes.from_classes(y[:, None], classes=[0, 1]), y)
    law = beta(ones + believed / 2, zeros + believed / 2)
    alone = gold.expected_truth(0.0, np.inf, believed)
    assert alone == pytest.approx((2 * law.mean() - 1, 2 * law.std()))
    other, error = 0.3, 0.2
    precision = 1 / alone[1] ** 2 + 1 / error**2
    pooled = (alone[0] / alone[1] ** 2 + other / error**2) / precision
    assert gold.expected_truth(other, error, believed) == pytest.approx((pooled, precision**-0.5))


def draw(kind: str, rng: np.random.Generator) -> tuple[fs.Votes, np.ndarray, np.ndarray]:
    if kind == "symmetric":
        p = rng.uniform(0.2, 0.8)
        sample = fs.datasets.simulate(
            2_000, rng.uniform(0.55, 0.9, 6), coverage=0.7, class_balance=[1 - p, p], random_state=rng
        )
        return sample.votes, sample.y, np.array([1 - p, p])
    star = AnyStar.random(rng, 6) if kind == "any" else panel(kind, rng.choice([0.1, 0.3, 0.5]), rng)
    codes, y = star.sample(2_000, rng)
    return fs.Votes(codes, (0, 1)), y, star.balance


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", ["symmetric", "any", "one-sided", "judges"])
@pytest.mark.parametrize("balance", ["given", "default"])
def test_twenty_gold_labels_never_hurt_on_average(method, kind, balance):
    gains = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        votes, y, truth = draw(kind, rng)
        gold = some_known(y, 20, rng)
        options = {"method": method, "class_balance": truth if balance == "given" else None}
        try:
            without = fs.LabelModel(**{"method": "triplet", **options}).fit(votes).score(votes, y)
        except NotIdentifiableError:
            continue  # nothing to compare with
        gains.append(
            fs.LabelModel(**{"method": "triplet", **options}).fit(votes, gold=gold).score(votes, y) - without
        )
    assert len(gains) >= 40
    assert np.mean(gains) > -0.002


@pytest.mark.parametrize("method", METHODS)
def test_gold_labels_repair_an_adversarial_majority(method):
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.9, 0.2, 0.25, 0.3, 0.2, 0.8], random_state=rng)
    gold = some_known(sample.y, 20, rng)
    assert fs.LabelModel(method=method).fit(sample.votes).score(sample.votes, sample.y) < 0.2
    model = fs.LabelModel(method=method).fit(sample.votes, gold=gold)
    assert model.score(sample.votes, sample.y) > 0.9
    np.testing.assert_array_equal(model.accuracies_ > 0.5, [True, False, False, False, False, True])


def test_gold_labels_settle_signs_that_are_open():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(4_000, [0.8, 0.8, 0.7, 0.2, 0.2, 0.3], random_state=rng)
    with pytest.raises(NotIdentifiableError):
        fs.LabelModel(method="triplet").fit(sample.votes)
    model = fs.LabelModel(method="triplet").fit(sample.votes, gold=some_known(sample.y, 20, rng))
    assert model.score(sample.votes, sample.y) > 0.9


def test_an_anchor_outranks_gold_labels():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.9, 0.8, 0.8, 0.7], random_state=rng)
    gold = some_known(sample.y, 20, rng)
    model = fs.LabelModel(signs=dict.fromkeys(range(4), -1)).fit(sample.votes, gold=gold)
    assert (model.accuracies_ < 0.5).all()


def test_many_gold_labels_outweigh_a_wrong_model():
    """Sources that depend on each other fool the votes; gold labels do not."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4_000)
    shared = np.where(rng.random(4_000) < 0.6, y, 1 - y)
    copies = [np.where(rng.random(4_000) < 0.95, shared, 1 - shared) for _ in range(4)]
    good = [np.where(rng.random(4_000) < 0.85, y, 1 - y) for _ in range(2)]
    votes = np.column_stack([*copies, *good])
    fooled = fs.LabelModel(method="triplet").fit(votes)
    told = fs.LabelModel(method="triplet").fit(votes, gold=np.where(np.arange(4_000) < 2_000, y, -1))
    assert fooled.accuracies_[0] > 0.9
    assert told.accuracies_[0] < fooled.accuracies_[0] - 0.05
    assert told.score(votes, y) > fooled.score(votes, y)


def test_the_balance_joins_votes_and_gold_labels_unless_it_was_given():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.8, 0.75, 0.7, 0.8], class_balance=[0.8, 0.2], random_state=rng)
    gold = some_known(sample.y, 100, rng)
    model = fs.LabelModel(method="triplet").fit(sample.votes, gold=gold)
    assert model.class_balance_[1] == pytest.approx(0.2, abs=0.05)
    assert "gold labels" in model.diagnostics_.class_balance
    given = fs.LabelModel(method="triplet", class_balance=[0.7, 0.3]).fit(sample.votes, gold=gold)
    np.testing.assert_array_equal(given.class_balance_, [0.7, 0.3])


def test_intervals_shrink_with_gold_labels():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(1_000, [0.8, 0.75, 0.7], random_state=rng)
    few, many = (
        np.diff(
            fs.LabelModel(method="triplet")
            .fit(sample.votes, gold=some_known(sample.y, n, rng))
            .accuracies_interval_
        )
        for n in (10, 900)
    )
    assert (many < few).all()


def test_gold_of_any_kind_is_read_and_bad_gold_is_located():
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=0)
    codes = np.where(np.arange(500) < 50, sample.y, -1)
    expected = fs.LabelModel(method="triplet").fit(sample.votes, gold=codes).predict_proba(sample.votes)
    for gold in (
        np.where(codes < 0, np.nan, codes),
        [None if c < 0 else int(c) for c in codes],
        np.ma.masked_array(sample.y, codes < 0),
    ):
        model = fs.LabelModel(method="triplet").fit(sample.votes, gold=gold)
        np.testing.assert_array_equal(model.predict_proba(sample.votes), expected)
    nothing = fs.LabelModel(method="triplet").fit(sample.votes, gold=np.full(500, -1))
    np.testing.assert_array_equal(
        nothing.predict_proba(sample.votes),
        fs.LabelModel(method="triplet").fit(sample.votes).predict_proba(sample.votes),
    )
    with pytest.raises(VotesError, match=r"gold\[3\]: .*got 7"):
        fs.LabelModel(method="triplet").fit(sample.votes, gold=np.where(np.arange(500) == 3, 7, codes))
    with pytest.raises(VotesError, match="`gold` must have one label"):
        fs.LabelModel(method="triplet").fit(sample.votes, gold=[1, 0, 1])


def test_weights_count_known_items_too():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(500, [0.9, 0.8, 0.7], random_state=rng)
    gold = some_known(sample.y, 50, rng)
    tripled = fs.Votes(np.tile(sample.votes.codes, (3, 1)), (0, 1))
    a = fs.LabelModel(method="triplet").fit(sample.votes, gold=gold, sample_weight=3)
    b = fs.LabelModel(method="triplet").fit(tripled, gold=np.tile(gold, 3))
    np.testing.assert_allclose(a.accuracies_, b.accuracies_, rtol=1e-9)


def test_gold_labels_keep_their_effect_in_partial_fit_and_in_files(tmp_path):
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(2_000, [0.9, 0.2, 0.25, 0.3, 0.2, 0.8], random_state=rng)
    model = fs.LabelModel(method="triplet").fit(
        sample.votes[:1_000], gold=some_known(sample.y[:1_000], 50, rng)
    )
    model.save(tmp_path / "m.fsq")
    for later in (model, fs.load(tmp_path / "m.fsq")):
        later.partial_fit(sample.votes[1_000:])
        assert later.score(sample.votes, sample.y) > 0.9
        assert "gold labels" in later.diagnostics_.class_balance
    fresh = fs.LabelModel(method="triplet").fit(sample.votes)
    assert fresh.score(sample.votes, sample.y) < 0.2


@pytest.mark.slow
@pytest.mark.parametrize("method", ["triplet", "covariance"])
@pytest.mark.parametrize("n_gold", [50, 1_000])
def test_intervals_with_gold_labels_cover_the_truth(method, n_gold):
    rng, truth, inside = np.random.default_rng(0), np.array([0.85, 0.8, 0.75, 0.7, 0.65]), []
    for _ in range(150):
        sample = fs.datasets.simulate(1_000, truth, random_state=rng)
        model = fs.LabelModel(method=method).fit(sample.votes, gold=some_known(sample.y, n_gold, rng))
        low, high = model.accuracies_interval_.T
        inside.append((low <= truth) & (truth <= high))
    assert np.mean(inside) >= 0.92


@pytest.mark.parametrize("method", METHODS)
def test_gold_labels_on_every_item_leave_good_sources_good(method):
    sample = fs.datasets.simulate(1_000, [0.95, 0.8, 0.7, 0.99], random_state=0)
    votes = sample.votes.codes.copy()
    votes[:, 3] = sample.y  # never wrong
    model = fs.LabelModel(method=method).fit(votes, gold=sample.y)
    assert model.score(votes, sample.y) > 0.99
    np.testing.assert_allclose(model.accuracies_, (votes == sample.y[:, None]).mean(axis=0), atol=0.01)


@pytest.mark.parametrize("n_known", [1, 3, 10])
def test_a_few_labels_do_no_harm(n_known):
    """They neither undo the even balance nor flip sources that are clearly good."""
    without, with_labels = [], []
    for seed in range(40):
        sample = fs.datasets.simulate(400, [0.85, 0.75, 0.7, 0.65], coverage=0.7, random_state=seed)
        gold = np.where(np.arange(400) < n_known, sample.y, -1)
        without.append(fs.LabelModel(method="triplet").fit(sample.votes).score(sample.votes, sample.y))
        with_labels.append(
            fs.LabelModel(method="triplet").fit(sample.votes, gold=gold).score(sample.votes, sample.y)
        )
    assert np.mean(with_labels) > np.mean(without) - 0.005
    assert min(with_labels) > 0.6


def test_the_number_of_gold_labels_is_recorded(tmp_path):
    sample = fs.datasets.simulate(500, [0.8, 0.75, 0.7], random_state=0)
    gold = some_known(sample.y, 40, np.random.default_rng(0))
    for method in ("auto", "triplet", "em"):
        model = fs.LabelModel(method=method).fit(sample.votes, gold=gold)
        assert model.n_gold_ == 40
        assert model.for_labeling().n_gold_ == 40
        model.save(tmp_path / f"{method}.fsq")
        assert fs.load(tmp_path / f"{method}.fsq").n_gold_ == 40
        assert model.fit(sample.votes).n_gold_ == 0
    kept = fs.LabelModel(method="triplet").fit(sample.votes, gold=gold).partial_fit(sample.votes)
    assert kept.n_gold_ == 40
    assert fs.LabelModel().fit(sample.votes, gold=np.full(500, -1)).n_gold_ == 0


# ---------------------------------------------------------------------- bad labels


def biased_pool():
    rng = np.random.default_rng(0)
    y = (rng.random(2_000) < 0.4).astype(int)
    votes = np.where(rng.random((2_000, 4)) < [0.85, 0.8, 0.75, 0.7], y[:, None], 1 - y[:, None])
    return votes, y


def test_items_that_differ_from_the_others_are_reported(tmp_path):
    votes, y = biased_pool()
    certain = np.flatnonzero((votes == votes[:, :1]).all(axis=1))[:100]
    at_random = np.random.default_rng(1).choice(2_000, 100, replace=False)
    for at, expected in ((certain, False), (at_random, True)):
        gold = np.full(2_000, -1)
        gold[at] = y[at]
        model = fs.LabelModel().fit(votes, gold=gold)
        assert model.diagnostics_.gold.is_representative is expected
        assert ("differ from the others" in model.reason_) is not expected
        path = tmp_path / f"{expected}.fsq"
        model.save(path)
        assert fs.load(path).diagnostics_.gold == model.diagnostics_.gold


@pytest.mark.slow
def test_random_samples_are_rarely_reported():
    votes, y = biased_pool()
    found = []
    for seed in range(30):
        gold = np.full(2_000, -1)
        at = np.random.default_rng(seed).choice(2_000, 50, replace=False)
        gold[at] = y[at]
        found.append(fs.LabelModel().fit(votes, gold=gold).diagnostics_.gold.is_representative)
    assert np.mean(found) > 0.95


def test_samples_with_another_class_balance_are_reported():
    """Items of one class are three times as likely to get a gold label."""
    votes, y = biased_pool()
    weights = np.where(y == 1, 3.0, 1.0)
    found = []
    for seed in range(10):
        gold = np.full(2_000, -1)
        at = np.random.default_rng(seed).choice(2_000, 200, replace=False, p=weights / weights.sum())
        gold[at] = y[at]
        found.append(fs.LabelModel().fit(votes, gold=gold).diagnostics_.gold.is_representative)
    assert np.mean(found) < 0.2


def test_a_class_that_nobody_votes_for():
    votes, y = biased_pool()
    gold = np.full(2_000, -1)
    gold[:100] = np.where(np.arange(100) % 10 == 0, 2, y[:100])
    with pytest.raises(VotesError, match="gold"):
        fs.LabelModel().fit(votes, gold=gold)
    with pytest.warns(fs.exceptions.SourceWarning, match=r"2 \(expected .*%, labeled 0.0%\)"):
        model = fs.LabelModel(n_classes=3).fit(votes, gold=gold)
    posterior = model.predict_proba(votes)
    assert posterior.shape == (2_000, 3)
    assert 0.02 < posterior[:, 2].mean() < 0.25  # a tenth of the gold labels have this class


def test_a_class_that_no_item_gets_is_reported():
    """Votes without information: with gold labels, the frequent class is always more probable."""
    rng = np.random.default_rng(0)
    votes = rng.integers(0, 2, (400, 3))
    gold = np.where(np.arange(400) < 200, (rng.random(400) < 0.2).astype(int), -1)
    with pytest.warns(fs.exceptions.SourceWarning, match=r"1 \(expected .*%, labeled 0.0%\)"):
        model = fs.LabelModel().fit(votes, gold=gold)
    assert (model.predict_proba(votes)[:, 0] > 0.5).all()


def test_labels_of_one_class_or_fewer_than_five_warn():
    votes, y = biased_pool()
    ones = np.where((y == 1) & (np.arange(2_000) < 200), 1, -1)
    with pytest.warns(fs.exceptions.SourceWarning, match="class"):
        model = fs.LabelModel().fit(votes, gold=ones)
    assert np.isfinite(model.predict_proba(votes)).all()
    four = np.where(np.arange(2_000) < 4, y, -1)
    with pytest.warns(fs.exceptions.SourceWarning, match="4 gold labels"):
        few = fs.LabelModel().fit(votes, gold=four)
    np.testing.assert_array_equal(few.predict_proba(votes), fs.LabelModel().fit(votes).predict_proba(votes))


@pytest.mark.parametrize("function", ["leave_one_out", "learning_curve"])
def test_influence_takes_gold_labels_by_identifier(function):
    pd = pytest.importorskip("pandas")
    votes, y = biased_pool()
    names = [f"item {i}" for i in range(400)]
    table = pd.DataFrame(votes[:400], index=names, columns=list("abcd"))
    by_id = {names[i]: int(y[i]) for i in range(0, 400, 5)}
    by_position = [by_id.get(name) for name in names]
    model = fs.LabelModel().fit(table, gold=by_id)
    call = getattr(fs.analysis, function)
    options = {} if function == "leave_one_out" else {"random_state": 0, "sizes": [200], "repeats": 1}
    both = [str(call(model, table, gold=gold, **options)) for gold in (by_id, by_position)]
    assert both[0] == both[1]
    with pytest.raises(VotesError, match="nobody"):
        call(model, table, gold={"nobody": 1}, **options)


def test_gold_labels_are_joined_by_item_in_fit_and_score():
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(200, [0.9, 0.8, 0.7], random_state=0)
    table = pd.DataFrame(sample.votes.codes, columns=list("abc"), index=[f"i{row}" for row in range(200)])
    gold = pd.Series(sample.y, index=table.index)
    mixed = gold.sample(frac=1, random_state=0)
    model = fs.LabelModel().fit(table)
    by_item = [gold, mixed, mixed.to_dict(), gold.to_numpy()]
    assert len({model.score(table, y) for y in by_item}) == 1
    with pytest.raises(VotesError, match="no item identifiers"):
        model.score(sample.votes, mixed.to_dict())


def test_a_series_with_the_index_of_the_votes_may_repeat_identifiers():
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(200, [0.9, 0.8, 0.7], random_state=0)
    index = np.arange(200) // 2
    table, gold = pd.DataFrame(sample.votes.codes, index=index), pd.Series(sample.y, index=index)
    assert fs.LabelModel().fit(table, gold=gold).n_gold_ == 200
    with pytest.raises(VotesError, match="unique item identifiers"):
        fs.LabelModel().fit(table, gold=gold[::-1])


@pytest.mark.parametrize("name", ["X", "embeddings"])
def test_other_names_of_features_have_a_hint(name):
    sample = fs.datasets.simulate(50, [0.9, 0.8, 0.7], random_state=0)
    with pytest.raises(TypeError, match="Use `features`"):
        fs.LabelModel().fit(sample.votes, **{name: np.ones((50, 2))})


def test_weights_are_joined_by_item_in_fit_and_score():
    pd = pytest.importorskip("pandas")
    sample = fs.datasets.simulate(200, [0.9, 0.8, 0.7], random_state=0)
    table = pd.DataFrame(sample.votes.codes, columns=list("abc"), index=[f"i{row}" for row in range(200)])
    weight = pd.Series(np.arange(200) % 7, index=table.index)
    mixed = weight.sample(frac=1, random_state=0)
    models = [fs.LabelModel().fit(table, sample_weight=each) for each in (weight, mixed, weight.to_numpy())]
    np.testing.assert_array_equal([model.accuracies_ for model in models], [models[0].accuracies_] * 3)
    scores = [models[0].score(table, sample.y, sample_weight=each) for each in (weight, mixed)]
    assert scores[0] == scores[1]


def test_gold_labels_widen_the_interval_of_the_class_balance_only_as_far_as_they_move_it():
    rng = np.random.default_rng(4)
    y = (rng.random(2_000) < 0.26).astype(int)
    votes = np.where(rng.random((2_000, 6)) < [0.85, 0.8, 0.75, 0.7, 0.65, 0.9], y[:, None], 1 - y[:, None])
    plain = fs.LabelModel().fit(votes)
    for n_gold in (50, 1_000):
        model = fs.LabelModel().fit(votes, gold=np.where(np.arange(2_000) < n_gold, y, -1))
        moved = np.abs(model.class_balance_ - plain.class_balance_)
        (low, high), (low_before, high_before) = (
            model.class_balance_interval_.T,
            plain.class_balance_interval_.T,
        )
        assert (low >= low_before - 2 * moved - 1e-12).all()
        assert (high <= high_before + 2 * moved + 1e-12).all()
        assert (low <= model.class_balance_).all()
        assert low[1] <= y.mean() <= high[1]
