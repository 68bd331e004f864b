"""Findings about sources, as values and as sentences: the strongest, dependent pairs and problems."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count
from flyingsquid.analysis.agreement import dependence_given_truth, effective_sources
from flyingsquid.analysis.comparison import Comparison, compare_items
from flyingsquid.analysis.items import Items, read_items, require_gold
from flyingsquid.analysis.summarize import GoldTally, chance_accuracies
from flyingsquid.estimation.dependence import near_copies
from flyingsquid.estimation.shares import NORMAL_95
from flyingsquid.fits import Fit, WeightedFit
from flyingsquid.fits.diagnostics import Verdict, names_in, names_in_groups
from flyingsquid.fits.summary import format_balance, without_unidentified
from flyingsquid.moments import Moments
from flyingsquid.votes import REASONS
from flyingsquid.votes.tallies import SourceTally, item_votes

Array = NDArray[np.float64]
Names = tuple[str, ...]
GOLD, MODEL = "gold labels", "the model"
# At most this many sources are named, and at most a third of all sources.
_MOST_RANKED = 5
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
        uncovered=float(np.mean(counts.n_votes == 0)),
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
    if len(kept) < 2 and known.sum() <= 2 * _MOST_RANKED:
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
    k = min(_MOST_RANKED, max(1, len(kept) // 3))
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


# ---------------------------------------------------------------------- sentences


# Lists of names in sentences end after this many; pairs and classes after this many.
_MOST_LISTED, _MOST_NAMED = 6, 5
# Sources with a larger correlation given the truth bias the labels toward their votes.
_STRONG_CORRELATION = 0.2


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best or the worst sources.

    Attributes
    ----------
    names : tuple of str, the most extreme first
    values : tuple of floats
    similar : tuple of str
        Further sources that do not differ significantly from the last of these.
    """

    names: Names
    values: tuple[float, ...]
    similar: Names


@dataclass(frozen=True, slots=True)
class DependentPair:
    """Two sources that agree more or less often than the truth explains.

    Attributes
    ----------
    first, second : str
    correlation : float
        Correlation of their votes given the truth; negative if they agree less often.
    """

    first: str
    second: str
    correlation: float


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Findings about sources.

    Attributes
    ----------
    n_items, n_sources : int
    votes_per_item : float
    uncovered : float
        Share of items without a vote.
    split : float
        Share of items with different votes.
    basis : "gold labels", "the model" or ""
        Basis of accuracies and dependence; empty without gold labels and without a model.
    n_gold : int
        Number of gold labels.
    strongest, weakest : Ranking, or None
        By accuracy, as in the columns ``precision`` (gold labels) or ``accuracy`` (the model) of
        ``fs.summarize``: ``names``, ``values``, and in ``similar`` further sources that do not differ
        significantly.
    has_order : bool
        Whether the strongest source is significantly more accurate than the weakest.
    n_unranked : int
        Sources with too few votes for a ranking: fewer than 20.
    effective_sources : float or None
        Number of independent sources that these correspond to.
    dependent : tuple of DependentPair, strongest first
        All significantly dependent pairs, with ``first``, ``second`` and ``correlation``.
    n_pairs : int
        Number of all pairs that were compared.
    chance : tuple of floats, NaN if unknown
        For each source, the accuracy of random votes with the same class frequencies on the same items, as
        in Cohen's kappa. For a source of one class, the share of that class in all items.
    worse_than_chance, near_chance : tuples of str
        Sources that are significantly worse than chance, and those that do not differ from it.
    not_compared : tuple of str
        Sources that could not be compared with random votes.
    one_sided, silent : tuples of str
        Sources that vote for one class only, and sources that always abstain.
    duplicates : tuple of tuples of str
        Groups of near-copies.
    missing : tuple of (reason, count, source, count of this source)
        Missing votes by reason, with the source that has the most.
    comparison : Comparison with majority vote, or None without a model
    verdict : str
        Recommendation for or against the model, by gold labels if there are any; empty without a model.
    """

    n_items: int
    n_sources: int
    votes_per_item: float
    uncovered: float
    split: float
    basis: str
    n_gold: int
    strongest: Ranking | None
    weakest: Ranking | None
    has_order: bool
    n_unranked: int
    effective_sources: float | None
    dependent: tuple[DependentPair, ...]
    n_pairs: int
    chance: tuple[float, ...]
    worse_than_chance: Names
    near_chance: Names
    not_compared: Names
    one_sided: Names
    silent: Names
    duplicates: tuple[Names, ...]
    missing: tuple[tuple[str, int, str, int], ...]
    comparison: Comparison | None
    verdict: str

    def sentences(self) -> list[str]:
        """Return the findings as sentences, the most important first."""
        return [sentence.text for sentence in describe(self)]

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<ul>{''.join(f'<li>{html.escape(text)}</li>' for text in self.sentences())}</ul>"


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence about sources; ``is_alert`` if it reports sources that are worse than chance."""

    text: str
    is_alert: bool = False


def describe(found: Findings) -> list[Sentence]:
    """Return sentences about findings, the most important first."""
    others = [*_describe_ranks(found), *_describe_pairs(found), *_describe_problems(found)]
    return [
        Sentence(_describe_size(found)),
        *map(Sentence, _describe_labels(found)),
        *_describe_majority(found),
        *_describe_chance(found),
        *map(Sentence, others),
    ]


def _describe_size(found: Findings) -> str:
    text = f"{format_count(found.n_sources, 'source')} on {format_count(found.n_items, 'item')}"
    if found.effective_sources is None:
        text += f" with {found.votes_per_item:.1f} votes per item; votes differ on {_percent(found.split)}"
    else:
        basis = "estimated" if found.basis != GOLD else f"on {format_count(found.n_gold, 'gold label')}"
        text += f", equivalent to {found.effective_sources:.1f} independent sources ({basis})"
    if found.uncovered > 0:
        text += f"; {_percent(found.uncovered)} of the items have no vote"
    return f"{text}."


def _describe_majority(found: Findings) -> list[Sentence]:
    comparison = found.comparison
    if comparison is None or comparison.majority is None or not comparison.is_majority_below_chance:
        return []
    text = (
        f"On gold labels, majority vote is less accurate than random labels "
        f"({comparison.majority.accuracy:.1%} instead of {comparison.majority.chance:.1%}); check whether "
        "classes are swapped."
    )
    return [Sentence(text, is_alert=True)]


def _describe_chance(found: Findings) -> list[Sentence]:
    if len(found.not_compared) == found.n_sources:
        return []
    sentences = [Sentence("No source is significantly worse than chance.")]
    if found.worse_than_chance:
        sentences = [Sentence(f"Worse than chance: {_list(found.worse_than_chance)}.", is_alert=True)]
    if found.near_chance:
        sentences.append(Sentence(f"Not significantly different from chance: {_list(found.near_chance)}."))
    if found.not_compared and found.basis != GOLD:
        count = format_count(len(found.not_compared), "source")
        text = (
            f"Without gold labels, {count} with votes for at most one class cannot be compared with chance."
        )
        sentences.append(Sentence(text))
    return sentences


def _describe_ranks(found: Findings) -> list[str]:
    if found.strongest is None or found.weakest is None:
        return []
    meaning = "Values are shares of correct votes."
    correlation = found.dependent[0].correlation if found.dependent else 0.0
    if found.basis != GOLD and correlation > _STRONG_CORRELATION:
        meaning += " Sources with common errors are overestimated, because the labels contain these errors."
    if found.n_unranked:
        meaning += f" Not ranked, because of too few votes: {format_count(found.n_unranked, 'source')}."
    if not found.has_order:
        best, worst = found.strongest, found.weakest
        return [
            f"No source is significantly more accurate than another by {found.basis}: estimates range from "
            f"{worst.values[0]:.1%} ({worst.names[0]}) to {best.values[0]:.1%} ({best.names[0]}). {meaning}"
        ]
    return [
        f"Strongest sources by {found.basis}: {_describe_ranking(found.strongest)}",
        f"Weakest sources: {_describe_ranking(found.weakest)} {meaning}",
    ]


def _describe_ranking(ranking: Ranking) -> str:
    each = [f"{name} ({value:.1%})" for name, value in zip(ranking.names, ranking.values, strict=True)]
    similar = f" Not significantly different: {_list(ranking.similar)}." if ranking.similar else ""
    return f"{_list(each)}.{similar}"


def _describe_pairs(found: Findings) -> list[str]:
    if not found.dependent:
        return []
    named = found.dependent[:_MOST_NAMED]
    pairs = [f"{pair.first} and {pair.second} ({pair.correlation:+.2f})" for pair in named]
    return [f"{describe_dependence(found)} Strongest: {'; '.join(pairs)}."]


def describe_dependence(found: Findings) -> str:
    """Return a sentence with the number of dependent pairs of sources."""
    given = "gold labels" if found.basis == GOLD else "the estimated truth"
    n, total = len(found.dependent), found.n_pairs
    if not total:
        return "Pairs of sources were not compared."
    if not n:
        return f"None of {format_count(total, 'pair')} of sources is dependent given {given}."
    are = "is" if n == 1 else "are"
    below = sum(pair.correlation < 0 for pair in found.dependent)
    negative = f", {below:,} of them negatively" if below else ""
    caution = "" if found.basis == GOLD else " Errors that the model shares with its sources are not counted."
    return (
        f"{n:,} of {format_count(total, 'pair')} of sources {are} dependent given {given}{negative}.{caution}"
    )


def _describe_problems(found: Findings) -> list[str]:
    sentences = [f"Near-copies of each other: {_list(group)}." for group in found.duplicates]
    if found.silent:
        sentences.append(f"Sources that always abstain: {_list(found.silent)}.")
    if len(found.one_sided) == found.n_sources > 1:
        sentences.append("Every source votes for one class only.")
    elif found.one_sided:
        sentences.append(f"Sources that vote for one class only: {_list(found.one_sided)}.")
    for reason, count, source, times in found.missing:
        sentences.append(f"{format_count(count, 'vote')} {reason}, most of them by {source} ({times:,}).")
    return sentences


def _describe_labels(found: Findings) -> list[str]:
    if found.comparison is None:
        return []
    return [*([found.verdict] if found.verdict else []), found.comparison.sentence()]


def _list(names: Sequence[str]) -> str:
    shown, rest = list(names[:_MOST_LISTED]), len(names) - _MOST_LISTED
    if rest > 0:
        shown.append(f"{rest:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _percent(share: float) -> str:
    return "less than 0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def describe_balance(model: Any) -> str:
    """Return the class balance of a model of one task, with 95% intervals; empty if there is none.

    >>> import flyingsquid as fs
    >>> votes = fs.datasets.load_breast_cancer().votes
    >>> describe_balance(fs.LabelModel(class_balance=[0.4, 0.6]).fit(votes))
    'benign 40.0%, malignant 60.0%'
    """
    balance = np.asarray(getattr(model, "class_balance_", np.empty((0, 0))))
    if balance.ndim != 1:
        return ""
    return format_balance(model.vote_schema_.classes, balance, model.class_balance_interval_)


def verdict_on(model: Any, comparison: Comparison) -> Verdict | None:
    """Return the verdict on a model, based on gold labels if the comparison has any; None if there is none.

    A model that was fitted with gold labels has a cross-validated verdict of its own.
    """
    diagnostics = getattr(model, "diagnostics_", None)
    if comparison.verdict is not None and getattr(diagnostics, "gold", None) is None:
        return comparison.verdict
    return getattr(diagnostics, "verdict", None)


def fit_of(model: Any) -> Fit:
    """Return the estimated parameters; a model of a stream holds the model of its last fit."""
    fit: Fit = getattr(model, "model_", model).fit_
    return fit
