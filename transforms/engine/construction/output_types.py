"""Types for annotations of transforms' inputs and outputs, with named tuples for transforms with several
outputs.
"""

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, TypeVar

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.elements.change import Change, Dropped
from beam_joins.tables.batch import ChangeBatch

Table = PCollection[ChangeBatch]
"""A table as transforms give it."""

TableInput = PCollection[ChangeBatch] | PCollection[Change[Any, Any]]
"""A table as transforms take it."""

TwoTables = tuple[TableInput, TableInput]

Tables = tuple[TableInput, TableInput, *tuple[TableInput, ...]] | Mapping[str, TableInput]
"""Two tables or more, or several by their names."""

Stream = PCollection[tuple[Any, Any]]
"""A stream of ``(key, value)`` pairs."""

StreamInput = PCollection[tuple[Any, Any]] | PCollection[pa.Table] | PCollection[pa.RecordBatch]
"""A stream of pairs, or of Arrow batches."""

Bad = PCollection[tuple[Any, tuple[str, str, list[str]]]]
"""Records for which a function raised: ``(record, (class name, message, traceback lines))``."""

Main = TypeVar("Main")


class Handled(NamedTuple, Generic[Main]):
    """The outputs of ``with_exception_handling()``: the result, and the records for which a function raised.

    ``good`` is the main output, and ``bad`` has the records for which a function raised: ``(record, (class
    name, message, traceback lines))``.
    """

    good: Main
    bad: Bad


class TableOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of a transform that makes a table: the table and the dropped records.

    ``table`` is the table, and ``dropped`` the records that it is not made of, each a
    :class:`~beam_joins.Dropped` with the reason.
    """

    table: Table
    dropped: PCollection[Dropped]


class HandledTableOutputs(NamedTuple):
    """The outputs of :class:`~beam_joins.outputs.TableOutputs`, and ``bad``: the records for which a function raised,
    as in :class:`~beam_joins.outputs.Handled`.
    """

    table: Table
    dropped: PCollection[Dropped]
    bad: Bad


class StreamOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of a join of a stream with a table: the joined stream and the dropped
    records.

    ``stream`` has the results: pairs, or record batches where the stream is of Arrow batches. ``dropped`` has
    the records without a result, each a :class:`~beam_joins.Dropped` with the reason.
    """

    stream: PCollection[Any]
    dropped: PCollection[Dropped]


class HandledStreamOutputs(NamedTuple):
    """The outputs of :class:`~beam_joins.outputs.StreamOutputs`, and ``bad``: the records for which a function
    raised, as in :class:`~beam_joins.outputs.Handled`.
    """

    stream: PCollection[Any]
    dropped: PCollection[Dropped]
    bad: Bad


class WindowedTableOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of :class:`~beam_joins.WindowedAggregate`: the table, the dropped and
    the late records.

    ``table`` is the windowed table, ``dropped`` the records that it is not made of, and ``late`` those that
    came too late for a window, each a :class:`~beam_joins.Dropped` with the reason.
    """

    table: Table
    dropped: PCollection[Dropped]
    late: PCollection[Dropped]


class HandledWindowedTableOutputs(NamedTuple):
    """The outputs of :class:`~beam_joins.outputs.WindowedTableOutputs`, and ``bad``: the records for which a function
    raised, as in :class:`~beam_joins.outputs.Handled`.
    """

    table: Table
    dropped: PCollection[Dropped]
    late: PCollection[Dropped]
    bad: Bad


class WindowedStreamOutputs(NamedTuple):
    """The outputs of ``with_outputs()`` of :class:`~beam_joins.WindowedStreamJoin`: the joined stream, the
    dropped and the late records.

    ``stream`` has the results: pairs, or record batches where the joined streams are of Arrow batches.
    ``dropped`` has the records that cannot be joined, and ``late`` those that came too late, each a
    :class:`~beam_joins.Dropped` with the reason.
    """

    stream: PCollection[Any]
    dropped: PCollection[Dropped]
    late: PCollection[Dropped]


class HandledWindowedStreamOutputs(NamedTuple):
    """The outputs of :class:`~beam_joins.outputs.WindowedStreamOutputs`, and ``bad``: the records for which a
    function raised, as in :class:`~beam_joins.outputs.Handled`.
    """

    stream: PCollection[Any]
    dropped: PCollection[Dropped]
    late: PCollection[Dropped]
    bad: Bad
