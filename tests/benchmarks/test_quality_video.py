"""Comparison on real video: clips by hand, the page, and the expected results."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs
from benchmarks.harness import RESULTS
from benchmarks.quality import video as table

FOLDER = os.environ.get("FLYINGSQUID_DATA")


def test_clips_by_hand():
    frames = np.arange(14, dtype=np.int8).reshape(7, 2)
    assert table.in_clips(frames, 3).tolist() == frames[:6].reshape(2, 3, 2).tolist()
    clips, at = table.covering_clips(frames, 3)
    assert clips.shape == (3, 3, 2)
    np.testing.assert_array_equal(clips.reshape(-1, 2)[at], frames)
    np.testing.assert_array_equal(clips[2], frames[4:])


def test_the_page_is_made_of_the_results():
    results = json.loads((RESULTS / "video.json").read_text("utf-8"))["results"]
    assert table.PAGE.read_text("utf-8") == table.render(results)
    assert set(results) == set(table.NAMES)


def test_the_chain_beats_single_frames_on_tennis():
    results = json.loads((RESULTS / "video.json").read_text("utf-8"))["results"]["tennis"]
    for methods in results.values():
        assert methods["chain of D"]["f1"] > methods["single frames"]["f1"]


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(SystemExit, match=r"tennis/tennis\.npz"):
        table.load(tmp_path, "tennis")


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
def test_the_table_can_be_measured_anew():
    """On a set of the design half; the numbers on the page are those that come out."""
    video = table.load(Path(str(FOLDER)), "tennis")
    saved = json.loads((RESULTS / "video.json").read_text("utf-8"))["results"]["tennis"]
    for words, methods in table.measure(video).items():
        for name, scores in methods.items():
            assert scores == pytest.approx(saved[words][name], abs=2e-3), (words, name)


@pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
@pytest.mark.parametrize("name", table.NAMES)
@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.SourceWarning")
def test_real_clips_are_labeled(name):
    video = table.load(Path(str(FOLDER)), name)
    length = table.CHAINS[name]
    graph = fs.DependencyGraph.chain(length, video.train.shape[1])
    model = fs.LabelModel(graph, method="covariance").fit(table.in_clips(video.train, length))
    posterior = model.predict_proba(table.covering_clips(video.test, length)[0])
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=2), 1)
