"""Conventions of user data: column names, "no vote" and class numbers; tests of whether votes follow them.

The rules are written here once. ``Votes.from_classes``, ``Votes.from_frame`` and ``fit`` apply them to values
in memory, :mod:`flyingsquid.files` and the command line to files.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import format_count, format_value
from flyingsquid.exceptions import Hint
from flyingsquid.votes.codes import ABSTAIN, Codes, Label

# ---------------------------------------------------------------------- columns of tables

# Names of columns without case and separators, as normalize_name returns them.
# Names that pandas gives to an index without a name in csv and parquet files.
_INDEX_NAMES = frozenset({"unnamed:0", "indexlevel0", ""})
ITEM_NAMES = _INDEX_NAMES | {"id", "item", "itemid", "task", "taskid", "index", "exampleid", "uid", "rowid"}
SOURCE_NAMES = frozenset({
    "source", "sourceid", "worker", "workerid", "annotator", "annotatorid", "rater", "judge", "user",
    "userid", "performer", "labeler",
})  # fmt: skip
LABEL_NAMES = frozenset({"label", "vote", "answer", "response", "annotation", "class", "verdict"})
GOLD_NAMES = frozenset({
    "gold", "goldlabel", "goldlabels", "goldclass", "goldstandard", "label", "labels", "class", "y", "truth",
    "truelabel", "truelabels", "trueclass", "groundtruth", "target", "ytrue", "ygold",
})  # fmt: skip

# A column with more distinct values than this, on most of its rows, is free text rather than votes.
MOST_DISTINCT = 100
# With fewer rows, values that differ from each other and from all votes are no evidence of an identifier.
_MIN_ROWS = 3
# A column of votes shares its values with other sources. One with this many distinct values, of which this
# large a share occurs nowhere else, holds something else: an age, a date, a text.
_MIN_DISTINCT, _OWN_SHARE = 10, 0.8
# A source that never abstains on this many rows, and shares none of its values with sources that share
# theirs, agrees with nobody: it holds something else, such as a language or a split. One value of its own may
# be a default class.
_MIN_COMPLETE, _MIN_OWN = 20, 2


def normalize_name(name: object) -> str:
    """Return the name of a column in lower case without spaces, "_", "-" and ".".

    >>> normalize_name("Gold Label"), normalize_name("task_id")
    ('goldlabel', 'taskid')
    """
    text = str(name).strip().lower()
    return re.sub(r"[\s_.-]", "", text) or text


def is_item_name(name: object) -> bool:
    """Return whether a column of this name usually identifies items."""
    return normalize_name(name) in ITEM_NAMES


def is_row_number(name: str, names: Sequence[str], item: str | bool | None) -> bool:
    """Return whether a column is an unnamed index, as pandas writes it, next to the identifiers ``item``.

    If ``item`` is False, no column identifies the items.

    >>> is_row_number("Unnamed: 0", ["Unnamed: 0", "id", "links"], "id")
    True
    """
    is_first = name == names[0]
    return (
        item is not None
        and name != item
        and normalize_name(name) in _INDEX_NAMES
        and (is_first or bool(name.strip()))
    )


def is_gold_name(name: object) -> bool:
    """Return whether a column of this name usually holds gold labels."""
    return normalize_name(name) in GOLD_NAMES


def find_long_columns(
    names: Sequence[str], item: str | None = None, source: str | None = None
) -> tuple[str, str, str] | None:
    """Return the columns of items, sources and labels of a table with one row per vote, by their names.

    >>> find_long_columns(["task", "worker", "label"]), find_long_columns(["id", "links", "short"])
    (('task', 'worker', 'label'), None)
    """
    found = find_roles(names, (ITEM_NAMES, SOURCE_NAMES, LABEL_NAMES), (None, source))
    if any(name is None for name in found):
        return None
    return str(found[0] if item is None else item), str(found[1]), str(found[2])


def find_roles(
    names: Sequence[str], usual: Sequence[frozenset[str]], given: Sequence[str | None] = ()
) -> list[str | None]:
    """Return a different column for each role: the given one, or the first with a usual name, or None."""
    found: list[str | None] = []
    for known, own in zip_longest(usual, given):
        free = (n for n in names if normalize_name(n) in known - {""} and n not in found)
        found.append(next(free, None) if own is None else own)
    return found


def find_item_column(
    names: Sequence[str],
    candidates: Collection[str],
    first: Sequence[Sequence[Any]] | None,
    sources: Collection[str] = (),
) -> tuple[str | None, Literal["name", "values"]]:
    """Return the column of identifiers, or None, and how it was recognized.

    Parameters
    ----------
    names : the columns of a table
    candidates : columns that may identify items or hold votes
    first : the first values of each column, or None
    sources : columns that are known to hold votes
    """
    candidates = set(candidates)  # there may be a hundred thousand
    free = candidates - set(sources)
    index: str | None = None  # used only if no other column identifies the items
    for name in names:
        usual = normalize_name(name)
        if name in free and usual in ITEM_NAMES and (name.strip() or name == names[0]):
            if usual not in _INDEX_NAMES:
                return name, "name"
            index = name if index is None else index
    if index is not None:
        return index, "name"
    if first is None or len(names) < 2 or names[0] not in free or len(first[0]) < _MIN_ROWS:
        return None, "values"
    values = set(first[0])
    others = {
        value
        for name, column in zip(names[1:], first[1:], strict=True)
        if name in candidates
        for value in column
    }
    distinct = len(values) == len(first[0])
    return (names[0] if distinct and not (others | {None, ""}) & values else None), "values"


def is_free_text(n_distinct: int, n_rows: int) -> bool:
    """Return whether a column has too many values to be votes."""
    return n_distinct > MOST_DISTINCT and n_distinct > n_rows / 2


def format_distinct(n_distinct: int, n_rows: int) -> str:
    """Return the reason why a column with ``n_distinct`` values is not a source."""
    return f"has at least {n_distinct:,} different values on {format_count(n_rows, 'row')}"


def find_other_columns(values: Sequence[Collection[Any]], n_rows: int) -> dict[int, str]:
    """Return the columns that do not hold votes: the position of each, and the reason.

    Parameters
    ----------
    values : the distinct values of each column, including those that mean "no vote"
    n_rows : number of rows

    Examples
    --------
    >>> votes = {"spam", "ham", None}
    >>> find_other_columns([votes, votes, {f"text {i}" for i in range(20)}], 20)
    {2: 'has at least 20 different values on 20 rows'}
    >>> find_other_columns([votes, votes, {"train", "test"}], 20)
    {2: 'has values on every row that occur in no other column'}
    """
    distinct = [{value for value in column if not is_missing_text(str(value))} for column in values]
    columns_with = Counter(value for own in distinct for value in own)
    is_shared = any(count > 1 for count in columns_with.values())
    found = {}
    for j, own in enumerate(distinct):
        unshared = sum(columns_with[value] == 1 for value in own)
        is_complete = n_rows >= _MIN_COMPLETE and len(own) == len(set(values[j]))
        many = len(values) > 1 and len(own) >= _MIN_DISTINCT and unshared > _OWN_SHARE * len(own)
        if many or is_free_text(len(own), n_rows):
            found[j] = format_distinct(len(own), n_rows)
        elif is_shared and is_complete and unshared == len(own) >= _MIN_OWN:
            found[j] = "has values on every row that occur in no other column"
    return found


def find_layout(names: Sequence[str] | None) -> str | None:
    """Return the pattern of names that look like replicates of judges, or None.

    >>> find_layout(["gpt|given", "gpt|swapped", "llama|given", "llama|swapped"]), find_layout(["a", "b"])
    ('{judge}|{order}', None)
    """
    every = "".join(names or ())
    for separator, field in (("|", "order"), ("@", "repeat")):
        if separator not in every:
            continue
        split = [name.rpartition(separator) for name in names or ()]
        judges, kinds = {judge for judge, _, _ in split}, {kind for _, _, kind in split}
        if len(kinds) > 1 and "" not in judges | kinds and len(split) == len(judges) * len(kinds):
            return f"{{judge}}{separator}{{{field}}}"
    return None


# ---------------------------------------------------------------------- words

MISSING_TEXTS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "abstain", "abstained"})
"""Strings that mean "no vote", in upper or lower case, unless they are declared to be classes."""


def is_missing_text(text: str) -> bool:
    """Return whether a string usually means "no vote"; ``"-1"`` does too."""
    folded = text.strip().lower()
    return folded in MISSING_TEXTS or folded in ("-1", "-1.0")


# Answers that usually mean "no vote" next to other strings. Unlike MISSING_TEXTS they may also be classes, so
# they are read as such, with a warning.
_UNDECIDED_TEXTS = frozenset({"unknown", "unsure", "undecided", "skip", "skipped", "refused", "refusal"})
# How language models refuse to answer, in lower case with straight apostrophes. All of them are about "I".
REFUSAL_PATTERNS = (
    r"\bsorry,? (?:but )?i(?:'m| am)? (?:can't|cannot|can not|won't|will not|unable|not able|must decline)",
    r"\bi (?:can't|cannot|can not|won't|will not) (?:assist|help|comply|provide|answer|respond|judge|rate"
    r"|assess|compare|rank|grade|evaluate|classify|label|discuss|engage|fulfill|continue|do th|participate"
    r"|make (?:a|th))",
    r"\bi(?:'m| am) (?:unable|not able|not allowed|not permitted|not comfortable) ",
    r"\bi (?:must |have to |respectfully )*(?:decline|refuse)\b",
    r"\bas an ai(?: language)?(?: model| assistant)?,? i\b",
    r"\bagainst my (?:guidelines|policy|policies|programming)\b",
)
_REFUSAL = re.compile("|".join(REFUSAL_PATTERNS))
_SYMBOLS = re.compile(r"[ -/:-@\[-`{-~]+")  # ASCII without letters and digits


def find_undecided_label(labels: Sequence[Any]) -> str | None:
    """Return a string label that probably means "no vote" next to the others, or None.

    >>> find_undecided_label(["?", "ham", "spam"]), find_undecided_label(["+", "-"])
    ('?', None)
    >>> find_undecided_label(["ham", "spam", "I'm sorry, I can't judge this."])
    "I'm sorry, I can't judge this."
    """
    texts = [*map(str, labels)]
    symbols = [*filter(_SYMBOLS.fullmatch, texts)]
    for text in texts:
        # Several symbols are classes, such as + and -.
        is_only_symbol = len(symbols) == 1 and text in symbols
        refuses = _REFUSAL.search(text[:200].lower().replace("’", "'"))
        if text.lower() in _UNDECIDED_TEXTS or is_only_symbol or refuses:
            return text
    return None


def find_similar_labels(labels: Iterable[Any]) -> tuple[str, str] | None:
    """Return two string labels that differ only in case, spaces or Unicode form, or None.

    >>> find_similar_labels(["ham", "spam", "Spam "])
    ('Spam ', 'spam')
    """
    by_fold: dict[str, list[str]] = {}
    for label in sorted(x for x in labels if isinstance(x, str)):
        by_fold.setdefault(normalize_label(label), []).append(label)
    one = next((texts for texts in by_fold.values() if len(texts) > 1), None)
    return None if one is None else (one[0], one[1])


def normalize_label(label: Any) -> Any:
    """Return a string label without surrounding spaces, in lower case and Unicode form NFC; others unchanged.

    >>> normalize_label(" Not  Spam "), normalize_label("cafe\u0301"), normalize_label(3)
    ('not spam', 'café', 3)
    """
    return unicodedata.normalize("NFC", " ".join(label.split()).lower()) if isinstance(label, str) else label


# ---------------------------------------------------------------------- numbers

# Numbers up to this one may be class numbers even if most of them do not occur. Beyond, this share must.
SMALL_NUMBER, _OCCURRING = 19, 0.2
# A number beyond this many that do not occur is probably a code for "no vote", such as 9 after 1 to 5.
_GAP = 3


def infer_integer_classes(found: Sequence[int]) -> Sequence[int] | None:
    """Return the classes of votes that are integers >= 0; None if they cannot be class numbers.

    Parameters
    ----------
    found : the distinct votes, increasing

    Examples
    --------
    >>> infer_integer_classes([0, 2]), infer_integer_classes([1, 3, 5]), infer_integer_classes([30, 70])
    (range(0, 3), range(1, 6), [30, 70])
    >>> infer_integer_classes([0, 1000]) is None
    True
    """
    if not found:
        return range(2)
    lowest, highest = found[0], found[-1]
    if lowest > 1 and len(found) > 1:
        return list(found)
    if highest > SMALL_NUMBER and len(found) <= _OCCURRING * (highest + 1):
        return None
    return range(1 if lowest == 1 and highest > 1 else 0, max(2, highest + 1))


def find_missing_number(found: Sequence[int]) -> int | None:
    """Return the highest of the distinct votes if it is probably a code for "no vote", otherwise None.

    >>> find_missing_number([1, 2, 3, 4, 5, 9]), find_missing_number([0, 1, 3])
    (9, None)
    """
    return found[-1] if len(found) > 2 and found[-1] > found[-2] + _GAP else None


# ---------------------------------------------------------------------- tests of the convention

# Under the right convention, votes on an item agree with each other, and "no vote" carries little
# information. Each test below compares how often two sources give a pair of values with how often they would
# if they were independent, for two conventions. The standard error is that of the jackknife over ten groups.

Array = NDArray[np.float64]

# Items that are looked at, and the fewest items and sources that are evidence: on random parts of the design
# half, 5% of 50 items raise a false alarm, and 0.5% of 100.
_MOST_ITEMS, _MIN_ITEMS, _MIN_SOURCES = 20_000, 100, 3
_GROUPS = 10
# More classes are not tested for a class 0 that means "no vote".
_MOST_CLASSES = 50
# The other convention must have this many times the association of this one, plus this much, by this many
# standard errors. tests/votes/test_conventions.py counts false alarms; docs/design/0013-public-api.md lists
# them.
_SIGNED = (1.2, 0.1, 2.0)
_ZERO = (10.0, 0.2, 2.0)
# If all votes are for one class, the others may be -1 unless most cells are: then they abstain.
_MOST_MISSING = 0.9
# With fewer class 0 votes, their association is not estimated well.
_MIN_ZEROS = 0.05
# By how much more two votes of a column must agree than two votes of a row, and how many columns it takes.
_TRANSPOSED, _MIN_COLUMNS = 0.1, 20
# Integers are probably scores if at least this many occur, two votes on an item differ at least this often,
# and those that differ have at least this mean correlation: 0.21 and 0.70 on the panels of
# docs/quality/scores.md. Numbers of classes are correlated only if similar numbers are confused, and then
# votes mostly agree.
_MIN_SCORES, _SCORES_DIFFER, _SCORE_CORRELATION = 10, 0.5, 0.15
# Pairs of sources that are compared; the fewest votes that differ of a pair, and of all pairs.
_SCORE_PAIRS, _MIN_PAIR, _MIN_DIFFERENT = 100, 10, 200
# Added to counts of pairs, so that pairs that do not occur have a logarithm.
_PSEUDO_COUNT = 0.5


@dataclass(frozen=True, slots=True)
class Misreading:
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


def find_misreadings(codes: Codes, classes: tuple[Label, ...], *, standard: bool = True) -> list[Misreading]:
    """Return evidence that votes were misread.

    Parameters
    ----------
    codes : codes of shape (n, m)
    classes : tuple of K labels
    standard : bool
        Whether -1 was read as "no vote" because nothing else was declared.
    """
    are_numbers = all(type(label) is int for label in classes)
    found = [] if are_numbers else [*_misread_strings(classes)]
    if not isinstance(codes, np.ndarray) or len(codes) < 2:  # sparse, or too few to compare
        return found
    sample = np.ascontiguousarray(codes[:: -(-len(codes) // _MOST_ITEMS)])
    if standard and len(sample) >= _MIN_ITEMS and are_numbers and classes[0] in (0, 1):
        found += _misread_signs(sample) if classes == (0, 1) else _misread_numbers(sample, classes)
    if are_numbers and len(classes) >= _MIN_SCORES and _are_scores(sample):
        found.append(
            Misreading(
                "The numbers are read as unrelated classes, but votes that differ are close to each other, "
                "so they are probably scores.",
                "ScoreModel or `flyingsquid score` if they are, or declare the classes",
            )
        )
    alone = _find_constant_class(sample) if len(classes) > 2 and len(sample) >= _MIN_COMPLETE else None
    if alone is not None:
        found.append(
            Misreading(
                f"One source votes {format_value(classes[alone])} on every item, and no other source ever "
                "does, so its column probably contains something else.",
                "the other columns only",
                Hint("sources", "to choose the vote columns"),
            )
        )
    if sample.shape[1] > len(sample) and _is_transposed(sample):
        n, m = codes.shape
        found.append(
            Misreading(
                f"The votes have {format_count(m, 'column')} and {format_count(n, 'row')}, and agree within "
                "columns rather than within rows, so the columns are probably items.",
                "the transposed matrix, one row per item and one column per source",
            )
        )
    return found


def _misread_strings(classes: tuple[Label, ...]) -> Iterator[Misreading]:
    similar = find_similar_labels(classes)
    if similar is not None:
        yield Misreading(
            f"The classes {format_value(similar[0])} and {format_value(similar[1])} differ only in case, "
            "spaces or Unicode form and are read as two classes.",
            "normalize=True in Votes.from_classes, Votes.from_frame or Votes.from_long to join them",
            Hint("normalize", "to join them", True),
        )
    undecided = find_undecided_label(classes)
    if undecided is not None:
        value = format_value(undecided)
        yield Misreading(
            f"The value {value} is read as a class, but usually means no vote.",
            f"Votes.from_classes(votes, abstain={value}) if it does, or `classes` to declare it",
            Hint("abstain", "if it means no vote", undecided),
        )


def _misread_numbers(codes: NDArray[np.integer], classes: tuple[Label, ...]) -> Iterator[Misreading]:
    present = [int(classes[k]) for k in np.unique(codes) if k >= 0]
    unused = find_missing_number(present)
    if unused is not None:
        yield Misreading(
            f"No vote is {present[-2] + 1} to {unused - 1}, so {unused} may mean no vote.",
            f"Votes.from_classes(votes, abstain={unused}) if it does",
            Hint("abstain", "if it means no vote", unused),
        )
    if classes[0] == 0 and not (codes == ABSTAIN).any() and _zero_is_missing(codes, len(classes)):
        yield Misreading(
            "The value 0 is read as a class, but agrees with itself no more often than by chance, while the "
            "other classes do.",
            "Votes.from_classes(votes, abstain=0) if 0 means no vote",
            Hint("abstain", "if 0 means no vote", 0),
        )


def _misread_signs(codes: NDArray[np.integer]) -> list[Misreading]:
    """Return evidence if -1 and 1 behave like two classes, and 0 like no vote."""
    values = (ABSTAIN, 0, 1)
    missing, zeros, ones = (np.count_nonzero(codes == value) for value in values)
    if not missing:
        return []
    hint = Hint("signed", "to read -1 and 1 as the classes and 0 as 'no vote'", True)
    call = "Votes.from_signed(votes) if -1 and 1 are the classes and 0 means no vote"
    if not zeros and ones and missing <= _MOST_MISSING * codes.size:
        return [Misreading("All votes are 1, because -1 is read as no vote.", call, hint)]
    ratio, offset, z = _SIGNED

    def evidence(counts: Array, expected: Array) -> float:
        lift = np.log((counts + _PSEUDO_COUNT) / (expected + _PSEUDO_COUNT))
        agreement = np.diag(lift)
        odds = agreement[:, None] + agreement - 2 * lift  # log odds ratio of each pair of values
        return float(odds[0, 2] - ratio * max(odds[1, 2], odds[0, 1], 0.0) - offset)

    if zeros and ones and _exceeds(codes, values, evidence, z):
        summary = "The value -1 is read as no vote, but -1 and 1 exclude each other more than 0 and 1 do."
        return [Misreading(summary, call, hint)]
    return []


def _zero_is_missing(codes: NDArray[np.integer], n_classes: int) -> bool:
    """Return whether class 0 behaves like no vote among ``n_classes`` classes."""
    if n_classes > _MOST_CLASSES or np.mean(codes == 0) < _MIN_ZEROS:
        return False
    ratio, offset, z = _ZERO

    def evidence(counts: Array, expected: Array) -> float:
        seen, by_chance = (_by_agreement(pairs) + _PSEUDO_COUNT for pairs in (counts, expected))
        zeros, mixed, same, different = np.log(seen / by_chance)
        return float((same - different) - ratio * max(zeros - mixed, 0.0) - offset)

    return _exceeds(codes, range(n_classes), evidence, z)


def _by_agreement(pairs: Array) -> Array:
    """Sum pairs of classes: two zeros, zero and another class, one other class twice, two other classes."""
    same = np.trace(pairs[1:, 1:])
    return np.array([pairs[0, 0], pairs[0, 1:].sum(), same, pairs[1:, 1:].sum() - same])


def _exceeds(
    codes: NDArray[np.integer], values: Sequence[int], evidence: Callable[[Array, Array], float], z: float
) -> bool:
    """Return whether evidence from pairs of values exceeds 0 by ``z`` standard errors.

    ``evidence`` gets the number of pairs of different sources with each pair of values, and the number that
    independent sources would have, both symmetric.
    """
    n, m = codes.shape
    if m < _MIN_SOURCES:
        return False

    def estimate(pairs: Array, by_source: Array, n_items: int) -> float:
        totals = by_source.sum(axis=1)
        expected = (np.outer(totals, totals) - by_source @ by_source.T) / n_items
        return evidence(pairs - np.diag(totals), expected)  # without pairs of a source with itself

    pairs, by_source = _count_values(codes, values)
    full = estimate(pairs, by_source, n)
    if full <= 0:  # as for most votes
        return False
    without = np.empty(_GROUPS)
    for group in range(_GROUPS):
        left_out = codes[group::_GROUPS]
        own_pairs, own_by_source = _count_values(left_out, values)
        without[group] = estimate(pairs - own_pairs, by_source - own_by_source, n - len(left_out))
    return full > z * float(np.sqrt((_GROUPS - 1) * np.var(without)))


def _count_values(codes: NDArray[np.integer], values: Sequence[int]) -> tuple[Array, Array]:
    """Count pairs of each two of v values on one item, shape (v, v), and values of each source, (v, m).

    Pairs include those of a source with itself.
    """
    n, m = codes.shape
    by_item, by_source = np.empty((len(values), n)), np.empty((len(values), m))
    ones = np.ones(max(n, m), np.float32)
    for at, value in enumerate(values):
        marked = (codes == value).astype(np.float32)
        by_item[at], by_source[at] = marked @ ones[:m], ones[:n] @ marked  # faster than counts along an axis
    return by_item @ by_item.T, by_source


def _are_scores(codes: NDArray[np.integer]) -> bool:
    """Return whether many integers behave like scores: they rarely agree, but are close to each other."""
    n, m = codes.shape
    if n < _MIN_ITEMS or m < 2 or len(np.unique(codes[codes >= 0])) < _MIN_SCORES:
        return False
    first, second = np.triu_indices(m, 1)
    chosen = np.linspace(0, len(first) - 1, min(_SCORE_PAIRS, len(first))).astype(np.intp)
    n_differ = n_pairs = 0
    correlations, weights = [], []
    for i, j in zip(first[chosen], second[chosen], strict=True):
        voted = (codes[:, i] >= 0) & (codes[:, j] >= 0)
        a, b = codes[voted, i], codes[voted, j]
        differ = a != b
        n_pairs, n_differ = n_pairs + len(a), n_differ + int(differ.sum())
        a, b = a[differ], b[differ]
        if len(a) < _MIN_PAIR or not a.std() or not b.std():
            continue
        correlations.append(float(np.corrcoef(a, b)[0, 1]))
        weights.append(len(a))
    if sum(weights) < _MIN_DIFFERENT or n_differ < _SCORES_DIFFER * n_pairs:
        return False
    return float(np.average(correlations, weights=weights)) > _SCORE_CORRELATION


def _find_constant_class(codes: NDArray[np.integer]) -> int | None:
    """Return the class that one source always votes for and no other ever does, None if there is none."""
    constant = np.flatnonzero((codes == codes[0]).all(axis=0) & (codes[0] >= 0))
    found = (int(codes[0, j]) for j in constant if np.count_nonzero(codes == codes[0, j]) == len(codes))
    return next(found, None)


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
