"""Cache of votes on disk, with one file per labeling function and dataset.

File names contain fingerprints of the function and of the data. A fingerprint is a SHA-256 hash of everything
that a value consists of: types, sizes and contents. Values that cannot be inspected completely are not
cached, because a fingerprint that misses a change would return outdated votes.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._values import format_value
from flyingsquid._version import __version__
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.labeling.columns import Column
from flyingsquid.labeling.functions import LabelingFunction
from flyingsquid.labeling.items import Record, is_sliceable, open_table
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
        raise OptionError(f"`cache` must be the path of a directory; got {format_value(cache)}.") from error
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
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_CONTAINERS = (list, tuple, dict, set, frozenset)
# Attributes of classes that do not affect votes: storage of instances and bookkeeping of the compiler.
_IGNORED = {
    "__annotate__", "__annotate_func__", "__annotations__", "__annotations_cache__",
    "__dict__", "__doc__", "__firstlineno__", "__static_attributes__", "__weakref__", "_abc_impl",
}  # fmt: skip
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class FingerprintError(Exception):
    """Raised if a value cannot be inspected completely. :func:`open_cache` catches it."""


def fingerprint_function(function: LabelingFunction) -> str:
    """Return a fingerprint of the code of a function, its closure, the globals it uses and its resources."""
    # The same bytecode has another meaning in other versions of Python, and rules in other versions of ours.
    return _fingerprint(f"{sys.version_info[:2]} flyingsquid {__version__}", function)


def fingerprint_data(data: Any) -> str:
    """Return a fingerprint of a table or a list: names, types and values, in order."""
    return _fingerprint("data", data)


def _fingerprint(kind: str, value: Any) -> str:
    hasher = _Hasher()
    hasher.add("fingerprint", kind)
    try:
        hasher.write(value)
    except RecursionError as error:
        raise FingerprintError("it is nested too deeply") from error
    return hasher.digest()


class _Hasher:
    """Write values into a hash, each with its type and size, so that different values differ."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._open: set[int] = set()
        self._seen: dict[int, tuple[str, Any]] = {}  # functions and classes, which refer to each other

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]

    def add(self, kind: str, data: bytes | str) -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self._hash.update(f"{kind} {len(raw)}:".encode())
        self._hash.update(raw)

    def write(self, value: Any) -> None:
        if type(value) in _PLAIN:
            text = hex(value) if type(value) is int else repr(value)  # repr raises for long integers
            self.add(type(value).__qualname__, value if isinstance(value, (str, bytes)) else text)
            return
        if isinstance(value, (types.FunctionType, type)):
            if id(value) in self._seen:
                self.add("seen", self._seen[id(value)][0])
                return
            self._seen[id(value)] = str(len(self._seen)), value
        if id(value) in self._open:  # such as a list that contains itself
            self.add("again", "")
            return
        self._open.add(id(value))
        try:
            writer = next((write for kinds, write in _WRITERS if isinstance(value, kinds)), None)
            (writer or (_write_table if is_frame(value) else _write_object))(self, value)
        finally:
            self._open.discard(id(value))

    def write_unordered(self, kind: str, values: list[Any]) -> None:
        """Write values whose order has no meaning, sorted by their hashes."""
        digests = []
        for value in values:
            part = _Hasher()
            part._open, part._seen = self._open, dict(self._seen)
            part.write(value)
            digests.append(part.digest())
        self.add(kind, "".join(sorted(digests)))


def _write_type(hasher: _Hasher, value: Any) -> None:
    """Write the class of a value, and attributes that it has in addition to its content."""
    hasher.write(type(value))
    if type(value) not in _CONTAINERS:  # which have no attributes
        hasher.write(_attributes(value))


def _attributes(value: Any) -> dict[str, Any]:
    found = dict(getattr(value, "__dict__", None) or {})
    slots = (name for base in type(value).__mro__ for name in _slot_names(base) if hasattr(value, name))
    found.update((name, getattr(value, name)) for name in slots)
    return {name: found[name] for name in sorted(found)}


def _slot_names(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in slots if name not in ("__dict__", "__weakref__"))


def _write_sequence(hasher: _Hasher, values: Any) -> None:
    _write_type(hasher, values)
    hasher.add("size", str(len(values)))
    if len(values) >= 8 and set(map(type, values)) <= {str, type(None)}:
        # A column of strings, the usual data, in two steps instead of n.
        sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
        hasher.add("sizes", sizes.tobytes())
        hasher.add("strings", "".join(value for value in values if value is not None))
        return
    for value in values:
        hasher.write(value)


def _write_mapping(hasher: _Hasher, values: Mapping[Any, Any]) -> None:
    """Write a mapping in its order, because a function may use the first entry that applies."""
    _write_type(hasher, values)
    hasher.write(getattr(values, "default_factory", None))
    hasher.add("size", str(len(values)))
    for name, value in values.items():
        hasher.write(name)
        hasher.write(value)


def _write_set(hasher: _Hasher, values: Any) -> None:
    _write_type(hasher, values)
    hasher.write_unordered("set", list(values))


def _write_derived(hasher: _Hasher, value: Any) -> None:
    """Write a number or a string whose class is a subclass of the built-in one."""
    _write_type(hasher, value)
    base: Any = next(kind for kind in type(value).__mro__ if kind in _PLAIN)
    hasher.write(hex(value) if base is int else base.__repr__(value))


def _write_array(hasher: _Hasher, array: Any) -> None:
    if type(array) is np.ma.MaskedArray:
        _write_array(hasher, np.ma.getmaskarray(array))
        array = array.filled()
    hasher.add("array", f"{array.dtype.str} {array.shape}")
    if array.dtype.hasobject:
        _write_sequence(hasher, array.ravel().tolist())
    else:
        hasher.add("data", np.ascontiguousarray(array).tobytes())


def _write_table(hasher: _Hasher, data: Any) -> None:
    table = open_table(data)
    hasher.add("table", f"{type(data).__module__.split('.')[0]} {table.shape}")
    if hasattr(data, "iloc"):  # pandas, whose index a vectorized function can use
        _write_array(hasher, np.asarray(data.index))
    for j, name in enumerate(table.columns):
        column = table[:, j]
        hasher.write(name)
        hasher.add("type", str(column.dtype))
        array = column.to_numpy() if column.dtype.is_numeric() and not column.null_count() else None
        if array is not None and array.dtype.kind in "iuf":
            _write_array(hasher, array)
        else:
            _write_sequence(hasher, column.to_list())


def _write_labeling_function(hasher: _Hasher, function: LabelingFunction) -> None:
    hasher.add("labeling function", str(function.vectorized))
    hasher.write(function.function)
    hasher.write({name: function.resources[name] for name in sorted(function.resources)})
    for preprocess in function.pre:
        hasher.write(preprocess)


def _write_function(hasher: _Hasher, function: Any) -> None:
    hasher.add("function", f"{function.__module__} {function.__qualname__}")
    if _is_installed(function.__module__):
        return
    _write_code(hasher, function.__code__)
    hasher.write(function.__defaults__)
    hasher.write(function.__kwdefaults__)
    hasher.write(_attributes(function))
    for cell in function.__closure__ or ():
        hasher.write(cell.cell_contents)
    for name in sorted(_names_in(function.__code__)):
        if name in function.__globals__:
            hasher.add("global", name)
            hasher.write(function.__globals__[name])


def _write_code(hasher: _Hasher, code: types.CodeType) -> None:
    hasher.add("code", code.co_code)
    hasher.add("flags", f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}")
    hasher.write((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    hasher.add("exceptions", getattr(code, "co_exceptiontable", b""))
    hasher.write(code.co_consts)


def _names_in(code: types.CodeType) -> set[str]:
    """Return the names that the code, or a function defined in it, may look up."""
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _is_installed(module: str | None) -> bool:
    """Return whether code is part of Python or of an installed package, and is represented by its name."""
    if module is None or module == "__main__" or module not in sys.modules:
        return False
    if module.split(".")[0] == "flyingsquid":  # whose version is part of every fingerprint
        return True
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or any(Path(file).is_relative_to(directory) for directory in _INSTALLED)


def _write_builtin(hasher: _Hasher, function: Any) -> None:
    """Write a compiled function: its name, and the object it is bound to, as in ``[1, 2].__getitem__``."""
    hasher.add("builtin", str(function.__qualname__))
    hasher.write(function.__self__)


def _write_class(hasher: _Hasher, kind: type) -> None:
    """Write a class of the user: its metaclass, its bases and its members."""
    hasher.add("class", f"{kind.__module__} {kind.__qualname__}")
    if _is_installed(kind.__module__):
        return
    hasher.write(type(kind))
    hasher.write(kind.__bases__)
    members = vars(kind)
    ignored = _IGNORED.union(members.get("_member_map_", ()))  # an enumeration has its members in this map
    for name in sorted(members):
        if name not in ignored and not isinstance(members[name], _SLOTS):
            hasher.add("member", name)
            hasher.write(members[name])


def _write_object(hasher: _Hasher, value: Any) -> None:
    """Write an object by its attributes; if it has none, such as a date or a path, by its pickled form."""
    if hasattr(value, "__dict__") or _attributes(value):
        _write_type(hasher, value)
        return
    try:
        parts = value.__reduce_ex__(4)
    except Exception as error:
        raise FingerprintError(f"the content of a {type(value).__qualname__} is unknown: {error}") from error
    if isinstance(parts, str):
        hasher.add("named", f"{type(value).__module__} {parts}")
        return
    hasher.write(tuple(list(part) if isinstance(part, Iterator) else part for part in parts))


_WRITERS: tuple[tuple[Any, Callable[[_Hasher, Any], None]], ...] = (
    ((list, tuple), _write_sequence),
    (Record, lambda h, v: h.write(dict(v))),
    (Mapping, _write_mapping),
    ((set, frozenset), _write_set),
    (np.ndarray, _write_array),
    (np.generic, lambda h, v: _write_array(h, np.asarray(v))),
    (Enum, _write_type),
    (_PLAIN, _write_derived),
    (LabelingFunction, _write_labeling_function),
    (types.FunctionType, _write_function),
    (types.CodeType, _write_code),
    ((types.BuiltinFunctionType, types.MethodWrapperType), _write_builtin),
    (types.MethodType, lambda h, v: h.write((v.__func__, v.__self__))),
    (staticmethod, lambda h, v: h.write(("static", v.__func__))),
    (classmethod, lambda h, v: h.write(("class", v.__func__))),
    (property, lambda h, v: h.write(("property", v.fget, v.fset, v.fdel))),
    (functools.cached_property, lambda h, v: h.write(("cached", v.func))),
    (types.GenericAlias, lambda h, v: h.write(("alias", v.__origin__, v.__args__))),
    (types.UnionType, lambda h, v: h.write(("union", v.__args__))),
    (types.ModuleType, lambda h, v: h.add("module", f"{v.__name__} {getattr(v, '__version__', '')}")),
    (type, _write_class),
    (functools.partial, lambda h, v: h.write((v.func, v.args, v.keywords))),
    (re.Pattern, lambda h, v: h.write((v.pattern, v.flags))),
    (logging.Logger, lambda h, v: h.add("logger", v.name)),  # it refers to all loggers and affects no vote
    (np.random.Generator, lambda h, v: h.write(v.bit_generator.state)),
)  # fmt: skip
