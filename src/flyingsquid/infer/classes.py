"""Posterior of one task with any number of classes, sources independent given the truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.moments import VoteLogs
from flyingsquid.votes.states import Codes

Array = NDArray[np.float64]


def class_evidence(codes: Codes, logs: Array | VoteLogs) -> Array:
    """Return log P(votes | Y = k), shape (n, K).

    Parameters
    ----------
    codes : dense (n, m) or sparse codes of K classes
    logs : VoteLogs, or an array of shape (m, K, K + 1)
        log P(vote = v | Y = k), no vote last.
    """
    return VoteLogs.of(logs).evidence(codes)


def class_posterior(codes: Codes, prior: Array, logs: Array | VoteLogs) -> Array:
    """P(Y = k | votes), shape (n, 1, K); the middle axis is the task. ``prior`` of shape (K,) enters once."""
    scores = class_evidence(codes, logs)
    scores += np.log(prior)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return scores[:, None, :]
