"""One strategy for each public entry point: it makes the call and checks the result."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

import flyingsquid as fs
from tests.fuzz.values import good_codes, made, matrices, one_of_these, values

Draw = Callable[[Any], Any]
GRAPHS = [
    None,
    None,
    fs.DependencyGraph(4),
    fs.DependencyGraph(4, source_edges=[(0, 1)]),
    fs.DependencyGraph(6, source_edges=[(0, 1), (2, 3)]),
    fs.DependencyGraph.chain(2, 3),
    "learn",
]
METHODS = [
    "auto", "auto", "triplet", "marginal", "covariance", "quadratic", "agreement", "em", "decomposition",
    "weighted", "one_vs_rest", fs.solvers.Triplet("median"), fs.solvers.Triplet("best"),
    fs.solvers.Triplet("best", triplets=[(0, 1, 2)]), fs.solvers.Triplet("best", [("s0", "s1", "s2")]),
    fs.solvers.Triplet(screen=0), fs.solvers.Triplet(cliques="linear"), fs.solvers.Quadratic(screen=3.5),
    fs.solvers.Marginal(cliques="linear"), fs.solvers.OneVsRest("covariance"),
    fs.solvers.OneVsRest(fs.solvers.Triplet("median", screen=3.5)),
]  # fmt: skip
BALANCES = [
    None,
    None,
    "uniform",
    "estimate",
    [0.3, 0.7],
    [0.001, 0.999],
    [0.2, 0.3, 0.5],
    [1.0, 0.0],
    np.ones((2, 2)) / 4,
]
LABEL_MODEL: dict[str, list[Any]] = {
    "graph": GRAPHS,
    "method": METHODS,
    "class_balance": BALANCES,
    "classes": [None, None, None, [0, 1], [0, 1, 2], ["a", "b"]],
    "n_classes": [None, None, 2, 3, 5],
    "signs": ["average", "average", {0: 1}, {"s0": -1}, {0: 1, "s0": 1}],
    "temper": [None, None, "auto", 0.5],
}
SEQUENCE = {name: LABEL_MODEL[name] for name in ("method", "class_balance", "signs", "temper")}
ONLINE = {name: LABEL_MODEL[name] for name in ("graph", "method", "class_balance", "signs", "n_classes")} | {
    "window": [10, 50, 10_000, "auto"],
    "decay": [None, None, 0.9],
    "refresh": [None, 1, 20],
    "warm_up": [0, 5, 100],
    "classes": [None, None, [0, 1], [0, 1, 2], ["a", "b"]],
    "new_sources": ["error", "add"],
    "new_classes": ["error", "add"],
}  # fmt: skip


def options(draw: Draw, known: dict[str, list[Any]], most: int = 3) -> dict[str, Any]:
    """A few options of an estimator, mostly with values that it knows."""
    names = draw(st.lists(st.sampled_from(sorted(known)), max_size=most, unique=True))
    return {name: draw(one_of_these(known[name])) for name in names}


def check_posterior(posterior: Any, n_classes: int) -> None:
    """Probabilities: in [0, 1], never NaN, with the sum 1."""
    if isinstance(posterior, Iterator):
        for part in posterior:
            check_posterior(part, n_classes)
        return
    assert isinstance(posterior, np.ndarray)
    assert posterior.shape[-1] == n_classes, posterior.shape
    assert np.isfinite(posterior).all(), "a posterior holds NaN"
    assert posterior.min(initial=0) >= 0
    np.testing.assert_allclose(posterior.sum(axis=-1), 1, rtol=0, atol=1e-5)


def check_labels(labels: Any, known: set[Any]) -> None:
    """Classes, or what stands for none."""
    parts = labels if isinstance(labels, Iterator) else [labels]
    for part in parts:
        assert set(np.asarray(part).ravel().tolist()) <= known | {-1, 0, None}


def _weights(draw: Draw, n: int) -> Any:
    good = [
        None,
        None,
        2,
        np.ones(n),
        np.arange(n),
        np.full(n, 0.5),
        np.full(n, 10**9),
        [1] * n,
        np.zeros(n),
        np.full(n, 1e15),
    ]
    return draw(one_of_these(good))


def _gold(draw: Draw, n: int) -> Any:
    rng = np.random.default_rng(0)
    known = rng.integers(0, 2, n)
    good = [
        None,
        None,
        known,
        np.where(rng.random(n) < 0.5, known, -1),
        known.tolist(),
        known.astype(float),
        [None] * n,
        known[:-1],
    ]
    return draw(one_of_these(good))


def _use(draw: Draw, model: Any, votes: Any, codes: np.ndarray) -> None:
    """Everything that a fitted estimator can be asked."""
    n_classes = len(model.classes_)
    known = set(model.classes_.tolist())
    again = codes if isinstance(votes, Iterator) else [votes, codes, codes[:1]][draw(st.integers(0, 2))]
    further = draw(matrices(codes)) if draw(st.booleans()) else again
    what = draw(st.integers(0, 6))
    if what == 0:
        keywords = draw(
            st.sampled_from(
                [
                    {},
                    {},
                    {"dtype": "f4"},
                    {"dtype": "i4"},
                    {"dtype": object()},
                    {"out": 3},
                    {"out": np.zeros(2)},
                ]
            )
        )
        if isinstance(model, fs.SequenceLabelModel):
            keywords = {
                "lengths": draw(one_of_these([None, [len(codes)], [1] * len(codes), [0], [-1, 3], 10**30]))
            }
        check_posterior(model.predict_proba(further, **keywords), n_classes)
    elif what == 1:
        keywords = {
            "tie_break": draw(one_of_these(["first", "abstain", "random"])),
            "random_state": draw(one_of_these([0, np.random.default_rng(0), None])),
        }
        if isinstance(model, fs.SequenceLabelModel):
            keywords = {"joint": draw(st.booleans())}
        check_labels(model.predict(further, **keywords), known)
    elif what == 2:
        n = len(codes)
        score = model.score(further, _gold(draw, n))
        assert 0 <= score <= 1
    elif what == 3 and hasattr(model, "explain"):
        row = draw(
            st.one_of(
                st.just(codes[0]),
                values(),
                st.just(codes[0].tolist()),
                st.just({"s0": 1}),
                st.just(codes[:1]),
            )
        )
        said = model.explain(row)
        assert repr(said)
    elif what == 4:
        assert repr(model.summary())
        model.summary().to_dict()
        assert repr(model)
        for name in ("diagnostics_", "accuracies_interval_"):
            if hasattr(type(model), name):
                assert repr(getattr(model, name))
    elif what == 5:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.fsq"
            model.save(path)
            before = model.predict_proba(codes)
            assert np.array_equal(_loaded(path).predict_proba(codes), before)
    elif hasattr(model, "partial_fit"):
        model.partial_fit(further)
        check_posterior(model.predict_proba(codes), len(model.classes_))


def label_model(draw: Draw) -> None:
    codes = draw(good_codes())
    votes = draw(matrices(codes))
    model = fs.LabelModel(**options(draw, LABEL_MODEL))
    model.fit(votes, gold=_gold(draw, len(codes)), sample_weight=_weights(draw, len(codes)))
    _use(draw, model, votes, codes)


def good_label_model(draw: Draw) -> None:
    """Options that go together more often, so that the inner parts are reached."""
    codes = draw(good_codes(n_sources=draw(st.sampled_from([3, 4, 6]))))
    method = draw(st.sampled_from(METHODS))
    chosen: dict[str, Any] = {"method": method}
    graph = draw(st.sampled_from(GRAPHS))
    if not isinstance(graph, fs.DependencyGraph) or graph.n_sources == codes.shape[1]:
        chosen["graph"] = graph
    chosen["class_balance"] = draw(st.sampled_from(BALANCES))
    model = fs.LabelModel(**chosen).fit(
        codes, gold=_gold(draw, len(codes)), sample_weight=_weights(draw, len(codes))
    )
    check_posterior(model.predict_proba(codes), len(model.classes_))
    for _ in range(3):
        _use(draw, model, codes, codes)


def majority_vote(draw: Draw) -> None:
    codes = draw(good_codes())
    votes = draw(matrices(codes))
    model = fs.MajorityVote().fit(votes, sample_weight=_weights(draw, len(codes)))
    _use(draw, model, votes, codes)


def sequence_model(draw: Draw) -> None:
    codes = draw(good_codes())
    votes = draw(st.one_of(st.just(codes), matrices(codes)))
    n = len(codes)
    lengths = draw(
        one_of_these(
            [
                None,
                None,
                [n],
                [1] * n,
                [n - 1, 1],
                [n, 1],
                [0, n],
                [-1, n + 1],
                np.array([n], "u8"),
                [float(n)],
            ]
        )
    )
    model = fs.SequenceLabelModel(**options(draw, SEQUENCE, 2)).fit(votes, lengths)
    _use(draw, model, votes, codes)


def online_model(draw: Draw) -> None:
    codes = draw(good_codes())
    model = fs.OnlineLabelModel(**options(draw, ONLINE))
    for _ in range(draw(st.integers(1, 3))):
        votes = draw(st.one_of(st.just(codes), matrices(codes)))
        balance = draw(one_of_these([None, None, None, [0.3, 0.7], [0.5, 0.5, 0.0]]))
        check_posterior(model.update(votes, balance), len(model.classes_))
    row = draw(
        st.one_of(st.just(codes[0]), values(), st.just(codes[0].tolist()), st.just({"s0": 1, "s1": 0}))
    )
    if draw(st.booleans()):
        model.learn_one(row)
    answer = model.predict_proba_one(row)
    for each in answer if isinstance(answer, list) else [answer]:
        assert abs(sum(each.values()) - 1) < 1e-9
    assert model.status_
    assert repr(model.history_)
    _use(draw, model, codes, codes)


def multi_label_model(draw: Draw) -> None:
    codes = draw(good_codes(n_classes=2))
    by_label = {"a": draw(matrices(codes)), "b": codes}
    stacked = np.stack([codes, codes], axis=2)
    votes = draw(
        one_of_these(
            [
                by_label,
                {"a": codes, "b": codes},
                stacked,
                stacked.astype(">f8"),
                stacked[:0],
                stacked[..., :0],
                {},
            ],
            odds=8,
        )
    )
    inner = draw(
        one_of_these(
            [
                None,
                fs.MajorityVote(),
                fs.LabelModel(method="weighted"),
                {"a": fs.MajorityVote(), "b": None},
                fs.LabelModel,
            ]
        )
    )
    model = fs.MultiLabelModel(
        inner,
        labels=draw(one_of_these([None, None, ["a", "b"], ["a", "a"]])),
        on_failure=draw(one_of_these(["raise", "majority"])),
    )
    model.fit(
        votes,
        gold=draw(one_of_these([None, None, np.zeros((len(codes), 2)), {"a": [0] * len(codes)}])),
        sample_weight=_weights(draw, len(codes)),
    )
    applies = model.predict_proba(votes)
    assert ((applies >= 0) & (applies <= 1)).all()
    assert set(np.unique(model.predict(votes))) <= {0, 1}
    assert repr(model.summary())
    model.score(votes, draw(one_of_these([np.zeros(applies.shape, int), {"a": [1] * len(codes)}])))
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "m.fsq")
        assert np.array_equal(_loaded(Path(folder) / "m.fsq").predict_proba(votes), applies)


def votes_from_classes(draw: Draw) -> None:
    codes = draw(good_codes())
    votes = fs.Votes.from_classes(
        draw(matrices(codes)),
        draw(one_of_these([-1, -1, None, 0, "a", float("nan")])),
        draw(one_of_these([None, None, [0, 1], range(9), ["a", "b"], [0], [0, 0]])),
        draw(one_of_these([None, None, [f"s{i}" for i in range(codes.shape[1])]])),
        reasons=draw(one_of_these([None, None, {7: "refused"}, {"a": "failed"}, {7: "nope"}])),
    )
    _use_votes(draw, votes)


def votes_from_others(draw: Draw) -> None:
    codes = draw(good_codes())
    given = draw(matrices(codes))
    how = draw(st.integers(0, 4))
    classes = draw(one_of_these([None, None, [0, 1], range(9), ["a", "b"]]))
    names = draw(one_of_these([None, None, [f"s{i}" for i in range(codes.shape[1])]]))
    if how == 0:
        votes = fs.Votes.from_signed(given, names)
    elif how == 1:
        votes = fs.Votes.from_frame(
            given, draw(one_of_these([None, None, ["s0"], ["s0", "s0"], ["nope"], []])), classes=classes
        )
    elif how == 2:
        votes = fs.Votes.from_sparse(given, classes=classes, names=names)
    elif how == 3:
        thresholds = draw(
            one_of_these([None, 0.5, (0.2, 0.8), (0.8, 0.2), [0.5] * codes.shape[1], float("nan"), {"s0": 1}])
        )
        bins = draw(
            one_of_these(
                [None, None, None, [0.5, 1.5], [1.5, 0.5], [], [[0.5]] * codes.shape[1], [float("inf")]]
            )
        )
        votes = fs.Votes.from_scores(given, thresholds, bins, classes=classes, names=names)
    else:
        votes = fs.Votes(given, classes, names)
    _use_votes(draw, votes)


def votes_from_long(draw: Draw) -> None:
    n = draw(st.sampled_from([0, 1, 3, 30]))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    columns: list[Any] = [
        rng.integers(0, 8, n).astype(object),
        rng.integers(0, 4, n).astype(object),
        rng.integers(0, 2, n).astype(object),
    ]
    for column in columns:
        if n and draw(st.integers(0, 3)) == 0:
            column[0] = draw(values())
    given = [draw(st.sampled_from([c, c, c.tolist(), c[:-1], c[:, None]])) for c in columns]
    given = [draw(one_of_these([c], odds=12)) for c in given]
    votes = fs.Votes.from_long(
        given[0],
        given[1],
        given[2],
        duplicates=draw(one_of_these(["error", "first", "last", "majority"])),
        classes=draw(one_of_these([None, [0, 1]])),
        names=draw(one_of_these([None, None, [0, 1, 2, 3]])),
    )
    _use_votes(draw, votes)


def _use_votes(draw: Draw, votes: fs.Votes) -> None:
    assert repr(votes)
    assert votes.n_votes <= votes.n_items * votes.n_sources
    assert (
        sum(c.sum() for c in votes.missing_counts().values())
        == votes.n_items * votes.n_sources - votes.n_votes
    )
    votes.to_dense()
    votes.distinct()
    what = draw(st.integers(0, 3))
    if what == 0:
        votes[draw(one_of_these([slice(0, 1), [0], [-1], [10**9], np.ones(votes.n_items, bool), ...]))]
    elif what == 1:
        votes.matched_to(
            draw(one_of_these([votes.classes, votes.classes[::-1]])), draw(one_of_these([None, votes.names]))
        )
    elif what == 2:
        votes.of_sources(draw(one_of_these([[0], ["s0"], [0, 0], []])))


def moments(draw: Draw) -> None:
    codes = draw(good_codes())
    given = draw(matrices(codes))
    counted = fs.Moments.of(given, draw(one_of_these(GRAPHS)), sample_weight=_weights(draw, len(codes)))
    assert repr(counted)
    assert counted.n_items >= 0
    other = draw(one_of_these([counted, fs.Moments.of(codes)]))
    how = draw(st.integers(0, 3))
    if how == 0:
        try:
            both = counted + other
        except TypeError:
            assert not isinstance(other, fs.Moments)
        else:
            assert both - other == counted or not both.is_exact
    elif how == 1:
        assert not isinstance(other, fs.Moments) or (counted == other) in (True, False)
    elif how == 2:
        fs.LabelModel().fit_moments(draw(one_of_these([counted])))
    else:
        fs.SequenceMoments.of(given, draw(one_of_these([None, [len(codes)]])))


def structure_and_summary(draw: Draw) -> None:
    codes = draw(good_codes())
    given = draw(st.one_of(st.just(codes), matrices(codes)))
    if draw(st.booleans()):
        learned = fs.learn_structure(
            given,
            significance=draw(one_of_these([0.05, 0, 1, 1.0, 1e-300])),
            max_edges=draw(one_of_these([None, 0, 2, -1])),
            sample_weight=_weights(draw, len(codes)),
        )
        assert repr(learned)
    else:
        model = draw(one_of_these([None, None, fs.LabelModel(), _fitted(), fs.LabelModel]))
        assert repr(fs.summarize(given, _gold(draw, len(codes)), model=model))


def _fitted() -> fs.MajorityVote:
    return fs.MajorityVote().fit([[0, 1, 1, 0], [1, 1, 0, 0]])


def report(draw: Draw) -> None:
    codes = draw(good_codes())
    given = draw(st.one_of(st.just(codes), st.just(codes), matrices(codes)))
    n = len(codes)
    text = fs.report(
        given,
        _gold(draw, n),
        model=draw(one_of_these([None, None, fs.LabelModel(), _fitted()])),
        data=draw(
            one_of_these([None, None, [f"<{i}>" for i in range(n)], [{"text": "a"}] * n, [None] * n, ["a"]])
        ),
        title=draw(one_of_these(["a", "<script>"])),
        ordered=draw(one_of_these([False, True])),
        task=draw(one_of_these([None, None, 0])),
    )
    assert text.startswith("<!DOCTYPE html>")
    assert "<script>" not in text.partition("<h1>")[2].partition("</h1>")[0]


def graph(draw: Draw) -> None:
    small = [1, 2, 3, 4, 6, 0, -1, 1_000]
    pair = st.lists(st.one_of(st.integers(-1, 6), values()), min_size=1, max_size=3)
    edges = draw(st.one_of(st.just(()), st.lists(pair, max_size=4), values()))
    how = draw(st.integers(0, 2))
    if how == 0:
        built = fs.DependencyGraph(
            draw(one_of_these(small)),
            draw(one_of_these([1, 1, 2, 3])),
            source_task=draw(one_of_these([None, None, [0, 0, 1, 1]])),
            source_edges=edges,
        )
    elif how == 1:
        built = fs.DependencyGraph.chain(
            draw(one_of_these(small[:7])), draw(one_of_these([*small[:7], [1, 2]])), edges
        )
    else:
        built = fs.DependencyGraph.grid(
            draw(one_of_these(small)), draw(one_of_these(small[:7])), draw(one_of_these(small[:7]))
        )
    assert built.describe()
    assert fs.DependencyGraph.from_dict(built.to_dict()) == built


def graph_as_data(draw: Draw) -> None:
    plain = fs.DependencyGraph(4, source_edges=[(0, 1)]).to_dict()
    name = draw(st.sampled_from(sorted(plain)))
    how = draw(st.integers(0, 3))
    if how == 0:
        fs.DependencyGraph.from_dict(plain | {name: draw(values())})
    elif how == 1:
        fs.DependencyGraph.from_dict(draw(values()))
    else:
        fs.DependencyGraph.from_json(
            draw(st.one_of(values(), st.sampled_from(["{}", "[]", '{"n_sources": 1e999}', "[" * 9000])))
        )


def chunks(draw: Draw) -> None:
    codes = draw(good_codes())
    source = draw(
        one_of_these(
            [
                codes,
                [codes, codes],
                iter([codes]),
                lambda: iter([codes]),
                [codes, codes[:, :1]],
                [],
                [codes[:0]],
                (codes,),
                {1: 2},
            ]
        )
    )
    made_of = fs.VoteChunks(
        source,
        classes=draw(one_of_these([None, None, [0, 1], range(6)])),
        names=draw(one_of_these([None, None, ["a", "b"]])),
    )
    assert repr(made_of)
    model = draw(st.sampled_from([fs.MajorityVote(), fs.LabelModel()]))
    model.fit(made_of)
    check_posterior(model.predict_proba(made_of), len(model.classes_))


def training(draw: Draw) -> None:
    codes = draw(good_codes())
    n = len(codes)
    features = draw(
        one_of_these(
            [
                np.zeros((n, 2)),
                np.random.default_rng(0).normal(size=(n, 2)),
                np.zeros((n + 1, 2)),
                [[0.0]] * n,
            ]
        )
    )
    if draw(st.booleans()):
        proba = draw(
            one_of_these(
                [
                    np.full((n, 2), 0.5),
                    np.eye(2)[np.zeros(n, int)],
                    np.full((n, 2), np.nan),
                    [[0.5, 0.5]] * n,
                    np.ones((n, 2)),
                ]
            )
        )
        chosen = fs.to_training_set(
            features,
            proba,
            min_confidence=draw(one_of_these([0.0, 0.5, 1])),
            drop_uncovered=draw(st.booleans()),
            votes=draw(st.one_of(st.just(codes), matrices(codes))),
            classes=draw(one_of_these([None, None, ["a", "b"]])),
        )
        chosen.expanded()
        chosen.hard()
        return
    votes = draw(st.one_of(st.just(codes), matrices(codes)))
    model = fs.WeaklySupervisedClassifier(
        draw(one_of_these([LogisticRegression()], odds=8)),
        draw(one_of_these([None, fs.MajorityVote()], odds=8)),
        labels=draw(one_of_these(["soft", "hard"])),
        min_confidence=draw(one_of_these([0.0, 0.6])),
    )
    given = np.random.default_rng(1).normal(size=(n, 2))
    try:
        model.fit(given, votes, gold=_gold(draw, n))
    except ValueError as error:  # what the end model refuses is its own to say
        if isinstance(error, fs.FlyingSquidError) or "at least 2 classes" not in str(error):
            raise
        return
    check_posterior(model.predict_proba(given), len(model.classes_))


def labeling(draw: Draw) -> None:
    returned = [draw(one_of_these([0, 1, fs.ABSTAIN, None])) for _ in range(3)]
    functions = [_says(value, f"f{i}") for i, value in enumerate(returned)]
    given = draw(
        one_of_these([functions, functions, functions[:1], [], [functions[0]] * 2, functions[0]], odds=8)
    )
    data = draw(
        one_of_these(
            [
                ["x", "y"],
                [{"text": "x"}],
                [],
                np.arange(4),
                iter(["x"]),
                draw(made(np.zeros((2, 2), np.int8))),
            ]
        )
    )
    votes = fs.apply(
        given,
        data,
        on_error=draw(one_of_these(["raise", "abstain"])),
        classes=draw(one_of_these([None, None, [0, 1], ["a", "b"]])),
        chunk=draw(one_of_these([None, None, 1])),
        n_jobs=draw(st.sampled_from([1, 1, 0, 1.5, "a", None])),
    )
    _use_votes(draw, votes)


def _says(value: Any, name: str) -> Any:
    def function(_: Any) -> Any:
        return value

    return fs.labeling_function(name=name)(function)


def _loaded(path: Path) -> Any:
    return fs.load(path)


def loading(draw: Draw) -> None:
    fs.load(draw(values()))


CALLS: list[Callable[[Draw], None]] = [
    label_model, good_label_model, good_label_model, majority_vote, sequence_model, online_model, multi_label_model,
    votes_from_classes, votes_from_others, votes_from_long, moments, structure_and_summary, report, graph, graph_as_data,
    chunks, training, labeling, loading,
]  # fmt: skip
