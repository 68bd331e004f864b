"""Ten simple rules for comments, as plain functions, which bench_apply.py runs with every package."""

from __future__ import annotations

import re
from typing import Any

HAM, SPAM, ABSTAIN = 0, 1, -1
CHECK_OUT = re.compile(r"check.{0,20}out")


def subscribe(x: Any) -> int:
    return SPAM if "subscribe" in x.text else ABSTAIN


def link(x: Any) -> int:
    return SPAM if "http" in x.text else ABSTAIN


def my_channel(x: Any) -> int:
    return SPAM if "my channel" in x.text else ABSTAIN


def please(x: Any) -> int:
    return SPAM if "please" in x.text else ABSTAIN


def song(x: Any) -> int:
    return HAM if "song" in x.text else ABSTAIN


def check_out(x: Any) -> int:
    return SPAM if CHECK_OUT.search(x.text) else ABSTAIN


def short(x: Any) -> int:
    return HAM if len(x.text) < 25 else ABSTAIN


def many_likes(x: Any) -> int:
    return HAM if x.likes >= 20 else ABSTAIN


def fresh_account(x: Any) -> int:
    return SPAM if x.account_days < 7 else ABSTAIN


def capitals(x: Any) -> int:
    return SPAM if x.capital_share > 0.6 else ABSTAIN


RULES = (
    subscribe, link, my_channel, please, song, check_out, short, many_likes, fresh_account, capitals,
)  # fmt: skip
