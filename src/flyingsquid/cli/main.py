"""The ``flyingsquid`` command."""

from __future__ import annotations

from typing import Any

import click

from flyingsquid._version import __version__
from flyingsquid.cli.demo import demo
from flyingsquid.cli.reproduce import reproduce
from flyingsquid.cli.stream import stream
from flyingsquid.exceptions import FlyingSquidError


class _Group(click.Group):
    """A known error is one line and exit code 1, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except FlyingSquidError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="flyingsquid")
def main() -> None:
    """Turn noisy votes into training labels, in closed form."""


main.add_command(demo)
main.add_command(stream)
main.add_command(reproduce)
