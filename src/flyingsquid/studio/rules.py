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

from flyingsquid._values import format_list, format_value
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


def _invalid(field: str, constraint: str, value: Any) -> OptionError:
    return OptionError(f"`{field}` must be {constraint}; got {format_value(value)}.", parameter=field)


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
        raise _invalid("kind", f"one of {format_list(list(_FIELDS))}", kind)
    kind = str(source["kind"])
    unknown = next((name for name in source if name not in ("kind", *_FIELDS[kind])), None)
    if unknown is not None:
        raise _invalid("source", f"an object with the fields {', '.join(_FIELDS[kind])}", source)
    found = {"kind": kind} | {name: _READERS[name](source, n_classes, n_items) for name in _FIELDS[kind]}
    found = {name: value for name, value in found.items() if value is not None}
    if kind in PATTERN_KINDS:
        pattern_function(found)
    return found


def _read_string(field: str, *, required: bool = True, longest: int = _LONGEST) -> Callable[..., str | None]:
    def read(source: dict[str, Any], _k: int, _n: int) -> str | None:
        value = source.get(field)
        if value is None and not required:
            return None
        return _checked(field, value, longest)

    return read


def _checked(field: str, value: Any, longest: int = _LONGEST) -> str:
    valid = isinstance(value, str) and 0 < len(value) <= longest and "\0" not in value
    if not valid or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _invalid(field, f"a string of 1 to {longest:,} characters", value)
    return str(value)


def _read_words(source: dict[str, Any], _k: int, _n: int) -> list[str]:
    words = source.get("words")
    if not isinstance(words, list) or not 1 <= len(words) <= _MOST_WORDS:
        raise _invalid("words", f"a list of 1 to {_MOST_WORDS:,} strings", words)
    return [_checked("words", word) for word in words]


def _read_label(source: dict[str, Any], n_classes: int, _n: int) -> int:
    label = source.get("label")
    if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < n_classes:
        raise _invalid("label", "the position of a class", label)
    return label


def _read_flag(field: str) -> Callable[..., bool]:
    def read(source: dict[str, Any], _k: int, _n: int) -> bool:
        value = source.get(field, True)
        if not isinstance(value, bool):
            raise _invalid(field, "true or false", value)
        return value

    return read


def _read_operator(source: dict[str, Any], _k: int, _n: int) -> str:
    value = source.get("operator")
    if value not in OPERATORS:
        raise _invalid("operator", f"one of {', '.join(OPERATORS)}", value)
    return str(value)


def _read_number(field: str) -> Callable[..., float]:
    def read(source: dict[str, Any], _k: int, _n: int) -> float:
        value = source.get(field)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
            raise _invalid(field, f"a number of at most {_LARGEST:g}", value)
        return value

    return read


def _read_item(source: dict[str, Any], _k: int, n_items: int) -> int:
    item = source.get("item")
    if isinstance(item, bool) or not isinstance(item, int) or not 0 <= item < n_items:
        raise _invalid("item", f"a position from 0 to {n_items - 1}", item)
    return item


_READERS: dict[str, Callable[..., Any]] = {
    "words": _read_words,
    "label": _read_label,
    "column": _read_string("column", required=False),
    "whole_words": _read_flag("whole_words"),
    "ignore_case": _read_flag("ignore_case"),
    "name": _read_string("name", required=False, longest=200),
    "pattern": _read_string("pattern"),
    "operator": _read_operator,
    "value": _read_number("value"),
    "item": _read_item,
    "at_least": _read_number("at_least"),
    "file": _read_string("file"),
    "function": _read_string("function"),
}


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

    Parameters
    ----------
    sources : list of descriptions
    classes : sequence of str
    text : str or None
        The column of rules that do not name one.
    values : dict from column to the values of vote columns
    features : str, optional
        Name of the file of features.
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
