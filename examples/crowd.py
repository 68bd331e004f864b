"""A crowd in long form: from a table of answers to labels by task, and to tasks of new workers.

The steps of a crowd-kit notebook, ported with docs/guides/from-crowd-kit.md.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import flyingsquid as fs

BREEDS = ("beagle", "husky", "pug")


def simulate_answers(
    n_tasks: int, workers: list[str], first: int, rng: np.random.Generator
) -> dict[str, Any]:
    """Return answers in long form, five per task, and the truth by task."""
    skill = dict(zip(workers, rng.uniform(0.35, 0.95, len(workers)), strict=True))
    answers: dict[str, Any] = {"task": [], "worker": [], "label": [], "truth": {}}
    for task in range(first, first + n_tasks):
        answers["truth"][task] = truth = str(rng.choice(BREEDS))
        for worker in rng.choice(workers, 5, replace=False):
            answers["task"].append(task)
            answers["worker"].append(str(worker))
            answers["label"].append(truth if rng.random() < skill[worker] else str(rng.choice(BREEDS)))
    return answers


def read(answers: dict[str, Any]) -> fs.Votes:
    """Read answers in long form; a pandas table with these columns works as well."""
    return fs.Votes.from_long(answers["task"], answers["worker"], answers["label"])


def share_right(labels: Any, votes: fs.Votes, truth: dict[int, str]) -> float:
    tasks = np.asarray(votes.items).tolist()
    return float(np.mean([truth[task] == label for task, label in zip(tasks, labels, strict=True)]))


def main(n_tasks: int = 1_000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    workers = [f"worker {i}" for i in range(25)]
    answers = simulate_answers(n_tasks, workers, 0, rng)
    votes = read(answers)
    print(votes)
    print(fs.analysis.krippendorff_alpha(votes))

    model = fs.LabelModel().fit(votes)
    scores = {
        "label model": share_right(model.predict(votes), votes, answers["truth"]),
        "majority vote": share_right(fs.MajorityVote().fit_predict(votes), votes, answers["truth"]),
    }

    # Later tasks, some of them answered by new workers, whose votes are left out.
    later = simulate_answers(n_tasks, [*workers, "worker 25", "worker 26"], n_tasks, rng)
    known = model.read_votes(read(later), unknown_sources="ignore")
    scores["later tasks"] = share_right(model.predict(known), known, later["truth"])
    for name, score in scores.items():
        print(f"{name:14} {score:.1%} of tasks correct")
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000)
    main(parser.parse_args().items)
