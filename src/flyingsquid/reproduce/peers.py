"""Asks other people's label models for labels, in a process and an environment of their own."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from flyingsquid.exceptions import OptionError

Codes = NDArray[np.int8]
SCRIPT = Path(__file__).with_name("peers_run.py")
# Seconds of the processor for one set.
LIMIT = 300
_STOPPED = "did not end"


@dataclass(frozen=True, slots=True)
class Question:
    """Votes of two classes to fit on (n, m) and to score (k, m)."""

    name: str
    fit: Codes
    score: Codes


@dataclass(frozen=True, slots=True)
class Answer:
    """Probabilities of the scored items (k, 2) and the seconds of fitting, or why there are none."""

    posterior: NDArray[np.float64] | None
    fit_seconds: float
    failed: str = ""


def find_interpreter(given: str | os.PathLike[str] | None) -> Path | None:
    """The Python of the peers: as given, or as FLYINGSQUID_PEERS names it; None where neither is."""
    named = given or os.environ.get("FLYINGSQUID_PEERS")
    if not named:
        return None
    path = Path(named)
    if not path.is_file():
        raise OptionError(f"the Python of the peers, {str(path)!r}, is no file; make one by `make peers`")
    return path


def ask(python: Path, peer: str, questions: Iterable[Question]) -> dict[str, Answer]:
    """The answers of one peer by the names of questions, all from one process of one thread."""
    with tempfile.TemporaryDirectory() as made:
        paths: list[str] = []
        targets: dict[str, Path] = {}
        for question in questions:
            source = Path(made, f"{question.name}.npz")
            targets[question.name] = source.with_suffix(".answer.npz")
            np.savez(source, fit=question.fit, score=question.score, n_classes=2)
            paths += [str(source), str(targets[question.name])]
        code = run_script(python, peer, LIMIT, paths, quiet=True)
        return {name: _read(target, code) for name, target in targets.items()}


def run_script(python: Path, peer: str, limit: int, paths: Sequence[str], *, quiet: bool = False) -> int:
    """Run ``peers_run.py`` on pairs of files, and return its exit code."""
    # One thread, as for ours, or the seconds would not compare.
    environment: Mapping[str, str] = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # Isolated: the folder of the script holds modules of ours, which are none of the peers' business.
    command = [str(python), "-I", str(SCRIPT), peer, str(limit), *paths]
    errors = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, env=environment, check=False, stderr=errors, stdout=errors).returncode


def _read(path: Path, code: int) -> Answer:
    if not path.is_file():
        return Answer(None, float("nan"), f"{_STOPPED}, code {code}")
    with np.load(path) as data:
        if "failed" in data:
            return Answer(None, float("nan"), str(data["failed"]))
        return Answer(data["posterior"], float(data["fit_seconds"]))
