"""`LabelModel` with features: labels, fallbacks, gold labels, files, explanations and refusals."""

import json

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, ModelFileError, OptionError, VotesError
from flyingsquid.fits import WeightedFit

pd = pytest.importorskip("pandas")


def make(n=1_200, n_classes=2, *, signal=1.2, seed=0):
    """Return features, votes of five sources that abstain half of the time, and classes."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    features = rng.normal(size=(n, 6))
    features[np.arange(n), y] += 2 * signal
    right = rng.random((n, 5)) < [0.85, 0.8, 0.75, 0.7, 0.7]
    votes = np.where(right, y[:, None], (y[:, None] + rng.integers(1, n_classes, (n, 5))) % n_classes)
    return features, np.where(rng.random((n, 5)) < 0.4, votes, -1), y


@pytest.fixture(scope="module", params=[2, 4])
def case(request):
    features, votes, y = make(n_classes=request.param)
    model = fs.LabelModel(n_classes=request.param).fit(votes, features=features)
    return model, features, votes, y


def test_features_add_to_votes_and_label_items_without_votes(case):
    model, features, votes, y = case
    assert model.fit_.by_features is not None
    assert model.score(votes, y, features=features) > model.score(votes, y) + 0.05
    silent = (votes < 0).all(axis=1)
    labels = model.predict(votes, features=features)
    assert np.mean(labels[silent] == y[silent]) > 0.6
    np.testing.assert_array_equal(labels, model.predict_proba(votes, features=features).argmax(axis=1))


def test_votes_alone_are_labeled_as_without_features(case):
    model, _, votes, _ = case
    plain = fs.LabelModel(n_classes=len(model.classes_)).fit(votes)
    np.testing.assert_array_equal(model.predict_proba(votes), plain.predict_proba(votes))
    np.testing.assert_array_equal(model.accuracies_, plain.accuracies_)
    assert model.method_ == plain.method_


def test_the_verdict_is_about_votes_without_features(case):
    model, _, votes, _ = case
    plain = fs.LabelModel(n_classes=len(model.classes_)).fit(votes).diagnostics_.verdict
    assert str(model.diagnostics_.verdict) == f"Votes without features: {plain}"
    assert model.diagnostics_.verdict.kind == plain.kind


def test_constant_features_have_no_effect(case):
    model, _, votes, _ = case
    same = np.ones((len(votes), 2))
    constant = fs.LabelModel(n_classes=len(model.classes_)).fit(votes, features=same)
    np.testing.assert_array_equal(constant.predict_proba(votes, features=same), model.predict_proba(votes))
    assert "without features" not in str(constant.diagnostics_.verdict)


def test_items_without_features_fall_back_to_votes(case):
    model, features, votes, _ = case
    missing = features.copy()
    missing[::2] = np.nan
    found = model.predict_proba(votes, features=missing)
    np.testing.assert_array_equal(found[::2], model.predict_proba(votes)[::2])
    np.testing.assert_array_equal(found[1::2], model.predict_proba(votes, features=features)[1::2])


def test_an_item_gets_the_same_label_alone_and_among_others(case):
    model, features, votes, _ = case
    together = model.predict_proba(votes[:20], features=features[:20])
    alone = [model.predict_proba(votes[[i]], features=features[[i]])[0] for i in range(20)]
    np.testing.assert_allclose(together, alone, rtol=1e-9)


def test_sparse_votes_features_and_tables_give_the_same_labels(case):
    model, features, votes, _ = case
    expected = model.predict_proba(votes, features=features)
    for other in (csr_array(features), pd.DataFrame(features), features.tolist()):
        np.testing.assert_allclose(model.predict_proba(votes, features=other), expected, rtol=1e-9)
    item, source = np.nonzero(votes >= 0)
    sparse = csr_array((votes[item, source] + 1, (item, source)), shape=votes.shape)
    read = fs.Votes.from_sparse(sparse, classes=model.classes_.tolist())
    again = fs.LabelModel().fit(read, features=features)
    np.testing.assert_allclose(again.predict_proba(read, features=features), expected, atol=1e-6)


def test_results_can_have_other_types(case):
    model, features, votes, _ = case
    out = np.empty((len(votes), len(model.classes_)), np.float32)
    assert model.predict_proba(votes, features=features, out=out) is out
    frame = model.predict_proba(votes, features=features, output="pandas")
    np.testing.assert_allclose(frame.to_numpy(), out, atol=1e-6)
    labels = model.predict(votes, features=features, output="pandas")
    assert labels.tolist() == model.predict(votes, features=features).tolist()
    both = fs.LabelModel(n_classes=len(model.classes_)).fit_predict_proba(votes, features=features)
    np.testing.assert_allclose(both, model.predict_proba(votes, features=features))


def test_a_model_is_the_same_after_a_round_trip(case, tmp_path):
    model, features, votes, _ = case
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    expected = model.predict_proba(votes, features=features)
    np.testing.assert_array_equal(again.predict_proba(votes, features=features), expected)
    assert again.diagnostics_.features == model.diagnostics_.features
    assert again.reason_ == model.reason_


def test_damaged_files_are_refused(case, tmp_path):
    model, *_ = case
    state = model.fit_.to_state(model.moments_)
    changes = {
        "slope": 0.0,
        "effect": {**state.meta["effect"], "weight": 4.0},
    }
    for name, value in changes.items():
        with pytest.raises(ModelFileError):
            WeightedFit.from_state(
                type(state)(state.kind, {**state.meta, name: value}, state.arrays), model.moments_
            )
    short = {**state.arrays, "feature_coefficients": state.arrays["feature_coefficients"][:, :-1]}
    with pytest.raises(ModelFileError):
        WeightedFit.from_state(type(state)(state.kind, state.meta, short), model.moments_)


def test_a_copy_for_workers_labels_the_same_way(case):
    model, features, votes, _ = case
    np.testing.assert_array_equal(
        model.for_labeling().predict_proba(votes, features=features),
        model.predict_proba(votes, features=features),
    )


def test_explanations_have_a_contribution_of_features(case):
    model, features, votes, _ = case
    for item in range(30):
        why = model.explain(votes[[item]], features=features[item])
        p = model.predict_proba(votes[[item]], features=features[[item]])[0]
        np.testing.assert_allclose(why.probabilities, p, atol=1e-9)
        best, second = np.sort(p)[::-1][:2]
        assert why.log_odds == pytest.approx(np.log(best / second), abs=1e-6)
        assert "features" in [each.source for each in why.contributions]
    assert "features" not in [each.source for each in model.explain(votes[[0]]).contributions]


def test_diagnostics_and_the_summary_show_what_features_contribute(case):
    model, features, votes, _ = case
    effect = model.diagnostics_.features
    assert effect.is_used
    assert (effect.n_items, effect.n_columns) == features.shape
    assert effect.sentence() in model.summary().footnotes
    assert "votes and features" in model.reason_
    before, after = model.predict(votes), model.predict(votes, features=features)
    heard = (votes >= 0).any(axis=1)
    assert effect.n_changed == np.count_nonzero((before != after) & heard)


def test_the_report_shows_what_features_contribute(case):
    model, features, votes, y = case
    page = fs.report(votes, model=model)
    assert f"weight {model.diagnostics_.features.weight:.2g}" in page
    assert "those of the votes without features" in page
    labeled = fs.report(votes, y, model=model, features=features)
    assert "those of votes and features" in labeled
    assert 'data-fact="feature-weight"' in labeled
    tile = labeled.partition('data-fact="model-accuracy"')[2].partition("</div>")[0]
    assert f"{model.score(votes, y, features=features):.1%}" in tile
    items = labeled.partition('id="items"')[2]
    assert "features (" in items  # one of the contributions
    assert "features (" not in page.partition('id="items"')[2]


def test_the_report_fits_with_features():
    features, votes, _ = make(300)
    page = fs.report(votes, features=pd.DataFrame(features))
    model = fs.LabelModel().fit(votes, features=features)
    assert f"weight {model.diagnostics_.features.weight:.2g}" in page
    with pytest.raises(OptionError):
        fs.report(votes, model=fs.LabelModel().fit(votes), features=features)


def test_analyses_take_features(case):
    model, features, votes, y = case
    found = fs.analysis.compare_with_majority(model, votes, y, features=features)
    assert found.model.accuracy == pytest.approx(model.score(votes, y, features=features))
    without = fs.analysis.calibration(model, votes, y)
    assert fs.analysis.calibration(model, votes, y, features=features).counts.sum() == without.counts.sum()
    items = fs.analysis.contested_items(model, votes, features=features, n=3).uncertain
    expected = model.predict_proba(votes, features=features)
    for item in items:
        np.testing.assert_allclose(item.probabilities, expected[item.item])


@pytest.mark.parametrize("method", ["triplet", "covariance", "em", "weighted", "agreement"])
def test_every_method_takes_features(method):
    features, votes, y = make()
    model = fs.LabelModel(method=method).fit(votes, features=features)
    assert model.score(votes, y, features=features) > model.score(votes, y)
    assert "features" in [c.source for c in model.explain(votes[[0]], features=features[0]).contributions]


def test_gold_labels_and_features_work_together():
    features, votes, y = make(seed=3)
    gold = np.where(np.arange(len(y)) < 100, y, -1)
    model = fs.LabelModel().fit(votes, gold=gold, features=features)
    assert model.diagnostics_.features.n_gold == 100
    assert model.diagnostics_.gold.n_gold == 100
    assert model.score(votes, y, features=features) > model.score(votes, y) + 0.03


def test_noise_changes_nothing():
    features, votes, _ = make(signal=0.0)
    model = fs.LabelModel().fit(votes, features=features)
    assert not model.diagnostics_.features.is_used
    np.testing.assert_array_equal(model.predict_proba(votes, features=features), model.predict_proba(votes))
    assert "not used" in model.reason_


@pytest.mark.parametrize("kind", ["imbalanced", "one class", "rules"])
@pytest.mark.parametrize("seed", range(2))
def test_labels_do_not_get_worse(kind, seed):
    """Also if a class is rare, if features describe one class only, or if they repeat what sources vote."""
    rng = np.random.default_rng([seed, len(kind)])
    y = rng.choice(3, 1_500, p=[0.9, 0.05, 0.05] if kind == "imbalanced" else None)
    X = rng.normal(size=(1_500, 10))
    X[:, 0] += 2 * (y == 0)
    if kind != "one class":
        X[np.arange(1_500), y + 1] += 2
    wrong = np.abs(X[:, 5:]).argmax(axis=1) % 3 if kind == "rules" else rng.integers(0, 3, 1_500)
    votes = np.where(rng.random((1_500, 8)) < 0.7, y[:, None], wrong[:, None])
    votes[rng.random(votes.shape) < 0.5] = -1
    model = fs.LabelModel(n_classes=3).fit(votes, features=X)
    assert model.score(votes, y, features=X) > model.score(votes, y) - 0.005
    right = np.arange(1_500), y
    by_votes, by_both = model.predict_proba(votes)[right], model.predict_proba(votes, features=X)[right]
    assert np.mean(np.log(by_both)) > np.mean(np.log(by_votes)) - 0.005


@pytest.mark.slow
def test_more_features_than_items():
    features, votes, y = make(150)
    wide = np.column_stack([features, np.random.default_rng(0).normal(size=(150, 1_500))])
    model = fs.LabelModel().fit(votes, features=wide)
    assert model.score(votes, y, features=wide) > model.score(votes, y) - 0.01


def test_a_table_of_features_is_joined_by_item_identifier():
    features, votes, _ = make(200)
    ids = [f"item {i}" for i in range(200)]
    table = pd.DataFrame(votes, index=ids, columns=list("abcde"))
    order = np.random.default_rng(0).permutation(200)
    shuffled = pd.DataFrame(features[order], index=[ids[i] for i in order])
    model = fs.LabelModel().fit(table, features=shuffled)
    np.testing.assert_allclose(
        model.predict_proba(table, features=shuffled), model.predict_proba(table, features=features)
    )


@pytest.mark.parametrize("kind", ["matrix", "list", "iterator", "table", "sparse"])
def test_chunks_are_fitted_and_labeled_like_an_array(case, kind):
    model, features, votes, _ = case
    cuts = [votes[:500], votes[:0], votes[500:]]
    parts = [features[:500], features[:0], features[500:]]
    given = {
        "matrix": lambda: features,
        "list": lambda: parts,
        "iterator": lambda: iter(parts),
        "table": lambda: pd.DataFrame(features),
        "sparse": lambda: csr_array(features),
    }[kind]
    chunks = fs.VoteChunks(cuts, classes=model.classes_.tolist())
    chunked = fs.LabelModel().fit(chunks, features=given())
    assert chunked.diagnostics_.features.weight == model.diagnostics_.features.weight
    expected = model.predict_proba(votes, features=features)
    labeled = list(chunked.predict_proba(chunks, features=given()))
    assert [len(part) for part in labeled] == [500, 0, 700]
    np.testing.assert_allclose(np.concatenate(labeled), expected, atol=1e-5)
    labels = np.concatenate(list(chunked.predict(chunks, features=given())))
    np.testing.assert_array_equal(labels, np.concatenate(labeled).argmax(axis=1))


def test_chunks_and_features_must_have_the_same_rows():
    features, votes, _ = make(200)
    for wrong in (features[:150], np.concatenate([features, features]), [features], 3):
        with pytest.raises(VotesError):
            fs.LabelModel().fit(fs.VoteChunks([votes[:100], votes[100:]]), features=wrong)
    model = fs.LabelModel().fit(votes, features=features)
    with pytest.raises(VotesError):
        list(model.predict_proba(fs.VoteChunks([votes]), features=features[:150]))


def test_calls_of_partial_fit_add_up():
    features, votes, _ = make(900)
    model = fs.LabelModel(n_classes=2)
    for part in (slice(0, 300), slice(300, 600), slice(600, 900)):
        model.partial_fit(votes[part], features=features[part])
    assert model.diagnostics_.features.n_items == model.diagnostics_.features.n_seen == 900
    at_once = fs.LabelModel(n_classes=2).partial_fit(votes, features=features)
    np.testing.assert_allclose(
        model.predict_proba(votes, features=features), at_once.predict_proba(votes, features=features)
    )
    model.partial_fit(votes)  # votes without features change the fit of the votes, and features are kept
    assert model.diagnostics_.features.n_seen == 900
    with pytest.raises(IncompatibleError, match="6 columns"):
        model.partial_fit(votes, features=features[:, :3])


def test_partial_fit_continues_a_fit_but_not_a_file(case, tmp_path):
    model, features, votes, _ = case
    model = fs.LabelModel(n_classes=len(model.classes_)).fit(votes, features=features)
    model.save(tmp_path / "model.fsq")
    model.partial_fit(votes[:100], features=features[:100])
    assert model.diagnostics_.features.n_seen == 1_300
    with pytest.raises(OptionError, match="call fit"):
        fs.load(tmp_path / "model.fsq").partial_fit(votes, features=features)


def test_gold_labels_of_partial_fit_choose_the_weight():
    features, votes, y = make(800)
    gold = np.where(np.arange(800) < 60, y, -1)
    model = fs.LabelModel(n_classes=2).partial_fit(votes, gold=gold, features=features)
    assert model.diagnostics_.features.n_gold == 60


def test_unsupported_input_is_refused():
    features, votes, _ = make(200)
    model = fs.LabelModel().fit(votes)
    with pytest.raises(OptionError) as raised:
        model.predict_proba(votes, features=features)
    assert raised.value.parameter == "features"
    with pytest.raises(OptionError):
        fs.MajorityVote().fit(votes).predict_proba(votes, features=features)
    with pytest.raises(VotesError):
        fs.LabelModel().fit(votes, features=features[:-1])
    model = fs.LabelModel().fit(votes, features=features)
    with pytest.raises(IncompatibleError):
        model.predict_proba(votes, features=features[:, :-1])
    chain = fs.DependencyGraph.chain(2, 2)
    with pytest.raises(OptionError):
        fs.LabelModel(chain).fit(votes[:, :4], features=features)


def test_a_classifier_trains_on_labels_by_votes_and_features():
    features, votes, y = make(signal=0.6)
    new_features, new_votes, new_y = make(400, signal=0.6, seed=9)
    plain = fs.WeaklySupervisedClassifier(LogisticRegression(), drop_uncovered=False).fit(features, votes)
    model = fs.WeaklySupervisedClassifier(LogisticRegression(), drop_uncovered=False, use_features=True).fit(
        features, votes
    )
    assert len(model.rows_) == len(y)
    assert (
        np.mean(model.predict(new_features) == new_y) >= np.mean(plain.predict(new_features) == new_y) - 0.02
    )
    both = model.predict_proba(new_features, votes=new_votes)
    expected = model.label_model_.predict_proba(new_votes, features=new_features)
    np.testing.assert_array_equal(both, expected)
    labels = model.predict(new_features, votes=new_votes)
    assert np.mean(labels == new_y) > np.mean(model.predict(new_features) == new_y) + 0.02
    with pytest.raises(OptionError):
        plain.predict_proba(new_features, votes=new_votes)


def test_the_effect_is_json():
    features, votes, _ = make(300)
    state = fs.LabelModel().fit(votes, features=features)._to_state()
    assert json.loads(json.dumps(state.meta["fit"]["effect"]))["n_columns"] == 6


def test_columns_of_a_table_are_matched_by_name(tmp_path):
    features, votes, _ = make()
    frame = pd.DataFrame(features, columns=list("abcdef"))
    model = fs.LabelModel().fit(votes, features=frame)
    expected = model.predict_proba(votes, features=features)  # an array has no names
    model.save(tmp_path / "model.fsq")
    for one in (model, fs.load(tmp_path / "model.fsq")):
        np.testing.assert_array_equal(one.predict_proba(votes, features=frame[list("fedcba")]), expected)
        with pytest.raises(IncompatibleError, match=r"columns of the fit; got 'a' missing, 'z' unexpected"):
            one.predict_proba(votes, features=frame.rename(columns={"a": "z"}))
    numbered = pd.DataFrame(features)
    np.testing.assert_array_equal(model.predict_proba(votes, features=numbered), expected)
    by_number = fs.LabelModel().fit(votes, features=numbered)
    mixed = numbered[[5, 0, 3, 1, 2, 4]]
    np.testing.assert_array_equal(by_number.predict_proba(votes, features=mixed), expected)


def test_parts_of_a_fit_are_matched_by_name():
    features, votes, _ = make()
    frame = pd.DataFrame(features, columns=list("abcdef"))
    one = fs.LabelModel().partial_fit(votes[:600], features=frame[:600])
    one.partial_fit(votes[600:], features=frame.loc[600:, list("fedcba")].reset_index(drop=True))
    other = fs.LabelModel().partial_fit(votes[:600], features=features[:600])
    other.partial_fit(votes[600:], features=features[600:])
    np.testing.assert_array_equal(
        one.predict_proba(votes, features=frame), other.predict_proba(votes, features=features)
    )


def test_boolean_columns_are_numbers():
    features, votes, _ = make()
    frame = pd.DataFrame(features).assign(flag=features[:, 0] > 0)
    expected = frame.assign(flag=frame["flag"].astype(float))
    models = [fs.LabelModel().fit(votes, features=each) for each in (frame, expected)]
    labels = [model.predict_proba(votes, features=frame) for model in models]
    np.testing.assert_array_equal(*labels)
