"""A process for each mutant, forked from one that has imported everything but the library."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType
from typing import Literal

import pytest

import tests.mutants.plugin  # noqa: F401
from tests.mutants.record import OPTIONS
from tests.mutants.sites import ROOT, Mutant

# Most of what tests import, so that no mutant pays for it.
_BEFORE = (
    "hypothesis.extra.numpy", "narwhals", "scipy.optimize", "scipy.stats", "sklearn.linear_model", "click",
)  # fmt: skip
# What was imported before pytest began cannot be rewritten, and need not be.
_HERE = ("-x", "-p", "no:cov", "-W", "ignore::pytest.PytestAssertRewriteWarning")
_NOT_USED = 99  # exit code of a child whose tests did not import the mutant
# A test that takes this much more CPU time than recorded counts as endless. Unlike wall-clock time, CPU time
# does not depend on the load.
_TIMES_SLOWER, _SECONDS_MORE = 10.0, 15.0
_SECONDS_OF_IMPORTS = 60.0
_SECONDS_WITHOUT_NEWS = 1_800.0  # of wall-clock time, for a test that waits and uses no CPU time
Verdict = tuple[Literal["killed", "timeout", "survived", "not reached"], str]


class _MutantImporter(MetaPathFinder, Loader):
    """Import one module with the change in it; no file is written."""

    def __init__(self, mutant: Mutant):
        self.mutant, self.is_used = mutant, False
        self.code = compile(mutant.tree(), str(mutant.file), "exec", dont_inherit=True)

    def find_spec(self, name: str, path: object, target: object = None) -> ModuleSpec | None:
        if name != self.mutant.module:
            return None
        places = [str(self.mutant.file.parent)] if self.mutant.file.name == "__init__.py" else None
        return spec_from_file_location(name, self.mutant.file, loader=self, submodule_search_locations=places)

    def exec_module(self, module: ModuleType) -> None:
        self.is_used = True
        exec(self.code, vars(module))


class _Reporter:
    """Plugin of pytest that installs the mutant and reports through a pipe which test begins and which fails.

    The signal of the timer ends the process when a test has used too much CPU time.
    """

    def __init__(self, pipe: int, finder: _MutantImporter | None, seconds: dict[str, float]):
        self.pipe, self.finder, self.seconds = pipe, finder, seconds

    def pytest_configure(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, _SECONDS_OF_IMPORTS)
        if self.finder is not None:  # before pytest's own, which imports the files whose doctests are run
            sys.meta_path.insert(0, self.finder)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        limit = _TIMES_SLOWER * self.seconds.get(nodeid, 1.0) + _SECONDS_MORE
        signal.setitimer(signal.ITIMER_PROF, limit)
        os.write(self.pipe, f"begins {nodeid}\n".encode())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os.write(self.pipe, f"fails {report.nodeid}\n".encode())


def prepare() -> None:
    """Import what all mutants need, with one thread, because threads are lost in a fork."""
    os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    sys.path.insert(0, str(ROOT / "src"))
    for name in _BEFORE:
        import_module(name)


def judge(mutant: Mutant | None, tests: Sequence[str], seconds: dict[str, float]) -> Verdict:
    """Return whether tests detect a mutant, and the deciding test; without one, whether the tests fail."""
    if not tests:
        return "not reached", ""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_run(mutant, tests, seconds, writing))
    os.close(writing)
    try:
        return _follow(child, reading, tests[0])
    finally:
        os.close(reading)


def _run(mutant: Mutant | None, tests: Sequence[str], seconds: dict[str, float], pipe: int) -> int:
    """Run pytest in the child, in order, until the first failure."""
    os.setsid()
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
    try:
        finder = None if mutant is None else _MutantImporter(mutant)
        code = int(pytest.main([*OPTIONS, *_HERE, *tests], plugins=[_Reporter(pipe, finder, seconds)]))
        return code if finder is None or finder.is_used else _NOT_USED
    except BaseException:
        return 1


def _follow(child: int, pipe: int, first: str) -> Verdict:
    """Wait in the parent for the end, or for a test that does not end."""
    test, failed, said = first, "", b""
    while True:
        ready, _, _ = select.select([pipe], [], [], _SECONDS_WITHOUT_NEWS)
        if not ready:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout", test
        got = os.read(pipe, 65536)
        if not got:
            break
        *lines, said = (said + got).split(b"\n")
        for line in lines:
            what, _, test = line.decode().partition(" ")
            failed = failed or (test if what == "fails" else "")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code == -signal.SIGPROF:
        return "timeout", test
    if code == _NOT_USED:
        raise RuntimeError(f"the tests did not import the mutant; the first is {first}")
    if code == pytest.ExitCode.OK:
        return "survived", ""
    return "killed", failed or test  # without a failure: what cannot be imported, or ends the process
