"""Findings about sources as values and as sentences, and the class balance as a sentence."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flyingsquid._values import format_count
from flyingsquid.analysis.comparison import Comparison
from flyingsquid.fits import Fit
from flyingsquid.fits.diagnostics import Verdict
from flyingsquid.fits.summary import format_balance

Names = tuple[str, ...]
GOLD, MODEL = "gold labels", "the model"
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
