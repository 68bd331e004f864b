"""Descriptions of sources (JSON values), the labeling functions they stand for, and their source code.

A description holds the position of its class, not its name, so that renaming a class changes no rule. Fields
that decide which items match are separate from the class: :func:`match_key` identifies the matches.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flyingsquid._values import format_list, option_error
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling import LabelingFunction, keywords, regex

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "!=": operator.ne,
}
PATTERN_KINDS = ("keywords", "regex")
_LARGEST = 1e300
_MOST_WORDS, _LONGEST, _LONGEST_NAME = 1_000, 2_000, 60
_FIELDS: dict[str, tuple[str, ...]] = {
    "keywords": ("words", "label", "column", "whole_words", "ignore_case", "name"),
    "regex": ("pattern", "label", "column", "ignore_case", "name"),
    "comparison": ("column", "operator", "value", "label", "name"),
    "similarity": ("item", "at_least", "label", "name"),
    "column": ("column", "name"),
    "function": ("file", "function", "name"),
}
_DEFAULTS = {"whole_words": True, "ignore_case": True}
_OPTIONAL = ("column", "name")


# ---------------------------------------------------------------------- reading


def read_source(source: Any, n_classes: int, n_items: int) -> dict[str, Any]:
    """Check a description of a source and fill in its defaults.

    Raises
    ------
    OptionError
        If a field is invalid; ``parameter`` names it.

    Examples
    --------
    >>> read_source({"kind": "keywords", "words": ["free"], "label": 1}, 2, 100)["whole_words"]
    True
    """
    if not isinstance(source, dict) or source.get("kind") not in _FIELDS:
        kind = source.get("kind") if isinstance(source, dict) else source
        raise option_error("kind", f"one of {format_list(list(_FIELDS))}", kind)
    kind = str(source["kind"])
    unknown = next((name for name in source if name not in ("kind", *_FIELDS[kind])), None)
    if unknown is not None:
        raise option_error("source", f"an object with the fields {', '.join(_FIELDS[kind])}", source)
    found = {"kind": kind}
    for name in _FIELDS[kind]:
        value = source.get(name, _DEFAULTS.get(name))
        if value is not None or name not in _OPTIONAL:
            found[name] = _checked(name, value, n_classes, n_items)
    if kind in PATTERN_KINDS:
        pattern_function(found)
    return found


def _checked(field: str, value: Any, n_classes: int, n_items: int) -> Any:
    """Return the value of a field if it is valid."""
    longest = 200 if field == "name" else _LONGEST
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if field == "label":
        valid, constraint = is_index(value, n_classes), "the position of a class"
    elif field == "item":
        valid, constraint = is_index(value, n_items), f"a position from 0 to {n_items - 1}"
    elif field in _DEFAULTS:
        valid, constraint = isinstance(value, bool), "true or false"
    elif field == "operator":
        valid, constraint = value in OPERATORS, f"one of {', '.join(OPERATORS)}"
    elif field in ("value", "at_least"):
        valid, constraint = number and abs(value) <= _LARGEST, f"a number of at most {_LARGEST:g}"
    elif field == "words":
        valid = isinstance(value, list) and 1 <= len(value) <= _MOST_WORDS
        valid = valid and all(_is_string(word, longest) for word in value)
        constraint = f"a list of 1 to {_MOST_WORDS:,} strings of 1 to {longest:,} characters"
    else:
        valid, constraint = _is_string(value, longest), f"a string of 1 to {longest:,} characters"
    if not valid:
        raise option_error(field, constraint, value)
    return value


def _is_string(value: Any, longest: int) -> bool:
    """Return whether a value is a string that is neither empty nor too long, and can be stored in a file."""
    if not isinstance(value, str) or not 0 < len(value) <= longest:
        return False
    return not any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in value)


def is_index(value: Any, n: int) -> bool:
    """Return whether a value is an integer from 0 to n - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < n


# ---------------------------------------------------------------------- functions and names


def pattern_function(source: dict[str, Any]) -> LabelingFunction:
    """Return the labeling function of a rule about strings; it votes 1 on strings that match.

    Compiling is fast. Applying the function may be slow, depending on the strings, and is left to a worker.
    """
    if source["kind"] == "keywords":
        return keywords(
            source["words"], 1, whole_words=source["whole_words"], ignore_case=source["ignore_case"]
        )
    try:
        return regex(source["pattern"], 1, flags=re.IGNORECASE if source["ignore_case"] else 0)
    except (OptionError, RecursionError, OverflowError, MemoryError) as error:
        reason = error.__cause__ or error
        message = f"`pattern` must be a regular expression; {reason}."
        raise OptionError(message, parameter="pattern") from error


def match_key(source: dict[str, Any]) -> str:
    """Return a string that is equal for sources that match the same items, whatever their class and name."""
    return json.dumps(
        {name: value for name, value in sorted(source.items()) if name not in ("label", "name")}
    )


def default_name(source: dict[str, Any]) -> str:
    """Return the default name of a source.

    >>> default_name({"kind": "comparison", "column": "likes", "operator": ">=", "value": 3})
    'likes >= 3'
    """
    kind = source["kind"]
    if kind == "keywords":
        name = ", ".join(source["words"])
    elif kind == "regex":
        name = f"/{source['pattern']}/"
    elif kind == "comparison":
        name = f"{source['column']} {source['operator']} {source['value']:g}"
    elif kind == "similarity":
        name = f"similar to item {source['item']} by {source['at_least']:g}"
    else:
        name = source["function" if kind == "function" else "column"]
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def name_sources(sources: Iterable[dict[str, Any]]) -> list[str]:
    """Return one unique name per source: its own or the default, with a number if it repeats."""
    names: list[str] = []
    taken: set[str] = set()
    for source in sources:
        name = base = source.get("name") or default_name(source)
        number = 2
        while name in taken:
            name, number = f"{base} ({number})", number + 1
        taken.add(name)
        names.append(name)
    return names


def describe(source: Any) -> str:
    """Return a short description of a source, for the history."""
    kind = {"column": "column", "function": "function"}.get(source["kind"], "rule")
    return f"{kind} {source.get('name') or default_name(source)}"


# ---------------------------------------------------------------------- source code

_HEAD = '''"""Labeling functions, exported by flyingsquid studio.

Apply them to a table, or a list of mappings, with the columns {columns}:

    import flyingsquid as fs
    from rules import CLASSES, FUNCTIONS

    votes = fs.apply(FUNCTIONS, data, classes=CLASSES)
    labels = fs.LabelModel().fit_predict(votes)
"""

{imports}

CLASSES = {classes!r}
'''
_COMPARE = '''

def compare(column, operator, value, label, name):
    """Vote for a class if a comparison with a value holds; blank and invalid numbers get no vote."""

    def vote(x):
        try:
            number = float(x[column])
        except (TypeError, ValueError):
            return None
        return label if not math.isnan(number) and operator(number, value) else None

    return fs.labeling_function(name=name)(vote)
'''
_SIMILAR = '''

FEATURES = np.load(Path(__file__).with_name({file!r})).astype(np.float32)
FEATURES /= np.maximum(np.sqrt((FEATURES**2).sum(axis=1, keepdims=True)), 1e-30)


def similar(item, at_least, label, name):
    """Vote for a class on items whose features are similar to those of an item, by position."""

    def vote(data):
        if len(data) != len(FEATURES):
            raise ValueError(f"data must have {{len(FEATURES)}} items; got {{len(data)}}")
        return [label if each >= at_least else None for each in FEATURES @ FEATURES[item]]

    return fs.labeling_function(name=name, vectorized=True)(vote)
'''
_LOAD = '''

def load(file, function, name):
    """Load a labeling function from a file next to this one."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, Path(__file__).with_name(file))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = getattr(module, function)
    return found if found.name == name else fs.labeling_function(name=name)(found)
'''
_OPERATOR_CODE = {">=": "ge", "<=": "le", ">": "gt", "<": "lt", "==": "eq", "!=": "ne"}


def write_code(
    sources: Sequence[dict[str, Any]],
    classes: Sequence[str],
    *,
    text: str | None,
    values: dict[str, list[str]],
    features: str | None = None,
) -> str:
    """Return Python code of labeling functions that cast the votes of these sources.

    ``text`` is the column of rules that do not name one, ``values`` are the values of vote columns, and
    ``features`` is the name of the file of features.
    """
    kinds = {source["kind"] for source in sources}
    columns = {
        source.get("column", text) for source in sources if source["kind"] not in ("similarity", "function")
    }
    lines = [
        f"    {_call(source, name, classes, text, values)},\n"
        for source, name in zip(sources, name_sources(sources), strict=True)
    ]
    code = _HEAD.format(
        columns=", ".join(sorted(repr(column) for column in columns if column)) or "of your functions",
        imports=_imports(kinds),
        classes=list(classes),
    )
    code += _COMPARE if "comparison" in kinds else ""
    code += _SIMILAR.format(file=features) if "similarity" in kinds else ""
    code += _LOAD if "function" in kinds else ""
    gap = "\n" if kinds <= {"keywords", "regex", "column"} else "\n\n"
    return f"{code}{gap}FUNCTIONS = [\n{''.join(lines)}]\n"


def _imports(kinds: set[str]) -> str:
    plain = ["importlib.util"] * ("function" in kinds) + ["math", "operator"] * ("comparison" in kinds)
    plain += ["re"] * ("regex" in kinds)
    lines = [f"import {name}" for name in plain]
    lines += ["from pathlib import Path"] * bool(kinds & {"similarity", "function"})
    lines += [""] * bool(lines)
    lines += ["import numpy as np"] * ("similarity" in kinds)
    return "\n".join([*lines, "import flyingsquid as fs"])


def _call(
    source: dict[str, Any], name: str, classes: Sequence[str], text: str | None, values: dict[str, list[str]]
) -> str:
    kind, column = source["kind"], source.get("column", text)
    label = classes[source["label"]] if "label" in source else ""
    if kind == "keywords":
        return (
            f"fs.labeling.keywords({source['words']!r}, {label!r}, column={column!r}, "
            f"whole_words={source['whole_words']}, ignore_case={source['ignore_case']}, name={name!r})"
        )
    if kind == "regex":
        flags = "re.IGNORECASE" if source["ignore_case"] else "0"
        return (
            f"fs.labeling.regex({source['pattern']!r}, {label!r}, column={column!r}, flags={flags}, "
            f"name={name!r})"
        )
    if kind == "comparison":
        compare = f"operator.{_OPERATOR_CODE[source['operator']]}"
        return f"compare({column!r}, {compare}, {source['value']!r}, {label!r}, {name!r})"
    if kind == "similarity":
        return f"similar({source['item']}, {source['at_least']!r}, {label!r}, {name!r})"
    if kind == "column":
        # Both spellings of integers, because pandas reads them as numbers and csv as strings.
        labels: dict[Any, str] = {}
        for value in values.get(str(column), []):
            if value.strip() in classes:
                labels[value] = value.strip()
                if value.strip().isdigit() and str(int(value)) == value.strip():
                    labels[int(value)] = value.strip()
        return f"fs.labeling.from_column({column!r}, labels={labels!r}, name={name!r})"
    return f"load({source['file']!r}, {source['function']!r}, {name!r})"
