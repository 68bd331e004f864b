"""Scores of soft labels against gold, as the package has them, and how pages show them."""

from __future__ import annotations

from flyingsquid.reproduce.scores import (
    CLIP,
    METRICS,
    TIE,
    add_one_shares,
    credit,
    expected_answers,
    f1,
    log_loss,
    scores_of,
)

__all__ = [
    "CLIP",
    "METRICS",
    "TIE",
    "add_one_shares",
    "cell",
    "credit",
    "expected_answers",
    "f1",
    "log_loss",
    "scores_of",
]


def cell(result: dict[str, float] | str) -> str:
    """Accuracy, F1 and log loss in a table; a text is why there are none."""
    if isinstance(result, str):
        return "refused"
    return f"{100 * result['accuracy']:.1f} / {100 * result['f1']:.1f} / {result['log_loss']:.3f}"
