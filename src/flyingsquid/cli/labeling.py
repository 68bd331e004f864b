"""Load votes, fit or load a model, label the items in chunks, and compare with majority vote on the way."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.analysis.comparison import RunningComparison
from flyingsquid.cli.console import Console
from flyingsquid.cli.gold_files import gold_of_file
from flyingsquid.cli.options import Chain, ReadLimits, clip_length_of
from flyingsquid.exceptions import GraphError, ModelFileError, NotIdentifiableError, OptionError
from flyingsquid.files import VoteChunk, VoteFile
from flyingsquid.files.arrays import read_matrix
from flyingsquid.files.vote_files import join_chunks
from flyingsquid.graph import DependencyGraph
from flyingsquid.inference import vote_shares
from flyingsquid.models import LabelModel, MajorityVote, OnlineLabelModel, SequenceLabelModel, load
from flyingsquid.solvers import get_solver
from flyingsquid.votes import VoteChunks, Votes
from flyingsquid.votes.decisions import TieBreak, decide, is_tied
from flyingsquid.votes.patterns import distinct_codes, is_repetitive
from flyingsquid.votes.tallies import item_votes

Array = NDArray[np.float64]
# Chunks of a columnar file are kept up to this size, so that they are decoded only once.
_KEPT_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class LoadedVotes:
    """Votes of a file: in memory if they are small, otherwise read in chunks.

    Attributes
    ----------
    file : VoteFile
    loaded : VoteChunk, or None if the file is read in chunks
    limits : ReadLimits
    """

    file: VoteFile
    loaded: VoteChunk | None
    limits: ReadLimits
    _kept: list[VoteChunk] = field(default_factory=list)

    @classmethod
    def load(
        cls,
        file: VoteFile,
        *,
        needed_by: str = "",
        layout: str | None = None,
        gold: str | None = None,
        limits: ReadLimits | None = None,
    ) -> LoadedVotes:
        """Load a file if it is small, or if ``needed_by`` names an operation that needs all votes.

        ``layout`` is the pattern of the names of sources of a panel, and ``gold`` a file of gold labels. Both
        need all votes, too.

        Raises
        ------
        OptionError
            If the work needs all votes in memory, and they are too many.
        """
        limits, cells = limits or ReadLimits.current(), file.n_items * file.n_sources
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
            return cls(file, chunk, limits)
        if needed_by:
            raise OptionError(
                f"{needed_by} needs all votes in memory, and {format_count(file.n_items, 'item')} x "
                f"{format_count(file.n_sources, 'source')} are too many (at most {limits.most_cells:,} "
                "cells). Use a part of the file.",
                path=file.path,
            )
        return cls(file, None, limits)

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
        most = self.limits.sampled_items
        if self.loaded is None:
            most = max(1, min(most, self.limits.most_cells // self.file.n_sources))
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


def load_model(path: str | None) -> Any:
    """Load a model that labels rows; None without a path."""
    if path is None:
        return None
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


def fit_model(
    votes: LoadedVotes,
    console: Console,
    *,
    method: str,
    graph: Any = None,
    class_balance: Any = None,
    learn_from_gold: bool = False,
    gold: Any = None,
    features: Any = None,
) -> tuple[Any, tuple[str, ...]]:
    """Fit a label model, and return it with the warnings of the fit.

    ``learn_from_gold`` uses the gold labels of the file, and ``gold`` passes other gold labels.
    ``features`` have one row per item.
    """
    file, loaded, length = votes.file, votes.loaded, clip_length_of(graph)
    if length > 1:
        graph = _graph_of_clips(graph, file.n_sources)
    if isinstance(class_balance, dict):
        class_balance = _balance_in_order(class_balance, file.classes)
    model = LabelModel(graph, method=method, class_balance=class_balance)  # type: ignore[arg-type]  # a name
    if learn_from_gold and loaded is not None:
        gold = loaded.gold
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
    if model.rows_used_ == "none" and get_solver(method).requires.rows == "optional":
        warned["Only counts of votes were used, because there are too many different rows to keep."] = None
    return model, tuple(warned)


def _graph_of_clips(graph: Chain | DependencyGraph, n_sources: int) -> DependencyGraph:
    if isinstance(graph, Chain):
        return DependencyGraph.chain(graph.length, n_sources)
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


def fit_or_explain(votes: LoadedVotes, console: Console, method: str, features: Any = None) -> Any:
    """Fit a model; or print why the votes do not determine one, and return None."""
    try:
        model, warned = fit_model(votes, console, method=method, features=features)
    except NotIdentifiableError as error:
        source = click.get_current_context().get_parameter_source("method")
        if source == click.core.ParameterSource.COMMANDLINE:
            raise
        console.note(f"No model was fitted: {error}")
        return None
    for warning in warned:
        console.note(warning)
    return model


# ---------------------------------------------------------------------- labels


@dataclass(frozen=True, slots=True, eq=False)
class Labeled:
    """Labels of n items.

    Attributes
    ----------
    codes : integer array of shape (n,)
        Positions of the labels among the classes; -1 for no label.
    probabilities : array of shape (n, K)
    n_votes : integer array of shape (n,)
        How many sources vote.
    """

    codes: NDArray[Any]
    probabilities: Array
    n_votes: NDArray[Any]


class Labeler:
    """Label items part by part.

    Parameters
    ----------
    model : fitted label model
        A model with D > 1 tasks of s sources each labels clips of D consecutive rows with s sources; a
        shorter last clip is filled up with rows without votes.
    tie_break, rng : as in ``predict``

    Attributes
    ----------
    comparison : RunningComparison
        Comparison with majority vote on everything labeled so far; ``comparison.result()`` returns it.
    counts : integer array of shape (K + 1,)
        Number of items with each label, and at the end the number of items without a label.
    n_tied : int
        How many items have several most probable classes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> labeler = Labeler(fs.LabelModel().fit(votes))
    >>> labeled = labeler.label(votes[:400])
    >>> labeled.codes.shape, labeled.probabilities.shape
    ((400,), (400, 2))
    >>> _ = labeler.label(votes[400:])
    >>> labeler.comparison.result().n_items
    569
    """

    def __init__(
        self, model: Any, *, tie_break: TieBreak = "first", rng: np.random.Generator | None = None
    ) -> None:
        self._model, self._tie_break, self._rng = model, tie_break, rng
        self.comparison = RunningComparison(len(model.classes_))
        self.counts = np.zeros(len(model.classes_) + 1, np.int64)
        self.n_tied = 0

    def label(self, votes: Votes, gold: NDArray[Any] | None = None, features: Any = None) -> Labeled:
        """Label items.

        Parameters
        ----------
        votes : Votes on n items
        gold : integer array of shape (n,), optional
            Codes of their true classes, negative if unknown.
        features : array or sparse matrix, optional
            Features of the items in the first n rows.
        """
        model, length = self._model, clip_length(self._model)
        if features is not None:
            read = model.read_votes(votes)
            posterior = model.predict_proba(read, features=features[: read.n_items])
            return self._labeled(read, np.asarray(posterior), gold)
        if length is not None and length > 1:
            posterior = model.predict_proba(clips(votes, length)).reshape(-1, votes.n_classes)
            return self._labeled(votes, posterior[: votes.n_items], gold)
        read = model.read_votes(votes)
        codes = read.codes
        if length is None or read.is_sparse or not is_repetitive(codes, read.n_classes):
            return self._labeled(read, np.asarray(model.predict_proba(read)), gold)
        rows, counts, inverse = distinct_codes(codes, read.n_classes)
        distinct = Votes(rows, read.classes, read.names)
        return self._labeled(distinct, np.asarray(model.predict_proba(distinct)), gold, counts, inverse)

    def _labeled(
        self,
        votes: Votes,
        posterior: Array,
        gold: NDArray[Any] | None,
        counts: NDArray[Any] | None = None,
        inverse: NDArray[Any] | None = None,
    ) -> Labeled:
        """Label distinct rows, row i of which occurs ``counts[i]`` times; item j is row ``inverse[j]``."""
        shares = vote_shares(votes.codes, votes.n_classes)[:, 0]
        n_votes = item_votes(votes.codes).cast.astype(np.int32)
        self.comparison.add(posterior, shares, n_votes, times=counts)
        tied = is_tied(posterior)
        self.n_tied += int(tied.sum() if counts is None else counts[tied].sum())
        if inverse is not None and (gold is not None or self._tie_break == "random"):
            posterior, shares, n_votes = posterior[inverse], shares[inverse], n_votes[inverse]
            inverse = counts = None
        if gold is not None:
            known = gold >= 0
            self.comparison.add_known(posterior[known], shares[known], gold[known])
        codes = decide(posterior, tuple(range(votes.n_classes)), self._tie_break, self._rng).astype(np.int16)
        weights = None if counts is None else counts.astype(np.float64)
        position = np.where(codes < 0, votes.n_classes, codes)
        self.counts += np.bincount(position, weights, votes.n_classes + 1).astype(np.int64)
        if inverse is None:
            return Labeled(codes, posterior, n_votes)
        return Labeled(codes[inverse], posterior[inverse], n_votes[inverse])


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
