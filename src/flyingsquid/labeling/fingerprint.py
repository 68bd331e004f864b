"""Marks of functions and of data that change when those do.

A mark is a SHA-256 of what a value is made of, written down in one way: types, sizes, contents. What cannot
be written down so is refused, for a mark that misses a change is worse than none.
"""

from __future__ import annotations

import functools
import hashlib
import logging
import re
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from flyingsquid._version import __version__
from flyingsquid.labeling.functions import LabelingFunction
from flyingsquid.labeling.rows import Record, open_table
from flyingsquid.votes.frames import is_frame

_INSTALLED = tuple(
    Path(path) for name, path in sysconfig.get_paths().items() if name.endswith(("lib", "stdlib"))
)

_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...))
_CONTAINERS = (list, tuple, dict, set, frozenset)
# Attributes of classes that say nothing: how instances are stored, and what the compiler notes.
_SILENT = {"__dict__", "__weakref__", "__annotations__", "__annotate__", "__firstlineno__", "_abc_impl"}
_SILENT |= {"__annotations_cache__", "__annotate_func__", "__static_attributes__", "__doc__"}
_SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)


class CannotMarkError(Exception):
    """A value has no mark. Never leaves the package."""


def mark_of_function(function: LabelingFunction) -> str:
    """A mark of the code of a function, what it closes over, the globals it names, and its resources."""
    # The same bytes mean other things to another interpreter, and to other versions of the makers.
    return _mark(f"{sys.version_info[:2]} flyingsquid {__version__}", function)


def mark_of_data(data: Any) -> str:
    """A mark of a table or a list: names, types and values, in order."""
    return _mark("data", data)


def _mark(what: str, value: Any) -> str:
    mark = _Mark()
    mark.add("mark", what)
    try:
        mark.write(value)
    except RecursionError as error:
        raise CannotMarkError("what it holds is nested too deeply") from error
    return mark.digest()


class _Mark:
    """Writes values into a hash, each with its type and size, so that no two values read the same."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._open: set[int] = set()
        self._known: dict[int, tuple[str, Any]] = {}  # functions and classes, which lead to each other

    def digest(self) -> str:
        return self._hash.hexdigest()[:32]

    def add(self, kind: str, data: bytes | str) -> None:
        raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
        self._hash.update(f"{kind} {len(raw)}:".encode())
        self._hash.update(raw)

    def write(self, value: Any) -> None:
        if type(value) in _PLAIN:
            self.add(type(value).__qualname__, value if isinstance(value, (str, bytes)) else repr(value))
            return
        if isinstance(value, (types.FunctionType, type)):
            if id(value) in self._known:
                self.add("known", self._known[id(value)][0])
                return
            self._known[id(value)] = str(len(self._known)), value
        if id(value) in self._open:  # a list that holds itself
            self.add("again", "")
            return
        self._open.add(id(value))
        try:
            self._write_compound(value)
        finally:
            self._open.discard(id(value))

    def _write_compound(self, value: Any) -> None:
        for kinds, write in _WRITERS:
            if isinstance(value, kinds):
                write(self, value)
                return
        if is_frame(value):
            _write_table(self, value)
        else:
            _write_object(self, value)

    def unordered(self, kind: str, values: list[Any]) -> None:
        """Values whose order means nothing: by their own marks."""
        marks = []
        for value in values:
            part = _Mark()
            part._open, part._known = self._open, dict(self._known)
            part.write(value)
            marks.append(part.digest())
        self.add(kind, "".join(sorted(marks)))


def _write_sequence(mark: _Mark, values: Any) -> None:
    _write_kind(mark, values)
    mark.add("size", str(len(values)))
    if not _write_texts(mark, values):
        for value in values:
            mark.write(value)


def _write_mapping(mark: _Mark, values: Mapping[Any, Any]) -> None:
    """In its order: a function may take the first that fits."""
    _write_kind(mark, values)
    mark.write(getattr(values, "default_factory", None))
    mark.add("size", str(len(values)))
    for name, value in values.items():
        mark.write(name)
        mark.write(value)


def _write_set(mark: _Mark, values: Any) -> None:
    _write_kind(mark, values)
    mark.unordered("set", list(values))


def _write_derived(mark: _Mark, value: Any) -> None:
    """A number or a text of a class of its own."""
    _write_kind(mark, value)
    base: Any = next(kind for kind in type(value).__mro__ if kind in _PLAIN)
    mark.write(base.__repr__(value))


def _write_kind(mark: _Mark, value: Any) -> None:
    """What a value is beside what it contains: its class, and attributes that it was given."""
    mark.write(type(value))
    if type(value) not in _CONTAINERS:  # which have none
        mark.write(_attributes(value))


def _attributes(value: Any) -> dict[str, Any]:
    held = dict(getattr(value, "__dict__", None) or {})
    slots = (name for base in type(value).__mro__ for name in _slots_of(base) if hasattr(value, name))
    held.update((name, getattr(value, name)) for name in slots)
    return {name: held[name] for name in sorted(held)}  # whose order means nothing


def _write_texts(mark: _Mark, values: Any) -> bool:
    """A list of texts and None in two pieces instead of n: the usual case, and a long one."""
    if len(values) < 8 or not set(map(type, values)) <= {str, type(None)}:
        return False
    sizes = np.array([-1 if value is None else len(value) for value in values], "<i8")
    mark.add("sizes", sizes.tobytes())
    mark.add("texts", "".join(value for value in values if value is not None))
    return True


def _write_array(mark: _Mark, array: Any) -> None:
    if type(array) is np.ma.MaskedArray:
        _write_array(mark, np.ma.getmaskarray(array))
        array = array.filled()
    mark.add("array", f"{array.dtype.str} {array.shape}")
    if array.dtype.hasobject:
        _write_sequence(mark, array.ravel().tolist())
    else:
        mark.add("data", np.ascontiguousarray(array).tobytes())


def _write_table(mark: _Mark, data: Any) -> None:
    table = open_table(data)
    mark.add("table", f"{type(data).__module__.split('.')[0]} {table.shape}")
    if hasattr(data, "iloc"):  # pandas, whose index a vectorised function can see
        _write_array(mark, np.asarray(data.index))
    for j, name in enumerate(table.columns):
        column = table[:, j]
        mark.write(name)
        mark.add("type", str(column.dtype))
        plain = column.dtype.is_numeric() and not column.null_count()
        array = column.to_numpy() if plain else None
        if array is not None and array.dtype.kind in "iuf":
            _write_array(mark, array)
        else:
            _write_sequence(mark, column.to_list())


def _write_function(mark: _Mark, function: Any) -> None:
    mark.add("function", f"{function.__module__} {function.__qualname__}")
    if _is_installed(function.__module__):
        return
    _write_code(mark, function.__code__)
    mark.write(function.__defaults__)
    mark.write(function.__kwdefaults__)
    mark.write(_attributes(function))
    for cell in function.__closure__ or ():
        mark.write(cell.cell_contents)
    for name in sorted(_names_in(function.__code__)):
        if name in function.__globals__:
            mark.add("global", name)
            mark.write(function.__globals__[name])


def _is_installed(module: str | None) -> bool:
    """Whether code comes with Python or was installed: it goes by its name then, for it leads anywhere."""
    if module is None or module == "__main__" or module not in sys.modules:
        return False
    if module.split(".")[0] == "flyingsquid":  # whose version is in every mark
        return True
    file = getattr(sys.modules[module], "__file__", None)
    return file is None or any(Path(file).is_relative_to(place) for place in _INSTALLED)


def _names_in(code: types.CodeType) -> set[str]:
    """Names that the code, or functions inside it, may look up."""
    inner = [_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType)]
    return set(code.co_names).union(*inner)


def _write_code(mark: _Mark, code: types.CodeType) -> None:
    mark.add("code", code.co_code)
    mark.add("flags", f"{code.co_argcount} {code.co_kwonlyargcount} {code.co_flags}")
    mark.write((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    mark.add("exceptions", getattr(code, "co_exceptiontable", b""))
    mark.write(code.co_consts)


def _write_builtin(mark: _Mark, function: Any) -> None:
    """A function of compiled code by its name, and by what it is bound to: a list's own ``__getitem__``."""
    mark.add("builtin", str(function.__qualname__))
    mark.write(function.__self__)


def _write_labeling_function(mark: _Mark, function: LabelingFunction) -> None:
    mark.add("labeling function", str(function.vectorized))
    mark.write(function.function)
    mark.write({name: function.resources[name] for name in sorted(function.resources)})


def _write_class(mark: _Mark, kind: type) -> None:
    """A class of the user by all that its instances find in it, its bases and its own class included."""
    mark.add("class", f"{kind.__module__} {kind.__qualname__}")
    if _is_installed(kind.__module__):
        return
    mark.write(type(kind))
    mark.write(kind.__bases__)
    members = vars(kind)
    # Members of an enumeration are in its map already, in their order.
    silent = _SILENT.union(members.get("_member_map_", ()))
    for name in sorted(members):
        if name not in silent and not isinstance(members[name], _SLOTS):
            mark.add("member", name)
            mark.write(members[name])


def _write_object(mark: _Mark, value: Any) -> None:
    """An object by its class and its attributes."""
    attributes = _attributes(value)
    if not attributes and not hasattr(value, "__dict__"):
        _write_reduced(mark, value)
        return
    _write_kind(mark, value)


def _write_reduced(mark: _Mark, value: Any) -> None:
    """An object of compiled code by what it would be copied from: dates, paths, trees of scikit-learn."""
    try:
        parts = value.__reduce_ex__(4)
    except Exception as error:
        raise CannotMarkError(f"a {type(value).__qualname__} does not tell what it holds: {error}") from error
    if isinstance(parts, str):
        mark.add("named", f"{type(value).__module__} {parts}")
        return
    mark.write(tuple(list(part) if isinstance(part, Iterator) else part for part in parts))


def _slots_of(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    slots = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in slots if name not in ("__dict__", "__weakref__"))


_WRITERS: tuple[tuple[Any, Callable[[_Mark, Any], None]], ...] = (
    ((list, tuple), _write_sequence),
    (Record, lambda m, v: m.write(dict(v))),
    (Mapping, _write_mapping),
    ((set, frozenset), _write_set),
    (np.ndarray, _write_array),
    (np.generic, lambda m, v: _write_array(m, np.asarray(v))),
    (Enum, _write_kind),
    (_PLAIN, _write_derived),
    (LabelingFunction, _write_labeling_function),
    (types.FunctionType, _write_function),
    (types.CodeType, _write_code),
    (types.BuiltinFunctionType, _write_builtin),
    (types.MethodWrapperType, _write_builtin),
    (types.MethodType, lambda m, v: m.write((v.__func__, v.__self__))),
    (staticmethod, lambda m, v: m.write(("static", v.__func__))),
    (classmethod, lambda m, v: m.write(("class", v.__func__))),
    (property, lambda m, v: m.write(("property", v.fget, v.fset, v.fdel))),
    (functools.cached_property, lambda m, v: m.write(("cached", v.func))),
    (types.GenericAlias, lambda m, v: m.write(("alias", v.__origin__, v.__args__))),
    (types.UnionType, lambda m, v: m.write(("union", v.__args__))),
    (types.ModuleType, lambda m, v: m.add("module", f"{v.__name__} {getattr(v, '__version__', '')}")),
    (type, _write_class),
    (functools.partial, lambda m, v: m.write((v.func, v.args, v.keywords))),
    (re.Pattern, lambda m, v: m.write((v.pattern, v.flags))),
    (logging.Logger, lambda m, v: m.add("logger", v.name)),  # which leads to all others, and says no votes
    (np.random.Generator, lambda m, v: m.write(v.bit_generator.state)),
)  # fmt: skip
