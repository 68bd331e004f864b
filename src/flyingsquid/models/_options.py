"""Options that name sources, checked and turned into positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import Moments

# Beyond, no denominator of any data could pass.
_MOST_ERRORS = 1e6


def position_of(source: Any, names: tuple[str, ...], option: str) -> int:
    """The position of a source given by name or by position."""
    if isinstance(source, str):
        if source in names:
            return names.index(source)
        raise OptionError(f"{option} names the source {source!r}; there are {', '.join(names[:8])}")
    if isinstance(source, bool) or not hasattr(source, "__index__"):
        raise OptionError(f"{option} holds {source!r}; a source is given by name or by position")
    at = int(source.__index__())
    if not 0 <= at < len(names):
        raise OptionError(f"{option} names source {at}; there are {len(names)}, counted from 0")
    return at


def read_anchors(signs: Any, names: tuple[str, ...]) -> dict[int, int]:
    """Known signs by position; empty for ``signs="average"``."""
    if isinstance(signs, str) and signs == "average":
        return {}
    if not isinstance(signs, Mapping) or not signs:
        raise OptionError(f"signs={signs!r} is unknown; pass 'average', or {{source: +1 or -1}}")
    anchors: dict[int, int] = {}
    for source, sign in signs.items():
        if sign not in (-1, 1):
            raise OptionError(f"signs[{source!r}] is {sign!r}; +1 is better than random, -1 worse")
        at = position_of(source, names, "signs")
        if at in anchors:
            raise OptionError(f"signs names the source {names[at]!r} twice")
        anchors[at] = int(sign)
    return anchors


def read_triplets(triplets: Any, names: tuple[str, ...]) -> list[tuple[int, int, int]] | None:
    """Given triplets by position."""
    if triplets is None:
        return None
    try:
        if iter(triplets) is triplets:
            raise OptionError("triplets= is an iterator, which can be read only once; pass a list")
        triplets = list(triplets)
    except TypeError as error:
        raise OptionError(f"triplets={triplets!r} is no sequence of three sources each") from error
    result = []
    for triplet in triplets:
        try:
            a, b, c = (position_of(source, names, "triplets") for source in triplet)
        except (TypeError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"triplets holds {triplet!r}; each one is three sources") from error
        if len({a, b, c}) < 3:
            raise OptionError(f"triplets holds {triplet!r}, which names a source twice")
        result.append((a, b, c))
    if not result:
        raise OptionError("triplets is empty; leave it out to let the method choose")
    return result


def check_screen(screen: Any) -> None:
    """Refuse a screen that is not a finite number of standard errors."""
    is_number = isinstance(screen, (int, float, np.integer, np.floating)) and not isinstance(screen, bool)
    if not is_number or not 0 <= screen <= _MOST_ERRORS:
        raise OptionError(f"screen={screen!r} is no number of standard errors, 0 or more")


def require_moments(moments: Any) -> None:
    """Refuse what is not counts, or counts of nothing."""
    if not isinstance(moments, Moments):
        raise OptionError(f"fit_moments takes Moments, not {type(moments).__name__}; votes go to fit")
    if not moments.n_items > 0:
        raise NotIdentifiableError("the counts hold no items; there is nothing to learn from")
