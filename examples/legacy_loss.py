"""The 2020 code's loss in a training loop, unchanged except for the import line.

In 2020 it was ``from flyingsquid.pytorch_loss import FSLoss``.
"""

from typing import Any

import numpy as np
import torch

from flyingsquid.legacy import FSLoss


def draw_items(n: int, accuracies: list[float], seed: int) -> tuple[Any, Any, Any]:
    """Draw features (n, 2), votes (n, m) and truths (n,)."""
    rng = np.random.default_rng(seed)
    Y = rng.choice([-1, 1], n)
    X = rng.normal(0, 1, (n, 2)) + Y[:, None] * [1.0, 0.5]
    votes = np.where(rng.random((n, len(accuracies))) < accuracies, Y[:, None], -Y[:, None])
    votes = np.where(rng.random(votes.shape) < 0.2, 0, votes)
    return torch.tensor(X, dtype=torch.float32), torch.tensor(votes), Y


def main() -> dict[str, Any]:
    accuracies = [0.85, 0.75, 0.7, 0.65]
    X_train, L_train, _ = draw_items(4_000, accuracies, seed=0)
    X_test, _, Y_test = draw_items(2_000, accuracies, seed=1)

    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    criterion = FSLoss(len(accuracies), buffer_capacity=1_000, update_frequency=100)

    for epoch in range(3):
        total = 0.0
        for X, L in zip(X_train.split(50), L_train.split(50), strict=True):
            optimizer.zero_grad()
            loss = criterion(model(X), L)
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"Epoch {epoch}: loss {total / 80:.3f}")

    with torch.no_grad():
        preds = np.where(model(X_test).numpy().ravel() > 0, 1, -1)
    accuracy = np.mean(preds == Y_test)
    print(f"End model accuracy: {100 * accuracy:.1f}%")
    return {"end model": accuracy, "sources": criterion.label_model.accuracies_}


if __name__ == "__main__":
    main()
