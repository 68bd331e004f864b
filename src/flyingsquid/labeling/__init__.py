"""Functions that people write, applied to data: the sources of votes."""

from flyingsquid.labeling.application import apply, apply_chunks
from flyingsquid.labeling.chunks import ChunkLabels, label_chunk
from flyingsquid.labeling.failures import ApplyLog, Failure
from flyingsquid.labeling.functions import LabelingFunction, labeling_function
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
