"""Items as a labeling function sees them: light, read-only views of tables and records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import narwhals.stable.v1 as nw

from flyingsquid._values import told
from flyingsquid.exceptions import LabelingError
from flyingsquid.votes.frames import is_frame, is_lazy

# Names that a column cannot take as an attribute: the methods of a row, and what it is made of.
_TAKEN = {"get", "keys", "_at", "_columns", "_data"}


class Row:
    """One item with named values: ``x.text`` and ``x["text"]`` are the same.

    ``x.get(name, default)``, ``name in x``, ``dict(x)``. It cannot be written to. Columns called ``get`` or
    ``keys`` are reached as items only.

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

    def keys(self) -> Sequence[Any]:
        """The names of the columns."""
        raise NotImplementedError

    def get(self, name: Any, default: Any = None) -> Any:
        """The value of a column, or ``default`` where there is no such column."""
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
        # Called where a name is no attribute. A half-made object, as copying has it, has no columns yet.
        if name in _TAKEN or name.startswith("__"):
            raise AttributeError(name)
        if name in self.keys():
            return self[name]
        raise AttributeError(f"no column {told(name)}; the row has {', '.join(map(str, self.keys()))}")

    def __repr__(self) -> str:
        return f"Row({', '.join(f'{name}={self[name]!r}' for name in self.keys())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (Row, Mapping)) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (dict(self),)


class Record(Row):
    """A row on top of a dict or another mapping."""

    __slots__ = ("_data",)

    def __init__(self, data: Mapping[Any, Any]) -> None:
        self._data = data

    def __getitem__(self, name: Any) -> Any:
        return self._data[name]

    def __getattr__(self, name: str) -> Any:
        # The quick way for what is asked most; Row tells what is wrong, and of names that are taken.
        if name != "_data" and name in self._data:
            return self._data[name]
        return super().__getattr__(name)

    def keys(self) -> Sequence[Any]:
        return list(self._data)


class _TableRow(Row):
    """A row of a table: a position in columns that are read when first asked for."""

    __slots__ = ("_at",)
    _columns: ClassVar[dict[Any, Callable[[], list[Any]]]] = {}

    def __init__(self, at: int) -> None:
        self._at = at

    def __getitem__(self, name: Any) -> Any:
        column = self._columns.get(name)
        if column is None:
            raise KeyError(f"no column {told(name)}; the row has {', '.join(map(str, self._columns))}")
        return column()[self._at]

    def keys(self) -> Sequence[Any]:
        return list(self._columns)


def rows_of(data: Any) -> list[Any]:
    """The items of a table or a sequence, as functions see them.

    Rows of a table and mappings become a :class:`Row`; other items stay what they are.
    """
    if is_frame(data):
        return _rows_of_table(data)
    return [Record(item) if isinstance(item, Mapping) else item for item in data]


def column_of(data: Any, name: str | None) -> list[Any]:
    """One column of a table, or one field of each item, as Python values; of ``None``, the items."""
    if is_frame(data):
        table = open_table(data)
        name = "text" if name is None else name
        if name not in table.columns:
            raise LabelingError(f"no column {told(name)}; the table has {', '.join(map(str, table.columns))}")
        return list(table[name].to_list())
    return [_field(item, name, at) for at, item in enumerate(data)]


def open_table(data: Any) -> Any:
    """A table through narwhals, column names unique."""
    if is_lazy(data):
        raise LabelingError("a lazy table is not read yet; pass frame.collect()")
    try:
        table = nw.from_native(data, eager_only=True)
        names = list(table.columns)
    except (nw.exceptions.NarwhalsError, ValueError) as error:
        raise LabelingError(f"the table cannot be read: {error}") from error
    if len(set(names)) < len(names):
        raise LabelingError(f"column names must differ; the table has {', '.join(map(str, names))}")
    return table


def _field(item: Any, name: str | None, at: int) -> Any:
    if name is None and isinstance(item, str):
        return item
    name = "text" if name is None else name
    try:
        return item[name] if isinstance(item, (Mapping, Row)) else getattr(item, name)
    except (KeyError, AttributeError) as error:
        raise LabelingError(f"row {at} has no {told(name)}: {error}") from error


def _rows_of_table(data: Any) -> list[Any]:
    table = open_table(data)
    columns = {name: _read_once(table[:, j]) for j, name in enumerate(table.columns)}
    # A class for each table: a property in a class is several times quicker to look up than __getattr__.
    members: dict[str, Any] = {"__slots__": (), "_columns": columns}
    for name, read in columns.items():
        if isinstance(name, str) and not name.startswith("__") and name not in _TAKEN:
            members[name] = property(_getter(read))
    kind = type("Row", (_TableRow,), members)
    return list(map(kind, range(len(table))))


def _read_once(column: Any) -> Callable[[], list[Any]]:
    """Converts a column to Python values when first called: most functions look at few columns."""
    values: list[Any] | None = None

    def read() -> list[Any]:
        nonlocal values
        if values is None:
            values = column.to_list()
        return values

    return read


def _getter(read: Callable[[], list[Any]]) -> Callable[[Any], Any]:
    values: list[Any] | None = None

    def get(row: Any) -> Any:
        nonlocal values
        if values is None:
            values = read()
        return values[row._at]

    return get
