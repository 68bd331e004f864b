"""Cache of votes on disk, with one file per labeling function and dataset.

File names contain fingerprints of the function and of the data. A fingerprint is a SHA-256 hash of the
pickled form of a value, in which functions and classes of the user are replaced by their code. Values that
cannot be pickled are not cached, because a fingerprint that misses a change would return outdated votes.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import option_error
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.labeling.columns import Column
from flyingsquid.labeling.functions import LabelingFunction, is_sliceable, open_table
from flyingsquid.votes.codes import ABSTAIN
from flyingsquid.votes.frames import is_frame

_FILE_KIND = "labeling.Column"


@dataclass(frozen=True, slots=True)
class VotesCache:
    """Files with the votes of some functions on some data.

    Attributes
    ----------
    paths : dict from str to Path
        The file of each function by its name.
    not_cached : dict from str to str
        Functions without a file, with the reason.
    n_items : int
    """

    paths: Mapping[str, Path]
    not_cached: Mapping[str, str]
    n_items: int

    def read(self) -> dict[str, Column]:
        """Return the cached votes by name of the function; damaged files are ignored."""
        found = {name: _read_column(path, self.n_items) for name, path in self.paths.items()}
        return {name: column for name, column in found.items() if column is not None}

    def write(self, columns: Mapping[str, Column]) -> dict[str, str]:
        """Write new votes, and return the functions whose votes are not cached with the reason.

        Votes of a function that failed on some items are not cached, because the next run may succeed.
        """
        not_cached = dict(self.not_cached)
        for name, column in columns.items():
            if name not in self.paths:
                continue
            if column.failure is not None:
                not_cached[name] = "it failed on some items"
            else:
                state = State(_FILE_KIND, {"values": list(column.values)}, {"index": column.index})
                write_state(self.paths[name], state)
        return not_cached


def open_cache(cache: Any, functions: Sequence[LabelingFunction], data: Any) -> VotesCache:
    """Return the cache of these functions on this data; an empty one if ``cache`` is None."""
    if cache is None:
        return VotesCache({}, {}, 0)
    if not is_sliceable(data):
        raise OptionError("`cache` is not supported for iterators; pass the data as a list or a table.")
    try:
        directory = Path(cache)
    except TypeError as error:
        raise option_error("cache", "the path of a directory", cache) from error
    try:
        of_data = fingerprint_data(data)
    except FingerprintError as error:
        raise OptionError(f"`cache` is not supported for these items: {error}.") from error
    directory.mkdir(parents=True, exist_ok=True)
    paths, not_cached = {}, {}
    for function in functions:
        try:
            of_function = fingerprint_function(function)
        except FingerprintError as error:
            not_cached[function.name] = str(error)
            continue
        readable = re.sub(r"[^A-Za-z0-9]+", "-", function.name)[:40].strip("-") or "function"
        paths[function.name] = directory / f"{readable}-{of_function}-{of_data}.fsq"
    return VotesCache(paths, not_cached, len(data))


def _read_column(path: Path, n_items: int) -> Column | None:
    """Return the votes in a file, or None if there is no valid file, so that they are computed again."""
    try:
        state = read_state(path)
    except (FileNotFoundError, ModelFileError):
        return None
    values, index = state.meta.get("values"), state.arrays.get("index")
    if state.kind != _FILE_KIND or not isinstance(values, list) or index is None:
        return None
    if not all(isinstance(v, (bool, int, str)) for v in values) or len({type(v) for v in values}) > 1:
        return None
    if index.dtype != np.int32 or index.shape != (n_items,) or not n_items:
        return None
    if index.min() < ABSTAIN or index.max() >= len(values):
        return None
    return Column(index, tuple(values))


# ---------------------------------------------------------------------- fingerprints

_INSTALLED = tuple(
    Path(path) for name, path in sysconfig.get_paths().items() if name.endswith(("lib", "stdlib"))
)
# Attributes of classes that do not affect votes: storage of instances and bookkeeping of the compiler.
_IGNORED = {
    "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__",
    "__dict__", "__doc__", "__firstlineno__", "__static_attributes__", "__weakref__", "_abc_impl",
}  # fmt: skip
_PLAIN = {str, int, float, bool, bytes, dict, tuple, type(None)}
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class FingerprintError(Exception):
    """Raised if a value cannot be inspected completely. :func:`open_cache` catches it."""


def fingerprint_function(function: LabelingFunction) -> str:
    """Return a fingerprint of the code of a function, its closure, the globals it uses and its resources."""
    # The same bytecode has another meaning in other versions of Python, and rules in other versions of ours.
    return _fingerprint((f"{sys.version_info[:2]} flyingsquid {__version__}", function))


def fingerprint_data(data: Any) -> str:
    """Return a fingerprint of a table or a list: names, types and values, in order."""
    return _fingerprint(("data", data))


def _fingerprint(value: Any) -> str:
    hasher = _Hasher()
    try:
        hasher.dump(value)
    except RecursionError as error:
        raise FingerprintError("it is nested too deeply") from error
    except Exception as error:  # whatever the pickling of an object of the user raises
        raise FingerprintError(str(error)) from error
    return hasher.digest()


class _Hasher(pickle._Pickler):  # the version in Python, in which every value can be overridden
    """Hash of the pickled form of a value, with functions and classes of the user by their content."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        super().__init__(types.SimpleNamespace(write=self._hash.update), protocol=4)

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]

    def memoize(self, obj: Any) -> None:
        """Remember an object; equal strings are written again, because they may or may not be one object."""
        if not isinstance(obj, (str, bytes)):
            super().memoize(obj)  # type: ignore[misc]  # unknown to mypy

    def reducer_override(self, value: Any) -> Any:
        """Return ``str``, a label and the content of a value, or NotImplemented to pickle it as usual.

        The pickler remembers a value before its content, so that functions and classes may refer to
        themselves.
        """
        if value is str or type(value) in _PLAIN:
            return NotImplemented
        if isinstance(value, (types.FunctionType, type)):
            name = f"{value.__module__} {value.__qualname__}"
            if _is_installed(value.__module__):
                return str, (name,)
            own = _class_content(value) if isinstance(value, type) else _function_content(value)
            return str, (name, type(value)), own
        content_of = _CONTENTS.get(type(value), _table_content if is_frame(value) else None)
        content = None if content_of is None else content_of(value)
        return NotImplemented if content is None else (str, (type(value).__name__,), content)


def _list_content(values: list[Any]) -> tuple[Any, ...] | None:
    """Return a column of strings, the usual data, in two parts instead of n."""
    if len(values) < 8 or not set(map(type, values)) <= {str, type(None)}:
        return None
    sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
    strings = "".join(value for value in values if value is not None)
    return sizes.tobytes(), strings.encode("utf-8", "surrogatepass")


def _set_content(values: Any) -> tuple[Any, ...]:
    return tuple(sorted(_fingerprint(value) for value in values))


def _table_content(data: Any) -> tuple[Any, ...]:
    table = open_table(data)
    index = np.asarray(data.index) if hasattr(data, "iloc") else None  # a function can use that of pandas
    content: list[Any] = [type(data).__module__.split(".")[0], table.shape, index]
    for j, name in enumerate(table.columns):
        column = table[:, j]
        array = column.to_numpy() if column.dtype.is_numeric() and not column.null_count() else None
        is_plain = array is not None and array.dtype.kind in "iuf"
        content += [name, str(column.dtype), array if is_plain else column.to_list()]
    return tuple(content)


def _function_content(function: Any) -> tuple[Any, ...]:
    names = sorted(_names_in(function.__code__) & set(function.__globals__))
    return (
        function.__code__,
        function.__defaults__,
        function.__kwdefaults__,
        vars(function),
        [cell.cell_contents for cell in function.__closure__ or ()],
        {name: function.__globals__[name] for name in names},
    )


def _code_content(code: types.CodeType) -> tuple[Any, ...]:
    return (
        code.co_code,
        (code.co_argcount, code.co_kwonlyargcount, code.co_flags),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        getattr(code, "co_exceptiontable", b""),
        code.co_consts,
    )


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names that the code, or a function defined in it, may look up."""
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _class_content(kind: type) -> tuple[Any, ...]:
    """Return the bases and the members of a class of the user."""
    members = vars(kind)
    ignored = _IGNORED.union(members.get("_member_map_", ()))  # an enumeration has its members in this map
    kept = {
        name: members[name]
        for name in sorted(members)
        if name not in ignored and not isinstance(members[name], _SLOTS)
    }
    return kind.__bases__, kept


def _is_installed(module: str | None) -> bool:
    """Return whether code is part of Python or of an installed package, and is represented by its name."""
    if module is None or module == "__main__" or module not in sys.modules:
        return False
    if module.split(".")[0] == "flyingsquid":  # whose version is part of every fingerprint
        return True
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or any(Path(file).is_relative_to(directory) for directory in _INSTALLED)


# Content of values that cannot be pickled, or whose pickled form is not determined by their content.
_CONTENTS: dict[type, Callable[[Any], tuple[Any, ...] | None]] = {
    list: _list_content,
    set: _set_content,
    frozenset: _set_content,
    LabelingFunction: lambda v: (v.function, sorted(v.resources.items()), v.vectorized, v.pre),
    types.CodeType: _code_content,
    staticmethod: lambda v: (v.__func__,),
    classmethod: lambda v: (v.__func__,),
    property: lambda v: (v.fget, v.fset, v.fdel),
    functools.cached_property: lambda v: (v.func,),
    types.MappingProxyType: lambda v: (dict(v),),
    types.ModuleType: lambda v: (v.__name__, getattr(v, "__version__", "")),
}
