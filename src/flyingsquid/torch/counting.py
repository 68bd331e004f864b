"""Counts of votes in torch operations, on the device of the votes: the same integers as ``Moments.of``."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from flyingsquid.moments import Moments
from flyingsquid.moments.moments import moments_from_tables
from flyingsquid.moments.plan import CountPlan
from flyingsquid.votes import REASONS

# Well below 2**24, where float32 stops counting.
_CHUNK_ROWS = 1 << 20


def full_precision(device: torch.device) -> AbstractContextManager[object]:
    """Without autocast, which would multiply in bfloat16, and that counts to 256."""
    if not torch.amp.is_autocast_available(device.type):
        return nullcontext()
    return torch.autocast(device_type=device.type, enabled=False)


def count_shapes(plan: CountPlan, n_classes: int) -> list[tuple[int, ...]]:
    """The shapes of all counts of a plan: the number of items, every pair set, every unit."""
    return [(1,), *plan.shapes(n_classes)]


@torch.no_grad()
def count_votes(votes: Tensor, plan: CountPlan, n_classes: int) -> Tensor:
    """All counts in one flat int64 tensor, in the order of :func:`count_shapes`.

    ``votes`` has shape (b, m), integers, -1 for no vote. Time O(b · Σ (K · block)²), on the device.
    """
    total = _count(votes[:_CHUNK_ROWS], plan, n_classes)
    for start in range(_CHUNK_ROWS, len(votes), _CHUNK_ROWS):
        total += _count(votes[start : start + _CHUNK_ROWS], plan, n_classes)
    return total


def _count(votes: Tensor, plan: CountPlan, n_classes: int) -> Tensor:
    with full_precision(votes.device):
        parts = [torch.tensor([len(votes)], device=votes.device)]
        hots = []
        for sources in plan.pair_sets:
            columns = votes if len(sources) == votes.shape[1] else votes[:, list(sources)]
            hot = _one_hot(columns, n_classes)
            pairs = (hot.T @ hot).reshape(n_classes, len(sources), n_classes, len(sources))
            parts.append(pairs.transpose(1, 2).reshape(-1).to(torch.int64))
            hots.append(hot)
        for unit, at in zip(plan.units, plan.unit_sets, strict=True):
            states = _unit_states(votes[:, list(unit)], n_classes)
            votes_beside = torch.cat([torch.ones_like(hots[at][:, :1]), hots[at]], dim=1)
            parts.append((states.T @ votes_beside).reshape(-1).to(torch.int64))
    return torch.cat(parts)


def _one_hot(votes: Tensor, n_classes: int) -> Tensor:
    """Shape (b, K m), class-major columns; no vote is all zeros."""
    classes = torch.arange(n_classes, device=votes.device)
    return (votes[:, None, :] == classes[:, None]).flatten(1).to(torch.float32)


def unit_numbers(votes: Tensor, n_classes: int) -> Tensor:
    """The joint votes of a unit as numbers, the first source the lowest digit, shape (b,)."""
    powers = (n_classes + 1) ** torch.arange(votes.shape[1], device=votes.device)
    # A sum, not a product: matrix products of integers exist on the CPU only.
    return ((votes.long() + 1) * powers).sum(dim=1)


def _unit_states(votes: Tensor, n_classes: int) -> Tensor:
    size = (n_classes + 1) ** votes.shape[1]
    numbers = torch.arange(size, device=votes.device)
    return (unit_numbers(votes, n_classes)[:, None] == numbers).to(torch.float32)


def moments_of_counts(flat: NDArray[np.int64], plan: CountPlan, n_classes: int) -> Moments:
    """The counts of :func:`count_votes` as ``Moments``."""
    (n_items,), *tables = _cut(flat, count_shapes(plan, n_classes))
    missing = np.zeros((plan.n_sources, len(REASONS) - 1), np.int64)
    return moments_from_tables(plan, int(n_items), tables, missing, tuple(range(n_classes)))


def _cut(flat: NDArray[np.int64], shapes: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
    ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
    parts = np.split(flat, ends[:-1])
    return [part.reshape(shape).copy() for part, shape in zip(parts, shapes, strict=True)]
