"""The rules behind the makers: plain values that can be called, sent and compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from flyingsquid._values import is_null, told
from flyingsquid.exceptions import LabelingError
from flyingsquid.labeling.intake import is_sized
from flyingsquid.labeling.rows import Row, column_of, open_table
from flyingsquid.votes.frames import is_frame

_TOKEN = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Rule:
    """Looks at one column. Called with a table or a list it gives a column, with one item one vote."""

    column: str | None

    def __call__(self, data: Any) -> Any:
        if isinstance(data, (str, Row, Mapping)) or not is_sized(data):
            return self.votes(column_of([data], self.column))[0]
        return self.votes(column_of(data, self.column))

    def votes(self, values: list[Any]) -> Any:
        """Votes on the values of the column, shape (n,)."""
        raise NotImplementedError

    def texts(self, values: list[Any]) -> list[str | None]:
        """The values as texts, None where there is nothing."""
        if set(map(type, values)) <= {str, type(None)}:
            return values
        return [self._text(value, at) for at, value in enumerate(values)]

    def _text(self, value: Any, at: int) -> str | None:
        if isinstance(value, str) or value is None:
            return value
        if is_null(value):
            return None
        raise LabelingError(f"row {at}, column {told(self.column or 'text')}: {told(value)} is no text")


@dataclass(frozen=True)
class PatternRule(Rule):
    """Votes ``label`` where the pattern is found."""

    pattern: re.Pattern[str]
    label: Any

    def votes(self, values: list[Any]) -> list[Any]:
        search, label = self.pattern.search, self.label
        return [label if text is not None and search(text) else None for text in self.texts(values)]


@dataclass(frozen=True)
class GazetteerRule(Rule):
    """Votes the class of the entries found in a text, if they agree.

    Attributes
    ----------
    entries : dict from a tuple of tokens to a class
    ignore_case : bool
    """

    entries: dict[tuple[str, ...], Any]
    ignore_case: bool

    def votes(self, values: list[Any]) -> list[Any]:
        longest = max(map(len, self.entries), default=0)
        first_tokens = {entry[0] for entry in self.entries}
        return [
            None if text is None else self._vote(tokens_of(text, self.ignore_case), longest, first_tokens)
            for text in self.texts(values)
        ]

    def _vote(self, tokens: tuple[str, ...], longest: int, first_tokens: set[str]) -> Any:
        found: set[Any] = set()
        at = 0
        while at < len(tokens):
            step = 1
            if tokens[at] in first_tokens:
                # The longest entry wins: "New York Times" is no place.
                for length in range(min(longest, len(tokens) - at), 0, -1):
                    entry = tokens[at : at + length]
                    if entry in self.entries:
                        found.add(self.entries[entry])
                        step = length
                        break
            at += step
        return found.pop() if len(found) == 1 else None


@dataclass(frozen=True)
class ThresholdRule(Rule):
    """Votes ``label`` for numbers within bounds, ``otherwise`` for numbers outside."""

    label: Any
    at_least: float | None
    at_most: float | None
    otherwise: Any

    def votes(self, values: list[Any]) -> NDArray[Any]:
        try:
            numbers = np.array([None if is_null(v) else v for v in values], np.float64)
        except (TypeError, ValueError) as error:
            raise LabelingError(f"column {told(self.column)} does not hold numbers: {error}") from error
        inside = ~np.isnan(numbers)
        if self.at_least is not None:
            inside &= numbers >= self.at_least
        if self.at_most is not None:
            inside &= numbers <= self.at_most
        votes = np.full(len(numbers), None, object)
        votes[~inside & ~np.isnan(numbers)] = self.otherwise
        votes[inside] = self.label
        return votes


@dataclass(frozen=True)
class ColumnRule(Rule):
    """Votes what a column says, translated where there is a table."""

    labels: dict[Any, Any] | None
    as_text: bool = False

    def votes(self, values: list[Any]) -> list[Any]:
        plain = [None if is_null(value) else value for value in values]
        if self.labels is None:
            return plain
        if self.as_text:
            plain = [None if value is None else str(value) for value in plain]
        return [self.labels.get(value) for value in plain]


@dataclass(frozen=True)
class ClassifierRule:
    """Votes the most probable class of a fitted classifier, where it is sure enough."""

    model: Any
    columns: str | tuple[str, ...] | None
    min_confidence: float
    __name__: ClassVar[str] = "classifier"

    def __call__(self, data: Any) -> NDArray[Any]:
        proba = np.asarray(self.model.predict_proba(self.features(data)), np.float64)
        classes = np.asarray(self.model.classes_)
        if proba.shape != (len(data), len(classes)):
            raise LabelingError(
                f"predict_proba gave the shape {proba.shape} for {len(data):,} rows and {len(classes)} "
                "classes"
            )
        best = proba.argmax(axis=1)
        sure = proba[np.arange(len(best)), best] >= self.min_confidence
        votes = np.full(len(best), None, object)
        votes[sure] = classes[best[sure]]
        return votes

    def features(self, data: Any) -> Any:
        """What the classifier is asked about: some columns of the data, or all of it."""
        if self.columns is None:
            return data
        if isinstance(self.columns, str):
            return column_of(data, self.columns)
        if is_frame(data):
            table = open_table(data)
            absent = [name for name in self.columns if name not in table.columns]
            if absent:
                raise LabelingError(f"no column {told(absent[0])}; the table has {', '.join(table.columns)}")
            if hasattr(self.model, "feature_names_in_"):
                return table.select(*self.columns).to_native()
        # Fitted on an array: scikit-learn warns of names that it has not seen.
        return np.column_stack([column_of(data, name) for name in self.columns])


def tokens_of(text: str, ignore_case: bool) -> tuple[str, ...]:
    """The words and signs of a text.

    >>> tokens_of("C++ and New  York", ignore_case=True)
    ('c', '+', '+', 'and', 'new', 'york')
    """
    return tuple(_TOKEN.findall(text.casefold() if ignore_case else text))
