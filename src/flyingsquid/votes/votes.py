"""The vote matrix: one row per item, one column per source."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, issparse

from flyingsquid._values import format_count, format_list, format_value, is_one_of
from flyingsquid._warnings import warn_about_votes
from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.votes import decisions, frames, longform
from flyingsquid.votes.codes import (
    ABSTAIN,
    REASONS,
    Codes,
    Label,
    check_codes,
    n_votes_in,
    read_array,
    read_columns,
    read_names,
    read_rows,
    require_same,
    shown_names,
    smallest_dtype,
)
from flyingsquid.votes.conventions import find_misreadings
from flyingsquid.votes.encode import Convention, as_matrix, encode, in_column
from flyingsquid.votes.patterns import DistinctRows, distinct_codes
from flyingsquid.votes.scores import Bins, Thresholds, read_scores
from flyingsquid.votes.structure import SourceInfo, Structure, panel_sources, read_structure
from flyingsquid.votes.tallies import SourceTally, has_votes


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Votes:
    """Votes of m sources on n items.

    Build with the constructor for the format of the raw votes: :meth:`from_classes`, :meth:`from_signed`,
    :meth:`from_frame`, :meth:`from_long`, :meth:`from_sparse` or, for scores, :meth:`from_scores`.

    Attributes
    ----------
    codes : signed integers of shape (n, m), or a scipy sparse array
        Dense: 0..K-1 for a vote, -1 abstained, -2 refused, -3 unparseable, -4 failed, -5 not asked.
        Sparse: class + 1 for a vote, the same negative codes, no entry for an abstain.
    classes : tuple of K labels
        Code k stands for ``classes[k]``.
    names : tuple of m str, or None
        Source names; None if the sources have only positions.
    items : array of shape (n,), or None
        Item identifiers, from the long form, an identifier column or a pandas index.
    structure : Structure or None
        Which sources are answers of one judge, with one :class:`~flyingsquid.SourceInfo` per source; see
        :meth:`with_structure`.

    Examples
    --------
    >>> import numpy as np
    >>> votes = Votes.from_classes([["spam", None], ["ham", "ham"]], names=["links", "short"])
    >>> votes
    Votes(2 items x 2 sources, classes 'ham', 'spam', 75% voted, dense int8)
    >>> votes.codes
    array([[ 1, -1],
           [ 0,  0]], dtype=int8)
    """

    codes: Codes
    classes: tuple[Label, ...]
    names: tuple[str, ...] | None = None
    items: NDArray[Any] | None = None
    structure: Structure | None = None

    def __post_init__(self) -> None:
        if getattr(self.codes, "ndim", None) != 2 or not isinstance(self.classes, tuple):
            raise VotesError(
                "Votes must have `codes` of shape (n, m) and a tuple of `classes`. Use Votes.from_classes "
                "for raw votes."
            )
        n, m = self.codes.shape
        if m == 0:
            raise VotesError("`codes` must have at least one column, one per source.")
        if self.names is not None:
            read_names(self.names, m)
        if self.items is not None and len(self.items) != n:
            raise VotesError(
                f"`items` must have one identifier per item; got {len(self.items)} for "
                f"{format_count(n, 'item')}."
            )
        if self.structure is not None and len(self.structure) != m:
            raise VotesError(
                f"`structure` must have one entry per source, {m}; got {len(self.structure)}. Use "
                "Votes.with_structure."
            )
        check_codes(self.codes, len(self.classes))

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_classes(
        cls,
        labels: ArrayLike,
        abstain: Any = ABSTAIN,
        classes: Sequence[Label] | None = None,
        names: Iterable[str] | None = None,
        *,
        reasons: Mapping[Label, str] | None = None,
        normalize: bool = False,
    ) -> Votes:
        """Read a matrix of class labels, shape (n, m).

        Parameters
        ----------
        labels : integers, floats, strings, booleans or objects, shape (n, m)
            Integers 0..K-1 are classes. None, NaN and masked cells are missing votes. A pandas, polars or
            pyarrow table is read as by :meth:`from_frame`.
        abstain : value or list of values, default=-1
            Other values that mean "no vote".
        classes : sequence of K labels, optional
            Default: 0..max for integers, or 1..max if 0 does not occur; the sorted labels for strings.
        names : sequence of m str, optional
            Names of the sources.
        reasons : mapping, optional
            Values that mean a missing vote with a reason, such as
            ``{"N/A": "refused", "??": "unparseable"}``.
        normalize : bool, default=False
            Read strings that differ only in case or spaces as one label, in lower case.

        Warns
        -----
        VotesWarning
            If the votes favor another convention than the usual one: signed votes, 0 for no vote, similar
            labels, or a transposed matrix. Declaring ``classes`` or ``abstain`` turns the check off.

        Examples
        --------
        >>> Votes.from_classes([[1, 0, -1], [1, 1, 0]]).n_classes
        2
        >>> Votes.from_classes([["spam", "Spam "], ["HAM", None]], normalize=True).classes
        ('ham', 'spam')
        >>> judges = Votes.from_classes(
        ...     [["yes", "declined"], ["no", "yes"]], reasons={"declined": "refused"})
        >>> judges.missing_counts()["refused"]
        array([0, 1])
        """
        if issparse(labels):
            raise VotesError("`labels` must not be sparse; use Votes.from_sparse.")
        convention = Convention.read(abstain, classes, reasons, normalize=normalize)
        if not isinstance(labels, np.ndarray) and frames.is_table(labels):
            return cls._from_table(labels, None, None, convention, names, check=classes is None)
        return cls._from_matrix(labels, convention, names, check=classes is None)

    @classmethod
    def _from_codes(cls, array: NDArray[Any], classes: tuple[Label, ...] | None) -> Votes | None:
        """Return signed integers of shape (n, m) that are codes already: 0 to K - 1, and -1 for no vote.

        None if they have to be read as labels.
        """
        if not array.size:
            return None
        lowest, highest = int(array.min()), int(array.max())
        if classes is None:
            classes = (0, 1)
        elif any(type(label) is not int or label != k for k, label in enumerate(classes)):
            return None
        if lowest < ABSTAIN or highest >= len(classes):
            return None
        return cls._checked(array.astype(smallest_dtype(len(classes)), copy=False), classes, None)

    @classmethod
    def _from_matrix(
        cls, labels: Any, convention: Convention, names: Iterable[str] | None = None, *, check: bool
    ) -> Votes:
        array = as_matrix(labels)
        declared = None if names is None else read_names(names, array.shape[1])
        codes, found = encode(array, convention, in_column(declared))
        votes = cls._checked(codes, found, declared)
        if check:
            votes._warn_if_misread(standard=convention.has_standard_abstain)
        return votes

    @classmethod
    def _from_table(
        cls,
        frame: Any,
        columns: Sequence[str] | None,
        item: str | bool | None,
        convention: Convention,
        names: Iterable[str] | None = None,
        *,
        check: bool,
    ) -> Votes:
        codes, found, present, items = frames.read(frame, columns, item, convention)
        declared = present if names is None else read_names(names, len(present))
        votes = cls(codes, found, declared, items)
        if check:
            votes._warn_if_misread(standard=convention.has_standard_abstain)
        return votes

    def _warn_if_misread(self, *, standard: bool = True) -> None:
        """Warn if the votes favor another convention than the one they were read by.

        ``standard`` is True if -1 means no vote.
        """
        for misreading in find_misreadings(self.codes, self.classes, standard=standard):
            warn_about_votes(str(misreading))

    @classmethod
    def _checked(
        cls,
        codes: Codes,
        classes: tuple[Label, ...],
        names: tuple[str, ...] | None,
        items: NDArray[Any] | None = None,
        structure: Structure | None = None,
    ) -> Votes:
        """Return votes from parts that were checked before, without checking every code again."""
        votes = object.__new__(cls)
        for name, value in zip(cls.__slots__, (codes, classes, names, items, structure), strict=True):
            object.__setattr__(votes, name, value)
        return votes

    @classmethod
    def from_signed(cls, labels: ArrayLike, names: Iterable[str] | None = None) -> Votes:
        """Read votes in the convention of the paper, shape (n, m): -1 against, 0 for no vote, +1 for.

        A table is read as by :meth:`from_frame`.

        >>> Votes.from_signed([[1, 0, -1]]).codes
        array([[ 1, -1,  0]], dtype=int8)
        """
        return cls.from_classes(labels, abstain=0, classes=(-1, 1), names=names)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Sequence[str] | None = None,
        *,
        item: str | bool | None = None,
        abstain: Any = ABSTAIN,
        classes: Sequence[Label] | None = None,
        reasons: Mapping[Label, str] | None = None,
        normalize: bool = False,
    ) -> Votes:
        """Read a pandas, polars or pyarrow table with one column per source.

        Null, NaN and None are missing votes, and -1 in numeric columns.

        Parameters
        ----------
        frame : pandas, polars or pyarrow table
        columns : sequence of str, optional
            The columns of votes, in order. By default, all columns except for identifiers. Columns that look
            like gold labels or free text, and tables with one row per vote, then raise an error.
        item : str or False, optional
            The column of item identifiers; False if there is none. By default the names and values of the
            columns decide, then the index of a pandas table unless it only counts rows.
        abstain, classes, reasons, normalize : as in :meth:`from_classes`

        Raises
        ------
        VotesError
            If a column does not look like votes and ``columns`` is not given.

        Warns
        -----
        VotesWarning
            As in :meth:`from_classes`.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"id": [7, 8, 9], "links": [1, 0, None], "short": [1, None, 0]})
        >>> votes = Votes.from_frame(frame)
        >>> votes.names, votes.items.tolist()
        (('links', 'short'), [7, 8, 9])
        """
        convention = Convention.declared(classes, reasons, abstain=abstain, normalize=normalize)
        return cls._from_table(frame, columns, item, convention, check=classes is None)

    @classmethod
    def from_long(
        cls,
        items: Any,
        sources: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        duplicates: Literal["error", "first", "last", "majority"] = "error",
        *,
        item: str | None = None,
        source: str | None = None,
        label: str | None = None,
        abstain: Any = ABSTAIN,
        classes: Sequence[Label] | None = None,
        names: Iterable[Any] | None = None,
        reasons: Mapping[Label, str] | None = None,
        normalize: bool = False,
    ) -> Votes:
        """Read crowdsourcing triples (item, source, label), stored sparsely.

        Parameters
        ----------
        items, sources, labels : sequences of one length
            ``sources[t]`` votes ``labels[t]`` on ``items[t]``. Items and sources are sorted; see
            :attr:`items` and :attr:`names`. Or ``items`` is a pandas, polars or pyarrow table with one row
            per vote.
        duplicates : {"error", "first", "last", "majority"}, default="error"
            What to do if a source votes on an item more than once. ``"majority"`` takes the most frequent
            label, the earliest on a tie.
        item, source, label : str, optional
            The columns of a table. Default: columns with usual names, such as task, worker and label.
        names : sequence, optional
            All sources, in order, including those that do not vote here, such as the sources of a model that
            was fitted on other items.
        abstain, classes, reasons, normalize : as in :meth:`from_classes`

        Examples
        --------
        >>> votes = Votes.from_long(["a", "a", "b"], ["ann", "bob", "bob"], [1, 0, 1])
        >>> votes
        Votes(2 items x 2 sources, classes 0, 1, 75% voted, sparse)
        >>> votes.items.tolist(), votes.names
        (['a', 'b'], ('ann', 'bob'))
        >>> import pandas as pd
        >>> crowd = pd.DataFrame({"tweet": [3, 3, 4], "worker": ["ann", "bob", "bob"], "label": [1, 0, 1]})
        >>> Votes.from_long(crowd, item="tweet").shape
        (2, 2)
        """
        if frames.is_table(items):
            if sources is not None or labels is not None:
                raise VotesError(
                    "`sources` and `labels` must be None for a table; name its columns with `item`, `source` "
                    "and `label`."
                )
            items, sources, labels = frames.read_long(items, item, source, label)
        elif sources is None or labels is None:
            raise VotesError(
                f"`items` must be a table, or come with `sources` and `labels`; got {type(items).__name__}."
            )
        convention = Convention.declared(classes, reasons, abstain=abstain, normalize=normalize)
        declared = None if names is None else longform.declared_names(names)
        votes = cls(*longform.read(items, sources, labels, duplicates, convention, declared))
        if classes is None:
            votes._warn_if_misread(standard=convention.has_standard_abstain)
        return votes

    @classmethod
    def from_sparse(
        cls,
        matrix: Any,
        *,
        classes: Sequence[Label] | None = None,
        names: Iterable[str] | None = None,
    ) -> Votes:
        """Read a scipy sparse matrix: an entry is class + 1, no entry is a missing vote.

        >>> from scipy.sparse import csr_array
        >>> Votes.from_sparse(csr_array([[2, 0], [1, 1]])).to_dense().codes
        array([[ 1, -1],
               [ 0,  0]], dtype=int8)
        """
        longform.check_sparse(matrix)
        declared = read_names(names, matrix.shape[1])
        codes, found = longform.read_sparse(matrix, Convention.declared(classes), declared)
        return cls(codes, found, declared)

    @classmethod
    def from_scores(
        cls,
        scores: Any,
        thresholds: Thresholds | None = None,
        bins: Bins | None = None,
        *,
        classes: Sequence[Label] | None = None,
        names: Iterable[str] | None = None,
    ) -> Votes:
        """Read scores of judges or classifiers, by thresholds or bins; larger scores mean higher classes.

        If the truth is a number or a grade rather than one of several unrelated classes, use
        :class:`flyingsquid.ScoreModel`, which keeps the scores.

        Parameters
        ----------
        scores : numbers of shape (n, m), or a pandas, polars or pyarrow table
            None, NaN and masked cells are missing votes. Infinite scores are valid. Identifiers in a column
            of a table, or in the index of a pandas table, become :attr:`items`.
        thresholds : float, tuple, list or mapping, optional
            For two classes. A number t: class 1 from t on, class 0 below. A tuple (low, high): class 0 up to
            low, class 1 from high on, no vote in between. For judges on different scales, a list with one of
            these per source, or a mapping from names.
        bins : increasing edges, or a list or mapping with edges for each source, optional
            K - 1 edges between the classes 0..K-1; a score equal to an edge has the class above it, as in
            ``numpy.digitize``. :func:`flyingsquid.score_bins` returns edges that fill bins evenly; keep them
            for later scores.
        classes : sequence of K labels, lowest first, optional
            Default: 0..K-1.
        names : sequence of m str, optional
            Names of the sources of an array.

        Examples
        --------
        >>> ratings = [[0.9, 4], [0.5, None], [0.1, 1]]
        >>> Votes.from_scores(ratings, thresholds=[(0.3, 0.7), 3], classes=["bad", "good"]).codes
        array([[ 1,  1],
               [-1, -1],
               [ 0,  0]], dtype=int8)
        >>> Votes.from_scores([[1, 3, 5]], bins=[2, 4], classes=["bad", "ok", "good"]).codes
        array([[0, 1, 2]], dtype=int8)
        """
        return cls(*read_scores(scores, thresholds, bins, classes, names))

    @classmethod
    def from_panel(
        cls,
        answers: Any,
        judges: Sequence[str] | None = None,
        orders: Sequence[str] | None = None,
        *,
        item: str | None = None,
        label: str | None = None,
        abstain: Any = ABSTAIN,
        classes: Sequence[Label] | None = None,
        reasons: Mapping[Label, str] | None = None,
        normalize: bool = False,
    ) -> Votes:
        """Read the answers of judges that were asked in several orders or several times.

        Every call is a source; :attr:`structure` lists which calls are by one judge. Answers must name the
        class, never the position in which it was shown.

        Parameters
        ----------
        answers : table, or array of shape (n, judges, orders) or (n, judges, orders, repeats)
            Tables have one row per call, with a column ``judge`` (or ``model`` and ``prompt``), and columns
            ``order`` and ``repeat`` as far as there are several.
        judges, orders : sequences of names, optional
            Names along the axes of an array.
        item, label : str, optional
            The columns of items and answers of a table. Default: columns with usual names.
        abstain, classes, reasons, normalize : as in :meth:`from_classes`

        Examples
        --------
        >>> answers = [[["a", "a"], ["b", "a"]], [["b", "b"], ["b", None]]]  # items, judges, orders
        >>> votes = Votes.from_panel(answers, judges=["large", "small"], orders=["given", "swapped"])
        >>> votes.names
        ('large|given', 'large|swapped', 'small|given', 'small|swapped')
        >>> votes.structure[3]
        SourceInfo(judge='small', order='swapped', repeat=None, prompt=None, model=None)
        """
        if frames.is_frame(answers):
            if judges is not None or orders is not None:
                raise VotesError("`judges` and `orders` must be None for a table, which has them as columns.")
            items, calls, labels = frames.read_panel(answers, item, label)
            described = {info.name: info for info in calls}
            found = cls.from_long(
                items,
                [info.name for info in calls],
                labels,
                abstain=abstain,
                classes=classes,
                names=list(described),
                reasons=reasons,
                normalize=normalize,
            )
            names = found.names or ()
            return replace(found, structure=Structure(tuple(described[name] for name in names))).to_dense()
        array = read_array(answers, "answers", "a rectangular array")
        if not array.size:
            raise VotesError(f"`answers` must have at least one item and one judge; got shape {array.shape}.")
        sources = panel_sources(array.shape, judges, orders)
        flat = array.reshape(len(array), -1)
        convention = Convention.read(abstain, classes, reasons, normalize=normalize)
        votes = cls._from_matrix(flat, convention, [s.name for s in sources], check=classes is None)
        return replace(votes, structure=Structure(sources))

    # ------------------------------------------------------------------ facts

    @property
    def shape(self) -> tuple[int, int]:
        """Number of items and of sources, (n, m)."""
        n, m = self.codes.shape
        return int(n), int(m)

    @property
    def n_items(self) -> int:
        """Number of items, n."""
        return int(self.codes.shape[0])

    @property
    def n_sources(self) -> int:
        """Number of sources, m."""
        return int(self.codes.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes, K."""
        return len(self.classes)

    @property
    def is_sparse(self) -> bool:
        """True if the codes are stored as a scipy sparse array."""
        return isinstance(self.codes, csr_array)

    @property
    def source_names(self) -> tuple[str, ...]:
        """The names, or ``source 0``, ``source 1``, ... if there are none."""
        return shown_names(self.names, self.n_sources)

    @property
    def n_votes(self) -> int:
        """Number of cells with a vote."""
        return n_votes_in(self.codes)

    def missing_counts(self) -> dict[str, NDArray[np.int64]]:
        """Return, for each reason, how many votes of each source are missing, shape (m,).

        >>> answers = [["yes", "N/A"], [None, "no"], ["no", "N/A"]]
        >>> Votes.from_classes(answers, reasons={"N/A": "refused"}).missing_counts()["refused"]
        array([0, 2])
        """
        tally = SourceTally.of_votes(self)
        abstained = self.n_items - tally.n_votes - tally.missing.sum(axis=1)
        return dict(zip(REASONS, [abstained, *tally.missing.T], strict=True))

    def __len__(self) -> int:
        return self.n_items

    def __iter__(self) -> Iterator[Votes]:
        return (self[row] for row in range(self.n_items))

    def __repr__(self) -> str:
        share = self.n_votes / max(1, self.n_items * self.n_sources)
        kind = "sparse" if self.is_sparse else f"dense {self.codes.dtype}"
        return (
            f"Votes({format_count(self.n_items, 'item')} x {format_count(self.n_sources, 'source')}, "
            f"classes {format_list(self.classes)}, {share:.0%} voted, {kind})"
        )

    # ------------------------------------------------------------------ as data

    def to_numpy(self) -> NDArray[Any]:
        """Return the votes as class labels, shape (n, m).

        A missing vote is -1, or 0 if -1 is a class, or None if classes are not integers.

        >>> Votes.from_classes([["spam", None], ["ham", "ham"]]).to_numpy()
        array([['spam', None],
               ['ham', 'ham']], dtype=object)
        """
        return decisions.to_numpy(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.to_numpy(), dtype)

    def __eq__(self, other: object) -> Any:
        """Return a mask of the votes for a class, or of those equal to other votes, shape (n, m).

        ``votes == -1`` and ``votes == None`` are masks of the missing votes, unless -1 is a class.
        """
        return decisions.where_equal(self, other)

    def __ne__(self, other: object) -> Any:
        return np.logical_not(self == other)

    __hash__ = None  # type: ignore[assignment]  # as for arrays, which are compared elementwise too

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one column per source, indexed by item.

        :meth:`from_frame` reads it back.

        >>> table = Votes.from_long(["a", "b"], ["ann", "bob"], ["spam", "ham"]).to_pandas()
        >>> table.loc["a", "ann"], table.isna().sum().to_dict()
        ('spam', {'ann': 1, 'bob': 1})
        """
        return decisions.to_pandas(self)

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` with one column per source, and item identifiers in column ``id``."""
        return decisions.to_polars(self)

    def _repr_html_(self) -> str:
        return decisions.to_html(self)

    # ------------------------------------------------------------------ other views

    def with_structure(self, layout: str | Sequence[SourceInfo | str] | None) -> Votes:
        """Return the votes with the structure of their sources: judge, order, repeat, prompt and model.

        Answers of one judge in another order, or repeated, are not independent votes. ``LabelModel().fit``
        combines them, and :func:`flyingsquid.analysis.panel_report` compares them.

        Parameters
        ----------
        layout : str, sequence or None
            A pattern of the names, such as ``"{judge}|{order}"``, ``"{judge}@{repeat}"`` or
            ``"{model}/{prompt}|{order}"``; names without the last fields match as well. Or a
            :class:`~flyingsquid.SourceInfo`, or the name of a judge, for every source. None removes the
            structure.

        Examples
        --------
        >>> votes = Votes.from_classes([[0, 0, 1], [1, 0, 1]], names=["gpt", "gpt|swap", "rule"])
        >>> votes.with_structure("{judge}|{order}").structure.judges
        ('gpt', 'rule')
        >>> same = votes.with_structure(["gpt", SourceInfo("gpt", order="swap"), "rule"])
        >>> same.structure == votes.with_structure("{judge}|{order}").structure
        True
        """
        return replace(self, structure=read_structure(layout, self.names, self.n_sources))

    def __getitem__(self, rows: Any) -> Votes:
        """Return the votes on some items, as Votes even for one item; slices of dense votes share memory.

        ``votes[rows, sources]`` selects sources as well, by position or name.
        """
        if isinstance(rows, tuple):
            if len(rows) != 2:
                raise VotesError(f"Votes are indexed by items and sources; got {len(rows)} indices.")
            rows, sources = rows
            if sources is not Ellipsis:  # scikit-learn's cross-validation asks for votes[rows, ...]
                return self[rows].of_sources(sources)
        rows = read_rows(rows, self.n_items)
        try:
            items = None if self.items is None else self.items[rows]
            return self._checked(self.codes[rows], self.classes, self.names, items, self.structure)
        except (IndexError, TypeError) as error:
            raise VotesError(
                f"The index is out of range of {format_count(self.n_items, 'item')}: {error}"
            ) from error

    def of_sources(self, sources: Sequence[int] | Sequence[str]) -> Votes:
        """Return the votes of some sources, by position or name.

        >>> Votes.from_classes([[0, 1, -1], [1, 1, 0]], names=["a", "b", "c"]).of_sources([2, 0]).names
        ('c', 'a')
        """
        columns = read_columns(sources, self.n_sources, self.names)
        names = None if self.names is None else tuple(self.names[j] for j in columns)
        codes = self.codes[:, columns]
        structure = None if self.structure is None else self.structure.of_sources(columns)
        return replace(
            self, codes=csr_array(codes) if self.is_sparse else codes, names=names, structure=structure
        )

    def with_all_sources(self, names: tuple[str, ...] | None) -> Votes:
        """Add the sources of ``names`` that do not vote, if these votes are in long form.

        A source that does not vote does not occur in the long form. Other votes are returned unchanged,
        because a missing column may be a mistake.
        """
        own, codes = self.names, self.codes
        if not isinstance(codes, csr_array) or names is None or own is None or not set(own) < set(names):
            return self
        position = {name: j for j, name in enumerate(names)}
        columns = np.array([position[name] for name in own], np.intp)[codes.indices]
        wider = csr_array((codes.data, columns, codes.indptr), shape=(self.n_items, len(names)))
        wider.sort_indices()
        structure = None if self.structure is None else self.structure.with_sources(own, names)
        return Votes(wider, self.classes, names, self.items, structure)

    def fill_abstains(
        self,
        label: Label,
        *,
        where: Literal["no_votes", "everywhere"] = "no_votes",
        sources: Sequence[int] | None = None,
    ) -> Votes:
        """Return the votes with abstentions replaced by votes for one class, stored densely.

        Use it for sources whose missing votes mean a class, such as rules that mark spans of tokens and leave
        all other tokens blank. Votes that are missing for a reason, such as refusals, stay missing.

        Parameters
        ----------
        label : class label
            One of :attr:`classes`.
        where : {"no_votes", "everywhere"}, default="no_votes"
            Which abstentions are replaced: those on items without any vote, or all of them. A rule that is
            blank on an item which another rule marks has often just not found it, so ``"everywhere"`` makes
            many sources outvote the few that recognize it.
        sources : sequence of integers, optional
            Positions of the sources whose abstentions mean ``label``; all by default.

        Examples
        --------
        >>> spans = Votes.from_classes(
        ...     [["drug", None], [None, None]], classes=["outside", "drug"])
        >>> spans.fill_abstains("outside").codes
        array([[ 1, -1],
               [ 0,  0]], dtype=int8)
        >>> spans.fill_abstains("outside", where="everywhere").codes
        array([[1, 0],
               [0, 0]], dtype=int8)
        """
        if not isinstance(label, Hashable) or label not in self.classes:
            raise VotesError(
                f"`label` must be one of {format_list(self.classes)}; got {format_value(label)}. Name all "
                "classes with `classes` when the votes are read."
            )
        if not is_one_of(where, ("no_votes", "everywhere")):
            raise VotesError(f'`where` must be "no_votes" or "everywhere"; got {format_value(where)}.')
        chosen = np.ones(self.n_sources, np.bool_)
        if sources is not None:
            chosen[:] = False
            chosen[read_columns(sources, self.n_sources)] = True
        dense = cast(NDArray[Any], self.to_dense().codes)
        filled = (dense == ABSTAIN) & chosen
        if where == "no_votes":
            filled &= ~has_votes(dense)[:, None]
        code = dense.dtype.type(self.classes.index(label))
        return replace(self, codes=np.where(filled, code, dense))

    def to_dense(self) -> Votes:
        """Return the same votes with dense codes."""
        if not isinstance(self.codes, csr_array):
            return self
        full = self.codes.toarray()
        # A vote is stored as class + 1, no entry reads 0, and a reason is already its code.
        codes = np.where(full >= 0, full - 1, full).astype(smallest_dtype(self.n_classes), copy=False)
        return replace(self, codes=codes)

    def distinct(self) -> DistinctRows:
        """Return the distinct rows with their counts.

        >>> rows = Votes.from_classes([[0, 1], [1, 1], [0, 1]]).distinct()
        >>> rows.votes.codes.tolist(), rows.counts.tolist(), rows.inverse.tolist()
        ([[0, 1], [1, 1]], [2, 1], [0, 1, 0])
        """
        dense = self.to_dense()
        codes, counts, inverse = distinct_codes(cast(NDArray[Any], dense.codes), self.n_classes)
        rows = Votes(codes, self.classes, self.names, structure=self.structure)
        return DistinctRows(rows, counts, inverse)

    def matched_to(self, classes: tuple[Label, ...], names: tuple[str, ...] | None) -> Votes:
        """Return these votes with classes and named sources in the given order.

        >>> votes = Votes.from_classes([["a", "b"]], names=["x", "y"])
        >>> votes.matched_to(("b", "a"), ("y", "x")).codes
        array([[0, 1]], dtype=int8)

        Raises
        ------
        IncompatibleError
            If a class is not one of ``classes``, or the names differ from ``names``.
        """
        result = self
        if not isinstance(classes, tuple) or not (names is None or isinstance(names, tuple)):
            raise IncompatibleError("`classes` and `names` must be tuples.")
        if self.classes != classes:
            result = result._with_classes(classes)
        if names is not None and self.names is not None and self.names != names:
            require_same("sources", set(self.names), set(names))
            position = {name: j for j, name in enumerate(self.names)}
            order = np.array([position[name] for name in names])
            structure = None if self.structure is None else self.structure.of_sources(order.tolist())
            result = replace(result, codes=result.codes[:, order], names=names, structure=structure)
        return result

    def followed_by(self, later: Votes) -> Votes:
        """Return the votes on these items and on later ones, matched to these and stored densely."""
        matched = later.matched_to(self.classes, self.names).to_dense()
        codes = np.concatenate([np.asarray(self.to_dense().codes), np.asarray(matched.codes)])
        return Votes(codes, self.classes, self.names)

    def _with_classes(self, classes: tuple[Label, ...]) -> Votes:
        # A class that nobody votes for here does not occur in small tables.
        require_same("classes", set(self.classes) | set(classes), set(classes))
        to = np.array([classes.index(c) for c in self.classes], smallest_dtype(len(classes)))
        if isinstance(self.codes, csr_array):
            codes = self.codes.copy()
            voted = codes.data > 0
            codes.data[voted] = to[codes.data[voted] - 1].astype(codes.dtype) + 1
            return replace(self, codes=codes, classes=classes)
        moved = np.where(self.codes >= 0, to[np.maximum(self.codes, 0)], self.codes)
        return replace(self, codes=moved, classes=classes)
