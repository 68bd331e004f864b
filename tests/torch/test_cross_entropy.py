"""Cross entropy with labels that are probabilities: PyTorch's own loss is the oracle."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from flyingsquid.exceptions import IncompatibleError, OptionError  # noqa: E402
from flyingsquid.torch import SoftCrossEntropy  # noqa: E402

pytestmark = pytest.mark.extra
functional = torch.nn.functional


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()
    targets = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return logits, targets / targets.sum(-1, keepdim=True)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_loss_of_pytorch(reduction, weighted):
    logits, targets = draw(7, 4)
    weight = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64) if weighted else None
    ours = SoftCrossEntropy(weight, reduction=reduction)(logits, targets)
    theirs = functional.cross_entropy(logits, targets, weight, reduction=reduction)
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_log_odds_are_the_softmax_of_two_classes():
    logits, targets = draw(9, 2)
    log_odds = logits[:, 1] - logits[:, 0]
    loss_fn = SoftCrossEntropy(torch.tensor([1.0, 3.0]))
    expected = loss_fn(logits, targets)
    torch.testing.assert_close(loss_fn(log_odds, targets), expected)
    torch.testing.assert_close(loss_fn(log_odds[:, None], targets), expected)
    plain = functional.binary_cross_entropy_with_logits(log_odds, targets[:, 1])
    torch.testing.assert_close(SoftCrossEntropy()(log_odds, targets), plain)


def test_sure_answers_stay_finite_and_exact():
    log_odds = torch.tensor([800.0, -800.0], requires_grad=True)
    loss = SoftCrossEntropy()(log_odds, torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
    assert float(loss.detach()) == 800
    loss.backward()
    assert log_odds.grad.tolist() == [0.5, -0.5]


def test_an_item_of_weight_zero_is_as_if_it_were_not_there():
    logits, targets = draw(6, 3)
    keep = torch.tensor([True, False, True, True, False, True])
    loss = SoftCrossEntropy()(logits, targets, keep)
    torch.testing.assert_close(loss, SoftCrossEntropy()(logits[keep], targets[keep]))
    loss.backward()
    assert (logits.grad[~keep] == 0).all()
    assert (logits.grad[keep] != 0).all()


def test_weights_of_items_divide_the_mean():
    logits, targets = draw(2, 3)
    each = SoftCrossEntropy(reduction="none")(logits, targets)
    weighted = SoftCrossEntropy()(logits, targets, torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(weighted, (each[0] + 3 * each[1]) / 4)
    summed = SoftCrossEntropy(reduction="sum")(logits, targets, torch.tensor([1.0, 3.0]))
    torch.testing.assert_close(summed, each[0] + 3 * each[1])


def test_nothing_to_learn_from_is_zero_and_not_nan():
    logits, targets = draw(3, 2)
    loss = SoftCrossEntropy()(logits, targets, torch.zeros(3))
    loss.backward()
    assert float(loss.detach()) == 0
    assert (logits.grad == 0).all()


def test_weights_of_items_spread_over_tasks():
    logits, targets = draw(4, 3, 2)
    keep = torch.tensor([1.0, 0.0, 1.0, 0.0])
    expected = SoftCrossEntropy()(logits[[0, 2]], targets[[0, 2]])
    torch.testing.assert_close(SoftCrossEntropy()(logits, targets, keep), expected)
    by_task = keep[:, None].expand(4, 3)
    torch.testing.assert_close(SoftCrossEntropy()(logits, targets, by_task), expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_computed_in_single(dtype):
    logits, targets = draw(5, 3)
    low = logits.detach().to(dtype).requires_grad_()
    loss = SoftCrossEntropy()(low, targets)
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    loss.backward()
    assert low.grad.dtype == dtype
    wide = SoftCrossEntropy()(low.detach().double(), targets)
    assert float(loss.detach()) == pytest.approx(float(wide), abs=1e-6)


def test_no_gradient_reaches_the_labels():
    logits, targets = draw(5, 3)
    targets.requires_grad_()
    SoftCrossEntropy()(logits, targets).backward()
    assert targets.grad is None


def test_class_weights_move_with_the_module():
    loss_fn = SoftCrossEntropy(torch.tensor([1.0, 2.0]))
    assert loss_fn.double().weight.dtype == torch.float64
    assert "weight" in loss_fn.state_dict()
    assert "reduction='mean'" in repr(loss_fn)


def test_what_does_not_fit_is_named():
    logits, targets = draw(5, 3)
    with pytest.raises(IncompatibleError, match=r"`logits` must .*\(5, 3\); got \(5, 2\)"):
        SoftCrossEntropy()(logits[:, :2], targets)
    with pytest.raises(IncompatibleError, match=r"`weight` must .*3.*got 2"):
        SoftCrossEntropy(torch.ones(2))(logits, targets)
    with pytest.raises(IncompatibleError, match=r"`item_weight` must .*got \(4,\)"):
        SoftCrossEntropy()(logits, targets, torch.ones(4))
    for column in (targets[:, 1], targets[:, 1:2]):  # one class: it was read as one item, or had the loss 0
        with pytest.raises(IncompatibleError, match="`targets` must"):
            SoftCrossEntropy()(torch.zeros(column.shape), column)
    with pytest.raises(OptionError, match="`reduction` must"):
        SoftCrossEntropy(reduction="avg")
    with pytest.raises(OptionError, match="`weight` must"):
        SoftCrossEntropy(torch.ones(2, 2))
