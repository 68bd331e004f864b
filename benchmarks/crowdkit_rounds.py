"""Dawid and Skene by crowd-kit, timed on demand. Runs in the environment of other label models.

``python crowdkit_rounds.py votes.npz`` reads arrays ``task``, ``worker`` and ``label``. Then every line on
standard input is a tolerance: it fits and labels once, and answers with the seconds and the passes that it
took.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import pandas as pd
from crowdkit.aggregation import DawidSkene

PASSES = 100  # crowd-kit's own default


def main() -> None:
    with np.load(sys.argv[1]) as data:
        votes = pd.DataFrame({name: data[name] for name in ("task", "worker", "label")})
    for line in sys.stdin:
        start = time.perf_counter()
        model = DawidSkene(n_iter=PASSES, tol=float(line))
        model.fit_predict(votes)
        sys.stdout.write(f"{time.perf_counter() - start} {len(model.loss_history_)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
