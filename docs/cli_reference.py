"""Generate the reference of the command line: ``python docs/cli_reference.py > docs/reference/cli.md``."""

from __future__ import annotations

import inspect
import re
import textwrap

import click

from flyingsquid.cli.main import COMMANDS, main
from flyingsquid.cli.options import MethodName, reading_options

_KINDS = {"integer range": "N", "float range": "X"}
_OPENING = """# Command line

`flyingsquid COMMAND --help` prints the options of a command; this page is generated from the same text. For
an introduction, see [Label a file from the command line](../tutorials/first-labels.md). The formats are
described in [Files of votes and labels](formats.md).

| exit code | meaning |
|--:|---|
| 0 | success |
| 1 | an error, described in one line |
| 2 | invalid usage, such as an invalid value of an option |
| 70 | an unexpected error, which is a bug |
| 129 | stopped by SIGHUP |
| 130 | stopped by Ctrl-C |
| 141 | the reader of standard output was closed |
| 143 | stopped by SIGTERM |

`flyingsquid --debug COMMAND ...`, or the environment variable `FLYINGSQUID_DEBUG=1`, shows the traceback of
an error. Files are written completely or not at all, and replace existing files only with `--force`.
"""


def reference() -> str:
    """Return the page."""
    ctx = click.Context(main, info_name="flyingsquid")
    parts = [_OPENING]
    shared = _options(click.command("shared")(reading_options(lambda: None)))
    for name in COMMANDS:
        command = main.get_command(ctx, name)
        if command is not None:
            parts.append(_section(name, command, {option.name for option in shared}))
    parts.append("\n".join(["## Reading options", "", *_table(shared)]))
    return "\n".join(parts)


def _options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if isinstance(p, click.Option)]


def _section(name: str, command: click.Command, shared: set[str | None]) -> str:
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = _options(command)
    own = [p for p in options if name == "stream" or p.name not in shared]
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
        lines += ["It also takes the [reading options](#reading-options).", ""]
    return "\n".join(lines)


def _table(options: list[click.Option]) -> list[str]:
    return ["| option | description |", "|---|---|", *(_row(option) for option in options), ""]


def _text(help_text: str) -> list[str]:
    """Return the lines of a help text; paragraphs that click does not wrap become blocks of code."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(help_text).split("\n\n"):
        if not paragraph.startswith("\b"):
            lines += [*textwrap.wrap(_quoted(" ".join(paragraph.split())), 110), ""]
            continue
        head, _, rest = paragraph.removeprefix("\b\n").partition("\n")
        if head.startswith("  "):
            head, rest = "", f"{head}\n{rest}"
        lines += [head, ""] if head else []
        lines += ["```text", textwrap.dedent(rest).rstrip(), "```", ""] if rest else []
    return lines


def _quoted(text: str) -> str:
    """Format the options in a text as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*(?: [A-Za-z]+:[A-Z])?)", r"`\1`", text)


def _kind(option: click.Option) -> str:
    """Return the placeholder for the value of an option."""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    return _KINDS.get(option.type.name, option.type.name.upper())


def _row(option: click.Option) -> str:
    flags = "/".join([*option.opts, *option.secondary_opts])
    value = "" if option.is_flag else f" {_kind(option)}"
    text = option.help or ""
    if isinstance(option.type, MethodName):
        text = f"{text} Names: {', '.join(option.type.choices)}."
    if option.required:
        text += " Required."
    if option.show_default and not option.is_flag:
        text += f" Default: {option.default}."
    shown = f"{flags}{value}".replace("|", "\\|")
    return f"| `{shown}` | {text.replace('|', chr(92) + '|')} |"


if __name__ == "__main__":
    click.echo(reference(), nl=False)
