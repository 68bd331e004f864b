"""Dependency graphs: separation, triangulation and junction trees compared with networkx, and errors."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flyingsquid import DependencyGraph
from flyingsquid.exceptions import GraphError
from flyingsquid.graph.junction import JunctionTree, adjacency, eliminate, junction_tree, narrowest


@st.composite
def edge_lists(draw, most=10):
    """(number of nodes, edges without repeats)."""
    n = draw(st.integers(1, most))
    pairs = [(a, b) for a in range(n) for b in range(a + 1, n)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    return n, chosen


@st.composite
def graphs(draw):
    """Small graphs of any shape: sources in any order, edges within tasks, cliques small enough."""
    n_tasks, task_edges = draw(edge_lists(5))
    extra = draw(st.lists(st.integers(0, n_tasks - 1), max_size=6))
    source_task = draw(st.permutations([*range(n_tasks), *extra]))
    m = len(source_task)
    pairs = [(a, b) for a in range(m) for b in range(a + 1, m) if source_task[a] == source_task[b]]
    # Four edges make no clique of five, whatever is filled in.
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=4)) if pairs else []
    return DependencyGraph(m, n_tasks, source_task=source_task, task_edges=task_edges, source_edges=chosen)


def nx_of(nx, n, edges):
    graph = nx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges)
    return graph


def filled(nx, elimination):
    n = len(elimination.order)
    return nx_of(nx, n, [(v, u) for v in range(n) for u in elimination.later[v]])


def grid_edges(height, width):
    across = [(r * width + c, r * width + c + 1) for r in range(height) for c in range(width - 1)]
    return across + [(t, t + width) for t in range((height - 1) * width)]


def check_junction_tree(tree: JunctionTree, variables: set[int]) -> None:
    """Parents first, separators as stated, and the cliques that hold a variable are connected."""
    assert {v for clique in tree.cliques for v in clique} == variables
    tops = dict.fromkeys(variables, 0)
    for number, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        assert list(clique) == sorted(set(clique))
        assert -1 <= parent < number
        shared = set(clique) & set(tree.cliques[parent]) if parent >= 0 else set()
        assert tree.separators[number] == tuple(sorted(shared))
        assert (parent == -1) == (not shared)
        for v in set(clique) - shared:
            tops[v] += 1  # the topmost clique of a connected set is its only one whose parent lacks v
    assert set(tops.values()) == {1}


# ---------------------------------------------------------------------- triangulation, junction trees


@pytest.mark.extra
@given(edge_lists())
def test_triangulation_and_cliques_agree_with_networkx(drawn):
    nx = pytest.importorskip("networkx")
    n, edges = drawn
    near = adjacency(edges, n)
    original = nx_of(nx, n, edges)
    for elimination in (eliminate(near), narrowest(near)):
        assert sorted(elimination.order) == list(range(n))
        whole = filled(nx, elimination)
        assert set(map(frozenset, original.edges)) <= set(map(frozenset, whole.edges))
        assert nx.is_chordal(whole)
        if nx.is_chordal(original):
            assert whole.number_of_edges() == len(edges)
    tree = junction_tree(near)
    check_junction_tree(tree, set(range(n)))
    expected = sorted(tuple(sorted(clique)) for clique in nx.find_cliques(whole))
    assert sorted(tree.cliques) == expected
    assert tree.parents.count(-1) == nx.number_connected_components(original)


@given(edge_lists(9))
def test_kept_counts_of_missing_edges_choose_as_recounting_does(drawn):
    n, edges = drawn
    near = [set(neighbors) for neighbors in adjacency(edges, n)]
    left, order = set(range(n)), []
    while left:

        def score(v):
            missing = sum(b not in near[a] for a in near[v] for b in near[v] if a < b)
            return missing, len(near[v]), v

        v = min(left, key=score)
        for a in near[v]:
            near[a] |= near[v] - {a}
            near[a].discard(v)
        left.discard(v)
        order.append(v)
    assert eliminate(adjacency(edges, n)).order == tuple(order)


@pytest.mark.parametrize("height", range(1, 13))
@pytest.mark.parametrize("longer", [0, 1, 5])
def test_a_grid_is_as_wide_as_its_shorter_side(height, longer):
    for h, w in {(height, height + longer), (height + longer, height)}:
        expected = min(h, w) if h * w > 1 else 0
        assert junction_tree(adjacency(grid_edges(h, w), h * w)).width == expected


def test_known_widths():
    def width(n, edges):
        return junction_tree(adjacency(edges, n)).width

    assert width(1, []) == width(5, []) == 0
    assert width(9, [(v, v + 1) for v in range(8)]) == 1
    assert width(9, [(v, (v + 1) % 9) for v in range(9)]) == 2
    assert width(6, [(a, b) for a in range(6) for b in range(a)]) == 5
    assert junction_tree([]).width == -1


def test_long_chains_stars_and_cycles_need_no_recursion():
    n = 10_000
    for edges, width in (
        ([(v, v + 1) for v in range(n - 1)], 1),
        ([(0, v) for v in range(1, n)], 1),
        ([(v, (v + 1) % n) for v in range(n)], 2),
    ):
        tree = junction_tree(adjacency(edges, n))
        assert tree.width == width
        check_junction_tree(tree, set(range(n)))


# ---------------------------------------------------------------------- groups, units, separation


@pytest.mark.extra
@given(graphs())
def test_groups_units_and_separation_agree_with_networkx(graph):
    nx = pytest.importorskip("networkx")
    truths = [("Y", task) for task in range(graph.n_tasks)]
    whole = nx.Graph()
    whole.add_nodes_from([*truths, *range(graph.n_sources)])
    whole.add_edges_from(((truths[a], truths[b]) for a, b in graph.task_edges))
    whole.add_edges_from((truths[task], source) for source, task in enumerate(graph.source_task))
    whole.add_edges_from(graph.source_edges)
    for task, truth in enumerate(truths):
        rest = whole.subgraph(set(whole) - {truth})
        parts = graph._separated_by(task)
        assert parts.shape == (graph.n_sources,)
        assert sorted(set(parts.tolist())) == list(range(parts.max() + 1))
        assert same_partition(parts, nx.connected_components(rest))
        assert graph.neighbors(task) == tuple(sorted(t for kind, t in filter_truths(whole[truth])))
    sources = nx_of(nx, graph.n_sources, graph.source_edges)
    assert same_partition(graph._groups, nx.connected_components(sources))
    dependent = [part for part in nx.connected_components(sources) if len(part) > 1]
    assert [{s for clique in unit.cliques for s in clique} for unit in graph._units] == sorted(
        dependent, key=min
    )
    for unit, part in zip(graph._units, sorted(dependent, key=min), strict=True):
        check_junction_tree(unit, part)
        assert all(any({a, b} <= set(c) for c in unit.cliques) for a, b in sources.subgraph(part).edges)
    check_junction_tree(graph._task_tree, set(range(graph.n_tasks)))


def filter_truths(nodes):
    return [node for node in nodes if isinstance(node, tuple)]


def same_partition(numbers, parts):
    sources = [sorted(node for node in part if isinstance(node, int)) for part in parts]
    found = [np.flatnonzero(numbers == number).tolist() for number in range(numbers.max() + 1)]
    return sorted(found) == sorted(part for part in sources if part)


@given(graphs())
def test_groups_are_numbered_by_their_lowest_source(graph):
    firsts = [int(np.flatnonzero(graph._groups == g)[0]) for g in range(graph._groups.max() + 1)]
    assert firsts == sorted(firsts)


@given(graphs())
def test_every_source_is_on_the_task_that_lists_it(graph):
    listed = {source: task for task in range(graph.n_tasks) for source in graph.sources_of(task)}
    assert tuple(listed[source] for source in range(graph.n_sources)) == graph.source_task
    assert all(list(graph.sources_of(t)) == sorted(graph.sources_of(t)) for t in range(graph.n_tasks))


def test_a_square_of_sources_is_triangulated():
    (unit,) = DependencyGraph(6, source_edges=[(1, 2), (2, 4), (4, 5), (1, 5)])._units
    assert unit.cliques == ((2, 4, 5), (1, 2, 5))
    assert unit.separators == ((), (2, 5))


def test_cached_arrays_cannot_be_written():
    graph = DependencyGraph(3, source_edges=[(0, 1)])
    with pytest.raises(ValueError, match="read-only"):
        graph._groups[0] = 7
    graph._separated_by(0)[0] = 7  # fresh each time, so it belongs to the caller
    assert graph._separated_by(0).tolist() == [0, 0, 1]


# ---------------------------------------------------------------------- construction


def test_edges_are_normalized():
    graph = DependencyGraph(
        np.int64(6), 3, task_edges=np.array([[2, 1], [1, 0]]), source_edges={frozenset((1, 0)), (5, 4)}
    )
    assert graph.task_edges == ((0, 1), (1, 2))
    assert graph.source_edges == ((0, 1), (4, 5))
    assert graph.source_task == (0, 0, 1, 1, 2, 2)
    assert {type(v) for v in (graph.n_sources, *graph.source_task, *graph.task_edges[0])} == {int}


def test_source_task_may_be_an_array_in_any_order():
    graph = DependencyGraph(4, 2, source_task=np.array([1, 0, 1, 0]))
    assert graph.sources_of(1) == (0, 2)
    assert graph.stacked_shape is None


def test_chain():
    graph = DependencyGraph.chain(3, 2, source_edges=[(1, 0)])
    assert graph == DependencyGraph(6, 3, task_edges=[(0, 1), (1, 2)], source_edges=[(0, 1), (2, 3), (4, 5)])
    assert graph.stacked_shape == (3, 2)
    assert graph.neighbors(1) == (0, 2)
    assert DependencyGraph.chain(1, 4) == DependencyGraph(4)


@pytest.mark.parametrize("counts", [[2, 1, 3], (2, 1, 3), np.array([2, 1, 3]), (c for c in [2, 1, 3])])
def test_chain_of_uneven_tasks_takes_edges_between_positions_among_all_sources(counts):
    graph = DependencyGraph.chain(3, counts, source_edges=[(3, 5)])
    assert graph.source_task == (0, 0, 1, 2, 2, 2)
    assert graph.source_edges == ((3, 5),)
    assert graph.stacked_shape is None


def test_grid():
    graph = DependencyGraph.grid(2, 3, 2)
    assert graph.task_edges == tuple(sorted(grid_edges(2, 3)))
    assert graph.stacked_shape == (6, 2)
    assert graph._task_tree.width == 2
    assert DependencyGraph.grid(1, 1, 3) == DependencyGraph(3)
    assert DependencyGraph.grid(12, 30, 1)._task_tree.width == 12


def test_trivial_means_one_task_and_no_edges():
    assert DependencyGraph(5).is_trivial
    assert DependencyGraph(5).stacked_shape == (1, 5)
    assert not DependencyGraph(5, source_edges=[(0, 1)]).is_trivial
    assert not DependencyGraph(4, 2).is_trivial


def test_disconnected_tasks_are_independent():
    graph = DependencyGraph(6, 3, task_edges=[(0, 1)])
    assert graph._task_tree.parents.count(-1) == 2
    assert graph._separated_by(0).tolist() == [2, 3, 0, 0, 1, 1]


@pytest.mark.slow
def test_a_chain_of_ten_thousand_tasks():
    graph = DependencyGraph.chain(10_000, 3, source_edges=[(0, 1)])
    assert (graph._task_tree.width, len(graph._units)) == (1, 10_000)
    parts = graph._separated_by(5_000)
    assert parts.max() == 3  # before, after, the pair, the third source
    ElementTree.fromstring(graph.to_svg())
    assert len(graph.describe().splitlines()) < 30


# ---------------------------------------------------------------------- refusals


def clique(*sources):
    return [(a, b) for k, a in enumerate(sources) for b in sources[k + 1 :]]


def random_edges(n, count):
    ends = np.random.default_rng(0).integers(0, n, (count, 2))
    return sorted({(int(min(pair)), int(max(pair))) for pair in ends if pair[0] != pair[1]})


Wrong: Any = DependencyGraph  # what is passed here has the wrong type on purpose
BAD = {
    "no source": (lambda: Wrong(0), r"`n_sources` must be .*>= 1; got 0"),
    "negative tasks": (lambda: Wrong(3, -1), r"`n_tasks` .*>= 1; got -1"),
    "float size": (lambda: Wrong(3.0), r"`n_sources` .*>= 1; got 3\.0"),
    "bool size": (lambda: Wrong(True), r"`n_sources` .*>= 1; got True"),
    "text size": (lambda: Wrong("3"), r"`n_sources` .*>= 1; got '3'"),
    "more tasks than sources": (lambda: Wrong(1, 2), r"`n_tasks` .*\(1\).*got 2"),
    "uneven": (lambda: Wrong(5, 2), r"`n_sources` .*\(2\); got 5\. Pass `source_task`"),
    "source_task short": (
        lambda: Wrong(3, 2, source_task=[0, 1]), r"`source_task` .*\(3\); got 2"),
    "source_task beyond": (
        lambda: Wrong(2, 2, source_task=[0, 2]),
        r"`source_task\[1\]` .*0 to 1; got 2"),
    "source_task negative": (
        lambda: Wrong(2, source_task=[0, -1]), r"`source_task\[1\]` .*task, 0; got -1"),
    "source_task float": (lambda: Wrong(2, source_task=[0, 0.0]), r"`source_task\[1\]` .*got 0\.0"),
    "source_task bool": (lambda: Wrong(2, 2, source_task=[True, False]), r"`source_task\[0\]` .*got True"),
    "source_task texts": (lambda: Wrong(2, source_task=["0", "0"]), r"`source_task\[0\]` .*got '0'"),
    "source_task text": (lambda: Wrong(2, source_task="00"), r"`source_task` .*list.*got '00'"),
    "source_task set": (lambda: Wrong(2, 2, source_task={0, 1}), r"`source_task` .*list.*got {0, 1}"),
    "source_task number": (lambda: Wrong(1, source_task=0), r"`source_task` .*list.*got 0"),
    "source_task scalar": (lambda: Wrong(1, source_task=np.array(0)), r"`source_task` .*list"),
    "two tasks": (
        lambda: Wrong(3, 2, source_task=[0, 1, (0, 1)]),
        r"`source_task\[2\]` .*single task; got \(0, 1\).*two columns"),
    "empty task": (
        lambda: Wrong(3, 3, source_task=[0, 0, 2]), r"`source_task` .*on task 1\."),
    "empty tasks": (
        lambda: Wrong(9, 9, source_task=[0] * 9),
        r"`source_task` .*tasks 1 to 8"),
    "across tasks": (
        lambda: Wrong(4, 2, source_edges=[(3, 1)]),
        r"`source_edges` .*sources 1 and 3 vote on tasks 0 and 1"),
    "loop": (lambda: Wrong(3, source_edges=[(1, 1)]), r"`source_edges\[0\]` .*different sources"),
    "duplicate": (
        lambda: Wrong(3, source_edges=[(0, 1), (0, 1)]), r"source_edges\[1\] repeats source_edges\[0\]"),
    "reversed": (
        lambda: Wrong(2, 2, task_edges=[(0, 1), (1, 0)]),
        r"task_edges\[1\] repeats task_edges\[0\].*tasks 0 and 1"),
    "edge beyond": (
        lambda: Wrong(3, source_edges=[(0, 1), (1, 3)]),
        r"`source_edges\[1\]\[1\]` .*0 to 2; got 3"),
    "edge negative": (lambda: Wrong(3, source_edges=[(-1, 1)]), r"`source_edges\[0\]\[0\]` .*got -1"),
    "edge bool": (lambda: Wrong(3, source_edges=[(True, 2)]), r"`source_edges\[0\]\[0\]` .*got True"),
    "edge numpy bool": (lambda: Wrong(3, source_edges=[(np.True_, 2)]), r"`source_edges\[0\]\[0\]` .*True"),
    "edge float": (lambda: Wrong(2, 2, task_edges=[(0, 1.0)]), r"`task_edges\[0\]\[1\]` .*task.*got 1\.0"),
    "edge array of floats": (
        lambda: Wrong(3, source_edges=np.array([[0.0, 1.0]])), r"`source_edges\[0\]\[0\]` .*source.*got"),
    "pair instead of pairs": (
        lambda: Wrong(3, source_edges=(0, 1)),
        r"`source_edges\[0\]` must be a pair.*got 0"),
    "triple": (lambda: Wrong(3, source_edges=[(0, 1, 2)]), r"must be a pair.*got \(0, 1, 2\)"),
    "text edge": (lambda: Wrong(3, source_edges=["01"]), r"must be a pair.*got '01'"),
    "edges None": (lambda: Wrong(3, source_edges=None), r"`source_edges` .*list.*got None"),
    "edges text": (lambda: Wrong(3, task_edges="01"), r"`task_edges` .*list.*got '01'"),
    "edges mapping": (lambda: Wrong(3, task_edges={(0, 1): 1}), r"`task_edges` .*list"),
    "large clique": (
        lambda: Wrong(6, source_edges=clique(0, 1, 2, 4, 5)),
        r"`source_edges` .*at most 4 .*got 5 \(0, 1, 2, 4, 5\).*2·3\^5 = 486 cells"),
    "large after filling": (
        lambda: Wrong(8, source_edges=[(a, b) for a in range(4) for b in range(4, 8)]),
        r"`source_edges` .*once the cycles .*triangulated"),
    "huge clique": (
        lambda: Wrong(40, source_edges=clique(*range(40))),
        r"\(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \.\.\.\).*2·3\^40 cells"),
    "wide tasks": (
        lambda: Wrong(14, 14, task_edges=clique(*range(14))),
        r"`task_edges` .*at most 12; got 13"),
    "wide grid": (lambda: Wrong.grid(1_000, 2_000, 3), r"`task_edges` .*got 1000"),
    "tasks joined at random": (
        lambda: Wrong(3_000, 3_000, task_edges=random_edges(3_000, 12_000)), r"task_edges.*\d\d or more"),
    "grid size": (lambda: Wrong.grid(0, 2, 1), r"`height` .*>= 1; got 0"),
    "grid width": (lambda: Wrong.grid(2, 2.0, 1), r"`width` .*>= 1; got 2\.0"),
    "grid sources": (lambda: Wrong.grid(2, 2, 0), r"`sources_per_cell` .*>= 1; got 0"),
    "chain size": (lambda: Wrong.chain(0, 2), r"`n_tasks` .*>= 1; got 0"),
    "chain sources": (lambda: Wrong.chain(2, 0), r"`sources_per_task` .*>= 1; got 0"),
    "chain bool": (lambda: Wrong.chain(2, True), r"`sources_per_task` .*>= 1; got True"),
    "chain None": (lambda: Wrong.chain(2, None), r"`sources_per_task` .*list.*got None"),
    "chain counts": (lambda: Wrong.chain(2, [1, 2, 3]), r"`sources_per_task` .*\(2\); got 3"),
    "chain count": (lambda: Wrong.chain(2, [1, 0]), r"`sources_per_task\[1\]` .*>= 1; got 0"),
    "chain edge": (
        lambda: Wrong.chain(3, 2, [(0, 2)]),
        r"`source_edges\[0\]\[1\]` .*source within a task.*0 to 1; got 2"),
    "sources of no task": (lambda: Wrong(3).sources_of(1), r"`task` .*task, 0; got 1"),
    "neighbors of no task": (lambda: Wrong(3).neighbors(-1), r"`task` .*got -1"),
    "separated by no task": (lambda: Wrong(3)._separated_by(True), r"`task` .*got True"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_parameter(case):
    make, message = BAD[case]
    with pytest.raises(GraphError, match=message):
        make()


def test_four_dependent_sources_are_accepted():
    (unit,) = DependencyGraph(5, source_edges=clique(0, 1, 3, 4))._units
    assert unit == JunctionTree(((0, 1, 3, 4),), (-1,), ((),))


# ---------------------------------------------------------------------- a value


@given(graphs())
def test_round_trips(graph):
    for other in (
        DependencyGraph.from_dict(graph.to_dict()),
        DependencyGraph.from_json(graph.to_json()),
        pickle.loads(pickle.dumps(graph)),
        copy.deepcopy(graph),
        copy.copy(graph),
    ):
        assert other == graph
        assert hash(other) == hash(graph)
        assert other._units == graph._units
        assert np.array_equal(other._groups, graph._groups)


def test_what_was_computed_is_not_part_of_the_value():
    used, fresh = DependencyGraph.chain(3, 3), DependencyGraph.chain(3, 3)
    used._groups, used.sources_of(0), used._separated_by(1)
    assert used == fresh
    assert hash(used) == hash(fresh)
    assert pickle.dumps(used) == pickle.dumps(fresh)


def test_different_graphs_differ():
    graphs = {
        DependencyGraph(4), DependencyGraph(4, 2), DependencyGraph(4, 2, task_edges=[(0, 1)]),
        DependencyGraph(4, source_edges=[(0, 1)]), DependencyGraph(4, 2, source_task=[0, 1, 0, 1]),
    }  # fmt: skip
    assert len(graphs) == 5
    assert DependencyGraph(4) != "DependencyGraph(4)"


def test_the_value_is_frozen():
    with pytest.raises(AttributeError):
        DependencyGraph(3).n_sources = 4


def test_scikit_learn_clones_it_as_a_parameter():
    from sklearn.base import BaseEstimator, clone

    class Model(BaseEstimator):
        def __init__(self, graph=None):
            self.graph = graph

    graph = DependencyGraph.chain(3, 3)
    cloned = clone(Model(graph)).graph
    assert cloned == graph
    assert cloned._task_tree == graph._task_tree


def described(**changes):
    return {**DependencyGraph.chain(2, 2, source_edges=[(0, 1)]).to_dict(), **changes}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], "`data` must be a dict"),
        (None, "`data` .*got None"),
        ({}, "missing: 'format', 'n_sources'"),
        (described(color="red"), "unknown: 'color'"),
        (described(format=2), "must be 1; got 2"),
        (described(format=True), "must be 1; got True"),
        (described(source_task=None), "`source_task` must be a list; got None"),
        (described(task_edges="01"), "`task_edges` must be a list"),
        (described(n_sources=4.0), r"`n_sources` .*got 4\.0"),
        (described(n_tasks=True), "`n_tasks` .*got True"),
        (described(n_tasks=10**15), "`n_tasks` .*10,000,000"),
        (described(n_tasks=10**6), r"`n_tasks` .*\(4\)"),
        (described(source_task=[0, 0, 1, True]), r"`source_task\[3\]` .*got True"),
        (described(task_edges=[[0, 1, 2]]), "pair of tasks"),
        (described(source_edges=[[0, 2]]), "sources of one task"),
    ],
)
def test_from_dict_checks_everything(data, message):
    with pytest.raises(GraphError, match=message):
        DependencyGraph.from_dict(data)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[]", "NaN", None, '{"format": 1}'])
def test_from_json_refuses_anything_else(text):
    with pytest.raises(GraphError):
        DependencyGraph.from_json(text)


def test_json_is_plain():
    assert json.loads(DependencyGraph(2, source_edges=[(0, 1)]).to_json())["source_edges"] == [[0, 1]]


# ---------------------------------------------------------------------- words and pictures


@pytest.mark.parametrize(
    ("graph", "text"),
    [
        (DependencyGraph(1), "DependencyGraph(1 source on 1 task)"),
        (DependencyGraph(5, source_edges=[(0, 1)]), "DependencyGraph(5 sources on 1 task, 1 source edge)"),
        (
            DependencyGraph.chain(3, [4, 4, 4], [(0, 1)]),
            "DependencyGraph(12 sources on 3 tasks, 2 task edges, 1 source edge)",
        ),
    ],
)
def test_repr_is_one_line(graph, text):
    assert repr(graph) == text


def test_describe_names_what_depends_on_what():
    words = DependencyGraph(5, source_edges=[(0, 1), (1, 2), (0, 3), (2, 3)]).describe().splitlines()
    assert words == [
        "5 sources on 1 task, 4 source edges",
        "task 0: sources 0 to 4",
        "dependent unit of 4: sources 0 to 3 (2 tables of up to 3 sources)",
    ]
    assert "the truths are independent of each other" in DependencyGraph(4, 2).describe()
    assert "all are independent of each other given the truth" in DependencyGraph(4).describe()
    assert "... and 10 more tasks" in DependencyGraph.chain(20, 1).describe()


SVG = "{http://www.w3.org/2000/svg}"


@given(graphs())
def test_a_picture_holds_every_node_and_edge_once(graph):
    root = ElementTree.fromstring(graph.to_svg())
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    circles = root.findall(f"{SVG}circle")
    assert len(circles) == graph.n_tasks + graph.n_sources
    assert len({(c.attrib["cx"], c.attrib["cy"]) for c in circles}) == len(circles)
    for circle in circles:
        x, y, r = (float(circle.attrib[name]) for name in ("cx", "cy", "r"))
        assert left <= x - r <= x + r <= left + width
        assert top <= y - r <= y + r <= top + height
    marks = [mark.attrib.get("class") for mark in root]
    assert marks.count("task-edge") == len(graph.task_edges)
    assert marks.count("vote") == graph.n_sources
    assert marks.count("source-edge") == len(graph.source_edges)
    assert root.find(f"{SVG}title").text == repr(graph)
    assert root.find(f"{SVG}desc").text == graph.describe()


@pytest.mark.parametrize(
    "graph",
    [
        DependencyGraph(200),
        DependencyGraph.chain(30, 3),
        DependencyGraph.grid(5, 9, 2),
        DependencyGraph(90, 90),
    ],
    ids=repr,
)
def test_large_pictures_have_few_labels_and_fit_a_page(graph):
    root = ElementTree.fromstring(graph._repr_svg_())
    labels = [text.text for text in root.findall(f"{SVG}text")]
    assert len(labels) <= 60
    assert labels[0] in ("Y", "Y0")
    assert float(root.attrib["width"]) <= 700


def test_a_time_span_is_no_number_of_sources():
    with pytest.raises(GraphError, match="`n_sources`"):
        DependencyGraph(np.timedelta64(3, "D"))
