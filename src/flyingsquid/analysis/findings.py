"""What stands out about sources: the strongest and weakest, dependent pairs, those that deserve a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.analysis.agreement import dependence_given_truth, effective_sources
from flyingsquid.analysis.comparison import Comparison, compare_items
from flyingsquid.analysis.overlaps import GoldTally
from flyingsquid.analysis.reading import Items, read_items
from flyingsquid.estimation.normal import NORMAL_95
from flyingsquid.estimation.sources import near_copies
from flyingsquid.exceptions import VotesError
from flyingsquid.fits.diagnostics import names_in, names_in_groups
from flyingsquid.fits.weighted import balanced_accuracies
from flyingsquid.moments import Moments
from flyingsquid.moments.tally import SourceTally
from flyingsquid.votes import REASONS
from flyingsquid.votes.tallies import item_votes

# Methods that compare the sources of any number of classes with random votes.
_WEIGHTED = ("weighted", "anchored_em")
Array = NDArray[np.float64]
Names = tuple[str, ...]
# At most so many sources and pairs are named, and of few sources a third.
MOST_NAMED = 5
# Weaker dependence is not worth a sentence, whatever its standard error.
_WORTH_A_WORD = 0.1
# Sources that are known less well than that would fill both ends of a ranking by luck.
_ROUGHEST = 0.1
# Pairs are looked at for at most so many sources and classes.
_MOST_SOURCES, _MOST_CLASSES = 300, 20
# Correlations are taken on at most so many items, which leaves them a standard error of .003.
_MOST_ITEMS = 100_000
_GOLD, _MODEL = "known labels", "the model"


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best or the worst sources.

    Attributes
    ----------
    names : tuple of texts, the most extreme first
    values : tuple of floats
        What each of them reaches.
    alike : tuple of texts
        Further ones that cannot be told apart from the last of them, by 95% intervals of the difference.
    """

    names: Names
    values: tuple[float, ...]
    alike: Names


@dataclass(frozen=True, slots=True)
class DependentPair:
    """Two sources that agree more than the truth explains, by the correlation of their votes given it."""

    first: str
    second: str
    correlation: float


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What stands out about sources.

    Attributes
    ----------
    n_items, n_sources : int
    votes_an_item : float
    uncovered : float
        Share of the items without a vote.
    split : float
        Share of the items on which votes differ.
    judged_by : "known labels", "the model", or "" where there is neither
        What accuracies and dependence are taken from.
    n_known : int
        Items of known class.
    measure : "balanced accuracy" or "accuracy"
        By which sources are ranked: the mean over the classes of how often they are right there, of sources
        that use several classes; where most use one, how often their votes are right.
    strongest, weakest : Ranked, or None
    n_unranked : int
        Judged sources with too few votes to be ranked: a standard error above 0.1.
    effective_sources : float or None
        How many independent sources these are worth.
    dependent : tuple of DependentPair, strongest first
    n_dependent, n_pairs : int
        Pairs that are clearly dependent, and all that were looked at.
    worse_than_chance, like_chance : tuples of names
    not_judged : tuple of names
        Sources that neither known labels nor the model set beside chance.
    one_sided, silent : tuples of names
    duplicates : tuple of tuples of names
    missing : tuple of (reason, votes missing for it, source it happened to most, times there)
    comparison : Comparison with majority vote, or None without a model
    verdict : the model's own account in words; empty without one
    """

    n_items: int
    n_sources: int
    votes_an_item: float
    uncovered: float
    split: float
    judged_by: str
    n_known: int
    measure: str
    strongest: Ranked | None
    weakest: Ranked | None
    n_unranked: int
    effective_sources: float | None
    dependent: tuple[DependentPair, ...]
    n_dependent: int
    n_pairs: int
    worse_than_chance: Names
    like_chance: Names
    not_judged: Names
    one_sided: Names
    silent: Names
    duplicates: tuple[Names, ...]
    missing: tuple[tuple[str, int, str, int], ...]
    comparison: Comparison | None
    verdict: str


def find(votes: Any, y: Any = None, *, model: Any = None, task: int | None = None) -> Findings:
    """Look at votes, with a model and known labels where there are any; these decide where they are given.

    Parameters
    ----------
    votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
    y : array of shape (n,), optional
        True classes; None, NaN and masked are unknown, and -1 unless it is a class.
    model : a fitted label model, optional
    task : int, for a graph of several tasks
    """
    items = read_items(model, votes, y, task=task)
    tally = SourceTally.of_votes(items.votes)
    names, seen = tally.source_names, (tally.votes > 0).sum(axis=1)
    gold = None if items.gold is None else GoldTally.of(items.votes, items.gold)
    if gold is not None and not gold.items.sum():
        raise VotesError("y holds no known class; leave it out where nothing is known")
    judges = getattr(model, "accuracies_", None) is not None
    judged_by = _GOLD if gold is not None else _MODEL if judges else ""
    measure, best, worst, unranked = _ranked(items, model, gold, judged_by, seen)
    correlations, overlaps = _dependence(items, judged_by, seen)
    pairs, n_dependent, n_pairs = _pairs(names, correlations, overlaps)
    below, alike, unjudged = _chance(names, model, gold, judged_by, seen)
    diagnostics = getattr(model, "diagnostics_", None)
    rows = item_votes(items.votes.codes)
    return Findings(
        n_items=items.votes.n_items,
        n_sources=items.votes.n_sources,
        votes_an_item=float(tally.n_votes.sum() / items.votes.n_items),
        uncovered=float(np.mean(rows.cast == 0)),
        split=float(np.mean(rows.split)),
        judged_by=judged_by,
        n_known=0 if gold is None else int(gold.items.sum()),
        measure=measure,
        strongest=best,
        weakest=worst,
        n_unranked=unranked,
        effective_sources=None if correlations is None else effective_sources(correlations, overlaps),
        dependent=pairs,
        n_dependent=n_dependent,
        n_pairs=n_pairs,
        worse_than_chance=below,
        like_chance=alike,
        not_judged=unjudged,
        one_sided=names_in(names, seen == 1),
        silent=names_in(names, seen == 0),
        duplicates=_duplicates(items),
        missing=_missing(tally),
        comparison=compare_items(items) if model is not None else None,
        verdict="" if diagnostics is None else str(diagnostics.verdict),
    )


def _ranked(
    items: Items, model: Any, gold: GoldTally | None, judged_by: str, seen: NDArray[Any]
) -> tuple[str, Ranked | None, Ranked | None, int]:
    """By what sources are ranked, the strongest, the weakest, and how many have too few votes for that."""
    several = seen > 1
    balanced = 2 * several.sum() >= (seen > 0).sum()
    measure = "balanced accuracy" if balanced else "accuracy"
    if not judged_by:
        return measure, None, None, 0
    if gold is not None:
        cast = np.maximum(gold.cast.sum(axis=1), 1)
        share = (gold.correct + 1) / (cast + 2)
        plain = gold.precision, np.sqrt(share * (1 - share) / cast)
        value, error = (gold.balanced_accuracy, gold.balanced_error) if balanced else plain
    else:
        value, error = _estimated(items, model, balanced=balanced)
    judged = (several if balanced else seen > 0) & np.isfinite(value)
    names, kept = items.votes.source_names, np.flatnonzero(judged)
    sure = np.flatnonzero(judged & (error <= _ROUGHEST))
    if len(sure) > 1 or len(kept) > 2 * MOST_NAMED:
        kept = sure
    if len(kept) < 2:
        return measure, None, None, int(judged.sum()) - len(kept)
    best, worst = (_extreme(names, kept, value, error, side) for side in (-1, 1))
    return measure, best, worst, int(judged.sum()) - len(kept)


def _estimated(items: Items, model: Any, *, balanced: bool) -> tuple[Array, Array]:
    """What the model says the sources reach, and the standard errors, shapes (m,)."""
    sources = list(items.sources)
    interval = np.asarray(model.accuracies_interval_)[sources]
    if not balanced or not hasattr(model, "confusion_"):
        return np.asarray(model.accuracies_)[sources], (interval[:, 1] - interval[:, 0]) / 2 / NORMAL_95
    counts = getattr(model.moments_, "rows", model.moments_)
    whole = len(sources) == len(model.source_names_)
    tables = model.confusion_ if whole else np.asarray(model.confusion_)[sources]
    balance = np.asarray(model.class_balance_)
    balance = balance if balance.ndim == 1 else balance.mean(axis=0)
    return balanced_accuracies(tables, balance, float(counts.n_items))


def _extreme(names: Names, kept: NDArray[np.intp], value: Array, error: Array, side: int) -> Ranked:
    """The largest (side -1) or smallest (side 1) values, and those that equal the last within the error."""
    order = kept[np.argsort(side * value[kept], kind="stable")]
    k = min(MOST_NAMED, max(1, len(kept) // 3))
    top, rest = order[:k], order[k:]
    gap = np.abs(value[rest] - value[top[-1]])
    reach = NORMAL_95 * np.sqrt(error[rest] ** 2 + error[top[-1]] ** 2)
    # An unknown error cannot tell anything apart.
    alike = rest[~(gap > np.nan_to_num(reach, nan=np.inf))]
    return Ranked(
        tuple(names[i] for i in top), tuple(value[top].tolist()), tuple(names[int(i)] for i in alike)
    )


def _dependence(items: Items, judged_by: str, seen: NDArray[Any]) -> tuple[Array | None, Array]:
    """Correlations given the truth, and the items that they rest on, (m, m) each."""
    votes, posterior = items.votes, items.posterior
    m = votes.n_sources
    if not judged_by or not 2 <= m <= _MOST_SOURCES or votes.n_classes > _MOST_CLASSES:
        return None, np.zeros((m, m))
    if items.gold is not None:
        known = _spread(np.flatnonzero(items.gold >= 0))
        votes, posterior = votes[known], np.eye(votes.n_classes)[items.gold[known]]
    elif votes.n_items > _MOST_ITEMS:
        some = _spread(np.arange(votes.n_items))
        votes, posterior = votes[some], posterior[some]
    overlaps = np.asarray(Moments.of(votes).overlap(), np.float64)
    one_sided = seen < 2
    rest_on = np.where(one_sided[:, None] | one_sided, votes.n_items, overlaps)
    return dependence_given_truth(votes, posterior=posterior), rest_on


def _spread(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    """At most so many rows as suffice for correlations, evenly spread."""
    return (
        rows[np.linspace(0, len(rows) - 1, _MOST_ITEMS).astype(np.intp)] if len(rows) > _MOST_ITEMS else rows
    )


def _pairs(
    names: Names, correlations: Array | None, overlaps: Array
) -> tuple[tuple[DependentPair, ...], int, int]:
    """The most dependent pairs, how many are clearly so, and how many were looked at."""
    if correlations is None:
        return (), 0, 0
    first, second = np.triu_indices(len(names), 1)
    size, met = np.nan_to_num(correlations[first, second]), overlaps[first, second]
    # Three standard errors, because there are many pairs.
    clear = size > np.maximum(3 / np.sqrt(np.maximum(met, 1.0)), _WORTH_A_WORD)
    order = np.argsort(-np.where(clear, size, -np.inf), kind="stable")[: min(MOST_NAMED, int(clear.sum()))]
    pairs = tuple(DependentPair(names[first[i]], names[second[i]], float(size[i])) for i in order)
    return pairs, int(clear.sum()), len(first)


def _chance(
    names: Names, model: Any, gold: GoldTally | None, judged_by: str, seen: NDArray[Any]
) -> tuple[Names, Names, Names]:
    """Sources that are worse than chance, those that cannot be told from it, and those not judged."""
    if gold is not None:
        several = (gold.said > 0).sum(axis=1) > 1
        reach = NORMAL_95 * gold.balanced_error
        near = np.abs(np.nan_to_num(gold.balanced_accuracy - gold.chance, nan=np.inf)) <= reach
        unknown = gold.cast.sum(axis=1) == 0
        return (
            names_in(names, gold.worse_than_chance),
            names_in(names, several & near),
            names_in(names, unknown),
        )
    if not judged_by:
        return (), (), names
    found, here = model.diagnostics_, set(names)
    # A fit of many classes judges nobody, unless it weighs votes.
    judges = len(model.classes_) == 2 or found.method in _WEIGHTED
    return (
        tuple(name for name in found.adversarial if name in here),
        tuple(name for name in found.useless if name in here),
        names_in(names, seen < 2) if judges else names,
    )


def _duplicates(items: Items) -> tuple[Names, ...]:
    if items.votes.n_sources > _MOST_SOURCES or items.votes.n_classes > _MOST_CLASSES:
        return ()
    return names_in_groups(items.votes.source_names, near_copies(Moments.of(items.votes)))


def _missing(tally: SourceTally) -> tuple[tuple[str, int, str, int], ...]:
    found = []
    for reason, counts in zip(REASONS[1:], tally.missing.T, strict=True):
        if counts.any():
            worst = int(np.argmax(counts))
            found.append((reason, int(counts.sum()), tally.source_names[worst], int(counts[worst])))
    return tuple(found)
