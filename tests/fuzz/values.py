"""Unusual values, matrices and options."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from importlib.util import find_spec
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import sparse

import flyingsquid as fs


class Surprise(Exception):  # noqa: N818
    """Raised by values that raise. As a vote or weight it should not leave the library; as an option it may,
    because it is the caller's own class that raises."""


class NoEquality:
    def __eq__(self, other: object) -> bool:
        raise Surprise("no equality")

    __hash__ = object.__hash__


class NoHash:
    def __hash__(self) -> int:
        raise Surprise("no hash")


class NoText:
    def __repr__(self) -> str:
        raise Surprise("no text")

    __str__ = __repr__


class NoTruth:
    def __bool__(self) -> bool:
        raise Surprise("no truth")

    def __eq__(self, other: object) -> Any:
        return self

    __ne__ = __eq__
    __hash__ = object.__hash__


class NoLength:
    def __len__(self) -> int:
        raise Surprise("no length")

    def __iter__(self) -> Any:
        raise Surprise("no iteration")


class NoArray:
    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise Surprise("no array")


SURPRISES = [NoEquality, NoHash, NoText, NoTruth, NoLength, NoArray]
PLAIN: list[Any] = [
    0, 1, 2, -1, -2, 7, 126, 127, 128, 255, 256, 32766, 32767, 32768, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63),
    10**30, -(10**30), 10**400, 10**5000, 0.0, -0.0, 0.5, 1.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf"), None,
    True, False, "", "a", "b", "é", "é", "\u202e", "\0", "\n", "\ud800", "😀" * 40, "nan", "-1", "0", "x" * 3000, b"a",
    b"\xff", 1j, complex("nan"), Decimal("1"), Decimal("NaN"), Decimal("sNaN"), Fraction(1, 3), (), (1,), [], [1, [2]],
    {}, {"a": 1}, set(), frozenset({1}), object, len, ..., NotImplemented, range(3), slice(3), np.int8(1), np.uint64(2**64 - 1),
    np.float16("nan"), np.float32(1), np.str_("a"), np.bool_(True), np.datetime64("NaT", "s"), np.datetime64("2020-01-01"),
    np.timedelta64(1, "s"), np.ma.masked, datetime.date(2020, 1, 1), np.array(1), np.array([1, 2]), np.zeros((0, 3)),
    np.zeros((2, 2)), memoryview(b"ab"), "average", "learn", "auto", "uniform", "estimate",
]  # fmt: skip


def values() -> st.SearchStrategy[Any]:
    """One value of any kind."""
    return st.one_of(
        st.sampled_from(PLAIN),
        st.sampled_from(SURPRISES).map(lambda kind: kind()),
        st.integers(-200, 200),
        st.floats(),
        st.text(max_size=5),
    )


@st.composite
def good_codes(draw: Any, n_sources: int | None = None, n_classes: int | None = None) -> np.ndarray:
    """Votes that a model can be fitted on, mostly; sometimes of very few items, or of sources that all agree."""
    n = draw(st.sampled_from([1, 2, 3, 20, 60, 200]))
    m = n_sources or draw(st.sampled_from([1, 2, 3, 4, 6]))
    k = n_classes or draw(st.sampled_from([2, 2, 2, 3, 5]))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    skill, coverage = draw(st.sampled_from([0.0, 0.4, 0.8, 1.0])), draw(st.sampled_from([0.02, 0.6, 1.0]))
    y = rng.integers(0, k, n)
    right = rng.random((n, m)) < skill
    codes = np.where(right, y[:, None], rng.integers(0, k, (n, m)))
    return np.where(rng.random((n, m)) < coverage, codes, -1).astype(np.int8)


DTYPES = [
    "i1", "i2", "i4", "i8", "u1", "u8", ">i2", ">i8", "f2", "f4", "f8", ">f4", ">f8", "g", "c8", "O", "U4", "S4", "?",
    "M8[s]", "m8[s]", "V2", [("a", "i4")],
]  # fmt: skip
LAYOUTS: list[Any] = [
    np.asfortranarray,
    lambda a: a[::-1, ::-1],
    lambda a: np.repeat(np.repeat(a, 2, 0), 3, 1)[::2, ::3],
    lambda a: np.broadcast_to(a[:1], a.shape),
    lambda a: np.ma.array(a, mask=a == a.flat[0]) if a.dtype.kind in "iuf" and a.size else a,
    lambda a: np.ma.masked_all(a.shape, a.dtype),
    lambda a: a[:0],
    lambda a: a[:, :0],
    lambda a: a[:, :1],
    lambda a: a[0] if len(a) else a,
    lambda a: a[..., None],
    lambda a: a[None],
    lambda a: a.tolist(),
    lambda a: [tuple(row) for row in a.tolist()],
    lambda a: [*a.tolist(), [1]],
    lambda a: np.asarray(a).view(_Odd) if a.dtype.kind in "iuf" else a,
    iter,
    lambda a: (row for row in a.tolist()),
    lambda a: {"a": a, "b": a},
    lambda a: dict(enumerate(a.tolist())),
    lambda a: set(a.ravel().tolist()) if a.dtype.kind in "iufU" else a,
    lambda a: np.ascontiguousarray(a).data if a.dtype.kind in "iuf" else a,
]


class _Odd(np.ndarray):
    """A subclass of arrays without any change."""


@st.composite
def matrices(draw: Any, codes: np.ndarray | None = None) -> Any:
    """Values to pass as votes: often nearly valid, in an unusual type or layout."""
    array: Any = draw(good_codes()) if codes is None else codes
    how = draw(st.integers(0, 9))
    if how <= 1:
        return array
    if how == 2:
        return draw(values())
    if how == 3:
        return draw(sparse_matrices(array))
    if how == 4:
        return draw(tables(array))
    if how == 5:
        return draw(made(array))
    if how <= 7:
        array = array.astype(object) if draw(st.booleans()) else array.astype(np.float64)
        for _ in range(draw(st.integers(1, 3))):
            at = draw(st.integers(0, array.size - 1))
            try:
                array.flat[at] = draw(values())
            except Exception:  # this type holds no such value
                continue
    else:
        array = _cast(array, draw(st.sampled_from(DTYPES)))
    for _ in range(draw(st.integers(0, 2))):
        if isinstance(array, np.ndarray) and array.ndim == 2:
            array = draw(st.sampled_from(LAYOUTS))(array)
    if isinstance(array, np.ndarray) and draw(st.booleans()):
        array.flags.writeable = False
    return array


def _cast(array: np.ndarray, dtype: Any) -> Any:
    try:
        return array.astype(dtype)
    except (TypeError, ValueError):
        return np.zeros(array.shape, dtype)


@st.composite
def sparse_matrices(draw: Any, array: np.ndarray) -> Any:
    """Sparse votes in any format, also with invalid entries."""
    made: Any = sparse.coo_array(array + 1)
    made.data = _cast(made.data, draw(st.sampled_from(["i1", "i8", "u1", "f8", "f4", "?", "c8"])))
    if len(made.data) and draw(st.booleans()):
        odd = draw(st.sampled_from([0, -1, -9, 99, float("nan"), float("inf"), 0.5, 2**40]))
        try:
            made.data[0] = odd
        except (OverflowError, ValueError, DeprecationWarning):  # the last one of NumPy 1
            made.data[0] = 0
    kind = draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok", "bsr"]))
    return sparse.coo_array(made).asformat(kind) if kind != "lil" or made.data.dtype.kind in "iuf" else made


@st.composite
def tables(draw: Any, array: np.ndarray) -> Any:
    """A table of one of the libraries that are installed."""
    kinds = [kind for kind in ("pandas", "polars", "pyarrow") if find_spec(kind)]
    if not kinds:
        return array
    kind = draw(st.sampled_from(kinds))
    names = [f"s{i}" for i in range(array.shape[1])]
    if draw(st.booleans()):
        names[0] = draw(st.sampled_from(["", "\n", "é", "s1", "\ud7ff", "x" * 300]))
    columns: list[Any] = [array[:, i].tolist() for i in range(array.shape[1])]
    if draw(st.booleans()):
        columns[-1] = [
            draw(st.sampled_from([None, 1.5, float("nan"), "a", b"x", datetime.date(2020, 1, 1), [1], 2**40]))
        ] * len(array)
    try:
        if kind == "pandas":
            import pandas as pd

            index = draw(st.sampled_from([None, list(range(len(array)))[::-1]]))
            frame = pd.DataFrame(dict(enumerate(columns)), index=index)
            frame.columns = draw(st.sampled_from([names, list(range(len(names))), [("a", n) for n in names]]))
            return frame
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(dict(zip(names, columns, strict=True)), strict=False)
        import pyarrow as pa

        return pa.table(dict(zip(names, columns, strict=True)))
    except Exception:  # the library itself takes no such table
        return array


@st.composite
def made(draw: Any, array: np.ndarray) -> Any:
    """Votes that were built by name, and votes in chunks."""
    codes: Any = array
    names = [f"s{i}" for i in range(array.shape[1])]
    how = draw(st.integers(0, 6))
    if how == 0:
        return fs.Votes(codes, tuple(range(max(2, int(codes.max()) + 1))), tuple(names))
    if how == 1:
        return fs.Votes.from_classes(codes, names=names[::-1])
    if how == 2:
        return fs.Votes.from_sparse(sparse.csr_array(codes + 1), classes=list(range(6)))
    if how == 3:
        return fs.Votes.from_signed(np.clip(codes, -1, 1))
    if how == 4:
        return fs.VoteChunks([codes[: len(codes) // 2], codes[len(codes) // 2 :]])
    if how == 5:
        return iter([codes, codes])
    return fs.VoteChunks(lambda: iter([codes, draw(values())]))


def one_of_these(good: list[Any], *, odds: int = 5) -> st.SearchStrategy[Any]:
    """Mostly a value that makes sense, sometimes any."""
    return st.integers(0, odds).flatmap(lambda i: values() if i == 0 else st.sampled_from(good))
