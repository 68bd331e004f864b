"""Base classes of the estimators: reading votes, choosing labels, scoring."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flyingsquid._registry import distributed_votes
from flyingsquid._values import (
    RandomState,
    format_count,
    format_list,
    format_value,
    is_one_of,
    read_random_state,
)
from flyingsquid.exceptions import IncompatibleError, NotFittedError, OptionError, VotesError
from flyingsquid.files.state import State, write_state
from flyingsquid.files.vote_files import read_path
from flyingsquid.models._estimator import Estimator, not_fitted
from flyingsquid.models.validation import hint_arguments
from flyingsquid.votes import VoteChunks, Votes, as_chunks, as_votes, one_row
from flyingsquid.votes.arguments import item_ids, join_labels, read_task_gold, read_weights
from flyingsquid.votes.codes import Label
from flyingsquid.votes.decisions import Output, TieBreak, as_label_array, decide, expected_credit, to_output
from flyingsquid.votes.features import FeatureParts
from flyingsquid.votes.reading import add_location_to_errors, is_empty, refuse_options

DOUBLE = np.dtype(np.float64)
# Votes of which labels come back as an array: not in chunks, and not on a cluster.
InMemory: TypeAlias = Votes | NDArray[Any] | list[Any] | tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class VoteSchema:
    """Sources and classes that a model was fitted with, by which it reads further votes.

    Attributes
    ----------
    classes : tuple of K labels
    names : tuple of m str, or None
        Names of the sources, if the votes had some; votes with names are matched by name.
    source_names : tuple of m str
        The names, or ``source 0``, ``source 1``, ... if there are none.
    tasks : (D, s) or None
        The shape of stacked votes (n, D, s), for a graph of D tasks with s sources each.
    """

    classes: tuple[Label, ...]
    names: tuple[str, ...] | None
    source_names: tuple[str, ...]
    tasks: tuple[int, int] | None = None

    def read(self, data: Any) -> Votes:
        """Return votes in the order of these sources and classes; raise an error for votes of others."""
        if not isinstance(data, (Votes, np.ndarray)):
            data = read_path(data, self.classes)
        votes = as_votes(data, self.classes, self.tasks, names=self.names, check=False)
        n_sources = votes.codes.shape[1]
        matched_by_name = votes.names is not None and self.names is not None
        if n_sources != len(self.source_names) and not matched_by_name:
            shown = ", ".join(self.source_names[:5]) + (", ..." if len(self.source_names) > 5 else "")
            raise IncompatibleError(
                f"`votes` must have the {format_count(len(self.source_names), 'source')} of the fitted "
                f"model ({shown}) if they have no names; got {n_sources}."
            )
        if votes.classes == self.classes and not matched_by_name:
            return votes
        return votes.with_all_sources(self.names).matched_to(self.classes, self.names)


class VoteReader(Estimator):
    """Base class of all estimators: read votes by the fitted sources and classes, save models."""

    @property
    @abstractmethod
    def vote_schema_(self) -> VoteSchema:
        """Sources and classes that the model was fitted with."""

    @property
    def classes_(self) -> NDArray[Any]:
        """Class labels, shape (K,)."""
        return as_label_array(self.vote_schema_.classes)

    @property
    def source_names_(self) -> tuple[str, ...]:
        """Names of the m sources."""
        return self.vote_schema_.source_names

    @property
    def n_features_in_(self) -> int:
        """Number of sources."""
        return len(self.vote_schema_.source_names)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file atomically; ``flyingsquid.load`` reads it.

        Files contain arrays and JSON, not pickles. Predictions of a loaded model are bit-identical.
        """
        write_state(path, self._to_state())

    @abstractmethod
    def _to_state(self) -> State:
        """Return the fitted model as arrays and JSON values."""

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "vote_schema_")

    def _not_fitted(self) -> NotFittedError:
        *names, last = (
            name for name in ("fit", "fit_moments", "update", "partial_fit") if hasattr(self, name)
        )
        return not_fitted(
            f"This {type(self).__name__} is not fitted yet; call {', '.join(names)} or {last} first."
        )

    def read_votes(self, votes: Any, *, unknown_sources: Literal["error", "ignore"] = "error") -> Votes:
        """Return votes in the order of the fitted sources and classes.

        Parameters
        ----------
        votes : as in :meth:`predict_proba`
        unknown_sources : {"error", "ignore"}, default="error"
            What to do with named sources that the model was not fitted with, such as new workers: raise
            an error, or ignore their votes. Fitted sources may be missing from votes in long form.

        Raises
        ------
        IncompatibleError
            If the votes have other sources or classes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> crowd = fs.Votes.from_long([1, 1, 2, 2], ["ann", "bob"] * 2, ["x", "x", "y", "x"])
        >>> new = fs.Votes.from_long([3, 3, 4], ["bob", "eve", "eve"], ["y", "y", "x"])
        >>> model = fs.MajorityVote().fit(crowd)
        >>> known = model.read_votes(new, unknown_sources="ignore")
        >>> model.predict(known, tie_break="abstain").tolist()
        ['y', None]
        """
        schema = self.vote_schema_
        if unknown_sources == "error":
            return schema.read(votes)
        if unknown_sources != "ignore":
            raise OptionError(
                f'`unknown_sources` must be "error" or "ignore"; got {format_value(unknown_sources)}.'
            )
        if schema.names is None:
            return schema.read(votes)
        read = as_votes(read_path(votes, schema.classes), schema.classes, schema.tasks, check=False)
        if read.names is None:
            return schema.read(read)
        known = [j for j, name in enumerate(read.names) if name in schema.names]
        if not known:
            raise IncompatibleError(
                f"The model was fitted without any of these sources: {format_list(read.names)}."
            )
        return schema.read(read.of_sources(known))

    def _read_row(self, votes_row: Any) -> NDArray[Any]:
        """Return dense codes of one item, shape (m,), in the order of the fitted sources and classes."""
        schema = self.vote_schema_
        if (
            schema.tasks is not None
            and schema.tasks[0] > 1
            and getattr(votes_row, "shape", None) == schema.tasks
        ):
            votes_row = votes_row.reshape(1, -1)  # one item of D tasks with s sources each
        votes = self.read_votes(one_row(votes_row, schema.names))
        if votes.n_items != 1:
            raise VotesError(
                f"`votes_row` must be the votes on one item; got {votes.n_items}. Pick one, as in "
                "votes[[0]] or array[0]."
            )
        return np.asarray(votes.to_dense().codes[0])


class VoteEstimator(VoteReader):
    """Base class of the estimators of single items. Subclasses implement :meth:`_label`."""

    def for_labeling(self) -> Self:
        """Return a model that labels the same way, to be sent to workers; smaller if possible."""
        _ = self.vote_schema_  # raises NotFittedError if the model is not fitted
        return self

    # The type of the result depends on the type of the votes; the overloads declare it.
    @overload
    def predict_proba(
        self, votes: InMemory, *, features: Any = ..., dtype: Any = ..., out: NDArray[Any] | None = ...
    ) -> NDArray[Any]: ...

    @overload
    def predict_proba(
        self,
        votes: Any,
        *,
        features: Any = ...,
        dtype: Any = ...,
        out: NDArray[Any] | None = ...,
        output: Output = ...,
    ) -> Any: ...

    def predict_proba(
        self,
        votes: Any,
        *,
        features: Any = None,
        dtype: Any = np.float64,
        out: NDArray[Any] | None = None,
        output: Output = "numpy",
    ) -> Any:
        """Return P(Y = k | votes), shape (n, K), in the order of ``classes_``; (n, D, K) for D > 1 tasks.

        Parameters
        ----------
        votes : Votes, array-like or dataframe of shape (n, m)
            Named sources are matched by name, others by position. A source may abstain even if it never
            did in the votes that were fitted. For ``VoteChunks``, returns an iterator with one array per
            chunk. Votes on a cluster are labeled there; see ``docs/guides/clusters.md`` for the type of the
            result.
        features : array, sparse matrix or table of shape (n, d), optional
            Features of the same items, for a ``LabelModel`` that was fitted with features; labels then follow
            from both. Items whose features are all NaN are labeled by votes. For ``VoteChunks``, the rows of
            all chunks in one matrix, or an iterable with one matrix per chunk.
        dtype : {float64, float32}, default=float64
            Type of the probabilities. Single precision takes half the memory and time; each probability is
            rounded from double precision.
        out : array of shape (n, K), optional
            Array that the probabilities are written to, for example a memory-mapped file. It is returned,
            and its type replaces ``dtype``.
        output : {"numpy", "pandas", "polars"}, default="numpy"
            Type of the result. ``"pandas"`` is a DataFrame with one column per class, indexed by the item
            identifiers of the votes; ``"polars"`` has them in the column ``id``. Not supported for
            VoteChunks and votes on a cluster.

        Examples
        --------
        >>> import numpy as np
        >>> import flyingsquid as fs
        >>> votes = [[1, 1, 0], [0, -1, 0]]
        >>> fs.MajorityVote().fit(votes).predict_proba(votes, dtype=np.float32).dtype
        dtype('float32')
        """
        if out is not None and not isinstance(out, np.ndarray):
            raise OptionError(f"`out` must be an array; got {type(out).__name__}.")
        if out is not None and not out.flags.writeable:
            raise OptionError("`out` must be writable; map files with mode 'r+' or 'w+'.")
        wanted = read_dtype(dtype if out is None else out.dtype)
        if output != "numpy":
            model = self._snapshot()
            _, ids = model._read_items(votes, output)
            answer = model.predict_proba(votes, features=features, dtype=wanted, out=out)
            return to_output(answer, output, ids, model.classes_.tolist())
        if not isinstance(votes, (Votes, np.ndarray)):
            on_cluster = distributed_votes(votes)
            if on_cluster is not None:
                _ = self.vote_schema_  # raises NotFittedError if the model is not fitted
                refuse_options(out=out, features=features)
                return on_cluster.label(self, "predict_proba", {"dtype": wanted})
            chunks = as_chunks(votes)
            if chunks is not None:
                parts = self._snapshot()._label_chunks(chunks, wanted, features)
                return parts if out is None else write_parts(parts, out)
        posterior = self._label(votes, features, wanted)[1]
        answer = (posterior[:, 0, :] if posterior.shape[1] == 1 else posterior).astype(wanted, copy=False)
        return answer if out is None else write_parts([answer], out)

    @abstractmethod
    def _label(
        self, votes: Any, features: Any = None, dtype: np.dtype[Any] = DOUBLE
    ) -> tuple[Votes, NDArray[Any]]:
        """Read votes in memory; return them with P(Y = k | votes, features), shape (n, D, K).

        The probabilities are in ``dtype`` if that saves work; otherwise in float64.
        """

    def _read_items(self, votes: Any, output: str) -> tuple[Votes, list[Any] | None]:
        """Return votes in memory with their item identifiers."""
        if distributed_votes(votes) is not None or as_chunks(votes) is not None:
            raise OptionError(
                f'`output` must be "numpy" for VoteChunks and clusters; got {format_value(output)}.'
            )
        read = self.read_votes(votes)
        return read, item_ids(votes, read)

    def _label_chunks(
        self, chunks: VoteChunks, dtype: np.dtype[Any], features: Any
    ) -> Iterator[NDArray[Any]]:
        """Yield one array per chunk, of shape (0, K) for a chunk without rows."""
        shape = np.shape(getattr(self, "class_balance_", self.classes_))
        parts = None if features is None else FeatureParts(features)
        for number, chunk in enumerate(chunks.raw()):
            with add_location_to_errors(f"chunk {number}"):
                if is_empty(chunk):
                    answer = np.empty((0, *shape), dtype)
                else:
                    read, own = self.read_votes(chunk), None
                    if parts is not None:  # features are in the order of rows
                        read, own = replace(read, items=None), parts.next(chunk, read)
                    answer = self.predict_proba(read, features=own, dtype=dtype)
            yield answer
        if parts is not None:
            parts.finish()

    @overload
    def predict(
        self,
        votes: InMemory,
        tie_break: TieBreak = ...,
        random_state: RandomState = ...,
        *,
        joint: bool = ...,
        features: Any = ...,
    ) -> NDArray[Any]: ...

    @overload
    def predict(
        self,
        votes: Any,
        tie_break: TieBreak = ...,
        random_state: RandomState = ...,
        *,
        joint: bool = ...,
        features: Any = ...,
        output: Output = ...,
    ) -> Any: ...

    @hint_arguments
    def predict(
        self,
        votes: Any,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
        *,
        joint: bool = False,
        features: Any = None,
        output: Output = "numpy",
    ) -> Any:
        """Return the most probable class of each item, shape (n,); shape (n, D) for D > 1 tasks.

        Parameters
        ----------
        votes : as in :meth:`predict_proba`; for ``VoteChunks``, returns an iterator with one array per chunk
        tie_break : ``"first"``, ``"abstain"`` or ``"random"``
            Label of an item whose most probable classes are equally probable: the first of them; no label
            (-1, or 0 if -1 is a class, or None if classes are not integers); or one of them at random.
        random_state : int, numpy.random.Generator or None, default=None
            Seed or generator for ``tie_break="random"``. None uses a new seed on every call.
        joint : bool, default=False
            For several tasks. False: the most probable class of each task separately, which is wrong least
            often. True: the most probable classes of all tasks together, which is consistent across tasks.
        features : as in :meth:`predict_proba`
        output : {"numpy", "pandas", "polars"}, default="numpy"
            Type of the result; ``"pandas"`` is a Series indexed by the item identifiers of the votes.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = fs.Votes.from_long([7, 7, 8, 8], ["ann", "bob"] * 2, ["spam", "spam", "ham", "spam"])
        >>> model = fs.MajorityVote().fit(votes)
        >>> model.predict(votes, tie_break="abstain").tolist()
        ['spam', None]
        >>> model.predict(votes, output="pandas").to_dict()
        {7: 'spam', 8: 'ham'}
        """
        if joint and tie_break != "first":
            raise OptionError(f'`tie_break` must be "first" with joint=True; got {format_value(tie_break)}.')
        model = self._snapshot()
        if output != "numpy":
            _, ids = model._read_items(votes, output)
            labels = model.predict(votes, tie_break, random_state, joint=joint, features=features)
            return to_output(labels, output, ids, label_columns(labels))
        on_cluster = distributed_votes(votes) if features is None else None
        if on_cluster is not None:
            _ = model.vote_schema_  # raises NotFittedError if the model is not fitted
            return on_cluster.label(model, "predict", {"joint": True} if joint else {"tie_break": tie_break})
        if joint:
            chunks = as_chunks(votes)
            if chunks is not None:
                return (model.predict(chunk, joint=True) for chunk in chunks)
            codes = model._joint_codes(votes)
            if codes is not None:
                return as_label_array(model.vote_schema_.classes)[codes]
        # A seed is read here and not for each chunk, or every chunk would repeat the same draws.
        rng = read_tie_generator(tie_break, random_state)
        posterior = model.predict_proba(votes, features=features)
        if isinstance(posterior, Iterator):
            return (model._decided(part, tie_break, rng) for part in posterior)
        return model._decided(posterior, tie_break, rng)

    def _joint_codes(self, votes: Any) -> NDArray[np.intp] | None:
        """Return the codes of the most probable classes of all tasks together, (n, D); None for one task."""
        return None

    def _decided(
        self, posterior: NDArray[np.float64], tie_break: TieBreak, rng: np.random.Generator | None
    ) -> NDArray[Any]:
        flat = posterior.reshape(-1, posterior.shape[-1])
        return decide(flat, self.vote_schema_.classes, tie_break, rng).reshape(posterior.shape[:-1])

    def score(
        self, votes: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, features: Any = None
    ) -> float:
        """Return the accuracy on the items with gold labels, with expected credit for ties.

        An item whose t most probable classes are equally probable counts 1/t if one of them is correct: the
        accuracy to expect if ties are broken at random. So a model and ``MajorityVote``, which ties on items
        without votes, are compared without regard to the order of the classes. The accuracy of the labels
        of :meth:`predict` is ``sklearn.metrics.accuracy_score(y, model.predict(votes))``.

        Parameters
        ----------
        votes : as in :meth:`predict_proba`
        y : array of shape (n,), pandas Series, mapping, or array (n, D) for D > 1 tasks
            True classes; None, NaN and masked values are unknown, and so is -1 unless it is a class. A Series
            is joined by item identifier if the votes have some, and a mapping always is.
        sample_weight : array of shape (n,), optional
        features : as in :meth:`predict_proba`

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = [[1, 1], [0, 1], [-1, -1]]
        >>> round(fs.MajorityVote().fit(votes).score(votes, [1, 1, 1]), 2)
        0.67
        """
        model = self._snapshot()
        read, posterior = model._label(votes, features)
        n, n_tasks, _ = posterior.shape
        y = join_labels(y, votes, read)
        truth = read_task_gold(y, model.vote_schema_.classes, (n, n_tasks), "y").ravel()
        sample_weight = join_labels(sample_weight, votes, read, "sample_weight")
        return mean_credit(posterior.reshape(n * n_tasks, -1), truth, sample_weight, n)


class BatchEstimator(VoteEstimator):
    """Base class of the estimators that are fitted on all votes at once."""

    @abstractmethod
    def fit(self, votes: Any, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model."""

    def fit_predict(
        self,
        votes: Any,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
        tie_break: TieBreak = "first",
        random_state: RandomState = None,
        output: Output = "numpy",
    ) -> Any:
        """Fit the model and return the most probable class of each item: ``fit(votes).predict(votes)``.

        Parameters
        ----------
        votes : as in :meth:`fit`
            VoteChunks are read twice.
        y : ignored
        sample_weight : as in :meth:`fit`
        features : as in :meth:`fit`, for ``LabelModel``
        tie_break, random_state, output : as in :meth:`predict`

        Returns
        -------
        array of shape (n,), or (n, D) for D > 1 tasks
            For VoteChunks, an iterator with one array per chunk.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> votes = [["spam", "spam", "ham"], ["ham", None, "ham"], ["ham", "spam", "ham"]]
        >>> fs.LabelModel().fit_predict(votes).tolist()
        ['spam', 'ham', 'ham']
        """
        options = {} if features is None else {"features": features}
        with self._lock:  # otherwise another thread could fit the model in between
            model = self.fit(votes, sample_weight=sample_weight, **options)
            return model.predict(votes, tie_break, random_state, output=output, **options)

    def fit_predict_proba(
        self,
        votes: Any,
        y: object = None,
        *,
        sample_weight: ArrayLike | None = None,
        features: Any = None,
        dtype: Any = np.float64,
        output: Output = "numpy",
    ) -> Any:
        """Fit the model and return class probabilities: ``fit(votes).predict_proba(votes)``.

        Parameters
        ----------
        votes : as in :meth:`fit`
            VoteChunks are read twice.
        y : ignored
        sample_weight : as in :meth:`fit`
        features : as in :meth:`fit`, for ``LabelModel``
        dtype, output : as in :meth:`predict_proba`

        Returns
        -------
        array of shape (n, K), or (n, D, K) for D > 1 tasks
            For VoteChunks, an iterator with one array per chunk.

        Examples
        --------
        >>> import flyingsquid as fs
        >>> fs.MajorityVote().fit_predict_proba([[1, 1, 0], [0, -1, 0]]).round(2)
        array([[0.33, 0.67],
               [1.  , 0.  ]])
        """
        options = {} if features is None else {"features": features}
        with self._lock:
            model = self.fit(votes, sample_weight=sample_weight, **options)
            return model.predict_proba(votes, dtype=dtype, output=output, **options)


def mean_credit(
    posterior: NDArray[np.float64], truth: NDArray[Any], sample_weight: ArrayLike | None, n_items: int
) -> float:
    """Return the accuracy of labels with gold labels, each an equal number of rows of all items in order."""
    weights = np.ones(n_items) if sample_weight is None else read_weights(sample_weight, n_items)
    weights, known = np.repeat(weights, len(truth) // n_items), truth >= 0
    if not known.any():
        raise VotesError("`y` must have at least one gold label; got none.")
    if not weights[known].sum() > 0:
        raise VotesError("`sample_weight` must be > 0 for at least one item with a gold label.")
    return float(np.average(expected_credit(posterior[known], truth[known]), weights=weights[known]))


def label_columns(labels: NDArray[Any]) -> list[str]:
    """Return names of columns of labels, shape (n,) or (n, D)."""
    return ["label"] if labels.ndim == 1 else [f"task {d}" for d in range(labels.shape[1])]


def read_tie_generator(tie_break: str, random_state: Any) -> np.random.Generator | None:
    """Return the generator that breaks ties, or None if ties are not broken at random."""
    if random_state is None and not is_one_of(tie_break, ("random",)):
        return None
    return read_random_state(random_state)


def read_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the type of probabilities."""
    try:
        read = np.dtype(dtype)
    except TypeError as error:
        raise OptionError(f"`dtype` must be float64 or float32; got {format_value(dtype)}.") from error
    if read not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise OptionError(f"`dtype` must be float64 or float32; got {read}.")
    return read


def refuse_features(features: Any, model: object) -> None:
    """Raise an error for features, which the model does not support."""
    if features is not None:
        raise OptionError(f"`features` is not supported by {type(model).__name__}.", parameter="features")


def write_parts(parts: Iterable[NDArray[Any]], out: NDArray[Any]) -> NDArray[Any]:
    """Write the parts to ``out`` in order; it must have exactly as many rows as all parts together."""
    start = 0
    for part in parts:
        stop = start + len(part)
        if part.shape[1:] != out.shape[1:] or stop > len(out):
            raise VotesError(
                f"`out` must have at least {format_count(stop, 'row')} of shape {part.shape[1:]}; got shape "
                f"{out.shape}."
            )
        out[start:stop] = part
        start = stop
    if start != len(out):
        raise VotesError(f"`out` must have {format_count(start, 'row')}; got {len(out):,}.")
    return out
