"""Solvers: one file and one registry line are enough, and capabilities decide what is refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.exceptions import (
    GraphError,
    ModelFileError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
)
from flyingsquid.fits import Fit, IndependentFit
from flyingsquid.solvers import FitData, Requires, Solver, get_solver, solver_names


@dataclass(frozen=True)
class TrustFirst(Solver):
    """Trust the first source with a fixed accuracy, and ignore the others."""

    name: ClassVar[str] = "trust_first"
    requires: ClassVar[Requires] = Requires()

    accuracy: float = 0.9

    def solve(self, data: FitData) -> Fit:
        m, k = data.moments.n_sources, data.n_classes
        tables = np.full((m, k, k + 1), 1 / k)
        tables[0, :, :k] = (1 - self.accuracy) / (k - 1)
        tables[0, np.arange(k), np.arange(k)] = self.accuracy
        coverage = data.moments.coverage[:, None, None]
        tables[:, :, :k] *= coverage
        tables[:, :, k:] = 1 - coverage
        return IndependentFit(
            classes=data.moments.classes,
            source_names=data.moments.source_names,
            method=self.name,
            balance_note="uniform",
            class_balance=np.full((1, k), 1 / k),
            accuracies=np.where(np.arange(m) == 0, self.accuracy, 1 / k),
            confusion=tables,  # type: ignore[arg-type]  # arrays are converted
        )


@pytest.fixture
def trust_first():
    fs.solvers.register(TrustFirst)
    yield TrustFirst
    fs.solvers._SOLVERS.pop("trust_first")


@pytest.fixture(scope="module", params=[2, 3])
def votes(request):
    rng = np.random.default_rng(0)
    y = rng.integers(0, request.param, 400)
    right = rng.random((400, 4)) < [0.9, 0.7, 0.7, 0.6]
    return np.where(right, y[:, None], rng.integers(0, request.param, (400, 4)))


class TestOneFileIsEnough:
    def test_fit_predict_and_explain(self, trust_first, votes):
        model = fs.LabelModel(method="trust_first").fit(votes)
        assert model.method_ == "trust_first"
        np.testing.assert_array_equal(model.predict(votes), votes[:, 0])
        why = model.explain(votes[0])
        assert [c.source for c in why.contributions] == ["source 0"]
        assert why.probabilities[int(votes[0, 0])] == pytest.approx(0.9)
        assert np.isnan(model.accuracies_interval_).all()
        assert len(model.summary().rows) == 4
        assert model.log_likelihood(votes).shape == (400,)
        assert isinstance(model.diagnostics_.verdict.gain, float)

    def test_options_of_its_own(self, trust_first, votes):
        sure = fs.LabelModel(method=TrustFirst(accuracy=0.99)).fit(votes)
        assert sure.predict_proba(votes).max() == pytest.approx(0.99)

    def test_save_and_load(self, trust_first, votes, tmp_path):
        model = fs.LabelModel(method=TrustFirst(accuracy=0.8)).fit(votes)
        model.save(tmp_path / "model.fsq")
        again = fs.load(tmp_path / "model.fsq")
        assert again.method == TrustFirst(accuracy=0.8)
        np.testing.assert_array_equal(again.predict_proba(votes), model.predict_proba(votes))

    def test_a_file_of_an_unknown_solver_is_refused(self, votes, tmp_path):
        fs.LabelModel(method=TrustFirst()).fit(votes).save(tmp_path / "model.fsq")
        with pytest.raises(ModelFileError, match="register"):
            fs.load(tmp_path / "model.fsq")

    def test_report(self, trust_first, votes, tmp_path):
        model = fs.LabelModel(method="trust_first").fit(votes)
        fs.report(votes, model=model, path=tmp_path / "report.html")
        assert "trust_first" in (tmp_path / "report.html").read_text("utf-8")

    def test_command_line(self, trust_first, votes, tmp_path):
        from flyingsquid.cli.main import main

        np.savetxt(tmp_path / "votes.csv", votes, fmt="%d", delimiter=",", header="a,b,c,d", comments="")
        out = tmp_path / "labels.csv"
        result = CliRunner().invoke(
            main, ["label", str(tmp_path / "votes.csv"), "-o", str(out), "--method", "trust_first"]
        )
        assert result.exit_code == 0, result.output
        assert len(out.read_text("utf-8").splitlines()) == 401

    def test_streams_and_sequences(self, trust_first, votes):
        online = fs.OnlineLabelModel(method="trust_first", n_classes=int(votes.max()) + 1)
        assert online.update(votes).argmax(axis=1).tolist() == votes[:, 0].tolist()
        assert fs.SequenceLabelModel(method="trust_first").fit(votes).method_ == "trust_first"


class TestCapabilities:
    def test_names_and_solvers_are_the_same(self):
        for name in solver_names():
            assert get_solver(name).name == name
            assert get_solver(get_solver(name)) == get_solver(name)

    @pytest.mark.parametrize("method", [5, None, "triplets", ["triplet"], fs.solvers.Triplet])
    def test_unknown_methods_are_refused(self, method):
        with pytest.raises(OptionError, match="`method`"):
            fs.LabelModel(method=method).fit([[0, 1, 1]])

    @pytest.mark.parametrize("name", solver_names())
    def test_every_solver_declares_what_it_supports(self, name):
        """Declared capabilities work, and others are refused by name."""
        solver = get_solver(name)
        requires = solver.requires
        sample = fs.datasets.simulate(
            600, [0.9, 0.85, 0.8, 0.8, 0.75, 0.7], class_balance=[0.7, 0.3], random_state=0
        )
        gold = np.where(np.arange(600) < 60, sample.y, -1)
        graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
        # The class balance lets methods without triplets take part.
        given = {} if name == "one_vs_rest" else {"class_balance": [0.7, 0.3]}
        trials = {
            "gold": (requires.gold, lambda: fs.LabelModel(method=name, **given).fit(sample.votes, gold=gold)),
            "signs": (
                requires.signs,
                lambda: fs.LabelModel(method=name, signs={0: 1}, **given).fit(sample.votes),
            ),
            "graph": (requires.graph, lambda: fs.LabelModel(graph, method=name, **given).fit(sample.votes)),
            "class_balance": (
                requires.estimated_balance,
                lambda: fs.LabelModel(method=name, class_balance="estimate").fit(sample.votes),
            ),
            "votes": (
                requires.rows != "required",
                lambda: fs.LabelModel(method=name, **given).fit_moments(fs.Moments.of(sample.votes)),
            ),
        }
        if name == "one_vs_rest":  # which is its binary solver for two classes
            requires = get_solver("triplet").requires
            trials = {key: (True, trial) for key, (_, trial) in trials.items()}
            trials["graph"] = (False, trials["graph"][1])
        for option, (supported, trial) in trials.items():
            if supported:
                assert trial().predict(sample.votes).shape == (600,), option
            else:
                with pytest.raises(OptionError, match=option):
                    trial()

    def test_two_classes_only(self):
        three = np.random.default_rng(0).integers(0, 3, (50, 4))
        for name in ("triplet", "covariance", "quadratic", "marginal"):
            with pytest.raises(OptionError, match="two classes"):
                fs.LabelModel(method=name).fit(three)
            fs.LabelModel(method="one_vs_rest").fit(three)

    def test_sequences_need_confusion_tables(self):
        votes = np.random.default_rng(0).integers(0, 2, (50, 4))
        for name in ("weighted",):
            with pytest.raises(OptionError, match="sequences"):
                fs.SequenceLabelModel(method=name).fit(votes)

    def test_what_needs_all_items_cannot_run_on_a_stream(self):
        for name in ("em", "decomposition"):
            with pytest.raises(OptionError, match="stream"):
                fs.OnlineLabelModel(method=name).update(np.zeros((3, 3), int))

    def test_one_vs_rest_of_two_classes_is_its_binary_solver(self):
        votes = fs.datasets.load_breast_cancer().votes
        base = fs.solvers.Triplet("median")
        plain = fs.LabelModel(method=base).fit(votes)
        reduced = fs.LabelModel(method=fs.solvers.OneVsRest(base)).fit(votes)
        np.testing.assert_array_equal(reduced.accuracies_, plain.accuracies_)

    def test_solvers_check_their_options_when_they_are_made(self):
        wrong = [
            (lambda: fs.solvers.Triplet(aggregate="max"), "aggregate"),
            (lambda: fs.solvers.Triplet(screen=-1), "screen"),
            (lambda: fs.solvers.Triplet(triplets=[(0, 1, 2)]), "triplets"),
            (lambda: fs.solvers.Triplet("best", triplets=[]), "triplets"),
            (lambda: fs.solvers.Triplet("best", triplets=iter([(0, 1, 2)])), "triplets"),
            (lambda: fs.solvers.Triplet("best", triplets=[(0, 1)]), "triplets"),
            (lambda: fs.solvers.Triplet(cliques="x"), "cliques"),
            (lambda: fs.solvers.Quadratic(screen="x"), "screen"),
            (lambda: fs.solvers.OneVsRest("em"), "base"),
            (lambda: fs.solvers.register(3), "solver"),
        ]
        for make, parameter in wrong:
            with pytest.raises(OptionError, match=parameter):
                make()

    def test_capabilities_are_checked_before_solving(self):
        data = FitData(moments=fs.Moments.of([[0, 1, 1], [1, 1, 0]]))
        with pytest.raises(OptionError, match="votes"):
            get_solver("em").checked_for(data)


class TestWarnings:
    def test_with_gold_labels_warnings_point_to_the_caller(self):
        sample = fs.datasets.simulate(400, [0.9, 0.8, 0.7, 0.7], random_state=0)
        votes = np.column_stack([sample.votes.codes, np.full(400, -1)])
        for gold in (None, sample.y):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                fs.LabelModel().fit(votes, gold=gold)
            assert [each.category for each in caught] == [SourceWarning]
            assert caught[0].filename == __file__

    def test_every_entry_point_warns_in_the_name_of_the_caller(self):
        votes = np.column_stack([np.random.default_rng(0).integers(0, 2, (60, 4)), np.full(60, -1)])
        counts = fs.Moments.of(votes)
        calls = [
            lambda: fs.LabelModel(class_balance="uniform").fit(votes),
            lambda: fs.LabelModel(class_balance="uniform").fit_moments(counts),
            lambda: fs.LabelModel(class_balance="uniform").partial_fit(votes),
        ]
        for call in calls:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                call()
            assert caught, "a silent source is worth a warning"
            assert {each.filename for each in caught} == {__file__}


class TestOneAuto:
    def test_method_and_reason_report_what_was_chosen(self):
        independent = fs.datasets.simulate(5_000, [0.9, 0.8, 0.7, 0.6], random_state=0).votes
        model = fs.LabelModel().fit(independent)
        assert (model.method_, model.diagnostics_.method) == ("auto", "auto")
        assert model.reason_ == model.diagnostics_.reason != ""
        counts = fs.LabelModel().fit_moments(fs.Moments.of(independent))
        assert counts.method_ == "auto"
        assert counts.reason_
        assert fs.SequenceLabelModel().fit(independent).method_ == "auto"
        online = fs.OnlineLabelModel().partial_fit(independent)
        assert online.method_ == "auto"

    def test_counts_alone_agree_wherever_they_come_from(self):
        """For a solver that needs counts only, batch, stream and chunks are one fit."""
        votes = fs.datasets.load_breast_cancer().votes
        for name in ("triplet", "weighted", "agreement"):
            whole = fs.LabelModel(method=name, class_balance="uniform").fit_moments(fs.Moments.of(votes))
            parts = fs.LabelModel(method=name, class_balance="uniform")
            for start in range(0, 569, 200):
                parts.partial_fit(votes[start : start + 200])
            np.testing.assert_array_equal(parts.predict_proba(votes), whole.predict_proba(votes))

    def test_rows_that_were_used_are_reported(self):
        votes = fs.datasets.load_breast_cancer().votes
        assert fs.LabelModel().fit(votes).rows_used_ == "all"
        assert fs.LabelModel().fit(fs.VoteChunks([votes[:300], votes[300:]])).rows_used_ == "distinct"
        assert fs.LabelModel().fit_moments(fs.Moments.of(votes)).rows_used_ == "none"

    def test_an_unidentifiable_fit_leaves_the_model_as_it_was(self):
        votes = fs.datasets.load_breast_cancer().votes
        model = fs.LabelModel(method="triplet").fit(votes)
        before = model.accuracies_
        with pytest.raises(NotIdentifiableError):
            model.fit(votes.of_sources([0, 1]))
        assert model.accuracies_ is before


class TestClasses:
    def test_classes_are_declared_in_order(self):
        votes = [["b", "b", "a"], ["a", "b", "a"], ["b", None, "b"]]
        model = fs.LabelModel(classes=["b", "a", "c"]).fit(votes)
        assert model.classes_.tolist() == ["b", "a", "c"]
        read = fs.Votes.from_classes(votes, classes=["a", "b", "c"])
        assert fs.LabelModel(classes=["b", "a", "c"]).fit(read).classes_.tolist() == ["b", "a", "c"]

    def test_classes_and_n_classes_exclude_each_other(self):
        with pytest.raises(OptionError, match="n_classes"):
            fs.LabelModel(classes=[0, 1], n_classes=2).fit([[0, 1, 1]])


def test_the_floor_of_a_vote_that_was_never_seen_is_the_same_everywhere():
    """Two classes and three, with a graph and without."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2_000)
    votes = np.where(rng.random((2_000, 6)) < 0.8, y[:, None], 1 - y[:, None])
    votes[:, 5] = np.where(votes[:, 5] == 1, 1, -1)  # never votes for class 0
    unseen, seen = np.array([[-1, -1, -1, -1, -1, 0]]), np.array([[-1, -1, -1, -1, -1, -1]])
    graph = fs.DependencyGraph(6, source_edges=[(0, 1)])
    gaps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        for model in (
            fs.LabelModel(method="covariance").fit(votes),
            fs.LabelModel(graph, method="covariance").fit(votes),
            fs.LabelModel(method="agreement", n_classes=3).fit(votes),
        ):
            tables = np.asarray(model.confusion_)[5]
            silent = np.log(np.maximum(tables[:, -1], 1e-9))
            expected = np.log(np.maximum(tables[:, 0], 1e-9))
            gap = model.log_likelihood(unseen)[0] - model.log_likelihood(seen)[0]
            gaps.append((gap, expected.min() - silent.max(), expected.max() - silent.min()))
    for gap, low, high in gaps:
        assert low - 1e-6 <= gap <= high + 1e-6


@pytest.mark.parametrize("chunked", [False, True])
def test_a_learned_graph_that_cannot_be_counted_is_left_out(monkeypatch, chunked):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2_000)
    votes = np.where(rng.random((2_000, 6)) < 0.75, y[:, None], 1 - y[:, None]).astype(np.int8)
    votes[:, 1] = np.where(rng.random(2_000) < 0.6, votes[:, 0], votes[:, 1])
    original = fs.Moments.of

    def refuse_graphs(votes, graph=None, **options):
        if graph is not None:
            raise GraphError("the unit is too large.")
        return original(votes, graph, **options)

    monkeypatch.setattr(fs.Moments, "of", refuse_graphs)
    given = fs.VoteChunks([votes[:900], votes[900:]]) if chunked else votes
    with pytest.warns(SourceWarning, match="learned dependencies are left out: the unit is too large"):
        model = fs.LabelModel("learn").fit(given)
    assert model.moments_.graph is None


def test_gold_labels_of_a_task_are_counted_for_its_sources_and_its_neighbors():
    graph = fs.DependencyGraph.chain(3, 2)
    sample = fs.datasets.simulate_graph(60, graph, 0.8, coverage=0.7, random_state=0)
    gold = np.where(np.arange(60)[:, None] % 3 == 0, sample.y, -1)
    data = FitData(moments=fs.Moments.of(sample.votes, graph), votes=sample.votes, gold=gold)
    codes = np.asarray(sample.votes.codes)
    around = [0, 1, 2, 3], [0, 1, 2, 3, 4, 5], [2, 3, 4, 5]
    for task, sources in enumerate(around):
        found = data.gold_by_task[task]
        for at, source in enumerate(sources):
            for label in range(2):
                for vote in (0, 1, -1):
                    n = ((gold[:, task] == label) & (codes[:, source] == vote)).sum()
                    assert found.tables[at, label, vote] == n


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_a_graph_learned_from_chunks_is_counted_in_another_pass():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2_000)
    votes = np.where(rng.random((2_000, 6)) < 0.75, y[:, None], 1 - y[:, None]).astype(np.int8)
    votes[:, 1] = np.where(rng.random(2_000) < 0.6, votes[:, 0], votes[:, 1])
    chunks = fs.VoteChunks([votes[:900], votes[900:]])
    with use_limits(distinct_rows=5):
        model = fs.LabelModel("learn", method="covariance", class_balance=[0.5, 0.5]).fit(chunks)
    assert model.graph_.source_edges == ((0, 1),)
    assert model.moments_ == fs.Moments.of(votes, model.graph_)
