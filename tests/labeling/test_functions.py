"""The decorator and labeling functions as objects."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError

decorate: Any = fs.labeling_function  # called with invalid arguments below
apply: Any = fs.apply


@fs.labeling_function
def bare(x):
    """Says one."""
    return 1


@fs.labeling_function("named", {"word": "spam"})
def with_resources(x, word):
    return word in x


def test_a_decorated_function_keeps_its_name_docstring_and_resources():
    assert (bare.name, bare.__doc__, bare("x")) == ("bare", "Says one.", 1)
    assert fs.labeling_function(lambda x: x.text)({"text": "a"}) == "a"
    assert with_resources.name == "named"
    assert dict(with_resources.resources) == {"word": "spam"}
    assert with_resources("no spam") is True
    assert repr(with_resources) == "LabelingFunction('named', resources word)"


@pytest.mark.parametrize("decorate", [fs.labeling_function, fs.labeling_function()])
def test_parentheses_are_optional(decorate):
    assert decorate(len).name == "len"


def test_a_labeling_function_cannot_change():
    with pytest.raises(AttributeError, match="`name`"):
        bare.name = "other"
    with pytest.raises(TypeError):
        with_resources.resources["word"] = "ham"


def test_a_function_of_a_module_is_pickled_by_name():
    assert pickle.loads(pickle.dumps(bare)) is bare
    assert copy.deepcopy(bare) is bare


def test_a_rule_is_pickled_by_value():
    made = fs.labeling.keywords("spam", 1)
    again = pickle.loads(pickle.dumps(made))
    assert again.name == made.name
    assert again("some spam") == 1


@pytest.mark.parametrize(
    ("call", "parameter"),
    [
        (lambda: decorate(3), "name"),
        (lambda: fs.labeling_function(name="")(len), "name"),
        (lambda: decorate(resources=[1])(len), "resources"),
        (lambda: decorate(resources={1: 2})(len), "resources"),
        (lambda: decorate()(3), "function"),
        (lambda: apply(bare, ["x"]), "lfs"),
        (lambda: apply("bare", ["x"]), "lfs"),
        (lambda: apply([], ["x"]), "lfs"),
        (lambda: apply([bare, 3], ["x"]), r"lfs\[1\]"),
        (lambda: apply([bare, bare], ["x"]), "lfs"),
    ],
)
def test_invalid_labeling_functions_are_refused(call, parameter):
    with pytest.raises(OptionError, match=f"`{parameter}` must"):
        call()
