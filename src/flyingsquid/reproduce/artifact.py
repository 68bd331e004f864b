"""What every table and figure is: how it is made, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Setting:
    """What a table is made with.

    Attributes
    ----------
    data : folder of real votes, or None
    peers : interpreter of the environment of other people's label models, or None
    quick : whether sizes are cut to what shows that everything runs, and no more
    """

    data: Path | None = None
    peers: Path | None = None
    quick: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of one table or figure.

    Attributes
    ----------
    results : plain data, the same in every run
    timings : plain data that depends on the machine and the moment; empty where nothing was timed
    """

    results: dict[str, Any]
    timings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Artifact:
    """One table or figure of the paper.

    Attributes
    ----------
    name : text
        As it is typed, and as its files are called.
    title : text
    sets : names of the real sets it uses; empty for simulations
    measure : from a setting to an outcome
    render : from an outcome's results and timings to the body of its page, without title and picture
    draw : from a matplotlib figure and results to nothing; draws on the figure
    size : width and height of the picture in inches
    needs_data : whether nothing of it can be made without any of its sets
    """

    name: str
    title: str
    sets: tuple[str, ...]
    measure: Callable[[Setting], Outcome]
    render: Callable[[Mapping[str, Any], Mapping[str, Any]], str]
    draw: Callable[[Any, Mapping[str, Any]], None]
    size: tuple[float, float] = (7.0, 3.2)
    needs_data: bool = True
