"""What StreamTableJoin and StreamForeignKeyJoin share: each record of a stream with a row of a table, as of the record's position."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import Coder
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.coders.key import value_coder
from beam_joins.copied import copied
from beam_joins.joiner import of_records
from beam_joins.record import Record
from beam_joins.transforms.engine.block_writer import MAIN, BlockWriter, timestamped
from beam_joins.transforms.engine.core_operator import CoreOperator
from beam_joins.transforms.engine.notes import keys_may_meet
from beam_joins.transforms.engine.replay import Replay, Route
from beam_joins.transforms.engine.stream_rows import OfRow, alone, require_one_order, stream_rows, stream_type, two_inputs
from beam_joins.transforms.engine.stream_transform import StreamTransform
from beam_joins.transforms.engine.table_rows import canonical_part, table_rows
from beam_joins.transforms.engine.table_type import TableType, table_key_coder, table_type
from beam_joins.transforms.engine.user_functions import StageFunctions
from beam_joins.transforms.table_to_records import in_records
from tests.reference.stream_join import Joined
from tests.reference.stream_lookup import LookupStreamHow, StreamLookup

STREAM, TABLE = "stream", "table"


class StreamTableOutputs(NamedTuple):
    """The joined stream, and the records that could not be used, of ``Dropped``."""

    joined: PCollection[Any]
    dropped: PCollection[Any] | None


class LookupKeys(NamedTuple):
    """How a stream's records find their rows: ``written`` gives the row's key and the record's, the others read the latter."""

    written: Callable[[Any, Any], tuple[bytes, bytes] | None]
    looked_up: Callable[[bytes], bytes]
    of_result: Callable[[bytes], Any]


class StreamLookupJoin(StreamTransform):
    """A stream with the rows that its records look up; a subclass says by which keys."""

    _null_reason: str

    def _row_key(self) -> OfRow:
        """The key of the row that a record looks up."""
        raise NotImplementedError

    def _keys(self, stream: TableType, table: TableType, table_keys: Coder) -> LookupKeys:
        raise NotImplementedError

    def build(self, pvalue: Any) -> StreamTableOutputs:
        """The joined stream and the dropped records."""
        name = type(self).__name__
        of_records(name, self._joiner)
        stream, table = two_inputs(name, pvalue, "a stream and a table: (stream, table)")
        table = in_records(table)
        stream_known, table_known = stream_type(name, stream, self._sequence), table_type(table)
        if isinstance(table.element_type, typehints.TupleConstraint):
            raise ValueError(f"{name} looks up a table, but its right side is a stream: make a table of it with TableFromChangelog")
        require_one_order(name, stream_known, table_known)
        table_keys = table_key_coder(table_known, f"the key of {name}'s table")
        keys = self._keys(stream_known, table_known, table_keys)
        values, rows = value_coder(stream_known.value), value_coder(table_known.value)
        keeps_all = self._how == "left"
        handling, functions, null = self.handling, self.handling.functions, "" if keeps_all else self._null_reason
        records = stream | "Stream" >> Route(
            functions.route(
                stream_rows(
                    STREAM, keys.written, values, input=1, sequence=self.called_sequence, null=null, noted=canonical_part(table_keys)
                )
            ),
            to=(STREAM, *self.dropping, *handling.tags),
            partitions=self._partitions,
            timed=True,
        )
        changes = table | "Table" >> Route(table_rows(TABLE, table_keys, rows), to=(TABLE,), partitions=self._partitions)
        replayed = (records[STREAM], changes[TABLE]) | "Join" >> Replay(
            functions.replay(_Lookup(self._joiner, functions, self._how, keys, table_keys, values, rows)),
            to=(MAIN, *handling.tags),
            partitions=self._partitions,
            main_type=typehints.KV[Any, Any],
            check=keys_may_meet(name, STREAM, TABLE, "keys that the stream looks up", "table's keys"),
        )
        joined = replayed[MAIN]
        handling.collect(records, replayed)
        if keeps_all:
            # a record whose key is not known, since a function raised, is in the output of bad ones by the route
            row_key = functions.of_rows(self._row_key())
            without_row = alone(stream, "Without a key", handling, lambda key, value: row_key(key, value) is None, self._joiner)
            joined = [joined, without_row] | "Joined" >> beam.Flatten()
        return StreamTableOutputs(joined, self.all_dropped(records))


class _Lookup(CoreOperator):
    """Input 0 is the table, so that a record sees the changes at its own position."""

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        functions: StageFunctions,
        how: LookupStreamHow,
        keys: LookupKeys,
        table_keys: Coder,
        values: Coder,
        rows: Coder,
    ) -> None:
        self._joiner = joiner
        self._functions = functions
        self._how: LookupStreamHow = how
        self._written, self._looked_up, self._of_result = keys
        self._table_keys = table_keys
        self._values = values
        self._rows = rows

    def core(self) -> StreamLookup[Any]:
        lookup: StreamLookup[Any] = StreamLookup(
            lambda value, row: self._join(lookup, value, row), self._how, lambda record: self._looked_up(record.key)
        )
        return lookup

    def routes(self, records: Sequence[Record]) -> list[bytes]:
        looked_up = self._looked_up
        return [looked_up(record.key) if record.input else record.key for record in records]

    def row_key(self, key: bytes, input: int) -> Any:
        return self._table_keys.decode(key)

    def _join(self, core: StreamLookup[Any], value: bytes, row: bytes | None) -> Any:
        try:
            result = self._joiner(*self._arguments(value, row))
        except Exception as error:
            record = core.joining
            assert record is not None
            key = self._of_result(record.key)
            self._functions.failed("joiner", error, self._arguments(value, row), record.timestamp, key=key)
            return _LEFT_OUT
        return copied(result)

    def _arguments(self, value: bytes, row: bytes | None) -> tuple[Any, Any]:
        return self._values.decode(value), None if row is None else self._rows.decode(row)

    def write(self, output: Joined[Any], writer: BlockWriter) -> WindowedValue | None:
        return None if output.value is _LEFT_OUT else timestamped((self._of_result(output.key), output.value), output.timestamp)


_LEFT_OUT = object()
