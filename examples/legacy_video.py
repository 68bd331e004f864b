"""Three frames in a row with the 2020 code, unchanged except for the import line.

In 2020 it was ``from flyingsquid.label_model import LabelModel``.
"""

from typing import Any

import numpy as np

from flyingsquid.legacy import LabelModel


def draw_video(n_frames: int, accuracies: list[float], seed: int) -> tuple[Any, Any]:
    """Draw votes on frames, shape (n_frames, m), and truths that change after one frame in ten."""
    rng = np.random.default_rng(seed)
    changes = np.where(rng.random(n_frames) < 0.1, -1, 1)
    Y = np.cumprod(changes)
    votes = np.where(rng.random((n_frames, len(accuracies))) < accuracies, Y[:, None], -Y[:, None])
    return np.where(rng.random(votes.shape) < 0.2, 0, votes), Y


def main() -> dict[str, Any]:
    accuracies = [0.85, 0.75, 0.7, 0.65]
    L_frames, Y_frames = draw_video(9_000, accuracies, seed=0)
    v, m_per_frame = 3, len(accuracies)
    m = m_per_frame * v

    # Three frames are one item: (n, 3 * 4) votes on (n, 3) truths.
    n_train = 2_000 * v
    L_train = L_frames[:n_train].reshape(-1, m)
    Y_dev = Y_frames[:n_train].reshape(-1, v)[:300]
    L_test, Y_test = L_frames[n_train:].reshape(-1, m), Y_frames[n_train:].reshape(-1, v)

    label_model = LabelModel(
        m,
        v=v,
        y_edges=[(i, i + 1) for i in range(v - 1)],
        lambda_y_edges=[(i, i // m_per_frame) for i in range(m)],
    )
    label_model.fit(L_train, Y_dev=Y_dev, solve_method="triplet_mean")
    sequence = np.mean(label_model.predict(L_test) == Y_test)
    marginals = label_model.predict_proba_marginalized(L_test).reshape(-1, v)
    print(f"Frames labeled as sequences: {100 * sequence:.1f}% right")
    print(f"P(Y = +1) of the first three frames: {np.round(marginals[0], 3)}")
    probabilities = label_model.predict_proba(L_test)
    best = label_model.enumerate_ys()[int(probabilities[0].argmax())]
    print(f"Their most probable labels together: {best}")

    frames = LabelModel(m_per_frame)
    frames.fit(L_frames[:n_train])
    single = np.mean(frames.predict(L_frames[n_train:]).ravel() == Y_frames[n_train:])
    print(f"Frames labeled one by one: {100 * single:.1f}% right")
    return {"sequences": sequence, "one by one": single}


if __name__ == "__main__":
    main()
