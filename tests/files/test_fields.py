"""Fields of states: what a file contains is checked before anything is made from it."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files.state import (
    BOOLEAN,
    LABELS,
    TEXT,
    State,
    check_fields,
    finite,
    integer,
    list_of,
    one_of,
    optional,
    sequence_of,
    write_state,
)
from tests.fuzz.states import example_states, fuzz_states

VALUES: list[Any] = [
    None,
    True,
    0,
    1,
    -1,
    2.0,
    float("nan"),
    10**400,
    "a",
    "b",
    [],
    ["a"],
    ["a", "a"],
    [1, True],
    [[]],
    {},
]


@pytest.mark.parametrize(
    ("field", "accepted"),
    [
        (TEXT, ["a", "b"]),
        (BOOLEAN, [True]),
        (integer(0, 5), [0, 1]),
        (finite(0), [0, 1, 2.0]),
        (one_of("a"), ["a"]),
        (optional(TEXT), [None, "a", "b"]),
        (list_of(TEXT), [[], ["a"], ["a", "a"]]),
        (list_of(TEXT, least=1), [["a"], ["a", "a"]]),
        (sequence_of(TEXT, TEXT), [["a", "a"]]),
        (LABELS, [[], ["a"]]),
    ],
)
def test_fields_accept_their_values_only(field, accepted):
    for value in VALUES:
        if any(type(value) is type(each) and value == each for each in accepted):
            check_fields({"x": value}, {"x": field})
            continue
        with pytest.raises(ModelFileError, match=r"`part\.x`") as caught:
            check_fields({"x": value}, {"x": field}, "part.")
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("meta", [None, [], 3, {}])
def test_missing_fields_are_named(meta):
    with pytest.raises(ModelFileError, match=r"`x` is missing|`meta` in the file must be an object"):
        check_fields(meta, {"x": TEXT})


@pytest.fixture(scope="module")
def states():
    return example_states()


CRAFTED: list[tuple[str, dict[str, Any]]] = [
    ("counts", {"n_items": []}),
    ("counts", {"names": [1, 2, 3, 4, 5]}),
    ("counts", {"classes": [[0], [1]]}),
    ("majority", {"source_names": [None] * 5}),
    ("majority", {"n_items": "many"}),
    ("online auto", {"window.compared": -1}),
    ("online", {"marks": [1, 2]}),
    ("online", {"names": [{}]}),
    ("triplet", {"fit.diagnostics.identical": [[]]}),
    ("weighted", {"fit.trust": None}),
    ("weighted", {"fit.trust": 1.5}),
    ("weighted", {"fit.tag": []}),
    ("weighted", {"rows": []}),
    ("weighted", {"options.method": 3}),
    ("graph", {"options.signs": [[]]}),
    ("sequence", {"temper": 0}),
    ("many labels", {"failures": [[9, "x"]]}),
    ("corrected", {"fit.gold.n_gold": 0}),
    ("checkpoint", {"model.n_seen": -1}),
]


@pytest.mark.parametrize(("name", "changes"), CRAFTED, ids=[f"{n} {next(iter(c))}" for n, c in CRAFTED])
def test_crafted_files_are_refused(tmp_path, states, name, changes):
    """With valid checksums; each of them was a traceback, on reading or on first use."""
    with pytest.raises(ModelFileError):
        fs.load(written(tmp_path, states[name], changes))


HUGE: list[tuple[str, dict[str, Any]]] = [
    ("online", {"n_sources": 30_000_000}),
    ("online graph", {"graph.n_sources": 30_000_000, "n_sources": 30_000_000}),
    ("online graph", {"graph.n_tasks": 30_000_000}),
    ("graph", {"counts.graph.n_sources": 30_000_000, "counts.graph.source_task": []}),
    ("counts of a graph", {"graph.n_sources": 30_000_000}),
]


@pytest.mark.parametrize(("name", "changes"), HUGE, ids=[f"{n} {next(iter(c))}" for n, c in HUGE])
def test_declared_sizes_allocate_nothing(tmp_path, states, name, changes):
    path = written(tmp_path, states[name], changes)
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        fs.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6


def test_a_long_window_takes_the_memory_of_its_rows(tmp_path, states):
    path = written(tmp_path, states["online"], {"options.window": 500_000_000})
    tracemalloc.start()
    with pytest.raises(ModelFileError):  # 490 rows were seen, and the file has 150
        fs.load(path)
    model = fs.OnlineLabelModel(500_000_000).partial_fit(np.ones((10, 3), np.int8) * [0, 1, 1])
    assert model.n_seen_ == 10
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()


@pytest.mark.slow
def test_a_short_run_of_mutated_states_finds_nothing():
    assert fuzz_states(seed=0, most=250) == []


def written(folder, state, changes):
    """A file of the state with other values at some paths of its meta."""
    meta = copy.deepcopy(state.meta)
    for path, value in changes.items():
        *outer, last = path.split(".")
        part = meta
        for name in outer:
            part = part[name]
        part[last] = value
    target = folder / "crafted.fsq"
    write_state(target, State(state.kind, meta, state.arrays))
    return target
