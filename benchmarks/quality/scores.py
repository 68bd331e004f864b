"""Scores of soft labels against gold, as the package has them."""

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
    "credit",
    "expected_answers",
    "f1",
    "log_loss",
    "scores_of",
]
