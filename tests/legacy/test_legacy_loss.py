"""The 2020 loss: its labels, its averages, its buffer, its options."""

from __future__ import annotations

import copy
import subprocess
import sys

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from tests.support.absent import without

torch = pytest.importorskip("torch")

from flyingsquid.legacy import FSLoss, LabelModel  # noqa: E402

pytestmark = pytest.mark.extra
CHAIN = ([(0, 1), (1, 2)], [(i, i // 4) for i in range(12)])


def signed(votes):
    codes = votes.codes.astype(np.int64)
    return torch.as_tensor(np.where(codes < 0, 0, 2 * codes - 1))


@pytest.fixture(scope="module")
def votes():
    drawn = fs.datasets.simulate(1_000, accuracies=[0.9, 0.8, 0.7, 0.7], coverage=0.8, random_state=0)
    return signed(drawn.votes)


@pytest.fixture(scope="module")
def clips():
    graph = fs.DependencyGraph.chain(3, 4)
    return signed(fs.datasets.simulate_graph(1_000, graph, 0.8, coverage=0.8, random_state=0).votes)


def as_classes(votes) -> fs.Votes:
    return fs.Votes.from_classes(np.where(votes == 0, -1, (votes + 1) // 2), classes=(0, 1))


def bce(logits, labels, pos_weight=None):
    return torch.nn.BCEWithLogitsLoss(pos_weight=pos_weight)(logits, labels)


def test_the_loss_is_binary_cross_entropy_with_the_labels_of_the_model(votes):
    criterion = FSLoss(4, buffer_capacity=1_000, cb=[0.4, 0.6])
    logits = torch.linspace(-2, 2, 1_000).reshape(-1, 1).requires_grad_()
    loss = criterion(logits, votes)
    label_model = LabelModel(4)
    label_model.fit(votes.numpy(), class_balance=[0.4, 0.6])
    labels = torch.as_tensor(label_model.predict_proba_marginalized(votes.numpy())).float()[:, None]
    torch.testing.assert_close(loss, bce(logits, labels), atol=1e-5, rtol=1e-5)
    loss.backward()
    assert logits.grad.abs().sum() > 0


def test_tasks_of_a_chain_and_the_weight_of_positives(clips):
    weight = torch.tensor([3.0])
    criterion = FSLoss(12, 3, *CHAIN, buffer_capacity=1_000, pos_weight=weight)
    logits = torch.linspace(-2, 2, 3_000).reshape(-1, 3)
    loss = criterion(logits, clips)
    label_model = LabelModel(12, 3, *CHAIN)
    label_model.fit(clips.numpy())
    labels = torch.as_tensor(label_model.predict_proba_marginalized(clips.numpy())).float().reshape(-1, 3)
    torch.testing.assert_close(loss, bce(logits, labels, weight), atol=1e-5, rtol=1e-5)
    stacked = FSLoss(12, 3, *CHAIN, buffer_capacity=1_000, pos_weight=3)
    torch.testing.assert_close(stacked(logits, clips.reshape(-1, 3, 4)), loss)


def test_labels_can_be_clamped(votes):
    criterion = FSLoss(4, buffer_capacity=1_000, clamp_vals=True)
    logits = torch.linspace(-2, 2, 1_000)[:, None]
    loss = criterion(logits, votes)
    label_model = LabelModel(4)
    label_model.fit(votes.numpy())
    labels = torch.as_tensor(label_model.predict_proba_marginalized(votes.numpy())) >= 0.5
    torch.testing.assert_close(loss, bce(logits, labels.float()[:, None]), atol=1e-5, rtol=1e-5)


def test_sources_are_judged_by_the_latest_items_when_it_is_time(votes):
    criterion = FSLoss(4, buffer_capacity=200, update_frequency=150)
    zeros = torch.zeros(100, 1)
    expected = {100: None, 200: votes[:200], 300: votes[:200], 400: votes[200:400], 500: votes[200:400]}
    for seen, latest in expected.items():
        criterion(zeros, votes[seen - 100 : seen])
        if latest is None:
            assert criterion.label_model is None
        else:
            assert criterion.label_model.moments_ == fs.Moments.of(as_classes(latest))
    criterion(zeros, votes[500:600], update_frequency=1)
    assert criterion.label_model.moments_ == fs.Moments.of(as_classes(votes[400:600]))


def test_a_saved_loss_goes_on_where_it_was(votes):
    first = FSLoss(4, buffer_capacity=300, update_frequency=150)
    zeros = torch.zeros(100, 1)
    for part in votes[:500].split(100):
        first(zeros, part)
    second = FSLoss(4, buffer_capacity=300, update_frequency=150)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    for part in votes[500:].split(100):
        assert first(zeros, part) == second(zeros, part)


def test_nothing_is_learned_in_evaluation(votes):
    criterion = FSLoss(4, buffer_capacity=1_000).eval()
    criterion(torch.zeros(1_000, 1), votes)
    assert criterion.label_model is None
    assert int(criterion.n_waiting) == 0


def test_triplets_and_gold_labels_have_their_part(votes):
    chosen = [(0, 1, 2), (0, 1, 3)]
    criterion = FSLoss(4, buffer_capacity=1_000, triplets=chosen, Y_dev=[[1]] * 6 + [[-1]] * 2)
    criterion(torch.zeros(1_000, 1), votes)
    label_model = LabelModel(4, triplets=chosen)
    label_model.fit(votes.numpy(), Y_dev=[[1]] * 6 + [[-1]] * 2, solve_method="triplet")
    fitted = criterion.label_model
    np.testing.assert_allclose(fitted.accuracies_, label_model.model_.accuracies_)
    np.testing.assert_allclose(fitted.class_balance_, [0.3, 0.7])


def test_bad_input_is_named(votes):
    criterion = FSLoss(4)
    zeros = torch.zeros(10, 1)
    with pytest.raises(VotesError, match=r"`weak_labels` .*2 in row 0, source 1"):
        criterion(zeros, torch.tensor([[1, 2, 0, 0]]))
    with pytest.raises(VotesError, match=r"`weak_labels` .*\(b, 4\); got \(10, 3\)"):
        criterion(zeros, votes[:10, :3])
    with pytest.raises(VotesError, match="allow_abstentions=False"):
        FSLoss(4, allow_abstentions=False)(zeros, torch.zeros(10, 4))
    for options, text in (
        ({"update_frequency": 0}, "`update_frequency` must"),
        ({"buffer_capacity": 0}, "`buffer_capacity` must"),
        ({"pos_weight": [1.0, 2.0]}, "pos_weight"),
        ({"pos_weight": -1.0}, "pos_weight"),
        ({"cb": [0.5, 0.5], "Y_dev": [[1]]}, "`class_balance` or `Y_dev`"),
        ({"triplets": [("lambda_0", "lambda_1", "lambda_9")]}, "lambda_9"),
    ):
        with pytest.raises(OptionError, match=text):
            FSLoss(4, **options)
    with pytest.raises(IncompatibleError, match="`predictions` must"):
        criterion(zeros[:5], votes[:10])
    assert int(criterion.n_waiting) == 0
    with pytest.raises(OptionError, match="`update_frequency` must"):
        criterion(zeros, votes[:10], update_frequency=-1)


@pytest.mark.system
def test_without_torch_the_error_names_the_extra():
    code = """
from flyingsquid import legacy
legacy.LabelModel(3)
try:
    legacy.FSLoss
except ModuleNotFoundError as error:
    sys.exit(str(error))
"""
    answer = subprocess.run(
        [sys.executable, "-c", without(["torch"], code)], capture_output=True, text=True, check=False
    )
    assert "pip install 'flyingsquid[torch]'" in answer.stderr
