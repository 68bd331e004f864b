"""Patterns for messages: the facts that a message has to contain, in any sentence."""

from __future__ import annotations

import re


def mentions(*facts: object) -> str:
    """Return a pattern for ``pytest.raises`` that matches messages with all of the facts, in any order.

    >>> bool(re.search(mentions("row 3", "'links'", 7), "row 3, source 'links': got 7"))
    True
    """
    return "(?s)" + "".join(f"(?=.*{re.escape(str(fact))})" for fact in facts)
