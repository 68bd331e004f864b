"""The paper's reduction of many classes to two, put together into one table a source.

For class k the vote k reads 1, every other vote 0. Sources that are independent given Y are not so given
1{Y = k}, unless they treat all other classes alike; so this is never exact, and reported for comparison. The
K binary fits give P(vote k | Y = k) and P(another vote | Y = k) for every source; other votes are spread as
they were observed. One posterior from one table: never a softmax of K probabilities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import told
from flyingsquid.estimation.binary import Evidence, fit_binary
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]


def fit_one_vs_rest(moments: Moments, balance: Array, *, method: str, screen: float) -> Array:
    """P(vote = v | Y = k), no vote last, shape (m, K, K + 1), by K binary fits.

    Raises
    ------
    NotIdentifiableError
        If the votes for and against some class do not determine its binary fit.
    """
    n_classes = moments.n_classes
    rates = np.asarray(moments.vote_counts / moments.n_items, np.float64)
    tables = np.empty((moments.n_sources, n_classes, n_classes + 1))
    for k, label in enumerate(moments.classes):
        two = np.array([1 - balance[k], balance[k]])
        try:
            fit = fit_binary(
                Evidence(moments.one_vs_rest(k)),
                two,
                method=method,
                anchors={},
                screen=screen,
                triplets=None,
            )
        except NotIdentifiableError as error:
            raise NotIdentifiableError(f"class {told(label)} against the rest: {error}") from error
        of_class = fit.tables[:, 1]  # P(another vote, vote k, no vote | Y = k)
        others = np.delete(rates, k, axis=1)
        total = others.sum(axis=1, keepdims=True)
        spread = np.divide(others, total, out=np.full_like(others, 1 / (n_classes - 1)), where=total > 0)
        tables[:, k, [v for v in range(n_classes) if v != k]] = of_class[:, :1] * spread
        tables[:, k, k], tables[:, k, -1] = of_class[:, 1], of_class[:, 2]
    return tables
