"""Labeling functions and their application to data."""

from flyingsquid.labeling.application import apply, apply_chunks
from flyingsquid.labeling.chunks import ApplyLog, ChunkLabels, label_chunk
from flyingsquid.labeling.columns import Failure
from flyingsquid.labeling.functions import LabelingFunction, Row, labeling_function
from flyingsquid.labeling.rules import (
    classifier,
    from_column,
    from_file,
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
    "gazetteer",
    "keywords",
    "label_chunk",
    "labeling_function",
    "regex",
    "threshold",
]
