"""Errors decrease at the rates that theory predicts."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs

pytestmark = pytest.mark.slow
TRUTH = np.array([0.9, 0.8, 0.75, 0.7, 0.65])


@pytest.mark.parametrize("method", ["triplet", fs.solvers.Triplet("median"), fs.solvers.Triplet("best")])
@pytest.mark.parametrize(("p", "coverage"), [(0.5, 1.0), (0.25, 0.6)])
def test_sixteen_times_the_rows_is_four_times_closer(method, p, coverage):
    rng, balance = np.random.default_rng(0), [1 - p, p]

    def rmse(n: int) -> float:
        errors = []
        for _ in range(60):
            votes = fs.datasets.simulate(
                n, TRUTH, coverage=coverage, class_balance=balance, random_state=rng
            ).votes
            model = fs.LabelModel(method=method, class_balance=balance).fit(votes)
            errors.append(model.accuracies_ - TRUTH)
        return float(np.sqrt(np.mean(np.square(errors))))

    assert rmse(8_000) / rmse(128_000) == pytest.approx(4, rel=0.3)


def test_independencies_converge_at_the_same_rate():
    rng, balance = np.random.default_rng(0), [0.1, 0.9]

    def rmse(n: int) -> float:
        votes = [
            fs.datasets.simulate(n, TRUTH, class_balance=balance, random_state=rng).votes for _ in range(60)
        ]
        models = [fs.LabelModel(method="marginal", class_balance=balance).fit(v) for v in votes]
        return float(np.sqrt(np.mean([(m.accuracies_ - TRUTH) ** 2 for m in models])))

    assert rmse(2_000) / rmse(32_000) == pytest.approx(4, rel=0.3)


def test_labels_approach_the_bayes_rule():
    rng = np.random.default_rng(0)
    sample = fs.datasets.simulate(100_000, TRUTH, coverage=0.7, class_balance=[0.3, 0.7], random_state=rng)
    model = fs.LabelModel(class_balance=[0.3, 0.7]).fit(sample.votes)
    odds = np.log(TRUTH / (1 - TRUTH))
    codes = sample.votes.codes
    log_odds = np.log(7 / 3) + np.where(codes == 1, odds, np.where(codes == 0, -odds, 0)).sum(axis=1)
    bayes = 1 / (1 + np.exp(-log_odds))
    assert np.abs(model.predict_proba(sample.votes)[:, 1] - bayes).mean() < 0.01
