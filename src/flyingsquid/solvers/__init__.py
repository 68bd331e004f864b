"""Solvers, which estimate the parameters. ``LabelModel(method=...)`` accepts one of these, or its name.

To add one, subclass :class:`Solver` in a module of its own and add it to ``_SOLVERS`` below, or pass it to
:func:`register`.
"""

from __future__ import annotations

from typing import Any

from flyingsquid._values import format_value
from flyingsquid.exceptions import ModelFileError, OptionError
from flyingsquid.solvers.auto import Auto
from flyingsquid.solvers.base import FitData, Requires, Solver
from flyingsquid.solvers.closed_form import Covariance, Marginal, Quadratic, Triplet
from flyingsquid.solvers.panel import Panel
from flyingsquid.solvers.tables import EM, Agreement, Decomposition, OneVsRest
from flyingsquid.solvers.weighted import Weighted

__all__ = [
    "EM",
    "Agreement",
    "Auto",
    "Covariance",
    "Decomposition",
    "FitData",
    "Marginal",
    "OneVsRest",
    "Panel",
    "Quadratic",
    "Requires",
    "Solver",
    "Triplet",
    "Weighted",
    "get_solver",
    "register",
    "solver_names",
]

_SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        Auto,
        Triplet,
        Covariance,
        Quadratic,
        Marginal,
        Agreement,
        EM,
        Decomposition,
        OneVsRest,
        Weighted,
        Panel,
    )
}


def solver_names() -> tuple[str, ...]:
    """Return the names that ``method`` accepts.

    Examples
    --------
    >>> import flyingsquid as fs
    >>> "triplet" in fs.solvers.solver_names()
    True
    """
    return tuple(_SOLVERS)


def register(solver: type[Solver]) -> type[Solver]:
    """Register a solver under its name, so that ``method`` accepts the name and model files can refer to it.

    Can be used as a class decorator.

    Parameters
    ----------
    solver : subclass of Solver
        A frozen dataclass whose options have defaults.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import flyingsquid as fs
    >>> @dataclass(frozen=True)
    ... class Copy(fs.solvers.Triplet):
    ...     name = "copy"
    >>> fs.solvers.register(Copy).name
    'copy'
    """
    if not (isinstance(solver, type) and issubclass(solver, Solver)):
        raise OptionError(f"`solver` must be a subclass of Solver; got {format_value(solver)}.")
    _SOLVERS[solver.name] = solver
    return solver


def get_solver(method: Any) -> Solver:
    """Return the solver that ``method`` names.

    Parameters
    ----------
    method : str or Solver
        Name of a registered solver, or a solver, which is returned unchanged.

    Examples
    --------
    >>> get_solver("triplet")
    Triplet(aggregate='mean', triplets=None, screen=1.0, cliques='instrument')
    """
    if isinstance(method, Solver):
        return method
    if isinstance(method, str) and method in _SOLVERS:
        return _SOLVERS[method]()
    known = ", ".join(f'"{name}"' for name in _SOLVERS)
    raise OptionError(f"`method` must be a solver or one of {known}; got {format_value(method)}.")


def solver_from_options(name: Any, options: Any) -> Solver:
    """Return the solver that :meth:`Solver.options` described, from a file."""
    if name not in _SOLVERS:
        raise ModelFileError(
            f"The file was written with the solver {format_value(name)}, which is not registered. Register "
            "it with fs.solvers.register first."
        )
    read = {
        key: solver_from_options(value["solver"], value["options"]) if isinstance(value, dict) else value
        for key, value in options.items()
    }
    return _SOLVERS[name](**read)
