"""``fit_predict``, and the options of ``predict`` that all models share."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import OptionError, VotesError
from tests.support.strategies import fittable_votes

VOTES = fittable_votes(0)
MODELS = [fs.LabelModel(), fs.LabelModel(method="covariance"), fs.MajorityVote(), fs.SequenceLabelModel()]


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_fit_predict_is_fit_and_predict(model):
    fitted = model.fit(VOTES)
    np.testing.assert_array_equal(model.fit_predict(VOTES), fitted.predict(VOTES))
    np.testing.assert_array_equal(model.fit_predict_proba(VOTES), fitted.predict_proba(VOTES))


@pytest.mark.filterwarnings("ignore::flyingsquid.exceptions.VotesWarning")
def test_options_reach_both_steps():
    weights = np.linspace(0.5, 2, len(VOTES))
    fitted = fs.LabelModel().fit(VOTES, sample_weight=weights)
    expected = fitted.predict_proba(VOTES, dtype=np.float32)
    found = fs.LabelModel().fit_predict_proba(VOTES, sample_weight=weights, dtype=np.float32)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)
    tied = [[0, 1], [1, 1], [-1, -1]]
    assert fs.MajorityVote().fit_predict(tied, tie_break="abstain").tolist() == [-1, 1, -1]
    again = [fs.MajorityVote().fit_predict(tied * 50, tie_break="random", random_state=7) for _ in range(2)]
    np.testing.assert_array_equal(*again)


def test_chunks_are_read_twice():
    parts = list(fs.MajorityVote().fit_predict(fs.VoteChunks([VOTES[:10], VOTES[10:]], classes=(0, 1))))
    np.testing.assert_array_equal(np.concatenate(parts), fs.MajorityVote().fit_predict(VOTES))
    once = fs.VoteChunks(iter([VOTES]), classes=(0, 1))
    with pytest.raises(VotesError, match="iterator"):
        list(fs.MajorityVote().fit_predict(once))


def test_multi_label():
    votes = np.stack([VOTES, 1 - VOTES.clip(0)], axis=2)
    model = fs.MultiLabelModel()
    np.testing.assert_array_equal(model.fit_predict(votes), model.fit(votes).predict(votes))
    np.testing.assert_array_equal(model.fit_predict_proba(votes), model.fit(votes).predict_proba(votes))


def test_y_is_ignored():
    gold = np.zeros(len(VOTES), int)
    with_y, without = fs.LabelModel().fit(VOTES, gold), fs.LabelModel().fit(VOTES)
    np.testing.assert_array_equal(with_y.predict_proba(VOTES), without.predict_proba(VOTES))
    np.testing.assert_array_equal(
        fs.LabelModel().fit_predict_proba(VOTES, gold), without.predict_proba(VOTES)
    )
    assert "gold" in inspect.getdoc(fs.LabelModel.fit).partition("y : ignored")[2]


@pytest.mark.parametrize(
    "model", [fs.LabelModel, fs.MajorityVote, fs.OnlineLabelModel, fs.SequenceLabelModel, fs.MultiLabelModel]
)
def test_ties_have_the_same_options_everywhere(model):
    parameters = inspect.signature(model.predict).parameters
    assert parameters["tie_break"].default == "first"
    assert parameters["random_state"].default is None


def test_ties_of_sequences():
    model = fs.SequenceLabelModel(class_balance="uniform").fit(VOTES)
    nobody = np.full((40, VOTES.shape[1]), -1)
    assert set(model.predict(nobody, joint=False)) == {0}
    assert set(model.predict(nobody, joint=False, tie_break="abstain")) == {-1}
    drawn = model.predict(nobody, joint=False, tie_break="random", random_state=0)
    assert set(drawn) == {0, 1}
    with pytest.raises(OptionError, match="tie_break"):
        model.predict(nobody, tie_break="abstain")


def test_ties_of_labels():
    model = fs.MultiLabelModel(fs.MajorityVote()).fit(np.array([[[0], [1]], [[1], [1]], [[0], [0]]]))
    tied = np.array([[[0], [1]]] * 40)
    assert set(model.predict(tied, tie_break="abstain").ravel()) == {-1}
    assert set(model.predict(tied, tie_break="random", random_state=0).ravel()) == {0, 1}


LEARNED = {
    "fit": lambda votes, weight: fs.LabelModel().fit(votes, sample_weight=weight).moments_,
    "partial_fit": lambda votes, weight: fs.LabelModel().partial_fit(votes, sample_weight=weight).moments_,
    "Moments.of": lambda votes, weight: fs.Moments.of(votes, sample_weight=weight),
    "MajorityVote.fit": lambda votes, weight: str(
        fs.MajorityVote().fit(votes, sample_weight=weight).summary()
    ),
    "MajorityVote.partial_fit": lambda votes, weight: str(
        fs.MajorityVote().fit(votes).partial_fit(votes, sample_weight=weight).summary()
    ),
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("ids", ["names", "numbers"])
def test_weights_are_joined_by_item_identifier(name, ids):
    pd = pytest.importorskip("pandas")
    draw = fs.datasets.simulate(80, [0.9, 0.8, 0.7], coverage=0.7, random_state=0)
    index = [f"i{at}" for at in range(80)] if ids == "names" else None
    votes = pd.DataFrame(draw.votes.codes, columns=list("abc"), index=index)
    weight = pd.Series(np.arange(1, 81), index=votes.index)
    expected = LEARNED[name](votes, weight.to_numpy())
    assert LEARNED[name](votes, weight[::-1]) == expected
    assert LEARNED[name](votes, dict(weight[::-1])) == expected
    assert LEARNED[name](votes, weight.to_numpy()[::-1]) != expected
