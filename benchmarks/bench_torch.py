"""Claim: learning the sources in the loop adds less than 5% to the step of a small network.

A residual network of about a million parameters on batches of 64 images of 32 x 32, on the CPU: seconds of
a training step with ``LabelModelLoss`` on 10 sources, compared with the same step with ``SoftCrossEntropy``
on labels that are ready. The loss alone is compared with that step too, which is less noisy.

Run with ``python -m benchmarks.bench_torch``; ``--save`` writes the results file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

import flyingsquid as fs
from benchmarks.harness import alternate, machine, ratio, save, save_parser
from flyingsquid.torch import LabelModelLoss, SoftCrossEntropy

BATCH, SIDE, SOURCES, ITEMS = 64, 32, 10, 6_400
GOAL = 0.05


class Block(nn.Module):
    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.shortcut = nn.Identity() if before == after else nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.path(x) + self.shortcut(x))


def network() -> nn.Module:
    """About a million parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 1, 1, bias=False),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        Block(32, 32, 1),
        Block(32, 64, 2),
        Block(64, 64, 1),
        Block(64, 128, 2),
        Block(128, 200, 1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(200, 2),
    )


def draw(n_classes: int) -> Tensor:
    rng = np.random.default_rng(0)
    truth = rng.integers(0, n_classes, (ITEMS, 1))
    right = rng.random((ITEMS, SOURCES)) < np.linspace(0.6, 0.9, SOURCES)
    votes = np.where(right, truth, rng.integers(0, n_classes, (ITEMS, SOURCES)))
    return torch.as_tensor(np.where(rng.random((ITEMS, SOURCES)) < 0.3, -1, votes))


def stepper(loss_of: Callable[[Tensor, Tensor], Tensor], batches: list[Tensor]) -> Callable[[], None]:
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    images, number = torch.randn(BATCH, 3, SIDE, SIDE), 0

    def step() -> None:
        nonlocal number
        optimizer.zero_grad()
        loss_of(model(images), batches[number % len(batches)]).backward()
        optimizer.step()
        number += 1

    return step


def measure(repeats: int) -> dict[str, Any]:
    votes = draw(2)
    batches = list(votes.split(BATCH))
    model = fs.LabelModel().fit_moments(fs.Moments.of(votes.numpy()))
    ready = torch.as_tensor(model.predict_proba(batches[0].numpy()), dtype=torch.float32)
    in_the_loop, alone, plain = LabelModelLoss(SOURCES), LabelModelLoss(SOURCES), SoftCrossEntropy()
    zeros, number = torch.zeros(BATCH, 2, requires_grad=True), 0
    for loss_fn in (in_the_loop, alone):
        loss_fn.update(votes)  # past the warm-up

    def loss_alone() -> None:
        nonlocal number
        alone(zeros, batches[number % len(batches)])
        number += 1

    seconds = alternate(
        {
            "SoftCrossEntropy": stepper(lambda logits, _: plain(logits, ready), batches),
            "LabelModelLoss": stepper(in_the_loop, batches),
            "LabelModelLoss alone": loss_alone,
            "SoftCrossEntropy alone": lambda: plain(zeros, ready),
        },
        repeats=repeats,
    )
    return {
        "parameters": sum(p.numel() for p in network().parameters()),
        "batch": BATCH,
        "sources": SOURCES,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "step": ratio(seconds, "LabelModelLoss", "SoftCrossEntropy"),
        "loss_alone": ratio(seconds, "LabelModelLoss alone", "SoftCrossEntropy"),
        "plain_loss_alone": ratio(seconds, "SoftCrossEntropy alone", "SoftCrossEntropy"),
        "goal": 1 + GOAL,
    }


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"{results['parameters']:,} parameters, batch {BATCH}, {SOURCES} sources")
    for column in ("", "compared with a step with ready labels", "ms"):
        table.add_column(column, justify="right")
    for name, title in (
        ("step", f"a step that learns its sources (at most {1 + GOAL:g})"),
        ("loss_alone", "of that the loss, by itself"),
        ("plain_loss_alone", "the loss of ready labels, by itself"),
    ):
        one = results[name]
        spread = f"{one['ratio']}x ({one['low']} to {one['high']})"
        table.add_row(title, spread, f"{1e3 * one['seconds']:.1f}")
    console.print(table)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--repeats", type=int, default=40, help="rounds of each contender")
    options = parser.parse_args()
    console = Console()
    console.print(machine())
    results = measure(options.repeats)
    show(results, console)
    if options.save:
        console.print(f"written to {save('torch', results)}")


if __name__ == "__main__":
    main()
