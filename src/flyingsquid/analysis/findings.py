"""Findings about sources: the strongest and weakest, dependent pairs and problems."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.agreement import dependence_given_truth, effective_sources
from flyingsquid.analysis.comparison import compare_items
from flyingsquid.analysis.items import Items, read_items, require_gold
from flyingsquid.analysis.sentences import (
    GOLD,
    MODEL,
    DependentPair,
    Findings,
    Names,
    Ranking,
    fit_of,
    verdict_on,
)
from flyingsquid.analysis.summarize import GoldTally, chance_accuracies
from flyingsquid.estimation.dependence import near_copies
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.fits import WeightedFit
from flyingsquid.fits.diagnostics import names_in, names_in_groups
from flyingsquid.fits.summary import without_unidentified
from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS
from flyingsquid.votes.tallies import SourceTally, item_votes

Array = NDArray[np.float64]
# At most this many sources are named, and at most a third of all sources.
_MOST_NAMED = 5
# Weaker dependence is not reported, whatever its standard error; correlations on fewer items are noise. On
# the design half, pairs found without gold labels are then those found with them (census: 94% of 235).
_LEAST_CORRELATION, _LEAST_OVERLAP = 0.1, 30
# Sources with fewer votes would be at both ends of the ranking by chance.
_LEAST_VOTES = 20
# Pairs are compared for at most this many sources and classes.
_MOST_SOURCES, _MOST_CLASSES = 300, 20
# Correlations use at most this many items, which gives a standard error of 0.003.
_MOST_ITEMS = 100_000


def findings(
    votes: Any, y: Any = None, *, model: Any = None, task: int | None = None, features: Any = None
) -> Findings:
    """Find the strongest and weakest sources, dependent pairs and problems.

    Parameters
    ----------
    votes : Votes, array-like or dataframe of shape (n, m)
    y : array of shape (n,), optional
        Gold labels; None, NaN and masked values are unknown, and so is -1 unless it is a class. If given,
        accuracies and dependence are measured with them instead of the model.
    model : fitted label model, optional
    task, features : optional
        As in :func:`~flyingsquid.analysis.compare_with_majority`.

    Returns
    -------
    Findings, which print as sentences

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     5_000, [0.9, 0.8, 0.8, 0.7, 0.7, 0.3], random_state=0)
    >>> found = findings(sample.votes, model=fs.LabelModel().fit(sample.votes))
    >>> found.worse_than_chance
    ('source 5',)
    >>> found.sentences()[0]
    '6 sources on 5,000 items, equivalent to 6.0 independent sources (estimated).'
    >>> found.strongest.names
    ('source 0', 'source 1')
    """
    items = read_items(model, votes, y, task=task, features=features)
    tally = SourceTally.of_votes(items.votes)
    names, seen = tally.source_names, np.asarray((tally.votes > 0).sum(axis=1))
    gold = None
    if items.gold is not None:
        require_gold(items.gold)
        gold = GoldTally.of(items.votes, items.gold)
    has_accuracies = getattr(model, "accuracies_", None) is not None
    basis = GOLD if gold is not None else MODEL if has_accuracies else ""
    best, worst, has_order, unranked = _rank(items, model, gold, basis, tally)
    correlations, overlaps = _dependence(items, basis, seen)
    below, near, not_compared = _compare_with_chance(names, model, gold, basis, seen)
    comparison = compare_items(items) if model is not None else None
    counts = item_votes(items.votes.codes)
    return Findings(
        n_items=items.votes.n_items,
        n_sources=items.votes.n_sources,
        votes_per_item=float(tally.n_votes.sum() / items.votes.n_items),
        uncovered=float(np.mean(counts.cast == 0)),
        split=float(np.mean(counts.split)),
        basis=basis,
        n_gold=0 if gold is None else int(gold.items.sum()),
        strongest=best,
        weakest=worst,
        has_order=has_order,
        n_unranked=unranked,
        effective_sources=None if correlations is None else effective_sources(correlations, overlaps),
        dependent=_dependent_pairs(names, correlations, overlaps),
        n_pairs=0 if correlations is None else len(names) * (len(names) - 1) // 2,
        chance=_chance(items, model, gold, basis, tally),
        worse_than_chance=below,
        near_chance=near,
        not_compared=not_compared,
        one_sided=names_in(names, seen == 1),
        silent=names_in(names, seen == 0),
        duplicates=_duplicates(items),
        missing=_missing(tally),
        comparison=comparison,
        verdict="" if comparison is None else str(verdict_on(model, comparison) or ""),
    )


def _rank(
    items: Items, model: Any, gold: GoldTally | None, basis: str, tally: SourceTally
) -> tuple[Ranking | None, Ranking | None, bool, int]:
    """Return the strongest and the weakest sources, whether they differ, and how many were not ranked."""
    if not basis:
        return None, None, False, 0
    if gold is not None:
        value, error, cast = gold.precision, gold.precision_error, gold.cast.sum(axis=1)
    else:
        sources = list(items.sources)
        shown = without_unidentified(model.accuracies_, model.diagnostics_, model.source_names_)
        value, cast = shown[sources], tally.n_votes
        interval = np.asarray(model.accuracies_interval_)[sources]
        error = (interval[:, 1] - interval[:, 0]) / 2 / NORMAL_95
    known = (cast > 0) & np.isfinite(value)
    kept = np.flatnonzero(known & (cast >= _LEAST_VOTES))
    if len(kept) < 2 and known.sum() <= 2 * _MOST_NAMED:
        kept = np.flatnonzero(known)
    unranked = int(known.sum()) - len(kept)
    if len(kept) < 2:
        return None, None, False, unranked
    names = items.votes.source_names
    best, worst = (_extreme(names, kept, value, error, side) for side in (-1, 1))
    top, last = kept[np.argmax(value[kept])], kept[np.argmin(value[kept])]
    reach = NORMAL_95 * np.hypot(error[top], error[last])
    return best, worst, bool(value[top] - value[last] > reach), unranked


def _extreme(names: Names, kept: NDArray[np.intp], value: Array, error: Array, side: int) -> Ranking:
    """Return the largest (side -1) or smallest (side 1) values, and further ones similar to the last."""
    order = kept[np.argsort(side * value[kept], kind="stable")]
    k = min(_MOST_NAMED, max(1, len(kept) // 3))
    top, rest = order[:k], order[k:]
    gap = np.abs(value[rest] - value[top[-1]])
    reach = NORMAL_95 * np.sqrt(error[rest] ** 2 + error[top[-1]] ** 2)
    # With an unknown error no difference is significant.
    similar = rest[~(gap > np.nan_to_num(reach, nan=np.inf))]
    return Ranking(tuple(names[i] for i in top), tuple(value[top].tolist()), tuple(names[i] for i in similar))


def _dependence(items: Items, basis: str, seen: NDArray[Any]) -> tuple[Array | None, Array]:
    """Return correlations given the truth, and the number of items that each is based on, (m, m)."""
    votes, posterior = items.votes, items.posterior
    m = votes.n_sources
    if not basis or not 2 <= m <= _MOST_SOURCES or votes.n_classes > _MOST_CLASSES:
        return None, np.zeros((m, m))
    if items.gold is not None:
        known = _evenly_spaced(np.flatnonzero(items.gold >= 0))
        votes, posterior = votes[known], np.eye(votes.n_classes)[items.gold[known]]
    elif votes.n_items > _MOST_ITEMS:
        some = _evenly_spaced(np.arange(votes.n_items))
        votes, posterior = votes[some], posterior[some]
    overlaps = np.asarray(Moments.of(votes).overlap(), np.float64)
    one_sided = seen < 2
    n_used = np.where(one_sided[:, None] | one_sided, votes.n_items, overlaps)
    return dependence_given_truth(votes, posterior=posterior), n_used


def _evenly_spaced(positions: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return at most ``_MOST_ITEMS`` positions, evenly spaced."""
    if len(positions) <= _MOST_ITEMS:
        return positions
    return positions[np.linspace(0, len(positions) - 1, _MOST_ITEMS).astype(np.intp)]


def _dependent_pairs(names: Names, correlations: Array | None, overlaps: Array) -> tuple[DependentPair, ...]:
    """Return the significantly dependent pairs, strongest first."""
    if correlations is None:
        return ()
    first, second = np.triu_indices(len(names), 1)
    value, common = np.nan_to_num(correlations[first, second]), overlaps[first, second]
    # Three standard errors, because there are many pairs.
    least = np.maximum(3 / np.sqrt(np.maximum(common, 1.0)), _LEAST_CORRELATION)
    clear = np.flatnonzero((np.abs(value) > least) & (common >= _LEAST_OVERLAP))
    order = clear[np.argsort(-np.abs(value[clear]), kind="stable")]
    return tuple(DependentPair(names[first[i]], names[second[i]], float(value[i])) for i in order)


def _chance(
    items: Items, model: Any, gold: GoldTally | None, basis: str, tally: SourceTally
) -> tuple[float, ...]:
    """Return the accuracy of random votes of each source, according to gold labels or the model."""
    if gold is not None:
        return tuple(gold.chance.tolist())
    if not basis:
        return (np.nan,) * len(tally.source_names)
    sources = list(items.sources)
    balance = np.asarray(model.class_balance_)
    balance = balance if balance.ndim == 1 else balance.mean(axis=0)
    truths = np.asarray(fit_of(model).confusion.voting())[sources] * balance
    return tuple(chance_accuracies(truths, tally.votes, balance).tolist())


def _compare_with_chance(
    names: Names, model: Any, gold: GoldTally | None, basis: str, seen: NDArray[Any]
) -> tuple[Names, Names, Names]:
    """Return sources that are worse than chance, those near chance, and those not compared."""
    if gold is not None:
        several = (gold.said > 0).sum(axis=1) > 1
        near = np.abs(np.nan_to_num(gold.precision - gold.chance, nan=np.inf)) <= NORMAL_95 * gold.skill_error
        masks = (gold.worse_than_chance, several & near, gold.cast.sum(axis=1) == 0)
        below, like, without_votes = (names_in(names, mask) for mask in masks)
        return below, like, without_votes
    if not basis:
        return (), (), names
    found, here = model.diagnostics_, set(names)
    # Other methods do not compare sources with random votes for more than two classes.
    compares = len(model.classes_) == 2 or isinstance(fit_of(model), WeightedFit)
    return (
        tuple(name for name in found.adversarial if name in here),
        tuple(name for name in found.useless if name in here),
        names_in(names, seen < 2) if compares else names,
    )


def _duplicates(items: Items) -> tuple[Names, ...]:
    if items.votes.n_sources > _MOST_SOURCES or items.votes.n_classes > _MOST_CLASSES:
        return ()
    return names_in_groups(items.votes.source_names, near_copies(Moments.of(items.votes)))


def _missing(tally: SourceTally) -> tuple[tuple[str, int, str, int], ...]:
    found = []
    for reason, counts in zip(REASONS[1:], tally.missing.T, strict=True):
        if reason != "not_asked" and counts.any():
            worst = int(np.argmax(counts))
            found.append((reason, int(counts.sum()), tally.source_names[worst], int(counts[worst])))
    return tuple(found)
