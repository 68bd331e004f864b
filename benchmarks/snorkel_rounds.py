"""Rules applied by Snorkel's PandasLFApplier, timed on demand. Runs in the environment of other label models.

``python snorkel_rounds.py comments.json votes.npy`` reads columns by name. Then every line on standard input
makes it apply all rules once; it answers with the seconds, and leaves the votes in the second file.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from snorkel.labeling import LabelingFunction, PandasLFApplier

RULES = runpy.run_path(str(Path(__file__).with_name("apply_rules.py")))["RULES"]


def main() -> None:
    frame = pd.DataFrame(json.loads(Path(sys.argv[1]).read_text("utf-8")))
    applier = PandasLFApplier([LabelingFunction(rule.__name__, rule) for rule in RULES])
    for _ in sys.stdin:
        start = time.perf_counter()
        votes = applier.apply(frame, progress_bar=False)
        seconds = time.perf_counter() - start
        np.save(sys.argv[2], votes.astype(np.int8))
        sys.stdout.write(f"{seconds}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
