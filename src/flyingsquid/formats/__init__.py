"""Votes and labels in the files that people keep: csv, tsv, JSON lines, npy, npz, parquet, arrow, WRENCH."""

from flyingsquid.formats.labels import LabelWriter
from flyingsquid.formats.opening import VoteChunk, VoteFile, open_votes
from flyingsquid.formats.recognise import FORMATS, format_of_name
from flyingsquid.formats.writing import write_votes

__all__ = ["FORMATS", "LabelWriter", "VoteChunk", "VoteFile", "format_of_name", "open_votes", "write_votes"]
