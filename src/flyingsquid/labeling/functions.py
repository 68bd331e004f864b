"""Labeling functions: named functions that vote on an item."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, overload

from flyingsquid._values import can_be_iterated, format_value, option_error
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling.items import Draft, Record, Row


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
