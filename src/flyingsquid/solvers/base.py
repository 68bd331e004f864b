"""Interface of solvers: frozen objects that turn counts, and votes if available, into a fit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_list, format_value, is_one_of
from flyingsquid.estimation.balance import TaskBalance, resolve_task_balance
from flyingsquid.estimation.gold import GoldCounts
from flyingsquid.exceptions import OptionError
from flyingsquid.fits.base import Fit
from flyingsquid.moments import Moments
from flyingsquid.solvers.structure import LearnedGraph
from flyingsquid.votes import Votes
from flyingsquid.votes.features import FeatureItems
from flyingsquid.votes.gold_items import GoldItems
from flyingsquid.votes.grid import CountedRows

Use = Literal["labels", "sequences"]
Rows = Literal["all", "distinct", "none"]


@dataclass(frozen=True, slots=True)
class Requires:
    """Requirements and capabilities of a solver. Option checks and error messages are derived from them.

    Attributes
    ----------
    classes : {"binary", "any"}
        Numbers of classes that it supports.
    rows : {"unused", "optional", "required"}
        Whether it reads the votes themselves in addition to the counts of pairs.
    graph : bool
        Whether it can use a dependency graph.
    gold : bool
        Whether it can use gold labels.
    signs : bool
        Whether it can use known signs of sources.
    estimated_balance : bool
        Whether it supports ``class_balance="estimate"``.
    confusion : bool
        Whether it estimates how sources err on each class, as sequences need.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> requires = fs.solvers.EM.requires
    >>> requires.rows, requires.classes
    ('required', 'any')
    """

    classes: Literal["binary", "any"] = "any"
    rows: Literal["unused", "optional", "required"] = "unused"
    graph: bool = False
    gold: bool = False
    signs: bool = False
    estimated_balance: bool = False
    confusion: bool = True


# Error messages for a solver that lacks a capability that the data or the options need.
_REFUSALS = {
    "graph": "`graph` is not supported by {name}; leave it out.",
    "gold": '`gold` is not supported by {name}; leave it out, or use method="auto".',
    "signs": "`signs` is not supported by {name}; leave it out.",
    "estimated_balance": 'class_balance="estimate" is not supported by {name}; pass the balance or None.',
    "confusion": (
        "{name} does not estimate how sources err on each class, which sequences need; use "
        'method="auto" or "covariance".'
    ),
}


@dataclass(frozen=True, eq=False, kw_only=True)
class FitData:
    """Input of a solver. The same for arrays, chunks, streams and clusters.

    Attributes
    ----------
    moments : Moments
        Counts of pairs, made for the graph if there is one.
    votes : Votes or None
        All items, or the distinct ones; None if only counts are available.
    weights : array of shape (n,) or None
        How often each item of ``votes`` counts.
    counted : CountedRows or None
        How often each possible row occurs in ``votes``, if it was counted.
    rows : {"all", "distinct", "none"}
        Items that ``votes`` contains.
    note : str
        How the votes were read, for the reason of the fit; empty for votes in memory.
    gold : integer array of shape (n, D) or None
        Codes of gold labels, negative if unknown.
    gold_items : GoldItems or None
        Votes on items with gold labels, if ``votes`` does not hold these: in streams, in ``partial_fit``, and
        if there are too many distinct rows.
    feature_items : FeatureItems or None
        Items with features and their votes: all, or a sample for chunks and ``partial_fit``.
    class_balance : None, "uniform", "estimate" or array
    signs : "average" or mapping from source to sign
    temper : None, "auto" or float
    learned_graph : LearnedGraph or None
        The graph that was learned from the votes.
    concerns : tuple of str
        Sentences about the votes, for warnings.
    complete : mask of shape (n,) or None
        Items for which all votes were asked for, whatever these votes are. Default: those of which no vote is
        marked as not asked for. It matters only if other items have such votes.
    use : {"labels", "sequences"}
        Purpose of the fit: sequences need confusion tables.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> data = fs.solvers.FitData(moments=fs.Moments.of(votes))
    >>> data.n_classes, data.rows, "gold" in data.needs
    (2, 'none', False)
    """

    moments: Moments
    votes: Votes | None = None
    weights: NDArray[Any] | None = None
    counted: CountedRows | None = None
    rows: Rows = "none"
    note: str = ""
    gold: NDArray[Any] | None = None
    gold_items: GoldItems | None = None
    feature_items: FeatureItems | None = None
    class_balance: Any = None
    signs: Any = "average"
    temper: Any = None
    learned_graph: LearnedGraph | None = None
    concerns: tuple[str, ...] = ()
    complete: NDArray[np.bool_] | None = None
    use: Use = "labels"

    @property
    def n_classes(self) -> int:
        return self.moments.n_classes

    @cached_property
    def needs(self) -> frozenset[str]:
        """The names of the capabilities in :class:`Requires` that the data or the options need."""
        signs, balance = self.signs, self.class_balance
        needed = {
            "graph": self.moments.graph is not None,  # a learned graph may have no edges
            "gold": self.gold is not None or self.gold_items is not None,
            "signs": not (isinstance(signs, str) and signs == "average"),
            "estimated_balance": isinstance(balance, str) and balance == "estimate",
            "confusion": self.use == "sequences",
        }
        return frozenset(name for name, is_needed in needed.items() if is_needed)

    @cached_property
    def labeled(self) -> GoldItems | None:
        """The items with gold labels and their votes; None without gold labels."""
        if self.gold is None or self.votes is None:
            return self.gold_items
        return GoldItems.of(self.votes, self.gold, self.weights)

    @cached_property
    def balance(self) -> TaskBalance:
        """The class balance of every task, if it was given."""
        n_tasks = 1 if self.moments.graph is None else self.moments.graph.n_tasks
        return resolve_task_balance(self.class_balance, self.moments.classes, n_tasks)

    @property
    def given_balance(self) -> NDArray[np.float64] | None:
        """The class balance of one task if it was given as probabilities, shape (K,)."""
        given = None if self.class_balance is None else self.balance.tasks[0]
        return given if isinstance(given, np.ndarray) else None

    @cached_property
    def anchors(self) -> dict[int, int]:
        """Known signs by the position of the source."""
        return read_signs(self.signs, self.moments.source_names)

    @cached_property
    def gold_by_task(self) -> tuple[GoldCounts | None, ...] | None:
        """For each task, the votes of the sources of its block on gold labels."""
        items = self.labeled
        if items is None:
            return None
        graph = self.moments.graph
        counts: list[GoldCounts | None] = []
        for task, known in enumerate(items.labels.T):
            if not (known >= 0).any():
                counts.append(None)
                continue
            sources = self.moments.sources_around(task)
            around = items.votes if graph is None else items.votes.of_sources(sources)
            counts.append(GoldCounts.of(around, known, items.weights, _units_on(self.moments, task)))
        return tuple(counts)


class Solver(ABC):
    """Base class of all solvers: subclasses are frozen dataclasses whose fields are the options.

    Attributes
    ----------
    name : str
        Its name in ``LabelModel(method=...)`` and in files.
    requires : Requires

    Examples
    --------
    >>> import flyingsquid as fs
    >>> solver = fs.solvers.Triplet(aggregate="median")
    >>> solver.name, solver.options()["aggregate"]
    ('triplet', 'median')
    """

    name: ClassVar[str]
    requires: ClassVar[Requires]

    @abstractmethod
    def solve(self, data: FitData) -> Fit:
        """Return the fit. Record concerns in the fit instead of issuing warnings."""

    def checked_for(self, data: FitData) -> Solver:
        """Return the solver for the data, by default this one; raise OptionError if it is not supported."""
        requires, name, classes = self.requires, f'method="{self.name}"', data.moments.classes
        if len(classes) > 2 and requires.classes == "binary":
            instead = "" if "graph" in data.needs else f' or fs.solvers.OneVsRest("{self.name}"),'
            raise OptionError(
                f"{name} supports two classes; got {len(classes)}: {format_list(classes)}. "
                f'Use method="auto",{instead} or Votes.from_classes(..., classes=[a, b]) if only two can '
                "occur."
            )
        if requires.rows == "required" and data.votes is None:
            raise OptionError(
                f"{name} needs the votes themselves, and only counts are available; call fit(votes)."
            )
        for capability, refusal in _REFUSALS.items():
            if capability in data.needs and not getattr(requires, capability):
                raise OptionError(refusal.format(name=name))
        return self

    def check_graph(self, graph: Any) -> None:
        """Raise an error for a graph, "learn" or None that is not supported, before votes are counted."""
        if graph is not None and not self.requires.graph:
            raise OptionError(_REFUSALS["graph"].format(name=f'method="{self.name}"'))

    def options(self) -> dict[str, Any]:
        """Return the options as JSON values; solvers among them by name and options."""
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if isinstance(value, Solver):
        return {"solver": value.name, "options": value.options()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value.item() if isinstance(value, np.generic) else value


def _units_on(moments: Moments, task: int) -> list[tuple[int, ...]]:
    """Return the units of dependent sources of a task, as positions among the sources around the task."""
    graph, around = moments.graph, moments.sources_around(task)
    if graph is None:
        return []
    units = [unit for tree in graph._units for unit in tree.cliques if graph.source_task[unit[0]] == task]
    return [tuple(around.index(source) for source in unit) for unit in units]


def read_signs(signs: Any, names: tuple[str, ...]) -> dict[int, int]:
    """Return known signs by position; empty for ``signs="average"``."""
    if is_one_of(signs, ("average",)):
        return {}
    if not isinstance(signs, Mapping) or not signs:
        raise OptionError(
            f'`signs` must be "average" or a mapping from sources to +1 or -1; got {format_value(signs)}.'
        )
    anchors: dict[int, int] = {}
    for source, sign in signs.items():
        if np.ndim(sign) or sign not in (-1, 1):
            raise OptionError(
                f"`signs[{format_value(source)}]` must be +1 (better than random) or -1 (worse); got "
                f"{format_value(sign)}."
            )
        at = position_of(source, names, "signs")
        if at in anchors:
            raise OptionError(f"`signs` must name each source once; got {format_value(names[at])} twice.")
        anchors[at] = int(sign)
    return anchors


def position_of(source: Any, names: tuple[str, ...], option: str) -> int:
    """Return the position of a source given by name or by position."""
    if isinstance(source, str):
        if source in names:
            return names.index(source)
        raise OptionError(
            f"`{option}` must name sources among {', '.join(names[:8])}; got {format_value(source)}."
        )
    if isinstance(source, bool) or not hasattr(source, "__index__"):
        raise OptionError(f"`{option}` must be names or positions of sources; got {format_value(source)}.")
    at = int(source.__index__())
    if not 0 <= at < len(names):
        raise OptionError(f"`{option}` must be positions from 0 to {len(names) - 1}; got {format_value(at)}.")
    return at
