"""What a stream is to a transform that replays it: rows with a key, a value, an event time and a position.

A stream is of ``(key, value)`` pairs, each at the time of its element, cut to the millisecond; or of Arrow batches with columns for key and time.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import PCollection

from beam_joins.coders.key import encode_key, key_coder
from beam_joins.fields import Fields, names_in, place, place_of_row
from beam_joins.functions import keys_of
from beam_joins.keys.columns import kinds
from beam_joins.keys.hashes import hashes
from beam_joins.keys.opaque import opaque_encoded, opaque_values, python_keys
from beam_joins.transforms.engine.arrow_input import arrow_schema, declared_schema, is_arrow, struct_of
from beam_joins.transforms.engine.block_writer import BlockWriter
from beam_joins.transforms.engine.changelog_columns import given_rows, places, times_of
from beam_joins.transforms.engine.elements import ElementRoute, columns_of_rows
from beam_joins.transforms.engine.outputs import Handling
from beam_joins.transforms.engine.replay import Route
from beam_joins.transforms.engine.stream_rows import OfRow, pair, stream_type
from beam_joins.transforms.engine.table_type import TableType


class StreamOptions(NamedTuple):
    """How a transform is told to read its streams; ``key`` and ``timestamp_by`` are columns of batches."""

    transform: str
    key: str | Sequence[str] | None
    timestamp_by: str | None
    sequence_by: Fields | OfRow | None

    def require(self) -> "StreamOptions":
        """The options; raises ``ValueError`` for a ``sequence_by`` that is none."""
        if self.sequence_by is not None:
            place_of_row("sequence_by", self.sequence_by)
        return self


class Nulls(NamedTuple):
    """What becomes of records without a value or a key: with ``value`` or ``key`` they are kept, or else dropped."""

    value: bool = False
    key: bool = False


class Stream:
    """A stream as it comes in; raises ``ValueError`` for a table, for options that do not fit it, and for batches whose columns are not known."""

    def __init__(self, options: StreamOptions, stream: PCollection[Any], schema: Any = None) -> None:
        self._options = options
        self._stream = stream
        self.in_columns = is_arrow(stream)
        ordered = None if options.sequence_by is None else place_of_row("sequence_by", options.sequence_by)
        named = [name for name in ("key", "timestamp_by") if getattr(options, name) is not None]
        if not self.in_columns:
            if named:
                raise ValueError(
                    f"{options.transform} takes {'= and '.join(named)}= for streams in columns only, and these are of (key, value) pairs at"
                    " the times of their elements: leave it out, or declare batches with .with_output_types(pyarrow.Table)"
                )
            self.type = stream_type(options.transform, stream, ordered)
            return
        if len(named) < 2:
            raise ValueError(f"{options.transform} of streams in columns needs key= and timestamp_by=: the names of their columns")
        known = arrow_schema(stream) if schema is None else declared_schema(schema)
        if known is None:
            raise ValueError(
                f"{options.transform}: the columns of a stream are not known when the pipeline is built: read it with ReadParquet, or give its"
                " pyarrow.Schema"
            )
        self._schema = known
        nothing = struct_of(known.empty_table(), known)
        times_of("timestamp_by", options.timestamp_by, nothing, 0)
        if not callable(options.sequence_by) and options.sequence_by is not None:
            places("sequence_by", options.sequence_by, nothing)
        order = stream_type(options.transform, stream, ordered).order
        self.type = TableType(keys_of("key", options.key, nothing).type, nothing.type, order)

    def routed(self, label: str, to: str, handling: Handling, tags: tuple[str, ...], nulls: Nulls, key_type: Any = None) -> Any:
        """The stream's rows ``key``, ``value``, ``timestamp``, ``position`` and, where it orders them, ``within`` in blocks for the replay named ``to``.

        Dropped are records with a ``"null_value"``, a ``"null_key"``, a ``"null_sequence"`` or a ``"null_timestamp"``. A record without a key has no order.
        """
        outputs = (to, *tags, *handling.tags)
        given = self._options.sequence_by
        functions = handling.functions
        if self.in_columns:
            sequence = functions.function("sequence_by", given) if callable(given) else given
            rows = functions.route_batches(self._batch_rows(to, sequence, nulls), self._keyed)
            return self._stream | label >> Route(rows, to=outputs)
        of_row = None if given is None else functions.function("sequence_by", given, place_of_row("sequence_by", given))
        columns = _pair_columns(to, key_type or self.type.key, self._options.transform)
        elements = columns_of_rows(_pair_row(of_row, nulls), columns, functions)
        return self._stream | label >> ElementRoute(elements, to=outputs)

    def _batch_rows(self, to: str, sequence: Any, nulls: Nulls) -> Callable[[Any, int, BlockWriter], None]:
        options = self._options
        given = {"key": options.key, "timestamp_by": options.timestamp_by, "sequence_by": sequence}
        named = [(option, name) for option, spec in given.items() for name in names_in(spec)]

        def rows(batch: Any, arrival: int, writer: BlockWriter) -> None:
            records = struct_of(batch, self._schema, named)
            key, timestamp = keys_of("key", options.key, records), times_of("timestamp_by", options.timestamp_by, records, arrival)
            position, within = timestamp, None
            if sequence is not None:
                position, within = places("sequence_by", sequence, records, lambda: python_keys(key))
            if nulls.key:  # what meets nothing needs no order
                position = pc.if_else(key.is_null(), 0, position)
            required = {"null_timestamp": timestamp, "null_key": key, "null_sequence": position}
            if nulls.key:
                del required["null_key"]
            given = given_rows(records, required, timestamp.fill_null(arrival), writer)
            table = pa.record_batch([key, records, timestamp, position], names=list(_NAMES))
            if within is not None:
                table = table.append_column("within", within)
            _send(to, table if given.all() else table.filter(pa.array(given)), writer)

        return rows

    def _keyed(self, batch: Any) -> Iterator[tuple[Any, Any]]:
        """Key and value of every record of a batch."""
        records = struct_of(batch, self._schema)
        return zip(python_keys(keys_of("key", self._options.key, records)), records.to_pylist(), strict=True)


_NAMES = ("key", "value", "timestamp", "position")


def _pair_row(sequence: OfRow | None, nulls: Nulls) -> Any:
    def row(element: Any, timestamp: int, writer: BlockWriter) -> tuple[Any, ...] | None:
        key, value = pair(element)
        dropped = None
        placed: tuple[int, bytes] | None = timestamp, b""
        if value is None and not nulls.value:
            dropped = "null_value"
        elif key is None:
            placed, dropped = (0, b""), None if nulls.key else "null_key"
        elif sequence is not None and (placed := place("sequence_by", sequence(key, value))) is None:
            dropped = "null_sequence"
        if dropped is not None or placed is None:
            writer.drop(dropped or "null_sequence", element, timestamp)
            return None
        return key, value, timestamp, *placed

    return row


def _pair_columns(to: str, key_type: Any, transform: str) -> Callable[[list[tuple[Any, ...]], BlockWriter], None]:
    what = f"the key of {transform}"
    coder = key_coder(key_type, what)

    def columns(rows: list[tuple[Any, ...]], writer: BlockWriter) -> None:
        key, value, timestamp, position, within = zip(*rows, strict=True)
        keys = opaque_encoded([None if each is None else encode_key(coder, each, what) for each in key])
        try:
            positions = pa.array(position, pa.int64())
        except OverflowError:
            raise ValueError("sequence_by gave a position that does not fit in 64 bits: scale the sequence down") from None
        table = pa.record_batch([keys, opaque_values(value), pa.array(timestamp, pa.int64()), positions], names=list(_NAMES))
        _send(to, table.append_column("within", pa.array(within, pa.binary())) if any(within) else table, writer)

    return columns


def _send(to: str, rows: pa.RecordBatch, writer: BlockWriter) -> None:
    writer.noted(to).update(kinds(rows["key"]))
    writer.send(to, hashes(rows["key"]), rows)
