"""Snorkel's LabelModel at its defaults, timed on demand. Runs in the environment of other label models.

Every line on standard input is two paths, votes.npy and labels.npy; the answer is two numbers, the seconds of
fit and of predict_proba.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from snorkel.labeling.model import LabelModel


def main() -> None:
    for line in sys.stdin:
        source, target = line.rstrip("\n").split("\t")
        votes = np.load(source).astype(int)  # the type that it works in; not part of its time
        start = time.perf_counter()
        model = LabelModel(cardinality=int(votes.max()) + 1, verbose=False)
        model.fit(votes, progress_bar=False)
        fitted = time.perf_counter()
        labels = model.predict_proba(votes)
        done = time.perf_counter()
        np.save(target, labels)
        sys.stdout.write(f"{fitted - start} {done - fitted}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
