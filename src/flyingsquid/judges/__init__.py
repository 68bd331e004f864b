"""Judges: language models, other programs and people that are asked about each item."""

from flyingsquid.judges import answers
from flyingsquid.judges.asking import Asking, AskingSimulation, simulate_asking
from flyingsquid.judges.judge import Judge
from flyingsquid.judges.run import JudgeRun, ask_judges

__all__ = ["Asking", "AskingSimulation", "Judge", "JudgeRun", "answers", "ask_judges", "simulate_asking"]
