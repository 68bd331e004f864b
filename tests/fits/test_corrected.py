"""Fits corrected by gold labels implement the whole interface of fits."""

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import FlyingSquidError, SourceWarning, VotesError
from flyingsquid.fits import CorrectedFit


def sample(n_classes: int = 2, n: int = 600, coverage: float = 0.7, seed: int = 0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    right = rng.uniform(0.45, 0.85, 7)
    codes = np.where(rng.random((n, 7)) < right, y[:, None], rng.integers(0, n_classes, (n, 7)))
    codes[rng.random((n, 7)) >= coverage] = -1
    return fs.Votes.from_classes(codes, classes=range(n_classes)), y


def some(y, n, seed=0):
    gold = np.full(len(y), -1)
    at = np.random.default_rng(seed).choice(len(y), n, replace=False)
    gold[at] = y[at]
    return gold


def fitted(n_classes: int = 2, n_gold: int = 100, **options):
    votes, y = sample(n_classes)
    return fs.LabelModel(**options).fit(votes, gold=some(y, n_gold)), votes, y


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("balance", [None, "given"])
def test_contributions_add_up(n_classes, balance):
    given = None if balance is None else np.arange(1, n_classes + 1) / (n_classes * (n_classes + 1) / 2)
    model, votes, _ = fitted(n_classes, class_balance=given)
    labels = model.predict_proba(votes)
    for item in (0, 1, 2, 3, int(np.argmin((votes.codes >= 0).sum(axis=1)))):
        why = model.explain(votes[[item]])
        best, second = np.sort(labels[item])[::-1][:2]
        total = why.prior_log_odds + sum(each.adds for each in why.contributions)
        assert total == pytest.approx(np.log(best) - np.log(second), abs=1e-9)
        assert why.probabilities == pytest.approx(labels[item])


def test_an_item_without_votes_gets_the_prior_of_its_explanation():
    model, _, _ = fitted()
    nobody = np.full((1, 7), -1)
    why = model.explain(nobody)
    assert why.contributions == ()
    assert why.prior == pytest.approx(model.predict_proba(nobody)[0])


@pytest.mark.parametrize("n_classes", [2, 4])
def test_files_keep_everything(tmp_path, n_classes):
    model, votes, _ = fitted(n_classes)
    model.save(tmp_path / "m.fsq")
    again = fs.load(tmp_path / "m.fsq")
    assert isinstance(again.fit_, CorrectedFit)
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    assert again.diagnostics_.gold == model.diagnostics_.gold
    assert again.reason_ == model.reason_
    np.testing.assert_array_equal(again.accuracies_interval_, model.accuracies_interval_)


@pytest.mark.parametrize(
    ("where", "name", "value"),
    [
        ("arrays", "intercepts", np.array([np.nan, 0.0])),
        ("arrays", "vote_corrections", np.zeros((7, 2))),
        ("meta", "of_share", 1e9),
        ("meta", "of_posterior", "much"),
        ("meta", "gold", {"n_gold": 0, **{name: [0.0, 0.0, 0.0] for name in ("accuracy", "log_loss")}}),
    ],
)
def test_damaged_states_are_refused(where, name, value):
    model, _, _ = fitted()
    state = model.fit_.to_state(model.moments_)
    getattr(state, where)[name] = value
    with pytest.raises((FlyingSquidError, KeyError)):
        CorrectedFit.from_state(state, model.moments_)


def test_a_model_for_labeling_is_corrected_too():
    model, votes, _ = fitted(3)
    np.testing.assert_array_equal(model.for_labeling().predict_proba(votes), model.predict_proba(votes))


def test_sparse_votes_and_single_items_get_the_same_labels():
    model, votes, _ = fitted()
    labels = model.predict_proba(votes)
    cells = np.where(votes.codes >= 0, votes.codes + 1, 0)
    scipy_sparse = pytest.importorskip("scipy.sparse")
    sparse = fs.Votes.from_sparse(scipy_sparse.csr_array(cells), classes=[0, 1])
    np.testing.assert_allclose(model.predict_proba(sparse), labels, atol=1e-12)
    scores = model.fit_.item_scores()
    for codes, expected in zip(votes.codes[:20], labels[:20], strict=True):
        sums = scores.adds[np.arange(7), np.where(codes < 0, 2, codes)].sum(axis=0)
        assert scores.finish(sums.tolist()) == pytest.approx(tuple(expected))


def test_partial_fit_keeps_the_gold_labels():
    votes, y = sample(coverage=1.0)
    flipped = fs.Votes.from_classes(1 - votes.codes, classes=[0, 1])
    with pytest.warns(SourceWarning, match="most votes are wrong"):
        model = fs.LabelModel().fit(flipped[:300], gold=some(y, 60)[:300])
    with pytest.warns(SourceWarning, match="most votes are wrong"):
        later = model.partial_fit(flipped[300:])
    assert later.score(flipped, y) > 0.6
    assert later.n_gold_ == np.count_nonzero(some(y, 60)[:300] >= 0)
    assert "gold labels" in later.reason_


def test_the_summary_and_the_diagnostics_tell_what_gold_labels_changed():
    model, votes, _ = fitted()
    effect = model.diagnostics_.gold
    assert effect.n_gold == 100
    assert effect.sentence() in model.reason_
    assert effect.sentence() in model.summary().footnotes
    assert fs.LabelModel().fit(votes).diagnostics_.gold is None


# ---------------------------------------------------------------------- laws and quality


def test_order_of_items_sources_and_classes_does_not_matter():
    votes, y = sample(3)
    gold = some(y, 60)
    labels = fs.LabelModel().fit(votes, gold=gold).predict_proba(votes)
    rng = np.random.default_rng(1)
    items, sources, names = rng.permutation(len(y)), rng.permutation(7), np.array([2, 0, 1])
    codes = np.where(votes.codes < 0, -1, np.argsort(names)[votes.codes])[items][:, sources]
    mixed = fs.Votes.from_classes(codes, classes=range(3))
    known = np.where(gold < 0, -1, np.argsort(names)[gold])[items]
    found = fs.LabelModel().fit(mixed, gold=known).predict_proba(mixed)
    np.testing.assert_allclose(found, labels[items][:, names], atol=1e-4)


def test_items_of_weight_zero_are_not_used():
    votes, y = sample()
    gold, weights = some(y, 80), np.ones(len(y))
    wrong = np.flatnonzero(gold < 0)[:100]
    weights[wrong] = 0.0
    more = gold.copy()
    more[wrong] = 1 - y[wrong]
    found = [
        fs.LabelModel().fit(votes, gold=each, sample_weight=weights).predict_proba(votes)
        for each in (gold, more)
    ]
    np.testing.assert_array_equal(*found)


def test_a_given_class_balance_is_kept():
    model, _, _ = fitted(class_balance=[0.3, 0.7])
    np.testing.assert_allclose(model.class_balance_, [0.3, 0.7])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_fifty_labels_repair_a_panel_that_is_mostly_wrong(n_classes):
    rng = np.random.default_rng(0)
    y = rng.integers(0, n_classes, 1_000)
    wrong = (y[:, None] + 1) % n_classes
    codes = np.where(rng.random((1_000, 6)) < 0.8, wrong, y[:, None])
    votes = fs.Votes.from_classes(codes, classes=range(n_classes))
    assert fs.LabelModel().fit(votes).score(votes, y) < 0.2
    with pytest.warns(SourceWarning, match="most votes are wrong"):
        model = fs.LabelModel().fit(votes, gold=some(y, 50))
    assert model.score(votes, y) > 0.85
    assert model.accuracies_.max() < 0.5


def test_twenty_labels_do_not_hurt_a_good_panel_on_average():
    gains, losses = [], []
    for seed in range(12):
        data = fs.datasets.simulate(800, [0.85, 0.8, 0.75, 0.7, 0.65], coverage=0.8, random_state=seed)
        gold = some(data.y, 20, seed)
        plain, aided = fs.LabelModel().fit(data.votes), fs.LabelModel().fit(data.votes, gold=gold)
        rest = np.flatnonzero(gold < 0)
        part, y = data.votes[rest], data.y[rest]
        gains.append(aided.score(part, y) - plain.score(part, y))
        p = [np.log(each.predict_proba(part))[np.arange(len(y)), y].mean() for each in (plain, aided)]
        losses.append(p[0] - p[1])
    assert np.mean(gains) > -0.005
    assert np.mean(losses) < 0.01


# ---------------------------------------------------------------------- input


def test_gold_is_joined_by_item():
    pd = pytest.importorskip("pandas")
    votes, y = sample()
    ids = [f"item {i}" for i in range(len(y))]
    table = pd.DataFrame(np.where(votes.codes < 0, -1, votes.codes), index=ids)
    gold = some(y, 80)
    at = np.random.default_rng(1).permutation(np.flatnonzero(gold >= 0))
    by_position = fs.LabelModel().fit(table, gold=gold).predict_proba(table)
    mapping = {ids[i]: int(y[i]) for i in at}
    for given in (mapping, pd.Series(mapping)):
        np.testing.assert_array_equal(
            fs.LabelModel().fit(table, gold=given).predict_proba(table), by_position
        )


@pytest.mark.parametrize("case", ["unknown", "twice", "no ids", "twice in votes"])
def test_gold_that_cannot_be_joined_is_refused(case):
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.random.default_rng(0).integers(0, 2, (30, 4)), index=[f"i{k}" for k in range(30)])
    gold = pd.Series([0, 1, 0, 1, 0], index=["i1", "i2", "i3", "i4", "i5"])
    if case == "unknown":
        gold = gold.rename({"i5": "j5"})
    elif case == "twice":
        gold = gold.rename({"i5": "i4"})
    elif case == "twice in votes":
        table = table.rename(index={"i0": "i1"})
    votes = table.to_numpy() if case == "no ids" else table
    with pytest.raises(VotesError, match="`gold`"):
        fs.LabelModel().fit(votes, gold=gold)


def test_a_class_that_nobody_votes_for():
    votes, y = sample()
    wider = fs.Votes.from_classes(np.maximum(votes.codes, -1), classes=[0, 1, 2])
    gold = some(y, 60)
    gold[np.flatnonzero(gold >= 0)[:20]] = 2
    with pytest.warns(SourceWarning, match="rarely"):
        model = fs.LabelModel().fit(wider, gold=gold)
    plain = fs.LabelModel().fit(wider)
    assert model.predict_proba(wider)[:, 2].mean() > plain.predict_proba(wider)[:, 2].mean()
    with pytest.raises(VotesError, match="gold"):
        fs.LabelModel().fit(votes, gold=gold)


def test_fewer_than_five_labels_are_not_used():
    votes, y = sample()
    with pytest.warns(SourceWarning, match="at least 5"):
        model = fs.LabelModel().fit(votes, gold=some(y, 4))
    plain = fs.LabelModel().fit(votes)
    np.testing.assert_array_equal(model.predict_proba(votes), plain.predict_proba(votes))
    assert model.diagnostics_.gold is None


def test_labels_of_one_class_are_pointed_out():
    votes, y = sample()
    gold = np.where((np.arange(len(y)) < 40) & (y == 1), 1, -1)
    with pytest.warns(SourceWarning, match="random sample"):
        model = fs.LabelModel().fit(votes, gold=gold)
    assert np.isfinite(model.predict_proba(votes)).all()


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("mistake", ["another order of items", "other classes"])
def test_gold_labels_that_contradict_the_votes_are_pointed_out(n_classes, mistake):
    votes, y = sample(n_classes)
    wrong = np.roll(y, 1) if mistake == "another order of items" else (y + 1) % n_classes
    with pytest.warns(SourceWarning, match="Check that `gold`"):
        fs.LabelModel().fit(votes, gold=some(wrong, 100))


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_gold", [20, 100, 600])
def test_gold_labels_in_the_order_of_the_votes_raise_no_warning(n_classes, n_gold):
    votes, y = sample(n_classes)
    model = fs.LabelModel().fit(votes, gold=some(y, n_gold))  # warnings are errors in tests
    assert model.n_gold_ == n_gold
