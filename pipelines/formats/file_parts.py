"""The files of a changelog, the parts in which they are read in parallel, and the readers of formats."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeAlias

import pyarrow as pa
from apache_beam.coders import registry
from pyarrow.fs import PyFileSystem

from beam_joins.coders.values import ValueCoder
from beam_joins.pipelines.formats.changelog_columns import Columns, Unit
from beam_joins.pipelines.formats.csv_schema import Formats, Layout, Misfit, Reading
from beam_joins.pipelines.formats.read_plan import ReadPlan
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.types.exact_json import BytesText

Line: TypeAlias = bytes
PLACES: Final = 1 << 40
"""A place is the number of its part times this, and the place in the part."""


@dataclass(frozen=True)
class Storage:
    """A store that the package ``deltalake`` reads: the files below ``root``, with ``options`` that may be secret."""

    root: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def open(self, path: str) -> Any:
        """A file below the root, for reading."""
        from deltalake.fs import DeltaStorageHandler  # noqa: PLC0415  # an extra

        return PyFileSystem(DeltaStorageHandler(self.root, dict(self.options))).open_input_file(path)


class SnapshotFile(NamedTuple):
    """The changes that a file of a snapshot, of a ``time`` in microseconds, is read for: the rows that differ from those of the
    snapshot before, whose places are in the file ``upserted`` (empty: all rows), and deletes of the keys in the file ``deleted``
    (empty: none).
    """

    time: int
    upserted: str = ""
    deleted: str = ""


@dataclass(frozen=True, kw_only=True)
class File:
    """A file: ``path`` is absolute, for workers with another working directory; ``shown`` is as the user
    knows it; ``reader`` reads its records; ``written`` and ``digest`` as in ``ListedFile``.

    ``unit`` is what the file itself says that its times count, ``layout`` what a CSV file has, with ``misfits`` that make
    text of columns there, and ``readings`` of columns that may be in formats; ``formats`` are those that are said. The types of
    ``declared`` columns are said, those of others inferred; ``encoding`` is that of its
    text (empty: UTF-8), ``delimiter`` stands between its fields, and records of one that ``spans_lines`` go on within quotes. The
    columns of bytes of an ``is_unmarked`` file are text, which it does not say. Of a file of envelopes the rows
    of one ``table`` are read, by its full name, the last part of it or a pattern (empty: all rows), ``key`` are
    the columns of its primary key, ``columns`` those that its rows are known to have, and ``placeholders``
    stand for values that did not change. A look at its records reads ``look_bytes`` at most (0: no
    limit). All records of the file have the ``constants``, columns by their names; a file of a ``storage`` is at
    ``path`` there; of a ``snapshot`` the changes are read. Of a log that is cut into files the bytes from ``start``
    to ``stop`` (``None``: the end) are read, as if the line ``begin`` stood before them and ``end`` behind them.
    """

    path: str
    bytes: int
    shown: str
    reader: "FormatReader"
    unit: Unit | None = None
    layout: Layout = ()
    misfits: tuple[Misfit, ...] = ()
    readings: tuple[Reading, ...] = ()
    formats: Formats = ()
    declared: tuple[str, ...] = ()
    encoding: str = ""
    delimiter: str = ","
    spans_lines: bool = False
    is_unmarked: bool = False
    table: str = ""
    key: tuple[str, ...] = ()
    columns: pa.Schema | None = None
    placeholders: tuple[str, ...] = ()
    constants: tuple[tuple[str, Any], ...] = ()
    storage: Storage | None = None
    snapshot: SnapshotFile | None = None
    written: int = 0
    digest: str = ""
    look_bytes: int = 0
    start: int = 0
    stop: int | None = None
    begin: Line = b""
    end: Line = b""

    @classmethod
    def at(cls, path: str, reader: "FormatReader") -> Self:
        """The file at a path, to ask its reader for what it says of its columns."""
        return cls(path=path, bytes=0, shown=path, reader=reader)


@dataclass(frozen=True)
class Part:
    """The records of a file that begin in ``[start, stop)``; stop 0: all that follow.

    ``number`` is that of the part among all of a changelog.
    """

    number: int
    file: File
    start: int
    stop: int

    @property
    def first_place(self) -> int:
        """The place of what the part begins with."""
        return self.number * PLACES


registry.register_coder(Part, ValueCoder)


@dataclass(frozen=True)
class FormatReader(ABC):
    """Reads the files of a format.

    Its functions raise ValueError, one sentence without the path, OSError and EOFError.
    """

    name: ClassVar[str]
    """The name of the format, for people."""
    options: ClassVar[tuple[str, ...]] = ()
    """The options that say something of its files: ``schema``, ``delimiter``, ``encoding``, ``column_formats``."""
    may_be_empty: ClassVar[bool] = False
    """Whether a file may be without any byte: it has no rows."""
    expansion: ClassVar[int] = 8
    """The assumed number of bytes of records per byte of a file."""
    columnar: ClassVar[bool] = False
    """Whether files state the types of columns, in which a table in Python has its rows unasked."""
    untyped_columns: ClassVar[bool] = False
    """Whether files do not say types of columns, and what orders records are numbers."""
    bytes_text: ClassVar[BytesText] = "base64"
    """The encoding of bytes in the texts of rows."""
    key_remedy: ClassVar[str] = ""
    """The way to make the tool that writes change events say the primary key."""
    whole_rows: ClassVar[bool] = False
    """Whether the row of a change event has all columns of its table, also without a schema."""
    spans_files: ClassVar[bool] = False
    """Whether files are one log, in which a transaction may begin in one file and end in another."""
    lone_tombstones: ClassVar[bool] = False
    """Whether the tombstones of deletes are there without their keys."""

    @abstractmethod
    def cuts(self, file: File, size: int) -> list[tuple[int, int]]:
        """Where the parts of a file of about so many bytes begin and end."""

    def described(self, file: File, columns: Columns, remembered: Layout) -> File:
        """The file with what it shows of itself, given the columns that options name and the types remembered."""
        return file

    def schema(self, file: File) -> pa.Schema | None:
        """The columns that a file states; None for a format whose files state none."""
        return None

    def keeps_texts(self, file: File) -> bool:
        """Whether the rows of a file are kept as JSON texts: its values are texts, whose digits are kept, or of several types in
        one column.
        """
        return False

    def unit(self, file: File, column: str) -> Unit | None:
        """The unit of a column of times, as the file says it; None where it says none."""
        return None

    def types(self, file: File) -> list[tuple[str, str]]:
        """The columns that the file itself names, and their types."""
        return []

    @abstractmethod
    def first(self, file: File) -> Iterator[dict[str, Any]]:
        """The records of a file, one by one; an invalid record is left out."""

    @abstractmethod
    def rows(self, part: Part, plan: ReadPlan | None) -> Iterator[RawRows]:
        """The records of a part; without ``plan`` all of them are to be read one by one."""

    @abstractmethod
    def where(self, part: Part, place: int) -> str:
        """Where in its file a record is, for people."""


class Growing(NamedTuple):
    """A file from a place in it on.

    ``is_whole``: nothing more will be written into it. Of a file in columns only ``columns`` are read
    (``None``: all).
    """

    path: str
    place: int
    is_whole: bool
    columns: tuple[str, ...] | None


Block: TypeAlias = Callable[[ReadPlan | None], Iterator[RawRows]]
"""Gives the records of some bytes as a plan asks for them, as a reader's ``rows`` does."""
Whole: TypeAlias = tuple[int, Block]
"""The whole records of a file: the place behind them, and the block of them."""


class NotWhole(Exception):
    """The file ends within a line, a block or its footer, and more may come."""
