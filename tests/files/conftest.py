"""Fixtures of the tests of files."""

from __future__ import annotations

import pytest


@pytest.fixture
def made(tmp_path):
    def make(name: str, content: str | bytes):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return make


@pytest.fixture(params=["1", "3"])
def threads(request, monkeypatch):
    monkeypatch.setenv("FLYINGSQUID_THREADS", request.param)
    return request.param
