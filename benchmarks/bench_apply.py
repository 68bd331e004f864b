"""Claim: fs.apply is at least 3 times as fast as Snorkel's PandasLFApplier, vectorized at least 50 times.

The same ten rules over the same comments, a round at a time, in one run; the votes are compared, not only the
seconds. Snorkel runs in its own environment (``make peers``). Ratios are Snorkel's seconds by ours: 3 means
three times as fast. ``--quick`` is a smoke run on few rows, whose numbers are not meaningful.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from rich.console import Console
from rich.table import Table

import flyingsquid as fs
from benchmarks.apply_rules import ABSTAIN, HAM, RULES, SPAM
from benchmarks.harness import machine, ratio, save, save_parser
from benchmarks.quality.peers import needed_interpreter

HERE = Path(__file__).parent
GOALS = {
    "pandas": 3.0,
    "polars": 3.0,
    "list of dicts": 3.0,
    "pandas, vectorized": 50.0,
    "polars, vectorized": 50.0,
}
WORDS = [
    "the", "this", "my", "song", "channel", "please", "subscribe", "check", "out", "it", "video", "love",
    "voice",
    "http://win.example", "and", "you", "so", "great", "best", "listen", "to", "of", "for", "money", "free",
    "click", "beautiful", "dance", "again", "year",
]  # fmt: skip


def comments(n: int) -> dict[str, list[Any]]:
    """Columns of made-up comments."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 18, n)
    words = rng.choice(WORDS, int(sizes.sum()))
    starts = np.concatenate([[0], np.cumsum(sizes)])
    return {
        "text": [" ".join(words[a:b]) for a, b in pairwise(starts)],
        "likes": rng.geometric(0.1, n).tolist(),
        "account_days": rng.integers(0, 1_000, n).tolist(),
        "capital_share": rng.random(n).round(3).tolist(),
    }


# ---------------------------------------------------------------------- the rules on whole columns


def _vectorized(vote: int, test: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda frame: np.where(np.asarray(test(frame), bool), vote, ABSTAIN)


PANDAS = {
    "subscribe": _vectorized(SPAM, lambda f: f.text.str.contains("subscribe", regex=False)),
    "link": _vectorized(SPAM, lambda f: f.text.str.contains("http", regex=False)),
    "my_channel": _vectorized(SPAM, lambda f: f.text.str.contains("my channel", regex=False)),
    "please": _vectorized(SPAM, lambda f: f.text.str.contains("please", regex=False)),
    "song": _vectorized(HAM, lambda f: f.text.str.contains("song", regex=False)),
    "check_out": _vectorized(SPAM, lambda f: f.text.str.contains("check.{0,20}out")),
    "short": _vectorized(HAM, lambda f: f.text.str.len() < 25),
    "many_likes": _vectorized(HAM, lambda f: f.likes >= 20),
    "fresh_account": _vectorized(SPAM, lambda f: f.account_days < 7),
    "capitals": _vectorized(SPAM, lambda f: f.capital_share > 0.6),
}
POLARS = {
    "subscribe": _vectorized(SPAM, lambda f: f["text"].str.contains("subscribe", literal=True)),
    "link": _vectorized(SPAM, lambda f: f["text"].str.contains("http", literal=True)),
    "my_channel": _vectorized(SPAM, lambda f: f["text"].str.contains("my channel", literal=True)),
    "please": _vectorized(SPAM, lambda f: f["text"].str.contains("please", literal=True)),
    "song": _vectorized(HAM, lambda f: f["text"].str.contains("song", literal=True)),
    "check_out": _vectorized(SPAM, lambda f: f["text"].str.contains("check.{0,20}out")),
    "short": _vectorized(HAM, lambda f: f["text"].str.len_chars() < 25),
    "many_likes": _vectorized(HAM, lambda f: f["likes"] >= 20),
    "fresh_account": _vectorized(SPAM, lambda f: f["account_days"] < 7),
    "capitals": _vectorized(SPAM, lambda f: f["capital_share"] > 0.6),
}


def contenders(columns: dict[str, list[Any]]) -> dict[str, Callable[[], fs.Votes]]:
    """Return calls of fs.apply by type of the data."""
    names = list(columns)
    records = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    by_row = [fs.labeling_function(rule) for rule in RULES]
    of_pandas = [fs.labeling_function(name, vectorized=True)(rule) for name, rule in PANDAS.items()]
    of_polars = [fs.labeling_function(name, vectorized=True)(rule) for name, rule in POLARS.items()]
    pandas_frame, polars_frame = pd.DataFrame(columns), pl.DataFrame(columns)
    return {
        "pandas": lambda: fs.apply(by_row, pandas_frame),
        "polars": lambda: fs.apply(by_row, polars_frame),
        "list of dicts": lambda: fs.apply(by_row, records),
        "pandas, vectorized": lambda: fs.apply(of_pandas, pandas_frame),
        "polars, vectorized": lambda: fs.apply(of_polars, polars_frame),
    }


# ---------------------------------------------------------------------- rounds


def measure(n: int, repeats: int) -> list[dict[str, Any]]:
    columns = comments(n)
    ours = contenders(columns)
    seconds: dict[str, list[float]] = {name: [] for name in ("snorkel", *ours)}
    with tempfile.TemporaryDirectory() as folder:
        source, answer = Path(folder) / "comments.json", Path(folder) / "votes.npy"
        source.write_text(json.dumps(columns), encoding="utf-8")
        command = [str(needed_interpreter()), str(HERE / "snorkel_rounds.py"), str(source), str(answer)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as snorkel:
            for _ in range(repeats + 1):  # the first round warms up
                seconds["snorkel"].append(_round_of(snorkel))
                expected = np.load(answer)
                for name, call in ours.items():
                    start = time.perf_counter()
                    votes = call()
                    seconds[name].append(time.perf_counter() - start)
                    if not np.array_equal(votes.codes, expected):
                        raise SystemExit(f"{name}: the votes are not those of Snorkel")
    warm = {who: times[1:] for who, times in seconds.items()}
    return [
        {"data": name, "n": n, "m": len(RULES), "goal": GOALS[name], "faster": ratio(warm, "snorkel", name)}
        for name in ours
    ]


def _round_of(snorkel: subprocess.Popen[str]) -> float:
    if snorkel.stdin is None or snorkel.stdout is None:
        raise RuntimeError("the other process has no pipes")
    snorkel.stdin.write("again\n")
    snorkel.stdin.flush()
    return float(snorkel.stdout.readline())


def show(results: list[dict[str, Any]], console: Console) -> None:
    first = results[0]
    title = f"{first['n']:,} rows x {first['m']} rules: times as fast as Snorkel's PandasLFApplier"
    table = Table(title=title, header_style="bold")
    for name in ("data", "times as fast, median (quartiles)", "goal", "Snorkel s", "ours s"):
        table.add_column(name, justify="left" if name == "data" else "right")
    for result in results:
        r = result["faster"]
        table.add_row(
            result["data"],
            f"{r['ratio']:.1f} ({r['low']:.1f}-{r['high']:.1f})",
            f">= {result['goal']:g}",
            f"{r['seconds']:.2f}",
            f"{r['baseline_seconds']:.3f}",
        )
    console.print(table)


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it runs")
    arguments = parser.parse_args()
    console = Console(width=130)
    console.print(machine())
    results = measure(2_000, 1) if arguments.quick else measure(100_000, 7)
    show(results, console)
    if arguments.save and not arguments.quick:
        console.print(f"saved to {save('apply', results).name}")


if __name__ == "__main__":
    main()
