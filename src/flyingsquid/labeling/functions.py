"""The labeling function: a rule with a name."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, overload

from flyingsquid._values import can_be_iterated, told
from flyingsquid.exceptions import OptionError
from flyingsquid.labeling.rows import Record


class LabelingFunction:
    """A rule that looks at one item and says a class, or nothing. Made by :func:`labeling_function`.

    Attributes
    ----------
    name : str
        The name of its column of votes.
    function : callable
        What was decorated.
    resources : mapping
        What the function gets as keyword arguments beside the item.
    vectorized : bool
        Whether it takes the whole table and returns a column.
    """

    __qualname__: str
    name: str
    function: Callable[..., Any]
    resources: Mapping[str, Any]
    vectorized: bool

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        resources: Mapping[str, Any] | None = None,
        vectorized: bool = False,
    ) -> None:
        if not callable(function):
            raise OptionError(f"{told(function)} cannot be called; a labeling function is made of a function")
        name = getattr(function, "__name__", type(function).__name__) if name is None else name
        if not isinstance(name, str) or not name:
            raise OptionError(f"name={told(name)} is no name; pass a text")
        if resources is not None and not isinstance(resources, Mapping):
            raise OptionError(
                f"resources={told(resources)} of {told(name)} is no mapping from argument to value"
            )
        if not all(isinstance(key, str) for key in resources or ()):
            raise OptionError(
                f"resources of {told(name)} must be named by texts: they become keyword arguments"
            )
        # Sets __doc__, __module__ and __qualname__, so that help() shows the function.
        functools.update_wrapper(self, function, updated=())
        self.__dict__.update(
            name=name,
            function=function,
            resources=MappingProxyType(dict(resources or {})),
            vectorized=bool(vectorized),
        )

    def __setattr__(self, attribute: str, value: object) -> None:
        if attribute in ("name", "function", "resources", "vectorized"):
            raise AttributeError(f"{attribute} of a labeling function cannot change; make another one")
        super().__setattr__(attribute, value)

    def __call__(self, x: Any) -> Any:
        """What the function says about one item, unchecked; of a vectorised one, about a table.

        A dict is seen as :func:`fs.apply` shows it, with attributes.
        """
        if isinstance(x, Mapping) and not self.vectorized:
            x = Record(x)
        return self.function(x, **self.resources)

    @property
    def bound(self) -> Callable[[Any], Any]:
        """The function with its resources, to be called with an item alone."""
        return functools.partial(self.function, **self.resources) if self.resources else self.function

    def __repr__(self) -> str:
        resources = f", resources {', '.join(self.resources)}" if self.resources else ""
        return f"LabelingFunction({self.name!r}{', vectorized' if self.vectorized else ''}{resources})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        # By name where a worker can import it: the decorated function itself stands under no name. What is
        # defined in __main__ no other process can import, so it goes by value, which cloudpickle can do.
        if self.__module__ != "__main__" and stands_under_its_name(self):
            return str(self.__qualname__)
        return LabelingFunction, (self.function, self.name, dict(self.resources), self.vectorized)


def stands_under_its_name(function: LabelingFunction) -> bool:
    """Whether importing the module of a function gives this very object."""
    at: Any = sys.modules.get(str(getattr(function, "__module__", None)))
    for part in str(getattr(function, "__qualname__", "<none>")).split("."):
        at = getattr(at, part, None)
    return at is function


@overload
def labeling_function(
    name: str | None = None, resources: Mapping[str, Any] | None = None, *, vectorized: bool = False
) -> Callable[[Callable[..., Any]], LabelingFunction]: ...


@overload
def labeling_function(name: Callable[..., Any]) -> LabelingFunction: ...


def labeling_function(
    name: str | Callable[..., Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    *,
    vectorized: bool = False,
) -> LabelingFunction | Callable[[Callable[..., Any]], LabelingFunction]:
    """Make a function a labeling function. Works with and without parentheses.

    The function gets one item and returns its class: an integer, a text or a boolean. None and
    ``fs.ABSTAIN`` mean no vote. Anything else is an error when it is applied.

    Parameters
    ----------
    name : str, optional
        Default: the name of the function.
    resources : mapping, optional
        Passed to every call as keyword arguments: word lists, models, whatever is loaded once. Workers get
        them once each.
    vectorized : bool
        The function takes the whole table (or list) and returns one value a row; there NaN means no vote
        too, as columns have no None.

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
    """
    if name is not None and not isinstance(name, str):
        if callable(name):
            return LabelingFunction(name)
        raise OptionError(f"name={told(name)} is no name; pass a text")
    return functools.partial(LabelingFunction, name=name, resources=resources, vectorized=vectorized)


def read_functions(functions: Any) -> tuple[LabelingFunction, ...]:
    """The labeling functions that a user passed; plain functions go under their own names."""
    if isinstance(functions, LabelingFunction) or (
        callable(functions) and not isinstance(functions, Iterable)
    ):
        raise OptionError("labeling functions come in a list; put this one in brackets")
    if isinstance(functions, str) or not can_be_iterated(functions):
        raise OptionError(f"{told(functions)} is no list of labeling functions")
    made = []
    for at, function in enumerate(functions):
        if not callable(function):
            raise OptionError(f"labeling function {at} is {told(function)}, which cannot be called")
        made.append(function if isinstance(function, LabelingFunction) else LabelingFunction(function))
    if not made:
        raise OptionError("there are no labeling functions; at least one is needed")
    names = [function.name for function in made]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise OptionError(
            f"two labeling functions are called {told(twice[0])}; names tell votes apart, so pass name= to "
            "one"
        )
    return tuple(made)
