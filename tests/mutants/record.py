"""Record of the lines that each test executes and of its duration, updated for changed files."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutants.sites import PACKAGES, ROOT, Mutant

# Tests of the changed packages, and of the models that use them.
TESTS = (
    *(f"src/flyingsquid/{package}" for package in (*PACKAGES, "models")),
    *(
        f"tests/{directory}"
        for directory in (
            *PACKAGES,
            "files/test_fields.py",
            "golden",
            "graph",
            "models",
            "moments",
            "oracle",
            "theory",
        )
    ),
)
# The same for the record and for mutants: what passes here fails there because of the mutant.
OPTIONS = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow", "--hypothesis-profile=mutants")
SOURCES = [ROOT / "src" / "flyingsquid" / package for package in PACKAGES]


@dataclass
class Record:
    """Duration and executed lines of each test that passes."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # test -> file -> lines
    seen: dict[str, str] = field(default_factory=dict)  # a file, and what was in it

    def tests(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """Return the tests that execute the place, the quickest first, and for a constant all other tests."""
        reach = set(mutant.reach)
        near = {test for test, lines in self.lines.items() if reach.intersection(lines.get(mutant.path, ()))}
        others = self.seconds.keys() - near if mutant.is_outside_functions else set()
        return sorted(near, key=self.seconds.__getitem__), sorted(others, key=self.seconds.__getitem__)

    @classmethod
    def read(cls, file: Path) -> Record:
        """Read the record, and run tests in changed files again."""
        record = cls(**json.loads(file.read_text("utf-8"))) if file.exists() else cls()
        now = {str(f.relative_to(ROOT)): _digest(f) for f in _files()}
        mutated = {name for name in now if any((ROOT / name).is_relative_to(source) for source in SOURCES)}
        if any(record.seen.get(name) != now[name] for name in mutated):
            record = cls()
        changed = sorted(name for name in now if record.seen.get(name) != now[name])
        if changed:
            sys.stdout.write(f"recording {len(changed)} files of tests\n")
            sys.stdout.flush()
            gone = {test for test in record.seconds if test.split("::")[0] in changed}
            record.seconds = {t: s for t, s in record.seconds.items() if t not in gone}
            record.lines = {t: s for t, s in record.lines.items() if t not in gone}
            record._run(changed)
            record.seen = now
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(vars(record)), "utf-8")
        return record

    def _run(self, files: Iterable[str]) -> None:
        from coverage import CoverageData

        with tempfile.TemporaryDirectory() as folder:
            times, data = Path(folder) / "times.json", Path(folder) / "coverage"
            environment = os.environ | {
                "PYTHONPATH": str(ROOT / "src"), "COVERAGE_FILE": str(data), "MUTANTS_TIMES": str(times),
            }  # fmt: skip
            sources = [f"--cov={source}" for source in SOURCES]
            command = [sys.executable, "-m", "pytest", *OPTIONS, "-p", "tests.mutants.plugin", *sources,
                       "--cov-context=test", "--cov-report=", *files]  # fmt: skip
            subprocess.run(command, cwd=ROOT, env=environment, check=False, stdout=subprocess.DEVNULL)
            self.seconds |= json.loads(times.read_text("utf-8"))
            read = CoverageData(str(data))
            read.read()
            for file in read.measured_files():
                path = str(Path(file).relative_to(ROOT / "src" / "flyingsquid"))
                for line, contexts in read.contexts_by_lineno(file).items():
                    for test in {context.rpartition("|")[0] for context in contexts} & self.seconds.keys():
                        self.lines.setdefault(test, {}).setdefault(path, []).append(line)


def _files() -> list[Path]:
    places = [ROOT / name for name in TESTS]
    return [f for place in places for f in ([place] if place.is_file() else sorted(place.rglob("*.py")))]


def _digest(file: Path) -> str:
    """Return the digest of a file and, in a directory of tests, of what its tests share: helpers and data."""
    shared = []
    if file.is_relative_to(ROOT / "tests"):
        shared = [f for f in sorted(file.parent.glob("*.*")) if not f.name.startswith("test_")]
    return hashlib.sha256(b"".join(one.read_bytes() for one in [file, *shared])).hexdigest()
