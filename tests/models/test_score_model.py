"""The model of scores: laws, intervals, ordinal scales, best of several candidates, files."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.exceptions import (
    IncompatibleError,
    ModelFileError,
    NotFittedError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VotesError,
)
from flyingsquid.files.state import State, write_state
from tests.support.strategies import examples

NOISE = np.array([0.5, 0.8, 1.2, 2.5])


def sample(seed=0, n=300, noise=NOISE, missing=0.0):
    """Return truth and scores of judges with different bias, scale and noise."""
    rng = np.random.default_rng(seed)
    m = len(noise)
    truth = rng.normal(6, 1.5, n)
    scores = rng.normal(0, 1, m) + rng.uniform(0.7, 1.3, m) * truth[:, None] + rng.normal(0, noise, (n, m))
    return truth, np.where(rng.random((n, m)) < missing, np.nan, scores)


def ranks(values):
    return np.argsort(np.argsort(values))


# ---------------------------------------------------------------------- laws


@examples(40)
@given(st.integers(0, 1_000), st.floats(1e-3, 1e3), st.floats(-1e3, 1e3), st.sampled_from([0.0, 0.3]))
def test_changing_the_unit_of_a_judge_changes_no_ranking(seed, factor, shift, missing):
    _, scores = sample(seed, 80, missing=missing)
    changed = scores.copy()
    changed[:, 1] = shift + factor * changed[:, 1]
    one, two = (fs.ScoreModel().fit(each) for each in (scores, changed))
    np.testing.assert_allclose(two.reliability_, one.reliability_, rtol=1e-6)
    np.testing.assert_allclose(two.weights_, one.weights_, rtol=1e-6)
    z = [(m.predict(s) - m.center_) / m.spread_ for m, s in ((one, scores), (two, changed))]
    np.testing.assert_allclose(z[1], z[0], atol=1e-6)


@examples(40)
@given(st.integers(0, 1_000), st.floats(0.1, 10), st.floats(-100, 100))
def test_changing_the_unit_of_all_judges_changes_the_unit_of_the_truth(seed, factor, shift):
    _, scores = sample(seed, 80, missing=0.2)
    one, two = fs.ScoreModel().fit(scores), fs.ScoreModel().fit(shift + factor * scores)
    expected = shift + factor * one.predict_interval(scores)
    np.testing.assert_allclose(two.predict_interval(shift + factor * scores), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(two.scale_, one.scale_, rtol=1e-6)
    np.testing.assert_allclose(two.noise_, factor * one.noise_, rtol=1e-6)


@examples(40)
@given(st.integers(0, 1_000), st.permutations(range(4)))
def test_the_order_of_items_and_judges_does_not_matter(seed, order):
    _, scores = sample(seed, 80, missing=0.2)
    items = np.random.default_rng(seed).permutation(80)
    one, two = fs.ScoreModel().fit(scores), fs.ScoreModel().fit(scores[items][:, list(order)])
    np.testing.assert_allclose(two.predict(scores[:, list(order)]), one.predict(scores), rtol=1e-8)
    np.testing.assert_allclose(two.reliability_, one.reliability_[list(order)], rtol=1e-8)


@examples(40)
@given(st.integers(0, 1_000), st.integers(20, 60))
def test_parts_give_the_same_model_as_the_whole(seed, cut):
    _, scores = sample(seed, 80, missing=0.2)
    whole = fs.ScoreModel().fit(scores)
    merged = fs.ScoreModel().fit(scores[:cut]).merge(fs.ScoreModel().fit(scores[cut:]))
    added = fs.ScoreModel().fit(scores[:cut]).partial_fit(scores[cut:])
    for model in (merged, added):
        assert model.n_items_ == 80
        np.testing.assert_allclose(model.predict(scores), whole.predict(scores), rtol=1e-8)
        np.testing.assert_allclose(model.noise_interval_, whole.noise_interval_, rtol=1e-6)


def test_a_stream_may_begin_with_single_items():
    _, scores = sample(n=60)
    model = fs.ScoreModel()
    for row in scores[:2]:
        with pytest.raises(NotIdentifiableError):
            model.partial_fit(row[None])
        assert not hasattr(model, "reliability_")
    with pytest.raises(IncompatibleError):
        model.partial_fit(scores[:, :3])
    model.partial_fit(scores[2:])
    np.testing.assert_allclose(model.predict(scores), fs.ScoreModel().fit(scores).predict(scores))


def test_items_are_predicted_one_by_one_as_together():
    _, scores = sample(missing=0.4)
    model = fs.ScoreModel().fit(scores)
    alone = [model.predict(scores[[i]])[0] for i in range(20)]
    np.testing.assert_allclose(alone, model.predict(scores)[:20], rtol=1e-12)


def test_full_shrinkage_is_the_mean_of_standardized_scores():
    _, scores = sample()
    z = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    found = fs.ScoreModel(shrinkage=1).fit(scores).predict(scores)
    np.testing.assert_array_equal(ranks(found), ranks(z.mean(axis=1)))


def test_no_shrinkage_is_the_posterior_of_the_gaussian_model():
    _, scores = sample(missing=0.3)
    model = fs.ScoreModel(shrinkage=0).fit(scores)
    truth_sd, center = model.spread_, model.center_
    for row, found in zip(scores[:20], model.predict(scores[:20]), strict=True):
        seen = ~np.isnan(row)
        cross = model.scale_[seen] * truth_sd**2
        covariance = np.outer(cross, cross) / truth_sd**2 + np.diag(model.noise_[seen] ** 2)
        residual = row[seen] - center - model.bias_[seen]
        assert found == pytest.approx(center + cross @ np.linalg.solve(covariance, residual))


# ---------------------------------------------------------------------- estimates


def test_intervals_of_items_hold_the_truth():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(20):
        truth = rng.normal(6, 1.5, 400)
        scores = truth[:, None] + rng.normal(0, NOISE, (400, 4))
        low, high = fs.ScoreModel().fit(scores).predict_interval(scores).T
        held.append((low <= truth) & (truth <= high))
    assert 0.92 < np.mean(held) < 0.97


def test_a_wild_score_of_a_judge_with_heavy_tails_counts_less():
    rng, errors, held = np.random.default_rng(0), [], []
    for _ in range(10):
        truth = rng.normal(size=400)
        scores = truth[:, None] + 0.6 * rng.standard_t(3, (400, 5))
        models = fs.ScoreModel().fit(scores), fs.ScoreModel(shrinkage=0).fit(scores)
        errors.append([np.mean((model.predict(scores) - truth) ** 2) for model in models])
        low, high = models[0].predict_interval(scores).T
        held.append((low <= truth) & (truth <= high))
    robust, gaussian = np.mean(errors, axis=0)
    assert robust < 0.85 * gaussian
    assert 0.92 < np.mean(held) < 0.99


def test_wider_confidence_is_a_wider_interval():
    _, scores = sample()
    model = fs.ScoreModel().fit(scores)
    narrow, wide = (np.diff(model.predict_interval(scores, confidence=c))[:, 0] for c in (0.5, 0.99))
    assert (wide > narrow).all()


def test_parameters_of_judges_are_found_with_intervals():
    rng = np.random.default_rng(0)
    truth = rng.normal(50, 10, 3_000)
    bias, scale, noise = np.array([5, 0, -5, 0]), np.array([1, 1.2, 0.8, 1]), np.array([4, 6, 8, 12])
    scores = 50 + bias + scale * (truth[:, None] - 50) + rng.normal(0, noise, (3_000, 4))
    model = fs.ScoreModel().fit(scores)
    np.testing.assert_allclose(model.noise_, noise, rtol=0.05)
    np.testing.assert_allclose(model.bias_ - model.bias_[1], bias, atol=1)
    np.testing.assert_allclose(model.scale_ / model.scale_[0], scale, rtol=0.05)
    np.testing.assert_allclose(
        model.reliability_, (10 * scale) ** 2 / ((10 * scale) ** 2 + noise**2), atol=0.03
    )
    for name in ("reliability", "bias", "scale", "noise"):
        value, ends = getattr(model, f"{name}_"), getattr(model, f"{name}_interval_")
        assert ((ends[:, 0] < value) & (value < ends[:, 1])).all(), name


def test_better_than_the_mean_of_standardized_scores_if_judges_differ():
    truth, scores = sample(n=500, noise=np.array([0.4, 0.6, 4, 4, 4]))
    z = ((scores - scores.mean(axis=0)) / scores.std(axis=0)).mean(axis=1)
    found = fs.ScoreModel().fit(scores).predict(scores)
    assert np.corrcoef(found, truth)[0, 1] > np.corrcoef(z, truth)[0, 1] + 0.05


def test_more_repeats_of_an_item_narrow_its_interval():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(400, 1, 1))
    scores = truth + rng.normal(0, 0.3, (400, 3, 1)) + rng.normal(0, 1, (400, 3, 5))
    model = fs.ScoreModel().fit(scores)
    assert ((model.retest_ > 0.4) & (model.retest_ < 0.65)).all()
    once = scores[:1].copy()
    once[:, :, 1:] = np.nan
    assert (
        np.diff(model.predict_interval(once))[0, 0] > 1.3 * np.diff(model.predict_interval(scores[:1]))[0, 0]
    )
    assert np.isnan(fs.ScoreModel().fit(scores[:, :, 0]).retest_).all()


def test_an_item_without_scores_gets_the_mean_of_the_truth():
    _, scores = sample()
    model = fs.ScoreModel().fit(scores)
    nothing = np.full((1, 4), np.nan)
    assert model.predict(nothing)[0] == pytest.approx(model.center_)
    assert np.diff(model.predict_interval(nothing))[0, 0] == pytest.approx(2 * 1.96 * model.spread_, rel=1e-3)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda s: np.column_stack([s, np.full(len(s), 3.0)]), "always the same score"),
        (lambda s: np.column_stack([s, np.full(len(s), np.nan)]), "fewer than three scores"),
        (lambda s: np.column_stack([s, -s[:, 0]]), "reverse"),
        (lambda s: np.column_stack([s, np.arange(len(s)) % 4]), "nothing in common"),
        (lambda s: s[:, :2], "equal"),
    ],
    ids=["constant", "silent", "reversed", "unrelated", "two"],
)
def test_unusual_judges_are_reported(change, match):
    truth, scores = sample()
    changed = change(scores)
    with pytest.warns(SourceWarning, match=match):
        model = fs.ScoreModel().fit(changed)
    assert np.corrcoef(model.predict(changed), truth)[0, 1] > 0.9


@pytest.mark.parametrize("code", [-1, 0, 99])
def test_codes_for_missing_scores_are_reported(code):
    _, scores = sample(n=1000, noise=np.array([0.5, 0.6, 0.8]))
    scores = np.clip(scores.round(), 1, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs.ScoreModel().fit(scores)
    scores[::25, 1] = code
    for fit in (fs.ScoreModel().fit, fs.ScoreModel().partial_fit):
        with pytest.warns(SourceWarning) as caught:  # 99 also hides what b has in common with the others
            fit(scores)
        assert f"score {code} of" in str(caught[0].message)


def test_the_lowest_scores_of_a_scale_are_scores():
    truth, rng = np.random.default_rng(1).normal(5, 2.5, 1000), np.random.default_rng(2)
    scores = np.clip((truth[:, None] + rng.normal(0, 1.5, (1000, 4))).round(), 0, 10)
    assert (scores == 0).sum() > 100
    fs.ScoreModel().fit(scores)
    useless = np.column_stack([scores, rng.integers(0, 11, 1000)])  # not a code of a judge who guesses
    with pytest.warns(SourceWarning) as caught:
        fs.ScoreModel().fit(useless)
    assert not any("no score" in str(warning.message) for warning in caught)


def test_judges_without_common_items_are_left_out():
    _, scores = sample(n=400)
    scores[:200, 3] = np.nan
    scores[200:, :3] = np.nan
    with pytest.warns(SourceWarning, match="too few items"):
        model = fs.ScoreModel().fit(scores)
    assert np.isnan(model.reliability_[3])
    assert model.weights_[3] == 0
    assert model.predict(scores)[300] == pytest.approx(model.center_)


# ---------------------------------------------------------------------- ordinal scales


@pytest.mark.parametrize("shares", [[0.2] * 5, [0.05, 0.1, 0.2, 0.35, 0.3]], ids=["even", "skewed"])
@pytest.mark.parametrize("noise", [(0.8, 0.8), (0.5, 1.2), (0.4, 1.5)], ids=str)
def test_ordinal_panels_are_at_or_above_the_median(shares, noise):
    rng = np.random.default_rng(0)
    gains = []
    for _ in range(6):
        truth = rng.choice(np.arange(1, 6), 500, p=shares)
        errors = rng.normal(0, 0.3, 5) + rng.uniform(*noise, 5) * rng.normal(size=(500, 5))
        scores = np.clip(np.rint(truth[:, None] + errors), 1, 5)
        found = fs.ScoreModel().fit(scores).predict_class(scores, range(1, 6))
        gains.append((found == truth).mean() - (np.median(scores, axis=1) == truth).mean())
    assert np.mean(gains) > 0


def test_probabilities_of_levels():
    rng = np.random.default_rng(0)
    truth = rng.integers(1, 6, 2_000)
    scores = np.clip(np.rint(truth[:, None] + rng.normal(0, [0.6, 0.8, 1], (2_000, 3))), 1, 5)
    model = fs.ScoreModel().fit(scores)
    shares = model.predict_proba(scores, [1, 2, 3, 4, 5])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    confidence, right = shares.max(axis=1), model.predict_class(scores, [1, 2, 3, 4, 5]) == truth
    assert confidence.mean() == pytest.approx(right.mean(), abs=0.06)
    assert right[confidence > 0.9].mean() > right[confidence < 0.6].mean() + 0.2


@pytest.mark.parametrize(
    "levels", [[1], [2, 1], [1, 1], [[1, 2]], ["a", "b"], None, [1, np.nan], "12"], ids=repr
)
def test_bad_levels_are_refused(levels):
    _, scores = sample()
    with pytest.raises(OptionError, match="levels"):
        fs.ScoreModel().fit(scores).predict_class(scores, levels)


# ---------------------------------------------------------------------- best of several


def test_the_best_candidate_is_the_one_with_the_highest_score():
    _, scores = sample(n=300, missing=0.1)
    model = fs.ScoreModel().fit(scores)
    found = model.best_of(scores.reshape(75, 4, 4))
    np.testing.assert_array_equal(found.chosen, model.predict(scores).reshape(75, 4).argmax(axis=1))
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1)
    assert (found.probability > 0.25).all()
    by_group = model.best_of(scores, groups=np.repeat(np.arange(75), 4))
    np.testing.assert_array_equal(by_group.chosen, found.chosen)
    np.testing.assert_allclose(by_group.probabilities, found.probabilities)


def test_probabilities_of_the_best_are_calibrated():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(2_000, 3))
    scores = truth[:, :, None] + rng.normal(0, [0.5, 1, 1.5], (2_000, 3, 3))
    found = fs.ScoreModel().fit(scores.reshape(-1, 3)).best_of(scores)
    right = found.chosen == truth.argmax(axis=1)
    assert found.probability.mean() == pytest.approx(right.mean(), abs=0.03)


def test_groups_of_different_sizes():
    _, scores = sample(n=6, noise=np.array([0.5, 0.6, 0.7]))
    model = fs.ScoreModel().fit(sample(noise=np.array([0.5, 0.6, 0.7]))[1])
    found = model.best_of(scores, groups=["x", "y", "x", "x", "y", "z"])
    assert found.groups.tolist() == ["x", "y", "z"]
    assert found.scores.shape == (3, 3)
    assert found.probability[2] == pytest.approx(1)
    assert [row[0] for row in found.table().rows] == ["x", "y", "z"]


def test_candidates_without_scores_are_not_chosen():
    _, scores = sample(n=8)
    grid = scores.reshape(2, 4, 4)
    grid[0, 0] = np.nan
    grid[1] = np.nan
    found = fs.ScoreModel().fit(sample()[1]).best_of(grid)
    assert found.chosen[0] > 0
    assert found.chosen[1] == -1
    assert np.isnan(found.probability[1])
    assert "0" in str(found)


@pytest.mark.parametrize("form", ["wide", "long"])
def test_groups_and_candidates_are_joined_by_item(form):
    pd = pytest.importorskip("pandas")
    _, scores = sample(n=40, missing=0.1)
    names = [f"r{i}" for i in range(40)]
    table = pd.DataFrame(scores, index=pd.Index(names, name="item"))
    table.columns = [f"judge {j}" for j in table.columns]
    groups = pd.Series([f"q{i // 4}" for i in range(40)], index=names)
    model = fs.ScoreModel().fit(table)
    expected = model.best_of(table, groups=groups)
    if form == "long":
        table = table.reset_index().melt("item", var_name="judge", value_name="score")
    for mixed in (groups.sample(frac=1, random_state=0), dict(reversed(groups.to_dict().items()))):
        found = model.best_of(table, groups=mixed)
        assert found.groups.tolist() == expected.groups.tolist()
        assert found.items.tolist() == expected.items.tolist()
        assert [groups[name] for name in found.items] == found.groups.tolist()
        assert found.table().to_dict()["item"] == found.items.tolist()
    with pytest.raises(VotesError, match="groups"):
        model.best_of(table, groups=groups.rename(index={"r3": "r99"}))


def test_a_candidate_of_a_group_without_scores_is_not_chosen():
    _, scores = sample(n=8)
    scores[:4] -= 100  # worse than the mean, which is expected of a candidate without scores
    scores[2] = np.nan
    model = fs.ScoreModel().fit(sample()[1])
    found = model.best_of(scores, groups=[0] * 4 + [1] * 4)
    grid = model.best_of(scores.reshape(2, 4, -1))
    np.testing.assert_array_equal(found.chosen, grid.chosen)
    np.testing.assert_array_equal(found.scores, grid.scores)
    assert found.items is None


def test_bad_groups_are_refused():
    _, scores = sample()
    model = fs.ScoreModel().fit(scores)
    with pytest.raises(VotesError, match="groups"):
        model.best_of(scores, groups=[1, 2])
    with pytest.raises(VotesError, match="groups"):
        model.best_of(scores)


# ---------------------------------------------------------------------- inputs, outputs and files


def test_tables_keep_their_identifiers():
    pd = pytest.importorskip("pandas")
    _, scores = sample()
    frame = pd.DataFrame(scores, columns=list("abcd"), index=[f"i{k}" for k in range(300)])
    model = fs.ScoreModel().fit(frame)
    assert model.source_names_ == ("a", "b", "c", "d")
    found = model.predict(frame[["d", "b", "a", "c"]], output="pandas")
    assert found.index.tolist() == frame.index.tolist()
    np.testing.assert_allclose(found, fs.ScoreModel().fit(scores).predict(scores))
    assert list(model.predict_interval(frame, output="pandas")) == ["low", "high"]
    assert list(model.predict_proba(frame, [4, 6, 8], output="pandas")) == [4, 6, 8]
    long = frame.rename_axis("item").reset_index().melt("item", var_name="judge", value_name="score")
    again = fs.ScoreModel().fit(long)
    np.testing.assert_allclose(again.predict(long, output="pandas")[found.index], found)


def test_files_of_scores_are_read(tmp_path):
    _, scores = sample()
    path = tmp_path / "scores.csv"
    rows = [f"{k}," + ",".join(map(repr, row)) for k, row in enumerate(scores.tolist())]
    path.write_text("\n".join(["id,a,b,c,d", *rows]))
    model = fs.ScoreModel().fit(path)
    assert model.source_names_ == ("a", "b", "c", "d")
    np.testing.assert_allclose(model.predict(path), fs.ScoreModel().fit(scores).predict(scores))


def test_a_model_comes_back_from_its_file(tmp_path):
    _, scores = sample(missing=0.2)
    model = fs.ScoreModel(shrinkage=0.25).fit(scores, names=["a", "b", "c", "d"])
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    assert isinstance(again, fs.ScoreModel)
    assert again.get_params() == {"shrinkage": 0.25}
    assert again.source_names_ == ("a", "b", "c", "d")
    np.testing.assert_array_equal(again.predict_interval(scores), model.predict_interval(scores))
    np.testing.assert_array_equal(again.partial_fit(scores).noise_, model.partial_fit(scores).noise_)


@pytest.mark.parametrize(
    "meta",
    [
        {"names": ["a", "a", "b", "c"]},
        {"names": ["a"]},
        {"names": 3},
        {"shrinkage": "most"},
        {"shrinkage": 2.0},
        {"sums": None},
        {"sums": {"n_items": -1}},
    ],
    ids=repr,
)
def test_damaged_files_are_refused(tmp_path, meta):
    state = fs.ScoreModel().fit(sample()[1])._to_state()
    write_state(tmp_path / "model.fsq", State(state.kind, state.meta | meta, state.arrays))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "model.fsq")


@pytest.mark.parametrize("shrinkage", [-0.1, 1.1, "none", None, np.nan, True], ids=repr)
def test_bad_shrinkage_is_refused(shrinkage):
    with pytest.raises(OptionError, match="shrinkage"):
        fs.ScoreModel(shrinkage=shrinkage).fit(sample()[1])


@pytest.mark.parametrize("confidence", [0, 1, -1, "0.9", None, np.nan], ids=repr)
def test_bad_confidence_is_refused(confidence):
    model = fs.ScoreModel().fit(sample()[1])
    with pytest.raises(OptionError, match="confidence"):
        model.predict_interval(sample()[1], confidence=confidence)


def test_models_of_other_judges_are_not_merged():
    _, scores = sample()
    model = fs.ScoreModel().fit(scores)
    before = model.noise_
    with pytest.raises(IncompatibleError):
        model.merge(fs.ScoreModel().fit(scores[:, :3]))
    with pytest.raises(IncompatibleError):
        model.merge(fs.ScoreModel().fit(scores, names=list("abcd")))
    with pytest.raises(OptionError, match="other"):
        model.merge(scores)
    with pytest.raises(IncompatibleError):
        model.predict(scores[:, :3])
    np.testing.assert_array_equal(model.noise_, before)


def test_a_model_that_is_not_fitted():
    for call in (lambda m: m.predict([[1, 2]]), lambda m: m.summary(), lambda m: m.reliability_):
        with pytest.raises(NotFittedError):
            call(fs.ScoreModel())


def test_an_unfitted_clone_has_the_same_options():
    model = clone(fs.ScoreModel(shrinkage=0.5).fit(sample()[1]))
    assert model.get_params() == {"shrinkage": 0.5}
    assert not hasattr(model, "reliability_")


def test_summary_has_one_row_per_judge():
    model = fs.ScoreModel().fit(sample()[1], names=["a", "b", "c", "<d>"])
    table = model.summary()
    assert table.to_dict()["source"] == ["a", "b", "c", "<d>"]
    assert "&lt;d&gt;" in table._repr_html_()
    assert sum(np.abs(table.to_dict()["weight"])) == pytest.approx(1)


def test_a_failed_fit_leaves_the_model_as_it_was():
    _, scores = sample()
    model = fs.ScoreModel().fit(scores)
    before = model.predict(scores)
    with pytest.raises(fs.FlyingSquidError):
        model.fit(np.ones((10, 3)))
    np.testing.assert_array_equal(model.predict(scores), before)


# ---------------------------------------------------------------------- pairwise preferences with ties


def test_ties_are_no_votes_on_pairs():
    """Judges who give integer scores tie often; a tie does not show which answer is better."""
    rng = np.random.default_rng(0)
    quality = rng.normal(5, 1.5, (1_500, 2))
    scores = np.rint(quality[:, :, None] + rng.normal(0, rng.uniform(0.8, 1.5, 6), (1_500, 2, 6)))
    better = (quality[:, 1] > quality[:, 0]).astype(int)
    lead = np.sign(scores[:, 1] - scores[:, 0]).astype(int)
    missing = fs.Votes.from_signed(lead)  # 0, a tie, is no vote
    as_class = fs.Votes.from_classes(np.where(lead == 0, "tie", np.where(lead > 0, "second", "first")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        without = fs.LabelModel().fit(missing).predict(missing) == np.where(better, 1, -1)
        model = fs.LabelModel().fit(as_class)
    named = model.predict(as_class) == np.where(better, "second", "first")
    chosen = fs.ScoreModel().fit(scores.reshape(-1, 6)).best_of(scores).chosen == better
    assert without.mean() > named.mean() + 0.02
    assert chosen.mean() >= without.mean()
