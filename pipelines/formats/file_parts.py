"""The files of a changelog and the parts in which they are read in parallel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
from apache_beam.coders import registry
from pyarrow.fs import PyFileSystem

from beam_joins.coders.values import ValueCoder
from beam_joins.pipelines.formats.changelog_columns import Unit
from beam_joins.pipelines.formats.layout import Layout, Misfit
from beam_joins.pipelines.formats.reading import Reading
from beam_joins.pipelines.formats.record_batch_parser import RawRows
from beam_joins.pipelines.formats.registry import Format

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


@dataclass(frozen=True, kw_only=True)
class File:
    """A file: ``path`` is absolute, for workers with another working directory; ``shown`` is as the user
    knows it; ``written`` and ``digest`` as in ``ListedFile``.

    ``unit`` is what the file itself says that its times count, ``layout`` what a CSV file has, with ``misfits`` that make
    text of columns there; the types of ``declared`` columns are said, those of others inferred; ``encoding`` is that of its
    text (empty: UTF-8), ``delimiter`` stands between its fields, and records of one that ``spans_lines`` go on within quotes. The
    columns of bytes of an ``is_unmarked`` file are text, which it does not say. Of a file of envelopes the rows
    of one ``table`` are read, by its full name, the last part of it or a pattern (empty: all rows), ``key`` are
    the columns of its primary key, ``columns`` those that its rows are known to have, and ``placeholders``
    stand for values that did not change. A look at its records reads ``look_bytes`` at most (0: no
    limit). All records of the file have the ``constants``, columns by their names; a file of a ``storage`` is at
    ``path`` there. Of a log that is cut into files the bytes from ``start`` to ``stop`` (``None``: the end) are read,
    as if the line ``begin`` stood before them and ``end`` behind them.
    """

    path: str
    bytes: int
    shown: str
    format: Format
    unit: Unit | None = None
    layout: Layout = ()
    misfits: tuple[Misfit, ...] = ()
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
    written: int = 0
    digest: str = ""
    look_bytes: int = 0
    start: int = 0
    stop: int | None = None
    begin: Line = b""
    end: Line = b""


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


class Growing(NamedTuple):
    """A file from a place in it on.

    ``is_whole``: nothing more will be written into it. Of a file in columns only ``columns`` are read
    (``None``: all).
    """

    path: str
    place: int
    is_whole: bool
    columns: tuple[str, ...] | None


Block: TypeAlias = Callable[[Reading | None], Iterator[RawRows]]
"""Gives the records of some bytes as a reading asks for them, as a reader's ``rows`` does."""
Whole: TypeAlias = tuple[int, Block]
"""The whole records of a file: the place behind them, and the block of them."""


class NotWhole(Exception):
    """The file ends within a line, a block or its footer, and more may come."""
