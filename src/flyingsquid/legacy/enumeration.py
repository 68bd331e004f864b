"""P(all tasks | votes): the one place that lists 2^v combinations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from flyingsquid.fits import PosteriorParameters
from flyingsquid.inference.junction_tree import plan
from flyingsquid.votes.codes import Codes

Array = NDArray[np.float64]
# Items are taken in parts whose tables stay within 32 MB.
_CHUNK_CELLS = 1 << 22


def joint_posterior(codes: Codes, parameters: PosteriorParameters) -> Array:
    """P(Y_0, Y_1, ... | votes), shape (n, 2^D), the last task fastest."""
    evidence = parameters.emissions.evidence(codes)
    n, n_tasks, _ = evidence.shape
    log_prior = _log_prior(parameters, n_tasks)
    result = np.empty((n, 2**n_tasks))
    rows = max(1, _CHUNK_CELLS >> n_tasks)
    for start in range(0, n, rows):
        part = evidence[start : start + rows]
        score = np.broadcast_to(log_prior, (len(part), *log_prior.shape)).copy()
        for task in range(n_tasks):
            score += part[:, task].reshape(len(part), *_axes((task,), n_tasks))
        flat = score.reshape(len(part), -1)
        flat -= flat.max(axis=1, keepdims=True)
        np.exp(flat, out=flat)
        result[start : start + rows] = flat / flat.sum(axis=1, keepdims=True)
    return result


def _log_prior(parameters: PosteriorParameters, n_tasks: int) -> Array:
    """log P(Y_0, Y_1, ...), shape (2,) * D: every clique given what it shares with its parent."""
    total = np.zeros((2,) * n_tasks)
    steps = plan(parameters.tree, parameters.clique_tables)
    for clique, step in zip(parameters.tree.cliques, steps, strict=True):
        table = step.log_table[..., 0].transpose(np.argsort(clique))
        total = total + table.reshape(_axes(clique, n_tasks))
    return np.asarray(total)


def _axes(tasks: tuple[int, ...], n_tasks: int) -> tuple[int, ...]:
    return tuple(2 if task in tasks else 1 for task in range(n_tasks))
