"""What a fit noticed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate import BinaryFit


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """What a fit noticed. Sources are given by name.

    Attributes
    ----------
    method : the method that was used
    reason : why, when ``method="auto"`` chose it; otherwise empty
    class_balance : where the class balance comes from, in words
    silent : sources that never vote; they weigh nothing
    one_sided : sources that vote for one class only
    identical : groups of sources that vote alike, or opposite, on every item
    unidentified : sources that no triplet could judge; they got the average accuracy
    clipped : sources whose vote rates do not fit the class balance and their accuracy
    triplets_used, triplets_skipped : integer arrays of shape (m,)
        Triplets that entered each source's estimate, and those left out for a weak denominator.
    """

    method: str
    reason: str
    class_balance: str
    silent: tuple[str, ...]
    one_sided: tuple[str, ...]
    identical: tuple[tuple[str, ...], ...]
    unidentified: tuple[str, ...]
    clipped: tuple[str, ...]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]

    def concerns(self) -> str:
        """One sentence for each kind of source that deserves a look; empty when there is none."""
        found = []
        if self.silent:
            found.append(f"never vote, so weigh nothing: {_listed(self.silent)}")
        if self.identical:
            groups = "; ".join(_listed(group) for group in self.identical)
            found.append(f"vote alike on every item, so count as more than one: {groups}")
        if self.one_sided:
            found.append(f"vote for one class only: {_listed(self.one_sided)}")
        if self.unidentified:
            found.append(
                "agree with too few others to be judged, so got the average accuracy: "
                f"{_listed(self.unidentified)}"
            )
        if 2 * len(self.clipped) > len(self.triplets_used):
            found.append(
                f"vote at rates that do not fit the class balance: {_listed(self.clipped)} (pass "
                "class_balance= if it is not the one used)"
            )
        return ". ".join(f"Sources that {sentence}" for sentence in found)


def diagnose(fit: BinaryFit, method: str, reason: str, names: tuple[str, ...]) -> Diagnostics:
    """Name the sources that a fit flagged."""

    def named(mask: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(names[i] for i in np.flatnonzero(mask))

    identical = tuple(tuple(names[i] for i in group) for group in fit.flags.identical)
    return Diagnostics(
        method,
        reason,
        fit.balance_note,
        named(fit.flags.silent),
        named(fit.flags.one_sided),
        identical,
        named(fit.unidentified),
        named(fit.clipped & ~fit.flags.one_sided),
        fit.triplets_used,
        fit.triplets_skipped,
    )


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(names[:5])
    return shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
