"""Rolling, decayed and dyadic counts: equal to a batch over the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.models._stream import StreamBalances
from flyingsquid.moments.adaptive import DyadicCounts, agreeing_parts, dispersion_of
from flyingsquid.moments.counting import CountPlan
from flyingsquid.moments.windows import DecayedCounts, Layout, RollingCounts
from tests.support.strategies import examples

GRAPHS = {
    "none": None,
    "dependent": fs.DependencyGraph(6, source_edges=[(0, 1)]),
    "chain": fs.DependencyGraph.chain(2, 3),
}


def rows(seed, n, m=4, k=2, least=-4):
    return np.random.default_rng(seed).integers(least, k, (n, m)).astype(np.int8)


def layout(m=4, k=2, graph=None):
    return Layout(CountPlan.all_pairs(m) if graph is None else CountPlan.of(graph), tuple(range(k)))


def batch(codes, k=2, graph=None, **weights):
    return fs.Moments.of(fs.Votes(codes, tuple(range(k))), graph, **weights)


def feed(window, codes, sizes, singles=False):
    """Feed rows in chunks of the given sizes, over and over; chunks of one also row by row."""
    start, at = 0, 0
    while start < len(codes):
        size = sizes[at % len(sizes)]
        part = codes[start : start + size]
        if size == 1 and singles:
            window.append(part[0])
        else:
            window.extend(part)
        start, at = start + size, at + 1
        yield start


chunks = st.lists(st.integers(1, 60), min_size=1, max_size=6)


@given(st.integers(0, 99), st.integers(1, 150), chunks, st.integers(1, 90), st.sampled_from([2, 3]))
def test_rolling_counts_are_the_batch_counts_of_the_last_rows(seed, n, sizes, width, k):
    codes, window = rows(seed, n, k=k), RollingCounts(layout(k=k), width)
    for reached in feed(window, codes, sizes, singles=True):
        stop = min(reached, n)
        assert window.moments() == batch(codes[max(0, stop - width) : stop], k)
        assert window.n_items == min(stop, width)


@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
def test_rolling_counts_on_a_graph(graph):
    codes, window = rows(0, 5000, m=6), RollingCounts(layout(6, graph=graph), 700)
    for stop in feed(window, codes, [1, 350, 20, 1999]):
        assert window.moments() == batch(codes[max(0, min(stop, 5000) - 700) : stop], graph=graph)


def test_rolling_counts_are_exact_after_a_million_rows():
    """Random chunk sizes, counts asked for at random moments only, single rows among them."""
    rng = np.random.default_rng(0)
    codes, window = rows(1, 1_000_000, m=5, least=-1), RollingCounts(layout(5), 10_000)
    start = 0
    while start < len(codes):
        size = int(rng.choice([1, 7, 100, 1_000, 25_000], p=[0.3, 0.2, 0.2, 0.2, 0.1]))
        window.append(codes[start]) if size == 1 else window.extend(codes[start : start + size])
        start += size
        if rng.random() < 0.02:
            assert window.moments() == batch(codes[max(0, window.n_seen - 10_000) : window.n_seen])
    assert window.moments() == batch(codes[-10_000:])


def test_waiting_rows_are_counted_before_they_are_overwritten():
    codes, window = rows(0, 9_000, least=-1), RollingCounts(layout(), 50)
    for row in codes:
        window.append(row)
    assert window.moments() == batch(codes[-50:])


@given(st.integers(0, 99), st.integers(1, 700), chunks, st.sampled_from([0.5, 0.99, 0.999]))
@examples(40)
def test_decayed_counts_weigh_rows_by_their_age(seed, n, sizes, decay):
    codes, window = rows(seed, n), DecayedCounts(layout(), decay)
    for _ in feed(window, codes, sizes, singles=True):
        pass
    weights = decay ** np.arange(n - 1, -1, -1.0)
    ours = window.moments()
    expected = np.einsum("n,na,nb->ab", weights, codes == 1, codes == 1)
    np.testing.assert_allclose(ours.pair_counts[1, 1], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.missing[:, 0], weights @ (codes == -2), rtol=1e-9, atol=1e-12)
    assert ours.n_items == pytest.approx(window.n_items) == pytest.approx(weights.sum())


@given(st.integers(0, 99), chunks)
@examples(25)
def test_decayed_counts_do_not_depend_on_chunks_or_on_being_asked(seed, sizes):
    codes = rows(seed, 600)
    one, other = DecayedCounts(layout(), 0.99), DecayedCounts(layout(), 0.99)
    one.extend(codes)
    for _ in feed(other, codes, sizes, singles=True):
        other.counts()
    assert one.moments() == other.moments()


@given(st.integers(1, 3_000), chunks)
@examples(25)
def test_dyadic_parts_add_up_and_are_few(n, sizes):
    codes, window = rows(0, n, least=-1), DyadicCounts(layout(), block=10)
    for _ in feed(window, codes, sizes, singles=True):
        pass
    last = n - int(window.n_items)
    assert window.moments() == batch(codes[last:])
    assert len(window.sizes) <= 3 * (np.log2(max(n / 10, 1)) + 2)
    assert window.sizes == sorted(window.sizes, reverse=True)
    whole = DyadicCounts(layout(), block=10)
    whole.extend(codes)
    assert whole.sizes == window.sizes
    assert whole.moments() == window.moments()


def two_worlds(seed, n=10_000, m=6):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 2 * n)
    right = rng.random((2 * n, m)) < np.where(np.arange(2 * n)[:, None] < n, 0.85, [0.6, 0.85] * (m // 2))
    return np.where(right, y[:, None], 1 - y[:, None]).astype(np.int8)


def test_an_adaptive_window_forgets_what_was_before_a_change():
    codes, window = two_worlds(0), DyadicCounts(layout(6))
    window.extend(codes[:10_000])
    assert window.forgotten == 0
    assert window.n_items > 2_000
    window.extend(codes[10_000:12_000])
    assert window.forgotten > 0
    assert window.urgent
    assert window.n_items <= 2_000


@pytest.mark.slow
def test_votes_that_never_change_are_seldom_forgotten():
    forgotten = 0
    for seed in range(20):
        window = DyadicCounts(layout(6))
        window.extend(two_worlds(seed, 20_000)[:20_000])
        forgotten += window.forgotten
    assert forgotten <= 1  # stated: 5% of windows, by a bound


def test_rows_that_stick_together_do_not_look_like_a_change():
    """Frames of a scene repeat: without the dispersion of blocks every scene would be a change."""
    codes = np.repeat(two_worlds(1, 500)[:500], 40, axis=0)
    window = DyadicCounts(layout(6))
    window.extend(codes)
    assert window.dispersion > 5
    assert window.forgotten <= 1


def test_the_change_test_controls_its_errors():
    """Four parts of one population, many statistics: a difference in far fewer than 5% of trials."""
    rng = np.random.default_rng(0)
    sizes = np.array([100.0, 100, 200, 800])
    cut = 0
    for _ in range(400):
        hits = rng.binomial(sizes.astype(int)[:, None], np.linspace(0.02, 0.98, 40)).astype(float)
        cut += agreeing_parts(sizes, hits) < 4
    assert cut <= 0.05 * 400
    hits = rng.binomial(100, 0.3, (2, 2000)).astype(float)
    assert dispersion_of(hits[0], hits[1], 100, 100) == pytest.approx(1, abs=0.1)
    assert dispersion_of(np.zeros(3), np.zeros(3), 100, 100) == 1


@pytest.mark.parametrize("make", [lambda at: RollingCounts(at, 50), lambda at: DecayedCounts(at, 0.9),
                                  lambda at: DyadicCounts(at, 10)])  # fmt: skip
def test_a_widened_window_counts_as_if_it_had_always_been_wide(make):
    old, new = rows(0, 95, m=3, least=-1), rows(1, 40, m=4, k=3, least=-1)
    window, before = make(layout(3)), np.column_stack([old, np.full(95, -1, np.int8)])
    window.extend(old)
    window.widen(window.layout.widened((0, 1, 2), None, 4))
    window.extend(new)
    always = make(layout(4, 3))
    always.extend(np.concatenate([before, new]))
    assert window.moments() == always.moments()


def test_class_balances_are_averaged_over_the_window():
    at = layout(3)
    codes, first, second = rows(0, 90, m=3), np.array([0.2, 0.8]), np.array([0.6, 0.4])
    weights = 0.99 ** np.arange(59, -1, -1.0)
    for window, share in [
        (RollingCounts(at, 60), 0.5),
        (DyadicCounts(at, 10), 0.5),
        (DecayedCounts(at, 0.99), weights[:30].sum() / weights.sum()),
    ]:
        balances = StreamBalances()
        assert balances.mean(window) is None
        window.extend(codes[:30])  # rows without a balance are not part of the mean
        balances = balances.extended(first, window)
        window.extend(codes[30:60])
        balances = balances.extended(second, window)
        window.extend(codes[60:])
        np.testing.assert_allclose(balances.mean(window), share * first + (1 - share) * second)
        window.extend(codes)
        later = balances.extended(first, window)
        assert later.starts[-2:] == (60, 180)
        assert (later.starts[0] == 30) is not isinstance(window, RollingCounts)


def test_more_pairs_than_a_window_can_hold_are_refused():
    with pytest.raises(fs.exceptions.OptionError, match="counts of pairs"):
        Layout(CountPlan.all_pairs(2_000), (0, 1, 2))
