"""How often each pair of sources agrees, as a triangle of coloured cells."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from flyingsquid.reports.marks import LABEL, WIDTH, label_width, plot, rect, row_label, text_within, words

_WIDE = 1.5 * WIDTH  # it is as tall as it is wide, so it gets more of the page
_NUMBER = 20.0  # what the number of a source takes


def heat_map(
    names: Sequence[str],
    agreement: NDArray[np.float64],
    beyond: NDArray[np.float64],
    *,
    strongest: float,
    label: str,
    says: str,
) -> str:
    """Cells for pairs of m sources: rows have names and numbers, columns the same numbers.

    Parameters
    ----------
    agreement : array of shape (m, m)
        Share of common items on which two sources say the same; NaN where they have none.
    beyond : array of shape (m, m)
        The same beyond chance: 1 is always, 0 as often as chance would, below 0 less often.
    strongest : float
        The value of ``beyond`` that gets the full colour.
    """
    m = len(names)
    names_end = label_width(names)
    left = names_end + _NUMBER
    side = min((_WIDE - left) / max(m - 1, 1), 34.0)
    bottom = (m - 1) * side
    every = ceil(14 / side)  # so that numbers do not run into each other
    parts = []
    for i in range(1, m):
        y = (i - 1) * side
        parts.append(row_label(names[i], y + side / 2, names_end))
        parts.append(words(str(i + 1), left - 5, y + side / 2, "side"))
        parts += [
            _cell((names[i], names[j]), agreement[i, j], beyond[i, j] / strongest, (left + j * side, y), side)
            for j in range(i)
        ]
    for j in range(0, m - 1, every):
        parts.append(words(str(j + 1), left + (j + 0.5) * side, bottom + 12, "tick"))
    # The first source has no row of its own; its name stands above the diagonal.
    parts.append(text_within(f"1 = {names[0]}", left + side + 6, side / 2, LABEL, "value central"))
    width = max(left + bottom, WIDTH)
    return plot(bottom + 16, parts, label=label, says=says, width=width)


def _cell(
    pair: tuple[str, str], agree: float, strength: float, corner: tuple[float, float], side: float
) -> str:
    (x, y), (one, other) = corner, (name[:80] for name in pair)
    gap = 0.5 if side > 6 else 0.2
    size = side - 2 * gap
    if not np.isfinite(agree):
        return rect("frame", x + gap, y + gap, size, size, hint=f"{one} and {other}: no common items")
    opacity = f' fill-opacity="{min(abs(strength), 1.0):.2f}"'
    kind = "bar" if strength >= 0 else "bar bad"
    return rect(kind, x + gap, y + gap, size, size, hint=f"{one} and {other}: {agree:.1%}", more=opacity)
