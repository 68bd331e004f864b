"""Feed files to the readers until time is up; anything but a documented error is a finding."""

from __future__ import annotations

import math
import random
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flyingsquid as fs
from flyingsquid.files import open_votes
from tests.fuzz.files import damaged, example_files

MOST_MEMORY = 5 << 30
"""Address space, in bytes: libraries map far more than they use, and pyarrow keeps some of every damaged zstd
file."""
SLOWEST = 20.0
ALLOWED = (fs.FlyingSquidError, OSError)


@dataclass
class Outcome:
    """Result of a run."""

    files: int = 0
    read: int = 0
    slowest: float = 0.0
    slowest_file: str = ""
    findings: list[tuple[str, str]] = field(default_factory=list)

    def with_(self, other: Outcome) -> Outcome:
        """Both together."""
        slow = max(self, other, key=lambda one: one.slowest)
        return Outcome(
            self.files + other.files,
            self.read + other.read,
            slow.slowest,
            slow.slowest_file,
            self.findings + other.findings,
        )


def read(path: Path, rng: random.Random) -> None:
    """Read a file in every way that its name asks for."""
    if path.suffix == ".fsq":
        fs.load(path)
        return
    options: dict[str, Any] = rng.choice([
        {}, {}, {}, {"signed": True}, {"classes": ("ham", "spam")}, {"item": False}, {"gold": "gold"},
        {"form": "long"}, {"abstain": 0}, {"header": False},
    ])  # fmt: skip
    file = open_votes(path, chunk_rows=rng.choice([None, 7]), **options)
    file.describe()
    n = 0
    for chunk in file:
        n += chunk.votes.n_items
        if chunk.votes.classes != file.classes or len(chunk.ids) != chunk.votes.n_items:
            raise AssertionError("a chunk differs from its file")
    if n != file.n_items:
        raise AssertionError(f"{n} items in chunks and {file.n_items} in the file")


def fuzz(folder: Path, *, seed: int, seconds: float = math.inf, most: float = math.inf) -> Outcome:
    """Damage valid files, and make up others, for some time, or a given number of them."""
    rng = random.Random(seed)
    examples = example_files(folder)
    contents = list(examples.values())
    outcome, ends = Outcome(), time.monotonic() + seconds
    while time.monotonic() < ends and outcome.files < most:
        name = rng.choice(list(examples))
        data = (
            damaged(examples[name], contents, rng)
            if rng.random() < 0.95
            else rng.randbytes(rng.randrange(200))
        )
        path = folder / f"damaged-{name}"
        path.write_bytes(data)
        started = time.monotonic()
        state = rng.getstate()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read(path, rng)
            outcome.read += 1
        except ALLOWED as error:
            if isinstance(error, fs.FlyingSquidError) and "\n" in str(error):
                outcome.findings.append((name, f"more than one line: {error!r}"))
        except Exception as error:
            kept = folder / f"finding-{len(outcome.findings)}-{name}"
            kept.write_bytes(data)
            outcome.findings.append((str(kept), f"{type(error).__name__}: {error}"[:300]))
            rng.setstate(state)
        took = time.monotonic() - started
        if took > outcome.slowest:
            outcome.slowest, outcome.slowest_file = took, name
            (folder / "slowest").write_bytes(data)
        if took > SLOWEST:
            outcome.findings.append((name, f"took {took:.1f} s"))
        outcome.files += 1
        if len(outcome.findings) >= 20:
            break
    return outcome
