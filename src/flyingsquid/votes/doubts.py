"""Tests of whether votes were misread: another convention or orientation fits them better.

Votes are read by a convention (-1 means no vote, classes are 0, 1, ...). Under the right one, votes on an
item agree with each other, and "no vote" carries little information. Each test below compares how often two
sources give a pair of values with how often they would if they were independent, for two conventions. The
standard error is that of the jackknife over ten groups of items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import Hint
from flyingsquid.votes.codes import ABSTAIN, Codes, Label, is_sparse
from flyingsquid.votes.conventions import find_missing_number, find_similar_labels

Array = NDArray[np.float64]

# Items that are looked at, and the fewest items and sources that are evidence: on random parts of the design
# half, 5% of 50 items raise a false alarm, and 0.5% of 100.
_MOST_ITEMS, _MIN_ITEMS, _MIN_SOURCES = 20_000, 100, 3
_GROUPS = 10
# More classes are not tested for a class 0 that means "no vote".
_MOST_CLASSES = 50
# The other convention must have so many times the association of this one, plus this much, by so many
# standard errors. False alarms are measured in docs/design/0013-public-api.md and tests/votes/test_doubts.py.
_SIGNED = (1.2, 0.1, 2.0)
_ZERO = (10.0, 0.2, 2.0)
# If all votes are for one class, the others may be -1 unless most cells are: then they abstain.
_MOST_MISSING = 0.9
# With fewer class 0 votes, their association is not estimated well.
_MIN_ZEROS = 0.05
# By how much more two votes of a column must agree than two votes of a row, and how many columns it takes.
_TRANSPOSED, _MIN_COLUMNS = 0.1, 20


@dataclass(frozen=True, slots=True)
class Doubt:
    """Evidence that votes were misread.

    Attributes
    ----------
    summary : str
        The assumption, and the convention that the votes fit better.
    call : str
        The call that reads the votes by that convention, as the end of the sentence "Use ...".
    hint : Hint or None
        The option of a file reader that does the same.
    """

    summary: str
    call: str
    hint: Hint | None = None

    def __str__(self) -> str:
        return f"{self.summary} Use {self.call}."


def find_doubts(codes: Codes, classes: tuple[Label, ...], *, standard: bool = True) -> list[Doubt]:
    """Return evidence that votes were misread.

    Parameters
    ----------
    codes : codes of shape (n, m)
    classes : tuple of K labels
    standard : bool
        Whether -1 was read as "no vote" because nothing else was declared.
    """
    are_numbers = all(type(label) is int for label in classes)
    doubts = [] if are_numbers else [*_doubts_about_strings(classes)]
    if is_sparse(codes) or len(codes) < 2:
        return doubts
    sample = np.asarray(codes)
    if len(sample) > _MOST_ITEMS:
        sample = sample[np.linspace(0, len(sample) - 1, _MOST_ITEMS).astype(np.intp)]
    if standard and len(sample) >= _MIN_ITEMS and are_numbers and classes[0] in (0, 1):
        doubts += _doubts_about_numbers(sample, classes)
    if sample.shape[1] > len(sample) and _is_transposed(sample):
        n, m = codes.shape
        doubts.append(
            Doubt(
                f"The votes have {format_count(m, 'column')} and {format_count(n, 'row')}, and agree within "
                "columns rather than within rows, so the columns are probably items.",
                "the transposed matrix, one row per item and one column per source",
            )
        )
    return doubts


def _doubts_about_strings(classes: tuple[Label, ...]) -> Iterator[Doubt]:
    similar = find_similar_labels(classes)
    if similar is not None:
        yield Doubt(
            f"The classes {format_value(similar[0])} and {format_value(similar[1])} differ only in case "
            "or spaces and are read as two classes.",
            "normalize=True in Votes.from_classes, Votes.from_frame or Votes.from_long to join them",
            Hint("normalize", "to join them", True),
        )


def _doubts_about_numbers(codes: NDArray[np.integer], classes: tuple[Label, ...]) -> Iterator[Doubt]:
    missing = int(np.count_nonzero(codes == ABSTAIN))
    if classes == (0, 1):
        found = _signed_doubt(codes, missing)
        if found is not None:
            yield found
        return
    present = [int(classes[k]) for k in np.unique(codes) if k >= 0]
    unused = find_missing_number(present)
    if unused is not None:
        yield Doubt(
            f"No vote is {present[-2] + 1} to {unused - 1}, so {unused} may mean no vote.",
            f"Votes.from_classes(votes, abstain={unused}) if it does",
            Hint("abstain", "if it means no vote", unused),
        )
    if not missing and classes[0] == 0 and _zero_is_missing(codes, len(classes)):
        yield Doubt(
            "The value 0 is read as a class, but agrees with itself no more often than by chance, while the "
            "other classes do.",
            "Votes.from_classes(votes, abstain=0) if 0 means no vote",
            Hint("abstain", "if 0 means no vote", 0),
        )


def _signed_doubt(codes: NDArray[np.integer], missing: int) -> Doubt | None:
    """Return a doubt if -1 and 1 behave like two classes, and 0 like no vote."""
    ones, zeros = np.count_nonzero(codes == 1), np.count_nonzero(codes == 0)
    hint = Hint("signed", "to read -1 and 1 as the classes and 0 as 'no vote'", True)
    call = "Votes.from_signed(votes) if -1 and 1 are the classes and 0 means no vote"
    if not zeros and ones and 0 < missing <= _MOST_MISSING * codes.size:
        return Doubt("All votes are 1, because -1 is read as no vote.", call, hint)
    ratio, offset, z = _SIGNED

    def evidence(counts: Array, expected: Array) -> float:
        lift = _log_ratio(counts, expected)
        agreement = np.diag(lift)
        odds = agreement[:, None] + agreement - 2 * lift  # log odds ratio of each pair of values
        return float(odds[0, 2] - ratio * max(odds[1, 2], odds[0, 1], 0.0) - offset)

    if zeros and ones and missing and _exceeds(codes, np.array([-1, 0, 1]), evidence, z):
        summary = "The value -1 is read as no vote, but -1 and 1 exclude each other more than 0 and 1 do."
        return Doubt(summary, call, hint)
    return None


def _zero_is_missing(codes: NDArray[np.integer], n_classes: int) -> bool:
    """Return whether class 0 behaves like no vote among ``n_classes`` classes."""
    if n_classes > _MOST_CLASSES or np.mean(codes == 0) < _MIN_ZEROS:
        return False
    ratio, offset, z = _ZERO

    def evidence(counts: Array, expected: Array) -> float:
        zeros, mixed, same, different = _log_ratio(_by_agreement(counts), _by_agreement(expected))
        return float((same - different) - ratio * max(zeros - mixed, 0.0) - offset)

    return _exceeds(codes, np.arange(n_classes), evidence, z)


def _by_agreement(pairs: Array) -> Array:
    """Sum pairs of classes: two zeros, zero and another class, one other class twice, two other classes."""
    same = np.trace(pairs[1:, 1:])
    return np.array([pairs[0, 0], pairs[0, 1:].sum(), same, pairs[1:, 1:].sum() - same])


def _log_ratio(counts: Array, expected: Array) -> Array:
    # Half a pair more, so that pairs that do not occur have a logarithm.
    return np.asarray(np.log((counts + 0.5) / (expected + 0.5)))


def _exceeds(
    codes: NDArray[np.integer],
    values: NDArray[np.integer],
    evidence: Callable[[Array, Array], float],
    z: float,
) -> bool:
    """Return whether evidence from pairs of values exceeds 0 by ``z`` standard errors.

    ``evidence`` gets the number of pairs of different sources with each pair of values, and the number that
    independent sources would have, both symmetric.
    """
    n, m = codes.shape
    if m < _MIN_SOURCES:
        return False
    by_item, by_source = np.empty((len(values), n)), np.empty((len(values), m))
    for at, value in enumerate(values):
        marked = (codes == value).astype(np.float32)  # products are faster than counts along an axis
        by_item[at] = marked @ np.ones(m, np.float32)
        by_source[at] = np.ones(n, np.float32) @ marked

    def estimate(by_source: Array, pairs: Array, n_items: int) -> float:
        totals = by_source.sum(axis=1)
        expected = (np.outer(totals, totals) - by_source @ by_source.T) / n_items
        return evidence(pairs - np.diag(totals), expected)  # without pairs of a source with itself

    pairs = by_item @ by_item.T
    full = estimate(by_source, pairs, n)
    if full <= 0:
        return False
    without = np.empty(_GROUPS)
    for group in range(_GROUPS):
        left_out, part = by_item[:, group::_GROUPS], codes[group::_GROUPS]
        of_part = np.stack([np.count_nonzero(part == value, axis=0) for value in values])
        without[group] = estimate(by_source - of_part, pairs - left_out @ left_out.T, n - len(part))
    return full > z * float(np.sqrt((_GROUPS - 1) * np.var(without)))


def _is_transposed(codes: NDArray[np.integer]) -> bool:
    """Return whether columns rather than rows look like items."""
    n, m = codes.shape
    if n < 3 or m < _MIN_COLUMNS:
        return False
    return _agreement(codes.T) > _agreement(codes) + _TRANSPOSED


def _agreement(codes: NDArray[np.integer]) -> float:
    """Return the share of pairs of votes in a row that agree."""
    agree = 0.0
    votes = np.count_nonzero(codes >= 0, axis=1).astype(np.float64)
    pairs = float((votes * (votes - 1)).sum())
    for k in range(int(codes.max()) + 1):
        count = np.count_nonzero(codes == k, axis=1).astype(np.float64)
        agree += float((count * (count - 1)).sum())
    return agree / max(pairs, 1.0)
