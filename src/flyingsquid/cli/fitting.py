"""Options of a fit, and fitted models: the only module of the command line that knows about methods."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flyingsquid._values import told
from flyingsquid.cli.console import Console
from flyingsquid.cli.files import LoadedVotes
from flyingsquid.exceptions import GraphError, ModelFileError, OptionError
from flyingsquid.graph import DependencyGraph

Command = TypeVar("Command", bound=Callable[..., Any])
if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # generic from click 8.2 on


class MethodName(_Choice):
    """Name of a method of ``LabelModel``. The names are imported late, because it takes half a second."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click assigns it in __init__
        """All names."""
        from flyingsquid.solvers import solver_names

        return solver_names()


def method_option(command: Command) -> Command:
    """Add the option ``--method`` to a command."""
    return click.option(
        "--method", type=MethodName(), default="auto", show_default=True, metavar="NAME",
        help="How accuracies are estimated, as in LabelModel; an unknown name lists all.",
    )(command)  # fmt: skip


def model_option(command: Command) -> Command:
    """Add the option ``--with-model`` to a command."""
    return click.option(
        "--with-model", type=click.Path(exists=True, dir_okay=False), metavar="FILE.fsq",
        help="A saved model to use. Default: fit one to the votes.",
    )(command)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Chain:
    """``--graph chain:D``: clips of D consecutive rows whose classes depend on the previous row."""

    length: int


def read_graph(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> str | Chain | DependencyGraph | None:
    """Parse ``learn``, ``chain:D``, or the path of a file that ``DependencyGraph.to_json`` wrote."""
    if value is None or value == "learn":
        return value
    kind, _, length = value.partition(":")
    if kind == "chain" and length.isascii() and length.isdigit() and len(length) <= 6:
        if int(length) < 2:
            raise click.BadParameter(f"the length of a chain must be an integer >= 2; got {length}.")
        return Chain(int(length))
    if not os.path.isfile(value):
        raise click.BadParameter(f"must be 'learn', a chain such as chain:6, or a file; got {told(value)}.")
    try:
        with open(value, encoding="utf-8") as file:
            return DependencyGraph.from_json(file.read())
    except UnicodeDecodeError as error:
        raise GraphError(
            "The file is not UTF-8; write it with DependencyGraph.to_json.", path=value
        ) from error
    except GraphError as error:
        error.path = value
        raise


def read_balance(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
    """Parse ``estimate``, ``uniform``, numbers in the order of the classes, or ``class=number``."""
    if value is None or value in ("estimate", "uniform"):
        return value
    parts = [part.strip() for part in value.split(",")]
    named = [part.rpartition("=") for part in parts]
    try:
        if all(mark for _, mark, _ in named):
            return {name.strip(): float(number) for name, _, number in named}
        return [float(part) for part in parts]
    except ValueError:
        raise click.BadParameter(
            "must be 'estimate', 'uniform', or probabilities such as 0.7,0.3 or ham=0.7,spam=0.3; got "
            f"{told(value)}."
        ) from None


def load_model(path: str | None) -> Any:
    """Load a model that labels rows; None without a path."""
    if path is None:
        return None
    from flyingsquid.models import LabelModel, MajorityVote, OnlineLabelModel, SequenceLabelModel, load

    found = load(path)
    if not isinstance(found, (LabelModel, MajorityVote, OnlineLabelModel, SequenceLabelModel)):
        raise ModelFileError(
            f"The file must contain a model that labels rows; it contains a {type(found).__name__}.",
            path=path,
        )
    graph = getattr(found, "graph_", None)
    if graph is not None and graph.n_tasks > 1 and graph.stacked_shape is None:
        raise ModelFileError("The tasks of the model must have the same number of sources.", path=path)
    return found


def clip_length_of(graph: Any) -> int:
    """Return how many consecutive rows a graph, as :func:`read_graph` returns it, covers."""
    if isinstance(graph, Chain):
        return graph.length
    return graph.n_tasks if isinstance(graph, DependencyGraph) else 1


def fit_model(
    votes: LoadedVotes,
    console: Console,
    *,
    method: str,
    graph: Any = None,
    class_balance: Any = None,
    learn_from_gold: bool = False,
) -> tuple[Any, tuple[str, ...]]:
    """Fit a label model, and return it with the warnings of the fit."""
    from flyingsquid.cli.labeling import clips
    from flyingsquid.models import LabelModel
    from flyingsquid.solvers import get_solver
    from flyingsquid.votes import VoteChunks

    file, whole, length = votes.file, votes.whole, clip_length_of(graph)
    if length > 1:
        graph = _graph_of_clips(graph, file.n_sources)
    if isinstance(class_balance, dict):
        class_balance = _balance_in_order(class_balance, file.classes)
    model = LabelModel(graph, method=method, class_balance=class_balance)  # type: ignore[arg-type]  # a name
    gold = whole.gold if learn_from_gold and whole is not None else None
    data: Any
    if whole is None:
        # A function, because learning a graph takes a second pass.
        data = VoteChunks(
            lambda: console.progress(
                votes.chunks(), "counting", file.n_items, lambda chunk: chunk.votes.n_items
            ),
            classes=file.classes,
        )
    elif length > 1:
        data = clips(whole.votes, length, whole_only=True)
        gold = None if gold is None else gold[: data.n_items * length].reshape(-1, length)
    else:
        data = whole.votes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data, gold=gold)
        _ = model.diagnostics_
    warned = dict.fromkeys(str(each.message) for each in caught)
    if model.rows_used_ == "none" and get_solver(method).requires.rows == "optional":
        warned["Only counts of votes were used, because there are too many different rows to keep."] = None
    return model, tuple(warned)


def _graph_of_clips(graph: Chain | DependencyGraph, n_sources: int) -> DependencyGraph:
    if isinstance(graph, Chain):
        return DependencyGraph.chain(graph.length, n_sources)
    if graph.stacked_shape != (graph.n_tasks, n_sources):
        raise GraphError(
            f"A graph of {graph.n_tasks} tasks must have {graph.n_tasks} x {n_sources} sources, those of the "
            f"file once per task; it has {graph.n_sources}."
        )
    return graph


def _balance_in_order(balance: dict[str, float], classes: tuple[Any, ...]) -> list[float]:
    named = {str(label): label for label in classes}
    if set(balance) != set(named):
        raise OptionError(
            f"The names must be the classes {', '.join(named)}; got {', '.join(balance)}.",
            parameter="class_balance",
        )
    return [balance[name] for name in named]
