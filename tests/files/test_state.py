"""Model files: bit-identical after a round trip, and complete or absent."""

from __future__ import annotations

import builtins
import json
import os
from enum import IntEnum

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from flyingsquid import __version__
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files import state as state_module
from flyingsquid.files.state import (
    MAX_HEADER,
    State,
    decode_labels,
    encode_labels,
    read_state,
    read_version,
    write_state,
)
from tests.support.model_files import assert_same, example_bytes, example_state, json_values, texts
from tests.support.strategies import examples

DTYPES = ["?", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "<u8", "<f2", "<f4", "<f8"]

names = st.from_regex(r"[a-z_][a-zA-Z0-9_]{0,6}(\.[a-z_]{1,4})?", fullmatch=True)
shapes = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
any_array = st.sampled_from(DTYPES).flatmap(lambda dtype: arrays(dtype, shapes))
states = st.builds(
    State,
    kind=names,
    meta=st.dictionaries(texts, json_values, max_size=4),
    arrays=st.dictionaries(names, any_array, max_size=3),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One directory for all examples of a test; each example overwrites its file."""
    return tmp_path_factory.mktemp("files")


# ---------------------------------------------------------------------- round trips


@given(states)
def test_states_come_back_to_the_bit(folder, state):
    write_state(folder / "state", state)
    back = read_state(folder / "state")
    assert_same(state, back)
    assert all(a.flags.writeable and a.flags.owndata and a.flags.c_contiguous for a in back.arrays.values())


def test_every_bit_pattern_of_a_float_survives(folder):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    doubles = np.random.default_rng(0).integers(0, 2**64, 1_000, np.uint64).view(np.float64)
    nans = np.array([0x7FF0000000000001, 0xFFF8DEADBEEF0000], np.uint64).view(np.float64)
    state = State("Floats", {}, {"halves": halves, "doubles": doubles, "nans": nans})
    write_state(folder / "floats", state)
    assert_same(state, read_state(folder / "floats"))


def test_the_layout_in_memory_does_not_matter(folder):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    for layout in (np.asfortranarray(x), x[::-1][::-1], x.astype(">i4"), np.repeat(x, 2, axis=2)[..., ::2]):
        write_state(folder / "layout", State("X", {}, {"x": layout}))
        np.testing.assert_array_equal(read_state(folder / "layout").arrays["x"], x, strict=True)


def test_a_reader_may_write_into_what_it_read(folder):
    write_state(folder / "state", State("X", {}, {"x": np.zeros(3)}))
    array = read_state(folder / "state").arrays["x"]
    array[:] = 1
    assert array.tolist() == [1, 1, 1]


@given(states)
@examples(25)
def test_equal_states_give_equal_files(folder, state):
    write_state(folder / "first", state)
    turned = State(
        state.kind, dict(reversed(state.meta.items())), dict(reversed(state.arrays.items()))
    )  # the order of keys is no part of a state
    write_state(folder / "second", turned)
    assert (folder / "first").read_bytes() == (folder / "second").read_bytes()


def test_a_read_state_writes_the_same_file(folder):
    content = example_bytes(folder)
    write_state(folder / "again", read_state(folder / "example"))
    assert (folder / "again").read_bytes() == content


def test_other_programs_can_read_the_file(folder):
    state = example_state()
    first, header, data = example_bytes(folder).split(b"\n", 2)
    fields = json.loads(header)
    at = 0
    for spec in fields["arrays"]:
        array = state.arrays[spec["name"]]
        assert (spec["dtype"], spec["shape"]) == (array.dtype, [*array.shape])
        assert data[at : at + array.nbytes] == array.tobytes()
        at += array.nbytes
    assert [spec["name"] for spec in fields["arrays"]] == sorted(state.arrays)
    assert (first, len(data) - at) == (b"flyingsquid state", 4)
    assert (fields["kind"], fields["meta"]) == (state.kind, state.meta)
    assert fields["flyingsquid_version"] == __version__ == read_version(folder / "example")


# ---------------------------------------------------------------------- labels

labels = st.text() | st.integers() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(labels, max_size=6).map(tuple))
@example((True, 1, 1.0, "1", False, 0, -0.0, "True"))
def test_labels_come_back_with_their_types(folder, classes):
    write_state(folder / "labels", State("X", {"classes": encode_labels(classes)}, {}))
    back = decode_labels(read_state(folder / "labels").meta["classes"])
    assert [(type(x), repr(x)) for x in back] == [(type(x), repr(x)) for x in classes]


def test_numpy_labels_become_the_python_labels_that_they_equal():
    classes = (np.str_("a"), np.int8(1), np.float32(0.1), np.bool_(True))
    plain = encode_labels(classes)
    assert [type(x) for x in plain] == [str, int, float, bool]
    assert all(x == y for x, y in zip(plain, classes, strict=True))


class Color(IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "label", [None, ("a", 1), b"a", np.nan, np.inf, Color.RED, 1j, np.datetime64("2020-01-01")]
)
def test_other_labels_are_refused_by_place(label):
    with pytest.raises(ModelFileError, match="class 1"):
        encode_labels(("a", label))


@pytest.mark.parametrize("values", ["ab", None, {"a": 1}, ("a",), [["a"]], [None], [1, np.nan]])
def test_lists_that_hold_no_labels_are_refused(values):
    with pytest.raises(ModelFileError, match=r"[Cc]lass"):
        decode_labels(values)


# ---------------------------------------------------------------------- what may not be written


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ({"a": [1, (2, 3)]}, "lists"),
        ({"a": {1: 2}}, "keys"),
        ({"a": np.nan}, "JSON values"),
        ({"a": np.float32(1)}, "JSON values"),
        ({"a": "\ud83d\ude00"}, "JSON values"),
        ({"\ud800": 1}, "JSON values"),
        ({"a": 1 << 20_000}, "JSON values"),
    ],
)
def test_what_would_not_come_back_exactly_is_refused(tmp_path, meta, message):
    with pytest.raises(ModelFileError, match=message):
        write_state(tmp_path / "state", State("X", meta, {}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ma.array([1]), "got int64"),
        (np.array(["a"]), "got <U1"),
        (np.array([None]), "got object"),
        (np.zeros(1, np.complex128), "got complex128"),
        (np.zeros(1, "M8[s]"), "got datetime64"),
        (np.zeros(1, [("a", "f8")]), "Array 'x'"),
        (np.array([0, 7], np.uint8).view(bool), "neither 0 nor 1"),
    ],
)
def test_arrays_that_would_not_come_back_exactly_are_refused(tmp_path, array, message):
    with pytest.raises(ModelFileError, match=message):
        write_state(tmp_path / "state", State("X", {}, {"x": array}))
    assert list(tmp_path.iterdir()) == []


def test_a_header_that_no_reader_would_take(tmp_path):
    with pytest.raises(ModelFileError, match="`meta`"):
        write_state(tmp_path / "state", State("X", {"a": "x" * MAX_HEADER}, {}))
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- whole or not at all


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("step", ["fsync", "replace", "crc32"])
@pytest.mark.parametrize("error", [OSError("disk full"), Interrupted()])
@pytest.mark.parametrize("before", [None, b"what was there"])
def test_a_failed_write_leaves_what_was_there(tmp_path, monkeypatch, step, error, before):
    path = tmp_path / "model"
    if before is not None:
        path.write_bytes(before)

    def fail(*args):
        raise error

    monkeypatch.setattr(state_module if hasattr(state_module, step) else os, step, fail)
    with pytest.raises(type(error)):
        write_state(path, example_state())
    assert [p.read_bytes() for p in tmp_path.iterdir()] == ([] if before is None else [before])


def test_a_full_disk_in_the_middle_of_the_arrays(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write_state(path, example_state())
    before = path.read_bytes()
    seen = []

    def bytes_of(array):
        seen.append(array)
        if len(seen) == 3:
            raise OSError(28, "No space left on device")
        return array.reshape(-1).view(np.uint8).data

    monkeypatch.setattr(state_module, "_bytes_of", bytes_of)
    with pytest.raises(OSError, match="No space left"):
        write_state(path, example_state())
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="modes and links of POSIX")
def test_modes_and_links_survive(tmp_path):
    path, link = tmp_path / "model", tmp_path / "link"
    write_state(path, example_state())
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    assert path.stat().st_mode == ordinary.stat().st_mode
    path.chmod(0o600)
    link.symlink_to(path)
    write_state(link, State("X", {}, {}))
    assert link.is_symlink()
    assert read_state(path).kind == "X"
    assert path.stat().st_mode & 0o777 == 0o600


def test_errors_of_the_system_pass_through(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_state(tmp_path / "absent")
    with pytest.raises(IsADirectoryError):
        read_state(tmp_path)
    with pytest.raises(IsADirectoryError):
        write_state(tmp_path, example_state())
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_state(tmp_path / "nowhere" / "model", example_state())
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_may_not_be_read(tmp_path, monkeypatch):
    write_state(tmp_path / "model", example_state())

    def denied(*args):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(builtins, "open", denied)
    for call in (read_state, lambda path: write_state(path, example_state())):
        with pytest.raises(PermissionError):
            call(tmp_path / "model")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of POSIX")
def test_pipes_are_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for call in (read_state, lambda path: write_state(path, example_state())):
        with pytest.raises(ModelFileError, match="device or a pipe"):
            call(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
