"""What a fit of many classes on a graph noticed."""

from __future__ import annotations

import numpy as np

from flyingsquid.analysis.diagnostics import Diagnostics, pairs_at_odds, without_triplets
from flyingsquid.analysis.emissions import emissions_of
from flyingsquid.analysis.many import accuracy_of
from flyingsquid.analysis.verdict import PERSISTENT, errors_persist, put_into_words
from flyingsquid.estimate import ManyGraphFit
from flyingsquid.estimate.drawing import draw_items
from flyingsquid.infer import sum_product, vote_shares
from flyingsquid.moments import Moments

_DRAWN_CELLS = 1 << 20


def diagnose_many_graph(moments: Moments, fit: ManyGraphFit) -> Diagnostics:
    """Name the sources that a fit of many classes on a graph flagged, and judge it."""
    nobody = np.zeros(moments.n_sources, np.bool_)
    excess = np.concatenate([np.zeros(0), *fit.excess])
    persistence = float(np.mean(np.clip(np.nan_to_num(excess), 0, 1))) if len(excess) else 0.0
    doubts = [errors_persist(persistence, "task to task")] if persistence > PERSISTENT else []
    verdict = put_into_words(_gain(fit), nobody, None, fit.accuracies, moments.coverage, doubts)
    return without_triplets(
        moments,
        method=fit.method,
        reason="; ".join(note for note in (fit.reason, pairs_at_odds(fit.mismatch)) if note),
        class_balance=fit.balance_note,
        silent=fit.silent,
        one_sided=fit.one_class,
        verdict=verdict,
    )


def _gain(fit: ManyGraphFit) -> float:
    """Accuracy less that of majority vote, on items drawn from the fit; all tasks counted."""
    graph, n_classes = fit.graph, fit.tables.shape[1]
    cells = max(fit.tables.shape[0] * n_classes, *(table.size for table in fit.task_tables))
    n = int(np.clip(_DRAWN_CELLS // cells, 200, 20_000))
    codes, truths = draw_items(n, graph, fit.task_tables, fit.tables, fit.units, np.random.default_rng(0))
    tasks = tuple(graph.sources_of(task) for task in range(graph.n_tasks))
    emissions = emissions_of(tasks, fit.tables, None, fit.balance, fit.units)
    posterior, _ = sum_product(emissions.evidence(codes), graph._task_tree, fit.task_tables)
    gains = [
        accuracy_of(posterior[:, task], truths[:, task])
        - accuracy_of(vote_shares(codes[:, list(sources)], n_classes)[:, 0], truths[:, task])
        for task, sources in enumerate(tasks)
    ]
    return float(np.mean(gains))
