"""The authors' code of 2020, timed on demand from a checkout that the user has.

``python reference_rounds.py CHECKOUT``: a directory that contains ``flyingsquid/label_model.py`` at some
depth. Every line on standard input is two paths, votes.npy (-1, 0 for no vote, +1) and labels.npy; the answer
is two numbers, the seconds of fit and of predict_proba.
"""

import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np


def main() -> None:
    given = Path(sys.argv[1])
    found = sorted(given.rglob("flyingsquid/label_model.py"), key=lambda path: len(path.parts))
    if not found:
        raise SystemExit(f"{given} holds no flyingsquid/label_model.py")
    # From the directory itself, because ours may be installed in the same environment under the same name.
    package = ModuleType("flyingsquid")
    package.__path__ = [str(found[0].parent)]
    sys.modules["flyingsquid"] = package
    sys.path.insert(0, str(found[0].parents[1]))
    from flyingsquid.label_model import LabelModel

    for line in sys.stdin:
        source, target = line.rstrip("\n").split("\t")
        votes = np.load(source).astype(np.float64)
        start = time.perf_counter()
        model = LabelModel(votes.shape[1])
        model.fit(votes)
        fitted = time.perf_counter()
        labels = model.predict_proba(votes)
        done = time.perf_counter()
        np.save(target, np.asarray(labels))
        sys.stdout.write(f"{fitted - start} {done - fitted}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
