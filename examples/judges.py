"""Label comments with five simulated judges, of which some refuse, fail or do not answer the question.

No network is needed, because a judge can be any function. To ask a real model, replace ``complete``.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np
from comments import draw_comments

import flyingsquid as fs
from flyingsquid.judges import Judge, answers, ask_judges

PROMPT = "Is this comment spam? Think, then end with 'Verdict:' and one of spam, ham, unsure.\n\n{text}"
VERDICT = answers.pattern(
    r"Verdict: (\w+)", then=answers.class_name({"ham": "ham", "spam": "spam", "unsure": None})
)
# Each simulated model recognizes some words.
WORDS = {
    "careful": (["subscribe", "http", "money", "giveaway"], ["song", "love", "lyrics", "album"]),
    "hasty": (["click", "free", "check"], ["voice", "dance", "concert"]),
    "prudish": (["money", "channel", "subscribe"], ["love", "beautiful", "song"]),
    "shaky": (["free", "giveaway", "http"], ["album", "lyrics", "voice"]),
    "chatty": (["channel", "click", "check"], ["beautiful", "dance", "love"]),
}


def complete(model: str, prompt: str, attempt: random.Random) -> str:
    """Return the answer to a prompt, as a client would, or raise an error now and then."""
    spam, ham = WORDS[model]
    text = prompt.rpartition("\n\n")[2]
    if model == "shaky" and attempt.random() < 0.3:
        raise ConnectionError("the model is overloaded")
    if model == "prudish" and "love" in text:
        return "I'm sorry, but I can't discuss that."
    if model == "chatty" and "please" in text:
        return "What a nice comment! Have a nice day."
    score = sum(word in text for word in spam) - sum(word in text for word in ham)
    return f"I count {score}. Verdict: {'spam' if score > 0 else 'ham' if score < 0 else 'unsure'}"


def panel(asked: list[str]) -> list[Judge]:
    """Return one judge per model. The name of the judge is appended to ``asked`` in every call."""

    def judge(model: str) -> Judge:
        luck = random.Random(model)

        def ask(text: str) -> str:
            asked.append(model)
            return complete(model, PROMPT.format(text=text), luck)

        return Judge(model, ask, parse=VERDICT, version={"prompt": PROMPT, "model": model}, backoff=0.001)

    return [judge(model) for model in WORDS]


def main(n_items: int = 1_000) -> dict[str, float]:
    texts, y = draw_comments(n_items, np.random.default_rng(0))
    gold = np.array(["ham", "spam"])[y]
    asked: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "answers.jsonl"
        ask_judges(panel(asked), texts[: n_items // 2], cache=path)  # stopped in the middle
        before = len(asked)
        run = ask_judges(panel(asked), texts, cache=path)  # the same call goes on
        print(run)
        kept = run.counts["kept"].sum()
        print(f"{before:,} calls before, {len(asked) - before:,} after; {kept:,} answers were kept")
    model = fs.LabelModel().fit(run.votes)
    scores = {
        "majority vote": float(np.mean(fs.MajorityVote().fit(run.votes).predict(run.votes) == gold)),
        "label model": float(np.mean(model.predict(run.votes) == gold)),
    }
    for name, score in scores.items():
        print(f"{name:<14} {score:.1%} right")
    return scores | {"calls": float(len(asked)), "kept": float(run.counts["kept"].sum())}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000)
    main(parser.parse_args().items)
