"""A crowd in long form: from a table of answers to labels by task, and to tasks of new workers.

The steps of a crowd-kit notebook, ported with docs/guides/from-crowd-kit.md. Needs pandas.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

import flyingsquid as fs

BREEDS = ("beagle", "husky", "pug")


def simulate_answers(
    n_tasks: int, skill: dict[str, float], first: int, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.Series]:
    """Return answers as crowd-kit has them, with columns task, worker and label, and the truth by task."""
    workers, rows, truth = list(skill), [], {}
    for task in range(first, first + n_tasks):
        truth[task] = str(rng.choice(BREEDS))
        for worker in rng.choice(workers, 5, replace=False):
            answer = truth[task] if rng.random() < skill[worker] else str(rng.choice(BREEDS))
            rows.append((task, str(worker), answer))
    return pd.DataFrame(rows, columns=["task", "worker", "label"]), pd.Series(truth)


def main(n_tasks: int = 1_000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    skill = {f"worker {i}": rng.uniform(0.35, 0.95) for i in range(25)}
    answers, truth = simulate_answers(n_tasks, skill, 0, rng)
    votes = fs.Votes.from_long(answers)
    print(votes)
    print(fs.analysis.krippendorff_alpha(votes))

    # Labels are Series by task, as in crowd-kit, so that `eq` of pandas aligns them with the truth.
    model = fs.LabelModel().fit(votes)
    labels = model.predict(votes, output="pandas")
    majority = fs.MajorityVote().fit_predict(votes, output="pandas")
    scores = {
        "label model": float(labels.eq(truth).mean()),
        "majority vote": float(majority.eq(truth).mean()),
    }
    skills = pd.Series(model.accuracies_, index=votes.names).sort_values()
    print("least accurate:", ", ".join(skills.index[:3]))

    # Gold labels of some tasks, joined by task.
    with_gold = fs.LabelModel().fit(votes, gold=truth.iloc[: n_tasks // 10])
    scores["with gold labels"] = float(with_gold.predict(votes, output="pandas").eq(truth).mean())

    # Later tasks, some of them answered by new workers, whose votes are left out.
    later, later_truth = simulate_answers(
        n_tasks, {**skill, "worker 25": 0.8, "worker 26": 0.8}, n_tasks, rng
    )
    known = model.read_votes(fs.Votes.from_long(later), unknown_sources="ignore")
    scores["later tasks"] = float(model.predict(known, output="pandas").eq(later_truth).mean())
    for name, score in scores.items():
        print(f"{name:16} {score:.1%} of tasks correct")
    return scores


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000)
    main(parser.parse_args().items)
