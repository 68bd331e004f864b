"""The 2020 interface: exact on complete populations, effects of every option, and errors about bad input."""

from __future__ import annotations

import itertools
import logging
import pickle
import re
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import (
    GraphError,
    NotFittedError,
    NotIdentifiableError,
    OptionError,
    SourceWarning,
    VotesError,
)
from flyingsquid.legacy import LabelModel
from tests.oracle.populations import Population, pair, single

TASKS = [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1), (6, 2), (7, 2), (8, 2)]
CHAIN = {"v": 3, "y_edges": [(0, 1), (1, 2)], "lambda_y_edges": TASKS}
IMBALANCED, UNIFORM = np.array([1, 3]), np.array([1, 1])


def on_chain() -> Population:
    """Three tasks in a row, biased and dependent, with three sources on each, one of which abstains."""
    first = np.array([[4, 2], [1, 3]])
    step = np.array([[3, 1], [1, 3]])
    truths = np.einsum("ab,bc->abc", first, step)
    kinds = [single(2, 0, 1), single(3, 1, 1), single(2, 0, 1)]
    return Population(truths, tuple(((i,), task, kinds[i % 3]) for i, task in TASKS))


def dependent(edges, balance) -> Population:
    """Dependent sources 0 and 1 (and more), and two that are independent of all."""
    rng = np.random.default_rng(5)
    groups: list[Any] = [((0, 1), 0, pair(rng))]
    if edges == [(0, 1), (1, 2)]:
        # 0 and 2 are independent given 1 and Y; integers, because both pairs share the counts of source 1.
        both = pair(rng, 16)
        own = both.sum(axis=0)
        common = int(np.lcm.reduce(own.ravel()))
        joint = np.einsum("aby,cby->abcy", both, both) * (common // own)[None, :, None, :]
        groups = [((0, 1, 2), 0, joint)]
    elif edges == [(0, 1), (2, 3)]:
        groups.append(((2, 3), 0, pair(rng)))
    start = sum(len(sources) for sources, _, _ in groups)
    groups += [((start,), 0, single(5, 2, 1)), ((start + 1,), 0, single(4, 2, 2))]
    return Population(balance, tuple(groups))


def assert_exact(label_model, population, atol=1e-9):
    """Everything that the interface returns is what enumeration gives."""
    rows, _, posterior = population.rows()
    np.testing.assert_allclose(label_model.predict_proba(rows), posterior, atol=atol)
    ys = np.array(label_model.enumerate_ys())
    marginal = posterior @ (ys == 1)
    np.testing.assert_allclose(label_model.predict_proba_marginalized(rows), marginal.ravel(), atol=atol)
    np.testing.assert_allclose(label_model.estimated_accuracies(), population.right(), atol=atol)
    best = np.sort(posterior, axis=1)
    clear = best[:, -1] - best[:, -2] > 1e-6
    assert clear.sum() > 5
    np.testing.assert_array_equal(label_model.predict(rows)[clear], ys[posterior.argmax(axis=1)][clear])


@pytest.mark.parametrize("balance", [IMBALANCED, UNIFORM], ids=["imbalanced", "uniform"])
@pytest.mark.parametrize("method", ["triplet_mean", "triplet_median", "triplet"])
def test_independent_sources_are_exact_and_the_prior_enters_once(method, balance):
    kinds = [single(5, 2, 1), single(4, 3, 1), single(5, 1, 2), single(6, 0, 2)]
    population = Population(balance, tuple(((i,), 0, kind) for i, kind in enumerate(kinds)))
    label_model = LabelModel(4)
    label_model.fit(population.votes(), class_balance=balance / balance.sum(), solve_method=method)
    assert_exact(label_model, population)


def test_independencies_is_exact_where_the_2020_code_had_none():
    kinds = [single(5, 2, 1), single(4, 3, 1), single(2, 1, 5)]
    population = Population(IMBALANCED, tuple(((i,), 0, kind) for i, kind in enumerate(kinds)))
    label_model = LabelModel(3)
    with pytest.raises(NotIdentifiableError, match=r"Source 2 .*29%.*fully_independent"):
        label_model.fit(population.votes(), [0.25, 0.75], solve_method="independencies")
    label_model.fit(
        population.votes(), [0.25, 0.75], solve_method="independencies", sign_recovery="fully_independent"
    )
    assert_exact(label_model, population)


@pytest.mark.parametrize("balance", [IMBALANCED, UNIFORM], ids=["imbalanced", "uniform"])
@pytest.mark.parametrize(
    "edges", [[(0, 1)], [(0, 1), (2, 3)], [(0, 1), (1, 2)]], ids=["one pair", "two pairs", "shared source"]
)
def test_dependent_sources_that_abstain_are_exact(edges, balance):
    """The 2020 code used conditional values for joint ones, and left out separators with a source."""
    population = dependent(edges, balance)
    votes = population.votes()
    label_model = LabelModel(votes.shape[1], lambda_edges=edges)
    label_model.fit(votes, class_balance=balance / balance.sum())
    assert_exact(label_model, population, atol=1e-9)


@pytest.mark.slow
def test_a_chain_is_exact_with_its_joint_balance():
    """The 2020 code averaged over triplets that cross tasks."""
    population = on_chain()
    label_model = LabelModel(9, **CHAIN)
    label_model.fit(population.votes(), class_balance=(population.truths / population.truths.sum()).ravel())
    assert_exact(label_model, population)


@pytest.mark.slow
def test_a_chain_learns_how_tasks_depend_where_no_balance_is_given():
    """A uniform balance does not determine pairs; the 2020 code then assumed independent tasks."""
    stay = np.array([[3, 1], [1, 3]])
    population = Population(np.einsum("ab,bc->abc", stay, stay), on_chain().groups)
    label_model = LabelModel(9, **CHAIN)
    label_model.fit(population.votes())
    assert_exact(label_model, population)
    apart = LabelModel(9, **CHAIN)
    apart.fit(population.votes(), class_balance=np.full(8, 1 / 8))  # independence, asked for
    one = np.zeros((1, 9))
    one[0, :3] = 1
    assert apart.predict_proba_marginalized(one)[1] == pytest.approx(0.5)
    assert label_model.predict_proba_marginalized(one)[1] > 0.6


@pytest.mark.slow
def test_hundreds_of_tasks_are_labeled_and_only_enumeration_is_refused():
    v = 300
    graph = fs.DependencyGraph.chain(v, 3)
    sample = fs.datasets.simulate_graph(400, graph, 0.8, random_state=0)
    votes = 2 * sample.votes.codes - 1
    label_model = LabelModel(3 * v, v, list(graph.task_edges), [(i, i // 3) for i in range(3 * v)])
    label_model.fit(votes)
    labels, marginals = label_model.predict(votes), label_model.predict_proba_marginalized(votes)
    assert labels.shape == (400, v)
    assert marginals.shape == (400 * v,)
    truth = 2 * sample.y - 1
    assert (labels == truth).mean() > 0.85
    assert ((marginals.reshape(400, v) > 0.5) == (truth > 0)).mean() > 0.85
    for method in (label_model.predict_proba, lambda _: label_model.enumerate_ys()):
        with pytest.raises(OptionError, match=r"2\^300.*predict_proba_marginalized"):
            method(votes)
    with pytest.raises(OptionError, match="`Y_dev`"):
        label_model.fit(votes, class_balance=[0.5, 0.5])
    label_model.fit(votes, Y_dev=truth[:50])
    np.testing.assert_allclose(
        label_model.model_.class_balance_[:, 1], ((truth[:50] > 0).sum(axis=0) + 1) / 52
    )


@pytest.fixture(scope="module")
def sample():
    """Signed votes of five sources, the last worse than random, and the truth."""
    drawn = fs.datasets.simulate(4_000, accuracies=[0.9, 0.8, 0.75, 0.7, 0.3], coverage=0.8, random_state=1)
    votes = np.where(drawn.votes.codes < 0, 0, 2 * drawn.votes.codes - 1)
    return votes, 2 * drawn.y[:, None] - 1


def fitted(votes, *, options=(), **fit):
    label_model = LabelModel(votes.shape[1], **dict(options))
    assert label_model.fit(votes, **fit) is None
    return label_model


def test_it_is_the_new_model(sample):
    votes, _ = sample
    ours = fitted(votes[:, :4], class_balance=[0.4, 0.6])
    new = fs.LabelModel(
        method=fs.solvers.Triplet(screen=0), signs=dict.fromkeys(range(4), 1), class_balance=[0.4, 0.6]
    ).fit(fs.Votes.from_signed(votes[:, :4]))
    signed = fs.Votes.from_signed(votes[:, :4])
    np.testing.assert_allclose(ours.predict_proba(votes[:, :4]), new.predict_proba(signed), atol=1e-12)
    np.testing.assert_array_equal(ours.predict(votes[:, :4])[:, 0], new.predict(signed))
    assert ours.model_.summary().to_dict()


def test_signs_are_assumed_or_found(sample):
    votes, _ = sample
    assumed = fitted(votes).estimated_accuracies()
    found = fitted(votes, sign_recovery="fully_independent").estimated_accuracies()
    assert assumed[4] == pytest.approx(0.7 * 0.8, abs=0.03)
    assert found[4] == pytest.approx(0.3 * 0.8, abs=0.03)
    np.testing.assert_allclose(assumed[:4], found[:4])


@pytest.mark.slow
def test_gold_labels_say_the_balance(sample):
    votes, _ = sample
    dev = np.array([[1]] * 30 + [[-1]] * 10)
    by_dev = fitted(votes[:, :4], Y_dev=dev)
    np.testing.assert_allclose(by_dev.model_.class_balance_, [11 / 42, 31 / 42])
    flat = fitted(votes[:, :4], Y_dev=dev[:, 0].tolist())
    np.testing.assert_allclose(flat.model_.class_balance_, [11 / 42, 31 / 42])
    chain = LabelModel(9, **CHAIN)
    known = np.array([[1, 1, 1]] * 6 + [[-1, -1, 1]] * 4)
    chain.fit(on_chain().votes(), Y_dev=known)
    table = np.full((2, 2, 2), 2 / 8)
    table[1, 1, 1] += 6
    table[0, 0, 1] += 4
    np.testing.assert_allclose(chain.model_.task_tables_[0], table.sum(axis=2) / 12)


def test_a_combination_that_cannot_happen_is_next_to_impossible():
    label_model = LabelModel(9, **CHAIN)
    never = np.array([2, 1, 0, 0, 2, 1, 2, 2]) / 10  # -1 is never followed by +1 from task 0 to 1
    label_model.fit(on_chain().votes()[::50], class_balance=never)
    posterior = label_model.predict_proba(np.array([[-1] * 3 + [1] * 3 + [0] * 3]))
    assert 0 < posterior[0, 2:4].sum() < 1e-3


def test_tables_are_always_projected_to_probabilities():
    """Votes of a balance that the one given does not fit: tables fall below 0."""
    drawn = fs.datasets.simulate(500, accuracies=[0.95, 0.9, 0.9], class_balance=[0.1, 0.9], random_state=0)
    votes = 2 * drawn.votes.codes - 1
    with pytest.warns(SourceWarning, match="do not fit the class balance"):
        repaired = fitted(votes, class_balance=[0.7, 0.3])
    with pytest.warns(SourceWarning), pytest.warns(UserWarning, match="`clamp`"):
        unclamped = fitted(votes, class_balance=[0.7, 0.3], flip_negative=False, clamp=False)
    np.testing.assert_array_equal(repaired.predict_proba(votes), unclamped.predict_proba(votes))
    assert repaired.predict_proba(votes).min() >= 0


def test_single_triplets_are_the_best_ones(sample):
    votes, _ = sample
    best = fitted(votes, solve_method="triplet")
    new = fs.LabelModel(method=fs.solvers.Triplet("best", screen=0), signs=dict.fromkeys(range(5), 1))
    new.fit(fs.Votes.from_signed(votes))
    np.testing.assert_allclose(best.estimated_accuracies(), new.coverage_ * new.accuracies_)


@pytest.mark.parametrize(
    "options",
    [
        {"lambda_edges": [(0, 1), (3, 4)]},
        CHAIN,
        {"v": 2, "y_edges": [(0, 1)], "lambda_y_edges": [(i, int(i > 1)) for i in range(9)]},
        {
            "v": 3,
            "y_edges": [(0, 1), (1, 2)],
            "lambda_y_edges": [(i, int(i > 3) + int(i > 4)) for i in range(9)],
        },
    ],
    ids=["dependent", "chain", "two on a task", "one on a task"],
)
def test_drawn_triplets_are_ones_that_the_graph_allows(options):
    label_model = LabelModel(9, **options)
    graph = label_model._graph
    drawn = fs.datasets.simulate_graph(3_000, graph, 0.8, random_state=3)
    label_model.fit(2 * drawn.votes.codes - 1, solve_method="triplet")
    right = np.array(label_model.estimated_accuracies())
    assert right.min() > 0.6


def test_triplets_by_the_names_of_the_2020_code(sample):
    votes, _ = sample
    by_position = [(0, 1, 2), (3, 4, 0)]
    by_name = [[f"lambda_{i}" for i in triplet] for triplet in by_position]
    without = [[(f"lambda_{i}", "Y_0") for i in triplet] for triplet in by_position]
    with_silence = [[((f"lambda_{i}", "Y_0"), ("0",)) for i in triplet] for triplet in by_position]
    results = [
        fitted(votes, options={"triplets": given}, solve_method="triplet").estimated_accuracies()
        for given in (by_position, by_name, without, with_silence)
    ]
    assert results[0] == results[1] == results[2] == results[3]
    signed = votes.astype(float)
    second = signed.T @ signed / len(signed)
    by_hand = np.mean([np.sqrt(second[0, j] * second[0, k] / second[j, k]) for j, k in ((1, 2), (3, 4))])
    mean = fitted(votes, options={"triplets": by_position}).estimated_accuracies()
    assert mean == results[0]
    assert mean[0] == pytest.approx(((votes[:, 0] != 0).mean() + by_hand) / 2)


def test_what_is_logged_when_verbose_and_nothing_is_printed(sample, caplog, capsys):
    votes, _ = sample
    with caplog.at_level(logging.INFO, "flyingsquid"):
        label_model = fitted(votes, verbose=False)
        label_model.predict_proba_marginalized(votes)
        assert not caplog.records
        label_model.fit(votes, verbose=True)
        label_model.predict(votes)
    before, after, labeled = (record.getMessage() for record in caplog.records)
    assert re.search("5 .*4000 .*triplet_mean", before)
    assert str(round(label_model.estimated_accuracies()[0], 3)) in after
    assert "4000" in labeled
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_ties_are_minus_one_and_rows_without_votes_get_the_prior(sample):
    votes, _ = sample
    label_model = fitted(votes)
    assert label_model.predict(np.zeros((1, 5))).tolist() == [[-1]]
    assert label_model.predict_proba(np.zeros((1, 5))).tolist() == [[0.5, 0.5]]
    chain = LabelModel(9, **CHAIN)
    chain.fit(on_chain().votes(), class_balance=np.full(8, 1 / 8))
    assert chain.predict(np.zeros((2, 9))).tolist() == [[-1, -1, -1]] * 2


def test_columns_are_in_the_order_of_enumerate_ys():
    chain = LabelModel(9, **CHAIN)
    assert chain.enumerate_ys() == sorted(map(list, itertools.product([-1, 1], repeat=3)))
    population = on_chain()
    chain.fit(population.votes()[::20])
    rows = population.rows()[0][::997]
    posterior = chain.predict_proba(rows)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    by_sum = posterior @ (np.array(chain.enumerate_ys()) == 1)
    np.testing.assert_allclose(by_sum.ravel(), chain.predict_proba_marginalized(rows), atol=1e-12)


def test_defaults_are_not_shared_and_models_can_be_pickled(sample):
    votes, _ = sample
    first, second = LabelModel(5), LabelModel(6)
    assert (first.m, second.m) == (5, 6)
    first.fit(votes)
    again = pickle.loads(pickle.dumps(first))
    np.testing.assert_array_equal(again.predict(votes), first.predict(votes))


TEXT: Any = "3"
NO_PAIRS: Any = [0, 1]
BAD: dict[str, Any] = {
    "no source": (lambda: LabelModel(0), GraphError, "`m` .*got 0"),
    "no task": (lambda: LabelModel(3, 0), GraphError, "`v` .*got 0"),
    "m is text": (lambda: LabelModel(TEXT), GraphError, "`m` .*got '3'"),
    "tasks without sources": (lambda: LabelModel(6, 2, [(0, 1)]), GraphError, "`lambda_y_edges`.*v=2"),
    "a source on two tasks": (
        lambda: LabelModel(2, 2, [], [(0, 0), (0, 1), (1, 1)]), GraphError, "got 0 and 1 for source 0",
    ),
    "a source without task": (
        lambda: LabelModel(3, 2, [], [(0, 0), (2, 1)]), GraphError, "`lambda_y_edges`.*source 1",
    ),
    "a source too many": (
        lambda: LabelModel(2, 2, [], [(0, 0), (1, 1), (7, 1)]), GraphError, "`lambda_y_edges`.*source 7",
    ),
    "no pair": (lambda: LabelModel(2, 2, [], NO_PAIRS), GraphError, "`lambda_y_edges` must .*got 0"),
    "an edge across tasks": (
        lambda: LabelModel(6, 2, [(0, 1)], [(i, i // 3) for i in range(6)], [(0, 5)]), GraphError, "task",
    ),
    "a triplet of products": (
        lambda: LabelModel(3, triplets=[[(("lambda_0", "lambda_1", "Y_0"), ("0",)), "lambda_1", "lambda_2"]]),
        OptionError, "`triplets` must",
    ),
    "a triplet given silence": (
        lambda: LabelModel(3, triplets=[[(("lambda_0", "Y_0"), ("lambda_1",)), "lambda_1", "lambda_2"]]),
        OptionError, "`triplets` must",
    ),
    "an unknown name": (
        lambda: LabelModel(3, triplets=[["lambda_0", "lambda_1", "lambda_9"]]), OptionError, "lambda_9",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_models_are_named(case):
    make, error, text = BAD[case]
    with pytest.raises(error, match=text):
        make()


BAD_FITS = {
    "unknown method": ({"solve_method": "median"}, OptionError, "`solve_method` must"),
    "unknown signs": ({"sign_recovery": "none"}, OptionError, "`sign_recovery` must"),
    "both balances": (
        {"class_balance": [0.5, 0.5], "Y_dev": [[1]]},
        OptionError,
        "`class_balance` or `Y_dev`",
    ),
    "long balance": ({"class_balance": [0.25] * 4}, OptionError, "`class_balance` must"),
    "balance is text": ({"class_balance": "even"}, OptionError, "`class_balance` must"),
    "balance of 0": ({"class_balance": [0, 1]}, OptionError, "`class_balance` must"),
    "balance sums to 2": ({"class_balance": [1, 1]}, OptionError, "sums to 2"),
    "wide Y_dev": ({"Y_dev": [[1, 1]]}, OptionError, r"`Y_dev` must .*\(1, 2\)"),
    "empty Y_dev": ({"Y_dev": []}, OptionError, "`Y_dev` must"),
    "Y_dev of classes": ({"Y_dev": [[0], [1]]}, OptionError, "`Y_dev` must .*row 0, task 0"),
    "even independencies": ({"solve_method": "independencies"}, NotIdentifiableError, "divides by E"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_arguments_of_fit_are_named_and_change_nothing(case, sample):
    options, error, text = BAD_FITS[case]
    label_model = fitted(sample[0])
    before = label_model.model_
    with pytest.raises(error, match=text):
        label_model.fit(sample[0], **options)
    assert label_model.model_ is before


def test_triplets_are_refused_where_they_would_do_nothing(sample):
    for method in ("triplet_median", "independencies"):
        with pytest.raises(OptionError, match=f"`triplets`.*solve_method='{method}'"):
            fitted(sample[0], options={"triplets": [(0, 1, 2), (0, 3, 4)]}, solve_method=method)


def test_votes_are_checked(sample):
    votes, _ = sample
    label_model = LabelModel(5)
    for method in ("predict", "predict_proba", "predict_proba_marginalized"):
        with pytest.raises(NotFittedError, match="`fit`"):
            getattr(label_model, method)(votes)
    with pytest.raises(NotFittedError):
        label_model.estimated_accuracies()
    with pytest.raises(VotesError, match=r"`L_train` must .*5.*got 4"):
        label_model.fit(votes[:, :4])
    with pytest.raises(VotesError, match="2"):
        label_model.fit(np.where(votes == 1, 2, votes))
    strict = LabelModel(5, allow_abstentions=False)
    with pytest.raises(VotesError, match=r"`L_train` .*allow_abstentions"):
        strict.fit(votes)
    full = np.where(votes == 0, 1, votes)
    strict.fit(full)
    assert len(strict.estimated_accuracies()) == 5  # the 2020 code returned none
    with pytest.raises(VotesError, match=r"`L` must .*row 0, source 0"):
        strict.predict(np.zeros((1, 5)))


def test_half_of_the_sources_against_the_other_half_is_no_reason_to_call_all_good():
    drawn = fs.datasets.simulate(3_000, accuracies=[0.8] * 3 + [0.2] * 3, random_state=0)
    with pytest.raises(NotIdentifiableError, match="`signs` must be consistent"):
        fitted(2 * drawn.votes.codes - 1)


def test_two_sources_are_estimated_from_an_imbalanced_balance():
    drawn = fs.datasets.simulate(3_000, accuracies=[0.8, 0.7], class_balance=[0.2, 0.8], random_state=0)
    votes = 2 * drawn.votes.codes - 1
    label_model = fitted(votes, class_balance=[0.2, 0.8], solve_method="independencies")
    np.testing.assert_allclose(label_model.estimated_accuracies(), [0.8, 0.7], atol=0.03)


def test_an_error_of_the_new_model_has_a_note_with_the_names_of_2020(sample):
    with pytest.raises(NotIdentifiableError) as caught:
        fitted(sample[0][:, :2])
    assert "`solve_method`" in caught.value.__notes__[0]
