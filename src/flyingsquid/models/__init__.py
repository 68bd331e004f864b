"""Thin estimators over the statistic, the solvers and the inference."""

from flyingsquid.models.files import load
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.models.sequence_model import SequenceLabelModel
from flyingsquid.models.structure import LearnedGraph, learn_structure

__all__ = [
    "LabelModel",
    "LearnedGraph",
    "MajorityVote",
    "MultiLabelModel",
    "OnlineLabelModel",
    "SequenceLabelModel",
    "learn_structure",
    "load",
]
