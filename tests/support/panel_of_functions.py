"""A panel of judges whose answers follow from the item, for tests of adaptive asking."""

from __future__ import annotations

import random

import numpy as np

from flyingsquid.judges import Judge

ACCURACIES = (0.9, 0.85, 0.8, 0.75, 0.7, 0.6)
CLASSES = ("bad", "good")


def truth(item: int) -> str:
    return CLASSES[random.Random(f"truth {item}").random() < 0.6]


def answer(name: str, accuracy: float, item: int) -> str:
    """Return the answer of one judge, in 3% of the cases a refusal."""
    noise = random.Random(f"{name} {item}")
    if noise.random() < 0.03:
        return "I'm sorry, but I can't help with that."
    is_right = noise.random() < accuracy
    return truth(item) if is_right else CLASSES[truth(item) == CLASSES[0]]


def make_panel(called=lambda name, item: None, *, failing=(), flaky=0.0, **options) -> list[Judge]:
    """Return judges that report each call to ``called``.

    Those in ``failing`` always fail, and all others with probability ``flaky``.
    """
    luck = random.Random(0)

    def make(name: str, accuracy: float) -> Judge:
        def ask(item: int) -> str:
            called(name, item)
            if name in failing or luck.random() < flaky:
                raise ConnectionError("overloaded")
            return answer(name, accuracy, item)

        return Judge(name, ask, classes=CLASSES, **{"backoff": 0.0} | options)

    return [make(f"judge {j}", accuracy) for j, accuracy in enumerate(ACCURACIES)]


def all_votes(n_items: int) -> list[list[str | None]]:
    """Return the votes of all judges on all items, None for refusals."""
    said = [[answer(f"judge {j}", a, i) for j, a in enumerate(ACCURACIES)] for i in range(n_items)]
    return [[text if text in CLASSES else None for text in row] for row in said]


def accuracy_of(codes, n_items: int) -> float:
    return float(np.mean([CLASSES[code] == truth(i) for i, code in zip(range(n_items), codes, strict=True)]))
