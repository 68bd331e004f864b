"""The command line of ``python -m tests.mutants``."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.mutants.judge import Verdict, judge, prepare
from tests.mutants.record import Record
from tests.mutants.sites import ROOT, Mutant, sample


def main() -> int:
    chosen = _options()
    record = Record.read(chosen.record)
    prepare()
    drawn = sample(chosen.sample, chosen.seed)
    if chosen.again is not None:
        wanted = {_key(row) for row in json.loads(chosen.again.read_text("utf-8"))}
        drawn = [mutant for mutant in drawn if _key(_row(mutant)) in wanted]
    verdicts: list[Verdict] = []
    begin = time.monotonic()
    for at, mutant in enumerate(drawn, start=1):
        near, others = record.tests(mutant)
        verdicts.append(judge(mutant, near, record.seconds))
        if others and verdicts[-1][0] in ("survived", "not reached"):
            verdicts[-1] = judge(mutant, others, record.seconds)
        what, test = verdicts[-1]
        _say(f"{at:4} {time.monotonic() - begin:5.0f} s {what:11} {_line(mutant)}  {test}")
    verdicts = _with_control(verdicts, record)
    survivors = [
        m for m, (what, _) in zip(drawn, verdicts, strict=True) if what in ("survived", "not reached")
    ]
    _report(drawn, survivors)
    chosen.survivors.write_text(
        json.dumps([_row(m) for m in survivors], indent=1, ensure_ascii=False), "utf-8"
    )
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Measure how many deliberate errors the tests detect."
    )
    parser.add_argument("--sample", type=int, default=30, help="number of mutants (default: 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument(
        "--again", type=Path, help="run only the mutants of the sample that are in this file of survivors"
    )
    build = ROOT / "build" / "mutants"
    parser.add_argument(
        "--survivors", type=Path, default=build / "survivors.json", help="file of survivors to write"
    )
    parser.add_argument(
        "--record",
        type=Path,
        default=build / "record.json",
        help="file with the lines that each test executes",
    )
    return parser.parse_args()


def _with_control(verdicts: list[Verdict], record: Record) -> list[Verdict]:
    """A test that also fails without a mutant does not count as a kill."""
    killers = sorted({test for what, test in verdicts if what == "killed"})
    while killers:
        what, test = judge(None, killers, record.seconds)
        if what == "survived":
            break
        killers.remove(test)
        if judge(None, [test], record.seconds)[0] == "survived":
            continue  # it fails only after the tests of other mutants
        _say(f"fails without a mutant: {test}")
        verdicts = [("survived", "") if v[1] == test else v for v in verdicts]
    return verdicts


def _report(drawn: list[Mutant], survivors: list[Mutant]) -> None:
    of_file, survived = Counter(m.path for m in drawn), Counter(m.path for m in survivors)
    _say(f"\n{'file':32} mutants killed survived")
    for path, count in sorted(of_file.items()):
        _say(f"{path:32} {count:7} {count - survived[path]:6} {survived[path] or '':8}")
    killed = len(drawn) - len(survivors)
    _say(f"\n{killed} of {len(drawn)} killed, {killed / max(1, len(drawn)):.1%}")


def _line(mutant: Mutant) -> str:
    return f"{mutant.path}:{mutant.line}  {mutant.before} → {mutant.after}"


def _row(mutant: Mutant) -> dict[str, Any]:
    names = ("path", "line", "kind", "text", "before", "after")
    return {name: getattr(mutant, name) for name in names} | {"number": mutant.number}


def _key(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["path"], row["number"], row["text"]


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
