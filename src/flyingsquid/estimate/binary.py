"""The whole fit of one binary task with independent sources (Fu et al. 2020, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate import triplets as solve
from flyingsquid.estimate.flags import SourceFlags, comparable_pairs, flag_sources
from flyingsquid.estimate.independencies import accuracies_from_balance
from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.estimate.signs import orient, relative_signs
from flyingsquid.estimate.tables import vote_tables, vote_weights
from flyingsquid.exceptions import NotIdentifiableError
from flyingsquid.moments import Moments

Array = NDArray[np.float64]
Method: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
METHODS: tuple[Method, ...] = ("triplet_mean", "triplet_median", "triplet", "independencies")


@dataclass(frozen=True, slots=True)
class BinaryFit:
    """Parameters of one binary task.

    Attributes
    ----------
    mean_parameters : array of shape (m,)
        aᵢ = E[λᵢY], with sign.
    tables : array of shape (m, 2, 3)
        P(vote | truth); columns class 0, class 1, no vote.
    weights : array of shape (m, 2)
        What each vote adds to the log odds of class 1.
    flags : SourceFlags
    unidentified : mask of shape (m,)
        Voting sources without a usable triplet; they got the average accuracy of the others.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
    """

    mean_parameters: Array
    tables: Array
    weights: Array
    flags: SourceFlags
    unidentified: NDArray[np.bool_]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]


def fit_binary(
    moments: Moments,
    balance: Array,
    *,
    method: Method,
    anchors: Mapping[int, int],
    screen: float,
    triplets: Sequence[tuple[int, int, int]] | None,
) -> BinaryFit:
    """Solve for every source from counts of two classes.

    Parameters
    ----------
    balance : array of shape (2,)
        P(Y = class 0), P(Y = class 1).
    anchors : mapping from a source's position to its known sign
    screen : float
        Denominators below this many standard errors are skipped.
    triplets : positions, for ``method="triplet"``; None chooses the strongest for each source
    """
    signed = SignedMoments.of(moments)
    flags = flag_sources(signed)
    names = moments.source_names
    _require_votes(signed, flags, method, names)
    if method == "independencies":
        accuracies = accuracies_from_balance(signed, balance, names)
        none = np.zeros(len(accuracies), np.int64)
        magnitudes = solve.Magnitudes(np.abs(accuracies), none, none)
        unidentified = np.zeros(len(accuracies), np.bool_)
    else:
        pairs = solve.Pairs.of(signed, comparable_pairs(signed, flags), screen)
        magnitudes = _solve_triplets(pairs, method, triplets)
        unidentified = np.isnan(magnitudes.values) & ~flags.silent
        _require_triplets(magnitudes, unidentified, triplets, names)
        sizes = _complete(magnitudes.values, signed.coverage)
        # Two one-sided sources are not asked about each other's sign: on real data their joint
        # firing says more about the items than about their worth.
        informative = pairs.comparable & ~np.outer(flags.one_sided, flags.one_sided)
        signs, group = relative_signs(signed.correlation_z, informative)
        identified = np.isfinite(magnitudes.values)
        accuracies = sizes * orient(signs, group, sizes, identified, anchors, signed, pairs, names)
    tables = vote_tables(accuracies, signed.rates, balance, signed.n_items)
    return BinaryFit(
        accuracies,
        tables,
        vote_weights(tables, accuracies, signed.coverage),
        flags,
        unidentified,
        magnitudes.used,
        magnitudes.skipped,
    )


def _solve_triplets(
    pairs: solve.Pairs, method: Method, triplets: Sequence[tuple[int, int, int]] | None
) -> solve.Magnitudes:
    if method == "triplet_mean":
        return solve.all_triplets_mean(pairs)
    if method == "triplet_median":
        return solve.all_triplets_median(pairs)
    if triplets is not None:
        return solve.given_triplets(pairs, triplets)
    return solve.strongest_triplet(pairs)


def _complete(values: Array, coverage: Array) -> Array:
    """Clip |aᵢ| to the vote rate; the average accuracy for sources without a triplet.

    A source that could not be compared is neither perfect nor useless; the average of its
    peers is the estimate that claims least. It is reported as unidentified.
    """
    known = np.isfinite(values) & (coverage > 0)
    # Sampling noise can carry an estimate past the bound that every |E[λY]| obeys.
    sizes = np.where(known, np.minimum(np.nan_to_num(values), coverage), 0.0)
    average = sizes[known].sum() / coverage[known].sum()
    return np.where(known, sizes, average * coverage)


def _require_votes(signed: SignedMoments, flags: SourceFlags, method: Method, names: tuple[str, ...]) -> None:
    voting = np.flatnonzero(~flags.silent)
    if not len(voting):
        raise NotIdentifiableError(
            f"no source votes on any of the {signed.n_items:,.0f} items; there is nothing to learn from"
        )
    if method != "independencies" and len(voting) < 3:
        listed = ", ".join(repr(names[i]) for i in voting)
        raise NotIdentifiableError(
            f"method={method!r} compares three sources at a time, and only {len(voting)} of "
            f"{len(names)} vote ({listed}). Add sources, or use MajorityVote; if the classes "
            "are lopsided and their balance is known, method='independencies' needs no third source"
        )


def _require_triplets(
    magnitudes: solve.Magnitudes,
    unidentified: NDArray[np.bool_],
    triplets: Sequence[tuple[int, int, int]] | None,
    names: tuple[str, ...],
) -> None:
    if triplets is not None and unidentified.any():
        i = int(np.flatnonzero(unidentified)[0])
        raise NotIdentifiableError(
            f"source {names[i]!r} is in none of the given triplets, or only in ones whose pairs never "
            "vote together or agree by chance; give it another triplet, or lower screen="
        )
    if not magnitudes.used.any():
        raise NotIdentifiableError(
            f"no triplet of sources can be used: {int(magnitudes.skipped.sum()) // 3:,} were skipped "
            "because a pair agrees no more than by chance, the rest have pairs that never vote on "
            "the same item. Add items or overlapping sources, lower screen=, or use MajorityVote"
        )
