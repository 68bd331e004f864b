"""Judges: language models, other programs and people that are asked about each item."""

from flyingsquid.judges import answers
from flyingsquid.judges.judge import Judge
from flyingsquid.judges.run import JudgeRun, ask_judges

__all__ = ["Judge", "JudgeRun", "answers", "ask_judges"]
