"""The paper's bounds as functions: orders of magnitude, to compare designs by, and no error bars.

Theorems 1 to 5 of Fu et al. (2020), with the constants that their proofs support where the printed ones are
not right; docs/concepts/theory.md says which. Every bound is loose, often by a factor of a hundred. Intervals
of a fit are ``accuracies_interval_``; the window of a stream is better chosen by ``window="auto"``.

Throughout, n items, m sources, and a source counts by its mean parameter aᵢ = E[λᵢ Y] in [-1, 1]
(:func:`mean_parameters`). Errors are of the label model's tables μ = P(λ, Y), as ‖μ̂ - μ‖₂.
"""

from flyingsquid.analysis.theory.end_model import (
    end_model_drift_bound,
    end_model_window,
    generalization_bound,
    model_distance,
    tolerated_drift,
)
from flyingsquid.analysis.theory.inputs import (
    covariance_floor,
    drift_of,
    mean_parameters,
    rarest_event,
    smallest_eigenvalue,
)
from flyingsquid.analysis.theory.sampling import accuracy_error_bound, lower_bound, sampling_error_bound
from flyingsquid.analysis.theory.window import optimal_window, window_error_bound

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
