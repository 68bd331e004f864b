"""Compressed files that declare a lot of memory are refused before it is allocated."""

from __future__ import annotations

import re
import struct

import numpy as np
import pytest

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files import decoded_size, open_votes
from flyingsquid.files.decoded_size import _pages, _thrift_struct, require_possible_rows
from flyingsquid.files.inputs import open_input, text_blocks
from tests.fuzz.bombs import make_columnar_bombs, read

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extra

LIMIT = 1 << 20


@pytest.fixture(scope="module")
def bombs(tmp_path_factory):
    return make_columnar_bombs(tmp_path_factory.mktemp("bombs"), 4 * LIMIT)


def test_bombs_are_refused_before_they_are_decoded(bombs):
    """Peak memory of 400 MB bombs is measured by ``python -m tests.fuzz.bombs``."""
    assert len(bombs) == 8
    for path in bombs:
        before = pa.total_allocated_bytes()
        found = read(path, LIMIT)
        assert found.startswith("refused") or path.stem == "prefixes", (path.name, found)
        assert pa.total_allocated_bytes() - before < 2 * LIMIT, path.name


def test_the_limit_can_be_raised(tmp_path):
    texts = pa.table({"a": ["x" * (LIMIT // 4), "y"] * 5, "b": ["y", "y"] * 5})
    pq.write_table(texts, tmp_path / "v.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(VoteFileError, match="max_decoded_bytes") as caught:
        open_votes(tmp_path / "v.parquet", max_decoded_bytes=LIMIT)
    assert [hint.parameter for hint in caught.value.hints] == ["max_decoded_bytes"]
    file = open_votes(tmp_path / "v.parquet", max_decoded_bytes=2 * LIMIT, item=False)
    assert file.n_items == 10
    with pytest.raises(OptionError, match="max_decoded_bytes"):
        open_votes(tmp_path / "v.parquet", max_decoded_bytes=0)


def test_strings_too_long_for_a_class(tmp_path):
    pq.write_table(pa.table({"a": ["x" * (2 * LIMIT), "y"], "b": ["y", "y"]}), tmp_path / "v.parquet")
    with pytest.raises(VoteFileError, match="'a' contains a string of 2,097,152 bytes"):
        open_votes(tmp_path / "v.parquet", item=False)
    file = open_votes(tmp_path / "v.parquet", item=False, ignore=["a"], classes=["x", "y"])
    assert file.n_items == 2


def test_rows_out_of_proportion(tmp_path):
    pq.write_table(
        pa.table({"a": np.zeros(3_000_000, np.int8)}), tmp_path / "v.parquet", row_group_size=1 << 22
    )
    assert open_votes(tmp_path / "v.parquet").n_items == 3_000_000
    require_possible_rows(3_000_000, 200, 0)
    with pytest.raises(VoteFileError, match="10,000,000,000 rows in 200 bytes"):
        require_possible_rows(10**10, 200, 1 << 28)


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "brotli", "lz4", "zstd"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_usual_files_are_read_as_before(tmp_path, compression, version):
    votes = np.random.default_rng(0).integers(0, 2, (500, 3))
    columns = {name: votes[:, j] for j, name in enumerate("abc")}
    columns["id"] = np.array([f"item {i}" for i in range(500)])
    pq.write_table(
        pa.table(columns), tmp_path / "v.parquet", compression=compression, data_page_version=version,
        data_page_size=64, row_group_size=200, use_dictionary=["a", "id"],
    )  # fmt: skip
    file = open_votes(tmp_path / "v.parquet", max_decoded_bytes=LIMIT)
    assert np.array_equal(np.concatenate([chunk.votes.codes for chunk in file]), votes)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("writer", [pa.ipc.new_file, pa.ipc.new_stream])
def test_usual_arrow_files_are_read_as_before(tmp_path, compression, writer):
    votes = np.random.default_rng(0).integers(0, 2, (500, 3))
    texts = pa.array([f"item {i}" for i in range(500)])
    classes = pa.array(["x", "y"] * 250).dictionary_encode()
    table = pa.table({"id": texts, **{n: votes[:, j] for j, n in enumerate("abc")}, "d": classes})
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with writer(tmp_path / "v.arrow", table.schema, options=options) as file:
        file.write_table(table, max_chunksize=100)
    read_file = open_votes(tmp_path / "v.arrow", ignore=["d"], max_decoded_bytes=LIMIT)
    assert np.array_equal(np.concatenate([chunk.votes.codes for chunk in read_file]), votes)


@pytest.mark.parametrize(
    "options",
    [{}, {"write_page_checksum": True}, {"write_statistics": False}, {"data_page_version": "2.0"}],
    ids=["usual", "checksums", "no statistics", "version 2"],
)
def test_usual_page_headers_are_read_as_others_are(tmp_path, monkeypatch, options):
    rng = np.random.default_rng(0)
    columns = {
        "small": rng.integers(0, 2, 3_000, np.int8),
        "large": rng.integers(-(1 << 62), 1 << 62, 3_000),
        "float": rng.random(3_000),
        "short": rng.choice(["a", "bc"], 3_000),
        "long": rng.choice(["a", "b" * 40], 3_000),
    }
    path = tmp_path / "v.parquet"
    pq.write_table(
        pa.table(columns), path, data_page_size=512, write_batch_size=64, use_dictionary=["small"], **options
    )
    group, data = pq.ParquetFile(path).metadata.row_group(0), path.read_bytes()
    found = [list(_pages(data, group.column(j))) for j in range(len(columns))]
    assert min(map(len, found)) > 1
    is_usual = decoded_size._DATA_PAGE.match(data, group.column(1).data_page_offset) is not None
    assert is_usual == ("data_page_version" not in options)
    monkeypatch.setattr(decoded_size, "_DATA_PAGE", re.compile(b"$^"))  # matches nothing
    assert [list(_pages(data, group.column(j))) for j in range(len(columns))] == found


def test_page_headers_that_are_wrong(tmp_path):
    pq.write_table(pa.table({"a": [0, 1] * 50, "b": [0, 1] * 50}), tmp_path / "v.parquet")
    content = bytearray((tmp_path / "v.parquet").read_bytes())
    rng = np.random.default_rng(0)
    for at in rng.integers(4, 60, 40):
        damaged = bytes(content[:at]) + struct.pack("B", rng.integers(256)) + bytes(content[at + 1 :])
        (tmp_path / "d.parquet").write_bytes(damaged)
        assert read(tmp_path / "d.parquet").split(":")[0] in ("refused", "read")


def test_blank_lines_end_somewhere(tmp_path):
    (tmp_path / "v.csv").write_bytes(b"a,b\n" + b"\n" * (8 << 20))
    with pytest.raises(VoteFileError, match="blank lines"):
        list(text_blocks(open_input(tmp_path / "v.csv")))


@pytest.mark.skipif(int(pa.__version__.split(".")[0]) < 20, reason="it writes no size statistics")
def test_statistics_that_do_not_fit_the_type_of_a_column(tmp_path):
    """pyarrow would end the process."""
    pq.write_table(pa.table({"a": [0, 1, None], "b": [1, 1, 0]}), tmp_path / "v.parquet")
    data = (tmp_path / "v.parquet").read_bytes()
    optional, required = b"\x25\x02\x18\x01a", b"\x25\x00\x18\x01a"  # repetition type and name in the footer
    assert data.count(optional) == 1
    (tmp_path / "damaged.parquet").write_bytes(data.replace(optional, required))
    with pytest.raises(VoteFileError, match="damaged"):
        open_votes(tmp_path / "damaged.parquet")


@pytest.mark.parametrize("value", [b"\x19" * 2_000, b"\xf2" + b"\xff" * 8 + b"\x7f"], ids=["nested", "long"])
def test_lists_in_a_footer_are_limited(value):
    with pytest.raises(ValueError, match="a list is nested too deeply or too long"):
        _thrift_struct(b"\x19" + value, 0, 16)
