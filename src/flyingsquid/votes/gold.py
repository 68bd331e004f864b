"""Known labels as codes: whatever a user passes as true classes, some of which may be unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import VotesError
from flyingsquid.votes.convention import Convention
from flyingsquid.votes.encode import as_column, encode
from flyingsquid.votes.states import ABSTAIN, Label


def read_task_gold(y: Any, classes: tuple[Label, ...], shape: tuple[int, int], what: str) -> NDArray[Any]:
    """Codes of known labels, shape (n, D), negative where unknown; ``y`` is (n, D), or (n,) for one task."""
    n_items, n_tasks = shape
    if n_tasks == 1:
        column = y[:, 0] if getattr(y, "shape", None) == (n_items, 1) else y
        return read_gold(column, classes, n_items, what)[:, None]
    try:
        table = np.asanyarray(y)
    except Exception as error:  # whatever a stranger's class does when it is asked for its values
        raise VotesError(f"{what} is no table of {n_items} items and {n_tasks} tasks: {error}") from error
    if table.shape != shape:
        raise VotesError(
            f"{what} has shape {table.shape}; one label for each of {n_items} items and {n_tasks} tasks, "
            f"{shape}"
        )
    return read_gold(table.reshape(-1), classes, n_items * n_tasks, what).reshape(shape)


def read_gold(y: Any, classes: tuple[Label, ...], n_items: int, what: str) -> NDArray[Any]:
    """Codes of known labels, shape (n,), negative where unknown."""
    gold = as_column(y, f"true classes {what}")
    if len(gold) != n_items:
        raise VotesError(f"{what} has {len(gold)} labels; one for each of {n_items} items is needed")
    unknown = None if ABSTAIN in classes else ABSTAIN
    convention = Convention(unknown, classes, advice=f"{what} holds true classes, as the votes have them")
    codes, _ = encode(gold[:, None], convention, lambda row, _: f"{what}[{row}]")
    return np.asarray(codes[:, 0])
