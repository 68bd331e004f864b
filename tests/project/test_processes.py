"""Threads, processes, interrupts, repetition and leaks: a model gives the same results in all of them."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import SourceWarning
from tests.support.strategies import fittable_votes

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.system

SRC = str(Path(fs.__file__).parents[1])
VOTES = fittable_votes(0)
MODELS = {
    "auto": fs.LabelModel,
    "triplet": lambda: fs.LabelModel(method="triplet"),
    "covariance": lambda: fs.LabelModel(method="covariance"),
    "graph": lambda: fs.LabelModel(fs.DependencyGraph(5, source_edges=[(0, 1)])),
    "majority": fs.MajorityVote,
    "sequence": fs.SequenceLabelModel,
}


def state_of(model) -> bytes:
    """The complete state of a model, as bytes."""
    return pickle.dumps({k: v for k, v in model.__getstate__().items() if k != "_passes"})


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_threads_share_one_fitted_model(make):
    model = make().fit(VOTES)
    chunks = [fittable_votes(seed, n_items=50) for seed in range(16)]
    serial = [model.predict_proba(chunk) for chunk in chunks]
    with ThreadPoolExecutor(8) as pool:
        shared = list(pool.map(model.predict_proba, chunks * 3))
    for got, want in zip(shared, serial * 3, strict=True):
        assert np.array_equal(got, want)


def test_threads_can_read_lazy_attributes_of_one_model():
    alone = fs.LabelModel(method="triplet").fit(VOTES).accuracies_interval_
    model = fs.LabelModel(method="triplet").fit(VOTES)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: (model.accuracies_interval_, str(model.diagnostics_)), range(16)))
    assert all(np.array_equal(interval, alone) and text == found[0][1] for interval, text in found)


@pytest.mark.parametrize("name", ["auto", "triplet", "majority", "sequence"])
def test_fits_in_threads_equal_fits_one_after_the_other(name):
    matrices = [fittable_votes(seed) for seed in range(8)]
    serial = [MODELS[name]().fit(votes).predict_proba(votes) for votes in matrices]
    with ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(lambda votes: MODELS[name]().fit(votes).predict_proba(votes), matrices))
    for got, want in zip(parallel, serial, strict=True):
        assert np.array_equal(got, want)


def _noisy_fits(seed: int) -> None:
    """Fits that have something to say about sources, quietly, as streams and many labels do it."""
    votes = np.column_stack([fittable_votes(seed), np.full(400, -1, np.int8)])
    fs.OnlineLabelModel(method="triplet", warm_up=10).update(votes)
    fs.LabelModel().fit(votes[:, :5], gold=votes[:, 0])
    heard = fs.MultiLabelModel(fs.LabelModel(method="triplet"))
    with pytest.raises(SourceWarning, match="label 'a'"):  # warnings are errors here
        heard.fit({"a": votes})


def test_fits_in_threads_leave_the_warning_filters_alone():
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(_noisy_fits, range(24)))
    assert list(warnings.filters) == before
    with pytest.warns(SourceWarning):
        fs.LabelModel(method="triplet").fit(np.column_stack([VOTES, np.full(400, -1, np.int8)]))


@pytest.fixture
def frequent_switches():
    """Threads that take turns after every few instructions, so that a race shows."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


ADDING = {
    "online window": (lambda: fs.OnlineLabelModel(500, method="triplet"), "update"),
    "online auto": (lambda: fs.OnlineLabelModel("auto"), "update"),
    "online decay": (lambda: fs.OnlineLabelModel(decay=0.99), "partial_fit"),
    "label model": (lambda: fs.LabelModel(method="triplet"), "partial_fit"),
    "sequences": (lambda: fs.SequenceLabelModel(method="triplet"), "partial_fit"),
    "majority": (fs.MajorityVote, "partial_fit"),
}


@pytest.mark.usefixtures("frequent_switches")
@pytest.mark.parametrize(("make", "add"), ADDING.values(), ids=ADDING)
def test_votes_that_threads_add_to_one_model_are_all_counted(make, add):
    """While other threads label, save and look at it."""
    model, chunks = make(), [fittable_votes(seed, n_items=40) for seed in range(64)]
    getattr(model, add)(VOTES)

    def work(number):
        getattr(model, add)(chunks[number])
        labels = model.predict_proba(VOTES[:5])
        pickle.loads(pickle.dumps(model))
        return np.isfinite(labels).all() and np.allclose(labels.sum(axis=-1), 1)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))
    counted = model.n_seen_ if hasattr(model, "n_seen_") else _items_of(model)
    assert counted == 400 + 64 * 40


def _items_of(model) -> float:
    moments = getattr(model, "moments_", None)
    if moments is None:
        return model._counted[1].n_items
    return getattr(moments, "rows", moments).n_items


@pytest.mark.usefixtures("frequent_switches")
def test_single_items_in_threads_are_all_counted():
    model = fs.OnlineLabelModel(5_000, method="triplet").partial_fit(VOTES)
    rows = np.tile(VOTES, (8, 1))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda row: model.learn_one(row).predict_proba_one(row), rows))
    assert model.n_seen_ == 400 + len(rows)
    assert model.moments_ == fs.Moments.of(np.concatenate([VOTES, rows]))
    assert all(abs(sum(each.values()) - 1) < 1e-9 for each in found)


@pytest.mark.usefixtures("frequent_switches")
def test_sources_that_threads_add_are_all_there():
    model = fs.OnlineLabelModel(new_sources="add", classes=(0, 1))

    def work(number):
        model.update(pd.DataFrame({"a": [0, 1], f"s{number}": [1, 0]}))
        return model.predict_proba(pd.DataFrame({"a": [0, 1]})).shape

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(24))) == {(2, 2)}
    assert sorted(model.source_names_) == sorted(["a", *(f"s{n}" for n in range(24))])


# ---------------------------------------------------------------------- processes


def _predict(model, votes):
    return model.predict_proba(votes)


@pytest.mark.system
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_a_fitted_model_works_in_other_processes(way):
    models = [
        fs.LabelModel().fit(VOTES),
        fs.LabelModel(method="covariance").fit(VOTES),
        fs.MajorityVote().fit(VOTES),
    ]
    large = np.tile(VOTES, (60, 1))  # large enough for compiled loops, where there are any
    want = [model.predict_proba(large) for model in models]
    with multiprocessing.get_context(way).Pool(2) as pool:
        got = pool.starmap(_predict, [(model, large) for model in models])
    assert all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))


# ---------------------------------------------------------------------- interrupts


class Interrupter:
    """Raise KeyboardInterrupt at the n-th line that the library runs."""

    def __init__(self, after: int) -> None:
        self.left = after

    def __call__(self, frame, event, arg):
        if SRC not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return self


def interrupted(work, after: int) -> bool:
    """Return whether ``work`` was interrupted before it was done."""
    before = sys.gettrace()
    sys.settrace(Interrupter(after))
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def lines_of(work) -> int:
    counter = Interrupter(10**9)
    before = sys.gettrace()
    sys.settrace(counter)
    try:
        work()
    finally:
        sys.settrace(before)
    return 10**9 - counter.left


OTHER = fittable_votes(1)
FITS = {
    "auto": (fs.LabelModel, "fit"),
    "covariance": (lambda: fs.LabelModel(method="covariance"), "fit"),
    "weighted": (lambda: fs.LabelModel(method="weighted"), "fit"),
    "many": (lambda: fs.LabelModel(n_classes=3), "fit"),
    "added": (lambda: fs.LabelModel(method="triplet"), "partial_fit"),
    "majority": (fs.MajorityVote, "fit"),
    "sequence": (fs.SequenceLabelModel, "fit"),
    "sequence added": (fs.SequenceLabelModel, "partial_fit"),
    "labels": (lambda: fs.MultiLabelModel(fs.LabelModel(method="triplet")), "fit"),
}


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize("begun", [False, True], ids=["unfitted", "fitted"])
def test_an_interrupted_fit_leaves_the_model_as_it_was(name, begun):
    make, method = FITS[name]
    first, second = ({"a": VOTES}, {"a": OTHER}) if name == "labels" else (VOTES, OTHER)
    getattr(make(), method)(second)  # fills caches, so that every later fit has the same lines
    reference = make()
    if begun:
        reference.fit(first)
    n_lines = lines_of(lambda: getattr(reference, method)(second))
    after = state_of(reference)
    model = make()
    if begun:
        model.fit(first)
    before = state_of(model)
    rng = np.random.default_rng(0)
    points = [*rng.integers(0, n_lines, 12), n_lines - 2, n_lines - 3, n_lines - 5]
    for point in points:
        if interrupted(partial(getattr(model, method), second), int(point)):
            assert state_of(model) in (before, after), f"half of a fit was kept, interrupted at line {point}"
            if state_of(model) == after:
                model = make()
                if begun:
                    model.fit(first)
    getattr(model, method)(second)
    assert state_of(model) == after


@pytest.mark.parametrize("options", [{"window": 300}, {"decay": 0.99}, {"window": "auto"}], ids=str)
def test_an_interrupted_update_of_a_stream_leaves_it_as_it_was(options, tmp_path):
    def begun():
        online = fs.OnlineLabelModel(method="triplet", refresh=50, **options)
        online.update(VOTES)
        return online

    def kept(online):
        online.save(tmp_path / "m.fsq")
        return (tmp_path / "m.fsq").read_bytes()

    reference = begun()
    before = kept(reference)
    n_lines = lines_of(lambda: reference.update(OTHER))
    after = kept(reference)
    rng = np.random.default_rng(0)
    for point in [*rng.integers(0, n_lines, 12), n_lines - 2, n_lines - 4]:
        online = begun()
        if interrupted(partial(online.update, OTHER), int(point)):
            assert kept(online) in (before, after), (
                f"half of a chunk was learned, interrupted at line {point}"
            )


# ---------------------------------------------------------------------- the same again


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_the_same_votes_give_the_same_bits(make):
    first, second = (make().fit(VOTES) for _ in range(2))
    assert state_of(first) == state_of(second)
    assert np.array_equal(first.predict_proba(OTHER), second.predict_proba(OTHER))


@pytest.mark.parametrize("size", [1, 7, 64, 399])
def test_chunks_of_any_size_give_the_same_counts_and_labels(size):
    chunks = fs.VoteChunks([VOTES[i : i + size] for i in range(0, len(VOTES), size)], classes=[0, 1])
    whole = fs.Moments.of(VOTES)
    assert fs.Moments.of(chunks) == whole
    one, other = (
        fs.LabelModel(method="triplet").fit(VOTES),
        fs.LabelModel(method="triplet").fit(chunks),
    )
    assert np.array_equal(one.accuracies_, other.accuracies_)
    labels = np.concatenate(list(other.predict_proba(chunks)))
    # BLAS may add up a single row in another order than many.
    np.testing.assert_allclose(labels, one.predict_proba(VOTES), rtol=0, atol=1e-15)


SCRIPT = """
import hashlib, sys
import numpy as np
import flyingsquid as fs
rng = np.random.default_rng(0)
y = rng.integers(0, 2, 60_000)
votes = np.where(rng.random((60_000, 8)) < 0.75, y[:, None], 1 - y[:, None]).astype(np.int8)
model = fs.LabelModel(method="covariance").fit(votes)
np.save(sys.argv[1], np.concatenate([model.accuracies_, model.predict_proba(votes)[:, 1]]))
print(hashlib.sha256(np.ascontiguousarray(model.moments_.pair_counts).tobytes()).hexdigest())
"""


@pytest.mark.system
def test_threads_of_blas_and_of_compiled_loops_change_nothing(tmp_path):
    """Counts to the last integer; labels within 1e-12."""
    answers, marks = [], set()
    for threads in ("1", "4"):
        names = ("FLYINGSQUID_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        env = os.environ | dict.fromkeys(names, threads) | {"PYTHONPATH": SRC}
        target = tmp_path / f"{threads}.npy"
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, target], env=env, capture_output=True, text=True, check=True
        )
        marks.add(done.stdout)
        answers.append(np.load(target))
    assert len(marks) == 1
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-12)


# ---------------------------------------------------------------------- leaks


def _grown(n_fits: int) -> int:
    """Bytes that fits leave behind."""
    votes = VOTES[:60]

    def fit() -> None:
        model = fs.LabelModel(method="triplet").fit(votes)
        model.predict_proba(votes)
        fs.MajorityVote().fit(votes)

    for _ in range(20):
        fit()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(n_fits):
            fit()
        gc.collect()
        return tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_hundreds_of_fits_leave_nothing_behind():
    assert _grown(200) < 100_000  # 500 bytes per fit would be one array of each


@pytest.mark.slow
def test_thousands_of_fits_leave_nothing_behind():
    assert _grown(2_000) < 200_000
