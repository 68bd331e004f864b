"""Labeling functions for the common cases, made by a call.

All look at a column, ``"text"`` unless told otherwise; a list of texts has no columns and is looked at
itself. Texts are matched by Python's ``re`` for every kind of table, so that moving from one to another
changes no vote. A missing value gets no vote.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from flyingsquid._values import told
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.labeling.functions import LabelingFunction
from flyingsquid.labeling.rules import (
    ClassifierRule,
    ColumnRule,
    GazetteerRule,
    PatternRule,
    ThresholdRule,
    tokens_of,
)
from flyingsquid.votes.codes import Label

_LONGEST_NAME = 40


def keywords(
    words: str | Iterable[str],
    label: Label,
    *,
    column: str | None = None,
    whole_words: bool = True,
    ignore_case: bool = True,
    name: str | None = None,
) -> LabelingFunction:
    """Vote ``label`` where one of some words or phrases occurs.

    >>> import flyingsquid as fs
    >>> begs = fs.labeling.keywords(["subscribe", "my channel"], 1)
    >>> begs
    LabelingFunction('keywords_subscribe_my_channel', vectorized)
    >>> begs("Subscribe now!"), begs("subscriber"), begs({"text": "on MY channel"})
    (1, None, 1)
    """
    listed = _texts(words, "words")
    found = "|".join(re.escape(word) for word in sorted(listed, key=len, reverse=True))
    # Not \b: a word such as "C++" ends in a sign.
    pattern = rf"(?<!\w)(?:{found})(?!\w)" if whole_words else found
    compiled = re.compile(pattern, re.IGNORECASE if ignore_case else 0)
    return _made(PatternRule(column, compiled, _class(label)), name, "keywords", *listed)


def regex(
    pattern: str | re.Pattern[str],
    label: Label,
    *,
    column: str | None = None,
    flags: int = 0,
    name: str | None = None,
) -> LabelingFunction:
    r"""Vote ``label`` where a regular expression is found.

    >>> import flyingsquid as fs
    >>> fs.labeling.regex(r"check.*out", 1, name="check out")("check this out")
    1
    """
    try:
        compiled = re.compile(pattern, flags)
    except (re.error, TypeError, ValueError) as error:
        raise OptionError(f"pattern={told(pattern)} is no regular expression: {error}") from error
    if isinstance(compiled.pattern, bytes):
        raise OptionError(f"pattern={told(pattern)} looks at bytes; pass a text")
    return _made(PatternRule(column, compiled, _class(label)), name, "regex", compiled.pattern)


def gazetteer(
    entries: Mapping[str, Label] | Iterable[str],
    label: Label | None = None,
    *,
    column: str | None = None,
    ignore_case: bool = True,
    name: str | None = None,
) -> LabelingFunction:
    """Vote by a dictionary of names: from entries to classes, or entries that all mean ``label``.

    Whole words count, the longest entry wins where several begin at the same word, and a text with entries of
    different classes gets no vote. The cost does not grow with the number of entries.

    >>> import flyingsquid as fs
    >>> places = fs.labeling.gazetteer({"New York": "place", "New York Times": "paper"}, name="places")
    >>> places("in new york"), places("the New York Times"), places("The Times of New York")
    ('place', 'paper', 'place')
    """
    if isinstance(entries, Mapping):
        if label is not None:
            raise OptionError("entries already say their classes; pass a list of entries, or no label")
        table = {entry: _class(of) for entry, of in entries.items()}
    elif label is None:
        raise OptionError("entries say no classes; pass a mapping from entry to class, or label=")
    else:
        table = dict.fromkeys(_texts(entries, "entries"), _class(label))
    tokens: dict[tuple[str, ...], Any] = {}
    for entry, of in table.items():
        key = tokens_of(entry, ignore_case) if isinstance(entry, str) else ()
        if not key:
            raise OptionError(f"entry {told(entry)} has no words")
        if tokens.setdefault(key, of) != of:
            raise OptionError(
                f"entry {told(entry)} stands for {told(tokens[key])} and for {told(of)}; the case is ignored"
            )
    return _made(GazetteerRule(column, tokens, ignore_case), name, "gazetteer", *list(table)[:3])


def threshold(
    column: str,
    label: Label,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    otherwise: Label | None = None,
    name: str | None = None,
) -> LabelingFunction:
    """Vote ``label`` where a number is within bounds, both included; outside ``otherwise``, or nothing.

    >>> import flyingsquid as fs
    >>> few = fs.labeling.threshold("followers", "bot", at_most=3)
    >>> few
    LabelingFunction('followers_at_most_3', vectorized)
    >>> fs.apply([few], [{"followers": 2}, {"followers": 900}], classes=["human", "bot"]).codes.ravel()
    array([ 1, -1], dtype=int8)
    """
    if at_least is None and at_most is None:
        raise OptionError("pass at_least=, at_most= or both")
    bounds = [f"at_least_{at_least:g}"] if at_least is not None else []
    bounds += [f"at_most_{at_most:g}"] if at_most is not None else []
    other = None if otherwise is None else _class(otherwise)
    return _made(ThresholdRule(column, _class(label), at_least, at_most, other), name, column, *bounds)


def classifier(
    model: Any,
    *,
    min_confidence: float = 0.8,
    columns: str | Sequence[str] | None = None,
    name: str | None = None,
) -> LabelingFunction:
    """Vote what a fitted scikit-learn classifier says, where its probability is at least ``min_confidence``.

    Parameters
    ----------
    model : fitted classifier with ``predict_proba`` and ``classes_``
    columns : str or list of str, optional
        A name: the values of this column, for pipelines that begin with a text. A list: a table of these
        columns. Default: the data as it is.

    Examples
    --------
    >>> import numpy as np, flyingsquid as fs
    >>> from sklearn.linear_model import LogisticRegression
    >>> fitted = LogisticRegression().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> sure = fs.labeling.classifier(fitted, min_confidence=0.7)
    >>> fs.apply([sure], np.array([[0.0], [1.5], [3.0]])).codes.ravel()
    array([ 0, -1,  1], dtype=int8)
    """
    missing = [name for name in ("predict_proba", "classes_") if not hasattr(model, name)]
    if missing:
        raise OptionError(
            f"{type(model).__name__} has no {missing[0]}; a fitted classifier with probabilities is needed"
        )
    if not 0 <= min_confidence <= 1:
        raise OptionError(f"min_confidence={told(min_confidence)} is no probability")
    looked_at = columns if columns is None or isinstance(columns, str) else tuple(columns)
    rule = ClassifierRule(model, looked_at, float(min_confidence))
    return _made(rule, name, type(model).__name__, f"{min_confidence:g}")


def from_mapping(labels: Mapping[Any, Label], *, id: str = "id", name: str | None = None) -> LabelingFunction:
    """Vote what somebody else said about items, by identifier; items that they did not label get no vote.

    >>> import flyingsquid as fs
    >>> ann = fs.labeling.from_mapping({"c7": "spam"}, name="ann")
    >>> ann({"id": "c7"}), ann({"id": "c8"})
    ('spam', None)
    """
    if not isinstance(labels, Mapping):
        raise OptionError("labels must be a mapping from identifier to class")
    return _made(ColumnRule(id, dict(labels)), name, "labels", "by", id)


def from_column(
    column: str, *, labels: Mapping[Any, Label] | None = None, name: str | None = None
) -> LabelingFunction:
    """Vote what a column of the data says; ``labels`` translates its values, and what it lacks gets no vote.

    >>> import flyingsquid as fs
    >>> stars = fs.labeling.from_column("stars", labels={1: "bad", 5: "good"})
    >>> stars({"stars": 5}), stars({"stars": 3})
    ('good', None)
    """
    table = None if labels is None else dict(labels)
    return _made(ColumnRule(column, table), name, column)


def from_file(
    path: str | os.PathLike[str],
    *,
    id: str = "id",
    label: str = "label",
    delimiter: str | None = None,
    name: str | None = None,
) -> LabelingFunction:
    """Vote what a csv or tsv file says, by identifier: one line an item, with a header.

    Identifiers are compared as texts. Labels that are all whole numbers become integers; an empty one is no
    vote. The name is that of the file unless another one is passed.

    >>> import tempfile
    >>> import flyingsquid as fs
    >>> path = Path(tempfile.mkdtemp()) / "ann.csv"
    >>> _ = path.write_text("id,label\\nc7,spam\\nc8,\\n")
    >>> ann = fs.labeling.from_file(path)
    >>> ann.name, ann({"id": "c7"}), ann({"id": "c8"})
    ('ann', 'spam', None)
    """
    place = Path(path)
    if delimiter is None:
        delimiter = "\t" if place.suffix.lower() in (".tsv", ".tab") else ","
    table: dict[str, str] = {}
    with place.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, delimiter=delimiter)
        for field in (id, label):
            if field not in (reader.fieldnames or ()):
                raise LabelingError(
                    f"{place.name} has no column {told(field)}; it has {', '.join(reader.fieldnames or ())}"
                )
        for line in reader:
            key, value = line[id], (line[label] or "").strip()
            if key in table and table[key] != value:
                raise LabelingError(
                    f"{place.name}, line {reader.line_num}: {told(key)} is labelled twice, "
                    f"{told(table[key])} and {told(value)}"
                )
            table[key] = value
    voted = {key: value for key, value in table.items() if value}
    whole = all(re.fullmatch(r"-?\d+", value) for value in voted.values())
    labels = {key: int(value) if whole else value for key, value in voted.items()}
    return LabelingFunction(ColumnRule(id, labels, as_text=True), name or place.stem, vectorized=True)


def _made(rule: Any, name: str | None, *parts: str) -> LabelingFunction:
    default = "_".join(re.sub(r"\W+", "_", part).strip("_") for part in parts if re.search(r"\w", part))
    return LabelingFunction(rule, name or default[:_LONGEST_NAME].strip("_"), vectorized=True)


def _texts(words: str | Iterable[str], what: str) -> list[str]:
    listed = [words] if isinstance(words, str) else list(words)
    if not listed or not all(isinstance(word, str) and word.strip() for word in listed):
        raise OptionError(f"{what}={told(words)} must be texts, at least one and none empty")
    return listed


def _class(label: Any) -> Any:
    """A class as :func:`fs.apply` takes it; a mistake shows when the function is made."""
    if isinstance(label, (bool, int, str)) or type(label).__module__ == "numpy":
        return label.item() if hasattr(label, "item") else label
    raise OptionError(f"label={told(label)} is no class; pass an integer, a text or a boolean")
