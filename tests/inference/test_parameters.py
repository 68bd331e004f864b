"""The parameters of a fitted model give its labels, by inference elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import NotFittedError, OptionError
from flyingsquid.inference import sum_product, with_own_evidence

ALIKE = fs.DependencyGraph(5, source_edges=[(0, 1)])
CLIP = fs.DependencyGraph.chain(3, 4, source_edges=[(0, 1)])


@pytest.mark.parametrize(
    ("graph", "options"),
    [
        (fs.DependencyGraph(5), {"method": "triplet", "class_balance": [0.3, 0.7]}),
        (fs.DependencyGraph(5), {"method": "covariance"}),
        (fs.DependencyGraph(5), {"method": "agreement"}),
        (ALIKE, {"method": "triplet"}),
        (CLIP, {"method": "triplet"}),
        (CLIP, {"method": "triplet", "temper": 0.5}),
    ],
)
def test_parameters_give_the_labels_of_the_model(graph, options):
    sample = fs.datasets.simulate_graph(600, graph, 0.75, coverage=0.8, random_state=0)
    model = fs.LabelModel(None if graph.is_trivial else graph, **options).fit(sample.votes)
    found = model.fit_.parameters()
    evidence = found.emissions.evidence(sample.votes.codes)
    posterior, _ = sum_product(found.temper * evidence, found.tree, found.clique_tables)
    labels = with_own_evidence(posterior, evidence, found.temper)
    expected = model.predict_proba(sample.votes).reshape(labels.shape)
    np.testing.assert_allclose(labels, expected, atol=1e-12)


def test_what_has_no_such_parameters_is_refused():
    with pytest.raises(NotFittedError):
        fs.LabelModel().fit_  # noqa: B018
    votes = fs.Votes.from_long([0, 0, 1], ["a", "b", "a"], [0, 1, 2999], classes=range(3_000))
    huge = fs.LabelModel(method="agreement").fit(votes)
    with pytest.raises(OptionError, match=r"sparse.*use predict_proba"):
        huge.fit_.parameters()
