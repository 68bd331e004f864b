"""Tables of pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A markdown table; the first column to the left, the others to the right.

    >>> print(table(["n", "error"], [["100", "0.5"]]))
    | n | error |
    |---|---:|
    | 100 | 0.5 |
    """
    lines = [_row(head), "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join([*lines, *(_row(row) for row in rows)])


def percent(value: float | None, *, missing: str = "-") -> str:
    """A share in %, one digit.

    >>> percent(0.8312), percent(None)
    ('83.1', '-')
    """
    return missing if value is None else f"{100 * value:.1f}"


def number(value: float) -> str:
    """Two significant digits.

    >>> number(0.001234), number(1234.0)
    ('0.0012', '1,200')
    """
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 100 else f"{rounded:.2g}"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
