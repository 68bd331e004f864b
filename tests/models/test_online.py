"""Streams: parameters of a batch over the window, labels from the first item on, and detection of drift."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import flyingsquid as fs
from flyingsquid.exceptions import (
    FlyingSquidError,
    GraphError,
    IncompatibleError,
    NotFittedError,
    OptionError,
    VotesError,
)
from tests.support.strategies import examples, fittable_votes

VOTES = fittable_votes(0, n_items=3_000)
BEFORE, AFTER = [0.9, 0.85, 0.8, 0.6, 0.6, 0.65, 0.7], [0.6, 0.6, 0.65, 0.9, 0.85, 0.8, 0.7]


def many_votes(n=2_100, m=5, k=4, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, k, n)
    right = rng.random((n, m)) < rng.uniform(0.6, 0.9, m)
    votes = np.where(right, y[:, None], rng.integers(0, k, (n, m)))
    return np.where(rng.random((n, m)) < 0.2, -1, votes).astype(np.int8)


def feed(model, votes, size=150):
    return np.concatenate([model.update(votes[t : t + size]) for t in range(0, len(votes), size)])


# ---------------------------------------------------------------------- the same as a batch

CHAIN = fs.DependencyGraph.chain(3, 4)
PAIR = fs.DependencyGraph(5, source_edges=[(0, 1)])
SETTINGS = [
    ({}, VOTES),
    ({"method": fs.solvers.Triplet("median"), "signs": {0: 1}}, VOTES),
    ({"method": "covariance"}, VOTES),
    ({"method": "agreement"}, VOTES),
    ({"class_balance": [0.4, 0.6], "method": "triplet"}, VOTES),
    ({"graph": PAIR, "method": "triplet"}, VOTES),
    ({"graph": CHAIN, "method": "triplet", "temper": "auto"},
     fs.datasets.simulate_graph(3_000, CHAIN, 0.8, random_state=0).votes.codes),
    ({}, many_votes()),
    ({"method": "one_vs_rest"}, many_votes()),
]  # fmt: skip


@pytest.mark.parametrize("window", [{"window": 700}, {"window": "auto"}, {"decay": 0.999}], ids=str)
@pytest.mark.parametrize(("options", "votes"), SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_parameters_are_those_of_a_batch_over_the_window(options, votes, window):
    online = fs.OnlineLabelModel(**window, **options, refresh=1)
    labels = feed(online, votes)
    batch = fs.LabelModel(**options)
    if "window" in window:
        last = votes[len(votes) - int(online.window_) :]
        assert online.moments_ == fs.Moments.of(last, options.get("graph"))
    batch.fit_moments(online.moments_)
    np.testing.assert_array_equal(online.accuracies_, batch.accuracies_)
    ours, theirs = online.predict_proba(votes[-150:]), batch.predict_proba(votes[-150:])
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(labels[-150:], ours)
    np.testing.assert_array_equal(online.predict(votes[-150:]), batch.predict(votes[-150:]))


@pytest.mark.parametrize(("options", "votes"), SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_one_item_is_labeled_as_in_a_chunk(options, votes):
    online = fs.OnlineLabelModel(window=500, **options).partial_fit(votes[:600])
    classes = online.classes_.tolist()
    for row, expected in zip(votes[:20], online.predict_proba(votes[:20]), strict=True):
        answer = online.predict_proba_one(row)
        if expected.ndim == 2:  # several tasks
            assert [list(each) for each in answer] == [classes] * len(expected)
            np.testing.assert_allclose([[*each.values()] for each in answer], expected, rtol=1e-12)
        else:
            assert list(answer) == classes
            np.testing.assert_allclose([*answer.values()], expected, rtol=1e-9, atol=1e-15)


@given(st.lists(st.integers(1, 300), min_size=1, max_size=8), st.booleans())
@examples(25)
def test_counts_do_not_depend_on_how_the_stream_was_cut(sizes, one_by_one):
    online, whole = (
        fs.OnlineLabelModel(window=400, method="triplet"),
        fs.OnlineLabelModel(window=400, method="triplet").partial_fit(VOTES[:1_000]),
    )
    start = 0
    while start < 1_000:
        part = VOTES[start : min(1_000, start + sizes[start % len(sizes)])]
        if one_by_one:
            for row in part:
                online.learn_one(row)
        else:
            online.update(part)
        start += len(part)
    assert online.moments_ == whole.moments_
    assert online.n_seen_ == whole.n_seen_ == 1_000


def test_rows_of_any_form_are_the_same_item():
    names = list("abcde")
    votes = fs.Votes.from_classes(VOTES, names=names)
    online = fs.OnlineLabelModel(window=300).partial_fit(votes[:500])
    row = VOTES[7]
    forms = [
        row, row.astype(np.int64), row.astype(float), row.tolist(), tuple(row.tolist()), VOTES[[7]],
        np.where(row < 0, np.nan, row), [None if v < 0 else int(v) for v in row],
        dict(zip(names, row.tolist(), strict=True)),
        {name: row.tolist()[names.index(name)] for name in reversed(names)},
        votes[[7]],
    ]  # fmt: skip
    before = online.moments_
    for form in forms:
        assert online.predict_proba_one(form) == pytest.approx(online.predict_proba_one(row))
        online.learn_one(form)
    whole = np.concatenate([VOTES[:500][len(forms) - 300 :], [row] * len(forms)])
    assert before != online.moments_ == fs.Moments.of(fs.Votes.from_classes(whole, names=names))


def test_text_classes_one_by_one():
    words = np.array(["ham", "spam"], object)
    online = fs.OnlineLabelModel(classes=["ham", "spam"], warm_up=50, window=500)
    for row in VOTES[:300]:
        online.learn_one([None if v < 0 else words[v] for v in row])
    codes = fs.Votes(VOTES[:300], ("ham", "spam"))
    assert online.moments_ == fs.Moments.of(codes)
    assert set(online.predict_proba_one(["ham"] * 5)) == {"ham", "spam"}
    assert online.predict([["ham"] * 5]).tolist() == ["ham"]


def test_signed_votes_are_read_by_name_only():
    signed = np.where(VOTES < 0, 0, 2 * VOTES - 1)
    online = fs.OnlineLabelModel().partial_fit(fs.Votes.from_signed(signed[:500]))
    assert online.moments_ == fs.Moments.of(fs.Votes.from_signed(signed[:500]))
    for wrong in (online.learn_one, online.predict_proba_one):
        with pytest.raises(VotesError, match="from_signed"):
            wrong(signed[0])
    assert set(online.predict_proba_one(fs.Votes.from_signed(signed[:1]))) == {-1, 1}


# ---------------------------------------------------------------------- refresh and warm start


def test_parameters_are_computed_every_so_many_items():
    online = fs.OnlineLabelModel(window=2_000, refresh=200).partial_fit(VOTES[:2_000])
    first, fitted = online.accuracies_.copy(), online.model_.fit_
    for row in VOTES[2_000:2_199]:
        online.learn_one(row)
    assert online.model_.fit_ is fitted
    np.testing.assert_array_equal(online.accuracies_, first)
    online.learn_one(VOTES[2_199])
    assert online.model_.fit_ is not fitted
    assert online.status_ == "parameters of item 2,200, from 2,000 items"


def test_parameters_are_kept_while_the_votes_do_not_change():
    stable = fs.datasets.simulate(6_000, [0.9, 0.8, 0.7, 0.7], random_state=0).votes
    changed = fs.datasets.simulate(1_000, [0.6, 0.8, 0.7, 0.9], random_state=1).votes
    online = fs.OnlineLabelModel(window=4_000).partial_fit(stable[:5_000])
    fitted, records = online.model_.fit_, len(online.history_.positions)
    online.partial_fit(stable[5_000:])
    assert online.model_.fit_ is fitted
    assert len(online.history_.positions) == records + 1
    online.partial_fit(changed)
    assert online.status_ == "parameters of item 7,000, from 4,000 items"
    with_gold = online.partial_fit(stable[:500], gold=[1] + [None] * 499).model_.fit_
    online.partial_fit(stable[:500])
    assert online.model_.fit_ is not with_gold


def test_labels_come_from_the_first_item_on():
    online = fs.OnlineLabelModel(warm_up=100, class_balance=[0.25, 0.75])
    assert online.status_ == "no votes yet"
    assert online.n_seen_ == online.window_ == 0
    shares = online.update([[1, 1, -1, 0, -1], [-1] * 5, [0, 0, 0, 0, 0]])
    # Two votes are added that fall as the balance says.
    np.testing.assert_allclose(shares[:, 1], [(2 + 1.5) / 5, 0.75, 1.5 / 7])
    assert online.status_ == "vote shares: 3 of 100 items to warm up"
    assert online.predict_proba_one([1, 1, -1, 0, -1])[1] == pytest.approx(3.5 / 5)
    with pytest.raises(NotFittedError, match="3 of 100"):
        _ = online.accuracies_
    assert len(online.history_) == 0
    labels = feed(online, VOTES[:200], 20)
    assert np.isfinite(labels).all()
    assert online.status_.startswith("parameters of item")


def test_votes_that_never_determine_anything_keep_their_shares():
    online = fs.OnlineLabelModel(window=300, method="triplet")
    labels = feed(online, VOTES[:1_000, :2])
    assert np.isfinite(labels).all()
    assert online.status_.startswith("vote shares: ")
    assert "three" in online.status_.lower()
    silent = fs.OnlineLabelModel(window=300)
    np.testing.assert_array_equal(feed(silent, np.full((500, 4), -1)), 0.5)


def test_the_last_parameters_hold_where_the_window_determines_none():
    online = fs.OnlineLabelModel(window=300, refresh=50).partial_fit(VOTES[:1_000])
    before = online.predict_proba(VOTES[:50])
    online.partial_fit(np.full((400, 5), -1))
    np.testing.assert_array_equal(online.predict_proba(VOTES[:50]), before)
    assert online.status_.startswith("parameters of item 1,000, from 300 items; since then: ")


def test_warm_start_of_a_chain_is_task_by_task():
    online = fs.OnlineLabelModel(graph=CHAIN)
    clip = np.full((1, 3, 4), -1)
    clip[0, 1] = 1
    p = online.update(clip)
    np.testing.assert_allclose(p[0, :, 1], [0.5, 5 / 6, 0.5])
    assert len(online.predict_proba_one(clip[0])) == 3
    online.learn_one(clip[0])
    assert online.n_seen_ == 2


def test_predicting_before_any_votes_is_refused():
    online = fs.OnlineLabelModel()
    for call in (online.predict_proba, online.predict_proba_one, online.predict):
        with pytest.raises(NotFittedError):
            call(VOTES[0])
    for name in ("moments_", "history_", "model_", "diagnostics_"):
        with pytest.raises(NotFittedError):
            getattr(online, name)


# ---------------------------------------------------------------------- class balances that vary


def test_a_balance_that_comes_with_the_votes_is_the_prior_of_its_chunk():
    rng = np.random.default_rng(0)
    parts = [
        fs.datasets.simulate(
            4_000, [0.85, 0.8, 0.75, 0.7], coverage=0.7, class_balance=[1 - p, p], random_state=rng
        )
        for p in (0.2, 0.8)
    ]
    online = fs.OnlineLabelModel(window=8_000, method="triplet")
    for part in parts:
        labels = online.update(part.votes, class_balance=part.class_balance)
    batch = fs.LabelModel(method="triplet", class_balance=[0.5, 0.5]).fit_moments(online.moments_)
    odds = labels[:, 1] / labels[:, 0]
    even = batch.predict_proba(parts[1].votes)
    np.testing.assert_allclose(odds, 4 * even[:, 1] / even[:, 0], rtol=1e-9)
    row = np.asarray(parts[1].votes.codes)[0]
    assert online.predict_proba_one(row)[1] == pytest.approx(labels[0, 1])
    # It holds until another one is given.
    np.testing.assert_allclose(online.predict_proba(parts[1].votes), labels)
    told = np.mean((labels[:, 1] > 0.5) == parts[1].y)
    assert told > np.mean((even[:, 1] > 0.5) == parts[1].y) + 0.005


def test_balances_of_tasks():
    clips = fs.datasets.simulate_graph(2_000, CHAIN, 0.8, random_state=0).votes
    online = fs.OnlineLabelModel(graph=CHAIN, method="triplet")
    online.update(clips, class_balance=[[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]])
    np.testing.assert_allclose(online.class_balance_, [[0.4, 0.6], [0.5, 0.5], [0.6, 0.4]])


@pytest.mark.parametrize("balance", [[0.5, 0.6], [0.2, 0.3, 0.5], "estimate", [0.0, 1.0]])
def test_invalid_balances_are_refused(balance):
    online = fs.OnlineLabelModel().partial_fit(VOTES[:300])
    with pytest.raises(FlyingSquidError):
        online.update(VOTES[:10], class_balance=balance)
    assert online.n_seen_ == 300
    fresh = fs.OnlineLabelModel()
    with pytest.raises(FlyingSquidError):
        fresh.update(VOTES[:10], class_balance=balance)
    assert fresh.status_ == "no votes yet"
    assert fresh.update(np.array([["a", "b", "a"]])).shape == (1, 2)


# ---------------------------------------------------------------------- what is new in mid-stream


def named(codes, names):
    return fs.Votes.from_classes(codes, names=list(names), classes=(0, 1))


def test_a_new_source_is_refused_by_name():
    online = fs.OnlineLabelModel().partial_fit(named(VOTES[:300], "abcde"))
    with pytest.raises(IncompatibleError, match="'f'"):
        online.update(named(VOTES[:10], "abcdf"))
    with pytest.raises(IncompatibleError, match="5"):
        online.update(VOTES[:10, :4])
    with pytest.raises(IncompatibleError, match="sources"):
        online.learn_one(dict.fromkeys("abcdef", 1))
    assert online.n_seen_ == 300


@pytest.mark.parametrize("window", [{"window": 400}, {"window": "auto"}, {"decay": 0.999}], ids=str)
def test_a_new_source_is_added_and_never_mistaken(window):
    online = fs.OnlineLabelModel(**window, new_sources="add", refresh=1)
    online.update(named(VOTES[:500, :4], "abcd"))
    assert online.update(named(VOTES[500:800][:, [4, 2, 0, 1]], "ecab")).shape == (300, 2)  # d is away
    assert online.source_names_ == tuple("abcde")
    full = VOTES[:800].copy()
    full[:500, 4] = full[500:, 3] = -1
    always = fs.OnlineLabelModel(**window).partial_fit(named(full[:500], "abcde"))
    always.partial_fit(named(full[500:], "abcde"))
    assert online.moments_ == always.moments_
    np.testing.assert_array_equal(online.predict_proba(named(VOTES[:9], "abcde")),
                                  online.predict_proba(named(VOTES[:9, ::-1], "edcba")))  # fmt: skip
    online.learn_one({"a": 1, "zoe": 0})
    assert online.source_names_ == (*"abcde", "zoe")
    assert np.isnan(online.history_.accuracies[0, 5])
    away = VOTES[:9].copy()
    away[:, 3:] = -1
    np.testing.assert_array_equal(online.predict_proba(named(VOTES[:9, :3], "abc")),
                                  online.predict_proba(named(away, "abcde")))  # fmt: skip
    with pytest.raises(IncompatibleError, match="'max'"):
        online.predict_proba(named(VOTES[:9], ["a", "b", "c", "d", "max"]))


def test_a_new_source_without_names_is_always_refused():
    online = fs.OnlineLabelModel(new_sources="add").partial_fit(VOTES[:300])
    with pytest.raises(IncompatibleError, match="names"):
        online.update(np.column_stack([VOTES[:10], VOTES[:10, 0]]))


def test_a_new_class_is_refused_by_default():
    online = fs.OnlineLabelModel().partial_fit(VOTES[:300])
    for call, votes in ((online.update, [[0, 1, 2, 0, 0]]), (online.learn_one, [0, 1, 2, 0, 0])):
        with pytest.raises(VotesError, match=r"source 2.*got 2"):
            call(votes)
    with pytest.raises(VotesError, match="got 2"):
        online.predict_proba_one(np.array([0, 1, 2, 0, 0]))
    with pytest.raises(IncompatibleError, match="'x'"):
        online.update(fs.Votes(VOTES[:5], ("x", "y")))
    assert online.n_seen_ == 300


@pytest.mark.parametrize("window", [{"window": 900}, {"decay": 0.999}, {"window": "auto"}], ids=str)
def test_a_new_class_is_added_at_the_end(window):
    votes = many_votes(k=4)
    first = np.where(votes > 1, -1, votes)[:500]
    online = fs.OnlineLabelModel(**window, new_classes="add", refresh=1, method="agreement")
    assert online.update(first).shape == (500, 2)
    assert online.update(votes[500:800]).shape == (300, 4)
    always = fs.OnlineLabelModel(**window, n_classes=4, method="agreement")
    always.partial_fit(first).partial_fit(votes[500:800])
    if "decay" in window:  # another kernel, another rounding
        ours, theirs = online.moments_.pair_counts, always.moments_.pair_counts
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    else:
        assert online.moments_ == always.moments_
    online.learn_one([0, 5, -1, -1, 1])  # 4 is a class by now too
    assert online.classes_.tolist() == [0, 1, 2, 3, 4, 5]


def test_new_classes_of_strings_and_of_votes():
    online = fs.OnlineLabelModel(classes=["cat", "dog"], new_classes="add", warm_up=0)
    online.update([["cat", "dog", None]])
    online.update([["yak", "yak", "emu"]])
    online.learn_one(["ape", None, "cat"])
    assert online.classes_.tolist() == ["cat", "dog", "emu", "yak", "ape"]
    online.update(fs.Votes(np.array([[0, 1, 0]], np.int8), ("yak", "bee")))
    assert online.classes_.tolist()[-1] == "bee"
    assert online.moments_.vote_counts[:, 3].tolist() == [2, 1, 1]


def test_a_method_of_two_classes_refuses_a_third_before_anything_is_learned():
    online = fs.OnlineLabelModel(new_classes="add", method="triplet").partial_fit(VOTES[:300])
    with pytest.raises(OptionError, match="two classes"):
        online.update([[0, 1, 2, 0, 0]])
    assert online.n_seen_ == 300
    assert online.classes_.tolist() == [0, 1]
    online.update(VOTES[:10])


def test_a_graph_takes_nothing_new():
    online = fs.OnlineLabelModel(graph=PAIR, new_sources="add", new_classes="add")
    online.partial_fit(named(VOTES[:300], "abcde"))
    with pytest.raises(GraphError, match="new source"):
        online.update(named(VOTES[:5], "abcdf"))
    with pytest.raises(GraphError, match="new class"):
        online.update(fs.Votes.from_classes([[0, 1, 2, 0, 0]], names=list("abcde")))


def test_a_stream_labels_all_tasks_together():
    graph = fs.DependencyGraph.chain(3, 3)
    votes = fs.datasets.simulate_graph(2_000, graph, 0.65, random_state=0).votes
    online = fs.OnlineLabelModel(2_000, graph=graph, warm_up=0, refresh=2_000).partial_fit(votes)
    together = online.predict(votes, joint=True)
    np.testing.assert_array_equal(together, online.model_.predict(votes, joint=True))
    assert together.shape == (2_000, 3)
    assert (together != online.predict(votes)).any()


# ---------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": 0}, "`window`.*got 0"),
        ({"window": "all"}, "`window`.*got 'all'"),
        ({"window": 10.5}, "`window`"),
        ({"decay": 1.0}, "`decay`.*got 1.0"),
        ({"decay": 0.9, "window": "auto"}, "choose one"),
        ({"refresh": 0}, "`refresh`.*got 0"),
        ({"warm_up": -1}, "`warm_up`.*got -1"),
        ({"new_sources": "maybe"}, "`new_sources`"),
        ({"new_classes": "maybe"}, "`new_classes`"),
        ({"n_classes": 2, "classes": [0, 1]}, "one of them"),
        ({"n_classes": 1}, "`n_classes`.*got 1"),
        ({"classes": ["a"]}, "classes"),
        ({"method": "em"}, "needs all items"),
        ({"method": "best"}, "`method`.*got 'best'"),
        ({"class_balance": "estimate"}, "estimate"),
        ({"graph": "learn"}, "learn"),
        ({"signs": {9: 1}}, "9"),
        ({"graph": fs.DependencyGraph(3)}, "`votes` must"),
    ],
)
def test_options_are_refused_before_anything_is_learned(options, words):
    online = fs.OnlineLabelModel(**options)
    with pytest.raises(FlyingSquidError, match=words):
        online.update(VOTES[:300])
    assert online.n_seen_ == 0


@pytest.mark.parametrize("window", [{"window": 400}, {"window": "auto"}, {"decay": 0.999}], ids=str)
def test_pickled_streams_continue(window):
    online = fs.OnlineLabelModel(**window).partial_fit(VOTES[:900])
    again = pickle.loads(pickle.dumps(online))
    np.testing.assert_array_equal(again.update(VOTES[900:]), online.update(VOTES[900:]))
    assert again.predict_proba_one(VOTES[0]) == online.predict_proba_one(VOTES[0])


def test_scikit_learn_conventions():
    online = fs.OnlineLabelModel("auto", refresh=7, new_classes="add")
    assert clone(online).get_params() == online.get_params()
    online.set_params(window=50)
    online.partial_fit(VOTES[:500], y=None)
    assert clone(online).n_seen_ == 0
    assert 0.5 < online.score(VOTES[:500], online.predict(VOTES[:500])) <= 1
    assert "source 0" in str(online.summary())
    assert online.explain(VOTES[0]).predicted in (0, 1)
    assert online.diagnostics_.method
    assert online.confusion_.shape == (5, 2, 3)
    assert online.coverage_.shape == (5,)
    assert online.accuracies_interval_.shape == (5, 2)


# ---------------------------------------------------------------------- drift


def accuracy(model, stream, size=250):
    labels = feed(model, np.asarray(stream.votes.codes), size)
    return np.mean((labels[:, 1] > 0.5) == stream.y)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "sudden", "gradual", "periodic"])
def test_the_window_of_its_own_choice_is_nearly_the_best_one(kind):
    stream = fs.datasets.simulate_drift(
        20_000, BEFORE, AFTER, kind=kind, period=5_000, coverage=0.8, random_state=0
    )
    options = {"method": "triplet", "refresh": 250}
    best = max(
        accuracy(fs.OnlineLabelModel(w, **options), stream) for w in (500, 1_000, 2_000, 4_000, 20_000)
    )
    assert accuracy(fs.OnlineLabelModel("auto", **options), stream) > best - 0.01


def test_the_window_shrinks_soon_after_a_sudden_change():
    stream = fs.datasets.simulate_drift(24_000, BEFORE, AFTER, random_state=0)
    online = fs.OnlineLabelModel("auto", method="triplet")
    feed(online, np.asarray(stream.votes.codes)[:12_000])
    assert online.window_ > 4_000
    online.update(stream.votes[12_000:14_000])
    assert online.window_ <= 2_000


@pytest.mark.slow
def test_changes_of_sources_are_found_and_reported():
    stream = fs.datasets.simulate_drift(
        30_000, [0.86, 0.8, 0.75, 0.7, 0.7], [0.61, 0.8, 0.75, 0.7, 0.7], random_state=3
    )
    for options in ({"window": 2_000}, {"window": "auto"}, {"decay": 0.999}):
        online = fs.OnlineLabelModel(**options, method="triplet", refresh=250)
        feed(online, np.asarray(stream.votes.codes), 250)
        (change,) = online.changes()
        assert change.source == "source 0"
        assert change.position == pytest.approx(15_000, abs=1_000)
        assert str(change).startswith("source 0 fell from .8")
        assert change.after == pytest.approx(0.61, abs=0.03)


@pytest.mark.slow
def test_the_history_is_bounded_and_reaches_back_to_the_beginning():
    online = fs.OnlineLabelModel(window=100, refresh=25, method="triplet")
    votes = np.tile(VOTES, (7, 1))
    for start in range(0, len(votes), 25):
        online.update(votes[start : start + 25])
    history = online.history_
    assert 256 < len(history) <= 512
    assert history.positions[0] <= 1_000
    assert history.positions[-1] > len(votes) - 100
    assert (np.diff(history.positions) > 0).all()
    assert history.intervals.shape == (len(history), 5, 2)
    assert (history.windows == 100).mean() > 0.9


def test_errors_about_new_sources_name_the_option_of_the_stream():
    online = fs.OnlineLabelModel()
    online.update(fs.Votes.from_classes([[0, 1, 1], [1, 1, 0]], names=["a", "b", "c"]))
    later = fs.Votes.from_classes([[0, 1, 1], [1, 1, 0]], names=["a", "b", "d"])
    with pytest.raises(fs.exceptions.IncompatibleError, match="new_sources"):
        online.update(later)
    fs.OnlineLabelModel(new_sources="add").update(later)
