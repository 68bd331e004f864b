"""Votes that were not asked for: they are not evidence, and do not make sources look dependent."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.votes.codes import NOT_ASKED


def judges(n, rng, accuracies=(0.9, 0.85, 0.8, 0.75, 0.7, 0.7)):
    y = rng.integers(0, 2, n)
    return y, np.where(rng.random((n, len(accuracies))) < accuracies, y[:, None], 1 - y[:, None])


def asked_until_agreed(votes, n_complete):
    """Ask from the first judge on until two more votes agree than disagree, except for complete items."""
    margin = np.abs(np.cumsum(2 * votes - 1, axis=1))
    is_left = np.cumsum(margin >= 2, axis=1) - (margin >= 2) > 0
    is_left[:n_complete] = False
    return is_left


def test_abstentions_that_depend_on_the_class_are_evidence_unless_not_asked():
    rng = np.random.default_rng(0)
    y, votes = judges(4_000, rng)
    is_missing = rng.random(votes.shape) < np.where(y == 0, 0.6, 0.1)[:, None]
    codes = {code: np.where(is_missing, code, votes).astype(np.int8) for code in (-1, NOT_ASKED)}
    odds = {}
    for code, cells in codes.items():
        model = fs.LabelModel().fit(fs.Votes(cells, (0, 1)))
        row = np.full((1, 6), code, np.int8)
        row[0, 3] = 1
        odds[code] = model.predict_proba(fs.Votes(row, (0, 1)))[0, 1]
    assert odds[-1] < 0.3  # five abstentions mean class 0
    assert odds[NOT_ASKED] > 0.6  # one vote for class 1


def test_adaptive_asking_does_not_make_judges_look_dependent():
    y, votes = judges(4_000, np.random.default_rng(1))
    is_left = asked_until_agreed(votes, 300)
    marked = fs.Votes(np.where(is_left, NOT_ASKED, votes).astype(np.int8), (0, 1))
    plain = fs.Votes(np.where(is_left, -1, votes).astype(np.int8), (0, 1))
    data = fs.solvers.FitData(
        moments=fs.Moments.of(marked), votes=marked, rows="all", complete=np.arange(4_000) < 300
    )
    fit, blind = fs.solvers.Auto().solve(data), fs.LabelModel().fit(plain).fit_
    accuracies = [0.9, 0.85, 0.8, 0.75, 0.7, 0.7]
    errors = [np.abs(each.accuracies - accuracies).max() for each in (fit, blind)]
    assert errors[0] < 0.03
    assert errors[1] > 0.03
    assert fit.mixture.trust > 0.8
    assert blind.mixture.trust < 0.1
    right = [(each.posterior(marked.codes)[:, 0].argmax(axis=1) == y).mean() for each in (fit, blind)]
    assert right[0] >= right[1] - 0.002


def test_not_asked_is_counted_and_kept_in_files(tmp_path):
    codes = np.array([[0, 1, NOT_ASKED], [1, NOT_ASKED, NOT_ASKED], [0, 0, 1]], np.int8)
    votes = fs.Votes(codes, ("a", "b"), names=["ann", "bob", "cat"])
    assert votes.missing_counts()["not_asked"].tolist() == [0, 1, 2]
    assert fs.Moments.of(votes).missing_counts()["not_asked"].tolist() == [0, 1, 2]
    assert fs.summarize(votes).to_dict()["not_asked"] == [0, 1, 2]
    fs.files.write_votes(tmp_path / "votes.csv", votes)
    assert fs.files.open_votes(tmp_path / "votes.csv").read().votes.codes.tolist() == codes.tolist()


@pytest.mark.parametrize("n_complete", [0, 10, 1_000])
def test_all_numbers_of_complete_items(n_complete):
    y, votes = judges(1_000, np.random.default_rng(2))
    is_left = asked_until_agreed(votes, n_complete)
    marked = fs.Votes(np.where(is_left, NOT_ASKED, votes).astype(np.int8), (0, 1))
    assert fs.LabelModel().fit(marked).score(marked, y) > 0.85
