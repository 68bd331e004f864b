"""Asks other people's label models for labels, in their own environment, and remembers the answers.

``make peers`` makes that environment; FLYINGSQUID_PEERS names another interpreter. An answer depends on the
peer and the votes alone, so it is kept in a folder under both, and a change of ours costs the peers nothing.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flyingsquid.reproduce.peers import run_script

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".peers-cache"
PEERS = {
    "snorkel": "Snorkel",
    "dawid_skene": "Dawid-Skene",
    "glad": "GLAD",
    "mace": "MACE",
    "mmsr": "M-MSR",
    "hyper": "hyper label model",
}
LIMIT = 1200  # seconds of the processor for one set


class Question(NamedTuple):
    """Votes to fit on (n, m) and votes to score (k, m); none to score where both are the same items."""

    name: str
    fit: NDArray[np.int8]
    score: NDArray[np.int8]
    n_classes: int

    @property
    def key(self) -> str:
        """The name of the set, and a mark that no other votes have."""
        digest = hashlib.sha256(repr((self.fit.shape, self.score.shape, self.n_classes)).encode())
        for votes in (self.fit, self.score):
            digest.update(np.ascontiguousarray(votes, np.int8).tobytes())
        return f"{self.name}-{digest.hexdigest()[:16]}"


class Answer(NamedTuple):
    """Probabilities of the scored items (k, K), or the reason why there are none."""

    posterior: NDArray[np.float64] | None
    seconds: float
    failed: str


def interpreter() -> Path | None:
    """The Python of the peers, or None where their environment was not made."""
    path = Path(os.environ.get("FLYINGSQUID_PEERS") or ROOT / ".venv-peers" / "bin" / "python")
    return path if path.is_file() else None


def needed_interpreter() -> Path:
    """The Python of the peers; the program ends where there is none."""
    python = interpreter()
    if python is None:
        raise SystemExit(
            "the peers are not installed: run `make peers`, or set FLYINGSQUID_PEERS to their Python"
        )
    return python


def answer(
    peer: str, questions: Iterable[Question], *, cache: Path = CACHE, limit: int = LIMIT, ask: bool = True
) -> dict[str, Answer]:
    """Answers by ``Question.key``. What the cache lacks is asked of one process, which saves as it goes.

    With ``ask=False`` only the cache answers.
    """
    asked = {question.key: question for question in questions}
    folder = cache / peer
    folder.mkdir(parents=True, exist_ok=True)
    open_ones = [q for key, q in asked.items() if not _settled(folder / f"{key}.npz", limit)]
    if open_ones and ask:
        _ask(peer, open_ones, folder, limit)
    return {key: _read(folder / f"{key}.npz") for key in asked}


def _ask(peer: str, questions: list[Question], folder: Path, limit: int) -> None:
    python = needed_interpreter()
    with tempfile.TemporaryDirectory() as made:
        while questions:
            code = _run(python, peer, questions, Path(made), folder, limit)
            questions = [q for q in questions if not (folder / f"{q.key}.npz").is_file()]
            if not questions:
                return
            if code >= 0:
                names = ", ".join(q.name for q in questions)
                raise SystemExit(f"{peer} ended with code {code} and no answer for {names}")
            # Killed, for want of memory as a rule: that is its answer for this set, and the others go on.
            np.savez(folder / f"{questions[0].key}.npz", failed=f"killed by signal {-code}")
            questions = questions[1:]


def _run(python: Path, peer: str, questions: list[Question], made: Path, folder: Path, limit: int) -> int:
    """Give one process all questions and return its exit code."""
    paths = []
    for question in questions:
        source = made / f"{question.key}.npz"
        np.savez(source, fit=question.fit, score=question.score, n_classes=question.n_classes)
        paths += [str(source), str(folder / source.name)]
    return run_script(python, peer, limit, paths)


def _settled(path: Path, limit: int) -> bool:
    """Whether asking again could say more: only after a time-out, with more time."""
    if not path.is_file():
        return False
    with np.load(path) as data:
        return "limit" not in data or int(data["limit"]) >= limit


def _read(path: Path) -> Answer:
    if not path.is_file():
        return Answer(None, float("nan"), "not asked yet")
    with np.load(path) as data:
        seconds = float(data["seconds"]) if "seconds" in data else float("nan")
        if "failed" in data:
            return Answer(None, seconds, str(data["failed"]))
        return Answer(data["posterior"], seconds, "")
