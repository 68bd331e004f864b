"""Who agrees with whom: on the items that both vote on, beyond chance, and beyond known labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table
from flyingsquid.analysis.reading import read_votes
from flyingsquid.estimation.sources import MOST_SOURCES, near_copies
from flyingsquid.exceptions import OptionError, VotesError
from flyingsquid.fits.diagnostics import names_in_groups
from flyingsquid.moments import Moments
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import read_task_gold

Array = NDArray[np.float64]
# Items that count less than this for a class say nothing about it; sources that vary less do not vary.
_LEAST_WEIGHT, _NO_SPREAD = 1e-4, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """How m sources agree with each other, pair by pair.

    Attributes
    ----------
    source_names : tuple of m texts
    overlaps : array of shape (m, m)
        Items that both vote on; on the diagonal those that the source votes on.
    share : array of shape (m, m)
        Share of equal votes among these; NaN where the two never meet.
    beyond_chance : array of shape (m, m)
        Cohen's kappa: 1 for always alike, 0 for as often as votes at random, below 0 for less often. NaN
        where chance alone makes them agree always, or they never meet.
    duplicates : tuple of tuples of names
        Groups of sources that agree so much more than the rest that they are one opinion counted twice.
    """

    source_names: tuple[str, ...]
    overlaps: Array
    share: Array
    beyond_chance: Array
    duplicates: tuple[tuple[str, ...], ...]

    def pairs(self, most: int = 10, *, least_overlap: int = 30) -> Table:
        """The pairs that agree most beyond chance, among those that meet often enough."""
        first, second = np.triu_indices(len(self.source_names), 1)
        kappa, met = self.beyond_chance[first, second], self.overlaps[first, second]
        known = np.flatnonzero(np.isfinite(kappa) & (met >= least_overlap))
        kept = known[np.argsort(-kappa[known], kind="stable")][:most]
        rows = tuple(
            (
                self.source_names[first[at]],
                self.source_names[second[at]],
                int(met[at]),
                float(self.share[first[at], second[at]]),
                float(kappa[at]),
            )
            for at in kept
        )
        columns = ("source", "other", "overlaps", "share", "beyond_chance")
        return Table(columns, rows, formats=("", "", ",", ".1%", ".2f"))


def agreement(votes: Any, *, model: Any = None) -> Agreement:
    """Agreement of all pairs of sources. Time as counting pairs, memory O(m²).

    Parameters
    ----------
    votes : Votes, what these are made of, or Moments that hold all pairs
        Of at most 2,000 sources; pick some of more by ``votes.of_sources``.
    model : a fitted label model, optional
        Whose classes and sources the votes are read by.

    Examples
    --------
    >>> found = agreement([[0, 0, 1], [1, 1, 1], [0, 0, 0], [1, 0, -1]])
    >>> found.share.round(2)
    array([[1.  , 0.75, 0.67],
           [0.75, 1.  , 0.67],
           [0.67, 0.67, 1.  ]])
    >>> found.beyond_chance.round(2)
    array([[1. , 0.5, 0.4],
           [0.5, 1. , 0.4],
           [0.4, 0.4, 1. ]])
    """
    moments = votes if isinstance(votes, Moments) else Moments.of(_few(read_votes(model, votes)[0]))
    if not moments.has_all_pairs:
        raise OptionError("counts on a graph of several tasks do not hold all pairs; pass the votes")
    overlap, alike, by_chance, _ = moments.compare_pairs()
    names = moments.source_names
    copies = names_in_groups(names, near_copies(moments))
    share = np.divide(alike, overlap, out=np.full_like(overlap, np.nan), where=overlap > 0)
    # A rounding error of 1 is no chance left.
    room = (1 - by_chance > 1e-12) & (overlap > 0)
    kappa = np.divide(share - by_chance, 1 - by_chance, out=np.full_like(overlap, np.nan), where=room)
    return Agreement(names, overlap, share, kappa, copies)


def dependence_given_truth(
    votes: Any, y: Any = None, *, posterior: Array | None = None, model: Any = None
) -> Array:
    """Correlation of the votes of each pair of sources given the true class, shape (m, m).

    Among the items that both vote on, the covariances of "votes for class v" are summed over v and taken
    within each true class; for two classes that is the correlation of the votes within the classes. 0 for
    sources that err independently; NaN for pairs that do not vary there, or never meet. A source of one class
    does not vary where it votes: with such a one, all items count, and "no vote" is one more thing to say.

    Parameters
    ----------
    votes : Votes of at most 2,000 sources, or what these are made of
    y : array of shape (n,), optional
        True classes; None, NaN and masked are unknown, and -1 unless it is a class.
    posterior : array of shape (n, K), in the place of ``y``
        P(Y = k | votes): each item counts for every class by its probability. Where the probabilities are
        right, so are the correlations on average; a model that is too sure of itself hides some of the
        dependence, because its own errors are then taken for truth.
    model : a fitted label model, optional
        Whose classes and sources the votes are read by.

    Examples
    --------
    >>> votes = [[0, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 0, 1], [1, 1, 0]]
    >>> dependence_given_truth(votes, [0, 0, 0, 1, 1, 1])[0].round(2)
    array([ 1. ,  1. , -0.5])
    """
    if (y is None) == (posterior is None):
        raise OptionError("pass the true classes y, or posterior=, and not both")
    read = _few(read_votes(model, votes)[0])
    if posterior is None:
        gold = read_task_gold(y, read.classes, (read.n_items, 1), "y")[:, 0]
        if not (gold >= 0).any():
            raise VotesError("y holds no known class, so nothing is known about the pairs given the truth")
        # Of the classes that occur: there may be thousands of others.
        by_class = ((gold == k).astype(np.float64) for k in np.unique(gold[gold >= 0]))
    elif posterior.shape == (read.n_items, read.n_classes):
        by_class = (weight for weight in posterior.T)
    else:
        raise OptionError(
            f"posterior has shape {posterior.shape}; one row for each of {read.n_items} items, one column "
            f"for each of {read.n_classes} classes"
        )
    m = read.n_sources
    met, apart, total = np.zeros((3, m, m)), np.zeros((3, m, m)), np.zeros((m, read.n_classes))
    for weight in by_class:
        items = np.flatnonzero(weight > _LEAST_WEIGHT)
        if weight[items].sum() > 1.01:  # less than two items say nothing about pairs
            moments = Moments.of(read[items], sample_weight=weight[items])
            met, apart, total = (
                met + _among_shared(moments),
                apart + _among_all(moments),
                total + _cast(moments),
            )
    one_sided = (total > 0).sum(axis=1) < 2
    return np.where(one_sided[:, None] | one_sided, _correlation(apart), _correlation(met))


def effective_sources(correlations: Array, overlaps: Array | None = None) -> float:
    """How many independent sources m dependent ones are worth: m² / Σ Rᵢⱼ², between 1 and m.

    ``correlations``, shape (m, m), are those that the truth does not explain; unknown and negative ones count
    as 0, and those within two standard errors of it where ``overlaps``, the items that both vote on, say so.

    >>> effective_sources(np.eye(4)), effective_sources(np.ones((4, 4)))
    (4.0, 1.0)
    """
    shared = np.maximum(np.nan_to_num(correlations), 0.0)
    if overlaps is not None:
        shared = np.where(shared > 2 / np.sqrt(np.maximum(overlaps, 1.0)), shared, 0.0)
    np.fill_diagonal(shared, 1.0)
    return float(len(shared) ** 2 / np.sum(shared**2))


def _few(votes: Votes) -> Votes:
    if votes.n_sources > MOST_SOURCES:
        raise OptionError(
            f"all pairs of {votes.n_sources:,} sources are too many to look at; pick at most "
            f"{MOST_SOURCES:,} of them by votes.of_sources(...)"
        )
    return votes


def _correlation(parts: Array) -> Array:
    """Covariances over the root of both variances, shape (m, m); NaN where a source does not vary."""
    covariance, first, second = parts
    scale = np.sqrt(np.maximum(first * second, 0.0))
    return np.divide(covariance, scale, out=np.full_like(covariance, np.nan), where=scale > _NO_SPREAD)


def _among_shared(moments: Moments) -> Array:
    """Covariance and both variances summed over what is voted, of the items that both vote on, (3, m, m)."""
    overlap, alike, by_chance, _ = moments.compare_pairs()
    # Σᵥ Var(1{i votes v}) among the items that j votes on too is 1 - Σᵥ P(v)².
    spread = overlap - np.divide(_squares(moments), overlap, out=np.zeros_like(overlap), where=overlap > 0)
    return np.stack([np.where(overlap > 0, alike - by_chance * overlap, 0.0), spread, spread.T])


def _among_all(moments: Moments) -> Array:
    """The same of all items, "no vote" being one more thing to say."""
    overlap, alike, *_ = moments.compare_pairs()
    cast, n = _cast(moments), float(moments.n_items)
    voted = cast.sum(axis=1)
    covariance = alike + overlap - (cast @ cast.T + np.outer(voted, voted)) / n
    spread = 2 * voted - ((cast**2).sum(axis=1) + voted**2) / n
    return np.stack([covariance, *np.broadcast_arrays(spread[:, None], spread)])


def _cast(moments: Moments) -> Array:
    return np.asarray(moments.vote_counts, np.float64)


def _squares(moments: Moments) -> Array:
    """Σᵥ (items that both vote on and i votes v)², shape (m, m)."""
    m = moments.n_sources
    squares = (np.asarray(moments.by_own_vote(k), np.float64) ** 2 for k in range(moments.n_classes))
    return sum(squares, start=np.zeros((m, m)))
