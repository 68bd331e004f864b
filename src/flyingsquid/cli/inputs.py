"""Inputs of the commands: votes, gold labels, features, and a model that is loaded or fitted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from flyingsquid._limits import LIMITS
from flyingsquid._values import format_count, format_list, format_value, is_null
from flyingsquid.cli.console import Console
from flyingsquid.cli.options import clip_length_of, gold_file, open_file
from flyingsquid.exceptions import (
    GraphError,
    Hint,
    ModelFileError,
    NotIdentifiableError,
    OptionError,
    VoteFileError,
)
from flyingsquid.files import VoteChunk, VoteFile
from flyingsquid.files.arrays import read_matrix
from flyingsquid.files.vote_files import join_chunks, read_records
from flyingsquid.graph import DependencyGraph
from flyingsquid.models import LabelModel, MajorityVote, OnlineLabelModel, SequenceLabelModel, load
from flyingsquid.solvers import get_solver
from flyingsquid.votes import VoteChunks, Votes
from flyingsquid.votes.conventions import (
    GOLD_NAMES,
    LABEL_NAMES,
    find_item_column,
    find_layout,
    normalize_name,
)

if TYPE_CHECKING:
    from flyingsquid.analysis import PanelReport

# Chunks of a columnar file are kept up to this size, so that they are decoded only once.
_KEPT_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class LoadedVotes:
    """Votes of a file: in memory if they are small, otherwise read in chunks."""

    file: VoteFile
    loaded: VoteChunk | None  # None if the file is read in chunks
    _kept: list[VoteChunk] = field(default_factory=list)

    @classmethod
    def load(
        cls,
        file: VoteFile,
        *,
        needed_by: str = "",
        layout: str | None = None,
        gold: str | None = None,
    ) -> LoadedVotes:
        """Load a file if it is small, or if ``needed_by`` names an operation that needs all votes.

        ``layout`` is the pattern of the names of sources of a panel, and ``gold`` a file of gold labels. Both
        need all votes, too.

        Raises
        ------
        OptionError
            If the work needs all votes in memory, and they are too many.
        """
        limits, cells = LIMITS.get(), file.n_items * file.n_sources
        in_memory = {"--layout": layout, "--gold FILE": gold}
        needed_by = needed_by or next((name for name, value in in_memory.items() if value is not None), "")
        most = limits.most_cells if needed_by else limits.loaded_cells
        # Votes in long form are in memory already, without the cells that abstain.
        if file.form == "long" or cells <= max(most, limits.loaded_cells):
            chunk = file.read()
            if layout is not None:
                chunk = replace(chunk, votes=chunk.votes.with_structure(layout))
            if gold is not None:
                chunk = replace(chunk, gold_codes=gold_of_file(gold, chunk, file))
            return cls(file, chunk)
        if needed_by:
            raise OptionError(
                f"{needed_by} needs all votes in memory, and {format_count(file.n_items, 'item')} x "
                f"{format_count(file.n_sources, 'source')} are too many (at most {limits.most_cells:,} "
                "cells). Use a part of the file.",
                path=file.path,
            )
        return cls(file, None)

    def chunks(self, multiple: int = 1) -> Iterator[VoteChunk]:
        """Yield all items in chunks; the size of chunks of votes in memory is a multiple of ``multiple``."""
        if self.loaded is None:
            yield from self._columnar_chunks() if self.file.format in ("parquet", "arrow") else self.file
            return
        votes, ids, gold = self.loaded.votes, self.loaded.ids, self.loaded.gold_codes
        # Probabilities of very many classes take more memory than the votes.
        rows = max(1, min(self.file.chunk_rows, (1 << 22) // len(self.file.classes)))
        rows = -(-rows // multiple) * multiple
        if rows >= votes.n_items:
            yield self.loaded
            return
        for start in range(0, votes.n_items, rows):
            part = slice(start, start + rows)
            yield VoteChunk(votes[part], ids[part], None if gold is None else gold[part])

    def _columnar_chunks(self) -> Iterator[VoteChunk]:
        """Yield the chunks of a columnar file, and keep them if all of them fit into memory."""
        if self._kept:
            yield from self._kept
            return
        kept: list[VoteChunk] = []
        free = _KEPT_BYTES
        for chunk in self.file:
            free -= chunk.ids.nbytes + np.asarray(chunk.votes.codes).nbytes
            kept = [*kept, chunk] if free >= 0 else []
            yield chunk
        self._kept.extend(kept)

    def sample(self) -> tuple[VoteChunk, int]:
        """Return an even sample of the items in one chunk, every ``step``-th of the file, and the step.

        With very many sources there are fewer items, so that they fit into memory.
        """
        limits = LIMITS.get()
        most = limits.sampled_items
        if self.loaded is None:
            most = max(1, min(most, limits.most_cells // self.file.n_sources))
        step = -(-self.file.n_items // most)
        if step <= 1:
            return (self.file.read() if self.loaded is None else self.loaded), 1
        kept, start = [], 0
        for chunk in self.chunks():
            at = slice(-start % step, None, step)
            gold = None if chunk.gold_codes is None else chunk.gold_codes[at]
            if chunk.votes[at].n_items:
                kept.append(VoteChunk(chunk.votes[at], chunk.ids[at], gold))
            start += chunk.votes.n_items
        return join_chunks(kept).with_items(), step


# ---------------------------------------------------------------------- models


def _load_model(path: str) -> Any:
    """Load a model that labels rows."""
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


def clip_length(model: Any) -> int | None:
    """Return the number of consecutive rows that a model labels together; None for all rows of a sequence."""
    if hasattr(model, "transition_"):
        return None
    tasks = None if model is None else model.vote_schema_.tasks
    return 1 if tasks is None else tasks[0]


def clips(votes: Votes, length: int, *, complete_only: bool = False) -> Votes:
    """Turn votes of s sources on rows into votes of ``length * s`` sources on clips of consecutive rows.

    A shorter last clip is filled up with rows without votes, or left out.

    >>> rows = Votes.from_classes([[0, 1], [1, -1], [1, 1]], names=["a", "b"])
    >>> clips(rows, 2).codes.tolist(), clips(rows, 2).names
    ([[0, 1, 1, -1], [1, 1, -1, -1]], ('a 1/2', 'b 1/2', 'a 2/2', 'b 2/2'))
    """
    codes = np.asarray(votes.to_dense().codes)
    n, s = codes.shape
    if complete_only:
        codes = codes[: n - n % length]
    else:
        codes = np.concatenate([codes, np.full((-n % length, s), -1, codes.dtype)])
    names = [f"{name} {t + 1}/{length}" for t in range(length) for name in votes.source_names]
    return Votes(codes.reshape(-1, length * s), votes.classes, tuple(names))


def load_features(path: str, file: VoteFile) -> Any:
    """Load features of the items of a file of votes from .npy or .npz."""
    if file.form == "long":
        raise OptionError(
            "Features need votes with one row per item, so that rows can be matched; convert the votes "
            "first.",
            parameter="features",
            path=file.path,
        )
    features = read_matrix(path)
    if features.ndim != 2 or features.shape[0] != file.n_items:
        raise OptionError(
            f"The features must have one row for each of {format_count(file.n_items, 'item')}; the shape is "
            f"{features.shape}.",
            parameter="features",
            path=path,
        )
    return features


def read_inputs(
    votes: str, options: dict[str, Any], console: Console, *, needed_by: str = "", clips_by: str = ""
) -> tuple[LoadedVotes, Any]:
    """Load the model of ``--with-model`` and the votes, and print a description of the votes.

    Parameters
    ----------
    needed_by : str
        Operation that needs all votes in memory.
    clips_by : str
        Option that needs all votes in memory because of a model of clips; empty if the command does not
        support such models.
    """
    path = options["with_model"]
    model = None if path is None else _load_model(path)
    if clip_length(model) != 1:
        if not clips_by:
            raise OptionError("--with-model must be a model that labels single rows, not clips.")
        needed_by = clips_by
    with console.show_spinner(f"reading {votes}"):
        file = open_file(votes, options, model=model)
        loaded = LoadedVotes.load(
            file, needed_by=needed_by, layout=options.get("layout"), gold=gold_file(options)
        )
    console.print_description(file)
    is_declared = options.get("layout", "") is not None or file.structure is not None
    layout = None if is_declared else find_layout(file.source_names)
    if model is None and layout is not None:
        names = format_list(file.source_names[:2])
        console.note(
            f"The sources {names} look like answers of one judge, and are read as different judges. Use "
            f"--layout '{layout}' to combine them."
        )
    if model is not None and loaded.loaded is not None and file.form == "long":
        loaded = _without_new_sources(loaded, loaded.loaded, model, console)
    return loaded, model


def panel_of(votes: LoadedVotes, model: Any) -> PanelReport | None:
    """Return the report about the judges of a panel; None if the votes or the model are of another kind."""
    from flyingsquid.analysis import panel_report

    has_structure = votes.loaded is not None and votes.loaded.votes.structure is not None
    if not has_structure or not hasattr(model, "accuracies_") or clip_length(model) != 1:
        return None
    chunk, _ = votes.sample()
    return panel_report(chunk.votes, chunk.gold, model=model)


def _without_new_sources(loaded: LoadedVotes, chunk: VoteChunk, model: Any, console: Console) -> LoadedVotes:
    """Leave out the votes of sources in long form that the model was not fitted with, such as new workers."""
    known, names = set(model.vote_schema_.names or ()), chunk.votes.names or ()
    new = [name for name in names if name not in known]
    if new and len(new) < len(names):
        console.note(
            f"The votes of sources that the model was not fitted with are left out: {format_list(new)}."
        )
        votes = model.read_votes(chunk.votes, unknown_sources="ignore")
        loaded = replace(loaded, loaded=replace(chunk, votes=votes))
    return loaded


def fit_model(
    votes: LoadedVotes, options: dict[str, Any], console: Console, *, gold: Any = None, features: Any = None
) -> tuple[LabelModel, tuple[str, ...]]:
    """Fit a label model with the options of a command, and print and return the warnings of the fit.

    ``gold`` are gold labels for the fit, and ``features`` have one row per item.
    """
    file, loaded = votes.file, votes.loaded
    graph, balance = options.get("graph"), options.get("class_balance")
    length = clip_length_of(graph)
    if length > 1:
        graph = _graph_of_clips(graph, file.n_sources)
    if isinstance(balance, dict):
        balance = _balance_in_order(balance, file.classes)
    model = LabelModel(graph, method=options["method"], class_balance=balance)
    data: Any
    if loaded is None:
        # A function, because learning a graph takes a second pass.
        data = VoteChunks(
            lambda: console.progress(
                votes.chunks(), "counting", file.n_items, lambda chunk: chunk.votes.n_items
            ),
            classes=file.classes,
        )
    elif length > 1:
        data = clips(loaded.votes, length, complete_only=True)
        gold = None if gold is None else gold[: data.n_items * length].reshape(-1, length)
    else:
        data = loaded.votes
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data, gold=gold, features=features)
        _ = model.diagnostics_
    warned = dict.fromkeys(str(each.message) for each in caught)
    if model.rows_used_ == "none" and get_solver(options["method"]).requires.rows == "optional":
        warned["Only counts of votes were used, because there are too many different rows to keep."] = None
    for warning in warned:
        console.note(warning)
    return model, tuple(warned)


def _graph_of_clips(graph: Any, n_sources: int) -> DependencyGraph:
    if isinstance(graph, int):
        return DependencyGraph.chain(graph, n_sources)
    if graph.stacked_shape != (graph.n_tasks, n_sources):
        raise GraphError(
            f"A graph of {graph.n_tasks} tasks must have {graph.n_tasks} x "
            f"{format_count(n_sources, 'source')}, those of the file once per task; it has {graph.n_sources}."
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


def fit_or_explain(
    votes: LoadedVotes, options: dict[str, Any], console: Console, features: Any = None
) -> LabelModel | None:
    """Fit a model; or print why the votes do not determine one, and return None."""
    try:
        return fit_model(votes, options, console, features=features)[0]
    except NotIdentifiableError as error:
        source = click.get_current_context().get_parameter_source("method")
        if source == click.core.ParameterSource.COMMANDLINE:
            raise
        console.note(f"No model was fitted: {error}")
        return None


# ---------------------------------------------------------------------- values by item

# Items without identifiers are numbered from 0 in files that commands write, in a column of this name.
ID_NAME = "id"


def gold_of_file(path: str, chunk: VoteChunk, file: VoteFile) -> NDArray[np.int64]:
    """Return the codes of gold labels in a file with identifiers and labels, shape (n,); -1 if unknown."""
    records = read_records(path)
    if not records or not isinstance(records[0], dict):
        raise VoteFileError("The file must have rows with a column of gold labels.", path=path)
    label = _label_column(list(records[0]), file.item_name or ID_NAME, path)
    codes = {str(each): code for code, each in enumerate(file.classes)}
    gold = np.full(len(chunk.ids), -1, np.int64)
    for at, cell in enumerate(cells_by_item(records, label, chunk, file, path, complete=False)):
        text = "" if is_null(cell) else str(cell).strip()
        if text and text not in codes:
            raise VoteFileError(
                f"Column {format_value(label)} must contain the classes {format_list(file.classes)}; got "
                f"{format_value(cell)}.",
                path=path,
                hints=[Hint("classes", "to declare a class without votes")],
            )
        gold[at] = codes.get(text, -1)
    return gold


def _label_column(names: list[str], item: str | None, path: str) -> str:
    """Return the column of gold labels: the only one besides the item column, or one with a usual name."""
    others = [name for name in names if name != item]
    usual = [name for name in others if normalize_name(name) in GOLD_NAMES | LABEL_NAMES]
    found = others if len(others) == 1 else usual
    if len(found) != 1:
        raise VoteFileError(
            f"The file must have one column of gold labels, named 'gold' or 'label'; its columns are "
            f"{format_list(names)}.",
            path=path,
        )
    return found[0]


def cells_by_item(
    records: list[Any], column: str, chunk: VoteChunk, file: VoteFile, path: str, *, complete: bool
) -> list[Any]:
    """Return the cells of a column in the order of the items: by identifier, or by row if there is none.

    Raises
    ------
    VoteFileError
        If an identifier is unknown or has two different values, or, if ``complete``, an item has no value.
    """
    item = file.item_name
    is_named = item is not None and bool(item.strip())  # the index that pandas writes has no name
    if not is_named and item not in records[0] and not complete:
        names = list(records[0])
        cells = [[str(record.get(name)) for record in records] for name in names]
        item = find_item_column(names, names, cells, [column])[0] or item
    if item is None or item not in records[0]:
        if item is not None:
            raise VoteFileError(
                f"The file must have a column {format_value(item)}; its columns are "
                f"{format_list(list(records[0]))}.",
                path=path,
            )
        if len(records) != file.n_items:
            raise VoteFileError(
                f"The file must have {format_count(file.n_items, 'row')}; it has "
                f"{format_count(len(records), 'row')}.",
                path=path,
            )
        return [record.get(column) for record in records]
    ids = [str(each) for each in chunk.ids]
    known, found = set(ids), dict[str, Any]()
    for record in records:
        key, cell = str(record.get(item)), record.get(column)
        if key not in known:
            where = f"{file.path}, whose items are numbered from 0" if file.item_name is None else file.path
            raise VoteFileError(f"Item {format_value(key)} does not occur in {where}.", path=path)
        if key in found and (file.form == "wide" or not complete or found[key] != cell):
            raise VoteFileError(f"Item {format_value(key)} must occur only once; it is repeated.", path=path)
        found[key] = cell
    absent = next((each for each in ids if is_null(found.get(each)) or found[each] == ""), None)
    if complete and absent is not None:
        raise VoteFileError(
            f"Item {format_value(absent)} must have a value in column {column}; it is blank.", path=path
        )
    return [found.get(each) for each in ids]
