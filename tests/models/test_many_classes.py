"""Many classes: exact by three views, nearly optimal on crowds, never collapsing to one class."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.estimation.confusion import split_views
from flyingsquid.exceptions import ModelFileError, NotIdentifiableError, OptionError
from flyingsquid.files.state import State, write_state
from flyingsquid.moments.files import to_state as counts_to_state
from flyingsquid.moments.pairs import SparsePairs
from tests.oracle.many import ManyStar, crowd
from tests.support.strategies import votes_of

N = 1e10


@pytest.mark.parametrize(("m", "n_classes"), [(3, 3), (5, 3), (3, 4), (4, 4), (7, 2)])
@pytest.mark.parametrize("seed", range(3))
def test_three_views_are_exact(m, n_classes, seed):
    star = ManyStar.random(np.random.default_rng(seed), m, n_classes)
    votes = votes_of(star.patterns(), n_classes)
    weights = N * star.joint().sum(axis=1)
    model = fs.LabelModel(method="decomposition").fit(votes, sample_weight=weights)
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=1e-8)
    np.testing.assert_allclose(model.class_balance_, star.balance, atol=1e-8)
    np.testing.assert_allclose(model.predict_proba(votes), star.posterior(), atol=1e-6)
    np.testing.assert_allclose(model.log_likelihood(votes), np.log(star.joint().sum(axis=1)), atol=1e-6)


def test_one_class_sources_are_stacked_into_views():
    """Nine sources that only ever say one class: no single one is a view, three of them are."""
    rng = np.random.default_rng(0)
    confusion = np.zeros((9, 3, 4))
    for i in range(9):
        own = i % 3
        rates = np.where(np.arange(3) == own, rng.uniform(0.5, 0.9), rng.uniform(0.02, 0.2, 3))
        confusion[i, :, own], confusion[i, :, -1] = rates, 1 - rates
    star = ManyStar(confusion, np.array([0.2, 0.3, 0.5]))
    codes, y = star.sample(60_000, rng)
    model = fs.LabelModel(method="decomposition").fit(votes_of(codes, 3))
    np.testing.assert_allclose(model.confusion_, star.confusion, atol=0.03)
    np.testing.assert_allclose(model.class_balance_, star.balance, atol=0.03)
    assert model.score(votes_of(codes, 3), y) > np.mean(star.posterior(codes).argmax(axis=1) == y) - 0.005
    assert model.diagnostics_.one_sided == model.source_names_


def test_views_see_all_classes():
    rates = np.tile(np.eye(3), (3, 1))
    views = split_views(rates, np.arange(9))
    assert sorted(len(view) for view in views) == [3, 3, 3]
    for view in views:
        assert (rates[view].sum(axis=0) > 0).all()
    dependent = split_views(np.ones((6, 2)), np.array([0, 0, 0, 1, 2, 2]))
    assert sorted(view.tolist() for view in dependent) == [[0, 1, 2], [3], [4, 5]]
    with pytest.raises(NotIdentifiableError, match="three sources"):
        split_views(np.ones((5, 2)), np.array([0, 0, 0, 1, 1]))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("method", ["auto", "em"])
def test_a_crowd_is_labeled_nearly_as_well_as_by_bayes_rule(seed, method):
    rng = np.random.default_rng(seed)
    star = crowd(rng, 12, 4, right=0.6, coverage=0.6)
    codes, y = star.sample(20_000, rng)
    model = fs.LabelModel(method=method).fit(votes_of(codes, 4))
    ours, best = model.predict_proba(votes_of(codes, 4)), star.posterior(codes)
    assert model.method_ == method

    def log_loss(posterior: np.ndarray) -> float:
        return float(-np.log(posterior[np.arange(len(y)), y]).mean())

    assert np.mean(ours.argmax(axis=1) == y) > np.mean(best.argmax(axis=1) == y) - 0.005
    assert log_loss(ours) < log_loss(best) + 0.03


def test_agreement_is_a_function_of_the_counts_alone():
    codes, _ = ManyStar.random(np.random.default_rng(0), 6, 4).sample(500, np.random.default_rng(1))
    votes = votes_of(codes, 4)
    whole = fs.LabelModel(method="agreement").fit(votes)
    counted = fs.LabelModel(method="agreement").fit_moments(fs.Moments.of(votes))
    in_parts = fs.LabelModel(method="agreement").partial_fit(votes[:200]).partial_fit(votes[200:])
    for other in (counted, in_parts):
        np.testing.assert_array_equal(other.predict_proba(votes), whole.predict_proba(votes))


def test_others_votes_by_a_loop():
    codes = np.random.default_rng(0).integers(-1, 3, (80, 4)).astype(np.int8)
    expected = np.zeros((4, 3, 3))
    for row in codes:
        for i in range(4):
            for j in range(4):
                if i != j and row[i] >= 0 and row[j] >= 0:
                    expected[i, row[i], row[j]] += 1
    np.testing.assert_array_equal(fs.Moments.of(votes_of(codes, 3)).others_votes(), expected)


@pytest.mark.parametrize("method", ["agreement", "em", "decomposition"])
def test_laws(method):
    """The order of sources and of items decides nothing; classes may be renamed; dense equals sparse."""
    rng = np.random.default_rng(0)
    codes, _ = ManyStar.random(rng, 6, 3).sample(4_000, rng)
    posterior = fs.LabelModel(method=method).fit(votes_of(codes, 3)).predict_proba(votes_of(codes, 3))
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    tolerance = 1e-8 if method != "decomposition" else 1e-6
    turned = rng.permutation(6)
    other = fs.LabelModel(method=method).fit(votes_of(codes[:, turned], 3))
    np.testing.assert_allclose(other.predict_proba(votes_of(codes[:, turned], 3)), posterior, atol=tolerance)
    order = rng.permutation(len(codes))
    other = fs.LabelModel(method=method).fit(votes_of(codes[order], 3))
    np.testing.assert_allclose(other.predict_proba(votes_of(codes, 3)), posterior, atol=1e-8)
    renamed = np.where(codes < 0, -1, np.array([2, 0, 1])[codes]).astype(np.int8)
    other = fs.LabelModel(method=method).fit(votes_of(renamed, 3))
    np.testing.assert_allclose(
        other.predict_proba(votes_of(renamed, 3))[:, [2, 0, 1]], posterior, atol=tolerance
    )
    sparse = fs.Votes.from_sparse(csr_array(codes + 1))
    other = fs.LabelModel(method=method).fit(sparse)
    np.testing.assert_allclose(other.predict_proba(sparse), posterior, atol=1e-8)
    twice = fs.LabelModel(method=method).fit(votes_of(codes, 3), sample_weight=np.full(len(codes), 1))
    np.testing.assert_allclose(twice.predict_proba(votes_of(codes, 3)), posterior, atol=1e-8)


def test_one_versus_rest_is_one_table():
    rng = np.random.default_rng(0)
    codes, y = crowd(rng, 8, 3, right=0.7, coverage=0.9).sample(5_000, rng)
    votes = votes_of(codes, 3)
    for base in ("triplet", fs.solvers.Triplet("median"), "covariance"):
        model = fs.LabelModel(method=fs.solvers.OneVsRest(base)).fit(votes)
        np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
        assert model.score(votes, y) > 0.85
    table = fs.Moments.of(votes).one_vs_rest(1)
    assert table == fs.Moments.of(fs.Votes(np.where(codes < 0, -1, codes == 1).astype(np.int8), (0, 1)))


def test_a_binary_method_names_the_reduction():
    codes, _ = ManyStar.random(np.random.default_rng(0), 5, 3).sample(300, np.random.default_rng(1))
    with pytest.raises(OptionError, match=r'OneVsRest\("triplet"\)'):
        fs.LabelModel(method="triplet").fit(codes)
    with pytest.raises(OptionError, match="`base`"):
        fs.solvers.OneVsRest("agreement")
    with pytest.raises(OptionError, match="`base`"):
        fs.solvers.OneVsRest("softmax")
    with pytest.raises(OptionError, match="`triplets`"):
        fs.solvers.OneVsRest(fs.solvers.Triplet("best", triplets=[(0, 1, 2)]))
    with pytest.raises(OptionError, match="signs"):
        fs.LabelModel(signs={0: 1}).fit(codes)
    with pytest.raises(OptionError, match="gold"):
        fs.LabelModel(method="one_vs_rest").fit(codes, gold=codes[:, 0])
    with pytest.raises(OptionError, match="needs the votes"):
        fs.LabelModel(method="decomposition").fit_moments(fs.Moments.of(codes))
    with pytest.raises(OptionError, match="`n_classes`"):
        fs.LabelModel(n_classes=1).fit(codes)


def test_errors_of_decomposition_name_what_is_missing():
    rng = np.random.default_rng(0)
    codes, _ = ManyStar.random(rng, 2, 3).sample(300, rng)
    with pytest.raises(NotIdentifiableError, match="three sources"):
        fs.LabelModel(method="decomposition").fit(codes)
    noise = rng.integers(0, 4, (200, 6))
    with pytest.raises(NotIdentifiableError, match="agreement"):
        fs.LabelModel(method="decomposition").fit(noise)


def test_n_classes_counts_those_that_nobody_votes_for():
    model = fs.LabelModel(n_classes=4).fit([[0, 1, 0], [1, 1, 1], [0, 0, 1]] * 20)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert model.predict_proba([[0, 0, 0]]).shape == (1, 4)
    with pytest.raises(OptionError, match="`n_classes`"):
        fs.LabelModel(n_classes=4).fit(fs.Votes(np.zeros((5, 3), np.int8), (0, 1)))


def test_nobody_votes_gives_the_prior():
    codes, _ = ManyStar.random(np.random.default_rng(0), 5, 3).sample(300, np.random.default_rng(1))
    model = fs.LabelModel(class_balance=[0.2, 0.3, 0.5]).fit(codes)
    np.testing.assert_allclose(model.predict_proba([[-1] * 5]), [[0.2, 0.3, 0.5]])
    np.testing.assert_array_equal(model.predict(codes, joint=True), model.predict(codes))  # one task


@pytest.mark.parametrize("method", ["auto", "decomposition"])
def test_files_summary_and_explanations(tmp_path, method):
    rng = np.random.default_rng(0)
    codes, y = crowd(rng, 6, 3, right=0.7, coverage=0.8).sample(2_000, rng)
    names = ["ann", "bob", "cy", "dee", "eve", "flo"]
    votes = fs.Votes(codes, ("cat", "dog", "owl"), tuple(names))
    model = fs.LabelModel(method=method).fit(votes)
    assert model.score(votes, np.array(["cat", "dog", "owl"])[y]) > 0.85
    model.save(tmp_path / "model.fsq")
    again = fs.load(tmp_path / "model.fsq")
    np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))
    np.testing.assert_array_equal(again.log_likelihood(votes), model.log_likelihood(votes))
    assert str(again.summary()) == str(model.summary())
    assert str(again.diagnostics_.verdict) == str(model.diagnostics_.verdict)
    assert again.get_params() == model.get_params()
    assert again.partial_fit(votes).moments_.n_items == 4_000 if method == "auto" else True
    assert clone(model).get_params() == model.get_params()
    why = model.explain(votes[[0]])
    posterior = model.predict_proba(votes[[0]])[0]
    first, second = np.sort(posterior)[::-1][:2]
    assert why.log_odds == pytest.approx(np.log(first / second), abs=1e-9)
    assert f"log odds of {why.predicted} against {why.against}" in str(why)
    assert len(model.summary().to_dict()["source"]) == 6


@pytest.mark.parametrize(
    ("name", "change"),
    [("confusion", lambda a: a * 2), ("class_balance", lambda a: a - 1), ("confusion", lambda a: a[:, :2])],
)
def test_tampered_files_are_refused(tmp_path, name, change):
    codes, _ = ManyStar.random(np.random.default_rng(0), 5, 3).sample(300, np.random.default_rng(1))
    state = fs.LabelModel().fit(codes)._to_state()
    name = f"fit.{name}"
    changed = State(
        state.kind, state.meta, {**state.arrays, name: np.ascontiguousarray(change(state.arrays[name]))}
    )
    write_state(tmp_path / "model.fsq", changed)
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "model.fsq")


def test_sources_that_never_vote_have_no_weight():
    codes, _ = ManyStar.random(np.random.default_rng(0), 5, 3).sample(400, np.random.default_rng(1))
    silent = np.column_stack([codes, np.full(400, -1)]).astype(np.int8)
    with pytest.warns(fs.exceptions.SourceWarning, match="always abstain") as caught:
        model = fs.LabelModel().fit(votes_of(silent, 3))
    assert caught[0].filename == __file__
    np.testing.assert_allclose(
        model.predict_proba(votes_of(silent, 3)),
        fs.LabelModel().fit(votes_of(codes, 3)).predict_proba(codes),
        atol=1e-4,  # EM ends within a tolerance
    )


def test_copies_of_majority_on_sparse_one_class_rules():
    """Rules that each name one class and rarely fire: labels follow them and do not collapse."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 4_000)
    codes = np.full((4_000, 30), -1, np.int8)
    for i in range(30):
        fires = rng.random(4_000) < np.where(y == i % 6, 0.15, 0.01)
        codes[fires, i] = i % 6
    votes = votes_of(codes, 6)
    majority = fs.MajorityVote().fit(votes)
    for method in ("auto", "agreement"):
        model = fs.LabelModel(method=method).fit(votes)
        assert model.score(votes, y) > majority.score(votes, y) - 0.01


# ---------------------------------------------------------------------- sparse counts


@pytest.fixture
def sparse_counts():
    with use_limits(dense_pair_bytes=0):
        yield


def sample(n: int = 400, m: int = 6, n_classes: int = 4) -> np.ndarray:
    rng = np.random.default_rng(0)
    return ManyStar.random(rng, m, n_classes).sample(n, rng)[0]


def test_sparse_counts_are_the_same_counts():
    codes = sample()
    votes = votes_of(codes, 4)
    dense = fs.Moments.of(votes)
    options = {"auto": {}, "rest": {"method": "one_vs_rest"}}
    labels = {name: fs.LabelModel(**each).fit(votes).predict_proba(votes) for name, each in options.items()}
    with use_limits(dense_pair_bytes=0):
        kept = fs.Moments.of(votes)
        assert isinstance(kept._pairs[0], SparsePairs)
        for name, each in options.items():
            ours = fs.LabelModel(**each).fit(votes).predict_proba(votes)
            np.testing.assert_allclose(ours, labels[name], atol=1e-12)
        assert fs.Moments.of(fs.Votes.from_sparse(csr_array(codes + 1))) == kept
    assert kept == dense
    assert kept.one_vs_rest(2) == dense.one_vs_rest(2)
    np.testing.assert_array_equal(kept.pair_counts, dense.pair_counts)
    with use_limits(pair_bytes=1000), pytest.raises(fs.FlyingSquidError, match="`pair_counts`"):
        kept.pair_counts  # noqa: B018


@pytest.mark.usefixtures("sparse_counts")
def test_the_algebra_of_sparse_counts(tmp_path):
    codes = sample()
    whole = fs.Moments.of(votes_of(codes, 4))
    first, rest = fs.Moments.of(votes_of(codes[:150], 4)), fs.Moments.of(votes_of(codes[150:], 4))
    assert first + rest == whole == rest + first
    assert whole - rest == first
    assert whole != first
    with pytest.raises(fs.FlyingSquidError, match="Cannot subtract"):
        first - whole
    assert not whole._pairs[0].matrix.data.flags.writeable
    whole.save(tmp_path / "counts.fsq")
    assert fs.load(tmp_path / "counts.fsq") == whole
    assert pickle.loads(pickle.dumps(whole)) == whole
    named = fs.Moments.of(fs.Votes(codes, (0, 1, 2, 3), tuple("abcdef")))
    turned = fs.Votes(codes[:, [2, 0, 1, 5, 4, 3]], (0, 1, 2, 3), tuple("cabfed"))
    assert fs.Moments.of(turned).aligned_to(named) == named
    swapped = fs.Votes(np.where(codes < 0, -1, 3 - codes).astype(np.int8), (3, 2, 1, 0), tuple("abcdef"))
    assert fs.Moments.of(swapped).aligned_to(named) == named


@pytest.mark.usefixtures("sparse_counts")
@pytest.mark.parametrize("part", ["pairs_0_indices", "pairs_0_indptr", "pairs_0_data"])
def test_tampered_sparse_counts_are_refused(tmp_path, part):
    state = counts_to_state(fs.Moments.of(votes_of(sample(), 4)))
    for change in (
        lambda a: a + 10**6,
        lambda a: -a - 1,
        lambda a: a[:-1].copy(),
        lambda a: a.astype(np.float64),
    ):
        write_state(
            tmp_path / "c.fsq",
            State(state.kind, state.meta, {**state.arrays, part: change(state.arrays[part])}),
        )
        with pytest.raises(ModelFileError):
            fs.load(tmp_path / "c.fsq")


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
@pytest.mark.parametrize("method", ["agreement", "em"])
def test_accuracy_of_a_source_without_votes_is_one_half_and_one_vote_is_a_vote(method):
    rng = np.random.default_rng(0)
    codes, _ = crowd(rng, 6, 3, right=0.8, coverage=0.9).sample(200, rng)
    codes[0] = 0
    codes[:, 4:] = -1
    codes[0, 5] = codes[0, 0]
    accuracies = fs.LabelModel(method=method, n_classes=3).fit(codes).accuracies_
    assert accuracies[4] == 0.5
    assert accuracies[5] > 0.6
