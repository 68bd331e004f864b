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

from flyingsquid import exceptions
from flyingsquid._version import __version__
from flyingsquid.exceptions import FlyingSquidError

if TYPE_CHECKING:
    from flyingsquid import analysis, datasets, labeling, solvers
    from flyingsquid.analysis import summarize
    from flyingsquid.graph import DependencyGraph
    from flyingsquid.labeling import apply, labeling_function
    from flyingsquid.models import (
        LabelModel,
        MajorityVote,
        MultiLabelModel,
        OnlineLabelModel,
        SequenceLabelModel,
        WeaklySupervisedClassifier,
        load,
        to_training_set,
    )
    from flyingsquid.moments import Moments, SequenceMoments
    from flyingsquid.reports import report
    from flyingsquid.solvers.structure import learn_structure
    from flyingsquid.votes import ABSTAIN, VoteChunks, Votes, score_bins

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
    "solvers",
    "summarize",
    "to_training_set",
]

# Names are loaded on first use. The estimators need scikit-learn, which takes a second to import and imports
# pandas where it is installed; votes need SciPy and narwhals, several times what NumPy takes. A worker that
# counts votes, or a script that only asks for the version, pays for what it touches.
_NAMES_IN = {
    "analysis": ("summarize",),
    "graph": ("DependencyGraph",),
    "labeling": ("apply", "labeling_function"),
    "models": (
        "LabelModel",
        "MajorityVote",
        "MultiLabelModel",
        "OnlineLabelModel",
        "SequenceLabelModel",
        "WeaklySupervisedClassifier",
        "load",
        "to_training_set",
    ),
    "moments": ("Moments", "SequenceMoments"),
    "reports": ("report",),
    "solvers.structure": ("learn_structure",),
    "votes": ("ABSTAIN", "VoteChunks", "Votes", "score_bins"),
}
_HOMES = {name: home for home, names in _NAMES_IN.items() for name in names}
_LAZY_MODULES = ("analysis", "datasets", "labeling", "solvers")


if not TYPE_CHECKING:  # a type checker that saw this function would take any misspelt name

    def __getattr__(name: str) -> Any:
        if name in _LAZY_MODULES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
