"""One label an item: the most probable class, and of tied ones the first, none, or any."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyingsquid.inference import decide

TIE = 1e-9


@given(
    st.integers(2, 4).flatmap(
        lambda k: arrays(
            np.float64,
            st.tuples(st.integers(0, 6), st.just(k)),
            elements=st.sampled_from([0.0, 0.25, 0.5, 0.5 + TIE / 2, 0.5 + 3 * TIE, 1.0]),
        )
    )
)
def test_the_first_of_the_most_probable_classes(posterior):
    classes = tuple("abcd"[: posterior.shape[1]])
    found = decide(posterior, classes, "first", None)
    for row, label in zip(posterior.tolist(), found.tolist(), strict=True):
        assert label == next(c for c, p in zip(classes, row, strict=True) if p >= max(row) - TIE)
    without = decide(posterior, classes, "abstain", None)
    drawn = decide(posterior, classes, "random", np.random.default_rng(0))
    for row, none, any_ in zip(posterior.tolist(), without.tolist(), drawn.tolist(), strict=True):
        tied = [c for c, p in zip(classes, row, strict=True) if p >= max(row) - TIE]
        assert none == (tied[0] if len(tied) == 1 else None)
        assert any_ in tied
