"""Suggest which items to label by hand next: Bayesian experimental design.

Gold labels correct a model by a logistic regression with a Gaussian prior (``gold_regression``). So the log
odds of an item, between its two most probable classes, are Gaussian before any label is seen, and items that
share votes are correlated. A gold label of pattern i reduces the variance of pattern j by C_ij^2 w_i / (1 +
w_i C_ii), where C is the covariance and w_i = p_i (1 - p_i). The value of a smaller variance depends on how
often the pattern occurs and on how likely its label is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid._table import Table, Tabular, as_scalar
from flyingsquid._values import RandomState, read_integer, read_random_state
from flyingsquid.analysis.comparison import differs_from
from flyingsquid.analysis.items import read_items, read_votes
from flyingsquid.estimation.factors import fit_factors, informative_items
from flyingsquid.exceptions import OptionError
from flyingsquid.inference.posterior import log_probabilities, log_shares
from flyingsquid.votes import Votes
from flyingsquid.votes.arguments import item_ids, join_by_item, read_gold
from flyingsquid.votes.codes import Label, OneHot
from flyingsquid.votes.decisions import is_tied

Array = NDArray[np.float64]
MOST_SUGGESTED = 1_000
"""More items are not suggested at once, because labels change what is worth labeling next."""
# Until this many items have labels, half of the suggestions are drawn at random: a model without gold labels
# may be certain and wrong, which only random items show (benchmarks/quality/suggestions.py).
_START, _RANDOM_SHARE = 20, 0.5
# If two explanations fit the votes, this many labels are spent first on items that distinguish them: LLMBar
# has 90% with ten of these, and 86% with ten random ones (docs/quality/panels.md).
_CONTRADICTION_LABELS = 10
# Items among which suggestions are chosen, cells of their votes, and distinct votes that are compared.
_MOST_ITEMS, _MOST_CELLS, _MOST_PATTERNS = 20_000, 1 << 26, 1_000
# Below this probability the label counts as uncertain, from this share of items on votes count as frequent.
_UNCERTAIN, _FREQUENT = 0.75, 0.01


@dataclass(frozen=True, slots=True)
class Suggestion:
    """An item that is suggested for a gold label.

    Attributes
    ----------
    item : int
        Position of the item in the votes.
    id : identifier of the item, or None if the votes have none
    label : class label of the model
    probability : float
        Probability of that label.
    majority : class label by majority vote, or None on a tie and without votes
    count : int
        Number of items with the same votes, among those that were compared.
    score : float or None
        Expected value of a gold label given the previous suggestions, relative to the largest one; None for
        items that were drawn at random.
    reason : str
        Reason why the item was chosen.
    """

    item: int
    id: Any
    label: Label
    probability: float
    majority: Label | None
    count: int
    score: float | None
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Suggestions(Tabular):
    """Items to label by hand, best first. Prints as a table.

    Attributes
    ----------
    suggestions : tuple of Suggestion
    """

    suggestions: tuple[Suggestion, ...]

    @property
    def positions(self) -> NDArray[np.intp]:
        """Positions of the items in the votes."""
        return np.array([each.item for each in self.suggestions], np.intp)

    @property
    def ids(self) -> tuple[Any, ...]:
        """Identifiers of the items; None if the votes have none."""
        return tuple(each.id for each in self.suggestions)

    def __len__(self) -> int:
        return len(self.suggestions)

    def __iter__(self) -> Iterator[Suggestion]:
        return iter(self.suggestions)

    def table(self) -> Table:
        """Return one row per item."""
        columns = ("item", "id", "label", "probability", "majority", "same votes", "score", "reason")
        rows = tuple(tuple(each.values()) for each in self.to_dict()["suggestions"])
        notes = (
            "same votes: items with these votes. score: expected value of a gold label, relative to the "
            "largest one.",
        )
        return Table(columns, rows, footnotes=notes, formats=("d", "", "", ".0%", "", ",d", ".2f", ""))

    def to_dict(self) -> dict[str, Any]:
        """Return all values for JSON."""
        return {
            "suggestions": [
                {key: as_scalar(value) for key, value in asdict(each).items()} for each in self.suggestions
            ]
        }


def suggest_items(
    model: Any, votes: Any, n: int, *, labeled: Any = None, random_state: RandomState = None
) -> Suggestions:
    """Suggest items whose gold labels would improve the labels of the others most.

    An item is suggested if the model is uncertain about it, if plausible models disagree (majority vote,
    other weights of the sources, another class balance), and if many items have similar votes. Items are
    chosen one at a time, given the previous ones, so that labels are not spent on items with the same votes.
    Label them, fit the model with ``gold``, and ask again. About 10 items at a time are better than 20 or
    more, because every choice then depends on more labels.

    If two explanations fit the votes (``diagnostics_.verdict.kind`` is "contradictory"), the first ten labels
    are spent on items that distinguish them.

    Suggested items are not a random sample. ``fit(votes, gold=...)`` does not need one, because it estimates
    the class given the votes; :func:`~flyingsquid.estimate_rate` does, and so does every score on gold
    labels, such as accuracy.

    Parameters
    ----------
    model : fitted label model of single items with one task
    votes : as for ``model.predict_proba``
        The items to choose from.
    n : int
        Number of items, at most 1,000. If fewer items have no gold label, all of these are suggested.
    labeled : gold labels as for ``fit(votes, gold=...)``, optional
        Items that have a gold label, which are not suggested again.
    random_state : int, numpy.random.Generator or None, default=None
        Seed or generator. It draws among items with the same votes, and half of the suggestions as long as
        fewer than 20 items have labels. None uses a new seed on every call.

    Returns
    -------
    Suggestions
        One :class:`Suggestion` per item, best first, printed as a table. ``positions`` and ``ids`` identify
        the items.

    Raises
    ------
    OptionError
        If the model labels sequences or several tasks, or ``n`` is invalid.
    VotesError
        If ``labeled`` cannot be joined with the votes.

    Notes
    -----
    Bayesian experimental design for the regression that gold labels are used in. At most 20,000 items and
    1,000 different rows of votes, drawn at random, are compared.

    Examples
    --------
    >>> import numpy as np
    >>> import flyingsquid as fs
    >>> data = fs.datasets.load_breast_cancer()
    >>> gold = np.full(569, None)
    >>> for _ in range(3):  # suggest, label, fit again
    ...     model = fs.LabelModel().fit(data.votes, gold=gold)
    ...     suggested = fs.suggest_items(model, data.votes, 10, labeled=gold, random_state=0)
    ...     gold[suggested.positions] = data.y[suggested.positions]
    >>> int(sum(label is not None for label in gold))
    30
    """
    rng = read_random_state(random_state)
    n = read_integer("n", n, 1, MOST_SUGGESTED)
    if model is None:
        raise OptionError("`model` must be a fitted label model; got None.", parameter="model")
    read, tasks = read_votes(model, votes)
    if len(tasks) > 1 or hasattr(model, "transition_"):
        raise OptionError(
            "`model` must label single items with one task, because the items of a sequence or clip are not "
            "labeled one by one."
        )
    ids = item_ids(votes, read)
    is_labeled = np.zeros(read.n_items, bool)
    if labeled is not None:
        joined = join_by_item(labeled, item_ids(votes, read, labeled), read.n_items, "labeled")
        is_labeled = read_gold(joined, read.classes, read.n_items, "labeled") >= 0
    free = np.flatnonzero(~is_labeled)
    n = min(n, len(free))
    n_labeled = int(np.count_nonzero(is_labeled))
    distinguishing = _distinguishing_items(
        model, read, is_labeled, min(n, max(_CONTRADICTION_LABELS - n_labeled, 0))
    )
    n -= len(distinguishing)
    is_taken = is_labeled.copy()
    is_taken[distinguishing] = True
    n_random = 0 if n_labeled >= _START else round(_RANDOM_SHARE * n)
    drawn = rng.choice(np.flatnonzero(~is_taken), n_random, replace=False)
    is_taken[drawn] = True
    chosen, scores, same = _choose(model, read, is_taken, n - n_random, rng)
    is_taken[chosen] = True
    # Others, if more items are wanted than were compared.
    rest = rng.permutation(np.flatnonzero(~is_taken))[: n - n_random - len(chosen)]
    drawn = np.concatenate([drawn, rest])
    at = np.concatenate([distinguishing, chosen, drawn])
    every = [*[1.0] * len(distinguishing), *scores, *[None] * len(drawn)]
    return _describe(model, read, ids, at, every, same[at].tolist(), n_settling=len(distinguishing))


def _distinguishing_items(
    model: Any, votes: Votes, is_labeled: NDArray[np.bool_], n: int
) -> NDArray[np.intp]:
    """Return at most n items that distinguish several explanations of the votes, best first."""
    none = np.empty(0, np.intp)
    if not n or not getattr(getattr(model, "fit_", None), "has_several_explanations", False):
        return none
    factors = fit_factors(model.moments_)
    if factors is None or factors.rank < 2:
        return none
    return informative_items(factors.scores(votes.codes), is_labeled, n)


def _choose(
    model: Any, votes: Votes, is_taken: NDArray[np.bool_], n: int, rng: np.random.Generator
) -> tuple[NDArray[np.intp], list[float], NDArray[np.int64]]:
    """Choose at most n items that are not taken; those that are taken count as labeled.

    Returns
    -------
    positions, scores : the chosen items
    same : integer array of shape (n_items,)
        Number of items with the same votes as each item, among those that were compared.
    """
    most = max(n, min(_MOST_ITEMS, _MOST_CELLS // votes.n_sources))
    at = np.arange(votes.n_items)
    if votes.n_items > most:
        taken, others = np.flatnonzero(is_taken), rng.permutation(np.flatnonzero(~is_taken))
        at = np.sort(np.concatenate([taken[:most], others[:most]]))
    found = votes[at].distinct()
    kept = np.arange(len(found.counts))
    if len(kept) > _MOST_PATTERNS:
        share = found.counts / found.counts.sum()
        kept = np.sort(rng.choice(len(kept), _MOST_PATTERNS, replace=False, p=share))
    # The pattern of each item among those that are compared, -1 if it is not.
    number = np.full(len(found.counts), -1)
    number[kept] = np.arange(len(kept))
    pattern = number[found.inverse]
    patterns, is_free = found.votes[kept], ~is_taken[at]
    n_labeled, free = (
        np.bincount(pattern[each & (pattern >= 0)], minlength=len(kept)) for each in (~is_free, is_free)
    )
    labels = np.asarray(model.predict_proba(patterns), np.float64)
    cast = OneHot.of(patterns.codes, patterns.n_classes)
    choice = choose_patterns(labels, cast, found.counts[kept].astype(np.float64), n_labeled, free, n)
    # The items of each pattern in random order.
    shuffled = rng.permutation(np.flatnonzero(is_free))
    members = {k: iter(shuffled[pattern[shuffled] == k].tolist()) for k in set(choice.patterns.tolist())}
    items = [next(members[k]) for k in choice.patterns.tolist()]
    same = np.ones(votes.n_items, np.int64)
    same[at] = found.counts[found.inverse]
    return at[np.array(items, np.intp)], choice.gains.tolist(), same


def _describe(
    model: Any,
    votes: Votes,
    ids: list[Any] | None,
    at: NDArray[np.intp],
    scores: list[float | None],
    counts: list[int],
    *,
    n_settling: int,
) -> Suggestions:
    """Return suggestions with their labels and reasons."""
    if not len(at):
        return Suggestions(())
    items = read_items(model, votes[at])
    classes, labels, majority = votes.classes, items.labels.tolist(), items.majority.tolist()
    differs, tied = differs_from(items.posterior, items.shares), is_tied(items.shares)
    found = []
    for i, position in enumerate(at.tolist()):
        p = float(items.posterior[i, labels[i]])
        reasons = ["distinguishes explanations"] if i < n_settling else []
        reasons += ["drawn at random"] if scores[i] is None else []
        if differs[i]:
            reasons.append("majority vote differs")
        if p < _UNCERTAIN:
            reasons.append("uncertain")
        if counts[i] >= max(2, _FREQUENT * votes.n_items):
            reasons.append("frequent votes")
        found.append(
            Suggestion(
                position,
                None if ids is None else ids[position],
                classes[labels[i]],
                p,
                None if tied[i] else classes[majority[i]],
                counts[i],
                scores[i],
                ", ".join(reasons) or "informative about its sources",
            )
        )
    return Suggestions(tuple(found))


# ---------------------------------------------------------------------- choice of vote patterns


# Prior standard deviations of the coefficients of posterior, vote share and intercepts, and of those of
# votes. With 0.5 for the first, a similar number of labels is needed on the design datasets.
_CALIBRATION, _VOTES = 1.0, 0.3
# A label of an item that the model is certain of still tells something, because the model may be wrong.
_LEAST_INFORMATION = 0.02


class Choice(NamedTuple):
    """Chosen patterns in order, and the value of each relative to the first; shapes (n,)."""

    patterns: NDArray[np.intp]
    gains: Array


def choose_patterns(
    labels: Array, cast: OneHot, counts: Array, n_labeled: NDArray[np.intp], free: NDArray[np.intp], n: int
) -> Choice:
    """Choose up to n patterns one after the other, each given the ones before.

    Parameters
    ----------
    labels : array of shape (u, K)
        Posteriors of u distinct patterns by the present model.
    cast : OneHot
        Their votes.
    counts : array of shape (u,)
        How many items have each pattern.
    n_labeled, free : integer arrays of shape (u,)
        How many items of each pattern have gold labels, and how many can be chosen. A pattern is chosen again
        if that has a higher value than a pattern without labels.
    n : int

    Notes
    -----
    Time O(u^2) for each choice and for each existing label, memory O(u^2).
    """
    covariance, odds = _log_odds(labels, cast)
    p = 1 / (1 + np.exp(-odds))
    information = np.maximum(p * (1 - p), _LEAST_INFORMATION)
    _observe(covariance, np.flatnonzero(n_labeled), np.asarray(n_labeled * information))
    left, patterns, gains = free.copy(), [], []
    for _ in range(min(n, int(free.sum()))):
        values = _values(covariance, odds, counts, information)
        values[left <= 0] = -np.inf
        best = int(np.argmax(values))
        patterns.append(best)
        gains.append(max(float(values[best]), 0.0))
        left[best] -= 1
        _observe(covariance, np.array([best]), information)
    scale = max(gains, default=0.0) or 1.0
    return Choice(np.array(patterns, np.intp), np.array(gains) / scale)


def _log_odds(labels: Array, cast: OneHot) -> tuple[Array, Array]:
    """Return the prior covariance of the log odds of all patterns, shape (u, u), and their means."""
    u, n_classes = labels.shape
    at, order = np.arange(u), np.argsort(-labels, axis=1, kind="stable")
    best, second = order[:, 0], order[:, 1]
    counts = cast.class_sums(np.ones((cast.n_sources, n_classes)))
    odds, shares = (
        scores[at, best] - scores[at, second] for scores in (log_probabilities(labels), log_shares(counts))
    )
    covariance = _CALIBRATION**2 * (np.outer(odds, odds) + np.outer(shares, shares))
    for k in range(n_classes):
        sides = (best == k).astype(np.float64) - (second == k)
        rows = np.flatnonzero(sides)
        if not len(rows):
            continue
        votes = cast[rows].dense_votes(k)
        shared = np.asarray(votes @ votes.T)
        part = np.outer(sides[rows], sides[rows]) * (_CALIBRATION**2 + _VOTES**2 * shared)
        covariance[np.ix_(rows, rows)] += part
    return covariance, odds


def _observe(covariance: Array, at: NDArray[np.intp], information: Array) -> None:
    """Update the covariance, in place, for labels of the patterns ``at`` with the given information."""
    shared = covariance[at]
    own = shared[:, at] + np.diag(1 / information[at])
    covariance -= shared.T @ np.linalg.solve(own, shared)


def _values(covariance: Array, odds: Array, counts: Array, information: Array) -> Array:
    """Return the expected value of a gold label of each pattern, shape (u,).

    A label is wrong if the log odds, of mean z and variance v, have the other sign. The expected size of log
    odds of the wrong sign changes with v by phi(z / sqrt v) / (2 sqrt v).
    """
    # Rounding may leave a small negative variance.
    variance = np.maximum(covariance.diagonal(), 1e-12)
    doubt = counts * np.exp(-(odds**2) / (2 * variance)) / np.sqrt(variance)
    return np.asarray(doubt @ covariance**2 * information / (1 + information * variance))
