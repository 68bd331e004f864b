"""Train a classifier in one pass over a stream that drifts, without storing frames and without gold labels.

Every chunk of frames comes with features and the votes of five detectors. The online label model turns the
votes into probabilities, and scikit-learn's SGDClassifier learns from them at once. Halfway through, two
detectors break and another one is repaired. Run ``python examples/drift.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import SGDClassifier

import flyingsquid as fs

FRAMES, CHUNK, FEATURES = 40_000, 200, 20
BEFORE, AFTER = [0.9, 0.88, 0.6, 0.65, 0.7], [0.4, 0.45, 0.9, 0.65, 0.7]


def frames(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw features of frames, shape (n, FEATURES); their means depend on the class."""
    direction = np.linspace(-1, 1, FEATURES)
    return rng.normal(size=(len(y), FEATURES)) + 0.8 * np.where(y == 1, 1, -1)[:, None] * direction


def train(
    label: Callable[..., np.ndarray], stream: fs.datasets.Simulation, features: np.ndarray
) -> tuple[float, float]:
    """Label each chunk, test on it, then train on it; return accuracies of labels and of the classifier."""
    end_model = SGDClassifier(loss="log_loss", learning_rate="constant", eta0=0.002, random_state=0)
    right_labels, right_answers, seen = 0, 0, 0
    for start in range(0, FRAMES, CHUNK):
        rows = slice(start, start + CHUNK)
        p = label(stream.votes[rows])[:, 1]
        hard, x, y = p > 0.5, features[rows], stream.y[rows]
        if start >= FRAMES // 2:  # after the change
            right_answers += int((end_model.predict(x) == y).sum())
            right_labels += int((hard == y).sum())
            seen += len(y)
        # SGDClassifier takes hard labels, so each frame is passed once per class, weighted by probability.
        end_model.partial_fit(
            np.concatenate([x, x]),
            np.repeat([0, 1], len(p)),
            classes=[0, 1],
            sample_weight=np.concatenate([1 - p, p]),
        )
    return right_labels / seen, right_answers / seen


def main() -> dict[str, tuple[float, float]]:
    """Compare three label models on the stream."""
    rng = np.random.default_rng(0)
    stream = fs.datasets.simulate_drift(FRAMES, BEFORE, AFTER, kind="sudden", coverage=0.8, random_state=rng)
    features = frames(stream.y, rng)
    offline = fs.LabelModel(method="triplet").fit(stream.votes[: FRAMES // 4])
    online = fs.OnlineLabelModel(window="auto", method="triplet", refresh=CHUNK)
    ways: dict[str, Callable[..., np.ndarray]] = {
        "majority vote": fs.MajorityVote().fit(stream.votes[:CHUNK]).predict_proba,
        "fitted once": offline.predict_proba,
        "online": online.update,
    }
    results = {name: train(label, stream, features) for name, label in ways.items()}
    print("after the change:  labels  classifier")
    for name, (labels, answers) in results.items():
        print(f"{name:17}  {labels:.1%}   {answers:.1%}")
    for change in online.changes():
        print(change)
    return results


if __name__ == "__main__":
    main()
