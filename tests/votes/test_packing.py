"""Rows of votes packed into integers, one digit per source; a missing vote is digit 0."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid.votes import patterns
from tests.support.strategies import examples


@examples(150)
@given(st.data())
def test_rows_are_numbered_by_definition(data):
    n_classes = data.draw(st.integers(2, 150))
    most = max(m for m in range(1, 25) if patterns.n_patterns(m, n_classes) < 1 << 53)
    n, m = data.draw(st.integers(1, 50)), data.draw(st.integers(1, most))
    wide = np.int16 if n_classes > 127 else np.int8
    dtype = data.draw(st.sampled_from([wide, np.int32, np.int64]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    codes = rng.integers(data.draw(st.sampled_from([-1, -4])), n_classes, (n, m)).astype(dtype)
    codes[0], codes[-1] = n_classes - 1, -1  # the largest number and the smallest
    if data.draw(st.booleans()):
        codes = np.asfortranarray(codes)
    found = np.concatenate([numbers for _, numbers in patterns.packed_chunks(codes, n_classes)])
    for row, number in zip(codes.tolist(), found.tolist(), strict=True):
        assert number == sum((max(code, -1) + 1) * (n_classes + 1) ** j for j, code in enumerate(row))


@pytest.mark.parametrize("order", ["C", "F"])
def test_chunks_of_rows_follow_each_other(order):
    n, most = 150_000, patterns._COLUMN_ROWS
    codes = np.asarray(np.random.default_rng(0).integers(-1, 2, (n, 5)), np.int8, order=order)
    parts = list(patterns.packed_chunks(codes, 2))
    starts = range(0, n, most)
    assert [(rows.start, rows.stop) for rows, _ in parts] == [(s, min(n, s + most)) for s in starts]
    whole = (codes.astype(int) + 1) @ 3 ** np.arange(5)
    np.testing.assert_array_equal(np.concatenate([numbers for _, numbers in parts]), whole)


def test_tables_of_earlier_calls_are_used_again():
    codes = np.random.default_rng(0).integers(-1, 2, (500, 3)).astype(np.int8)
    calls: list[int] = []
    tables: dict[np.dtype, np.ndarray] = {}

    def total(rows):
        calls.append(len(rows))
        return rows.sum(axis=1).astype(np.float64)

    for part in (codes, codes[:2]):  # two rows alone would not be worth a table
        np.testing.assert_array_equal(patterns.by_pattern(part, total, tables=tables), part.sum(axis=1))
    assert calls == [27]
    assert patterns.by_pattern(codes, total, dtype=np.dtype(np.float32), tables=tables).dtype == np.float32
    assert calls == [27, 27]
