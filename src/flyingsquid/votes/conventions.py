"""Conventions of user data: column names, strings that mean "no vote", and class numbers.

The rules are written here once. ``Votes.from_classes``, ``Votes.from_frame`` and ``fit`` apply them to values
in memory, :mod:`flyingsquid.files` and the command line to files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Literal

# ---------------------------------------------------------------------- columns of tables

ITEM_NAMES = frozenset({
    "id", "item", "item_id", "itemid", "task", "task_id", "taskid", "index", "example_id", "uid", "row_id",
    "unnamed: 0", "__index_level_0__", "",
})  # fmt: skip
SOURCE_NAMES = frozenset({
    "source", "source_id", "worker", "worker_id", "workerid", "annotator", "annotator_id", "rater", "judge",
    "user", "user_id", "performer", "labeler",
})  # fmt: skip
LABEL_NAMES = frozenset({"label", "vote", "answer", "response", "annotation", "class"})
GOLD_NAMES = frozenset({
    "gold", "gold_label", "label", "y", "truth", "true_label", "ground_truth", "groundtruth", "target",
    "y_true",
})  # fmt: skip

# A column with more distinct values than this, on most of its rows, is free text rather than votes.
MOST_DISTINCT = 100
# With fewer rows, values that differ from each other and from all votes are no evidence of an identifier.
_MIN_ROWS = 3
# A column of votes shares its values with other sources. One with so many distinct values, of which so large
# a share occurs nowhere else, holds something else: an age, a date, a text.
_MIN_DISTINCT, _OWN_SHARE = 10, 0.8


def is_item_name(name: object) -> bool:
    """Return whether a column of this name usually identifies items."""
    return str(name).strip().lower() in ITEM_NAMES


def is_gold_name(name: object) -> bool:
    """Return whether a column of this name usually holds gold labels."""
    return str(name).strip().lower() in GOLD_NAMES


def find_long_columns(names: Sequence[str], item: str | None = None) -> tuple[str, str, str] | None:
    """Return the columns of items, sources and labels of a table with one row per vote, by their names.

    >>> find_long_columns(["task", "worker", "label"]), find_long_columns(["id", "links", "short"])
    (('task', 'worker', 'label'), None)
    """
    found: list[str] = []
    for known in (ITEM_NAMES - {""}, SOURCE_NAMES, LABEL_NAMES):
        hits = [name for name in names if name.strip().lower() in known and name not in found]
        if not hits:
            return None
        found.append(item if not found and item is not None else hits[0])
    return found[0], found[1], found[2]


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
    for name in names:
        if name in free and is_item_name(name) and (name.strip() or name == names[0]):
            return name, "name"
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


def find_other_columns(values: Sequence[Collection[Any]], n_rows: int) -> list[int]:
    """Return the positions of columns that do not hold votes, by the distinct values of each column.

    >>> votes = {"spam", "ham"}
    >>> find_other_columns([votes, votes, {f"text {i}" for i in range(20)}], 20)
    [2]
    """
    columns_with = Counter(value for column in values for value in set(column))
    found = []
    for j, column in enumerate(values):
        own = set(column)
        unshared = sum(columns_with[value] == 1 for value in own)
        distinct = len(values) > 1 and len(own) >= _MIN_DISTINCT and unshared > _OWN_SHARE * len(own)
        if distinct or is_free_text(len(own), n_rows):
            found.append(j)
    return found


# ---------------------------------------------------------------------- words

MISSING_TEXTS = frozenset({"", "na", "n/a", "#n/a", "<na>", "nan", "null", "none", "abstain", "abstained"})
"""Strings that mean "no vote", in upper or lower case, unless they are declared to be classes."""


def is_missing_text(text: str) -> bool:
    """Return whether a string usually means "no vote"; ``"-1"`` does too."""
    folded = text.strip().lower()
    return folded in MISSING_TEXTS or folded in ("-1", "-1.0")


def find_similar_labels(labels: Iterable[Any]) -> tuple[str, str] | None:
    """Return two string labels that differ only in case or spaces, or None.

    >>> find_similar_labels(["ham", "spam", "Spam "])
    ('Spam ', 'spam')
    """
    by_fold: dict[str, list[str]] = {}
    for label in sorted(x for x in labels if isinstance(x, str)):
        by_fold.setdefault(normalize_label(label), []).append(label)
    one = next((texts for texts in by_fold.values() if len(texts) > 1), None)
    return None if one is None else (one[0], one[1])


def normalize_label(label: Any) -> Any:
    """Return a string label without surrounding spaces and in lower case; other values unchanged.

    >>> normalize_label(" Not  Spam "), normalize_label(3)
    ('not spam', 3)
    """
    return " ".join(label.split()).lower() if isinstance(label, str) else label


# ---------------------------------------------------------------------- numbers

# Numbers up to this one may be class numbers even if most of them do not occur. Beyond, this share must.
SMALL_NUMBER, _OCCURRING = 19, 0.2
# A number beyond so many that do not occur is probably a code for "no vote", such as 9 after 1 to 5.
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
