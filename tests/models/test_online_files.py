"""A stream that was saved and loaded continues as if it had not been interrupted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import ModelFileError, NotFittedError
from flyingsquid.files.state import State, read_state, write_state
from tests.models.test_online import CHAIN, PAIR, VOTES, many_votes
from tests.support.strategies import examples

STREAM = fs.datasets.simulate_drift(
    1_200, [0.9, 0.8, 0.7, 0.6, 0.7], [0.6, 0.8, 0.9, 0.7, 0.7], coverage=0.8, random_state=0
).votes.codes
WINDOWS = [{"window": 300}, {"window": "auto"}, {"decay": 0.99}]
step = st.tuples(
    st.integers(1, 120),  # items
    st.sampled_from(["update", "rows", "dicts"]),
    st.booleans(),  # save and load afterwards
    st.sampled_from([None, None, (0.3, 0.7), (0.6, 0.4)]),
)


def go_on(model, votes, how, balance):
    """Feed a stretch of the stream, and say everything that can be said afterwards."""
    if how == "update":
        return model.update(named(votes), balance)
    if balance is not None:
        model.update(named(votes[:1]), balance)
        votes = votes[1:]
    answers = []
    for row in votes:
        item = row if how == "rows" else dict(zip("abcde", row.tolist(), strict=True))
        model.learn_one(item)
        answers.append(list(model.predict_proba_one(item).values()))
    return np.array(answers)


def named(votes):
    return fs.Votes.from_classes(votes, names=list("abcde"), classes=(0, 1))


def assert_same(a, b):
    assert a.n_seen_ == b.n_seen_
    assert a.status_ == b.status_
    assert a.moments_ == b.moments_
    np.testing.assert_array_equal(a.predict_proba(named(STREAM[:50])), b.predict_proba(named(STREAM[:50])))
    for field in dataclasses.fields(a.history_):
        ours, theirs = getattr(a.history_, field.name), getattr(b.history_, field.name)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("window", WINDOWS, ids=str)
@given(steps=st.lists(step, min_size=1, max_size=6), refresh=st.sampled_from([5, 37, 400]))
@settings(examples(20), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_stream_that_is_interrupted_ends_the_same(window, steps, refresh, tmp_path):
    options = {**window, "refresh": refresh, "method": "triplet", "warm_up": 60}
    straight, broken = fs.OnlineLabelModel(**options), fs.OnlineLabelModel(**options)
    start = 0
    for size, how, is_saved, balance in steps:
        part = STREAM[start : start + size]
        start += len(part)
        if not len(part):
            break
        if not straight.n_seen_:
            how = "update"  # the first votes determine names and classes  # noqa: PLW2901
        np.testing.assert_array_equal(go_on(straight, part, how, balance), go_on(broken, part, how, balance))
        if is_saved:
            broken.save(tmp_path / "stream.fsq")
            broken = fs.load(tmp_path / "stream.fsq")
    assert_same(straight, broken)


SETTINGS = [
    ({"class_balance": [0.4, 0.6], "signs": {0: 1}}, VOTES),
    ({"graph": PAIR}, VOTES),
    ({"graph": CHAIN, "temper": "auto"},
     fs.datasets.simulate_graph(1_000, CHAIN, 0.8, random_state=0).votes.codes),
    ({"method": "auto", "new_classes": "add"}, many_votes()),
    ({"method": "agreement", "n_classes": 5}, many_votes()),
]  # fmt: skip


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize(("options", "votes"), SETTINGS, ids=range(len(SETTINGS)))
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_every_kind_of_stream_goes_on(options, votes, window, tmp_path):
    online = fs.OnlineLabelModel(**{"method": "triplet", **options, **window}).partial_fit(votes[:500])
    online.save(tmp_path / "a")
    again = fs.load(tmp_path / "a")
    again.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    np.testing.assert_array_equal(again.update(votes[500:900]), online.update(votes[500:900]))
    assert again.moments_ == online.moments_
    params, expected = (
        {name: np.asarray(v).tolist() if name == "class_balance" else str(v) for name, v in p.items()}
        for p in (again.get_params(), online.get_params())
    )
    assert params == expected


def test_before_the_first_parameters(tmp_path):
    online = fs.OnlineLabelModel(classes=["no", "yes"], new_sources="add")
    with pytest.raises(NotFittedError):
        online.save(tmp_path / "a")
    online.learn_one({"x": "no", "y": None})
    online.save(tmp_path / "a")
    again = fs.load(tmp_path / "a")
    assert again.status_ == online.status_ == "vote shares: 1 of 100 items to warm up"
    again.learn_one({"z": "yes"})
    assert again.source_names_ == ("x", "y", "z")


def test_a_balance_in_force_is_kept(tmp_path):
    online = fs.OnlineLabelModel(method="triplet")
    online.update(VOTES[:400], class_balance=[0.2, 0.8])
    online.save(tmp_path / "a")
    np.testing.assert_array_equal(fs.load(tmp_path / "a").update(VOTES[:9]), online.update(VOTES[:9]))


def damaged(state):
    """Every part of a state put wrong, one at a time."""
    for name, array in state.arrays.items():
        rest = {other: value for other, value in state.arrays.items() if other != name}
        yield name, State(state.kind, state.meta, rest)
        if name == "window.errors":  # any number of windows may have been tried
            continue
        yield (
            name,
            State(state.kind, state.meta, {**rest, name: np.append(array.ravel(), 7).astype(array.dtype)}),
        )
    for name in state.meta:
        for wrong in (None, "x", -1, [1.5]):
            if state.meta[name] != wrong and name not in ("reason", "graph", "last", "names"):
                yield name, State(state.kind, {**state.meta, name: wrong}, state.arrays)


@pytest.mark.parametrize("window", WINDOWS, ids=str)
def test_a_file_that_does_not_agree_with_itself_is_refused(window, tmp_path):
    online = fs.OnlineLabelModel(**window, method="triplet").partial_fit(named(VOTES[:350]))
    online.save(tmp_path / "good")
    refused = 0
    for name, state in damaged(read_state(tmp_path / "good")):
        write_state(tmp_path / "bad", state)
        try:
            fs.load(tmp_path / "bad")
        except ModelFileError:
            refused += 1
        else:
            pytest.fail(f"{name} was accepted")
    assert refused > 30
