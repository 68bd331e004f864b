"""Files of votes and labels: csv, tsv, JSON lines, npy, npz, parquet, arrow, WRENCH."""

from flyingsquid.files.inputs import FORMATS, format_of_name
from flyingsquid.files.vote_files import VoteChunk, VoteFile, open_votes
from flyingsquid.files.writing import LABEL_FORMATS, LabelWriter, write_votes

__all__ = [
    "FORMATS",
    "LABEL_FORMATS",
    "LabelWriter",
    "VoteChunk",
    "VoteFile",
    "format_of_name",
    "open_votes",
    "write_votes",
]
