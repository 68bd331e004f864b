"""Another process that fits and labels on demand, so that rounds alternate with ours."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self


class OtherProcess:
    """A line with two paths goes in, votes and where the labels go; seconds of fit and labels come out."""

    def __init__(self, command: Sequence[str], threads: int) -> None:
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = {**os.environ, **dict.fromkeys(names, str(threads)), "PYTHONPATH": ""}
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def seconds(self, votes: Path, labels: Path) -> tuple[float, float]:
        """Return the seconds that fit and labels took in the other process."""
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise RuntimeError("the other process has no pipes")
        with suppress(BrokenPipeError):  # the error is reported below
            process.stdin.write(f"{votes}\t{labels}\n")
            process.stdin.flush()
        answer = process.stdout.readline().split()
        if len(answer) != 2:
            raise RuntimeError(f"the other process ended with code {process.wait()}")
        return float(answer[0]), float(answer[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
