"""Results do not depend on whether votes, counts and tables are stored as arrays or sparsely.

The fixture ``storage`` covers every way to store them; each public question is asked in the usual way first,
and again in that storage.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.cli.main import main
from flyingsquid.exceptions import IncompatibleError, NotIdentifiableError, SourceWarning
from flyingsquid.moments import ConfusionTables
from flyingsquid.moments.pairs import DensePairs, SparsePairs

NAMES = tuple("abcdefg")
CLASSES = ("ant", "bee", "cat", "dog")
CHAIN = fs.DependencyGraph.chain(2, 4)
Question = Callable[[fs.Votes, np.ndarray], Any]
LIMITS = {"counts": {"dense_pair_bytes": 0}, "tables": {"dense_table_cells": 0}}

pytestmark = pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")


def draw(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Codes with reasons for missing votes, and true classes; the last source copies the first."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, n)
    right = rng.random((n, 7)) < [0.9, 0.8, 0.7, 0.7, 0.6, 0.8, 0.5]
    codes = np.where(right, y[:, None], rng.integers(0, 4, (n, 7)))
    codes = np.where(rng.random(codes.shape) < 0.8, codes, rng.integers(-4, 0, codes.shape))
    codes[:, 6] = codes[:, 0]
    return codes.astype(np.int8), y


def as_sparse(votes: fs.Votes) -> fs.Votes:
    codes = np.asarray(votes.codes)
    stored = np.where(codes >= 0, codes + 1, np.where(codes < -1, codes, 0))
    return fs.Votes(csr_array(stored.astype(np.int8)), votes.classes, votes.names)


@dataclasses.dataclass
class Storage:
    """A way to store votes, counts and tables."""

    sparse: tuple[str, ...]

    @contextmanager
    def use(self, votes: fs.Votes) -> Iterator[fs.Votes]:
        limits = {name: size for what in self.sparse for name, size in LIMITS.get(what, {}).items()}
        with use_limits(**limits):
            yield as_sparse(votes) if "votes" in self.sparse else votes


@pytest.fixture(params=[("votes",), ("counts",), ("tables",), ("votes", "counts", "tables")], ids="+".join)
def storage(request):
    """Everything that can be stored sparsely, one by one and together."""
    return Storage(request.param)


def assert_same(found: Any, expected: Any) -> None:
    """Compare results of any type; numbers up to rounding."""
    if isinstance(expected, ConfusionTables):
        found, expected = np.asarray(found), np.asarray(expected)
    if dataclasses.is_dataclass(expected) and not isinstance(expected, fs.Moments):
        assert type(found) is type(expected)
        for field in dataclasses.fields(expected):
            assert_same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_same(found[key], value)
    elif isinstance(expected, (tuple, list)) and not all(isinstance(x, (int, float)) for x in expected):
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            assert_same(ours, theirs)
    elif isinstance(expected, (np.ndarray, float, tuple, list)) and np.asarray(expected).dtype.kind == "f":
        np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-8, atol=1e-10)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    else:
        assert found == expected


def assert_same_in(storage: Storage, question: Question, votes: fs.Votes, y: np.ndarray) -> None:
    expected = question(votes, y)
    with storage.use(votes) as stored:
        assert_same(question(stored, y), expected)


@pytest.fixture(scope="module")
def sample() -> tuple[fs.Votes, np.ndarray]:
    codes, y = draw()
    return fs.Votes(codes, CLASSES, NAMES), np.array(CLASSES)[y]


# ---------------------------------------------------------------------- counts


def entries_of(counts: Any) -> np.ndarray:
    return counts.to_array()


def saved(model: Any, tmp: Any) -> Any:
    model.save(tmp)
    return fs.load(tmp)


def reordered(votes: fs.Votes) -> fs.Moments:
    """The counts of the same votes with sources and classes in another order, put back."""
    order = [3, 0, 1, 2, 6, 5, 4]
    other = votes.of_sources(order).matched_to(("cat", "ant", "dog", "bee"), None)
    return fs.Moments.of(other).aligned_to(fs.Moments.of(votes))


def counts(votes: Any, **options: Any) -> fs.Moments:
    return fs.Moments.of(votes, **options)


MOMENTS: dict[str, Callable[[fs.Votes], Any]] = {
    "of": counts,
    "of, integer weights": lambda v: counts(v, sample_weight=np.arange(v.n_items) % 3),
    "of, float weights": lambda v: counts(v, sample_weight=0.5 + np.arange(v.n_items) % 3).vote_counts,
    "of, chunks": lambda v: counts(fs.VoteChunks([v[:150], v[150:]])),
    "n_items": lambda v: counts(v).n_items,
    "n_sources": lambda v: counts(v).n_sources,
    "n_classes": lambda v: counts(v).n_classes,
    "classes": lambda v: counts(v).classes,
    "names": lambda v: counts(v).names,
    "source_names": lambda v: counts(v).source_names,
    "is_exact": lambda v: counts(v).is_exact,
    "missing": lambda v: counts(v).missing,
    "missing_counts": lambda v: counts(v).missing_counts(),
    "vote_counts": lambda v: counts(v).vote_counts,
    "coverage": lambda v: counts(v).coverage,
    "source_tally": lambda v: counts(v).source_tally().votes,
    "pair_counts": lambda v: counts(v).pair_counts,
    "pair_rates": lambda v: [counts(v).pair_rates(a, b) for a in range(4) for b in range(4)],
    "table": lambda v: [counts(v).table(i, j) for i, j in ((0, 1), (5, 2), (3, 3))],
    "joint_counts": lambda v: counts(v).joint_counts([4, 0], [1, 2, 5]),
    "by_own_vote": lambda v: [counts(v).by_own_vote(k) for k in range(4)],
    "by_vote": lambda v: counts(v).by_vote(np.array([2, 0])),
    "overlap": lambda v: counts(v).overlap(),
    "agreement": lambda v: counts(v).agreement(),
    "compare_pairs": lambda v: counts(v).compare_pairs(),
    "others_votes": lambda v: counts(v).others_votes(),
    "sparse_others_votes": lambda v: entries_of(counts(v).sparse_others_votes()),
    "votes_of_others": lambda v: counts(v).votes_of_others(),
    "votes_of_others, discounted": lambda v: counts(v).votes_of_others(
        np.linspace(0.5, 1, 7), np.linspace(0, 1, 49).reshape(7, 7)
    ),
    "one_vs_rest": lambda v: [counts(v).one_vs_rest(k) for k in range(4)],
    "select": lambda v: counts(v).select([5, 0, 3]),
    "has_all_pairs": lambda v: counts(v).has_all_pairs,
    "graph": lambda v: counts(v).graph,
    "sources_around": lambda v: counts(v).sources_around(),
    "unit_votes": lambda v: counts(v, graph=fs.DependencyGraph(7, source_edges=[(1, 4)])).unit_votes(),
    "aligned_to": reordered,
    "from_state": lambda v: pickle.loads(pickle.dumps(counts(v))),
    "+": lambda v: counts(v[:100]) + counts(v[100:]),
    "-": lambda v: counts(v) - counts(v[100:]),
    "repr": lambda v: repr(counts(v)),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_counts_agree_for_dense_and_sparse_storage(name, storage, sample):
    assert_same_in(storage, lambda votes, _: MOMENTS[name](votes), *sample)


def test_every_public_name_of_moments_is_compared():
    asked = {name.partition(",")[0] for name in MOMENTS} | {"save", "load"}
    assert {name for name in dir(fs.Moments) if not name.startswith("_")} <= asked


def test_the_two_storages_can_be_combined_and_compared(sample):
    votes, _ = sample
    dense = fs.Moments.of(votes)
    with use_limits(dense_pair_bytes=0):
        sparse, half = fs.Moments.of(votes), fs.Moments.of(votes[:100])
    assert sparse == dense
    assert dense == sparse
    assert dense - half == sparse - half == fs.Moments.of(votes[100:])
    assert half + fs.Moments.of(votes[100:]) == dense
    with pytest.raises(IncompatibleError):
        half - dense


def test_workers_who_share_few_items_are_counted_sparsely():
    """Counts of a crowd are sparse until enough workers have met, and equal to dense counts throughout."""
    rng = np.random.default_rng(0)
    item = np.repeat(np.arange(600), 3)
    worker = rng.integers(0, 300, len(item))
    stored = csr_array((np.ones(len(item), np.int8), (item, worker)), shape=(600, 300))
    stored.data = rng.integers(1, 3, stored.nnz).astype(np.int8)
    crowd = fs.Votes.from_sparse(stored, classes=(0, 1))
    few = fs.Moments.of(crowd)
    assert isinstance(few._pairs[0], SparsePairs)
    assert few == fs.Moments.of(crowd[:200]) + fs.Moments.of(crowd[200:])
    everybody = fs.Moments.of(fs.Votes(rng.integers(0, 2, (50, 300)).astype(np.int8), (0, 1)))
    total = few + everybody
    assert isinstance(total._pairs[0], DensePairs)
    assert total == everybody + few
    assert total - everybody == few


def test_files_of_counts_are_read_in_any_storage(storage, sample, tmp_path):
    path, (votes, _) = tmp_path / "counts.fsq", sample
    with storage.use(votes) as stored:
        fs.Moments.of(stored).save(path)
        assert fs.load(path) == fs.Moments.of(votes)
    assert fs.load(path) == fs.Moments.of(votes)


def test_files_of_counts_on_a_graph_are_read_in_any_storage(storage, tmp_path):
    graph = fs.DependencyGraph(8, n_tasks=2, task_edges=[(0, 1)], source_edges=[(0, 1)])
    codes, _ = draw()
    votes = fs.Votes(np.hstack([codes, codes[:, :1]]), CLASSES)
    with storage.use(votes) as stored:
        fs.Moments.of(stored, graph).save(tmp_path / "counts.fsq")
    assert fs.load(tmp_path / "counts.fsq") == fs.Moments.of(votes, graph)


def test_pairs_that_a_graph_does_not_need_are_refused(storage):
    codes, _ = draw()
    votes = fs.Votes(np.hstack([codes, codes[:, :5]]), CLASSES)
    with storage.use(votes) as stored:
        moments = fs.Moments.of(stored, fs.DependencyGraph.chain(3, 4))
    for question in (moments.overlap, lambda: moments.table(0, 11), lambda: moments.select([0, 11])):
        with pytest.raises(IncompatibleError):
            question()
    np.testing.assert_array_equal(moments.table(0, 5), fs.Moments.of(votes).table(0, 5))


# ---------------------------------------------------------------------- models


def fitted(votes: Any, **options: Any) -> fs.LabelModel:
    return fs.LabelModel(**options).fit(votes)


def answers(model: Any, votes: fs.Votes, y: np.ndarray) -> dict[str, Any]:
    """Return the results of every public method of a fitted label model."""
    row = np.asarray(votes.to_dense().codes)[3]
    asked = fs.Votes(row[None, :], votes.classes, votes.names)
    return {
        "predict_proba": model.predict_proba(votes),
        "predict": model.predict(votes),
        "log_likelihood": model.log_likelihood(votes),
        "score": model.score(votes, y),
        "explain": str(model.explain(asked)),
        "summary": str(model.summary()),
        "diagnostics_": dataclasses.replace(model.diagnostics_, verdict=None),
        "verdict": model.diagnostics_.verdict.use_model,
        "accuracies_": model.accuracies_,
        "accuracies_interval_": model.accuracies_interval_,
        "class_balance_": model.class_balance_,
        "confusion_": np.asarray(model.confusion_),
        "coverage_": model.coverage_,
        "method_": model.method_,
        "reason_": model.reason_,
    }


METHODS = ["auto", "weighted", "agreement", "em", "decomposition", "one_vs_rest"]


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_label_models_agree_for_dense_and_sparse_storage(method, storage, sample, tmp_path):
    def question(votes: fs.Votes, y: np.ndarray) -> Any:
        model = fs.LabelModel(method=method).fit(votes)
        again = saved(model, tmp_path / "model.fsq")
        return answers(model, votes, y), again.predict_proba(votes), str(again.summary())

    assert_same_in(storage, question, *sample)


LABEL_MODELS: dict[str, Question] = {
    "gold": lambda v, y: answers(
        fs.LabelModel(method="agreement").fit(v, gold=[*y[:80].tolist(), *[None] * (len(y) - 80)]),
        v,
        y,
    ),
    "sample_weight": lambda v, _: fs.LabelModel().fit(v, sample_weight=np.arange(v.n_items) % 3).accuracies_,
    "class_balance": lambda v, _: fitted(v, method="em", class_balance="estimate").class_balance_,
    "fit_moments": lambda v, _: fs.LabelModel().fit_moments(fs.Moments.of(v)).predict_proba(v),
    "partial_fit": lambda v, _: fs.LabelModel().partial_fit(v[:200]).partial_fit(v[200:]).predict_proba(v),
    "fit, chunks": lambda v, _: fitted(fs.VoteChunks([v[:200], v[200:]])).predict_proba(v),
    "fit_predict": lambda v, _: fs.LabelModel().fit_predict(v),
    "fit_predict_proba": lambda v, _: fs.LabelModel().fit_predict_proba(v),
    "two classes": lambda v, _: fitted(fs.Votes(v.to_dense().codes[:, :5].clip(-1, 1), (0, 1))).accuracies_,
    "learn": lambda v, _: fs.LabelModel("learn", method="em").fit(v).predict_proba(v),
    "source edges": lambda v, _: fitted(v, graph=fs.DependencyGraph(7, source_edges=[(0, 6)])).predict(v),
    "to_training_set": lambda v, _: fs.to_training_set(np.arange(400), fitted(v).predict_proba(v), votes=v).X,
    "report": lambda v, y: len(fs.report(v, y, model=fitted(v))),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LABEL_MODELS)
def test_fits_agree_for_dense_and_sparse_storage(name, storage, sample):
    assert_same_in(storage, LABEL_MODELS[name], *sample)


def test_tasks_of_many_classes_agree_for_dense_and_sparse_storage(storage):
    drawn = fs.datasets.simulate_graph(
        800, CHAIN, 0.8, coverage=0.9, n_classes=3, correlation=0.6, random_state=3
    )

    def question(votes: fs.Votes, _: np.ndarray) -> Any:
        model = fs.LabelModel(CHAIN).fit(votes)
        return model.task_tables_, model.predict_proba(votes), str(model.summary())

    assert_same_in(storage, question, drawn.votes, drawn.y)


MAJORITY: dict[str, Question] = {
    "predict_proba": lambda v, _: fs.MajorityVote().fit(v).predict_proba(v),
    "predict": lambda v, _: fs.MajorityVote().fit(v).predict(v, tie_break="abstain").tolist(),
    "score": lambda v, y: fs.MajorityVote().fit(v).score(v, y),
    "summary": lambda v, _: str(fs.MajorityVote().fit(v).summary()),
    "explain": lambda v, _: str(fs.MajorityVote().fit(v).explain(v[3])),
    "partial_fit": lambda v, _: str(fs.MajorityVote().partial_fit(v[:9]).partial_fit(v[9:]).summary()),
    "fit_moments": lambda v, _: str(fs.MajorityVote().fit_moments(fs.Moments.of(v)).summary()),
}


@pytest.mark.parametrize("name", MAJORITY)
def test_majority_vote_agrees_for_dense_and_sparse_storage(name, storage, sample):
    assert_same_in(storage, MAJORITY[name], *sample)


# ---------------------------------------------------------------------- structure and analysis


def structure(votes: fs.Votes, _: np.ndarray) -> Any:
    learned = fs.learn_structure(votes)
    return learned.source_edges, list(learned.scores.values()), str(learned)


def test_structure_is_learned_the_same(storage, sample):
    assert_same_in(storage, structure, *sample)


def panel_of(votes: fs.Votes) -> fs.Votes:
    """Return votes whose sources are judges, two columns each."""
    columns = range(votes.n_sources)
    return votes.with_structure([fs.SourceInfo(f"judge {i // 2}", f"order {i % 2}") for i in columns])


ANALYSIS: dict[str, Question] = {
    "agreement": lambda v, _: fs.analysis.agreement(v),
    "agreement, counts": lambda v, _: fs.analysis.agreement(fs.Moments.of(v)),
    "calibration": lambda v, y: fs.analysis.calibration(fitted(v), v, y),
    "cohen_kappa": lambda v, _: str(fs.analysis.cohen_kappa(v)),
    "compare_with_majority": lambda v, y: str(fs.analysis.compare_with_majority(fitted(v), v, y)),
    "contested_items": lambda v, y: str(fs.analysis.contested_items(fitted(v), v, y, n=5)),
    "dependence_given_truth": fs.analysis.dependence_given_truth,
    "dependence_given_truth, posterior": lambda v, _: fs.analysis.dependence_given_truth(
        v, posterior=fitted(v).predict_proba(v)
    ),
    "disagreement_buckets": lambda v, y: str(fs.analysis.disagreement_buckets(v, y, model=fitted(v))),
    "estimate_rate": lambda v, y: str(fs.analysis.estimate_rate(fitted(v), v, y)),
    "findings": lambda v, y: str(fs.analysis.findings(v, y, model=fitted(v))),
    "learning_curve": lambda v, y: str(
        fs.analysis.learning_curve(fitted(v), v, y, random_state=0, sizes=[100, 200], repeats=2)
    ),
    "fleiss_kappa": lambda v, _: str(fs.analysis.fleiss_kappa(v)),
    "krippendorff_alpha": lambda v, _: str(fs.analysis.krippendorff_alpha(v)),
    "label_buckets": lambda v, y: fs.analysis.label_buckets(y, v.of_sources([0])),
    "labels_saved": lambda v, y: str(
        fs.analysis.labels_saved(fitted(v), v[:150], np.arange(150)[:, None] % 7, y[:150], random_state=0)
    ),
    "panel_report": lambda v, _: str(fs.analysis.panel_report(panel_of(v))),
    "leave_one_out": lambda v, y: str(fs.analysis.leave_one_out(fitted(v, method="weighted"), v, y)),
    "suggest_items": lambda v, y: str(fs.analysis.suggest_items(fitted(v), v, 5, random_state=0)),
    "summarize": lambda v, y: str(fs.summarize(v, y)),
}


SLOW = ("labels_saved",)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ANALYSIS]
)
def test_analysis_answers_the_same(name, storage, sample):
    assert_same_in(storage, ANALYSIS[name], *sample)


def test_every_function_of_analysis_is_asked():
    functions = {name for name in fs.analysis.__all__ if name[0].islower()}
    assert functions <= {name.partition(",")[0] for name in ANALYSIS}


def test_one_class_against_the_rest_names_the_class_that_fails(storage, sample):
    votes = sample[0].of_sources([0, 1])
    with storage.use(votes) as stored, pytest.raises(NotIdentifiableError, match="ant"):
        fs.LabelModel(method="one_vs_rest").fit(stored)


# ---------------------------------------------------------------------- sizes that are sparse by default


def many_classes(n: int, m: int, k: int) -> np.ndarray:
    """Votes of m sources on k classes; source 1 copies source 0."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, k, n)
    codes = np.where(rng.random((n, m)) < 0.7, y[:, None], rng.integers(0, k, (n, m)))
    codes = np.where(rng.random((n, m)) < 0.5, codes, -1)
    codes[:, 1] = codes[:, 0]
    return codes


def test_summary_of_many_classes_names_a_copy():
    model = fs.LabelModel(n_classes=100, method="weighted").fit(many_classes(300, 60, 100))
    assert "copy of source 0" in str(model.summary())


def test_label_command_with_many_classes(tmp_path):
    path = tmp_path / "votes.csv"
    codes = many_classes(200, 60, 100)
    rows = [",".join("" if vote < 0 else f"c{vote}" for vote in row) for row in codes]
    path.write_text("\n".join([",".join(f"s{j}" for j in range(60)), *rows]) + "\n")
    done = CliRunner().invoke(main, ["label", str(path), "-o", str(tmp_path / "labels.csv")])
    assert done.exit_code == 0, done.output
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 201


@pytest.mark.slow
def test_structure_of_many_classes_finds_a_copy():
    learned = fs.learn_structure(many_classes(6_000, 12, 500))
    assert learned.source_edges == ((0, 1),)


@pytest.mark.slow
def test_label_model_learns_structure_of_many_classes():
    votes = many_classes(6_000, 12, 500)
    model = fs.LabelModel("learn", n_classes=500).fit(votes)
    assert model.predict_proba(votes[:20]).shape == (20, 500)


def test_sparse_tables_warn_about_silent_sources_too(sample):
    votes, _ = sample
    codes = np.asarray(votes.codes).copy()
    codes[:, 2] = -1
    with use_limits(dense_table_cells=0, dense_pair_bytes=0), pytest.warns(SourceWarning):
        model = fs.LabelModel(method="agreement").fit(fs.Votes(codes, CLASSES, NAMES))
    assert model.accuracies_[2] == 0.5
