"""Errors and warnings of this package, and hints that they contain.

FlyingSquidError(ValueError)
├── VotesError             votes that cannot be read: shape, values, names, weights
├── LabelingError          a labeling function fails, returns an invalid vote, or cannot be applied
├── OptionError            an option has an unknown value, or the method does not support it
├── GraphError             a dependency graph that is malformed, too wide, or does not match the votes
├── NotIdentifiableError   the votes do not determine a parameter
├── IncompatibleError      two values describe different sources or classes
├── ModelFileError         a model file cannot be read, or a value cannot be stored in one
├── VoteFileError          a file of votes or labels cannot be read or written
└── NotFittedError         a model is used before it is fitted

SourceWarning(UserWarning)  some sources are unusual, for example silent or one-sided
VotesWarning(UserWarning)   the votes may have been misread

Errors are structured: ``message``, ``hints``, ``path`` and ``line`` are attributes. ``str`` formats hints as
Python parameters, and the command line formats the same hints as options. No code depends on the wording of
a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Hint:
    """A parameter that avoids an error or changes an assumption.

    Attributes
    ----------
    parameter : str
        Name of a parameter of the function that was called.
    purpose : str
        Why to pass it, as the end of the sentence "Pass `parameter` ...".
    value : object, optional
        The value to pass, if a particular one is meant.

    Examples
    --------
    >>> print(Hint("overwrite", "to replace it", True))
    Pass `overwrite=True` to replace it.
    >>> print(Hint("item", "to choose another column"))
    Pass `item` to choose another column.
    """

    parameter: str
    purpose: str
    value: Any = None

    def __str__(self) -> str:
        value = "" if self.value is None else f"={self.value!r}"
        return f"Pass `{self.parameter}{value}` {self.purpose}."


@dataclass(frozen=True, slots=True)
class Note:
    """An assumption that was made, and the parameters that change it.

    Attributes
    ----------
    summary : str
        The assumption.
    hints : tuple of Hint

    Examples
    --------
    >>> print(Note("Column 'id' identifies the items.", (Hint("item", "to choose another column"),)))
    Column 'id' identifies the items. Pass `item` to choose another column.
    """

    summary: str
    hints: tuple[Hint, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.summary, *map(str, self.hints)])


class FlyingSquidError(ValueError):
    """Base class of the errors that FlyingSquid raises.

    Parameters
    ----------
    message : str
        Description of the problem, without the location and the hints below.
    parameter : str, optional
        The parameter that has an invalid value.
    hints : sequence of Hint
        Parameters that would help.
    path : str, optional
        The file that the error is about.
    line : int, optional
        The line of that file, counted from 1.

    Examples
    --------
    >>> hint = Hint("overwrite", "to replace it", True)
    >>> error = VoteFileError("File exists.", path="labels.csv", hints=[hint])
    >>> print(error)
    labels.csv: File exists. Pass `overwrite=True` to replace it.
    >>> error.path, error.hints[0].parameter
    ('labels.csv', 'overwrite')
    """

    def __init__(
        self,
        message: str = "",
        *,
        parameter: str | None = None,
        hints: Sequence[Hint] = (),
        path: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.parameter = parameter
        self.hints = tuple(hints)
        self.path = path
        self.line = line

    @property
    def summary(self) -> str:
        """The location and the message, without the hints."""
        where = [] if self.path is None else [self.path]
        where += [] if self.line is None else [f"line {self.line}"]
        return f"{', '.join(where)}: {self.message}" if where else self.message

    def __str__(self) -> str:
        return " ".join([self.summary, *map(str, self.hints)])


class VotesError(FlyingSquidError):
    """Raised if votes cannot be read: their shape, a value, a name or a weight is wrong.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.Votes.from_classes([0, 1, 1])
    ... except fs.exceptions.VotesError as error:
    ...     print(error)
    `votes` must have one row per item and one column per source, (n, m); got shape (3,).
    """


class LabelingError(FlyingSquidError):
    """Raised if a labeling function fails, returns an invalid vote, or cannot be applied to the data.

    Parameters
    ----------
    message : str
    function : str, optional
        Name of the labeling function, if the message names it.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.apply([fs.labeling_function("ratio")(lambda row: 1 / row)], [0])
    ... except fs.exceptions.LabelingError as error:
    ...     print(error.function)
    ratio
    """

    def __init__(self, message: str = "", *, function: str | None = None) -> None:
        super().__init__(message)
        self.function = function


class OptionError(FlyingSquidError):
    """Raised if an option has an unknown value, or the chosen method does not support it.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.LabelModel(temper=2).fit([[0, 1], [1, 1]])
    ... except fs.exceptions.OptionError as error:
    ...     print(error)
    `temper` must be None, "auto" or a float in (0, 1]; got 2.
    """


class GraphError(FlyingSquidError):
    """Raised if a dependency graph is malformed, too wide, or does not match the votes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.DependencyGraph(3, source_edges=[(0, 3)])
    ... except fs.exceptions.GraphError as error:
    ...     print(error)
    `source_edges[0][1]` must be the position of a source, an integer from 0 to 2; got 3.
    """


class NotIdentifiableError(FlyingSquidError):
    """Raised if the votes do not determine a parameter.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.LabelModel(method="triplet").fit([[0, 1], [1, 1]])
    ... except fs.exceptions.NotIdentifiableError as error:
    ...     print(str(error).partition(";")[0])
    At least three different sources must vote
    """


class IncompatibleError(FlyingSquidError):
    """Raised if two values describe different sources or classes.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.Moments.of([[0, 1]]) + fs.Moments.of([[0, 1, 1]])
    ... except fs.exceptions.IncompatibleError as error:
    ...     print(error)
    Cannot combine counts of 2 sources with counts of 3. Count both with the same sources.
    """


class ModelFileError(FlyingSquidError):
    """Raised if a model file is damaged, too new or not a model file, or a value cannot be stored in one.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import flyingsquid as fs
    >>> path = pathlib.Path(tempfile.mkdtemp(), "model.fsq")
    >>> _ = path.write_text("not a model")
    >>> try:
    ...     fs.load(path)
    ... except fs.exceptions.ModelFileError as error:
    ...     print("not a FlyingSquid file" in str(error))
    True
    """


class VoteFileError(FlyingSquidError):
    """Raised if a file of votes cannot be read, or a file of votes or labels cannot be written.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.files.open_votes("missing.csv")
    ... except fs.exceptions.VoteFileError as error:
    ...     print(error)
    missing.csv: No such file or directory.
    """


class NotFittedError(FlyingSquidError, AttributeError):
    """Raised if a model is used before it is fitted. It can also be caught as scikit-learn's NotFittedError.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> try:
    ...     fs.LabelModel().predict([[0, 1]])
    ... except fs.exceptions.NotFittedError as error:
    ...     print(error)
    This LabelModel is not fitted yet; call fit, fit_moments or partial_fit first.
    """


class SourceWarning(UserWarning):
    """Warning about sources that are silent, one-sided or identical, that failed, or were not estimated.

    Examples
    --------
    >>> import warnings
    >>> import flyingsquid as fs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = fs.LabelModel().fit([[0, 1, 1, -1], [1, 1, 0, -1], [0, 0, 1, -1]] * 20)
    >>> print(caught[0].message)
    These sources always abstain and are ignored: source 3.
    """


class VotesWarning(UserWarning):
    """Warning that votes may have been misread; the message names a call that reads them differently.

    Examples
    --------
    >>> import warnings
    >>> import flyingsquid as fs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     _ = fs.Votes.from_classes([["spam", "Spam"], ["ham", "ham"]])
    >>> "normalize=True" in str(caught[0].message)
    True
    """
