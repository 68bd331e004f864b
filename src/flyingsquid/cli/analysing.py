"""The work of ``flyingsquid analyze``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flyingsquid.analysis import Comparison, Table, agreement, in_words, summarize
from flyingsquid.analysis.comparison import compare_with_majority
from flyingsquid.cli.console import Voice
from flyingsquid.cli.labelling import compared, understood
from flyingsquid.cli.reading import Reading
from flyingsquid.cli.reporting import MOST_ITEMS
from flyingsquid.estimation.copies import MOST_SOURCES
from flyingsquid.exceptions import OptionError
from flyingsquid.formats import VoteFile
from flyingsquid.models.labelling import clip_length


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found about a file.

    Attributes
    ----------
    sources : one row a source
    pairs : pairs that agree; None for very many sources
    words : sentences
    comparison : beside majority vote; None without a model
    part : how many items were looked at, if not all
    """

    file: VoteFile
    sources: Table
    pairs: Table | None
    words: list[str]
    comparison: Comparison | None
    part: int | None

    def plain(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {
            "votes": understood(self.file),
            "looked_at": self.part or self.file.n_items,
            "sources": self.sources.to_dict(),
            "pairs": None if self.pairs is None else self.pairs.to_dict(),
            "words": self.words,
            "comparison": None if self.comparison is None else compared(self.comparison),
        }


def look_at(reading: Reading, model: Any, most_pairs: int) -> Looked:
    """Summarize the sources, and find what stands out."""
    if clip_length(model) > 1 or hasattr(model, "transition_"):
        raise OptionError("this model is about several rows at once; leave out --with-model to look at rows")
    chunk, step = reading.spread(MOST_ITEMS)
    votes, gold = chunk.votes, chunk.gold
    pairs = None
    if most_pairs and votes.n_sources <= MOST_SOURCES:
        pairs = agreement(votes, model=model).pairs(most_pairs)
    return Looked(
        file=reading.file,
        sources=summarize(votes, gold, model=model),
        pairs=pairs,
        words=in_words(votes, gold, model=model),
        comparison=None if model is None else compare_with_majority(model, votes, gold),
        part=None if step == 1 else votes.n_items,
    )


def show(found: Looked, voice: Voice) -> None:
    """Print it."""
    if found.part is not None:
        voice.note(f"looked at {found.part:,} items evenly spread over the file")
    voice.say()
    voice.table(found.sources)
    if found.pairs is not None and len(found.pairs):
        voice.say("\nPairs that agree most beyond chance:")
        voice.table(found.pairs)
    voice.say("\nWhat stands out:")
    for sentence in found.words:
        voice.say(f"- {sentence}")
    if found.comparison is not None and found.comparison.model is not None:
        voice.say()
        voice.table(replace(found.comparison.table(), footnotes=()))  # words say it already
