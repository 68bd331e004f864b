"""Sources: judges that are asked, and how their answers are read."""

from flyingsquid.labeling import answers
from flyingsquid.labeling.judge import Judge
from flyingsquid.labeling.judge_result import JudgeRun
from flyingsquid.labeling.judge_run import ask_judges

__all__ = ["Judge", "JudgeRun", "answers", "ask_judges"]
