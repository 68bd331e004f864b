"""How sources are judged: the 2020 options as options of ``flyingsquid.LabelModel``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.legacy.triplet_choice import draw_triplets

SolveMethod: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
SignRecovery: TypeAlias = Literal["all_positive", "fully_independent"]


def options_for(
    graph: DependencyGraph,
    solve_method: SolveMethod,
    sign_recovery: SignRecovery,
    triplets: Sequence[tuple[Any, ...]] | None,
    triplet_seed: int | None,
) -> dict[str, Any]:
    """Options by name, but for the class balance.

    >>> options_for(DependencyGraph(3), "triplet_mean", "fully_independent", None, 0)
    {'graph': None, 'method': 'triplet_mean', 'screen': 0.0}
    """
    _require_known("solve_method", solve_method, SolveMethod)
    _require_known("sign_recovery", sign_recovery, SignRecovery)
    if triplets is not None and solve_method in ("triplet_median", "independencies"):
        raise OptionError(
            f"triplets= has no part in solve_method={told(solve_method)}; 'triplet_mean' takes the mean over "
            "them"
        )
    if triplets is not None:
        solve_method = "triplet"  # which is the mean where a source is in several
    options: dict[str, Any] = {"graph": None if graph.is_trivial else graph, "method": solve_method}
    if solve_method != "independencies":  # whose estimates carry their sign and use no triplets
        options["screen"] = 0.0  # the 2020 code averages over all triplets
        if sign_recovery == "all_positive":
            options["signs"] = dict.fromkeys(range(graph.n_sources), 1)
    if solve_method == "triplet":
        if triplets is None and triplet_seed is not None:
            triplets = draw_triplets(graph, triplet_seed)
        options["triplets"] = triplets
    if max((len(clique) for unit in graph._units for clique in unit.cliques), default=0) == 2:
        # The paper's system. For three sources it divides by E[Y], which an even balance makes 0.
        options["cliques"] = "linear"
    return options


def _require_known(name: str, value: Any, options: Any) -> None:
    known = get_args(options)
    if value not in known:
        raise OptionError(f"{name}={told(value)} is unknown; one of {', '.join(known)}")
