"""A command that is run many times in forks of one process, so that its imports run once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_CODE = """
import os, sys
import flyingsquid.cli.label, flyingsquid.cli.inputs, flyingsquid.cli.stream, flyingsquid.reports
from flyingsquid.cli.main import main
arguments = sys.argv[1:]
for _ in sys.stdin:
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        main(arguments, standalone_mode=True)
        os._exit(9)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""


class Launcher:
    """Runs ``flyingsquid`` with the given arguments, once per ``start``. Close it at the end.

    The arguments are the same for all runs. A fork does not inherit threads, so BLAS and OpenMP have one.
    """

    def __init__(self, arguments: list[str], cwd: Path | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, *arguments],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )

    def start(self) -> int:
        """Start a run and return its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()
        return self._read()

    def wait(self) -> int:
        """Return the exit code of the run; negative for the signal that ended it."""
        return os.waitstatus_to_exitcode(self._read())

    def close(self) -> None:
        self._process.communicate()

    def _read(self) -> int:
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())
