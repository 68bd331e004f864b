"""The Hugging Face recipe of the documentation, run with a tiny network that is made from a configuration."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import flyingsquid as fs

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("accelerate")

pytestmark = [pytest.mark.extra, pytest.mark.filterwarnings("default")]
PAGE = Path(__file__).parents[2] / "docs" / "guides" / "end-models.md"


def test_the_recipe_learns_the_sources_and_saves_them():
    import torch

    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "end-models.md", "exec"), names)  # our own page
    votes = names["sample"].votes[range(200)]
    assert names["sources"].moments.n_items == 200
    assert names["sources"].moments == fs.Moments.of(votes.codes)
    saved = Path(names["arguments"].output_dir) / "checkpoint-10" / "label_sources.pt"
    assert torch.load(saved, weights_only=True).keys() == names["sources"].state_dict().keys()
    evaluated = names["trainer"].evaluate(names["data"])
    assert evaluated["eval_loss"] < 1
    assert names["sources"].moments.n_items == 200  # evaluation does not learn
