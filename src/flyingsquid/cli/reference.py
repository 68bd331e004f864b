"""The page docs/reference/cli.md, from the commands: ``python -m flyingsquid.cli.reference``."""

from __future__ import annotations

import inspect
import re
import textwrap

import click

from flyingsquid.cli.main import COMMANDS, main
from flyingsquid.cli.reading import NAMES

_KINDS = {"integer range": "N", "float range": "X"}
_OPENING = """# The command line

This page is made from the commands themselves; `flyingsquid COMMAND --help` says the same. A first walk:
[From a file of votes to a file of labels](../tutorials/first-labels.md).

Exit codes: 0 done, 1 a known error, said in one line, 2 wrong usage, 130 stopped by Ctrl-C, 143 by SIGTERM,
141 whoever read standard output has gone. Files appear whole or not at all, and replace others only with
`--force`. What files may hold is said in [Files of votes and labels](formats.md).
"""


def reference() -> str:
    """The whole page."""
    ctx = click.Context(main, info_name="flyingsquid")
    parts = [_OPENING]
    for name in COMMANDS:
        command = main.get_command(ctx, name)
        if command is not None:
            parts.append(_section(name, command))
    shared = [p for p in _shared(ctx) if p.name in NAMES]
    parts.append("\n".join(["## Options of reading", "", *_table(shared)]))
    return "\n".join(parts)


def _shared(ctx: click.Context) -> list[click.Option]:
    command = main.get_command(ctx, "label")
    return [p for p in command.params if isinstance(p, click.Option)] if command is not None else []


def _section(name: str, command: click.Command) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    own = [p for p in options if name == "stream" or p.name not in NAMES]
    words = " ".join(
        (a.name or "").upper() if a.required else f"[{(a.name or '').upper()}]" for a in arguments
    )
    lines = [
        f"## flyingsquid {name}",
        "",
        f"`flyingsquid {name} [OPTIONS]{f' {words}' if words else ''}`",
        "",
    ]
    lines += _text(command.help or "")
    lines += _table(own) if own else []
    if len(own) < len(options):
        lines += ["And the [options of reading](#options-of-reading).", ""]
    return "\n".join(lines)


def _table(options: list[click.Option]) -> list[str]:
    return ["| option | |", "|---|---|", *(_row(option) for option in options), ""]


def _text(help_text: str) -> list[str]:
    """Paragraphs as they are; what is set off by a mark of click becomes a block of code."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if not paragraph.startswith("\b"):
            lines += [*textwrap.wrap(_quoted(" ".join(paragraph.split())), 110), ""]
            continue
        head, _, rest = paragraph.removeprefix("\b\n").partition("\n")
        if head.startswith("  "):
            head, rest = "", f"{head}\n{rest}"
        lines += [head, "", *(["```text", textwrap.dedent(rest).rstrip(), "```", ""] if rest else [])]
    return lines


def _quoted(text: str) -> str:
    """Options in the text as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*(?: [A-Za-z]+:[A-Z])?)", r"`\1`", text)


def _kind(option: click.Option) -> str:
    """What stands for the value of an option."""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return _KINDS.get(option.type.name, option.type.name.upper())


def _row(option: click.Option) -> str:
    flags = "/".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {_kind(option)}"
    text = option.help or ""
    if option.required:
        text += " Required."
    if option.show_default and not option.is_flag:
        text += f" Default: {option.default}."
    shown = f"{flags}{value}".replace("|", "\\|")
    return f"| `{shown}` | {text.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
