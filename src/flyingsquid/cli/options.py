"""Options shared by several commands, and checks of their outputs."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flyingsquid._values import format_value
from flyingsquid.exceptions import GraphError, Hint, VoteFileError
from flyingsquid.files import FORMATS, VoteFile, format_of_name, open_votes
from flyingsquid.graph import DependencyGraph

FILE = click.Path(dir_okay=False)
VOTES = click.Path(exists=True, allow_dash=True)
Command = TypeVar("Command", bound=Callable[..., Any])
if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    _Choice = click.Choice  # generic from click 8.2 on


# ---------------------------------------------------------------------- reading votes


def read_list(value: str) -> list[str]:
    """Parse names separated by commas; a name with a comma is in double quotes."""
    parts = next(csv.reader([value], skipinitialspace=True), [])
    if not parts or not all(part.strip() for part in parts):
        raise click.BadParameter(f"names must not be blank; got {format_value(value)}.")
    return [part.strip() for part in parts]


def read_fields(value: str) -> dict[str, str]:
    """Parse pairs ``field=column`` separated by commas."""
    pairs = [part.partition("=") for part in read_list(value)]
    if not all(mark and field.strip() and column.strip() for field, mark, column in pairs):
        raise click.BadParameter(
            f"must be pairs such as judge=rater,order=position; got {format_value(value)}."
        )
    return {field.strip(): column.strip() for field, _, column in pairs}


# fmt: off
_READING_OPTIONS = [
    click.option("--format", "format_", type=click.Choice(FORMATS), metavar="NAME",
                 help=f"Format of VOTES: {', '.join(FORMATS)}. Default: by name and content."),
    click.option("--long", type=read_list, metavar="ITEM,SOURCE,LABEL",
                 help="One row per vote: the columns of items, sources and labels."),
    click.option("--panel", type=read_fields, metavar="FIELD=COLUMN,...",
                 help="A panel of judges, one row per answer: the columns of the fields judge, model, "
                      "prompt, order and repeat. Default: columns of these names."),
    click.option("--wide", is_flag=True, help="One row per item, whatever the names of the columns."),
    click.option("--item", metavar="COLUMN",
                 help="The column of item identifiers. Default: by name and values."),
    click.option("--no-item", is_flag=True, help="No column identifies the items."),
    click.option("--sources", type=read_list, metavar="A,B,...",
                 help="The columns of votes. Default: all others."),
    click.option("--ignore", type=read_list, metavar="A,B,...", help="Columns to leave out."),
    click.option("--classes", type=read_list, metavar="A,B,...",
                 help="All classes, in order. Default: those that occur."),
    click.option("--abstain", multiple=True, metavar="VALUE",
                 help="A value that means 'no vote', in addition to blank, NA and null. May be repeated."),
    click.option("--signed", is_flag=True, help="-1 and 1 are the classes, and 0 means 'no vote'."),
    click.option("--normalize", is_flag=True,
                 help="Read labels that differ only in case or spaces as one, in lower case."),
    click.option("--duplicates", type=click.Choice(["error", "first", "last", "majority"]), default="error",
                 show_default=True, help="In long form, what to do if a source votes twice on an item."),
    click.option("--header/--no-header", default=None,
                 help="Whether the first line of a csv contains names."),
    click.option("--part", metavar="NAME",
                 help="The array of an npz, the split of a directory, or the question of an export."),
    click.option("--max-decoded-bytes", type=click.IntRange(1, 1 << 62), default=1 << 28, show_default=True,
                 help="Largest size in bytes of a page of parquet, a batch of arrow or a JSON document."),
]
# fmt: on
def reading_options(command: Command) -> Command:
    """Add the options of reading votes to a command."""
    for option in reversed(_READING_OPTIONS):
        command = option(command)
    return command


def gold_file(options: dict[str, Any]) -> str | None:
    """Return the path if ``--gold`` names a file, None if it names a column."""
    gold: str | None = options.get("gold")
    if gold is None or os.path.isfile(gold):
        return gold
    if format_of_name(gold) is not None:
        raise click.BadParameter(f"File {format_value(gold)} does not exist.", param_hint="--gold")
    return None


def open_file(votes: str, options: dict[str, Any], *, model: Any = None) -> VoteFile:
    """Open a file of votes with the options of a command; a fitted model determines the classes."""
    if options["no_item"] and options["item"]:
        raise click.UsageError("--item and --no-item cannot be used together.")
    for name in ("long", "panel"):
        if options["wide"] and options[name]:
            raise click.UsageError(f"--wide and --{name} cannot be used together.")
    classes, signed = options["classes"], options["signed"]
    if model is not None and classes is None:
        classes = list(model.vote_schema_.classes)
        if classes == [-1, 1]:
            classes, signed = None, True
    return open_votes(
        votes,
        format=options["format_"],
        form="wide" if options["wide"] else None,
        item=False if options["no_item"] else options["item"],
        sources=options["sources"],
        ignore=options["ignore"] or (),
        gold=None if gold_file(options) else options["gold"],
        long=options["long"],
        header=options["header"],
        part=options["part"],
        abstain=list(options["abstain"]),
        signed=signed,
        classes=classes,
        normalize=options["normalize"],
        duplicates=options["duplicates"],
        max_decoded_bytes=options["max_decoded_bytes"],
        panel=options["panel"],
    )


def check_outputs(
    inputs: list[str | None], outputs: dict[str, str | None], *, overwrite: bool, directories: bool = False
) -> None:
    """Raise an error before the work starts if a file could not be written at its end.

    ``outputs`` are paths by the option that names them; with ``directories``, they may be directories.
    """
    read = {_identify(path) for path in inputs if path is not None}
    written: dict[Any, str] = {}
    for option, path in outputs.items():
        if path is None or path == "-":
            continue
        if not path:
            raise click.UsageError(f"{option} must be the path of a file; got ''.")
        target = _identify(path)
        if target in written:
            raise click.UsageError(f"{option} and {written[target]} must be different files; got {path}.")
        if target in read:
            raise click.UsageError(f"{option} must not be a file that is read; got {path}.")
        written[target] = option
        parent = os.path.dirname(os.path.realpath(path))
        if os.path.isdir(path):
            if not directories:
                raise VoteFileError("The path is a directory; pass the path of a file.", path=path)
        elif not os.path.isdir(parent):
            raise VoteFileError(f"The directory {parent} does not exist.", path=path)
        elif os.path.isfile(path) and not overwrite:
            raise VoteFileError("File exists.", path=path, hints=[Hint("overwrite", "to replace it", True)])
        elif not os.path.exists(path) and not os.access(parent, os.W_OK):
            raise VoteFileError("Permission denied.", path=path)


def _identify(path: str) -> Any:
    """Return a value that is equal for all names of a file, including hard links; ``-`` is standard input."""
    try:
        found = os.fstat(0) if path == "-" else os.stat(path)
    except OSError:
        return os.path.realpath(path)
    is_file = stat.S_ISREG(found.st_mode)  # a terminal may be read and written
    return (found.st_dev, found.st_ino) if is_file else os.path.realpath(path)


# ---------------------------------------------------------------------- fitting


class MethodName(_Choice):
    """Name of a method of ``LabelModel``. The names are imported late, because it takes half a second."""

    def __init__(self) -> None:
        self.case_sensitive = True

    @property
    def choices(self) -> tuple[str, ...]:  # type: ignore[override]  # click assigns it in __init__
        """All names."""
        from flyingsquid.solvers import solver_names

        return solver_names()


# fmt: off
method_option = click.option(
    "--method", type=MethodName(), default="auto", show_default=True, metavar="NAME",
    help="Method of LabelModel, such as auto, weighted, triplet or em. An unknown name prints the list.",
)
layout_option = click.option(
    "--layout", metavar="PATTERN",
    help="Names of the sources of a panel of judges, such as '{judge}|{order}' or '{judge}@{repeat}': "
         "answers of one judge are combined.",
)
model_option = click.option(
    "--with-model", type=click.Path(exists=True, dir_okay=False), metavar="FILE.fsq",
    help="A saved model to use. Default: fit one to the votes.",
)
# fmt: on


def read_graph(value: str) -> str | int | DependencyGraph:
    """Parse ``learn``, the length D of ``chain:D``, or a file that ``DependencyGraph.to_json`` wrote."""
    if value == "learn":
        return value
    kind, _, length = value.partition(":")
    if kind == "chain" and length.isascii() and length.isdigit() and len(length) <= 6:
        if int(length) < 2:
            raise click.BadParameter(f"the length of a chain must be an integer >= 2; got {length}.")
        return int(length)
    if not os.path.isfile(value):
        raise click.BadParameter(
            f"must be 'learn', a chain such as chain:6, or a file; got {format_value(value)}."
        )
    try:
        with open(value, encoding="utf-8") as file:
            return DependencyGraph.from_json(file.read())
    except (UnicodeDecodeError, GraphError) as error:
        reason = error if isinstance(error, GraphError) else "The file is not UTF-8."
        raise click.BadParameter(f"{value}: {reason} Write it with DependencyGraph.to_json.") from error


def read_balance(value: str) -> Any:
    """Parse ``estimate``, ``uniform``, numbers in the order of the classes, or ``class=number``."""
    if value in ("estimate", "uniform"):
        return value
    parts = [part.strip() for part in value.split(",")]
    named = [part.rpartition("=") for part in parts]
    try:
        if all(mark for _, mark, _ in named):
            return {name.strip(): float(number) for name, _, number in named}
        return [float(part) for part in parts]
    except ValueError:
        raise click.BadParameter(
            "must be 'estimate', 'uniform', or probabilities such as 0.7,0.3 or ham=0.7,spam=0.3; got "
            f"{format_value(value)}."
        ) from None


def clip_length_of(graph: Any) -> int:
    """Return the number of consecutive rows that a graph from :func:`read_graph` covers."""
    return graph if isinstance(graph, int) else getattr(graph, "n_tasks", 1)
