"""Rules that every public function and method follows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid._values import read_random_state
from flyingsquid.exceptions import OptionError

NAMESPACES = ["analysis", "datasets", "judges", "labeling", "models", "plot"]
if find_spec("torch"):
    NAMESPACES.append("torch")


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return every public function, class and public method with its name."""
    for home in (fs, *(import_module(f"flyingsquid.{name}") for name in NAMESPACES)):
        for name in home.__all__:
            member = getattr(home, name)
            if inspect.isclass(member) and not issubclass(member, Exception):
                yield f"{home.__name__}.{name}", member
                for key, method in vars(member).items():
                    function = getattr(method, "__func__", method)
                    if not key.startswith("_") and inspect.isfunction(function):
                        yield f"{home.__name__}.{name}.{key}", function
            elif inspect.isfunction(member):
                yield f"{home.__name__}.{name}", member


CALLABLES = dict(public_callables())


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(CALLABLES[name]).parameters)


def test_randomness_is_random_state():
    wrong = []
    for name in CALLABLES:
        parameters = parameters_of(name)
        wrong += [f"{name}({key}=...)" for key in sorted({"rng", "seed", "generator"} & set(parameters))]
        if "random_state" in parameters and parameters["random_state"].default is not None:
            wrong.append(f"{name}(random_state={parameters['random_state'].default!r})")
    assert not wrong


def is_about_votes(name: str) -> bool:
    """Return whether a function or method reads votes together with a model or with gold labels."""
    names = set(parameters_of(name))
    return not inspect.isclass(CALLABLES[name]) and "votes" in names and bool({"model", "y"} & names)


def test_arguments_come_in_one_order():
    """``(model, votes, y=None, *, ...)``, or ``(votes, y=None, *, model=None, ...)`` if it is optional.

    Gold labels that an estimate is made of, rather than scored by, are ``gold``.
    """
    wrong = []
    for name in filter(is_about_votes, CALLABLES):
        parameters = parameters_of(name)
        is_method = parameters.pop("self", None) is not None
        needs_model = "model" in parameters and parameters["model"].default is inspect.Parameter.empty
        order = ["model", "votes", "y"] if needs_model else ["votes", "y"]
        expected = [key for key in order if key in parameters]
        required = [key for key in ("X", "gold", "n") if key in parameters]
        expected += [key for key in required if parameters[key].default is inspect.Parameter.empty]
        rest = list(parameters.values())[len(expected) :]
        is_ordered = list(parameters)[: len(expected)] == expected
        if not is_ordered or not (is_method or all(p.kind is p.KEYWORD_ONLY for p in rest)):
            wrong.append(f"{name}{inspect.signature(CALLABLES[name])}")
    assert not wrong


def test_an_integer_gives_the_same_numbers_and_a_generator_advances():
    assert read_random_state(3).random() == read_random_state(np.int64(3)).random()
    generator = np.random.default_rng(3)
    assert read_random_state(generator) is generator
    assert read_random_state(None).random() != read_random_state(None).random()


@pytest.mark.parametrize("wrong", ["0", 1.0, True, -1, np.random, np.timedelta64(3, "s")], ids=repr)
def test_anything_else_is_refused(wrong):
    with pytest.raises(OptionError, match="`random_state` must be"):
        read_random_state(wrong)


def test_chunks_draw_ties_from_one_generator():
    votes = np.tile([[0, 1]], (400, 1))
    model = fs.MajorityVote().fit(votes)
    whole = model.predict(votes, tie_break="random", random_state=1)
    chunks = fs.VoteChunks(np.split(votes, 4))
    parts = list(model.predict(chunks, tie_break="random", random_state=1))
    np.testing.assert_array_equal(np.concatenate(parts), whole)
