"""Unusual values that long fuzz runs found once: each raises a clear error now, or is read correctly."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.analysis import dependence_given_truth
from flyingsquid.exceptions import GraphError, OptionError, VotesError
from tests.support.errors import mentions

VOTES = np.random.default_rng(0).integers(-1, 2, (60, 4))


class Mute:
    """Has no text, and does not want to be compared or sorted."""

    __hash__ = object.__hash__

    def __repr__(self):
        raise RuntimeError("no text")

    def __eq__(self, other):
        raise RuntimeError("no equality")

    def __lt__(self, other):
        raise RuntimeError("no order")


class NoArray:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array")


class Shut:
    def __iter__(self):
        raise RuntimeError("no iteration")


@pytest.mark.parametrize("huge", [10**400, -(10**400)], ids=["huge", "minus huge"])
def test_an_integer_beyond_all_floats_is_outside_the_classes(huge):
    votes = [[1, 0, 1], [0, huge, 1]]
    with pytest.raises(VotesError, match="row 1, source 1"):
        fs.LabelModel().fit(votes)


def test_small_types_do_not_wrap_around():
    """Differences of bytes from -128 to 127 do not fit into a byte."""
    votes = np.array([[-128, 127], [127, -128], [127, 127]], np.int8)
    read = fs.Votes.from_classes(votes, classes=[-128, 127], abstain=None)
    assert read.codes.tolist() == [[0, 1], [1, 0], [1, 1]]


def test_votes_without_a_text_are_refused():
    with pytest.raises(VotesError, match="type Mute"):
        fs.Votes.from_classes(np.array([[Mute(), Mute()]], object))


def test_records_as_votes_are_refused_masked_or_not():
    plain = np.zeros((3, 2), [("a", "i4"), ("b", "f8")])
    for votes in (plain, np.ma.masked_array(plain)):
        with pytest.raises(VotesError, match="Votes must be"):
            fs.MajorityVote().fit(votes)


@pytest.mark.parametrize("abstain", [Mute(), np.array([1, 2, 3])])
def test_what_cannot_be_compared_is_no_class(abstain):
    with pytest.raises(fs.FlyingSquidError):
        fs.Votes.from_classes(Mute(), classes=[0, 1], abstain=abstain)


def test_positions_of_sources_that_cannot_be_listed():
    with pytest.raises(VotesError, match="list of positions"):
        fs.Votes.from_classes(VOTES).of_sources(Shut())


@pytest.mark.parametrize("window", [3 << 30, 1 << 62])
def test_a_window_that_does_not_fit_into_memory(window):
    with pytest.raises(OptionError, match="GB of votes"):
        fs.OnlineLabelModel(window=window).partial_fit(VOTES)


def test_weights_whose_sum_is_no_number():
    with pytest.raises(VotesError, match=r"`sample_weight`.*got inf"):
        fs.LabelModel().fit(VOTES, sample_weight=np.full(60, 1e308))


def test_an_array_is_no_method_of_a_stream():
    with pytest.raises(OptionError, match="`method`"):
        fs.OnlineLabelModel(method=np.array([])).partial_fit(VOTES)


def test_a_number_is_no_list_of_anything():
    number = np.array(3)
    with pytest.raises(OptionError, match="`lfs`"):
        fs.apply(number, [{"a": 1}])
    with pytest.raises(fs.FlyingSquidError):
        fs.apply([len], [{"a": 1}], classes=number)
    with pytest.raises(fs.FlyingSquidError, match="int8"):
        fs.apply([len], np.int8(3))
    with pytest.raises(VotesError, match="`data`"):
        fs.report(VOTES, data=number)


@pytest.mark.parametrize("n_classes", [10**6, 10**30], ids=["many", "very many"])
def test_more_classes_than_codes(n_classes):
    with pytest.raises(OptionError, match=r"`n_classes`.*32,767"):
        fs.LabelModel(n_classes=n_classes).fit(VOTES)


@pytest.mark.parametrize("unusual", [{}, Mute(), object()])
def test_new_classes_of_a_stream_are_numbers_and_strings(unusual):
    model = fs.OnlineLabelModel(new_classes="add").partial_fit(VOTES)
    with pytest.raises(VotesError):
        model.partial_fit(np.array([[unusual, 1, 0, 1]], object))


def test_identifiers_that_cannot_be_sorted_or_written():
    arrays = np.empty(2, object)
    arrays[:] = [np.array([1, 2]), np.array([])]
    with pytest.raises(VotesError, match="`items` must have one type"):
        fs.Votes.from_long(arrays, ["a", "b"], [0, 1])
    with pytest.raises(VotesError, match="sources"):
        fs.Votes.from_long([1, 2], np.array([Mute(), Mute()], object), [0, 1])


def test_a_function_that_makes_no_chunks():
    with pytest.raises(VotesError, match=mentions("iterable", "object")):
        fs.LabelModel().fit(fs.VoteChunks(object))


def test_a_balance_beyond_all_floats():
    with pytest.raises(OptionError, match="class_balance"):
        fs.LabelModel(class_balance=[10**400, 1]).fit(VOTES)


def test_options_of_every_kind_are_asked_for_what_they_are():
    with pytest.raises(OptionError, match="`screen`"):
        fs.solvers.Triplet(screen=np.array([1.0, 2.0]))
    with pytest.raises(OptionError, match="`ordered`"):
        fs.report(VOTES, ordered=NotImplemented)
    with pytest.raises(fs.FlyingSquidError):
        fs.apply([len], ["a"], classes=[np.array([1, 2]), 3])
    with pytest.raises(VotesError, match="reading the index failed: no array"):
        fs.Votes.from_classes(VOTES)[NoArray()]


def test_what_has_no_text_is_named_by_its_type():
    with pytest.raises(VotesError, match="type Mute"):
        fs.Votes.from_scores(np.array([[Mute(), 0.5]], object), thresholds=0.5)
    with pytest.raises(OptionError, match="got a value of type Mute"):
        fs.Votes.from_scores([[0.1, 0.9]], thresholds=Mute())
    with pytest.raises(VotesError, match="item a value of type Mute"):
        fs.Votes.from_long(np.array([Mute()], object), ["a"], [9], classes=[0, 1])


def test_gold_labels_need_a_table_of_classes_by_classes():
    votes = fs.Votes.from_classes(VOTES, classes=range(32_767))
    with pytest.raises(OptionError, match="at most 8,192 classes"):
        fs.LabelModel(method="agreement").fit(votes, gold=np.where(np.arange(60) < 5, 1, -1))


def test_a_span_of_time_is_no_confidence():
    with pytest.raises(OptionError, match="min_confidence"):
        fs.to_training_set([[1], [2], [3]], np.full((3, 2), 0.5), min_confidence=np.timedelta64(0, "s"))


def test_a_number_is_not_a_chunk():
    with pytest.raises(VotesError, match="chunk 0"):
        fs.LabelModel().fit(fs.VoteChunks([np.array(3)]))
    with pytest.raises(VotesError):
        fs.MajorityVote().fit(iter([np.array(3)]))


@pytest.mark.parametrize("label", [32_767, 10**12])
def test_a_stream_does_not_grow_to_more_classes_than_codes(label):
    model = fs.OnlineLabelModel(new_classes="add").partial_fit(VOTES)
    with pytest.raises(VotesError, match="at most 32,767 classes"):
        model.partial_fit([[label, 1, 0, 1]])
    assert list(model.classes_) == [0, 1]


def test_rows_of_different_lengths_are_no_new_classes():
    model = fs.OnlineLabelModel(new_classes="add").partial_fit(VOTES)
    with pytest.raises(VotesError, match=r"same number|inhomogeneous|ragged"):
        model.partial_fit([[1, 0, 1, 0], [1]])


def test_what_follows_what_among_very_many_classes():
    votes = fs.Votes.from_classes(VOTES, classes=range(32_767))
    with pytest.raises(OptionError, match="at most 40 classes"):
        fs.SequenceLabelModel().fit(votes)
    with pytest.raises(OptionError, match="at most 40 classes"):
        fs.SequenceLabelModel().partial_fit(votes)
    with pytest.raises(VotesError, match=r"neighboring items.* GB"):
        fs.SequenceMoments.of(votes)


@pytest.mark.slow
def test_dependence_given_a_few_of_very_many_classes():
    """A table of classes by classes would take 8 GB."""
    few, many = fs.Votes.from_classes(VOTES), fs.Votes.from_classes(VOTES, classes=range(32_767))
    gold = np.arange(60) % 2
    expected = dependence_given_truth(few, gold)
    np.testing.assert_allclose(dependence_given_truth(many, gold), expected, atol=1e-12)


def test_signs_that_are_an_array_are_no_signs():
    votes = np.random.default_rng(0).integers(0, 3, (60, 4))
    for model in (fs.SequenceLabelModel(signs=np.array([1, -1])), fs.LabelModel(signs=np.array([1, -1]))):
        with pytest.raises(OptionError, match="`signs`"):
            model.fit(votes)


def test_floats_that_do_not_fit_a_double():
    signaling = np.frombuffer(np.array([0x7F800001, 0, 0x3F800000] * 4, "<u4").tobytes(), "<f4").reshape(4, 3)
    assert fs.Votes.from_classes(signaling).codes[0].tolist() == [-1, 0, 1]
    with pytest.raises(VotesError, match="infinite"):
        fs.Votes.from_classes(np.full((2, 3), np.longdouble("1e4000")))


def test_a_list_of_thresholds_that_cannot_be_gone_through():
    class NoIteration:
        def __iter__(self):
            raise RuntimeError("no iteration")

    with pytest.raises(OptionError, match="`thresholds`"):
        fs.Votes.from_scores([[0.1, 0.9]], thresholds=NoIteration())


def test_fewer_items_than_classes_leave_the_balance_open():
    """Gold labels or not; it took minutes to find out."""
    votes = fs.Votes.from_classes(VOTES, classes=range(500))
    model = fs.LabelModel(method="agreement", class_balance="estimate").fit(
        votes, gold=np.where(np.arange(60) < 20, 1, -1)
    )
    np.testing.assert_array_equal(model.class_balance_, np.full(500, 1 / 500))


def test_joint_votes_that_fill_the_memory_are_refused_together():
    votes = fs.Votes.from_classes(np.zeros((20, 8), np.int16), classes=range(220))
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    with pytest.raises(GraphError, match=r"4 groups of sources.* 3 GB"):
        fs.Moments.of(votes, fs.DependencyGraph(8, source_edges=pairs))
    with pytest.raises(GraphError, match=r"Sources 0, 1, 2 depend.* GB"):
        fs.Moments.of(votes, fs.DependencyGraph(8, source_edges=[(0, 1), (1, 2), (0, 2)]))


def test_columns_that_are_no_list():
    table = pytest.importorskip("pandas").DataFrame({"a": [0, 1], "b": [1, 1]})
    with pytest.raises(VotesError, match="`columns`"):
        fs.Votes.from_frame(table, columns=np.array("a"))


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")  # as scipy.sparse's todense() returns it
def test_a_numpy_matrix_is_an_array():
    matrix = np.asmatrix(VOTES)
    model = fs.LabelModel().fit(matrix)
    assert np.array_equal(model.predict_proba(matrix), fs.LabelModel().fit(VOTES).predict_proba(VOTES))


def test_values_that_mean_no_vote_must_be_hashable():
    with pytest.raises(OptionError, match=mentions("abstain")):
        fs.Votes.from_classes([["a", "b"]], abstain=[["a"]])
