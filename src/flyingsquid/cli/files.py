"""Files that commands read and write: shared options, checks, and votes in memory or in chunks."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from flyingsquid._values import told
from flyingsquid.exceptions import Hint, OptionError, VoteFileError
from flyingsquid.files import FORMATS, VoteChunk, VoteFile, open_votes
from flyingsquid.files.vote_files import join_chunks

FILE = click.Path(dir_okay=False)
VOTES = click.Path(exists=True, allow_dash=True)
# A file of at most so many cells is read whole, otherwise in chunks.
WHOLE_CELLS = 1 << 24
# Work that needs all votes in memory is refused for more cells.
MOST_CELLS = 1 << 28
# Chunks of a columnar file are kept up to this size, so that they are decoded only once.
_KEPT_BYTES = 1 << 28
Command = TypeVar("Command", bound=Callable[..., Any])


def read_list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    """Parse names separated by commas; a name with a comma is in double quotes."""
    if value is None:
        return None
    parts = next(csv.reader([value], skipinitialspace=True), [])
    if not parts or not all(part.strip() for part in parts):
        raise click.BadParameter(f"names must not be blank; got {told(value)}.")
    return [part.strip() for part in parts]


# fmt: off
_OPTIONS = [
    click.option("--format", "format_", type=click.Choice(FORMATS), metavar="NAME",
                 help=f"Format of VOTES: {', '.join(FORMATS)}. Default: by name and content."),
    click.option("--long", callback=read_list, metavar="ITEM,SOURCE,LABEL",
                 help="One row per vote: the columns of items, sources and labels."),
    click.option("--wide", is_flag=True, help="One row per item, whatever the names of the columns."),
    click.option("--item", metavar="COLUMN",
                 help="The column of item identifiers. Default: by name and values."),
    click.option("--no-item", is_flag=True, help="No column identifies the items."),
    click.option("--sources", callback=read_list, metavar="A,B,...",
                 help="The columns of votes. Default: all others."),
    click.option("--ignore", callback=read_list, metavar="A,B,...", help="Columns to leave out."),
    click.option("--classes", callback=read_list, metavar="A,B,...",
                 help="All classes, in order. Default: those that occur."),
    click.option("--abstain", multiple=True, metavar="VALUE",
                 help="A value that means 'no vote', in addition to blank, NA and null. May be repeated."),
    click.option("--signed", is_flag=True, help="-1 and 1 are the classes, and 0 means 'no vote'."),
    click.option("--duplicates", type=click.Choice(["error", "first", "last", "majority"]), default="error",
                 show_default=True, help="In long form, what to do if a source votes twice on an item."),
    click.option("--header/--no-header", default=None,
    help="Whether the first line of a csv contains names."), click.option("--part", metavar="NAME",
    help="The array of an npz, or the split of a WRENCH directory."),
]
# fmt: on
# Names of the options above.
READING_OPTIONS = (
    "format_",
    "long",
    "wide",
    "item",
    "no_item",
    "sources",
    "ignore",
    "classes",
    "abstain",
    "signed",
    "duplicates",
    "header",
    "part",
)  # fmt: skip


def reading_options(command: Command) -> Command:
    """Add the options of reading votes to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def open_file(votes: str, options: dict[str, Any], *, model: Any = None) -> VoteFile:
    """Open a file of votes as the options say; a fitted model knows the classes."""
    if options["no_item"] and options["item"]:
        raise click.UsageError("--item and --no-item exclude each other.")
    if options["wide"] and options["long"]:
        raise click.UsageError("--wide and --long exclude each other.")
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
        gold=options["gold"],
        long=options["long"],
        header=options["header"],
        part=options["part"],
        abstain=list(options["abstain"]),
        signed=signed,
        classes=classes,
        duplicates=options["duplicates"],
    )


def check_outputs(
    inputs: list[str | None], outputs: dict[str, str | None], *, overwrite: bool, directories: bool = False
) -> None:
    """Raise an error before the work starts if a file could not be written at its end.

    Parameters
    ----------
    inputs : list of paths
        Files that are read; None and "-" are not files.
    outputs : dict of paths by the option that names them
    overwrite : bool
        Whether existing files are replaced.
    directories : bool
        Whether an output may be a directory.
    """
    read = {os.path.realpath(path) for path in inputs if path not in (None, "-")}
    written: dict[str, str] = {}
    for option, path in outputs.items():
        if path is None or path == "-":
            continue
        target = os.path.realpath(path)
        if target in written:
            raise click.UsageError(f"{option} and {written[target]} must be different files; got {path}.")
        if target in read:
            raise click.UsageError(f"{option} must not be a file that is read; got {path}.")
        written[target] = option
        parent = os.path.dirname(target)
        if os.path.isdir(path):
            if not directories:
                raise VoteFileError("Is a directory; name a file in it.", path=path)
        elif not os.path.isdir(parent):
            raise VoteFileError(f"There is no directory {parent}.", path=path)
        elif os.path.isfile(path) and not overwrite:
            raise VoteFileError("File exists.", path=path, hints=[Hint("overwrite", "to replace it", True)])
        elif not os.path.exists(path) and not os.access(parent, os.W_OK):
            raise VoteFileError("Permission denied.", path=path)


@dataclass(frozen=True, slots=True)
class LoadedVotes:
    """Votes of a file: in memory if they are small, otherwise read in chunks.

    Attributes
    ----------
    file : VoteFile
    whole : VoteChunk, or None if the file is read in chunks
    """

    file: VoteFile
    whole: VoteChunk | None
    _kept: list[VoteChunk] = field(default_factory=list)

    @classmethod
    def load(cls, file: VoteFile, *, needed_by: str = "") -> LoadedVotes:
        """Read a small file whole, and also a larger one if ``needed_by`` names work that needs that.

        Raises
        ------
        OptionError
            If the work needs all votes in memory, and they are too many.
        """
        cells = file.n_items * file.n_sources
        # Votes in long form are in memory already, without the cells that abstain.
        if file.form == "long" or cells <= WHOLE_CELLS or (needed_by and cells <= MOST_CELLS):
            return cls(file, file.read())
        if needed_by:
            raise OptionError(
                f"{needed_by} needs all votes in memory, and {file.n_items:,} items x {file.n_sources:,} "
                f"sources are too many (at most {MOST_CELLS:,} cells). Use a part of the file.",
                path=file.path,
            )
        return cls(file, None)

    def chunks(self, multiple: int = 1) -> Iterator[VoteChunk]:
        """Yield all items in chunks; the size of chunks of votes in memory is a multiple of ``multiple``."""
        if self.whole is None:
            yield from self._columnar_chunks() if self.file.format in ("parquet", "arrow") else self.file
            return
        votes, ids, gold = self.whole.votes, self.whole.ids, self.whole.gold_codes
        # Probabilities of very many classes take more memory than the votes.
        rows = max(1, min(self.file.chunk_rows, (1 << 22) // len(self.file.classes)))
        rows = -(-rows // multiple) * multiple
        if rows >= votes.n_items:
            yield self.whole
            return
        for start in range(0, votes.n_items, rows):
            part = slice(start, start + rows)
            yield VoteChunk(votes[part], ids[part], None if gold is None else gold[part])

    def _columnar_chunks(self) -> Iterator[VoteChunk]:
        """Yield the chunks of a columnar file, and keep them if all of them fit into memory."""
        if self._kept:
            yield from self._kept
            return
        passing: list[VoteChunk] = []
        room = _KEPT_BYTES
        for chunk in self.file:
            codes: Any = chunk.votes.codes
            room -= chunk.ids.nbytes + int(codes.nbytes if hasattr(codes, "nbytes") else codes.data.nbytes)
            passing = [*passing, chunk] if room >= 0 else []
            yield chunk
        self._kept.extend(passing)

    def sample(self, most: int) -> tuple[VoteChunk, int]:
        """Return about ``most`` items in one chunk, every ``step``-th of the file, and the step.

        Of very many sources the items are fewer, so that they fit into memory.
        """
        if self.whole is None:
            most = max(1, min(most, MOST_CELLS // self.file.n_sources))
        step = -(-self.file.n_items // most)
        if step <= 1:
            return (self.file.read() if self.whole is None else self.whole), 1
        kept, start = [], 0
        for chunk in self.chunks():
            at = slice(-start % step, None, step)
            gold = None if chunk.gold_codes is None else chunk.gold_codes[at]
            if chunk.votes[at].n_items:
                kept.append(VoteChunk(chunk.votes[at], chunk.ids[at], gold))
            start += chunk.votes.n_items
        return join_chunks(kept), step
