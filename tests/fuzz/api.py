"""Call every public entry point with unusual values; anything but a documented error is a finding."""

from __future__ import annotations

import math
import time
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

import flyingsquid as fs
from tests.fuzz.calls import CALLS
from tests.fuzz.values import Surprise

SOURCE = str(Path(fs.__file__).parent)
SLOWEST = 30.0
MOST_FINDINGS = 40
# They iterate over what the caller passed as a source of chunks.
CHUNK_READERS = ("_chunks", "__iter__", "raw", "is_empty", "as_chunks")
OPTION_READERS = ("_pick",)
"""What reads options among the modules that read votes: the names of columns."""


@dataclass
class Outcome:
    """Result of a run: calls by entry point, and findings by origin."""

    calls: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    findings: dict[tuple[str, str], str] = field(default_factory=dict)
    slowest: float = 0.0
    slowest_call: str = ""


def fuzz_calls(
    *, first_seed: int, seconds: float = math.inf, rounds: float = math.inf, only: str = ""
) -> Outcome:
    """Call for some time, or for some rounds of examples, each of which has its own seed."""
    outcome, ends, number = Outcome(), time.monotonic() + seconds, first_seed
    calls = [call for call in CALLS if only in call.__name__]
    while time.monotonic() < ends and number < first_seed + rounds and len(outcome.findings) < MOST_FINDINGS:
        _round(outcome, calls, number)
        number += 1
    return outcome


def _round(outcome: Outcome, calls: list[Any], number: int) -> None:
    @seed(number)
    @settings(
        max_examples=25,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def examples(data: Any) -> None:
        call = data.draw(st.sampled_from(calls))
        _one(outcome, call, data.draw, number)

    examples()


def _one(outcome: Outcome, call: Any, draw: Any, number: int) -> None:
    name, started = call.__name__, time.monotonic()
    outcome.calls[name] += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", fs.exceptions.SourceWarning)
            warnings.simplefilter("ignore", fs.exceptions.VotesWarning)
            call(draw)
    except fs.FlyingSquidError as error:
        outcome.refused[name] += 1
        if not str(error).strip():
            outcome.findings[name, "silent"] = f"an error without words: {type(error).__name__}"
    except OSError as error:
        if name != "loading":
            outcome.findings.setdefault((f"OSError {_where(error)}", name), _told(error, number))
    except Exception as error:
        if type(error).__module__.startswith("hypothesis"):  # it gives up an example by an exception
            raise
        if _is_the_callers(error):
            outcome.refused[name] += 1
            return
        outcome.findings.setdefault(
            (f"{type(error).__name__} {_where(error)}", ""), f"{name}: {_told(error, number)}"
        )
    took = time.monotonic() - started
    if took > outcome.slowest:
        outcome.slowest, outcome.slowest_call = took, name
    if took > SLOWEST:
        outcome.findings["slow", name] = f"took {took:.1f} s (seed {number})"


def _is_the_callers(error: Exception) -> bool:
    """Return whether an error is about an argument other than votes: options, iterators, functions, end models."""
    origin, raised = _innermost(error), traceback.extract_tb(error.__traceback__)[-1]
    if isinstance(error, Surprise):
        return "/votes/" not in origin.filename or origin.name in (*OPTION_READERS, *CHUNK_READERS)
    if isinstance(error, TypeError):  # of a function that makes chunks, when it is called
        return origin.name == "_chunks"
    return isinstance(error, UserWarning) and "sklearn" in raised.filename


def _where(error: BaseException) -> str:
    """The innermost line of the library on the way to an error."""
    frame = _innermost(error)
    return f"{Path(frame.filename).name}:{frame.lineno}"


def _innermost(error: BaseException) -> traceback.FrameSummary:
    frames = traceback.extract_tb(error.__traceback__)
    return ([f for f in frames if f.filename.startswith(SOURCE)] or list(frames))[-1]


def _told(error: BaseException, number: int) -> str:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "hypothesis" not in f.filename]
    way = " > ".join(f"{Path(f.filename).name}:{f.lineno}" for f in frames[-8:])
    try:
        words = str(error).splitlines()[0][:200] if str(error) else ""
    except Exception:
        words = "(no text)"
    return f"{type(error).__name__}: {words} [{way}] (seed {number})"
