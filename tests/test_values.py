"""True is 1 to Python and a span of time an integer to NumPy; neither is a number of anything here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import calibration, contested_rows
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.models import learning_curve
from tests.strategies import fittable_votes

VOTES = fittable_votes(0)
RNG = np.random.default_rng(0)
CALLS = {
    "n_classes": lambda n: fs.LabelModel(n_classes=n).fit(VOTES),
    "screen": lambda n: fs.LabelModel(screen=n).fit(VOTES),
    "window": lambda n: fs.OnlineLabelModel(n).partial_fit(VOTES),
    "warm_up": lambda n: fs.OnlineLabelModel(warm_up=n).partial_fit(VOTES),
    "max_edges": lambda n: fs.learn_structure(VOTES, max_edges=n),
    "significance": lambda n: fs.learn_structure(VOTES, significance=n),
    "n_items": lambda n: fs.datasets.simulate(n, [0.8, 0.7], rng=RNG),
    "persistence": lambda n: fs.datasets.simulate_sequence(9, [0.8, 0.7], persistence=n, rng=RNG),
    "n_bins": lambda n: fs.score_bins([[0.1], [0.5], [0.9]], n),
    "chunk": lambda n: fs.apply([str], ["a"], chunk=n),
    "n_jobs": lambda n: fs.apply([str], ["a"], n_jobs=n),
    "bins": lambda n: calibration(fs.LabelModel().fit(VOTES), VOTES, VOTES[:, 0], bins=n),
    "n": lambda n: contested_rows(fs.LabelModel().fit(VOTES), VOTES, n=n),
    "repeats": lambda n: learning_curve(fs.LabelModel().fit(VOTES), VOTES, rng=RNG, repeats=n),
}


@pytest.mark.parametrize("wrong", [np.timedelta64(3, "s"), True], ids=["a span of time", "True"])
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_number_is_refused_by_name(name, wrong: Any):
    with pytest.raises(OptionError, match=name):
        CALLS[name](wrong)


def test_a_span_of_time_is_no_item_and_no_vote():
    with pytest.raises(VotesError, match="indexed by"):
        fs.Votes.from_classes(VOTES)[np.timedelta64(3, "s")]
    with pytest.raises(fs.exceptions.LabelingError, match="timedelta64"):
        fs.apply([lambda _: np.timedelta64(1, "s")], ["a"])
