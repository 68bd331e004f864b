"""The sources of votes: functions that people write, applied to data, and judges that are asked."""

from flyingsquid.labeling import answers
from flyingsquid.labeling.application import apply, apply_chunks
from flyingsquid.labeling.chunks import ChunkLabels, label_chunk
from flyingsquid.labeling.failures import ApplyLog, Failure
from flyingsquid.labeling.functions import LabelingFunction, labeling_function
from flyingsquid.labeling.judge import Judge
from flyingsquid.labeling.judge_result import JudgeRun
from flyingsquid.labeling.judge_run import ask_judges
from flyingsquid.labeling.makers import (
    classifier,
    from_column,
    from_file,
    from_mapping,
    gazetteer,
    keywords,
    regex,
    threshold,
)
from flyingsquid.labeling.rows import Row

__all__ = [
    "ApplyLog",
    "ChunkLabels",
    "Failure",
    "Judge",
    "JudgeRun",
    "LabelingFunction",
    "Row",
    "answers",
    "apply",
    "apply_chunks",
    "ask_judges",
    "classifier",
    "from_column",
    "from_file",
    "from_mapping",
    "gazetteer",
    "keywords",
    "label_chunk",
    "labeling_function",
    "regex",
    "threshold",
]
