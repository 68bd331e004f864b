"""Train a network in one pass over video frames whose detectors drift, and label the frames in the same pass.

Frames are 16 x 16 pixels; in half of them a square moves. Five detectors vote on whether it is there.
Halfway through, the light changes, and the two best detectors become the worst. A small CNN trains on every
frame once, on labels by a window of the latest frames, by all frames so far, by majority vote, and by gold.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy

BEFORE, AFTER = [0.92, 0.9, 0.7, 0.65, 0.65], [0.25, 0.25, 0.75, 0.8, 0.8]


def draw_frames(n: int, rng: np.random.Generator) -> tuple[Tensor, Tensor]:
    y = rng.integers(0, 2, n)
    frames = rng.normal(0, 1.0, (n, 1, 16, 16))
    for number in np.flatnonzero(y):
        row, column = rng.integers(0, 11, 2)
        frames[number, 0, row : row + 5, column : column + 5] += 1
    return torch.as_tensor(frames, dtype=torch.float32), torch.as_tensor(y)


def draw_votes(y: Tensor, rng: np.random.Generator) -> Tensor:
    half, m = len(y) // 2, len(BEFORE)
    accuracy = np.where(np.arange(len(y))[:, None] < half, BEFORE, AFTER)
    right = rng.random((len(y), m)) < accuracy
    votes = np.where(right, y.numpy()[:, None], 1 - y.numpy()[:, None])
    return torch.as_tensor(np.where(rng.random((len(y), m)) < 0.1, -1, votes))


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(16, 2)),
    )


def majority(votes: Tensor) -> Tensor:
    cast = torch.stack([(votes == k).sum(dim=1) for k in (0, 1)], dim=1) + 1e-9
    return cast / cast.sum(dim=1, keepdim=True)


def main(n_items: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    frames, y = draw_frames(n_items, rng)
    votes, (new_frames, new_y) = draw_votes(y, rng), draw_frames(1_000, rng)
    follows = LabelModelLoss(5, window=max(400, n_items // 20), method="triplet")
    remembers, soft = LabelModelLoss(5, method="triplet"), SoftCrossEntropy()
    losses: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "a window of the latest frames": lambda logits, rows: follows(logits, votes[rows]),
        "all frames so far": lambda logits, rows: remembers(logits, votes[rows]),
        "majority vote": lambda logits, rows: soft(logits, majority(votes[rows])),
        "gold": lambda logits, rows: nn.functional.cross_entropy(logits, y[rows]),
    }
    scores = {}
    for name, loss_of in losses.items():
        model = network()
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for rows in torch.arange(n_items).split(50):
            optimizer.zero_grad()
            loss_of(model(frames[rows]), rows).backward()
            optimizer.step()
        with torch.no_grad():
            scores[name] = float((model(new_frames).argmax(dim=1) == new_y).float().mean())
        print(f"{name:32} {scores[name]:.3f}")
    print("detectors by the window:", follows.label_model.accuracies_.round(2), "in truth:", AFTER)
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    main(parser.parse_args().items)
