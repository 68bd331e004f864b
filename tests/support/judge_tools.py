"""Support code for tests of judges."""

from __future__ import annotations

from flyingsquid.judges import Judge
from flyingsquid.judges.answers import ABSTAINED, FAILED, REFUSED, UNPARSEABLE

WORDS = ("bad", "good")


def judge(ask, name="a", **options):
    return Judge(name, ask, **{"classes": WORDS, "backoff": 0.001} | options)


def outcomes(run) -> list[object]:
    names = [*run.votes.classes, FAILED, UNPARSEABLE, REFUSED, ABSTAINED]
    return [names[code] for code in run.votes.codes.ravel()]
