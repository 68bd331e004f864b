"""Estimators. ``end_model`` is imported on its own, because it imports scikit-learn."""

from flyingsquid.models.files import load
from flyingsquid.models.label_model import LabelModel
from flyingsquid.models.majority_vote import MajorityVote
from flyingsquid.models.multi_label import MultiLabelModel
from flyingsquid.models.online_model import OnlineLabelModel
from flyingsquid.models.score_model import BestOf, ScoreModel
from flyingsquid.models.sequence_model import SequenceLabelModel

__all__ = [
    "BestOf",
    "LabelModel",
    "MajorityVote",
    "MultiLabelModel",
    "OnlineLabelModel",
    "ScoreModel",
    "SequenceLabelModel",
    "load",
]
