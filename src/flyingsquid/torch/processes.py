"""Adding up over processes, so that every rank holds the same counts."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed


def n_processes(group: Any) -> int:
    """How many processes train together; 1 where ``torch.distributed`` is not in use."""
    if not (distributed.is_available() and distributed.is_initialized()):
        return 1
    return int(distributed.get_world_size(group))


def summed(counts: Tensor, group: Any) -> Tensor:
    """The sum of integer counts over all processes."""
    if n_processes(group) > 1:
        distributed.all_reduce(counts, op=distributed.ReduceOp.SUM, group=group)
    return counts


def gathered(rows: Tensor, group: Any) -> Tensor:
    """The rows of all processes, rank by rank; their numbers may differ. Shape (sum of b, m)."""
    world = n_processes(group)
    if world == 1:
        return rows
    size = torch.tensor([len(rows)], device=rows.device)
    sizes = [torch.empty_like(size) for _ in range(world)]
    distributed.all_gather(sizes, size, group=group)
    most = int(torch.cat(sizes).max())
    # All ranks have to send equally much.
    padded = torch.full((most, rows.shape[1]), -1, dtype=rows.dtype, device=rows.device)
    padded[: len(rows)] = rows
    parts = [torch.empty_like(padded) for _ in range(world)]
    distributed.all_gather(parts, padded, group=group)
    return torch.cat([part[: int(n)] for part, n in zip(parts, sizes, strict=True)])
