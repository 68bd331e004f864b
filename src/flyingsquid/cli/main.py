"""The ``flyingsquid`` command."""

from __future__ import annotations

import traceback
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click
from click.shell_completion import get_completion_class

from flyingsquid._version import __version__
from flyingsquid.cli.console import (
    StoppedBySignalError,
    describe,
    handling_signals,
    leave_closed_pipe,
    raise_stopped,
)
from flyingsquid.exceptions import FlyingSquidError, OptionError

# Commands are imported when they run, because their imports take seconds.
# The first line of each help text is repeated here, and a test compares them.
COMMANDS = {
    "analyze": "Show statistics of the sources, their agreement, and findings about them.",
    "completion": "Print a script that completes commands and options in your shell.",
    "convert": "Write a file of votes in another format or form.",
    "demo": "Label real biopsies with seven hand-written rules and no gold labels.",
    "inspect": "Show what a file of votes, a model or counts contains.",
    "label": "Turn a file of votes into a file of labels.",
    "rate": "Estimate the share of each class with a confidence interval, from few gold labels.",
    "report": "Write an HTML report about votes and labels.",
    "score": "Combine scores of judges into one score per item, with an interval.",
    "stream": "Label a stream of votes whose sources may drift, without gold labels.",
    "studio": "Write rules in the browser and see the labels change as you type.",
    "suggest": "Suggest which items to label by hand next, to improve the labels of all items.",
}
# Modules that define several commands; others have the name of their command.
_MODULES = {
    "analyze": "analysis", "rate": "analysis", "report": "analysis", "suggest": "analysis",
    "convert": "files", "inspect": "files", "score": "label",
}  # fmt: skip


class UnexpectedError(click.ClickException):
    """An unexpected error, which indicates a bug."""

    exit_code = 70  # EX_SOFTWARE of sysexits.h: the program is at fault, not its input


class _Group(click.Group):
    """Commands that are imported when they run. Errors are one line; ``--debug`` shows tracebacks."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in self.commands:
            return self.commands[cmd_name]
        return getattr(import_module(f"flyingsquid.cli.{_MODULES.get(cmd_name, cmd_name)}"), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            similar = get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not similar:
                raise
            raise click.UsageError(f"{error.message} Did you mean {similar[0]}?", error.ctx) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with handling_signals(raise_stopped):
                return super().invoke(ctx)
        except StoppedBySignalError as stop:
            # A file that was being opened is removed when the generator that opened it is released.
            traceback.clear_frames(stop.__traceback__)
            click.echo(f"Stopped by {stop}; no file was left incomplete.", err=True)
            ctx.exit(128 + stop.number)
        except BrokenPipeError:
            leave_closed_pipe(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if ctx.params.get("debug"):
                raise
            raise self._as_message(error, ctx) from error

    def _as_message(self, error: Exception, ctx: click.Context) -> click.ClickException:
        """Return the error as one line."""
        if isinstance(error, FlyingSquidError):
            text = describe(error, self.get_command(ctx, ctx.invoked_subcommand or ""))
            wrong_usage = isinstance(error, OptionError) and error.parameter
            return click.UsageError(text) if wrong_usage else click.ClickException(text)
        if isinstance(error, MemoryError):
            return click.ClickException("Out of memory.")
        if isinstance(error, OSError):
            where = f"{error.filename}: " if error.filename else ""
            return click.ClickException(f"{where}{error.strerror or error}.")
        return UnexpectedError(
            f"Unexpected {type(error).__name__}: {' '.join(str(error).split())}. This is a bug in "
            f"flyingsquid; run flyingsquid --debug {ctx.invoked_subcommand} ... for the traceback."
        )


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="flyingsquid")
@click.option("--debug", is_flag=True, envvar="FLYINGSQUID_DEBUG", help="Show the traceback of an error.")
def main(debug: bool) -> None:  # read by _Group.invoke
    """Turn noisy votes into training labels, without gold labels.

    \b
    Examples:
      flyingsquid label votes.csv -o labels.csv --report report.html
      flyingsquid analyze votes.csv
      flyingsquid demo
    """


@main.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in your shell.

    \b
    Add its output to the configuration of your shell:
      bash   flyingsquid completion bash >> ~/.bashrc
      zsh    flyingsquid completion zsh >> ~/.zshrc
      fish   flyingsquid completion fish > ~/.config/fish/completions/flyingsquid.fish

    \b
    Examples:
      flyingsquid completion bash
      flyingsquid completion zsh
      flyingsquid completion fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"This version of click does not support {shell}.")
    made = kind(ctx.find_root().command, {}, "flyingsquid", "_FLYINGSQUID_COMPLETE")
    # Not made.source(), which starts the shell to get its version.
    click.echo(made.source_template % made.source_vars())
