"""Options of the 2020 code as options of ``flyingsquid.LabelModel``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError
from flyingsquid.graph import DependencyGraph
from flyingsquid.legacy.triplet_choice import draw_triplets
from flyingsquid.solvers import Marginal, Triplet

SolveMethod: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
SignRecovery: TypeAlias = Literal["all_positive", "fully_independent"]
_AGGREGATES: dict[str, Literal["mean", "median", "best"]] = {
    "triplet_mean": "mean",
    "triplet_median": "median",
    "triplet": "best",
}


def options_for(
    graph: DependencyGraph,
    solve_method: SolveMethod,
    sign_recovery: SignRecovery,
    triplets: Sequence[tuple[Any, ...]] | None,
    triplet_seed: int | None,
) -> dict[str, Any]:
    """Return options of ``flyingsquid.LabelModel`` by name, without the class balance.

    >>> options_for(DependencyGraph(3), "triplet_median", "fully_independent", None, 0)["method"]
    Triplet(aggregate='median', triplets=None, screen=0.0, cliques='instrument')
    """
    _require_known("solve_method", solve_method, SolveMethod)
    _require_known("sign_recovery", sign_recovery, SignRecovery)
    if triplets is not None and solve_method in ("triplet_median", "independencies"):
        raise OptionError(
            f"`triplets` is not supported by solve_method={told(solve_method)}; 'triplet_mean' takes the "
            "mean over them."
        )
    if triplets is not None:
        solve_method = "triplet"  # which is the mean for a source in several
    # The paper's system. For three sources it divides by E[Y], which a uniform balance makes 0.
    largest = max((len(clique) for unit in graph._units for clique in unit.cliques), default=0)
    cliques: Literal["instrument", "linear"] = "linear" if largest == 2 else "instrument"
    options: dict[str, Any] = {"graph": None if graph.is_trivial else graph}
    if solve_method == "independencies":  # whose estimates carry their sign and use no triplets
        return {**options, "method": Marginal(cliques)}
    if solve_method == "triplet" and triplets is None and triplet_seed is not None:
        triplets = draw_triplets(graph, triplet_seed)
    # The 2020 code averages over all triplets, so none is screened.
    options["method"] = Triplet(_AGGREGATES[solve_method], triplets, 0.0, cliques)
    if sign_recovery == "all_positive":
        options["signs"] = dict.fromkeys(range(graph.n_sources), 1)
    return options


def _require_known(name: str, value: Any, options: Any) -> None:
    known = get_args(options)
    if value not in known:
        raise OptionError(f"{name}={told(value)} is unknown; one of {', '.join(known)}")
