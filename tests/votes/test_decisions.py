"""Labels from scores: the most probable class, and the rule for ties."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyingsquid.votes.decisions import decide, expected_credit, is_tied, label_shares

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


def test_credit_is_the_expected_accuracy_of_ties_broken_at_random():
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (300, 3)) / 3
    gold = rng.integers(-1, 3, 300)
    drawn = [decide(scores, (0, 1, 2), "random", rng) == gold for _ in range(4_000)]
    credit = expected_credit(scores, gold)
    assert set(np.unique(credit.round(6))) == {0.0, 0.333333, 0.5, 1.0}
    np.testing.assert_allclose(credit, np.mean(drawn, axis=0), atol=0.05)
    np.testing.assert_array_equal(is_tied(scores), [np.sum(row == row.max()) > 1 for row in scores])
    np.testing.assert_allclose(label_shares(scores).sum(axis=1), 1.0)


def test_ties_of_few_and_of_many_classes():
    rng = np.random.default_rng(0)
    for shape in ((50, 2), (50, 8), (50, 20), (7, 3, 4)):
        scores = rng.integers(0, 4, shape) / 4
        tied = (scores == scores.max(axis=-1, keepdims=True)).sum(axis=-1) > 1
        np.testing.assert_array_equal(is_tied(scores), tied)
