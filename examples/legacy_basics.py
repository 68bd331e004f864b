"""First steps with the 2020 code, unchanged except for the import line.

In 2020 it was ``from flyingsquid.label_model import LabelModel``.
"""

from typing import Any

import numpy as np

from flyingsquid.legacy import LabelModel


def draw_votes(n: int, accuracies: list[float], abstain_rates: list[float], seed: int) -> tuple[Any, Any]:
    """Draw votes of -1, 0 (abstain) and +1, shape (n, m), and the truth, shape (n,)."""
    rng = np.random.default_rng(seed)
    Y = rng.choice([-1, 1], n)
    right = rng.random((n, len(accuracies))) < accuracies
    votes = np.where(right, Y[:, None], -Y[:, None])
    return np.where(rng.random(votes.shape) < abstain_rates, 0, votes), Y


def main() -> dict[str, Any]:
    accuracies, abstain_rates = [0.9, 0.8, 0.75, 0.7, 0.6], [0.1, 0.2, 0.5, 0.3, 0.0]
    L_train, _ = draw_votes(5_000, accuracies, abstain_rates, seed=0)
    L_dev, Y_dev = draw_votes(1_000, accuracies, abstain_rates, seed=1)
    m = L_train.shape[1]

    label_model = LabelModel(m)
    label_model.fit(L_train)

    preds = label_model.predict(L_dev).reshape(Y_dev.shape)
    accuracy = np.mean(preds == Y_dev)
    print(f"Label model accuracy: {100 * accuracy:.1f}%")
    majority = np.mean(np.where(L_dev.sum(axis=1) > 0, 1, -1) == Y_dev)
    print(f"Majority vote accuracy: {100 * majority:.1f}%")

    estimated = label_model.estimated_accuracies()
    for i in range(m):
        true = accuracies[i] * (1 - abstain_rates[i])
        print(f"LF {i}: P(vote = Y) estimated {estimated[i]:.3f}, true {true:.3f}")

    # LF 4 is made to repeat LF 3 half of the time; the class balance is P(Y = -1), P(Y = +1).
    repeats = np.random.default_rng(2).random(len(L_train)) < 0.5
    L_train[repeats, 4] = L_train[repeats, 3]
    label_model = LabelModel(m, lambda_edges=[(3, 4)])
    label_model.fit(L_train, class_balance=[0.5, 0.5])
    print(f"P(Y) of the first item: {np.round(label_model.predict_proba(L_dev[:1])[0], 3)}")
    return {"label model": accuracy, "majority vote": majority, "estimated": estimated}


if __name__ == "__main__":
    main()
