"""Errors raised on purpose, and the one warning.

FlyingSquidError(ValueError)
├── VotesError             votes that cannot be read: shape, values, names, weights
├── LabelingError          a labeling function raised, said what is no vote, or cannot be applied
├── OptionError            an option has an unknown value, or the method cannot honour it
├── GraphError             a dependency graph that is none, cannot be estimated, or fits other votes
├── NotIdentifiableError   the votes do not determine a parameter
├── IncompatibleError      two values describe different sources or classes
├── ModelFileError         a file cannot be read, or a value cannot be kept in one
├── VoteFileError          a file of votes or labels cannot be read or written
└── NotFittedError         a fitted model is needed (scikit-learn's NotFittedError too)

SourceWarning(UserWarning)  all went well, but some sources deserve a look
"""


class FlyingSquidError(ValueError):
    """Base of every error this package raises on purpose."""


class VotesError(FlyingSquidError):
    """The votes cannot be read: their shape, a value, a name or a weight is wrong."""


class LabelingError(FlyingSquidError):
    """A labeling function raised, returned what is no vote, or cannot be applied to the data."""


class OptionError(FlyingSquidError):
    """An option has an unknown value, or the chosen method cannot honour it."""


class GraphError(FlyingSquidError):
    """A dependency graph is malformed, too wide, or does not match the votes."""


class NotIdentifiableError(FlyingSquidError):
    """The votes do not determine a parameter."""


class IncompatibleError(FlyingSquidError):
    """Two values describe different sources or classes."""


class ModelFileError(FlyingSquidError):
    """A model file is damaged, foreign or too new, or a value cannot be kept in one."""


class VoteFileError(FlyingSquidError):
    """A file of votes cannot be read or understood, or one of votes or labels cannot be written."""


class NotFittedError(FlyingSquidError, AttributeError):
    """A fitted model is needed. What is raised is scikit-learn's NotFittedError as well."""


class SourceWarning(UserWarning):
    """Some sources are silent, one-sided, identical, failed on items, or could not be estimated."""
