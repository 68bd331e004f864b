"""Turn noisy votes into training labels, in closed form.

>>> import flyingsquid as fs
>>> votes = fs.datasets.load_breast_cancer().votes
>>> model = fs.LabelModel().fit(votes)
>>> model.predict_proba(votes).shape
(569, 2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flyingsquid import datasets, exceptions
from flyingsquid._version import __version__
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.graph import DependencyGraph
from flyingsquid.moments import Moments, SequenceMoments
from flyingsquid.votes import ABSTAIN, VoteChunks, Votes, score_bins

if TYPE_CHECKING:
    from flyingsquid import labeling
    from flyingsquid.analysis import summarize
    from flyingsquid.labeling import apply, labeling_function
    from flyingsquid.models import (
        LabelModel,
        MajorityVote,
        MultiLabelModel,
        OnlineLabelModel,
        SequenceLabelModel,
        WeaklySupervisedClassifier,
        learn_structure,
        load,
        to_training_set,
    )
    from flyingsquid.reports import report

__all__ = [
    "ABSTAIN",
    "DependencyGraph",
    "FlyingSquidError",
    "LabelModel",
    "MajorityVote",
    "Moments",
    "MultiLabelModel",
    "OnlineLabelModel",
    "SequenceLabelModel",
    "SequenceMoments",
    "VoteChunks",
    "Votes",
    "WeaklySupervisedClassifier",
    "__version__",
    "apply",
    "datasets",
    "exceptions",
    "labeling",
    "labeling_function",
    "learn_structure",
    "load",
    "report",
    "score_bins",
    "summarize",
    "to_training_set",
]

# The estimators need scikit-learn, which takes a second to import and imports pandas where it
# is installed. Counting votes on a worker needs neither.
_LAZY = dict.fromkeys(
    (
        "LabelModel",
        "MajorityVote",
        "MultiLabelModel",
        "OnlineLabelModel",
        "SequenceLabelModel",
        "WeaklySupervisedClassifier",
        "learn_structure",
        "load",
        "to_training_set",
    ),
    "flyingsquid.models",
) | {
    "summarize": "flyingsquid.analysis",
    "report": "flyingsquid.reports",
    "apply": "flyingsquid.labeling",
    "labeling_function": "flyingsquid.labeling",
}
# Judges need an event loop and tables, which take time as well.
_LAZY_MODULES = ("labeling",)


def __getattr__(name: str) -> Any:
    if name in _LAZY_MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
