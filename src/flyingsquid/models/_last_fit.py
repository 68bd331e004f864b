"""What the last fit of a stream says, under the names that every label model has."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis import Diagnostics, Explanation, Table
from flyingsquid.models._base import VoteEstimator, _NotFittedError
from flyingsquid.models.label_model import LabelModel

Array = NDArray[np.float64]


class LastFit(VoteEstimator):
    """An estimator that passes on what its last label model knows."""

    _model: LabelModel | None
    status_: Any

    @property
    def model_(self) -> LabelModel:
        """The label model of the last refresh."""
        self._require_fitted()
        if self._model is None:
            raise _NotFittedError(f"there are no parameters yet: {self.status_}")
        return self._model

    @property
    def accuracies_(self) -> Array:
        return self.model_.accuracies_

    @property
    def accuracies_interval_(self) -> Array:
        return self.model_.accuracies_interval_

    @property
    def coverage_(self) -> Array:
        return self.model_.coverage_

    @property
    def confusion_(self) -> Array:
        return self.model_.confusion_

    @property
    def class_balance_(self) -> Array:
        return self.model_.class_balance_

    @property
    def diagnostics_(self) -> Diagnostics:
        return self.model_.diagnostics_

    def summary(self) -> Table:
        """What each source is worth in the window of the last refresh; as ``LabelModel.summary``."""
        return self.model_.summary()

    def explain(self, votes_row: Any, *, task: int | None = None) -> Explanation:
        """Why one item gets its label, by the parameters of the last refresh; as ``LabelModel.explain``."""
        return self.model_.explain(votes_row, task=task)
