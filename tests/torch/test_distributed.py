"""Two gloo processes with a part of the rows each hold the same counts, and those of one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flyingsquid as fs

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("this build of torch has no torch.distributed", allow_module_level=True)

pytestmark = [pytest.mark.extra, pytest.mark.system]
PROCESS = Path(__file__).parents[1] / "support" / "torch_process.py"


def run(folder: Path, world: int) -> list[list[dict[str, Any]]]:
    """The states that each process leaves behind."""
    processes = [
        subprocess.Popen([sys.executable, PROCESS, folder, str(rank), str(world)]) for rank in range(world)
    ]
    try:
        assert [process.wait(timeout=240) for process in processes] == [0] * world
    finally:
        for process in processes:
            process.kill()
    return [torch.load(folder / f"{world}_{rank}.pt", weights_only=True) for rank in range(world)]


def test_two_processes_hold_the_counts_of_one(tmp_path):
    sample = fs.datasets.simulate(300, accuracies=[0.9, 0.8, 0.7, 0.6], coverage=0.8, random_state=0)
    np.save(tmp_path / "votes.npy", sample.votes.codes.astype(np.int64))
    (alone,), together = run(tmp_path, 1), run(tmp_path, 2)
    assert [int(one["loss"]["counts"][0]) for one in alone] == [300, 130]
    for states in together:
        for state, expected in zip(states, alone, strict=True):
            assert state["loss"].keys() == expected["loss"].keys()
            for name, counts in expected["loss"].items():
                assert torch.equal(state["loss"][name], counts), name
            assert torch.equal(state["labels"], expected["labels"])
