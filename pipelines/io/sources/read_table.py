"""Reads a table: what a reader gives as rows, and the table that these are the changelog of."""

import copy
from typing import Any, NamedTuple, cast

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_joins import ChangeBatch, Dropped, TableFromChangelog
from beam_joins.pipelines.changelogs.read_records import Read
from beam_joins.pipelines.results.counts import Tally


class ReadOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of a transform that reads a table.

    ``table`` is the table, and ``dropped`` the rows that it is not made of, as those of
    :class:`~beam_joins.TableFromChangelog`. ``bad_records`` are also :class:`~beam_joins.Dropped`: their
    ``record`` is a sentence that names file and line, their ``timestamp`` 0. ``rows`` are the rows as they
    were read, with the columns that say what is changed how, and ``counts`` how many records were read or
    passed over, as ``(place, what, records, examples)``.
    """

    table: PCollection[ChangeBatch]
    dropped: PCollection[Dropped]
    bad_records: PCollection[Dropped]
    rows: PCollection[Any]
    counts: PCollection[Tally]


class ReadTable(beam.PTransform[PBegin, Any]):
    """Makes a table of what ``rows`` reads: a :class:`~beam_joins.pipelines.changelogs.read_records.Read`, or
    the rows alone.
    """

    _all_outputs = False

    def __init__(self, rows: beam.PTransform[PBegin, Any], table: TableFromChangelog) -> None:
        super().__init__()
        self._rows, self._table = rows, table

    def with_outputs(self) -> beam.PTransform[PBegin, ReadOutputs]:
        """The same transform, giving all its outputs: :class:`ReadOutputs`.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        all_outputs = copy.copy(self)
        all_outputs._all_outputs = True
        return cast("beam.PTransform[PBegin, ReadOutputs]", all_outputs)

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        read = begin | "Rows" >> self._rows
        rows = read.rows if isinstance(read, Read) else read
        if not self._all_outputs:
            return rows | "Table" >> self._table
        table, dropped = rows | "Table" >> self._table.with_outputs()
        if isinstance(read, Read):
            return ReadOutputs(table, dropped, read.bad_records, rows, read.counts)
        none: PCollection[Any] = begin | "None" >> beam.Create(list[Any](), reshuffle=False)
        return ReadOutputs(table, dropped, none, rows, none)
