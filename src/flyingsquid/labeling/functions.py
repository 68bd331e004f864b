"""Labeling functions: named functions that vote on an item, and the items that they receive."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, ClassVar, overload

import narwhals.stable.v1 as nw
import numpy as np

from flyingsquid._registry import reader_of
from flyingsquid._values import can_be_iterated, format_value, is_null, option_error
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.votes.frames import is_frame, is_lazy

# Columns with these names cannot be read as attributes: they are methods and fields of a row.
_RESERVED = {"get", "keys", "_position", "_columns", "_data"}


class Row:
    """Item with named values, which are both attributes and keys: ``x.text`` is ``x["text"]``.

    Rows are read-only, except in preprocessors. ``x.get(name, default)``, ``name in x`` and ``dict(x)`` work
    as for a dict. Columns named ``get`` or ``keys`` can only be read by key.

    Examples
    --------
    >>> x = Record({"text": "hello", "stars": 5})
    >>> x.text, x["stars"], x.get("likes", 0), "stars" in x
    ('hello', 5, 0, True)
    >>> x.title
    Traceback (most recent call last):
        ...
    AttributeError: no column 'title'; the row has text, stars
    """

    __slots__ = ()

    def __getitem__(self, name: Any) -> Any:
        raise NotImplementedError

    def keys(self) -> Collection[Any]:
        """Return the names of the columns."""
        raise NotImplementedError

    def get(self, name: Any, default: Any = None) -> Any:
        """Return the value of a column, or ``default`` if there is no such column."""
        try:
            return self[name]
        except KeyError:
            return default

    def __contains__(self, name: Any) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __getattr__(self, name: str) -> Any:
        # Reserved names get here only while an object is being copied and has no fields yet.
        if name in _RESERVED or name.startswith("__"):
            raise AttributeError(name)
        if name in self:
            return self[name]
        raise AttributeError(
            f"no column {format_value(name)}; the row has {', '.join(map(str, self.keys()))}"
        )

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={self[name]!r}' for name in self.keys())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Row, Mapping)) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self),)


class Record(Row):
    """View of a dict or another mapping."""

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[Any, Any]) -> None:
        self._data = data

    def __getitem__(self, name: Any) -> Any:
        return self._data[name]

    def keys(self) -> Collection[Any]:
        return self._data.keys()


class Draft(Record):
    """Row that can be changed: ``x.length = 3``, for preprocessors."""

    __slots__ = ()
    _data: dict[Any, Any]

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_data":
            object.__setattr__(self, name, value)
        else:
            self._data[name] = value

    def __setitem__(self, name: Any, value: Any) -> None:
        self._data[name] = value


class _TableRow(Row):
    """View of one row of a table, whose columns are converted when they are first read."""

    __slots__ = ("_position",)
    _columns: ClassVar[dict[Any, Callable[[], list[Any]]]] = {}

    def __init__(self, position: int) -> None:
        self._position = position

    def __getitem__(self, name: Any) -> Any:
        if name not in self._columns:
            raise KeyError(
                f"no column {format_value(name)}; the row has {', '.join(map(str, self._columns))}"
            )
        return self._columns[name]()[self._position]

    def keys(self) -> Collection[Any]:
        return self._columns.keys()


def list_items(data: Any) -> list[Any]:
    """Return the items of a table or a sequence; rows and mappings become a :class:`Row`."""
    if is_frame(data):
        return _list_rows(data)
    return [Record(item) if isinstance(item, Mapping) else item for item in data]


def _list_rows(data: Any) -> list[Any]:
    table = open_table(data)
    columns = {name: functools.cache(table[:, j].to_list) for j, name in enumerate(table.columns)}
    # Properties of a class made for this table are several times faster than __getattr__.
    members: dict[str, Any] = {"__slots__": (), "_columns": columns}
    for name, read in columns.items():
        if isinstance(name, str) and not name.startswith("__") and name not in _RESERVED:
            members[name] = property(_getter(read))
    return list(map(type("Row", (_TableRow,), members), range(len(table))))


def _getter(read: Callable[[], list[Any]]) -> Callable[[Any], Any]:
    return lambda row: read()[row._position]


def list_values(data: Any, name: str | None) -> list[Any]:
    """Return one column of a table, or one field of each item, as Python values.

    The default of ``name`` is the column ``"text"``, or the items themselves if they are strings.
    """
    if is_frame(data):
        name = "text" if name is None else name
        return list(open_table(data, [name])[name].to_list())
    return [_read_field(item, name, at) for at, item in enumerate(data)]


def _read_field(item: Any, name: str | None, at: int) -> Any:
    if name is None and (isinstance(item, str) or is_null(item)):
        return item
    name = "text" if name is None else name
    try:
        return item[name] if isinstance(item, (Mapping, Row)) else getattr(item, name)
    except (KeyError, AttributeError) as error:
        raise LabelingError(f"item {at} has no {format_value(name)}: {error}") from error


def open_table(data: Any, columns: Sequence[str] = ()) -> Any:
    """Return a table as a narwhals frame, after checking that it has these columns and unique names."""
    if is_lazy(data):
        raise LabelingError("`data` must not be a lazy table; pass frame.collect().")
    try:
        table = nw.from_native(data, eager_only=True)
        names = list(table.columns)
    except (nw.exceptions.NarwhalsError, ValueError) as error:
        raise LabelingError(f"`data` cannot be read: {error}") from error
    present = ", ".join(map(str, names))
    if len(set(names)) < len(names):
        raise LabelingError(f"`data` must have unique column names; got {present}.")
    for name in columns:
        if name not in names:
            raise LabelingError(f"no column {format_value(name)}; the table has {present}.")
    return table


# ---------------------------------------------------------------------- data and its chunks


def check_data(data: Any) -> Any:
    """Return the data in a form that :func:`iter_chunks` supports, or raise an error."""
    if is_frame(data) or is_lazy(data):
        open_table(data)
    elif not isinstance(data, (list, tuple)) and reader_of(data) is not None:
        raise LabelingError(
            f"`data` must be in memory; got a {type(data).__name__} on a cluster. Use fs.apply, which labels "
            "Dask and Spark dataframes in place."
        )
    elif isinstance(data, (str, bytes, Mapping)) or not can_be_iterated(data):
        raise LabelingError(
            f"`data` must be a table or an iterable of items; got a value of type {type(data).__name__}."
        )
    elif hasattr(data, "to_pylist"):  # a pyarrow array, whose items are pyarrow scalars
        return data.to_pylist()
    return data


def is_sliceable(data: Any) -> bool:
    """Return whether data can be sliced, and therefore read twice; other iterables are read once.

    This lists the types whose slices contain items, because a slice of another container may be something
    else, such as a dict of columns.
    """
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    known = isinstance(data, (list, tuple, range))
    return known or is_frame(data) or bool(nw.dependencies.is_into_series(data))


def iter_chunks(data: Any, size: int) -> Iterator[tuple[int, Any]]:
    """Yield consecutive chunks of the data, each with the position of its first item."""
    if is_sliceable(data):
        for start in range(0, len(data), size):
            yield start, _slice(data, start, start + size)
        return
    remaining, start = iter(data), 0
    while chunk := list(islice(remaining, size)):
        yield start, chunk
        start += len(chunk)


def _slice(data: Any, start: int, stop: int) -> Any:
    if hasattr(data, "iloc"):  # pandas, where data[start:stop] may select by index label
        return data.iloc[start:stop]
    if hasattr(data, "column_names") and hasattr(data, "slice"):  # pyarrow: slice(offset, length)
        return data.slice(start, stop - start)
    return data[start:stop]


# ---------------------------------------------------------------------- functions


class LabelingFunction:
    """Named function that returns a class for an item, or abstains.

    Use the decorator :func:`labeling_function` to create one. It is immutable.

    Attributes
    ----------
    name : str
        Name of the source in the votes.
    function : callable
        The decorated function.
    resources : mapping
        Keyword arguments that the function receives in addition to the item.
    vectorized : bool
        Whether the function takes the whole table, or list, and returns a column.
    pre : tuple of callables
        Preprocessors, which are called on the item before the function.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> @fs.labeling_function(resources={"limit": 3})
    ... def long(text, limit):
    ...     return 1 if len(text) > limit else None
    >>> long.name, dict(long.resources), long("spam")
    ('long', {'limit': 3}, 1)
    """

    __qualname__: str
    name: str
    function: Callable[..., Any]
    resources: Mapping[str, Any]
    vectorized: bool
    pre: tuple[Callable[[Any], Any], ...]

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        resources: Mapping[str, Any] | None = None,
        vectorized: bool = False,
        pre: Callable[[Any], Any] | Iterable[Callable[[Any], Any]] = (),
    ) -> None:
        if not callable(function):
            raise option_error("function", "callable", function)
        name = getattr(function, "__name__", type(function).__name__) if name is None else name
        if not isinstance(name, str) or not name:
            raise option_error("name", "a non-empty string", name)
        resources = {} if resources is None else resources
        if not isinstance(resources, Mapping) or not all(isinstance(key, str) for key in resources):
            raise option_error("resources", "a mapping from argument names to values", resources)
        steps = _read_preprocessors(pre)
        if steps and vectorized:
            raise OptionError("`pre` must be empty for vectorized functions, which receive the whole table.")
        # Copies __doc__, __module__ and __qualname__, so that help() shows the function.
        functools.update_wrapper(self, function, updated=())
        self.__dict__.update(
            name=name,
            function=function,
            resources=MappingProxyType(dict(resources)),
            vectorized=bool(vectorized),
            pre=steps,
        )

    def __setattr__(self, attribute: str, value: object) -> None:
        if attribute in ("name", "function", "resources", "vectorized", "pre"):
            raise AttributeError(f"`{attribute}` of a labeling function is read-only; create another one.")
        super().__setattr__(attribute, value)

    def __call__(self, x: Any) -> Any:
        """Call the function on one item, or on a table if it is vectorized, without checking the result.

        A dict is passed as a :class:`~flyingsquid.labeling.Row`, as ``fs.apply`` does.
        """
        if isinstance(x, Mapping) and not self.vectorized:
            x = Record(x)
        for preprocess in self.pre:
            x = preprocess_item(preprocess, x)
        return self.function(x, **self.resources)

    @property
    def bound(self) -> Callable[[Any], Any]:
        """The function with its resources, to be called with a preprocessed item only."""
        return functools.partial(self.function, **self.resources) if self.resources else self.function

    def __repr__(self) -> str:
        resources = f", resources {', '.join(self.resources)}" if self.resources else ""
        return f"LabelingFunction({self.name!r}{', vectorized' if self.vectorized else ''}{resources})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # Pickle by name if a worker can import it, because the module has no name for the undecorated
        # function. Other processes cannot import from __main__; there cloudpickle copies the function.
        if self.__module__ != "__main__" and is_importable(self):
            return str(self.__qualname__)
        return LabelingFunction, (
            self.function,
            self.name,
            dict(self.resources),
            self.vectorized,
            self.pre,
        )


def _read_preprocessors(pre: Any) -> tuple[Callable[[Any], Any], ...]:
    steps = (pre,) if callable(pre) else tuple(pre) if can_be_iterated(pre) else (None,)
    if isinstance(pre, str) or not all(callable(step) for step in steps):
        raise option_error("pre", "a function of an item, or a list of them", pre)
    return steps


def preprocess_item(preprocess: Callable[[Any], Any], x: Any) -> Any:
    """Apply a preprocessor to an item; a row is copied first, so the preprocessor may change it."""
    found = preprocess(Draft(dict(x)) if isinstance(x, Row) else x)
    if found is None:
        raise TypeError("a preprocessor must return the item; got None")
    return Record(found) if isinstance(found, Mapping) else found


def is_importable(function: LabelingFunction) -> bool:
    """Return whether the qualified name of a function refers to the same object."""
    found: Any = sys.modules.get(str(getattr(function, "__module__", None)))
    for part in str(getattr(function, "__qualname__", "<none>")).split("."):
        found = getattr(found, part, None)
    return found is function


@overload
def labeling_function(
    name: str | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    vectorized: bool = False,
    pre: Callable[[Any], Any] | Iterable[Callable[[Any], Any]] = (),
) -> Callable[[Callable[..., Any]], LabelingFunction]: ...


@overload
def labeling_function(name: Callable[..., Any]) -> LabelingFunction: ...


def labeling_function(
    name: str | Callable[..., Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    vectorized: bool = False,
    pre: Callable[[Any], Any] | Iterable[Callable[[Any], Any]] = (),
) -> LabelingFunction | Callable[[Callable[..., Any]], LabelingFunction]:
    """Decorate a function as a labeling function. Works with and without parentheses.

    The function takes one item and returns its class: an integer, a string or a boolean. It returns None or
    ``fs.ABSTAIN`` to abstain. Any other value is an error when the function is applied.

    Parameters
    ----------
    name : str, optional
        Default: the name of the function.
    resources : mapping, optional
        Keyword arguments for every call, such as word lists or models that are loaded once. Each worker
        receives them once.
    vectorized : bool, default=False
        Whether the function takes the whole table (or list) and returns one value per item. In such a column
        NaN is an abstention too.
    pre : callable or list of callables, optional
        Preprocessors: functions that take the item and return it with more in it, such as a parse of its
        text. Each is called once per item, however many labeling functions share it.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> @fs.labeling_function(resources={"words": {"subscribe", "channel"}})
    ... def begs(x, words):
    ...     return 1 if words & set(x["text"].split()) else fs.ABSTAIN
    >>> begs
    LabelingFunction('begs', resources words)
    >>> begs({"text": "subscribe now"})
    1
    >>> fs.apply([begs], [{"text": "my channel"}, {"text": "great song"}]).codes.tolist()
    [[1], [-1]]

    With a preprocessor:

    >>> def count_words(x):
    ...     x.n_words = len(x.text.split())
    ...     return x
    >>> @fs.labeling_function(pre=count_words)
    ... def short(x):
    ...     return 0 if x.n_words < 5 else None
    >>> short({"text": "great song"})
    0
    """
    if callable(name):
        return LabelingFunction(name)
    if name is not None and not isinstance(name, str):
        raise option_error("name", "a non-empty string", name)
    return functools.partial(
        LabelingFunction, name=name, resources=resources, vectorized=vectorized, pre=_read_preprocessors(pre)
    )


def read_functions(lfs: Any) -> tuple[LabelingFunction, ...]:
    """Return labeling functions as a tuple; plain functions are used under their own names."""
    single = callable(lfs) and not isinstance(lfs, Iterable)
    if single or isinstance(lfs, str) or not can_be_iterated(lfs):
        raise option_error("lfs", "a list of labeling functions", lfs)
    functions = []
    for at, function in enumerate(lfs):
        if not callable(function):
            raise OptionError(f"`lfs[{at}]` must be callable; got {format_value(function)}.")
        functions.append(function if isinstance(function, LabelingFunction) else LabelingFunction(function))
    if not functions:
        raise OptionError("`lfs` must contain at least one labeling function; got none.")
    names = [function.name for function in functions]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise OptionError(
            f"`lfs` must have unique names; got {format_value(repeated[0])} twice. Pass `name` to "
            "fs.labeling_function."
        )
    return tuple(functions)
