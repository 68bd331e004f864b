"""Results of the 2020 code: matched if they are right; otherwise the right value is stated.

The recorded runs are in the directory named by FLYINGSQUID_GOLDEN; its README lists those to trust.
Everything here goes through the 2020 interface, with the recorded arguments.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

from flyingsquid.exceptions import NotIdentifiableError, SourceWarning
from flyingsquid.legacy import LabelModel

FOLDER = os.environ.get("FLYINGSQUID_GOLDEN")
pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="FLYINGSQUID_GOLDEN is not set"),
    pytest.mark.filterwarnings("ignore:`flip_negative`"),  # recorded runs without flips and clamps, too
]
GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "migrating.md"
TRUSTED = [
    "ind_abst_mean", "ind_abst_median", "ind_abst_single", "ind_noabst_mean", "ind_noabst_mean_disallow",
    "ind_noabst_single_disallow", "edge1_disallow_mean",
]  # fmt: skip
PRIOR_TWICE = ["ind_cb_given", "ind_cb_given_noflip_clamp", "ind_Y_dev"]
DEPENDENT = ["edge1_mean", "edge1_single", "edge2_mean", "edge2_median_cb", "edge2_sharednode_mean"]
CHAINS = ["chain3_cb", "chain3_mean", "chain3_single"]
REFUSED = ["ind_abst_independencies"]
REPAIRED = ["ind_cb_given_noflip_noclamp"]  # negative cells, which the new code never has


def load(name):
    with np.load(Path(str(FOLDER)) / f"{name}.npz") as archive:
        data = dict(archive)
    return data, json.loads(str(data["args"]))


def fit(name):
    """The recorded run by the new code, with the recorded triplets where single ones decided."""
    data, arguments = load(name)
    options = dict(arguments["ctor"])
    if name in TRUSTED and arguments["fit"].get("solve_method") == "triplet":
        # That code notes expectations as it solves them: three at a time.
        names = [ast.literal_eval(key) for key in arguments["expectation_keys"]]
        options["triplets"] = [names[start : start + 3] for start in range(0, len(names), 3)]
    label_model = LabelModel(data["L"].shape[1], **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SourceWarning)
        label_model.fit(data["L"], **arguments["fit"])
    return data, arguments, label_model


def test_every_recorded_run_is_accounted_for():
    recorded = {path.stem for path in Path(str(FOLDER)).glob("*.npz")}
    assert recorded == {*TRUSTED, *PRIOR_TWICE, *DEPENDENT, *CHAINS, *REFUSED, *REPAIRED}


@pytest.mark.parametrize("name", TRUSTED)
def test_trusted_runs_are_reproduced(name):
    data, arguments, label_model = fit(name)
    votes = data["L"]
    np.testing.assert_allclose(label_model.predict_proba(votes), data["predict_proba"], atol=1e-6)
    marginal = label_model.predict_proba_marginalized(votes)
    np.testing.assert_allclose(marginal, data["predict_proba_marginalized"], atol=1e-6)
    np.testing.assert_array_equal(label_model.predict(votes), data["predict"])
    accuracies = label_model.estimated_accuracies()
    if len(data["estimated_accuracies"]):  # without abstentions that code returned none
        np.testing.assert_allclose(accuracies, data["estimated_accuracies"], atol=1e-6)
    recorded = dict(zip(arguments["probability_keys"], data["probability_values"], strict=True))
    for i, right in enumerate(accuracies):
        keys = [f"('lambda_{i}', 'Y_0')", f"(('lambda_{i}', 'Y_0'), ('0',))"]
        assert any(key in recorded and abs(recorded[key] - right) < 1e-6 for key in keys)


@pytest.mark.parametrize("name", [*PRIOR_TWICE, *DEPENDENT, *CHAINS])
def test_elsewhere_posteriors_are_what_enumeration_gives(name):
    """P(Y) and P(votes | Y) as fitted, multiplied for all Y: the prior enters once, separators are whole."""
    data, _, label_model = fit(name)
    ys, posterior = enumerated(label_model, data["L"])
    assert [list(y) for y in ys] == label_model.enumerate_ys()
    np.testing.assert_allclose(label_model.predict_proba(data["L"]), posterior, atol=1e-9)
    marginal = posterior @ (np.array(ys) == 1)
    np.testing.assert_allclose(label_model.predict_proba_marginalized(data["L"]), marginal.ravel(), atol=1e-9)
    np.testing.assert_array_equal(label_model.predict(data["L"]), np.array(ys)[posterior.argmax(axis=1)])
    assert np.abs(posterior - data["predict_proba"]).max() > 0.1  # that code is elsewhere


@pytest.mark.parametrize("name", [*PRIOR_TWICE, *DEPENDENT, *CHAINS])
def test_elsewhere_accuracies_are_those_of_all_valid_triplets(name):
    """Summed one by one over sources of one task of which no two depend on each other."""
    data, arguments, label_model = fit(name)
    if arguments["fit"].get("solve_method") == "triplet":
        pytest.skip("single triplets")
    votes = data["L"].astype(float)
    moments, coverage = votes.T @ votes / len(votes), (votes != 0).mean(axis=0)
    task = dict(arguments["ctor"].get("lambda_y_edges", [(i, 0) for i in range(votes.shape[1])]))
    group = groups_of(votes.shape[1], arguments["ctor"].get("lambda_edges", []))
    pool = np.median if "median" in arguments["fit"].get("solve_method", "") else np.mean
    for i, right in enumerate(label_model.estimated_accuracies()):
        others = [j for j in range(votes.shape[1]) if task[j] == task[i] and group[j] != group[i]]
        pairs = itertools.combinations(others, 2)
        # A pair that agrees as often as not is nothing to divide by; that code counted it as accuracy 0.
        valid = [(j, k) for j, k in pairs if group[j] != group[k] and moments[j, k] != 0]
        values = [np.sqrt(abs(moments[i, j] * moments[i, k] / moments[j, k])) for j, k in valid]
        # No source can agree with the truth more often than it votes.
        assert right == pytest.approx((coverage[i] + min(float(pool(values)), coverage[i])) / 2, abs=1e-9)


def test_a_given_balance_leaves_the_recorded_accuracies_as_they_are():
    """Source 5 is recorded as right more often than it votes, which no source can be."""
    for name in PRIOR_TWICE:
        data, _, label_model = fit(name)
        ours, theirs = np.array(label_model.estimated_accuracies()), data["estimated_accuracies"]
        np.testing.assert_allclose(ours[:5], theirs[:5], atol=1e-6)
        coverage = (data["L"][:, 5] != 0).mean()
        assert theirs[5] > coverage == pytest.approx(ours[5])


@pytest.mark.parametrize("name", DEPENDENT)
def test_joint_tables_of_dependent_sources_keep_what_was_observed(name):
    """The recorded tables do not: a conditional probability stands in them for a joint one."""
    data, arguments, label_model = fit(name)
    model, votes = label_model.model_, data["L"]
    for number, unit in enumerate(model.fit_.units):
        if unit.separator:  # follows the table that it shares a source with
            continue
        a, b = unit.sources
        table = (unit.table * model.class_balance_[:, None]).sum(axis=0).reshape(3, 3).T
        observed = np.array(
            [[np.mean((votes[:, a] == x) & (votes[:, b] == y)) for y in (0, -1, 1)] for x in (0, -1, 1)]
        )
        np.testing.assert_allclose(table, observed, atol=1e-4)  # 1e-4: states that never occurred
        names = arguments["clique_order"][number][1]
        if names[:2] == [f"lambda_{a}", f"lambda_{b}"]:
            recorded = data[f"clique_{number}"].sum(axis=2)
            assert np.abs(np.sort(recorded.ravel()) - np.sort(observed.ravel())).max() > 0.01


def test_runs_that_had_no_answer_say_why():
    with pytest.raises(NotIdentifiableError, match="divides by E"):
        fit("ind_abst_independencies")


def test_the_guide_has_the_numbers():
    """Of every recorded run: the largest change of a P(+1), the share of labels that change, and the largest
    change of P(vote = truth)."""
    rows = dict(re.findall(r"^\| `(\w+)` \|.*?\| ([\d.]+ \| [\d.]+% \| [\d.]+) \|$", GUIDE.read_text(), re.M))
    for name in [*PRIOR_TWICE, *DEPENDENT, *CHAINS]:
        assert rows[name] == change(name), name


def change(name) -> str:
    data, _, label_model = fit(name)
    marginal = np.abs(label_model.predict_proba_marginalized(data["L"]) - data["predict_proba_marginalized"])
    labels = (label_model.predict(data["L"]) != data["predict"]).mean()
    accuracies = np.abs(np.array(label_model.estimated_accuracies()) - data["estimated_accuracies"])
    return f"{marginal.max():.2f} | {labels:.1%} | {accuracies.max():.3f}"


def groups_of(m, edges):
    """Numbers of groups of dependent sources."""
    group = list(range(m))
    for _ in edges:
        for a, b in edges:
            group[a] = group[b] = min(group[a], group[b])
    return group


def enumerated(label_model, votes):
    """All Y, and P(Y | votes) of each, shape (n, 2^v): factors of the fitted model multiplied for every Y."""
    model = label_model.model_
    ys = list(itertools.product((-1, 1), repeat=label_model.v))
    units = getattr(model.fit_, "units", ())  # none without dependent sources
    in_units = {source for unit in units for source in unit.sources}
    scores = np.empty((len(votes), len(ys)))
    for column, y in enumerate(ys):
        states = [int(value == 1) for value in y]
        score = np.full(len(votes), prior(model, states))
        for i in range(label_model.m):
            given = model.confusion_[i, states[model.graph_.source_task[i]]]
            if i not in in_units:  # no vote is not evidence
                score *= np.select([votes[:, i] == -1, votes[:, i] == 1], [given[0], given[1]], 1.0)
        for unit in units:
            score *= unit_factor(unit, states[0], votes)
        scores[:, column] = score
    return ys, scores / scores.sum(axis=1, keepdims=True)


def prior(model, states):
    """P(Y) of one task, or of a chain: pairs divided by what they share."""
    if len(states) == 1:
        return model.class_balance_[states[0]]
    pairs = np.prod([t[states[d], states[d + 1]] for d, t in enumerate(model.task_tables_)])
    return pairs / np.prod([model.class_balance_[d, states[d]] for d in range(1, len(states) - 1)])


def unit_factor(unit, state, votes):
    """P(votes of two dependent sources | Y), divided by that of the source that an earlier unit has too."""
    a, b = unit.sources
    place = {0: 0, -1: 1, 1: 2}
    table = unit.table[state].reshape(3, 3)  # the second source slowest
    first, second = ([place[v] for v in votes[:, i]] for i in (a, b))
    joint = table[second, first]
    if unit.separator == (a,):
        return joint / table.sum(axis=0)[first]
    return joint / table.sum(axis=1)[second] if unit.separator == (b,) else joint
