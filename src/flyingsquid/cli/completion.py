"""``flyingsquid completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands and options in your shell.

    \b
    Put its output where your shell looks for it:
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
        raise click.ClickException(f"{shell} is a shell that this version of click does not know")
    made = kind(ctx.find_root().command, {}, "flyingsquid", "_FLYINGSQUID_COMPLETE")
    # Not made.source(): it asks the shell of this machine for its version first.
    click.echo(made.source_template % made.source_vars())
