"""Dependencies from votes alone: edges that are found, edges that are not, and the gain in accuracy."""

from __future__ import annotations

import copy
import os
import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.estimation import structure
from flyingsquid.estimation.independence import Residuals
from flyingsquid.estimation.sources import CenteredMoments
from flyingsquid.estimation.structure import LARGEST_GROUP, LEAST_GROUPS, _Reading, select_edges
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError, SourceWarning
from flyingsquid.solvers.structure import LearnedGraph

PAIRS = {(0, 1), (2, 3), (4, 5)}
MECHANISMS = ["copying", "shared errors", "one-sided"]


def draw(n, rng, mechanism=None, m=12, balance=0.5, asymmetry=0.0):
    """Votes of m sources with accuracies .6 to .85 and coverage .4 to 1, and the truth.

    Dependent pairs are correlated by .3 to .5 given the truth: on the items that both vote on for shared
    errors (with "one-sided" on one class only), on all items for copying.
    """
    accuracy, coverage = rng.uniform(0.6, 0.85, m), rng.uniform(0.4, 1, m)
    y = (rng.random(n) < balance).astype(int)
    right = accuracy[:, None] + asymmetry * rng.uniform(-1, 1, (m, 1)) * np.array([1, -1])
    luck, present = rng.random((n, m)), rng.random((n, m)) < coverage
    if mechanism in MECHANISMS[1:]:
        for i, j in PAIRS:
            p, q = right[i].mean(), right[j].mean()
            most = (min(p, q) - p * q) / np.sqrt(p * (1 - p) * q * (1 - q))
            shared = rng.random(n) < rng.uniform(0.3, 0.5) / most
            if mechanism == "one-sided":
                shared &= y == 1
            luck[shared, j] = luck[shared, i]
    votes = np.where(luck < right[:, y].T, y[:, None], 1 - y[:, None])
    votes = np.where(present, votes, -1)
    if mechanism == "copying":
        for i, j in PAIRS:
            for share in np.arange(rng.uniform(0.3, 0.5), 1, 0.05):
                copied = np.where(rng.random(n) < share, votes[:, i], votes[:, j])
                if correlation(votes[:, i], copied, y) >= 0.3:
                    break
            votes[:, j] = copied
    return fs.Votes.from_classes(votes.astype(np.int8), classes=(0, 1)), y


def correlation(first, second, y):
    signed = np.where(np.stack([first, second]) < 0, 0, 2 * np.stack([first, second]) - 1)
    return np.mean([np.corrcoef(signed[:, y == k])[0, 1] for k in (0, 1)])


def found(votes, **options):
    return set(fs.learn_structure(votes, **options).source_edges)


def draw_classes(n, rng, n_classes, *, dependent, symmetric, m=12):
    """Votes for K classes; dependent pairs copy on 45% of the items."""
    y = rng.integers(n_classes, size=n)
    votes = np.empty((n, m), np.int8)
    for i in range(m):
        tables = np.full((n_classes, n_classes), 0.35 / (n_classes - 1))
        np.fill_diagonal(tables, 0.65)
        if not symmetric:
            tables = np.array([rng.dirichlet(10 * row) for row in tables])
        chosen = (rng.random(n)[:, None] > np.cumsum(tables, axis=1)[y]).sum(axis=1)
        votes[:, i] = np.where(rng.random(n) < rng.uniform(0.4, 1), np.minimum(chosen, n_classes - 1), -1)
    for i, j in PAIRS if dependent else ():
        votes[:, j] = np.where(rng.random(n) < 0.45, votes[:, i], votes[:, j])
    return fs.Votes.from_classes(votes, classes=range(n_classes))


# ---------------------------------------------------------------------- what is found


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_dependent_pairs_are_found(mechanism):
    votes, _ = draw(20_000, np.random.default_rng(3), mechanism)
    learned = fs.learn_structure(votes)
    assert set(learned.source_edges) == PAIRS
    assert set(learned.scores) == set(learned.correlations) == PAIRS
    assert all(score > 4 for score in learned.scores.values())
    assert learned.fit_before.p_value < 1e-6
    assert learned.fit_after.p_value > 1e-3
    assert learned.fit_before.degrees == 54
    assert learned.fit_after.degrees == 51


@pytest.mark.slow
@pytest.mark.parametrize("n", [5_000, 20_000])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_precision_and_recall(mechanism, n):
    true = false = 0
    for seed in range(20):
        edges = found(draw(n, np.random.default_rng(seed), mechanism)[0])
        true += len(edges & PAIRS)
        false += len(edges - PAIRS)
    assert true >= 0.95 * 60
    assert true >= 0.95 * (true + false)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_few_items_find_fewer_edges_but_no_false_ones(mechanism):
    edges = [found(draw(1_000, np.random.default_rng(seed), mechanism)[0]) for seed in range(20)]
    assert sum(len(one - PAIRS) for one in edges) <= 1
    if mechanism != "one-sided":
        assert sum(map(len, edges)) >= 0.85 * 60


@pytest.mark.slow
@pytest.mark.parametrize("asymmetry", [0.0, 0.12])
@pytest.mark.parametrize("balance", [0.5, 0.2])
def test_false_edges_are_rare(balance, asymmetry):
    options = {"balance": balance, "asymmetry": asymmetry}
    edges = [found(draw(5_000, np.random.default_rng(seed), **options)[0]) for seed in range(40)]
    assert sum(map(len, edges)) <= 1


@pytest.mark.slow
def test_significance_is_the_rate_of_false_edges():
    """At a significance of 0.1, 150 independent datasets give 15 with an edge, ± 3.7."""
    wrong = [
        bool(found(draw(2_000, np.random.default_rng(seed), asymmetry=0.12)[0], significance=0.1))
        for seed in range(150)
    ]
    assert 5 <= sum(wrong) <= 26


@pytest.mark.slow
def test_rare_sources_that_meet_by_chance_are_not_joined():
    """Two coincidences where a tenth is expected are 6 standard errors by the normal law, and no evidence."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        rates = np.append(np.full(20, 0.01), [0.6] * 6)
        votes = fs.datasets.simulate(1_000, np.full(26, 0.75), coverage=rates, random_state=rng).votes
        assert found(votes) == set()


def test_a_negative_dependence_is_found():
    """Two rules of which one keeps silent where the other speaks."""
    votes, _ = draw(5_000, np.random.default_rng(0))
    codes = np.array(votes.codes)
    codes[codes[:, 0] >= 0, 1] = -1
    disagree = codes[:, 2] >= 0
    flip = disagree & (np.random.default_rng(1).random(5_000) < 0.5)
    codes[flip, 3] = 1 - codes[flip, 2]
    learned = fs.learn_structure(fs.Votes.from_classes(codes, classes=(0, 1)))
    assert learned.scores[2, 3] < -4
    assert learned.correlations[2, 3] < -0.2


def test_labels_are_as_good_as_with_the_true_graph():
    votes, y = draw(5_000, np.random.default_rng(5), "shared errors")
    truth = fs.DependencyGraph(12, source_edges=PAIRS)
    for method in ("covariance", "triplet"):
        learned = fs.LabelModel("learn", method=method).fit(votes).score(votes, y)
        assert learned >= fs.LabelModel(truth, method=method).fit(votes).score(votes, y) - 0.005


@pytest.mark.slow
@pytest.mark.parametrize("method", ["covariance", "triplet"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_labels_are_as_good_as_with_the_true_graph_on_average(mechanism, method):
    truth = fs.DependencyGraph(12, source_edges=PAIRS)
    lost = []
    for seed in range(20):
        votes, y = draw(5_000, np.random.default_rng(seed), mechanism)
        known = fs.LabelModel(truth, method=method).fit(votes).score(votes, y)
        lost.append(known - fs.LabelModel("learn", method=method).fit(votes).score(votes, y))
    assert np.mean(lost) <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [3, 5])
def test_many_classes_by_reduction(n_classes):
    for symmetric in (True, False):
        options = {"n_classes": n_classes, "symmetric": symmetric}
        votes = draw_classes(5_000, np.random.default_rng(1), dependent=True, **options)
        assert found(votes) == PAIRS
        assert found(draw_classes(5_000, np.random.default_rng(1), dependent=False, **options)) == set()


@pytest.mark.slow
@pytest.mark.parametrize(("n_classes", "repeats"), [(3, 40), (8, 15)])
def test_many_classes_have_few_false_edges(n_classes, repeats):
    """Confusions of every kind, which one class against the rest fits only roughly."""
    options = {"n_classes": n_classes, "dependent": False, "symmetric": False}
    edges = [found(draw_classes(5_000, np.random.default_rng(seed), **options)) for seed in range(repeats)]
    assert sum(map(len, edges)) <= 1


def test_one_class_against_the_rest_counts_what_recoded_votes_count():
    votes = draw_classes(500, np.random.default_rng(0), 3, dependent=False, symmetric=True)
    codes = np.array(votes.codes)
    for k in range(3):
        recoded = fs.Moments.of(np.where(codes < 0, -1, codes == k))
        np.testing.assert_array_equal(fs.Moments.of(votes).one_vs_rest(k).pair_counts, recoded.pair_counts)


def test_scores_are_the_loss_that_freeing_a_pair_saves():
    votes, _ = draw(20_000, np.random.default_rng(0), "shared errors")
    centered = CenteredMoments.of(fs.Moments.of(votes))
    used = ~np.eye(12, dtype=bool)
    used[0, 1] = used[1, 0] = used[2, 3] = used[3, 2] = False
    fit = Residuals.of(centered, used, np.sqrt(centered.variance) / 2)
    freed = used.copy()
    freed[4, 5] = freed[5, 4] = False
    saved = fit.loss - Residuals.of(centered, freed, fit.strength).loss
    assert fit.scores()[4, 5] ** 2 == pytest.approx(saved, rel=0.1)


def test_scores_of_some_sources_are_those_among_all():
    votes, _ = draw(2_000, np.random.default_rng(0), "shared errors")
    centered = CenteredMoments.of(fs.Moments.of(votes))
    used = ~np.eye(12, dtype=bool)
    used[0, 1] = used[1, 0] = False
    fit = Residuals.of(centered, used, np.sqrt(centered.variance) / 2)
    some = np.array([5, 0, 1, 9])
    np.testing.assert_allclose(fit.scores(some), fit.scores()[np.ix_(some, some)], rtol=1e-9, atol=1e-9)


def test_noise_of_pairs_has_a_lower_bound():
    """Two sources of which each is noisy on one class only would have no noise together."""
    votes, _ = draw(2_000, np.random.default_rng(0))
    centered = CenteredMoments.of(fs.Moments.of(votes))
    squares = np.zeros_like(centered.squares)
    squares[0, 1:], squares[1, 2:] = 200.0, -200.0
    strength = np.sqrt(centered.variance) / 2
    left = centered.variance - strength**2
    tilted = replace(centered, squares=squares)
    noise = Residuals.at(tilted, ~np.eye(len(strength), dtype=bool), strength).noise
    assert noise[0, 1] == pytest.approx(0.05 * left[0] * left[1])
    assert noise[0, 0] == pytest.approx(2 * left[0] ** 2)


# ---------------------------------------------------------------------- sources that need care


def test_identical_sources_are_joined():
    votes, _ = draw(2_000, np.random.default_rng(0))
    codes = np.column_stack([votes.codes, np.asarray(votes.codes)[:, 3]])
    assert found(fs.Votes.from_classes(codes, classes=(0, 1))) == {(3, 12)}


def test_silent_and_constant_sources_have_no_edges():
    votes, _ = draw(2_000, np.random.default_rng(0), "copying")
    codes = np.column_stack([votes.codes, np.full(2_000, -1), np.ones(2_000, int)])
    assert found(fs.Votes.from_classes(codes, classes=(0, 1))) == PAIRS


def test_one_sided_sources():
    """Rules that vote for one class only, on which they are noisy together."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = rng.random(5_000) < 0.4
        fires = rng.random((5_000, 12)) < np.where(y[:, None], rng.uniform(0.1, 0.4, 12), 0.03)
        codes = np.where(fires, np.arange(12) % 3 > 0, -1)
        flipped = np.where(fires, y[:, None], -1)  # two-sided, right almost always
        assert found(fs.Votes.from_classes(codes.astype(int), classes=(0, 1))) == set()
        assert found(fs.Votes.from_classes(flipped.astype(int), classes=(0, 1))) == set()


@pytest.mark.parametrize("m", [1, 3, 4])
def test_too_few_sources_have_no_edges_and_a_reason(m):
    votes, _ = draw(500, np.random.default_rng(0))
    with pytest.warns(SourceWarning, match="at least 5"):
        learned = fs.learn_structure(votes.of_sources(range(m)))
    assert learned.is_trivial
    assert learned.fit_before is None
    assert f"{m if m > 1 else 0} different sources" in learned.reason
    assert "nothing learned" in learned.describe()


def test_votes_without_a_common_truth_have_no_edges_and_a_reason():
    votes = np.random.default_rng(0).integers(0, 2, (300, 8))
    with pytest.warns(SourceWarning, match="no common truth"):
        assert fs.learn_structure(votes).is_trivial


def copies_of_one(size, share=0.7):
    """Fourteen sources, of which the first ``size`` repeat the first on a share of the items."""
    rng = np.random.default_rng(0)
    votes, y = draw(5_000, rng, m=14)
    codes = np.array(votes.codes)
    for j in range(1, size):
        repeats = rng.random(5_000) < share
        codes[repeats, j] = codes[repeats, 0]
    return fs.Votes.from_classes(codes, classes=(0, 1)), y


@pytest.mark.parametrize("size", [3, 4, 5, 7])
def test_cliques_up_to_half_of_the_sources_are_found(size):
    votes, y = copies_of_one(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)  # from five on they are thinned
        model = fs.LabelModel("learn", method="covariance").fit(votes)
    groups = model.graph_._groups
    assert set(groups[:size].tolist()) == {0}
    assert len(set(groups.tolist())) == 15 - size
    assert model.score(votes, y) > fs.LabelModel(method="covariance").fit(votes).score(votes, y) + 0.08


def test_large_groups_are_thinned():
    """Six near-copies of a source are more than a unit holds, and look more like a truth than the truth."""
    votes, _ = copies_of_one(6)
    with pytest.warns(SourceWarning, match="dependent pairs were left out"):
        learned = fs.learn_structure(votes)
    assert max(len(clique) for unit in learned._units for clique in unit.cliques) == 4
    assert set(learned._groups[:6].tolist()) == {0}
    assert max(edge[1] for edge in learned.source_edges + learned.dropped) < 6
    assert set(learned.dropped).isdisjoint(learned.source_edges)
    with pytest.warns(SourceWarning, match="left out"):
        assert fs.LabelModel("learn").fit(votes).graph_ == learned


def test_thinning_leaves_groups_to_judge_by():
    star = {(0, j): 100.0 - j for j in range(1, 12)}
    kept, dropped = select_edges(star, np.ones(12, bool))
    assert kept == tuple(star)[: LARGEST_GROUP - 1]
    assert len(kept) + len(dropped) == 11
    chain = {(2 * i, 2 * i + 1): -5.0 for i in range(4)}
    kept, dropped = select_edges(chain, np.ones(8, bool))
    assert (len(kept), len(dropped)) == (4, 0)
    votes = np.arange(8) < 6  # those that never vote judge nobody
    kept, dropped = select_edges(chain, votes)
    assert kept[:2] == ((0, 1), (2, 3))
    assert (4, 5) in dropped
    assert LEAST_GROUPS == 4


def test_max_edges_keeps_the_strongest():
    votes, _ = draw(5_000, np.random.default_rng(0), "copying")
    every = fs.learn_structure(votes)
    one = fs.learn_structure(votes, max_edges=1)
    assert one.source_edges == (max(every.scores, key=every.scores.get),)
    assert not one.dropped
    assert fs.learn_structure(votes, max_edges=0).is_trivial


# ---------------------------------------------------------------------- the value


@pytest.fixture(scope="module")
def learned():
    return fs.learn_structure(draw(5_000, np.random.default_rng(0), "copying")[0])


def test_a_learned_graph_equals_a_declared_one(learned):
    declared = fs.DependencyGraph(12, source_edges=PAIRS)
    assert learned == declared
    assert declared == learned
    assert hash(learned) == hash(declared)
    assert learned != fs.DependencyGraph(12)
    assert learned != "learn"
    assert repr(learned) == "LearnedGraph(12 sources on 1 task, 3 source edges)"


def test_copies_keep_the_evidence_and_json_the_graph(learned):
    for other in (pickle.loads(pickle.dumps(learned)), copy.deepcopy(learned)):
        assert other == learned
        assert other.scores == learned.scores
        assert other.fit_after == learned.fit_after
    plain = fs.DependencyGraph.from_json(learned.to_json())
    assert plain == learned
    assert type(plain) is type(LearnedGraph.from_json(learned.to_json())) is fs.DependencyGraph
    with pytest.raises(AttributeError):
        learned.scores = {}


def test_a_learned_graph_in_words(learned):
    words = learned.describe()
    assert "dependent unit of 2: sources 0, 1" in words
    assert "standard errors, correlation +0." in words
    assert "independence without edges: chi²" in words
    assert "independence with them: chi²" in words
    assert learned.to_svg().startswith("<svg")


def test_counts_and_votes_learn_the_same(learned):
    votes, _ = draw(5_000, np.random.default_rng(0), "copying")
    assert fs.learn_structure(fs.Moments.of(votes)).scores == learned.scores
    on_a_graph = fs.Moments.of(votes, fs.DependencyGraph(12, source_edges=[(0, 2)]))
    assert fs.learn_structure(on_a_graph).scores == learned.scores
    twice = fs.learn_structure(votes, sample_weight=np.full(5_000, 2))
    assert all(twice.scores[edge] > learned.scores[edge] for edge in PAIRS)
    assert fs.learn_structure(np.asarray(votes.codes)) == learned


def test_the_order_of_sources_decides_nothing():
    votes, _ = draw(5_000, np.random.default_rng(0), "shared errors")
    order = np.random.default_rng(1).permutation(12)
    there = fs.learn_structure(votes)
    back = fs.learn_structure(votes.of_sources(order.tolist()))
    renamed = {tuple(sorted((int(order[a]), int(order[b])))) for a, b in back.source_edges}
    assert renamed == set(there.source_edges)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"significance": 0}, OptionError, "`significance` .*got 0"),
        ({"significance": True}, OptionError, "`significance` .*got True"),
        ({"max_edges": -1}, OptionError, "`max_edges` .*got -1"),
        ({"max_edges": 1.5}, OptionError, "`max_edges` .*got 1.5"),
    ],
)
def test_bad_options(options, error, words):
    with pytest.raises(error, match=words):
        fs.learn_structure([[0, 1], [1, 1]], **options)


def test_a_warning_points_to_the_caller():
    votes, _ = draw(500, np.random.default_rng(0), m=4)
    with pytest.warns(SourceWarning) as caught:
        fs.learn_structure(votes)
    assert {each.filename for each in caught} == {__file__}


def test_counts_of_several_tasks_and_of_nothing_are_refused():
    clips = fs.datasets.simulate_graph(100, fs.DependencyGraph.chain(2, 5), 0.8, random_state=0).votes
    with pytest.raises(GraphError, match="on one task"):
        fs.learn_structure(fs.Moments.of(clips, fs.DependencyGraph.chain(2, 5)))
    counts = fs.Moments.of(clips)
    with pytest.raises(NotIdentifiableError, match="at least one item"):
        fs.learn_structure(counts - counts)
    with pytest.raises(OptionError, match="already counts"):
        fs.learn_structure(counts, sample_weight=2)


# ---------------------------------------------------------------------- the model


def test_a_model_learns_its_graph(tmp_path, learned):
    votes, _ = draw(5_000, np.random.default_rng(0), "copying")
    model = clone(fs.LabelModel("learn", method="covariance")).fit(votes)
    assert model.graph == "learn"
    assert model.graph_ == learned
    assert model.graph_.scores == learned.scores
    same = fs.LabelModel(learned, method="covariance").fit(votes)
    np.testing.assert_array_equal(model.predict_proba(votes), same.predict_proba(votes))
    model.save(tmp_path / "model.fs")
    loaded = fs.load(tmp_path / "model.fs")
    assert loaded.graph_ == learned
    np.testing.assert_array_equal(model.predict_proba(votes), loaded.predict_proba(votes))
    loaded.partial_fit(votes)  # the graph is known now
    assert loaded.graph_ == learned


def test_a_model_without_dependencies_is_the_plain_one(tmp_path):
    votes, _ = draw(5_000, np.random.default_rng(0))
    model, plain = fs.LabelModel("learn").fit(votes), fs.LabelModel().fit(votes)
    assert model.graph_.is_trivial
    assert model.graph_.fit_before.p_value > 1e-3
    np.testing.assert_array_equal(model.predict_proba(votes), plain.predict_proba(votes))
    model.save(tmp_path / "model.fs")
    assert fs.load(tmp_path / "model.fs").graph_ == model.graph_


def test_a_model_of_few_sources_says_that_nothing_was_learned():
    votes, _ = draw(2_000, np.random.default_rng(0))
    with pytest.warns(SourceWarning, match="No dependencies were learned") as caught:
        fs.LabelModel("learn").fit(votes.of_sources(range(4)))
    assert caught[0].filename == __file__


def test_learning_takes_weights_and_gold():
    votes, y = draw(3_000, np.random.default_rng(0), "copying")
    weights = np.ones(3_000, int)
    gold = np.where(np.arange(3_000) < 200, y, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fs.LabelModel("learn").fit(votes, gold=gold, sample_weight=weights)
    assert set(model.graph_.source_edges) == PAIRS


def test_counts_of_pairs_are_refused_with_what_to_do():
    votes, _ = draw(500, np.random.default_rng(0))
    with pytest.raises(OptionError, match=r"fit_moments.*learn_structure\(moments\)"):
        fs.LabelModel("learn").fit_moments(fs.Moments.of(votes))
    with pytest.raises(OptionError, match=r"partial_fit.*Moments.of\(votes, graph\)"):
        fs.LabelModel("learn").partial_fit(votes)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"graph": "learned"}, "`graph` must be a DependencyGraph"),
        ({"graph": "learn", "method": fs.solvers.Triplet(cliques="linear")}, "cliques="),
        ({"graph": "learn", "temper": 0.5}, "`temper`.*task edges"),
    ],
)
def test_options_that_do_not_go_with_learning(options, words):
    with pytest.raises(OptionError, match=words):
        fs.LabelModel(**{"method": "triplet", **options}).fit([[0, 1, 1], [1, 1, 0]])


@pytest.mark.skipif("FLYINGSQUID_DATA" not in os.environ, reason="FLYINGSQUID_DATA is not set")
def test_real_rules_that_depend_on_each_other():
    """Spam comments, of the design half: fitted on train without labels, scored on train and on test."""
    with np.load(Path(os.environ["FLYINGSQUID_DATA"]) / "youtube" / "youtube.npz") as data:
        train, test = (data["L_train"], data["Y_train"]), (data["L_test"], data["Y_test"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        plain = fs.LabelModel(method="covariance").fit(train[0])
        learned = fs.LabelModel("learn", method="covariance").fit(train[0])
    for votes, y in (train, test):
        assert learned.score(votes, y) >= plain.score(votes, y) + 0.05


@pytest.mark.slow
def test_many_sources_start_from_medians_over_pairs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4_000)
    votes = np.where(rng.random((4_000, 210)) < 0.7, y[:, None], 1 - y[:, None])
    for i in (0, 2):
        votes[:, i + 1] = np.where(rng.random(4_000) < 0.6, votes[:, i], votes[:, i + 1])
    assert set(fs.learn_structure(votes).source_edges) == {(0, 1), (2, 3)}


def test_medians_of_pairs_give_the_strength_of_many_equal_sources(monkeypatch):
    votes, _ = draw(2_000, np.random.default_rng(0))
    reading = _Reading.of(fs.Moments.of(votes))
    m = len(reading.signs)
    strength = np.where(np.arange(m) < m - 2, 0.5, 0.3)  # the median over others is 0.5
    equal = replace(reading, centered=replace(reading.centered, covariance=np.outer(strength, strength)))
    none = replace(reading, centered=replace(reading.centered, covariance=np.zeros((m, m))))
    monkeypatch.setattr(structure, "_MOST_FOR_TRIPLETS", 0)
    np.testing.assert_allclose(structure._medians(equal, np.zeros((m, m))), strength)
    assert np.isnan(structure._medians(none, np.zeros((m, m)))).all()


@pytest.mark.parametrize("sign", [-1, 1])
def test_correlations_given_the_truth_are_at_most_one(sign):
    votes, _ = draw(2_000, np.random.default_rng(0))
    centered = CenteredMoments.of(fs.Moments.of(votes))
    centered = replace(centered, covariance=sign * np.abs(centered.covariance))
    fit = Residuals.at(centered, ~np.eye(12, dtype=bool), np.zeros(12))
    smallest = np.abs(fit.values[fit.used]).min()
    found = replace(fit, noise=np.full_like(fit.noise, (smallest / 0.4) ** 2)).correlations
    np.testing.assert_allclose(found, np.clip(fit.values / smallest * 0.4, -1, 1))
    assert sign * found.sum() > 12
