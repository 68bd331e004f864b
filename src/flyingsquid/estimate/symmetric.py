"""Accuracies of symmetric sources: equal errors, and equal abstaining, on both classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimate import triplets as solve
from flyingsquid.estimate.flags import SourceFlags, comparable_pairs
from flyingsquid.estimate.independencies import accuracies_from_balance
from flyingsquid.estimate.signed import SignedMoments
from flyingsquid.estimate.signs import orient, relative_signs, standard_error_of_sum
from flyingsquid.exceptions import NotIdentifiableError

Array = NDArray[np.float64]
SymmetricMethod: TypeAlias = Literal["triplet_mean", "triplet_median", "triplet", "independencies"]
SYMMETRIC: tuple[SymmetricMethod, ...] = ("triplet_mean", "triplet_median", "triplet", "independencies")


@dataclass(frozen=True, slots=True)
class SymmetricFit:
    """Accuracies of symmetric sources.

    Attributes
    ----------
    accuracies : array of shape (m,)
        aᵢ = E[λᵢY], with sign.
    unidentified : mask of shape (m,)
        Voting sources that could not be judged; they got the average accuracy of the others.
    triplets_used, triplets_skipped : integer arrays of shape (m,)
    """

    accuracies: Array
    unidentified: NDArray[np.bool_]
    triplets_used: NDArray[np.int64]
    triplets_skipped: NDArray[np.int64]


def fit_symmetric(
    signed: SignedMoments,
    flags: SourceFlags,
    balance: Array,
    *,
    method: str,
    anchors: Mapping[int, int],
    screen: float,
    triplets: Sequence[tuple[int, int, int]] | None,
    names: tuple[str, ...],
    preference: Callable[[Array], float] | None = None,
) -> SymmetricFit:
    """Solve for E[λᵢY] by one of :data:`SYMMETRIC`."""
    none = np.zeros(len(names), np.int64)
    if method == "independencies":
        accuracies, _ = accuracies_from_balance(signed, balance, names)
        return SymmetricFit(accuracies, np.zeros(len(names), np.bool_), none, none)
    _require_three(flags, method, names)
    pairs = solve.Pairs.of(signed, comparable_pairs(signed, flags), screen)
    magnitudes = _solve_triplets(pairs, method, triplets)
    identified = np.isfinite(magnitudes.values)
    unidentified = ~identified & ~flags.silent
    _require_triplets(magnitudes, unidentified, triplets, names)
    sizes = _complete(magnitudes.values, signed.coverage)
    signs = _signs(sizes, identified, anchors, signed, pairs, flags, names, preference)
    # A source whose sign stays open is one more that could not be judged.
    unidentified |= (signs == 0) & ~flags.silent
    average = _complete(np.where(signs == 0, np.nan, sizes), signed.coverage)
    accuracies = np.where(signs == 0, average, signs * sizes)
    return SymmetricFit(accuracies, unidentified, magnitudes.used, magnitudes.skipped)


def _signs(
    sizes: Array,
    identified: NDArray[np.bool_],
    anchors: Mapping[int, int],
    signed: SignedMoments,
    pairs: solve.Pairs,
    flags: SourceFlags,
    names: tuple[str, ...],
    preference: Callable[[Array], float] | None,
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
    return orient(signs, group, sizes, identified, anchors, error, names, preference)


def _solve_triplets(
    pairs: solve.Pairs, method: str, triplets: Sequence[tuple[int, int, int]] | None
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


def _require_three(flags: SourceFlags, method: str, names: tuple[str, ...]) -> None:
    voting = np.flatnonzero(~flags.silent)
    different = len(np.unique(flags.copies[voting]))
    if different >= 3:
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
