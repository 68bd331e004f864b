"""Confusion tables of sources, stored as one array or sparsely.

3,000 sources and 1,500 classes have 6.75e9 cells, of which the votes on 20,000 items determine 1e7. The types
here have one interface for both storages, so that callers need not know which one they have.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import logsumexp

from flyingsquid._limits import LIMITS
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.moments.class_counts import Array, Arrays, VotesByClass
from flyingsquid.votes.codes import Codes, OneHot
from flyingsquid.votes.tallies import sum_votes

LEAST_PROBABILITY = 1e-9
"""A vote is never taken to be less probable than this given a class, so that no item is impossible.

The same for any number of classes, with a graph and without: sources of thousands of classes that vote rarely
have true probabilities near one in a million, which a larger floor would cut off.
"""
# Cells of one-hot votes that are made together.
_CHUNK_CELLS = 1 << 22


class ConfusionTables(ABC):
    """P(vote = v | Y = k) of m sources: shape (m, K, K + 1), the last column for no vote.

    Build dense tables with :meth:`of`, sparse ones with ``SparseTables.from_counts``. ``tables[i]`` is the
    table of source i, an array of shape (K, K + 1); ``len`` and iteration go by source.
    ``np.asarray(tables)`` is one array, unless that would not fit into memory.

    Examples
    --------
    >>> tables = ConfusionTables.of(np.array([[[0.7, 0.1, 0.2], [0.2, 0.6, 0.2]]]))
    >>> tables.shape, tables.accuracies(np.array([0.5, 0.5])).round(4).tolist()
    ((1, 2, 3), [0.8125])
    """

    __slots__ = ()

    @staticmethod
    def of(tables: NDArray[Any] | ConfusionTables) -> ConfusionTables:
        """Wrap an array of shape (m, K, K + 1); tables are returned unchanged."""
        return tables if isinstance(tables, ConfusionTables) else DenseTables(np.asarray(tables, np.float64))

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int, int]:
        """Shape of the tables, (m, K, K + 1)."""

    @property
    def n_sources(self) -> int:
        return self.shape[0]

    @property
    def n_classes(self) -> int:
        return self.shape[1]

    @property
    @abstractmethod
    def values(self) -> Any:
        """The array of shape (m, K, K + 1) if there is one, otherwise the tables themselves."""

    def __len__(self) -> int:
        return self.shape[0]

    @abstractmethod
    def __getitem__(self, source: Any) -> Array:
        """Return the table of one source, shape (K, K + 1)."""

    def __iter__(self) -> Iterator[Array]:
        return (self[source] for source in range(len(self)))

    @abstractmethod
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return one array of shape (m, K, K + 1)."""

    @abstractmethod
    def right(self) -> Array:
        """Return P(vote is k | Y = k, the source votes), shape (m, K); 1 / K if it never votes."""

    @abstractmethod
    def voting(self) -> Array:
        """Return P(the source votes | Y = k), shape (m, K)."""

    @abstractmethod
    def accuracies(self, balance: Array) -> Array:
        """Return P(vote is right | the source votes), shape (m,); one half if it never votes.

        ``balance`` of shape (K,) is P(Y = k).
        """

    @abstractmethod
    def draw(self, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
        """Draw votes on items of classes ``y``, shape (n, m): codes with -1 for no vote."""

    @abstractmethod
    def logs(self, *, silent: NDArray[np.bool_] | None = None, abstention_counts: bool = True) -> VoteLogs:
        """Return log P(vote | Y = k), to be summed as evidence.

        Parameters
        ----------
        silent : mask of shape (m,), optional
            Sources that are left out.
        abstention_counts : bool, default=True
            Whether no vote is evidence. Otherwise only votes are, given that the source votes.
        """

    def log_likelihood(self, codes: Codes, balance: Array) -> Array:
        """Return log P(votes on an item), shape (n,); ``balance`` of shape (K,) is P(Y = k)."""
        return np.asarray(logsumexp(self.logs().evidence(codes) + np.log(balance), axis=1))

    @abstractmethod
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a file; :meth:`from_arrays` reads them."""

    @staticmethod
    def from_arrays(arrays: Arrays, n_classes: int, coverage: Array) -> ConfusionTables:
        """Build from the result of :meth:`to_arrays`.

        Parameters
        ----------
        coverage : array of shape (m,)
            P(source votes).

        Raises
        ------
        ModelFileError
            If the arrays are not tables of m sources and K classes.
        """
        m, k = len(coverage), n_classes
        if "shared" in arrays:
            shared, beyond = arrays["shared"], VotesByClass.from_arrays(arrays, "beyond", m, k)
            if shared.shape == (m, k) and shared.dtype == np.float64 and bool((shared > 0).all()):
                return SparseTables.from_counts(shared, beyond, coverage)
            raise ModelFileError("The confusion tables in the file do not match its counts.")
        tables = arrays["confusion"]
        fits = tables.shape == (m, k, k + 1) and str(tables.dtype) == "float64"
        if not (fits and (tables >= 0).all() and np.abs(tables.sum(axis=2) - 1).max() < 1e-6):
            raise ModelFileError(
                "The confusion tables in the file are not probabilities, or do not match its counts."
            )
        return DenseTables(tables)


class DenseTables(ConfusionTables):
    """Confusion tables as one array."""

    __slots__ = ("_tables",)

    def __init__(self, tables: Array) -> None:
        self._tables = tables

    @property
    def shape(self) -> tuple[int, int, int]:
        m, n_classes, width = self._tables.shape
        return m, n_classes, width

    @property
    def values(self) -> Any:
        return self._tables

    def __getitem__(self, source: Any) -> Array:
        return np.asarray(self._tables[source])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._tables, dtype) if copy else np.asarray(self._tables, dtype)

    def __repr__(self) -> str:
        return f"ConfusionTables(shape={self.shape}, dense)"

    def right(self) -> Array:
        voting, hits = self.voting(), np.einsum("mkk->mk", self._tables[:, :, :-1])
        return np.divide(hits, voting, out=np.full_like(hits, 1 / hits.shape[1]), where=voting > 0)

    def voting(self) -> Array:
        return np.asarray(self._tables[:, :, :-1].sum(axis=2))

    def accuracies(self, balance: Array) -> Array:
        votes = balance[:, None] * self._tables[:, :, :-1]
        cast, right = votes.sum(axis=(1, 2)), np.einsum("mkk->m", votes)
        return np.divide(right, cast, out=np.full(len(cast), 0.5), where=cast > 0)

    def draw(self, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
        n, (m, n_classes, _) = len(y), self.shape
        codes = np.empty((n, m), np.int16)
        for i, table in enumerate(self._tables):
            steps = np.cumsum(table, axis=1)
            drawn = (rng.random((n, 1)) * steps[y, -1:] > steps[y]).sum(axis=1)
            codes[:, i] = np.where(drawn >= n_classes, -1, drawn)
        return codes

    def logs(self, *, silent: NDArray[np.bool_] | None = None, abstention_counts: bool = True) -> VoteLogs:
        logs = np.log(np.maximum(self._tables, LEAST_PROBABILITY))
        if not abstention_counts:
            logs[:, :, -1] = 0.0
        return DenseLogs(logs if silent is None else np.where(silent[:, None, None], 0.0, logs))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"confusion": self._tables}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseTables(ConfusionTables):
    """Confusion tables as a part that all classes share, and a sparse part from the counts.

    The expected counts behind a table equal the prior in cells without observed pairs of votes. So a table is
    a part that all classes share, plus a sparse part:

        P(source i votes v | Y = k, it votes) = (shared[i, v] + beyond[i, v, k]) / totals[i, k].

    Attributes
    ----------
    shared : array of shape (m, K), above 0
    beyond : VotesByClass
    totals : array of shape (m, K)
        Sum of the numerators over v, for each class k.
    coverage : array of shape (m,)
        P(source votes).
    """

    shared: Array
    beyond: VotesByClass
    totals: Array
    coverage: Array

    @classmethod
    def from_counts(cls, shared: Array, beyond: VotesByClass, coverage: Array) -> SparseTables:
        """Build tables whose rows sum to 1."""
        return cls(shared, beyond, shared.sum(axis=1)[:, None] + beyond.by_class(), coverage)

    @property
    def shape(self) -> tuple[int, int, int]:
        m, n_classes = self.shared.shape
        return m, n_classes, n_classes + 1

    @property
    def values(self) -> Any:
        return self

    def __getitem__(self, source: Any) -> Array:
        m, n_classes = self.shared.shape
        if not hasattr(source, "__index__"):
            raise OptionError(
                f"Confusion tables of {m:,} sources must be read one at a time, as in confusion_[0]."
            )
        at = range(m)[source.__index__()]
        counts = self.shared[at] + self.beyond.of_source(at).T  # class, vote
        votes = self.coverage[at] * counts / self.totals[at][:, None]
        return np.column_stack([votes, np.full(n_classes, 1 - self.coverage[at])])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        m, n_classes, width = self.shape
        if m * n_classes * width > LIMITS.get().table_cells:
            raise OptionError(
                f"Confusion tables of {m:,} sources and {n_classes:,} classes would need "
                f"{8e-9 * m * n_classes * width:,.0f} GB as one array. Read them source by source, as in "
                "confusion_[0]."
            )
        return np.array(list(self), np.float64 if dtype is None else dtype)

    def __repr__(self) -> str:
        return f"ConfusionTables(shape={self.shape}, sparse, {self.beyond.n_entries:,} cells kept)"

    def right(self) -> Array:
        return np.asarray((self.shared + self.beyond.right()) / self.totals)

    def voting(self) -> Array:
        return np.broadcast_to(self.coverage[:, None], self.shared.shape)

    def accuracies(self, balance: Array) -> Array:
        return np.where(self.coverage > 0, self.right() @ balance, 0.5)

    def draw(self, y: NDArray[np.intp], rng: np.random.Generator) -> NDArray[np.int16]:
        m, n_classes = self.shared.shape
        by_class = csr_array(self.beyond.matrix.T)
        codes = np.full((len(y), m), -1, np.int16)
        for item, label in enumerate(y):
            votes = np.flatnonzero(rng.random(m) < self.coverage)
            part = slice(by_class.indptr[label], by_class.indptr[label + 1])
            vote, source = np.divmod(by_class.indices[part], m)
            place = np.full(m, -1)
            place[votes] = np.arange(len(votes))
            weights, on = self.shared[votes].copy(), place[source] >= 0
            np.add.at(weights, (place[source[on]], vote[on]), by_class.data[part][on])
            steps = weights.cumsum(axis=1)
            drawn = (rng.random((len(votes), 1)) * steps[:, -1:] > steps).sum(axis=1)
            codes[item, votes] = np.minimum(drawn, n_classes - 1)
        return codes

    def logs(self, *, silent: NDArray[np.bool_] | None = None, abstention_counts: bool = True) -> VoteLogs:
        voting = np.ones(len(self.coverage), np.bool_) if silent is None else ~silent
        factors = voting[:, None] * np.ones_like(self.shared) / self.shared
        some, none = (np.log(np.maximum(p, LEAST_PROBABILITY)) for p in (self.coverage, 1 - self.coverage))
        counts = voting if abstention_counts else np.zeros_like(voting)
        return SparseLogs(
            np.where(voting[:, None], np.log(self.shared), 0.0).T.ravel(),
            np.where(voting[:, None], -np.log(self.totals), 0.0),
            self.beyond.scaled(factors).mapped(np.log1p),
            np.where(counts, some - none, 0.0),
            np.where(counts, none, 0.0),
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {"shared": self.shared, **self.beyond.to_arrays("beyond")}


# ---------------------------------------------------------------------- logs


class DenseLogs:
    """log P(vote | Y = k) of m sources as one array of shape (m, K, K + 1), no vote last."""

    __slots__ = ("_logs",)

    def __init__(self, logs: Array) -> None:
        self._logs = logs

    @property
    def values(self) -> Array | None:
        """The array; None if the logs are stored sparsely."""
        return self._logs

    def evidence(self, codes: Codes) -> Array:
        """Return log P(votes on an item | Y = k), shape (n, K), for dense (n, m) or sparse codes."""
        abstention = self._logs[:, :, -1]
        # What a vote adds beyond no vote, by vote, source and class.
        adds = (self._logs[:, :, :-1] - abstention[:, :, None]).transpose(2, 0, 1)
        return sum_votes(codes, adds) + abstention.sum(axis=0)

    def of_votes(self, codes_row: NDArray[Any]) -> Array:
        """Return the contribution of each source on one item, (m, K), for dense codes of shape (m,)."""
        at = np.where(codes_row < 0, -1, codes_row)  # no vote is last
        return np.asarray(self._logs[np.arange(len(codes_row)), :, at])


@dataclass(frozen=True, slots=True, eq=False)
class SparseLogs:
    """Sum of a dense and a sparse part, with the methods of :class:`DenseLogs`.

    Attributes
    ----------
    by_vote : array of shape (K m,)
        Contribution of the vote v of source i to every class, at ``v * m + i``.
    by_source : array of shape (m, K)
        Contribution of any vote of a source to each class.
    beyond : VotesByClass
        Further contribution of a vote.
    by_voting : array of shape (m,)
        Contribution of voting to every class, compared with no vote.
    abstention : array of shape (m,)
        Contribution of a missing vote to every class.
    """

    by_vote: Array
    by_source: Array
    beyond: VotesByClass
    by_voting: Array
    abstention: Array

    @property
    def values(self) -> Array | None:
        return None

    def evidence(self, codes: Codes) -> Array:
        m, n_classes = self.by_source.shape
        result = np.empty((codes.shape[0], n_classes))
        rows = max(1, _CHUNK_CELLS // max(m, n_classes))
        for start in range(0, codes.shape[0], rows):
            votes = OneHot.of(codes[start : start + rows], n_classes)
            part = result[start : start + rows]
            part[:] = votes.source_sums(self.by_source)
            part += (votes @ self.by_vote)[:, None]
            part += self.beyond.sums_over(votes)
            part += (votes @ np.tile(self.by_voting, n_classes))[:, None] + self.abstention.sum()
        return result

    def of_votes(self, codes_row: NDArray[Any]) -> Array:
        m = len(self.by_source)
        added = np.repeat(self.abstention[:, None], self.by_source.shape[1], axis=1)
        voters = np.flatnonzero(codes_row >= 0)
        at = codes_row[voters].astype(np.int64) * m + voters
        votes = self.by_vote[at][:, None] + self.by_source[voters] + self.beyond.matrix[at].toarray()
        added[voters] += votes + self.by_voting[voters, None]
        return added


VoteLogs: TypeAlias = DenseLogs | SparseLogs
