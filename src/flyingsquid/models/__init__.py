"""Estimators."""

from flyingsquid.models.files import load
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.models.sequence_model import SequenceLabelModel
from flyingsquid.models.training_set import TrainingSet, to_training_set

__all__ = [
    "LabelModel",
    "MajorityVote",
    "MultiLabelModel",
    "OnlineLabelModel",
    "SequenceLabelModel",
    "TrainingSet",
    "load",
    "to_training_set",
]
