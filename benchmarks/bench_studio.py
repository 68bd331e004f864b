"""Claim: a change in the studio shows in its table after a median of 100, 150 and 1,000 ms at 10,000,
100,000 and 1,000,000 items with 30 sources; the 95th percentile is at most twice that.

Latency is measured in the page (chromium): from the click to the first frame after the table was refreshed,
with the request, the refit, the answer and the drawing. Changes are enabling and disabling a source, and gold
labels. Applying a new keyword rule to all strings is reported apart, as is loading the file. ``--save``
writes the results file.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import flyingsquid as fs
from benchmarks.harness import save, save_parser
from tests.support.studio_page import StudioPage, launch_browser, run_studio

SOURCES = 30
GOALS = {10_000: 100, 100_000: 150, 1_000_000: 1_000}
CHANGES = 40
# Time between changes: a person looks at the table. What the studio computes after the table (effects of
# sources, suggestions) may still be running when the next change comes, and is part of the claim.
_PAUSE_MS = 700
_WORDS = (
    "great",
    "song",
    "subscribe",
    "channel",
    "love",
    "video",
    "free",
    "money",
    "check",
    "listen",
    "best",
    "click",
)

# Runs in the page: make a change, and wait for the first frame in which the table shows it.
_MEASURE = """
async ([selector, index]) => {
  const root = document.documentElement;
  const before = root.dataset.revision;
  const target = document.querySelectorAll(selector)[index];
  const start = performance.now();
  const refreshed = new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      if (root.dataset.revision === before) return;
      observer.disconnect();
      requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - start)));
    });
    observer.observe(root, { attributes: true, attributeFilter: ["data-revision"] });
  });
  target.click();
  return refreshed;
}
"""


def write_items(path: Path, n_items: int) -> None:
    """Write a file with a column of strings and 30 columns of votes."""
    accuracies = np.linspace(0.55, 0.9, SOURCES)
    sample = fs.datasets.simulate(n_items, accuracies, coverage=0.3, random_state=0)
    codes = np.asarray(sample.votes.codes)
    rng = np.random.default_rng(1)
    words = np.array(_WORDS)[rng.integers(0, len(_WORDS), (n_items, 8))]
    names = np.array(["", "ham", "spam"])
    with path.open("w", encoding="utf-8") as file:
        file.write("text," + ",".join(f"source_{j:02d}" for j in range(SOURCES)) + "\n")
        for start in range(0, n_items, 10_000):
            chunk = names[codes[start : start + 10_000] + 1]
            texts = words[start : start + 10_000]
            lines = [
                " ".join(text) + "," + ",".join(row)
                for text, row in zip(texts.tolist(), chunk.tolist(), strict=True)
            ]
            file.write("\n".join(lines) + "\n")


def summarize(milliseconds: list[float]) -> dict[str, float]:
    middle, high = np.percentile(milliseconds, [50, 95])
    return {
        "median_ms": round(float(middle), 1),
        "p95_ms": round(float(high), 1),
        "changes": len(milliseconds),
    }


def measure_changes(visit: StudioPage, changes: int) -> dict[str, Any]:
    """Latencies of enabling and disabling sources, and of gold labels."""
    page = visit.page
    toggles, labels = [], []
    for number in range(changes):
        source = (number // 2) * 7 % SOURCES
        toggles.append(page.evaluate(_MEASURE, ["#source-rows input[type=checkbox]", source]))
        page.wait_for_timeout(_PAUSE_MS)
    for number in range(changes // 2):
        labels.append(page.evaluate(_MEASURE, [f"#item-list .item:nth-child({number + 1}) .key-button", 0]))
        page.wait_for_timeout(_PAUSE_MS)
    return {"sources": summarize(toggles), "gold": summarize(labels), "all": summarize(toggles + labels)}


def measure_rule(visit: StudioPage) -> float:
    """Milliseconds until a new keyword rule has been applied to all items and is in the table."""
    page = visit.page
    page.select_option("#rule-kind", "keywords")
    page.fill("#rule-words", "subscribe")
    page.locator("#preview:not([hidden])").wait_for(timeout=120_000)
    page.wait_for_timeout(1_000)
    start = time.perf_counter()
    page.click("#rule-submit")
    visit.rows.nth(SOURCES).wait_for(timeout=300_000)
    visit.rows.first.locator("td.coverage:has-text('%')").wait_for(timeout=300_000)
    return round(1_000 * (time.perf_counter() - start), 1)


def measure_size(browser: Any, n_items: int, changes: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="flyingsquid-bench-") as directory:
        data = Path(directory, "items.csv")
        write_items(data, n_items)
        start = time.perf_counter()
        with run_studio(data) as address, StudioPage.open(browser, address) as visit:
            visit.page.set_default_timeout(300_000)
            visit.rows.nth(SOURCES - 1).locator("td.accuracy:has-text('%')").wait_for(timeout=300_000)
            loaded = time.perf_counter() - start
            visit.page.locator("#item-list .item").nth(20).wait_for()
            results = measure_changes(visit, changes)
            rule = measure_rule(visit)
            if visit.problems:
                raise RuntimeError(f"The page reported problems: {visit.problems}")
    goal = GOALS.get(n_items)
    return {"goal_ms": goal, **results, "new_rule_ms": rule, "load_seconds": round(loaded, 2)}


def main() -> None:
    parser = save_parser(__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=list(GOALS))
    parser.add_argument(
        "--changes", type=int, default=CHANGES, help="changes of sources; half as many gold labels"
    )
    options = parser.parse_args()
    results = {}
    with launch_browser() as browser:
        for n_items in options.items:
            found = measure_size(browser, n_items, options.changes)
            results[f"{n_items} x {SOURCES}"] = found
            print(
                f"{n_items:>9,} items: median {found['all']['median_ms']:.0f} ms, 95th percentile "
                f"{found['all']['p95_ms']:.0f} ms (goal {found['goal_ms']} ms); sources "
                f"{found['sources']['median_ms']:.0f} ms, gold {found['gold']['median_ms']:.0f} ms, "
                f"a new rule {found['new_rule_ms']:.0f} ms, loading {found['load_seconds']:.1f} s"
            )
    if options.save:
        save("studio", results)


if __name__ == "__main__":
    main()
