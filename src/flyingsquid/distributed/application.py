"""Labeling functions on a cluster: a frame of records becomes a frame of votes, where it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flyingsquid._registry import reader_of
from flyingsquid._values import told
from flyingsquid.distributed.labels import kind_of, require_free
from flyingsquid.exceptions import LabelingError, OptionError
from flyingsquid.labeling.chunks import OnError, check_on_error, label_chunk, read_classes
from flyingsquid.labeling.functions import LabelingFunction, read_functions
from flyingsquid.votes import ABSTAIN
from flyingsquid.votes.codes import Label


@dataclass(frozen=True, slots=True)
class Application:
    """Votes by labeling functions; ``columns``, ``keep`` and ``kinds`` as ``labels.Work`` has them."""

    functions: tuple[LabelingFunction, ...]
    on_error: OnError
    classes: tuple[Label, ...] | None
    columns: tuple[Any, ...] | None
    keep: tuple[Any, ...]
    kinds: dict[str, str]

    def as_columns(self, chunk: Any) -> dict[str, NDArray[Any]]:
        """Votes on a chunk of n records, (n,) each: -1 for no vote, None among texts and booleans."""
        said = label_chunk(self.functions, chunk, on_error=self.on_error)
        if self.classes is None:
            for name, column in said.columns.items():
                if column.kind not in (None, "int"):
                    raise LabelingError(
                        f"function {told(name)} returned {told(column.values[0])}; on a cluster classes that "
                        "are no numbers are declared, by classes="
                    )
        said.infer_classes(self.classes)  # refuses a vote outside of them
        missing, kind = (ABSTAIN, np.int64) if "int64" in self.kinds.values() else (None, object)
        # No vote has a negative number, which looks itself up from the end of the table.
        return {
            name: np.array([*column.values, *[missing] * 4], kind)[column.index]
            for name, column in said.columns.items()
        }


def apply(
    lfs: Iterable[Any],
    frame: Any,
    *,
    classes: Sequence[Label] | None = None,
    on_error: OnError = "raise",
    keep: Sequence[Any] = (),
) -> Any:
    """Ask every labeling function about every row of a Dask or Spark dataframe. Nothing is computed yet.

    Parameters
    ----------
    lfs : list of m labeling functions
        They and their resources go to every worker once. A vectorised one gets a part of the frame at a time:
        a pandas table from Dask, a pyarrow table from Spark.
    frame : Dask or Spark dataframe
    classes : sequence of K labels
        Needed where functions return texts or booleans: a column has a type before any function was asked.
    on_error : "raise" or "abstain"
        Whether the job fails where a function does, or the vote is missing.
    keep : sequence of column names
        Columns that stand before the votes, such as identifiers.

    Returns
    -------
    dataframe of the same engine
        The kept columns, then one column a function: its votes, with -1 for no vote among numbers, null among
        texts and booleans.
    """
    home = reader_of(frame)
    parts = None if home is None else import_module(home).parts_of(frame)
    if parts is None or parts.columns is None:
        raise OptionError(
            f"labeling functions are applied to Dask and Spark dataframes, not to {type(frame).__name__}; "
            "fs.apply takes tables and lists in memory"
        )
    functions, known = read_functions(lfs), read_classes(classes)
    check_on_error(on_error)
    absent = [name for name in keep if name not in parts.columns]
    if absent:
        raise OptionError(
            f"keep= names {told(absent[0])}; the frame has {', '.join(map(str, parts.columns))}"
        )
    kind = "int64" if known is None else kind_of(known)
    kinds = {function.name: kind for function in functions}
    require_free(kinds, tuple(keep))
    return parts.transform(Application(functions, on_error, known, None, tuple(keep), kinds))
