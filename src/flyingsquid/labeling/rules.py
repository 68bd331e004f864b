"""Ready-made labeling functions: keywords, patterns, thresholds, classifiers and existing labels.

Each reads one column, by default ``"text"``; items that are strings are read directly. Strings are matched
with Python's ``re`` for every kind of table, so that votes do not depend on the library. Missing values get
no vote.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import can_be_iterated, format_value, is_null, is_number, option_error
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.files.vote_files import read_records
from flyingsquid.labeling.functions import LabelingFunction, Row, is_sliceable, list_values, open_table
from flyingsquid.votes.codes import Label
from flyingsquid.votes.frames import is_frame

_MAX_NAME = 40
_TOKEN = re.compile(r"\w+|[^\w\s]")


def keywords(
    words: str | Iterable[str],
    label: Label,
    *,
    column: str | None = None,
    whole_words: bool = True,
    ignore_case: bool = True,
    name: str | None = None,
) -> LabelingFunction:
    """Vote ``label`` if one of some words or phrases occurs.

    Parameters
    ----------
    words : str or iterable of str
    label : int, str or bool
        The class to vote for.
    column : str, optional
        The column to read. Default: ``"text"``, or the item itself if it is a string.
    whole_words : bool, default=True
        Whether to match whole words only, so that "art" does not match "start".
    ignore_case : bool, default=True
    name : str, optional
        Name of the source. Default: made from the words.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> begs = fs.labeling.keywords(["subscribe", "my channel"], 1)
    >>> begs
    LabelingFunction('keywords_subscribe_my_channel', vectorized)
    >>> begs("Subscribe now!"), begs("subscriber"), begs({"text": "on MY channel"})
    (1, None, 1)
    """
    phrases = _read_phrases(words, "words")
    alternatives = "|".join(re.escape(word) for word in sorted(phrases, key=len, reverse=True))
    # Not \b, because a word such as "C++" ends in a symbol.
    pattern = rf"(?<!\w)(?:{alternatives})(?!\w)" if whole_words else alternatives
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return _make(_PatternRule(column, compiled, _read_label(label)), name, "keywords", *phrases)


def regex(
    pattern: str | re.Pattern[str],
    label: Label,
    *,
    column: str | None = None,
    flags: int = 0,
    name: str | None = None,
) -> LabelingFunction:
    r"""Vote ``label`` if a regular expression matches anywhere.

    Parameters
    ----------
    pattern : str or compiled pattern
    label : int, str or bool
    column, name : str, optional
        As in :func:`keywords`.
    flags : int, default=0
        Flags of ``re.compile``.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> fs.labeling.regex(r"check.*out", 1, name="check out")("check this out")
    1
    """
    try:
        compiled = re.compile(pattern, flags)
    except (re.error, TypeError, ValueError) as error:
        raise OptionError(
            f"`pattern` must be a regular expression; got {format_value(pattern)}: {error}."
        ) from error
    if isinstance(compiled.pattern, bytes):
        raise option_error("pattern", "a pattern for strings", pattern)
    return _make(_PatternRule(column, compiled, _read_label(label)), name, "regex", compiled.pattern)


def gazetteer(
    entries: Mapping[str, Label] | Iterable[str],
    label: Label | None = None,
    *,
    column: str | None = None,
    ignore_case: bool = True,
    name: str | None = None,
) -> LabelingFunction:
    """Vote by a dictionary of words and phrases.

    Only whole words match. The longest of several entries that begin at the same word wins. An item with
    entries of different classes gets no vote. The cost does not depend on the number of entries.

    Parameters
    ----------
    entries : mapping from str to label, or iterable of str
    label : int, str or bool, optional
        The class of all entries, if they are not a mapping.
    column, name : str, optional
        As in :func:`keywords`.
    ignore_case : bool, default=True

    Examples
    --------
    >>> import flyingsquid as fs
    >>> places = fs.labeling.gazetteer({"New York": "place", "New York Times": "paper"}, name="places")
    >>> places("in new york"), places("the New York Times"), places("The Times of New York")
    ('place', 'paper', 'place')
    """
    if isinstance(entries, Mapping):
        if label is not None:
            raise option_error("label", "None if `entries` is a mapping", label)
        classes = {entry: _read_label(value) for entry, value in entries.items()}
    else:
        classes = dict.fromkeys(_read_phrases(entries, "entries"), _read_label(label))
    by_tokens: dict[tuple[str, ...], Any] = {}
    for entry, value in classes.items():
        tokens = _tokenize(entry, ignore_case) if isinstance(entry, str) else ()
        if not tokens:
            raise option_error("entries", "non-empty strings", entry)
        if by_tokens.setdefault(tokens, value) != value:
            raise OptionError(
                f"`entries` must have one class each; got {format_value(by_tokens[tokens])} and "
                f"{format_value(value)} for {format_value(entry)}."
            )
    return _make(_GazetteerRule(column, by_tokens, ignore_case), name, "gazetteer", *list(classes)[:3])


def threshold(
    column: str,
    label: Label,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    otherwise: Label | None = None,
    name: str | None = None,
) -> LabelingFunction:
    """Vote ``label`` if a number is within bounds.

    Parameters
    ----------
    column : str
        A column of numbers.
    label : int, str or bool
    at_least, at_most : float, optional
        The bounds, both inclusive. At least one is required.
    otherwise : int, str or bool, optional
        The class of numbers outside the bounds. Default: no vote.
    name : str, optional
        Name of the source. Default: made from the column and the bounds.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> few = fs.labeling.threshold("followers", "bot", at_most=3)
    >>> few
    LabelingFunction('followers_at_most_3', vectorized)
    >>> fs.apply([few], [{"followers": 2}, {"followers": 900}], classes=["human", "bot"]).codes.ravel()
    array([ 1, -1], dtype=int8)
    """
    if at_least is None and at_most is None:
        raise OptionError("`at_least` or `at_most` must be a number; got None for both.")
    for option, bound in (("at_least", at_least), ("at_most", at_most)):
        if bound is not None and (not is_number(bound) or is_null(bound)):
            raise option_error(option, "a number", bound)
    if at_least is not None and at_most is not None and at_least > at_most:
        raise option_error("at_least", f"at most `at_most`, {at_most:g}", at_least)
    bounds = [f"at_least_{at_least:g}"] if at_least is not None else []
    bounds += [f"at_most_{at_most:g}"] if at_most is not None else []
    other = None if otherwise is None else _read_label(otherwise)
    rule = _ThresholdRule(column, _read_label(label), at_least, at_most, other)
    return _make(rule, name, column, *bounds)


def classifier(
    model: Any,
    *,
    min_confidence: float = 0.8,
    columns: str | Sequence[str] | None = None,
    name: str | None = None,
) -> LabelingFunction:
    """Vote as a fitted scikit-learn classifier predicts, if it is confident.

    Parameters
    ----------
    model : fitted classifier with ``predict_proba`` and ``classes_``
    min_confidence : float, default=0.8
        The lowest probability of the predicted class for which the function votes.
    columns : str or list of str, optional
        A name: the values of this column, for pipelines that take strings. A list: a table of these columns.
        Default: the data unchanged.
    name : str, optional
        Name of the source. Default: made from the class of the model.

    Examples
    --------
    >>> import numpy as np, flyingsquid as fs
    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> confident = fs.labeling.classifier(fitted, min_confidence=0.7)
    >>> fs.apply([confident], np.array([[0.0], [1.5], [3.0]])).codes.ravel()
    array([ 0, -1,  1], dtype=int8)
    """
    for attribute in ("predict_proba", "classes_"):
        if not hasattr(model, attribute):
            raise OptionError(
                f"`model` must be a fitted classifier with {attribute}; got {type(model).__name__}."
            )
    if not is_number(min_confidence) or not 0 <= min_confidence <= 1:
        raise option_error("min_confidence", "a float from 0 to 1", min_confidence)
    selected = columns if columns is None or isinstance(columns, str) else tuple(columns)
    rule = _ClassifierRule(model, selected, float(min_confidence))
    return _make(rule, name, type(model).__name__, f"{min_confidence:g}")


def from_column(
    column: str, *, labels: Mapping[Any, Label] | None = None, name: str | None = None
) -> LabelingFunction:
    """Vote by the values of a column: existing labels, or a column that identifies them.

    Parameters
    ----------
    column : str
        A column of labels, or of values that ``labels`` maps to labels, such as item identifiers.
    labels : mapping from value to label, optional
        Values that it does not contain get no vote. Default: the values are the labels.
    name : str, optional
        Name of the source. Default: the column.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> stars = fs.labeling.from_column("stars", labels={1: "bad", 5: "good"})
    >>> stars({"stars": 5}), stars({"stars": 3})
    ('good', None)
    >>> ann = fs.labeling.from_column("id", labels={"c7": "spam"}, name="ann")
    >>> ann({"id": "c7"}), ann({"id": "c8"})
    ('spam', None)
    """
    if labels is not None and not isinstance(labels, Mapping):
        raise option_error("labels", "a mapping from values to classes", labels)
    return _make(_ColumnRule(column, None if labels is None else dict(labels)), name, column)


def from_file(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    label: str = "label",
    name: str | None = None,
) -> LabelingFunction:
    """Vote by existing labels in a file (csv, tsv, JSON, parquet or arrow), by identifier.

    Identifiers are compared as strings. Labels become integers if all of them are. Empty labels are missing
    votes.

    Parameters
    ----------
    path : str or path
    id, label : str
        The columns of identifiers and of labels, default ``"id"`` and ``"label"``.
    name : str, optional
        Name of the source. Default: the name of the file.

    Examples
    --------
    >>> import tempfile
    >>> import flyingsquid as fs
    >>> path = Path(tempfile.mkdtemp()) / "ann.csv"
    >>> _ = path.write_text("id,label\\nc7,spam\\nc8,\\n")
    >>> ann = fs.labeling.from_file(path)
    >>> ann.name, ann({"id": "c7"}), ann({"id": "c8"})
    ('ann', 'spam', None)
    """
    path = Path(path)
    found: dict[str, str] = {}
    for record in read_records(path):
        for field in (id, label):
            if not isinstance(record, Mapping) or field not in record:
                present = ", ".join(map(str, record)) if isinstance(record, Mapping) else "lines of text"
                raise LabelingError(f"{path.name} must have a column {format_value(field)}; got {present}.")
        key, value = (("" if is_null(cell) else str(cell).strip()) for cell in (record[id], record[label]))
        if found.setdefault(key, value) != value:
            raise LabelingError(
                f"{path.name}: {format_value(key)} must have one label; got {format_value(found[key])} and "
                f"{format_value(value)}."
            )
    labels = {key: value for key, value in found.items() if value}
    integers = all(re.fullmatch(r"-?\d+", value) for value in labels.values())
    by_id = {key: int(value) if integers else value for key, value in labels.items()}
    return LabelingFunction(_ColumnRule(id, by_id, as_string=True), name or path.stem, vectorized=True)


def _make(rule: Any, name: str | None, *parts: str) -> LabelingFunction:
    default = "_".join(re.sub(r"\W+", "_", part).strip("_") for part in parts if re.search(r"\w", part))
    return LabelingFunction(rule, name or default[:_MAX_NAME].strip("_"), vectorized=True)


def _read_phrases(phrases: str | Iterable[str], parameter: str) -> list[str]:
    if isinstance(phrases, str) or not can_be_iterated(phrases):
        phrases = [phrases]  # type: ignore[list-item]  # checked next
    found = list(phrases)
    if not found or not all(isinstance(phrase, str) and phrase.strip() for phrase in found):
        raise option_error(parameter, "one or more non-empty strings", phrases)
    return found


def _read_label(label: Any) -> Any:
    """Return a class label, after checking its type when the function is created."""
    if isinstance(label, (bool, int, str)) or type(label).__module__ == "numpy":
        return label.item() if hasattr(label, "item") else label
    raise option_error("label", "an integer, a string or a boolean", label)


def _tokenize(text: str, ignore_case: bool) -> tuple[str, ...]:
    """Split a string into words and symbols.

    >>> _tokenize("C++ and New  York", ignore_case=True)
    ('c', '+', '+', 'and', 'new', 'york')
    """
    return tuple(_TOKEN.findall(text.casefold() if ignore_case else text))


# ---------------------------------------------------------------------- rules

# The functions above are values instead of closures, so that they can be pickled and fingerprinted.


@dataclass(frozen=True)
class _Rule:
    """Rule about one column; returns a column for a table or a list, and one vote for one item."""

    column: str | None

    def __call__(self, data: Any) -> Any:
        if isinstance(data, (str, Row, Mapping)) or not is_sliceable(data):
            return self.vote(list_values([data], self.column))[0]
        return self.vote(list_values(data, self.column))

    def vote(self, values: list[Any]) -> Any:
        """Return votes on the values of the column, shape (n,)."""
        raise NotImplementedError

    def strings(self, values: list[Any]) -> list[str | None]:
        """Return the values as strings, None for missing ones."""
        if set(map(type, values)) <= {str, type(None)}:
            return values
        plain = [None if is_null(value) else value for value in values]
        for at, value in enumerate(plain):
            if value is not None and not isinstance(value, str):
                column = format_value(self.column or "text")
                raise LabelingError(
                    f"item {at}, column {column} must be a string; got {format_value(value)}."
                )
        return plain


@dataclass(frozen=True)
class _PatternRule(_Rule):
    pattern: re.Pattern[str]
    label: Any

    def vote(self, values: list[Any]) -> list[Any]:
        search, label = self.pattern.search, self.label
        return [label if text is not None and search(text) else None for text in self.strings(values)]


@dataclass(frozen=True)
class _GazetteerRule(_Rule):
    entries: dict[tuple[str, ...], Any]  # from tokens to a class
    ignore_case: bool

    def vote(self, values: list[Any]) -> list[Any]:
        longest = max(map(len, self.entries), default=0)
        first_tokens = {entry[0] for entry in self.entries}
        return [
            None if text is None else self._vote(_tokenize(text, self.ignore_case), longest, first_tokens)
            for text in self.strings(values)
        ]

    def _vote(self, tokens: tuple[str, ...], longest: int, first_tokens: set[str]) -> Any:
        found: set[Any] = set()
        at = 0
        while at < len(tokens):
            step = 1
            if tokens[at] in first_tokens:
                # The longest entry first: "New York Times" is not a place.
                for length in range(min(longest, len(tokens) - at), 0, -1):
                    entry = tokens[at : at + length]
                    if entry in self.entries:
                        found.add(self.entries[entry])
                        step = length
                        break
            at += step
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class _ThresholdRule(_Rule):
    label: Any
    at_least: float | None
    at_most: float | None
    otherwise: Any

    def vote(self, values: list[Any]) -> NDArray[Any]:
        try:
            numbers = np.array([None if is_null(v) else v for v in values], np.float64)
        except (TypeError, ValueError) as error:
            raise LabelingError(
                f"column {format_value(self.column)} must contain numbers: {error}."
            ) from error
        present = ~np.isnan(numbers)
        inside = present.copy()
        if self.at_least is not None:
            inside &= numbers >= self.at_least
        if self.at_most is not None:
            inside &= numbers <= self.at_most
        votes = np.full(len(numbers), None, object)
        votes[present & ~inside] = self.otherwise
        votes[inside] = self.label
        return votes


@dataclass(frozen=True)
class _ColumnRule(_Rule):
    labels: dict[Any, Any] | None  # None: the values are the labels
    as_string: bool = False

    def vote(self, values: list[Any]) -> list[Any]:
        plain = [None if is_null(value) else value for value in values]
        if self.labels is None:
            return plain
        if self.as_string:
            plain = [None if value is None else str(value) for value in plain]
        return [self.labels.get(value) for value in plain]


@dataclass(frozen=True)
class _ClassifierRule:
    model: Any
    columns: str | tuple[str, ...] | None
    min_confidence: float
    __name__: ClassVar[str] = "classifier"

    def __call__(self, data: Any) -> NDArray[Any]:
        proba = np.asarray(self.model.predict_proba(self.features(data)), np.float64)
        classes = np.asarray(self.model.classes_)
        if proba.shape != (len(data), len(classes)):
            expected = (len(data), len(classes))
            raise LabelingError(f"predict_proba must return an array of shape {expected}; got {proba.shape}.")
        best = proba.argmax(axis=1)
        confident = proba[np.arange(len(best)), best] >= self.min_confidence
        votes = np.full(len(best), None, object)
        votes[confident] = classes[best[confident]]
        return votes

    def features(self, data: Any) -> Any:
        """Return the columns that the classifier takes, or all data."""
        if self.columns is None:
            return data
        if isinstance(self.columns, str):
            return list_values(data, self.columns)
        if is_frame(data) and hasattr(self.model, "feature_names_in_"):
            return open_table(data, self.columns).select(*self.columns).to_native()
        # For a model that was fitted on an array, scikit-learn would warn about column names.
        return np.column_stack([list_values(data, name) for name in self.columns])
