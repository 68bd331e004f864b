"""``flyingsquid reproduce``: the paper's tables and figures, measured again."""

from __future__ import annotations

import os
from pathlib import Path

import click

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="All tables and figures.")
@click.option("--list", "listed", is_flag=True, help="Show the names, and exit.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    metavar="FOLDER",
    help="Real votes: NAME/NAME.npz, or folders of WRENCH. Default: FLYINGSQUID_DATA.",
)
@click.option(
    "-o",
    "--output",
    type=_FOLDER,
    default=Path("reproduction"),
    show_default=True,
    metavar="FOLDER",
    help="Where pages, pictures and numbers go.",
)
@click.option(
    "--peers",
    metavar="PYTHON",
    help="Python of an environment with snorkel and hmmlearn. Default: FLYINGSQUID_PEERS.",
)
@click.option("--quick", is_flag=True, help="Small sizes, to see that everything runs.")
def reproduce(
    names: tuple[str, ...],
    everything: bool,
    listed: bool,
    data: Path | None,
    output: Path,
    peers: str | None,
    quick: bool,
) -> None:
    """Measure the paper's tables, figures and theorems again.

    Writes for each a page next to the paper's numbers, a picture (with matplotlib) and the numbers as json.
    Tables of real votes need these in a folder; without, it says what to download. --all takes some minutes.

    \b
    Examples:
      flyingsquid reproduce --list
      flyingsquid reproduce theorem-2 --quick
    """
    from flyingsquid.reproduce import Setting, choose, run
    from flyingsquid.reproduce.peers import find_interpreter
    from flyingsquid.reproduce.picture import can_draw
    from flyingsquid.reproduce.real_sets import advice

    if listed:
        for each in choose(names):
            click.echo(f"{each.name:<12} {each.title}" + (f"  [{', '.join(each.sets)}]" if each.sets else ""))
        return
    if not names and not everything:
        raise click.UsageError("name a table or figure, or say --all; --list shows their names")
    if data is None and os.environ.get("FLYINGSQUID_DATA"):
        data = Path(os.environ["FLYINGSQUID_DATA"])
    setting = Setting(data, find_interpreter(peers), quick)
    missing: dict[str, None] = {}
    for done in run(choose(() if everything else names), setting, output):
        missing.update(dict.fromkeys(done.missing))
        where = f"{output / done.artifact.name}.md" if done.outcome else "left out, no votes at hand"
        click.echo(f"{done.artifact.name:<12} {where}")
    if missing:
        click.echo(f"\nNot at hand, with --data or FLYINGSQUID_DATA:\n{advice(tuple(missing))}")
    if not can_draw():
        click.echo("\nNo pictures: they need matplotlib, pip install 'flyingsquid[plot]'")
