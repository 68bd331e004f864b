"""Candidate rules, computed from the current labels: words, pairs of words and thresholds.

A person accepts or rejects them. Precision is the mean probability of a class on the items that match and
have votes, so errors of the current sources bias this estimate.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.estimation.shares import wilson
from flyingsquid.studio.browsing import View
from flyingsquid.studio.columns import Codes, Items, as_text
from flyingsquid.studio.project import SourceEntry
from flyingsquid.studio.rules import match_key

_MOST = 30
_MOST_ITEMS, _LONGEST_TEXT = 10_000, 2_000
_MOST_TERMS = 50_000
# Candidates below these limits are rarely accepted (docs/quality/studio.md).
_FEWEST_MATCHES, _LEAST_PRECISION = 5, 0.6
_EXAMPLES = 3
_WORD = re.compile(r"(?u)\b\w[\w']+\b")


@dataclass(frozen=True)
class Suggestion:
    """A candidate rule."""

    source: dict[str, Any]
    precision: float  # estimated share of correct votes, with a 95% interval
    interval: tuple[float, float]
    # Items on which it would vote, and those of them that have no vote yet.
    coverage: int
    new_items: int
    # Identifiers of sources, and the share of the matches on which they vote.
    overlap: tuple[tuple[str, float], ...] = ()
    examples: tuple[str, ...] = field(default=())

    @property
    def id(self) -> str:
        """Identifier that is the same for the same rule."""
        text = f"{match_key(self.source)} {self.source['label']}"
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "id": self.id,
            "source": self.source,
            "precision": self.precision,
            "interval": list(self.interval),
            "coverage": self.coverage,
            "new_items": self.new_items,
            "overlap": [{"source": source, "share": share} for source, share in self.overlap],
            "examples": list(self.examples),
        }


@dataclass(frozen=True, eq=False)
class TermTable:
    """Words and pairs of words of some items; they do not depend on votes, so they are counted once."""

    rows: NDArray[np.intp]  # the items; shape (r,)
    names: tuple[str, ...]
    matrix: Any  # 1 where an item contains a term; shape (r, T)

    @classmethod
    def of(cls, items: Items, rows: NDArray[np.intp]) -> TermTable:
        """Count the terms of at most 10,000 of these items."""
        if len(rows) > _MOST_ITEMS:
            rows = rows[np.linspace(0, len(rows) - 1, _MOST_ITEMS).astype(np.intp)]
        if items.text is None:
            return cls(rows, (), None)
        from sklearn.feature_extraction.text import CountVectorizer  # noqa: PLC0415  # slow to import

        values = items.columns[items.text]
        counter = CountVectorizer(
            binary=True,
            ngram_range=(1, 2),
            min_df=_FEWEST_MATCHES,
            max_features=_MOST_TERMS,
            token_pattern=_WORD.pattern,
            dtype=np.float64,
        )
        try:
            matrix = counter.fit_transform(as_text(values[i])[:_LONGEST_TEXT] for i in rows)
        except ValueError:  # no word occurs often enough
            return cls(rows, (), None)
        return cls(rows, tuple(map(str, counter.get_feature_names_out())), matrix.tocsc())

    def matches(self, term: int) -> NDArray[np.bool_]:
        """Return which items contain a term."""
        found = np.zeros(len(self.rows), bool)
        found[self.matrix.indices[self.matrix.indptr[term] : self.matrix.indptr[term + 1]]] = True
        return found


def suggest_rules(
    items: Items, view: View, terms: TermTable, rejected: frozenset[str] = frozenset(), n: int = _MOST
) -> list[Suggestion]:
    """Return at most ``n`` candidate rules, the most useful first.

    The fit of ``view`` is on all items or on a sample that contains those of ``terms``. Suggestions with an
    identifier in ``rejected`` are left out.
    """
    fit, rows = view.fit, terms.rows
    if fit.proba is None:
        return []
    pool = _Pool(items, terms, fit.proba[fit.places(rows)].astype(np.float64), view.summary.covered[rows])
    known = {match_key(entry.source) for entry in view.entries}
    found: list[Suggestion] = []
    taken: list[NDArray[np.bool_]] = []
    votes = [column[rows] for column in view.columns]
    compared: set[tuple[str, int]] = set()
    for score, source, matches in pool.candidates():
        if score <= 0 or len(found) == n:
            break
        if match_key(source) in known or _repeats(matches, source["label"], votes, taken):
            continue
        if source["kind"] == "comparison":  # one threshold per column and class, the best
            if (source["column"], source["label"]) in compared:
                continue
            compared.add((source["column"], source["label"]))
        each = pool.assess(source, matches, votes, view.entries)
        if each.id not in rejected:
            found.append(each)
            taken.append(matches)
    return found


def _repeats(
    matches: NDArray[np.bool_], label: int, votes: Sequence[Codes], taken: Sequence[NDArray[np.bool_]]
) -> bool:
    """Return whether a source or an earlier candidate matches nearly the same items."""
    same = [column == label for column in votes]
    for other in (*same, *taken):
        both = np.count_nonzero(matches & other)
        if both > _SAME * np.count_nonzero(matches | other):
            return True
        if both > _INSIDE * np.count_nonzero(matches):  # a part of a rule that votes the same
            return True
    return False


# A candidate repeats another if this share of the items of both, or nearly all of its own, are the same.
_SAME, _INSIDE = 0.7, 0.95


class _Pool:
    """Items to look for candidates in, with the probabilities of their classes."""

    def __init__(
        self, items: Items, terms: TermTable, proba: NDArray[np.float64], covered: NDArray[np.bool_]
    ) -> None:
        self._items, self._terms, self._rows = items, terms, terms.rows
        self._proba, self._covered = proba, covered
        known = proba[covered]
        self._balance = known.mean(axis=0) if len(known) else np.full(proba.shape[1], 1 / proba.shape[1])

    def candidates(self) -> list[tuple[float, dict[str, Any], NDArray[np.bool_]]]:
        """Return (score, source, matches), best first."""
        found = [*self._words(), *self._thresholds()]
        return sorted(found, key=lambda each: -each[0])

    def _words(self) -> list[tuple[float, dict[str, Any], NDArray[np.bool_]]]:
        matrix = self._terms.matrix
        if matrix is None:
            return []
        n_covered = np.asarray(matrix.T @ self._covered.astype(np.float64))
        mass = np.asarray(matrix.T @ (self._proba * self._covered[:, None]))
        n_matches = np.asarray(matrix.sum(axis=0)).ravel()
        scores, labels = self._score(n_matches, n_covered, mass)
        best = np.argsort(-scores, kind="stable")[: 20 * _MOST]
        found = []
        for term in best.tolist():
            source = {
                "kind": "keywords",
                "words": [self._terms.names[term]],
                "label": int(labels[term]),
                "whole_words": True,
                "ignore_case": True,
            }
            found.append((float(scores[term]), source, self._terms.matches(term)))
        return found

    def _thresholds(self) -> list[tuple[float, dict[str, Any], NDArray[np.bool_]]]:
        found = []
        for name, kind in self._items.kinds.items():
            if kind != "number" or name == self._items.id:
                continue
            numbers = self._items.numbers(name)[self._rows]
            present = numbers[~np.isnan(numbers)]
            if not len(present):
                continue
            for value in np.unique(np.quantile(present, np.linspace(0.05, 0.95, 19), method="nearest")):
                for operator, matches in ((">=", numbers >= value), ("<=", numbers <= value)):
                    weights = (matches & self._covered).astype(np.float64)
                    scores, labels = self._score(
                        np.array([matches.sum()], np.float64),
                        np.array([weights.sum()]),
                        (weights @ self._proba)[None],
                    )
                    source = {
                        "kind": "comparison",
                        "column": name,
                        "operator": operator,
                        "value": float(value),
                        "label": int(labels[0]),
                    }
                    found.append((float(scores[0]), source, matches))
        return found

    def _score(
        self, n_matches: NDArray[Any], n_covered: NDArray[Any], mass: NDArray[Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
        """Return how useful candidates are, and their classes; 0 for those that are not suggested.

        A candidate is useful if its class is clearly more frequent on its items than elsewhere, and if it
        votes on many items without votes; items with votes count a quarter.
        """
        n = np.maximum(n_covered, 1)
        share = mass / n[:, None]
        balance = self._balance[None]
        lift = (share - balance) / (1 - np.minimum(balance, 0.99))
        labels = lift.argmax(axis=1).astype(np.intp)
        precision = np.take_along_axis(share, labels[:, None], axis=1)[:, 0]
        low = np.asarray(wilson(precision, n)[0])
        above = np.maximum(low - np.maximum(self._balance[labels], 0.5), 0) ** 2
        usable = (n_covered >= _FEWEST_MATCHES) & (precision >= _LEAST_PRECISION)
        votes = np.sqrt((n_matches - n_covered) + 0.25 * n_covered)
        return np.where(usable, above * votes, 0), labels

    def assess(
        self,
        source: dict[str, Any],
        matches: NDArray[np.bool_],
        votes: Sequence[Codes],
        entries: Sequence[SourceEntry],
    ) -> Suggestion:
        """Describe a candidate."""
        scale = len(self._items) / len(self._rows)
        with_votes = matches & self._covered
        n = int(np.count_nonzero(with_votes))
        precision = float(self._proba[with_votes, source["label"]].mean()) if n else 0.0
        low, high = (float(each) for each in wilson(np.array(precision), np.array(max(n, 1))))
        total = int(np.count_nonzero(matches))
        overlap = [
            (entry.id, float(np.count_nonzero(matches & (column >= 0)) / max(total, 1)))
            for entry, column in zip(entries, votes, strict=True)
        ]
        overlap = sorted((each for each in overlap if each[1] > 0), key=lambda each: -each[1])[:5]
        shown = self._rows[np.flatnonzero(matches)[:_EXAMPLES]]
        text = self._items.text
        examples = [] if text is None else [as_text(self._items.columns[text][i])[:200] for i in shown]
        return Suggestion(
            source,
            precision,
            (low, high),
            round(total * scale),
            round((total - n) * scale),
            tuple(overlap),
            tuple(examples),
        )
