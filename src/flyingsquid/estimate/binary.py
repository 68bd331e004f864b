"""The whole fit of one binary task with independent sources (Fu et al. 2020, algorithm 2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate import triplets as solve
from flyingsquid.estimate.flags import SourceFlags, comparable_pairs, flag_sources
from flyingsquid.estimate.independencies import accuracies_from_balance
from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.estimate.signs import orient, relative_signs, standard_error_of_sum
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
        log P(vote | Y=1) - log P(vote | Y=0): what each vote adds to the log odds of class 1.
    flags : SourceFlags
    unidentified : mask of shape (m,)
        Voting sources without a usable triplet; they got the average accuracy of the others.
    clipped : mask of shape (m,)
        Sources whose vote rates and accuracy do not fit the class balance.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
    """

    mean_parameters: Array
    tables: Array
    weights: Array
    flags: SourceFlags
    unidentified: NDArray[np.bool_]
    clipped: NDArray[np.bool_]
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
    used = skipped = np.zeros(moments.n_sources, np.int64)
    unidentified = np.zeros(moments.n_sources, np.bool_)
    if method == "independencies":
        accuracies, _ = accuracies_from_balance(signed, balance, names)
    else:
        pairs = solve.Pairs.of(signed, comparable_pairs(signed, flags), screen)
        magnitudes = _solve_triplets(pairs, method, triplets)
        used, skipped = magnitudes.used, magnitudes.skipped
        identified = np.isfinite(magnitudes.values)
        unidentified = ~identified & ~flags.silent
        _require_triplets(magnitudes, unidentified, triplets, names)
        sizes = _complete(magnitudes.values, signed.coverage)
        signs = _signs(sizes, identified, anchors, signed, pairs, flags, names)
        # A source whose sign stays open is one more that could not be judged.
        unidentified |= (signs == 0) & ~flags.silent
        accuracies = np.where(
            signs == 0, _complete(np.where(signs == 0, np.nan, sizes), signed.coverage), signs * sizes
        )
    tables, clipped = vote_tables(accuracies, signed.rates, balance, signed.n_items)
    # A one-sided source has no symmetric errors, so its accuracy is what its table implies.
    implied = np.einsum("k,mk->m", balance * [-1, 1], tables[:, :, 1] - tables[:, :, 0])
    accuracies = np.where(flags.one_sided, implied, accuracies)
    weights = vote_weights(tables)
    return BinaryFit(accuracies, tables, weights, flags, unidentified, clipped, used, skipped)


def _signs(
    sizes: Array,
    identified: NDArray[np.bool_],
    anchors: Mapping[int, int],
    signed: SignedMoments,
    pairs: solve.Pairs,
    flags: SourceFlags,
    names: tuple[str, ...],
) -> Array:
    """The sign of each source, shape (m,); 0 where it stays open."""
    # Two one-sided sources are not asked about each other's sign: one that only says yes and one
    # that only says no never agree, however good both are.
    informative = pairs.comparable & ~np.outer(flags.one_sided, flags.one_sided)
    signs, group = relative_signs(signed.second, signed.overlap, signed.n_items, informative)
    # The floor keeps pairs that always agree from taking all the weight.
    noise = np.maximum(signed.n_items * pairs.standard_error**2, 0.01)
    error = partial(
        standard_error_of_sum,
        weights=pairs.comparable / noise,
        variance=signed.coverage,
        n_items=signed.n_items,
    )
    return orient(signs, group, sizes, identified, anchors, error, names)


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
    if (signed.rates.sum(axis=0) == 0).any():
        raise NotIdentifiableError(
            "every vote is for the same class, so agreement says nothing. If -1 is a class and 0 means no "
            "vote, read the votes with Votes.from_signed"
        )
    different = len(np.unique(flags.copies[voting]))
    if method == "independencies" or different >= 3:
        return
    shown = ", ".join(repr(names[i]) for i in voting[:5])
    alike = " (the others vote alike on every item)" if different < len(voting) else ""
    raise NotIdentifiableError(
        f"method={method!r} compares three sources at a time, and only {different} different ones of "
        f"{len(names)} vote: {shown}{alike}. Add sources, or use MajorityVote; if the classes are lopsided "
        "and their balance known, method='independencies' needs no third source"
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
    judged = int(np.isfinite(magnitudes.values).sum())
    if judged < 3:
        raise NotIdentifiableError(
            f"only {judged} of {len(names)} sources could be judged, and three are needed: their pairs agree "
            f"no more than by chance ({int(magnitudes.skipped.sum()) // 3:,} triplets skipped), or never "
            "vote on the same item. Add items or overlapping sources, lower screen=, or use MajorityVote"
        )
