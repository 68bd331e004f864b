"""The whole fit of one task with any number of classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate.agreement import agreement_tables
from flyingsquid.estimate.binary import Balance
from flyingsquid.estimate.one_vs_rest import fit_one_vs_rest
from flyingsquid.estimate.refine import refine
from flyingsquid.estimate.views import three_views
from flyingsquid.exceptions import NotIdentifiableError, OptionError
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes

Array = NDArray[np.float64]
MANY_CLASSES: tuple[str, ...] = ("agreement", "refined", "decomposition")
# Refining pays where an item has this many votes, and a cell of a source's table this many on average.
_VOTES_AN_ITEM, _VOTES_A_CELL = 2.5, 30.0
# Cells of all tables together; more would not fit into memory.
_MOST_CELLS = 1 << 28


@dataclass(frozen=True, slots=True)
class ManyFit:
    """Parameters of one task with K classes.

    Attributes
    ----------
    balance : array of shape (K,)
    balance_note : where the balance comes from, in words
    tables : array of shape (m, K, K + 1)
        P(vote = v | Y = k), no vote last.
    silence_counts : bool
        Whether no vote says something about the truth.
    method : the method that was used
    reason : why, where it was chosen; otherwise empty
    silent, one_class : masks of shape (m,)
        Sources that never vote, and that vote for one class only.
    """

    balance: Array
    balance_note: str
    tables: Array
    silence_counts: bool
    method: str
    reason: str
    silent: NDArray[np.bool_]
    one_class: NDArray[np.bool_]

    @property
    def accuracies(self) -> Array:
        """P(vote is right | source votes), shape (m,); one half where it never votes."""
        votes = self.balance[:, None] * self.tables[:, :, :-1]
        cast = votes.sum(axis=(1, 2))
        right = np.einsum("mkk->m", votes)
        return np.divide(right, cast, out=np.full(len(cast), 0.5), where=(cast > 0) & ~self.silent)

    @property
    def log_tables(self) -> Array:
        """What each vote says, in logs, shape (m, K, K + 1); 0 for what says nothing."""
        logs = np.log(np.maximum(self.tables, _LEAST))
        if not self.silence_counts:
            logs[:, :, -1] = 0.0
        return np.where(self.silent[:, None, None], 0.0, logs)


_LEAST = 1e-9


def fit_many(
    moments: Moments,
    balance: Balance,
    *,
    method: str,
    multiclass: str,
    screen: float,
    votes: Votes | None = None,
    sample_weight: NDArray[Any] | None = None,
) -> ManyFit:
    """Solve for K classes.

    Parameters
    ----------
    moments : Moments of K classes
    balance : P(Y = k), "estimate", or None for what suits the method
    method : one of :data:`MANY_CLASSES`, "auto", or a binary method where ``multiclass`` is "one_vs_rest"
    multiclass : "native" or "one_vs_rest"
    votes, sample_weight : what was counted, where it is at hand
    """
    m, n_classes = moments.n_sources, moments.n_classes
    if m * n_classes**2 > _MOST_CELLS:
        raise OptionError(
            f"tables of {m:,} sources and {n_classes:,} classes have {m * n_classes**2:,} cells, which do "
            "not fit into memory; use MajorityVote, or fewer classes"
        )
    cast = np.asarray(moments.vote_counts)
    silent, one_class = cast.sum(axis=1) == 0, (cast > 0).sum(axis=1) == 1
    if silent.all():
        raise NotIdentifiableError(
            f"no source votes on any of the {moments.n_items:,.0f} items; there is nothing to learn from"
        )
    even = np.full(n_classes, 1 / n_classes)
    if multiclass == "one_vs_rest":
        given = balance if isinstance(balance, np.ndarray) else even
        tables = fit_one_vs_rest(moments, given, method=method, screen=screen)
        note = "as given" if isinstance(balance, np.ndarray) else "even, the default of the method"
        return ManyFit(given, note, tables, False, method, "one class against the rest", silent, one_class)
    reason = ""
    if method == "auto":
        method, reason = _choose(moments, votes)
    fit = _native(moments, balance, method, votes, sample_weight, even)
    return replace(fit, reason=reason, silent=silent, one_class=one_class)


def _choose(moments: Moments, votes: Votes | None) -> tuple[str, str]:
    """Which native method suits the votes, and why."""
    cast = np.asarray(moments.vote_counts, np.float64)
    an_item = float(cast.sum() / moments.n_items)
    voting = cast.sum(axis=1)
    a_cell = float(np.median(voting[voting > 0])) / (moments.n_classes * (moments.n_classes - 1))
    if votes is None:
        return "agreement", "counts of pairs determine no more"
    if an_item >= _VOTES_AN_ITEM and a_cell >= _VOTES_A_CELL:
        return "refined", f"{an_item:.1f} votes an item and {a_cell:,.0f} for each cell of a table"
    return (
        "agreement",
        f"{an_item:.1f} votes an item and {a_cell:,.1f} for each cell of a table are too few to refine",
    )


def _native(
    moments: Moments,
    balance: Balance,
    method: str,
    votes: Votes | None,
    sample_weight: NDArray[Any] | None,
    even: Array,
) -> ManyFit:
    none = np.zeros(moments.n_sources, np.bool_)
    given = balance if isinstance(balance, np.ndarray) else None
    if votes is None and (method != "agreement" or isinstance(balance, str)):
        what = f"method={method!r}" if method != "agreement" else "class_balance='estimate'"
        raise OptionError(f"{what} passes over the votes, and only counts are at hand; call fit(votes)")
    if method == "decomposition" and votes is not None:
        views = three_views(votes, sample_weight, np.arange(moments.n_sources))
        tables = _with_silence(views.tables)
        settled = views.balance if given is None else given
        note = "by three views" if given is None else "as given"
        return ManyFit(settled, note, tables, True, method, "", none, none)
    tables, settled = agreement_tables(moments), even if given is None else given
    note = "even, the default of the method" if given is None else "as given"
    learn = given is None and (method == "refined" or isinstance(balance, str))
    if votes is not None and (method == "refined" or learn):
        refined = refine(votes, sample_weight, tables, settled, learn_balance=learn)
        settled = refined.balance
        if learn:
            note = "by the labels of ten passes over the votes"
        if method == "refined":
            tables = refined.tables
    coverage = np.minimum(moments.coverage, 1.0)[:, None, None]
    full = np.concatenate([coverage * tables, np.broadcast_to(1 - coverage, (*tables.shape[:2], 1))], axis=2)
    return ManyFit(settled, note, full, False, method, "", none, none)


def _with_silence(tables: Array) -> Array:
    """Tables of votes with the probability of no vote as the last column, shape (m, K, K + 1)."""
    return np.concatenate([tables, np.maximum(1 - tables.sum(axis=2, keepdims=True), 0.0)], axis=2)
