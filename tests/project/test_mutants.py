"""The mutation tool: which code it changes, which it leaves, and that a test fails."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.mutants.sites import ROOT, change, sample, sites

SOURCE = '''
LIMIT: Literal[3] = 5

@cached(size=7)
def mean(values: tuple[int, 2], shift=1) -> list[9]:
    """No 1 + 1 in here."""
    if len(values) < 4:
        raise ValueError(f"{len(values) + 1} of 6")
    total = 0
    for value in values:
        total += value
    return total / len(values) - shift
'''


def changes(source: str) -> list[tuple[str, str]]:
    found = []
    for number in range(len(list(sites(ast.parse(source))))):
        tree = ast.parse(source)
        node, kind, _ = list(sites(tree))[number]
        before = ast.unparse(node).split("\n")[0]
        change(node, kind)
        found.append((before, ast.unparse(node).split("\n")[0]))
    return found


def test_calculations_are_changed_and_types_decorators_and_words_are_not():
    assert changes(SOURCE) == [
        ("5", "6"),
        ("1", "2"),
        ("if len(values) < 4:", "if not len(values) < 4:"),
        ("len(values) < 4", "len(values) <= 4"),
        ("4", "5"),
        ("0", "1"),
        ("total += value", "total += 0"),
        ("return total / len(values) - shift", "return None"),
        ("total / len(values) - shift", "total / len(values) + shift"),
        ("total / len(values)", "total * len(values)"),
    ]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-x", "--x"),
        ("~x", "~~x"),
        ("x & y", "x | y"),
        ("x ** 2", "x * 2"),
        ("x is y", "x is not y"),
        ("x in y", "x not in y"),
        ("True", "False"),
        ("x and y", "x or y"),
        ("x if y else z", "x if not y else z"),
        ("x == y", "x != y"),
    ],
)
def test_each_kind_of_change(before, after):
    assert changes(before)[0] == (before, after)


def test_lines_that_a_test_must_execute():
    reach = {ast.unparse(node): lines for node, _, lines in sites(ast.parse(SOURCE))}
    inside = (6, 7, 8, 9, 10, 11, 12)
    assert reach["5"] == inside  # any test of the file
    assert reach["1"] == inside  # any test of the function
    assert reach["4"] == (7,)  # its own line, not what the condition leads to
    assert reach["total += value"] == (11,)


@pytest.mark.slow
def test_a_sample_is_the_same_again_and_compiles():
    drawn = sample(20, seed=3)
    assert drawn == sample(20, seed=3)
    assert drawn[:5] == sample(5, seed=3)
    assert drawn != sample(20, seed=4)
    for mutant in drawn:
        tree = mutant.tree()
        assert ast.dump(tree) != ast.dump(ast.parse(mutant.file.read_text("utf-8")))
        compile(tree, str(mutant.file), "exec")


JUDGED = """
import ast
from tests.mutants.judge import judge, prepare
from tests.mutants.sites import ROOT, mutant_at, sites

prepare()

doctest = "src/flyingsquid/estimation/confusion.py::flyingsquid.estimation.confusion.split_views"
far = "tests/models/test_many_classes.py::test_views_see_all_classes"
seconds = {doctest: 0.1, far: 0.1}
file = ROOT / "src/flyingsquid/estimation/confusion.py"
found = [mutant_at(file, n, *place) for n, place in enumerate(sites(ast.parse(file.read_text("utf-8"))))]
wrong = [m for m in found if m.before.startswith("return [")][-1]
harmless = next(m for m in found if m.before == "12")  # digits to round to
print(judge(None, [doctest, far], seconds))
print(judge(harmless, [doctest, far], seconds))
print(judge(wrong, [doctest, far], seconds) == ("killed", doctest))
print(judge(wrong, [far], seconds) == ("killed", far))
print(judge(wrong, [], seconds))
"""


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants are judged in forked processes")
def test_a_mutant_is_killed_by_doctests_and_by_tests_and_nothing_dies_without_one():
    environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", JUDGED]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [*["('survived', '')"] * 2, "True", "True", "('not reached', '')"]
