"""Labels of other label models, computed in their own environment and cached.

``make peers`` creates that environment; FLYINGSQUID_PEERS names another interpreter. An answer depends on the
peer and the votes alone and is cached by both, so a change of this package does not run the peers again.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".peers-cache"
SCRIPT = Path(__file__).with_name("peers_run.py")
PEERS = {
    "snorkel": "Snorkel",
    "dawid_skene": "Dawid-Skene",
    "glad": "GLAD",
    "mace": "MACE",
    "mmsr": "M-MSR",
    "hyper": "hyper label model",
}
LIMIT = 1200  # CPU seconds per dataset


class Question(NamedTuple):
    """Votes to fit on (n, m) and votes to score (k, m), with k = 0 if both are the same items.

    ``balance`` is the class balance for peers that take one.
    """

    name: str
    fit: NDArray[np.int8]
    score: NDArray[np.int8]
    n_classes: int
    balance: tuple[float, ...] | None = None

    @property
    def key(self) -> str:
        """Name of the dataset and a hash of the votes."""
        digest = hashlib.sha256(repr((self.fit.shape, self.score.shape, self.n_classes)).encode())
        for votes in (self.fit, self.score):
            digest.update(np.ascontiguousarray(votes, np.int8).tobytes())
        if self.balance is not None:
            digest.update(np.array(self.balance).tobytes())
        return f"{self.name}-{digest.hexdigest()[:16]}"


class Answer(NamedTuple):
    """Probabilities of the scored items (k, K), or the reason why there are none.

    ``seconds`` are CPU seconds of everything, ``fit_seconds`` of fitting alone; NaN if unknown.
    """

    posterior: NDArray[np.float64] | None
    seconds: float
    failed: str
    fit_seconds: float = float("nan")


def interpreter(given: str | None = None) -> Path | None:
    """Return the Python of the peers, or None if their environment does not exist.

    An interpreter that is given must exist.
    """
    if given is not None:
        if not Path(given).is_file():
            raise SystemExit(
                f"The Python of the peers does not exist: {given}. Create one with `make peers`."
            )
        return Path(given)
    path = Path(os.environ.get("FLYINGSQUID_PEERS") or ROOT / ".venv-peers" / "bin" / "python")
    return path if path.is_file() else None


def needed_interpreter() -> Path:
    """Return the Python of the peers; exit if there is none."""
    python = interpreter()
    if python is None:
        raise SystemExit(
            "The peers are not installed. Run `make peers`, or set FLYINGSQUID_PEERS to their Python."
        )
    return python


def answer(
    peer: str,
    questions: Iterable[Question],
    *,
    cache: Path = CACHE,
    limit: int = LIMIT,
    ask: bool = True,
    python: Path | None = None,
) -> dict[str, Answer]:
    """Return answers by ``Question.key``; one process computes and saves those that are not cached.

    With ``ask=False`` only the cache is used. ``python`` is the interpreter of the peers, by default that of
    ``interpreter``.
    """
    asked = {question.key: question for question in questions}
    folder = cache / peer
    folder.mkdir(parents=True, exist_ok=True)
    open_ones = [q for key, q in asked.items() if not _settled(folder / f"{key}.npz", limit)]
    if open_ones and ask:
        _ask(python or needed_interpreter(), peer, open_ones, folder, limit)
    return {key: _read(folder / f"{key}.npz") for key in asked}


def _ask(python: Path, peer: str, questions: list[Question], folder: Path, limit: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        while questions:
            code = _run(python, peer, questions, Path(made), folder, limit)
            questions = [q for q in questions if not (folder / f"{q.key}.npz").is_file()]
            if not questions:
                return
            if code >= 0:
                names = ", ".join(q.name for q in questions)
                raise SystemExit(f"{peer} exited with code {code} without an answer for {names}.")
            # Killed, usually because of memory: this is its answer for this dataset; the others continue.
            np.savez(folder / f"{questions[0].key}.npz", failed=f"killed by signal {-code}")
            questions = questions[1:]


def _run(python: Path, peer: str, questions: list[Question], made: Path, folder: Path, limit: int) -> int:
    """Ask all questions in one process with one thread and return its exit code."""
    paths = []
    for question in questions:
        source = made / f"{question.key}.npz"
        asked = {"fit": question.fit, "score": question.score, "n_classes": np.array(question.n_classes)}
        if question.balance is not None:
            asked["balance"] = np.array(question.balance)
        np.savez(source, **asked)  # type: ignore[arg-type]  # no name of these is that of an option
        paths += [str(source), str(folder / source.name)]
    # One thread, as for our own fits, so that seconds can be compared.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # Isolated (-I): the peers must not import modules of the directory of the script.
    command = [str(python), "-I", str(SCRIPT), peer, str(limit), *paths]
    return subprocess.run(command, env=environment, check=False).returncode


def _settled(path: Path, limit: int) -> bool:
    """Return whether there is an answer that more time would not change."""
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
        fit_seconds = float(data["fit_seconds"]) if "fit_seconds" in data else float("nan")
        return Answer(data["posterior"], seconds, "", fit_seconds)
