"""Helpers for tests of vote files and label files."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import LabelWriter, open_votes

HAS_PYARROW = find_spec("pyarrow") is not None


def hinted(file) -> set[tuple[str, object]]:
    """Return the parameters, with values, in the hints of the notes of a file."""
    return {(hint.parameter, hint.value) for note in file.notes for hint in note.hints}


def codes(path, **options):
    return open_votes(path, **options).read().votes.codes.tolist()


def assert_refused(path, match: str, *, line: int | None = None, **options) -> VoteFileError:
    """Check that a file is refused with its path and line, and return the error."""
    with pytest.raises(VoteFileError, match=match) as caught:
        open_votes(path, **options).read()
    error = caught.value
    assert error.path == str(path)
    assert error.line == line
    assert str(error).startswith(str(path))
    assert "\n" not in str(error)
    assert len(str(error)) < 700
    return error


def write_labels(path, n=3, **options):
    with LabelWriter(path, classes=("ham", "spam"), **options) as out:
        for at in range(n):
            out.write([f"i{at}"], [at % 2], [[0.25, 0.75]], [2])
