"""Structure of sources: patterns, mappings, tables and arrays; it follows the sources of the votes."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import VotesError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = ("gpt|given", "gpt|swapped", "rule")


@pytest.fixture
def votes() -> fs.Votes:
    return fs.Votes.from_classes([[0, 0, 1], [1, 0, -1], [1, 1, 1]], names=NAMES)


@pytest.mark.parametrize(
    ("layout", "name", "expected"),
    [
        ("{judge}|{order}", "gpt|swap", fs.SourceInfo("gpt", "swap")),
        ("{judge}|{order}", "gpt", fs.SourceInfo("gpt")),
        ("{judge}|{order}", "a|b|swap", fs.SourceInfo("a|b", "swap")),
        ("{judge}@{repeat}", "gpt@12", fs.SourceInfo("gpt", repeat=12)),
        ("{judge}@{repeat}", "gpt@first", fs.SourceInfo("gpt", repeat="first")),
        ("{judge}|{order}@{repeat}", "gpt|swap@2", fs.SourceInfo("gpt", "swap", 2)),
        ("{judge}|{order}@{repeat}", "gpt|swap", fs.SourceInfo("gpt", "swap")),
        ("{model}/{prompt}|{order}", "m/p|1", fs.SourceInfo(model="m", prompt="p", order="1")),
        ("judge {judge}, order {order}!", "judge a, order b!", fs.SourceInfo("a", "b")),
        ("{judge} [{order}]", "a.* [b]", fs.SourceInfo("a.*", "b")),
    ],
)
def test_a_pattern_reads_the_names(layout, name, expected):
    votes = fs.Votes.from_classes([[0, 1], [1, 1]], names=[name, "other"])
    one = votes.of_sources([0])
    assert one.with_structure(layout).structure.sources == (expected,)


@pytest.mark.parametrize(
    "layout", ["judge", "{x}", "{judge}{order}", "{order}", "{judge}|{judge}", "{judge", "{judge!r}", "{}"]
)
def test_patterns_that_are_refused(votes, layout):
    with pytest.raises(VotesError, match="layout"):
        votes.with_structure(layout)


def test_names_that_do_not_match_are_refused(votes):
    with pytest.raises(VotesError, match="given"):
        votes.with_structure("{judge}|{order}!")


@pytest.mark.parametrize(
    "layout",
    [
        5,
        ["a", "b"],
        ["a", "b", 3],
        ["a", "b", {"judge": "c"}],
        dict.fromkeys(NAMES, "gpt"),
    ],
)
def test_other_layouts_that_are_refused(votes, layout):
    with pytest.raises(VotesError):
        votes.with_structure(layout)


@pytest.mark.parametrize("fields", [{"order": 1}, {"judge": 3}, {"judge": "a", "order": 0.5}])
def test_sources_that_cannot_be_described(fields):
    with pytest.raises(VotesError):
        fs.SourceInfo(**fields)


def test_names_are_needed_for_patterns():
    plain = fs.Votes.from_classes([[0, 1], [1, 1]])
    with pytest.raises(VotesError, match="layout"):
        plain.with_structure("{judge}|{order}")
    assert plain.with_structure(["a", "b"]).structure.judges == ("a", "b")


def test_all_layouts_mean_the_same(votes):
    infos = [fs.SourceInfo("gpt", "given"), fs.SourceInfo("gpt", "swapped"), fs.SourceInfo("rule")]
    expected = votes.with_structure("{judge}|{order}").structure
    for layout in (infos, [*infos[:2], "rule"], expected):
        found = votes.with_structure(layout).structure
        assert found == expected
        assert hash(found) == hash(expected)
    assert votes.with_structure("{judge}|{order}").with_structure(None).structure is None


def test_the_structure_follows_the_sources(votes):
    read = votes.with_structure("{judge}|{order}")
    assert read[1:].structure == read.structure
    assert read[:, ["rule", "gpt|given"]].structure.judges == ("rule", "gpt")
    assert read.to_dense().structure == read.structure
    assert read.distinct().votes.structure == read.structure
    assert read.fill_abstains(0).structure == read.structure
    reordered = read.matched_to((0, 1), ("rule", "gpt|swapped", "gpt|given"))
    assert [source.name for source in reordered.structure] == ["rule", "gpt|swapped", "gpt|given"]
    assert read.matched_to((1, 0), NAMES).structure == read.structure


def test_sources_that_are_added_are_judges_by_themselves():
    votes = fs.Votes.from_long(["x", "x", "y"], ["a|0", "a|1", "a|0"], [0, 1, 1]).with_structure(
        "{judge}|{order}"
    )
    wider = votes.with_all_sources(("a|0", "a|1", "b"))
    assert wider.structure.judges == ("a", "b")


def test_a_structure_of_another_length_is_refused(votes):
    structure = votes.with_structure("{judge}|{order}").structure
    with pytest.raises(VotesError, match="structure"):
        fs.Votes(votes.codes[:, :2], votes.classes, NAMES[:2], structure=structure)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame])
def test_a_table_of_calls(table):
    calls = table(
        {
            "item": [1, 1, 1, 2, 2, 2],
            "model": ["m", "m", "n"] * 2,
            "prompt": ["p", "p", "q"] * 2,
            "order": [0, 1, 0] * 2,
            "label": ["x", "y", "x", "x", "x", None],
        }
    )
    votes = fs.Votes.from_panel(calls)
    assert votes.names == ("m/p|0", "m/p|1", "n/q|0")
    assert votes.structure.judges == ("m/p", "n/q")
    assert votes.structure[1] == fs.SourceInfo("m/p", 1, prompt="p", model="m")
    assert votes.to_numpy().tolist() == [["x", "y", "x"], ["x", "x", None]]
    assert votes.items.tolist() == [1, 2]


def test_a_table_without_judges_is_refused():
    with pytest.raises(VotesError, match="judge"):
        fs.Votes.from_panel(pd.DataFrame({"item": [1], "who": ["a"], "label": [0]}))
    with pytest.raises(VotesError, match="judges"):
        fs.Votes.from_panel(pd.DataFrame({"item": [1], "judge": ["a"], "label": [0]}), judges=["a"])


def test_an_array_of_answers():
    answers = np.arange(2 * 3 * 2 * 2).reshape(2, 3, 2, 2) % 2
    votes = fs.Votes.from_panel(answers, judges=["a", "b", "c"], orders=["given", "swapped"])
    assert votes.shape == (2, 12)
    assert votes.structure[5] == fs.SourceInfo("b", "given", 1)
    np.testing.assert_array_equal(votes.codes, answers.reshape(2, 12))
    assert fs.Votes.from_panel(answers[:, :, 0, 0], classes=[0, 1]).structure.has_replicates is False


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        ((4,), {}),
        ((2, 2, 2, 2, 2), {}),
        ((0, 2, 2), {}),
        ((2, 2, 2), {"judges": ["a"]}),
        ((2, 2, 2), {"judges": ["a", "a"]}),
        ((2, 2, 2), {"orders": "ab"}),
        ((2, 2, 2), {"orders": [0.5, 1.5]}),
        ((2, 2), {"orders": ["given"]}),
    ],
)
def test_arrays_that_are_refused(shape, options):
    with pytest.raises(VotesError):
        fs.Votes.from_panel(np.zeros(shape, int), classes=[0, 1], **options)


def test_pairs_of_orders_and_of_repeats():
    structure = fs.Votes.from_panel(np.zeros((1, 2, 2, 2), int), classes=[0, 1]).structure
    first, second = structure.pairs(swapped=True)
    assert list(zip(first, second, strict=True)) == [(0, 2), (1, 3), (4, 6), (5, 7)]
    first, second = structure.pairs(swapped=False)
    assert list(zip(first, second, strict=True)) == [(0, 1), (2, 3), (4, 5), (6, 7)]


def test_families_are_judges_of_one_model():
    layout = [*(fs.SourceInfo(model="m", prompt=prompt) for prompt in "pq"), "m", "other"]
    structure = fs.Votes.from_classes([[0, 1, 0, 1]]).with_structure(layout).structure
    assert structure.families().tolist() == [0, 0, 1, 2]


def test_a_layout_that_matches_no_replicates_is_refused():
    votes = fs.Votes.from_classes([[0, 1, 1]], names=["a|given", "a|swapped", "b"])
    assert votes.with_structure("{judge}|{order}").structure.has_replicates
    with pytest.raises(VotesError, match=r"layout.*'a|given'.*repeat"):
        votes.with_structure("{judge}@{repeat}")


def test_a_table_with_repeated_calls_asks_for_the_columns_that_distinguish_them():
    calls = pd.DataFrame({"item": [1, 1, 2], "judge": "a", "position": [1, 2, 1], "label": [0, 1, 1]})
    with pytest.raises(VotesError, match=r"several answers of 'a' on item 1.*'order'.*'position'"):
        fs.Votes.from_panel(calls)
    assert fs.Votes.from_panel(calls.rename(columns={"position": "order"})).names == ("a|1", "a|2")
