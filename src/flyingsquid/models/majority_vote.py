"""The baseline that every label model is measured against."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid.infer import vote_shares
from flyingsquid.models._base import VoteEstimator
from flyingsquid.models._options import require_moments
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes, as_votes


class MajorityVote(VoteEstimator):
    """One source, one vote. Any number of classes.

    ``predict_proba`` gives each class's share of the votes, uniform where nobody votes.
    Fitting only notes the classes and the sources.

    Attributes
    ----------
    classes_ : array of shape (K,)
    source_names_ : tuple of m texts

    Examples
    --------
    >>> votes = [[1, 1, 0], [0, -1, 0], [-1, -1, -1]]
    >>> MajorityVote().fit(votes).predict_proba(votes).round(2)
    array([[0.33, 0.67],
           [1.  , 0.  ],
           [0.5 , 0.5 ]])
    """

    def fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Note classes and sources. ``y`` and ``sample_weight`` are accepted and change nothing."""
        read = as_votes(votes)
        self._remember(read.classes, read.names, read.source_names)
        return self

    def fit_moments(self, moments: Moments) -> Self:
        """Note the classes and sources of counts."""
        require_moments(moments)
        self._remember(moments.classes, moments.names, moments.source_names)
        return self

    def partial_fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Check that further votes are of the same classes and sources."""
        if not hasattr(self, "_classes"):
            return self.fit(votes)
        self._read(votes)
        return self

    def _posterior(self, votes: Votes) -> NDArray[np.float64]:
        return vote_shares(votes.codes, votes.n_classes)
