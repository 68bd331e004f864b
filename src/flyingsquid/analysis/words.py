"""What stands out about sources, in plain sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flyingsquid.analysis.findings import Findings, Ranked, find

# Lists of names are cut after so many.
_MOST_LISTED = 6
# Sources whose votes correlate more than this given the truth pull the labels to their side.
_CLOSE = 0.2


def in_words(votes: Any, y: Any = None, *, model: Any = None, task: int | None = None) -> list[str]:
    """What stands out, most important first: a list of sentences.

    Parameters
    ----------
    votes : Votes, or what ``Votes.from_classes`` or ``Votes.from_frame`` take, shape (n, m)
    y : array of shape (n,), optional
        True classes; None, NaN and masked are unknown, and -1 unless it is a class. Where they are given, all
        that is said of accuracies and dependence comes from them, and says so.
    model : a fitted label model, optional
    task : int, for a graph of several tasks

    Examples
    --------
    >>> import flyingsquid as fs
    >>> sample = fs.datasets.simulate(
    ...     5_000, [0.9, 0.8, 0.8, 0.7, 0.7, 0.3], random_state=0)
    >>> for sentence in in_words(sample.votes, model=fs.LabelModel().fit(sample.votes)):
    ...     print(sentence)  # doctest: +ELLIPSIS
    6 sources on 5,000 items, worth about 6.0 independent ones.
    source 5 is worse than chance.
    Strongest by the model's estimates: source 0 (90%) and source 1 (81%); source 2 cannot be told apart...
    Weakest: source 5 (29%) and source 4 (70%); source 3 cannot be told apart from the last of these. The...
    Use it: by its own account it labels 9.1 points more right than majority vote.
    The model's label is not the majority's on 3.8% of the items, and majority vote cannot decide 19.1%;...
    """
    found = find(votes, y, model=model, task=task)
    return say(found)


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence about sources.

    Attributes
    ----------
    text : str
    is_alert : bool
        Whether it reports sources that do harm.
    """

    text: str
    is_alert: bool = False


def say(found: Findings) -> list[str]:
    """Return sentences about findings, the most important first."""
    return [sentence.text for sentence in sentences_about(found)]


def sentences_about(found: Findings) -> list[Sentence]:
    """Return sentences about findings, the most important first, with alerts marked."""
    others = [*_about_ranks(found), *_about_pairs(found), *_about_flags(found), *_about_majority(found)]
    return [Sentence(_opening(found)), *_about_chance(found), *map(Sentence, others)]


def _opening(found: Findings) -> str:
    start = f"{_counted(found.n_sources, 'source')} on {_counted(found.n_items, 'item')}"
    if found.effective_sources is not None:
        about = "" if found.judged_by == "known labels" else "about "
        by = f" by {_counted(found.n_known, 'item')} of known class" if about == "" else ""
        start += f", worth {about}{found.effective_sources:.1f} independent ones{by}"
    else:
        start += f", {found.votes_an_item:.1f} votes an item, at odds on {_percent(found.split)} of them"
    if found.uncovered > 0:
        start += f"; {_percent(found.uncovered)} of the items have no vote"
    return f"{start}."


def _about_chance(found: Findings) -> list[Sentence]:
    if len(found.not_judged) == found.n_sources:
        return []
    sentences = []
    if found.worse_than_chance:
        verb = "is" if len(found.worse_than_chance) == 1 else "are"
        text = f"{_listed(found.worse_than_chance)} {verb} worse than chance."
        sentences.append(Sentence(text, is_alert=True))
    else:
        sentences.append(Sentence("No source is worse than chance, as far as can be told."))
    if found.like_chance:
        sentences.append(Sentence(f"{_listed(found.like_chance)} cannot be told from chance."))
    if found.not_judged and found.judged_by != "known labels":
        others = _counted(len(found.not_judged), "source")
        text = f"Of {others} that use at most one class only known labels could say that."
        sentences.append(Sentence(text))
    return sentences


def _about_ranks(found: Findings) -> list[str]:
    if found.strongest is None or found.weakest is None:
        return []
    by = "known labels" if found.judged_by == "known labels" else "the model's estimates"
    meaning = (
        "The numbers are means over the classes of how often a source is right there."
        if found.measure == "balanced accuracy"
        else "The numbers say how often a vote of the source is right."
    )
    strongest_tie = found.dependent[0].correlation if found.dependent else 0.0
    if found.judged_by != "known labels" and strongest_tie > _CLOSE:
        meaning += " Sources that err together look better than they are, because the labels lean to them."
    if found.n_unranked:
        meaning += f" {_counted(found.n_unranked, 'source')} with too few votes are not ranked."
    return [
        f"Strongest by {by}: {_ranking(found.strongest)}.",
        f"Weakest: {_ranking(found.weakest)}. {meaning}",
    ]


def _ranking(ranked: Ranked) -> str:
    each = [f"{name} ({value:.0%})" for name, value in zip(ranked.names, ranked.values, strict=True)]
    if not ranked.alike:
        return _listed(each)
    return f"{_listed(each)}; {_listed(ranked.alike)} cannot be told apart from the last of these"


def _about_pairs(found: Findings) -> list[str]:
    if not found.n_pairs:
        return []
    gold = found.judged_by == "known labels"
    given = "known labels" if gold else "the truth, as far as the model knows it"
    if not found.dependent:
        return []
    pairs = [f"{pair.first} and {pair.second} ({pair.correlation:.2f})" for pair in found.dependent]
    caution = "" if gold else " A model that is wrong together with its sources hides some of this."
    return [
        f"{found.n_dependent:,} of {found.n_pairs:,} pairs of sources depend on each other; most of all, "
        f"given {given}: {'; '.join(pairs)}.{caution}"
    ]


def _about_flags(found: Findings) -> list[str]:
    sentences = [f"{_listed(group)} are near copies of each other." for group in found.duplicates]
    if found.silent:
        sentences.append(f"Never vote: {_listed(found.silent)}.")
    if found.one_sided:
        sentences.append(f"Vote for one class only: {_listed(found.one_sided)}.")
    for reason, count, source, times in found.missing:
        sentences.append(f"{_counted(count, 'vote')} {reason}, most of them of {source} ({times:,}).")
    return sentences


def _about_majority(found: Findings) -> list[str]:
    if found.comparison is None:
        return []
    if found.comparison.model is not None:
        return [found.comparison.sentence()]
    return [found.verdict, found.comparison.sentence()] if found.verdict else [found.comparison.sentence()]


def _listed(names: Sequence[str]) -> str:
    shown, rest = list(names[:_MOST_LISTED]), len(names) - _MOST_LISTED
    if rest > 0:
        shown.append(f"{rest:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.0005 else "less than 0.1%"
