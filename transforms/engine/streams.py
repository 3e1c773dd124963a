"""Streams as transforms replay them: rows with a key, a value, an event time and a position.

A stream is of ``(key, value)`` pairs, each at the time of its element, cut to the millisecond; or of Arrow
batches with columns for key and time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import key_coder
from beam_joins.columns.positions import places_of, times_of
from beam_joins.functions.fields import Fields, getter, of_row
from beam_joins.functions.marked_functions import by_row, keys_of
from beam_joins.keys.hashes import hashes
from beam_joins.keys.key_columns import kinds
from beam_joins.keys.opaque import opaque_values, python_keys, python_values
from beam_joins.transforms.engine.construction.arrow_input import arrow_schema, declared_schema, is_arrow, struct_of
from beam_joins.transforms.engine.construction.element_types import is_of_others, pair_types
from beam_joins.transforms.engine.construction.input_checks import elements_of
from beam_joins.transforms.engine.construction.option_checks import columns
from beam_joins.transforms.engine.construction.table_type import TableType, is_batches, is_changes
from beam_joins.transforms.engine.stages.routed_records import Option, RecordRoute, RoutedRecords, pairs, present
from beam_joins.transforms.engine.stages.stage_functions import StageFunctions
from beam_joins.transforms.engine.transform_outputs import Handling

OfRow = Callable[[Any, Any], Any]
"""A function of key and value."""
NO_PAIR = "a stream is of (key, value) pairs, but has {}: make pairs of it with beam.WithKeys or beam.Map"


def stream_type(transform: str, stream: PCollection[Any], sequence_by: Any) -> TableType:
    """The types of a stream's keys and values, and its order; raises ``ValueError`` for a table."""
    if is_changes(stream) or is_batches(stream):
        raise ValueError(f"{transform} takes a stream of (key, value) pairs here, not a table: apply TableToStream() to the table")
    if is_of_others(stream.element_type, tuple) and not is_arrow(stream):
        raise ValueError(f"{transform}: {NO_PAIR.format(elements_of(stream))}")
    return TableType(*pair_types(stream.element_type), "time" if sequence_by is None else "sequence")


def require_one_order(transform: str, stream: TableType, table: TableType) -> None:
    """Raise ``ValueError`` for a stream and a table that are known to be ordered by different things."""
    if table.order not in (stream.order, "unknown", "first"):
        by = {"time": "event time", "sequence": "a sequence"}
        remedy = (
            "give the stream sequence_by= too, from the same sequence"
            if table.order == "sequence"
            else "leave sequence_by= out, or give it to the table too"
        )
        raise ValueError(
            f"{transform} looks up a table ordered by {by[table.order]} for a stream ordered by {by[stream.order]}, and "
            "their positions"
            f" say nothing of each other: {remedy}"
        )


class StreamOptions(NamedTuple):
    """The options by which a transform reads its streams; ``key`` and ``timestamp_by`` are columns of
    batches.
    """

    transform: str
    key: str | Sequence[str] | None
    timestamp_by: str | None
    sequence_by: Fields | OfRow | None

    @classmethod
    def of(
        cls, transform: str, key: Any, timestamp_by: Any, sequence_by: Fields | OfRow | None, schemas: Sequence[Any] = ()
    ) -> "StreamOptions":
        """The options; raises ``ValueError`` for a malformed option, and for a schema that is none."""
        if key is not None and not callable(key):
            columns("key", key)
        if timestamp_by is not None and not callable(timestamp_by):
            columns("timestamp_by", [timestamp_by])
        sequence_of(sequence_by)
        for schema in schemas:
            if schema is not None:
                declared_schema(schema, "stream_schema")
        return cls(transform, key, timestamp_by, sequence_by)


class Stream:
    """A stream as it comes in; raises ``ValueError`` for a table, for options that do not fit it, and for
    batches whose columns are not known.
    """

    def __init__(self, options: StreamOptions, stream: PCollection[Any], schema: Any = None) -> None:
        self._options = options
        self._stream = stream
        self.in_columns = is_arrow(stream)
        self._schema: pa.Schema | None = None
        named = [name for name in ("key", "timestamp_by") if getattr(options, name) is not None]
        if not self.in_columns:
            if named:
                raise ValueError(
                    f"{options.transform} takes {'= and '.join(named)}= for streams in columns only, and these are of "
                    "(key, value) pairs at"
                    " the times of their elements: leave it out, or declare batches with .with_output_types(pyarrow.Table)"
                )
            self.type = stream_type(options.transform, stream, options.sequence_by)
            return
        if len(named) < 2:
            raise ValueError(f"{options.transform} of streams in columns needs key= and timestamp_by=: the names of their columns")
        columns = arrow_schema(stream) if schema is None else declared_schema(schema)
        if columns is None:
            raise ValueError(
                f"{options.transform}: the columns of a stream are not known when the pipeline is built: read it with "
                "ReadParquet, or give its"
                " pyarrow.Schema"
            )
        self._schema = columns
        nothing = struct_of(columns.empty_table(), columns)
        times_of("timestamp_by", by_row("timestamp_by", options.timestamp_by, nothing))
        if not callable(options.sequence_by) and options.sequence_by is not None:
            places_of("sequence_by", by_row("sequence_by", options.sequence_by, nothing))
        order = stream_type(options.transform, stream, options.sequence_by).order
        self.type = TableType(keys_of("key", options.key, nothing).type, nothing.type, order)

    def routed(
        self,
        label: str,
        to: str,
        handling: Handling,
        tags: tuple[str, ...],
        *,
        null_values: bool = False,
        null_keys: bool = False,
        key_type: Any = None,
    ) -> Any:
        """The stream's rows ``key``, ``value``, ``timestamp``, ``position`` and, where it orders them,
        ``within`` in blocks for the replay named ``to``.

        Dropped are records with a ``"null_value"`` or a ``"null_key"``, unless these are kept, a
        ``"null_sequence"`` or a ``"null_timestamp"``. A record without a key has no order.
        """
        functions, sequence = handling.functions, self.sequence(handling.functions)
        what = f"the key of {self._options.transform}"
        coder = None if self.in_columns else key_coder(key_type or self.type.key, what)

        def rows(records: RoutedRecords) -> None:
            key, value, arguments = self.keyed(records, null_values=null_values)
            if not null_keys:
                records.drop("null_key", key)
            # records that meet nothing need no order
            position, within = records.placed(sequence, arguments, where=present(key))
            key, value = records.kept(key), records.kept(value)
            if coder is not None:
                key = coder.column(key, what, nulls=True)
                value = opaque_values(value)
            names = ["key", "value", "timestamp", "position"]
            table = pa.record_batch([key, value, *map(records.kept, (pa.array(records.times), position))], names=names)
            if within is not None:
                table = table.append_column("within", records.kept(within))
            records.writer.noted(to).update(kinds(key))
            records.writer.send(to, hashes(key), table)

        return self.read(label, rows, functions, (to, *tags, *handling.tags))

    def read(self, label: str, rows: Callable[[RoutedRecords], None], functions: StageFunctions, to: tuple[str, ...]) -> Any:
        """The outputs ``to`` of ``rows``, which makes rows of the stream's records."""
        specs = [(name, getattr(self._options, name)) for name in ("key", "timestamp_by", "sequence_by")]
        return self._stream | label >> RecordRoute(rows, functions, schema=self._schema, options=specs, to=to)

    def sequence(self, functions: StageFunctions) -> Option | None:
        """The option ``sequence_by`` as it is called in a stage."""
        sequence = sequence_of(self._options.sequence_by)
        return None if sequence is None else sequence.of(functions)

    def keyed(
        self, records: RoutedRecords, *, null_values: bool = False
    ) -> tuple[Any, Any, Callable[[], tuple[Sequence[Any], Sequence[Any]]]]:
        """The keys and the values of records, which get their event times, and a function that gives both as Python objects.

        Dropped are records with a ``"null_timestamp"`` or, unless these are kept, with a ``"null_value"``.
        """
        by = self._options.timestamp_by
        if self.in_columns:
            key, value = keys_of("key", self._options.key, records.elements), records.elements
        else:
            key, value = pairs(records.elements, NO_PAIR)
            if not null_values:
                records.drop("null_value", value)
        records.timed(None if by is None else Option("timestamp_by", by, getter("timestamp_by", by)))
        return key, value, lambda: (python_keys(key), python_values(value)) if self.in_columns else (key, value)


def sequence_of(sequence_by: Any) -> Option | None:
    """The option ``sequence_by`` of a stream; raises ``ValueError`` if it is none."""
    return None if sequence_by is None else Option("sequence_by", sequence_by, of_row("sequence_by", sequence_by))
