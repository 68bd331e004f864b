"""Standard errors, intervals and diagnostics of a fit, computed on demand or read from a file."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.intervals import intervals_around
from flyingsquid.estimation.mixture import Gain
from flyingsquid.fits.diagnostics import Diagnostics
from flyingsquid.moments import Moments

if TYPE_CHECKING:
    from flyingsquid.fits.base import Fit

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Assessment:
    """Standard errors and diagnostics of a fit that cannot be computed from its parameters alone.

    Solvers subclass this to compute them on demand.

    Attributes
    ----------
    errors : array of shape (m,), optional
        Standard errors of the accuracies from sampling; unknown by default.
    reach : array of shape (m, 2), optional
        Largest distance of the true accuracies below and above the estimates if the model is wrong; NaN if
        the votes do not determine them.
    balance : array of shape (D, K, 2), optional
        95% intervals of the class balance; unknown by default.
    gain : Gain, optional
        Gain over majority vote that the labels imply; unknown by default.
    widening : float, default=1.0
        Factor of the standard errors, above 1 if the errors of sources persist from item to item.
    diagnostics : Diagnostics, optional
        By default they are computed from the parameters and the counts.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> fs.fits.Assessment(errors=np.array([0.1, 0.2])).standard_errors(2)
    array([0.1, 0.2])
    """

    errors: Array | None = None
    diagnostics: Diagnostics | None = None
    reach: Array | None = field(default=None, kw_only=True)
    balance: Array | None = field(default=None, kw_only=True)
    gain: Gain | None = field(default=None, kw_only=True)
    widening: float = field(default=1.0, kw_only=True)

    is_recorded: ClassVar[bool] = False
    """Whether model files must keep the diagnostics, because the parameters do not determine them."""

    def standard_errors(self, n_sources: int) -> Array:
        """Return standard errors of the accuracies, shape (m,); NaN if unknown."""
        errors = self.sampling_errors()
        return np.full(n_sources, np.nan) if errors is None else self.widening * errors

    def sampling_errors(self) -> Array | None:
        """Return standard errors for errors that do not persist, shape (m,); None if unknown."""
        return self.errors

    def accuracy_reach(self) -> Array | None:
        """Return how far the accuracies may be below and above because the model is wrong, shape (m, 2)."""
        return self.reach

    def gain_over_majority(self) -> Gain | None:
        """Return the gain over majority vote that the labels imply; None if it is unknown."""
        return self.gain

    def accuracy_intervals(self, accuracies: Array) -> Array:
        """Return 95% intervals of the accuracies (m,), shape (m, 2); NaN if unknown."""
        return intervals_around(accuracies, self.standard_errors(len(accuracies)), self.accuracy_reach())

    def balance_intervals(self, balance: Array) -> Array:
        """Return 95% intervals of the class balance (D, K), shape (D, K, 2); NaN if unknown."""
        return np.full((*balance.shape, 2), np.nan) if self.balance is None else self.balance

    def widened(self, factor: float) -> Assessment:
        """Return an assessment with standard errors multiplied by ``factor``."""
        return replace(self, widening=factor * self.widening)

    def diagnose(self, fit: Fit, moments: Moments) -> Diagnostics:
        """Return the diagnostics of a fit."""
        return fit.own_diagnostics(moments) if self.diagnostics is None else self.diagnostics
