"""StreamTableJoin and StreamForeignKeyJoin: each record of a stream with a row of a table, as of the record's position (KIP-77, KIP-99)."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import apache_beam as beam
from apache_beam.coders import Coder, NullableCoder
from apache_beam.pvalue import PCollection
from apache_beam.typehints import typehints
from apache_beam.utils.windowed_value import WindowedValue

from beam_joins.coders.combined_key import combine, split
from beam_joins.coders.key import encode_key, value_coder
from beam_joins.copied import copied
from beam_joins.record import Record
from beam_joins.stream_join import Joined
from beam_joins.stream_lookup import LookupStreamHow, StreamLookup
from beam_joins.transforms.columns.joiner import of_records
from beam_joins.transforms.core_operator import CoreOperator
from beam_joins.transforms.fields import Fields, of_row
from beam_joins.transforms.notes import keys_may_meet
from beam_joins.transforms.options import function
from beam_joins.transforms.outlet import MAIN, Outlet, at
from beam_joins.transforms.replay import Replay, Route
from beam_joins.transforms.stream_rows import OfRow, alone, require_one_order, stream_rows, stream_type, two_inputs
from beam_joins.transforms.stream_transform import StreamTransform
from beam_joins.transforms.table_rows import canonical_part, table_rows
from beam_joins.transforms.table_to_records import in_records
from beam_joins.transforms.table_type import TableType, common_key_type, perhaps_windowed, table_key_coder, table_type
from beam_joins.transforms.user_functions import Functions
from beam_joins.windowed import Window, Windowed

STREAM, TABLE = "stream", "table"


class StreamTableOutputs(NamedTuple):
    """The joined stream, and the records that could not be used, of ``Dropped``."""

    joined: PCollection[Any]
    dropped: PCollection[Any] | None


class _Keys(NamedTuple):
    """How a stream's records find their rows: ``written`` gives the row's key and the record's, the others read the latter."""

    written: Callable[[Any, Any], tuple[bytes, bytes] | None]
    looked_up: Callable[[bytes], bytes]
    of_result: Callable[[bytes], Any]


class _LookupJoin(StreamTransform):
    """A stream with the rows that its records look up; a subclass says by which keys."""

    _null_reason: str

    def _row_key(self) -> OfRow:
        """The key of the row that a record looks up."""
        raise NotImplementedError

    def _keys(self, stream: TableType, table: TableType, table_keys: Coder) -> _Keys:
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


class StreamTableJoin(_LookupJoin):
    """Each record of a stream with the row of the same key in a table, as the row was at the record's position.

    ``(PCollection[tuple[K, V]], PCollection[Change[K, W]]) -> PCollection[tuple[K, R]]``. Only the stream gives results, one for a record:
    ``(key, joiner(value, row))`` at the record's own time. The row is that after all changes up to and including the record's position;
    what the table becomes later changes no result.

    * ``joiner(value, row)``; if it gives ``None`` the result is ``(key, None)``, as in Kafka Streams: a stream may say that.
    * ``how``: ``"inner"``, or ``"left"`` to give records without a row too: ``joiner(value, None)``.
    * ``sequence_by(key, value)``, or the name of a field of the values: the position of a record, for a table that has ``sequence_by``
      too; both from one common sequence. Of several, as in :class:`~beam_joins.TableFromChangelog`, the first is the position. By default the
      position is the event time, cut to the millisecond, as Beam carries it.
    * ``window_of(key, value)``, for a windowed table ``PCollection[Change[Windowed[K], W]]`` and only there: the window of the record's key
      that it looks up; a record for which it gives ``None`` is as one without a key.
    * ``partitions``: how many partitions bounded input is replayed in; see :mod:`beam_joins.transforms.partitions`.

    Dropped, counted, and an output of :meth:`with_outputs` (``joined``, ``dropped``), are records with a ``"null_value"``, a
    ``"null_sequence"`` or, in an inner join, a ``"null_key"``; a left join gives those as ``(None, joiner(value, None))``.

    A function that raises fails the run with :class:`~beam_joins.FunctionFailed`, or under :meth:`with_exception_handling` its record goes to
    an output of its own.

    Raises ``ValueError`` at construction for a wrong option; when applied to windowed or unbounded input, to a stream and a table ordered
    by different things, or to keys of different types or without a deterministic coder; and in the run for elements that are not pairs and
    for two changes of one row at one position.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     prices = pipeline | "prices" >> beam.Create(
    ...         [Change("apple", None, 3, timestamp=0, position=10), Change("apple", 3, 4, timestamp=0, position=20)]
    ...     )
    ...     sales = pipeline | "sales" >> beam.Create([("apple", {"lsn": 15, "count": 2})])
    ...     _ = (sales, prices) | StreamTableJoin(lambda sale, price: sale["count"] * price, sequence_by="lsn") | beam.Map(print)
    ('apple', 6)
    """

    _null_reason = "null_key"

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        *,
        how: LookupStreamHow = "inner",
        sequence_by: Fields | OfRow | None = None,
        window_of: Callable[[Any, Any], Window | None] | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(joiner, how, LookupStreamHow, sequence_by=sequence_by, partitions=partitions)
        self._window_of = None if window_of is None else function("window_of", window_of, "of key and value that gives a Window")

    def _row_key(self) -> OfRow:
        window_of = self.handling.functions.function("window_of", self._window_of)

        def row_key(key: Any, value: Any) -> Any:
            if key is None or window_of is None:
                return key
            window = window_of(key, value)
            return None if window is None else Windowed(key, window)

        return row_key

    def _keys(self, stream: TableType, table: TableType, table_keys: Coder) -> _Keys:
        if table.windowed != (self._window_of is not None):
            raise ValueError(
                "window_of names the window of a windowed table that a record looks up: give it for one, and only for one"
                + perhaps_windowed(table)
            )
        common_key_type("StreamTableJoin", stream, table)
        row_key = self._row_key()

        def written(key: Any, value: Any) -> tuple[bytes, bytes] | None:
            looked_up = row_key(key, value)
            if looked_up is None:
                return None
            encoded = encode_key(table_keys, looked_up, "the key")
            return encoded, encoded

        def of_result(encoded: bytes) -> Any:
            key = table_keys.decode(encoded)
            return key.key if table.windowed else key

        return _Keys(written, lambda encoded: encoded, of_result)


class StreamForeignKeyJoin(_LookupJoin):
    """Each record of a stream with the row of a table that it refers to, as the row was at the record's position.

    ``(PCollection[tuple[K, V]], PCollection[Change[FK, W]]) -> PCollection[tuple[K, R]]``: as :class:`StreamTableJoin`, but the row is that of
    another key, as in Kafka Streams' join of a stream with a global table. The result has the stream's key, which may be ``None``.

    * ``foreign_key(key, value)`` gives the key of the row, or ``None``; or name the field of the value.
    * ``joiner``, ``how``, ``sequence_by``, ``partitions``: as :class:`StreamTableJoin`.

    Dropped, counted, and an output of :meth:`with_outputs` (``joined``, ``dropped``), are records with a ``"null_value"``, a
    ``"null_sequence"`` or, in an inner join, a ``"null_foreign_key"``; a left join gives those as ``(key, joiner(value, None))``.

    Raises ``ValueError`` as :class:`StreamTableJoin`, and in the run for foreign keys that no key of the table can equal.

    >>> from apache_beam.runners.portability.fn_api_runner import FnApiRunner
    >>> from beam_joins import Change
    >>> with beam.Pipeline(runner=FnApiRunner()) as pipeline:
    ...     users = pipeline | "users" >> beam.Create([Change(7, None, "Ann", timestamp=0, position=1)])
    ...     clicks = pipeline | "clicks" >> beam.Create([("page", {"user": 7, "lsn": 2}), ("page", {"user": 7, "lsn": 0})])
    ...     who = StreamForeignKeyJoin(foreign_key="user", joiner=lambda click, name: name or "?", how="left", sequence_by="lsn")
    ...     _ = (clicks, users) | who | beam.Map(print)
    ('page', '?')
    ('page', 'Ann')
    """

    _null_reason = "null_foreign_key"

    def __init__(
        self,
        *,
        foreign_key: str | OfRow,
        joiner: Callable[[Any, Any], Any],
        how: LookupStreamHow = "inner",
        sequence_by: Fields | OfRow | None = None,
        partitions: int | None = None,
    ) -> None:
        super().__init__(joiner, how, LookupStreamHow, sequence_by=sequence_by, partitions=partitions)
        self._foreign_key, self._foreign_key_given = of_row("foreign_key", foreign_key), foreign_key

    def _row_key(self) -> OfRow:
        row_key: OfRow = self.handling.functions.function("foreign_key", self._foreign_key_given, self._foreign_key)
        return row_key

    def _keys(self, stream: TableType, table: TableType, table_keys: Coder) -> _Keys:
        foreign_key = self._row_key()
        # The stream's key is carried along, not compared: any coder will do, and there may be none.
        own_keys = NullableCoder(value_coder(stream.key))

        def written(key: Any, value: Any) -> tuple[bytes, bytes] | None:
            if (extracted := foreign_key(key, value)) is None:
                return None
            encoded = encode_key(table_keys, extracted, "the foreign key")
            return encoded, combine(encoded, encode_key(own_keys, key, "the key"))

        return _Keys(written, lambda encoded: split(encoded).foreign_key, lambda encoded: own_keys.decode(split(encoded).primary_key))


class _Lookup(CoreOperator):
    """Input 0 is the table, so that a record sees the changes at its own position."""

    def __init__(
        self,
        joiner: Callable[[Any, Any], Any],
        functions: Functions,
        how: LookupStreamHow,
        keys: _Keys,
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

    def write(self, output: Joined[Any], outlet: Outlet) -> WindowedValue | None:
        return None if output.value is _LEFT_OUT else at((self._of_result(output.key), output.value), output.timestamp)


_LEFT_OUT = object()
