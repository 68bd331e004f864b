"""Bounds of the paper (Fu et al. 2020, Theorems 1 to 5) as functions.

The bounds are orders of magnitude for comparing designs, often loose by a factor of a hundred. They are not
error bars: for confidence intervals use ``accuracies_interval_`` of a fitted model, and for the window of a
stream ``window="auto"``. Some printed constants do not follow from the proofs; docs/concepts/theory.md lists
those that are used instead.

Notation: n items, m sources, and the mean parameter aᵢ = E[λᵢ Y] in [-1, 1] of each source
(:func:`mean_parameters`). Errors are ‖μ̂ - μ‖₂ of the label model's tables μ = P(λ, Y).
"""

from flyingsquid.theory.end_model import (
    end_model_drift_bound,
    end_model_window,
    generalization_bound,
    model_distance,
    tolerated_drift,
)
from flyingsquid.theory.label_model import (
    accuracy_error_bound,
    lower_bound,
    optimal_window,
    sampling_error_bound,
    window_error_bound,
)
from flyingsquid.theory.parameters import (
    covariance_floor,
    drift_of,
    mean_parameters,
    rarest_event,
    smallest_eigenvalue,
)

__all__ = [
    "accuracy_error_bound",
    "covariance_floor",
    "drift_of",
    "end_model_drift_bound",
    "end_model_window",
    "generalization_bound",
    "lower_bound",
    "mean_parameters",
    "model_distance",
    "optimal_window",
    "rarest_event",
    "sampling_error_bound",
    "smallest_eigenvalue",
    "tolerated_drift",
    "window_error_bound",
]
