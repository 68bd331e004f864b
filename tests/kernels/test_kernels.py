"""Compiled loops and NumPy count the same integers and give the same labels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import flyingsquid as fs
from flyingsquid import kernels as dispatch
from flyingsquid._limits import use_limits
from flyingsquid.inference.posterior import binary_posterior
from flyingsquid.kernels import (
    binary_labels,
    histogram,
    kernels_for,
    look_up,
    n_threads,
    pair_counts,
)
from flyingsquid.moments import counting
from flyingsquid.votes.patterns import n_patterns, packed_chunks
from tests.support.strategies import examples


@pytest.fixture
def small():
    """Compiled loops for inputs of any size."""
    pytest.importorskip("numba")
    with use_limits(compiled_cells=0):
        yield


@st.composite
def codes_and_classes(draw, most_sources=9):
    n_classes = draw(st.integers(2, 4))
    shape = (draw(st.integers(1, 300)), draw(st.integers(1, most_sources)))
    seed, least = draw(st.integers(0, 2**16)), draw(st.sampled_from([-1, -4]))
    codes = (
        np.random.default_rng(seed)
        .integers(least, n_classes, shape)
        .astype(draw(st.sampled_from(["i1", "i8"])))
    )
    return (np.asfortranarray(codes) if draw(st.booleans()) else codes), n_classes


def one_hot_pairs(codes, n_classes):
    """The definition: an outer product for every item."""
    hot = np.stack([codes == v for v in range(n_classes)], axis=1).reshape(len(codes), -1).astype(np.float64)
    return (hot.T @ hot).astype(np.int64)


@pytest.mark.slow
@pytest.mark.extra
@examples(60)
@given(codes_and_classes())
def test_common_bits_are_pairs_of_votes(drawn):
    pytest.importorskip("numba")
    codes, n_classes = drawn
    kernels = dispatch._compiled("bits")
    np.testing.assert_array_equal(pair_counts(kernels, codes, n_classes), one_hot_pairs(codes, n_classes))


@pytest.mark.extra
@examples(60)
@given(codes_and_classes(most_sources=6))
def test_patterns_are_numbered_as_numpy_numbers_them(drawn):
    pytest.importorskip("numba")
    codes, n_classes = drawn
    kernels, size = dispatch._compiled("patterns"), n_patterns(codes.shape[1], n_classes)
    numbers = np.concatenate([part for _, part in packed_chunks(codes, n_classes)])
    expected = np.bincount(numbers, minlength=size)
    np.testing.assert_array_equal(histogram(kernels, codes, n_classes, size), expected)
    for dtype, width in ((np.float64, 2), (np.float32, 3)):
        table = np.random.default_rng(0).random((size, 1, width)).astype(dtype)
        answer = np.empty((len(codes), 1, width), dtype)
        look_up(kernels, codes, n_classes, table, answer)
        np.testing.assert_array_equal(answer, table[numbers])


@pytest.mark.extra
@examples(40)
@given(
    arrays(np.int8, st.tuples(st.integers(1, 100), st.integers(1, 70)), elements=st.integers(-4, 1)),
    st.floats(-3, 3),
)
def test_labels_of_one_loop_are_those_of_numpy(codes, offset):
    pytest.importorskip("numba")
    weights = np.random.default_rng(0).normal(size=(codes.shape[1], 3)) * 3
    prior = np.array([1.0, np.exp(offset)]) / (1 + np.exp(offset))
    expected = binary_posterior(codes, prior, weights)[:, 0]
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 1e-6)):
        answer = np.empty((len(codes), 2), dtype)
        binary_labels(dispatch._compiled("labels"), codes, weights, offset, answer)
        np.testing.assert_allclose(answer, expected, rtol=tolerance)


@pytest.mark.parametrize("fast", [False, True])
def test_no_votes_and_votes_that_cancel_give_exactly_the_prior(fast, monkeypatch):
    if fast:
        pytest.importorskip("numba")
    monkeypatch.setenv("FLYINGSQUID_FAST", "1" if fast else "0")
    odds = np.random.default_rng(0).normal(size=20)
    weights = np.repeat(np.column_stack([-odds, odds, 0.3 * odds]), 2, axis=0)  # every source twice
    silent = np.full((1, 40), -1, np.int8)
    opposed = np.tile(np.array([0, 1], np.int8), (1, 20))
    lone = np.where(np.arange(40) < 2, opposed, -1).astype(np.int8)
    even = np.array([0.5, 0.5])
    without = weights.copy()
    without[:, 2] = 0.0
    alone = 1 / (1 + np.exp(-weights[:, 2].sum()))
    with use_limits(compiled_cells=0):
        for rows in (silent, lone):
            assert binary_posterior(rows, even, without)[0, 0].tolist() == [0.5, 0.5]
        np.testing.assert_allclose(binary_posterior(opposed, even, without)[0, 0], 0.5, rtol=1e-14)
        assert binary_posterior(silent, even, weights)[0, 0, 1] == pytest.approx(alone, rel=1e-15)


@pytest.mark.extra
@pytest.mark.parametrize(
    "shape",
    [
        (700, 60), (5_000, 3), (40_000, 7), pytest.param((20_000, 30), marks=pytest.mark.slow),
        pytest.param((300, 600), marks=pytest.mark.slow),
    ],
)  # fmt: skip
@pytest.mark.parametrize("n_classes", [2, 3])
def test_all_kernels_give_the_same_counts_and_labels(small, monkeypatch, shape, n_classes):
    votes = np.random.default_rng(0).integers(-1, n_classes, shape, dtype=np.int8)
    for threads in ("1", "3"):
        monkeypatch.setenv("FLYINGSQUID_THREADS", threads)
        monkeypatch.delenv("FLYINGSQUID_FAST", raising=False)
        fast = fs.Moments.of(votes)
        model = fs.LabelModel(method="agreement").fit_moments(fast)
        labels = model.predict_proba(votes), model.predict_proba(votes, dtype=np.float32)
        monkeypatch.setenv("FLYINGSQUID_FAST", "0")
        assert fs.Moments.of(votes) == fast
        np.testing.assert_allclose(labels[0], model.predict_proba(votes), rtol=1e-11)
        np.testing.assert_array_equal(labels[1], labels[0].astype(np.float32))
    weighted = fs.Moments.of(votes, sample_weight=np.ones(len(votes), int))
    assert weighted == fast
    by_definition = one_hot_pairs(votes, n_classes).reshape(n_classes, shape[1], n_classes, shape[1])
    np.testing.assert_array_equal(fast.pair_counts, by_definition.transpose(0, 2, 1, 3))


@pytest.mark.extra
@pytest.mark.parametrize("counter_bytes", [1, 300_000, 1 << 28])
def test_threads_are_limited_by_the_memory_of_their_counters(small, monkeypatch, counter_bytes):
    votes = np.random.default_rng(0).integers(-1, 2, (40_000, 70), dtype=np.int8)
    monkeypatch.setenv("FLYINGSQUID_THREADS", "4")
    monkeypatch.setattr(dispatch, "_COUNTER_BYTES", counter_bytes)
    counts = dispatch.pair_counts(dispatch._compiled("bits"), votes, 2)
    np.testing.assert_array_equal(counts, one_hot_pairs(votes, 2))


@pytest.mark.extra
def test_units_of_dependent_sources_count_the_same(small, monkeypatch):
    graph = fs.DependencyGraph(14, source_edges=[(0, 1), (1, 2)])
    votes = np.random.default_rng(0).integers(-1, 2, (3_000, 14), dtype=np.int8)
    fast = fs.Moments.of(votes, graph)
    monkeypatch.setenv("FLYINGSQUID_FAST", "0")
    assert fs.Moments.of(votes, graph) == fast


@pytest.mark.slow
@pytest.mark.extra
@pytest.mark.parametrize("m", [3, 30])
def test_arrays_that_cannot_be_written_to(small, tmp_path, m):
    votes = np.random.default_rng(0).integers(-1, 2, (3_000, m), dtype=np.int8)
    np.save(tmp_path / "votes.npy", votes)
    mapped = np.load(tmp_path / "votes.npy", mmap_mode="r")
    assert fs.Moments.of(mapped) == fs.Moments.of(votes)
    weights, prior = np.random.default_rng(0).normal(size=(m, 3)), np.array([0.3, 0.7])
    np.testing.assert_array_equal(
        binary_posterior(mapped, prior, weights), binary_posterior(votes, prior, weights)
    )


@pytest.mark.system
def test_few_votes_and_the_switch_do_not_import_numba():
    code = """
import os, sys, numpy as np, flyingsquid as fs
votes = np.random.default_rng(0).integers(-1, 2, (2_000, 30), dtype=np.int8)
fs.LabelModel(method="triplet").fit(votes).predict_proba(votes)
os.environ["FLYINGSQUID_FAST"] = "0"
fs.Moments.of(np.tile(votes, (100, 1)))
print("numba" in sys.modules)
"""
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"


@pytest.mark.parametrize("fault", ["absent", "broken", "wrong"])
def test_what_cannot_be_compiled_is_done_by_numpy(monkeypatch, caplog, fault):
    def broken(name):
        if fault == "absent":
            raise ModuleNotFoundError(name)
        if fault == "broken":
            raise RuntimeError("no compiler here")
        return type("Module", (), {"CHECKS": dict.fromkeys(("bits", "patterns", "labels"), lambda: False)})

    monkeypatch.setattr(dispatch, "import_module", broken)
    dispatch._compiled.cache_clear()
    try:
        votes = np.random.default_rng(0).integers(-1, 2, (200, 20), dtype=np.int8)
        with use_limits(compiled_cells=0), caplog.at_level("DEBUG", "flyingsquid.kernels"):
            assert kernels_for(votes, 2, "bits") is None
            counts = fs.Moments.of(votes).pair_counts
        assert "NumPy is used" in caplog.text
        np.testing.assert_array_equal(counts, counting._by_gram(votes, 2, None).astype(np.int64))
    finally:
        dispatch._compiled.cache_clear()


@pytest.mark.extra
def test_without_a_place_on_disk_code_is_compiled_again(monkeypatch):
    pytest.importorskip("numba")
    from flyingsquid.kernels import compiled

    def njit(**options):
        def decorate(function):
            if options.get("cache"):
                raise RuntimeError("cannot cache function: no locator available")
            return function

        return decorate

    monkeypatch.setattr(compiled, "njit", njit)
    assert compiled._compile(fastmath=True)(len) is len


def test_threads_are_those_of_blas_or_as_asked(monkeypatch):
    threadpoolctl = pytest.importorskip("threadpoolctl")
    monkeypatch.delenv("FLYINGSQUID_THREADS", raising=False)
    with threadpoolctl.threadpool_limits(1):
        assert n_threads() == 1
    monkeypatch.setenv("FLYINGSQUID_THREADS", "5")
    assert n_threads() == 5
    for nonsense in ("0", "-2", "many"):
        monkeypatch.setenv("FLYINGSQUID_THREADS", nonsense)
        assert n_threads() >= 1


def test_codes_wider_than_a_byte_are_left_to_numpy(small):
    assert kernels_for(np.zeros((5, 5), np.int16), 200, "bits") is None


def test_sparse_looking_votes_are_found_by_a_sample():
    votes = np.full((20_000, 100), -1, np.int8)
    assert counting._are_few(votes)
    votes[:, :50] = 1
    assert not counting._are_few(votes)


def test_numpy_labels_many_items_by_several_threads(monkeypatch):
    monkeypatch.setenv("FLYINGSQUID_FAST", "0")
    votes = np.random.default_rng(0).integers(-1, 2, (10_000, 40), dtype=np.int8)  # several blocks
    weights, prior = np.random.default_rng(0).normal(size=(40, 3)), np.array([0.3, 0.7])
    expected = binary_posterior(votes, prior, weights)
    for threads in ("1", "3"):
        monkeypatch.setenv("FLYINGSQUID_THREADS", threads)
        with use_limits(compiled_cells=0):
            np.testing.assert_allclose(binary_posterior(votes, prior, weights), expected, rtol=1e-13)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(
    ("m", "n_classes"), [(1, 2), (3, 2), (12, 2), (13, 2), (19, 2), (20, 2), (4, 40), (5, 120)]
)
def test_rows_are_numbers_whatever_their_layout(order, m, n_classes):
    """The definition, digit by digit, for all ways in which rows are packed."""
    rng = np.random.default_rng(m)
    codes = rng.integers(-4, n_classes, (70_000, m)).astype(np.int16 if n_classes > 100 else np.int8)
    packed = np.concatenate([part for _, part in packed_chunks(np.asarray(codes, order=order), n_classes)])
    digits = np.maximum(codes, -1).astype(object) + 1
    expected = sum(digits[:, j] * (n_classes + 1) ** j for j in range(m))
    np.testing.assert_array_equal(packed, expected.astype(np.intp))
