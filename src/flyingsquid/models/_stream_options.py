"""Options of the online model, checked and read."""

from __future__ import annotations

from typing import Any

import numpy as np

from flyingsquid._values import is_one_of, is_whole, told
from flyingsquid.estimation import MANY_CLASSES
from flyingsquid.exceptions import GraphError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import _options
from flyingsquid.models._many import is_many
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.structure import given_graph
from flyingsquid.moments.adaptive import DyadicCounts
from flyingsquid.moments.vectors import Layout
from flyingsquid.moments.windows import DecayedCounts, RollingCounts, Window
from flyingsquid.votes.convention import Convention
from flyingsquid.votes.states import Label

# Methods that pass over the votes.
_NEED_VOTES = (*(method for method in MANY_CLASSES if method != "agreement"), "anchored")


def check(model: Any) -> None:
    """Refuse options that are unknown, or that a stream cannot honour."""
    window, decay = model.window, model.decay
    is_auto = isinstance(window, str) and window == "auto"
    if not is_auto and not (is_whole(window) and window >= 1):
        raise OptionError(f"window={told(window)}; a whole number of items, 1 or more, or 'auto'")
    is_number = isinstance(decay, (float, np.floating))
    if decay is not None and not (is_number and 0 < decay < 1):
        raise OptionError(f"decay={told(decay)}; a number above 0 and below 1, such as 0.999, or None")
    if decay is not None and is_auto:
        raise OptionError("decay= and window='auto' are two ways to forget; choose one")
    if model.refresh is not None and not (is_whole(model.refresh) and model.refresh >= 1):
        raise OptionError(f"refresh={told(model.refresh)}; a whole number of items, 1 or more, or None")
    if not is_whole(model.warm_up) or model.warm_up < 0:
        raise OptionError(f"warm_up={told(model.warm_up)}; a whole number of items, 0 or more")
    for name in ("new_sources", "new_classes"):
        if not is_one_of(getattr(model, name), ("error", "add")):
            raise OptionError(f"{name}={told(getattr(model, name))} is unknown; one of error, add")
    if model.classes is not None and model.n_classes is not None:
        raise OptionError("classes= and n_classes= say the same thing; pass one of them")
    given_graph(model.graph, "a stream")
    if isinstance(model.class_balance, str) and model.class_balance == "estimate":
        raise OptionError(
            "class_balance='estimate' needs triples of votes, which a window does not count; pass the "
            "balance, here or with the votes"
        )
    if not isinstance(model.method, str):
        raise OptionError(f"method={told(model.method)} is no name of a method; leave it out for 'auto'")
    if model.method in _NEED_VOTES:
        raise OptionError(
            f"method={told(model.method)} passes over the votes; a stream takes 'consensus' or 'agreement'"
        )


def check_fit(shell: LabelModel, layout: Layout) -> None:
    """Refuse options that sources and classes of a stream rule out, before anything is learned."""
    empty = layout.moments(layout.zeros(), exact=True)
    is_many(shell, empty)
    _options.read_anchors(shell.signs, empty.source_names)


def check_widening(
    graph: DependencyGraph | None, before: Layout, classes: tuple[Label, ...], n_sources: int
) -> None:
    """Refuse what is new where a graph says what there is."""
    if graph is None or (classes == before.classes and n_sources == before.n_sources):
        return
    what = "source" if n_sources != before.n_sources else "class"
    raise GraphError(
        f"the graph is of {before.n_sources} sources and two classes; a new {what} has no place in it"
    )


def declared_classes(model: Any) -> tuple[Label, ...] | None:
    """The classes that ``classes=`` or ``n_classes=`` names; None where the first votes are to show them."""
    if model.classes is not None:
        return read_classes(model.classes)
    return _options.read_n_classes(model.n_classes, None)


def new_window(model: Any, layout: Layout) -> Window:
    """An empty window, as ``window=`` or ``decay=`` asks for."""
    if model.decay is not None:
        return DecayedCounts(layout, float(model.decay))
    if isinstance(model.window, str):
        return DyadicCounts(layout)
    return RollingCounts(layout, int(model.window))


def items_between_fits(model: Any) -> int:
    """``refresh=``, or what stands for it."""
    if model.refresh is not None:
        return int(model.refresh)
    if model.decay is not None or isinstance(model.window, str):
        return 1_000
    return max(1, int(model.window) // 4)


def read_classes(classes: Any) -> tuple[Label, ...]:
    """Declared classes: two or more, each once."""
    labels = Convention.declared(classes).classes
    if labels is None:
        raise OptionError("classes= is empty; name two or more")
    return labels
