"""The ``flyingsquid`` command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from flyingsquid._version import __version__
from flyingsquid.cli.console import in_options
from flyingsquid.cli.stopping import StoppedBySignalError, leave_closed_pipe, stoppable
from flyingsquid.exceptions import FlyingSquidError

# Commands are imported when they run, because what they need takes seconds to import.
# The first line of each is repeated here, and a test compares.
COMMANDS = {
    "analyze": "Say what each source does, who agrees with whom, and what stands out.",
    "completion": "Print a script that completes commands and options in your shell.",
    "convert": "Write a file of votes in another format or form.",
    "demo": "Label real biopsies with seven hand-written rules and no gold labels.",
    "inspect": "Say what is in a file of votes, a model or counts.",
    "label": "Turn a file of votes into a file of labels.",
    "report": "Make an HTML page about votes and the labels they give.",
    "reproduce": "Measure the paper's tables, figures and theorems anew.",
    "stream": "Label a stream of votes, under drift, without gold labels.",
}


class _Group(click.Group):
    """Commands are loaded when needed. A known error is one line and exit code 1, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        return getattr(import_module(f"flyingsquid.cli.{cmd_name}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with stoppable():
                return super().invoke(ctx)
        except FlyingSquidError as error:
            raise click.ClickException(in_options(str(error))) from error
        except StoppedBySignalError as stop:
            click.echo(f"Stopped by {stop}; no file was left half-written.", err=True)
            ctx.exit(128 + stop.number)
        except BrokenPipeError:
            leave_closed_pipe(ctx)
        except MemoryError as error:
            raise click.ClickException("memory has no room for this") from error
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            raise click.ClickException(f"{where}{(error.strerror or str(error)).lower()}") from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="flyingsquid")
def main() -> None:
    """Turn noisy votes into training labels, in closed form.

    \b
    Examples:
      flyingsquid label votes.csv -o labels.csv --report report.html
      flyingsquid analyze votes.csv
      flyingsquid demo
    """
