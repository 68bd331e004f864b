"""States to write, and comparisons of states that were read."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from flyingsquid.files.state import State, write_state

texts = st.text(max_size=8)  # hypothesis leaves out what UTF-8 cannot encode
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars, lambda x: st.lists(x, max_size=3) | st.dictionaries(texts, x, max_size=3), max_leaves=8
)


def example_state() -> State:
    return State(
        "Moments",
        {"names": ["links", "kürzer"], "n_items": 3, "signs": {"a": -1}, "balance": [0.25, 0.75], "x": None},
        {
            "pair_counts": np.arange(16, dtype=np.int64).reshape(2, 2, 2, 2),
            "weights": np.array([0.1, -0.0, np.nan, np.inf]),
            "seen": np.array([True, False]),
            "empty": np.empty((0, 3)),
        },
    )


def example_bytes(folder) -> bytes:
    write_state(folder / "example", example_state())
    return (folder / "example").read_bytes()


def with_odd_array(state: State, name: str, how: str) -> State:
    """The state with one array absent, short, of another type, or full of NaN."""
    arrays = dict(state.arrays)
    if how == "absent":
        del arrays[name]
    elif how == "short":
        arrays[name] = arrays[name][:-1]
    elif how == "type":
        arrays[name] = arrays[name].astype(np.uint8)
    else:
        arrays[name] = np.full_like(arrays[name], np.nan)
    return State(state.kind, state.meta, arrays)


def same_json(a: object, b: object) -> bool:
    """Equal with equal types, and -0.0 apart from 0.0."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same_json, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same_json(a[k], b[k]) for k in a)
    return type(a) is type(b) and a == b and repr(a) == repr(b)


def assert_same(a: State, b: State) -> None:
    assert a.kind == b.kind
    assert same_json(a.meta, b.meta)
    assert a.arrays.keys() == b.arrays.keys()
    for name, x in a.arrays.items():
        y = b.arrays[name]
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        assert x.tobytes() == y.tobytes()
