"""Hidden Markov model by EM (hmmlearn), timed on demand. Runs in the environment of other label models.

Every line on standard input is two paths, votes.npy and labels.npy; the answer is two numbers, the seconds of
fit (counting included) and of predict_proba.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2]))  # this environment does not have our package
    from benchmarks.quality.peers_run import hmm

    for line in sys.stdin:
        source, target = line.rstrip("\n").split("\t")
        votes = np.load(source)
        start = time.perf_counter()
        labels, _ = hmm(votes, votes[:0], 2)
        done = time.perf_counter()
        np.save(target, labels)
        sys.stdout.write(f"{done - start} 0\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
