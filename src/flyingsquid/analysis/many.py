"""What a fit of many classes noticed, and why one item got its label."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.diagnostics import Diagnostics, without_triplets
from flyingsquid.analysis.explain import Explanation, contribution, next_best_and_best, put_together
from flyingsquid.analysis.many_logs import logs_of
from flyingsquid.analysis.reading import tie_credit
from flyingsquid.analysis.verdict import put_into_words
from flyingsquid.estimation import ManyFit, SparseTables
from flyingsquid.infer import SparseLogs, class_posterior, vote_shares
from flyingsquid.moments import Moments
from flyingsquid.votes.states import Label

Array = NDArray[np.float64]
_DRAWN_CELLS, _MOST_ROWS = 1 << 20, 20_000


def diagnose_many(moments: Moments, fit: ManyFit) -> Diagnostics:
    """Name the sources that a fit of many classes flagged, and judge it."""
    nobody = np.zeros(moments.n_sources, np.bool_)
    gain = gain_on_drawn_items(
        fit.tables, fit.balance, lambda codes: class_posterior(codes, fit.balance, logs_of(fit))[:, 0]
    )
    return without_triplets(
        moments,
        method=fit.method,
        reason=fit.reason,
        class_balance=fit.balance_note,
        silent=fit.silent,
        one_sided=fit.one_class,
        verdict=put_into_words(gain, nobody, None, fit.accuracies, moments.coverage),
    )


def gain_on_drawn_items(
    tables: Array | SparseTables, balance: Array, label: Callable[[NDArray[Any]], Array]
) -> float:
    """Accuracy less that of majority vote, on items drawn from the tables with a fixed seed.

    ``label`` gives posteriors of shape (n, K) for codes of shape (n, m).
    """
    rng = np.random.default_rng(0)
    m, n_classes, _ = tables.shape
    n = int(np.clip(_DRAWN_CELLS // (m * n_classes), 200, _MOST_ROWS))
    y = rng.choice(n_classes, n, p=balance)
    codes = tables.draw(y, rng) if isinstance(tables, SparseTables) else _draw(tables, y, rng)
    return accuracy_of(label(codes), y) - accuracy_of(vote_shares(codes, n_classes)[:, 0], y)


def _draw(tables: Array, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
    """Votes on items of classes ``y``, shape (n, m), codes with -1 for no vote."""
    n, (m, n_classes, _) = len(y), tables.shape
    codes = np.empty((n, m), np.int16)
    for i, table in enumerate(tables):
        steps = np.cumsum(table, axis=1)
        drawn = (rng.random((n, 1)) * steps[y, -1:] > steps[y]).sum(axis=1)
        codes[:, i] = np.where(drawn >= n_classes, -1, drawn)
    return codes


def accuracy_of(scores: Array, y: NDArray[Any]) -> float:
    """Share of items whose class scores highest; ties share the credit."""
    return float(np.mean(tie_credit(scores, y)))


def explain_classes(
    codes_row: NDArray[Any], classes: tuple[Label, ...], names: Sequence[str], fit: ManyFit
) -> Explanation:
    """Explain one item of many classes: the log odds of the best class against the next best.

    ``codes_row`` are dense codes of shape (m,).
    """
    said_by = logs_of(fit)
    posterior = class_posterior(codes_row[None, :], fit.balance, said_by)[0, 0]
    second, best = next_best_and_best(posterior)
    if isinstance(said_by, SparseLogs):
        logs = said_by.of_votes(codes_row)
    else:
        at = np.where(codes_row < 0, -1, codes_row)  # no vote is last
        logs = said_by[np.arange(len(codes_row)), :, at]
    adds = logs[:, best] - logs[:, second]
    said = [contribution(*each) for each in zip(names, codes_row, [classes] * len(adds), adds, strict=True)]
    prior = float(np.log(fit.balance[best]) - np.log(fit.balance[second])) + 0.0
    return put_together(classes, best, posterior, fit.balance, prior, said, codes_row, classes[second])
