"""One process of a group that trains together; started by test_distributed.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import distributed

from flyingsquid.torch import LabelModelLoss

WINDOWS = (None, 130)


def main(folder: Path, rank: int, world: int) -> None:
    """Train on this rank's part of each batch, with and without a window, and leave the states behind."""
    if world > 1:
        meeting = f"file://{folder}/meeting"
        distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=world)
    votes = torch.as_tensor(np.load(folder / "votes.npy"))
    torch.save([train(votes, rank, world, window) for window in WINDOWS], folder / f"{world}_{rank}.pt")
    if world > 1:
        distributed.destroy_process_group()


def train(votes: torch.Tensor, rank: int, world: int, window: int | None) -> dict[str, Any]:
    torch.manual_seed(0)
    layer, loss_fn = torch.nn.Linear(votes.shape[1], 2), LabelModelLoss(votes.shape[1], window=window)
    labels = []
    for batch in votes.split(60):
        # Uneven on purpose: 20 and 40 rows.
        mine = batch if world == 1 else (batch[:20], batch[20:])[rank]
        loss_fn(layer(mine.float()), mine).backward()
        labels.append(loss_fn.soft_labels(votes[:5]))
    return {"window": window, "loss": loss_fn.state_dict(), "labels": torch.cat(labels)}


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
