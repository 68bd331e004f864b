"""Turn noisy votes into training labels, in closed form.

>>> import flyingsquid as fs
>>> votes = fs.datasets.load_breast_cancer().votes
>>> model = fs.LabelModel().fit(votes)
>>> model.predict_proba(votes).shape
(569, 2)
"""

from flyingsquid import datasets, exceptions
from flyingsquid._version import __version__
from flyingsquid.exceptions import FlyingSquidError
from flyingsquid.models import LabelModel, MajorityVote
from flyingsquid.moments import Moments
from flyingsquid.votes import ABSTAIN, Votes

__all__ = [
    "ABSTAIN",
    "FlyingSquidError",
    "LabelModel",
    "MajorityVote",
    "Moments",
    "Votes",
    "__version__",
    "datasets",
    "exceptions",
]
