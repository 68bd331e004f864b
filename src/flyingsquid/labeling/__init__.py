"""Labeling functions and their application to data."""

# Judges are documented in flyingsquid.judges, and can be imported from here too.
from flyingsquid.judges import Judge as Judge
from flyingsquid.judges import JudgeRun as JudgeRun
from flyingsquid.judges import answers as answers
from flyingsquid.judges import ask_judges as ask_judges
from flyingsquid.labeling.application import apply, apply_chunks
from flyingsquid.labeling.chunks import ApplyLog, ChunkLabels, label_chunk
from flyingsquid.labeling.columns import Failure
from flyingsquid.labeling.functions import LabelingFunction, labeling_function
from flyingsquid.labeling.items import Row
from flyingsquid.labeling.rules import (
    classifier,
    from_column,
    from_file,
    from_mapping,
    gazetteer,
    keywords,
    regex,
    threshold,
)

__all__ = [
    "ApplyLog",
    "ChunkLabels",
    "Failure",
    "LabelingFunction",
    "Row",
    "apply",
    "apply_chunks",
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
