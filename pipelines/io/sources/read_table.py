"""Reads a table: what a reader gives as rows, and the table that these are the changelog of."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import apache_beam as beam
from apache_beam.pvalue import PBegin, PCollection

from beam_joins import ChangeBatch, Dropped, TableFromChangelog
from beam_joins.pipelines.changelogs.read_records import Read
from beam_joins.pipelines.formats.columns import PLACE
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


class Reads(NamedTuple):
    """What reads the rows, a :class:`~beam_joins.pipelines.changelogs.read_records.Read` or the rows alone, and the
    table that they are the changelog of.
    """

    rows: beam.PTransform[PBegin, Any]
    table: TableFromChangelog

    def of_run(self, begin: PBegin) -> "Reads":
        """The same in each run."""
        return self


class ReadTable(beam.PTransform[PBegin, Any]):
    """Makes a table of what is read; ``of_run`` says, when the transform is applied, what that is in this run."""

    _all_outputs = False

    def __init__(self, of_run: Callable[[PBegin], Reads]) -> None:
        super().__init__()
        self._of_run = of_run

    def with_outputs(self) -> beam.PTransform[PBegin, ReadOutputs]:
        """The same transform, giving all its outputs: :class:`ReadOutputs`.

        Dropped records are counted in any case, as ``dropped_<reason>`` in the namespace ``beam_joins``.
        """
        all_outputs = copy.copy(self)
        all_outputs._all_outputs = True
        return cast("beam.PTransform[PBegin, ReadOutputs]", all_outputs)

    def expand(self, begin: PBegin) -> Any:
        """Apply the transform."""
        reads = self._of_run(begin)
        read = begin | "Rows" >> reads.rows
        rows = read.rows if isinstance(read, Read) else read
        if not self._all_outputs:
            return rows | "Table" >> reads.table
        table, all_dropped = rows | "Table" >> reads.table.with_outputs()
        dropped: PCollection[Dropped] = all_dropped | "Dropped" >> beam.Map(_without_place).with_output_types(Dropped)
        if isinstance(read, Read):
            return ReadOutputs(table, dropped, read.bad_records, rows, read.counts)
        none: PCollection[Any] = begin | "None" >> beam.Create(list[Any](), reshuffle=False)
        return ReadOutputs(table, dropped, none, rows, none)


def _without_place(dropped: Dropped) -> Dropped:
    """What was dropped, without the place that only this reader adds to records."""
    record = dropped.record
    if not isinstance(record, dict) or PLACE not in record:
        return dropped
    return dropped._replace(record={name: value for name, value in record.items() if name != PLACE})
