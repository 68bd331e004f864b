"""How files of votes are read: the options that every command shares, and what fits into memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flyingsquid._values import told
from flyingsquid.exceptions import OptionError

if TYPE_CHECKING:
    from flyingsquid.formats import VoteChunk, VoteFile

FORMATS = ("csv", "tsv", "jsonl", "json", "npy", "npz", "parquet", "arrow", "wrench")
FILE = click.Path(dir_okay=False)
VOTES = click.Path(exists=True, allow_dash=True)
# Up to here a file is read whole, beyond it in chunks; what needs all votes at once is refused at the end.
WHOLE_CELLS, MOST_CELLS = 1 << 24, 1 << 28
# What was read of a columnar file is kept up to here, so that it need not be decoded again.
_KEPT_BYTES = 1 << 28
Command = TypeVar("Command", bound=Callable[..., Any])


def read_list(_ctx: click.Context, _param: click.Parameter, value: str | None) -> list[str] | None:
    """Names with commas between them; one that holds a comma stands in double quotes."""
    if value is None:
        return None
    parts = next(csv.reader([value], skipinitialspace=True), [])
    if not parts or not all(part.strip() for part in parts):
        raise click.BadParameter(f"{told(value)} has an empty part")
    return [part.strip() for part in parts]


def _read_triple(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    parts = read_list(ctx, param, value)
    if parts is not None and len(parts) != 3:
        raise click.BadParameter(f"{told(value)}; three columns are needed, as in --long item,source,label")
    return None if parts is None else tuple(parts)


# fmt: off
_OPTIONS = [
    click.option("--format", "format_", type=click.Choice(FORMATS), metavar="NAME",
                 help=f"Format of VOTES: {', '.join(FORMATS)}. Default: by name and content."),
    click.option("--long", callback=_read_triple, metavar="ITEM,SOURCE,LABEL",
                 help="One row a vote: the three columns that hold it."),
    click.option("--wide", is_flag=True, help="One row an item, whatever the columns are called."),
    click.option("--item", metavar="COLUMN",
                 help="The column of item identifiers. Default: found by its name."),
    click.option("--no-item", is_flag=True, help="No column identifies the items."),
    click.option("--sources", callback=read_list, metavar="A,B,...",
                 help="The columns of votes. Default: all others."),
    click.option("--ignore", callback=read_list, metavar="A,B,...", help="Columns to leave out."),
    click.option("--classes", callback=read_list, metavar="A,B,...",
                 help="All classes, in order. Default: those that occur."),
    click.option("--abstain", multiple=True, metavar="VALUE",
                 help="A value that means 'no vote', beside blank, NA and null. May be repeated."),
    click.option("--signed", is_flag=True, help="-1 and 1 are the classes, and 0 means 'no vote'."),
    click.option("--duplicates", type=click.Choice(["error", "first", "last", "majority"]), default="error",
                 show_default=True, help="In long form, what to do when a source votes twice on an item."),
    click.option("--header/--no-header", default=None, help="Whether the first line of a csv holds names."),
    click.option("--part", metavar="NAME", help="Which array of an npz, or which split of a WRENCH folder."),
]
# fmt: on
NAMES = (
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
    """Give a command the options that say how votes are read."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def open_file(votes: str, options: dict[str, Any], *, gold: str | None = None) -> VoteFile:
    """Open the file that a user named, as the options say."""
    from flyingsquid.formats import open_votes

    if options["no_item"] and options["item"]:
        raise click.UsageError("--item and --no-item exclude each other.")
    if options["wide"] and options["long"]:
        raise click.UsageError("--wide and --long exclude each other.")
    return open_votes(
        votes,
        format=options["format_"],
        form="wide" if options["wide"] else None,
        item=False if options["no_item"] else options["item"],
        sources=options["sources"],
        ignore=options["ignore"] or (),
        gold=gold,
        long=options["long"],
        header=options["header"],
        part=options["part"],
        abstain=list(options["abstain"]),
        signed=options["signed"],
        classes=options["classes"],
        duplicates=options["duplicates"],
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """A file of votes, whole in memory where that is small, otherwise in chunks.

    Attributes
    ----------
    file : VoteFile
    whole : VoteChunk, or None where the file is read in chunks
    """

    file: VoteFile
    whole: VoteChunk | None
    kept: list[VoteChunk] = field(default_factory=list)

    @classmethod
    def of(cls, file: VoteFile, *, needed_by: str = "") -> Reading:
        """Read a file whole if it is small, or if ``needed_by`` names an option that needs that.

        Raises
        ------
        OptionError
            If that option needs all votes at once, and they are too many.
        """
        cells = file.n_items * file.n_sources
        # Of the long form only votes are kept, and they are in memory anyway.
        if file.form == "long" or cells <= WHOLE_CELLS or (needed_by and cells <= MOST_CELLS):
            return cls(file, file.read())
        if needed_by:
            raise OptionError(
                f"{file.path}: {needed_by} needs all votes in memory, and {file.n_items:,} items of "
                f"{file.n_sources:,} sources are too many (at most {MOST_CELLS:,} cells); leave it out, or "
                "take a part of the file"
            )
        return cls(file, None)

    def chunks(self, multiple: int = 1) -> Iterator[VoteChunk]:
        """All items, some at a time; of votes in memory a ``multiple`` of so many, except at the end."""
        if self.whole is None:
            yield from self._again() if self.file.format in ("parquet", "arrow") else self.file
            return
        from flyingsquid.formats import VoteChunk

        votes, ids, gold = self.whole.votes, self.whole.ids, self.whole.gold_codes
        # Labels of very many classes take more room than the votes.
        rows = max(1, min(self.file.chunk_rows, (1 << 22) // len(self.file.classes)))
        rows = -(-rows // multiple) * multiple
        if rows >= votes.n_items:
            yield self.whole
            return
        for start in range(0, votes.n_items, rows):
            part = slice(start, start + rows)
            yield VoteChunk(votes[part], ids[part], None if gold is None else gold[part])

    def _again(self) -> Iterator[VoteChunk]:
        """The chunks of a columnar file, kept as they pass if all of them fit."""
        if self.kept:
            yield from self.kept
            return
        passing: list[VoteChunk] = []
        room = _KEPT_BYTES
        for chunk in self.file:
            room -= chunk.ids.nbytes + _size(chunk.votes.codes)
            passing = [*passing, chunk] if room >= 0 else []
            yield chunk
        self.kept.extend(passing)

    def spread(self, most: int) -> tuple[VoteChunk, int]:
        """At most ``most`` items in one chunk: every item, or every second, third, ...; and which of these.

        Of very many sources they are fewer, so that memory has room for them.
        """
        from flyingsquid.formats.opening import VoteChunk, join_chunks

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


def _size(codes: Any) -> int:
    return int(codes.nbytes if hasattr(codes, "nbytes") else codes.data.nbytes)
