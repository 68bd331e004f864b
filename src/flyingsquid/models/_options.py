"""Options of the label models, checked; sources that they name turned into positions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from flyingsquid._values import is_number, is_one_of, is_whole, listed, told
from flyingsquid.estimate import MANY_CLASSES, METHODS, OPINIONS, worth_of_a_row
from flyingsquid.estimate.linear_system import LARGEST_SYSTEM
from flyingsquid.estimate.symmetric import SYMMETRIC
from flyingsquid.exceptions import GraphError, NotIdentifiableError, OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.states import MOST_CLASSES

# Beyond, no denominator of any data could pass.
_MOST_ERRORS = 1e6


def position_of(source: Any, names: tuple[str, ...], option: str) -> int:
    """The position of a source given by name or by position."""
    if isinstance(source, str):
        if source in names:
            return names.index(source)
        raise OptionError(f"{option} names the source {told(source)}; there are {', '.join(names[:8])}")
    if isinstance(source, bool) or not hasattr(source, "__index__"):
        raise OptionError(f"{option} holds {told(source)}; a source is given by name or by position")
    at = int(source.__index__())
    if not 0 <= at < len(names):
        raise OptionError(f"{option} names source {told(at)}; there are {len(names)}, counted from 0")
    return at


def has_anchors(signs: Any) -> bool:
    """Whether ``signs`` is about single sources, and not the word "average"."""
    return not is_one_of(signs, ("average",))


def read_anchors(signs: Any, names: tuple[str, ...]) -> dict[int, int]:
    """Known signs by position; empty for ``signs="average"``."""
    if not has_anchors(signs):
        return {}
    if not isinstance(signs, Mapping) or not signs:
        raise OptionError(f"signs={told(signs)} is unknown; pass 'average', or {{source: +1 or -1}}")
    anchors: dict[int, int] = {}
    for source, sign in signs.items():
        if np.ndim(sign) or sign not in (-1, 1):
            raise OptionError(f"signs[{told(source)}] is {told(sign)}; +1 is better than random, -1 worse")
        at = position_of(source, names, "signs")
        if at in anchors:
            raise OptionError(f"signs names the source {told(names[at])} twice")
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
        raise OptionError(f"triplets={told(triplets)} is no sequence of three sources each") from error
    result = []
    for triplet in triplets:
        try:
            a, b, c = (position_of(source, names, "triplets") for source in triplet)
        except (TypeError, ValueError) as error:
            if isinstance(error, OptionError):
                raise
            raise OptionError(f"triplets holds {told(triplet)}; each one is three sources") from error
        if len({a, b, c}) < 3:
            raise OptionError(f"triplets holds {told(triplet)}, which names a source twice")
        result.append((a, b, c))
    if not result:
        raise OptionError("triplets is empty; leave it out to let the method choose")
    return result


def check_screen(screen: Any) -> None:
    """Refuse a screen that is not a finite number of standard errors."""
    if not is_number(screen) or not 0 <= screen <= _MOST_ERRORS:
        raise OptionError(f"screen={told(screen)} is no number of standard errors, 0 or more")


def require_moments(moments: Any) -> None:
    """Refuse what is not counts, or counts of nothing."""
    if not isinstance(moments, Moments):
        raise OptionError(f"fit_moments takes Moments, not {type(moments).__name__}; votes go to fit")
    if not moments.n_items > 0:
        raise NotIdentifiableError("the counts hold no items; there is nothing to learn from")


def check_linear(method: str, graph: DependencyGraph | None) -> None:
    """Refuse the paper's linear system where it does not hold."""
    if method not in ("auto", *SYMMETRIC):
        raise OptionError(
            f"cliques='linear' rests on symmetric sources, and method={told(method)} does not; use "
            "cliques='instrument'"
        )
    if graph is None or not graph.source_edges:
        raise OptionError("cliques='linear' is for a graph with source edges; there is none to solve for")
    largest = max((clique for unit in graph._units for clique in unit.cliques), key=len)
    if len(largest) > LARGEST_SYSTEM:
        raise GraphError(
            f"cliques='linear' solves for {LARGEST_SYSTEM} sources at most, and sources {largest} all depend "
            "on each other; use cliques='instrument', which takes four"
        )


def check_temper(temper: Any) -> None:
    """Refuse a power that is none."""
    named = temper is None or (isinstance(temper, str) and temper == "auto")
    if not named and not (is_number(temper) and 0 < temper <= 1):
        raise OptionError(
            f"temper={told(temper)} is unknown; pass None, 'auto', or a number above 0 and up to 1"
        )


def check_temper_on_graph(temper: Any, graph: DependencyGraph | None) -> None:
    """Refuse a power that nothing would be taken to, or that cannot be found."""
    check_temper(temper)
    if temper is None:
        return
    if graph is None or not graph.task_edges:
        raise OptionError(
            "temper= weakens the evidence that tasks give each other; the graph has no task edges"
        )
    if isinstance(temper, str) and graph.stacked_shape is None:
        raise OptionError(
            "temper='auto' compares each source with itself on the next task, so every task needs the same "
            "sources in the same order; pass a number"
        )


def read_temper(temper: Any, persistence: float) -> float:
    """The power to use: given, or by how much errors persist."""
    if temper is None:
        return 1.0
    return worth_of_a_row(persistence) if isinstance(temper, str) else float(temper)


def read_task(task: Any, n_tasks: int) -> int:
    """Which task is meant."""
    if task is None and n_tasks == 1:
        return 0
    if task is None or isinstance(task, bool) or not hasattr(task, "__index__"):
        raise OptionError(f"task={told(task)}; say which of the {n_tasks} tasks, counted from 0")
    at = int(task.__index__())
    if not 0 <= at < n_tasks:
        raise OptionError(f"task={told(at)}; there are {n_tasks} tasks, counted from 0")
    return at


def check_many(model: Any, moments: Moments) -> None:
    """Refuse options of a label model that have no part in fitting many classes."""
    n_classes = moments.n_classes
    binary = model.method in METHODS
    if moments.graph is not None or isinstance(model.graph, str):
        check_many_on_graph(model, n_classes)
    if binary and model.multiclass == "native":
        raise OptionError(
            f"method={told(model.method)} is for two classes, and the votes have {n_classes}: "
            f"{listed(moments.classes)}. Pass multiclass='one_vs_rest' to fit every class against the rest, "
            "or method='auto'; or name the two with Votes.from_classes(..., classes=[a, b]) if the others "
            "cannot occur"
        )
    if model.method in MANY_CLASSES and model.multiclass == "one_vs_rest":
        raise OptionError(
            f"method={told(model.method)} fits all classes at once; multiclass='one_vs_rest' takes a binary "
            "method"
        )
    for name, asked in (("signs", has_anchors(model.signs)), ("triplets", model.triplets is not None)):
        if asked:
            raise OptionError(f"{name}= has no part in fitting {n_classes} classes")
    if not binary and model.screen != 1.0:
        raise OptionError(f"screen= has no part in method={told(model.method)}, which uses no triplets")


def check_many_on_graph(model: Any, n_classes: int) -> None:
    """Refuse options of a label model that many classes on a graph, given or to be learned, do not have."""
    if model.method not in ("auto", "refined", "decomposition") or model.multiclass != "native":
        chosen = f"method={model.method!r}" if model.multiclass == "native" else "multiclass='one_vs_rest'"
        raise OptionError(
            f"{chosen} does not go with a graph and {n_classes} classes; use method='refined', or "
            "'decomposition', which is exact, or leave the graph out"
        )
    if model.cliques != "instrument":
        raise OptionError(f"cliques='linear' is for two classes, and the votes have {n_classes}")


def check_opinion(model: Any, *, with_gold: bool) -> None:
    """Refuse options that have no part in weighing votes."""
    balance = model.class_balance
    asked = {
        "graph": model.graph is not None,
        "gold": with_gold,
        "class_balance='estimate'": isinstance(balance, str) and balance == "estimate",
        "multiclass": model.multiclass != "native",
        "signs": has_anchors(model.signs),
        "screen": model.screen != 1.0,
    }
    for name, is_asked in asked.items():
        if is_asked:
            raise OptionError(
                f"{name} has no part in method={told(model.method)}, which weighs votes; leave it out"
            )


def read_n_classes(n_classes: Any, votes: Any) -> tuple[int, ...] | None:
    """Classes 0 to K - 1, for votes that come as plain numbers; None where the votes say it themselves."""
    if n_classes is None:
        return None
    if not is_whole(n_classes) or n_classes < 2:
        raise OptionError(f"n_classes={told(n_classes)}; a whole number of classes, 2 or more, is needed")
    if n_classes > MOST_CLASSES:
        raise OptionError(f"n_classes={told(n_classes)}; there can be {MOST_CLASSES:,} classes at most")
    if isinstance(votes, Votes) and votes.n_classes != n_classes:
        raise OptionError(
            f"n_classes={n_classes}, and the votes have the classes {listed(votes.classes)}; name them all "
            "with Votes.from_classes(..., classes=...)"
        )
    return tuple(range(int(n_classes)))


def check_label_model(model: Any) -> None:
    """Refuse options of a label model that are unknown, or that its method cannot honour."""
    learn = isinstance(model.graph, str) and model.graph == "learn"
    graph = None if isinstance(model.graph, str) else model.graph
    if model.graph is not None and not (learn or isinstance(model.graph, DependencyGraph)):
        raise OptionError(f"graph={told(model.graph)} is none; pass a DependencyGraph, 'learn', or None")
    if not is_one_of(model.cliques, ("instrument", "linear")):
        raise OptionError(f"cliques={told(model.cliques)} is unknown; one of instrument, linear")
    if model.cliques == "linear":
        check_linear(model.method, graph)
    check_temper_on_graph(model.temper, graph)
    if not is_one_of(model.method, ("auto", *METHODS, *MANY_CLASSES, *OPINIONS)):
        known = ", ".join((*METHODS, *MANY_CLASSES, *OPINIONS))
        raise OptionError(f"method={told(model.method)} is unknown; one of auto, {known}")
    if not is_one_of(model.multiclass, ("native", "one_vs_rest")):
        raise OptionError(f"multiclass={told(model.multiclass)} is unknown; one of native, one_vs_rest")
    check_screen(model.screen)
    if model.triplets is not None and model.method != "triplet":
        raise OptionError(f"triplets= is used by method='triplet' only, not by {told(model.method)}")
    if model.method == "independencies" and not isinstance(model.signs, str):
        raise OptionError("signs= has no part in method='independencies', whose estimates carry their sign")
    if model.method in ("independencies", "covariance") and model.screen != 1.0:
        raise OptionError(f"screen= has no part in method={told(model.method)}, which uses no triplets")
