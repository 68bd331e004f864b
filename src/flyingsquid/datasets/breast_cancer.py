"""Real measurements with hand-written rules: the data of ``flyingsquid demo``.

The measurements are the breast cancer set that scikit-learn carries: 569 biopsies, 30 numbers
each. The rules below were written from what the measurements mean (malignant cells are larger,
darker in texture and more irregular in outline), each with a gap in which it abstains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.votes import ABSTAIN, Votes

BENIGN, MALIGNANT = 0, 1


@dataclass(frozen=True, slots=True)
class Rule:
    """Malignant at or above ``high``, benign at or below ``low``, silent in between."""

    name: str
    column: str
    low: float
    high: float

    def vote(self, values: NDArray[np.float64]) -> NDArray[np.int8]:
        """Votes of shape (n,) for measurements of shape (n,)."""
        votes = np.full(len(values), ABSTAIN, np.int8)
        votes[values <= self.low] = BENIGN
        votes[values >= self.high] = MALIGNANT
        return votes


# The last two sound as plausible as the others and are worth nothing. That is the point.
RULES = (
    Rule("large nuclei", "worst radius", 15.0, 18.0),
    Rule("coarse texture", "mean texture", 17.0, 21.0),
    Rule("dented outline", "mean concave points", 0.035, 0.06),
    Rule("lopsided", "worst symmetry", 0.26, 0.31),
    Rule("uneven sizes", "area error", 25.0, 50.0),
    Rule("uneven roughness", "smoothness error", 0.0055, 0.0075),
    Rule("ragged edge", "mean fractal dimension", 0.06, 0.065),
)


@dataclass(frozen=True, slots=True)
class BreastCancer:
    """Measurements, the votes of the rules, and the truth.

    Attributes
    ----------
    features : array of shape (569, 30)
    votes : Votes of shape (569, 7)
    y : array of shape (569,)
        ``"benign"`` or ``"malignant"``, the classes of the votes.
    """

    features: NDArray[np.float64]
    votes: Votes
    y: NDArray[Any]


def load_breast_cancer() -> BreastCancer:
    """Seven rules over real measurements, with the truth to compare with.

    >>> import flyingsquid as fs
    >>> data = load_breast_cancer()
    >>> data.votes
    Votes(569 items x 7 sources, classes 'benign', 'malignant', 71% voted, dense int8)
    >>> bool(fs.LabelModel().fit(data.votes).score(data.votes, data.y) > 0.9)
    True
    """
    # Imported here: scikit-learn's data sets take longer to import than this package.
    from sklearn.datasets import load_breast_cancer as load

    data = load()
    columns = {name: at for at, name in enumerate(data.feature_names)}
    codes = np.column_stack([rule.vote(data.data[:, columns[rule.column]]) for rule in RULES])
    votes = Votes(codes, ("benign", "malignant"), tuple(rule.name for rule in RULES))
    # scikit-learn codes malignant as 0.
    return BreastCancer(data.data, votes, np.array(votes.classes)[1 - data.target])
