"""What the bounds refuse."""

from __future__ import annotations

from flyingsquid.exceptions import OptionError


def require_sizes(n_items: float, n_sources: int, a_min: float) -> None:
    """Refuse sizes and a smallest accuracy for which there is no bound."""
    require(n_items > 0 and n_sources > 0, "there is at least one item and one source")
    require(
        0 < a_min <= 1, "a_min, the smallest |E[λY]|, lies in (0, 1]; sources that know nothing have no bound"
    )


def require(condition: bool, what: str) -> None:
    """Refuse an input, saying what it must be."""
    if not condition:
        raise OptionError(what)
