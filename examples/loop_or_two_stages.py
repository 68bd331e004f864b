"""Compare estimating the sources during training with estimating them before.

With two stages, all votes are counted first, and every batch is labeled with the same parameters. In the
loop, the first batches are labeled with parameters from few votes. After one epoch, both have the same
counts.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from torch import Tensor, nn

import flyingsquid as fs
from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy


def train(X: Tensor, loss_fn: nn.Module, targets: Tensor) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(X.shape[1], 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for rows in torch.arange(len(X)).split(64):
        optimizer.zero_grad()
        loss_fn(model(X[rows]), targets[rows]).backward()
        optimizer.step()
    return model


def main(n_items: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(
        n_items + 2_000, accuracies=[0.85, 0.8, 0.7, 0.65, 0.6], coverage=0.7, random_state=rng
    )
    y = torch.as_tensor(sample.y.astype(np.int64))
    X = torch.as_tensor(rng.normal(sample.y[:, None], 1.5, (len(y), 8)), dtype=torch.float32)
    votes = torch.as_tensor(sample.votes.codes.astype(np.int64))
    X, new_X, votes, new_y = X[:n_items], X[n_items:], votes[:n_items], y[n_items:]

    batch_model = fs.LabelModel(method="triplet").fit(votes.numpy())
    labels = torch.as_tensor(batch_model.predict_proba(votes.numpy()), dtype=torch.float32)
    in_the_loop = LabelModelLoss(5, method="triplet", drop_uncovered=False)
    models = {
        "two stages": train(X, SoftCrossEntropy(), labels),
        "in the loop": train(X, in_the_loop, votes),
    }
    scores = {}
    for name, model in models.items():
        with torch.no_grad():
            scores[name] = float((model(new_X).argmax(dim=1) == new_y).float().mean())
        print(f"{name:12} {scores[name]:.3f}")
    print("same counts:", in_the_loop.moments == fs.Moments.of(votes.numpy()))
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    main(parser.parse_args().items)
