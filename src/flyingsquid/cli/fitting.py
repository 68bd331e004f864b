"""From the options of a command to a fitted model."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import click

from flyingsquid._values import told
from flyingsquid.cli.console import Voice
from flyingsquid.cli.reading import Reading
from flyingsquid.exceptions import GraphError, ModelFileError, OptionError
from flyingsquid.graph import DependencyGraph

METHODS = ("auto", "weighted", "anchored_em", "triplet", "covariance", "quadratic", "marginal", "agreement",
           "em",
           "decomposition", "one_vs_rest")  # fmt: skip
_CHAIN = re.compile(r"chain:(\d{1,6})")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A model, and what is to be said about how it came about.

    Attributes
    ----------
    model : a fitted model
    notes : what the fit warned of
    """

    model: Any
    notes: tuple[str, ...] = ()


def read_graph(
    _ctx: click.Context, _param: click.Parameter, value: str | None
) -> str | DependencyGraph | None:
    """``learn``, ``chain:D``, or a file that ``DependencyGraph.to_json`` wrote."""
    if value is None or value == "learn":
        return value
    found = _CHAIN.fullmatch(value)
    if found:
        if int(found[1]) < 2:
            raise click.BadParameter("a chain has two rows or more, as in chain:6")
        return value
    if not os.path.isfile(value):
        raise click.BadParameter(f"{str(value)!r} is no file, and not 'learn' or a chain such as chain:6")
    try:
        with open(value, encoding="utf-8") as file:
            return DependencyGraph.from_json(file.read())
    except UnicodeDecodeError as error:
        raise GraphError(f"{value}: this is no text; DependencyGraph.to_json writes such files") from error
    except GraphError as error:
        raise GraphError(f"{value}: {error}") from error


def read_balance(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Any:
    """``estimate``, ``uniform``, numbers in the order of the classes, or ``class=number``."""
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
            f"{told(value)}; 'estimate', 'uniform', or probabilities such as 0.7,0.3 or ham=0.7,spam=0.3"
        ) from None


def load_model(path: str) -> Any:
    """The model in a file, if it is one that labels rows."""
    from flyingsquid.models import load
    from flyingsquid.models.label_model import LabelModel
    from flyingsquid.models.majority_vote import MajorityVote
    from flyingsquid.models.online_model import OnlineLabelModel
    from flyingsquid.models.sequence_model import SequenceLabelModel

    found = load(path)
    if not isinstance(found, (LabelModel, MajorityVote, OnlineLabelModel, SequenceLabelModel)):
        kind = type(found).__name__
        raise ModelFileError(f"{path}: the file holds a {kind}, and a model that labels rows is needed")
    return found


def fit_model(
    reading: Reading, voice: Voice, *, method: str, graph: Any, class_balance: Any, learn_from_gold: bool
) -> Fitted:
    """Fit a label model as the options say."""
    from flyingsquid.models.label_model import LabelModel
    from flyingsquid.models.labelling import clips
    from flyingsquid.votes import VoteChunks

    file, whole = reading.file, reading.whole
    given = _graph_for(graph, file.n_sources)
    model = LabelModel(given, method=method, class_balance=_balance_for(class_balance, file.classes))  # type: ignore[arg-type]
    gold = whole.gold if learn_from_gold and whole is not None else None
    if whole is None:
        # A function, because a learned graph is counted for in a pass of its own.
        votes: Any = VoteChunks(lambda: _passing(reading, voice), classes=file.classes)
    else:
        votes = whole.votes
    if isinstance(given, DependencyGraph) and given.n_tasks > 1:
        length = given.n_tasks
        votes = clips(votes, length, whole_only=True)
        gold = None if gold is None else gold[: votes.n_items * length].reshape(-1, length)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(votes, gold=gold)
        _ = model.diagnostics_
    notes = dict.fromkeys(str(each.message) for each in caught)
    if model.rows_used_ == "none" and method == "auto":
        notes[
            "auto used its closed-form part alone, because the votes were too many different ones to keep"
        ] = None
    return Fitted(model, tuple(notes))


def _passing(reading: Reading, voice: Voice) -> Iterator[Any]:
    file = reading.file
    return voice.progress(reading.chunks(), "counting", file.n_items, lambda chunk: chunk.votes.n_items)


def needs_clips(graph: Any) -> bool:
    """Whether a graph, as the option gives it, is one of several rows."""
    return (isinstance(graph, str) and graph != "learn") or (
        isinstance(graph, DependencyGraph) and graph.n_tasks > 1
    )


def _graph_for(graph: Any, n_sources: int) -> Any:
    """The graph for a file of so many sources."""
    if graph is None or graph == "learn":
        return graph
    if isinstance(graph, str):
        return DependencyGraph.chain(int(graph.partition(":")[2]), n_sources)
    if graph.n_tasks > 1 and graph.stacked_shape != (graph.n_tasks, n_sources):
        raise GraphError(
            f"the graph has {graph.n_tasks} tasks and {graph.n_sources} sources, and the file "
            f"{n_sources} sources; a graph of D tasks is one of D rows that follow each other, and has "
            "the sources of the file D times"
        )
    return graph


def _balance_for(balance: Any, classes: tuple[Any, ...]) -> Any:
    if not isinstance(balance, dict):
        return balance
    named = {str(label): label for label in classes}
    if set(balance) != set(named):
        raise OptionError(f"--class-balance names {', '.join(balance)}; the classes are {', '.join(named)}")
    return [balance[name] for name in named]
