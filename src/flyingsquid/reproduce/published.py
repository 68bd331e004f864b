"""Numbers that the paper prints (Fu et al. 2020), F1 in %, seconds on its machine."""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """One row of the paper's Table 1. ``None`` where it has no number."""

    title: str
    positives: float
    supervised: float
    majority: float
    programming: float
    sequential: float | None
    end_model: float
    label_model: float
    seconds: float
    programming_seconds: float

    @property
    def speedup(self) -> float:
        """How many times longer data programming takes."""
        return self.programming_seconds / self.seconds


TABLE_1 = {
    "spouse": Task("Spouses", 0.07, 20.4, 19.3, 44.7, None, 49.6, 47.0, 0.017, 7.5),
    "youtube": Task("Spam", 0.49, 91.5, 88.3, 91.8, None, 92.3, 89.1, 0.014, 0.76),
    "weather": Task("Weather", 0.53, 74.6, 87.3, 87.3, None, 88.9, 77.6, 0.150, 0.78),
    "commercial": Task("Commercial", 0.32, 90.9, 91.8, 90.5, 89.8, 92.3, 88.4, 0.067, 23.3),
    "tennis": Task("Tennis Rally", 0.34, 57.6, 80.2, 82.5, 80.6, 82.8, 82.0, 0.199, 41.1),
    "basketball": Task("Basketball", 0.12, 26.8, 8.1, 7.7, 38.2, 37.9, 27.9, 0.092, 28.7),
}
# Supervised, majority vote, and the paper's method: streaming end models.
TABLE_2 = {
    "commercial": (56.5, 78.9, 93.0),
    "tennis": (41.5, 81.6, 82.7),
    "basketball": (20.7, 22.0, 26.7),
}
# Spouses, spam and weather.
ABLATIONS = {
    "random votes, end model": (20.9, 64.1, 69.1),
    "all triplets, end model": (49.6, 92.3, 88.9),
    "one triplet, worst": (4.5, 67.0, 0.0),
    "one triplet, average": (37.9, 73.4, 31.0),
    "one triplet, best": (51.2, 83.6, 77.6),
    "all triplets": (47.0, 89.1, 77.6),
}
