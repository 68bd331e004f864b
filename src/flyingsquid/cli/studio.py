"""``flyingsquid studio``: rules and labels in the browser."""

from __future__ import annotations

import importlib.util
import os
import secrets
import webbrowser
from pathlib import Path
from typing import Any

import click

from flyingsquid._values import format_count
from flyingsquid.cli.options import FILE, check_outputs, read_list
from flyingsquid.exceptions import OptionError
from flyingsquid.files.outputs import locked


# fmt: off
@click.command()
@click.argument("data", type=click.Path(exists=True))
@click.option("--project", type=FILE, metavar="FILE.json",
              help="The project file. Default: DATA with the ending .studio.json.")
@click.option("--text", metavar="COLUMN",
              help="The text column. Default: text, or the column with the longest values.")
@click.option("--id", "id_column", metavar="COLUMN", help="The column of item identifiers.")
@click.option("--classes", type=read_list, metavar="A,B,...", help="Classes of a new project.")
@click.option("--features", type=click.Path(exists=True, dir_okay=False), metavar="FILE.npy",
              help="Embeddings, one row per item, for rules by similarity.")
@click.option("--functions", type=click.Path(exists=True, dir_okay=False), metavar="FILE.py",
              help="Python file of labeling functions. It is executed at the start and whenever it changes.")
@click.option("--port", type=click.IntRange(1, 65535), help="Port on 127.0.0.1. Default: any free one.")
@click.option("--open", "open_page", is_flag=True, help="Open the page in the browser.")
def studio(data: str, port: int | None, **options: Any) -> None:
    """Write rules in the browser and see the labels change as you type.

    DATA has one row per item: csv, tsv, JSON lines, parquet, arrow, or a text file with one item per line.
    The page is available on this computer only, at the printed address. Every change is saved in the project
    file.

    \b
    Examples:
      flyingsquid studio comments.csv --classes ham,spam --open
      flyingsquid studio reviews.parquet --features embeddings.npy
      flyingsquid studio comments.csv --functions rules.py
    """
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise click.ClickException(f"The studio requires {package}: pip install 'flyingsquid[studio]'.")
    # The matrices are small: with threads of BLAS, a fit of 10,000 items takes four times the CPU time.
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    import numpy as np

    from flyingsquid.studio.columns import read_items
    from flyingsquid.studio.project import Project
    from flyingsquid.studio.server import Broadcast, bind, create_app, serve
    from flyingsquid.studio.workspace import Workspace

    features = options["features"]
    try:
        loaded = None if features is None else np.load(features, allow_pickle=False)
    except ValueError as error:
        raise OptionError("--features must be an array of numbers in a .npy file.") from error
    items = read_items(data, text=options["text"], id=options["id_column"], features=loaded)
    path = Path(options["project"] or Path(data).with_suffix(".studio.json"))
    check_outputs([data], {"--project": str(path)}, overwrite=True)
    # Two studios would overwrite each other's changes.
    lock = locked(os.path.realpath(path), "Another studio uses this project.")
    click.get_current_context().with_resource(lock)
    project = Project.open(path, len(items), items.name)
    if not project.actions and options["classes"]:
        project.act({"type": "set_classes", "classes": options["classes"]}, save=False)
        project.start = 1
    broadcast = Broadcast()
    listening = bind(port)
    chosen, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    url = f"http://127.0.0.1:{chosen}/?token={token}"

    def announce() -> None:
        click.echo(f"{items.name}: {format_count(len(items), 'item')}; project {path}")
        click.echo(f"Open {url}")
        click.echo("Press Ctrl-C to stop.")
        if options["open_page"]:
            webbrowser.open(url)

    with listening, Workspace(items, project, functions=options["functions"], on_event=broadcast.send,
                              features_name=None if features is None else Path(features).name) as workspace:
        serve(create_app(workspace, broadcast, token=token, port=chosen), listening, broadcast, announce)
    click.echo("Stopped.")
# fmt: on
