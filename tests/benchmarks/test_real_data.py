"""Real vote matrices: no errors, no NaN, and labels that are better than majority vote."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import flyingsquid as fs

FOLDER = os.environ.get("FLYINGSQUID_DATA")
pytestmark = pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_DATA is not set")
BINARY = [
    "basketball", "breast_cancer", "cardio", "census", "commercial", "crowd_bluebird", "crowd_rte",
    "crowd_sp_amt", "crowd_trec", "imdb", "llm_civilcomments", "llm_rewardbench2_pairs",
    "prompted_youtube", "seq_laptopreview", "sms", "spouse", "tennis", "weather", "yelp", "youtube",
]  # fmt: skip


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(str(FOLDER)) / name / f"{name}.npz") as data:
        for split in ("_train", "", "_test"):
            if f"L{split}" in data:
                votes = data[f"L{split}"]
                # Outside a span these rules say "no entity", which the data set leaves blank.
                return np.maximum(votes, 0) if name.startswith("seq_") else votes, data[f"Y{split}"]
    raise AssertionError(name)


@pytest.mark.parametrize(
    "method", ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best"), "covariance", "quadratic"]
)
@pytest.mark.parametrize("name", BINARY)
def test_real_votes_are_labeled(name, method):
    votes, y = load(name)
    if votes.max() > 1:
        pytest.fail(f"{name} is not binary")
    model = fs.LabelModel(method=method)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        try:
            model.fit(votes)
        except fs.exceptions.NotIdentifiableError as error:
            if "three different sources" in str(error):
                return  # cardio: one of its three sources never varies
            anchor = re.search(r"signs=\{'source (\d+)': \+1\}", str(error))
            assert anchor, error  # noqa: PT017  # the only refusal, with advice
            model.set_params(signs={int(anchor[1]): 1}).fit(votes)
    posterior = model.predict_proba(votes)
    assert np.isfinite(posterior).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    np.testing.assert_allclose(model.confusion_.sum(axis=2), 1, atol=1e-9)
    if fs.solvers.get_solver(method).name == "triplet":
        np.testing.assert_allclose(posterior[(votes == -1).all(axis=1)], 0.5)
    assert 0 <= model.score(votes, y) <= 1


@pytest.mark.parametrize("name", ["crowd_rte", "llm_civilcomments"])
def test_unequal_sources_are_weighed_better_than_by_majority(name):
    """Panels of people and of judges of the design half, where a label model has something to find."""
    votes, y = load(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        ours, majority = fs.LabelModel().fit(votes), fs.MajorityVote().fit(votes)
    assert ours.score(votes, y) > majority.score(votes, y) + 0.005


@pytest.mark.parametrize("name", ["spouse", "weather", "youtube"])
def test_features_do_no_harm(name):
    """Embeddings lose at most half a point of accuracy, and noise changes nothing."""
    with np.load(Path(str(FOLDER)) / name / f"{name}.npz") as data:
        kept = [split for split in ("_train", "_valid", "_test", "") if f"L{split}" in data]
        votes, y = (np.concatenate([data[f"{kind}{split}"] for split in kept]) for kind in "LY")
    with np.load(Path(str(FOLDER)) / name / "embeddings.npz") as data:
        features = np.concatenate([data[f"E{split}"] for split in kept])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
        model = fs.LabelModel(n_classes=2).fit(votes, features=features)
        noise = np.random.default_rng(0).normal(size=features.shape)
        unused = fs.LabelModel(n_classes=2).fit(votes, features=noise)
    assert model.score(votes, y, features=features) > model.score(votes, y) - 0.005
    np.testing.assert_array_equal(unused.predict_proba(votes, features=noise), model.predict_proba(votes))
