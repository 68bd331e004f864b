"""Files that are damaged, too new, of other programs or inconsistent raise errors and take little memory."""

from __future__ import annotations

import io
import json
import os
import pickle
import tracemalloc
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from flyingsquid.exceptions import ModelFileError
from flyingsquid.files import state
from flyingsquid.files.state import FORMAT_VERSION, MAGIC, State, read_state
from tests.support.model_files import assert_same, example_bytes, json_values, same_json
from tests.support.strategies import examples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def assert_refused(path, content: bytes, match: str | None = None) -> None:
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=match) as caught:
        read_state(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 1_000


def test_every_flipped_byte_is_noticed(folder):
    content = example_bytes(folder)
    flips = np.random.default_rng(0).integers(1, 256, len(content))
    for at, flip in enumerate(flips.tolist()):
        assert_refused(folder / "flipped", content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])


def test_every_truncation_is_noticed(folder):
    content = example_bytes(folder)
    for length in range(len(content)):
        assert_refused(folder / "short", content[:length])


@st.composite
def damages(draw):
    """A function from the bytes of a file to other bytes."""
    at, to = draw(st.floats(0, 1)), draw(st.floats(0, 1))
    extra = draw(st.binary(min_size=1, max_size=40))
    kind = draw(st.sampled_from(["insert", "overwrite", "delete", "swap", "repeat", "append", "prepend"]))

    def damage(content: bytes) -> bytes:
        i, j = sorted((int(at * len(content)), int(to * len(content))))
        return {
            "insert": content[:i] + extra + content[i:],
            "overwrite": content[:i] + extra + content[i + len(extra) :],
            "delete": content[:i] + content[j:],
            "swap": content[j:] + content[i:j] + content[:i],
            "repeat": content[:j] + content[i:],
            "append": content + extra,
            "prepend": extra + content,
        }[kind]

    return damage


@given(damages())
@examples(300)
def test_damaged_files_are_refused(folder, damage):
    content = example_bytes(folder)
    damaged = damage(content)
    assume(damaged != content)
    assert_refused(folder / "damaged", damaged)


@given(st.binary(max_size=300), st.booleans())
def test_files_of_noise_are_refused(folder, noise, disguised):
    assert_refused(folder / "noise", MAGIC + noise if disguised else noise)


def test_other_files_are_refused(folder):
    content, buffer = example_bytes(folder), io.BytesIO()
    np.savez(buffer, x=np.zeros(3))
    for other in (b"", pickle.dumps({"a": 1}), buffer.getvalue(), content[1:]):
        assert_refused(folder / "other", other, "not a FlyingSquid file")
    assert_refused(folder / "other", content[:-1], "truncated")
    assert_refused(folder / "other", content + b"\0", "damaged")


# ---------------------------------------------------------------------- valid checksums, false headers


def packed(header: bytes, data: bytes = bytes(24)) -> bytes:
    """A file as the library writes it, with the right checksum, whatever the header says."""
    content = MAGIC + header + b"\n" + data
    return content + crc32(content).to_bytes(4, "little")


def fields(**changes: object) -> dict[str, Any]:
    """The fields of a header with one array of 24 bytes."""
    array = {"name": "x", "dtype": "float64", "shape": [3]}
    known = {
        "format_version": 1, "flyingsquid_version": "0.1",
        "kind": "X", "meta": {}, "arrays": [array],
    }  # fmt: skip
    return {**known, **changes}


def with_array(**changes: object) -> dict[str, Any]:
    return fields(arrays=[{"name": "x", "dtype": "float64", "shape": [3], **changes}])


def dumped(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def lying(header: object) -> bytes:
    return packed(header if isinstance(header, bytes) else dumped(header))


GOOD = dumped(fields())
LIES = [
    fields(format_version=0),
    fields(format_version=True),
    fields(format_version="1"),
    fields(format_version=None),
    fields(flyingsquid_version="\x1b[31m"),
    fields(flyingsquid_version="1" * 10_000),
    fields(kind=3),
    fields(meta=[]),
    fields(more=1),
    fields(arrays={}),
    fields(arrays=[3]),
    fields(arrays=[]),
    fields(arrays=2 * fields()["arrays"]),
    with_array(name=None),
    with_array(more=1),
    with_array(dtype="object"),
    with_array(dtype="O"),
    with_array(dtype="<f8"),
    with_array(dtype="str"),
    with_array(dtype="float128", shape=[1]),
    with_array(dtype=["f8"]),
    with_array(dtype="int32"),
    with_array(shape=[-3]),
    with_array(shape=[-1, -3]),
    with_array(shape=[3.0]),
    with_array(shape=[True, 3]),
    with_array(shape=["3"]),
    with_array(shape=3),
    with_array(shape=[2**32, 2**32]),
    with_array(shape=[2**61 + 3]),
    with_array(shape=[0, 2**62, 2**62]),
    with_array(shape=[10**300]),
    with_array(shape=[4]),
    with_array(shape=[2]),
    with_array(shape=[125 * 10**12]),
    b"",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"\xef\xbb\xbf" + GOOD,
    GOOD + b" ",
    GOOD.replace(b":", b": "),
    GOOD.replace(b'"kind":"X"', b'"kind":"Y","kind":"X"'),
    GOOD.replace(b'"kind":"X"', b'"kind":"\\u0058"'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":NaN}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":-Infinity}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":1e999}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":1E5}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":-0}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":"\\ud800"}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"\\ud800":1}'),
    GOOD.replace(b'"meta":{}', b'"meta":{"a":' + b"9" * 5_000 + b"}"),
    GOOD.replace(b'"meta":{}', b'"meta":' + b"[" * 100_000 + b"]" * 100_000),
    b"[" * 1_000_000,
    GOOD[:-1],
]


def test_the_header_that_the_lies_begin_from_is_good(folder):
    (folder / "good").write_bytes(lying(fields()))
    assert_same(read_state(folder / "good"), State("X", {}, {"x": np.zeros(3)}))


@pytest.mark.parametrize("header", LIES)
def test_hostile_headers_are_refused(folder, header):
    assert_refused(folder / "hostile", lying(header), "damaged|truncated")


@given(st.data())
@examples(300)
def test_edited_headers_are_refused_or_read_as_edited(folder, data):
    """Any field, also of the array, becomes any JSON, in a file that is otherwise valid."""
    header = fields()
    target = data.draw(st.sampled_from([header, header["arrays"][0]]))
    key = data.draw(st.sampled_from(sorted(target)))
    before = target[key]
    sized = st.lists(st.integers(-(2**70), 2**70), max_size=4)
    target[key] = data.draw(json_values | sized | st.sampled_from([2, 10**15, "bool", "int8", "object"]))
    (folder / "edited").write_bytes(lying(header))
    try:
        state = read_state(folder / "edited")
    except ModelFileError:
        return
    free = key in ("kind", "meta", "flyingsquid_version", "name") or same_json(before, target[key])
    assert free or state.arrays["x"].nbytes == 24
    assert same_json(state.meta, header["meta"])


@pytest.mark.parametrize("n_bytes", [0, 23, 25, 48])
def test_missing_and_extra_bytes_are_refused(folder, n_bytes):
    assert_refused(folder / "bytes", packed(GOOD, bytes(n_bytes)), "declares")


def test_booleans_of_other_bytes_are_refused(folder):
    header = dumped(with_array(dtype="bool"))
    assert_refused(folder / "booleans", packed(header, b"\0\1\2"), "neither 0 nor 1")


def test_errors_of_newer_files_name_the_version_that_wrote_them(folder):
    newer = fields(format_version=FORMAT_VERSION + 1, flyingsquid_version="7.2.0", kind=["changed"], new=1)
    message = r"version 2.* FlyingSquid 7\.2\.0.*Upgrade"
    assert_refused(folder / "newer", packed(json.dumps(newer).encode()), message)


# ---------------------------------------------------------------------- memory


def peak_of_refusal(path, content: bytes) -> int:
    path.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError):
            read_state(path)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_declared_bytes_are_not_allocated(folder):
    declared = with_array(shape=[125 * 10**12])
    assert peak_of_refusal(folder / "huge", lying(declared)) < 1_000_000
    assert peak_of_refusal(folder / "huge", packed(dumped(declared), bytes(10_000))) < 1_000_000


def test_a_header_as_large_as_a_file_of_holes_is_not_read(tmp_path):
    path = tmp_path / "holes"
    path.write_bytes(MAGIC)
    os.truncate(path, 2 * 10**9)
    with pytest.raises(ModelFileError, match="too large"):
        read_state(path)


def test_an_array_for_which_memory_has_no_room(folder, monkeypatch):
    """A file of holes can be as large as it says."""
    (folder / "large").write_bytes(lying(fields()))

    def no_room(*args):
        raise MemoryError

    monkeypatch.setattr(np, "empty", no_room)
    with pytest.raises(ModelFileError, match="cannot be read"):
        read_state(folder / "large")


def test_a_file_that_shrinks_while_it_is_read(folder):
    content = lying(fields())
    at = len(content) - 28
    for length in (at - 4, at, at + 8, len(content) - 1):
        with pytest.raises(ModelFileError):
            state._read(io.BytesIO(content[:length]), len(content))
