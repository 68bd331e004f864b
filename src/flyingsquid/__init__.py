"""Turn noisy votes into training labels, without gold labels.

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
    # "as" makes a name public to type checkers without "import *" loading it.
    from flyingsquid import analysis as analysis
    from flyingsquid import datasets as datasets
    from flyingsquid import distributed as distributed
    from flyingsquid import files as files
    from flyingsquid import fits as fits
    from flyingsquid import judges as judges
    from flyingsquid import labeling as labeling
    from flyingsquid import legacy as legacy
    from flyingsquid import plot as plot
    from flyingsquid import solvers as solvers
    from flyingsquid import theory as theory
    from flyingsquid import torch as torch
    from flyingsquid.analysis import estimate_rate, labels_saved, suggest_items, summarize
    from flyingsquid.graph import DependencyGraph
    from flyingsquid.labeling import apply, labeling_function
    from flyingsquid.models import (
        LabelModel,
        MajorityVote,
        MultiLabelModel,
        OnlineLabelModel,
        ScoreModel,
        SequenceLabelModel,
        load,
    )
    from flyingsquid.models.end_model import WeaklySupervisedClassifier, to_training_set
    from flyingsquid.moments import Moments, SequenceMoments
    from flyingsquid.reports import report
    from flyingsquid.solvers.structure import learn_structure
    from flyingsquid.votes import ABSTAIN, SourceInfo, VoteChunks, Votes, score_bins

__all__ = [
    "ABSTAIN",
    "DependencyGraph",
    "FlyingSquidError",
    "LabelModel",
    "MajorityVote",
    "Moments",
    "MultiLabelModel",
    "OnlineLabelModel",
    "ScoreModel",
    "SequenceLabelModel",
    "SequenceMoments",
    "SourceInfo",
    "VoteChunks",
    "Votes",
    "WeaklySupervisedClassifier",
    "__version__",
    "apply",
    "estimate_rate",
    "exceptions",
    "labeling_function",
    "labels_saved",
    "learn_structure",
    "load",
    "report",
    "score_bins",
    "suggest_items",
    "summarize",
    "to_training_set",
]

# Names and namespaces are imported when they are first used. Votes need SciPy, which takes longer than NumPy;
# scikit-learn takes still longer, so only what works on features imports it. A script that reads the version
# avoids all of them.
#
# To add a namespace, add it here and to the imports for type checkers above; a test compares the two.
_NAMESPACES = (
    "analysis",
    "datasets",
    "distributed",
    "fits",
    "files",
    "judges",
    "labeling",
    "legacy",
    "plot",
    "solvers",
    "theory",
    "torch",
)
_NAMES_IN = {
    "analysis": ("estimate_rate", "labels_saved", "suggest_items", "summarize"),
    "graph": ("DependencyGraph",),
    "labeling": ("apply", "labeling_function"),
    "models": (
        "LabelModel",
        "MajorityVote",
        "MultiLabelModel",
        "OnlineLabelModel",
        "ScoreModel",
        "SequenceLabelModel",
        "load",
    ),
    "models.end_model": ("WeaklySupervisedClassifier", "to_training_set"),
    "moments": ("Moments", "SequenceMoments"),
    "reports": ("report",),
    "solvers.structure": ("learn_structure",),
    "votes": ("ABSTAIN", "SourceInfo", "VoteChunks", "Votes", "score_bins"),
}
# Names of Snorkel and crowd-kit, and what to use instead.
_ELSEWHERE = {
    "LFAnalysis": "fs.summarize(votes, y)",
    "LFApplier": "fs.apply(functions, data)",
    "PandasLFApplier": "fs.apply(functions, data)",
    "MajorityLabelVoter": "fs.MajorityVote()",
    "get_label_buckets": "fs.analysis.label_buckets(y, votes[:, [source]])",
    "preprocessor": "fs.labeling_function(pre=function)",
    "filter_unlabeled_dataframe": "fs.to_training_set(X, proba, votes=votes)",
    "probs_to_preds": "model.predict(votes)",
    "DawidSkene": 'fs.LabelModel(method="em")',
    "alpha_krippendorff": "fs.analysis.krippendorff_alpha(votes)",
}
_HOMES = {name: home for home, names in _NAMES_IN.items() for name in names}


if not TYPE_CHECKING:  # with this function a type checker would accept any misspelled name

    def __getattr__(name: str) -> Any:
        if name in _NAMESPACES:
            return import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            instead = f"; use {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}{instead}")
        value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_NAMESPACES])
